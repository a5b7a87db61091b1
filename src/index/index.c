/* SPDX-License-Identifier: Apache-2.0
 * An index: how it is made, asked what it is, and freed. */
#include "index/index.h"

#include "exact/exact_store.h"
#include "kith/kith_cuda.h"

#include <assert.h>

/* ---- In a file ------------------------------------------------------------------------------- */

/* An index in a .kith file, and back: what an exact one and a tree have is written by their rooms
 * (exact_store.h, tree.h); of a graph there are
 *
 *     "points"   which every reader of points knows
 *     "index"    what the graph shall be when it is changed: facts
 *     "ids"      rows x k */

/* Rises with every change of what is stored. */
enum { STORE_VERSION = 1 };

#define TAG_FACTS "index"

typedef struct facts {
    uint64_t version;
    int64_t wanted;
    double recall;
    uint64_t seed;
} facts;

static_assert(sizeof(facts) == 32, "facts have no padding");

/* ---- Written --------------------------------------------------------------------------------- */

static kith_status save_graph(kith_ctx *ctx, const kith_index *index, const kith_matrix *points,
                              const char *path)
{
    const kin_index_kept *kept = index->kept;
    const facts f = {.version = STORE_VERSION,
                     .wanted = index->wanted,
                     .recall = index->recall,
                     .seed = index->seed};
    kin_storing storing =
        kin_store_begin(KITH_KIND_GRAPH_INDEX, kept->prepared.distance.metric, points);
    storing.header.k = kept->graph.k;
    KIN_FAIL_IF(
        storing.header.metric == KITH_CUSTOM, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
        "the metric of the index is a function, which no file holds (save its points and graph)");
    kin_store_add(&storing, TAG_FACTS, &f, 1, sizeof f);
    kin_store_add(&storing, KIN_TAG_IDS, kept->graph.ids, storing.header.rows,
                  (uint64_t)kept->graph.k * sizeof *kept->graph.ids);
    return kin_container_write(ctx, path, &storing.header, storing.sections, storing.count);
}

static kith_status save_kept(kith_ctx *ctx, kith_method method, const kin_index_kept *kept,
                             const char *path)
{
    return method == KITH_METHOD_TREE ? kin_tree_store_save(ctx, path, &kept->prepared, &kept->tree)
                                      : kin_store_save(ctx, path, &kept->prepared);
}

/* Of one on a GPU: what the processor would keep is made for the file. */
static kith_status save_from_gpu(kith_ctx *ctx, const kith_index *index, const kith_matrix *points,
                                 const char *path)
{
    kin_index_kept made = {.resident = NULL};
    kin_index_source source = {.points = *points,
                               .distance = index->kept->prepared.distance,
                               .name = "points",
                               .leaf_points = index->kept->planted.leaf_points};
    source.distance.isa = ctx->isa;
    kith_status status = index->method == KITH_METHOD_TREE
                             ? kin_index_keep_cpu(ctx, &source, index->method, &made)
                             : kin_index_prepare(ctx, &source, &made.prepared);
    KIN_THEN(status, save_kept(ctx, index->method, &made, path));
    kin_tree_free(ctx, &made.tree);
    kin_prepared_free(ctx, &made.prepared);
    return status;
}

static kith_status save(kith_ctx *ctx, const kith_index *index, const char *path)
{
    kith_matrix points;
    void *copy = NULL;
    kith_status status = kin_index_host_rows(ctx, index, &points, &copy);
    if (index->method == KITH_METHOD_GRAPH) {
        KIN_THEN(status, save_graph(ctx, index, &points, path));
    } else {
        KIN_THEN(status, index->gpu != NULL ? save_from_gpu(ctx, index, &points, path)
                                            : save_kept(ctx, index->method, index->kept, path));
    }
    kin_free(ctx, copy);
    return status;
}

kith_status kith_index_save(kith_ctx *ctx, const kith_index *index, const char *path)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = kin_check_path(ctx, path);
    KIN_THEN(status, kin_index_enter(ctx, index));
    if (status == KITH_OK) {
        status = save(ctx, index, path);
        kin_index_leave(ctx, index);
    }
    return kin_call_end(&call, status);
}

/* ---- Read ------------------------------------------------------------------------------------ */

static void bind_views(const kin_index_source *source, kith_index *index)
{
    index->views = true; /* whatever there is of it on failure */
    index->kept->prepared =
        (kin_prepared){.rows.matrix = source->points, .distance = source->distance};
}

static kith_status load_tree(kith_ctx *ctx, const kin_index_source *source, kith_index *index)
{
    kin_index_kept *kept = index->kept;
    kin_index_source again = *source;
    bool usable = false;
    bind_views(source, index);
    KIN_TRY(kin_tree_store_view(ctx, index->container, &kept->prepared, &kept->tree, &usable));
    again.leaf_points = kept->tree.leaf_points;
    KIN_TRY(kin_index_try_gpu(ctx, &again, index));
    index->views = usable && index->gpu == NULL;
    return usable || index->gpu != NULL ? KITH_OK
                                        : kin_index_keep_cpu(ctx, &again, index->method, kept);
}

static kith_status load_exact(kith_ctx *ctx, const kin_index_source *source, kith_index *index)
{
    bool usable = false;
    KIN_TRY(kin_index_try_gpu(ctx, source, index));
    if (index->gpu != NULL) {
        return KITH_OK;
    }
    if (kin_is_screened(&source->distance)) {
        bind_views(source, index);
        KIN_TRY(kin_store_view(ctx, index->container, &index->kept->prepared, &usable));
    }
    index->views = usable;
    return usable ? KITH_OK : kin_index_keep_cpu(ctx, source, index->method, index->kept);
}

/* The ids are used as an index: a file can be wrong, but not lead outside of itself. */
static bool ids_fit(const uint32_t *ids, int64_t count, int64_t rows)
{
    for (int64_t i = 0; i < count; i++) {
        if ((int64_t)ids[i] >= rows && ids[i] != KITH_ID_NONE) {
            return false;
        }
    }
    return true;
}

static kith_status view_graph(kith_ctx *ctx, int64_t rows, int64_t k, kith_index *index)
{
    const kin_viewing v = {.ctx = ctx, .container = index->container};
    const facts *f = NULL;
    kin_index_graph *graph = &index->kept->graph;
    if (k < 1 || k > rows) {
        return kin_store_fail_damaged(&v, "number of neighbours is none");
    }
    KIN_TRY(kin_store_view_array(&v, TAG_FACTS, 1, sizeof *f, (void *)&f));
    KIN_TRY(kin_store_view_array(&v, KIN_TAG_IDS, rows, (uint64_t)k * sizeof *graph->ids,
                                 (void *)&graph->ids));
    if (f->version != STORE_VERSION || f->wanted < 1 || !(f->recall > 0.0 && f->recall <= 1.0) ||
        !ids_fit(graph->ids, rows * k, rows)) {
        return kin_store_fail_damaged(&v, "graph is none of its points");
    }
    graph->k = k;
    index->wanted = f->wanted;
    index->recall = f->recall;
    index->seed = f->seed;
    return KITH_OK;
}

/* All pairs, a tree, or walks on a graph that is there; of an index that is nowhere yet. On the GPU
 * that the context has for it, which is the index' from then on, or on the processor. */
static kith_status keep_all(kith_ctx *ctx, const kin_index_source *source, kith_index *index)
{
    KIN_TRY(kin_index_try_gpu(ctx, source, index));
    return index->gpu != NULL ? KITH_OK
                              : kin_index_keep_cpu(ctx, source, index->method, index->kept);
}

static kith_status load_graph(kith_ctx *ctx, const kin_index_source *source, kith_index *index)
{
    const int64_t k = index->container->header.k;
    bind_views(source, index);
    KIN_TRY(view_graph(ctx, source->points.rows, k, index));
    return keep_all(ctx, source, index);
}

/* A copy of a period, which was checked, becomes the index' and the distance's. */
static kith_status take_period(kith_ctx *ctx, kin_distance *distance, kith_index *index)
{
    const size_t count = (size_t)distance->cols;
    if (distance->period != NULL) {
        KIN_TRY(kin_alloc(ctx, &index->period, count, sizeof *index->period, "a period"));
        memcpy(index->period, distance->period, count * sizeof *index->period);
        distance->period = index->period;
    }
    return KITH_OK;
}

static kith_status load_period(kith_ctx *ctx, kin_distance *distance, kith_index *index)
{
    const kin_viewing v = {.ctx = ctx, .container = index->container};
    const double *period = NULL;
    KIN_TRY(kin_store_period(ctx, index->container, &period));
    if (kin_check_period(ctx, period, distance) != KITH_OK) {
        kin_forgive(ctx);
        return kin_store_fail_damaged(&v, "its period is none of its metric");
    }
    return take_period(ctx, distance, index);
}

/* Fills the index from a file that it maps. */
static kith_status load_file(kith_ctx *ctx, const char *path, kith_index *index)
{
    kin_index_source source = {.name = path};
    kith_matrix points;
    kith_metric metric;
    KIN_TRY(kin_container_open(ctx, path, true, &index->container));
    KIN_TRY(kin_store_points(ctx, path, index->container, &points, &metric));
    KIN_TRY(kin_check_matrix(ctx, &points, path, &source.points));
    KIN_TRY(kin_check_metric(ctx, metric, NULL, NULL, source.points.cols, &source.distance));
    KIN_TRY(load_period(ctx, &source.distance, index));
    switch (index->container->header.kind) {
    case KITH_KIND_TREE_INDEX:
        index->method = KITH_METHOD_TREE;
        return load_tree(ctx, &source, index);
    case KITH_KIND_GRAPH_INDEX:
        index->method = KITH_METHOD_GRAPH;
        return load_graph(ctx, &source, index);
    default:
        index->method = KITH_METHOD_EXACT;
        return load_exact(ctx, &source, index);
    }
}

/* ---- Allocated, freed ----------------------------------------------------------------------- */

/* All but its own context. */
static void release(kith_index *index)
{
    kith_ctx *own = index->own;
    kin_index_kept_free(own, index->gpu, index->views, index->kept);
    kin_free(own, index->rows);
    kin_free(own, index->period);
    kin_container_close(index->container);
    if (index->guard != NULL) {
        kin_guard_free(index->guard);
        kin_free(own, index->guard);
    }
    kin_free(own, index);
}

/* An empty one. */
static kith_status allocate(kith_ctx *own, kith_index **out)
{
    kith_index *index = NULL;
    KIN_TRY(kin_alloc_zero(own, &index, 1, sizeof *index, "an index"));
    index->own = own;
    kith_status status = kin_alloc(own, &index->guard, 1, sizeof *index->guard, "a lock");
    if (status == KITH_OK) {
        kin_guard_make(index->guard);
        status = kin_alloc_zero(own, &index->kept, 1, sizeof *index->kept, "an index");
    }
    if (status != KITH_OK) {
        release(index);
        return status;
    }
    *out = index;
    return KITH_OK;
}

static void free_own(kith_ctx *own)
{
    kin_gpu_close(own, own->gpu);
    kin_ctx_delete(own);
}

void kith_index_free(kith_index *index)
{
    if (index != NULL) {
        kith_ctx *own = index->own;
        release(index);
        free_own(own);
    }
}

/* ---- Made ------------------------------------------------------------------------------------ */

static kith_status take_params(kith_ctx *ctx, const kith_index_params *given,
                               kith_index_params *known)
{
    KIN_TRY(KIN_TAKE(ctx, kith_index_params, method, given, known));
    const int method = (int)known->method;
    const bool graph = method == KITH_METHOD_GRAPH;
    KIN_TRY(graph ? KITH_OK : kin_check_method(ctx, method));
    KIN_REFUSE_IF(
        known->tree_height != 0 && method != KITH_METHOD_TREE, ctx, "tree_height",
        "is %d and the method is not KITH_METHOD_TREE, which alone has one (set both or none)",
        (int)known->tree_height);
    KIN_REFUSE_IF(!graph && known->graph != NULL, ctx, "graph",
                  "is set and the method is not KITH_METHOD_GRAPH (set both or none)");
    KIN_REFUSE_IF(!graph && known->metric == KITH_CUSTOM, ctx, "metric",
                  "is custom, for which there is no index but a graph (use that method, or search "
                  "the points themselves)");
    KIN_ALLOW_IF(known->k >= 0 && known->recall >= 0.0 && known->recall <= 1.0, ctx,
                 known->k < 0 ? "k" : "recall", "is %g, must be %s",
                 known->k < 0 ? (double)known->k : known->recall,
                 known->k < 0 ? "at least 1 (or 0: 24)" : "0 to 1 (0: 0.95)");
}

static void take_graph(const kith_index_params *params, kith_index *index)
{
    const kith_neighbors *graph = params->graph;
    const bool certified = graph != NULL && graph->meta != NULL && /* as exact as it was */
                           graph->meta->exact == KITH_CERTIFIED;
    const double usual = certified ? 1.0 : KITH_INDEX_RECALL;
    index->wanted = graph != NULL ? graph->k : params->k == 0 ? KITH_INDEX_K : params->k;
    index->recall = params->recall == 0.0 ? usual : params->recall;
    index->seed = params->seed;
}

/* What an index is made from. */
typedef struct origin {
    const kith_matrix *points;
    const kith_index_params *given;
    kith_index_params params; /* those, as this library knows them */
    bool opens;               /* instead of all that the file */
    const char *path;
    bool on_device; /* the points */
    void *stream;   /* which fills them */
} origin;

static kith_status create_on_device(kith_ctx *ctx, const origin *from, kin_index_source *source,
                                    kith_index *index)
{
    int32_t device = -1;
    const kin_request request = {.distance = source->distance, .method = index->method};
    KIN_TRY(kin_device_refuse(ctx, &source->distance));
    KIN_TRY(kin_method_check(ctx, &request));
    KIN_TRY(kin_method_check_gpu(ctx, &request));
    KIN_TRY(kin_api_find_device(ctx, source->points.data, "points.data", &device));
    KIN_TRY(kin_api_check_device(ctx, device));
    source->place = KIN_GPU_DATA_ON_DEVICE;
    if (index->method == KITH_METHOD_GRAPH) {
        take_graph(&from->params, index);
        const kin_index_there there = {device, from->stream};
        KIN_TRY(kin_index_make_graph(ctx, source, from->params.graph, &there, index));
    }
    return kin_index_keep_device(ctx, source, device, from->stream, index);
}

static kith_status create(kith_ctx *ctx, const origin *from, kith_index *index)
{
    const kith_index_params *params = &from->params;
    kin_index_source source = {.name = "points"};
    KIN_TRY(kin_check_matrix(ctx, from->points, "points", &source.points));
    KIN_TRY(KIN_CHECK_METRIC_OF(ctx, params, source.points.cols, &source.distance));
    KIN_TRY(kin_check_period(ctx, params->period, &source.distance));
    index->method = params->method == KITH_METHOD_AUTO ? KITH_METHOD_EXACT : params->method;
    KIN_TRY(
        index->method == KITH_METHOD_GRAPH
            ? kin_refuse_period(ctx, params->period, "an index by graph has none (leave it out)")
            : take_period(ctx, &source.distance, index));
    KIN_TRY(kin_method_check_height(ctx, params->tree_height, source.points.rows));
    source.height = params->tree_height;
    if (from->on_device) {
        return create_on_device(ctx, from, &source, index);
    }
    if (index->method == KITH_METHOD_GRAPH) {
        take_graph(params, index);
        KIN_TRY(kin_index_make_graph(ctx, &source, params->graph, NULL, index));
    }
    return keep_all(ctx, &source, index);
}

/* What a caller's GPUs keep for later is wanted by the index'. */
static void trim_gpus(kin_gpu *leader)
{
    const kin_gpu_team *team = leader != NULL ? leader->team : NULL;
    const int32_t count = leader == NULL ? 0 : team == NULL ? 1 : kin_gpu_team_size(team);
    for (int32_t i = 0; i < count; i++) {
        kin_gpu *gpu = i == 0 ? leader : kin_gpu_team_member(team, i);
        kin_gpu_enter(gpu);
        kin_gpu_trim(gpu);
        kin_gpu_leave(gpu);
    }
}

static kith_status make_in(kith_ctx *own, const origin *from, kith_index **out)
{
    kith_index *index = NULL;
    KIN_TRY(allocate(own, &index));
    const kith_status status =
        from->opens ? load_file(own, from->path, index) : create(own, from, index);
    if (status != KITH_OK) {
        release(index);
        return status;
    }
    if (index->gpu == NULL) { /* one that was tried */
        kin_gpu_close(own, own->gpu);
        own->gpu = NULL;
    }
    *out = index;
    return KITH_OK;
}

static kith_status make(kith_ctx *ctx, origin *from, kith_index **out)
{
    kin_index_call call;
    KIN_TRY(from->opens ? kin_check_path(ctx, from->path)
                        : take_params(ctx, from->given, &from->params));
    KIN_TRY(kin_check_out(ctx, out));
    kith_ctx *own = kin_ctx_new(&ctx->params);
    KIN_FAIL_IF(own == NULL, ctx, KITH_E_MEMORY, kin_at(NULL),
                "no memory for an index (free some memory)");
    trim_gpus(ctx->gpu);
    kith_status status = kin_index_call_begin(ctx, own, &call);
    own->device_count = from->on_device ? 1 : ctx->device_count;
    KIN_THEN(status, kin_index_call_end(&call, make_in(own, from, out)));
    if (status != KITH_OK) {
        free_own(own);
    }
    return status;
}

kith_status kith_index_create(kith_ctx *ctx, const kith_matrix *points,
                              const kith_index_params *params, kith_index **out)
{
    origin from = {.points = points, .given = params};
    kin_clear_out(out);
    KIN_CALL(ctx, make(ctx, &from, out));
}

kith_status kith_cuda_index_create(kith_ctx *ctx, const kith_matrix *points,
                                   const kith_index_params *params, kith_index **out, void *stream)
{
    origin from = {.points = points, .given = params, .on_device = true, .stream = stream};
    kin_clear_out(out);
    KIN_CALL(ctx, make(ctx, &from, out));
}

kith_status kith_index_open(kith_ctx *ctx, const char *path, kith_index **out)
{
    origin from = {.opens = true, .path = path};
    kin_clear_out(out);
    KIN_CALL(ctx, make(ctx, &from, out));
}

/* ---- Asked ----------------------------------------------------------------------------------- */

/* With links both ways. */
static uint64_t bytes_of(const kin_index_kept *kept, const kin_index_copy *copy)
{
    const int64_t rows = kept->prepared.rows.matrix.rows;
    if (copy == NULL) {
        return 0;
    }
    return 2 * (uint64_t)(rows * kept->graph.k) * sizeof *kept->graph.ids +
           (copy->resident != NULL ? kin_exact_gpu_corpus_bytes(copy->resident)
                                   : kin_tree_gpu_corpus_bytes(&copy->planted));
}

kith_status kith_index_inspect(const kith_index *index, kith_index_info *info)
{
    if (index == NULL || info == NULL || info->struct_size < sizeof info->struct_size) {
        return KITH_E_ARGUMENT;
    }
    kin_guard_enter(index->guard, false);
    const kin_index_kept *kept = index->kept;
    const kith_matrix *points = &kept->prepared.rows.matrix;
    const uint64_t rows =
        index->rows != NULL ? (uint64_t)points->rows * (uint64_t)points->stride_bytes : 0;
    uint64_t there = 0;
    for (int32_t i = 0; i < KIN_GPU_TEAM_MOST; i++) {
        there += bytes_of(kept, kept->copies[i]);
    }
    const kith_index_info known = {.metric = kept->prepared.distance.metric,
                                   .method = index->method,
                                   .device = index->gpu != NULL ? index->gpu->index : -1,
                                   .points = *points,
                                   .k = kept->graph.k,
                                   .bytes = atomic_load(&index->own->held_bytes) - rows + there,
                                   .period = index->period};
    kin_fill_room(info, &known, sizeof known);
    kin_guard_leave(index->guard);
    return KITH_OK;
}
