/* SPDX-License-Identifier: Apache-2.0
 * Descents of several reference devices that begin with something that is known: two graphs made
 * one, by what is near across, by chance and as published, a graph that is given, and a relative's.
 * Each has the bytes, the counts and the controls' keys of one GPU, with sets of uneven sizes, with
 * equal rows, bytes and floats, points that rounding cannot tell apart; no GPU has all lists in a
 * round. What the plan says suffices on each GPU; with less of it one goes on alone, and few rows
 * are one GPU's from the beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_gpu.h"
#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_mixture.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 4, K = 6, LONGER = 9, COLS = 10, CONTROLS = 8, AT = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* what members write is under it */
static int32_t shared_rounds;                            /* times that some lists were sampled, */
static int32_t whole_rounds;                             /* and all of them */

static int sample(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    const int64_t count = kin_graph_gpu_behind(&job->graph) - job->graph.first;
    pthread_mutex_lock(&lock);
    shared_rounds += count < job->graph.points;
    whole_rounds += count == job->graph.points;
    pthread_mutex_unlock(&lock);
    return kin_gpu_get_module()->graph->sample(stream, job);
}

static kin_gpu *open_team(kith_ctx *ctx, int32_t count, uint64_t budget)
{
    const int32_t indices[DEVICES] = {2, 0, 3, 1};
    kin_gpu *gpu = test_reference_team(ctx, indices, count, budget);
    test_tables.graph.sample = sample;
    shared_rounds = 0;
    whole_rounds = 0;
    return gpu;
}

/* ---- What is solved -------------------------------------------------------------------------- */

typedef enum beginning { NEAR, CHANCE, PUBLISHED, GIVEN, RELATIVE } beginning;
static const char *const BEGINNINGS[] = {"near", "random", "ggm", "init", "relative"};

typedef struct setting {
    beginning how;
    kith_dtype dtype;
    kith_metric metric;
    int64_t rows;
    int64_t first; /* of the first set */
    int64_t equal; /* rows that are copies, of both sets */
    double spread;
    int64_t clusters;
    int32_t devices;
    uint32_t flags;
} setting;

static const setting settings[] = {
    {NEAR, KITH_F32, KITH_EUCLIDEAN, 4901, 2450, 0, 0.5, 30, 2, 0},
    {NEAR, KITH_F32, KITH_EUCLIDEAN, 5400, 1100, 300, 0.5, 30, 3, 0},
    {NEAR, KITH_U8, KITH_EUCLIDEAN, 4700, 4600, 0, 0.5, 20, 2, 0},
    {NEAR, KITH_U8, KITH_EUCLIDEAN, 4700, 2350, 90, 0.3, 20, 4, KITH_INCLUDE_SELF},
    {NEAR, KITH_F32, KITH_COSINE, 4800, 2000, 40, 0.7, 30, 3, 0},
    {NEAR, KITH_F32, KITH_INNER_PRODUCT, 4600, 1900, 0, 0.7, 30, 2, 0},
    {NEAR, KITH_F32, KITH_EUCLIDEAN, 4800, 2400, 0, 1e-7, 2, 2, 0},
    {CHANCE, KITH_F32, KITH_EUCLIDEAN, 4901, 2450, 200, 0.5, 30, 2, 0},
    {CHANCE, KITH_U8, KITH_COSINE, 4500, 3500, 0, 0.5, 30, 3, 0},
    {PUBLISHED, KITH_F32, KITH_EUCLIDEAN, 4901, 2450, 0, 0.5, 30, 2, 0},
    {PUBLISHED, KITH_U8, KITH_EUCLIDEAN, 5200, 1300, 250, 0.5, 30, 4, 0},
    {PUBLISHED, KITH_F32, KITH_COSINE, 4700, 2000, 0, 0.7, 30, 2, 0},
    {PUBLISHED, KITH_F32, KITH_EUCLIDEAN, 4800, 2400, 0, 1e-7, 2, 3, 0},
    {GIVEN, KITH_F32, KITH_EUCLIDEAN, 4901, 0, 0, 0.5, 30, 2, 0},
    {GIVEN, KITH_U8, KITH_COSINE, 5000, 0, 300, 0.5, 30, 3, 0},
    {GIVEN, KITH_F32, KITH_EUCLIDEAN, 4800, 0, 0, 1e-7, 2, 2, 0},
    {RELATIVE, KITH_F32, KITH_INNER_PRODUCT, 4901, 0, 0, 0.5, 30, 2, 0},
    {RELATIVE, KITH_F32, KITH_INNER_PRODUCT, 5200, 0, 100, 0.5, 30, 3, KITH_INCLUDE_SELF},
};

/* Rows of products differ in length. */
static kith_matrix points_of(const setting *s)
{
    const test_mixture mixture = {.dtype = s->dtype,
                                  .rows = s->rows,
                                  .cols = COLS,
                                  .inner = 4,
                                  .clusters = s->clusters,
                                  .spread = s->spread,
                                  .seed = 7};
    kith_matrix points = test_mixture_make(&mixture);
    for (int64_t i = 0; s->metric == KITH_INNER_PRODUCT && i < s->rows * COLS; i++) {
        ((float *)(uintptr_t)points.data)[i] *= 0.5F + (float)(i / COLS * 37 % 101) / 101.0F;
    }
    for (int64_t i = 0; i < s->equal; i++) {
        test_mixture_copy(&points, s->rows - 1 - 3 * i, 7 * i % 700);
    }
    return points;
}

typedef struct beginnings {
    kith_neighbors graph[2];
    int64_t split;
} beginnings;

/* A graph that is given has rows of anywhere, places that are empty and its own rows. */
static kith_neighbors poor_graph(int64_t rows)
{
    kith_neighbors graph = test_answer_make(rows, LONGER);
    for (int64_t i = 0; i < rows * LONGER; i++) {
        const int64_t id = (i / LONGER + i * i % 1009 * (i % LONGER)) % rows;
        graph.ids[i] = i % 31 == 5 ? KITH_ID_NONE : (uint32_t)id;
    }
    return graph;
}

static beginnings begin(kith_ctx *ctx, const setting *s, const kith_matrix *points)
{
    beginnings b = {.split = s->first};
    const kith_matrix part[] = {test_part_of(points, 0, s->first),
                                test_part_of(points, s->first, s->rows - s->first)};
    if (s->how == GIVEN) {
        b.graph[0] = poor_graph(s->rows);
    }
    for (int i = 0; i < 2 && s->how <= PUBLISHED; i++) {
        b.graph[i] = test_answer_exact(ctx, &part[i], s->metric, i == 0 ? LONGER : K, 0);
    }
    return b;
}

static kin_graph_request request_of(const setting *s, const beginnings *b)
{
    kin_graph_request request = {
        .distance = {.metric = s->metric, .cols = COLS, .isa = kin_cpu_best()},
        .k = K,
        .flags = s->flags,
        .candidates = 6,
        .rounds = 3,
        .share = 0.1,
        .related = s->metric == KITH_INNER_PRODUCT ? 1 : -1};
    if (s->how == RELATIVE) {
        return request;
    }
    request.start = KIN_GRAPH_START_GRAPH;
    request.init = &b->graph[0];
    request.split = b->split;
    request.init2 = b->split > 0 ? &b->graph[1] : NULL;
    request.by_chance = s->how == CHANCE || s->how == PUBLISHED;
    request.ggm = s->how == PUBLISHED;
    return request;
}

/* ---- The same bytes -------------------------------------------------------------------------- */

/* Lists of control rows are looked at after every round: their keys are compared, too. */
typedef struct solved {
    kith_neighbors graph;
    kin_graph_outcome outcome;
    double found[CONTROLS * AT];
    double kth[CONTROLS];
    kith_status status;
    uint64_t peak;
} solved;

static void solve(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points, kin_graph_request request,
                  solved *d)
{
    static const uint32_t controls[CONTROLS] = {3, 700, 1500, 2222, 3100, 3999, 4200, 4400};
    kin_recall_control control = {
        .ids = controls, .count = CONTROLS, .at = AT, .found = d->found, .kth = d->kth};
    request.control = &control;
    d->graph = test_answer_make(points->rows, K);
    kin_gpu_enter(gpu);
    d->status = kin_graph_gpu_descend(ctx, gpu, points, &request, &d->graph, &d->outcome);
    kin_gpu_leave(gpu);
    d->peak = gpu->team != NULL ? kin_gpu_team_peak(gpu->team) : gpu->peak;
}

static void compare(const setting *s)
{
    kith_ctx *ctx = test_reference_ctx();
    kith_matrix points = points_of(s);
    beginnings b = begin(ctx, s, &points);
    const kin_graph_request request = request_of(s, &b);
    solved one;
    solved all;
    kin_gpu *gpu = open_team(ctx, 1, 0);
    solve(ctx, gpu, &points, request, &one);
    kin_gpu_close(ctx, gpu);
    assert_int_equal(one.status, KITH_OK);
    gpu = open_team(ctx, s->devices, 0);
    solve(ctx, gpu, &points, request, &all);
    if (all.status != KITH_OK) {
        fail_msg("%s: %s", BEGINNINGS[s->how], kith_ctx_detail(ctx));
    }
    printf("  %-8s %-4s %-13s %d rows, %4d in the first set, %3d copies, %d GPUs: %d rounds\n",
           BEGINNINGS[s->how], s->dtype == KITH_U8 ? "u8" : "f32", kith_metric_name(s->metric),
           (int)s->rows, (int)s->first, (int)s->equal, (int)s->devices, (int)one.outcome.rounds);
    assert_true(test_answers_equal(&one.graph, &all.graph));
    assert_int_equal(one.outcome.rounds, all.outcome.rounds);
    assert_int_equal(one.outcome.updates, all.outcome.updates);
    assert_true(one.outcome.evaluations == all.outcome.evaluations);
    assert_memory_equal(one.found, all.found, sizeof one.found);
    assert_memory_equal(one.kth, all.kth, sizeof one.kth);
    assert_int_equal(whole_rounds, 0);
    assert_int_equal(shared_rounds % s->devices, 0);
    assert_true(shared_rounds >= s->devices * one.outcome.rounds);
    for (int32_t i = 0; i < s->devices; i++) {
        assert_int_equal(kin_gpu_team_member(gpu->team, i)->held, 0);
    }
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    test_answer_free(&all.graph);
    test_answer_free(&one.graph);
    test_answer_free(&b.graph[1]);
    test_answer_free(&b.graph[0]);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

static void starts_have_the_bytes_of_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!test_is_sanitized_build() || i % 4 == 1) {
            compare(&settings[i]);
        }
    }
    printf("every start has the bytes of one GPU on several, and none has all lists\n");
}

/* ---- Memory, and few rows -------------------------------------------------------------------- */

static void with_budget(const setting *s, const kith_matrix *points, const beginnings *b,
                        const kith_neighbors *plenty, uint64_t budget, bool must)
{
    kith_ctx *ctx = test_reference_ctx();
    const kin_graph_request request = request_of(s, b);
    kin_gpu *gpu = open_team(ctx, 2, budget);
    solved d;
    solved one = {0};
    solve(ctx, gpu, points, request, &d);
    const bool alone = strstr(test_logged, "one GPU alone goes on") != NULL;
    printf("    %9llu bytes: %s, %s, %llu held\n", (unsigned long long)budget,
           kith_status_name(d.status), alone ? "by one alone" : "by two",
           (unsigned long long)d.peak);
    assert_true(d.peak <= budget);
    assert_true(d.status == KITH_OK || (!must && d.status == KITH_E_DEVICE_MEMORY));
    assert_true(alone == (whole_rounds > 0) || d.status != KITH_OK);
    assert_true(!must || !alone);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(kin_gpu_team_member(gpu->team, i)->held, 0);
    }
    kin_gpu_close(ctx, gpu);
    if (alone) { /* where memory is little lists of the start are short */
        gpu = open_team(ctx, 1, budget);
        solve(ctx, gpu, points, request, &one);
        kin_gpu_close(ctx, gpu);
        assert_int_equal(one.status, d.status);
    }
    assert_true(d.status != KITH_OK || test_answers_equal(&d.graph, alone ? &one.graph : plenty));
    test_answer_free(&one.graph);
    test_answer_free(&d.graph);
    kith_ctx_free(ctx);
}

static void budgets_of(const setting *s)
{
    kith_ctx *ctx = test_reference_ctx();
    kith_matrix points = points_of(s);
    beginnings b = begin(ctx, s, &points);
    kin_graph_request request = request_of(s, &b);
    solved one;
    kin_gpu *gpu = open_team(ctx, 2, 0);
    kin_recall_control control = {.count = CONTROLS, .at = AT};
    request.control = &control;
    const uint64_t need = kin_graph_gpu_bytes_on(gpu, &points, &request);
    const uint64_t alone = kin_graph_gpu_bytes(&points, &request);
    kin_gpu_close(ctx, gpu);
    gpu = open_team(ctx, 1, 0);
    solve(ctx, gpu, &points, request, &one);
    kin_gpu_close(ctx, gpu);
    printf("  %s: by the plan %llu bytes on each, %llu on one alone\n", BEGINNINGS[s->how],
           (unsigned long long)need, (unsigned long long)alone);
    assert_true(need > alone);
    with_budget(s, &points, &b, &one.graph, need, true);
    for (uint64_t budget = need; budget > need / 20; budget -= budget / 2) {
        with_budget(s, &points, &b, &one.graph, budget, false);
    }
    test_answer_free(&one.graph);
    test_answer_free(&b.graph[1]);
    test_answer_free(&b.graph[0]);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

static void little_memory_is_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const bool first = i == 0 || settings[i].how != settings[i - 1].how;
        if (first && (i == 0 || !test_is_sanitized_build())) {
            budgets_of(&settings[i]);
        }
    }
    printf("what the plan says suffices on each GPU; with less the bytes are the same, or none\n");
}

/* Fewer than a team shares; and many of which nearly all are equal. */
static void few_rows_are_ones(void **state)
{
    (void)state;
    static const setting few[] = {
        {NEAR, KITH_F32, KITH_EUCLIDEAN, 300, 120, 0, 0.5, 3, 3, 0},
        {PUBLISHED, KITH_F32, KITH_EUCLIDEAN, 4000, 1300, 0, 0.5, 3, 4, 0},
        {GIVEN, KITH_F32, KITH_EUCLIDEAN, 40, 0, 0, 0.5, 3, 2, 0},
        {NEAR, KITH_U8, KITH_EUCLIDEAN, 5000, 2500, 1600, 0.5, 3, 2, 0},
        {RELATIVE, KITH_F32, KITH_INNER_PRODUCT, 5000, 0, 1600, 0.5, 3, 2, 0},
    };
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        const setting *s = &few[i];
        kith_ctx *ctx = test_reference_ctx();
        kith_matrix points = points_of(s);
        beginnings b = begin(ctx, s, &points);
        kith_neighbors truth = test_answer_exact(ctx, &points, s->metric, K, s->flags);
        kith_neighbors graph = test_answer_make(s->rows, K);
        kin_graph_outcome outcome;
        const kin_graph_request request = request_of(s, &b);
        kin_gpu *gpu = open_team(ctx, s->devices, 0);
        kin_gpu_enter(gpu);
        if (kin_graph_gpu_descend(ctx, gpu, &points, &request, &graph, &outcome) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(ctx));
        }
        kin_gpu_leave(gpu);
        assert_true(outcome.exact && shared_rounds + whole_rounds == 0);
        assert_true(test_answers_equal(&graph, &truth));
        kin_gpu_close(ctx, gpu);
        test_answer_free(&graph);
        test_answer_free(&truth);
        test_answer_free(&b.graph[1]);
        test_answer_free(&b.graph[0]);
        test_mixture_free(&points);
        kith_ctx_free(ctx);
    }
    printf("few rows, and those that are equal but for a few, are solved exactly\n");
}

/* Products of some hundred directions: their relative has few points, which in lockstep nobody
 * solves, so that one GPU begins anew. */
static void few_directions_are_ones(void **state)
{
    (void)state;
    static const setting s = {RELATIVE, KITH_F32, KITH_INNER_PRODUCT, 4901, 0, 0, 0.5, 30, 2, 0};
    kith_ctx *ctx = test_reference_ctx();
    kith_matrix points = points_of(&s);
    const beginnings b = {.split = 0};
    const kin_graph_request request = request_of(&s, &b);
    solved one;
    solved all;
    float *data = (float *)(uintptr_t)points.data;
    for (int64_t i = 500 * COLS; i < s.rows * COLS; i++) { /* by powers of 2: exact */
        data[i] = data[i % (500 * COLS)] * (float)(1 << i / COLS / 500);
    }
    kin_gpu *gpu = open_team(ctx, 1, 0);
    solve(ctx, gpu, &points, request, &one);
    kin_gpu_close(ctx, gpu);
    gpu = open_team(ctx, 2, 0);
    solve(ctx, gpu, &points, request, &all);
    kin_gpu_close(ctx, gpu);
    assert_true(one.status == KITH_OK && all.status == KITH_OK && !one.outcome.exact);
    assert_true(test_answers_equal(&one.graph, &all.graph));
    assert_true(shared_rounds == 0 && whole_rounds > 0);
    test_reference_is_empty();
    test_answer_free(&all.graph);
    test_answer_free(&one.graph);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
    printf("products of few directions are one GPU's\n");
}

int main(void)
{
    test_reference_use(DEVICES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_have_the_bytes_of_one),
        cmocka_unit_test(few_rows_are_ones),
        cmocka_unit_test(few_directions_are_ones),
        cmocka_unit_test(little_memory_is_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
