/* SPDX-License-Identifier: Apache-2.0
 * kith's own powers and roots, for the metric minkowski: x^p of a component, s^(1/p) of their sum.
 *
 * Idea. Every C library has its own pow(), and its last bits differ. These are fixed lists of IEEE
 * operations, as the logarithm is (metric_power.h), so they have the same bits on every machine.
 *
 *   p whole, at most 16     products: x, x^2, x^4 ... by squaring, multiplied where p has the bit
 *   any other p             e^(p ln x)
 *   roots                   e^((ln s) / p)
 *
 *   e^L = 2^n * e^r,   n the whole number nearest to L / ln 2,   |r| < 0.347,
 *   e^r = 1 + r + r^2 (1/2 + r/6 + ... + r^12/14!)
 *
 * Why it is right. An error of L is a relative one of the result, and L may be large: so the
 * logarithm is kept as two doubles (kin_ln_two, to 2^-58 absolutely), and so are its product and
 * its quotient by p, whose roundings fma() tells. n * ln 2 is exact in its high part. The series
 * ends below 2^-63 of the value. Two factors, each a normal power of two, carry the result to
 * where doubles end: it becomes subnormal, zero or infinite there as any product does. The bounds
 * stand in docs/notes/numerics.md, and a test holds them against long double.
 *
 * Limits. x and s are not negative and not NaN; s may be infinite; 1 <= p < 2^12. */
#ifndef KIN_METRIC_POWER_H
#define KIN_METRIC_POWER_H

#include "metric/metric_arith.h"

/* kith's own natural logarithm, for the metrics kl and minkowski.
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
 * Limits. x: a positive normal number; quotients of checked values are (docs/notes/numerics.md). */

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

#define KIN_LOG2_E 0x1.71547652b82fep+0

/* A double of at most 2^51 plus this has its nearest whole number in the lowest bits. */
#define KIN_WHOLE 0x1.8p52
/* The same for a number that goes into the place of the exponent. */
#define KIN_WHOLE_EXPONENT (0x1.8p52 + 1023)

/* Beyond these e^L is 0, or infinite, whatever else is added. */
#define KIN_EXP_LEAST (-800.0)
#define KIN_EXP_MOST 800.0

/* 2^54 takes what is subnormal, and is not 0, to a normal number. */
#define KIN_LEAST_NORMAL 0x1p-1022
#define KIN_RAISE_TINY 0x1p54
#define KIN_RAISE_TINY_BY 54.0

/* n! from 13 down: the coefficients of e^r, behind that of r^14. */
#define KIN_EXP_FIRST (1.0 / 87178291200.0)
#define KIN_EXP_SERIES(X) \
    X(6227020800.0)       \
    X(479001600.0)        \
    X(39916800.0)         \
    X(3628800.0) X(362880.0) X(40320.0) X(5040.0) X(720.0) X(120.0) X(24.0) X(6.0) X(2.0)

/* The power of a metric. */
typedef struct kin_power {
    double p;
    int32_t times; /* p, where it is whole and at most KIN_POWER_PRODUCTS; else 0 */
} kin_power;

enum { KIN_POWER_PRODUCTS = 16 };

/* 2^n for a whole n in -1022 .. 1023. */
KIN_HD double kin_two_to(double n)
{
    return kin_from_bits(kin_bits_of(kin_add(n, KIN_WHOLE_EXPONENT)) << 52);
}

KIN_HD double kin_whole(double x)
{
    return kin_sub(kin_add(x, KIN_WHOLE), KIN_WHOLE);
}

/* ln x = the result + *rest, for any positive x; of 0 some number. */
KIN_HD double kin_ln_wide(double x, double *rest)
{
    const bool tiny = x < KIN_LEAST_NORMAL;
    double e;
    const double m = kin_ln_split(tiny ? kin_mul(x, KIN_RAISE_TINY) : x, &e);
    return kin_ln_two(m, tiny ? kin_sub(e, KIN_RAISE_TINY_BY) : e, rest);
}

/* e^(high + low), |low| far below |high| or 0. */
KIN_HD double kin_exp(double high, double low)
{
    const double below = high < KIN_EXP_MOST ? high : KIN_EXP_MOST;
    const double within = kin_max(below, KIN_EXP_LEAST);
    const double n = kin_whole(kin_mul(within, KIN_LOG2_E));
    const double near = kin_sub(within, kin_mul(n, KIN_LN2_HIGH));
    const double rest = kin_fma(-n, KIN_LN2_LOW, low);
    const double r = kin_add(near, rest);
    const double r_low = kin_add(kin_sub(near, r), rest);
    double q = KIN_EXP_FIRST;
#define KIN_EXP_TERM(factorial) q = kin_fma(q, r, 1.0 / (factorial));
    KIN_EXP_SERIES(KIN_EXP_TERM)
#undef KIN_EXP_TERM
    const double more = kin_add(r, kin_fma(kin_mul(r, r), q, r_low));
    const double half = kin_whole(kin_mul(n, 0.5));
    const double part = kin_mul(kin_add(1.0, more), kin_two_to(half));
    return kin_mul(part, kin_two_to(kin_sub(n, half)));
}

KIN_HD double kin_raise_times(double x, int32_t times)
{
    double product = (times & 1) != 0 ? x : 1.0;
    for (int32_t left = times >> 1; left != 0; left >>= 1) {
        x = kin_mul(x, x);
        product = (left & 1) != 0 ? kin_mul(product, x) : product;
    }
    return product;
}

/* x^p. */
KIN_HD double kin_raise(double x, kin_power power)
{
    if (power.times != 0) {
        return kin_raise_times(x, power.times);
    }
    double rest;
    const double ln = kin_ln_wide(x, &rest);
    const double high = kin_mul(power.p, ln);
    const double low = kin_fma(power.p, rest, kin_fma(power.p, ln, -high));
    return x == 0 ? 0.0 : kin_exp(high, low);
}

/* sum^(1/p): the key of a sum of powers. */
KIN_HD double kin_root(double sum, kin_power power)
{
    double rest;
    const double ln = kin_ln_wide(sum, &rest);
    const double high = kin_div(ln, power.p);
    const double low = kin_div(kin_add(kin_fma(-high, power.p, ln), rest), power.p);
    return sum == 0 || sum > DBL_MAX ? sum : kin_exp(high, low);
}

#endif
