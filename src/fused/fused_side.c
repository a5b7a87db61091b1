/* SPDX-License-Identifier: Apache-2.0 */
#include "fused/fused_side.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "fused/fused_direct.h"
#include "fused/fused_pipeline.h"
#include "gpu/gpu_ahead.h"
#include "host/host_clock.h"
#include "kith/kith_papers.h"

/* ---- The screen ------------------------------------------------------------------------------ */

kith_status kin_fused_screen_side(kin_fused_answers *a, const kin_fused_corpus *corpus,
                                  kin_fused_prepared *queries, const kin_request *request)
{
    kith_ctx *ctx = a->on.ctx;
    const int64_t k = kin_min_i64(a->wanted, corpus->prepared.groups.count);
    if (kin_fused_by_host(request)) {
        return request->pipeline->fused->answer(a, queries, &corpus->prepared, corpus->worst,
                                                request);
    }
    int64_t start = kin_clock_ns();
    kin_fused_home *homes = NULL;
    if (request->pipeline == NULL &&
        kin_fused_wants_homes(queries->set.points, corpus->prepared.set.points, k)) {
        KIN_TRY(kin_fused_prepared_order(&a->on, &corpus->prepared, queries, &homes));
    }
    kin_fused_work work = {.on = a->on,
                           .rows = queries->set,
                           .cols = corpus->prepared.set,
                           .homes = homes,
                           .col_worst = corpus->worst};
    if ((request->flags & KITH_NO_SKIP) != 0) {
        work.rows.centres = NULL;
        work.cols.centres = NULL;
    }
    kith_status status = KITH_OK;
    const int32_t capacity = kin_fused_search_capacity(queries->set.points, work.cols.points, k,
                                                       kin_gpu_scope(a->on.gpu));
    KIN_TRY_GOTO(status, kin_fused_work_make(&work, k, capacity), done);
    KIN_TRY_GOTO(status,
                 request->pipeline != NULL ? request->pipeline->fused->fill(&work, request)
                                           : kin_fused_work_run(&work),
                 done);
    KIN_TRY_GOTO(status, kin_gpu_wait(ctx, a->on.gpu), done);
    ctx->report.seconds_screen += kin_clock_since(start);
    start = kin_clock_ns();
    status = kin_fused_answers_take(a, &work, &queries->rows, &corpus->prepared.rows);
    ctx->report.seconds_rescore += kin_clock_since(start);
done:
    kin_fused_work_free(&work);
    kin_free(ctx, homes);
    return status;
}

/* A gate, which many rows share, is as wide as the widest threshold among them. So rows that stand
 * together are put in the order of their reach (fused_arrange.cu): within runs of several tiles, or
 * within each tile where tiles must keep their points. */
kith_status kin_fused_runs_arrange(kin_fused_work *work, kin_fused_prepared *points, int32_t run)
{
    const kin_fused_device *on = &work->on;
    const kin_fused_arrange job = {
        .points = work->rows.points, .run = run, .ids = points->ids, .reach = work->lists.reach};
    const kin_fused_set before = work->rows;
    KIN_TRY(kin_fused_work_reach(work));
    KIN_TRY(
        kin_gpu_check(on->ctx, on->gpu, on->kernels->arrange(on->stream, &job), "arranging rows"));
    KIN_TRY(kin_fused_prepared_round(on->ctx, on->gpu, points));
    work->rows = points->set;
    work->rows.centres = before.centres; /* or NULL where none are skipped */
    work->cols = work->rows;
    return KITH_OK;
}

/* ---- A stripe of queries --------------------------------------------------------------------- */

static void note_preparation(kith_ctx *ctx, const kin_fused_prepared *prepared)
{
    ctx->report.seconds_prepare += prepared->seconds_prepare + prepared->seconds_upload;
}

static kith_status ids_to_write(kith_ctx *ctx, const kin_groups *groups, uint32_t **ids)
{
    KIN_TRY(kin_alloc(ctx, ids, (uint64_t)groups->count, sizeof **ids, "rows to write"));
    for (int64_t i = 0; i < groups->count; i++) {
        (*ids)[i] = groups->firsts == NULL ? (uint32_t)i : groups->firsts[i];
    }
    return KITH_OK;
}

/* The corpus has nothing but degenerate rows, or there is no query that is not. */
static kith_status answer_without_screen(kin_fused_answers *a, const kin_groups *queries)
{
    uint32_t *ids = NULL;
    KIN_TRY(ids_to_write(a->on.ctx, queries, &ids));
    const kith_status status = kin_fused_answers_take_none(a, ids, queries->count);
    kin_free(a->on.ctx, ids);
    return status;
}

/* What the stripes of a search have in common. */
typedef struct searching {
    kith_ctx *ctx;
    const kin_fused_corpus *corpus;
    const kin_fused_query *query;
    kin_fused_tally *tally;
} searching;

/* query: of the rows of the stripe. */
static kith_status screen_stripe(const searching *s, kin_fused_prepared *queries,
                                 const kin_fused_query *query)
{
    const kin_fused_corpus *corpus = s->corpus;
    const kin_request *request = query->request;
    const kith_neighbors *out = query->out;
    const uint32_t place = query->place;
    const kin_groups *groups = &corpus->prepared.groups;
    const bool leaves_out = request->exclude != NULL;
    kin_fused_answers a = {
        .on = kin_fused_device_of(s->ctx, corpus->gpu),
        .metric = request->distance.metric,
        .groups = groups,
        .target = {.groups = &queries->groups, .exclude = request->exclude, .out = out},
        .exclude_on_device = (place & KIN_FUSED_DATA_ON_DEVICE) != 0,
        .by_host = kin_fused_by_host(request),
        .wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), groups->rows)};
    KIN_TRY(kin_fused_answers_make(&a, (place & KIN_FUSED_OUT_ON_DEVICE) != 0, false));
    kith_status status = KITH_OK;
    if (groups->count == 0 || queries->groups.count == 0) {
        KIN_TRY_GOTO(status, answer_without_screen(&a, &queries->groups), done);
    } else {
        KIN_TRY_GOTO(status, kin_fused_screen_side(&a, corpus, queries, request), done);
    }
    KIN_TRY_GOTO(status, kin_fused_answers_finish(&a, out, groups->rows), done);
    s->tally->pairs += a.tally.pairs;
    s->tally->skipped += a.tally.skipped;
    s->tally->keys += a.tally.keys;
    s->tally->reruns += a.tally.reruns;
done:
    kin_fused_answers_free(&a);
    return status;
}

static kith_status search_stripe(void *arg, int64_t first, int64_t count, int64_t next)
{
    const searching *s = arg;
    const kin_fused_corpus *corpus = s->corpus;
    const kin_fused_query *query = s->query;
    kin_request request = *query->request;
    const bool screens = kin_fused_screens(&request, corpus->points.rows, query->queries->rows);
    const kith_neighbors part = kin_fused_rows_of(query->out, first, count);
    request.exclude = request.exclude == NULL ? NULL : request.exclude + first;
    kin_fused_prepared prepared;
    const kin_fused_device on = kin_fused_device_of(s->ctx, corpus->gpu);
    const kin_fused_source source = {query->queries, &request.distance, query->name, query->place};
    KIN_TRY(kin_fused_prepare_queries(&on, &source, screens ? &corpus->prepared.set.frame : NULL,
                                      first, count, &prepared));
    note_preparation(s->ctx, &prepared);
    if (next > 0) {
        kin_fused_prepare_ahead(s->ctx, corpus->gpu, query->queries, first + count, next);
    }
    const kin_fused_query own = {query->queries, query->name, &request, query->place, &part};
    const kith_status status =
        screens
            ? screen_stripe(s, &prepared, &own)
            : kin_fused_direct(s->ctx, corpus->gpu, &corpus->prepared.rows, &prepared.rows, &own);
    kin_fused_prepared_free(s->ctx, corpus->gpu, &prepared);
    return status;
}

/* ---- All queries ----------------------------------------------------------------------------- */

/*      upload    1 |  2  |  3  | ...     rows of the next stripe, by a thread (gpu/gpu_ahead.h)
 *      compute     |  1  |  2  |  3  |
 *      answers     |   1 |   2 |   3 |   written by kernels, downloaded behind them
 */
kith_status kin_fused_each_stripe(const kin_fused_stripes *all)
{
    bool ahead = all->ahead;
    int64_t stripe = all->stripe;
    kith_status status = KITH_OK;
    for (int64_t first = 0; status == KITH_OK && first < all->rows;) {
        const int64_t count = kin_min_i64(stripe, all->rows - first);
        const int64_t next = ahead ? kin_min_i64(stripe, all->rows - first - count) : 0;
        status = all->solve(all->arg, first, count, next);
        if (status == KITH_E_DEVICE_MEMORY && kin_gpu_ahead_end(all->gpu)) {
            ahead = false;
            stripe = count;
        } else if (status == KITH_E_DEVICE_MEMORY && count > KIN_FUSED_LEAST_ROWS) {
            stripe = kin_fused_halved(count);
        } else {
            first += count;
            continue;
        }
        kin_forgive(all->ctx);
        kin_gpu_trim(all->gpu);
        status = KITH_OK;
    }
    (void)kin_gpu_ahead_end(all->gpu);
    return status;
}

kith_status kin_fused_search_stripes(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                     const kin_fused_query *query, kin_fused_tally *tally)
{
    const int64_t rows = query->queries->rows;
    const kin_fused_meeting meeting = {
        .queries = query->queries,
        .request = query->request,
        .place = query->place,
        .gpu = corpus->gpu,
        .corpus_dtype = corpus->points.dtype,
        .corpus_rows = corpus->points.rows,
        .screens = kin_fused_screens(query->request, corpus->points.rows, rows)};
    const bool ahead =
        (query->place & KIN_FUSED_DATA_ON_DEVICE) == 0 && kin_gpu_ahead_wanted(corpus->gpu);
    searching s = {.ctx = ctx, .corpus = corpus, .query = query, .tally = tally};
    const kin_fused_stripes all = {.ctx = ctx,
                                   .gpu = corpus->gpu,
                                   .rows = rows,
                                   .stripe =
                                       kin_fused_stripe_rows(&meeting, kin_gpu_room(corpus->gpu),
                                                             kin_gpu_scope(corpus->gpu), ahead),
                                   .ahead = ahead,
                                   .solve = search_stripe,
                                   .arg = &s};
    return kin_fused_each_stripe(&all);
}
