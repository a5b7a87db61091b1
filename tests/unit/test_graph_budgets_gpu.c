/* SPDX-License-Identifier: Apache-2.0
 * Little device memory for approximate graphs, without a GPU: kith_graph by a descent under budgets
 * from what its plan says down to nothing, on a device of host memory whose kernels compute nothing
 * (tests/modules). What the plan says suffices, wherever lists are too short; less is refused or
 * suffices as well; no budget is exceeded, all is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct setting {
    kith_dtype dtype;
    kith_metric metric;
    int64_t rows;
    int32_t cols;
    int64_t k;
    uint32_t flags;
    kith_start start;
    double recall; /* never reached: lists become longer where there is room */
} setting;

static const setting settings[] = {
    {KITH_F32, KITH_EUCLIDEAN, 9000, 24, 10, 0, KITH_START_AUTO, 0.999},
    {KITH_U8, KITH_EUCLIDEAN, 12000, 40, 32, KITH_INCLUDE_SELF, KITH_START_SCREEN, 0.0},
    {KITH_F32, KITH_COSINE, 6000, 70, 100, 0, KITH_START_RANDOM, 0.0},
    {KITH_F32, KITH_INNER_PRODUCT, 8000, 16, 5, KITH_INCLUDE_SELF, KITH_START_AUTO, 0.0},
    {KITH_F64, KITH_MANHATTAN, 7000, 12, 20, 0, KITH_START_AUTO, 0.999},
    {KITH_F32, KITH_CHEBYSHEV, 5000, 8, 300, KITH_INCLUDE_SELF, KITH_START_AUTO, 0.0},
    {KITH_F32, KITH_EUCLIDEAN, 3000, 30, 10, 0, KITH_START_AUTO, 0.0}, /* solved exactly */
};

typedef struct tally {
    int worked;
    int refused;
    int wrong;
} tally;

static kith_descent_params params_of(const setting *set)
{
    kith_descent_params params = kith_descent_params_default();
    params.metric = set->metric;
    params.k = set->k;
    params.flags = set->flags;
    params.start = set->start;
    params.rounds = set->recall > 0.0 ? 0 : 2;
    params.recall = set->recall;
    params.sample = 100;
    return params;
}

static void with_budget(tally *t, const setting *set, const kith_matrix *points, uint64_t budget,
                        bool must)
{
    assert_int_equal(setenv("STUB_LOST", (t->worked + t->refused) % 2 == 0 ? "0" : "3", 1), 0);
    const kith_descent_params params = params_of(set);
    kith_ctx *ctx = test_gpu_ctx(1, budget);
    kith_report report = {.struct_size = sizeof report};
    kith_neighbors got = test_answer_make(set->rows, set->k);
    const kith_status status = test_descend(ctx, points, &params, &got, NULL);
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    t->worked += status == KITH_OK;
    t->refused += status != KITH_OK;
    if ((status != KITH_OK && (must || status != KITH_E_DEVICE_MEMORY)) ||
        report.gpu_peak_bytes > budget || (ctx->gpu != NULL && ctx->gpu->held != 0)) {
        t->wrong += 1;
        printf("  WRONG with %" PRIu64 " bytes, peak %" PRIu64 ": %s: %s\n", budget,
               report.gpu_peak_bytes, kith_status_name(status), kith_ctx_detail(ctx));
    }
    test_answer_free(&got);
    kith_ctx_free(ctx);
}

static uint64_t planned(const setting *set, const kith_matrix *points)
{
    const kith_descent_params descent = params_of(set);
    kith_search_params params = kith_search_params_default();
    kith_ctx *ctx = test_gpu_ctx(1, 0);
    kith_plan plan = {.struct_size = sizeof plan};
    params.metric = descent.metric;
    params.k = descent.k;
    params.flags = descent.flags;
    params.method = KITH_METHOD_DESCENT;
    params.recall = descent.recall;
    params.descent = &descent;
    assert_int_equal(kith_plan_search(ctx, points, NULL, &params, &plan), KITH_OK);
    kith_ctx_free(ctx);
    return plan.gpu_bytes;
}

static int sweep(const setting *set)
{
    tally t = {0};
    uint64_t seed = 5;
    test_rows points = test_rows_make(set->dtype, set->rows, set->cols, 0);
    test_rows_fill(&points, 100.0, 1, &seed);
    const uint64_t need = planned(set, &points.matrix);
    with_budget(&t, set, &points.matrix, need, true);
    with_budget(&t, set, &points.matrix, need, true);
    for (uint64_t budget = need; budget > 1U << 16;
         budget -= budget / (test_is_sanitized_build() ? 2 : 4)) {
        with_budget(&t, set, &points.matrix, budget, false);
    }
    printf("  %-13s %6lld x %2d, k %3lld: %6.1f MB by the plan; %d budgets did, %d did not\n",
           kith_metric_name(set->metric), (long long)set->rows, (int)set->cols, (long long)set->k,
           (double)need / 1e6, t.worked, t.refused);
    test_rows_free(&points);
    return t.wrong;
}

static void budgets(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        wrong += sweep(&settings[i]);
    }
    assert_int_equal(wrong, 0);
    printf("what the plan of an approximate graph says suffices, and nothing is kept\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets)};
    (void)unsetenv("KITH_DEVICE");
    (void)setenv("KITH_CUDA_MODULE", KITH_STUBS "/stub_kernels.so", 1);
    (void)setenv("STUB_BYTES", "8589934592", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
