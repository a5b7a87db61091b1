/* SPDX-License-Identifier: Apache-2.0
 * The driver of NN-Descent on a GPU, on the reference device: a start from near tiles
 * alone, from random lists and from a graph, rounds until lists rest, equal rows, own ids, lists
 * that are too short, what the caller is told; in every budget; a call that is cancelled and copies
 * that fail leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_gpu.h"
#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_mixture.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t PLENTY = (uint64_t)1 << 40;
enum { ROWS = 4500 }; /* more than are solved exactly */

static int asked;   /* how often the progress function was */
static int stop_at; /* when it says stop; 0: never */

static int progress(void *arg, const char *phase, double done, double total)
{
    (void)arg;
    (void)phase;
    assert_true(done <= total);
    asked += 1;
    return asked == stop_at;
}

static kith_ctx *make_ctx(void)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = "cpu";
    params.threads = 2;
    params.progress = progress;
    asked = 0;
    stop_at = 0;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

/* ---- What is launched ------------------------------------------------------------------------ */

static struct {
    int64_t rounds;
    int64_t across;      /* joins of points of different sets */
    int64_t given_fills; /* of given positions, by costs of rows as given */
    int64_t near_pairs;  /* of tiles, that plans let through; and that they skipped */
    int64_t far_pairs;
    int32_t loose;      /* screens since lists were tightened, */
    int32_t most_loose; /* and the most there ever were */
    int32_t
        short_lists; /* to be set: of so many lists one is handed over with one entry; 0: none */
} launched;

static int sample(kin_gpu_stream *stream, const kin_graph_gpu_sample *job)
{
    launched.rounds += 1;
    return kin_gpu_get_module()->graph->sample(stream, job);
}

static int join(kin_gpu_stream *stream, const kin_graph_gpu_join *job)
{
    launched.across += job->split > 0;
    return kin_gpu_get_module()->graph->join(stream, job);
}

static int fill(kin_gpu_stream *stream, const kin_graph_gpu_fill *job)
{
    launched.given_fills += job->points.set.rounded == NULL && job->given != NULL;
    return kin_gpu_get_module()->graph->fill(stream, job);
}

static int hand(kin_gpu_stream *stream, const kin_graph_gpu_hand *job)
{
    const kin_gpu_module *given = kin_gpu_get_module();
    int error = given->graph->hand(stream, job);
    if (error == 0 && launched.short_lists != 0) {
        error = given->ops->wait(stream);
        for (int64_t p = 0; p < job->graph.points; p += launched.short_lists) {
            job->lists.counts[p] = 1;
        }
    }
    return error;
}

static int plan(kin_gpu_stream *stream, const kin_screen_gpu_plan *job)
{
    const kin_gpu_module *given = kin_gpu_get_module();
    const int before = given->ops->wait(stream);
    const uint64_t near_pairs = job->met[0];
    const uint64_t far_pairs = job->met[1];
    int error = before != 0 ? before : given->screen->plan(stream, job);
    error = error != 0 ? error : given->ops->wait(stream);
    launched.near_pairs += (int64_t)(job->met[0] - near_pairs);
    launched.far_pairs += (int64_t)(job->met[1] - far_pairs);
    return error;
}

static int screen(kin_gpu_stream *stream, const kin_screen_gpu_screen *job)
{
    const kin_gpu_module *given = kin_gpu_get_module();
    const int error = given->ops->wait(stream);
    launched.loose += job->mode == KIN_SCREEN_GPU_LISTS && *job->unit_count > 0;
    launched.most_loose =
        launched.loose > launched.most_loose ? launched.loose : launched.most_loose;
    return error != 0 ? error : given->screen->screen(stream, job);
}

static int tighten(kin_gpu_stream *stream, const kin_screen_gpu_tighten *job)
{
    launched.loose = job->lists.words != NULL ? 0 : launched.loose;
    return kin_gpu_get_module()->screen->tighten(stream, job);
}

static kin_gpu *gpu_of(kith_ctx *ctx, uint64_t budget)
{
    kin_gpu *gpu = test_reference_gpu(ctx, budget);
    memset(&launched, 0, sizeof launched);
    test_tables.graph.sample = sample;
    test_tables.graph.join = join;
    test_tables.graph.fill = fill;
    test_tables.graph.hand = hand;
    test_tables.screen.plan = plan;
    test_tables.screen.screen = screen;
    test_tables.screen.tighten = tighten;
    return gpu;
}

static kith_matrix points_of(kith_dtype dtype)
{
    const test_mixture mixture = {.dtype = dtype,
                                  .rows = ROWS,
                                  .cols = 8,
                                  .inner = 5,
                                  .clusters = 10,
                                  .spread = 0.4,
                                  .seed = 3};
    return test_mixture_make(&mixture);
}

static kin_graph_request request_of(const kith_matrix *points, kith_metric metric, int64_t k)
{
    return (kin_graph_request){
        .distance = {.metric = metric, .cols = points->cols, .isa = kin_cpu_best()},
        .k = k,
        .candidates = 8,
        .rounds = 9,
        .share = 0.1};
}

typedef struct solved {
    kith_status status;
    double recall;
    kin_graph_outcome outcome;
} solved;

/* cut: every so many-th list is too short at the end. */
static solved solve(const char *name, const kith_matrix *points, const kin_graph_request *request,
                    uint64_t budget, int32_t cut)
{
    kith_ctx *ctx = make_ctx();
    kin_gpu *gpu = gpu_of(ctx, budget);
    kith_neighbors graph = test_answer_make(points->rows, request->k);
    solved s = {0};
    launched.short_lists = cut;
    s.status = kin_graph_gpu_descend(ctx, gpu, points, request, &graph, &s.outcome);
    assert_true(gpu->peak <= budget);
    if (s.status == KITH_OK && budget == PLENTY) {
        kith_neighbors truth =
            test_answer_exact(ctx, points, request->distance.metric, request->k, request->flags);
        const kith_metric metric = request->distance.metric;
        test_graph_is_sound(ctx, name, points, metric, &graph,
                            (request->flags & KITH_INCLUDE_SELF) != 0);
        s.recall = test_graph_recall(metric, &graph, &truth, request->k);
        test_answer_free(&truth);
    } else if (s.status == KITH_OK) {
        test_graph_is_sound(ctx, name, points, request->distance.metric, &graph, 0);
    } else if (budget == PLENTY) {
        fail_msg("%s: %s", name, kith_ctx_detail(ctx));
    } else {
        assert_int_equal(s.status, KITH_E_DEVICE_MEMORY);
        assert_non_null(strstr(kith_ctx_detail(ctx), "descent"));
    }
    test_answer_free(&graph);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
    return s;
}

static void expect(const char *name, const kith_matrix *points, const kin_graph_request *request,
                   int32_t cut, double least)
{
    const solved s = solve(name, points, request, PLENTY, cut);
    printf("    %-28s %-13s recall %.4f after %2d rounds, %.0f costs a row%s\n", name,
           kith_metric_name(request->distance.metric), s.recall, (int)s.outcome.rounds,
           s.outcome.evaluations / (double)points->rows, s.outcome.exact ? ", exact" : "");
    assert_true(s.recall >= least);
}

/* ---- Starts ---------------------------------------------------------------------------------- */

static void starts(void **state)
{
    (void)state;
    for (int type = 0; type < (test_is_sanitized_build() ? 1 : 2); type++) {
        kith_matrix points = points_of(type == 0 ? KITH_F32 : KITH_U8);
        kin_graph_request request = request_of(&points, KITH_EUCLIDEAN, 10);
        expect("near tiles", &points, &request, 0, 0.99);
        assert_int_equal(launched.most_loose, 1); /* seeds may fill lists: tightened at once */
        assert_true(launched.near_pairs > 0);
        assert_true(launched.far_pairs > 2 * launched.near_pairs);
        request.rounds = -1;
        expect("near tiles alone", &points, &request, 0, 0.5);
        assert_int_equal(launched.rounds, 0);
        if (test_is_slow_build()) {
            test_mixture_free(&points);
            break;
        }
        request.rounds = 9;
        request.start = KIN_GRAPH_START_RANDOM;
        expect("random lists", &points, &request, 0, 0.95);
        request.candidates = 100;
        assert_int_equal(solve("many candidates", &points, &request, PLENTY, 0).outcome.candidates,
                         32);
        printf("    of 100 candidates that are asked for 32 are said to have met\n");
        request.candidates = 8;
        assert_true(launched.near_pairs == 0);
        request.all_updates = 1;
        request.flags = KITH_INCLUDE_SELF;
        expect("own ids among them", &points, &request, 0, 0.95);
        request = request_of(&points, KITH_MANHATTAN, 7);
        expect("no screen", &points, &request, 0, 0.95);
        test_mixture_free(&points);
    }
    printf("starts: near tiles, random lists, rows as given\n");
}

/* Two clouds far from each other, so that rounding makes neighbours equal. */
static void part(const kith_matrix *points)
{
    enum { APART = 60000 };
    for (int64_t i = 0; i < ROWS * points->cols; i++) {
        ((float *)(uintptr_t)points->data)[i] += i / points->cols % 2 == 0 ? 0.0F : (float)APART;
    }
}

/* Where rounding makes neighbours equal, rounds go by rows as given. */
static void coarse(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* one thread drives a device */
    }
    kith_matrix points = points_of(KITH_F32);
    kin_graph_request request = request_of(&points, KITH_EUCLIDEAN, 10);
    request.rounds = 14;
    expect("a little rounding", &points, &request, 0, 0.99);
    assert_int_equal(launched.given_fills, 0);
    kin_graph_request products = request_of(&points, KITH_INNER_PRODUCT, 10);
    expect("products", &points, &products, 0, 0.8);
    assert_int_equal(launched.given_fills, 0);
    part(&points);
    expect("rounded to two points", &points, &request, 9, 0.9);
    assert_int_equal(launched.given_fills, 1);
    request.start = KIN_GRAPH_START_RANDOM;
    request.flags = KITH_INCLUDE_SELF;
    expect("  from random lists", &points, &request, 0, 0.9);
    assert_int_equal(launched.given_fills, 1);
    printf("rows as given where rounded ones are alike\n");
    test_mixture_free(&points);
}

static void graphs(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* one thread drives a device */
    }
    kith_ctx *ctx = make_ctx();
    kith_matrix points = points_of(KITH_F32);
    for (int64_t row = 0; row < ROWS; row += 20) {
        test_mixture_copy(&points, row, row / 2);
    }
    kin_graph_request request = request_of(&points, KITH_EUCLIDEAN, 10);
    kith_neighbors init =
        test_answer_exact(ctx, &points, request.distance.metric, request.k, request.flags);
    for (int64_t row = 0; row < ROWS; row += 3) { /* holes */
        memset(init.ids + row * 10, 0xff, 10 * sizeof *init.ids);
    }
    request.start = KIN_GRAPH_START_GRAPH;
    request.init = &init;
    request.rounds = -1;
    expect("as it was given", &points, &request, 0, 0.6);
    request.rounds = 4;
    expect("and four rounds", &points, &request, 0, 0.9);
    test_answer_free(&init);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
    printf("a graph to begin with\n");
}

/* Two graphs made one: copies stand in both sets, lists of one are shorter than those of the other.
 */
static void merges(void **state)
{
    (void)state;
    enum { FIRST = 1700 };
    if (test_is_slow_build()) {
        skip(); /* one thread drives a device */
    }
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN};
    kith_ctx *ctx = make_ctx();
    kith_matrix points = points_of(KITH_F32);
    for (int64_t row = 0; row < ROWS; row += 20) {
        test_mixture_copy(&points, row, row / 2);
    }
    kith_matrix part[] = {points, points};
    part[0].rows = FIRST;
    part[1].rows = ROWS - FIRST;
    part[1].data = (const char *)points.data + FIRST * points.stride_bytes;
    for (int m = 0; m < 2; m++) {
        kin_graph_request request = request_of(&points, metrics[m], 12);
        kith_neighbors init =
            test_answer_exact(ctx, &part[0], request.distance.metric, request.k, request.flags);
        request.k = 10;
        kith_neighbors init2 =
            test_answer_exact(ctx, &part[1], request.distance.metric, request.k, request.flags);
        request.start = KIN_GRAPH_START_GRAPH;
        request.init = &init;
        request.init2 = &init2;
        request.split = FIRST;
        request.rounds = -1;
        request.share = 0.02;
        expect("merged, the start alone", &points, &request, 0, 0.5);
        assert_true(launched.most_loose <= 2); /* limits are known: seeds and one stage */
        request.rounds = 5;
        expect("and five rounds", &points, &request, 0, 0.9);
        request.by_chance = 1;
        expect("by chance", &points, &request, 0, 0.85);
        request.ggm = 1;
        request.rounds = 9;
        launched.across = 0;
        expect("as published", &points, &request, 0, 0.9);
        assert_true(launched.across > 0 && launched.across == launched.rounds);
        const uint64_t need = kin_graph_gpu_bytes(&points, &request);
        for (uint64_t budget = need; budget > need / 8; budget /= 2) {
            const solved s = solve("and in a budget", &points, &request, budget, 0);
            assert_true(budget < need || s.status == KITH_OK);
        }
        test_answer_free(&init2);
        test_answer_free(&init);
    }
    test_mixture_free(&points);
    kith_ctx_free(ctx);
    printf("two graphs made one\n");
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void ends(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_MANHATTAN};
    for (int copies = test_is_sanitized_build() ? 1 : 0; copies < 2; copies++) {
        kith_matrix points = points_of(KITH_F32);
        for (int64_t row = 0; copies != 0 && row < ROWS; row += 13) {
            test_mixture_copy(&points, row, row / 100);
        }
        /* A sanitizer sees each metric once; where threads are watched one will do. */
        for (int m = 0; m < (test_is_thread_build() ? 1 : 3); m++) {
            kin_graph_request request = request_of(&points, metrics[m], 10);
            if (!test_is_sanitized_build() || m == 1) {
                expect(copies ? "copies" : "plain", &points, &request, 9, 0.8);
            }
            request.flags = KITH_INCLUDE_SELF;
            if (!test_is_sanitized_build() || m != 1) {
                expect("  own ids", &points, &request, 9, 0.8);
            }
        }
        test_mixture_free(&points);
    }
    printf("ends: equal rows, own ids, lists that are too short\n");
}

static void exact(void **state)
{
    (void)state;
    kith_matrix points = points_of(KITH_U8);
    kin_graph_request request = request_of(&points, KITH_MANHATTAN, 5);
    points.rows = 6;
    expect("k + 1 points", &points, &request, 0, 1.0);
    points.rows = 2;
    request.k = 1;
    expect("two points", &points, &request, 0, 1.0);
    points.rows = ROWS;
    request = request_of(&points, KITH_EUCLIDEAN, 5);
    for (int64_t row = 50; row < ROWS; row++) {
        test_mixture_copy(&points, row, row % 50);
    }
    expect("fifty different rows", &points, &request, 0, 1.0);
    printf("few points are solved exactly\n");
    test_mixture_free(&points);
}

/* ---- What the caller is told ----------------------------------------------------------------- */

typedef struct told {
    int calls;
    double recall;
    const kin_recall_control *control;
} told;

static kith_status judge(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    told *t = arg;
    const kin_recall_control *c = t->control;
    int64_t hits = 0;
    for (int64_t i = 0; i < c->count * c->at; i++) {
        hits += c->found[i] <= c->kth[i / c->at];
        assert_true(i % c->at == 0 || c->found[i] >= c->found[i - 1]);
    }
    assert_int_equal(round->number, t->calls);
    assert_true(round->phi > 0.0);
    t->calls += 1;
    t->recall = (double)hits / (double)(c->count * c->at);
    *verdict = t->calls == 3 ? KIN_GRAPH_ENOUGH : KIN_GRAPH_GO_ON;
    return KITH_OK;
}

/* With all rows under control the recall that is told is the answer's. */
static void told_as(const char *name, const kith_matrix *points, kith_metric metric, uint32_t flags)
{
    enum { K = 6 };
    uint32_t *ids = malloc(ROWS * sizeof *ids);
    double *keys = malloc((size_t)ROWS * (K + 1) * sizeof *keys);
    assert_true(ids != NULL && keys != NULL);
    for (uint32_t i = 0; i < ROWS; i++) {
        ids[i] = i;
    }
    kin_recall_control control = {
        .count = ROWS, .ids = ids, .at = K, .kth = keys, .found = keys + ROWS};
    told t = {.control = &control};
    kin_graph_request request = request_of(points, metric, K);
    request.flags = flags;
    request.start = KIN_GRAPH_START_RANDOM;
    request.delta = 1e-9;
    request.control = &control;
    request.judge = judge;
    request.judge_arg = &t;
    const solved s = solve(name, points, &request, PLENTY, 0);
    printf("    %-12s %-13s told %.4f, is %.4f\n", name, kith_metric_name(metric), t.recall,
           s.recall);
    assert_int_equal(s.outcome.rounds, 2);
    assert_int_equal(t.calls, 3);
    assert_true(fabs(t.recall - s.recall) < 1e-12);
    free(keys);
    free(ids);
}

static void controls(void **state)
{
    (void)state;
    kith_matrix points = points_of(KITH_U8);
    if (!test_is_thread_build()) {
        told_as("plain", &points, KITH_MANHATTAN, 0);
    }
    if (!test_is_sanitized_build()) {
        told_as("own ids", &points, KITH_INNER_PRODUCT, KITH_INCLUDE_SELF);
    }
    for (int64_t row = 0; row < ROWS; row += 13) {
        test_mixture_copy(&points, row, row / 100);
    }
    told_as("own, copies", &points, KITH_EUCLIDEAN, KITH_INCLUDE_SELF);
    printf("recall between rounds is that of the answer\n");
    test_mixture_free(&points);
}

/* Is never content with a start. */
static kith_status want_more(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    int32_t *numbers = arg;
    numbers[0] += round->number == 0;
    numbers[1] += round->number == 1;
    *verdict = round->number == 0 ? KIN_GRAPH_FAR : KIN_GRAPH_ENOUGH;
    return KITH_OK;
}

/* There is one wider start, where near tiles are looked for and not all are near yet. */
static void wider_starts(void **state)
{
    (void)state;
    kith_matrix points = points_of(KITH_U8);
    static const struct {
        kith_metric metric;
        double share;
        int32_t starts;
    } cases[] = {{KITH_EUCLIDEAN, 0.05, 2}, {KITH_EUCLIDEAN, 0.25, 1}, {KITH_MANHATTAN, 0.05, 1}};
    for (size_t i = 0; i < (test_is_thread_build() ? 1 : sizeof cases / sizeof cases[0]); i++) {
        int32_t numbers[2] = {0, 0};
        kin_graph_request request = request_of(&points, cases[i].metric, 4);
        request.share = cases[i].share;
        request.judge = want_more;
        request.judge_arg = numbers;
        const solved s = solve("a wider start", &points, &request, PLENTY, 0);
        assert_int_equal(s.status, KITH_OK);
        assert_int_equal(numbers[0], cases[i].starts);
        assert_int_equal(numbers[1], 1);
        assert_int_equal(s.outcome.rounds, 1);
    }
    printf("who is not content with a start gets one wider start, or rounds\n");
    test_mixture_free(&points);
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static void budgets(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* memory alone is looked at */
    }
    kith_matrix points = points_of(KITH_U8);
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN};
    for (int m = 0; m < 2; m++) {
        kin_graph_request request = request_of(&points, metrics[m], 4);
        request.rounds = 1;
        const uint64_t need = kin_graph_gpu_bytes(&points, &request);
        int worked = 0;
        int lacking = 0;
        const uint64_t step = test_is_sanitized_build() ? 2 : 3;
        for (uint64_t budget = need; budget > 1U << 16; budget -= budget / step) {
            const solved s = solve("a budget", &points, &request, budget, 0);
            worked += s.status == KITH_OK;
            lacking += s.status != KITH_OK;
            assert_true(budget < need || s.status == KITH_OK);
        }
        assert_true(worked > 0 && lacking > 0);
        printf("    %s: %.1f MB by the plan, %d budgets of it did, %d did not\n",
               kith_metric_name(metrics[m]), (double)need / 1e6, worked, lacking);
    }
    printf("what the plan says does; less is said, nothing is kept\n");
    test_mixture_free(&points);
}

/* Whatever ends a call, nothing of it stays. */
static bool ended(const kith_matrix *points, const kin_graph_request *request, int stop,
                  int64_t failing)
{
    kith_ctx *ctx = make_ctx();
    kin_gpu *gpu = gpu_of(ctx, PLENTY);
    kith_neighbors graph = test_answer_make(points->rows, request->k);
    kin_graph_outcome outcome;
    stop_at = stop;
    test_faults.failing_copy = failing;
    const kith_status status = kin_graph_gpu_descend(ctx, gpu, points, request, &graph, &outcome);
    assert_true(status == KITH_OK || status == (stop != 0 ? KITH_E_CANCELLED : KITH_E_DEVICE));
    assert_int_equal(gpu->held, 0);
    test_answer_free(&graph);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    kith_ctx_free(ctx);
    return status == KITH_OK;
}

/* The same of a merge as published. */
static int64_t failed_merges(const kith_matrix *points)
{
    enum { FIRST = 2000 };
    kith_ctx *ctx = make_ctx();
    kith_matrix part[] = {*points, *points};
    part[0].rows = FIRST;
    part[1].rows = ROWS - FIRST;
    part[1].data = (const char *)points->data + FIRST * points->stride_bytes;
    kith_neighbors one = test_answer_exact(ctx, &part[0], KITH_EUCLIDEAN, 4, 0);
    kith_neighbors two = test_answer_exact(ctx, &part[1], KITH_EUCLIDEAN, 4, 0);
    kin_graph_request request = request_of(points, KITH_EUCLIDEAN, 4);
    request.rounds = 1;
    request.start = KIN_GRAPH_START_GRAPH;
    request.init = &one;
    request.init2 = &two;
    request.split = FIRST;
    request.by_chance = 1;
    request.ggm = 1;
    int64_t failed = 0;
    for (int64_t copy = 1; !ended(points, &request, 0, copy); copy += 1 + copy / 3) {
        failed += 1;
    }
    test_answer_free(&two);
    test_answer_free(&one);
    kith_ctx_free(ctx);
    return failed;
}

static void faults(void **state)
{
    (void)state;
    kith_matrix points = points_of(KITH_U8);
    kin_graph_request request = request_of(&points, KITH_EUCLIDEAN, 4);
    request.rounds = 1;
    request.share = 0.01;
    int cancelled = 0;
    int64_t failed = 0;
    for (int stop = 1; stop < 4 && !ended(&points, &request, stop, 0); stop++) {
        cancelled += 1;
    }
    for (int64_t copy = 1; !ended(&points, &request, 0, copy); copy += 1 + copy / 3) {
        failed += 1;
    }
    assert_true(failed > 5 && failed_merges(&points) > 5);
    printf("cancelled %d times, %lld copies failed: nothing is left\n", cancelled,
           (long long)failed);
    test_mixture_free(&points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(starts),   cmocka_unit_test(coarse),
                                       cmocka_unit_test(graphs),   cmocka_unit_test(merges),
                                       cmocka_unit_test(ends),     cmocka_unit_test(exact),
                                       cmocka_unit_test(controls), cmocka_unit_test(wider_starts),
                                       cmocka_unit_test(budgets),  cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
