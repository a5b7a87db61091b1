/* SPDX-License-Identifier: Apache-2.0
 * What a cost in the cheap type proves about a canonical key, and the other way round. The theorem
 * and its proof: docs/notes/numerics.md, "Certified screening". Read by host and device compilers;
 * on a device nothing is fused (-fmad=false), so both give the same bits.
 *
 * Units: rows are a = (x - mean) / scale, rounded to a cheap type as x^. For each row
 *     norm >= |x^|,   lost >= |a - x^| (with the rounding of the shift), both rounded up.
 * The *reach* of a row is an upper bound, in these units, of how far its k-th neighbour is:
 *     distance   reach >= |a_q - a_c| of the k-th        (triangle: ||x^_q - x^_c| - |a_q - a_c||
 *     product    reach >= -2 a_q.a_c of the k-th           <= lost_q + lost_c)
 *     integer    reach  = the k-th cost itself; costs are exact and are the keys
 * A pair may be discarded only if its cost is above kin_bound_limit.
 *
 * WIDEN covers every rounding in double on the way, the canonical distance's own (at most
 * 2^20 * 2^-53 relative) included. TINY_KEY covers keys that underflow.
 */
#ifndef KIN_SCREEN_BOUND_H
#define KIN_SCREEN_BOUND_H

#include "metric/metric_arith.h"

#define KIN_BOUND_WIDEN (1.0 + 0x1p-30)
#define KIN_BOUND_TINY_KEY 0x1p-1000

/* Types that hold all of some values: whole numbers of 0 to 255, of -128 to 127. */
enum { KIN_BYTES_U8 = 1, KIN_BYTES_I8 = 2 };

typedef enum kin_bound_kind {
    KIN_BOUND_INTEGER = 0,
    KIN_BOUND_DISTANCE,
    KIN_BOUND_PRODUCT
} kin_bound_kind;

/* A row, or the worst of a set of rows. */
typedef struct kin_bound_row {
    double norm;
    double lost;
} kin_bound_row;

/* How far a float cost may be from |x^_q - x^_c|^2 or -2 x^_q.x^_c: twice the unit's error, which
 * is kappa (|q||c| + |p|^2 / 2) where p is the one whose half norm starts the accumulator, and the
 * fp32 roundings of norms and sums. Symmetric, since either end of a pair may be p. 0 for integer
 * units (kappa 0). */
KIN_HD double kin_bound_error(double kappa, kin_bound_row q, kin_bound_row c)
{
    const double both = q.norm + c.norm;
    return kappa == 0.0 ? 0.0 : (kappa + 0x1p-20) * both * both;
}

/* 2 (|q||lost_c| + |lost_q||c| + |lost_q||lost_c|): what rounding can do to -2 a_q.a_c. */
KIN_HD double kin_bound_product_slack(kin_bound_row q, kin_bound_row c)
{
    const double b = q.norm * c.lost + q.lost * c.norm + q.lost * c.lost;
    return 2.0 * b + 0x1p-28 * (q.norm + q.lost) * (c.norm + c.lost);
}

/* The largest cost that must be kept for a row of this reach. */
KIN_HD double kin_bound_limit(kin_bound_kind kind, double reach, double kappa, kin_bound_row q,
                              kin_bound_row c)
{
    if (kind == KIN_BOUND_INTEGER) {
        return reach;
    }
    const double error = kin_bound_error(kappa, q, c);
    if (kind == KIN_BOUND_PRODUCT) {
        return reach + kin_bound_product_slack(q, c) + error;
    }
    const double far = (reach + q.lost + c.lost) * KIN_BOUND_WIDEN;
    return far * far * KIN_BOUND_WIDEN + error;
}

/* The reach that a pair of this cost proves: no k-th neighbour among pairs of at most this cost is
 * farther. */
KIN_HD double kin_bound_reach_of_cost(kin_bound_kind kind, double cost, double kappa, double scale,
                                      kin_bound_row q, kin_bound_row c)
{
    if (kind == KIN_BOUND_INTEGER) {
        return cost;
    }
    const double high = cost + kin_bound_error(kappa, q, c);
    if (kind == KIN_BOUND_PRODUCT) {
        return high + kin_bound_product_slack(q, c) + KIN_BOUND_TINY_KEY / scale / scale;
    }
    return (kin_sqrt(high > 0.0 ? high : 0.0) + q.lost + c.lost + 0x1p-500 / scale) *
           KIN_BOUND_WIDEN;
}

/* The reach that a canonical key proves; key_scale is the metric's (1, or 1/2 for cosine). */
KIN_HD double kin_bound_reach_of_key(kin_bound_kind kind, double key, double key_scale,
                                     double scale, kin_bound_row q, kin_bound_row c)
{
    if (kind == KIN_BOUND_PRODUCT) {
        return (2.0 * key + KIN_BOUND_TINY_KEY) / scale / scale +
               0x1p-28 * (q.norm + q.lost) * (c.norm + c.lost);
    }
    return kin_sqrt(key / key_scale + KIN_BOUND_TINY_KEY) / scale * KIN_BOUND_WIDEN;
}

/* ---- Shadows (screen_corpus.h) --------------------------------------------------------------- */

/* The length of what a basis leaves of a row, from the squares of its length and of its image's. */
KIN_HD double kin_bound_shadow_rest(double length_sq, double image_sq)
{
    const double left = length_sq - image_sq;
    return kin_sqrt(left > 0.0 ? left : 0.0);
}

/* e of a row (docs/notes/numerics.md, "Shadows"): the skew of the basis, what fp32 loses in sums of
 * so many roundings and in the row itself, and what is uncertain of the rest where it is the
 * difference of nearly equal squares. */
KIN_HD double kin_bound_shadow_error(double length_sq, double rest, double skew, int32_t axes,
                                     int32_t roundings)
{
    const double length = kin_sqrt(length_sq) * KIN_BOUND_WIDEN;
    const double chain = 1.01 * (double)roundings * 0x1p-24 * kin_sqrt((double)axes);
    const double off = (skew + (1.0 + skew) * (chain + 0x1p-23)) * length + 0x1p-100;
    const double unsure = off * (2.0 * length + off) + 0x1p-40 * length_sq;
    const double root = kin_sqrt(unsure);
    const double rest_off = rest > 0.0 && unsure / rest < root ? unsure / rest : root;
    return (kin_sqrt(off * off + rest_off * rest_off) + 0x1p-500) * KIN_BOUND_WIDEN;
}

#endif
