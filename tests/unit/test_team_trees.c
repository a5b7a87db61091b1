/* SPDX-License-Identifier: Apache-2.0
 * Searches and graphs by the tree on several reference devices: the bytes of one, with floats and
 * bytes, equal rows, ids that are left out, named and by a sample, and every device walks. Few
 * rows, and rows that lie on a device, are one's. With little memory one goes on alone, and does
 * what it would have done; a device that fails is left out; a bad value is named by its row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_mixture.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"
#include "support/support_trees.h"
#include "tree/tree_gpu.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 3, LEAST = 65536, ANY_ERROR = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* what members write is under it */
static int64_t walked[DEVICES];                          /* places, by device */
static int32_t failing_device;

static int walk(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    int32_t own = -1;
    assert_int_equal(kin_gpu_get_module()->ops->current(&own), 0);
    pthread_mutex_lock(&lock);
    walked[own] += job->count;
    const bool fails = own == failing_device;
    pthread_mutex_unlock(&lock);
    return fails ? ANY_ERROR : kin_gpu_get_module()->tree->walk(stream, job);
}

static kin_gpu *open_team(kith_ctx *ctx, int32_t count, uint64_t budget)
{
    const int32_t indices[DEVICES] = {2, 0, 1};
    kin_gpu *gpu = test_reference_team(ctx, indices, count, budget);
    test_tables.tree.walk = walk;
    failing_device = -1;
    memset(walked, 0, sizeof walked);
    return gpu;
}

/* ---- What is solved -------------------------------------------------------------------------- */

typedef struct setting {
    bool graph;
    kith_dtype dtype;
    int32_t cols;
    int64_t k;
    int64_t rows;  /* that are answered */
    int64_t equal; /* of them, copies */
    bool excludes; /* of a graph: with their own ids */
    kith_method method;
    int32_t devices;
} setting;

typedef struct data {
    kith_matrix points;
    kith_matrix queries;
    uint32_t *exclude;
} data;

static kith_matrix rows_of(const setting *s, int64_t rows, uint64_t seed)
{
    const test_mixture mixture = {.dtype = s->dtype,
                                  .rows = rows,
                                  .cols = s->cols,
                                  .inner = s->cols,
                                  .clusters = 50,
                                  .spread = 0.5,
                                  .seed = seed};
    kith_matrix made = test_mixture_make(&mixture);
    for (int64_t i = 0; i < s->equal; i++) {
        test_mixture_copy(&made, rows - 1 - 3 * i, 2 * i);
    }
    return made;
}

static data data_of(const setting *s)
{
    const int64_t corpus =
        s->method == KITH_METHOD_AUTO ? 1000000 : 5000; /* of few none is tried */
    data d = {.points = rows_of(s, s->graph ? s->rows : corpus, 3)};
    if (!s->graph) {
        d.queries = rows_of(s, s->rows, 4);
        d.exclude = s->excludes ? test_trees_excluded(s->rows, corpus) : NULL;
    }
    return d;
}

static void free_data(data *d)
{
    free(d->exclude);
    if (d->queries.data != NULL) {
        test_mixture_free(&d->queries);
    }
    test_mixture_free(&d->points);
}

typedef struct solved {
    kith_neighbors out;
    kith_report report;
    kith_status status;
    bool declined;
    uint64_t peak;
} solved;

static kin_request request_of(const setting *s, const data *d)
{
    return (kin_request){
        .distance = {.metric = KITH_EUCLIDEAN, .cols = s->cols, .isa = kin_cpu_best()},
        .k = s->k,
        .flags = s->graph && s->excludes ? KITH_INCLUDE_SELF : 0,
        .exclude = d->exclude,
        .method = s->method};
}

static solved solve(kith_ctx *ctx, kin_gpu *gpu, const setting *s, const data *d)
{
    const kin_request request = request_of(s, d);
    solved a = {.out = test_answer_make(s->rows, s->k)};
    const kin_exact_gpu_query query = {s->graph ? NULL : &d->queries,
                                       s->graph ? "points" : "queries", &request, 0, &a.out};
    memset(&ctx->report, 0, sizeof ctx->report);
    kin_gpu_enter(gpu);
    gpu->peak = gpu->held;
    a.status = kin_tree_gpu_search(ctx, gpu, &d->points, &query, &a.declined);
    kin_gpu_leave(gpu);
    a.report = ctx->report;
    a.peak = gpu->team != NULL ? kin_gpu_team_peak(gpu->team) : gpu->peak;
    return a;
}

static solved solve_by(const setting *s, const data *d, int32_t devices, uint64_t budget)
{
    kith_ctx *ctx = test_reference_ctx();
    kin_gpu *gpu = open_team(ctx, devices, budget);
    const solved a = solve(ctx, gpu, s, d);
    if (a.status != KITH_OK && budget == 0) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
    for (int32_t i = 0; i < devices; i++) {
        assert_int_equal((devices > 1 ? kin_gpu_team_member(gpu->team, i) : gpu)->held, 0);
    }
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
    return a;
}

static int32_t walkers(void)
{
    int32_t count = 0;
    for (int32_t i = 0; i < DEVICES; i++) {
        count += walked[i] > 0;
    }
    return count;
}

/* ---- The same bytes -------------------------------------------------------------------------- */

static const setting settings[] = {
    {false, KITH_F32, 4, 1, 2 * LEAST, 0, false, KITH_METHOD_TREE, 2},
    {false, KITH_F32, 3, 17, 3 * LEAST + 7, 900, true, KITH_METHOD_TREE, 3},
    {false, KITH_U8, 4, 17, 2 * LEAST + 1, 900, true, KITH_METHOD_TREE, 2},
    {false, KITH_F32, 2, 1, 2 * LEAST, 300, true, KITH_METHOD_AUTO, 2},
    {true, KITH_F32, 3, 1, 2 * LEAST + 3, 0, false, KITH_METHOD_TREE, 2},
    {true, KITH_F32, 3, 17, 2 * LEAST, 900, true, KITH_METHOD_TREE, 2},
    {true, KITH_F32, 2, 2, 6 * LEAST, 900, false, KITH_METHOD_AUTO, 3},
    {true, KITH_U8, 8, 2, 2 * LEAST + 5, 900, false, KITH_METHOD_TREE, 2},
};

static void compare(const setting *s)
{
    data d = data_of(s);
    solved one = solve_by(s, &d, 1, 0);
    solved all = solve_by(s, &d, s->devices, 0);
    printf("  %-6s %-3s %d columns, k = %2d, %6d rows, %3d copies%s%s, %d GPUs: %.2f and %.2f "
           "candidates a row\n",
           s->graph ? "graph" : "search", s->dtype == KITH_U8 ? "u8" : "f32", (int)s->cols,
           (int)s->k, (int)s->rows, (int)s->equal, s->excludes ? ", ids" : "",
           s->method == KITH_METHOD_AUTO ? ", auto" : "", (int)walkers(), one.report.candidates,
           all.report.candidates);
    assert_false(one.declined || all.declined);
    assert_int_equal(walkers(), s->devices);
    assert_true(test_answers_equal(&one.out, &all.out));
    assert_string_equal(all.report.screen, "tree");
    assert_int_equal(all.report.distinct_rows, one.report.distinct_rows);
    assert_true(fabs(all.report.candidates - one.report.candidates) <
                0.1 * one.report.candidates + 2.0);
    assert_true(fabs(all.report.skipped_share - one.report.skipped_share) < 0.05);
    test_answer_free(&all.out);
    test_answer_free(&one.out);
    free_data(&d);
}

static void bytes_of_one(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* budgets have a graph of one and of two, failures a search */
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (i % 4 != 0 || test_is_whole_build()) {
            compare(&settings[i]);
        }
    }
    printf("searches and graphs by the tree have the bytes of one GPU, and all have walked\n");
}

/* ---- What is one's --------------------------------------------------------------------------- */

static void few_are_ones(void **state)
{
    (void)state;
    static const setting few[] = {
        {false, KITH_F32, 3, 2, 2 * LEAST - 1, 0, false, KITH_METHOD_TREE, 2},
        {true, KITH_F32, 3, 2, 3000, 0, false, KITH_METHOD_TREE, 3},
    };
    for (size_t i = test_is_slow_build() ? 1 : 0; i < sizeof few / sizeof *few; i++) {
        data d = data_of(&few[i]);
        solved a = solve_by(&few[i], &d, few[i].devices, 0);
        assert_int_equal(walkers(), 1);
        test_answer_free(&a.out);
        free_data(&d);
    }
    /* A tree that does not pay nobody takes, and the first member alone has asked. */
    static const setting wide = {true, KITH_F32, 40, 2, 2 * LEAST, 0, false, KITH_METHOD_AUTO, 2};
    data d = data_of(&wide);
    solved a = solve_by(&wide, &d, 2, 0);
    assert_true(a.declined && walkers() == 1 && walked[2] > 0);
    assert_true(a.report.seconds_prepare == 0.0 && a.report.candidates == 0.0);
    test_answer_free(&a.out);
    free_data(&d);
    printf("few rows are one GPU's; what the first one declines nobody does\n");
}

/* ---- Memory, failures ------------------------------------------------------------------------ */

static void budgets_of(const setting *s)
{
    data d = data_of(s);
    const kin_request request = request_of(s, &d);
    const kin_exact_gpu_need need =
        kin_tree_gpu_plan_need(&d.points, s->graph ? NULL : &d.queries, &request, UINT64_MAX);
    solved plenty = solve_by(s, &d, 1, 0);
    for (uint64_t budget = need.whole_bytes; budget > 1 << 18;
         budget /= test_is_whole_build() ? 4 : 16) {
        solved one = solve_by(s, &d, 1, budget);
        solved all = solve_by(s, &d, 2, budget);
        const bool alone = strstr(test_logged, "one GPU alone goes on") != NULL;
        printf("    %9llu bytes: %s, %s, %llu held\n", (unsigned long long)budget,
               kith_status_name(all.status), alone ? "by one alone" : "by two",
               (unsigned long long)all.peak);
        assert_int_equal(all.status, one.status);
        assert_true(all.peak <= budget);
        assert_true(!alone || budget < need.whole_bytes);
        assert_true(all.status != KITH_OK || test_answers_equal(&plenty.out, &all.out));
        test_answer_free(&all.out);
        test_answer_free(&one.out);
    }
    test_answer_free(&plenty.out);
    free_data(&d);
}

static void budgets(void **state)
{
    (void)state;
    static const setting both[] = {
        {false, KITH_F32, 3, 5, 2 * LEAST, 0, false, KITH_METHOD_TREE, 2},
        {true, KITH_F32, 3, 5, 2 * LEAST, 500, false, KITH_METHOD_TREE, 2},
    };
    for (size_t i = test_is_slow_build() ? 1 : 0; i < 2; i++) {
        budgets_of(&both[i]);
    }
    printf("what the plan says suffices on each; with less the bytes are the same, or none\n");
}

static void failures(void **state)
{
    (void)state;
    static const setting s = {false, KITH_F32, 3, 2, 2 * LEAST, 0, false, KITH_METHOD_TREE, 2};
    data d = data_of(&s);
    solved one = solve_by(&s, &d, 1, 0);
    for (int32_t failing = 0; failing <= 2; failing += 2) { /* the other one, the leader */
        kith_ctx *ctx = test_reference_ctx();
        kin_gpu *gpu = open_team(ctx, 2, 0);
        failing_device = failing;
        solved all = solve(ctx, gpu, &s, &d);
        assert_int_equal(all.status, KITH_OK);
        assert_non_null(strstr(test_logged, "is left out"));
        assert_true(test_answers_equal(&one.out, &all.out));
        test_answer_free(&all.out);
        kin_gpu_close(ctx, gpu);
        test_reference_is_empty();
        kith_ctx_free(ctx);
    }
    kith_ctx *ctx = test_reference_ctx();
    kin_gpu *gpu = open_team(ctx, 2, 0);
    kin_gpu_team_member(gpu->team, 1)->budget = 1 << 15; /* of which none is left beside others */
    solved alone = solve(ctx, gpu, &s, &d);
    assert_int_equal(alone.status, KITH_OK);
    assert_non_null(strstr(test_logged, "one GPU alone goes on"));
    assert_true(walkers() == 1 && walked[2] > 0);
    assert_true(test_answers_equal(&one.out, &alone.out));
    test_answer_free(&alone.out);
    ((float *)(uintptr_t)d.queries.data)[(2 * LEAST - 3) * 3] = NAN;
    solved all = solve(ctx, gpu, &s, &d);
    assert_int_equal(all.status, KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(ctx), "131069"));
    test_answer_free(&all.out);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
    test_answer_free(&one.out);
    free_data(&d);
    printf("a GPU that fails is left out; one without room leaves all to the first; a bad value is "
           "named by its row of all\n");
}

int main(void)
{
    test_reference_use(DEVICES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_one),
        cmocka_unit_test(few_are_ones),
        cmocka_unit_test(budgets),
        cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
