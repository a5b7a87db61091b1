/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Two graphs made one as Wang, Zhao, Zeng 2021 have it (section 5.1, algorithm 3; graph_ggm.c
 * has the processor's and a picture): lists of both graphs lose their farther halves, random points
 * of the other set come in their place, rounds compare points of different sets alone
 * (kin_graph_gpu_join.split), and at the end the halves are offered to the lists as rounds offer.
 * The same bytes in every run; not the processor's, whose rounds sample otherwise.
 *
 * Costs of halves and of lists are of one kind: what rounding may change (graph_start_gpu.c) is
 * decided before.
 *
 * Memory. Half the lists from here to the end; 4 bytes an entry and 4 a row while points are drawn.
 */
#include "base/base_try.h"
#include "graph/graph_run_gpu.h"
#include "host/host_clock.h"

static kith_status cut(kin_graph_gpu_run *run)
{
    const int32_t blocks = kin_graph_gpu_aside_blocks(run->graph.length);
    const uint64_t words = kin_size_mul((uint64_t)run->count, (uint64_t)blocks);
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &run->aside, words,
                          KIN_GRAPH_GPU_SLOTS * sizeof *run->aside, "halves of lists"));
    const kin_graph_gpu_halve job = {.graph = run->graph, .aside = run->aside, .blocks = blocks};
    return kin_graph_gpu_check(run, run->kernels->halve(run->on.stream, &job), "cutting lists");
}

static kith_status draw(kin_graph_gpu_run *run, const uint32_t *places, uint32_t *given)
{
    const int32_t length = run->graph.length;
    const kin_graph_gpu_cross cross = {.graph = run->graph,
                                       .ids = run->points.set.ids,
                                       .places = places,
                                       .sets = {run->request->split, run->rows},
                                       .seed = run->request->seed,
                                       .given = given};
    KIN_TRY(
        kin_graph_gpu_check(run, run->kernels->cross(run->on.stream, &cross), "drawing points"));
    return kin_graph_gpu_fill_up(
        run, (kin_graph_gpu_fill){
                 .wanted = length, .given = given, .given_length = length, .given_alone = 1});
}

kith_status kin_graph_gpu_ggm_begin(kin_graph_gpu_run *run)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const uint64_t cells = kin_size_mul((uint64_t)run->count, (uint64_t)run->graph.length);
    uint32_t *places = NULL;
    uint32_t *given = NULL;
    if (run->request->ggm == 0) {
        return KITH_OK;
    }
    KIN_TRY(cut(run));
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_graph_gpu_place_rows(run, &hold, &places));
    KIN_GPU_NEW(&hold, gpu, given, cells, "points to draw");
    KIN_TRY(draw(run, places, given));
    run->evaluations += (double)cells; /* draws: at most */
    return kin_gpu_wait(ctx, gpu);
}

static kith_status join_halves(kin_graph_gpu_run *run, uint64_t *updates)
{
    const int32_t blocks = kin_graph_gpu_aside_blocks(run->graph.length);
    for (int32_t block = 0; block < blocks; block++) {
        const kin_graph_gpu_merge job = {.graph = run->graph,
                                         .offers = run->aside + (int64_t)block * run->count *
                                                                    KIN_GRAPH_GPU_SLOTS,
                                         .counted = run->graph.length,
                                         .updates = updates};
        KIN_TRY(kin_graph_gpu_check(run, run->kernels->merge(run->on.stream, &job),
                                    "joining halves of lists"));
    }
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_graph_gpu_ggm_end(kin_graph_gpu_run *run, const kin_graph_outcome *outcome)
{
    kin_graph_verdict verdict = KIN_GRAPH_GO_ON;
    uint64_t *updates = NULL;
    if (run->request->ggm == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &updates, 1, sizeof *updates, "counters"));
    const kith_status status = join_halves(run, updates);
    kin_gpu_free(run->on.gpu, updates);
    KIN_TRY(status);
    kin_gpu_free(run->on.gpu, run->aside);
    run->aside = NULL;
    kin_graph_round end = {.number = outcome->rounds,
                           .updates = outcome->updates,
                           .evaluations = run->evaluations,
                           .seconds = kin_clock_since(run->start_ns)};
    return kin_graph_gpu_judge(run, &end, &verdict);
}
