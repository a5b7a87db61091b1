/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_graph_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_gpu.h"
#include "support/support_mixture.h"

#include <stdio.h>

test_graph_gpu test_graph_gpu_make(uint64_t budget)
{
    test_graph_gpu t = {.ctx = test_gpu_ctx(4, 0), .cpu = test_cpu_ctx()};
    assert_int_equal(kin_gpu_open(t.ctx, kin_gpu_first(), budget, &t.gpu), KITH_OK);
    kin_gpu_enter(t.gpu);
    return t;
}

void test_graph_gpu_free(test_graph_gpu *t)
{
    kin_gpu_leave(t->gpu);
    kin_gpu_close(t->ctx, t->gpu);
    kith_ctx_free(t->cpu);
    kith_ctx_free(t->ctx);
}

kin_graph_request test_graph_gpu_request(const kith_matrix *points, kith_metric metric, int64_t k)
{
    return (kin_graph_request){
        .distance = {.metric = metric, .cols = points->cols, .isa = kin_cpu_best()}, .k = k};
}

kith_neighbors test_graph_gpu_truth(const kith_matrix *points, kith_metric metric, int64_t k,
                                    uint32_t flags)
{
    kith_ctx *ctx = test_gpu_ctx(4, 0);
    kith_search_params params = kith_search_params_default();
    kith_neighbors truth = test_answer_make(points->rows, k);
    params.metric = metric;
    params.k = k;
    params.flags = flags;
    params.method = KITH_METHOD_EXACT;
    assert_int_equal(kith_graph(ctx, points, &params, &truth, NULL), KITH_OK);
    kith_ctx_free(ctx);
    return truth;
}

kith_neighbors test_graph_gpu_solve(test_graph_gpu *t, const char *name, const kith_matrix *points,
                                    const kin_graph_request *request, kin_graph_outcome *outcome)
{
    kith_neighbors graph = test_answer_make(points->rows, request->k);
    const kith_status status =
        kin_graph_gpu_descend(t->ctx, t->gpu, points, request, &graph, outcome);
    if (status != KITH_OK) {
        fail_msg("%s: %s", name, kith_ctx_detail(t->ctx));
    }
    test_graph_is_sound(t->cpu, name, points, request->distance.metric, &graph,
                        (request->flags & KITH_INCLUDE_SELF) != 0);
    return graph;
}

/* A graph that is sound; its recall@10. */
double test_graph_gpu_recall(test_graph_gpu *t, const char *name, const kith_matrix *points,
                             const kin_graph_request *request)
{
    const kith_metric metric = request->distance.metric;
    kin_graph_outcome outcome;
    kith_neighbors graph = test_graph_gpu_solve(t, name, points, request, &outcome);
    kith_neighbors truth = test_graph_gpu_truth(points, metric, request->k, request->flags);
    const int64_t at = request->k < 10 ? request->k : 10;
    const double recall = test_graph_recall(metric, &graph, &truth, at);
    printf("    %-22s %-13s k %4lld  recall@%lld %.4f  rounds %2d  start %.4f s, rounds %.4f s  "
           "%.0f costs a row%s\n",
           name, kith_metric_name(metric), (long long)request->k, (long long)at, recall,
           (int)outcome.rounds, outcome.seconds_start, outcome.seconds_rounds,
           outcome.evaluations / (double)points->rows, outcome.exact ? "  exact" : "");
    (void)fflush(stdout);
    test_answer_free(&truth);
    test_answer_free(&graph);
    return recall;
}
