/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_mixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Points ---------------------------------------------------------------------------------- */

static void store(const kith_matrix *m, int64_t row, int32_t col, double x)
{
    unsigned char *data = (unsigned char *)(uintptr_t)m->data;
    const int64_t at = row * m->cols + col;
    if (m->dtype == KITH_U8) {
        const double scaled = floor(128.5 + 32.0 * x);
        data[at] = (unsigned char)(scaled < 0.0 ? 0.0 : scaled > 255.0 ? 255.0 : scaled);
        return;
    }
    const float value = (float)x;
    memcpy(data + at * (int64_t)sizeof value, &value, sizeof value);
}

static void draw(double *values, int64_t count, double scale, uint64_t *seed)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = scale * test_gauss(seed);
    }
}

/* A row of the cluster whose plane and centre are given. */
static void make_row(const test_mixture *mixture, const kith_matrix *m, int64_t row,
                     const double *centre, const double *plane, uint64_t *seed)
{
    double z[64];
    draw(z, mixture->inner, 1.0, seed);
    for (int32_t c = 0; c < m->cols; c++) {
        double x = centre[c];
        for (int32_t i = 0; i < mixture->inner; i++) {
            x += plane[(int64_t)c * mixture->inner + i] * z[i];
        }
        store(m, row, c, mixture->nonnegative ? fabs(x) : x);
    }
}

kith_matrix test_mixture_make(const test_mixture *mixture)
{
    const int64_t bytes = kith_dtype_bytes(mixture->dtype);
    kith_matrix m = {.rows = mixture->rows,
                     .cols = mixture->cols,
                     .stride_bytes = mixture->cols * bytes,
                     .dtype = mixture->dtype};
    const int64_t cols = mixture->cols;
    double *centre = malloc((size_t)cols * sizeof *centre);
    double *plane = malloc((size_t)(cols * mixture->inner) * sizeof *plane);
    uint64_t seed = mixture->seed;
    m.data = malloc((size_t)(mixture->rows * cols * bytes));
    assert_non_null(m.data);
    assert_non_null(centre);
    assert_non_null(plane);
    assert_true(mixture->inner <= 64);
    /* Rows of a cluster are spread over the matrix: no engine may live from their order. */
    for (int64_t cluster = 0; cluster < mixture->clusters; cluster++) {
        draw(centre, cols, 1.0, &seed);
        draw(plane, cols * mixture->inner, mixture->spread / sqrt((double)mixture->inner), &seed);
        for (int64_t row = cluster; row < m.rows; row += mixture->clusters) {
            make_row(mixture, &m, row, centre, plane, &seed);
        }
    }
    free(plane);
    free(centre);
    return m;
}

kith_matrix test_mixture_points(int64_t rows, int32_t cols, int32_t inner, int64_t clusters,
                                double spread, uint64_t seed)
{
    const test_mixture mixture = {.dtype = KITH_F32,
                                  .rows = rows,
                                  .cols = cols,
                                  .inner = inner,
                                  .clusters = clusters,
                                  .spread = spread,
                                  .seed = seed};
    return test_mixture_make(&mixture);
}

void test_mixture_copy(const kith_matrix *points, int64_t to, int64_t from)
{
    char *data = (char *)(uintptr_t)points->data;
    memcpy(data + to * points->stride_bytes, data + from * points->stride_bytes,
           (size_t)points->stride_bytes);
}

void test_mixture_free(kith_matrix *points)
{
    free((void *)(uintptr_t)points->data);
    points->data = NULL;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Whether distance a comes before b in the metric's order. */
static bool closer(kith_metric metric, double a, double b)
{
    return metric == KITH_INNER_PRODUCT ? a > b : a < b;
}

static void check_ids(const char *name, const kith_neighbors *g, int64_t row, int own,
                      uint32_t *sorted)
{
    memcpy(sorted, g->ids + row * g->k, (size_t)g->k * sizeof *sorted);
    qsort(sorted, (size_t)g->k, sizeof *sorted, ascending);
    for (int64_t j = 0; j < g->k; j++) {
        if (sorted[j] >= g->rows || (!own && sorted[j] == row) ||
            (j > 0 && sorted[j] == sorted[j - 1])) {
            fail_msg("%s: row %lld has the id %lu, which it may not have, or twice", name,
                     (long long)row, (unsigned long)sorted[j]);
        }
    }
}

static void check_row(const char *name, kith_metric metric, const kith_neighbors *g, int64_t row,
                      const double *distances)
{
    for (int64_t j = 0; j < g->k; j++) {
        const int64_t at = row * g->k + j;
        if (memcmp(&distances[j], &g->distances64[at], sizeof *distances) != 0 ||
            (g->distances != NULL && g->distances[at] != (float)distances[j])) {
            fail_msg("%s: row %lld, place %lld: %.17g, canonical is %.17g", name, (long long)row,
                     (long long)j, g->distances64[at], distances[j]);
        }
        if (j > 0 && (closer(metric, distances[j], distances[j - 1]) ||
                      (distances[j] == distances[j - 1] && g->ids[at] < g->ids[at - 1]))) {
            fail_msg("%s: row %lld is not ascending at %lld", name, (long long)row, (long long)j);
        }
    }
}

void test_graph_is_sound(kith_ctx *ctx, const char *name, const kith_matrix *points,
                         kith_metric metric, const kith_neighbors *graph, int own)
{
    const size_t cells = (size_t)(graph->rows * graph->k);
    uint32_t *rows = malloc(cells * sizeof *rows);
    uint32_t *sorted = malloc((size_t)graph->k * sizeof *sorted);
    double *distances = malloc(cells * sizeof *distances);
    if (rows == NULL || sorted == NULL || distances == NULL) {
        abort();
    }
    for (int64_t row = 0; row < graph->rows; row++) {
        check_ids(name, graph, row, own, sorted);
        for (int64_t j = 0; j < graph->k; j++) {
            rows[row * graph->k + j] = (uint32_t)row;
        }
    }
    assert_int_equal(kith_distances(ctx, points, points, metric,
                                    &(kith_pairs){(int64_t)cells, rows, graph->ids}, distances),
                     KITH_OK);
    for (int64_t row = 0; row < graph->rows; row++) {
        check_row(name, metric, graph, row, distances + row * graph->k);
    }
    free(distances);
    free(sorted);
    free(rows);
}

double test_graph_recall(kith_metric metric, const kith_neighbors *graph,
                         const kith_neighbors *truth, int64_t at)
{
    int64_t hits = 0;
    for (int64_t row = 0; row < graph->rows; row++) {
        const double last = truth->distances64[row * truth->k + at - 1];
        for (int64_t j = 0; j < at; j++) {
            hits += !closer(metric, last, graph->distances64[row * graph->k + j]);
        }
    }
    return (double)hits / (double)(graph->rows * at);
}
