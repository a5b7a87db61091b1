/* SPDX-License-Identifier: Apache-2.0
 * The coarse test of a tile of pairs, both ends at once, as arithmetic that kernels and tests
 * share. Idea: v = product - half_j is compared with one threshold for the row's sake, and its
 * maximum over columns that share a gate, plus that gate, with another for the columns' sake.
 * Nothing a pair beside one subtraction and one maximum.
 *
 * Write h, n, l, R for half, norm, lost and reach of an end, N, L for the tile's largest norm and
 * lost, F for its largest far = R + l, W = 1 + 2^-20, eps = kappa + 2^-20 (0 where costs are
 * exact). A pair may be discarded for the sake of an end if cost = term_i - 2 v (+ 0 or 1 for
 * integers) is above that end's limit (screen_bound.h). For distances
 *
 *   row      limit_i <= U = (R_i + l_i + L)^2 W + eps (n_i + N)^2      since l_j <= L, n_j <= N
 *   column   limit_j <= (far_j + l_i)^2 W + eps (n_i + N)^2
 *                    <= far_j^2 W + [(2 F l_i + l_i^2) W + eps (n_i + N)^2] = 2 gate_j + 2 slack
 *
 * so v < h_i - U / 2 discards for the row and v + gate < h_i - slack for the column, gate being at
 * least gate_j. For products, with S = 2 (n_i L + l_i N + l_i L) + 2^-28 (n_i + l_i)(N + L) + eps
 * (n_i + N)^2: U = R_i + S, gate_j = R_j / 2, slack = S / 2. For integer bounds U = R_i, gate_j =
 * ceil(R_j / 2), slack = 0, halves of odd numbers rounded to the safe side (docs/notes/numerics.md,
 * "On a GPU").
 *
 * Every operation below rounds to the safe side: limits up, thresholds down, v + gate up. W^3 of
 * kin_bound_limit is far below W. What is infinite, or was made from infinities and is no number,
 * gives a threshold of -inf or a gate of +inf, which everything passes.
 */
#ifndef KIN_SCREEN_GATE_H
#define KIN_SCREEN_GATE_H

#include "screen/screen_directed.h"
#include "screen/screen_set_gpu.h"

#define KIN_GATE_WIDEN 0x1.00001p0F

/* Beyond all costs' halves: 2^29. */
enum { KIN_GATE_ALL = 1 << 29 };

/* A row's half as a word, norm, lost, and what its reach comes to: R + l for distances (negative:
 * padding), else R; an integer for integer bounds. */
typedef struct kin_gate_row {
    kin_screen_gpu_word half;
    float norm;
    float lost;
    kin_screen_gpu_word far;
} kin_gate_row;

typedef struct kin_gate_test {
    kin_screen_gpu_word row; /* v at least this: for the row's sake */
    kin_screen_gpu_word col; /* v + gate at least this: for a column's */
} kin_gate_test;

/* An integer at or above every cost that is at most `limit`. */
KIN_HD int32_t kin_gate_clamp(double limit)
{
    const double most = 2.0 * KIN_GATE_ALL;
    if (!(limit < most)) { /* a NaN keeps everything */
        return 2 * KIN_GATE_ALL;
    }
    return (int32_t)floor(limit > -most ? limit : -most);
}

/* ceil(limit / 2). */
KIN_HD int32_t kin_gate_half(int32_t limit)
{
    return (limit >> 1) + (limit & 1);
}

/* Half of what `slack` allows, as an integer. One beyond all costs must outweigh the least gate,
 * too. */
KIN_HD int32_t kin_gate_room(float slack)
{
    const int32_t room = kin_gate_clamp(ceil((double)slack));
    return room < 2 * KIN_GATE_ALL ? kin_gate_half(room) : 2 * KIN_GATE_ALL;
}

KIN_HD float kin_gate_number(float threshold)
{
    return threshold == threshold ? threshold : -INFINITY;
}

/* The gate of positions whose largest far (distances; negative: none takes anything) or reach is
 * `far`: half of what it allows. */
KIN_HD kin_screen_gpu_word kin_gate_of(kin_screen_gpu_type type, kin_bound_kind bound, double far)
{
    const double closed = -2.0 * (double)KIN_SCREEN_GPU_PAD_FLOAT;
    double allowed = far;
    if (bound == KIN_BOUND_DISTANCE) {
        allowed = far < 0.0 ? closed : far * far * (double)KIN_GATE_WIDEN;
    }
    kin_screen_gpu_word gate;
    if (type == KIN_SCREEN_GPU_S8) {
        gate.i = kin_gate_half(kin_gate_clamp(allowed));
    } else if (allowed < (double)KIN_SCREEN_GPU_PAD_FLOAT) {
        gate.f = kin_up_of(0.5 * (allowed > closed ? allowed : closed));
    } else {
        gate.f = INFINITY;
    }
    return gate;
}

/* far of a row. */
KIN_HD kin_screen_gpu_word kin_gate_far(kin_bound_kind bound, double reach, float lost)
{
    kin_screen_gpu_word far;
    if (bound == KIN_BOUND_INTEGER) {
        far.i = kin_gate_clamp(reach);
    } else if (bound == KIN_BOUND_DISTANCE) {
        far.f = reach < 0.0 ? -1.0F : kin_up_of(reach + (double)lost);
    } else {
        far.f = kin_up_of(reach);
    }
    return far;
}

/* Twice the slack, and the limit of the row. A row that lost nothing adds nothing to an infinite
 * F. */
KIN_HD void kin_gate_distance(kin_gate_row row, kin_bound_row tile, float tile_far, float eps,
                              float *slack, float *limit)
{
    const float both = kin_up_add(row.norm, (float)tile.norm);
    const float error = kin_up_mul(kin_up_mul(eps, both), both);
    const float far = tile_far > 0.0F ? tile_far : 0.0F;
    const float cross =
        row.lost > 0.0F ? kin_up_mul(kin_up_fma(2.0F, far, row.lost), row.lost) : 0.0F;
    const float reach = kin_up_add(row.far.f, (float)tile.lost);
    *slack = kin_up_fma(cross, KIN_GATE_WIDEN, error);
    *limit =
        row.far.f < 0.0F ? -INFINITY : kin_up_fma(kin_up_mul(reach, reach), KIN_GATE_WIDEN, error);
}

KIN_HD void kin_gate_product(kin_gate_row row, kin_bound_row tile, float eps, float *slack,
                             float *limit)
{
    const float norm = (float)tile.norm;
    const float lost = (float)tile.lost;
    const float both = kin_up_add(row.norm, norm);
    const float error = kin_up_mul(kin_up_mul(eps, both), both);
    const float rests = kin_up_fma(row.norm, lost, kin_up_mul(row.lost, kin_up_add(norm, lost)));
    const float rounding =
        kin_up_mul(0x1p-28F, kin_up_mul(kin_up_add(row.norm, row.lost), kin_up_add(norm, lost)));
    *slack = kin_up_add(kin_up_fma(2.0F, rests, rounding), error);
    *limit = row.far.f > -INFINITY ? kin_up_add(row.far.f, *slack) : -INFINITY;
}

/* Where bytes are compared with starts in their products, both thresholds of a row serve all tiles:
 * cols is the worst of all columns. What the row's own loss adds to a column's limit, 2 far_j l_i +
 * l_i^2, stands in the gates (kin_gate_set_far). Costs of bytes are exact. */
KIN_HD kin_gate_test kin_gate_make_even(kin_bound_kind bound, kin_gate_row row, kin_bound_row cols)
{
    kin_gate_test test;
    float slack = 0.0F;
    float limit = 0.0F;
    test.row.i = row.half.i - kin_gate_half(bound == KIN_BOUND_INTEGER ? row.far.i : 0);
    test.col.i = row.half.i;
    if (bound == KIN_BOUND_INTEGER) {
        return test;
    }
    if (bound == KIN_BOUND_DISTANCE) {
        kin_gate_distance(row, cols, 0.0F, 0.0F, &slack, &limit);
    } else {
        kin_gate_product(row, cols, 0.0F, &slack, &limit);
        test.col.i = row.half.i - kin_gate_room(slack);
    }
    test.row.i = row.half.i - kin_gate_half(kin_gate_clamp((double)limit));
    return test;
}

/* The far that gates of a set are made of. Where starts stand in the products, set->worst.lost is
 * the most that any row has lost that meets its columns, and is added. A negative one takes
 * nothing. */
KIN_HD double kin_gate_set_far(const kin_screen_gpu_set *set, double far)
{
    const int even = set->starts != NULL && set->frame.bound == KIN_BOUND_DISTANCE;
    return !even || far < 0.0 ? far : far + set->worst.lost * (1.0 + 0x1p-20);
}

/* Whether rows lose so much alike that the worst of all tells as much as that of a tile: half a
 * unit a component, and no more than a few units that halves have lost before. */
KIN_HD int kin_gate_is_even(int32_t cols, kin_bound_row worst)
{
    const double most = 0.5 * kin_sqrt((double)cols) + 1.0;
    return worst.lost * worst.lost <= most * most;
}

/* tile: the worst of the tile's columns; tile_far: their largest far, for distances. */
KIN_HD kin_gate_test kin_gate_make_test(kin_screen_gpu_type type, kin_bound_kind bound, float eps,
                                        kin_gate_row row, kin_bound_row tile, float tile_far)
{
    kin_gate_test test;
    if (bound == KIN_BOUND_INTEGER) {
        test.row.i = row.half.i - kin_gate_half(row.far.i);
        test.col.i = row.half.i;
        return test;
    }
    float slack = 0.0F;
    float limit = 0.0F;
    if (bound == KIN_BOUND_DISTANCE) {
        kin_gate_distance(row, tile, tile_far, eps, &slack, &limit);
    } else {
        kin_gate_product(row, tile, eps, &slack, &limit);
    }
    if (type == KIN_SCREEN_GPU_S8) {
        test.row.i = row.half.i - kin_gate_half(kin_gate_clamp((double)limit));
        test.col.i = row.half.i - kin_gate_room(slack);
    } else {
        test.row.f = kin_gate_number(kin_down_fma(-0.5F, limit, row.half.f));
        test.col.f = kin_gate_number(kin_down_fma(-0.5F, slack, row.half.f));
    }
    return test;
}

#endif
