/* SPDX-License-Identifier: Apache-2.0
 * Corpora whose shadows say something, or nothing, and jobs of them. */
#ifndef SUPPORT_SHADOWS_H
#define SUPPORT_SHADOWS_H

#include "screen/screen_corpus.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

/* Ids a row that these jobs ask for. */
enum { TEST_SHADOW_K = 7 };

/* Shapes of rows, behind those of all. */
enum {
    SHAPE_SPAN = SHAPE_COUNT, /* all rows in a span of four columns */
    SHAPE_RESTS,              /* four columns alike, the rest orthogonal and of equal length */
    SHAPE_COLUMN,             /* one column with all the energy */
    SHAPE_MEAN,               /* half of the rows are their mean */
    SHAPE_CROWDS,             /* clusters from much narrower to wider than a step of rounding */
    SHAPE_ENDS,               /* the smallest and the largest value */
    SHAPES
};

test_rows test_shadow_rows(kith_dtype dtype, int64_t count, int32_t cols, int shape, uint64_t seed);
void test_shadow_prepare(kith_ctx *ctx, const test_rows *rows, kith_metric metric, kin_prepared *p);
/* By shadows of this choice; axes 0: by full rows. */
kith_neighbors test_shadow_search(kith_ctx *ctx, const test_rows *points, const test_rows *queries,
                                  kith_metric metric, kin_shadow_choice choice);
/* By whatever is chosen, whose plan must be kept. queries: NULL of a graph. */
kith_neighbors test_shadow_solve(kith_ctx *ctx, const test_rows *points, const test_rows *queries,
                                 uint32_t flags, kith_report *report);

#endif
