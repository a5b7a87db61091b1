/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. All within a radius by a tree on a GPU, in two walks: the first counts, so that the second
 * knows where each list stands (tree_radius.cu); lists are sorted on the device and copied as they
 * are.
 *
 *      corpus    upload, check, groups of equal rows -> tree; or one that is kept
 *      graph     the tree's own positions, in its order, where no rows are equal; else
 *      stripes   of rows that ask, as many as fit: round, sort by leaf -> walk: counts -> offsets
 *      pieces    of a stripe whose lists fit: walk -> lists -> sorted -> the host's table
 *
 * Each row is asked for itself, so equal rows of the queries may have radii of their own; those of
 * the corpus are one point, whose ids the kernels put in.
 *
 * Memory. The corpus and its tree must fit. Of what is left a stripe takes up to half, its lists up
 * to half, 16 bytes a neighbour; where even that is too much, the job is taken again with less. */
#include "tree/tree_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "tree/tree_cost.h"

#include <math.h>

enum { SAMPLE = 16384, FIRST_SLICE = 1 << 16, GROWTH = 8, LEAST_PAIRS = 1 << 16 };
static const double SHORT_SECONDS = 0.02;
static const uint64_t PAIR_BYTES = sizeof(uint32_t) + sizeof(double) + sizeof(float);

typedef struct finding {
    kin_hold *hold;
    kin_screen_gpu_device on;
    const kin_tree_gpu_corpus *corpus;
    const kin_exact_gpu_radius_query *query;
    kin_tree_gpu_solver solver;
    kith_ranges *ranges;
    bool stays;     /* lists are made, all at once, where the rows lie, and stay there */
    int64_t room;   /* of the host's lists */
    uint32_t *next; /* device: of the corpus' groups; NULL: no rows are equal */
} finding;

static int64_t rows_asking(const finding *f)
{
    return f->query->queries != NULL ? f->query->queries->rows : f->corpus->points.rows;
}

/* ---- Rows that ask, and how many each has ---------------------------------------------------- */

/* Rows first .. first + count - 1 of those that ask, on the device. */
typedef struct stripe {
    const finding *f;
    kin_screen_gpu_rows rows;
    int64_t first;
    int64_t step; /* they are every step-th of those that were asked for */
    bool own;     /* the points of the tree, where they stand */
    kin_tree_gpu_asked asked;
    kin_tree_ring *rings; /* by row; NULL: one for all */
    int64_t *counts;
    int64_t *scratch;
    int64_t *offsets; /* rows + 1; where lists are made */
} stripe;

static void name_stripe(kin_layout *layout, void *job)
{
    stripe *s = job;
    const uint64_t n = (uint64_t)s->rows.rows;
    const bool each = s->f->query->request->radii != NULL;
    s->rings = each ? kin_layout_array(layout, n, sizeof *s->rings) : NULL;
    s->counts = kin_layout_array(layout, n, sizeof *s->counts);
    s->scratch = kin_layout_array(layout, KIN_TREE_GPU_SUMS, sizeof *s->scratch);
}

static kin_tree_ring ring_of(const kin_radius_request *request, double radius)
{
    return (kin_tree_ring){radius, kin_radius_key(request->distance.metric, radius)};
}

static kith_status upload_rings(const stripe *s)
{
    const kin_screen_gpu_device *on = &s->f->on;
    const kin_radius_request *request = s->f->query->request;
    const uint64_t n = (uint64_t)s->rows.rows;
    kin_tree_ring *rings = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, rings, n, "radii");
    for (uint64_t i = 0; i < n; i++) {
        rings[i] = ring_of(request, request->radii[(s->first + (int64_t)i) * s->step]);
    }
    return kin_gpu_upload(on->ctx, on->gpu, s->rings, rings, n * sizeof *rings);
}

static kith_status make_stripe(kin_hold *hold, stripe *s)
{
    const finding *f = s->f;
    s->asked = (kin_tree_gpu_asked){.count = s->rows.rows, .ordered = true};
    KIN_TRY(s->own ? KITH_OK : kin_tree_gpu_ask(&f->solver, hold, &s->rows, NULL, &s->asked));
    KIN_TRY(kin_gpu_hold_layout(hold, f->on.gpu, name_stripe, s, "counts of neighbours"));
    return s->rings != NULL ? upload_rings(s) : KITH_OK;
}

static kin_tree_gpu_radius walk_of(const stripe *s)
{
    const finding *f = s->f;
    const kin_radius_request *request = f->query->request;
    const kin_tree_gpu *tree = f->solver.tree;
    return (kin_tree_gpu_radius){
        .walk = {.tree = *tree,
                 .rows = s->asked.rounded,
                 .row_lost = s->asked.lost,
                 .order = s->asked.order,
                 .count = s->own ? tree->blocks * KIN_TREE_LANES : s->rows.rows,
                 .met = f->solver.counters->met},
        .queries = s->rows,
        .corpus = f->solver.corpus->rows,
        .within = {.metric = request->distance.metric,
                   .leaves_self_out = request->leaves_self_out,
                   .later_alone = request->later_alone,
                   .own_row = request->own_row,
                   .row0 = s->first,
                   .all = ring_of(request, request->radius),
                   .each = s->rings,
                   .next = f->next}};
}

/* All places. Slices grow while they are short, so that who wants to stop the job soon can. */
static kith_status walk(const stripe *s, kin_tree_gpu_radius *job)
{
    const kin_screen_gpu_device *on = &s->f->on;
    const int64_t whole = job->walk.count;
    int64_t slice = FIRST_SLICE;
    for (int64_t first = 0; first < whole; first += job->walk.count) {
        const int64_t start = kin_clock_ns();
        job->walk.place0 = first;
        job->walk.count = kin_min_i64(slice, whole - first);
        KIN_TRY(KIN_ROOM_LAUNCH(&s->f->solver, radius, job, "finding what is within a radius"));
        if (first + job->walk.count < whole) {
            KIN_TRY(kin_gpu_wait(on->ctx, on->gpu));
            KIN_TRY(kin_progress(on->ctx, "screen", (double)first, (double)whole));
            slice = kin_clock_since(start) < SHORT_SECONDS ? slice * GROWTH : slice;
        }
    }
    return KITH_OK;
}

/* What walks have met since the last time. */
static kith_status read_counters(finding *f)
{
    uint64_t keys = 0;
    KIN_TRY(kin_tree_gpu_read_counters(&f->solver, &keys));
    f->solver.tally.keys += (double)keys;
    return KITH_OK;
}

static kith_status count_rows(const stripe *s)
{
    kin_tree_gpu_radius job = walk_of(s);
    const kin_tree_gpu_sums sums = {
        .counts = s->counts, .count = s->rows.rows, .offsets = s->offsets, .scratch = s->scratch};
    job.counts = s->counts;
    KIN_TRY(walk(s, &job));
    return KIN_ROOM_LAUNCH(&s->f->solver, sums, &sums, "where lists begin");
}

/* The stripe's offsets go on where those before it end. */
static kith_status fetch_offsets(finding *f, const stripe *s)
{
    const kin_screen_gpu_device *on = &f->on;
    const int64_t n = s->rows.rows;
    int64_t *offsets = f->ranges->lists.offsets + s->first;
    const int64_t before = offsets[0];
    const kith_status status = kin_gpu_download(on->ctx, on->gpu, offsets, s->offsets,
                                                (uint64_t)(n + 1) * sizeof *offsets);
    offsets[0] = before; /* on failure, too: what was tried may be tried again */
    KIN_TRY(status);
    for (int64_t i = 1; i <= n; i++) {
        offsets[i] += before;
    }
    return read_counters(f);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Lists of a piece, in device memory. */
typedef struct table {
    int64_t pairs;
    double *distances64;
    uint32_t *ids;
    float *distances;
} table;

static void name_table(kin_layout *layout, void *job)
{
    table *t = job;
    const uint64_t n = (uint64_t)t->pairs;
    t->distances64 = kin_layout_array(layout, n, sizeof *t->distances64);
    t->ids = kin_layout_array(layout, n, sizeof *t->ids);
    t->distances = kin_layout_array(layout, n, sizeof *t->distances);
}

/* The lists of rows `first` .. of the stripe s, which `walked` walks: s or a part of it. */
static kith_status fill_table(const finding *f, const stripe *walked, const int64_t *offsets,
                              int64_t begin, const table *t)
{
    kin_tree_gpu_radius job = walk_of(walked);
    const kin_tree_gpu_ranges ranges = {.metric = f->query->request->distance.metric,
                                        .rows = walked->rows.rows,
                                        .offsets = offsets,
                                        .first = begin,
                                        .ids = t->ids,
                                        .distances64 = t->distances64,
                                        .distances = t->distances};
    job.offsets = offsets;
    job.first = begin;
    job.ids = t->ids;
    job.keys = t->distances64;
    KIN_TRY(walk(walked, &job));
    return KIN_ROOM_LAUNCH(&f->solver, ranges, &ranges, "sorting lists");
}

static kith_status fetch(const finding *f, const table *t, int64_t to)
{
    const kin_screen_gpu_device *on = &f->on;
    const kith_lists *lists = &f->ranges->lists;
    const uint64_t n = (uint64_t)t->pairs;
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, lists->ids + to, t->ids, n * sizeof *t->ids));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, lists->distances + to, t->distances,
                             n * sizeof *t->distances));
    return kin_gpu_download(on->ctx, on->gpu, lists->distances64 + to, t->distances64,
                            n * sizeof *t->distances64);
}

/* Rows at .. at + rows of the stripe: all of it is walked as it stands, a part is sorted anew. */
static kith_status take_piece(finding *f, const stripe *whole, int64_t at, int64_t rows)
{
    const int64_t *host = f->ranges->lists.offsets + whole->first;
    const bool all = rows == whole->rows.rows;
    table t = {.pairs = host[at + rows] - host[at]};
    stripe part = *whole;
    if (t.pairs == 0) {
        return KITH_OK;
    }
    part.own = false;
    part.first = whole->first + at;
    part.rows.rows = rows;
    part.rows.data = (const char *)whole->rows.data + at * whole->rows.stride_bytes;
    KIN_HOLD(hold, f->on.ctx);
    KIN_TRY(all ? KITH_OK : make_stripe(&hold, &part));
    KIN_TRY(kin_gpu_hold_layout(&hold, f->on.gpu, name_table, &t, "neighbours within reach"));
    KIN_TRY(fill_table(f, all ? whole : &part, whole->offsets + at, host[at] - host[0], &t));
    return fetch(f, &t, host[at]);
}

/* ---- The host's table ------------------------------------------------------------------------ */

/* Neighbours whose lists are made at a time. */
static int64_t pairs_at_once(const finding *f)
{
    const uint64_t fit = kin_gpu_scope(f->on.gpu) / 2 / PAIR_BYTES;
    return kin_max_i64(LEAST_PAIRS, fit < INT64_MAX ? (int64_t)fit : INT64_MAX);
}

static kith_status take_lists(finding *f, const stripe *s)
{
    const int64_t n = s->rows.rows;
    const int64_t *offsets = f->ranges->lists.offsets + s->first;
    const int64_t most = pairs_at_once(f);
    const int64_t limit = f->query->request->most;
    if (limit > 0 && offsets[n] > limit) {
        return kin_hits_too_many(f->on.ctx, f->query->request);
    }
    if (f->query->request->count_only) {
        return KITH_OK;
    }
    KIN_TRY(kin_ranges_grow(f->on.ctx, f->ranges, &f->room, s->first + n));
    for (int64_t at = 0, last = 0; at < n; at = last) {
        do {
            last += 1;
        } while (last < n && offsets[last + 1] - offsets[at] <= most);
        KIN_TRY(take_piece(f, s, at, last - at));
    }
    return read_counters(f);
}

/* All lists where they are made. What is theirs is taken from s. */
static kith_status keep_lists(finding *f, stripe *s)
{
    kith_ranges *ranges = f->ranges;
    const bool counts = f->query->request->count_only;
    table t = {0};
    void *block = NULL;
    KIN_TRY(kin_gpu_download(f->on.ctx, f->on.gpu, &t.pairs, s->offsets + s->rows.rows,
                             sizeof t.pairs));
    if (!counts) {
        KIN_TRY(kin_gpu_layout_make(f->on.ctx, f->on.gpu, name_table, &t, "neighbours within reach",
                                    &block));
    }
    kith_status status = counts || t.pairs == 0 ? KITH_OK : fill_table(f, s, s->offsets, 0, &t);
    KIN_THEN(status, read_counters(f));
    if (status != KITH_OK) {
        kin_gpu_free(f->on.gpu, block);
        return status;
    }
    ranges->gpu = f->on.gpu;
    ranges->blocks[0] = s->offsets;
    ranges->blocks[1] = block;
    ranges->lists = (kith_lists){.rows = s->rows.rows,
                                 .offsets = s->offsets,
                                 .ids = t.ids,
                                 .distances = t.distances,
                                 .distances64 = t.distances64};
    s->offsets = NULL;
    return KITH_OK;
}

static kith_status solve_rows(finding *f, const kin_screen_gpu_rows *rows, int64_t first, bool own)
{
    kith_report *report = &f->on.ctx->report;
    const int64_t start = kin_clock_ns();
    stripe s = {.f = f, .rows = *rows, .first = first, .step = 1, .own = own};
    KIN_HOLD(hold, f->on.ctx);
    kith_status status = make_stripe(&hold, &s);
    KIN_THEN(status, kin_gpu_alloc(f->on.ctx, f->on.gpu, &s.offsets, (uint64_t)rows->rows + 1,
                                   sizeof *s.offsets, "offsets of lists"));
    KIN_THEN(status, count_rows(&s));
    KIN_THEN(status, f->stays ? KITH_OK : fetch_offsets(f, &s));
    report->seconds_screen += kin_clock_since(start);
    const int64_t counted = kin_clock_ns();
    KIN_THEN(status, f->stays ? keep_lists(f, &s) : take_lists(f, &s));
    report->seconds_rescore += kin_clock_since(counted);
    kin_gpu_free(f->on.gpu, s.offsets);
    return status;
}

/* ---- All rows -------------------------------------------------------------------------------- */

static kith_status solve_queries(finding *f, int64_t first, int64_t count)
{
    const kin_screen_gpu_source source = {.matrix = f->query->queries,
                                          .distance = &f->query->request->distance,
                                          .name = "queries",
                                          .place = f->query->place,
                                          .first = first,
                                          .count = count};
    kin_screen_gpu_prepared q = {0};
    kith_status status = kin_screen_gpu_prepare_queries(&f->on, &source, NULL, &q);
    KIN_THEN(status, solve_rows(f, &q.rows, first, false));
    kin_screen_gpu_prepared_free(f->on.ctx, f->on.gpu, &q);
    return status;
}

/* Rows of the corpus, which are on the device. */
static kith_status solve_points(finding *f, int64_t first, int64_t count)
{
    kin_screen_gpu_rows rows = f->solver.corpus->rows;
    const bool own = count == rows.rows && f->next == NULL;
    rows.rows = count;
    rows.data = (const char *)rows.data + first * rows.stride_bytes;
    return solve_rows(f, &rows, first, own);
}

static kith_status solve_stripe(void *arg, int64_t first, int64_t count, int64_t next)
{
    finding *f = arg;
    (void)next;
    KIN_TRY(kin_progress(f->on.ctx, "screen", (double)first, (double)rows_asking(f)));
    return f->query->queries != NULL ? solve_queries(f, first, count)
                                     : solve_points(f, first, count);
}

/* Rows as they are given, rounded, in order while that is found, counts and offsets. */
static int64_t stripe_rows(const finding *f)
{
    enum { ORDER_BYTES = 40 };
    const kith_matrix *asked = f->query->queries;
    const bool here = asked == NULL || (f->query->place & KIN_GPU_DATA_ON_DEVICE) != 0;
    const uint64_t given = here ? 0 : kin_exact_gpu_ahead_bytes(asked, 1);
    const uint64_t a_row = given + ORDER_BYTES + 2 * sizeof(int64_t) + sizeof(kin_tree_ring) +
                           (uint64_t)f->solver.tree->wide * sizeof(float);
    const uint64_t fit = kin_gpu_scope(f->on.gpu) / 2 / a_row;
    const int64_t rows = rows_asking(f);
    return fit >= (uint64_t)rows ? rows : kin_max_i64((int64_t)fit, KIN_EXACT_GPU_LEAST_ROWS);
}

static kith_status upload_next(finding *f)
{
    const kin_screen_gpu_device *on = &f->on;
    const kin_groups *groups = &f->corpus->prepared.groups;
    const uint64_t n = (uint64_t)groups->rows;
    if (groups->next == NULL) {
        return KITH_OK;
    }
    KIN_GPU_NEW(f->hold, on->gpu, f->next, n, "groups of equal rows");
    return kin_gpu_upload(on->ctx, on->gpu, f->next, groups->next, n * sizeof *f->next);
}

static void report(const finding *f)
{
    const kin_tree_sums sums = {
        .rows = rows_asking(f), .pairs = f->solver.tally.pairs, .keys = f->solver.tally.keys};
    kin_tree_report(f->on.ctx, f->corpus->prepared.groups.count, &sums, NULL);
}

static kith_status make_offsets(finding *f)
{
    kith_lists *lists = &f->ranges->lists;
    const int64_t rows = rows_asking(f);
    KIN_TRY(kin_alloc(f->on.ctx, &lists->offsets, (uint64_t)rows + 1, sizeof *lists->offsets,
                      "offsets of lists"));
    lists->rows = rows;
    lists->offsets[0] = 0;
    return KITH_OK;
}

static kith_status find_all(finding *f)
{
    kith_ctx *ctx = f->on.ctx;
    const int64_t rows = rows_asking(f);
    kin_exact_gpu_stripes all = {.ctx = ctx,
                                 .gpu = f->on.gpu,
                                 .rows = rows,
                                 .stripe = stripe_rows(f),
                                 .solve = solve_stripe,
                                 .arg = f};
    KIN_TRY(kin_tree_gpu_solver_make(f->hold, &f->solver));
    KIN_TRY(upload_next(f));
    f->stays = f->stays && all.stripe >= rows;
    if (f->stays) {
        KIN_TRY(solve_stripe(f, 0, rows, 0));
    } else {
        KIN_TRY(make_offsets(f));
        KIN_TRY(kin_exact_gpu_each_stripe(&all));
        KIN_TRY(f->query->request->count_only ? KITH_OK
                                              : kin_ranges_grow(ctx, f->ranges, &f->room, rows));
    }
    report(f);
    return KITH_OK;
}

static finding finding_of(kin_hold *hold, const kin_tree_gpu_corpus *corpus,
                          const kin_exact_gpu_radius_query *query)
{
    finding f = {.hold = hold,
                 .on = kin_screen_gpu_device_of(hold->ctx, corpus->gpu),
                 .corpus = corpus,
                 .query = query};
    f.solver =
        (kin_tree_gpu_solver){.on = f.on, .tree = &corpus->tree, .corpus = &corpus->prepared};
    return f;
}

/* Once, by a tree that stands. What it got of the table is gone when it fails. */
static kith_status attempt(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                           const kin_exact_gpu_radius_query *query, bool stays, kith_ranges *ranges)
{
    KIN_HOLD(hold, ctx);
    finding f = finding_of(&hold, corpus, query);
    f.ranges = ranges;
    f.stays = stays;
    const kith_status status = find_all(&f);
    if (status != KITH_OK && ranges->gpu == NULL) {
        kin_ranges_clear(ctx, ranges);
    }
    return status;
}

kith_status kin_tree_gpu_corpus_radius(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                                       const kin_exact_gpu_radius_query *query, kith_ranges *ranges)
{
    const kith_report before = ctx->report;
    bool stays = (query->place & KIN_GPU_OUT_ON_DEVICE) != 0;
    kith_status status = KITH_OK;
    do {
        ctx->report = before;
        status = attempt(ctx, corpus, query, stays, ranges);
        stays = false; /* where there was no room for it */
    } while (kin_exact_gpu_again(ctx, corpus->gpu, status));
    return status;
}

/* ---- Tree or all pairs ----------------------------------------------------------------------- */

/* Some rows, spread over those that ask, go through the tree: *share of it that they look at. */
static kith_status look(finding *f, double *share)
{
    const bool graph = f->query->queries == NULL;
    const int64_t step = kin_max_i64(1, rows_asking(f) / SAMPLE);
    kith_matrix few = graph ? f->corpus->points : *f->query->queries;
    few.rows = kin_ceil_div(few.rows, step);
    few.stride_bytes *= step;
    const kin_screen_gpu_source source = {.matrix = &few,
                                          .distance = &f->query->request->distance,
                                          .name = "queries",
                                          .place = graph ? f->corpus->place : f->query->place};
    kin_screen_gpu_prepared q = {0};
    KIN_TRY(kin_screen_gpu_prepare_queries(&f->on, &source, NULL, &q));
    stripe s = {.f = f, .rows = q.rows, .step = step};
    KIN_HOLD(hold, f->on.ctx);
    kith_status status = make_stripe(&hold, &s);
    if (status == KITH_OK) {
        kin_tree_gpu_radius job = walk_of(&s);
        status = walk(&s, &job);
    }
    KIN_THEN(status, read_counters(f));
    *share = f->solver.tally.pairs / (double)few.rows / (double)f->corpus->tree.points;
    kin_screen_gpu_prepared_free(f->on.ctx, f->on.gpu, &q);
    return status;
}

static kith_status judge(kith_ctx *ctx, const kin_tree_gpu_corpus *corpus,
                         const kin_exact_gpu_radius_query *query, const kin_tree_cost *cost,
                         bool *declined)
{
    double share = 1.0;
    KIN_HOLD(hold, ctx);
    finding f = finding_of(&hold, corpus, query);
    kith_status status = kin_tree_gpu_solver_make(&hold, &f.solver);
    KIN_THEN(status, look(&f, &share));
    if (status == KITH_E_DATA) { /* of the sample; all pairs say which row it is */
        kin_forgive(ctx);
        status = KITH_OK;
        share = 1.0;
    }
    *declined = !kin_tree_wins(cost, share, true);
    return status;
}

/* With the lists of its building and the rows, by what is free. */
static bool may_fit(const kin_gpu *gpu, const kin_screen_gpu_source *corpus)
{
    const kith_matrix *points = corpus->matrix;
    const bool here = (corpus->place & KIN_GPU_DATA_ON_DEVICE) != 0;
    const uint64_t rows = here ? 0 : kin_exact_gpu_ahead_bytes(points, points->rows);
    const int32_t cols = kin_place_cols(corpus->distance->metric, points->cols);
    const int64_t leaf = kin_tree_gpu_usual_leaf(cols);
    return rows + kin_tree_gpu_peak_bytes(points->rows, cols, leaf) <= kin_gpu_room(gpu);
}

static kin_tree_cost cost_of(const kith_matrix *corpus, const kin_exact_gpu_radius_query *query)
{
    const kin_request like = {.distance = query->request->distance};
    const kith_matrix *asked = query->queries != NULL ? query->queries : corpus;
    kin_tree_cost cost =
        kin_tree_cost_radius_gpu(&like, corpus->rows, asked->rows, query->queries == NULL);
    cost.allowed = cost.allowed && kin_tree_gpu_missing(&like) == NULL;
    return cost;
}

bool kin_tree_gpu_radius_worth_trying(const kith_matrix *corpus,
                                      const kin_exact_gpu_radius_query *query)
{
    const kin_tree_cost cost = cost_of(corpus, query);
    return kin_tree_may_win(&cost);
}

kith_status kin_tree_gpu_radius_alone(kith_ctx *ctx, kin_gpu *gpu,
                                      const kin_screen_gpu_source *corpus,
                                      const kin_exact_gpu_radius_query *query, kith_ranges *ranges,
                                      bool *declined)
{
    const kith_report before = ctx->report;
    const kin_tree_cost cost = cost_of(corpus->matrix, query);
    kin_tree_gpu_corpus c = {0};
    bool declines = declined != NULL && !(kin_tree_may_win(&cost) && may_fit(gpu, corpus));
    kith_status status = KITH_OK;
    if (!declines) {
        status = kin_tree_gpu_corpus_make(ctx, gpu, corpus, 0, 0, &c);
        if (status == KITH_OK && declined != NULL) {
            status = judge(ctx, &c, query, &cost, &declines);
        }
        if (status == KITH_OK && !declines) {
            status = kin_tree_gpu_corpus_radius(ctx, &c, query, ranges);
        }
        kin_tree_gpu_corpus_free(ctx, &c);
    }
    if (status == KITH_E_DEVICE_MEMORY && declined != NULL) {
        kin_forgive(ctx);
        kin_gpu_trim(gpu);
        declines = true;
        status = KITH_OK;
    }
    if (declined != NULL) {
        *declined = declines;
        ctx->report = declines ? before : ctx->report;
    }
    return status;
}
