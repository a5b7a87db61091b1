/* SPDX-License-Identifier: Apache-2.0
 * Cells: which centres each point is nearest to (k-means: Lloyd 1982). Centres begin as means of
 * runs of positions, which stand together already, and move a few times, for samples of the points.
 * Then each point knows its nearest cells; the first is its own. Of inner products the others are
 * those whose centres have the largest products with it (graph_cells.h). */
#ifndef KIN_GRAPH_CELLS_H
#define KIN_GRAPH_CELLS_H

#include "graph/graph_join.h"

enum { KIN_GRAPH_MOST_NEAR = 64 };

typedef struct kin_graph_cells {
    int64_t count;
    int32_t each;       /* near cells of a point */
    uint16_t *near;     /* points x each: the nearest first; the first 4, 6, 8, 12, 16, 24, ... are
                           the nearest so many */
    double evaluations; /* products that they took */
} kin_graph_cells;

/* A good number of cells for so many points. */
int64_t kin_graph_cells_wished(int64_t points);

/* each: at most KIN_GRAPH_MOST_NEAR and count. moves: of the centres. The same cells with any
 * number of threads; of integer types on any machine. */
kith_status kin_graph_cells_make(kin_hold *hold, const kin_graph_points *points, int64_t count,
                                 int32_t each, int32_t moves, kin_graph_cells *cells);
/* What stays, and at its peak what it takes beside while it is made; near: cells of a point. */
void kin_graph_cells_plan(kin_layout *plan, const kin_frame *frame, int64_t points, int32_t near,
                          int32_t threads);

/* Of pairs (position, its cell number i), first <= i < last: the positions of each cell, ascending.
 * starts: cells + 1; who: one for each pair. */
void kin_graph_cells_list(const kin_graph_cells *cells, int64_t points, int32_t first, int32_t last,
                          int64_t *starts, uint32_t *who);

/* Positions of two sets, of which some may be of both. */
typedef struct kin_graph_two_sets {
    const uint8_t *of; /* of each position bits of the sets that it is of (graph_start.h) */
    int64_t points;
    bool others; /* lists have who is of the other set */
} kin_graph_two_sets;

/* The same by set: list 2 c has those of cell c that are of the first set, 2 c + 1 of the other.
 * starts: 2 cells + 1. */
void kin_graph_cells_list_sides(const kin_graph_cells *cells, const kin_graph_two_sets *sides,
                                int32_t first, int32_t last, int64_t *starts, uint32_t *who);

/* Centres of cells, as columns of a product (graph_join.h): points meet centres as they meet
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

/* Above so many columns the terms of centres would leave the range of integers. */
enum { KIN_GRAPH_CENTRE_COLS = 8192 };

/* Whether points have centres: not those of direct metrics, nor rows of very many columns. */
static inline bool kin_graph_has_cells(const kin_graph_points *points)
{
    return points->kernel != NULL && points->prepared->distance.cols <= KIN_GRAPH_CENTRE_COLS;
}

typedef struct kin_graph_centres {
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
    int64_t points;
    bool raised; /* points have heights */
} kin_graph_centres;

/* No centre has a place yet. passing: what values live as long as. */
kith_status kin_graph_centres_make(kin_hold *hold, kin_hold *passing,
                                   const kin_graph_points *points, int64_t count,
                                   kin_graph_centres *centres);
/* As they will be, without arrays, and what they hold and take beside while they are made. */
kin_graph_centres kin_graph_centres_shape(const kin_frame *frame, int64_t points, int64_t count);
void kin_graph_centres_plan(kin_layout *plan, kin_graph_centres *centres, int32_t threads);

/* Each centre becomes the mean of members[starts[c]] .. members[starts[c + 1] - 1], positions in
 * the order in which they are summed; one without members stays where it is. Then all are
 * rounded. */
kith_status kin_graph_centres_move(kith_ctx *ctx, const kin_graph_points *points,
                                   const int64_t *starts, const uint32_t *members,
                                   kin_graph_centres *centres);

#endif
