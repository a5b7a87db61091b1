/* SPDX-License-Identifier: Apache-2.0
 * Lesson 4: an approximate graph with a recall that is measured. Its points are all patches of 4 x
 * 4 pixels of the digits, some 45,000: with fewer points an exact graph takes no longer.
 *
 *     04_approximate examples/data/digits.u8bin
 */
#include <kith/kith.h>

#include <stdio.h>
#include <stdlib.h>

enum { K = 10, SIDE = 8, PATCH = 4, STEPS = SIDE - PATCH + 1, COLS = PATCH * PATCH };

/* The patch whose upper left pixel is (y, x) of a digit. */
static void cut(const unsigned char *digit, int y, int x, unsigned char *patch)
{
    for (int i = 0; i < COLS; i++) {
        patch[i] = digit[(y + i / PATCH) * SIDE + x + i % PATCH];
    }
}

static unsigned char *cut_all(const kith_matrix *digits)
{
    unsigned char *patches = malloc((size_t)digits->rows * STEPS * STEPS * COLS);
    for (int64_t i = 0; patches != NULL && i < digits->rows * STEPS * STEPS; i++) {
        const int place = (int)(i % (STEPS * STEPS));
        const unsigned char *digit =
            (const unsigned char *)digits->data + i / (STEPS * STEPS) * SIDE * SIDE;
        cut(digit, place / STEPS, place % STEPS, patches + i * COLS);
    }
    return patches;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/data/digits.u8bin";
    kith_ctx *ctx = NULL;
    kith_points *file = NULL;
    unsigned char *patches = NULL;
    kith_neighbors table = {.k = K};
    kith_search_params params = kith_search_params_default();
    kith_descent_report report;
    int failed = 1;

    if (kith_ctx_create(NULL, &ctx) != KITH_OK ||
        kith_points_open(ctx, path, NULL, &file) != KITH_OK) {
        goto done;
    }
    patches = cut_all(kith_points_matrix(file));
    table.rows = kith_points_matrix(file)->rows * STEPS * STEPS;
    table.ids = malloc((size_t)(table.rows * K) * sizeof *table.ids);
    table.distances = malloc((size_t)(table.rows * K) * sizeof *table.distances);
    const kith_matrix points = {patches, table.rows, 0, COLS, KITH_U8};

    /* Rounds end when a sample of 1,000 rows, which are solved exactly, has this recall. */
    params.k = K;
    params.recall = 0.98;
    params.method = KITH_METHOD_DESCENT;
    params.descent_report = &report;
    report.struct_size = sizeof report;
    if (patches == NULL || table.ids == NULL || table.distances == NULL ||
        kith_graph(ctx, &points, &params, &table, NULL) != KITH_OK) {
        goto done;
    }
    printf("%lld patches, %.1f %% of all pairs were looked at in %d rounds\n",
           (long long)points.rows,
           100.0 * report.evaluations / (0.5 * (double)points.rows * (double)(points.rows - 1)),
           (int)report.rounds);
    /* The recall is that of another sample: the first was looked at until it was good. */
    printf("recall@%d = %.4f, with 95 %% certainty %.4f to %.4f\n", (int)report.recall.at,
           report.recall.recall, report.recall.low, report.recall.high);
    failed = 0;
done:
    if (failed) {
        fprintf(stderr, "04_approximate: %s\n", ctx != NULL ? kith_ctx_detail(ctx) : "no memory");
    }
    free(table.distances);
    free(table.ids);
    free(patches);
    kith_points_free(file);
    kith_ctx_free(ctx);
    return failed;
}
