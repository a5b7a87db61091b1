/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The exact engine's screen, cut short: seeds (a block's own surroundings), then stages that
 * meet near tiles alone (fused_stage.h: near). Rows of a tile stand by their reach then, as those
 * of the exact engine's runs do; rows of graphs that are made one have the reach that they know
 * already. Its lists become the graph, and empty places are filled by chance. Sets without balls
 * have their seeds alone.
 *
 * Memory. Lists with the room that the exact engine gives them, less where that does not fit; they
 * are gone before the rounds begin.
 */
#include "cascade/cascade_run.h"

#include "base/base_try.h"

static kith_status make_graph(const kin_cascade_run *run, kin_cascade_graph *graph)
{
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &graph->words,
                         kin_size_mul((uint64_t)run->count, (uint64_t)graph->length),
                         sizeof *graph->words, "the graph");
}

kith_status kin_cascade_make_empty(const kin_cascade_run *run, kin_cascade_graph *graph)
{
    KIN_TRY(make_graph(run, graph));
    const uint64_t words = (uint64_t)run->count * (uint64_t)graph->length;
    return kin_gpu_fill(run->on.ctx, run->on.gpu, graph->words, 0xff, words * sizeof *graph->words);
}

kith_status kin_cascade_fill_up(kin_cascade_run *run, int32_t wanted, const uint32_t *given,
                                int32_t given_length)
{
    const kin_cascade_fill job = {.points = run->points,
                                  .graph = run->graph,
                                  .wanted = wanted,
                                  .given = given,
                                  .given_length = given_length,
                                  .seed = run->request->seed};
    return kin_cascade_check(run, run->kernels->fill(run->on.stream, &job), "filling lists");
}

/* ---- What graphs know that are made one ------------------------------------------------------ */

bool kin_cascade_looks_across(const kin_cascade_run *run)
{
    return run->request->split > 0 && run->screened && run->request->by_chance == 0;
}

bool kin_cascade_knows_reach(const kin_cascade_run *run)
{
    return kin_cascade_looks_across(run) && run->points.set.centres != NULL;
}

/* What is farther than the k-th entry of a list is not among the k of the union. Entries serve as
 * reach and go: the screen meets those that are near once more, and of what it finds no two may be
 * one. */
static kith_status take_reach(const kin_cascade_run *run, kin_fused_work *work)
{
    if (!kin_cascade_knows_reach(run) || run->graph.length > work->lists.capacity) {
        return KITH_OK;
    }
    const kin_fused_device *on = &run->on;
    kin_fused_lists known = work->lists;
    known.k = (int32_t)run->wanted;
    const kin_cascade_hand hand = {.graph = run->graph, .lists = known};
    const kin_fused_tighten reach = {.set = work->rows, .cols_set = work->cols, .lists = known};
    KIN_TRY(kin_cascade_check(run, run->kernels->hand(on->stream, &hand), "handing lists over"));
    KIN_TRY(kin_cascade_check(run, on->kernels->tighten(on->stream, &reach), "finding thresholds"));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, known.counts, 0,
                         (uint64_t)known.rows * sizeof *known.counts));
    return kin_fused_work_reached(work);
}

/* ---- The screen ------------------------------------------------------------------------------ */

static kith_status run_screen(kin_cascade_run *run, kin_fused_work *work,
                              kin_cascade_nearness *near)
{
    if (!kin_fused_work_has_stages(work) || work->rows.centres == NULL) {
        return kin_fused_work_seed(work);
    }
    if (!kin_cascade_knows_reach(run)) {
        KIN_TRY(kin_fused_runs_arrange(work, &run->corpus->prepared, KIN_FUSED_TILE));
        run->points.set = work->rows;
    }
    KIN_TRY(kin_cascade_nearness_make(run, near));
    work->near = near->worst;
    work->points_radii = near->radii;
    work->near_share = run->near_share;
    work->coarse = near->coarse;
    KIN_TRY(take_reach(run, work));
    return kin_fused_work_run(work);
}

static kith_status adopt(const kin_cascade_run *run, const kin_fused_work *work,
                         const kin_cascade_graph *graph)
{
    const kin_cascade_adopt job = {
        .lists = work->lists, .type = work->rows.frame.type, .graph = *graph};
    return kin_cascade_check(run, run->kernels->adopt(run->on.stream, &job), "lists of the start");
}

kith_status kin_cascade_screen(kin_cascade_run *run, kin_cascade_graph *graph)
{
    const int64_t k = kin_min_i64(kin_cascade_start_k(run->request), run->count);
    kin_fused_work work = {.on = run->on,
                           .rows = run->points.set,
                           .cols = run->points.set,
                           .graph = true,
                           .cut_short = true,
                           .shared = run->share.parts > 0,
                           .col_worst = run->corpus->worst};
    kin_cascade_nearness near = {0};
    kin_fused_tally tally = {0};
    double met = 0.0;
    uint64_t scope = 0;
    kith_status status = KITH_OK;
    KIN_TRY(kin_gpu_agree(run->on.gpu, kin_gpu_scope(run->on.gpu), &scope));
    KIN_TRY(kin_fused_work_make(&work, k, kin_cascade_capacity(run->count, k, scope)));
    KIN_TRY_GOTO(status, run_screen(run, &work, &near), done);
    KIN_TRY_GOTO(status,
                 run->share.parts > 0 ? kin_cascade_make_empty(run, graph) : make_graph(run, graph),
                 done);
    KIN_TRY_GOTO(status, adopt(run, &work, graph), done);
    KIN_TRY_GOTO(status, kin_fused_work_tally(&work, &tally), done);
    KIN_TRY_GOTO(status, kin_gpu_add_up(run->on.gpu, tally.pairs - tally.skipped, &met), done);
    run->evaluations += met * (double)(KIN_FUSED_BLOCK * KIN_FUSED_TILE);
done:
    kin_cascade_nearness_free(run, &near);
    kin_fused_work_free(&work);
    return status;
}
