/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fragment of C on a page takes for granted, the caller's own things: tools/check_snippets.py puts its functions
 * and its statements where these words stand, compiles and runs it.
 */
#include <kith/kith.h>
#include <kith/kith_descent.h>
#include <kith/kith_index.h>
#include <kith/kith_merge.h>
#include <kith/kith_pairs.h>
#include <kith/kith_papers.h>
#include <kith/kith_points.h>
#include <kith/kith_predict.h>
#include <kith/kith_select.h>
#include <kith/kith_shard.h>
#include <kith/kith_truth.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 1797, COLUMNS = 64, MOST = 100 };
int32_t count = 2, cols = COLUMNS;
int64_t rows = ROWS, batch[ROWS];
uint32_t ids[ROWS * MOST], gone[2] = {3, 5};
float distances[ROWS * MOST], values[ROWS * MOST], scores[ROWS * COLUMNS];
kith_ctx *ctx;
kith_matrix points, queries, new_rows, matrices[2];
kith_neighbors out, found;

FUNCTIONS;

int main(void)
{
    kith_points *file = NULL;
    if (kith_ctx_create(NULL, &ctx) != KITH_OK) return 1;
    if (kith_points_open(ctx, "examples/data/digits.u8bin", NULL, &file) != KITH_OK) return 1;
    points = queries = new_rows = matrices[0] = matrices[1] = *kith_points_matrix(file);
    queries.rows = new_rows.rows = 5;
    for (int row = 0; row < ROWS; row++) batch[row] = row % 3;
    for (int cell = 0; cell < ROWS * COLUMNS; cell++) scores[cell] = (float)(cell * 37 % 1001);
    out = (kith_neighbors){.ids = ids, .distances = distances, .rows = ROWS, .k = 15};
    found = (kith_neighbors){.ids = ids, .distances = distances, .rows = 5, .k = 10};
    {
        STATEMENTS;
    }
    kith_where where = {.struct_size = sizeof where};
    if (kith_ctx_where(ctx, &where) != KITH_OK || where.status != KITH_OK) {
        fprintf(stderr, "%s\n", kith_ctx_detail(ctx));
        return 1;
    }
    kith_points_free(file);
    kith_ctx_free(ctx);
    return 0;
}
