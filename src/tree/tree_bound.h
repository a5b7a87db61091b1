/* SPDX-License-Identifier: Apache-2.0
 * What a distance in float32 proves about a canonical key, and the other way round.
 *
 * Units. A row is stored as x^ = fp32((x - shift) * scale), scale a power of two; `lost` is at
 * least |(x - shift) * scale - x^| in the metric's own norm. For a pair let
 *     D    the true distance of the rows, times scale
 *     d^   the true distance of the stored rows:             |D - d^| <= lost_q + lost_c
 *     v    what a body computes in float32 for d^ (L1, max) or d^ squared (L2)
 * With u = 2^-24, every rounding multiplies by 1 + e, |e| <= u. A difference is rounded once and
 * enters a square twice; a square that is not fused is rounded once more; each of cols sums rounds
 * once. So v = d^2 (1 + e) with (1 - u)^(cols+3) <= 1 + e <= (1 + u)^(cols+3), but for squares that
 * underflow, which lose at most cols * 2^-149 <= 2^-129 in all.
 *
 * widen = 1 + 1.05 (cols + 9) u is at least (1 + u)^(cols+8) and (1 - u)^-(cols+8) for
 * cols <= 2^20: it covers those cols + 3 roundings and five more in the limit's own arithmetic.
 *
 * Reach of a query: at least D + lost_q for its k-th neighbour, so a point with
 *     v > limit = (reach + lost_c)^2 * widen          (L1, max: without the square)
 * has d^ > reach + lost_c, hence D > the k-th neighbour's, and its key is larger. `floor` stands in
 * every reach. It is at least 2^-60, whose square is above all that underflow can lose, and
 * 2^-499 * scale: rows nearer than 2^-500 may differ in D and not in their keys, which underflow.
 * WIDE covers every rounding in double, the canonical key's own included (screen_bound.h).
 *
 * Boxes need no bound of their own. The gap to a box, max(low - q, q - high, 0), is the rounded
 * difference to the nearest number that a point of the box may have, and rounding is monotone: the
 * same sum of the same operations over gaps is never above v of any point in the box. So what a box
 * discards its points would have discarded, one by one.
 *
 * Periodic boxes. A component's difference t becomes min(|t|, P - |t|), whose slope is 1 wherever
 * it has one, so |D - d^| <= lost_q + lost_c holds as before. A body has P^ = fp32(P), and rounds
 * twice: fl(P^ - fl(|t|)) is g (1 + e) with g within |P - P^| + u P^ of P - |t|, since |t| <= P^.
 * In double the canonical difference is in the same way within 2^-52 P of the true one. Both are
 * less than |P - P^| + 2 u P^, whose norm over the columns is the `slack`: each row has lost it,
 * too. To a box the way round is P^ - max(q - low, high - q), in the same operations that its
 * points get: theirs is P^ less a difference that is not above that maximum.
 */
#ifndef KIN_TREE_BOUND_H
#define KIN_TREE_BOUND_H

#include "kith/kith.h"
#include "metric/metric_canonical.h"

#include <stdbool.h>

typedef enum kin_tree_norm { KIN_NORM_TWO = 0, KIN_NORM_ONE, KIN_NORM_MOST } kin_tree_norm;

/* The largest magnitude of a corpus is brought below 2^40, and a query is clamped where squares of
 * differences stay finite in up to 8 columns. Beyond, infinity is above every limit but itself. */
static const double KIN_TREE_CLAMP = 0x1p61;
static const double KIN_TREE_WIDE = 1.0 + 0x1p-32;
static const double KIN_TREE_TINY_KEY = 0x1p-1000;

/* The nearest float that is not below x >= 0. */
KIN_HD float kin_tree_up(double x)
{
    return x > 0x1p127 ? INFINITY : nextafterf((float)x, INFINITY);
}

KIN_HD float kin_tree_widen(int32_t cols)
{
    return kin_tree_up(1.0 + 1.05 * ((double)cols + 9.0) * 0x1p-24);
}

KIN_HD float kin_tree_floor(double scale)
{
    return kin_tree_up(fmax(0x1p-60, 0x1p-499 * scale));
}

KIN_HD float kin_tree_limit(kin_tree_norm norm, float reach, float lost, float widen)
{
    const float far = reach + lost;
    return norm == KIN_NORM_TWO ? far * far * widen : far * widen;
}

/* The reach that a float32 value of the k-th proves: its D is at most the root of v * widen, and
 * lost_q + lost_c more. */
KIN_HD float kin_tree_reach_of_value(kin_tree_norm norm, float value, float widen,
                                     double query_lost, double most_lost, float floor)
{
    const double high = (double)value * (double)widen;
    const double far = norm == KIN_NORM_TWO ? sqrt(high) : high;
    return kin_tree_up((far + 2.0 * query_lost + most_lost + (double)floor) * KIN_TREE_WIDE);
}

/* The reach that the k-th canonical key proves. */
KIN_HD float kin_tree_reach_of_key(kin_tree_norm norm, double key, double scale, double query_lost,
                                   float floor)
{
    const double far = norm == KIN_NORM_TWO ? sqrt(key + KIN_TREE_TINY_KEY) : key;
    return kin_tree_up((far * scale + query_lost + (double)floor) * KIN_TREE_WIDE);
}

/* What of a list is kept: values up to that of the k-th * gain + more.
 *
 * With v the value of the k-th and b = 2 lost_q + 2 lost_c + floor, the limit in any leaf is at
 * most (root(v widen) + b)^2 widen; and (x + b)^2 <= x^2 (1 + e) + b^2 (1 + 1 / e) for any e > 0,
 * which saves a root each time. The rounding of the sum itself is in `rounding` and the nearest
 * floats above. */
typedef struct kin_tree_keep {
    float gain;
    float more;
} kin_tree_keep;

KIN_HD kin_tree_keep kin_tree_keep_of(kin_tree_norm norm, float lost, float most_lost, float widen,
                                      float floor)
{
    const double wide = (double)widen;
    const double b = 2.0 * (double)lost + 2.0 * (double)most_lost + (double)floor;
    const double e = lost + most_lost > 0.0F ? 0x1p-12 : 0x1p-23;
    const double rounding = 1.0 + 0x1p-22;
    double gain = wide * wide;
    double more = b * wide;
    if (norm == KIN_NORM_TWO) {
        gain *= 1.0 + e;
        more *= b * (1.0 + 1.0 / e);
    }
    kin_tree_keep keep;
    keep.gain = kin_tree_up(gain * rounding);
    keep.more = kin_tree_up(more * rounding);
    return keep;
}

/* ---- Rows into the units of a tree; processors and GPUs agree to the last bit ---------------- */

/* A component as it is stored; *lost: at least what that lost. */
KIN_HD float kin_tree_round_value(double value, double shift, double scale, double *lost)
{
    const double exact = kin_mul(kin_sub(value, shift), scale);
    const double above = exact > -KIN_TREE_CLAMP ? exact : -KIN_TREE_CLAMP;
    const double held = above < KIN_TREE_CLAMP ? above : KIN_TREE_CLAMP;
    /* A zero is positive, so that words sort like the numbers they stand for. */
    const float stored = (float)held + 0.0F;
    /* The subtraction rounds where there is a shift; what it lost cannot be seen in `exact`. */
    const double shifted = shift != 0.0 ? kin_mul(fabs(exact), 0x1p-52) : 0.0;
    *lost = kin_add(fabs(kin_sub(exact, (double)stored)), shifted);
    return stored;
}

/* A period as it is stored; *lost: at least what a difference of its column loses by it. */
KIN_HD float kin_tree_round_period(double period, double scale, double *lost)
{
    *lost = 0.0;
    if (!(period > 0.0)) {
        return INFINITY;
    }
    const double exact = kin_mul(period, scale);
    const float stored = (float)exact;
    *lost = kin_add(fabs(kin_sub(exact, (double)stored)), kin_mul((double)stored, 0x1p-23));
    return stored;
}

/* Of a row: 0, one component after the other, then the whole. */
KIN_HD double kin_tree_lost_add(kin_tree_norm norm, double sum, double lost)
{
    return norm == KIN_NORM_TWO   ? kin_add(sum, kin_mul(lost, lost))
           : norm == KIN_NORM_ONE ? kin_add(sum, lost)
                                  : fmax(sum, lost);
}

KIN_HD double kin_tree_lost_whole(kin_tree_norm norm, double sum)
{
    return kin_mul(norm == KIN_NORM_TWO ? kin_sqrt(sum) : sum, KIN_TREE_WIDE);
}

/* As a row keeps it. */
KIN_HD float kin_tree_lost_kept(double lost)
{
    return lost > 0.0 ? kin_tree_up(lost) : 0.0F;
}

/* ---- Places of a sphere ---------------------------------------------------------------------- */

/* Places of a sphere in a tree: latitude and longitude become a unit vector of three columns, and
 * the tree is one of chords.
 *
 *   u(lat, lon) = (cos lat cos lon, cos lat sin lon, sin lat)
 *   |u - u'|^2  = 4 h,   h = sin^2((lat' - lat) / 2) + cos lat cos lat' sin^2((lon' - lon) / 2)
 *
 * for all real numbers, latitudes beyond the poles included. So 2 sqrt(h) is a distance of three
 * columns that rises with the key h, up to the other side of the sphere, where h = 1.
 *
 * What the bound above needs of D, in the units before `scale`, is D = 2 sqrt(key) of the canonical
 * key itself, and |D - d^| <= lost_q + lost_c; it uses no other property of a distance. So what a
 * key is away from the truth is a part of what rows lose, and both directions of every comparison
 * are covered: a point that is left out has the larger key, not only the larger angle. With
 * u = 2^-53, h the exact number of two rows and h~ their key:
 *
 *   vectors  kin_cosine and the sine are within 2 ulp (metric_functions.h), 2u of a number up
 *            to 1; a product of two of them within 2u + 2u + u/2. A vector:
 *            sqrt(2 * 4.6^2 + 2^2) u < 7u
 *   usual    two rows of |lat| <= pi/2, |lon| <= 8. A difference of components is rounded once, by
 *            u |difference|, and halved exactly. The two terms of h are squares: 2 sqrt(h) is the
 *            length of (2 sin(./2), 2 sqrt(cos cos) sin(./2)), whose two parts move by no more than
 *            the differences do: by u sqrt(3.15^2 + 16^2) < 17u in all. From there on everything is
 *            positive and relative: sines 4u, squares 9u, cosines 4u each, products 19u, sum 20u,
 *            so that the root, up to 2, is within 22u. Cutting to 1 moves no key away from h <= 1.
 *            |D - 2 sqrt(h)| < 39u, half of it each row's
 *   others   terms may cancel (beyond a pole a cosine is negative), so the bound of h is absolute:
 *            squares 4.5u, the second term 9.5u, the sum 15u; and sin^2(x/2) moves by at most half
 *            of what x does: u/2 (|lat| + |lat'| + |lon| + |lon'|). That is at most n_q + n_c,
 *                n = 32u + u/2 (|lat| + |lon|)     of a row that is not usual
 *            (16u + 5u of the 32u are spare for one that is), and as |a - b| <= sqrt(|a^2 - b^2|),
 *            |D - 2 sqrt(h)| <= 2 sqrt(n_q + n_c) <= 2 sqrt(n_q) + 2 sqrt(n_c)
 *
 * What a key underflows by is below 2^-500. KIN_PLACE_LOST, 32u, is 7u + 20u and some; other rows
 * lose 2 sqrt(n) in its place, and it. That is 1.3e-7 for a pole in float32, which is beyond it,
 * or for rows that have longitude first, and 4e-5 at most (2^20 radians).
 *
 * Near the other side of the sphere neighbours differ in D by less than the key's own rounding:
 * such points are all kept, and their keys order them. */

enum { KIN_PLACE_COLS = 3 };

#define KIN_PLACE_LOST 0x1p-48
#define KIN_PLACE_UNIT 0x1p-53
#define KIN_PLACE_POLE 0x1.921fb54442d18p+0 /* the last double below pi/2 */
#define KIN_PLACE_ROUND 8.0

/* More would bring what rows lose, which does not shrink with them, out of the floats. */
#define KIN_PLACE_MOST_SCALE 0x1p64

KIN_HD bool kin_place_has(kith_metric metric)
{
    return kin_metric_base(metric) == KITH_HAVERSINE;
}

/* Columns of the tree of rows that have `cols`. */
KIN_HD int32_t kin_place_cols(kith_metric metric, int32_t cols)
{
    return kin_place_has(metric) ? KIN_PLACE_COLS : cols;
}

KIN_HD double kin_place_sine(double x)
{
    double n;
    const double s = kin_sine_of(x, 0.0, &n);
    return kin_is_odd(n) ? -s : s;
}

/* values: latitude and longitude, which become the vector. */
KIN_HD void kin_place_turn(double values[KIN_PLACE_COLS])
{
    const double lat = values[0];
    const double lon = values[1];
    const double across = kin_cosine(lat);
    values[0] = kin_mul(across, kin_cosine(lon));
    values[1] = kin_mul(across, kin_place_sine(lon));
    values[2] = kin_place_sine(lat);
}

/* What a row loses before it is rounded to floats, by its chord. */
KIN_HD double kin_place_lost(double lat, double lon)
{
    const bool usual = fabs(lat) <= KIN_PLACE_POLE && fabs(lon) <= KIN_PLACE_ROUND;
    const double far = kin_mul(0.5, kin_add(fabs(lat), fabs(lon)));
    const double n = kin_mul(KIN_PLACE_UNIT, kin_add(32.0, far));
    return usual ? KIN_PLACE_LOST : kin_add(KIN_PLACE_LOST, kin_mul(2.0, kin_sqrt(n)));
}

/* What the root of a key is multiplied by to be D. */
KIN_HD double kin_place_scale(bool places, double scale)
{
    return places ? kin_mul(2.0, scale) : scale;
}

/* ---- All within a radius --------------------------------------------------------------------- */

/* Which ids of a tree's points are a query's: what kin_hits_offer (exact/exact_hits.c) decides, for
 * kernels.
 *
 *   ring    a radius, and a key that no pair within it is above (kin_radius_key)
 *   query   a row of the queries at hand; its number is row0 more */
typedef struct kin_tree_ring {
    double radius;
    double key;
} kin_tree_ring;

typedef struct kin_tree_within {
    kith_metric metric;
    bool leaves_self_out; /* own_row more than the query's number is no neighbour */
    bool later_alone;     /* nor is what is below that */
    int64_t own_row;
    int64_t row0;
    kin_tree_ring all;
    const kin_tree_ring *each; /* by query; NULL: all */
    const uint32_t *next; /* by id: the next larger one of an equal row; NULL: none are equal */
} kin_tree_within;

KIN_HD kin_tree_ring kin_within_ring(const kin_tree_within *w, int64_t query)
{
    return w->each != NULL ? w->each[query] : w->all;
}

/* kin_metric_distance. */
KIN_HD double kin_within_distance(kith_metric metric, double key)
{
    return metric == KITH_EUCLIDEAN   ? kin_sqrt(key)
           : metric == KITH_HAVERSINE ? kin_haversine_angle(key)
                                      : key;
}

KIN_HD bool kin_within_may(const kin_tree_within *w, int64_t query, uint32_t id)
{
    const int64_t self = w->own_row + w->row0 + query;
    return (!w->later_alone || (int64_t)id > self) && !(w->leaves_self_out && (int64_t)id == self);
}

/* The first id of a group, from `id` on, that the query may have; KITH_ID_NONE: there is none. */
KIN_HD uint32_t kin_within_next(const kin_tree_within *w, int64_t query, uint32_t id)
{
    while (id != KITH_ID_NONE && !kin_within_may(w, query, id)) {
        id = w->next != NULL ? w->next[id] : KITH_ID_NONE;
    }
    return id;
}

/* And the next one behind it. */
KIN_HD uint32_t kin_within_following(const kin_tree_within *w, int64_t query, uint32_t id)
{
    return w->next != NULL && id != KITH_ID_NONE ? kin_within_next(w, query, w->next[id])
                                                 : KITH_ID_NONE;
}

/* ---- Shape ----------------------------------------------------------------------------------- */

enum { KIN_TREE_LANES = 16, KIN_TREE_MOST_HEIGHT = 28 };

/* Of `blocks`, the first one of the i-th node of a level; that of the next one is where it ends. */
KIN_HD int64_t kin_tree_block_of(int64_t blocks, int32_t level, int64_t i)
{
    return (int64_t)(((uint64_t)blocks * (uint64_t)i) >> level);
}

#endif
