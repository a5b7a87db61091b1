/* SPDX-License-Identifier: Apache-2.0
 * The tree against the exact engine, byte for byte: metrics, types, columns, k, data on which
 * bounds and orders go wrong, graphs and searches, own and excluded ids, equal rows, tiny sets, all
 * instruction sets. What the tree refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_engines.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const kith_metric METRICS[] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_MANHATTAN,
                                      KITH_CHEBYSHEV};
enum { METRIC_COUNT = sizeof METRICS / sizeof METRICS[0] };

/* ---- One job, by both engines --------------------------------------------------------------- */

typedef struct run {
    kith_ctx *ctx;
    int cases;
    int wrong;
} run;

static kith_status solve(kith_ctx *ctx, const test_job *job, kith_method method,
                         kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    params.metric = job->metric;
    params.k = job->k;
    params.flags = job->flags;
    params.exclude = job->exclude;
    params.method = method;
    *out = test_answer_make(job->queries != NULL ? job->queries->rows : job->points->rows, job->k);
    return job->queries != NULL ? kith_knn_exact(ctx, job->points, job->queries, &params, out)
                                : kith_graph_exact(ctx, job->points, &params, out);
}

static void compare(run *r, test_job job)
{
    char text[320];
    kith_neighbors wanted;
    kith_neighbors got;
    kith_report report = {.struct_size = sizeof report};
    job.call = job.queries != NULL ? TEST_SEARCH : TEST_GRAPH;
    test_job_text(&job, text, sizeof text);
    if (solve(r->ctx, &job, KITH_METHOD_EXACT, &wanted) != KITH_OK) {
        fail_msg("exact: %s: %s", text, kith_ctx_detail(r->ctx));
    }
    if (solve(r->ctx, &job, KITH_METHOD_TREE, &got) != KITH_OK) {
        fail_msg("tree: %s: %s", text, kith_ctx_detail(r->ctx));
    }
    assert_int_equal(kith_ctx_report(r->ctx, &report), KITH_OK);
    assert_string_equal(report.screen, "tree");
    assert_int_equal(report.exact, 1);
    r->cases += 1;
    r->wrong += test_answers_differ(text, &wanted, &got);
    test_answer_free(&got);
    test_answer_free(&wanted);
}

static void run_end(run *r, const char *what)
{
    if (r->wrong != 0) {
        fail_msg("%s: %d of %d cases differ from the exact engine's", what, r->wrong, r->cases);
    }
    printf("%s: %d cases are the exact engine's bytes\n", what, r->cases);
}

static test_rows made(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape, uint64_t seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, 8);
    test_shape_fill(&r, shape, false, &seed);
    return r;
}

static uint32_t *excluded_ids(int64_t queries, int64_t rows)
{
    uint32_t *ids = malloc((size_t)queries * sizeof *ids);
    assert_non_null(ids);
    for (int64_t i = 0; i < queries; i++) {
        ids[i] = i % 3 == 0 ? KITH_ID_NONE : (uint32_t)(i % rows);
    }
    return ids;
}

/* Graph with and without own ids; search with and without excluded ids. */
static void four_jobs(run *r, const test_rows *points, const test_rows *queries, kith_metric metric,
                      int64_t k, const char *name)
{
    const int64_t rows = points->matrix.rows;
    const int64_t fewer = k < rows ? k : rows - 1;
    test_job job = {.name = name, .points = &points->matrix, .metric = metric, .k = fewer};
    if (fewer > 0) {
        compare(r, job);
    }
    job.flags = KITH_INCLUDE_SELF;
    job.k = k < rows ? k : rows;
    compare(r, job);
    job.flags = 0;
    job.queries = &queries->matrix;
    compare(r, job);
    if (fewer > 0) {
        uint32_t *exclude = excluded_ids(queries->matrix.rows, rows);
        job.exclude = exclude;
        job.k = fewer;
        compare(r, job);
        free(exclude);
    }
}

/* ---- Data ----------------------------------------------------------------------------------- */

static void shapes_of(kith_ctx *ctx, void *arg)
{
    run *r = arg;
    r->ctx = ctx;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_U8, KITH_BF16, KITH_I8};
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (int m = 0; m < METRIC_COUNT; m++) {
            const kith_dtype dtype = dtypes[(shape + m) % 6];
            const int32_t cols = 1 + (shape * 5 + m * 3) % 19;
            test_rows points = made(dtype, 601, cols, (test_shape)shape, 7 + (uint64_t)shape);
            test_rows queries = made(dtype, 61, cols, (test_shape)shape, 70 + (uint64_t)shape);
            four_jobs(r, &points, &queries, METRICS[m], 10, test_shape_name((test_shape)shape));
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
}

static void shapes(void **state)
{
    (void)state;
    run r = {0};
    test_on_each_engine(shapes_of, &r);
    run_end(&r, "every shape of data, metric and instruction set");
}

static void types(void **state)
{
    (void)state;
    run r = {.ctx = test_engine_best_ctx(0)};
    for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
        for (int other = KITH_F32; other <= KITH_I8; other++) {
            for (int shape = SHAPE_GAUSS; shape <= SHAPE_OUTLIER; shape++) {
                test_rows points = made((kith_dtype)dtype, 300, 4, (test_shape)shape, 3);
                test_rows queries = made((kith_dtype)other, 33, 4, (test_shape)shape, 4);
                test_job job = {.name = test_shape_name((test_shape)shape),
                                .points = &points.matrix,
                                .queries = &queries.matrix,
                                .metric = METRICS[(dtype + other) % METRIC_COUNT],
                                .k = 9};
                compare(&r, job);
                test_rows_free(&queries);
                test_rows_free(&points);
            }
        }
    }
    run_end(&r, "types of points and queries");
    kith_ctx_free(r.ctx);
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 15, 16, 17, 48, 49, 64, 65, 97, 1000};
    run r = {.ctx = test_engine_best_ctx(0)};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        for (int32_t cols = 1; cols <= 33; cols += cols < 18 ? 1 : 5) {
            test_rows points = made(KITH_F32, rows[n], cols, SHAPE_GAUSS, 5);
            test_rows queries = made(KITH_F32, 17, cols, SHAPE_GAUSS, 6);
            four_jobs(&r, &points, &queries, METRICS[(size_t)cols % METRIC_COUNT], rows[n],
                      "all of them");
            four_jobs(&r, &points, &queries, METRICS[n % METRIC_COUNT], 3, "three");
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    run_end(&r, "1 to 1,000 rows, 1 to 33 columns, k up to all");
    kith_ctx_free(r.ctx);
}

static void many_neighbours(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 2, 31, 47, 48, 49, 100, 1023, 1024};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_EQUAL, SHAPE_COPIES,
                                      SHAPE_LINE};
    run r = {.ctx = test_engine_best_ctx(0)};
    for (size_t s = 0; s < sizeof data / sizeof *data; s++) {
        test_rows points = made(KITH_F32, 3000, 12, data[s], 8);
        test_rows queries = made(KITH_F32, 40, 12, data[s], 9);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            four_jobs(&r, &points, &queries, METRICS[i % METRIC_COUNT], ks[i],
                      test_shape_name(data[s]));
        }
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    run_end(&r, "k from 1 to 1,024");
    kith_ctx_free(r.ctx);
}

/* ---- Places where trees go wrong ---------------------------------------------------------------
 */

/* Points on split planes whose distances tie: an integer grid, in order and shuffled. */
static void grids(void **state)
{
    (void)state;
    enum { SIDE = 14, ROWS = SIDE * SIDE * SIDE };
    run r = {.ctx = test_engine_best_ctx(0)};
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        test_rows points = test_rows_make(KITH_U8, ROWS, 3, 0);
        for (int64_t i = 0; i < ROWS; i++) {
            const int64_t place = shuffled ? i * 1009 % ROWS : i;
            test_rows_set(&points, i, 0, (double)(place % SIDE));
            test_rows_set(&points, i, 1, (double)(place / SIDE % SIDE));
            test_rows_set(&points, i, 2, (double)(place / SIDE / SIDE));
        }
        for (int m = 0; m < METRIC_COUNT; m++) {
            four_jobs(&r, &points, &points, METRICS[m], 7, "grid of 14^3");
        }
        test_rows_free(&points);
    }
    run_end(&r, "ties on split planes");
    kith_ctx_free(r.ctx);
}

/* Constant columns, all on one line, far outside, tiny and huge numbers. */
static void set_case(const test_rows *rows, int which, uint64_t *seed)
{
    for (int64_t i = 0; i < rows->matrix.rows; i++) {
        const double t = test_gauss(seed);
        for (int32_t c = 0; c < rows->matrix.cols; c++) {
            const double x = test_gauss(seed);
            const double values[] = {c == 1 ? x : 3.5,
                                     t * (c + 1),
                                     i % 50 == 0 ? 1e8 * x : x,
                                     x * 0x1p-140,
                                     x * 1e37,
                                     i == 7 ? 1e30 : x,
                                     i % 2 == 0 ? x * 1e-20 : x * 1e20,
                                     1e4 + 1e-3 * x};
            test_rows_set(rows, i, c, values[which]);
        }
    }
}

static void extremes(void **state)
{
    (void)state;
    static const char *const names[] = {"constant columns", "on a line", "far outside",
                                        "subnormals",       "huge",      "one at 1e30",
                                        "both ends",        "offset"};
    run r = {.ctx = test_engine_best_ctx(0)};
    uint64_t seed = 11;
    for (int which = 0; which < 8; which++) {
        for (int m = 0; m < METRIC_COUNT; m++) {
            for (int wide = 0; wide < 2; wide++) {
                test_rows points = test_rows_make(wide ? KITH_F64 : KITH_F32, 500, 5, 0);
                test_rows queries = test_rows_make(KITH_F32, 64, 5, 0);
                set_case(&points, which, &seed);
                set_case(&queries, which, &seed);
                four_jobs(&r, &points, &queries, METRICS[m], 6, names[which]);
                test_rows_free(&queries);
                test_rows_free(&points);
            }
        }
    }
    run_end(&r, "constant, collinear, distant, subnormal and huge data");
    kith_ctx_free(r.ctx);
}

/* Doubles at the ends of their range: keys that underflow are ordered by id. */
static void doubles(void **state)
{
    (void)state;
    static const double scales[] = {1e-160, 1e-300, 0x1p499, 0x1p-1060};
    run r = {.ctx = test_engine_best_ctx(0)};
    uint64_t seed = 13;
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        for (int m = 0; m < METRIC_COUNT; m++) {
            test_rows points = test_rows_make(KITH_F64, 300, 3, 0);
            test_rows_fill(&points, scales[s], 0, &seed);
            four_jobs(&r, &points, &points, METRICS[m], 5, "ends of double");
            test_rows_free(&points);
        }
    }
    run_end(&r, "float64 from 2^-1060 to 2^499");
    kith_ctx_free(r.ctx);
}

/* ---- What is refused --------------------------------------------------------------------------
 */

static void refuses(kith_ctx *ctx, const kith_matrix *points, kith_search_params params,
                    kith_status status, const char *says)
{
    kith_neighbors out = test_answer_make(points->rows, params.k);
    assert_int_equal(kith_graph_exact(ctx, points, &params, &out), status);
    if (strstr(kith_ctx_detail(ctx), says) == NULL) {
        fail_msg("'%s' does not say '%s'", kith_ctx_detail(ctx), says);
    }
    test_answer_free(&out);
}

static void refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(0);
    test_rows points = made(KITH_F32, 50, 3, SHAPE_GAUSS, 16);
    kith_search_params params = kith_search_params_default();
    params.k = 3;
    params.method = (kith_method)3;
    refuses(ctx, &points.matrix, params, KITH_E_ARGUMENT, "no method");
    params.method = KITH_METHOD_TREE;
    params.pipeline = KITH_PIPELINE_MATRIX;
    refuses(ctx, &points.matrix, params, KITH_E_ARGUMENT, "pipeline");
    params.pipeline = KITH_PIPELINE_FUSED;
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_KL; metric++) {
        const bool has = metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN ||
                         metric == KITH_MANHATTAN || metric == KITH_CHEBYSHEV;
        params.metric = (kith_metric)metric;
        if (!has) {
            refuses(ctx, &points.matrix, params, KITH_E_ARGUMENT,
                    kith_metric_name((kith_metric)metric));
        }
    }
    params.metric = KITH_EUCLIDEAN;
    kith_neighbors out = test_answer_make(50, 3);
    kith_neighbors back = test_answer_make(50, 3);
    assert_int_equal(kith_knn_both(ctx, &points.matrix, &points.matrix, &params, &out, &back),
                     KITH_E_UNSUPPORTED);
    kith_corpus *corpus = NULL;
    assert_int_equal(kith_corpus_create(ctx, &points.matrix, KITH_EUCLIDEAN, &corpus), KITH_OK);
    assert_int_equal(kith_corpus_search(ctx, corpus, &points.matrix, &params, &out),
                     KITH_E_UNSUPPORTED);
    kith_corpus_free(corpus);
    test_answer_free(&back);
    test_answer_free(&out);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    printf("wrong numbers, metrics and pipelines without a tree, both directions, prepared "
           "corpora: refused\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),          cmocka_unit_test(types),    cmocka_unit_test(sizes),
        cmocka_unit_test(many_neighbours), cmocka_unit_test(grids),    cmocka_unit_test(extremes),
        cmocka_unit_test(doubles),         cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
