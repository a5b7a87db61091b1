/* SPDX-License-Identifier: Apache-2.0
 * The pipeline matrix on the processor where its matrix holds rounded costs: their bound. Bytes of
 * the fused engine on every shape, dtype, metric and several k; keys that differ in the last bits
 * alone, where costs are noise; how few are rescored; values at the ends of the doubles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_engines.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct run {
    kith_ctx *ctx;
    int cases;
    int wrong;
    double candidates; /* of the last job, a row */
} run;

static void compare(run *r, test_job job)
{
    char text[320];
    kith_neighbors wanted;
    kith_neighbors got;
    kith_report report = {.struct_size = sizeof report};
    test_job_text(&job, text, sizeof text);
    if (test_job_solve(r->ctx, &job, &wanted) != KITH_OK) {
        fail_msg("%s, fused: %s", text, kith_ctx_detail(r->ctx));
    }
    job.pipeline = KITH_PIPELINE_MATRIX;
    job.select = KITH_SELECT_QUICK;
    if (test_job_solve(r->ctx, &job, &got) != KITH_OK) {
        fail_msg("%s: %s", text, kith_ctx_detail(r->ctx));
    }
    assert_int_equal(kith_ctx_report(r->ctx, &report), KITH_OK);
    /* Metrics without a product have no costs that could be written. */
    assert_string_equal(report.screen, job.metric < KITH_MANHATTAN ? "matrix" : "direct");
    r->candidates = report.candidates;
    r->cases += 1;
    r->wrong += test_answers_differ(text, &wanted, &got);
    test_answer_free(&got);
    test_answer_free(&wanted);
}

static void run_end(run *r, const char *what)
{
    kith_ctx_free(r->ctx);
    if (r->wrong != 0) {
        fail_msg("%s: %d of %d cases differ from the fused engine's", what, r->wrong, r->cases);
    }
    printf("%s: %d cases are the fused engine's bytes\n", what, r->cases);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* A graph, and searches without and with excluded ids. */
static void three_jobs(run *r, const test_rows *points, const test_rows *queries,
                       kith_metric metric, int64_t k, const char *name)
{
    const int64_t rows = points->matrix.rows;
    test_job job = {.name = name, .points = &points->matrix, .metric = metric};
    job.k = k < rows ? k : rows - 1;
    compare(r, job);
    job.call = TEST_SEARCH;
    job.queries = &queries->matrix;
    job.k = k;
    compare(r, job);
    uint32_t *exclude = malloc((size_t)queries->matrix.rows * sizeof *exclude);
    assert_non_null(exclude);
    for (int64_t i = 0; i < queries->matrix.rows; i++) {
        exclude[i] = i % 3 == 0 ? KITH_ID_NONE : (uint32_t)(i % rows);
    }
    job.exclude = exclude;
    job.k = k < rows ? k : rows - 1;
    compare(r, job);
    free(exclude);
}

static void shapes(void **state)
{
    (void)state;
    enum { ROWS = 131, ASKED = 19 };
    static const kith_dtype dtypes[] = {KITH_F64, KITH_F32, KITH_F16, KITH_U8};
    static const int64_t all_k[] = {1, 10, ROWS};
    const bool few = test_is_slow_build();
    run r = {.ctx = test_engine_best_ctx(0)};
    uint64_t seed = 31;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
            int turn = shape + (int)t;
            for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
                if (few && turn++ % 8 != 0) { /* another one for each shape and type */
                    continue;
                }
                const bool positive = metric == KITH_CHI2 || metric == KITH_KL;
                const int32_t cols = shape % 2 == 0 ? 70 : 9;
                test_rows points = test_rows_make(dtypes[t], ROWS, cols, 8);
                test_rows queries = test_rows_make(dtypes[(t + 1) % 4], ASKED, cols, 0);
                test_shape_fill(&points, (test_shape)shape, positive, &seed);
                test_shape_fill(&queries, (test_shape)shape, positive, &seed);
                for (size_t i = 0; i < sizeof all_k / sizeof *all_k; i++) {
                    three_jobs(&r, &points, &queries, (kith_metric)metric, all_k[i],
                               test_shape_name((test_shape)shape));
                }
                test_rows_free(&queries);
                test_rows_free(&points);
            }
        }
    }
    run_end(&r, "14 shapes, 4 dtypes, every metric, k from 1 to all");
}

/* ---- The bound ------------------------------------------------------------------------------- */

/* All rows hold the same numbers in other orders, and what is asked from has one number in all of
 * its columns: all distances are the same but for the last bits of their sums in double, by which
 * they are ordered, while costs are as far apart as fp32 rounds. Without the bound on that the
 * points of the k least costs would be given out. offset: of all numbers; scale: of all. */
static test_rows permuted(kith_dtype dtype, int64_t rows, int32_t cols, double offset, double scale)
{
    uint64_t seed = 77;
    test_rows r = test_rows_make(dtype, rows, cols, 0);
    double *values = malloc((size_t)cols * sizeof *values);
    assert_non_null(values);
    for (int32_t i = 0; i < cols; i++) {
        values[i] = (offset + test_gauss(&seed)) * scale;
    }
    for (int64_t row = 0; row < rows; row++) {
        for (int32_t i = cols - 1; i > 0; i--) {
            const int32_t j = (int32_t)(test_uniform(&seed) * (i + 1));
            const double value = values[i];
            values[i] = values[j];
            values[j] = value;
        }
        for (int32_t i = 0; i < cols; i++) {
            test_rows_set(&r, row, i, values[i]);
        }
    }
    free(values);
    return r;
}

static test_rows constant(kith_dtype dtype, int64_t rows, int32_t cols, double offset, double scale)
{
    test_rows r = test_rows_make(dtype, rows, cols, 0);
    for (int64_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < cols; i++) {
            test_rows_set(&r, row, i, (offset + 0.37 * (double)(row + 1)) * scale);
        }
    }
    return r;
}

static void last_bits(void **state)
{
    (void)state;
    enum { ROWS = 131 };
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT,
                                          KITH_COSINE};
    static const double offsets[] = {0.0, 1e6};
    static const int32_t cols[] = {2, 64, 65, 128, 700};
    const bool few = test_is_slow_build();
    run r = {.ctx = test_engine_best_ctx(0)};
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        for (size_t d = 0; d < sizeof cols / sizeof *cols; d++) {
            for (int o = few ? (int)(m + d) % 4 : 0; o < 4; o += few ? 4 : 1) {
                const kith_dtype dtype = o / 2 == 0 ? KITH_F64 : KITH_F32;
                test_rows points = permuted(dtype, ROWS, cols[d], offsets[o % 2], 1.0);
                test_rows queries = constant(dtype, 7, cols[d], offsets[o % 2], 1.0);
                for (int64_t k = 1; k < ROWS; k = 3 * k + 1) {
                    three_jobs(&r, &points, &queries, metrics[m], k, "permuted");
                }
                test_rows_free(&queries);
                test_rows_free(&points);
            }
        }
    }
    run_end(&r, "keys that differ in their last bits");
}

/* Squares of these overflow fp32, or vanish in double, where ids alone order. */
static void ends(void **state)
{
    (void)state;
    static const double scales[] = {0x1p-1070, 1e-170, 1e-160, 1e-155, 1e-30, 1e20, 1e140};
    run r = {.ctx = test_engine_best_ctx(0)};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        for (int metric = KITH_EUCLIDEAN; metric <= KITH_MANHATTAN; metric++) {
            test_rows points = permuted(KITH_F64, 150, 20, 0.5, scales[s]);
            test_rows queries = constant(KITH_F64, 9, 20, 0.1, scales[s]);
            three_jobs(&r, &points, &queries, (kith_metric)metric, 6, "scaled");
            test_rows_free(&queries);
            queries = constant(KITH_F64, 9, 20, 0.1, 1.0);
            three_jobs(&r, &points, &queries, (kith_metric)metric, 6, "queries from afar");
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    run_end(&r, "values from 2^-1070 to 1e140");
}

/* ---- What is rescored ------------------------------------------------------------------------ */

static void few_candidates(void **state)
{
    (void)state;
    enum { ROWS = 3000, ASKED = 50, K = 10 };
    run r = {.ctx = test_engine_best_ctx(0)};
    uint64_t seed = 5;
    test_rows points = test_rows_make(KITH_F32, ROWS, 96, 0);
    test_rows queries = test_rows_make(KITH_F32, ASKED, 96, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    test_shape_fill(&queries, SHAPE_GAUSS, false, &seed);
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_MANHATTAN; metric++) {
        compare(&r, (test_job){.name = "gauss",
                               .call = TEST_SEARCH,
                               .points = &points.matrix,
                               .queries = &queries.matrix,
                               .metric = (kith_metric)metric,
                               .k = K});
        printf("%s: %.2f of %d points a query have a canonical key\n",
               kith_metric_name((kith_metric)metric), r.candidates, ROWS);
        if (metric == KITH_MANHATTAN) {
            assert_true(r.candidates == ROWS);
        } else {
            assert_true(r.candidates >= K && r.candidates < K + 2);
        }
    }
    test_rows_free(&queries);
    test_rows_free(&points);
    run_end(&r, "few are rescored");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(last_bits),
        cmocka_unit_test(ends),
        cmocka_unit_test(few_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
