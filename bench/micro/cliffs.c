/* SPDX-License-Identifier: Apache-2.0
 * Exact graphs of rows that are hard to bring into one frame, beside plain ones of the same size
 * and beside canonical keys of all pairs, which is what a double brute force has to do. Times stand
 * as multiples of both, and canonical keys a row beside them, which no other work of the machine
 * changes. The best of some runs, which take turns.
 *
 *     bench_cliffs [ROWS [COLS [RUNS]]] */
#include "base/base_random.h"
#include "exact/exact_search.h"
#include "host/host_clock.h"
#include "kith/kith.h"
#include "screen/screen_prepare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 15, K = 10 };

typedef struct job {
    const char *name;
    kith_metric metric;
} job;

static const job sets[SETS] = {
    {"plain", KITH_EUCLIDEAN},
    {"one row -1.6375e30", KITH_EUCLIDEAN},
    {"1 % of rows x 1e9", KITH_EUCLIDEAN},
    {"log-normal norms, sigma 2", KITH_EUCLIDEAN},
    {"Cauchy", KITH_EUCLIDEAN},
    {"two tight clusters, 2e6 apart", KITH_EUCLIDEAN},
    {"offset 1e6", KITH_EUCLIDEAN},
    {"offset 1e6, cosine", KITH_COSINE},
    {"offset 1e6, inner product", KITH_INNER_PRODUCT},
    {"one column x 1e9", KITH_EUCLIDEAN},
    {"columns of twelve decades", KITH_EUCLIDEAN},
    {"a column of 1e30", KITH_EUCLIDEAN},
    {"nine rows of ten zero", KITH_EUCLIDEAN},
    {"a scale for each of 16 blocks", KITH_EUCLIDEAN},
    {"bits, one row of 1000", KITH_EUCLIDEAN},
};

typedef struct shape {
    int64_t rows;
    int32_t cols;
} shape;

static double uniform(uint64_t *state)
{
    return ((double)(kin_random_next(state) >> 11) + 0.5) * 0x1p-53;
}

static double gauss(uint64_t *state)
{
    return sqrt(-2.0 * log(uniform(state))) * cos(6.283185307179586 * uniform(state));
}

static double value_of(int set, const shape *s, int64_t row, int32_t col, double size,
                       uint64_t *state)
{
    const double x = gauss(state);
    switch (set) {
    case 1:
        return row == s->rows / 3 ? -1.6375e30 : x;
    case 2:
        return row % 100 == 77 ? 1e9 * x : x;
    case 3:
        return x * exp(2.0 * size);
    case 4:
        return x / (fabs(gauss(state)) + 1e-12);
    case 5:
        return (row % 2 == 0 ? 1e6 : -1e6) + x;
    case 6:
    case 7:
    case 8:
        return 1e6 + x;
    case 9:
        return col == 3 ? 1e9 * x : x;
    case 10:
        return x * pow(10.0, 12.0 * (double)col / s->cols - 6.0);
    case 11:
        return col == 3 ? 1e30 : x;
    case 12:
        return row % 10 == 0 ? x : 0.0;
    case 13:
        return x * pow(10.0, (double)(row * 16 / s->rows) / 4.0);
    case 14:
        return row == s->rows / 3 ? 1000.0 : x > 0.0 ? 1.0 : 0.0;
    default:
        return x;
    }
}

static void fill(int set, const shape *s, float *points)
{
    uint64_t state = 1;
    for (int64_t row = 0; row < s->rows; row++) {
        const double size = gauss(&state);
        for (int32_t col = 0; col < s->cols; col++) {
            points[row * s->cols + col] = (float)value_of(set, s, row, col, size, &state);
        }
    }
}

static void check(kith_ctx *ctx, kith_status status)
{
    if (status != KITH_OK) {
        (void)fprintf(stderr, "%s\n", kith_ctx_detail(ctx));
        exit(1);
    }
}

static double graph_seconds(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                            const kith_neighbors *out, kith_report *report)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.metric = metric;
    params.method = KITH_METHOD_EXACT;
    *report = (kith_report){.struct_size = sizeof *report};
    const int64_t start = kin_clock_ns();
    check(ctx, kith_graph(ctx, points, &params, out, report));
    return kin_clock_since(start);
}

/* Canonical keys of all pairs, k of each row kept. */
static double direct_seconds(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                             const kith_neighbors *out)
{
    const kin_request request = {
        .distance = {.metric = metric, .cols = points->cols, .isa = ctx->isa}, .k = K};
    kin_prepared rows;
    const int64_t start = kin_clock_ns();
    check(ctx,
          kin_prepare_rows(ctx, points, &request.distance, "points", KIN_ROWS_DISTINCT, &rows));
    check(ctx, kin_direct_run(ctx, &rows, &rows, &request, out));
    kin_prepared_free(ctx, &rows);
    return kin_clock_since(start);
}

int main(int argc, char **argv)
{
    const shape s = {argc > 1 ? atoll(argv[1]) : 20000, argc > 2 ? atoi(argv[2]) : 32};
    const int runs = argc > 3 ? atoi(argv[3]) : 3;
    const size_t cells = (size_t)s.rows * K;
    float *points = calloc((size_t)s.rows * (size_t)s.cols, sizeof *points);
    const kith_neighbors out = {.ids = calloc(cells, sizeof(uint32_t)),
                                .distances = calloc(cells, sizeof(float)),
                                .rows = s.rows,
                                .k = K};
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    if (points == NULL || out.ids == NULL || out.distances == NULL ||
        kith_ctx_create(&params, &ctx) != KITH_OK) {
        (void)fprintf(stderr, "no memory\n");
        return 1;
    }
    const kith_matrix m = {.data = points,
                           .rows = s.rows,
                           .stride_bytes = s.cols * (int64_t)sizeof(float),
                           .cols = s.cols,
                           .dtype = KITH_F32};
    double plain = 0.0;
    printf("%-30s %6s %9s %9s %9s %11s %6s\n", "rows", "screen", "seconds", "of plain", "of direct",
           "keys a row", "rerun");
    for (int set = 0; set < SETS; set++) {
        double graph = INFINITY;
        double direct = INFINITY;
        kith_report report;
        fill(set, &s, points);
        for (int run = 0; run < runs; run++) {
            graph = fmin(graph, graph_seconds(ctx, &m, sets[set].metric, &out, &report));
            direct = fmin(direct, direct_seconds(ctx, &m, sets[set].metric, &out));
        }
        plain = set == 0 ? graph : plain;
        printf("%-30s %6s %9.3f %9.2f %9.2f %11.1f %6.3f\n", sets[set].name, report.screen, graph,
               graph / plain, graph / direct, report.candidates, report.rerun_share);
        (void)fflush(stdout);
    }
    kith_ctx_free(ctx);
    free(out.distances);
    free(out.ids);
    free(points);
    return 0;
}
