/* SPDX-License-Identifier: Apache-2.0
 * The graph of an index: made, grown and shrunk by the calls for graphs, and the walks over it. */
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

kith_status kin_index_keep_walks(kith_ctx *ctx, kin_gpu *gpu, const kin_index_source *source,
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

void kin_index_walks_free(kith_ctx *ctx, kin_index_walks *walks)
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

/* ---- Made ------------------------------------------------------------------------------------ */

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

/* ---- Changed --------------------------------------------------------------------------------- */

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
