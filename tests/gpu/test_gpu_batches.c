/* SPDX-License-Identifier: Apache-2.0
 * Little device memory: budgets from what a job wants down to nothing, so that each of its blocks
 * in turn does not fit, and a device that others have filled. The bytes stay the same; where not
 * even the smallest batch fits the call says so, and leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_settings.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <stdio.h>

static const test_setting settings[] = {
    {TEST_GRAPH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 6000, 1, 32, 10},
    {TEST_GRAPH, KITH_U8, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 9000, 1, 100, 25},
    {TEST_GRAPH, KITH_F32, SHAPE_COPIES, KITH_COSINE, 5000, 1, 20, 10},
    {TEST_GRAPH, KITH_F64, SHAPE_BALL, KITH_EUCLIDEAN, 3000, 1, 12, 10},
    {TEST_GRAPH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 4000, 1, 16, 700},
    {TEST_GRAPH, KITH_F32, SHAPE_GAUSS, KITH_MANHATTAN, 3000, 1, 16, 10},
    {TEST_SEARCH, KITH_F32, SHAPE_GAUSS, KITH_INNER_PRODUCT, 20000, 3000, 64, 10},
    {TEST_SEARCH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 30000, 10, 48, 10},
    {TEST_SEARCH, KITH_U8, SHAPE_COPIES, KITH_CORRELATION, 5000, 5000, 24, 40},
    {TEST_SEARCH, KITH_F32, SHAPE_SPARSE, KITH_KL, 4000, 500, 24, 10},
    {TEST_SEARCH, KITH_F32, SHAPE_GAUSS, KITH_CHEBYSHEV, 3000, 40, 8, 2900},
    {TEST_SEARCH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 6000, 30, 24, 3100},
    {TEST_BOTH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 5000, 4000, 32, 10},
    {TEST_PREPARED, KITH_F32, SHAPE_CLUSTERS, KITH_COSINE, 8000, 2000, 40, 10},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* ---- One job under many budgets ------------------------------------------------------------- */

typedef struct sweep {
    test_job job;
    kith_neighbors wanted;
    char text[320];
    uint64_t smallest; /* budget that worked */
    uint64_t largest;  /* that did not */
    uint64_t least;    /* of the plan */
    int worked;
    int refused;
    int wrong;
} sweep;

static void blame(sweep *s, uint64_t budget, const char *what, const char *detail)
{
    s->wrong += 1;
    printf("  DIFFERS with %" PRIu64 " bytes: %s: %s %s\n", budget, s->text, what, detail);
    (void)fflush(stdout);
}

/* A context whose call failed for want of memory computes what does fit. */
static void try_again(sweep *s, kith_ctx *ctx, uint64_t budget)
{
    enum { ENOUGH = 64 << 20 };
    test_rows few = test_rows_make(KITH_F32, 40, 3, 0);
    uint64_t seed = 3;
    test_shape_fill(&few, SHAPE_GAUSS, false, &seed);
    const test_job job = {.name = "few", .points = &few.matrix, .metric = KITH_EUCLIDEAN, .k = 3};
    kith_neighbors got;
    const kith_status status = test_job_solve(ctx, &job, &got);
    if (status != KITH_OK && (status != KITH_E_DEVICE_MEMORY || budget >= ENOUGH)) {
        blame(s, budget, "after a failure, a small job fails:", kith_ctx_detail(ctx));
    }
    test_answer_free(&got);
    test_rows_free(&few);
}

static void with_budget(sweep *s, uint64_t budget)
{
    kith_ctx *ctx = test_gpu_ctx(2, budget);
    kith_neighbors got;
    const kith_status status = test_job_solve(ctx, &s->job, &got);
    if (status == KITH_OK) {
        s->worked += 1;
        s->smallest = budget < s->smallest ? budget : s->smallest;
        s->wrong += test_answers_differ(s->text, &s->wanted, &got);
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        if (budget != 0 && report.gpu_peak_bytes > budget) {
            blame(s, budget, "it took more:", report.gpu);
        }
    } else {
        s->refused += 1;
        if (budget >= s->least) {
            printf("  %" PRIu64 " bytes: %s\n", budget, kith_ctx_detail(ctx));
        }
        s->largest = budget > s->largest ? budget : s->largest;
        if (status != KITH_E_DEVICE_MEMORY || kith_ctx_detail(ctx)[0] == '\0') {
            blame(s, budget, kith_status_name(status), kith_ctx_detail(ctx));
        }
        try_again(s, ctx, budget);
    }
    test_answer_free(&got);
    kith_ctx_free(ctx);
}

static kith_plan plan_of(const sweep *s)
{
    kith_ctx *ctx = test_gpu_ctx(2, 0);
    kith_search_params params = kith_search_params_default();
    params.metric = s->job.metric;
    params.k = s->job.k;
    kith_plan plan = {.struct_size = sizeof plan};
    if (kith_plan_search(ctx, s->job.points, s->job.queries, &params, &plan) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
    assert_true(strncmp(plan.backend, "cuda", 4) == 0);
    assert_true(plan.gpu_least_bytes > 0 && plan.gpu_bytes >= plan.gpu_least_bytes);
    kith_ctx_free(ctx);
    return plan;
}

static void sweep_budgets(sweep *s)
{
    const kith_plan plan = plan_of(s);
    const uint64_t least = plan.gpu_least_bytes;
    s->least = least;
    const bool must_fit = s->job.call != TEST_PREPARED; /* whose corpus is not batched */
    s->smallest = UINT64_MAX;
    with_budget(s, plan.gpu_bytes + plan.gpu_bytes / 8);
    with_budget(s, plan.gpu_bytes);
    for (uint64_t budget = plan.gpu_bytes - 1; budget > least; budget -= budget / 5 + 1) {
        with_budget(s, budget);
    }
    with_budget(s, least);
    if (s->refused != 0 && must_fit) {
        blame(s, s->largest, "refused, although the plan says that less is enough", "");
    }
    for (uint64_t budget = least - 1; budget > 1000; budget /= 2) {
        with_budget(s, budget);
    }
    with_budget(s, 1);
    if (s->refused != 0 && s->largest > s->smallest) {
        blame(s, s->largest, "refused, although less was enough", "");
    }
    printf(
        "%s: plan %.2f to %.2f MiB; the same bytes with %d budgets down to %.2f MiB, %d refused\n",
        s->text, (double)least / 0x1p20, (double)plan.gpu_bytes / 0x1p20, s->worked,
        (double)s->smallest / 0x1p20, s->refused);
    (void)fflush(stdout);
}

static int run_setting(const test_setting *set, kith_ctx *cpu)
{
    test_setting_data data;
    test_setting_make(set, cpu, 21, &data);
    sweep s = {.job = data.job, .wanted = data.wanted};
    test_job_text(&s.job, s.text, sizeof s.text);
    sweep_budgets(&s);
    test_setting_free(&data);
    return s.wrong;
}

/* ---- Memory of the whole device ------------------------------------------------------------- */

typedef struct device {
    const kin_gpu_ops *ops;
    kin_gpu_stream *stream;
} device;

static device device_open(void)
{
    assert_non_null(kin_gpu_get_module());
    device d = {.ops = kin_gpu_get_module()->ops};
    assert_int_equal(d.ops->make_current(0), 0);
    assert_int_equal(d.ops->open(0, NULL, &d.stream), 0);
    return d;
}

static uint64_t device_free(const device *d)
{
    uint64_t bytes = 0;
    assert_int_equal(d->ops->free_bytes(d->stream, &bytes), 0);
    return bytes;
}

static void budgets(void **state)
{
    (void)state;
    enum { SLACK = 64 << 20 }; /* what the runtime keeps for kernels that it has loaded */
    kith_ctx *cpu = test_cpu_ctx();
    int wrong = run_setting(&settings[0], cpu);
    device d = device_open();
    const uint64_t before = device_free(&d);
    for (int i = 1; i < SETTINGS; i++) {
        wrong += run_setting(&settings[i], cpu);
    }
    const uint64_t after = device_free(&d);
    d.ops->close(d.stream);
    kith_ctx_free(cpu);
    printf("free device memory: %" PRIu64 " bytes before, %" PRIu64 " after\n", before, after);
    assert_true(after + SLACK >= before);
    assert_int_equal(wrong, 0);
    printf("budgets from all down to 1 byte: the same bytes or E_DEVICE_MEMORY, nothing lost\n");
}

/* Others hold all but `left` bytes of the device. */
static int64_t fill_device(const device *d, uint64_t left, void **blocks, int64_t most)
{
    int64_t count = 0;
    for (uint64_t size = UINT64_C(1) << 36; size >= UINT64_C(1) << 20; size /= 2) {
        while (count < most && device_free(d) > left + size &&
               d->ops->allocate(d->stream, size, &blocks[count]) == 0) {
            count += 1;
        }
    }
    return count;
}

static void full_device(void **state)
{
    (void)state;
    enum { MOST = 512 };
    static void *blocks[MOST];
    static const uint64_t left[] = {UINT64_C(2) << 30, 600 << 20, 150 << 20, 40 << 20, 4 << 20};
    uint64_t seed = 22;
    test_rows rows = test_rows_make(KITH_F32, 60000, 64, 0);
    test_shape_fill(&rows, SHAPE_CLUSTERS, false, &seed);
    const test_job job = {
        .name = "clusters", .points = &rows.matrix, .metric = KITH_EUCLIDEAN, .k = 64};
    kith_ctx *cpu = test_cpu_ctx();
    sweep s = {.job = job, .smallest = UINT64_MAX};
    test_job_text(&job, s.text, sizeof s.text);
    assert_int_equal(test_job_solve(cpu, &job, &s.wanted), KITH_OK);
    with_budget(&s, 0);
    assert_int_equal(s.worked, 1);
    device d = device_open();
    for (int i = 0; i < 5; i++) {
        const int64_t count = fill_device(&d, left[i], blocks, MOST);
        const int worked = s.worked;
        with_budget(&s, 0);
        with_budget(&s, UINT64_C(1) << 40); /* more than there is: allocations fail */
        printf("%" PRIu64 " MiB left by others: %d of 2 calls worked\n", left[i] >> 20,
               s.worked - worked);
        for (int64_t b = 0; b < count; b++) {
            d.ops->release(d.stream, blocks[b]);
        }
    }
    with_budget(&s, 0);
    d.ops->close(d.stream);
    assert_int_equal(s.wrong, 0);
    assert_true(s.worked >= 4); /* first, last, and both where 2 GiB are left */
    test_answer_free(&s.wanted);
    test_rows_free(&rows);
    kith_ctx_free(cpu);
    printf(
        "a device that others fill: smaller batches, or E_DEVICE_MEMORY, and well again after\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets), cmocka_unit_test(full_device)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
