/* SPDX-License-Identifier: Apache-2.0
 * The pipeline matrix on the processor against the fused engine, byte for byte: all metrics (those
 * without a product take the fused engine's way), all
 * methods of selection, graphs and searches, data on which orders go wrong, chunks of the corpus.
 * What a pipeline refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_engines.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { METRICS = KITH_KL - KITH_EUCLIDEAN + 1, METHODS = KITH_SELECT_THRESHOLD_HEAP + 1 };

/* ---- One job, by every method --------------------------------------------------------------- */

typedef struct run {
    kith_ctx *ctx;
    int cases;
    int wrong;
} run;

static bool is_product(kith_metric metric)
{
    return metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN || metric == KITH_COSINE ||
           metric == KITH_CORRELATION || metric == KITH_INNER_PRODUCT;
}

static void check_report(kith_ctx *ctx, kith_metric metric)
{
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    assert_string_equal(report.screen, is_product(metric) ? "matrix" : "direct");
    assert_int_equal(report.exact, 1);
}

static void compare_one(run *r, test_job job, kith_select_method method,
                        const kith_neighbors *wanted)
{
    char text[320];
    kith_neighbors got;
    job.pipeline = KITH_PIPELINE_MATRIX;
    job.select = method;
    const kith_status status = test_job_solve(r->ctx, &job, &got);
    test_job_text(&job, text, sizeof text);
    if (status != KITH_OK) {
        fail_msg("%s, method %d: %s", text, (int)method, kith_ctx_detail(r->ctx));
    }
    check_report(r->ctx, job.metric);
    r->cases += 1;
    r->wrong += test_answers_differ(text, wanted, &got);
    test_answer_free(&got);
}

/* methods: how many of them, AUTO first. */
static void compare(run *r, const test_job *job, int methods)
{
    kith_neighbors wanted;
    if (test_job_solve(r->ctx, job, &wanted) != KITH_OK) {
        fail_msg("fused: %s", kith_ctx_detail(r->ctx));
    }
    for (int method = 0; method < (is_product(job->metric) ? methods : 1); method++) {
        compare_one(r, *job, (kith_select_method)method, &wanted);
    }
    test_answer_free(&wanted);
}

static run run_make(void)
{
    return (run){.ctx = test_engine_best_ctx(0)};
}

static void run_end(run *r, const char *what)
{
    kith_ctx_free(r->ctx);
    if (r->wrong != 0) {
        fail_msg("%s: %d of %d cases differ from the fused engine's", what, r->wrong, r->cases);
    }
    printf("%s: %d cases are the fused engine's bytes\n", what, r->cases);
}

static test_rows made(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape,
                      kith_metric metric, uint64_t seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, 8);
    test_shape_fill(&r, shape, metric == KITH_CHI2 || metric == KITH_KL, &seed);
    return r;
}

/* ---- Metrics and methods -------------------------------------------------------------------- */

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
                      int64_t k, const char *name, int methods)
{
    const int64_t rows = points->matrix.rows;
    test_job job = {.name = name, .points = &points->matrix, .metric = metric};
    job.k = k < rows ? k : rows - 1;
    if (job.k > 0) {
        compare(r, &job, methods);
    }
    job.flags = KITH_INCLUDE_SELF;
    job.k = k < rows ? k : rows;
    compare(r, &job, methods);
    job.flags = 0;
    job.call = TEST_SEARCH;
    job.queries = &queries->matrix;
    compare(r, &job, methods);
    if (rows > 1) {
        uint32_t *exclude = excluded_ids(queries->matrix.rows, rows);
        job.exclude = exclude;
        job.k = k < rows ? k : rows - 1;
        compare(r, &job, methods);
        free(exclude);
    }
}

static void metrics_and_methods(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_GRID, SHAPE_SPARSE};
    run r = run_make();
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_KL; metric++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const kith_dtype dtype = s % 2 == 0 ? KITH_F32 : KITH_U8;
            test_rows points = made(dtype, 301, 13, shapes[s], (kith_metric)metric, 7 + s);
            test_rows queries = made(dtype, 37, 13, shapes[s], (kith_metric)metric, 70 + s);
            four_jobs(&r, &points, &queries, (kith_metric)metric, 10, test_shape_name(shapes[s]),
                      METHODS);
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    printf("%d metrics, %d methods\n", METRICS, METHODS);
    run_end(&r, "every metric by every method");
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 15, 16, 17, 255, 1000};
    static const int32_t cols[] = {1, 5, 128, 3000};
    run r = run_make();
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        for (size_t d = 0; d < sizeof cols / sizeof *cols; d++) {
            const kith_metric metric = n % 2 == 0 ? KITH_CORRELATION : KITH_EUCLIDEAN;
            test_rows points = made(KITH_F32, rows[n], cols[d], SHAPE_CLUSTERS, metric, n + 1);
            test_rows queries = made(KITH_F64, 1 + (int64_t)n, cols[d], SHAPE_CLUSTERS, metric, n);
            four_jobs(&r, &points, &queries, metric, 5, "clusters", 2);
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    run_end(&r, "1 to 1,000 rows of 1 to 3,000 columns");
}

static void every_k(void **state)
{
    (void)state;
    static const int64_t all[] = {1, 2, 31, 32, 33, 500, 2047, 2048, 2049, 2600};
    run r = run_make();
    test_rows points = made(KITH_U8, 2600, 6, SHAPE_GRID, KITH_EUCLIDEAN, 3);
    test_rows queries = made(KITH_U8, 9, 6, SHAPE_GRID, KITH_EUCLIDEAN, 4);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        test_job job = {.name = "grid",
                        .call = TEST_SEARCH,
                        .points = &points.matrix,
                        .queries = &queries.matrix,
                        .metric = KITH_EUCLIDEAN,
                        .k = all[i]};
        compare(&r, &job, METHODS);
    }
    test_rows_free(&queries);
    test_rows_free(&points);
    run_end(&r, "k from 1 to all 2,600 rows");
}

/* So many rows do not fit a batch of 16 queries into one matrix: chunks are merged, and copies of a
 * row stand in both. */
static void chunks_of(run *r, kith_metric metric, int64_t rows)
{
    enum { ASKED = 21, DIMS = 2 };
    test_rows points = made(KITH_U8, rows, DIMS, SHAPE_GAUSS, metric, 5);
    test_rows queries = made(KITH_U8, ASKED, DIMS, SHAPE_GAUSS, metric, 6);
    uint32_t *exclude = excluded_ids(ASKED, rows);
    test_job job = {.name = "gauss",
                    .call = TEST_SEARCH,
                    .points = &points.matrix,
                    .queries = &queries.matrix,
                    .metric = metric,
                    .k = 100};
    compare(r, &job, test_is_slow_build() ? 1 : METHODS);
    job.exclude = exclude;
    job.k = 5000;
    compare(r, &job, 1);
    free(exclude);
    test_rows_free(&queries);
    test_rows_free(&points);
}

static void chunks(void **state)
{
    (void)state;
    run r = run_make();
    chunks_of(&r, KITH_EUCLIDEAN, 1100000);
    run_end(&r, "chunks of a corpus of 1,100,000 rows");
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static void calls(void **state)
{
    (void)state;
    run r = run_make();
    test_rows points = made(KITH_F32, 400, 20, SHAPE_COPIES, KITH_COSINE, 8);
    test_rows queries = made(KITH_F32, 90, 20, SHAPE_COPIES, KITH_COSINE, 9);
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_MANHATTAN; metric++) {
        test_job job = {.name = "copies",
                        .call = TEST_BOTH,
                        .points = &points.matrix,
                        .queries = &queries.matrix,
                        .metric = (kith_metric)metric,
                        .k = 7};
        compare(&r, &job, 2);
        job.call = TEST_PREPARED;
        compare(&r, &job, 2);
    }
    test_rows_free(&queries);
    test_rows_free(&points);
    run_end(&r, "both directions, prepared corpora");
}

static void engines(kith_ctx *ctx, void *arg)
{
    run *r = arg;
    r->ctx = ctx;
    test_rows points = made(KITH_F16, 500, 33, SHAPE_NORMS, KITH_INNER_PRODUCT, 10);
    test_job job = {
        .name = "norms", .points = &points.matrix, .metric = KITH_INNER_PRODUCT, .k = 12};
    compare(r, &job, METHODS);
    test_rows_free(&points);
}

static void instruction_sets(void **state)
{
    (void)state;
    run r = {0};
    test_on_each_engine(engines, &r);
    assert_int_equal(r.wrong, 0);
    printf("every instruction set: %d cases are the fused engine's bytes\n", r.cases);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

static double not_a_number(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)arg;
    (void)cols;
    return *(const float *)query > *(const float *)point ? NAN : 1.0;
}

static void refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(0);
    test_rows points = made(KITH_F32, 50, 3, SHAPE_GAUSS, KITH_EUCLIDEAN, 11);
    kith_search_params params = kith_search_params_default();
    params.k = 3;
    params.pipeline = KITH_PIPELINE_COUNT;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT, "no pipeline");
    params.pipeline = KITH_PIPELINE_MATRIX;
    params.select = (kith_select_method)METHODS;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT, "no method of selection");
    params.select = KITH_SELECT_HEAP;
    params.pipeline = KITH_PIPELINE_FUSED;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT,
                       "the pipeline matrix alone has a choice");
    params.select = KITH_SELECT_AUTO;
    params.pipeline = KITH_PIPELINE_HYBRID;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_UNSUPPORTED,
                       "the device cpu was asked for");
    params.sample = 1025;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT, "must be 0 to 1024");
    params.sample = 8;
    params.pipeline = KITH_PIPELINE_MATRIX;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT,
                       "the pipeline hybrid alone has one");
    params.sample = 0;
    params.batch = 100;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT,
                       "batch is 100, and the pipeline");
    params.pipeline = KITH_PIPELINE_FUSED;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT,
                       "batch is 100, and the pipeline");
    params.pipeline = KITH_PIPELINE_HYBRID;
    for (int i = 0; i < 3; i++) {
        static const int32_t wrong[] = {-1, (1 << 22) + 1, INT32_MIN};
        params.batch = wrong[i];
        test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT, "must be 0 to 4194304");
    }
    params.batch = 0;
    params.pipeline = KITH_PIPELINE_MATRIX;
    params.metric = KITH_CUSTOM;
    params.custom = not_a_number;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_DATA, "custom gave NaN for query");
    test_rows_free(&points);
    kith_ctx_free(ctx);
    printf("wrong numbers, a method without a matrix, hybrid without a GPU, NaN: refused\n");
}

/* What is planned is what is held at most, also where the matrix is cut into strips. */
static void plans(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(0);
    const int64_t rows = test_is_sanitized_build() ? 2500 : 6000;
    test_rows points = made(KITH_F32, rows, 8, SHAPE_GAUSS, KITH_EUCLIDEAN, 12);
    kith_search_params params = kith_search_params_default();
    params.k = 20;
    params.pipeline = KITH_PIPELINE_MATRIX;
    kith_plan plan = {.struct_size = sizeof plan};
    assert_int_equal(kith_plan_search(ctx, &points.matrix, NULL, &params, &plan), KITH_OK);
    assert_string_equal(plan.method, "matrix");
    for (int method = 0; method < METHODS; method++) {
        params.select = (kith_select_method)method;
        kith_neighbors out = test_answer_make(points.matrix.rows, params.k);
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(kith_graph(ctx, &points.matrix, &params, &out, NULL), KITH_OK);
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        printf("method %d: held %.1f MB, planned %.1f MB\n", method,
               (double)report.peak_bytes / 1e6, (double)plan.peak_bytes / 1e6);
        assert_true(report.peak_bytes <= plan.peak_bytes);
        test_answer_free(&out);
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_and_methods),
        cmocka_unit_test(sizes),
        cmocka_unit_test(every_k),
        cmocka_unit_test(chunks),
        cmocka_unit_test(calls),
        cmocka_unit_test(instruction_sets),
        cmocka_unit_test(refusals),
        cmocka_unit_test(plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
