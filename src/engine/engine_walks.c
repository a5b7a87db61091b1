/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_graph.h"

#include "base/base_random.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <math.h>
#include <stdio.h>

/* What a distance of a walk costs beside one of the exact engine's: at a gate, where lists are kept
 * of what is met; of a row anywhere in memory, with the way there, by the unit that the exact
 * engine uses; and where both compute canonical keys. Measured (notes/descent.md), rounded. */
static const double MET = 4.0;
static const double WALKED_AMX = 160.0;
static const double WALKED_VECTOR = 50.0;
static const double WALKED_GPU = 600.0;
static const double WALKED_DIRECT = 8.0;

/* Ids a row by which the type of rounded rows is tried: one for all searches, so that what is found
 * does not depend on what else is asked. */
enum { USUAL_K = 10 };

/* The queries of one call. */
typedef struct asked_queries {
    kith_ctx *ctx; /* of the call */
    const kin_walks *walks;
    kith_matrix queries;
    int64_t k;                    /* of each; samples tell of fewer */
    uint32_t place;               /* of all of them and their answers; copies are the host's */
    const kin_filter_job *filter; /* of all queries; NULL: none */
    kin_prepared prepared;        /* the processor's */
} asked_queries;

/* Some of the queries, in a copy. */
typedef struct asked_sample {
    const uint32_t *rows;
    kith_matrix queries;
} asked_sample;

/* What walks took. */
typedef struct effort_of_walks {
    double evaluations; /* distances */
    double share;       /* about, of the time that the exact engine takes for the same queries */
} effort_of_walks;

/* What a walk is, of kin_walks_search. */
typedef struct walk_way {
    int64_t width; /* at least k of the answers */
    int64_t meets;
    uint64_t seed;
} walk_way;

static double walked_cost(const kin_walks *w)
{
    if (!kin_is_screened(&w->distance)) {
        return WALKED_DIRECT;
    }
    if (w->gpu != NULL) {
        return WALKED_GPU;
    }
    return kin_isa_includes(w->distance.isa, KIN_ISA_AMX) ? WALKED_AMX : WALKED_VECTOR;
}

static effort_of_walks effort_of(const kin_walks *w, int64_t queries, const kin_graph_effort *sums)
{
    const double pairs = (double)queries * (double)w->points.rows;
    const double cost = MET * sums->met + walked_cost(w) * sums->walked;
    return (effort_of_walks){.evaluations = sums->met + sums->walked, .share = cost / pairs};
}

static kith_matrix matrix_of(const asked_queries *asked, const asked_sample *of)
{
    return of != NULL ? of->queries : asked->queries;
}

static uint32_t place_of(const asked_queries *asked, const asked_sample *of)
{
    return of == NULL ? asked->place : 0;
}

/* ---- The processor --------------------------------------------------------------------------- */

static kith_status make_on_cpu(kith_ctx *ctx, const kin_walks_source *source, kin_walks *w)
{
    const bool screens = kin_is_screened(&w->distance);
    kin_prepared *points = &w->prepared;
    w->hold.ctx = ctx;
    kin_prepared_hold(&w->hold, points);
    KIN_TRY(kin_prepare_rows(ctx, &w->points, &w->distance, source->name,
                             screens ? 0 : KIN_ROWS_DISTINCT, points));
    kin_prepared_tell(ctx, points);
    const int64_t start_ns = kin_clock_ns();
    if (screens) {
        points->by_cost = true;
        KIN_TRY(kin_prepare_corpus(ctx, w->integer, USUAL_K, points));
    }
    KIN_TRY(kin_graph_ground_make(&w->hold, points, source->graph, &w->ground));
    w->parts = w->ground.links.part_count;
    w->most = w->points.rows;
    ctx->report.seconds_prepare += kin_clock_since(start_ns);
    return KITH_OK;
}

static kith_status ask_on_cpu(asked_queries *asked)
{
    kin_prepared *queries = &asked->prepared;
    KIN_TRY(kin_prepare_rows(asked->ctx, &asked->queries, &asked->walks->distance, "queries",
                             KIN_ROWS_DISTINCT, queries));
    kin_prepared_tell(asked->ctx, queries);
    asked->ctx->report.distinct_rows = asked->walks->prepared.groups.count;
    return KITH_OK;
}

/* That is never walked: a walk finds the nearest of all groups. */
static bool is_each(const kin_filter_job *filter)
{
    return filter->filter.rule == KITH_RULE_EACH;
}

static kin_allowed allowed_of(const kin_filter_job *filter)
{
    return filter == NULL ? (kin_allowed){0}
                          : (kin_allowed){&filter->filter, filter->request.exclude};
}

static kith_status run_on_cpu(const asked_queries *asked, const asked_sample *of, walk_way way,
                              const kith_neighbors *out, effort_of_walks *effort)
{
    const kin_walks *w = asked->walks;
    const kin_graph_walk walk = {.ground = &w->ground,
                                 .queries = &asked->prepared.rows,
                                 .rows = of != NULL ? of->rows : NULL,
                                 .count = matrix_of(asked, of).rows,
                                 .k = asked->k,
                                 .width = way.width,
                                 .meets = way.meets,
                                 .seed = way.seed,
                                 .allowed = allowed_of(asked->filter)};
    kin_graph_effort sums;
    KIN_TRY(kin_graph_walk_run(asked->ctx, &walk, out, &sums));
    *effort = effort_of(w, walk.count, &sums);
    return KITH_OK;
}

/* What a sample's queries may find, gathered as they are. */
static kith_status gather_filter(kin_hold *hold, const asked_sample *of, kin_filter_job *job)
{
    kith_filter *filter = &job->filter;
    const kith_filter whole = *filter;
    const uint32_t *exclude = job->request.exclude;
    const int64_t count = of->queries.rows;
    const uint64_t stride = (uint64_t)whole.allow_stride_bytes;
    const uint64_t row_bytes = kin_size_add(stride, sizeof(int64_t) + sizeof(uint32_t));
    int64_t *numbers = NULL;
    KIN_TRY(kin_hold_alloc(hold, &numbers, (uint64_t)count, row_bytes, "the filter of a sample"));
    uint32_t *left_out = (uint32_t *)(numbers + count);
    uint8_t *bits = (uint8_t *)(left_out + count);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t row = of->rows[i];
        numbers[i] = whole.query_groups != NULL ? whole.query_groups[row] : 0;
        left_out[i] = exclude != NULL ? exclude[row] : KITH_ID_NONE;
        if (stride != 0) {
            memcpy(bits + (uint64_t)i * stride, whole.allow + (uint64_t)row * stride,
                   (size_t)kin_ceil_div(job->corpus.rows, 8));
        }
    }
    filter->query_groups = whole.query_groups != NULL ? numbers : NULL;
    job->request.exclude = exclude != NULL ? left_out : NULL;
    filter->allow = stride != 0 ? bits : whole.allow;
    return KITH_OK;
}

/* Under the filter: by the engines that compare what is allowed alone. */
static kith_status solve_filtered(const asked_queries *asked, const asked_sample *of,
                                  const kith_neighbors *out)
{
    kin_filter_job job = *asked->filter;
    KIN_HOLD(hold, asked->ctx);
    if (of != NULL) {
        job.queries = of->queries;
        job.request.k = out->k;
        KIN_TRY(gather_filter(&hold, of, &job));
    }
    return kin_engine_filter(asked->ctx, &job, out);
}

/* A caller's function is asked of the rows themselves, whose addresses it may know. */
static kith_status solve_on_cpu(const asked_queries *asked, const asked_sample *of,
                                const kith_neighbors *out)
{
    const kin_walks *w = asked->walks;
    const kin_request request = {.distance = w->distance, .k = out->k};
    const kin_filter_job *filter = asked->filter;
    effort_of_walks effort;
    if (filter != NULL && (kin_is_screened(&w->distance) || is_each(filter))) {
        return solve_filtered(asked, of, out);
    }
    if (!kin_is_screened(&w->distance)) {
        const walk_way everywhere = {.width = w->points.rows};
        KIN_TRY(run_on_cpu(asked, of, everywhere, out, &effort));
    } else {
        const kith_matrix queries = matrix_of(asked, of);
        KIN_TRY(kin_exact_search(asked->ctx, &w->prepared, &queries, &request, out));
    }
    if (of == NULL) {
        kin_prepared_report(asked->ctx, &w->prepared);
    }
    return KITH_OK;
}

/* ---- A GPU ----------------------------------------------------------------------------------- */

static kith_status make_on_gpu(kith_ctx *ctx, const kin_walks_source *source, kin_walks *w)
{
    const kin_graph_gpu_ground ground = {.points = &w->points,
                                         .graph = source->graph,
                                         .distance = w->distance,
                                         .k = source->k,
                                         .corpus = source->corpus,
                                         .shared = source->shared,
                                         .others = source->others};
    KIN_TRY(kin_graph_gpu_paths_make(ctx, w->gpu, &ground, &w->paths));
    w->parts = kin_graph_gpu_paths_parts(w->paths);
    w->most = kin_graph_gpu_most_width();
    return KITH_OK;
}

/* By preparing them once more. */
static kith_status check_there(const asked_queries *asked)
{
    const kin_walks *w = asked->walks;
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(asked->ctx, w->gpu);
    const kin_screen_gpu_source source = {.matrix = &asked->queries,
                                          .distance = &w->distance,
                                          .name = "queries",
                                          .place = asked->place};
    kin_screen_gpu_prepared queries;
    KIN_TRY(kin_screen_gpu_prepare_queries(&on, &source, NULL, &queries));
    kin_screen_gpu_prepared_free(asked->ctx, w->gpu, &queries);
    return KITH_OK;
}

/* Queries are checked where they are asked, but of a sample a message would tell the wrong row. */
static kith_status ask_on_gpu(const asked_queries *asked, bool samples)
{
    if (!samples || asked->place != 0) {
        return samples ? check_there(asked) : KITH_OK;
    }
    kith_ctx *ctx = asked->ctx;
    const int64_t start_ns = kin_clock_ns();
    KIN_TRY(kin_metric_check(ctx, &asked->queries, asked->walks->distance.metric, "queries"));
    ctx->report.seconds_check += kin_clock_since(start_ns);
    return KITH_OK;
}

/* Without the GPU, which the engine enters by itself. */
static kith_status solve_filtered_there(const asked_queries *asked, const asked_sample *of,
                                        const kith_neighbors *out)
{
    kin_gpu *gpu = asked->walks->gpu;
    const uint64_t peak = gpu->peak;
    kin_gpu_leave(gpu);
    const kith_status status = solve_filtered(asked, of, out);
    kin_gpu_enter(gpu);
    gpu->peak = peak > gpu->peak ? peak : gpu->peak; /* who enters begins a new one */
    return status;
}

/* Queries whose walks kept too few that are allowed are compared with all of these. */
static kith_status solve_lacking(const asked_queries *asked, const kin_walks_picked *picked,
                                 const kith_neighbors *out)
{
    kith_ctx *ctx = asked->ctx;
    const uint64_t count = (uint64_t)picked->lacking;
    const int64_t k = out->k;
    const kith_report before = ctx->report; /* which is the answer's */
    asked_sample some = {.rows = picked->lacking_rows};
    kith_neighbors told = {.rows = picked->lacking, .k = k};
    if (count == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_rows(&hold, &asked->queries, some.rows, picked->lacking,
                          "queries that found too few", &some.queries));
    KIN_NEW(&hold, told.ids, kin_size_mul(count, (uint64_t)k), "what they find");
    KIN_NEW(&hold, told.distances64, kin_size_mul(count, (uint64_t)k), "what they find");
    KIN_TRY(solve_filtered_there(asked, &some, &told));
    for (int64_t i = 0; i < told.rows * k; i++) {
        kin_answer_put(out, (int64_t)picked->places[i / k] * k + i % k, told.ids[i],
                       told.distances64[i]);
    }
    ctx->report = before;
    return KITH_OK;
}

static kith_status run_filtered(const asked_queries *asked, const asked_sample *of, walk_way way,
                                const kith_neighbors *out, effort_of_walks *effort)
{
    const kin_walks_pick job = {.ctx = asked->ctx,
                                .walks = asked->walks,
                                .queries = matrix_of(asked, of),
                                .rows = of != NULL ? of->rows : NULL,
                                .filter = asked->filter,
                                .width = way.width,
                                .seed = way.seed};
    const uint64_t rows = (uint64_t)job.queries.rows;
    kin_walks_picked picked = {0};
    KIN_HOLD(hold, asked->ctx);
    KIN_NEW(&hold, picked.places, rows, "queries that found too few");
    KIN_NEW(&hold, picked.lacking_rows, rows, "queries that found too few");
    KIN_TRY(kin_walks_pick_allowed(&job, out, &picked));
    picked.effort.met += (double)picked.lacking * (double)asked->walks->points.rows;
    *effort = effort_of(asked->walks, job.queries.rows, &picked.effort);
    return solve_lacking(asked, &picked, out);
}

static kith_status run_on_gpu(const asked_queries *asked, const asked_sample *of, walk_way way,
                              const kith_neighbors *out, effort_of_walks *effort)
{
    const kin_walks *w = asked->walks;
    if (asked->filter != NULL) {
        return run_filtered(asked, of, way, out, effort);
    }
    const kith_matrix queries = matrix_of(asked, of);
    const kin_graph_gpu_walks walkers = {
        .queries = &queries, .width = way.width, .seed = way.seed, .place = place_of(asked, of)};
    kin_graph_effort sums;
    KIN_TRY(kin_graph_gpu_walk_run(asked->ctx, w->paths, &walkers, out, &sums));
    *effort = effort_of(w, queries.rows, &sums);
    return KITH_OK;
}

static kith_status solve_on_gpu(const asked_queries *asked, const asked_sample *of,
                                const kith_neighbors *out)
{
    if (asked->filter != NULL) {
        return solve_filtered_there(asked, of, out);
    }
    const kith_matrix queries = matrix_of(asked, of);
    return kin_graph_gpu_walk_solve(asked->ctx, asked->walks->paths, &queries, place_of(asked, of),
                                    out);
}

/* ---- Either ---------------------------------------------------------------------------------- */

kith_status kin_walks_make(kith_ctx *ctx, kin_gpu *gpu, const kin_walks_source *source,
                           kin_walks **out)
{
    const uint64_t held = atomic_load(&ctx->held_bytes);
    kin_walks *w = NULL;
    *out = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &w, 1, sizeof *w, "walks"));
    w->home = ctx;
    w->gpu = gpu;
    w->points = source->points;
    w->distance = source->distance;
    const kith_matrix asked = {.dtype = source->asked};
    w->integer = kin_frame_is_integer(&w->distance, &w->points, &asked);
    const kith_status status =
        gpu == NULL ? make_on_cpu(ctx, source, w) : make_on_gpu(ctx, source, w);
    if (status != KITH_OK) {
        kin_walks_free(w);
        return status;
    }
    w->bytes = atomic_load(&ctx->held_bytes) - held;
    *out = w;
    return KITH_OK;
}

void kin_walks_free(kin_walks *walks)
{
    if (walks == NULL) {
        return;
    }
    kith_ctx *ctx = walks->home;
    kin_graph_gpu_paths_free(walks->paths);
    kin_hold_end(&walks->hold);
    kin_free(ctx, walks);
}

/* Walks for a sample (NULL: for all queries). */
static kith_status run(const asked_queries *asked, const asked_sample *of, walk_way way,
                       const kith_neighbors *out, effort_of_walks *effort)
{
    return asked->walks->gpu == NULL ? run_on_cpu(asked, of, way, out, effort)
                                     : run_on_gpu(asked, of, way, out, effort);
}

/* The exact answers of a sample (NULL: of all queries). */
static kith_status solve(const asked_queries *asked, const asked_sample *of,
                         const kith_neighbors *out)
{
    return asked->walks->gpu == NULL ? solve_on_cpu(asked, of, out) : solve_on_gpu(asked, of, out);
}

/* ---- An answer, and its recall -------------------------------------------------------------- */

/* As for approximate graphs (engine_descent.c) two samples are drawn: walks of the deciding one
 * become wider until its recall is the wanted one, the telling one knows nothing of that and is
 * reported. What a sample finds is what its queries find in the answer: a walk depends on its
 * query, its width and the seed alone. */

/* Of a walk, for each of those that it keeps: seen with graphs of 10 to 32 neighbours. */
static const double KEYS_A_PLACE = 25.0;
/* What an exact search under a filter takes for each row before it compares any, in distances of
 * its own: every value is checked, and what is allowed is copied. */
static const double PREPARED = 100.0;
/* Pairs by which the share of those that are allowed is estimated. */
enum { TRIED_QUERIES = 64, TRIED_ROWS = 4096 };

typedef struct searching {
    kith_ctx *ctx;
    const kin_walks_search *job;
    asked_queries asked;
    int64_t width; /* of points that are allowed */
    double share;  /* of all pairs, about, that are allowed */
    double most;   /* effort, as walks have it, that the exact way takes */
    double sample_seconds;
    kith_walk_report *report;
} searching;

/* Queries that are solved exactly. */
typedef struct sample {
    asked_sample of;
    kith_neighbors truth; /* distances64, as of found, and under a filter ids: there may be fewer
                             than `at` */
    kith_neighbors found;
} sample;

/* ---- Samples -------------------------------------------------------------------------------- */

/* Rows on a device one by one: they are few. */
static kith_status gather(const searching *s, kin_hold *hold, asked_sample *of)
{
    const kith_matrix *queries = &s->asked.queries;
    const int64_t count = s->job->sample;
    const uint64_t bytes = kin_row_bytes(queries);
    const char *what = "sample queries";
    unsigned char *copy = NULL;
    if (s->asked.place == 0) {
        return kin_hold_rows(hold, queries, of->rows, count, what, &of->queries);
    }
    KIN_TRY(kin_hold_alloc(hold, &copy, (uint64_t)count, bytes, what));
    of->queries = *queries;
    of->queries.data = copy;
    of->queries.rows = count;
    of->queries.stride_bytes = (int64_t)bytes;
    for (int64_t i = 0; i < count; i++) {
        const char *row =
            (const char *)queries->data + (int64_t)of->rows[i] * queries->stride_bytes;
        KIN_TRY(
            kin_gpu_download(s->ctx, s->asked.walks->gpu, copy + (uint64_t)i * bytes, row, bytes));
    }
    return KITH_OK;
}

static kith_status sample_make(searching *s, kin_hold *hold, uint64_t seed, sample *of)
{
    kith_ctx *ctx = s->ctx;
    const kin_walks_search *params = s->job;
    const uint64_t count = (uint64_t)params->sample;
    const uint64_t entries = kin_size_mul(count, (uint64_t)params->recall_at);
    const kith_neighbors shape = {.rows = params->sample, .k = params->recall_at};
    const int64_t start_ns = kin_clock_ns();
    uint32_t *rows = NULL;
    *of = (sample){.truth = shape, .found = shape};
    KIN_NEW(hold, rows, count, "sample rows");
    KIN_NEW(hold, of->truth.distances64, entries, "sample distances");
    KIN_NEW(hold, of->found.distances64, entries, "sample distances");
    if (params->filter != NULL) {
        KIN_NEW(hold, of->truth.ids, entries, "sample neighbours");
    }
    kin_recall_draw(s->asked.queries.rows, params->sample, seed, rows);
    of->of.rows = rows;
    const kith_report before = ctx->report; /* which is the answer's */
    kith_status status = gather(s, hold, &of->of);
    KIN_THEN(status, solve(&s->asked, &of->of, &of->truth));
    ctx->report = before;
    s->sample_seconds += kin_clock_since(start_ns);
    return status;
}

/* As many points as it takes that `width` of them are allowed, about. */
static walk_way way_of(const searching *s, int64_t width)
{
    const kin_walks_search *params = s->job;
    const double wide = ceil((double)width / s->share);
    return (walk_way){.width = kin_min_i64((int64_t)wide, s->asked.walks->points.rows),
                      .meets = params->meets,
                      .seed = params->seed};
}

/* How many neighbours a row of the sample has, at most `at`. */
static int64_t count_true(const sample *of, int64_t row)
{
    const int64_t at = of->truth.k;
    int64_t count = at;
    while (of->truth.ids != NULL && count > 0 &&
           of->truth.ids[row * at + count - 1] == KITH_ID_NONE) {
        count -= 1;
    }
    return count;
}

/* Recalls of a sample's queries, at this width of walks of at most k. Those that may find nothing
 * say nothing. */
static kith_status look(searching *s, const sample *of, int64_t width, kin_recall_sums *sums,
                        effort_of_walks *effort)
{
    const int64_t at = of->found.k;
    KIN_TRY(run(&s->asked, &of->of, way_of(s, width), &of->found, effort));
    *sums = (kin_recall_sums){0};
    for (int64_t i = 0; i < of->found.rows; i++) {
        const int64_t count = count_true(of, i);
        const double *found = of->found.distances64 + i * at;
        const double last = count > 0 ? of->truth.distances64[i * at + count - 1] : 0.0;
        int64_t hits = 0;
        while (hits < count &&
               kin_metric_within(s->asked.walks->distance.metric, found[hits], last)) {
            hits += 1;
        }
        if (count > 0) {
            kin_recall_add(sums, (double)hits / (double)count);
        }
    }
    return KITH_OK;
}

/* Wider than walks are, or of more points than a query may find: all points. */
static int64_t width_or_all(const searching *s, int64_t width)
{
    const double points = (double)s->asked.walks->points.rows;
    const bool fits = s->job->filter == NULL || (double)width < s->share * s->share * points;
    return fits && (double)width <= s->share * (double)s->asked.walks->most
               ? width
               : s->asked.walks->points.rows;
}

/* As wide as the deciding sample wants it, but no slower than the exact engine. */
static kith_status widen(searching *s, const sample *deciding)
{
    const int64_t points = s->asked.walks->points.rows;
    effort_of_walks effort;
    kin_recall_sums sums;
    while (s->width < points) {
        KIN_TRY(look(s, deciding, s->width, &sums, &effort));
        if (effort.share >= s->most) {
            s->width = points;
        } else if (sums.sum >= s->job->recall * (double)sums.rows) {
            s->report->reached = 1;
            return KITH_OK;
        } else {
            s->width = width_or_all(s, kin_min_i64(2 * s->width, points));
        }
    }
    return KITH_OK;
}

static kith_status choose_width(searching *s)
{
    sample deciding = {0};
    if (s->job->recall == 0.0 || s->width == s->asked.walks->points.rows) {
        return KITH_OK;
    }
    KIN_HOLD(hold, s->ctx);
    KIN_TRY(sample_make(s, &hold, kin_recall_deciding_seed(s->job->seed), &deciding));
    return widen(s, &deciding);
}

static kith_status tell(searching *s)
{
    sample telling = {0};
    kin_recall_sums sums;
    effort_of_walks effort;
    if (s->job->sample == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, s->ctx);
    KIN_TRY(sample_make(s, &hold, s->job->seed, &telling));
    KIN_TRY(look(s, &telling, s->width, &sums, &effort));
    if (sums.rows > 0) {
        const bool all = telling.found.rows == s->asked.queries.rows;
        kin_recall_interval(&sums, all, &s->report->recall);
        s->report->recall.at = telling.found.k;
    }
    return KITH_OK;
}

/* ---- Under a filter ------------------------------------------------------------------------- */

/* Of all pairs of queries and rows those that are allowed: of one bitmap for all as it is. */
static double find_share(const kin_walks_search *job)
{
    const kin_allowed allowed = allowed_of(job->filter);
    const kith_filter *filter = allowed.filter;
    const int64_t points = job->filter->corpus.rows;
    uint64_t state = job->seed;
    int64_t count = 0;
    if (filter->rule == KITH_RULE_NONE && !kin_filter_has_bitmaps(filter)) {
        return (double)kin_filter_count_allowed(filter, points) / (double)points;
    }
    for (int64_t i = 0; i < TRIED_QUERIES; i++) {
        const uint64_t query = kin_random_below(&state, (uint64_t)job->queries.rows);
        for (int64_t j = 0; j < TRIED_ROWS; j++) {
            const uint64_t row = kin_random_below(&state, (uint64_t)points);
            count += kin_allowed_has(&allowed, (int64_t)query, (uint32_t)row);
        }
    }
    return (double)count / ((double)TRIED_QUERIES * (double)TRIED_ROWS);
}

/* Where walks would keep as many points as a query may find, or where comparing with these alone
 * will be sooner, nobody walks. */
static void weigh_filter(searching *s)
{
    const kin_walks_search *job = s->job;
    const double points = (double)s->asked.walks->points.rows;
    s->share = is_each(job->filter) ? 0.0 : find_share(job);
    s->most = s->share + PREPARED / (double)job->queries.rows;
    const double wide = s->share > 0.0 ? (double)s->width / s->share : points;
    const double walked = walked_cost(s->asked.walks) * KEYS_A_PLACE * wide;
    if (s->share == 0.0 || (job->open && walked >= s->most * points)) {
        s->width = s->asked.walks->points.rows;
    }
}

/* ---- The answer ----------------------------------------------------------------------------- */

static kith_status answer_exactly(searching *s)
{
    const double rows = (double)s->asked.queries.rows;
    s->report->exact = 1;
    s->report->reached = 1;
    const double share = s->job->filter != NULL && is_each(s->job->filter) ? 1.0 : s->share;
    s->report->evaluations = rows * share * (double)s->asked.walks->points.rows;
    s->report->recall = kin_recall_exact(s->asked.queries.rows, s->job->recall_at);
    return solve(&s->asked, NULL, s->job->out);
}

static kith_status answer(searching *s)
{
    kith_report *report = &s->ctx->report;
    if (s->job->filter != NULL) {
        weigh_filter(s);
    }
    s->width = width_or_all(s, s->width);
    KIN_TRY(choose_width(s));
    s->report->width = s->width;
    if (s->width == s->asked.walks->points.rows) {
        return answer_exactly(s);
    }
    const int64_t start_ns = kin_clock_ns();
    effort_of_walks effort;
    KIN_TRY(run(&s->asked, NULL, way_of(s, s->width), s->job->out, &effort));
    s->report->evaluations = effort.evaluations;
    report->seconds_screen += kin_clock_since(start_ns);
    report->candidates = s->report->evaluations / (double)s->asked.queries.rows;
    (void)snprintf(report->screen, sizeof report->screen, "walk");
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(s->ctx->isa));
    return tell(s);
}

kith_status kin_walks_answer(kith_ctx *ctx, const kin_walks *walks, const kin_walks_search *job,
                             kith_walk_report *report)
{
    searching s = {.ctx = ctx,
                   .job = job,
                   .asked = {.ctx = ctx,
                             .walks = walks,
                             .queries = job->queries,
                             .k = job->out->k,
                             .place = job->place,
                             .filter = job->filter},
                   .width = job->width,
                   .share = 1.0,
                   .most = 1.0,
                   .report = report};
    *report = (kith_walk_report){.parts = walks->parts};
    if (job->filter != NULL) {
        job->filter->corpus = walks->points;
        job->filter->request.distance = walks->distance;
    }
    kith_status status =
        walks->gpu == NULL ? ask_on_cpu(&s.asked) : ask_on_gpu(&s.asked, job->sample > 0);
    KIN_THEN(status, answer(&s));
    ctx->report.seconds_rescore += s.sample_seconds;
    ctx->report.exact = report->exact == 1 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    ctx->report.recall = report->recall;
    ctx->report.reached = report->reached;
    kin_prepared_free(ctx, &s.asked.prepared);
    return status;
}

/* ---- One call ------------------------------------------------------------------------------- */

/* Keys that walks of this width may take. */
static double guess_keys(const kin_walks_source *source, const kin_walks_search *job)
{
    const double width = (double)job->width;
    const kin_graph_entries entries = kin_graph_count_entries(source->points.rows, 1, job->width);
    return (double)job->queries.rows * ((double)entries.random + KEYS_A_PLACE * width);
}

static kith_status make_and_answer(kith_ctx *ctx, kin_gpu *gpu, const kin_walks_source *source,
                                   const kin_walks_search *job, kith_walk_report *report)
{
    kin_walks *walks = NULL;
    KIN_TRY(kin_walks_make(ctx, gpu, source, &walks));
    const kith_status status = kin_walks_answer(ctx, walks, job, report);
    kin_walks_free(walks);
    return status;
}

kith_status kin_engine_walks(kith_ctx *ctx, const kin_walks_source *source,
                             const kin_walks_search *job, kith_walk_report *report)
{
    kin_walks_source all = *source;
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_device_enter_walks(ctx, &source->distance, guess_keys(source, job), &gpu));
    all.shared = gpu != NULL && job->filter == NULL &&
                 kin_exact_gpu_team_searches(gpu, job->queries.rows, job->place);
    KIN_TRY_GPU(ctx, gpu, false, make_and_answer(ctx, gpu, &all, job, report));
    return make_and_answer(ctx, NULL, source, job, report);
}
