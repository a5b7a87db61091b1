/* SPDX-License-Identifier: Apache-2.0
 * kith's own natural logarithm, for the metrics kl and minkowski.
 *
 * Idea. Every C library has its own log(), and their last bits differ. This one is a fixed list of
 * IEEE operations, so it has the same bits on every machine.
 *
 *   x = 2^e * m with m in [sqrt(1/2), sqrt(2)),   log x = e * ln 2 + log m,
 *   log m = 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...),   s = (m - 1) / (m + 1), |s| < 0.1716
 *
 * Why it is right. s is kept as s + s_low, the unrounded quotient to some 100 bits; e * ln 2 is
 * exact in its high part, whose last 11 bits are zero. Both leading parts are added without loss,
 * everything else is below 2^-6 of them and is added once. The series ends at s^25: the rest is
 * below 2^-64 of the value. So the error stays close to half a unit in the last place (the tests
 * hold it under 0.55 against a long double logarithm), and log(1) is exactly +0.
 *
 * Limits. x: a positive normal number; quotients of checked values are (docs/notes/numerics.md).
 */
#ifndef KIN_METRIC_LOG_H
#define KIN_METRIC_LOG_H

#include "metric/metric_arith.h"

/* ln 2 = high + low; high has 42 significant bits, so that e * high is exact for |e| < 2^11. */
#define KIN_LN2_HIGH 0x1.62e42fefa38p-1
#define KIN_LN2_LOW 0x1.ef35793c7673p-45

#define KIN_ROOT_HALF_BITS 0x3fe6a09e667f3bcd /* of sqrt(1/2) */

/* x = 2^e * m. Subtracting the bits of sqrt(1/2) lets the exponent field count in steps that
 * begin at sqrt(1/2) instead of 1. */
KIN_HD double kin_ln_split(double x, double *exponent)
{
    const uint64_t bits = kin_bits_of(x);
    const int64_t e = (int64_t)(bits - KIN_ROOT_HALF_BITS) >> 52;
    *exponent = (double)e;
    return kin_from_bits(bits - ((uint64_t)e << 52));
}

/* 1/3 + z/5 + z^2/7 + ... + z^11/25, from the smallest term up. */
KIN_HD double kin_ln_series(double z)
{
    double p = 1.0 / 25.0;
    p = kin_fma(p, z, 1.0 / 23.0);
    p = kin_fma(p, z, 1.0 / 21.0);
    p = kin_fma(p, z, 1.0 / 19.0);
    p = kin_fma(p, z, 1.0 / 17.0);
    p = kin_fma(p, z, 1.0 / 15.0);
    p = kin_fma(p, z, 1.0 / 13.0);
    p = kin_fma(p, z, 1.0 / 11.0);
    p = kin_fma(p, z, 1.0 / 9.0);
    p = kin_fma(p, z, 1.0 / 7.0);
    p = kin_fma(p, z, 1.0 / 5.0);
    return kin_fma(p, z, 1.0 / 3.0);
}

/* ln(2^e * m) = the result, which is kin_ln's, + *rest. */
KIN_HD double kin_ln_two(double m, double e, double *rest)
{
    /* s + s_low = (m - 1) / (m + 1): m - 1 is exact, m + 1 = sum + sum_low exactly. */
    const double f = kin_sub(m, 1.0);
    const double sum = kin_add(m, 1.0);
    const double sum_low = kin_sub(m, kin_sub(sum, 1.0));
    const double s = kin_div(f, sum);
    const double lost = kin_fma(-s, sum_low, kin_fma(-s, sum, f));
    const double s_low = kin_div(lost, sum);

    /* The leading parts: |high| is 0 or at least 0.69, |2s| at most 0.35. */
    const double high = kin_mul(e, KIN_LN2_HIGH);
    const double twice = kin_add(s, s);
    const double lead = kin_add(high, twice);
    const double lead_low = kin_sub(twice, kin_sub(lead, high));

    const double z = kin_mul(s, s);
    const double curve = kin_mul(kin_mul(twice, z), kin_ln_series(z));
    const double low = kin_fma(e, KIN_LN2_LOW, kin_add(curve, kin_add(s_low, s_low)));
    const double behind = kin_add(lead_low, low);
    const double ln = kin_add(lead, behind);
    *rest = kin_sub(behind, kin_sub(ln, lead));
    return ln;
}

KIN_HD double kin_ln(double x)
{
    double e;
    double rest;
    const double m = kin_ln_split(x, &e);
    return kin_ln_two(m, e, &rest);
}

#endif
