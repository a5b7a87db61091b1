/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The exact engine's screen, cut short: seeds (a block's own surroundings), then stages that
 * meet near tiles alone (fused_stage.h: near). Rows of a tile stand by their reach then, as those
 * of the exact engine's runs do. Its lists become the graph. Sets without balls have their seeds
 * alone. Inner products, and metrics that have no screen, begin with what is near under a relative
 * (cascade_relative.c); those that have none, and who asks for it, with lists that are drawn by
 * chance; graphs that are given come first into their lists (cascade_given.c).
 *
 * Memory. Lists with the room that the exact engine gives them, less where that does not fit; what
 * runs out of memory is begun again in a narrower scope. Lists are gone before the rounds begin.
 */
#include "cascade/cascade_run.h"

#include "base/base_try.h"
#include "cascade/cascade_near.h"
#include "cascade/cascade_need.h"
#include "cascade/cascade_relative.h"

#include <math.h>

/* What a wider start meets. On an H200 a million points of one Gaussian of intrinsic dimension 24
 * have 0.23 of their neighbours after 35 ms and 6,000 points each, 0.93 after 212 ms and 300,000,
 * where rounds take 500; 400,000 of SIFT 0.55 after 15 and 0.96 after 35 ms. */
static const double POINTS_TO_MEET = 300000.0;
static const double MOST_SHARE = 0.3;

kin_descent_start kin_cascade_start_of(const kin_cascade_run *run)
{
    const kin_descent_start asked = run->request->start;
    if (asked == KIN_DESCENT_START_GRAPH || asked == KIN_DESCENT_START_RANDOM) {
        return asked;
    }
    return run->screened || kin_cascade_is_related(run->request) ? KIN_DESCENT_START_SCREEN
                                                                 : KIN_DESCENT_START_RANDOM;
}

static kith_status make_graph(const kin_cascade_run *run, kin_cascade_graph *graph)
{
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &graph->words,
                         kin_size_mul((uint64_t)run->count, (uint64_t)graph->length),
                         sizeof *graph->words, "the graph");
}

static kith_status make_empty_graph(const kin_cascade_run *run, kin_cascade_graph *graph)
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
    KIN_TRY(kin_cascade_reach_of_given(run, work));
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
    KIN_TRY_GOTO(
        status, run->share.parts > 0 ? make_empty_graph(run, graph) : make_graph(run, graph), done);
    KIN_TRY_GOTO(status, adopt(run, &work, graph), done);
    KIN_TRY_GOTO(status, kin_fused_work_tally(&work, &tally), done);
    KIN_TRY_GOTO(status, kin_gpu_add_up(run->on.gpu, tally.pairs - tally.skipped, &met), done);
    run->evaluations += met * (double)(KIN_FUSED_BLOCK * KIN_FUSED_TILE);
done:
    kin_cascade_nearness_free(run, &near);
    kin_fused_work_free(&work);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status take_relatives(kin_cascade_run *run, const kin_cascade_relatives *relatives)
{
    const kin_cascade_found *found[] = {&relatives->near, &relatives->among};
    run->evaluations += relatives->evaluations;
    for (int i = 0; i < 2; i++) {
        if (found[i]->ids != NULL) {
            run->evaluations += (double)run->count * (double)found[i]->k;
            KIN_TRY(kin_cascade_take_found(run, found[i]));
        }
    }
    return KITH_OK;
}

static kith_status begin(kin_cascade_run *run, kin_descent_start start,
                         const kin_cascade_relatives *relatives)
{
    run->evaluations = 0.0;
    if (relatives->near.ids != NULL) {
        KIN_TRY(make_empty_graph(run, &run->graph));
        KIN_TRY(take_relatives(run, relatives));
    } else if (start == KIN_DESCENT_START_SCREEN) {
        KIN_TRY(kin_cascade_screen(run, &run->graph));
    } else {
        run->evaluations = (double)run->count * (double)run->graph.length;
        KIN_TRY(make_empty_graph(run, &run->graph));
        if (start == KIN_DESCENT_START_GRAPH) {
            KIN_TRY(kin_cascade_take_given(run));
            KIN_TRY(take_relatives(run, relatives));
        }
    }
    const int64_t few = kin_min_i64(kin_cascade_start_k(run->request), run->graph.length);
    const int32_t wanted = kin_cascade_knows_reach(run) ? (int32_t)few : run->graph.length;
    KIN_TRY(kin_cascade_fill_up(run, wanted, NULL, 0));
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_cascade_begin(kin_cascade_run *run, kin_descent_start start)
{
    kin_cascade_relatives relatives = {0};
    kith_status status = KITH_OK;
    /* Its own jobs adapt to little memory. */
    KIN_TRY_GOTO(status, kin_cascade_relatives_make(run, &relatives), done);
    do {
        status = begin(run, start, &relatives);
        if (status != KITH_OK) {
            kin_gpu_free(run->on.gpu, run->graph.words);
            run->graph.words = NULL;
        }
    } while (kin_fused_again(run->on.ctx, run->on.gpu, status));
done:
    kin_cascade_relatives_free(run, &relatives);
    return status;
}

kith_status kin_cascade_widen(kin_cascade_run *run, kin_descent_start start, bool *wider)
{
    const double share = fmin(MOST_SHARE, POINTS_TO_MEET / (double)run->count);
    const double evaluations = run->evaluations;
    *wider = start == KIN_DESCENT_START_SCREEN && run->points.set.centres != NULL &&
             run->points.set.rounded != NULL && !kin_fused_is_wide(run->count) &&
             share > 2.0 * run->near_share;
    if (!*wider) {
        return KITH_OK;
    }
    run->near_share = share;
    kin_gpu_free(run->on.gpu, run->graph.words);
    run->graph.words = NULL;
    KIN_TRY(kin_cascade_begin(run, start));
    run->evaluations += evaluations;
    KIN_TRY(kin_cascade_refine(run));
    run->watch.count = 0;
    return kin_cascade_watch_place(run);
}
