/* SPDX-License-Identifier: Apache-2.0
 * kith's own sine and arc sine, for the metric haversine: how far two places of a sphere are apart.
 *
 *   h = sin^2((lat' - lat) / 2) + cos lat cos lat' sin^2((lon' - lon) / 2)       the key
 *   angle = 2 asin(sqrt(h))                                                      the distance
 *
 * Idea. Every C library has its own sin(), and its last bits differ. These are fixed lists of IEEE
 * operations, as the logarithm is (metric_power.h), so they have the same bits on every machine.
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
#ifndef KIN_METRIC_SPHERE_H
#define KIN_METRIC_SPHERE_H

#include "metric/metric_power.h"

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

#endif
