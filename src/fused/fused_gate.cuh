/* SPDX-License-Identifier: Apache-2.0
 * The test of a tile of pairs in registers, both ends at once. Idea: v = product - half_j is
 * compared with one threshold for the row's sake, and its maximum over columns that share a gate,
 * plus that gate, with another for the columns' sake. Nothing a pair beside one subtraction and one
 * maximum.
 *
 * Write h, n, l, R for half, norm, lost and reach of an end, N, L for the tile's largest norm and
 * lost, F for its largest far = R + l, W = 1 + 2^-20, eps = kappa + 2^-20 (0 where costs are
 * exact). A pair may be discarded for the sake of an end if cost = term_i - 2 v (+ 0 or 1 for
 * integers) is above that end's limit (exact_bound.h). For distances
 *
 *   row      limit_i <= U = (R_i + l_i + L)^2 W + eps (n_i + N)^2      since l_j <= L, n_j <= N
 *   column   limit_j <= (far_j + l_i)^2 W + eps (n_i + N)^2
 *                    <= far_j^2 W + [(2 F l_i + l_i^2) W + eps (n_i + N)^2] = 2 gate_j + 2 slack
 *
 * so v < h_i - U / 2 discards for the row and v + gate < h_i - slack for the column, gate being at
 * least gate_j. For products, with S = 2 (n_i L + l_i N + l_i L) + 2^-28 (n_i + l_i)(N + L) + eps
 * (n_i + N)^2: U = R_i + S, gate_j = R_j / 2, slack = S / 2. For integer bounds U = R_i, gate_j =
 * ceil(R_j / 2), slack = 0, halves of odd numbers rounded to the safe side (docs/numerics.md, "From
 * the limit to the machine word").
 *
 * Every operation below rounds to the safe side: limits up, thresholds down, v + gate up. W^3 of
 * kin_bound_limit is far below W. An infinite reach gives a threshold of -inf or a gate of +inf,
 * which everything passes; F enters as 0 then, lest inf * 0 become a NaN.
 */
#ifndef KIN_FUSED_GATE_CUH
#define KIN_FUSED_GATE_CUH

#include "fused/fused_kernels.h"

#include <cuda_runtime.h>

#define KIN_GATE_WIDEN 0x1.00001p0F

/* Beyond all costs' halves: 2^29. */
enum { KIN_GATE_ALL = 1 << 29 };

/* A row's half as a word, norm, lost, and what its reach comes to: R + l for distances (negative:
 * padding), else R; an integer for integer bounds. */
typedef struct kin_gate_row {
    kin_fused_word half;
    float norm;
    float lost;
    kin_fused_word far;
} kin_gate_row;

typedef struct kin_gate_test {
    kin_fused_word row; /* v at least this: for the row's sake */
    kin_fused_word col; /* v + gate at least this: for a column's */
} kin_gate_test;

static __device__ __forceinline__ int32_t gate_clamp(double limit)
{
    const double most = 2.0 * KIN_GATE_ALL;
    if (!(limit < most)) { /* a NaN keeps everything */
        return 2 * KIN_GATE_ALL;
    }
    return (int32_t)floor(limit > -most ? limit : -most);
}

/* The gate of positions whose largest far (distances) or reach is `far`: half of what it allows. */
static __device__ __forceinline__ kin_fused_word kin_gate_of(kin_fused_type type,
                                                             kin_bound_kind bound, double far)
{
    double allowed = far;
    if (bound == KIN_BOUND_DISTANCE) {
        allowed = far < 0.0 ? -(double)KIN_FUSED_PAD_FLOAT : far * far * KIN_GATE_WIDEN;
    }
    kin_fused_word gate;
    if (type == KIN_FUSED_S8) {
        const int32_t limit = gate_clamp(allowed);
        gate.i = (limit >> 1) + (limit & 1);
    } else {
        gate.f =
            allowed < (double)KIN_FUSED_PAD_FLOAT ? __double2float_ru(0.5 * allowed) : INFINITY;
    }
    return gate;
}

static __device__ __forceinline__ kin_gate_row kin_gate_row_of(const kin_fused_set &set,
                                                               const kin_fused_lists &lists,
                                                               uint32_t position)
{
    const kin_fused_facts facts = set.facts[position];
    const double reach = lists.reach[position];
    kin_gate_row row = {set.half[position], facts.norm, facts.lost, {0}};
    /* The half of a row is that of its term; set.half is the same number as a column. */
    if (set.frame.bound == KIN_BOUND_INTEGER) {
        row.far.i = gate_clamp(reach);
    } else if (set.frame.bound == KIN_BOUND_DISTANCE) {
        row.far.f = reach < 0.0 ? -1.0F : __double2float_ru(reach + (double)facts.lost);
    } else {
        row.far.f = __double2float_ru(reach);
    }
    return row;
}

/* Twice the slack, and the limit of the row. */
static __device__ __forceinline__ void gate_distance(const kin_gate_row &row,
                                                     const kin_fused_worst &tile, float eps,
                                                     float *slack, float *limit)
{
    const float both = __fadd_ru(row.norm, tile.norm);
    const float error = __fmul_ru(__fmul_ru(eps, both), both);
    const float far = tile.far > 0.0F && tile.far < INFINITY ? tile.far : 0.0F;
    const float cross = __fmul_ru(__fmaf_ru(2.0F, far, row.lost), row.lost);
    *slack = __fmaf_ru(cross, KIN_GATE_WIDEN, error);
    const float reach = __fadd_ru(row.far.f, tile.lost);
    *limit =
        row.far.f < 0.0F ? -INFINITY : __fmaf_ru(__fmul_ru(reach, reach), KIN_GATE_WIDEN, error);
}

static __device__ __forceinline__ void gate_product(const kin_gate_row &row,
                                                    const kin_fused_worst &tile, float eps,
                                                    float *slack, float *limit)
{
    const float both = __fadd_ru(row.norm, tile.norm);
    const float error = __fmul_ru(__fmul_ru(eps, both), both);
    const float lost =
        __fmaf_ru(row.norm, tile.lost, __fmul_ru(row.lost, __fadd_ru(tile.norm, tile.lost)));
    const float rounding = __fmul_ru(
        0x1p-28F, __fmul_ru(__fadd_ru(row.norm, row.lost), __fadd_ru(tile.norm, tile.lost)));
    *slack = __fadd_ru(__fmaf_ru(2.0F, lost, rounding), error);
    *limit = __fadd_ru(row.far.f, *slack);
}

template <kin_fused_type TYPE>
static __device__ __forceinline__ kin_gate_test kin_gate_test_of(kin_bound_kind bound, float eps,
                                                                 const kin_gate_row &row,
                                                                 const kin_fused_worst &tile)
{
    kin_gate_test test;
    if (bound == KIN_BOUND_INTEGER) {
        test.row.i = row.half.i - ((row.far.i >> 1) + (row.far.i & 1));
        test.col.i = row.half.i;
        return test;
    }
    float slack = 0.0F;
    float limit = 0.0F;
    if (bound == KIN_BOUND_DISTANCE) {
        gate_distance(row, tile, eps, &slack, &limit);
    } else {
        gate_product(row, tile, eps, &slack, &limit);
    }
    if (TYPE == KIN_FUSED_S8) {
        const int32_t allowed = gate_clamp((double)limit);
        test.row.i = row.half.i - ((allowed >> 1) + (allowed & 1));
        const int32_t room = gate_clamp(ceil((double)slack));
        test.col.i = row.half.i - ((room >> 1) + (room & 1));
    } else {
        test.row.f = __fmaf_rd(-0.5F, limit, row.half.f);
        test.col.f = __fmaf_rd(-0.5F, slack, row.half.f);
    }
    return test;
}

#endif
