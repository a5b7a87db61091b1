/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A round is four launches and one small download:
 *
 *      sample    lists -> ids forward, slots backward    collect   slots -> ids
 *      join      ids meet -> offers                      merge     offers -> lists
 *
 * Slots of samples are read when offers begin: both use one block of memory.
 *
 * Memory. 2 x candidates x 4 bytes of ids a kind and position; the larger of the slots of both
 * kinds and of the offers, 8 bytes each.
 */
#include "graph/graph_run_gpu.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <math.h>

/* Idea. Where rounds of short lists end before the wanted recall, lists of twice the length know
 * ways that these have forgotten. The points stay prepared and the graph stays on the device: a
 * list's words are the first of the longer one, all NEW, so that they meet again with more beside
 * them, and chance fills the rest.
 *
 *      a b c d          ->  a' b' c' d' r r r r        ': NEW again    r: drawn
 *
 * More candidates a round are dear (beyond 16 of each kind the cross-matching needs twice the
 * registers), and longer lists alone find more in the same time, so these come first.
 *
 * Memory. Both graphs while one is copied to the other. */

enum { ALONE = 1 /* lengthenings that leave the candidates as they are */ };

/* Once the shorter lists are gone, rounds and the end must have room, too. */
static bool has_room(const kin_graph_gpu_run *run, int32_t length, int32_t candidates)
{
    kin_graph_request request = *run->request;
    const uint64_t words = kin_size_mul((uint64_t)run->count, (uint64_t)run->graph.length);
    const uint64_t room = kin_gpu_room(run->on.gpu) + words * sizeof *run->graph.words;
    request.list = length;
    request.candidates = candidates;
    return kin_graph_gpu_rest_bytes(&request, run->count) <= room;
}

static kith_status make_longer(const kin_graph_gpu_run *run, kin_graph_gpu_lists *graph)
{
    const uint64_t words = kin_size_mul((uint64_t)run->count, (uint64_t)graph->length);
    return kin_gpu_alloc(run->on.ctx, run->on.gpu, &graph->words, words, sizeof *graph->words,
                         "longer lists");
}

static kith_status lengthen(kin_graph_gpu_run *run, int32_t times, bool *longer)
{
    kith_ctx *ctx = run->on.ctx;
    kin_graph_gpu_lists next = {.points = run->count,
                                .length = kin_graph_gpu_longest(run->graph.length, 1),
                                .first = run->graph.first,
                                .end = run->graph.end};
    uint64_t all_can = 0;
    const int32_t candidates = run->candidates + (times > ALONE ? run->candidates / 2 : 0);
    *longer = next.length > run->graph.length && run->count - 1 > run->graph.length &&
              has_room(run, next.length, candidates);
    const kith_status status = *longer ? make_longer(run, &next) : KITH_OK;
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(ctx);
        *longer = false;
    } else {
        KIN_TRY(status);
    }
    KIN_TRY(kin_gpu_agree(run->on.gpu, *longer ? 1 : 0, &all_can));
    if (all_can == 0) {
        kin_gpu_free(run->on.gpu, next.words);
        *longer = false;
        return KITH_OK;
    }
    const kin_graph_gpu_stretch job = {.from = run->graph, .to = next};
    const int error = run->kernels->stretch(run->on.stream, &job);
    kin_gpu_free(run->on.gpu, run->graph.words);
    run->graph = next; /* the run's to free, whatever comes */
    run->candidates = candidates;
    KIN_TRY(kin_screen_gpu_launched(&run->on, error, "making lists longer"));
    KIN_TRY(kin_graph_gpu_fill_up(run, (kin_graph_gpu_fill){.wanted = next.length}));
    const int32_t half = next.length / 2;
    run->evaluations += (double)run->count * (double)half;
    return kin_gpu_wait(ctx, run->on.gpu);
}

typedef struct rounds {
    kin_graph_gpu_run *run;
    kin_graph_gpu_room room;
} rounds;

/* ---- A round --------------------------------------------------------------------------------- */

/* share.lasts of all points. Waits. */
static kith_status share_lasts(const kin_graph_gpu_run *run)
{
    const kin_graph_gpu_share *share = &run->share;
    const kin_graph_gpu_ends job = {.graph = run->graph, .lasts = share->lasts};
    if (share->parts == 0) {
        return KITH_OK;
    }
    KIN_TRY(KIN_ROOM_LAUNCH(run, ends, &job, "ends of lists"));
    return kin_gpu_gather(run->on.ctx, run->on.gpu, share->lasts, sizeof *share->lasts,
                          share->firsts);
}

static kith_status launch_round(const rounds *r, int32_t number)
{
    kin_graph_gpu_run *run = r->run;
    const uint64_t salt = kin_graph_mix(run->request->seed + (uint64_t)number);
    const kin_graph_gpu_sample sample = {
        .graph = run->graph, .samples = r->room.samples, .salt = salt};
    const kin_graph_gpu_join join = {.points = run->points,
                                     .graph = run->graph,
                                     .samples = r->room.samples,
                                     .offers = r->room.words,
                                     .all = run->request->all_updates > 0,
                                     .salt = salt,
                                     .evaluations = &r->room.counters->evaluations,
                                     .lasts = run->share.lasts,
                                     .split = run->request->ggm != 0 ? run->request->split : 0};
    const kin_graph_gpu_merge merge = {.graph = run->graph,
                                       .offers = r->room.words,
                                       .counted = (int32_t)run->wanted,
                                       .updates = &r->room.counters->updates};
    const uint64_t offers = (uint64_t)run->count * KIN_GRAPH_GPU_SLOTS * sizeof *r->room.words;
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, r->room.counters, 0, sizeof *r->room.counters));
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, r->room.words, 0xff, r->room.bytes));
    KIN_TRY(KIN_ROOM_LAUNCH(run, sample, &sample, "sampling lists"));
    KIN_TRY(kin_graph_gpu_share_least(run, r->room.samples.new_slots, r->room.samples.reverse));
    KIN_TRY(kin_graph_gpu_share_least(run, r->room.samples.old_slots, r->room.samples.reverse));
    KIN_TRY(KIN_ROOM_LAUNCH(run, collect, &sample, "collecting samples"));
    KIN_TRY(share_lasts(run));
    KIN_TRY(kin_gpu_fill(run->on.ctx, run->on.gpu, r->room.words, 0xff, offers));
    KIN_TRY(KIN_ROOM_LAUNCH(run, join, &join, "comparing samples"));
    KIN_TRY(kin_graph_gpu_share_least(run, r->room.words, KIN_GRAPH_GPU_SLOTS));
    return KIN_ROOM_LAUNCH(run, merge, &merge, "updating lists");
}

/* Launched, waited for, counted. */
static kith_status run_round(const rounds *r, kin_graph_round *round)
{
    kin_graph_gpu_run *run = r->run;
    kin_graph_gpu_counters seen;
    double evaluations = 0.0;
    double updates = 0.0;
    KIN_TRY(launch_round(r, round->number));
    KIN_TRY(kin_gpu_download(run->on.ctx, run->on.gpu, &seen, r->room.counters, sizeof seen));
    KIN_TRY(kin_gpu_add_up(run->on.gpu, (double)seen.evaluations, &evaluations));
    KIN_TRY(kin_gpu_add_up(run->on.gpu, (double)seen.updates, &updates));
    run->evaluations += evaluations;
    round->updates = (int64_t)updates;
    round->evaluations = run->evaluations;
    round->seconds = kin_clock_since(run->start_ns);
    return KITH_OK;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Rounds until the judge speaks, lists change little, or there were enough of them. Lists that will
 * not become longer do what they can, stuck or not. */
static kith_status run_rounds(const rounds *r, bool lengthens, kin_graph_outcome *outcome,
                              kin_graph_verdict *verdict)
{
    kin_graph_gpu_run *run = r->run;
    const kin_graph_request *request = run->request;
    const double few = request->delta * (double)run->count * (double)run->wanted;
    const int32_t last = outcome->rounds + request->rounds;
    while (outcome->rounds < last && *verdict == KIN_GRAPH_GO_ON) {
        kin_graph_round round = {.number = outcome->rounds + 1};
        KIN_TRY(kin_progress(run->on.ctx, "descend", (double)outcome->rounds, (double)last));
        KIN_TRY(run_round(r, &round));
        outcome->rounds = round.number;
        outcome->updates = round.updates;
        KIN_TRY(kin_graph_gpu_judge(run, &round, verdict));
        const bool changes_little = (double)round.updates < few || round.updates == 0;
        if (*verdict != KIN_GRAPH_ENOUGH) {
            const bool stuck = changes_little || (lengthens && *verdict == KIN_GRAPH_STUCK);
            *verdict = stuck ? KIN_GRAPH_STUCK : KIN_GRAPH_GO_ON;
        }
    }
    return KITH_OK;
}

/* With lists of one length. */
static kith_status run_stage(kin_graph_gpu_run *run, bool lengthens, kin_graph_outcome *outcome,
                             kin_graph_verdict *verdict)
{
    rounds r = {.run = run, .room = {.points = run->count, .candidates = run->candidates}};
    KIN_HOLD(hold, run->on.ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, run->on.gpu, kin_graph_gpu_room_name, &r.room,
                                "samples of lists, and offers to them"));
    return run_rounds(&r, lengthens, outcome, verdict);
}

/* What a wider start meets. On an H200 a million points of one Gaussian of intrinsic dimension 24
 * have 0.23 of their neighbours after 35 ms and 6,000 points each, 0.93 after 212 ms and 300,000,
 * where rounds take 500; 400,000 of SIFT 0.55 after 15 and 0.96 after 35 ms. */
static const double POINTS_TO_MEET = 300000.0;
static const double MOST_SHARE = 0.3;

/* The graph anew, by a start that looks at more pairs; wider: whether there is such. Waits. */
static kith_status widen(kin_graph_gpu_run *run, kin_graph_start start, bool *wider)
{
    const double share = fmin(MOST_SHARE, POINTS_TO_MEET / (double)run->count);
    const double evaluations = run->evaluations;
    const kin_graph_gpu_relatives none = {0}; /* metrics whose sets have balls have no relatives */
    *wider = start == KIN_GRAPH_START_SCREEN && run->points.set.centres != NULL &&
             run->points.set.rounded != NULL && !kin_screen_gpu_is_wide(run->count) &&
             share > 2.0 * run->near_share;
    if (!*wider) {
        return KITH_OK;
    }
    run->near_share = share;
    kin_gpu_free(run->on.gpu, run->graph.words);
    run->graph.words = NULL;
    KIN_TRY(kin_graph_gpu_begin(run, start, &none));
    run->evaluations += evaluations;
    KIN_TRY(kin_graph_gpu_refine(run));
    run->watch.count = 0;
    return kin_graph_gpu_watch_place(run);
}

/* In place of many rounds; judged once more. */
static kith_status begin_wider(kin_graph_gpu_run *run, kin_graph_outcome *outcome,
                               kin_graph_verdict *verdict)
{
    bool wider = false;
    *verdict = KIN_GRAPH_GO_ON;
    KIN_TRY(widen(run, outcome->start, &wider));
    if (!wider) {
        return KITH_OK;
    }
    kin_graph_round start = {.evaluations = run->evaluations,
                             .seconds = kin_clock_since(run->start_ns)};
    outcome->seconds_start = start.seconds;
    KIN_TRY(kin_graph_gpu_judge(run, &start, verdict));
    *verdict = *verdict == KIN_GRAPH_ENOUGH ? KIN_GRAPH_ENOUGH : KIN_GRAPH_GO_ON;
    return KITH_OK;
}

kith_status kin_graph_gpu_rounds(kin_graph_gpu_run *run, kin_graph_outcome *outcome)
{
    kin_graph_round start = {.evaluations = run->evaluations,
                             .seconds = kin_clock_since(run->start_ns)};
    kin_graph_verdict verdict = KIN_GRAPH_GO_ON;
    bool goes_on = run->request->rounds > 0;
    KIN_TRY(kin_graph_gpu_judge(run, &start, &verdict));
    if (verdict == KIN_GRAPH_FAR) {
        KIN_TRY(begin_wider(run, outcome, &verdict));
    }
    goes_on = goes_on && verdict != KIN_GRAPH_ENOUGH;
    for (int32_t times = 1; goes_on; times++) {
        const bool lengthens = times <= run->request->lengthenings;
        verdict = KIN_GRAPH_GO_ON;
        KIN_TRY(run_stage(run, lengthens, outcome, &verdict));
        goes_on = lengthens && verdict != KIN_GRAPH_ENOUGH;
        if (goes_on) {
            KIN_TRY(lengthen(run, times, &goes_on));
        }
    }
    return KITH_OK;
}

/* ---- A merge as published -------------------------------------------------------------------- */

/* Idea. Two graphs made one as Wang, Zhao, Zeng 2021 have it (section 5.1, algorithm 3;
 * graph_round.c has the processor's and a picture): lists of both graphs lose their farther halves,
 * random points of the other set come in their place, rounds compare points of different sets alone
 * (kin_graph_gpu_join.split), and at the end the halves are offered to the lists as rounds offer.
 * The same bytes in every run; not the processor's, whose rounds sample otherwise.
 *
 * Costs of halves and of lists are of one kind: what rounding may change (graph_start_gpu.c) is
 * decided before.
 *
 * Memory. Half the lists from here to the end; 4 bytes an entry and 4 a row while points are drawn.
 */

static kith_status cut(kin_graph_gpu_run *run)
{
    const int32_t blocks = kin_graph_gpu_aside_blocks(run->graph.length);
    const uint64_t words = kin_size_mul((uint64_t)run->count, (uint64_t)blocks);
    KIN_TRY(kin_gpu_alloc(run->on.ctx, run->on.gpu, &run->aside, words,
                          KIN_GRAPH_GPU_SLOTS * sizeof *run->aside, "halves of lists"));
    const kin_graph_gpu_halve job = {.graph = run->graph, .aside = run->aside, .blocks = blocks};
    return KIN_ROOM_LAUNCH(run, halve, &job, "cutting lists");
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
    KIN_TRY(KIN_ROOM_LAUNCH(run, cross, &cross, "drawing points"));
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
        KIN_TRY(KIN_ROOM_LAUNCH(run, merge, &job, "joining halves of lists"));
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
    KIN_HOLD(hold, run->on.ctx);
    KIN_GPU_NEW(&hold, run->on.gpu, updates, 1, "counters");
    KIN_TRY(join_halves(run, updates));
    kin_gpu_free(run->on.gpu, run->aside);
    run->aside = NULL;
    kin_graph_round end = {.number = outcome->rounds,
                           .updates = outcome->updates,
                           .evaluations = run->evaluations,
                           .seconds = kin_clock_since(run->start_ns)};
    return kin_graph_gpu_judge(run, &end, &verdict);
}
