/* SPDX-License-Identifier: Apache-2.0
 * Lesson 1: the k nearest neighbours of every point of a file, in one call.
 *
 *     01_exact examples/data/digits.u8bin
 */
#include <kith/kith.h>

#include <stdio.h>
#include <stdlib.h>

enum { K = 5, SHOWN = 3 };

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/data/digits.u8bin";
    kith_ctx *ctx = NULL;
    kith_points *file = NULL;
    kith_neighbors table = {.k = K};
    kith_search_params params = kith_search_params_default();
    int failed = 1;

    /* Everything goes through a context: it allocates, and it knows why a call failed. */
    if (kith_ctx_create(NULL, &ctx) != KITH_OK ||
        kith_points_open(ctx, path, NULL, &file) != KITH_OK) {
        goto done;
    }
    /* The answer is a table that the caller owns. The points are only borrowed. */
    const kith_matrix *points = kith_points_matrix(file);
    table.rows = points->rows;
    table.ids = malloc((size_t)(table.rows * K) * sizeof *table.ids);
    table.distances = malloc((size_t)(table.rows * K) * sizeof *table.distances);
    params.k = K;
    if (table.ids == NULL || table.distances == NULL ||
        kith_graph(ctx, points, &params, &table, NULL) != KITH_OK) {
        goto done;
    }

    printf("%lld points in %d dimensions\n", (long long)points->rows, (int)points->cols);
    for (int64_t row = 0; row < SHOWN && row < table.rows; row++) {
        printf("point %lld:", (long long)row);
        for (int64_t j = row * K; j < (row + 1) * K; j++) {
            printf("  %u at %.4f", (unsigned)table.ids[j], (double)table.distances[j]);
        }
        printf("\n");
    }
    failed = 0;
done:
    if (failed) {
        fprintf(stderr, "01_exact: %s\n", ctx != NULL ? kith_ctx_detail(ctx) : "out of memory");
    }
    free(table.distances);
    free(table.ids);
    kith_points_free(file);
    kith_ctx_free(ctx);
    return failed;
}
