/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The device finds pairs, the host makes the table of them, with the CPU engine's own code
 * (exact/exact_search.h): equal and degenerate rows, own ids, the comparison with the radius,
 * order.
 *
 *      a graph that fits     the points' own set, in its order and with its balls; equal rows once
 *      everything else       stripes of queries against the corpus, or against chunks of it
 *        screened metrics      exact_radius_screen_gpu.c
 *        the others            canonical keys of all pairs
 *
 * Chunks have groups of equal rows of their own; their links, moved by the chunk's first id, are
 * those of the whole: groups that stand in two chunks are two groups, each named by its lowest id.
 *
 * Memory. What does not fit is tried again in halves. A pair may be offered once, so what has
 * offered some begins anew, with an empty table. Host: as the CPU engine's.
 */
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>

enum { USUAL_K = 10 };

/* ---- Metrics without a product -------------------------------------------------------------- */

/* Canonical keys of a stripe of queries and a chunk of the corpus as a matrix (screen_keys.cu),
 * from which the device picks what is within. Where that is more than there is room for, the same
 * matrix is picked from again, fewer rows at a time. Half of the memory is for keys, a quarter for
 * hits.
 */
enum { MOST_STRIPE = 2048, MOST_CHUNK = 1 << 15, CHUNK_STEP = 32, LEAST_STRIPE = 16 };

typedef struct scan {
    kin_exact_gpu_radius_job *f;
    const kin_screen_gpu_rows *corpus;
    const kin_screen_gpu_rows *queries;
    int64_t stripe; /* queries at a time */
    int64_t chunk;  /* rows of the corpus, the pitch of the keys */
    int64_t room;   /* hits; at least a row of the matrix */
    double *keys;
    double *most; /* by query */
    uint64_t *count;
    kin_screen_gpu_hit *device_hits;
    kin_screen_gpu_hit *hits;
} scan;

static void shape(scan *s)
{
    const int64_t words = (int64_t)(s->f->memory / 2 / sizeof *s->keys);
    const int64_t whole = kin_round_up(s->corpus->rows, CHUNK_STEP);
    const int64_t fit = words / LEAST_STRIPE / CHUNK_STEP * CHUNK_STEP;
    s->chunk = kin_min_i64(whole, kin_max_i64(CHUNK_STEP, kin_min_i64(fit, MOST_CHUNK)));
    s->stripe =
        kin_min_i64(s->queries->rows, kin_max_i64(1, kin_min_i64(words / s->chunk, MOST_STRIPE)));
    s->room =
        kin_min_i64(kin_max_i64(kin_exact_gpu_radius_room(s->f), s->chunk), s->stripe * s->chunk);
}

static void name_scan(kin_layout *layout, void *job)
{
    scan *s = job;
    const uint64_t keys = kin_size_mul((uint64_t)s->stripe, (uint64_t)s->chunk);
    s->keys = kin_layout_array(layout, keys, sizeof *s->keys);
    s->most = kin_layout_array(layout, (uint64_t)s->queries->rows, sizeof *s->most);
    s->count = kin_layout_array(layout, 1, sizeof *s->count);
    s->device_hits = kin_layout_array(layout, (uint64_t)s->room, sizeof *s->device_hits);
}

/* No key within the radius is above; the distance itself is asked where hits are told. */
static kith_status upload_radii(const scan *s)
{
    const kin_exact_gpu_radius_job *f = s->f;
    const uint64_t rows = (uint64_t)s->queries->rows;
    double *most = NULL;
    KIN_HOLD(hold, f->on.ctx);
    KIN_NEW(&hold, most, rows, "radii");
    for (uint64_t i = 0; i < rows; i++) {
        most[i] = kin_radius_key(f->request->distance.metric,
                                 kin_radius_of(f->request, (int64_t)(f->row0 + i)));
    }
    return kin_gpu_upload(f->on.ctx, f->on.gpu, s->most, most, rows * sizeof *most);
}

/* What one matrix holds: these queries and these rows of the corpus. */
typedef struct part {
    int64_t query0;
    int64_t rows;
    int64_t corpus0;
    int64_t columns;
} part;

static kith_status compute_keys(const scan *s, part p)
{
    const kin_screen_gpu_device *on = &s->f->on;
    const kin_screen_gpu_keys job = {.queries = *s->queries,
                                     .corpus = *s->corpus,
                                     .query0 = p.query0,
                                     .query_count = p.rows,
                                     .corpus0 = p.corpus0,
                                     .corpus_count = p.columns,
                                     .keys = s->keys,
                                     .pitch = s->chunk};
    s->f->tally.keys += (double)p.rows * (double)p.columns;
    return KIN_SCREEN_LAUNCH(on, keys, &job, "computing keys");
}

/* Rows `at` .. at + rows of the matrix. *count: how many are within. */
static kith_status pick(const scan *s, part p, int64_t at, int64_t rows, int64_t *count)
{
    const kin_screen_gpu_device *on = &s->f->on;
    uint64_t found = 0;
    const kin_screen_gpu_within job = {.keys = s->keys + at * s->chunk,
                                       .pitch = s->chunk,
                                       .rows = rows,
                                       .columns = p.columns,
                                       .query0 = (uint32_t)(p.query0 + at),
                                       .corpus0 = (uint32_t)p.corpus0,
                                       .most = s->most + p.query0 + at,
                                       .room = s->room,
                                       .hits = s->device_hits,
                                       .count = s->count};
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, s->count, 0, sizeof *s->count));
    KIN_TRY(KIN_SCREEN_LAUNCH(on, within, &job, "finding what is within reach"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &found, s->count, sizeof found));
    *count = (int64_t)found;
    return KITH_OK;
}

static kith_status take_matrix(const scan *s, part p)
{
    int64_t step = p.rows;
    for (int64_t at = 0; at < p.rows;) {
        const int64_t some = kin_min_i64(step, p.rows - at);
        int64_t count = 0;
        KIN_TRY(pick(s, p, at, some, &count));
        if (count > s->room) { /* so there is more than one row */
            step = kin_ceil_div(some, 2);
            continue;
        }
        KIN_TRY(kin_exact_gpu_radius_take(s->f, s->device_hits, count, s->hits));
        at += some;
    }
    return KITH_OK;
}

/* Of the queries from q on: rows before it are no neighbours of any. */
static int64_t first_column(const scan *s, int64_t q)
{
    const kin_exact_gpu_radius_job *f = s->f;
    const int64_t least = kin_radius_least(f->request, f->row0 + q) - f->id0;
    return kin_max_i64(least, 0) / CHUNK_STEP * CHUNK_STEP;
}

static kith_status scan_all(const scan *s)
{
    const int64_t queries = s->queries->rows;
    for (int64_t q = 0; q < queries; q += s->stripe) {
        const int64_t rows = kin_min_i64(s->stripe, queries - q);
        for (int64_t c = first_column(s, q); c < s->corpus->rows; c += s->chunk) {
            const part p = {q, rows, c, kin_min_i64(s->chunk, s->corpus->rows - c)};
            KIN_TRY(compute_keys(s, p));
            KIN_TRY(take_matrix(s, p));
            KIN_TRY(kin_progress(s->f->on.ctx, "screen", (double)q, (double)queries));
        }
    }
    return KITH_OK;
}

static kith_status scan_keys(kin_exact_gpu_radius_job *f, const kin_screen_gpu_rows *queries,
                             const kin_screen_gpu_rows *corpus)
{
    const int64_t start = kin_clock_ns();
    scan s = {.f = f, .corpus = corpus, .queries = queries};
    shape(&s);
    KIN_HOLD(hold, f->on.ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, f->on.gpu, name_scan, &s, "keys of all pairs"));
    KIN_NEW(&hold, s.hits, (uint64_t)s.room, "neighbours within reach");
    KIN_TRY(upload_radii(&s));
    KIN_TRY(scan_all(&s));
    f->on.ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

/* ---- A job ---------------------------------------------------------------------------------- */

typedef struct run {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kith_matrix *corpus;
    const kith_matrix *queries; /* the corpus for a graph */
    uint32_t corpus_place;
    uint32_t place; /* of the queries */
    const kin_radius_request *request;
    const kin_exact_gpu_corpus *resident; /* the corpus, prepared; NULL: it is not */
    bool graph;
    bool screens;
    int32_t shrunk;           /* how often memory did not suffice */
    kin_groups groups;        /* of the corpus, as far as its chunks were prepared */
    kin_row_transform *marks; /* by query, degenerate alone is set; NULL: none is */
    kin_rows asked;           /* the queries with their marks */
    kin_hits hits;
    kin_exact_gpu_radius_job finder;
    kin_screen_gpu_prepared last; /* what a report reads of a corpus */
} run;

/* Half as much of everything from now on. */
static void shrink(run *r)
{
    kin_forgive(r->ctx);
    kin_gpu_trim(r->gpu);
    r->shrunk += 1;
}

/* ---- Groups --------------------------------------------------------------------------------- */

/* Rows of a chunk that begins with id `first` join the whole corpus'. */
static kith_status join_groups(run *r, const kin_groups *chunk, int64_t first)
{
    kin_groups *whole = &r->groups;
    const uint64_t rows = (uint64_t)whole->rows;
    if (chunk->next != NULL && whole->next == NULL) {
        KIN_TRY(kin_alloc(r->ctx, &whole->next, rows, sizeof *whole->next, "groups of equal rows"));
        memset(whole->next, 0xff, (size_t)rows * sizeof *whole->next);
    }
    for (int64_t i = 0; chunk->next != NULL && i < chunk->rows; i++) {
        if (chunk->next[i] != KITH_ID_NONE) {
            whole->next[first + i] = (uint32_t)first + chunk->next[i];
        }
    }
    if (chunk->degenerate > 0 && whole->degenerates == NULL) {
        KIN_TRY(kin_alloc(r->ctx, &whole->degenerates, rows, sizeof *whole->degenerates,
                          "degenerate rows"));
    }
    for (int64_t i = 0; i < chunk->degenerate; i++) {
        whole->degenerates[whole->degenerate++] = (uint32_t)first + chunk->degenerates[i];
    }
    whole->count += chunk->count;
    return KITH_OK;
}

static kith_status mark_queries(run *r, const kin_groups *stripe, int64_t first)
{
    if (stripe->degenerate > 0 && r->marks == NULL) {
        KIN_TRY(kin_alloc_zero(r->ctx, &r->marks, (uint64_t)r->queries->rows, sizeof *r->marks,
                               "degenerate queries"));
        r->asked.transforms = r->marks;
    }
    for (int64_t i = 0; i < stripe->degenerate; i++) {
        r->marks[first + stripe->degenerates[i]].degenerate = 1.0;
    }
    return KITH_OK;
}

/* ---- A chunk and its queries ---------------------------------------------------------------- */

static kith_status meet(run *r, const kin_exact_gpu_corpus *chunk,
                        const kin_screen_gpu_prepared *queries, int64_t row0)
{
    kin_exact_gpu_radius_job *f = &r->finder;
    const uint64_t memory = kin_exact_gpu_radius_memory(&f->on) >> r->shrunk;
    const kin_exact_gpu_radius_sets what = {.rows = queries->set,
                                            .cols = chunk->prepared.set,
                                            .graph = queries == &chunk->prepared,
                                            .points = queries == &chunk->prepared ? queries : NULL,
                                            .col_worst = chunk->worst,
                                            .row_matrix = &queries->rows,
                                            .col_matrix = &chunk->prepared.rows};
    f->memory = memory;
    f->row0 = (uint32_t)row0;
    KIN_TRY(mark_queries(r, &queries->groups, row0));
    return r->screens ? kin_exact_gpu_radius_screen(f, &what)
                      : scan_keys(f, &queries->rows, &chunk->prepared.rows);
}

/* Near queries side by side, with balls, so that tiles can be skipped. */
static kith_status order_queries(const run *r, const kin_exact_gpu_corpus *chunk,
                                 kin_screen_gpu_prepared *queries)
{
    kin_screen_gpu_home *homes = NULL;
    if (!r->screens || queries->set.points < KIN_SCREEN_GPU_ORDERED_ROWS) {
        return KITH_OK;
    }
    const kith_status status =
        kin_screen_gpu_prepared_order(&r->finder.on, &chunk->prepared, queries, &homes);
    kin_free(r->ctx, homes); /* seeds would begin there */
    return status;
}

static kith_status take_stripe(run *r, const kin_exact_gpu_corpus *chunk, int64_t first,
                               int64_t count)
{
    kin_screen_gpu_prepared queries;
    const kin_screen_gpu_source source = {.matrix = r->queries,
                                          .distance = &r->request->distance,
                                          .name = "queries",
                                          .place = r->place,
                                          .first = first,
                                          .count = count};
    KIN_TRY(kin_screen_gpu_prepare_queries(
        &r->finder.on, &source, r->screens ? &chunk->prepared.set.frame : NULL, &queries));
    kith_status status = order_queries(r, chunk, &queries);
    KIN_THEN(status, meet(r, chunk, &queries, first));
    kin_screen_gpu_prepared_free(r->ctx, r->gpu, &queries);
    return status;
}

static int64_t first_stripe(const run *r)
{
    const uint64_t room = kin_gpu_room(r->gpu) / 2;
    int64_t rows = r->queries->rows;
    while (rows > KIN_EXACT_GPU_LEAST_ROWS &&
           kin_screen_gpu_prepared_bytes(r->queries, rows, &r->request->distance, r->corpus->dtype,
                                         r->place, false)
                   .most > room) {
        rows = kin_exact_gpu_halved(rows);
    }
    return rows;
}

static kith_status take_stripes(run *r, const kin_exact_gpu_corpus *chunk)
{
    int64_t stripe = first_stripe(r);
    for (int64_t first = 0; first < r->queries->rows;) {
        const int64_t count = kin_min_i64(stripe, r->queries->rows - first);
        const int64_t before = r->finder.offered;
        const kith_status status = take_stripe(r, chunk, first, count);
        if (status == KITH_E_DEVICE_MEMORY && r->finder.offered == before &&
            count > KIN_EXACT_GPU_LEAST_ROWS) {
            shrink(r);
            stripe = kin_exact_gpu_halved(count);
            continue;
        }
        KIN_TRY(status);
        first += count;
    }
    return KITH_OK;
}

/* Ids first .. first + count - 1 of the corpus. */
static kith_status take_chunk(run *r, const kin_exact_gpu_corpus *chunk, int64_t first)
{
    const bool whole = chunk->points.rows == r->corpus->rows;
    r->finder.id0 = (uint32_t)first;
    r->finder.by_groups = false;
    KIN_TRY(join_groups(r, &chunk->prepared.groups, first));
    r->last.set.frame = chunk->prepared.set.frame;
    if (!r->graph || !whole) {
        return take_stripes(r, chunk);
    }
    r->finder.by_groups = r->screens;
    return meet(r, chunk, &chunk->prepared, 0);
}

/* ---- All chunks ----------------------------------------------------------------------------- */

/* The whole corpus, which is prepared. */
static kith_status take_resident(run *r)
{
    kin_exact_gpu_corpus *again = NULL;
    KIN_TRY(kin_exact_gpu_corpus_for(r->ctx, r->resident, r->queries, USUAL_K, &again));
    const kith_status status = take_chunk(r, again != NULL ? again : r->resident, 0);
    kin_exact_gpu_corpus_free(r->ctx, again);
    return status;
}

static kith_status take_chunks(run *r, int64_t rows)
{
    if (r->resident != NULL && rows == r->corpus->rows) {
        return take_resident(r);
    }
    for (int64_t first = 0; first < r->corpus->rows; first += rows) {
        const int64_t count = kin_min_i64(rows, r->corpus->rows - first);
        const kin_screen_gpu_source source = {.matrix = r->corpus,
                                              .distance = &r->request->distance,
                                              .name = r->graph ? "points" : "corpus",
                                              .place = r->corpus_place,
                                              .first = first,
                                              .count = count};
        kin_exact_gpu_corpus *chunk = NULL;
        KIN_TRY(
            kin_exact_gpu_corpus_make(r->ctx, r->gpu, &source, r->queries->dtype, USUAL_K, &chunk));
        const kith_status status = take_chunk(r, chunk, first);
        kin_exact_gpu_corpus_free(r->ctx, chunk);
        KIN_TRY(status);
    }
    return KITH_OK;
}

/* All of the corpus, or chunks that leave half of the memory. */
static int64_t first_chunk(const run *r)
{
    const uint64_t room = kin_gpu_room(r->gpu);
    int64_t rows = r->corpus->rows;
    while (rows > KIN_EXACT_GPU_LEAST_ROWS &&
           kin_screen_gpu_prepared_bytes(r->corpus, rows, &r->request->distance, r->queries->dtype,
                                         r->corpus_place, true)
                   .most > (rows == r->corpus->rows ? room : room / 2)) {
        rows = kin_exact_gpu_halved(rows);
    }
    return rows;
}

static void clear(run *r)
{
    kin_hits_free(&r->hits);
    kin_groups_free(r->ctx, &r->groups);
    r->groups = (kin_groups){.rows = r->corpus->rows};
    r->finder.tally = (kin_screen_gpu_tally){0};
    r->finder.expected = -1.0;
}

/* Everything, with the corpus in chunks of so many rows. */
static kith_status attempt(run *r, int64_t rows, kith_ranges *ranges)
{
    clear(r);
    KIN_TRY(kin_hits_make(r->ctx, r->request, &r->groups, &r->asked, &r->hits));
    KIN_TRY(take_chunks(r, rows));
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_hits_finish(&r->hits, ranges));
    r->ctx->report.seconds_rescore += kin_clock_since(start);
    return KITH_OK;
}

static void report(run *r)
{
    kith_report *out = &r->ctx->report;
    r->last.groups.count = r->groups.count;
    kin_exact_gpu_report(r->ctx, &r->last, &r->finder.tally, r->queries->rows);
    if (!r->screens) {
        (void)snprintf(out->screen, sizeof out->screen, "direct");
    }
}

static kith_status find_all(run *r, const kin_exact_gpu_radius_query *query, kith_ranges *ranges)
{
    r->request = query->request;
    r->graph = query->queries == NULL;
    r->queries = r->graph ? r->corpus : query->queries;
    r->place = r->graph ? r->corpus_place : query->place;
    r->screens = kin_is_screened(&r->request->distance);
    r->asked.matrix = *r->queries;
    r->finder = (kin_exact_gpu_radius_job){.on = kin_screen_gpu_device_of(r->ctx, r->gpu),
                                           .request = r->request,
                                           .hits = &r->hits,
                                           .groups = &r->groups};
    int64_t rows = r->resident != NULL ? r->corpus->rows : first_chunk(r);
    kith_status status = attempt(r, rows, ranges);
    while (status == KITH_E_DEVICE_MEMORY && rows > KIN_EXACT_GPU_LEAST_ROWS) {
        shrink(r);
        rows = kin_exact_gpu_halved(rows);
        status = attempt(r, rows, ranges);
    }
    if (status == KITH_OK) {
        report(r);
    }
    clear(r);
    kin_free(r->ctx, r->marks);
    return status;
}

kith_status kin_exact_gpu_radius(kith_ctx *ctx, kin_gpu *gpu, const kin_screen_gpu_source *corpus,
                                 const kin_exact_gpu_radius_query *query, kith_ranges *ranges)
{
    run r = {.ctx = ctx, .gpu = gpu, .corpus = corpus->matrix, .corpus_place = corpus->place};
    return find_all(&r, query, ranges);
}

kith_status kin_exact_gpu_corpus_radius(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus,
                                        const kin_exact_gpu_radius_query *query,
                                        kith_ranges *ranges)
{
    run r = {.ctx = ctx,
             .gpu = corpus->gpu,
             .corpus = &corpus->points,
             .corpus_place = corpus->place,
             .resident = corpus};
    return find_all(&r, query, ranges);
}

/* ---- By a team ------------------------------------------------------------------------------- */

/* Each makes the table of its rows in its own context; then they become one. */
typedef struct tables {
    const kin_exact_gpu_radius_division *job;
    kith_ranges of[KIN_GPU_TEAM_MOST];
} tables;

/* Points of a graph ask as queries that know which rows they are. */
static kith_status find_share(void *arg, const kin_exact_gpu_member *own)
{
    tables *t = arg;
    const kin_exact_gpu_radius_query *whole = t->job->query;
    kith_ranges *table = &t->of[own->part];
    const kith_matrix queries = kin_matrix_part(
        whole->queries != NULL ? whole->queries : t->job->points, own->first, own->count);
    kin_radius_request request = *whole->request;
    request.own_row += own->first;
    request.radii = request.radii != NULL ? request.radii + own->first : NULL;
    if (table->ctx != NULL) { /* of a run that another one broke */
        kin_ranges_clear(table->ctx, table);
    }
    *table = (kith_ranges){.ctx = own->ctx};
    const kin_exact_gpu_radius_query query = {&queries, &request, whole->place};
    return t->job->find(t->job->arg, own, &query, table);
}

static kith_status radius_by_team(kith_ctx *ctx, kin_gpu *gpu,
                                  const kin_exact_gpu_radius_division *job, kith_ranges *ranges)
{
    tables t = {.job = job};
    const kith_matrix *asked = job->query->queries != NULL ? job->query->queries : job->points;
    const kin_exact_gpu_division rows = {asked->rows, find_share, &t};
    kith_status status = kin_exact_gpu_divide(ctx, gpu, &rows);
    KIN_THEN(status, kin_ranges_join(ctx, t.of, kin_gpu_team_count(gpu->team), ranges));
    for (int32_t p = 0; p < KIN_GPU_TEAM_MOST; p++) {
        if (t.of[p].ctx != NULL) {
            kin_ranges_clear(t.of[p].ctx, &t.of[p]);
        }
    }
    return status;
}

kith_status kin_exact_gpu_radius_solve(kith_ctx *ctx, kin_gpu *gpu, bool shared,
                                       const kin_exact_gpu_radius_division *job,
                                       kith_ranges *ranges)
{
    const kith_report before = ctx->report;
    if (shared) {
        const kith_status status = radius_by_team(ctx, gpu, job, ranges);
        if (!kin_exact_gpu_team_yields(ctx, status)) {
            return status;
        }
        ctx->report = before;
    }
    const kin_exact_gpu_member alone = {.ctx = ctx, .gpu = gpu};
    return job->find(job->arg, &alone, job->query, ranges);
}
