/* SPDX-License-Identifier: Apache-2.0
 * kith's own powers and roots, for the metric minkowski: x^p of a component, s^(1/p) of their sum;
 * behind them sine, cosine and haversine, whose arguments may be negative; and at the end what they
 * are for, the step of every metric.
 *
 * Idea. Every C library has its own pow(), and its last bits differ. These are fixed lists of IEEE
 * operations, as the logarithm is (below), so they have the same bits on every machine.
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
#ifndef KIN_METRIC_FUNCTIONS_H
#define KIN_METRIC_FUNCTIONS_H

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
KIN_HD double kin_split(double x, double *exponent)
{
    const uint64_t bits = kin_bits_of(x);
    const int64_t e = (int64_t)(bits - KIN_ROOT_HALF_BITS) >> 52;
    *exponent = (double)e;
    return kin_from_bits(bits - ((uint64_t)e << 52));
}

/* Odd numbers from 23 down: the series of ln m, behind 1/25. */
#define KIN_LN_SERIES(X) \
    X(23.0) X(21.0) X(19.0) X(17.0) X(15.0) X(13.0) X(11.0) X(9.0) X(7.0) X(5.0) X(3.0)

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

KIN_HD double kin_negative(double a)
{
    return -a;
}

KIN_HD double kin_min(double a, double b)
{
    return a < b ? a : b;
}

/* 1/3 + z/5 + z^2/7 + ... + z^11/25, from the smallest term up. */
KIN_HD double kin_ln_series(double z)
{
    double p = 1.0 / 25.0;
#define KIN_LN_TERM(odd) p = kin_fma(p, z, 1.0 / (odd));
    KIN_LN_SERIES(KIN_LN_TERM)
#undef KIN_LN_TERM
    return p;
}

#define NUMBER double
#define OF(word) kin_##word
#define SET(constant) (constant)
#define FUNCTION KIN_HD
#include "metric/metric_series.inc"

/* ln x = the result + *rest, for any positive x; of 0 some number. */
KIN_HD double kin_ln_wide(double x, double *rest)
{
    const bool tiny = x < KIN_LEAST_NORMAL;
    double e;
    const double m = kin_split(tiny ? kin_mul(x, KIN_RAISE_TINY) : x, &e);
    return kin_ln_two(m, tiny ? kin_sub(e, KIN_RAISE_TINY_BY) : e, rest);
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

/* ---- The sphere ------------------------------------------------------------------------------ */

/* kith's own sine and arc sine, for the metric haversine: how far two places of a sphere are apart.
 *
 *   h = sin^2((lat' - lat) / 2) + cos lat cos lat' sin^2((lon' - lon) / 2)       the key
 *   angle = 2 asin(sqrt(h))                                                      the distance
 *
 * Idea. Every C library has its own sin(), and its last bits differ. These are fixed lists of IEEE
 * operations, as the logarithm is (above), so they have the same bits on every machine.
 *
 *   x = (n - shift) pi + r,  n whole, |r| <= pi/2        sin x = +-sin r, cos x = +-sin r with
 *                                                        shift 1/2: cos x = sin(x + pi/2)
 *   sin r = r - r^3/3! + r^5/5! ... + r^21/21!
 *   asin s = s + s z/2 (1/3 + 3/4 z (1/5 + 5/6 z (1/7 ...))),  z = s^2 <= 1/4, to z^24
 *   2 asin(sqrt(h)) = pi - 4 asin(sqrt(w)),  w = (1 - h) / (2 (1 + sqrt(h))),  where h > 1/4
 *
 * Why it is right. pi stands in three parts; n - shift has at most 20 bits for |x| <= 2^20, so its
 * products with the first two, of 32 bits, are exact, and what is left of x is rounded twice. The
 * series end below 2^-59 and 2^-58 of the value. All terms of asin are positive, and every rounded
 * operation is monotone, so a greater key never has the smaller distance. The bounds stand in
 * docs/notes/numerics.md, and a test holds them against long double.
 *
 * Limits. Magnitudes up to 2^20 (KIN_MOST_RADIANS; metric_check.c). */

#define KIN_MOST_RADIANS 0x1p20

/* pi = first + second + third, the first two of 32 bits; and to the nearest double and behind. */
#define KIN_PI_FIRST 0x1.921fb544p+1
#define KIN_PI_SECOND 0x1.0b4611a6p-33
#define KIN_PI_THIRD 0x1.3198a2e037073p-68
#define KIN_PI 0x1.921fb54442d18p+1
#define KIN_PI_BEHIND 0x1.1a62633145c07p-53
#define KIN_TURNS 0x1.45f306dc9c883p-2 /* 1 / pi */
#define KIN_ANGLE_OF_QUARTER \
    0x1.0c152382d7366p+0 /* that of h = 1/4, below which none beyond shall be */

/* n! from 19 down with signs, behind that of r^21. */
#define KIN_SINE_FIRST (1.0 / 51090942171709440000.0)
#define KIN_SINE_SERIES(X)   \
    X(-121645100408832000.0) \
    X(355687428096000.0)     \
    X(-1307674368000.0)      \
    X(6227020800.0)          \
    X(-39916800.0)           \
    X(362880.0)              \
    X(-5040.0)               \
    X(120.0)                 \
    X(-6.0)

/* (2n - 1) / 2n from n = 24 down, behind 1/49. */
#define KIN_ASIN_FIRST (1.0 / 49.0)
#define KIN_ASIN_SERIES(X) \
    X(47.0)                \
    X(45.0)                \
    X(43.0)                \
    X(41.0)                \
    X(39.0)                \
    X(37.0)                \
    X(35.0)                \
    X(33.0)                \
    X(31.0)                \
    X(29.0)                \
    X(27.0)                \
    X(25.0)                \
    X(23.0)                \
    X(21.0)                \
    X(19.0)                \
    X(17.0)                \
    X(15.0)                \
    X(13.0)                \
    X(11.0)                \
    X(9.0)                 \
    X(7.0)                 \
    X(5.0)                 \
    X(3.0)

/* Up to the sign: sin x for shift 0, cos x for 1/2, and *n says by its parity which sign. */
KIN_HD double kin_sine_of(double x, double shift, double *n)
{
    *n = kin_whole(kin_add(kin_mul(x, KIN_TURNS), shift));
    const double turns = kin_sub(*n, shift);
    const double near = kin_sub(x, kin_mul(turns, KIN_PI_FIRST));
    const double r = kin_fma(-turns, KIN_PI_THIRD, kin_sub(near, kin_mul(turns, KIN_PI_SECOND)));
    const double z = kin_mul(r, r);
    double p = KIN_SINE_FIRST;
#define KIN_SINE_TERM(factorial) p = kin_fma(p, z, 1.0 / (factorial));
    KIN_SINE_SERIES(KIN_SINE_TERM)
#undef KIN_SINE_TERM
    return kin_fma(kin_mul(r, z), p, r);
}

/* sin^2(x / 2). */
KIN_HD double kin_half_sine_squared(double x)
{
    double n;
    const double s = kin_sine_of(kin_mul(0.5, x), 0.0, &n);
    return kin_mul(s, s);
}

/* Of a whole number: its lowest bit is the lowest one of the sum. */
KIN_HD bool kin_is_odd(double n)
{
    return (kin_bits_of(kin_add(n, KIN_WHOLE)) & 1) != 0;
}

KIN_HD double kin_cosine(double x)
{
    double n;
    const double s = kin_sine_of(x, 0.5, &n);
    return kin_is_odd(n) ? -s : s;
}

/* What the two squares and the two cosines make: within [0, 1], where rounding would leave it. */
KIN_HD double kin_haversine_sum(double lat, double lon, double cos_q, double cos_c)
{
    const double h = kin_add(lat, kin_mul(kin_mul(cos_q, cos_c), lon));
    const double most = h < 1.0 ? h : 1.0;
    return most > 0.0 ? most : 0.0;
}

/* A place and the cosine of its latitude. */
typedef struct kin_sphere_place {
    double lat;
    double lon;
    double cosine;
} kin_sphere_place;

KIN_HD kin_sphere_place kin_sphere_place_of(double lat, double lon)
{
    kin_sphere_place place;
    place.lat = lat;
    place.lon = lon;
    place.cosine = kin_cosine(lat);
    return place;
}

/* The key, in the operations that all machines take. */
KIN_HD double kin_sphere_key(kin_sphere_place q, kin_sphere_place c)
{
    return kin_haversine_sum(kin_half_sine_squared(kin_sub(c.lat, q.lat)),
                             kin_half_sine_squared(kin_sub(c.lon, q.lon)), q.cosine, c.cosine);
}

/* asin(sqrt(z)), z <= 1/4. */
KIN_HD double kin_asin_of_square(double z)
{
    const double s = kin_sqrt(z);
    double p = KIN_ASIN_FIRST;
#define KIN_ASIN_TERM(odd) p = kin_fma(kin_mul(z, (odd) / ((odd) + 1.0)), p, 1.0 / (odd));
    KIN_ASIN_SERIES(KIN_ASIN_TERM)
#undef KIN_ASIN_TERM
    return kin_fma(s, kin_mul(kin_mul(z, 0.5), p), s);
}

/* The angle of a key in [0, 1]. */
KIN_HD double kin_haversine_angle(double h)
{
    if (h <= 0.25) {
        return kin_mul(2.0, kin_asin_of_square(h));
    }
    const double w = kin_div(kin_mul(0.5, kin_sub(1.0, h)), kin_add(1.0, kin_sqrt(h)));
    const double rest = kin_mul(4.0, kin_asin_of_square(w));
    return kin_max(kin_add(kin_sub(KIN_PI, rest), KIN_PI_BEHIND), KIN_ANGLE_OF_QUARTER);
}

/* ---- One component -------------------------------------------------------------------------- */

/* The terms that are not a single operation. */
KIN_HD double kin_term_chi2(double q, double c)
{
    const double t = kin_sub(q, c);
    const double sum = kin_add(q, c);
    return sum == 0 ? 0 : kin_div(kin_mul(t, t), sum);
}

KIN_HD double kin_step_kl(double lane, double q, double c)
{
    if (q == 0) {
        return lane;
    }
    if (c == 0) {
        return (double)INFINITY;
    }
    return kin_fma(q, kin_ln(kin_div(q, c)), lane);
}

KIN_HD double kin_count_differ(double a, double b)
{
    return a != b ? 1.0 : 0.0;
}

#define NUMBER double
#define OF(word) kin_##word
#define SET(constant) (constant)
#define FUNCTION KIN_HD
#define STEPS
#include "metric/metric_series.inc"

#endif
