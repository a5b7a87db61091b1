/* SPDX-License-Identifier: Apache-2.0
 *
 * One side of a search: its queries in stripes, prepared, screened or computed directly, written.
 *
 *      upload    1 |  2  |  3  | ...     rows of the next stripe, by a thread (gpu/gpu.h)
 *      compute     |  1  |  2  |  3  |
 *      answers     |   1 |   2 |   3 |   written by kernels, downloaded behind them
 *
 * Chunks. A corpus that does not fit is taken in chunks, each prepared on its own: its own order,
 * frame and groups of equal rows, as if it were a corpus. Every query gets the first ids of each
 * chunk with their canonical keys, which do not depend on the chunk; their merge by (key, id) is
 * the answer.
 *
 *      for each chunk     upload, prepare
 *        for each stripe  upload, round in the chunk's frame, screen -> lists of the chunk
 *                         merge with the lists so far (host memory)
 *
 * What comes next is uploaded while this is computed: two threads, each with a stream of its own
 * (gpu/gpu.h). Chunks A, B, stripes 1, 2, 3, time from left to right:
 *
 *      rows of chunks    A |  |       B         |   |       C         |
 *      rows of stripes     |1 |  2  |  3  |  1 ...   |  2  |  3  |  1 ...
 *      prepare             |A |           |         |B |
 *      compute                |A 1  |A 2  |A 3      |   |B 1  |B 2  |B 3
 *      merge, host                 m     m     m             m     m
 *
 * Only the first chunk is waited for, and what takes longer to come than what is computed
 * meanwhile. The pairs that are downloaded for merging are not overlapped: they are 16 k bytes a
 * query and chunk, for k = 10 a third of 128 float columns.
 *
 * Memory. Host: rows x wanted pairs of 16 bytes. Device: a chunk and a stripe with its lists, and
 * the next ones' rows as they are given; chunks take at most half of the budget, so that stripes
 * stay large. Where there is no room for what comes next, or no longer, it is waited for.
 */
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "kith/kith_papers.h"
#include "screen/screen_gate.h"

#include <stdio.h>

/* ---- The screen ------------------------------------------------------------------------------ */

static kith_status fill_lists(kin_screen_gpu_work *work, const kin_request *request, int64_t k,
                              int32_t least)
{
    const int32_t usual = kin_screen_gpu_search_capacity(work->rows.points, work->cols.points, k,
                                                         kin_gpu_scope(work->on.gpu));
    KIN_TRY(kin_screen_gpu_work_make(work, k, usual > least ? usual : least));
    KIN_TRY(request->pipeline != NULL ? request->pipeline->gpu->fill(work, request)
                                      : kin_screen_gpu_work_run(work));
    return kin_gpu_wait(work->on.ctx, work->on.gpu);
}

/* The lists of all positions of `queries` among those of `corpus`, to a. Many queries are put into
 * the order of the corpus first. capacity: entries of a list, at least; crowded: NULL, or set where
 * too much stays in lists, or they have no room, and nothing is taken of them. */
static kith_status screen_side(kin_exact_gpu_answers *a, const kin_exact_gpu_corpus *corpus,
                               kin_screen_gpu_prepared *queries, const kin_request *request,
                               int32_t capacity, bool *crowded)
{
    kith_ctx *ctx = a->on.ctx;
    const int64_t k = kin_min_i64(a->wanted, corpus->prepared.groups.count);
    int64_t start = kin_clock_ns();
    kin_screen_gpu_home *homes = NULL;
    if (request->pipeline == NULL &&
        kin_screen_gpu_wants_homes(queries->set.points, corpus->prepared.set.points, k)) {
        KIN_TRY(kin_screen_gpu_prepared_order(&a->on, &corpus->prepared, queries, &homes));
    }
    kin_screen_gpu_work work = {.on = a->on,
                                .rows = queries->set,
                                .cols = corpus->prepared.set,
                                .homes = homes,
                                .col_worst = corpus->worst,
                                .wary = crowded != NULL};
    kith_status status = KITH_OK;
    if ((request->flags & KITH_NO_SKIP) != 0) {
        work.rows.centres = NULL;
        work.cols.centres = NULL;
    } else {
        status = kin_screen_gpu_balls_take(&a->on, &work.cols, corpus->balls, queries->set.points,
                                           k, &work.balls);
    }
    KIN_THEN(status, fill_lists(&work, request, k, capacity));
    if (crowded != NULL) {
        *crowded = work.crowded || status == KITH_E_DEVICE_MEMORY;
    }
    ctx->report.seconds_screen += kin_clock_since(start);
    start = kin_clock_ns();
    if (crowded == NULL || !*crowded) {
        KIN_THEN(status,
                 kin_exact_gpu_answers_take(a, &work, &queries->rows, &corpus->prepared.rows));
    } else if (status == KITH_E_DEVICE_MEMORY) {
        kin_forgive(ctx);
        status = KITH_OK;
    }
    ctx->report.seconds_rescore += kin_clock_since(start);
    kin_screen_gpu_work_free(&work);
    kin_free(ctx, homes);
    return status;
}

/* Whether bytes tell queries as they tell the corpus: those beyond its values lose more. */
static bool are_near(const kin_screen_gpu_prepared *queries)
{
    const kin_bound_row half = {.lost = 0.5 * queries->set.worst.lost};
    return kin_gate_is_even(queries->set.frame.cols, half);
}

/* Queries in the frame of bytes; done: whether those told enough. Else they are in the corpus' own
 * frame. */
static kith_status screen_bytes(kin_exact_gpu_answers *a, const kin_exact_gpu_corpus *corpus,
                                kin_screen_gpu_prepared *queries, const kin_request *request,
                                bool *done)
{
    kith_report *report = &a->on.ctx->report;
    const int32_t capacity = kin_exact_gpu_glance_capacity(corpus, request, queries->set.points);
    bool crowded = true;
    if (capacity > 0 && are_near(queries)) {
        KIN_TRY(screen_side(a, corpus->glance, queries, request, capacity, &crowded));
    }
    *done = !crowded;
    (void)snprintf(report->screen, sizeof report->screen, "%s", crowded ? "" : "s8");
    return crowded ? kin_screen_gpu_prepared_frame(&a->on, &corpus->prepared.set.frame, queries)
                   : KITH_OK;
}

/* ---- A stripe of queries --------------------------------------------------------------------- */

/* What the stripes of a search have in common. */
typedef struct searching {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kin_exact_gpu_corpus *corpus; /* or its present chunk */
    const kin_exact_gpu_query *query;
    bool screens; /* the whole job */
    kin_exact_gpu_stripes stripes;
    kin_screen_gpu_tally *tally;
    /* Chunks: the lists of all queries so far. */
    kin_exact_gpu_answers *merged;
    bool last_chunk;
} searching;

static kith_status ids_to_write(kin_hold *hold, const kin_groups *groups, uint32_t **ids)
{
    KIN_NEW(hold, *ids, (uint64_t)groups->count, "rows to write");
    for (int64_t i = 0; i < groups->count; i++) {
        (*ids)[i] = groups->firsts == NULL ? (uint32_t)i : groups->firsts[i];
    }
    return KITH_OK;
}

/* The corpus has nothing but degenerate rows, or there is no query that is not. */
static kith_status answer_without_screen(kin_exact_gpu_answers *a, const kin_groups *queries)
{
    uint32_t *ids = NULL;
    KIN_HOLD(hold, a->on.ctx);
    KIN_TRY(ids_to_write(&hold, queries, &ids));
    const kin_exact_gpu_finished none = {.ids = ids, .rows = queries->count};
    return kin_exact_gpu_host_write(a, &none);
}

static bool asks_bytes(const searching *s)
{
    return kin_exact_gpu_glance_serves(s->corpus, s->query->request, s->query->queries->rows);
}

static kith_status screen_stripe(const searching *s, kin_exact_gpu_answers *a,
                                 kin_screen_gpu_prepared *queries)
{
    const kin_exact_gpu_corpus *corpus = s->corpus;
    const kin_request *request = s->query->request;
    bool done = false;
    if (corpus->prepared.groups.count == 0 || queries->groups.count == 0) {
        return answer_without_screen(a, &queries->groups);
    }
    if (kin_exact_gpu_by_host(request)) {
        return request->pipeline->gpu->answer(a, queries, &corpus->prepared, corpus->worst,
                                              request);
    }
    if (asks_bytes(s)) {
        KIN_TRY(screen_bytes(a, corpus, queries, request, &done));
    }
    return done ? KITH_OK : screen_side(a, corpus, queries, request, 0, NULL);
}

/* Metrics without a screen, and k beyond its lists: canonical keys of all pairs. */
static kith_status solve_stripe(const searching *s, const kin_screen_gpu_prepared *queries)
{
    const kin_groups all = {.count = queries->rows.rows};
    uint32_t *ids = NULL;
    KIN_HOLD(hold, s->ctx);
    KIN_TRY(ids_to_write(&hold, &all, &ids));
    return kin_exact_gpu_answers_solve(s->merged, &queries->rows, &s->corpus->prepared.rows, ids,
                                       queries->rows.rows);
}

/* To the lists that chunks have so far. */
static kith_status merge_stripe(const searching *s, kin_screen_gpu_prepared *queries)
{
    s->merged->row0 = (uint32_t)queries->first;
    return s->screens ? screen_stripe(s, s->merged, queries) : solve_stripe(s, queries);
}

/* To outputs of its own. */
static kith_status write_stripe(const searching *s, kin_screen_gpu_prepared *queries)
{
    const kin_exact_gpu_corpus *corpus = s->corpus;
    const kin_groups *groups = &corpus->prepared.groups;
    kin_exact_gpu_slice slice;
    kin_exact_gpu_slice_of(s->query, queries->first, queries->rows.rows, &slice);
    if (corpus->prepared.some && (!s->screens || queries->groups.degenerate > 0)) {
        return kin_fail(s->ctx, KITH_E_UNSUPPORTED,
                        "all rows would be looked at, and some of them are not allowed");
    }
    if (!s->screens) {
        return kin_exact_gpu_direct(s->ctx, s->gpu, &corpus->prepared.rows, &queries->rows,
                                    &slice.query);
    }
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(s->ctx, s->gpu);
    kin_exact_gpu_answers a = kin_exact_gpu_answers_of(&on, &slice.query, groups, &queries->groups);
    a.among = corpus->prepared.some ? &corpus->prepared.set : NULL;
    KIN_TRY(kin_exact_gpu_answers_make(&a, (s->query->place & KIN_GPU_OUT_ON_DEVICE) != 0, false));
    kith_status status = screen_stripe(s, &a, queries);
    KIN_THEN(status, kin_exact_gpu_answers_finish(&a, &slice.out, groups->rows));
    if (status == KITH_OK) {
        kin_screen_gpu_tally_add(s->tally, &a.tally);
    }
    kin_exact_gpu_answers_free(&a);
    return status;
}

/* The rows of the stripe behind this one: of the same chunk, or the first of the next. */
static void bring_next(const searching *s, int64_t behind, int64_t next)
{
    const kith_matrix *queries = s->query->queries;
    if (next > 0) {
        kin_screen_gpu_prepare_ahead(s->ctx, s->gpu, queries, behind, next);
    } else if (s->stripes.ahead && s->merged != NULL && !s->last_chunk) {
        kin_screen_gpu_prepare_ahead(s->ctx, s->gpu, queries, 0,
                                     kin_min_i64(s->stripes.stripe, queries->rows));
    }
}

static kith_status search_stripe(void *arg, int64_t first, int64_t count, int64_t next)
{
    const searching *s = arg;
    const kin_exact_gpu_query *query = s->query;
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(s->ctx, s->gpu);
    const kin_screen_gpu_source source = {.matrix = query->queries,
                                          .distance = &query->request->distance,
                                          .name = query->name,
                                          .place = query->place,
                                          .first = first,
                                          .count = count};
    kin_screen_gpu_prepared queries;
    const kin_exact_gpu_corpus *asked = asks_bytes(s) ? s->corpus->glance : s->corpus;
    KIN_TRY(kin_screen_gpu_prepare_queries(
        &on, &source, s->screens ? &asked->prepared.set.frame : NULL, &queries));
    bring_next(s, first + count, next);
    const kith_status status =
        s->merged != NULL ? merge_stripe(s, &queries) : write_stripe(s, &queries);
    kin_screen_gpu_prepared_free(s->ctx, s->gpu, &queries);
    return status;
}

/* ---- All queries ----------------------------------------------------------------------------- */

kith_status kin_exact_gpu_each_stripe(kin_exact_gpu_stripes *all)
{
    kith_status status = KITH_OK;
    for (int64_t first = 0; status == KITH_OK && first < all->rows;) {
        const int64_t count = kin_min_i64(all->stripe, all->rows - first);
        const int64_t next = all->ahead ? kin_min_i64(all->stripe, all->rows - first - count) : 0;
        status = all->solve(all->arg, first, count, next);
        if (status == KITH_E_DEVICE_MEMORY && kin_gpu_ahead_end(all->gpu)) {
            all->ahead = false;
        } else if (status == KITH_E_DEVICE_MEMORY && count > KIN_EXACT_GPU_LEAST_ROWS) {
            all->stripe = kin_exact_gpu_halved(count);
        } else {
            first += count;
            continue;
        }
        kin_forgive(all->ctx);
        kin_gpu_trim(all->gpu);
        status = KITH_OK;
    }
    if (!all->keeps_ahead) {
        kin_gpu_ahead_leave(all->gpu);
    }
    return status;
}

/* A job, none of whose corpus is on the device yet. */
static searching searching_of(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                              const kin_exact_gpu_query *query)
{
    return (searching){
        .ctx = ctx,
        .gpu = gpu,
        .query = query,
        .screens = kin_exact_gpu_screens(query->request, corpus->rows, query->queries->rows),
        .stripes = {.ctx = ctx,
                    .gpu = gpu,
                    .rows = query->queries->rows,
                    .stripe = query->queries->rows,
                    .ahead =
                        (query->place & KIN_GPU_DATA_ON_DEVICE) == 0 && kin_gpu_ahead_wanted(gpu),
                    .solve = search_stripe}};
}

static kin_exact_gpu_meeting meeting_of(const searching *s, const kith_matrix *corpus)
{
    return (kin_exact_gpu_meeting){.queries = s->query->queries,
                                   .request = s->query->request,
                                   .place = s->query->place,
                                   .gpu = s->gpu,
                                   .corpus_dtype = corpus->dtype,
                                   .corpus_rows = corpus->rows,
                                   .screens = s->screens};
}

kith_status kin_exact_gpu_search_stripes(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                         const kin_exact_gpu_query *query,
                                         kin_screen_gpu_tally *tally)
{
    kin_gpu *gpu = corpus->gpu;
    searching s = searching_of(ctx, gpu, &corpus->points, query);
    const kin_exact_gpu_meeting meeting = meeting_of(&s, &corpus->points);
    s.corpus = corpus;
    s.tally = tally;
    s.stripes.stripe =
        kin_exact_gpu_stripe_rows(&meeting, kin_gpu_room(gpu), kin_gpu_scope(gpu), s.stripes.ahead);
    s.stripes.arg = &s;
    return kin_exact_gpu_each_stripe(&s.stripes);
}

/* ---- A chunk --------------------------------------------------------------------------------- */

typedef struct chunking {
    searching s;
    const kith_matrix *corpus;
    const char *name; /* of the corpus */
    kin_exact_gpu_answers answers;
    int64_t chunk; /* rows of a chunk */
} chunking;

/* With no chunk on the device. rows 0: chunks of the size that suits best. Stripes do not grow. */
static void cut(chunking *c, int64_t rows)
{
    kin_exact_gpu_stripes *stripes = &c->s.stripes;
    kin_exact_gpu_chunked sizes = {.corpus = c->corpus,
                                   .meeting = meeting_of(&c->s, c->corpus),
                                   .room = kin_gpu_room(c->s.gpu),
                                   .scope = kin_gpu_scope(c->s.gpu),
                                   .ahead = stripes->ahead && kin_gpu_ahead_wanted(c->s.gpu)};
    if (rows > 0) {
        kin_exact_gpu_cut_stripes(&sizes, rows);
    } else {
        kin_exact_gpu_cut_chunks(&sizes);
    }
    c->chunk = sizes.chunk;
    stripes->stripe = kin_min_i64(stripes->stripe, sizes.stripe);
    stripes->ahead = sizes.ahead;
}

/* Lists are merged behind everything that can run out of device memory, a batch at a time: a stripe
 * that fails may have merged a part. Its rows' lists are put back before it is tried again. */
typedef struct saved {
    int64_t rows;
    int64_t wanted;
    kin_pair *lists;
    int32_t *counts;
} saved;

static void name_saved(kin_layout *layout, void *job)
{
    saved *s = job;
    const uint64_t pairs = kin_size_mul((uint64_t)s->rows, (uint64_t)s->wanted);
    s->lists = kin_layout_array(layout, pairs, sizeof *s->lists);
    s->counts = kin_layout_array(layout, (uint64_t)s->rows, sizeof *s->counts);
}

static kith_status merge_or_leave(void *arg, int64_t first, int64_t count, int64_t next)
{
    const searching *s = arg;
    const kin_exact_gpu_answers *a = s->merged;
    kin_pair *lists = a->merged + first * a->wanted;
    int32_t *counts = a->merged_count + first;
    const size_t pair_bytes = (size_t)(count * a->wanted) * sizeof *lists;
    const size_t count_bytes = (size_t)count * sizeof *counts;
    saved before = {.rows = count, .wanted = a->wanted};
    KIN_HOLD(hold, s->ctx);
    KIN_TRY(kin_hold_layout(&hold, name_saved, &before, "lists of a stripe"));
    memcpy(before.lists, lists, pair_bytes);
    memcpy(before.counts, counts, count_bytes);
    const kith_status status = search_stripe(arg, first, count, next);
    if (status == KITH_E_DEVICE_MEMORY) {
        memcpy(lists, before.lists, pair_bytes);
        memcpy(counts, before.counts, count_bytes);
    }
    return status;
}

/* The chunk that begins with row `first`, of so many rows, and all queries. */
static kith_status take_chunk(chunking *c, const kin_exact_gpu_corpus *chunk, int64_t first)
{
    searching *s = &c->s;
    const int64_t behind = first + chunk->points.rows;
    kin_exact_gpu_answers_chunk(&c->answers, &chunk->prepared.groups, (uint32_t)first);
    s->corpus = chunk;
    s->last_chunk = behind == c->corpus->rows;
    if (s->stripes.ahead && !s->last_chunk) {
        kin_screen_gpu_prepare_ahead(s->ctx, s->gpu, c->corpus, behind,
                                     kin_min_i64(c->chunk, c->corpus->rows - behind));
    }
    return kin_exact_gpu_each_stripe(&s->stripes);
}

/* ---- All chunks ------------------------------------------------------------------------------ */

static kith_status take_chunks(chunking *c)
{
    kith_ctx *ctx = c->s.ctx;
    kin_gpu *gpu = c->s.gpu;
    const kin_request *request = c->s.query->request;
    for (int64_t first = 0; first < c->corpus->rows;) {
        const int64_t count = kin_min_i64(c->chunk, c->corpus->rows - first);
        const kin_screen_gpu_source source = {.matrix = c->corpus,
                                              .distance = &request->distance,
                                              .name = c->name,
                                              .place = c->s.query->place,
                                              .first = first,
                                              .count = count,
                                              .askers = c->s.query->queries->rows};
        kin_exact_gpu_corpus *chunk = NULL;
        kith_status status = kin_exact_gpu_corpus_make(
            ctx, gpu, &source, c->s.query->queries->dtype, request->k + 1, &chunk);
        const bool crowded = status == KITH_E_DEVICE_MEMORY && kin_gpu_ahead_end(gpu);
        if (crowded || (status == KITH_E_DEVICE_MEMORY && count > KIN_EXACT_GPU_LEAST_ROWS)) {
            kin_forgive(ctx);
            kin_gpu_trim(gpu);
            c->s.stripes.ahead = c->s.stripes.ahead && !crowded;
            cut(c, crowded ? c->chunk : kin_exact_gpu_halved(count));
            continue;
        }
        KIN_TRY(status);
        status = take_chunk(c, chunk, first);
        kin_exact_gpu_corpus_free(ctx, chunk);
        KIN_TRY(status);
        first += count;
        KIN_TRY(kin_progress(ctx, "screen", (double)first, (double)c->corpus->rows));
    }
    return KITH_OK;
}

/* Where the smallest stripe has no room beside a chunk, everything is taken again in smaller
 * chunks: lists that hold a part of a chunk cannot give it back. */
static kith_status take_smaller_chunks(chunking *c)
{
    const int64_t rows = c->s.stripes.rows;
    cut(c, 0);
    kith_status status = take_chunks(c);
    while (status == KITH_E_DEVICE_MEMORY && c->chunk > KIN_EXACT_GPU_LEAST_ROWS) {
        kin_forgive(c->s.ctx);
        kin_gpu_trim(c->s.gpu);
        c->s.stripes.stripe = rows;
        cut(c, kin_exact_gpu_halved(c->chunk));
        memset(c->answers.merged_count, 0, (size_t)rows * sizeof *c->answers.merged_count);
        status = take_chunks(c);
    }
    return status;
}

kith_status kin_exact_gpu_search_chunks(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                        const kin_exact_gpu_query *query)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    const kin_groups every_row = {.rows = query->out->rows, .count = query->out->rows};
    const kin_groups whole = {.rows = corpus->rows, .count = corpus->rows};
    const kin_screen_gpu_prepared none = {.groups = whole};
    kin_exact_gpu_query asked = *query;
    asked.queries = query->queries != NULL ? query->queries : corpus;
    chunking c = {.s = searching_of(ctx, gpu, corpus, &asked),
                  .corpus = corpus,
                  .name = query->queries != NULL ? "corpus" : "points",
                  .answers = kin_exact_gpu_answers_of(&on, query, &whole, &every_row)};
    c.answers.by_host = false;
    c.s.merged = &c.answers;
    c.s.stripes.keeps_ahead = true;
    c.s.stripes.solve = merge_or_leave;
    c.s.stripes.arg = &c.s;
    KIN_TRY(
        kin_exact_gpu_answers_make(&c.answers, (query->place & KIN_GPU_OUT_ON_DEVICE) != 0, true));
    kith_status status = take_smaller_chunks(&c);
    KIN_THEN(status, kin_exact_gpu_answers_finish(&c.answers, query->out, corpus->rows));
    if (status == KITH_OK) {
        kin_exact_gpu_report(ctx, &none, &c.answers.tally, query->out->rows);
    }
    kin_gpu_ahead_leave(gpu);
    kin_exact_gpu_answers_free(&c.answers);
    return status;
}
