/* SPDX-License-Identifier: Apache-2.0
 * Corpora and query sets that are larger than their share of the device: the rows that come next
 * are uploaded while these are computed. With and without, in budgets from what a job wants down to
 * what it needs, the bytes are the processor's; nothing is refused that runs without; the budget
 * holds. What lies on the device is not uploaded at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine_call.h"
#include "gpu/gpu.h"
#include "host/host_clock.h"
#include "index/index.h"
#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_settings.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_setting settings[] = {
    {TEST_SEARCH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 300000, 40000, 128, 10},
    {TEST_SEARCH, KITH_F32, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 20000, 300000, 96, 10},
    {TEST_SEARCH, KITH_U8, SHAPE_COPIES, KITH_EUCLIDEAN, 300000, 60000, 100, 20},
    {TEST_SEARCH, KITH_F64, SHAPE_GAUSS, KITH_COSINE, 60000, 60000, 60, 10},
    {TEST_SEARCH, KITH_F32, SHAPE_SPARSE, KITH_CORRELATION, 50000, 100000, 48, 10},
    {TEST_SEARCH, KITH_F32, SHAPE_GAUSS, KITH_MANHATTAN, 20000, 2000, 600, 10},
    {TEST_GRAPH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 120000, 1, 128, 10},
    {TEST_GRAPH, KITH_F32, SHAPE_GAUSS, KITH_INNER_PRODUCT, 120000, 1, 64, 30},
    {TEST_BOTH, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 80000, 60000, 64, 10},
    {TEST_PREPARED, KITH_F32, SHAPE_GAUSS, KITH_EUCLIDEAN, 20000, 300000, 64, 10},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

typedef struct swept {
    int worked;
    int refused;
    int wrong;
    kin_gpu_ahead_tally tally;
} swept;

/* A context whose device is open, with the hints taken or not. */
static kith_ctx *make_ctx(uint64_t budget, bool ahead)
{
    kith_ctx *ctx = test_gpu_ctx(4, budget);
    kin_gpu *gpu = NULL;
    assert_int_equal(kin_device_enter_gpu(ctx, kin_gpu_first(), &gpu), KITH_OK);
    gpu->ahead_off = !ahead;
    kin_device_leave(ctx, gpu);
    return ctx;
}

/* What a GPU did and holds. */
static void count(const kin_gpu *gpu, uint64_t budget, swept *s)
{
    s->wrong += gpu->peak > budget;
    s->tally.uploads += gpu->ahead_tally.uploads;
    s->tally.copying_ns += gpu->ahead_tally.copying_ns;
    s->tally.waiting_ns += gpu->ahead_tally.waiting_ns;
}

/* A prepared corpus has a GPU of its own. */
static kith_status solve_prepared(kith_ctx *ctx, const test_job *job, uint64_t budget, bool ahead,
                                  kith_neighbors *out, swept *s)
{
    kith_search_params params = kith_search_params_default();
    params.metric = job->metric;
    params.k = job->k;
    *out = test_answer_make(job->queries->rows, job->k);
    kith_index *corpus = NULL;
    kith_status status = test_index_create(ctx, job->points, job->metric, &corpus);
    if (status == KITH_OK) {
        corpus->gpu->ahead_off = !ahead;
        status = kith_index_search(ctx, corpus, job->queries, &params, out, NULL);
        count(corpus->gpu, budget, s);
    }
    kith_index_free(corpus);
    return status;
}

static void with_budget(const test_job *job, const kith_neighbors *wanted, uint64_t budget,
                        bool ahead, swept *s)
{
    char text[320];
    kith_ctx *ctx = make_ctx(budget, ahead);
    kith_neighbors got;
    const kith_status status = job->call == TEST_PREPARED
                                   ? solve_prepared(ctx, job, budget, ahead, &got, s)
                                   : test_job_solve(ctx, job, &got);
    if (status == KITH_OK) {
        s->worked += 1;
        s->wrong += test_answers_differ(test_job_text(job, text, sizeof text), wanted, &got);
    } else {
        s->refused += 1;
        s->wrong += status != KITH_E_DEVICE_MEMORY;
    }
    count(ctx->gpu, budget, s);
    s->wrong += ctx->gpu->held != 0;
    test_answer_free(&got);
    kith_ctx_free(ctx);
}

static kith_plan plan_of(const test_job *job)
{
    kith_ctx *ctx = test_gpu_ctx(4, 0);
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    params.metric = job->metric;
    params.k = job->k;
    assert_int_equal(kith_plan_search(ctx, job->points, job->queries, &params, &plan), KITH_OK);
    kith_ctx_free(ctx);
    return plan;
}

/* What is wrong; *tried is raised where rows came ahead. */
static int run_setting(const test_setting *set, kith_ctx *cpu, int *tried)
{
    char text[320];
    test_setting_data data;
    test_setting sized = *set;
    sized.rows = test_fewer(set->rows);
    sized.asked = test_fewer(set->asked);
    test_setting_make(&sized, cpu, 41, &data);
    const test_job *job = &data.job;
    const kith_plan plan = plan_of(job);
    swept s[2] = {{0}, {0}};
    const uint64_t eighth = plan.gpu_bytes / 8; /* far below there are thousands of batches */
    for (uint64_t budget = plan.gpu_bytes - plan.gpu_bytes / 16;
         budget > plan.gpu_least_bytes && (budget > eighth || s[1].tally.uploads == 0);
         budget -= budget / 3) {
        const int64_t begin = kin_clock_ns();
        with_budget(job, &data.wanted, budget, false, &s[0]);
        const int64_t between = kin_clock_ns();
        with_budget(job, &data.wanted, budget, true, &s[1]);
        printf("  %" PRIu64 " bytes: %.3f s, with rows ahead %.3f s\n", budget,
               1e-9 * (double)(between - begin), 1e-9 * (double)(kin_clock_ns() - between));
        (void)fflush(stdout);
    }
    printf("%s: %d budgets, %" PRId64 " uploads ahead of %.1f ms, %.0f %% of it hidden\n",
           test_job_text(job, text, sizeof text), s[1].worked, s[1].tally.uploads,
           1e-6 * (double)s[1].tally.copying_ns,
           s[1].tally.copying_ns == 0
               ? 0.0
               : 100.0 - 100.0 * (double)s[1].tally.waiting_ns / (double)s[1].tally.copying_ns);
    (void)fflush(stdout);
    const bool as_many = s[0].worked == s[1].worked && s[0].refused == s[1].refused;
    const bool none = s[0].tally.uploads == 0;
    test_setting_free(&data);
    if (s[0].wrong + s[1].wrong > 0 || !as_many || !none) {
        printf("WRONG: %d and %d; worked %d and %d, refused %d and %d; uploads ahead %" PRId64
               " and %" PRId64 "\n",
               s[0].wrong, s[1].wrong, s[0].worked, s[1].worked, s[0].refused, s[1].refused,
               s[0].tally.uploads, s[1].tally.uploads);
    }
    *tried += s[1].tally.uploads > 0;
    return s[0].wrong + s[1].wrong + (as_many && none ? 0 : 1);
}

static void same_bytes(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    int wrong = 0;
    int tried = 0;
    for (int i = 0; i < SETTINGS; i++) {
        wrong += run_setting(&settings[i], cpu, &tried);
    }
    kith_ctx_free(cpu);
    assert_int_equal(wrong, 0);
    /* Of fewer rows, all of a job may fit into the least that it takes on a device. */
    assert_true(tried >= (test_is_slow_build() ? SETTINGS / 2 : SETTINGS));
    printf("rows that come ahead, or not: the processor's bytes, the same jobs run\n");
}

/* The queries lie on the device, the budget cuts them into stripes: nothing comes ahead. */
static void rows_on_the_device(void **state)
{
    (void)state;
    enum { ROWS = 20000, ASKED = 200000, COLS = 64, K = 10 };
    uint64_t seed = 42;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_rows queries = test_rows_make(KITH_F32, ASKED, COLS, 0);
    test_shape_fill(&points, SHAPE_CLUSTERS, false, &seed);
    test_shape_fill(&queries, SHAPE_CLUSTERS, false, &seed);
    test_caller caller = test_caller_open();
    const kith_matrix corpus = test_caller_copy(&caller, &points.matrix);
    const kith_matrix asked = test_caller_copy(&caller, &queries.matrix);

    kith_search_params params = kith_search_params_default();
    params.k = K;
    kith_neighbors wanted = test_answer_make(ASKED, K);
    kith_neighbors on_device = test_caller_answer(&caller, ASKED, K);
    kith_ctx *cpu = test_cpu_ctx();
    assert_int_equal(kith_search(cpu, &points.matrix, &queries.matrix, &params, &wanted, NULL),
                     KITH_OK);
    kith_ctx *ctx = make_ctx(UINT64_C(128) << 20, true);
    assert_int_equal(kith_cuda_search(ctx, &corpus, &asked, &params, &on_device, caller.handle),
                     KITH_OK);
    kith_neighbors got = test_caller_fetch(&caller, &on_device);
    assert_false(test_answers_differ("rows on the device", &wanted, &got));
    assert_int_equal(ctx->gpu->ahead_tally.uploads, 0);
    kith_ctx_free(ctx);
    kith_ctx_free(cpu);
    test_caller_release(&caller, asked.data);
    test_caller_release(&caller, corpus.data);
    test_caller_close(&caller);
    test_answer_free(&got);
    test_answer_free(&wanted);
    test_rows_free(&queries);
    test_rows_free(&points);
    printf("queries that lie on the device, in stripes: the same bytes, no uploads\n");
}

/* Stopped in the middle, again and again: the context goes on as if nothing had been. */
typedef struct stopper {
    int64_t start_ns;
    int64_t after_ns; /* 0: never */
} stopper;

static int stop_after(void *arg, const char *phase, double done, double total)
{
    const stopper *s = arg;
    (void)phase;
    (void)done;
    (void)total;
    return s->after_ns > 0 && kin_clock_ns() - s->start_ns > s->after_ns;
}

static void stopped(void **state)
{
    (void)state;
    enum { ROWS = 400000, ASKED = 100000, COLS = 128, K = 10, MOST_SLOW = 1000000000 };
    uint64_t seed = 43;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_rows queries = test_rows_make(KITH_F32, ASKED, COLS, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    test_shape_fill(&queries, SHAPE_GAUSS, false, &seed);
    stopper s = {0};
    kith_ctx_params ctx_params = kith_ctx_params_default();
    ctx_params.device = "cuda";
    ctx_params.gpu_memory_limit = UINT64_C(160) << 20;
    ctx_params.progress = stop_after;
    ctx_params.progress_arg = &s;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&ctx_params, &ctx), KITH_OK);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    kith_neighbors first = test_answer_make(ASKED, K);
    kith_neighbors last = test_answer_make(ASKED, K);
    assert_int_equal(kith_search(ctx, &points.matrix, &queries.matrix, &params, &first, NULL),
                     KITH_OK);
    int times = 0;
    for (int64_t after = 1000000; after < 400000000; after += after / 2) {
        s = (stopper){.start_ns = kin_clock_ns(), .after_ns = after};
        const kith_status status =
            kith_search(ctx, &points.matrix, &queries.matrix, &params, &last, NULL);
        assert_true(status == KITH_OK || status == KITH_E_CANCELLED);
        assert_true(status == KITH_OK || kin_clock_ns() - s.start_ns < after + MOST_SLOW);
        assert_int_equal(ctx->gpu->held, 0);
        times += status == KITH_E_CANCELLED;
    }
    s.after_ns = 0;
    assert_int_equal(kith_search(ctx, &points.matrix, &queries.matrix, &params, &last, NULL),
                     KITH_OK);
    assert_false(test_answers_differ("after being stopped", &first, &last));
    assert_true(times > 0);
    kith_ctx_free(ctx);
    test_answer_free(&last);
    test_answer_free(&first);
    test_rows_free(&queries);
    test_rows_free(&points);
    printf("stopped %d times with rows under way, each within a second; then the same bytes\n",
           times);
}

/* ---- Parts of a truth ------------------------------------------------------------------------ */

enum { TRUTH_ROWS = 50001, TRUTH_ASKED = 300, TRUTH_K = 10, TRUTH_PARTS = 7 };

typedef struct truth_lists {
    uint64_t ids[TRUTH_ASKED * TRUTH_K];
    double distances[TRUTH_ASKED * TRUTH_K];
    int64_t ties[TRUTH_ASKED];
} truth_lists;

static int stop_behind(void *arg, int64_t rows)
{
    return rows >= *(const int64_t *)arg;
}

/* Of two matrices, the second of which begins in the middle of the points. */
static kith_status find_truth(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *queries,
                              int64_t *stop, truth_lists *out)
{
    kith_matrix halves[] = {*points, *points};
    kith_truth_params params = kith_truth_params_default();
    halves[0].rows = points->rows / 2;
    halves[1].rows = points->rows - halves[0].rows;
    halves[1].data = (const char *)points->data + halves[0].rows * points->cols;
    params.k = TRUTH_K;
    params.part_rows = points->rows / TRUTH_PARTS;
    params.ids = out->ids;
    params.distances = out->distances;
    params.ties = out->ties;
    params.take = stop_behind;
    params.take_arg = stop;
    return kith_truth(ctx, halves, 2, queries, &params, NULL);
}

/* The next part comes while one is searched, whatever the budget; nothing is left behind a job,
 * neither at its end nor where it was stopped. */
static void parts_of_a_truth(void **state)
{
    (void)state;
    uint64_t seed = 44;
    static truth_lists wanted;
    static truth_lists got;
    test_rows points = test_rows_make(KITH_U8, TRUTH_ROWS, 96, 0);
    test_rows queries = test_rows_make(KITH_U8, TRUTH_ASKED, 96, 0);
    test_shape_fill(&points, SHAPE_COPIES, false, &seed);
    test_shape_fill(&queries, SHAPE_COPIES, false, &seed);
    int64_t never = INT64_MAX;
    kith_ctx *cpu = test_cpu_ctx();
    test_works(cpu, find_truth(cpu, &points.matrix, &queries.matrix, &never, &wanted));
    kith_ctx_free(cpu);
    int worked = 0;
    int64_t ahead = 0;
    for (uint64_t budget = UINT64_C(512) << 20; budget > UINT64_C(1) << 20; budget /= 2) {
        kith_ctx *ctx = make_ctx(budget, true);
        const kith_status status = find_truth(ctx, &points.matrix, &queries.matrix, &never, &got);
        assert_true(status == KITH_OK || status == KITH_E_DEVICE_MEMORY);
        assert_int_equal(ctx->gpu->held, 0);
        assert_true(ctx->gpu->peak <= budget);
        if (status == KITH_OK) {
            assert_memory_equal(&got, &wanted, sizeof got);
            ahead = worked == 0 ? ctx->gpu->ahead_tally.uploads : ahead;
            worked += 1;
        }
        kith_ctx_free(ctx);
    }
    assert_int_equal(ahead, TRUTH_PARTS); /* of 8 parts; the first one is waited for */
    for (int64_t stop = 1; stop < TRUTH_ROWS; stop += TRUTH_ROWS / 4) {
        kith_ctx *ctx = make_ctx(UINT64_C(256) << 20, true);
        test_fails(ctx, find_truth(ctx, &points.matrix, &queries.matrix, &stop, &got),
                   KITH_E_CANCELLED, "ended the job");
        assert_int_equal(ctx->gpu->held, 0);
        kith_ctx_free(ctx);
    }
    test_rows_free(&queries);
    test_rows_free(&points);
    printf("a truth in parts, in %d budgets: the processor's bytes; in the largest %" PRId64
           " parts come ahead\n",
           worked, ahead);
}

/* ---- Answers behind -------------------------------------------------------------------------- */

enum { BEHIND_BYTES = 600 << 20, STOPS = 8 };

static int stop_at_once(void *arg, const char *phase, double done, double total)
{
    (void)phase;
    return *(const bool *)arg && done < total;
}

/* One block of bytes to the host, all 0x5a: whether it came. */
static kith_status fetch_behind(kith_ctx *ctx, kin_gpu *gpu, unsigned char *to, int32_t parts)
{
    void *block = NULL;
    const uint64_t held = gpu->held;
    test_works(ctx, kin_gpu_alloc(ctx, gpu, &block, BEHIND_BYTES, 1, "answers"));
    test_works(ctx, kin_gpu_fill(ctx, gpu, block, 0x5a, BEHIND_BYTES));
    const kin_gpu_fetches fetches = {.parts = {{to, block, BEHIND_BYTES}}, .count = parts};
    test_works(ctx, kin_gpu_behind_begin(ctx, gpu, &fetches, block));
    const kith_status status = kin_gpu_behind_end(ctx, gpu, true);
    assert_true(gpu->held == held);
    return status;
}

/* Nothing is fetched, or all of it, or what the caller stops; and after that all of it again. */
static void answers_behind(void **state)
{
    (void)state;
    bool stop = false;
    int stopped_times = 0;
    unsigned char *to = calloc(BEHIND_BYTES, 1);
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    kin_gpu *gpu = NULL;
    assert_non_null(to);
    params.device = "cuda";
    params.progress = stop_at_once;
    params.progress_arg = &stop;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    test_works(ctx, kin_device_enter_gpu(ctx, kin_gpu_first(), &gpu));
    test_works(ctx, fetch_behind(ctx, gpu, to, 0));
    assert_int_equal(to[0], 0);
    for (int i = 0; i < STOPS && stopped_times == 0; i++) { /* it may be quicker than we look */
        stop = true;
        stopped_times += fetch_behind(ctx, gpu, to, 1) == KITH_E_CANCELLED;
        kin_forgive(ctx);
    }
    stop = false;
    memset(to, 0, BEHIND_BYTES);
    test_works(ctx, fetch_behind(ctx, gpu, to, 1));
    for (int64_t i = 0; i < BEHIND_BYTES; i += 4001) {
        assert_int_equal(to[i], 0x5a);
    }
    assert_int_equal(to[BEHIND_BYTES - 1], 0x5a);
    assert_int_equal(stopped_times, 1);
    kin_device_leave(ctx, gpu);
    kith_ctx_free(ctx);
    free(to);
    printf("answers behind: none, stopped on their way, and all of %d MiB\n", BEHIND_BYTES >> 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_behind), cmocka_unit_test(same_bytes),
        cmocka_unit_test(parts_of_a_truth), cmocka_unit_test(rows_on_the_device),
        cmocka_unit_test(stopped)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
