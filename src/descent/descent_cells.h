/* SPDX-License-Identifier: Apache-2.0
 * Cells: which centres each point is nearest to (k-means: Lloyd 1982). Centres begin as means of
 * runs of positions, which stand together already, and move a few times, for samples of the points.
 * Then each point knows its nearest cells; the first is its own. Of inner products the others are
 * those whose centres have the largest products with it (descent_centres.h). */
#ifndef KIN_DESCENT_DESCENT_CELLS_H
#define KIN_DESCENT_DESCENT_CELLS_H

#include "descent/descent_match.h"

enum { KIN_DESCENT_MOST_NEAR = 64 };

typedef struct kin_descent_cells {
    int64_t count;
    int32_t each;   /* near cells of a point */
    uint16_t *near; /* points x each: the nearest first; the first 4, 8, 16, ... are the nearest so
                       many */
} kin_descent_cells;

/* Whether points have centres: not of direct metrics, and in the range of centres. */
bool kin_descent_cells_possible(const kin_descent_points *points);
/* A good number of cells for so many points. */
int64_t kin_descent_cells_wished(int64_t points);

/* each: at most KIN_DESCENT_MOST_NEAR and count. moves: of the centres. The same cells with any
 * number of threads; of integer types on any machine. evaluations: products are added. */
kith_status kin_descent_cells_make(kith_ctx *ctx, const kin_descent_points *points, int64_t count,
                                   int32_t each, int32_t moves, kin_descent_cells *cells,
                                   double *evaluations);
void kin_descent_cells_free(kith_ctx *ctx, kin_descent_cells *cells);
/* What stays, and what it takes beside while it is made. */
uint64_t kin_descent_cells_bytes(const kin_frame *frame, int64_t points, int32_t threads);

/* Of pairs (position, its cell number i), first <= i < last: the positions of each cell, ascending.
 * starts: cells + 1; who: one for each pair. */
void kin_descent_cells_list(const kin_descent_cells *cells, int64_t points, int32_t first,
                            int32_t last, int64_t *starts, uint32_t *who);

#endif
