/* SPDX-License-Identifier: Apache-2.0
 * An index in a .kith file, and back: what an exact one and a tree have is written by their rooms
 * (exact_store.h, tree.h); of a graph there are
 *
 *     "points"   which every reader of points knows
 *     "index"    what the graph shall be when it is changed: facts
 *     "ids"      rows x k */
#include "base/base_mem.h"
#include "base/base_try.h"
#include "exact/exact_store.h"
#include "index/index.h"

#include <assert.h>

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

static kith_status save_graph(kith_ctx *ctx, const kith_index *index, const char *path)
{
    const kin_index_kept *kept = index->kept;
    const kith_matrix *points = &kept->prepared.rows.matrix;
    const kin_container_header header = {.kind = KITH_KIND_GRAPH_INDEX,
                                         .dtype = points->dtype,
                                         .metric = kept->prepared.distance.metric,
                                         .rows = points->rows,
                                         .cols = points->cols,
                                         .k = kept->graph.k};
    const facts f = {.version = STORE_VERSION,
                     .wanted = index->wanted,
                     .recall = index->recall,
                     .seed = index->seed};
    kin_storing storing = {.count = 0};
    KIN_FAIL_IF(header.metric == KITH_CUSTOM, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "the metric of the index is a function, which no file holds (save its "
                "points and graph)");
    storing.sections[storing.count++] = (kin_section){.tag = KIN_TAG_POINTS, .matrix = points};
    kin_store_add(&storing, TAG_FACTS, &f, 1, sizeof f);
    kin_store_add(&storing, KIN_TAG_IDS, kept->graph.ids, points->rows,
                  (uint64_t)kept->graph.k * sizeof *kept->graph.ids);
    return kin_container_write(ctx, path, &header, storing.sections, storing.count);
}

static kith_status save_kept(kith_ctx *ctx, kith_method method, const kin_index_kept *kept,
                             const char *path)
{
    return method == KITH_METHOD_TREE ? kin_tree_store_save(ctx, path, &kept->prepared, &kept->tree)
                                      : kin_store_save(ctx, path, &kept->prepared);
}

/* Of one on a GPU: what the processor would keep is made for the file. */
static kith_status save_from_gpu(kith_ctx *ctx, const kith_index *index, const char *path)
{
    kin_index_kept made = {.fused = NULL};
    kin_index_source source = {.distance = index->kept->prepared.distance,
                               .name = "points",
                               .leaf_points = index->kept->planted.leaf_points};
    void *copy = NULL;
    source.distance.isa = ctx->isa;
    kith_status status = kin_index_host_rows(ctx, index, &source.points, &copy);
    KIN_THEN(status, index->method == KITH_METHOD_TREE
                         ? kin_index_keep_cpu(ctx, &source, index->method, &made)
                         : kin_index_prepare(ctx, &source, &made.prepared));
    KIN_THEN(status, save_kept(ctx, index->method, &made, path));
    kin_tree_free(ctx, &made.tree);
    kin_prepared_free(ctx, &made.prepared);
    kin_free(ctx, copy);
    return status;
}

static kith_status save(kith_ctx *ctx, const kith_index *index, const char *path)
{
    if (index->method == KITH_METHOD_GRAPH) {
        return save_graph(ctx, index, path);
    }
    return index->gpu != NULL ? save_from_gpu(ctx, index, path)
                              : save_kept(ctx, index->method, index->kept, path);
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
    if (kin_exact_screens(&source->distance)) {
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

static kith_status load_graph(kith_ctx *ctx, const kin_index_source *source, kith_index *index)
{
    const int64_t k = kin_container_get_header(index->container)->k;
    KIN_TRY(kin_index_refuse_gpu(ctx, KITH_METHOD_GRAPH));
    bind_views(source, index);
    KIN_TRY(view_graph(ctx, source->points.rows, k, index));
    return kin_index_keep_walks(ctx, source, index->kept);
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
    return kin_index_take_period(ctx, distance, index);
}

kith_status kin_index_load(kith_ctx *ctx, const char *path, kith_index *index)
{
    kin_index_source source = {.name = path};
    kith_matrix points;
    kith_metric metric;
    KIN_TRY(kin_container_open(ctx, path, true, &index->container));
    KIN_TRY(kin_store_points(ctx, path, index->container, &points, &metric));
    KIN_TRY(kin_check_matrix(ctx, &points, path, &source.points));
    KIN_TRY(kin_check_metric(ctx, metric, NULL, NULL, source.points.cols, &source.distance));
    KIN_TRY(load_period(ctx, &source.distance, index));
    switch (kin_container_get_header(index->container)->kind) {
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
