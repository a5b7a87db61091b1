/* SPDX-License-Identifier: Apache-2.0
 * What an index keeps of its points on either machine: for all pairs, a tree, and a graph, which is
 * made, grown and shrunk by the calls for graphs, with the walks over it. */
#include "host/host_clock.h"
#include "index/index.h"
#include "kith/kith_cuda.h"

/* ---- Walks ----------------------------------------------------------------------------------- */

static bool is_integer(const kin_index_kept *kept, kith_dtype asked)
{
    const kith_matrix queries = {.dtype = asked};
    return kin_frame_is_integer(&kept->prepared.distance, &kept->prepared.rows.matrix, &queries);
}

static kith_status make_walks(kith_ctx *ctx, kin_gpu *gpu, const kin_index_kept *kept,
                              kith_dtype asked, const char *name, kin_walks **walks)
{
    const kith_matrix *points = &kept->prepared.rows.matrix;
    const kin_exact_gpu_corpus *others[KIN_GPU_TEAM_MOST] = {NULL};
    const kith_neighbors graph = {.rows = points->rows, .k = kept->graph.k, .ids = kept->graph.ids};
    kin_walks_source source = {.points = *points,
                               .name = name,
                               .graph = &graph,
                               .distance = kept->prepared.distance,
                               .asked = asked,
                               .corpus = kept->resident,
                               .shared = gpu != NULL && gpu->team != NULL,
                               .others = others};
    for (int32_t i = 0; i < KIN_GPU_TEAM_MOST; i++) {
        const kin_index_copy *copy = kept->copies[i];
        others[i] = copy != NULL ? copy->resident : NULL;
    }
    source.distance.isa = ctx->isa;
    return kin_walks_make(ctx, gpu, &source, walks);
}

/* Points that walks are prepared for; kept->graph has ids. On a GPU, which was entered,
 * kept->resident has the points already; NULL: on the processor. */
static kith_status index_keep_walks(kith_ctx *ctx, kin_gpu *gpu, const kin_index_source *source,
                                    kin_index_kept *kept)
{
    const kith_dtype own = source->points.dtype;
    kin_index_walks *walks = NULL;
    kept->prepared.rows.matrix = source->points;
    kept->prepared.distance = source->distance;
    KIN_TRY(kin_alloc_zero(ctx, &walks, 1, sizeof *walks, "walks"));
    kin_guard_make(&walks->lock);
    kept->graph.walks = walks;
    kin_walks **made = &walks->made[gpu == NULL && is_integer(kept, own)];
    KIN_TRY(make_walks(ctx, gpu, kept, own, source->name, made));
    ctx->report.distinct_rows =
        gpu != NULL ? kept->resident->prepared.groups.count : (*made)->prepared.groups.count;
    return KITH_OK;
}

static void index_walks_free(kith_ctx *ctx, kin_index_walks *walks)
{
    if (walks != NULL) {
        kin_walks_free(walks->made[0]);
        kin_walks_free(walks->made[1]);
        kin_guard_free(&walks->lock);
        kin_free(ctx, walks);
    }
}

/* While the index is locked for reading: nobody else computes in its own context but here. */
static kith_status make_more(kith_ctx *ctx, const kith_index *index, kith_dtype asked,
                             kin_walks **walks)
{
    kin_index_call call;
    KIN_TRY(kin_index_call_begin(ctx, index->own, &call));
    index->own->params.progress = NULL; /* which may search the same index */
    return kin_index_call_end(&call,
                              make_walks(index->own, NULL, index->kept, asked, "points", walks));
}

kith_status kin_index_walks_for(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                                const kin_walks **walks)
{
    kin_index_walks *all = index->kept->graph.walks;
    kin_walks **made = &all->made[index->gpu == NULL && is_integer(index->kept, queries->dtype)];
    kith_status status = KITH_OK;
    kin_guard_enter(&all->lock, true);
    if (*made == NULL) {
        status = make_more(ctx, index, queries->dtype, made);
    }
    *walks = *made;
    kin_guard_leave(&all->lock);
    return status;
}

/* ---- The graph, made ------------------------------------------------------------------------- */

static kith_search_params params_of(const kith_index *index, const kin_distance *distance,
                                    int64_t k)
{
    kith_search_params params = kith_search_params_default();
    params.metric = distance->metric;
    params.custom = distance->custom;
    params.custom_arg = distance->custom_arg;
    params.k = k;
    params.recall = index->recall;
    params.seed = index->seed;
    return params;
}

/* Room for the ids of a graph of so many points. */
static kith_status make_room(kith_ctx *ctx, int64_t rows, int64_t k, kin_index_graph *graph,
                             kith_neighbors *out)
{
    graph->k = k;
    KIN_TRY(kin_alloc(ctx, &graph->ids, kin_size_mul((uint64_t)rows, (uint64_t)k),
                      sizeof *graph->ids, "the graph of an index"));
    *out = (kith_neighbors){.rows = rows, .k = k, .ids = graph->ids};
    return KITH_OK;
}

static kith_status check_points(kith_ctx *ctx, const kith_matrix *points)
{
    KIN_ALLOW_IF(points->rows >= 2, ctx, "points",
                 "has 1 row, and an index by graph has at least 2 (give more, or another method)");
}

static kith_status copy_graph(kith_ctx *ctx, const kin_index_source *source,
                              const kith_neighbors *given, kin_index_graph *graph)
{
    kith_neighbors out;
    KIN_TRY(kin_check_graph(ctx, given, source->points.rows));
    const bool there = (source->place & KIN_GPU_DATA_ON_DEVICE) != 0; /* no checksum reads them */
    KIN_TRY(kin_fingerprint_check(ctx, given, "graph", there ? NULL : &source->points,
                                  source->distance.metric));
    KIN_TRY(make_room(ctx, given->rows, given->k, graph, &out));
    memcpy(graph->ids, given->ids, (size_t)(out.rows * out.k) * sizeof *graph->ids);
    return KITH_OK;
}

/* By way of device memory, since that is where the call writes. */
static kith_status make_in(kith_ctx *ctx, kin_gpu *gpu, const kin_index_source *source,
                           const kith_search_params *params, const kith_neighbors *out,
                           void *stream)
{
    const uint64_t entries = (uint64_t)(out->rows * out->k);
    kith_neighbors table = *out;
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &table.ids, entries, sizeof *table.ids, "a graph"));
    kin_gpu_leave(gpu);
    kith_status status = kith_cuda_graph(ctx, &source->points, params, &table, NULL, stream);
    kin_gpu_enter(gpu);
    KIN_THEN(status, kin_gpu_download(ctx, gpu, out->ids, table.ids, entries * sizeof *out->ids));
    kin_gpu_free(gpu, table.ids);
    return status;
}

static kith_status make_graph(kith_ctx *ctx, const kin_index_source *source,
                              const kith_index *index, const kin_index_there *there,
                              kin_index_graph *graph)
{
    const int64_t k = kin_min_i64(index->wanted, source->points.rows - 1);
    const kith_search_params params = params_of(index, &source->distance, k);
    kith_neighbors out;
    kin_gpu *gpu = NULL;
    KIN_TRY(make_room(ctx, source->points.rows, k, graph, &out));
    if (there == NULL) {
        return kith_graph(ctx, &source->points, &params, &out, NULL);
    }
    KIN_TRY(kin_device_enter_gpu(ctx, there->device, &gpu));
    const kith_status status = make_in(ctx, gpu, source, &params, &out, there->stream);
    kin_device_leave(ctx, gpu);
    return status;
}

kith_status kin_index_make_graph(kith_ctx *ctx, const kin_index_source *source,
                                 const kith_neighbors *given, const kin_index_there *there,
                                 kith_index *index)
{
    kin_index_graph *graph = &index->kept->graph;
    if (given != NULL) {
        return copy_graph(ctx, source, given, graph);
    }
    KIN_TRY(check_points(ctx, &source->points));
    return make_graph(ctx, source, index, there, graph);
}

/* ---- The graph, changed ---------------------------------------------------------------------- */

/* The graph of added rows alone; of one row it has an empty slot. */
static kith_status make_part(kith_ctx *ctx, const kin_index_source *part, const kith_index *index,
                             kin_index_graph *graph)
{
    if (part->points.rows > 1) {
        return make_graph(ctx, part, index, NULL, graph);
    }
    kith_neighbors out;
    KIN_TRY(make_room(ctx, 1, 1, graph, &out));
    graph->ids[0] = KITH_ID_NONE;
    return KITH_OK;
}

static kith_status merge(kith_ctx *ctx, const kin_index_source *source, const kith_index *index,
                         const kin_index_graph *part, kin_index_graph *graph)
{
    const int64_t before = index->kept->prepared.rows.matrix.rows;
    const int64_t rows = source->points.rows;
    const kith_neighbors graphs[] = {
        {.rows = before, .k = index->kept->graph.k, .ids = index->kept->graph.ids},
        {.rows = rows - before, .k = part->k, .ids = part->ids}};
    const kith_merge_sets sets = {.points = &source->points,
                                  .first_rows = before,
                                  .graph1 = &graphs[0],
                                  .graph2 = &graphs[1]};
    const int64_t k = kin_min_i64(index->wanted, rows - 1);
    const kith_search_params params = params_of(index, &source->distance, k);
    kith_neighbors out;
    KIN_TRY(make_room(ctx, rows, k, graph, &out));
    return kith_graph_merge(ctx, &sets, &params, &out, NULL);
}

kith_status kin_index_grow_graph(kith_ctx *ctx, const kin_index_source *source,
                                 const kith_index *index, kin_index_graph *made)
{
    const int64_t before = index->kept->prepared.rows.matrix.rows;
    kin_index_graph part = {0};
    kin_index_source added = *source;
    added.points = kin_matrix_part(&source->points, before, source->points.rows - before);
    kith_status status = make_part(ctx, &added, index, &part);
    KIN_THEN(status, merge(ctx, source, index, &part, made));
    kin_free(ctx, part.ids);
    return status;
}

kith_status kin_index_shrink_graph(kith_ctx *ctx, const kith_matrix *points,
                                   const kin_index_source *source, const uint8_t *removed,
                                   const kith_index *index, kin_index_graph *made)
{
    const kin_index_graph *graph = &index->kept->graph;
    const kith_neighbors before = {.rows = points->rows, .k = graph->k, .ids = graph->ids};
    const int64_t left = source->points.rows;
    kith_remove_params params = kith_remove_params_default();
    kith_neighbors out;
    KIN_TRY(check_points(ctx, &source->points));
    params.metric = source->distance.metric;
    params.custom = source->distance.custom;
    params.custom_arg = source->distance.custom_arg;
    params.k = kin_min_i64(graph->k, left - 1);
    params.approximate = index->recall < 1.0;
    params.removed = removed;
    KIN_TRY(make_room(ctx, left, params.k, made, &out));
    return kith_graph_remove(ctx, points, &before, &params, &out, NULL);
}

enum { USUAL_K = 10 };
/* Queries that an index is thought to be made for, where "auto" decides where it lives. */
static const int64_t USUAL_QUERIES = 1000;

/* ---- A tree ---------------------------------------------------------------------------------- */

static kith_status keep_tree(kith_ctx *ctx, const kin_index_source *source, kin_index_kept *kept)
{
    kin_prepared *prepared = &kept->prepared;
    KIN_TRY(kin_prepare_rows(ctx, &source->points, &source->distance, source->name, 0, prepared));
    kin_prepared_tell(ctx, prepared);
    ctx->report.distinct_rows = prepared->groups.count;
    const int64_t start = kin_clock_ns();
    const int64_t leaf_points =
        source->leaf_points != 0
            ? source->leaf_points
            : kin_tree_leaf_points_of(source->points.cols, prepared->groups.count, source->height);
    KIN_TRY(kin_tree_make(ctx, prepared, leaf_points, &kept->tree));
    ctx->report.seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

/* ---- On a GPU -------------------------------------------------------------------------------- */

typedef struct keeping {
    const kin_index_source *source;
    kith_method method;
} keeping;

static void free_copy(void *thing)
{
    kin_index_copy *copy = thing;
    kin_exact_gpu_corpus_free(copy->home, copy->resident);
    kin_tree_gpu_corpus_free(copy->home, &copy->planted);
    kin_free(copy->home, copy);
}

/* The rows come to all in lockstep; what is made of them there each makes for itself. */
static kith_status fill_copy(kith_ctx *ctx, kin_gpu *gpu, const keeping *k, kin_index_copy *copy)
{
    const kin_index_source *source = k->source;
    const kin_screen_gpu_source points = {
        .matrix = &source->points,
        .distance = &source->distance,
        .name = source->name,
        .place = source->place,
        .grows = k->method == KITH_METHOD_EXACT && (source->place & KIN_GPU_DATA_ON_DEVICE) != 0,
        .like = source->like != NULL ? &source->like->prepared : NULL,
        .apart = k->method == KITH_METHOD_GRAPH ? KIN_GRAPH_GPU_MOST_EQUAL : 0};
    KIN_TRY(k->method == KITH_METHOD_TREE
                ? kin_tree_gpu_corpus_make(ctx, gpu, &points, source->height, source->leaf_points,
                                           &copy->planted)
                : kin_exact_gpu_corpus_make(ctx, gpu, &points, source->points.dtype, USUAL_K,
                                            &copy->resident));
    kin_gpu_break_step(gpu);
    return copy->resident != NULL ? kin_exact_gpu_corpus_glance(ctx, source->like, copy->resident)
                                  : KITH_OK;
}

static kith_status make_copy(void *arg, kith_ctx *ctx, kin_gpu *gpu, void **thing)
{
    kin_index_copy *copy = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &copy, 1, sizeof *copy, "an index"));
    copy->home = ctx;
    const kith_status status = fill_copy(ctx, gpu, arg, copy);
    if (status != KITH_OK) {
        free_copy(copy);
        return status;
    }
    *thing = copy;
    return KITH_OK;
}

static void free_from_gpu(kith_ctx *ctx, kin_gpu *gpu, kin_index_kept *kept)
{
    index_walks_free(ctx, kept->graph.walks);
    kin_gpu_each_free(gpu, free_copy, kept->copies);
    kept->graph.walks = NULL;
    kept->resident = NULL;
    kept->planted = (kin_tree_gpu_corpus){.gpu = NULL};
}

/* All of it, or nothing; gpu was entered. */
static kith_status keep_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_index_source *source,
                               kith_method method, kin_index_kept *kept)
{
    keeping k = {source, method};
    const kin_gpu_each each = {make_copy, free_copy, &k};
    if (gpu->team != NULL) { /* whose members read rows that this one's stream may still write */
        KIN_TRY(kin_gpu_wait(ctx, gpu));
    }
    KIN_TRY(kin_gpu_each_make(ctx, gpu, &each, kept->copies));
    const kin_index_copy *first = kept->copies[0];
    kept->resident = first->resident;
    kept->planted = first->planted;
    kept->prepared.rows.matrix = source->points;
    kept->prepared.distance = source->distance;
    kept->place = source->place;
    const kith_status status =
        method == KITH_METHOD_GRAPH ? index_keep_walks(ctx, gpu, source, kept) : KITH_OK;
    if (status != KITH_OK) {
        free_from_gpu(ctx, gpu, kept);
    }
    return status;
}

/* Equal types on both sides are what a corpus of bytes waits for. */
kith_status kin_index_prepare(kith_ctx *ctx, const kin_index_source *source, kin_prepared *prepared)
{
    const kin_knn_job job = {.corpus = source->points,
                             .queries = source->points,
                             .request = {.distance = source->distance, .k = USUAL_K}};
    return kin_engine_prepare(ctx, &job, source->name, prepared);
}

kith_status kin_index_try_gpu(kith_ctx *ctx, const kin_index_source *source, kith_index *index)
{
    kin_gpu *gpu = NULL;
    const kith_matrix asked = {.rows = USUAL_QUERIES};
    const kin_request request = {.distance = source->distance, .method = index->method};
    if (index->method != KITH_METHOD_EXACT && ctx->device != KIN_DEVICE_CUDA) {
        /* Who does not name one may ask what the processor's tree or graph alone does. */
        return kin_method_check(ctx, &request);
    }
    KIN_TRY(kin_method_enter(ctx, &request, &source->points, &asked, &gpu));
    if (gpu == NULL) {
        return KITH_OK;
    }
    const kith_status status = keep_on_gpu(ctx, gpu, source, index->method, index->kept);
    kin_device_leave(ctx, gpu);
    if (status == KITH_OK) {
        index->gpu = gpu;
    }
    return kin_device_yields(ctx, status) ? KITH_OK : status;
}

kith_status kin_index_stay_on_gpu(kith_ctx *ctx, const kin_index_source *source,
                                  const kith_index *index, kin_index_kept *kept)
{
    kin_gpu_enter(index->gpu);
    const kith_status status = keep_on_gpu(ctx, index->gpu, source, index->method, kept);
    kin_device_leave(ctx, index->gpu);
    return status;
}

kith_status kin_index_keep_device(kith_ctx *ctx, const kin_index_source *source, int32_t device,
                                  void *stream, kith_index *index)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_device_enter_gpu(ctx, device, &gpu));
    kith_status status = kin_api_follow(ctx, gpu, stream);
    KIN_THEN(status, keep_on_gpu(ctx, gpu, source, index->method, index->kept));
    KIN_KEEP(status, kin_gpu_wait(ctx, gpu));
    kin_device_leave(ctx, gpu);
    const bool stands = index->kept->resident != NULL || index->kept->planted.gpu != NULL;
    index->gpu = stands ? gpu : NULL; /* which frees it, on failure, too */
    return status;
}

/* ---- Where rows lie -------------------------------------------------------------------------- */

kith_status kin_index_host_rows(kith_ctx *ctx, const kith_index *index, kith_matrix *rows,
                                void **copy)
{
    const kin_index_kept *kept = index->kept;
    *rows = kept->prepared.rows.matrix;
    *copy = NULL;
    if (!kin_index_rows_on_device(kept)) {
        return KITH_OK;
    }
    kin_gpu_enter(index->gpu);
    const kith_status status = kin_gpu_fetch_rows(ctx, index->gpu, rows, copy);
    kin_device_leave(ctx, index->gpu);
    return status;
}

/* ---- On the processor ------------------------------------------------------------------------ */

static kith_status keep_pairs(kith_ctx *ctx, const kin_index_source *source, kin_index_kept *kept)
{
    KIN_TRY(kin_index_prepare(ctx, source, &kept->prepared));
    if (kin_is_screened(&source->distance)) {
        const kin_shadow_job few = {.k = USUAL_K, .ends = 1, .few = true};
        KIN_TRY(kin_glance_make(ctx, &few, &kept->prepared));
    }
    kin_prepared_tell(ctx, &kept->prepared);
    ctx->report.distinct_rows = kept->prepared.groups.count;
    return KITH_OK;
}

kith_status kin_index_keep_cpu(kith_ctx *ctx, const kin_index_source *source, kith_method method,
                               kin_index_kept *kept)
{
    return method == KITH_METHOD_TREE    ? keep_tree(ctx, source, kept)
           : method == KITH_METHOD_GRAPH ? index_keep_walks(ctx, NULL, source, kept)
                                         : keep_pairs(ctx, source, kept);
}

/* ---- Made, freed ----------------------------------------------------------------------------- */

void kin_index_kept_free(kith_ctx *ctx, kin_gpu *gpu, bool views, kin_index_kept *kept)
{
    if (kept == NULL) {
        return;
    }
    if (!views) {
        kin_free(ctx, kept->graph.ids);
    }
    if (kept->resident != NULL || kept->planted.gpu != NULL) {
        kin_gpu_enter(gpu);
        free_from_gpu(ctx, gpu, kept);
        kin_gpu_free(gpu, kept->there);
        kin_gpu_leave(gpu);
        kin_free(ctx, kept);
        return;
    }
    index_walks_free(ctx, kept->graph.walks);
    if (!views) {
        kin_tree_free(ctx, &kept->tree);
        kin_prepared_free(ctx, &kept->prepared);
    }
    kin_free(ctx, kept);
}
