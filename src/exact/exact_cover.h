/* SPDX-License-Identifier: Apache-2.0
 * Balls around tiles of points that stand together, so that a pair of tiles that cannot hold a
 * neighbour is skipped: if |centre_I - centre_J| - radius_I - radius_J is above every reach in the
 * two, no pair of theirs is among the k nearest of either side. Same theorem as the screen, with
 * the tile in place of the row. */
#ifndef KIN_EXACT_COVER_H
#define KIN_EXACT_COVER_H

#include "exact/exact_round.h"
#include "exact/exact_set.h"

typedef struct kin_cover {
    int64_t wide;      /* floats of a centre; 0: there is no cover, nothing can be skipped */
    float *centres[2]; /* of fine and of coarse tiles, in units of the frame */
    float *radii[2];   /* largest |a - centre| of the tile's rows, rounded up */
    void *block;       /* all of them; NULL: they are a view of a file */
} kin_cover;

/* A fine tile of points is skipped for a coarse tile of rows. */
enum { KIN_COVER_FINE = 0, KIN_COVER_COARSE = 1, KIN_FINE_STEP = 32, KIN_COARSE_STEP = 96 };

/* Products have no triangle inequality, and small sets nothing to skip: their cover is empty. */
kith_status kin_cover_make(kith_ctx *ctx, const kin_set *set, kin_cover *cover);
void kin_cover_free(kith_ctx *ctx, kin_cover *cover);
/* Floats of a centre of rows of `cols` components. */
int64_t kin_cover_wide(int32_t cols);
/* What kin_cover_make holds, and leaves, of a set of this shape; *shape is a cover without arrays.
 */
void kin_cover_plan(kin_layout *plan, const kin_set *set, int32_t threads, kin_cover *shape);

typedef struct kin_cover_tile {
    const kin_cover *of;
    int64_t tile;
} kin_cover_tile;

/* Whether no row of a coarse tile and no point of a fine tile can be nearer than `reach`
 * (exact_bound.h; for integer bounds the k-th cost). */
bool kin_cover_apart(const kin_set *set, const kin_round_ops *ops, kin_cover_tile rows,
                     kin_cover_tile points, double reach);

#endif
