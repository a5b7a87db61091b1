/* SPDX-License-Identifier: Apache-2.0
 * The definition of every metric, operation by operation. Read this after metric.h.
 *
 * A sum has eight lanes that start at +0. Component i goes to lane i mod 8, in rising order of i;
 * at the end the lanes are added in a fixed tree. Why eight? One AVX-512 register or two AVX ones
 * then hold all lanes, and any machine can keep the order:
 *
 *   component   0  1  2  3  4  5  6  7 | 8  9 ...        0+4   1+5   2+6   3+7
 *   lane        0  1  2  3  4  5  6  7 | 0  1 ...          \     \   /     /
 *                                                        (04+26)     (15+37)
 *                                                             \       /
 *                                                                sum
 *
 * Sums of products and of squares use a fused multiply-add, other sums a plain addition; nothing
 * else is fused. Components past the end add nothing. The sign of a zero lane never shows: keys end
 * with an addition of 0.0, which turns -0 into +0.
 *
 *   q, c    components of query and point, as double, transformed where the metric transforms
 *   key     kin_key: what neighbours are ordered by, before ids
 *
 * These functions compile for host and device. The portable body calls them as they are; the bodies
 * for wider machines do the same operations on eight lanes at once (metric_lanes.h), from the same
 * text where that can be (metric_series.inc).
 */
#ifndef KIN_METRIC_CANONICAL_H
#define KIN_METRIC_CANONICAL_H

#include "kith/kith.h"
#include "metric/metric_functions.h"

/* ---- Rows: what engines may know ------------------------------------------------------------ */

/* A row a metric (metric.h: kin_metric_traits): NAME, screen, key_scale, flags, other names of the
 * same thing. A Minkowski distance is one of ours for three powers. A new metric is a row of
 * KITH_METRIC_MAP, one here and, where no other has its steps, one of KIN_STEP_MAP; its step in
 * metric_series.inc, and its key below. A metric whose keys are made of whole rows has no steps: it
 * is a row of KIN_WHOLE_MAP, and its loops are in metric_whole.h and metric_pair.cuh. */
#define KIN_METRIC_MAP(X)                                                              \
    X(EUCLIDEAN, DISTANCE, 1.0, KIN_SYMMETRIC | KIN_WRAPS, "l2 minkowski:2")           \
    X(SQEUCLIDEAN, DISTANCE, 1.0, KIN_SYMMETRIC | KIN_WRAPS, "l2sq squared_euclidean") \
    X(INNER_PRODUCT, PRODUCT, 1.0, KIN_SYMMETRIC | KIN_BELOW_ZERO, "ip dot")           \
    X(COSINE, DISTANCE, 0.5, KIN_SYMMETRIC | KIN_TRANSFORMS, "angular cos")            \
    X(CORRELATION, DISTANCE, 0.5, KIN_SYMMETRIC | KIN_TRANSFORMS, "pearson")           \
    X(MANHATTAN, DIRECT, 1.0, KIN_SYMMETRIC | KIN_WRAPS, "l1 cityblock minkowski:1")   \
    X(CHEBYSHEV, DIRECT, 1.0, KIN_SYMMETRIC | KIN_WRAPS, "linf minkowski:inf")         \
    X(CHI2, DIRECT, 1.0, KIN_SYMMETRIC | KIN_NONNEGATIVE, "")                          \
    X(HAMMING, DIRECT, 1.0, KIN_SYMMETRIC, "")                                         \
    X(JACCARD, DIRECT, 1.0, KIN_SYMMETRIC, "")                                         \
    X(KL, DIRECT, 1.0, KIN_NONNEGATIVE | KIN_BELOW_ZERO, "kullback_leibler")           \
    X(CUSTOM, DIRECT, 1.0, KIN_BELOW_ZERO, "")                                         \
    X(MINKOWSKI, DIRECT, 1.0, KIN_SYMMETRIC | KIN_WRAPS, "")                           \
    X(BIT_HAMMING, DIRECT, 1.0, KIN_SYMMETRIC | KIN_BITS, "bitwise_hamming")           \
    X(BIT_JACCARD, DIRECT, 1.0, KIN_SYMMETRIC | KIN_BITS, "")                          \
    X(HAVERSINE, DIRECT, 1.0, KIN_SYMMETRIC | KIN_PLACES, "great_circle")

/* Metrics with steps of their own: NAME, name, components that a thread of a device has on their
 * way at a time. */
#define KIN_STEP_MAP(X)                \
    X(SQEUCLIDEAN, sqeuclidean, 8)     \
    X(INNER_PRODUCT, inner_product, 8) \
    X(MANHATTAN, manhattan, 8)         \
    X(CHEBYSHEV, chebyshev, 8)         \
    X(HAMMING, hamming, 8)             \
    X(JACCARD, jaccard, 8)             \
    X(CHI2, chi2, 4)                   \
    X(KL, kl, 2)                       \
    X(MINKOWSKI, minkowski, 2)

/* Metrics by whole rows: NAME, name, the dtypes that have a body. */
#define KIN_WHOLE_MAP(X)                      \
    X(BIT_HAMMING, bit_hamming, KIN_OF_BYTES) \
    X(BIT_JACCARD, bit_jaccard, KIN_OF_BYTES) \
    X(HAVERSINE, haversine, KIN_EACH_DTYPE)

/* Those of them that periodic boxes have (KIN_WRAPS above, and euclidean by its square). */
#define KIN_WRAP_MAP(X)            \
    X(SQEUCLIDEAN, sqeuclidean, 8) \
    X(MANHATTAN, manhattan, 8)     \
    X(CHEBYSHEV, chebyshev, 8)     \
    X(MINKOWSKI, minkowski, 2)

/* The row of a metric: its own number, but for minkowski, which has a number for each power. */
KIN_HD kith_metric kin_metric_base(kith_metric metric)
{
    return (kith_metric)((uint32_t)metric % KITH_POWER_FIRST);
}

/* The largest magnitude that a metric takes, by its bits: 2^500, where squares do not overflow; of
 * places 2^20; a caller's own function may take any finite number. */
KIN_HD uint64_t kin_metric_most(kith_dtype dtype, kith_metric metric)
{
    const bool places = kin_metric_base(metric) == KITH_HAVERSINE;
    switch (dtype) {
    case KITH_F64:
        return metric == KITH_CUSTOM ? UINT64_C(0x7fefffffffffffff)
                                     : kin_bits_of(places ? KIN_MOST_RADIANS : 0x1p500);
    case KITH_F32:
        return places ? 0x49800000 : 0x7f7fffff;
    case KITH_F16:
        return 0x7bff;
    case KITH_BF16:
        return places ? 0x4980 : 0x7f7f;
    default:
        return UINT64_MAX;
    }
}

/* The power of a minkowski; of any other metric 0. */
KIN_HD kin_power kin_power_of(kith_metric metric)
{
    const uint32_t steps = (uint32_t)metric / KITH_POWER_FIRST;
    const bool products =
        steps % KITH_POWER_STEPS == 0 && steps <= (uint32_t)KIN_POWER_PRODUCTS * KITH_POWER_STEPS;
    kin_power power;
    power.p = kin_div((double)steps, (double)KITH_POWER_STEPS);
    power.times = products ? (int32_t)(steps / KITH_POWER_STEPS) : 0;
    return power;
}

/* ---- Whole rows ----------------------------------------------------------------------------- */

/* Two words of bits are counted: `either` those that differ (bit_jaccard: that either has), `both`
 * those that both have (bit_jaccard). Whole numbers below 2^23, in any order of the words. */
typedef struct kin_bit_counts {
    uint32_t either;
    uint32_t both;
} kin_bit_counts;

KIN_HD double kin_bits_key(kith_metric metric, kin_bit_counts n)
{
    const bool share = metric == KITH_BIT_JACCARD && n.either != 0;
    return share ? kin_div((double)(n.either - n.both), (double)n.either) : (double)n.either;
}

/* Of a column with a period > 0, the difference of two components of [0, period): the way that is
 * shorter, straight or round the box. It enters a lane as the component of a query whose point has
 * 0 there, which every metric that wraps takes for the difference itself. */
KIN_HD double kin_wrap(double q, double c, double period)
{
    const double straight = kin_abs(kin_sub(q, c));
    const double round = kin_sub(period, straight);
    return period > 0 && round < straight ? round : straight;
}

/* ---- All lanes ------------------------------------------------------------------------------ */

KIN_HD double kin_lanes_sum(const double lane[KIN_METRIC_LANES])
{
    const double even = kin_add(kin_add(lane[0], lane[4]), kin_add(lane[2], lane[6]));
    const double odd = kin_add(kin_add(lane[1], lane[5]), kin_add(lane[3], lane[7]));
    return kin_add(even, odd);
}

KIN_HD double kin_lanes_max(const double lane[KIN_METRIC_LANES])
{
    double most = lane[0];
    for (int j = 1; j < KIN_METRIC_LANES; j++) {
        most = kin_max(most, lane[j]);
    }
    return most;
}

/* The key of a pair from the sum of its lanes (chebyshev: their maximum; jaccard: the sizes of
 * union and intersection). Pairs with a degenerate row do not come here: their key is 1. Of
 * minkowski it is what kin_root makes the key of; it stands apart, since bodies with vectors take
 * the roots of several pairs at once, and no other metric shall have room for it in its registers.
 */
KIN_HD double kin_key(kith_metric metric, double sum, double second, int32_t cols)
{
    double key = sum;
    switch (metric) {
    case KITH_INNER_PRODUCT:
        key = -sum;
        break;
    case KITH_COSINE:
    case KITH_CORRELATION:
        key = kin_mul(0.5, sum);
        break;
    case KITH_HAMMING:
        key = kin_div(sum, (double)cols);
        break;
    case KITH_JACCARD:
        key = sum == 0 ? 0 : kin_div(kin_sub(sum, second), sum);
        break;
    default:
        break;
    }
    return kin_add(key, 0.0);
}

#define KIN_DEGENERATE_KEY 1.0

/* What the user sees of a key. */
KIN_HD double kin_pair_distance(kith_metric metric, double key)
{
    if (metric == KITH_EUCLIDEAN) {
        return kin_sqrt(key);
    }
    if (metric == KITH_HAVERSINE) {
        return kin_haversine_angle(key);
    }
    return metric == KITH_INNER_PRODUCT ? kin_add(-key, 0.0) : key;
}

/* ---- The transform of a row (cosine, correlation) ------------------------------------------- */

/* The power of two that brings the largest magnitude of a float64 row into [1, 2), so that squares
 * neither overflow nor vanish. Where that power is beyond the doubles (the largest magnitude is
 * subnormal) 2^1023 takes its place, with the same effect on all bits that follow. */
KIN_HD double kin_row_scale(double largest)
{
    const uint64_t exponent = kin_bits_of(largest) >> 52;
    return largest == 0 ? 1.0 : kin_from_bits((2046 - exponent) << 52);
}

KIN_HD double kin_row_shift(double sum, int32_t cols)
{
    return kin_div(sum, (double)cols);
}

KIN_HD double kin_row_gain(double sum_of_squares)
{
    return kin_div(1.0, kin_sqrt(sum_of_squares));
}

/* The value before the gain: what the sum of squares is taken of. For cosine the shift is +0, and
 * x - 0 has the bits of x. */
KIN_HD double kin_row_centre(const kin_row_transform *transform, double x)
{
    return kin_sub(kin_mul(x, transform->scale), transform->shift);
}

KIN_HD double kin_row_apply(const kin_row_transform *transform, double x)
{
    return kin_mul(kin_row_centre(transform, x), transform->gain);
}

#endif
