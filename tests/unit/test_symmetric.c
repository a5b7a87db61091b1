/* SPDX-License-Identifier: Apache-2.0
 * Graphs whose edges go both ways, against plain C: of every kind of metric, with empty slots, own
 * ids, ids that stand twice, distances of either kind; any number of threads; mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "kith/kith.h"
#include "support/support_answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 11;

static kith_ctx *new_ctx(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.threads = threads;
    params.device = "cpu";
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

/* Distances are small whole numbers, so that many are equal; those of a pair may differ. */
static kith_neighbors graph_of(int64_t rows, int64_t k)
{
    kith_neighbors graph = test_answer_make(rows, k);
    for (int64_t i = 0; i < rows * k; i++) {
        graph.ids[i] = kin_random_below(&seed, 6) == 0
                           ? KITH_ID_NONE
                           : (uint32_t)kin_random_below(&seed, (uint64_t)rows);
        graph.distances64[i] = (double)kin_random_below(&seed, 9) - 2.0;
        graph.distances[i] = (float)graph.distances64[i];
    }
    return graph;
}

/* The place of an id in a row, or -1. */
static int64_t place_of(const kith_neighbors *graph, int64_t row, uint32_t id)
{
    for (int64_t j = 0; j < graph->k; j++) {
        if (graph->ids[row * graph->k + j] == id) {
            return j;
        }
    }
    return -1;
}

/* Every edge that must be there is, at its distance, and no other. */
static void check(const kith_neighbors *graph, kith_metric metric, bool mutual,
                  const kith_ranges *ranges)
{
    const double sign = metric == KITH_INNER_PRODUCT ? -1.0 : 1.0;
    const int64_t *offsets = kith_ranges_lists(ranges)->offsets;
    const uint32_t *ids = kith_ranges_lists(ranges)->ids;
    const double *far = kith_ranges_lists(ranges)->distances64;
    assert_int_equal(kith_ranges_lists(ranges)->rows, graph->rows);
    assert_int_equal(offsets[0], 0);
    for (int64_t row = 0; row < graph->rows; row++) {
        int64_t wanted = 0;
        for (int64_t i = offsets[row]; i < offsets[row + 1]; i++) {
            const int64_t mine = place_of(graph, row, ids[i]);
            const int64_t other = place_of(graph, ids[i], (uint32_t)row);
            const int64_t cell =
                mine >= 0 ? row * graph->k + mine : (int64_t)ids[i] * graph->k + other;
            assert_true(mutual ? mine >= 0 && other >= 0 : mine >= 0 || other >= 0);
            assert_true(far[i] == graph->distances64[cell]);
            assert_true(kith_ranges_lists(ranges)->distances[i] == (float)far[i]);
            if (i > offsets[row]) {
                assert_true(sign * far[i - 1] < sign * far[i] ||
                            (far[i - 1] == far[i] && ids[i - 1] < ids[i]));
            }
        }
        for (int64_t id = 0; id < graph->rows; id++) {
            const bool mine = place_of(graph, row, (uint32_t)id) >= 0;
            const bool other = place_of(graph, id, (uint32_t)row) >= 0;
            wanted += mutual ? mine && other : mine || other;
        }
        assert_int_equal(offsets[row + 1] - offsets[row], wanted);
    }
}

static void edges_go_both_ways(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {2, 1}, {2, 3}, {40, 7}, {150, 1}, {130, 60}};
    int64_t edges = 0;
    for (int i = 0; i < 48; i++) {
        const kith_metric metric = i % 2 == 0 ? KITH_INNER_PRODUCT : KITH_METRIC_DEFAULT;
        const bool mutual = i / 2 % 2 == 0;
        kith_ctx *ctx = new_ctx(1 + i % 3);
        const int64_t *shape = shapes[i / 4 % 6];
        kith_neighbors graph = graph_of(shape[0], shape[1]);
        kith_ranges *ranges = NULL;
        kith_neighbors given = graph;
        if (i % 5 == 0) {
            given.distances64 = NULL;
        } else if (i % 5 == 1) {
            given.distances = NULL;
        }
        assert_int_equal(kith_graph_symmetric(ctx, &given, metric,
                                              mutual ? KITH_SYMMETRY_MUTUAL : KITH_SYMMETRY_UNION,
                                              &ranges),
                         KITH_OK);
        check(&graph, metric, mutual, ranges);
        edges += kith_ranges_lists(ranges)->offsets[graph.rows];
        kith_ranges_free(ranges);
        test_answer_free(&graph);
        kith_ctx_free(ctx);
    }
    printf("    48 graphs: %lld edges\n", (long long)edges);
}

/* More rows than a thread takes at a time. */
static void threads_give_the_same_bytes(void **state)
{
    (void)state;
    kith_neighbors graph = graph_of(5000, 4);
    kith_ranges *kept = NULL;
    kith_ctx *one = new_ctx(1);
    kith_ctx *many = new_ctx(5);
    assert_int_equal(kith_graph_symmetric(one, &graph, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, &kept),
                     KITH_OK);
    kith_ranges *again = NULL;
    assert_int_equal(
        kith_graph_symmetric(many, &graph, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, &again), KITH_OK);
    const size_t edges = (size_t)kith_ranges_lists(kept)->offsets[5000];
    assert_memory_equal(kith_ranges_lists(again)->offsets, kith_ranges_lists(kept)->offsets,
                        5001 * sizeof(int64_t));
    assert_memory_equal(kith_ranges_lists(again)->ids, kith_ranges_lists(kept)->ids,
                        edges * sizeof(uint32_t));
    assert_memory_equal(kith_ranges_lists(again)->distances64, kith_ranges_lists(kept)->distances64,
                        edges * sizeof(double));
    kith_ranges_free(again);
    kith_ranges_free(kept);
    test_answer_free(&graph);
    kith_ctx_free(many);
    kith_ctx_free(one);
}

static void refused(kith_ctx *ctx, const kith_neighbors *graph, int metric, int symmetry,
                    const char *text)
{
    kith_ranges *ranges = NULL;
    const kith_status status =
        kith_graph_symmetric(ctx, graph, (kith_metric)metric, (kith_symmetry)symmetry, &ranges);
    if ((status != KITH_E_ARGUMENT && status != KITH_E_DATA) || ranges != NULL ||
        strstr(kith_ctx_detail(ctx), text) == NULL) {
        fail_msg("%s: %s (should say '%s')", kith_status_name(status), kith_ctx_detail(ctx), text);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    kith_ctx *ctx = new_ctx(1);
    kith_neighbors graph = graph_of(20, 3);
    kith_neighbors bare = graph;
    bare.distances = NULL;
    bare.distances64 = NULL;
    refused(ctx, &graph, KITH_EUCLIDEAN, 0, "symmetry is 0");
    refused(ctx, &graph, 99, KITH_SYMMETRY_UNION, "metric is 99");
    refused(ctx, &bare, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, "neither distances nor distances64");
    refused(ctx, NULL, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, "graph");
    assert_int_equal(kith_graph_symmetric(ctx, &graph, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, NULL),
                     KITH_E_ARGUMENT);
    graph.ids[7] = 20;
    refused(ctx, &graph, KITH_EUCLIDEAN, KITH_SYMMETRY_UNION, "graph[2, 1] is id 20");
    test_answer_free(&graph);
    kith_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_go_both_ways),
        cmocka_unit_test(threads_give_the_same_bytes),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
