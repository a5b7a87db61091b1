/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on a GPU: recall against the exact engine on mixtures, in every metric; sound lists
 * (ascending, different, canonical distances, never the own id) wherever data is hard; the same
 * bytes in two runs, a graph to begin with, device arrays, little memory; what the caller is told
 * between rounds. KITH_TIMES=1: times by phase, also of a million points of 128 columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_gpu.h"
#include "support/support_graph_gpu.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Recall ---------------------------------------------------------------------------------- */

static void mixtures(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8};
    static const int32_t widths[] = {32, 128};
    test_graph_gpu b = test_graph_gpu_make(0);
    int poor = 0;
    for (int d = 0; d < 2; d++) {
        for (int w = 0; w < 2; w++) {
            const test_mixture mixture = {.dtype = dtypes[d],
                                          .rows = test_fewer(50000),
                                          .cols = widths[w],
                                          .inner = 12,
                                          .clusters = 50,
                                          .spread = 0.5,
                                          .seed = 7};
            kith_matrix points = test_mixture_make(&mixture);
            const kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
            poor += test_graph_gpu_recall(&b, d == 0 ? "mixture f32" : "mixture u8", &points,
                                          &request) < 0.99;
            test_mixture_free(&points);
        }
    }
    assert_int_equal(poor, 0);
    printf("mixtures of many points: recall@10 at least 0.99\n");
    test_graph_gpu_free(&b);
}

static void metrics(void **state)
{
    (void)state;
    test_graph_gpu b = test_graph_gpu_make(0);
    const test_mixture mixture = {.dtype = KITH_F32,
                                  .rows = test_fewer(20000),
                                  .cols = 24,
                                  .inner = 8,
                                  .clusters = 20,
                                  .spread = 0.5,
                                  .nonnegative = 1,
                                  .seed = 11};
    kith_matrix points = test_mixture_make(&mixture);
    int poor = 0;
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM; metric++) {
        const kin_graph_request request = test_graph_gpu_request(&points, (kith_metric)metric, 10);
        /* Products are no distances: neighbours of a point's neighbours need not be its own, and
         * few rows are everybody's neighbours, whom reverse edges cannot all reach. KL is not
         * symmetric: who is near in a list's direction need not be in the other. */
        const double least = metric == KITH_INNER_PRODUCT ? 0.70 : metric == KITH_KL ? 0.78 : 0.95;
        poor += test_graph_gpu_recall(&b, "mixture f32 x 24", &points, &request) < least;
    }
    assert_int_equal(poor, 0);
    printf("all metrics: recall@10 at least 0.95, of products 0.70, KL 0.78\n");
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

static void numbers_of_neighbours(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 10, 64, 256};
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = test_mixture_points(test_fewer(15000), 48, 10, 15, 0.5, 13);
    int poor = 0;
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, ks[i]);
        poor += test_graph_gpu_recall(&b, "15,000 x 48", &points, &request) < 0.98;
        request.flags = KITH_INCLUDE_SELF;
        poor += test_graph_gpu_recall(&b, "  own ids among them", &points, &request) < 0.98;
        request = test_graph_gpu_request(&points, KITH_MANHATTAN, ks[i]);
        poor += test_graph_gpu_recall(&b, "15,000 x 48", &points, &request) < 0.95;
    }
    assert_int_equal(poor, 0);
    printf("k of 1, 10, 64, 256\n");
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

/* ---- Hard data ------------------------------------------------------------------------------- */

static void few_points(void **state)
{
    (void)state;
    test_graph_gpu b = test_graph_gpu_make(0);
    for (int64_t k = 1; k <= 1024; k = k * 4 + 3) {
        kith_matrix points = test_mixture_points(k + 1, 9, 3, 1, 1.0, 17);
        kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, k);
        assert_true(test_graph_gpu_recall(&b, "k + 1 points", &points, &request) == 1.0);
        request = test_graph_gpu_request(&points, KITH_CHEBYSHEV, k);
        assert_true(test_graph_gpu_recall(&b, "k + 1 points", &points, &request) == 1.0);
        test_mixture_free(&points);
    }
    printf("k + 1 points, from 2 on: exact\n");
    test_graph_gpu_free(&b);
}

static void equal_rows(void **state)
{
    (void)state;
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = test_mixture_points(30000, 16, 6, 10, 0.5, 19);
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT,
                                          KITH_MANHATTAN};
    for (int64_t row = 0; row < points.rows; row++) { /* four fifths are copies */
        if (row % 5 != 0) {
            test_mixture_copy(&points, row, row / 25 * 5 % 5000 / 5 * 5);
        }
    }
    for (int i = 0; i < 4; i++) {
        kin_graph_request request = test_graph_gpu_request(&points, metrics[i], 20);
        assert_true(test_graph_gpu_recall(&b, "80 % copies", &points, &request) > 0.9);
        request.flags = KITH_INCLUDE_SELF;
        assert_true(test_graph_gpu_recall(&b, "  own ids among them", &points, &request) > 0.9);
    }
    for (int64_t row = 0; row < points.rows; row++) {
        test_mixture_copy(&points, row, 0);
    }
    const kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
    assert_true(test_graph_gpu_recall(&b, "one row, again", &points, &request) == 1.0);
    printf("equal rows\n");
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

/* Two blobs so far from each other that rounding sees two points; rows of zeros, which are at
 * distance 1 from all. */
static void blobs(void **state)
{
    (void)state;
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = test_mixture_points(test_fewer(12000), 20, 10, 1, 0.1, 23);
    float *data = (float *)(uintptr_t)points.data;
    for (int64_t i = 0; i < points.rows * points.cols; i++) {
        data[i] += i / points.cols % 2 == 0 ? 1e5F : -1e5F;
    }
    kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
    assert_true(test_graph_gpu_recall(&b, "two far blobs", &points, &request) > 0.3);
    for (int64_t row = 0; row < points.rows; row += 7) {
        memset(data + row * points.cols, 0, (size_t)points.stride_bytes);
    }
    request = test_graph_gpu_request(&points, KITH_COSINE, 10);
    assert_true(test_graph_gpu_recall(&b, "and rows of zeros", &points, &request) > 0.3);
    printf("two far blobs, rows of zeros: sound lists\n");
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

/* ---- One answer ------------------------------------------------------------------------------ */

static kith_matrix usual_points(kith_dtype dtype)
{
    const test_mixture mixture = {.dtype = dtype,
                                  .rows = test_fewer(20000),
                                  .cols = 40,
                                  .inner = 8,
                                  .clusters = 30,
                                  .spread = 0.4,
                                  .seed = 29};
    return test_mixture_make(&mixture);
}

static void same_bytes(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_MANHATTAN};
    test_graph_gpu b = test_graph_gpu_make(0);
    for (int i = 0; i < 6; i++) {
        kith_matrix points = usual_points(i % 2 == 0 ? KITH_F32 : KITH_U8);
        kin_graph_request request = test_graph_gpu_request(&points, metrics[i / 2], 12);
        kin_graph_outcome outcome;
        kith_neighbors first = test_graph_gpu_solve(&b, "first run", &points, &request, &outcome);
        kith_neighbors second = test_graph_gpu_solve(&b, "second run", &points, &request, &outcome);
        assert_true(test_answers_equal(&first, &second));
        test_answer_free(&second);
        test_answer_free(&first);
        test_mixture_free(&points);
    }
    printf("the same bytes in two runs\n");
    test_graph_gpu_free(&b);
}

static void device_arrays(void **state)
{
    (void)state;
    test_caller c = test_caller_open();
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = usual_points(KITH_F32);
    kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
    kin_graph_outcome outcome;
    kith_neighbors wanted = test_graph_gpu_solve(&b, "host arrays", &points, &request, &outcome);
    kith_matrix there = test_caller_copy(&c, &points);
    kith_neighbors out = test_caller_answer(&c, points.rows, 10);
    request.place = KIN_GPU_DATA_ON_DEVICE | KIN_GPU_OUT_ON_DEVICE;
    assert_int_equal(kin_graph_gpu_descend(b.ctx, b.gpu, &there, &request, &out, &outcome),
                     KITH_OK);
    assert_int_equal(kin_gpu_wait(b.ctx, b.gpu), KITH_OK);
    kith_neighbors got = test_caller_fetch(&c, &out);
    assert_true(test_answers_equal(&wanted, &got));
    printf("arrays in device memory: the same bytes\n");
    test_answer_free(&got);
    test_answer_free(&wanted);
    test_caller_release(&c, there.data);
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
    test_caller_close(&c);
}

/* Random lists, then rounds from what they were; then from the true graph, of which every third
 * list is empty. */
static void begun_graphs(void **state)
{
    (void)state;
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = usual_points(KITH_F32);
    kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
    kin_graph_outcome outcome;
    kith_neighbors truth = test_graph_gpu_truth(&points, KITH_EUCLIDEAN, 10, 0);
    request.start = KIN_GRAPH_START_RANDOM;
    request.rounds = -1;
    kith_neighbors random = test_graph_gpu_solve(&b, "random lists", &points, &request, &outcome);
    assert_int_equal(outcome.rounds, 0);
    assert_true(test_graph_recall(KITH_EUCLIDEAN, &random, &truth, 10) < 0.1);
    request.start = KIN_GRAPH_START_GRAPH;
    request.rounds = 0;
    request.init = &random;
    assert_true(test_graph_gpu_recall(&b, "from random lists", &points, &request) > 0.95);
    kith_neighbors holes = test_graph_gpu_truth(&points, KITH_EUCLIDEAN, 10, 0);
    for (int64_t row = 0; row < points.rows; row += 3) {
        memset(holes.ids + row * 10, 0xff, 10 * sizeof *holes.ids);
    }
    request.init = &holes;
    request.rounds = 3;
    assert_true(test_graph_gpu_recall(&b, "from a part of it", &points, &request) > 0.9);
    printf("a graph to begin with\n");
    test_answer_free(&holes);
    test_answer_free(&random);
    test_answer_free(&truth);
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

/* ---- What the caller is told ----------------------------------------------------------------- */

typedef struct told {
    int rounds;
    int stop_at;
    double phi;
    double recall;
    kin_recall_control *control;
} told;

static kith_status judge(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    told *t = arg;
    const kin_recall_control *c = t->control;
    int64_t hits = 0;
    assert_int_equal(round->number, t->rounds);
    for (int64_t i = 0; i < c->count * c->at; i++) {
        hits += c->found[i] <= c->kth[i / c->at];
    }
    t->rounds += 1;
    t->phi = round->phi;
    t->recall = (double)hits / (double)(c->count * c->at);
    *verdict = round->number == t->stop_at ? KIN_GRAPH_ENOUGH : KIN_GRAPH_GO_ON;
    return KITH_OK;
}

/* The control rows' recall and phi as told after the last round are those of the answer. */
static void told_as(test_graph_gpu *b, const char *name, const kith_matrix *points,
                    kith_metric metric, uint32_t flags)
{
    enum { K = 10, CONTROLS = 500 };
    uint32_t ids[CONTROLS];
    double kth[CONTROLS];
    double *found = malloc((size_t)CONTROLS * K * sizeof *found);
    assert_non_null(found);
    for (int64_t i = 0; i < CONTROLS; i++) {
        ids[i] = (uint32_t)(i * points->rows / CONTROLS);
    }
    kin_recall_control control = {
        .count = CONTROLS, .ids = ids, .at = K, .kth = kth, .found = found};
    told t = {.stop_at = 2, .control = &control};
    kin_graph_request request = test_graph_gpu_request(points, metric, K);
    kin_graph_outcome outcome;
    request.flags = flags;
    request.control = &control;
    request.judge = judge;
    request.judge_arg = &t;
    kith_neighbors graph = test_graph_gpu_solve(b, name, points, &request, &outcome);
    kith_neighbors truth = test_graph_gpu_truth(points, metric, K, flags);
    double phi = 0.0;
    int64_t hits = 0;
    for (int64_t i = 0; i < CONTROLS; i++) {
        const int64_t row = (int64_t)ids[i] * K;
        const double last = kin_metric_distance(metric, kth[i]);
        assert_true(last == truth.distances64[row + K - 1]);
        for (int64_t j = 0; j < K; j++) {
            phi += graph.distances64[row + j];
            hits += metric == KITH_INNER_PRODUCT ? graph.distances64[row + j] >= last
                                                 : graph.distances64[row + j] <= last;
        }
    }
    phi *= (double)points->rows / CONTROLS;
    printf("    %-12s told: recall %.4f, phi %.6g after %d rounds\n", name, t.recall, t.phi,
           (int)outcome.rounds);
    assert_true(outcome.rounds <= 2 && t.rounds == outcome.rounds + 1);
    assert_true(t.recall == (double)hits / (CONTROLS * K));
    assert_true(fabs(t.phi - phi) <= 1e-9 * fabs(phi));
    test_answer_free(&truth);
    test_answer_free(&graph);
    free(found);
}

static void controls(void **state)
{
    (void)state;
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = usual_points(KITH_F32);
    told_as(&b, "euclidean", &points, KITH_EUCLIDEAN, 0);
    told_as(&b, "with own", &points, KITH_EUCLIDEAN, KITH_INCLUDE_SELF);
    told_as(&b, "product", &points, KITH_INNER_PRODUCT, KITH_INCLUDE_SELF);
    told_as(&b, "manhattan", &points, KITH_MANHATTAN, 0);
    for (int64_t row = 0; row < points.rows; row += 3) {
        test_mixture_copy(&points, row, row / 2);
    }
    memset((void *)(uintptr_t)points.data, 0, (size_t)(40 * points.stride_bytes));
    told_as(&b, "copies", &points, KITH_EUCLIDEAN, 0);
    told_as(&b, "with zeros", &points, KITH_COSINE, 0);
    printf("recall and phi between rounds are those of the answer\n");
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

/* ---- Longer lists ---------------------------------------------------------------------------- */

/* Points without clusters, of which short lists find little. */
static void longer(void **state)
{
    (void)state;
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = test_mixture_points(test_fewer(30000), 64, 24, 1, 1.0, 7);
    kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
    kith_neighbors truth = test_graph_gpu_truth(&points, KITH_EUCLIDEAN, 10, 0);
    double recall[3];
    request.share = 0.02;
    for (int32_t times = 0; times < 3; times++) {
        kin_graph_outcome outcome;
        request.lengthenings = times;
        kith_neighbors graph = test_graph_gpu_solve(&b, "longer", &points, &request, &outcome);
        recall[times] = test_graph_recall(KITH_EUCLIDEAN, &graph, &truth, 10);
        printf("    lists of %3d, %2d candidates: recall %.4f after %d rounds\n", (int)outcome.list,
               (int)outcome.candidates, recall[times], (int)outcome.rounds);
        assert_int_equal(outcome.list, 32 << times);
        test_answer_free(&graph);
    }
    assert_true(recall[1] > recall[0] && recall[2] > recall[1] && recall[2] > 0.9);
    printf("lists that become longer find more\n");
    test_answer_free(&truth);
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

/* ---- Little memory, times -------------------------------------------------------------------- */

static void little_memory(void **state)
{
    (void)state;
    kith_matrix points = usual_points(KITH_F32);
    const kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
    const uint64_t need = kin_graph_gpu_bytes(&points, &request);
    int lacking = 0;
    for (uint64_t budget = need; budget > 1U << 16; budget -= budget / 3) {
        test_graph_gpu b = test_graph_gpu_make(budget);
        kith_neighbors graph = test_answer_make(points.rows, 10);
        kin_graph_outcome outcome;
        const kith_status status =
            kin_graph_gpu_descend(b.ctx, b.gpu, &points, &request, &graph, &outcome);
        assert_true(b.gpu->peak <= budget);
        if (status != KITH_OK) {
            assert_int_equal(status, KITH_E_DEVICE_MEMORY);
            assert_non_null(strstr(kith_ctx_detail(b.ctx), "descent"));
            assert_true(budget < need);
            lacking += 1;
        }
        test_answer_free(&graph);
        test_graph_gpu_free(&b);
    }
    assert_true(lacking > 0);
    printf("the plan's %.1f MB do, little memory is said\n", (double)need / 1e6);
    test_mixture_free(&points);
}

static kith_status print_round(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict)
{
    (void)arg;
    (void)verdict;
    printf("      round %2d: %11lld updates, %8.4f s\n", (int)round->number,
           (long long)round->updates, round->seconds);
    return KITH_OK;
}

static void times(void **state)
{
    (void)state;
    const char *wanted = getenv("KITH_TIMES");
    if (wanted == NULL) {
        skip();
    }
    test_graph_gpu b = test_graph_gpu_make(0);
    kith_matrix points = test_mixture_points(1000000, 128, 12, 1000, 0.5, 31);
    kith_neighbors truth = test_graph_gpu_truth(&points, KITH_EUCLIDEAN, 10, 0);
    kith_neighbors graph = test_answer_make(points.rows, 10);
    kin_graph_request request = test_graph_gpu_request(&points, KITH_EUCLIDEAN, 10);
    request.judge = print_round;
    for (int i = 0; i < 3; i++) {
        kin_graph_outcome outcome;
        memset(&b.ctx->report, 0, sizeof b.ctx->report);
        assert_int_equal(kin_graph_gpu_descend(b.ctx, b.gpu, &points, &request, &graph, &outcome),
                         KITH_OK);
        printf(
            "    1,000,000 x 128: prepare %.4f s (with the upload), start %.4f s, rounds %.4f s, "
            "end %.4f s; %.0f costs a row; %.2f GB; recall@10 %.5f\n",
            b.ctx->report.seconds_prepare, outcome.seconds_start, outcome.seconds_rounds,
            b.ctx->report.seconds_rescore, outcome.evaluations / 1e6, (double)b.gpu->peak / 1e9,
            test_graph_recall(KITH_EUCLIDEAN, &graph, &truth, 10));
    }
    test_answer_free(&graph);
    test_answer_free(&truth);
    test_mixture_free(&points);
    test_graph_gpu_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_points),    cmocka_unit_test(mixtures),
        cmocka_unit_test(metrics),       cmocka_unit_test(numbers_of_neighbours),
        cmocka_unit_test(equal_rows),    cmocka_unit_test(blobs),
        cmocka_unit_test(same_bytes),    cmocka_unit_test(device_arrays),
        cmocka_unit_test(begun_graphs),  cmocka_unit_test(controls),
        cmocka_unit_test(little_memory), cmocka_unit_test(longer),
        cmocka_unit_test(times)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
