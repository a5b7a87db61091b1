/* SPDX-License-Identifier: Apache-2.0
 * The pipelines matrix and hybrid on a GPU against the fused one on the processor, byte for byte:
 * metrics, types, methods of selection, every k, data on which lists overflow, small budgets, many
 * batches, every division of hybrid's selection between processor and GPU, every sample and every
 * batch of it.
 * KITH_DATA: real data, whole graphs by all three. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/api_check.h"
#include "engine/engine_call.h"
#include "exact/exact_search_gpu.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_corpora.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

static const kith_metric metrics[] = {KITH_EUCLIDEAN,   KITH_INNER_PRODUCT, KITH_COSINE,
                                      KITH_CORRELATION, KITH_MANHATTAN,     KITH_KL};
static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64, KITH_F16, KITH_I8, KITH_BF16};
enum { METRICS = 6, DTYPES = 6, METHODS = KITH_SELECT_METHOD_COUNT };

typedef struct pair {
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_tally tally;
} pair;

static pair pair_make(uint64_t gpu_memory)
{
    return (pair){.cpu = test_cpu_ctx(), .gpu = test_gpu_ctx(0, gpu_memory)};
}

static void pair_end(pair *p, const char *what)
{
    kith_ctx_free(p->cpu);
    kith_ctx_free(p->gpu);
    test_tally_end(&p->tally, what);
}

static test_rows made(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape,
                      kith_metric metric, uint64_t seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, 0);
    test_shape_fill(&r, shape, metric == KITH_CHI2 || metric == KITH_KL, &seed);
    return r;
}

static void by_both(pair *p, test_job job)
{
    job.pipeline = KITH_PIPELINE_MATRIX;
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    job.pipeline = KITH_PIPELINE_HYBRID;
    job.select = KITH_SELECT_AUTO;
    test_compare(p->cpu, p->gpu, &job, &p->tally);
}

static int64_t many_rows(void)
{
    return test_is_slow_build() ? 2500 : 9000;
}

/* Graph, graph with own ids, search, search that leaves ids out, both directions, prepared. */
static void all_calls(pair *p, const test_rows *points, const test_rows *queries, test_job job)
{
    const int64_t rows = points->matrix.rows;
    const int64_t asked = queries->matrix.rows;
    uint32_t *exclude = malloc((size_t)asked * sizeof *exclude);
    assert_non_null(exclude);
    for (int64_t i = 0; i < asked; i++) {
        exclude[i] = i % 3 == 0 ? KITH_ID_NONE : (uint32_t)(i * 7 % rows);
    }
    job.points = &points->matrix;
    by_both(p, job);
    job.flags = KITH_INCLUDE_SELF;
    by_both(p, job);
    job.flags = 0;
    job.queries = &queries->matrix;
    job.call = TEST_SEARCH;
    by_both(p, job);
    job.exclude = exclude;
    by_both(p, job);
    job.call = TEST_PREPARED;
    by_both(p, job);
    job.exclude = NULL;
    if (asked >= job.k) {
        job.call = TEST_BOTH;
        by_both(p, job);
    }
    free(exclude);
}

/* ---- Metrics, types, shapes ------------------------------------------------------------------ */

static void metrics_and_types(void **state)
{
    (void)state;
    pair p = pair_make(0);
    for (int m = 0; m < METRICS; m++) {
        for (int d = 0; d < DTYPES; d++) {
            test_rows points =
                made(dtypes[d], 700, 24, SHAPE_GAUSS, metrics[m], (uint64_t)(m * DTYPES + d));
            test_rows queries =
                made(dtypes[d], 70, 24, SHAPE_GAUSS, metrics[m], (uint64_t)(m * DTYPES + d) + 99);
            all_calls(&p, &points, &queries,
                      (test_job){.name = "gauss", .metric = metrics[m], .k = 10});
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    pair_end(&p, "metrics and types");
}

static void shapes(void **state)
{
    (void)state;
    pair p = pair_make(0);
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        const kith_metric metric = metrics[shape % 4];
        const kith_dtype dtype = shape % 2 == 0 ? KITH_F32 : KITH_U8;
        test_rows points = made(dtype, 1500, 16, (test_shape)shape, metric, (uint64_t)shape + 7);
        test_rows queries = made(dtype, 300, 16, (test_shape)shape, metric, (uint64_t)shape + 70);
        all_calls(&p, &points, &queries,
                  (test_job){.name = test_shape_name((test_shape)shape), .metric = metric, .k = 7});
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    pair_end(&p, "data of every shape");
}

/* ---- Methods, k, sizes ----------------------------------------------------------------------- */

static void methods(void **state)
{
    (void)state;
    pair p = pair_make(0);
    static const int64_t k[] = {1, 10, 100, 1000};
    const int64_t rows = test_is_slow_build() ? 1100 : 3000;
    for (int d = 0; d < 2; d++) {
        test_rows points = made(dtypes[d], rows, 32, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 5);
        for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
            for (int method = 0; method < METHODS; method++) {
                test_job job = {.name = "clusters",
                                .points = &points.matrix,
                                .k = k[i],
                                .pipeline = KITH_PIPELINE_MATRIX,
                                .select = (kith_select_method)method};
                test_compare(p.cpu, p.gpu, &job, &p.tally);
                job.metric = KITH_MANHATTAN;
                test_compare(p.cpu, p.gpu, &job, &p.tally);
            }
        }
        test_rows_free(&points);
    }
    pair_end(&p, "every method of selection");
}

static void every_k(void **state)
{
    (void)state;
    static const int64_t all[] = {1, 2, 31, 32, 33, 255, 256, 1023, 2047, 2048, 2049, 2999};
    pair p = pair_make(0);
    test_rows points = made(KITH_F32, 3000, 12, SHAPE_GAUSS, KITH_COSINE, 15);
    test_rows queries = made(KITH_F32, 40, 12, SHAPE_GAUSS, KITH_COSINE, 16);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int m = 0; m < 3; m++) {
            test_job job = {.name = "gauss",
                            .call = TEST_SEARCH,
                            .points = &points.matrix,
                            .queries = &queries.matrix,
                            .metric = metrics[2 * m],
                            .k = all[i]};
            by_both(&p, job);
        }
    }
    test_rows_free(&queries);
    test_rows_free(&points);
    pair_end(&p, "k from 1 to 2,999 of 3,000");
}

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 127, 128, 129, 255, 256, 257, 511, 513, 1025, 4100};
    static const int32_t cols[] = {1, 3, 128, 130};
    pair p = pair_make(0);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        for (size_t d = 0; d < sizeof cols / sizeof *cols; d++) {
            const kith_metric metric = metrics[(n + d) % 4];
            const kith_dtype dtype = dtypes[(n + d) % DTYPES];
            test_rows points = made(dtype, rows[n], cols[d], SHAPE_GAUSS, metric, n + 20);
            test_rows queries = made(dtype, 1 + (int64_t)n * 60, cols[d], SHAPE_GAUSS, metric, n);
            test_job job = {.name = "gauss",
                            .points = &points.matrix,
                            .metric = metric,
                            .flags = KITH_INCLUDE_SELF,
                            .k = rows[n] < 9 ? rows[n] : 9};
            by_both(&p, job);
            job.call = TEST_SEARCH;
            job.flags = 0;
            job.queries = &queries.matrix;
            by_both(&p, job);
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    pair_end(&p, "1 to 4,100 rows of 1 to 130 columns");
}

/* ---- Division of the selection --------------------------------------------------------------- */

/* A graph by the pipeline hybrid; share: of the rows, the processor's, NULL: by measured rates. */
static kith_status hybrid_graph(kith_ctx *ctx, const test_job *job, const double *share,
                                const kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    kin_gpu *gpu = NULL;
    kin_knn_job own;
    kin_call call;
    params.metric = job->metric;
    params.k = job->k;
    params.pipeline = KITH_PIPELINE_HYBRID;
    params.sample = job->sample;
    assert_int_equal(kin_call_begin(ctx, &call), KITH_OK);
    kith_status status = kin_api_check_graph(ctx, job->points, &params, out, &own);
    if (status == KITH_OK) {
        status = kin_device_enter_gpu(ctx, kin_gpu_first(), &gpu);
    }
    if (status == KITH_OK) {
        own.request.share = share;
        const kin_exact_gpu_query query = {.name = "points", .request = &own.request, .out = out};
        status = kin_exact_gpu_search(ctx, gpu, &own.corpus, &query);
        kin_device_leave(ctx, gpu);
    }
    return kin_call_end(&call, status);
}

static void one_division(pair *p, const test_job *job, const kith_neighbors *wanted,
                         const double *share)
{
    char text[320];
    kith_report report = {.struct_size = sizeof report};
    const int64_t rows = job->points->rows;
    kith_neighbors got = test_answer_make(rows, job->k);
    assert_int_equal(hybrid_graph(p->gpu, job, share, &got), KITH_OK);
    assert_int_equal(kith_ctx_report(p->gpu, &report), KITH_OK);
    const int64_t selected = report.select_cpu_rows + report.select_gpu_rows;
    test_job_text(job, text, sizeof text);
    p->tally.cases += 1;
    p->tally.wrong += test_answers_differ(text, wanted, &got);
    assert_true(selected > 0 && selected <= rows); /* equal rows are one */
    assert_true(share == NULL || *share > 0.0 || report.select_cpu_rows == 0);
    assert_true(share == NULL || *share < 1.0 || report.select_gpu_rows == 0);
    assert_true(share == NULL || *share != 0.5 ||
                (report.select_cpu_rows > 0 && report.select_gpu_rows > 0));
    if (share == NULL) {
        printf("  by rates: %.1f %% of %d rows on the processor: %s\n",
               100.0 * (double)report.select_cpu_rows / (double)selected, (int)selected, text);
    }
    test_answer_free(&got);
}

static void every_division(pair *p, const test_job *job)
{
    static const double shares[] = {0.0, 0.03, 0.5, 1.0};
    kith_neighbors wanted;
    assert_int_equal(test_job_solve(p->cpu, job, &wanted), KITH_OK);
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        one_division(p, job, &wanted, &shares[s]);
    }
    one_division(p, job, &wanted, NULL);
    test_answer_free(&wanted);
}

/* In one batch and in many; lists that overflow, equal rows, integer costs. */
static void divisions(void **state)
{
    enum { PRODUCTS = 4 };
    (void)state;
    static const uint64_t mebibytes[] = {0, 48};
    static const test_shape kinds[] = {SHAPE_GAUSS, SHAPE_CLUSTERS, SHAPE_COPIES};
    for (int b = 0; b < 2; b++) {
        pair p = pair_make(mebibytes[b] << 20);
        for (int i = 0; i < 3 * PRODUCTS; i++) {
            const kith_metric metric = metrics[i % PRODUCTS];
            const kith_dtype dtype = dtypes[(i / PRODUCTS + i) % 2];
            test_rows points =
                made(dtype, many_rows(), 20, kinds[i / PRODUCTS], metric, (uint64_t)i);
            test_job job = {.name = test_shape_name(kinds[i / PRODUCTS]),
                            .points = &points.matrix,
                            .metric = metric,
                            .k = i % 2 == 0 ? 10 : 200};
            every_division(&p, &job);
            test_rows_free(&points);
        }
        pair_end(&p, b == 0 ? "every division of the selection" : "the same in many batches");
    }
}

static void samples(void **state)
{
    (void)state;
    static const int32_t times[] = {1, 2, 8, 64, 1024};
    pair p = pair_make(0);
    test_rows points = made(KITH_F32, many_rows(), 20, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 41);
    for (size_t s = 0; s < sizeof times / sizeof *times; s++) {
        for (int m = 0; m < METRICS; m++) {
            test_job job = {.name = "clusters",
                            .points = &points.matrix,
                            .metric = metrics[m] == KITH_KL ? KITH_CHEBYSHEV : metrics[m],
                            .k = m % 2 == 0 ? 10 : 300,
                            .pipeline = KITH_PIPELINE_HYBRID,
                            .sample = times[s]};
            test_compare(p.cpu, p.gpu, &job, &p.tally);
        }
    }
    test_rows_free(&points);
    pair_end(&p, "samples of 1 to 1,024 times k columns");
}

static uint64_t peak_of(kith_ctx *ctx, const test_job *job)
{
    kith_neighbors out;
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(test_job_solve(ctx, job, &out), KITH_OK);
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    test_answer_free(&out);
    return report.gpu_peak_bytes;
}

/* A batch is what it is asked to be: all rows take more memory than some. */
static void fewer_take_less(const pair *p, test_job job)
{
    const uint64_t all = peak_of(p->gpu, &job);
    job.batch = 256;
    const uint64_t some = peak_of(p->gpu, &job);
    printf("  %.1f MB in batches of 256 queries, %.1f of all\n", (double)some / 1e6,
           (double)all / 1e6);
    assert_true(some < all);
}

/* Queries of a batch: the paper's, those about a block, more than there are; graphs and searches,
 * also of a metric without a product, which is not divided. */
static void batches(void **state)
{
    (void)state;
    static const int32_t most[] = {1, 4, 16, 255, 256, 257, 1000, 1 << 22};
    pair p = pair_make(0);
    test_rows points = made(KITH_F32, 1100, 20, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 43);
    test_rows queries = made(KITH_F32, 530, 20, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 44);
    for (size_t b = 0; b < sizeof most / sizeof *most; b++) {
        for (int m = 0; m < METRICS - 1; m++) {
            test_job job = {.name = "clusters",
                            .points = &points.matrix,
                            .metric = metrics[m],
                            .k = m % 2 == 0 ? 10 : 200,
                            .pipeline = KITH_PIPELINE_HYBRID,
                            .batch = most[b]};
            test_compare(p.cpu, p.gpu, &job, &p.tally);
            job.call = TEST_SEARCH;
            job.queries = &queries.matrix;
            test_compare(p.cpu, p.gpu, &job, &p.tally);
        }
    }
    test_rows_free(&queries);
    test_rows_free(&points);
    points = made(KITH_F32, 3000, 20, SHAPE_GAUSS, KITH_EUCLIDEAN, 45);
    fewer_take_less(
        &p, (test_job){.points = &points.matrix, .k = 10, .pipeline = KITH_PIPELINE_HYBRID});
    test_rows_free(&points);
    pair_end(&p, "batches of 1 to 4,194,304 queries");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Batches of rows, chunks of columns, chunks of the corpus. */
static void budgets(void **state)
{
    (void)state;
    static const uint64_t mebibytes[] = {3, 5, 8, 16, 40};
    test_rows points = made(KITH_F32, 6000, 40, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 31);
    for (size_t b = 0; b < sizeof mebibytes / sizeof *mebibytes; b++) {
        pair p = pair_make(mebibytes[b] << 20);
        test_job job = {.name = "clusters", .points = &points.matrix, .k = 10};
        char what[64];
        for (int m = 0; m < 5; m += 4) {
            job.metric = metrics[m];
            job.pipeline = KITH_PIPELINE_MATRIX;
            test_compare_fitting(p.cpu, p.gpu, &job, true, &p.tally);
            job.pipeline = KITH_PIPELINE_HYBRID;
            test_compare_fitting(p.cpu, p.gpu, &job, true, &p.tally);
        }
        (void)snprintf(what, sizeof what, "a budget of %d MiB", (int)mebibytes[b]);
        pair_end(&p, what);
    }
    test_rows_free(&points);
}

static int stop(void *arg, const char *phase, double done, double total)
{
    int *calls = arg;
    (void)phase;
    (void)done;
    (void)total;
    return ++*calls > 1;
}

static void cancelled(void **state)
{
    (void)state;
    for (int pipeline = KITH_PIPELINE_MATRIX; pipeline <= KITH_PIPELINE_HYBRID; pipeline++) {
        int calls = 0;
        kith_ctx_params ctx_params = kith_ctx_params_default();
        ctx_params.device = "cuda";
        ctx_params.progress = stop;
        ctx_params.progress_arg = &calls;
        ctx_params.gpu_memory_limit = 64u << 20;
        kith_ctx *ctx = NULL;
        assert_int_equal(kith_ctx_create(&ctx_params, &ctx), KITH_OK);
        test_rows points = made(KITH_F32, 60000, 64, SHAPE_GAUSS, KITH_EUCLIDEAN, 51);
        test_job job = {.points = &points.matrix, .k = 10, .pipeline = (kith_pipeline)pipeline};
        kith_neighbors out;
        assert_int_equal(test_job_solve(ctx, &job, &out), KITH_E_CANCELLED);
        test_answer_free(&out);
        test_rows_free(&points);
        kith_ctx_free(ctx);
    }
    printf("matrix and hybrid stop when they are told to\n");
}

/* ---- Names, real data ------------------------------------------------------------------------ */

static void reports(void **state)
{
    (void)state;
    static const char *const names[] = {"", "matrix", "hybrid"};
    kith_ctx *ctx = test_gpu_ctx(0, 0);
    test_rows points = made(KITH_F32, 2000, 16, SHAPE_GAUSS, KITH_EUCLIDEAN, 61);
    for (int pipeline = KITH_PIPELINE_MATRIX; pipeline <= KITH_PIPELINE_HYBRID; pipeline++) {
        test_job job = {.points = &points.matrix, .k = 10, .pipeline = (kith_pipeline)pipeline};
        kith_neighbors out;
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(test_job_solve(ctx, &job, &out), KITH_OK);
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        assert_string_equal(report.screen, names[pipeline]);
        assert_int_equal(report.exact, 1);
        assert_true(report.seconds_select > 0.0);
        printf("%s: %.1f candidates a row, %.2f %% of the rows overflowed\n", names[pipeline],
               report.candidates, 100.0 * report.rerun_share);
        test_answer_free(&out);
        job.metric = KITH_MANHATTAN; /* has no costs: keys of all pairs, as without a pipeline */
        assert_int_equal(test_job_solve(ctx, &job, &out), KITH_OK);
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        assert_string_equal(report.screen, "direct");
        test_answer_free(&out);
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

static void one_corpus(const char *path, const char *name, void *arg)
{
    pair *p = arg;
    kith_points *points = NULL;
    assert_int_equal(kith_points_open(p->cpu, path, NULL, &points), KITH_OK);
    const kith_matrix *matrix = kith_points_matrix(points);
    test_job job = {.name = name, .points = matrix, .k = 10};
    printf("%s\n", name);
    (void)fflush(stdout);
    by_both(p, job);
    kith_points_free(points);
}

static void real_data(void **state)
{
    (void)state;
    test_need_corpora();
    pair p = pair_make(0);
    test_each_corpus(one_corpus, &p);
    pair_end(&p, "graphs of real data");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_and_types), cmocka_unit_test(shapes),  cmocka_unit_test(methods),
        cmocka_unit_test(every_k),           cmocka_unit_test(sizes),   cmocka_unit_test(divisions),
        cmocka_unit_test(samples),           cmocka_unit_test(batches), cmocka_unit_test(budgets),
        cmocka_unit_test(cancelled),         cmocka_unit_test(reports), cmocka_unit_test(real_data),
    };
    if (test_gpu_is_absent()) {
        return TEST_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
