/* SPDX-License-Identifier: Apache-2.0
 * Centres of cells, as columns of a product (descent_kernel.h): points meet centres as they meet
 * points, and the nearest centre of a point has the least order. Orders of one point alone can be
 * compared: what is the same for all centres is left out.
 *
 *   |p - c|^2 = |p - m|^2 + |e|^2 + 2 m.e - 2 p.e       m: about the mean of all, e = c - m
 *
 * Integer types hold s e, s as large as a byte allows: centres of points that differ by few units
 * are not rounded to points.
 *
 * Inner products have no nearest centre until each point gets a height, one more value:
 *
 *   |(p, 0) - (c, h_c)|^2 = |p|^2 - 2 p.c + M^2         h_c^2 = M^2 - |c|^2, M the longest point
 *
 * So who asks stands on the ground, and whoever is near it up there has a large product with it.
 * Points with their heights have cells like any others. Who asks is told the order of -2 p.c alone:
 * a mean of points that stand far apart is lower than they are, but no worse to ask. */
#ifndef KIN_DESCENT_DESCENT_CENTRES_H
#define KIN_DESCENT_DESCENT_CENTRES_H

#include "descent/descent_match.h"

/* Above so many columns the terms of centres would leave the range of integers. */
enum { KIN_DESCENT_CENTRE_COLS = 8192 };

typedef struct kin_descent_centres {
    int64_t count;
    int64_t padded; /* columns: whole panels, the last ones as far away as can be */
    int64_t width;  /* values of a centre */
    int64_t pitch;  /* groups from one panel to the next */
    double *values; /* count x width */
    double *middle; /* width: what e is counted from; zeros for float types */
    uint32_t *panels;
    kin_word *terms;
    /* Of inner products, else NULL. A centre's place among points with heights costs, beside the
     * order of its product, lift + slope x the point's height. */
    float *heights; /* of points, by position */
    float *height;  /* of centres */
    float *lifts;
    float *slopes;
} kin_descent_centres;

/* No centre has a place yet. */
kith_status kin_descent_centres_make(kith_ctx *ctx, const kin_descent_points *points, int64_t count,
                                     kin_descent_centres *centres);
void kin_descent_centres_free(kith_ctx *ctx, kin_descent_centres *centres);

/* Each centre becomes the mean of members[starts[c]] .. members[starts[c + 1] - 1], positions in
 * the order in which they are summed; one without members stays where it is. Then all are
 * rounded. */
kith_status kin_descent_centres_move(kith_ctx *ctx, const kin_descent_points *points,
                                     const int64_t *starts, const uint32_t *members,
                                     kin_descent_centres *centres);

#endif
