/* SPDX-License-Identifier: Apache-2.0
 * Places of a sphere in a tree: latitude and longitude become a unit vector of three columns, and
 * the tree is one of chords.
 *
 *   u(lat, lon) = (cos lat cos lon, cos lat sin lon, sin lat)
 *   |u - u'|^2  = 4 h,   h = sin^2((lat' - lat) / 2) + cos lat cos lat' sin^2((lon' - lon) / 2)
 *
 * for all real numbers, latitudes beyond the poles included. So 2 sqrt(h) is a distance of three
 * columns that rises with the key h, up to the other side of the sphere, where h = 1.
 *
 * What tree_bound.h needs of D, in the units before `scale`, is D = 2 sqrt(key) of the canonical
 * key itself, and |D - d^| <= lost_q + lost_c; it uses no other property of a distance. So what a
 * key is away from the truth is a part of what rows lose, and both directions of every comparison
 * are covered: a point that is left out has the larger key, not only the larger angle. With
 * u = 2^-53, h the exact number of two rows and h~ their key:
 *
 *   vectors  kin_cosine and the sine are within 2 ulp (metric_sphere.h), 2u of a number up to 1; a
 *            product of two of them within 2u + 2u + u/2. A vector: sqrt(2 * 4.6^2 + 2^2) u < 7u
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
#ifndef KIN_TREE_PLACE_H
#define KIN_TREE_PLACE_H

#include "metric/metric_canonical.h"

enum { KIN_PLACE_COLS = 3 };

#define KIN_PLACE_LOST 0x1p-48
#define KIN_PLACE_UNIT 0x1p-53
#define KIN_PLACE_POLE 0x1.921fb54442d18p+0 /* the last double below pi/2 */
#define KIN_PLACE_ROUND 8.0

/* More would bring what rows lose, which does not shrink with them, out of the floats. */
#define KIN_PLACE_MOST_SCALE 0x1p64

static inline bool kin_place_has(kith_metric metric)
{
    return kin_metric_base(metric) == KITH_HAVERSINE;
}

/* Columns of the tree of rows that have `cols`. */
static inline int32_t kin_place_cols(kith_metric metric, int32_t cols)
{
    return kin_place_has(metric) ? KIN_PLACE_COLS : cols;
}

static inline double kin_place_sine(double x)
{
    double n;
    const double s = kin_sine_of(x, 0.0, &n);
    return kin_is_odd(n) ? -s : s;
}

/* values: latitude and longitude, which become the vector. */
static inline void kin_place_turn(double *values)
{
    const double lat = values[0];
    const double lon = values[1];
    const double across = kin_cosine(lat);
    values[0] = kin_mul(across, kin_cosine(lon));
    values[1] = kin_mul(across, kin_place_sine(lon));
    values[2] = kin_place_sine(lat);
}

/* What a row loses before it is rounded to floats, by its chord. */
static inline double kin_place_lost(double lat, double lon)
{
    const bool usual = fabs(lat) <= KIN_PLACE_POLE && fabs(lon) <= KIN_PLACE_ROUND;
    const double n = KIN_PLACE_UNIT * (32.0 + 0.5 * (fabs(lat) + fabs(lon)));
    return usual ? KIN_PLACE_LOST : KIN_PLACE_LOST + 2.0 * sqrt(n);
}

#endif
