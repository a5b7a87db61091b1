/* SPDX-License-Identifier: Apache-2.0
 *
 *      make    points prepared as a corpus of the exact engine, links and parts of the graph
 *      run     a stripe of queries at a time: upload, walk, write
 *
 * Entries are as the processor's (graph_walk.c): the lowest rows of the parts of the graph, the
 * largest parts first, and random rows. A query whose walk met fewer than k rows is solved by
 * canonical keys of all its pairs.
 *
 * Memory. Points and links stay, 8 k bytes a row; while links are made the graph and its slots lie
 * beside them, 12 k bytes a row. */
#include "graph/graph_gpu.h"
#include "graph/graph_kernels.h"
#include "graph/graph_walk.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

/* Queries of a stripe, at most: so that somebody asks whether to go on. */
enum { MOST_STRIPE = 1 << 18 };
static const uint64_t PAIR_BYTES = 64u << 20; /* of a stripe */

/* Rows where the last walks began. Who walks has the GPU for himself. */
typedef struct entering {
    kin_graph_entries counts;
    uint64_t seed;
    uint32_t *rows; /* device; NULL: nobody walked yet */
} entering;

struct kin_graph_gpu_paths {
    kin_gpu *gpu;
    kin_distance distance;
    kin_fused_corpus *own; /* NULL: the corpus is the caller's */
    const kin_fused_corpus *corpus;
    int64_t rows;
    int32_t most;    /* links a row */
    uint32_t *links; /* device: rows x most */
    uint32_t *parts; /* as of kin_graph_links */
    int64_t part_count;
    entering *entering;
};

int64_t kin_graph_gpu_most_width(void)
{
    return KIN_GRAPH_GPU_MOST_WIDTH;
}

int64_t kin_graph_gpu_paths_parts(const kin_graph_gpu_paths *paths)
{
    return paths->part_count;
}

/* ---- Links and parts ------------------------------------------------------------------------- */

/* What is gone when links are made. */
typedef struct making {
    kin_hold *hold;
    kin_fused_device on;
    const kin_graph_gpu_kernels *kernels;
    kin_graph_gpu_paths *paths;
    int64_t k; /* of the graph */
    uint32_t *graph;
    uint64_t *slots;
    uint32_t *roots;
    uint32_t *sizes;
    uint32_t *count;
} making;

static kith_status upload_graph(making *m, const kith_neighbors *graph)
{
    kith_ctx *ctx = m->on.ctx;
    kin_gpu *gpu = m->on.gpu;
    const uint64_t rows = (uint64_t)graph->rows;
    const uint64_t entries = kin_size_mul(rows, (uint64_t)graph->k);
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &m->paths->links, kin_size_mul(entries, 2), sizeof(uint32_t),
                          "links"));
    KIN_GPU_NEW(m->hold, gpu, m->graph, entries, "the graph");
    KIN_GPU_NEW(m->hold, gpu, m->slots, entries, "links back");
    KIN_GPU_NEW(m->hold, gpu, m->roots, rows, "parts");
    KIN_GPU_NEW(m->hold, gpu, m->sizes, rows, "parts");
    KIN_GPU_NEW(m->hold, gpu, m->count, 1, "parts");
    return kin_gpu_upload(ctx, gpu, m->graph, graph->ids, entries * sizeof *m->graph);
}

static kith_status make_links(making *m)
{
    const kin_graph_gpu_paths *paths = m->paths;
    const uint64_t entries = (uint64_t)(paths->rows * m->k);
    const kin_graph_gpu_link job = {.points = paths->rows,
                                    .k = (int32_t)m->k,
                                    .graph = m->graph,
                                    .slots = m->slots,
                                    .links = paths->links};
    KIN_TRY(kin_gpu_fill(m->on.ctx, m->on.gpu, m->slots, 0xff, entries * sizeof *m->slots));
    return kin_gpu_check(m->on.ctx, m->on.gpu, m->kernels->link(m->on.stream, &job),
                         "linking rows");
}

static kith_status take_parts(making *m, uint32_t count, const uint64_t *words)
{
    kith_ctx *ctx = m->on.ctx;
    kin_graph_gpu_paths *paths = m->paths;
    uint64_t *found = NULL;
    KIN_NEW(m->hold, found, count, "parts");
    KIN_TRY(kin_alloc(ctx, &paths->parts, count, sizeof *paths->parts, "parts"));
    KIN_TRY(kin_gpu_download(ctx, m->on.gpu, found, words, count * sizeof *found));
    kin_select_sort_words(found, count);
    for (uint32_t i = 0; i < count; i++) {
        paths->parts[i] = (uint32_t)found[i];
    }
    paths->part_count = count;
    return KITH_OK;
}

/* After links, whose slots have room for words: a row of them at least. */
static kith_status find_parts(making *m)
{
    kith_ctx *ctx = m->on.ctx;
    kin_gpu *gpu = m->on.gpu;
    const uint64_t bytes = (uint64_t)m->paths->rows * sizeof *m->sizes;
    const kin_graph_gpu_parts job = {.points = m->paths->rows,
                                     .k = (int32_t)m->k,
                                     .graph = m->graph,
                                     .roots = m->roots,
                                     .sizes = m->sizes,
                                     .words = m->slots,
                                     .count = m->count};
    uint32_t count = 0;
    KIN_TRY(kin_gpu_fill(ctx, gpu, m->sizes, 0, bytes));
    KIN_TRY(kin_gpu_fill(ctx, gpu, m->count, 0, sizeof *m->count));
    KIN_TRY(kin_gpu_check(ctx, gpu, m->kernels->parts(m->on.stream, &job), "finding parts"));
    KIN_TRY(kin_gpu_download(ctx, gpu, &count, m->count, sizeof count));
    return take_parts(m, count, m->slots);
}

static kith_status link_graph(kith_ctx *ctx, kin_graph_gpu_paths *paths,
                              const kith_neighbors *graph)
{
    KIN_HOLD(hold, ctx);
    making m = {.hold = &hold,
                .on = kin_fused_device_of(ctx, paths->gpu),
                .kernels = paths->gpu->module->graph,
                .paths = paths,
                .k = graph->k};
    const int64_t start = kin_clock_ns();
    kith_status status = upload_graph(&m, graph);
    KIN_THEN(status, make_links(&m));
    KIN_THEN(status, find_parts(&m));
    ctx->report.seconds_prepare += kin_clock_since(start);
    return status;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static kith_status refuse(kith_ctx *ctx, const kin_graph_gpu_ground *ground)
{
    KIN_FAIL_IF(ground->distance.metric == KITH_CUSTOM, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "a GPU cannot call a function as metric (use the processor)");
    KIN_FAIL_IF(ground->points->rows >= KIN_GRAPH_MOST_POINTS, ctx, KITH_E_UNSUPPORTED,
                kin_at(NULL), "%lld points are more than a walk on a GPU takes (at most %lld)",
                (long long)ground->points->rows, (long long)KIN_GRAPH_MOST_POINTS - 1);
    return KITH_OK;
}

/* In a narrower scope each time that it ran out of memory. */
static kith_status prepare(kith_ctx *ctx, kin_graph_gpu_paths *paths,
                           const kin_graph_gpu_ground *ground)
{
    const kin_fused_source source = {
        .matrix = ground->points, .distance = &ground->distance, .name = "points"};
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    paths->corpus = ground->corpus;
    if (paths->corpus != NULL) {
        return KITH_OK;
    }
    do {
        ctx->report = before;
        status =
            kin_fused_corpus_make(ctx, paths->gpu, &source, ground->asked, ground->k, &paths->own);
    } while (kin_fused_again(ctx, paths->gpu, status));
    paths->corpus = paths->own;
    return status;
}

static kith_status too_large(kith_ctx *ctx, const kin_graph_gpu_ground *ground)
{
    kin_forgive(ctx);
    return kin_fail(ctx, KITH_E_DEVICE_MEMORY,
                    "%lld points in %ld columns with %lld links each do not fit into the memory "
                    "of the GPU (give it more of it, take the device cpu, or search without a "
                    "graph, which works in batches)",
                    (long long)ground->points->rows, (long)ground->points->cols,
                    2 * (long long)ground->graph->k);
}

kith_status kin_graph_gpu_paths_make(kith_ctx *ctx, kin_gpu *gpu,
                                     const kin_graph_gpu_ground *ground, kin_graph_gpu_paths **out)
{
    kin_graph_gpu_paths *paths = NULL;
    *out = NULL;
    KIN_TRY(refuse(ctx, ground));
    KIN_TRY(kin_alloc_zero(ctx, &paths, 1, sizeof *paths, "a graph on a device"));
    *paths = (kin_graph_gpu_paths){.gpu = gpu,
                                   .distance = ground->distance,
                                   .rows = ground->points->rows,
                                   .most = (int32_t)(2 * ground->graph->k)};
    kith_status status =
        kin_alloc_zero(ctx, &paths->entering, 1, sizeof *paths->entering, "entries of walks");
    KIN_THEN(status, prepare(ctx, paths, ground));
    KIN_THEN(status, link_graph(ctx, paths, ground->graph));
    if (status != KITH_OK) {
        kin_graph_gpu_paths_free(ctx, paths);
        return status == KITH_E_DEVICE_MEMORY ? too_large(ctx, ground) : status;
    }
    *out = paths;
    return KITH_OK;
}

void kin_graph_gpu_paths_free(kith_ctx *ctx, kin_graph_gpu_paths *paths)
{
    if (paths == NULL) {
        return;
    }
    if (paths->entering != NULL) {
        kin_gpu_free(paths->gpu, paths->entering->rows);
        kin_free(ctx, paths->entering);
    }
    kin_free(ctx, paths->parts);
    kin_gpu_free(paths->gpu, paths->links);
    kin_fused_corpus_free(ctx, paths->own);
    kin_free(ctx, paths);
}

/* ---- A stripe of queries --------------------------------------------------------------------- */

typedef struct walking {
    kin_hold *hold;
    kin_fused_device on;
    const kin_graph_gpu_kernels *kernels;
    const kin_graph_gpu_paths *paths;
    const kin_graph_gpu_walks *walkers;
    const kith_neighbors *out;
    uint64_t *evaluated; /* device: one number */
    double solved;       /* keys of queries that were solved */
} walking;

/* Queries of a stripe whose walks met too few rows: there hardly are any. */
static kith_status solve_short(walking *w, kin_fused_answers *a, const kin_fused_rows *queries,
                               const int32_t *device_counts)
{
    kith_ctx *ctx = w->on.ctx;
    kin_gpu *gpu = w->on.gpu;
    const uint64_t rows = (uint64_t)queries->rows;
    const int64_t k = w->out->k;
    uint64_t short_rows = 0;
    uint32_t *ids = NULL;
    int64_t found = 0;
    KIN_TRY(kin_gpu_download(ctx, gpu, &short_rows, a->short_rows, sizeof short_rows));
    if (short_rows == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_fill(ctx, gpu, a->short_rows, 0, sizeof *a->short_rows));
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, ids, rows, "counts of walks");
    kith_status status = kin_gpu_download(ctx, gpu, ids, device_counts, rows * sizeof *ids);
    for (int64_t i = 0; status == KITH_OK && i < queries->rows; i++) {
        if ((int64_t)ids[i] < k) {
            ids[found++] = (uint32_t)i;
        }
    }
    if (status == KITH_OK) {
        w->solved += (double)found * (double)w->paths->rows;
        status = kin_fused_answers_solve(a, queries, &w->paths->corpus->prepared.rows, ids, found);
    }
    return status;
}

/* All of them fit into one delivery. */
static kith_status walk_stripe(walking *w, kin_fused_answers *a, const kin_fused_rows *queries)
{
    kith_ctx *ctx = w->on.ctx;
    const kin_graph_gpu_paths *paths = w->paths;
    const entering *from = paths->entering;
    kin_fused_delivery d;
    KIN_TRY(kin_fused_delivery_make(a, queries->rows, (int32_t)w->out->k, &d));
    const kin_graph_gpu_walk job = {.points = paths->corpus->prepared.rows,
                                    .queries = *queries,
                                    .count = queries->rows,
                                    .links = paths->links,
                                    .most = paths->most,
                                    .entries = from->rows,
                                    .entry_count =
                                        (int32_t)(from->counts.parts + from->counts.random),
                                    .width = (int32_t)w->walkers->width,
                                    .k = d.k,
                                    .pairs = d.pairs,
                                    .found = d.counts,
                                    .evaluations = w->evaluated};
    kith_status status =
        kin_gpu_check(ctx, w->on.gpu, w->kernels->walk(w->on.stream, &job), "walking");
    KIN_THEN(status, kin_fused_answers_write(a, d.pairs, d.counts, d.k, NULL, queries->rows));
    KIN_THEN(status, solve_short(w, a, queries, d.counts));
    kin_fused_delivery_free(a, &d);
    return status;
}

/* Every row is itself: walks know no groups. */
static kith_status answer_stripe(walking *w, const kin_fused_rows *queries,
                                 const kith_neighbors *out)
{
    const kin_groups points = {.rows = w->paths->rows, .count = w->paths->rows};
    const kin_groups asked = {.rows = queries->rows, .count = queries->rows};
    kin_fused_answers a = {.on = w->on,
                           .metric = w->paths->distance.metric,
                           .groups = &points,
                           .target = {.groups = &asked, .out = out},
                           .wanted = out->k};
    KIN_TRY(kin_fused_answers_make(&a, (w->walkers->place & KIN_FUSED_OUT_ON_DEVICE) != 0, false));
    kith_status status = walk_stripe(w, &a, queries);
    KIN_THEN(status, kin_fused_answers_finish(&a, out, w->paths->rows));
    kin_fused_answers_free(&a);
    return status;
}

static kith_status run_stripe(void *arg, int64_t first, int64_t count, int64_t next)
{
    walking *w = arg;
    kith_ctx *ctx = w->on.ctx;
    const kin_graph_gpu_walks *walkers = w->walkers;
    const kith_neighbors part = kin_fused_rows_of(w->out, first, count);
    kin_fused_prepared queries;
    KIN_TRY(kin_progress(ctx, "search", (double)first, (double)walkers->queries->rows));
    const kin_fused_source source = {.matrix = walkers->queries,
                                     .distance = &w->paths->distance,
                                     .name = "queries",
                                     .place = walkers->place,
                                     .first = first,
                                     .count = count};
    KIN_TRY(kin_fused_prepare_queries(&w->on, &source, NULL, &queries));
    ctx->report.seconds_prepare += queries.seconds_prepare + queries.seconds_upload;
    if (next > 0) {
        kin_fused_prepare_ahead(ctx, w->on.gpu, walkers->queries, first + count, next);
    }
    const kith_status status = answer_stripe(w, &queries.rows, &part);
    kin_fused_prepared_free(ctx, w->on.gpu, &queries);
    return status;
}

/* ---- All queries ----------------------------------------------------------------------------- */

/* As the processor's (graph_walk.c). */
static kith_status choose_entries(walking *w)
{
    kith_ctx *ctx = w->on.ctx;
    kin_gpu *gpu = w->on.gpu;
    const kin_graph_gpu_paths *paths = w->paths;
    entering *from = paths->entering;
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
    *from = (entering){.counts = counts, .seed = seed};
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
    const bool there = (w->walkers->place & KIN_FUSED_DATA_ON_DEVICE) != 0;
    const uint64_t row = there ? 0 : kin_fused_ahead_bytes(queries, 1);
    const uint64_t answer = k * (sizeof(uint32_t) + sizeof(float) + sizeof(double));
    const uint64_t a_query = 2 * row + answer + k * sizeof(kin_fused_pair) + 64;
    const int64_t fit = (int64_t)(kin_gpu_room(w->on.gpu) / 2 / a_query);
    const int64_t pairs = (int64_t)(PAIR_BYTES / (k * sizeof(kin_fused_pair)));
    const int64_t most = kin_min_i64(kin_min_i64(fit, pairs), MOST_STRIPE);
    return kin_max_i64(1, kin_min_i64(queries->rows, most));
}

static kith_status run_all(walking *w)
{
    kith_ctx *ctx = w->on.ctx;
    kin_gpu *gpu = w->on.gpu;
    const uint32_t place = w->walkers->place;
    KIN_TRY(choose_entries(w));
    KIN_GPU_NEW(w->hold, gpu, w->evaluated, 1, "counters");
    KIN_TRY(kin_gpu_fill(ctx, gpu, w->evaluated, 0, sizeof *w->evaluated));
    kin_fused_stripes all = {.ctx = ctx,
                             .gpu = gpu,
                             .rows = w->walkers->queries->rows,
                             .stripe = stripe_rows(w),
                             .ahead = (place & KIN_FUSED_DATA_ON_DEVICE) == 0 &&
                                      kin_gpu_ahead_wanted(gpu),
                             .solve = run_stripe,
                             .arg = w};
    return kin_fused_each_stripe(&all);
}

kith_status kin_graph_gpu_walk_run(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                                   const kin_graph_gpu_walks *walkers, const kith_neighbors *out,
                                   double *evaluations)
{
    KIN_HOLD(hold, ctx);
    walking w = {.hold = &hold,
                 .on = kin_fused_device_of(ctx, paths->gpu),
                 .kernels = paths->gpu->module->graph,
                 .paths = paths,
                 .walkers = walkers,
                 .out = out};
    uint64_t evaluated = 0;
    *evaluations = 0.0;
    kith_status status = run_all(&w);
    KIN_THEN(status, kin_gpu_download(ctx, paths->gpu, &evaluated, w.evaluated, sizeof evaluated));
    *evaluations = (double)evaluated + w.solved;
    return status;
}

kith_status kin_graph_gpu_walk_solve(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                                     const kith_matrix *queries, uint32_t place,
                                     const kith_neighbors *out)
{
    const kin_request request = {
        .distance = paths->distance, .k = out->k, .method = KITH_METHOD_EXACT};
    return kin_fused_corpus_search(ctx, paths->corpus, queries, &request, place, out);
}
