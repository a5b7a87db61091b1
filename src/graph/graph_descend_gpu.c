/* SPDX-License-Identifier: Apache-2.0
 *
 *      prepare   screen_prepare_gpu.c: check, groups of equal rows, order, rounded rows, balls
 *      control   some rows solved exactly, if anybody asks               (graph_control_gpu.c)
 *      start     the screen cut short, or chance, or a graph             (graph_start_gpu.c)
 *      rounding  rows as given, where rounded ones are all alike         (graph_start_gpu.c)
 *      rounds    sample, collect, join, merge; one wait each             (graph_round_gpu.c)
 *      end       canonical keys of the lists, sorted and written         (graph_finish_gpu.c)
 *
 * Source. Wang, Zhao, Zeng 2021, "Large-scale approximate k-NN graph construction on GPU"; there
 * lists have locks and the host samples.
 *
 * Few points are the exact engine's: so few that lists would hold them all, or all pairs take less
 * time than a round's launches.
 *
 * Memory. Everything must fit: there are no batches.
 */
#include "graph/graph_run_gpu.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"

#include <stdio.h>

/* ---- The exact engine's ---------------------------------------------------------------------- */

/* positions: rows, or groups of equal ones where they are known. */
static bool is_exact(const kin_graph_request *request, int64_t positions)
{
    return positions <= KIN_GRAPH_GPU_SMALL || positions - 1 <= request->list;
}

/* What is found is the truth: every key stands for itself by a 0. */
static kith_status judge_exact(const kin_graph_request *request, double seconds)
{
    const kin_recall_control *control = request->control;
    const kin_graph_round round = {.seconds = seconds};
    kin_graph_verdict verdict = KIN_GRAPH_ENOUGH;
    for (int64_t i = 0; control != NULL && i < control->count; i++) {
        for (int64_t j = 0; j < control->at; j++) {
            control->found[i * control->at + j] = 0.0;
        }
        if (control->kth != NULL) {
            control->kth[i] = 0.0;
        }
    }
    return request->judge != NULL ? request->judge(request->judge_arg, &round, &verdict) : KITH_OK;
}

static kith_status solve_exactly(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                 const kin_graph_request *descent, const kith_neighbors *out,
                                 kin_graph_outcome *outcome)
{
    const int64_t start = kin_clock_ns();
    if (kin_gpu_parts(gpu) > 1) { /* rows of a relative, most of them equal: one GPU's */
        return kin_fail(ctx, KITH_E_UNSUPPORTED, "few points in lockstep");
    }
    const kin_request request = {.distance = descent->distance,
                                 .k = descent->k,
                                 .flags = descent->flags,
                                 .method = KITH_METHOD_EXACT};
    const kin_exact_gpu_query query = {
        .name = "points", .request = &request, .place = descent->place, .out = out};
    KIN_TRY(kin_exact_gpu_search(ctx, gpu, points, &query));
    const double n = (double)points->rows;
    *outcome = (kin_graph_outcome){.evaluations = n * n,
                                   .seconds_start = kin_clock_since(start),
                                   .start = KIN_GRAPH_START_SCREEN,
                                   .exact = true};
    return judge_exact(descent, outcome->seconds_start);
}

/* ---- One try --------------------------------------------------------------------------------- */

/* Rows as they are given are positions. */
static kith_status number_rows(kin_graph_gpu_run *run, uint32_t **ids)
{
    const kin_screen_gpu_device *on = &run->on;
    KIN_GPU_NEW(run->hold, on->gpu, *ids, (uint64_t)run->count, "the order of the points");
    const kin_screen_gpu_sort job = {.points = run->count, .cell_count = 1, .order = *ids};
    return KIN_SCREEN_LAUNCH(&run->on, sort, &job, "numbering rows");
}

static kith_status take_points(kin_graph_gpu_run *run)
{
    const kin_screen_gpu_prepared *prepared = &run->corpus->prepared;
    uint32_t *ids = NULL;
    run->groups = &prepared->groups;
    run->count = prepared->groups.count;
    run->points = (kin_graph_gpu_points){.set = prepared->set, .rows = prepared->rows};
    run->wanted = kin_min_i64(run->request->k, run->count - 1);
    run->near_share = run->request->share;
    if (run->screened || run->count == 0) {
        return KITH_OK;
    }
    KIN_TRY(number_rows(run, &ids));
    run->points.set =
        (kin_screen_gpu_set){.frame = {.bound = KIN_BOUND_DISTANCE, .cols = prepared->rows.cols},
                             .points = run->count,
                             .padded = kin_round_up(run->count, KIN_SCREEN_GPU_BLOCK),
                             .ids = ids};
    return KITH_OK;
}

static void fill_report(const kin_graph_gpu_run *run, const kin_graph_outcome *outcome)
{
    kith_report *report = &run->on.ctx->report;
    const double n = (double)kin_max_i64(run->count, 1);
    report->exact = KITH_APPROXIMATE;
    report->skipped_share = 0.0;
    report->rerun_share = 0.0;
    report->candidates = outcome->evaluations / n;
    report->distinct_rows = run->count;
    (void)snprintf(report->screen, sizeof report->screen, "descent");
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(run->on.ctx->isa));
}

/* The graph under a relative, by this engine: an own job, which adapts to little memory. */
static kith_status find_near(kin_graph_gpu_run *run, kin_graph_gpu_relatives *relatives)
{
    kith_ctx *ctx = run->on.ctx;
    kin_graph_gpu_relative near;
    kin_graph_outcome outcome;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_graph_gpu_relate_points(run, &near, relatives, &hold));
    const kith_neighbors out = {.rows = run->rows, .k = near.request.k, .ids = relatives->near.ids};
    KIN_TRY(kin_graph_gpu_descend(ctx, run->on.gpu, &near.points, &near.request, &out, &outcome));
    relatives->evaluations += outcome.evaluations;
    return kin_graph_gpu_share_ids(run, &relatives->near);
}

/* What is near under relatives, where such are asked for. The report is left as it was. */
static kith_status find_relatives(kin_graph_gpu_run *run, kin_graph_gpu_relatives *relatives)
{
    const kith_report before = run->on.ctx->report;
    kith_status status =
        kin_graph_gpu_is_related(run->request) ? find_near(run, relatives) : KITH_OK;
    KIN_THEN(status, kin_graph_gpu_search_longest(run, relatives));
    run->on.ctx->report = before;
    return status;
}

static void free_relatives(const kin_graph_gpu_run *run, kin_graph_gpu_relatives *relatives)
{
    kin_gpu_free(run->on.gpu, relatives->among.of);
    kin_gpu_free(run->on.gpu, relatives->among.ids);
    kin_gpu_free(run->on.gpu, relatives->near.ids);
    *relatives = (kin_graph_gpu_relatives){0};
}

static kith_status start_lists(kin_graph_gpu_run *run, kin_graph_start start)
{
    kin_graph_gpu_relatives relatives = {0};
    kith_status status = find_relatives(run, &relatives);
    KIN_THEN(status, kin_graph_gpu_begin(run, start, &relatives));
    free_relatives(run, &relatives);
    return status;
}

/* What the start is: AUTO decided. */
static kin_graph_start start_of(const kin_graph_gpu_run *run)
{
    const kin_graph_start asked = run->request->start;
    if (asked == KIN_GRAPH_START_GRAPH || asked == KIN_GRAPH_START_RANDOM) {
        return asked;
    }
    return run->screened || kin_graph_gpu_is_related(run->request) ? KIN_GRAPH_START_SCREEN
                                                                   : KIN_GRAPH_START_RANDOM;
}

/* Start, rounds, end of points that are prepared. */
static kith_status descend(kin_graph_gpu_run *run, kin_graph_outcome *outcome)
{
    kith_report *report = &run->on.ctx->report;
    const kin_graph_start start = start_of(run);
    KIN_TRY(kin_graph_gpu_watch_make(run));
    int64_t clock = kin_clock_ns();
    run->start_ns = clock;
    *outcome = (kin_graph_outcome){.start = start};
    KIN_TRY(start_lists(run, start));
    KIN_TRY(kin_graph_gpu_refine(run));
    KIN_TRY(kin_graph_gpu_ggm_begin(run));
    outcome->seconds_start = kin_clock_since(clock);
    clock = kin_clock_ns();
    KIN_TRY(kin_graph_gpu_watch_place(run));
    run->start_ns += kin_clock_ns() - clock; /* of the report, not of the descent */
    KIN_TRY(kin_graph_gpu_rounds(run, outcome));
    KIN_TRY(kin_graph_gpu_ggm_end(run, outcome));
    outcome->start = run->request->ggm != 0 ? KIN_GRAPH_START_GGM : outcome->start;
    outcome->seconds_rounds = kin_clock_since(run->start_ns) - outcome->seconds_start;
    outcome->evaluations = run->evaluations;
    outcome->list = run->graph.length;
    int32_t reverse = 0;
    kin_graph_gpu_sample_sizes(run->candidates, &outcome->candidates,
                               &reverse); /* as many as met */
    report->seconds_screen += outcome->seconds_start + outcome->seconds_rounds;
    clock = kin_clock_ns();
    KIN_TRY(kin_graph_gpu_finish(run));
    report->seconds_rescore += kin_clock_since(clock);
    fill_report(run, outcome);
    return KITH_OK;
}

static void free_run(kin_graph_gpu_run *run)
{
    kin_hold_end(&run->watch.hold);
    kin_answer_free(run->on.ctx, &run->watch.answer);
    kin_gpu_free(run->on.gpu, run->aside);
    kin_gpu_free(run->on.gpu, run->graph.words);
    kin_exact_gpu_corpus_free(run->on.ctx, run->corpus);
}

/* In a narrower scope each time that it ran out of memory. */
static kith_status prepare(kin_graph_gpu_run *run, const kith_matrix *points)
{
    kith_ctx *ctx = run->on.ctx;
    const kith_report before = ctx->report;
    const kin_screen_gpu_source source = {.matrix = points,
                                          .distance = &run->request->distance,
                                          .name = "points",
                                          .place = run->request->place};
    kith_status status = KITH_OK;
    do {
        ctx->report = before;
        status = kin_exact_gpu_corpus_make(ctx, run->on.gpu, &source, points->dtype,
                                           run->request->k + 1, &run->corpus);
    } while (kin_exact_gpu_again(ctx, run->on.gpu, status));
    return status;
}

/* Before any work: what rounds take beside the points is known. */
static kith_status look_for_room(const kin_graph_gpu_run *run)
{
    const uint64_t need = kin_graph_gpu_rounds_bytes(run->request, run->count);
    const uint64_t room = kin_gpu_room(run->on.gpu);
    return need <= room
               ? KITH_OK
               : kin_fail(run->on.ctx, KITH_E_DEVICE_MEMORY,
                          "rounds take %llu bytes, %llu are left (use shards, or the processor)",
                          (unsigned long long)need, (unsigned long long)room);
}

/* few: all rows but a few are equal to others; nothing was done. */
static kith_status attempt(kin_graph_gpu_run *run, const kith_matrix *points,
                           kin_graph_outcome *outcome, bool *few)
{
    const kin_graph_request *request = run->request;
    kith_status status = prepare(run, points);
    KIN_THEN(status, take_points(run));
    run->graph = (kin_graph_gpu_lists){.points = run->count, .length = request->list};
    run->candidates = request->candidates;
    *few = status == KITH_OK && is_exact(request, run->count);
    if (!*few) {
        KIN_THEN(status, kin_graph_gpu_share_make(run));
        KIN_THEN(status, look_for_room(run));
        KIN_THEN(status, descend(run, outcome));
    }
    free_run(run);
    return status;
}

static kith_status too_large(kith_ctx *ctx, const kith_matrix *points)
{
    kin_forgive(ctx);
    return kin_fail_at(ctx, KITH_E_DEVICE_MEMORY, kin_at("method"),
                       "asks for a descent, and %lld points in %ld columns with their lists do not "
                       "fit into the memory of the GPU (give it more of it, make lists shorter, "
                       "start with random ones, or make an exact graph, which works in batches)",
                       (long long)points->rows, (long)points->cols);
}

/* ---- The call -------------------------------------------------------------------------------- */

static kith_status refuse(kith_ctx *ctx, const kith_matrix *points,
                          const kin_graph_request *request)
{
    KIN_FAIL_IF(request->distance.metric == KITH_CUSTOM, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "a GPU cannot call a function as metric (use the processor)");
    KIN_FAIL_IF(request->k > KIN_GRAPH_GPU_MOST_K, ctx, KITH_E_UNSUPPORTED, kin_at("k"),
                "is %lld, and descent on a GPU has lists for up to %d (make an exact graph)",
                (long long)request->k, (int)KIN_GRAPH_GPU_MOST_K);
    KIN_PASS_IF(points->rows < KIN_GRAPH_MOST_POINTS, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "%lld points are more than descent takes (at most %lld)", (long long)points->rows,
                (long long)KIN_GRAPH_MOST_POINTS - 1);
}

/* ---- By several GPUs ------------------------------------------------------------------------- */

/* A descent, and what became of it. */
typedef struct descent {
    const kith_matrix *points;
    const kin_graph_request *request;
    const kith_neighbors *out;
    kin_graph_outcome outcome;
    bool few;
} descent;

static kith_status attempt_on(kith_ctx *ctx, kin_gpu *gpu, const descent *d,
                              kin_graph_outcome *outcome, bool *few)
{
    KIN_HOLD(hold, ctx);
    kin_graph_gpu_run run = {.on = kin_screen_gpu_device_of(ctx, gpu),
                             .hold = &hold,
                             .kernels = gpu->module->graph,
                             .request = d->request,
                             .out = d->out,
                             .screened = kin_is_screened(&d->request->distance),
                             .rows = d->points->rows};
    return attempt(&run, d->points, outcome, few);
}

static kith_status member(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part, int32_t parts)
{
    descent *d = arg;
    kin_graph_outcome outcome = {0};
    bool few = false;
    (void)parts;
    KIN_TRY(attempt_on(ctx, gpu, d, &outcome, &few));
    if (part == 0) {
        d->outcome = outcome;
        d->few = few;
    }
    return KITH_OK;
}

/* Points that the host has, and graphs that are given; lists of positions of a set. */
static bool is_shared(const kin_gpu *gpu, const kith_matrix *points,
                      const kin_graph_request *request)
{
    return (request->place & KIN_GPU_DATA_ON_DEVICE) == 0 && kin_is_screened(&request->distance) &&
           kin_gpu_team_takes(gpu, points->rows, KIN_EXACT_GPU_TEAM_ROWS);
}

uint64_t kin_graph_gpu_bytes_on(const kin_gpu *gpu, const kith_matrix *points,
                                const kin_graph_request *request)
{
    const uint64_t alone = kin_graph_gpu_bytes(points, request);
    kin_graph_request full = *request;
    kin_graph_gpu_defaults(&full, points->rows);
    if (!is_shared(gpu, points, &full)) {
        return alone;
    }
    const uint64_t share = kin_graph_gpu_share_bytes(points->rows, kin_gpu_team_count(gpu->team));
    return kin_size_add(alone, kin_size_mul(share, kin_graph_gpu_is_related(&full) ? 2 : 1));
}

/* By all GPUs, or by one where there is one, or where copies for all find no room. */
static kith_status solve(kith_ctx *ctx, kin_gpu *gpu, descent *d)
{
    if (is_shared(gpu, d->points, d->request)) {
        const kith_status status = kin_gpu_team_run(ctx, gpu->team, true, member, d);
        if (!kin_exact_gpu_team_yields(ctx, status)) {
            return status;
        }
    }
    return attempt_on(ctx, gpu, d, &d->outcome, &d->few);
}

kith_status kin_graph_gpu_descend(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                  const kin_graph_request *request, const kith_neighbors *out,
                                  kin_graph_outcome *outcome)
{
    kin_graph_request full = *request;
    const kith_report before = ctx->report;
    *outcome = (kin_graph_outcome){0};
    KIN_TRY(refuse(ctx, points, request));
    kin_graph_gpu_defaults(&full, points->rows);
    if (is_exact(&full, points->rows)) {
        return solve_exactly(ctx, gpu, points, &full, out, outcome);
    }
    descent d = {.points = points, .request = &full, .out = out};
    const kith_status status = solve(ctx, gpu, &d);
    *outcome = d.outcome;
    if (status == KITH_E_DEVICE_MEMORY) {
        return too_large(ctx, points);
    }
    KIN_TRY(status);
    ctx->report = d.few ? before : ctx->report;
    return d.few ? solve_exactly(ctx, gpu, points, &full, out, outcome) : KITH_OK;
}
