/* SPDX-License-Identifier: Apache-2.0
 *
 *      a stripe of queries at a time: upload, walk, write
 *
 * Walks are by positions of the corpus' rounded rows, as bytes where it has them, and the exact
 * engine's rescore makes answers of what they keep (graph_follow.cu): where every row is a position
 * and rounded rows tell neighbours apart. A sample leads queries to where they begin.
 *
 * All others are by rows as given and their canonical keys (graph_walk.cu), with the processor's
 * entries where there is no gate (graph_walk.c): the lowest rows of the parts of the graph, the
 * largest parts first, and random rows.
 *
 * A query whose walk met fewer than k rows is solved by canonical keys of all its pairs, and so is
 * one without a direction. */
#include "base/base_random.h"
#include "graph/graph_gpu.h"
#include "graph/graph_kernels.h"
#include "graph/graph_walk.h"
#include "host/host_threads.h"

#include <math.h>

/* Queries of a stripe, at most: so that somebody asks whether to go on. */
enum { MOST_STRIPE = 1 << 18 };
static const uint64_t PAIR_BYTES = 64u << 20; /* of a stripe */

/* The sample that leads walks of this width, in roots of the points, wider ones by more in
 * proportion, and the least there is: of 400,000 points a quarter of it finds as much, by walks
 * that weigh a twentieth more. */
enum { NARROW = 64, ROOTS = 16, LEAST_LED = 2048 };

/* ---- A stripe of queries --------------------------------------------------------------------- */

typedef struct walking {
    kin_hold *hold;
    kin_screen_gpu_device on;
    const kin_graph_gpu_kernels *kernels;
    const kin_graph_gpu_paths *paths;
    const kin_graph_gpu_walks *walkers;
    const kith_neighbors *out;
    double walked; /* keys and costs of walks, and of queries that were solved */
    double led;    /* costs of the sample */
} walking;

/* What kernels count of a stripe (kin_exact_gpu_answers.short_rows), read at once. */
enum { SHORT, EVALUATED, BAD };

/* Queries of a stripe whose walks met too few rows, by position, and those that have no position:
 * there hardly are any. */
static kith_status solve_short(walking *w, kin_exact_gpu_answers *a,
                               const kin_screen_gpu_prepared *queries, const int32_t *device_counts)
{
    kith_ctx *ctx = w->on.ctx;
    kin_gpu *gpu = w->on.gpu;
    const kin_groups *groups = &queries->groups;
    const uint64_t rows = (uint64_t)queries->rows.rows;
    const int64_t k = w->out->k;
    const int64_t walks = w->paths->rounded != NULL ? queries->set.points : queries->rows.rows;
    uint32_t *ids = NULL;
    int64_t found = 0;
    KIN_TRY(kin_gpu_fill(ctx, gpu, a->short_rows, 0, sizeof *a->short_rows));
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, ids, rows, "counts of walks");
    kith_status status =
        kin_gpu_download(ctx, gpu, ids, device_counts, (uint64_t)walks * sizeof *ids);
    for (int64_t i = 0; status == KITH_OK && i < walks; i++) {
        if ((int64_t)ids[i] < k) {
            ids[found++] = walks < queries->rows.rows ? groups->firsts[i] : (uint32_t)i;
        }
    }
    for (int64_t i = 0; walks < queries->rows.rows && i < groups->degenerate; i++) {
        ids[found++] = groups->degenerates[i];
    }
    if (status == KITH_OK) {
        w->walked += (double)found * (double)w->paths->rows;
        status = kin_exact_gpu_answers_solve(a, &queries->rows, &w->paths->corpus->prepared.rows,
                                             ids, found);
    }
    return status;
}

static kith_status walk_rows(const walking *w, kin_exact_gpu_answers *a,
                             const kin_screen_gpu_prepared *queries,
                             const kin_exact_gpu_delivery *d)
{
    const kin_graph_gpu_paths *paths = w->paths;
    const kin_graph_gpu_entering *from = paths->entering;
    const kin_graph_gpu_walk job = {.points = paths->corpus->prepared.rows,
                                    .queries = queries->rows,
                                    .count = queries->rows.rows,
                                    .links = paths->links,
                                    .most = paths->most,
                                    .entries = from->rows,
                                    .entry_count =
                                        (int32_t)(from->counts.parts + from->counts.random),
                                    .width = (int32_t)w->walkers->width,
                                    .k = d->k,
                                    .pairs = d->pairs,
                                    .found = d->counts,
                                    .evaluations = a->short_rows + EVALUATED};
    KIN_TRY(KIN_ROOM_LAUNCH(w, walk, &job, "walking"));
    return kin_exact_gpu_answers_write(a, d->pairs, d->counts, d->k, NULL, queries->rows.rows);
}

/* ---- By positions ---------------------------------------------------------------------------- */

/* What walks of a stripe read and write. */
typedef struct following {
    kin_graph_gpu_lead lead;
    kin_screen_gpu_lists lists;
} following;

/* One of each so many that stand together. */
static kin_graph_gpu_lead lead_of(const walking *w, const kin_screen_gpu_set *queries)
{
    const kin_screen_gpu_set *points = &w->paths->rounded->set;
    const double wide = fmax(1.0, (double)w->walkers->width / NARROW);
    const double wished = fmax(LEAST_LED, ceil(ROOTS * sqrt((double)points->points) * wide));
    uint64_t seed = w->walkers->seed;
    kin_graph_gpu_lead lead = {.points = *points, .queries = *queries};
    lead.step = kin_max_i64(1, (int64_t)((double)points->points / wished));
    lead.salt = kin_random_next(&seed);
    lead.count = points->points / lead.step;
    lead.chunk =
        (int32_t)kin_round_up(kin_ceil_div(lead.count, KIN_GRAPH_GPU_LEADS), KIN_GRAPH_GPU_LEADS);
    lead.chunks = (int32_t)kin_ceil_div(lead.count, lead.chunk);
    return lead;
}

static void name_following(kin_layout *layout, void *job)
{
    following *f = job;
    const uint64_t rows = (uint64_t)f->lead.queries.points;
    const uint64_t words = rows * (uint64_t)f->lists.capacity;
    f->lead.words =
        kin_layout_array(layout, rows * (uint64_t)f->lead.chunks, sizeof *f->lead.words);
    f->lists.words = kin_layout_array(layout, words, sizeof *f->lists.words);
    f->lists.counts = kin_layout_array(layout, rows, sizeof *f->lists.counts);
}

static kith_status start_following(const walking *w, const kin_exact_gpu_answers *a,
                                   const following *f, const kin_screen_gpu_prepared *queries,
                                   const kin_exact_gpu_delivery *d)
{
    kin_screen_gpu_write answers =
        kin_exact_gpu_answers_job(a, queries->set.ids, f->lead.queries.points);
    const kin_graph_gpu_follow follow = {.points = f->lead.points,
                                         .queries = f->lead.queries,
                                         .links = w->paths->links,
                                         .most = w->paths->most,
                                         .leads = f->lead.words,
                                         .lead_count = f->lead.chunks,
                                         .width = (int32_t)w->walkers->width,
                                         .lists = f->lists,
                                         .evaluations = a->short_rows + EVALUATED};
    kin_screen_gpu_set cols = f->lead.points;
    cols.frame = f->lead.queries.frame; /* whether costs are keys */
    answers.pairs = d->pairs;
    answers.count = d->counts;
    answers.k = d->k;
    const kin_screen_gpu_rescore rescore = {.set = f->lead.queries,
                                            .cols_set = cols,
                                            .set_rows = queries->rows,
                                            .cols_rows = w->paths->corpus->prepared.rows,
                                            .lists = f->lists,
                                            .rows = f->lead.queries.points,
                                            .pairs = d->pairs,
                                            .count = d->counts,
                                            .answers = answers};
    KIN_TRY(KIN_ROOM_LAUNCH(w, lead, &f->lead, "leading walks"));
    KIN_TRY(KIN_ROOM_LAUNCH(w, follow, &follow, "walking"));
    return KIN_SCREEN_LAUNCH(&w->on, rescore, &rescore, "computing canonical distances");
}

static kith_status walk_positions(walking *w, const kin_exact_gpu_answers *a,
                                  const kin_screen_gpu_prepared *queries,
                                  const kin_exact_gpu_delivery *d)
{
    following f = {
        .lead = lead_of(w, &queries->set),
        .lists = {.rows = queries->set.padded, .k = d->k, .capacity = (int32_t)w->walkers->width}};
    if (queries->set.points == 0) {
        return KITH_OK; /* none has a direction */
    }
    KIN_HOLD(hold, w->on.ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, w->on.gpu, name_following, &f, "walks"));
    w->led += (double)f.lead.count * (double)queries->set.points;
    return start_following(w, a, &f, queries, d);
}

/* ---- A stripe's answers ---------------------------------------------------------------------- */

/* A value is not allowed: who waits for what is found of values tells which. */
static kith_status complain(const walking *w, kin_screen_gpu_source source)
{
    kin_screen_gpu_prepared queries;
    source.bad = NULL;
    KIN_TRY(kin_screen_gpu_prepare_queries(&w->on, &source, NULL, &queries));
    kin_screen_gpu_prepared_free(w->on.ctx, w->on.gpu, &queries);
    return kin_fail(w->on.ctx, KITH_E_DATA,
                    "queries were written to while they were searched (let them be until then)");
}

/* All of them fit into one delivery. */
static kith_status walk_stripe(walking *w, kin_exact_gpu_answers *a,
                               const kin_screen_gpu_source *source,
                               const kin_screen_gpu_prepared *queries)
{
    kith_ctx *ctx = w->on.ctx;
    const bool by_position = w->paths->rounded != NULL;
    const int64_t walks = by_position ? queries->set.points : queries->rows.rows;
    uint64_t told[KIN_EXACT_GPU_COUNTS] = {0};
    kin_exact_gpu_delivery d;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_exact_gpu_delivery_make(&hold, a, queries->rows.rows, (int32_t)w->out->k, &d));
    KIN_TRY(by_position ? walk_positions(w, a, queries, &d) : walk_rows(w, a, queries, &d));
    KIN_TRY(kin_gpu_download(ctx, w->on.gpu, told, a->short_rows, sizeof told));
    w->walked += (double)told[EVALUATED];
    a->settled = told[SHORT] == 0 && walks == queries->rows.rows;
    return told[BAD] != UINT64_MAX ? complain(w, *source)
           : a->settled            ? KITH_OK
                                   : solve_short(w, a, queries, d.counts);
}

/* Of queries of this type, where walks are by positions. */
static kin_screen_gpu_frame frame_of(const kin_graph_gpu_paths *paths, kith_dtype asked)
{
    kin_screen_gpu_frame frame = paths->rounded->set.frame;
    if (frame.bound == KIN_BOUND_INTEGER && asked != paths->corpus->prepared.rows.dtype) {
        frame.bound = KIN_BOUND_DISTANCE;
        frame.mean = paths->middle;
    }
    return frame;
}

static kith_status answer_stripe(walking *w, kin_exact_gpu_answers *a,
                                 kin_screen_gpu_source *source, int64_t next)
{
    kith_ctx *ctx = w->on.ctx;
    kin_gpu *gpu = w->on.gpu;
    const kith_matrix *asked = source->matrix;
    const bool by_position = w->paths->rounded != NULL;
    const kin_screen_gpu_frame frame =
        by_position ? frame_of(w->paths, asked->dtype) : (kin_screen_gpu_frame){.cols = 0};
    kin_screen_gpu_prepared queries;
    source->bad = a->short_rows + BAD;
    KIN_TRY(kin_gpu_fill(ctx, gpu, source->bad, 0xff, sizeof *source->bad));
    KIN_TRY(kin_screen_gpu_prepare_queries(&w->on, source, by_position ? &frame : NULL, &queries));
    if (next > 0) {
        kin_screen_gpu_prepare_ahead(ctx, gpu, asked, source->first + source->count, next);
    }
    const kith_status status = walk_stripe(w, a, source, &queries);
    kin_screen_gpu_prepared_free(ctx, gpu, &queries);
    return status;
}

/* Every row is itself: walks know no groups. */
static kith_status run_stripe(void *arg, int64_t first, int64_t count, int64_t next)
{
    walking *w = arg;
    const kin_graph_gpu_walks *walkers = w->walkers;
    const kin_groups points = {.rows = w->paths->rows, .count = w->paths->rows};
    const kin_groups asked = {.rows = count, .count = count};
    const kith_neighbors part = kin_exact_gpu_rows_of(w->out, first, count);
    kin_screen_gpu_source source = {.matrix = walkers->queries,
                                    .distance = &w->paths->distance,
                                    .name = "queries",
                                    .place = walkers->place,
                                    .first = first,
                                    .count = count};
    kin_exact_gpu_answers a = {.on = w->on,
                               .metric = w->paths->distance.metric,
                               .groups = &points,
                               .target = {.groups = &asked, .out = &part},
                               .wanted = part.k};
    KIN_TRY(kin_progress(w->on.ctx, "search", (double)first, (double)walkers->queries->rows));
    KIN_TRY(kin_exact_gpu_answers_make(&a, (walkers->place & KIN_GPU_OUT_ON_DEVICE) != 0, false));
    kith_status status = answer_stripe(w, &a, &source, next);
    KIN_THEN(status, kin_exact_gpu_answers_finish(&a, &part, w->paths->rows));
    kin_exact_gpu_answers_free(&a);
    return status;
}

/* ---- All queries ----------------------------------------------------------------------------- */

/* As the processor's (graph_walk.c). */
static kith_status choose_entries(walking *w)
{
    kith_ctx *ctx = w->on.ctx;
    kin_gpu *gpu = w->on.gpu;
    const kin_graph_gpu_paths *paths = w->paths;
    kin_graph_gpu_entering *from = paths->entering;
    const uint64_t seed = w->walkers->seed;
    const kin_graph_entries counts =
        kin_graph_count_entries(paths->rows, paths->part_count, w->walkers->width);
    const uint64_t count = (uint64_t)(counts.parts + counts.random);
    uint32_t *rows = NULL;
    if (from->rows != NULL && from->seed == seed && from->counts.parts == counts.parts &&
        from->counts.random == counts.random) {
        return KITH_OK;
    }
    KIN_NEW(w->hold, rows, count, "entries of walks");
    kin_graph_draw_entries(&counts, paths->rows, paths->parts, seed, rows);
    kin_gpu_free(gpu, from->rows);
    *from = (kin_graph_gpu_entering){.counts = counts, .seed = seed};
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &from->rows, count, sizeof *rows, "entries"));
    const kith_status status = kin_gpu_upload(ctx, gpu, from->rows, rows, count * sizeof *rows);
    if (status != KITH_OK) {
        kin_gpu_free(gpu, from->rows);
        from->rows = NULL;
    }
    return status;
}

/* Queries that fit beside the points. */
static int64_t stripe_rows(const walking *w)
{
    const kith_matrix *queries = w->walkers->queries;
    const uint64_t k = (uint64_t)w->out->k;
    const bool there = (w->walkers->place & KIN_GPU_DATA_ON_DEVICE) != 0;
    const uint64_t row = there ? 0 : kin_exact_gpu_ahead_bytes(queries, 1);
    const uint64_t answer = k * (sizeof(uint32_t) + sizeof(float) + sizeof(double));
    const uint64_t walks = ((uint64_t)w->walkers->width + KIN_GRAPH_GPU_LEADS) * sizeof(uint64_t);
    const uint64_t rounded =
        w->paths->rounded != NULL ? walks + (uint64_t)w->paths->rounded->set.frame.row_bytes : 0;
    const uint64_t a_query = 2 * row + answer + rounded + k * sizeof(kin_screen_gpu_pair) + 64;
    const int64_t fit = (int64_t)(kin_gpu_room(w->on.gpu) / 2 / a_query);
    const int64_t pairs = (int64_t)(PAIR_BYTES / (k * sizeof(kin_screen_gpu_pair)));
    const int64_t most = kin_min_i64(kin_min_i64(fit, pairs), MOST_STRIPE);
    return kin_max_i64(1, kin_min_i64(queries->rows, most));
}

static kith_status run_all(walking *w)
{
    kith_ctx *ctx = w->on.ctx;
    kin_gpu *gpu = w->on.gpu;
    const uint32_t place = w->walkers->place;
    KIN_TRY(w->paths->rounded != NULL ? KITH_OK : choose_entries(w));
    kin_exact_gpu_stripes all = {.ctx = ctx,
                                 .gpu = gpu,
                                 .rows = w->walkers->queries->rows,
                                 .stripe = stripe_rows(w),
                                 .ahead = (place & KIN_GPU_DATA_ON_DEVICE) == 0 &&
                                          kin_gpu_ahead_wanted(gpu),
                                 .solve = run_stripe,
                                 .arg = w};
    return kin_exact_gpu_each_stripe(&all);
}

static kith_status run_here(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                            const kin_graph_gpu_walks *walkers, const kith_neighbors *out,
                            kin_graph_effort *effort)
{
    KIN_HOLD(hold, ctx);
    walking w = {.hold = &hold,
                 .on = kin_screen_gpu_device_of(ctx, paths->gpu),
                 .kernels = paths->gpu->module->graph,
                 .paths = paths,
                 .walkers = walkers,
                 .out = out};
    const kith_status status = run_all(&w);
    *effort = (kin_graph_effort){.met = w.led, .walked = w.walked};
    return status;
}

static kith_status solve_here(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                              const kin_graph_gpu_walks *walkers, const kith_neighbors *out)
{
    const kin_request request = {
        .distance = paths->distance, .k = out->k, .method = KITH_METHOD_EXACT};
    return kin_exact_gpu_corpus_search(ctx, paths->corpus, walkers->queries, &request,
                                       walkers->place, out);
}

/* ---- By a team ------------------------------------------------------------------------------- */

typedef struct dividing {
    const kin_graph_gpu_paths *paths;
    const kin_graph_gpu_walks *walkers;
    const kith_neighbors *out;
    bool exactly;
    int32_t parts;
    kin_graph_effort efforts[KIN_GPU_TEAM_MOST];
} dividing;

static kith_status answer_share(void *arg, const kin_exact_gpu_member *own)
{
    dividing *d = arg;
    const int32_t number = own->gpu->number;
    const kin_graph_gpu_paths *paths = number == 0 ? d->paths : d->paths->others[number];
    const kith_matrix queries = kin_matrix_part(d->walkers->queries, own->first, own->count);
    const kith_neighbors out = kin_exact_gpu_rows_of(d->out, own->first, own->count);
    kin_graph_gpu_walks walkers = *d->walkers;
    walkers.queries = &queries;
    if (own->part == 0) {
        d->parts = own->parts;
    }
    return d->exactly ? solve_here(own->ctx, paths, &walkers, &out)
                      : run_here(own->ctx, paths, &walkers, &out, &d->efforts[own->part]);
}

static kith_status answer(kith_ctx *ctx, dividing *d)
{
    kin_gpu *gpu = d->paths->gpu;
    const int64_t rows = d->walkers->queries->rows;
    const kin_exact_gpu_division job = {rows, answer_share, d};
    const bool shared =
        d->paths->shared && kin_exact_gpu_team_searches(gpu, rows, d->walkers->place);
    return kin_exact_gpu_solve(ctx, gpu, shared, &job);
}

kith_status kin_graph_gpu_walk_run(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                                   const kin_graph_gpu_walks *walkers, const kith_neighbors *out,
                                   kin_graph_effort *effort)
{
    dividing d = {.paths = paths, .walkers = walkers, .out = out};
    const kith_status status = answer(ctx, &d);
    *effort = (kin_graph_effort){0};
    for (int32_t p = 0; p < d.parts; p++) {
        effort->met += d.efforts[p].met;
        effort->walked += d.efforts[p].walked;
    }
    return status;
}

kith_status kin_graph_gpu_walk_solve(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                                     const kith_matrix *queries, uint32_t place,
                                     const kith_neighbors *out)
{
    const kin_graph_gpu_walks asked = {.queries = queries, .place = place};
    dividing d = {.paths = paths, .walkers = &asked, .out = out, .exactly = true};
    return answer(ctx, &d);
}
