/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_merges.h"

#include "support/support_answers.h"
#include "support/support_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

kith_neighbors test_merge_graph(kith_ctx *ctx, const kith_matrix *points, int64_t k,
                                const kith_search_params *like)
{
    if (points->rows == 0) {
        return (kith_neighbors){.k = k};
    }
    const int64_t self = (like->flags & KITH_INCLUDE_SELF) != 0;
    const int64_t has = smaller(k, points->rows - 1 + self);
    kith_neighbors wide = test_answer_make(points->rows, k);
    for (int64_t i = 0; i < points->rows * k; i++) {
        wide.ids[i] = KITH_ID_NONE;
    }
    if (has < 1) {
        return wide;
    }
    kith_neighbors graph = test_answer_make(points->rows, has);
    kith_search_params params = *like;
    params.k = has;
    test_works(ctx, kith_graph(ctx, points, &params, &graph, NULL));
    for (int64_t row = 0; row < points->rows; row++) {
        memcpy(wide.ids + row * k, graph.ids + row * has, (size_t)has * sizeof *graph.ids);
    }
    test_answer_free(&graph);
    return wide;
}

void test_merge_is_true(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                        const kith_search_params *params, const kith_neighbors *truth)
{
    const kith_matrix part[] = {test_part_of(points, 0, first_rows),
                                test_part_of(points, first_rows, points->rows - first_rows)};
    kith_neighbors graph1 = test_merge_graph(ctx, &part[0], params->k, params);
    kith_neighbors graph2 = test_merge_graph(ctx, &part[1], TEST_MERGE_LONGER, params);
    kith_neighbors out = test_answer_make(points->rows, params->k);
    test_works(ctx,
               test_merge_exactly(ctx, &(kith_merge_sets){points, first_rows, &graph1, &graph2},
                                  params, &out));
    if (!test_answers_equal(&out, truth)) {
        fail_msg("%s, %lld of %lld rows: not the graph of all", kith_metric_name(params->metric),
                 (long long)first_rows, (long long)points->rows);
    }
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(ctx, kith_ctx_report(ctx, &report));
    assert_int_equal(report.exact, KITH_EXACTNESS_UNKNOWN); /* nothing was said of the graphs */
    test_answer_free(&out);
    test_answer_free(&graph2);
    test_answer_free(&graph1);
}
