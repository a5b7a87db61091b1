/* SPDX-License-Identifier: Apache-2.0
 * What an index keeps of its points on either machine: for all pairs, a tree, and walks. */
#include "host/host_clock.h"
#include "index/index.h"

enum { USUAL_K = 10 };
/* Queries that an index is thought to be made for, where "auto" decides where it lives. */
static const int64_t USUAL_QUERIES = 1000;

/* ---- A period ------------------------------------------------------------------------------- */

kith_status kin_index_take_period(kith_ctx *ctx, kin_distance *distance, kith_index *index)
{
    const size_t count = (size_t)distance->cols;
    if (distance->period != NULL) {
        KIN_TRY(kin_alloc(ctx, &index->period, count, sizeof *index->period, "a period"));
        memcpy(index->period, distance->period, count * sizeof *index->period);
        distance->period = index->period;
    }
    return KITH_OK;
}

/* ---- A tree --------------------------------------------------------------------------------- */

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
    kin_index_walks_free(ctx, kept->graph.walks);
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
        method == KITH_METHOD_GRAPH ? kin_index_keep_walks(ctx, gpu, source, kept) : KITH_OK;
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
           : method == KITH_METHOD_GRAPH ? kin_index_keep_walks(ctx, NULL, source, kept)
                                         : keep_pairs(ctx, source, kept);
}

kith_status kin_index_keep(kith_ctx *ctx, const kin_index_source *source, kith_index *index)
{
    KIN_TRY(kin_index_try_gpu(ctx, source, index));
    return index->gpu != NULL ? KITH_OK
                              : kin_index_keep_cpu(ctx, source, index->method, index->kept);
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
    kin_index_walks_free(ctx, kept->graph.walks);
    if (!views) {
        kin_tree_free(ctx, &kept->tree);
        kin_prepared_free(ctx, &kept->prepared);
    }
    kin_free(ctx, kept);
}
