/* SPDX-License-Identifier: Apache-2.0
 * Little device memory without a GPU: jobs under budgets a fifth apart (a twelfth with
 * KITH_CASES=all; a third where answers are of more than half a million neighbours, and under a
 * sanitizer; a half where both hold, and in few cases), from what they want down to nothing, on a
 * device of host memory whose kernels compute nothing (tests/modules). Whether an answer is right
 * is not seen here (tests/gpu/test_gpu_batches.c); whether a budget suffices is, and that one which
 * does is not refused in a larger one, wherever rows lose candidates, and that all is given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct setting {
    test_call call;
    kith_dtype dtype;
    kith_metric metric;
    int64_t rows;
    int64_t asked;
    int32_t cols;
    int64_t k;
    int way;
    bool stages; /* of a graph that a chip would take for a small one */
} setting;

enum {
    FUSED = KITH_PIPELINE_FUSED,
    MATRIX = KITH_PIPELINE_MATRIX,
    HYBRID = KITH_PIPELINE_HYBRID,
    BUFFERS = KITH_PIPELINE_BUFFER_TREE,
    TREE
};

static const setting settings[] = {
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 2000, 1, 16, 700, FUSED, false},
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 6000, 1, 32, 10, FUSED, false},
    {TEST_GRAPH, KITH_F64, KITH_EUCLIDEAN, 300, 1, 2000, 5, FUSED, false},
    {TEST_GRAPH, KITH_F32, KITH_COSINE, 9000, 1, 20, 10, FUSED, true},
    {TEST_GRAPH, KITH_U8, KITH_EUCLIDEAN, 3000, 1, 40, 100, FUSED, true},
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 900, 1, 40, 880, FUSED, false},
    {TEST_GRAPH, KITH_F32, KITH_MANHATTAN, 3000, 1, 16, 10, FUSED, false},
    {TEST_SEARCH, KITH_F32, KITH_INNER_PRODUCT, 9000, 3000, 64, 10, FUSED, false},
    {TEST_SEARCH, KITH_F32, KITH_EUCLIDEAN, 12000, 10, 48, 10, FUSED, false},
    {TEST_SEARCH, KITH_F32, KITH_EUCLIDEAN, 9000, 1500, 24, 40, FUSED, false},
    {TEST_SEARCH, KITH_F32, KITH_CHEBYSHEV, 3000, 40, 8, 2900, FUSED, false},
    {TEST_BOTH, KITH_F32, KITH_EUCLIDEAN, 5000, 4000, 32, 10, FUSED, false},
    {TEST_PREPARED, KITH_F32, KITH_EUCLIDEAN, 8000, 2000, 40, 10, FUSED, false},
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 6000, 1, 32, 10, MATRIX, false},
    {TEST_GRAPH, KITH_U8, KITH_EUCLIDEAN, 3000, 1, 40, 100, MATRIX, false},
    {TEST_SEARCH, KITH_F32, KITH_MANHATTAN, 3000, 1000, 16, 10, MATRIX, false},
    {TEST_SEARCH, KITH_F32, KITH_EUCLIDEAN, 9000, 1500, 24, 40, MATRIX, false},
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 6000, 1, 32, 10, HYBRID, false},
    {TEST_GRAPH, KITH_F32, KITH_COSINE, 3000, 1, 20, 300, HYBRID, false},
    {TEST_SEARCH, KITH_F32, KITH_EUCLIDEAN, 9000, 1500, 24, 40, HYBRID, false},
    {TEST_SEARCH, KITH_F32, KITH_CHEBYSHEV, 3000, 400, 8, 200, HYBRID, false},
    {TEST_SEARCH, KITH_F32, KITH_EUCLIDEAN, 3000, 300, 8, 2500, HYBRID, false},
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 2460, 1, 8, 2050, HYBRID, false},
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 9000, 1, 3, 10, TREE, false},
    {TEST_GRAPH, KITH_F64, KITH_MANHATTAN, 3000, 1, 17, 300, TREE, false},
    {TEST_GRAPH, KITH_U8, KITH_EUCLIDEAN, 2500, 1, 8, 2000, TREE, false},
    {TEST_SEARCH, KITH_F32, KITH_EUCLIDEAN, 4000, 9000, 5, 40, TREE, false},
    {TEST_SEARCH, KITH_F32, KITH_CHEBYSHEV, 9000, 700, 30, 1, TREE, false},
    {TEST_GRAPH, KITH_F32, KITH_EUCLIDEAN, 9000, 1, 3, 10, BUFFERS, false},
    {TEST_GRAPH, KITH_F64, KITH_MANHATTAN, 3000, 1, 17, 300, BUFFERS, false},
    {TEST_SEARCH, KITH_F32, KITH_EUCLIDEAN, 4000, 9000, 5, 40, BUFFERS, false},
    {TEST_SEARCH, KITH_U8, KITH_CHEBYSHEV, 9000, 700, 30, 1, BUFFERS, false},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

typedef struct sweep {
    test_job job;
    char text[320];
    uint64_t step;     /* a budget is one step-th less than the one before */
    uint64_t smallest; /* budget that worked */
    uint64_t largest;  /* that did not */
    int worked;
    int refused;
    int wrong;
} sweep;

static void blame(sweep *s, uint64_t budget, const char *what, const char *detail)
{
    s->wrong += 1;
    printf("  WRONG with %" PRIu64 " bytes: %s: %s %s\n", budget, s->text, what, detail);
    (void)fflush(stdout);
}

/* Every other time some rows lose candidates. */
static void with_budget(sweep *s, uint64_t budget)
{
    assert_int_equal(setenv("STUB_LOST", (s->worked + s->refused) % 2 == 0 ? "0" : "3", 1), 0);
    kith_ctx *ctx = test_gpu_ctx(1, budget);
    kith_report report = {.struct_size = sizeof report};
    kith_neighbors got;
    const kith_status status = test_job_solve(ctx, &s->job, &got);
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    if (status == KITH_OK) {
        s->worked += 1;
        s->smallest = budget < s->smallest ? budget : s->smallest;
    } else {
        s->refused += 1;
        s->largest = budget > s->largest ? budget : s->largest;
    }
    if (status != KITH_OK && status != KITH_E_DEVICE_MEMORY) {
        blame(s, budget, kith_status_name(status), kith_ctx_detail(ctx));
    }
    if (report.gpu_peak_bytes > budget) {
        blame(s, budget, "it took more", "");
    }
    if (ctx->gpu != NULL && ctx->gpu->held != 0) {
        blame(s, budget, "it kept device memory", "");
    }
    test_answer_free(&got);
    kith_ctx_free(ctx);
}

static kith_plan plan_of(const sweep *s)
{
    kith_ctx *ctx = test_gpu_ctx(1, 0);
    kith_search_params params = kith_search_params_default();
    params.metric = s->job.metric;
    params.k = s->job.k;
    params.pipeline = s->job.pipeline;
    params.method = s->job.method;
    kith_plan plan = {.struct_size = sizeof plan};
    assert_int_equal(kith_plan_search(ctx, s->job.points, s->job.queries, &params, &plan), KITH_OK);
    kith_ctx_free(ctx);
    return plan;
}

static void sweep_budgets(sweep *s)
{
    enum { LEAST = 1000 };
    const kith_plan plan = plan_of(s);
    const bool must_fit = s->job.call != TEST_PREPARED; /* whose corpus is not batched */
    s->smallest = UINT64_MAX;
    for (uint64_t budget = plan.gpu_bytes + plan.gpu_bytes / 8; budget > LEAST;
         budget -= budget / s->step) {
        with_budget(s, budget);
    }
    for (uint64_t budget = (uint64_t)1 << 25; budget > LEAST; budget /= 2) {
        with_budget(s, budget - 1);
    }
    if (s->largest > s->smallest) {
        blame(s, s->largest, "refused, although less was enough", "");
    }
    if (s->largest >= plan.gpu_least_bytes && must_fit) {
        blame(s, s->largest, "refused, although the plan says that less is enough", "");
    }
    printf("%s: plan %.2f to %.2f MiB; %d budgets down to %.2f MiB work, %d do not\n", s->text,
           (double)plan.gpu_least_bytes / 0x1p20, (double)plan.gpu_bytes / 0x1p20, s->worked,
           (double)s->smallest / 0x1p20, s->refused);
    (void)fflush(stdout);
}

/* Where there is room for all, what is held is planned; the pipelines of the papers and the tree do
 * not hold much less: blocks are rounded up, and what comes after another part need not lie beside
 * it. */
static void hold_plan(sweep *s, bool exactly)
{
    enum { MOST_TOO_MUCH = 3 };
    kith_ctx *ctx = test_gpu_ctx(1, 0);
    const kith_plan plan = plan_of(s);
    kith_report report = {.struct_size = sizeof report};
    kith_neighbors got;
    assert_int_equal(setenv("STUB_LOST", "0", 1), 0);
    assert_int_equal(test_job_solve(ctx, &s->job, &got), KITH_OK);
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    printf("  with room for all: held %.2f MiB, planned %.2f MiB; host %.2f MiB, %.2f MiB\n",
           (double)report.gpu_peak_bytes / 0x1p20, (double)plan.gpu_bytes / 0x1p20,
           (double)report.peak_bytes / 0x1p20, (double)plan.peak_bytes / 0x1p20);
    if (report.gpu_peak_bytes > plan.gpu_bytes ||
        (exactly && report.gpu_peak_bytes * MOST_TOO_MUCH < plan.gpu_bytes)) {
        blame(s, plan.gpu_bytes, "it holds something else than is planned", "");
    }
    if (report.peak_bytes > plan.peak_bytes) {
        blame(s, plan.gpu_bytes, "it holds more of the host than is planned", "");
    }
    test_answer_free(&got);
    kith_ctx_free(ctx);
}

static int run_setting(const setting *set)
{
    enum { ALL_STEP = 12, STEP = 5, LONG_STEP = 3, LEAST_STEP = 2 };
    enum { LONG_ANSWER = 500000 }; /* neighbours, which the processor writes each time */
    const bool tree = set->way == TREE;
    const bool is_long = (set->call == TEST_GRAPH ? set->rows : set->asked) * set->k > LONG_ANSWER;
    const bool few = test_is_sanitized_build() || is_long;
    const bool least = test_is_slow_build() || (test_is_sanitized_build() && is_long);
    uint64_t seed = 21;
    assert_int_equal(setenv("STUB_PROCESSORS", set->stages ? "0" : "132", 1), 0);
    test_rows points = test_rows_make(set->dtype, set->rows, set->cols, 0);
    test_rows queries = test_rows_make(set->dtype, set->asked, set->cols, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    test_shape_fill(&queries, SHAPE_GAUSS, false, &seed);
    sweep s = {.job = {.name = test_shape_name(SHAPE_GAUSS),
                       .call = set->call,
                       .points = &points.matrix,
                       .queries = set->call == TEST_GRAPH ? NULL : &queries.matrix,
                       .metric = set->metric,
                       .k = set->k,
                       .pipeline = tree ? KITH_PIPELINE_FUSED : (kith_pipeline)set->way,
                       .method = tree ? KITH_METHOD_TREE : KITH_METHOD_AUTO},
               .step = least                   ? LEAST_STEP
                       : few                   ? LONG_STEP
                       : test_is_whole_build() ? ALL_STEP
                                               : STEP};
    test_job_text(&s.job, s.text, sizeof s.text);
    sweep_budgets(&s);
    hold_plan(&s, set->way != FUSED);
    test_rows_free(&queries);
    test_rows_free(&points);
    return s.wrong;
}

static void budgets(void **state)
{
    int wrong = 0;
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        /* Every fourth one, then, which are all calls and ways, the one of its kind, and a hybrid
         * that screens. */
        if (!test_is_slow_build() || i % 4 == 0 || settings[i].call == TEST_BOTH || i == 18) {
            wrong += run_setting(&settings[i]);
        }
    }
    assert_int_equal(wrong, 0);
    printf("what suffices is not refused in a larger budget, and no budget is exceeded\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets)};
    (void)unsetenv("KITH_DEVICE");
    (void)setenv("KITH_CUDA_MODULE", KITH_STUBS "/stub_kernels.so", 1);
    (void)setenv("STUB_BYTES", "8589934592", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
