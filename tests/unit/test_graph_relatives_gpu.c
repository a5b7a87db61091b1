/* SPDX-License-Identifier: Apache-2.0
 * Starts from what is near under a relative, on the reference device: better than lists
 * drawn by chance and than neighbouring blocks, for every metric that has one; equal rows, own ids,
 * rounds; what the plan says suffices; copies that fail leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_gpu.h"
#include "graph/graph_run_gpu.h"
#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_mixture.h"
#include "support/support_reference.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t PLENTY = (uint64_t)1 << 40;
enum { ROWS = 4500, COLS = 12, K = 8 }; /* more than are solved exactly */

static const kith_metric METRICS[] = {KITH_INNER_PRODUCT, KITH_CHEBYSHEV, KITH_KL, KITH_JACCARD};
enum { METRIC_COUNT = sizeof METRICS / sizeof METRICS[0] };

static kith_ctx *make_ctx(void)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = "cpu";
    params.threads = 2;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static double value_of(const kith_matrix *points, int64_t at)
{
    return points->dtype == KITH_U8 ? (double)((const unsigned char *)points->data)[at]
                                    : (double)((const float *)points->data)[at];
}

static void set_value(const kith_matrix *points, int64_t at, double value)
{
    if (points->dtype == KITH_U8) {
        ((unsigned char *)(uintptr_t)points->data)[at] = (unsigned char)value;
    } else {
        ((float *)(uintptr_t)points->data)[at] = (float)value;
    }
}

/* Products: rows of both signs, of different length. Patterns: a third of the values is 0. */
static kith_matrix points_of(kith_dtype dtype, kith_metric metric)
{
    const bool product = metric == KITH_INNER_PRODUCT;
    const test_mixture mixture = {.dtype = dtype,
                                  .rows = ROWS,
                                  .cols = metric == KITH_JACCARD ? 3 * COLS : COLS,
                                  .inner = 5,
                                  .clusters = 60,
                                  .spread = 0.4,
                                  .nonnegative = !product,
                                  .seed = 3};
    kith_matrix points = test_mixture_make(&mixture);
    const double middle = dtype == KITH_U8 ? 140.0 : 0.4;
    for (int64_t i = 0; i < ROWS * points.cols; i++) {
        const double value = value_of(&points, i);
        const double length = 0.5 + (double)(i / points.cols * 37 % 101) / 101.0;
        set_value(&points, i,
                  product                                    ? value * length
                  : metric == KITH_JACCARD && value < middle ? 0.0
                                                             : value);
    }
    return points;
}

static kin_graph_request request_of(const kith_matrix *points, kith_metric metric)
{
    return (kin_graph_request){
        .distance = {.metric = metric, .cols = points->cols, .isa = kin_cpu_best()},
        .k = K,
        .candidates = 8,
        .rounds = 9,
        .related = 1,
        .share = 0.1};
}

static int64_t related; /* times that rows of a relative were made since the device was opened */

static int relate(kin_gpu_stream *stream, const kin_graph_gpu_relate *job)
{
    related += job->related != NULL;
    return kin_gpu_get_module()->graph->relate(stream, job);
}

static kin_gpu *gpu_of(kith_ctx *ctx, uint64_t budget)
{
    kin_gpu *gpu = test_reference_gpu(ctx, budget);
    test_tables.graph.relate = relate;
    related = 0;
    return gpu;
}

/* budget: of device memory. *held: what was held at most. */
static kith_status solve(kith_ctx *ctx, const kith_matrix *points, const kin_graph_request *request,
                         uint64_t budget, kith_neighbors *graph, kin_graph_outcome *outcome)
{
    kin_gpu *gpu = gpu_of(ctx, budget);
    const kith_status status = kin_graph_gpu_descend(ctx, gpu, points, request, graph, outcome);
    assert_true(gpu->peak <= budget);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    return status;
}

static double recall_of(const char *name, const kith_matrix *points,
                        const kin_graph_request *request)
{
    kith_ctx *ctx = make_ctx();
    const kith_metric metric = request->distance.metric;
    kith_neighbors graph = test_answer_make(ROWS, K);
    kith_neighbors truth =
        test_answer_exact(ctx, points, request->distance.metric, request->k, request->flags);
    kin_graph_outcome outcome;
    const kith_status status = solve(ctx, points, request, PLENTY, &graph, &outcome);
    if (status != KITH_OK) {
        fail_msg("%s: %s", name, kith_ctx_detail(ctx));
    }
    test_graph_is_sound(ctx, name, points, metric, &graph,
                        (request->flags & KITH_INCLUDE_SELF) != 0);
    const double recall = test_graph_recall(metric, &graph, &truth, K);
    printf("    %-22s %-13s recall %.4f after %2d rounds, %5.0f costs a row\n", name,
           kith_metric_name(metric), recall, (int)outcome.rounds,
           outcome.evaluations / (double)ROWS);
    assert_false(outcome.exact);
    assert_int_equal(outcome.start, request->split > 0 ? KIN_GRAPH_START_GRAPH
                                    : request->related > 0 || metric == KITH_INNER_PRODUCT
                                        ? KIN_GRAPH_START_SCREEN
                                        : KIN_GRAPH_START_RANDOM);
    test_answer_free(&truth);
    test_answer_free(&graph);
    kith_ctx_free(ctx);
    return recall;
}

/* The start alone, beside what there was without it; then rounds. */
static void starts(void **state)
{
    (void)state;
    for (int m = 0; m < (test_is_slow_build() ? 1 : METRIC_COUNT); m++) {
        const kith_dtype dtype =
            METRICS[m] == KITH_CHEBYSHEV || METRICS[m] == KITH_KL ? KITH_U8 : KITH_F32;
        kith_matrix points = points_of(dtype, METRICS[m]);
        kin_graph_request request = request_of(&points, METRICS[m]);
        request.list = 24;
        request.rounds = -1;
        const double alone = recall_of("of a relative", &points, &request);
        assert_int_equal(related > 0, METRICS[m] != KITH_CHEBYSHEV);
        assert_true(alone > 0.75);
        if (m == 0) {
            request.related = -1;
            assert_true(recall_of("without", &points, &request) < alone - 0.4);
        }
        test_mixture_free(&points);
    }
    printf("relatives of %d metrics know more than chance\n", (int)METRIC_COUNT);
}

static void ends(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* one thread drives a device */
    }
    kith_matrix points = points_of(KITH_U8, KITH_INNER_PRODUCT);
    for (int64_t row = 0; row < ROWS; row += 30) {
        test_mixture_copy(&points, row, row / 2);
    }
    kin_graph_request request = request_of(&points, KITH_INNER_PRODUCT);
    request.flags = KITH_INCLUDE_SELF;
    assert_true(recall_of("copies, own ids", &points, &request) > 0.9);
    test_mixture_free(&points);
    printf("equal rows, own ids, rounds\n");
}

/* The graphs of two parts, exact: neither knows the longest rows of the other. */
static void merges(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* one thread drives a device */
    }
    enum { FIRST = 1500 };
    kith_ctx *ctx = make_ctx();
    kith_matrix points = points_of(KITH_F32, KITH_INNER_PRODUCT);
    const kith_matrix parts[] = {test_part_of(&points, 0, FIRST),
                                 test_part_of(&points, FIRST, ROWS - FIRST)};
    kith_neighbors one = test_answer_exact(ctx, &parts[0], KITH_INNER_PRODUCT, K, 0);
    kith_neighbors two = test_answer_exact(ctx, &parts[1], KITH_INNER_PRODUCT, K, 0);
    kin_graph_request request = request_of(&points, KITH_INNER_PRODUCT);
    request.start = KIN_GRAPH_START_GRAPH;
    request.init = &one;
    request.init2 = &two;
    request.split = FIRST;
    request.rounds = -1;
    kith_neighbors graph = test_answer_make(ROWS, K);
    kin_graph_outcome outcome;
    assert_int_equal(
        solve(ctx, &points, &request, kin_graph_gpu_bytes(&points, &request), &graph, &outcome),
        KITH_OK);
    const double longest = recall_of("two graphs, longest", &points, &request);
    request.related = -1;
    assert_true(recall_of("without", &points, &request) < longest - 0.1);
    assert_true(longest > 0.9);
    test_answer_free(&graph);
    test_answer_free(&two);
    test_answer_free(&one);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
    printf("two graphs that are made one: the longest rows of both are seen\n");
}

static void budgets(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* memory alone is looked at */
    }
    kith_ctx *ctx = make_ctx();
    kith_matrix points = points_of(KITH_F32, KITH_INNER_PRODUCT);
    kin_graph_request request = request_of(&points, KITH_INNER_PRODUCT);
    kith_neighbors graph = test_answer_make(ROWS, K);
    kin_graph_outcome outcome;
    int worked = 0;
    int lacking = 0;
    request.rounds = 1;
    request.related = -1;
    const uint64_t without = kin_graph_gpu_bytes(&points, &request);
    request.related = 1;
    const uint64_t need = kin_graph_gpu_bytes(&points, &request);
    assert_true(without < need);
    for (uint64_t budget = need; budget > 1U << 20; budget /= 5) {
        const kith_status status = solve(ctx, &points, &request, budget, &graph, &outcome);
        assert_true(status == KITH_OK || status == KITH_E_DEVICE_MEMORY);
        assert_true(budget < need || status == KITH_OK);
        worked += status == KITH_OK;
        lacking += status != KITH_OK;
    }
    assert_true(worked > 0 && lacking > 0);
    printf("    %.1f MB by the plan, %d budgets of it did, %d did not\n", (double)need / 1e6,
           worked, lacking);
    test_answer_free(&graph);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
    printf("what the plan says does; less is said, nothing is kept\n");
}

/* Rows of shares of different length, and lists of others near by. */
static void fill_shares(double *values, int64_t rows, int32_t cols, uint64_t *seed)
{
    for (int64_t i = 0; i < rows * cols; i++) {
        values[i] = (0.1 + test_uniform(seed)) * (0.5 + (double)(i / cols * 37 % 101) / 101.0);
    }
}

static kith_neighbors ring_of(int64_t rows)
{
    const kith_neighbors ring = test_answer_make(rows, K);
    for (int64_t i = 0; i < rows * K; i++) {
        ring.ids[i] = (uint32_t)((i / K + i % K + 1) % rows);
    }
    return ring;
}

/* The longest rows, a fourth of all, are copied as they are given and once more as floats; of rows
 * that are no floats the search gets a copy. */
static void budget_of_doubles(void **state)
{
    (void)state;
    enum { FIRST = 1500, WIDE = 1000 };
    if (test_is_slow_build()) {
        skip(); /* memory alone is looked at */
    }
    kith_ctx *ctx = make_ctx();
    uint64_t seed = 7;
    double *values = malloc(sizeof *values * ROWS * WIDE);
    assert_non_null(values);
    fill_shares(values, ROWS, WIDE, &seed);
    const kith_matrix points = {.data = values,
                                .rows = ROWS,
                                .stride_bytes = WIDE * (int64_t)sizeof *values,
                                .cols = WIDE,
                                .dtype = KITH_F64};
    kith_neighbors one = ring_of(FIRST);
    kith_neighbors two = ring_of(ROWS - FIRST);
    kith_neighbors graph = test_answer_make(ROWS, K);
    kin_graph_request request = request_of(&points, KITH_KL);
    kin_graph_outcome outcome;
    request.start = KIN_GRAPH_START_GRAPH;
    request.init = &one;
    request.init2 = &two;
    request.split = FIRST;
    request.rounds = -1;
    kith_matrix floats = points;
    floats.dtype = KITH_F32;
    floats.stride_bytes /= 2;
    const uint64_t more = kin_graph_gpu_relatives_bytes(&points, &request, 0, 0) -
                          kin_graph_gpu_relatives_bytes(&floats, &request, 0, 0);
    assert_true(more >= (uint64_t)(ROWS + ROWS / 4) * WIDE * sizeof(float));
    const uint64_t need = kin_graph_gpu_bytes(&points, &request);
    kin_gpu *gpu = gpu_of(ctx, PLENTY);
    assert_int_equal(kin_graph_gpu_descend(ctx, gpu, &points, &request, &graph, &outcome), KITH_OK);
    printf("    doubles under kl: %.2f MB by the plan, %.2f MB held\n", (double)need / 1e6,
           (double)gpu->peak / 1e6);
    assert_true(gpu->peak <= need);
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    test_answer_free(&graph);
    test_answer_free(&two);
    test_answer_free(&one);
    free(values);
    kith_ctx_free(ctx);
}

static void faults(void **state)
{
    (void)state;
    kith_ctx *ctx = make_ctx();
    kith_matrix points = points_of(KITH_F32, KITH_INNER_PRODUCT);
    kin_graph_request request = request_of(&points, KITH_INNER_PRODUCT);
    kith_neighbors graph = test_answer_make(ROWS, K);
    int64_t failed = 0;
    bool ended = false;
    request.rounds = -1;
    for (int64_t copy = 1; !ended; copy += copy + 1) {
        kin_gpu *gpu = gpu_of(ctx, PLENTY);
        kin_graph_outcome outcome;
        test_faults.failing_copy = copy;
        const kith_status status =
            kin_graph_gpu_descend(ctx, gpu, &points, &request, &graph, &outcome);
        assert_true(status == KITH_OK || status == KITH_E_DEVICE);
        assert_int_equal(gpu->held, 0);
        ended = status == KITH_OK;
        failed += !ended;
        kin_gpu_close(ctx, gpu);
        test_reference_is_empty();
    }
    assert_true(failed > 3);
    printf("%lld copies failed: nothing is left\n", (long long)failed);
    test_answer_free(&graph);
    test_mixture_free(&points);
    kith_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(starts),
                                       cmocka_unit_test(ends),
                                       cmocka_unit_test(merges),
                                       cmocka_unit_test(budgets),
                                       cmocka_unit_test(budget_of_doubles),
                                       cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
