/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_corpus.h"

#include "api/api_check.h"
#include "base/base_mem.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_exact.h"
#include "exact/exact_store.h"
#include "host/host_clock.h"
#include "tree/tree_search.h"

enum { USUAL_K = 10 };
/* Queries that a corpus is thought to be made for, where "auto" decides where it lives. */
static const double USUAL_QUERIES = 1000.0;

/* ---- Its own context ------------------------------------------------------------------------ */

kith_status kin_corpus_call_begin(kith_ctx *ctx, kith_ctx *own, kin_corpus_call *call)
{
    const kith_ctx_params kept = own->params;
    const uint64_t held = atomic_load(&ctx->held_bytes);
    own->params = ctx->params;
    own->params.allocate = kept.allocate;
    own->params.release = kept.release;
    own->params.allocate_arg = kept.allocate_arg;
    if (ctx->params.memory_limit != 0) {
        own->params.memory_limit =
            ctx->params.memory_limit > held ? ctx->params.memory_limit - held : 1;
    }
    own->threads = ctx->threads;
    own->isa = ctx->isa;
    own->device = ctx->device;
    own->device_index = ctx->device_index;
    own->device_count = 1; /* of several GPUs the first has it */
    *call = (kin_corpus_call){.ctx = ctx, .own = own};
    return kin_call_begin(own, &call->call);
}

kith_status kin_corpus_call_end(kin_corpus_call *call, kith_status status)
{
    kith_ctx *ctx = call->ctx;
    kith_ctx *own = call->own;
    status = kin_call_end(&call->call, status);
    ctx->report = own->report;
    atomic_fetch_add(&ctx->peak_bytes, own->report.peak_bytes);
    own->params.progress = NULL;
    own->params.log = NULL;
    own->params.memory_limit = 0;
    return status == KITH_OK ? KITH_OK : kin_fail_like(ctx, status, own);
}

kith_status kin_corpus_enter(kith_ctx *ctx, const kith_corpus *corpus)
{
    if (corpus == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("corpus"), "is NULL (give a corpus)");
    }
    kin_guard_enter(corpus->guard, false);
    return KITH_OK;
}

void kin_corpus_leave(kith_ctx *ctx, const kith_corpus *corpus)
{
    atomic_fetch_add(&ctx->peak_bytes, atomic_load(&corpus->own->held_bytes));
    kin_guard_leave(corpus->guard);
}

/* ---- Allocated, freed ----------------------------------------------------------------------- */

/* An empty one. */
static kith_status allocate(kith_ctx *own, kith_corpus **out)
{
    kith_corpus *corpus = NULL;
    KIN_TRY(kin_alloc_zero(own, &corpus, 1, sizeof *corpus, "a corpus"));
    const kith_status status = kin_alloc(own, &corpus->guard, 1, sizeof *corpus->guard, "a lock");
    if (status != KITH_OK) {
        kin_free(own, corpus);
        return status;
    }
    corpus->own = own;
    kin_guard_make(corpus->guard);
    *out = corpus;
    return KITH_OK;
}

/* All but its own context. */
static void release(kith_corpus *corpus)
{
    kith_ctx *ctx = corpus->own;
    if (corpus->fused != NULL) {
        kin_gpu_enter(corpus->gpu);
        kin_fused_corpus_free(ctx, corpus->fused);
        kin_gpu_leave(corpus->gpu);
    } else if (!corpus->views) {
        kin_tree_free(ctx, &corpus->tree);
        kin_prepared_free(ctx, &corpus->prepared);
    }
    kin_free(ctx, corpus->rows);
    kin_container_close(corpus->container);
    kin_guard_free(corpus->guard);
    kin_free(ctx, corpus->guard);
    kin_free(ctx, corpus);
}

static void free_own(kith_ctx *own)
{
    kin_gpu_close(own, own->gpu);
    kin_ctx_delete(own);
}

void kith_corpus_free(kith_corpus *corpus)
{
    if (corpus != NULL) {
        kith_ctx *own = corpus->own;
        release(corpus);
        free_own(own);
    }
}

/* ---- A tree --------------------------------------------------------------------------------- */

static kith_status refuse_gpu(kith_ctx *ctx)
{
    return ctx->device == KIN_DEVICE_CUDA
               ? kin_fail(ctx, KITH_E_UNSUPPORTED,
                          "a prepared tree is the processor's, and the device is cuda (use auto or "
                          "cpu; or search the points themselves)")
               : KITH_OK;
}

static kith_status grow_tree(kith_ctx *ctx, int64_t leaf_points, kith_corpus *corpus)
{
    const kin_prepared *prepared = &corpus->prepared;
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_tree_make(ctx, prepared, leaf_points, &corpus->tree));
    ctx->report.seconds_check = prepared->seconds_check;
    ctx->report.seconds_prepare = prepared->seconds_prepare + kin_clock_since(start);
    ctx->report.distinct_rows = prepared->groups.count;
    return KITH_OK;
}

static kith_status make_tree(kith_ctx *ctx, const kith_matrix *points, const kin_distance *distance,
                             int32_t height, kith_corpus *corpus)
{
    const kin_request request = {.distance = *distance, .method = KITH_METHOD_TREE};
    KIN_TRY(refuse_gpu(ctx));
    KIN_TRY(kin_method_check(ctx, &request));
    KIN_TRY(kin_method_check_height(ctx, height, points->rows));
    corpus->has_tree = true;
    KIN_TRY(kin_prepare_rows(ctx, points, distance, "points", 0, &corpus->prepared));
    return grow_tree(
        ctx, kin_tree_leaf_points_of(points->cols, corpus->prepared.groups.count, height), corpus);
}

/* Of corpus->container. */
static kith_status open_tree(kith_ctx *ctx, const char *path, const kith_matrix *points,
                             const kin_distance *distance, kith_corpus *corpus)
{
    bool usable = false;
    KIN_TRY(refuse_gpu(ctx));
    corpus->has_tree = true;
    corpus->views = true; /* whatever there is of it on failure */
    corpus->prepared = (kin_prepared){.rows.matrix = *points, .distance = *distance};
    KIN_TRY(kin_tree_store_view(ctx, corpus->container, &corpus->prepared, &corpus->tree, &usable));
    corpus->views = usable;
    if (usable) {
        return KITH_OK;
    }
    KIN_TRY(kin_prepare_rows(ctx, points, distance, path, 0, &corpus->prepared));
    return grow_tree(ctx, corpus->tree.leaf_points, corpus);
}

/* ---- All pairs ------------------------------------------------------------------------------ */

static kith_status prepare_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                  const char *name, const kin_distance *distance,
                                  kith_corpus *corpus)
{
    const kin_fused_source source = {.matrix = points, .distance = distance, .name = name};
    KIN_TRY(kin_fused_corpus_make(ctx, gpu, &source, points->dtype, USUAL_K, &corpus->fused));
    corpus->gpu = gpu;
    corpus->prepared.rows.matrix = *points;
    corpus->prepared.distance = *distance;
    return KITH_OK;
}

/* Equal types on both sides are what a corpus of bytes waits for. */
static kith_status prepare(kith_ctx *ctx, const kith_matrix *points, const char *name,
                           const kin_distance *distance, kin_prepared *prepared)
{
    const kin_knn_job job = {
        .corpus = *points, .queries = *points, .request = {.distance = *distance, .k = USUAL_K}};
    return kin_engine_prepare(ctx, &job, name, prepared);
}

static kith_status prepare_on_cpu(kith_ctx *ctx, const kith_matrix *points, const char *name,
                                  const kin_distance *distance, kith_corpus *corpus)
{
    KIN_TRY(prepare(ctx, points, name, distance, &corpus->prepared));
    ctx->report.seconds_check = corpus->prepared.seconds_check;
    ctx->report.seconds_prepare = corpus->prepared.seconds_prepare;
    return KITH_OK;
}

/* *done: it was prepared on a GPU. */
static kith_status try_gpu(kith_ctx *ctx, const kith_matrix *points, const char *name,
                           const kin_distance *distance, kith_corpus *corpus, bool *done)
{
    kin_gpu *gpu = NULL;
    *done = false;
    KIN_TRY(kin_device_enter(ctx, distance, (double)points->rows * USUAL_QUERIES, &gpu));
    if (gpu == NULL) {
        return KITH_OK;
    }
    const kith_status status = prepare_on_gpu(ctx, gpu, points, name, distance, corpus);
    kin_device_leave(ctx, gpu);
    *done = status == KITH_OK;
    return kin_device_yields(ctx, status) ? KITH_OK : status;
}

static kith_status create(kith_ctx *ctx, const kith_matrix *points,
                          const kith_corpus_params *params, kith_corpus *corpus)
{
    kith_matrix matrix;
    kin_distance distance;
    KIN_TRY(kin_check_matrix(ctx, points, "points", &matrix));
    KIN_TRY(kin_check_metric(ctx, params->metric, NULL, NULL, matrix.cols, &distance));
    if (params->method == KITH_METHOD_TREE) {
        return make_tree(ctx, &matrix, &distance, params->tree_height, corpus);
    }
    bool done = false;
    KIN_TRY(try_gpu(ctx, &matrix, "points", &distance, corpus, &done));
    return done ? KITH_OK : prepare_on_cpu(ctx, &matrix, "points", &distance, corpus);
}

static kith_status open_file(kith_ctx *ctx, const char *path, kith_corpus *corpus)
{
    kith_matrix points;
    kith_matrix checked;
    kith_metric metric;
    kin_distance distance;
    KIN_TRY(kin_container_open(ctx, path, true, &corpus->container));
    KIN_TRY(kin_store_points(ctx, path, corpus->container, &points, &metric));
    KIN_TRY(kin_check_matrix(ctx, &points, path, &checked));
    KIN_TRY(kin_check_metric(ctx, metric, NULL, NULL, checked.cols, &distance));
    if (kin_container_get_header(corpus->container)->kind == KITH_KIND_TREE) {
        return open_tree(ctx, path, &checked, &distance, corpus);
    }
    bool done = false;
    bool usable = false;
    KIN_TRY(try_gpu(ctx, &checked, path, &distance, corpus, &done));
    if (done) {
        return KITH_OK;
    }
    if (kin_exact_screens(&distance)) {
        corpus->views = true; /* whatever there is of it on failure */
        corpus->prepared = (kin_prepared){.rows.matrix = checked, .distance = distance};
        KIN_TRY(kin_store_view(ctx, corpus->container, &corpus->prepared, &usable));
    }
    corpus->views = usable;
    return usable ? KITH_OK : prepare_on_cpu(ctx, &checked, path, &distance, corpus);
}

/* What a caller's GPU keeps for later is wanted by the corpus'. */
static void trim_gpu(kin_gpu *gpu)
{
    if (gpu != NULL) {
        kin_gpu_enter(gpu);
        kin_gpu_trim(gpu);
        kin_gpu_leave(gpu);
    }
}

/* From points, or from a file where path is not NULL. */
static kith_status make_in(kith_ctx *own, const kith_matrix *points,
                           const kith_corpus_params *params, const char *path, kith_corpus **out)
{
    kith_corpus *corpus = NULL;
    KIN_TRY(allocate(own, &corpus));
    const kith_status status =
        path != NULL ? open_file(own, path, corpus) : create(own, points, params, corpus);
    if (status != KITH_OK) {
        release(corpus);
        return status;
    }
    if (corpus->gpu == NULL) { /* one that was tried */
        kin_gpu_close(own, own->gpu);
        own->gpu = NULL;
    }
    *out = corpus;
    return KITH_OK;
}

static kith_status make(kith_ctx *ctx, const kith_matrix *points, const kith_corpus_params *params,
                        const char *path, kith_corpus **out)
{
    kin_corpus_call call;
    if (out == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("out"),
                           "is NULL (give room for a pointer)");
    }
    kith_ctx *own = kin_ctx_new(&ctx->params);
    if (own == NULL) {
        return kin_fail(ctx, KITH_E_MEMORY, "no memory for a corpus (free some memory)");
    }
    trim_gpu(ctx->gpu);
    kith_status status = kin_corpus_call_begin(ctx, own, &call);
    if (status == KITH_OK) {
        status = kin_corpus_call_end(&call, make_in(own, points, params, path, out));
    }
    if (status != KITH_OK) {
        free_own(own);
    }
    return status;
}

static kith_status take_params(kith_ctx *ctx, const kith_corpus_params *given,
                               kith_corpus_params *known)
{
    *known = kith_corpus_params_default();
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_corpus_params, method), given, known));
    const int method = (int)known->method;
    KIN_TRY(kin_check_method(ctx, method));
    if (known->tree_height != 0 && method != KITH_METHOD_TREE) {
        return kin_fail_at(
            ctx, KITH_E_ARGUMENT, kin_at("tree_height"),
            "is %d and the method is not KITH_METHOD_TREE, which alone has one (set both or none)",
            (int)known->tree_height);
    }
    return KITH_OK;
}

kith_status kith_corpus_create(kith_ctx *ctx, const kith_matrix *points,
                               const kith_corpus_params *params, kith_corpus **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    kin_call call;
    kith_corpus_params known;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = take_params(ctx, params, &known);
    if (status == KITH_OK) {
        status = make(ctx, points, &known, NULL, out);
    }
    return kin_call_end(&call, status);
}

static kith_status check_path(kith_ctx *ctx, const char *path)
{
    if (path == NULL || path[0] == '\0') {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("path"),
                           "is %s, must be the name of a file", path == NULL ? "NULL" : "empty");
    }
    return KITH_OK;
}

kith_status kith_corpus_open(kith_ctx *ctx, const char *path, kith_corpus **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    kin_call call;
    const kith_corpus_params none = kith_corpus_params_default();
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = check_path(ctx, path);
    if (status == KITH_OK) {
        status = make(ctx, NULL, &none, path, out);
    }
    return kin_call_end(&call, status);
}

static kith_status save(kith_ctx *ctx, const kith_corpus *corpus, const char *path)
{
    if (corpus->has_tree) {
        return kin_tree_store_save(ctx, path, &corpus->prepared, &corpus->tree);
    }
    if (corpus->fused == NULL) {
        return kin_store_save(ctx, path, &corpus->prepared);
    }
    kin_prepared prepared;
    const kith_matrix *points = &corpus->prepared.rows.matrix;
    kin_distance distance = corpus->prepared.distance;
    distance.isa = ctx->isa;
    KIN_TRY(prepare(ctx, points, "points", &distance, &prepared));
    const kith_status status = kin_store_save(ctx, path, &prepared);
    kin_prepared_free(ctx, &prepared);
    return status;
}

kith_status kith_corpus_save(kith_ctx *ctx, const kith_corpus *corpus, const char *path)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = check_path(ctx, path);
    if (status == KITH_OK) {
        status = kin_corpus_enter(ctx, corpus);
    }
    if (status == KITH_OK) {
        status = save(ctx, corpus, path);
        kin_corpus_leave(ctx, corpus);
    }
    return kin_call_end(&call, status);
}

void kin_corpus_enter_gpu(const kith_corpus *corpus)
{
    kin_gpu_enter(corpus->gpu);
    corpus->gpu->peak = corpus->gpu->held;
}

static kith_status search_on_gpu(kith_ctx *ctx, const kith_corpus *corpus, const kin_knn_job *job,
                                 const kith_neighbors *out)
{
    kin_corpus_enter_gpu(corpus);
    const kith_status status =
        kin_fused_corpus_search(ctx, corpus->fused, &job->queries, &job->request, 0, out);
    kin_device_leave(ctx, corpus->gpu);
    return status;
}

kith_status kin_corpus_check_metric(kith_ctx *ctx, const kith_corpus *corpus, kith_metric metric)
{
    const kith_metric own = corpus->prepared.distance.metric;
    return metric == KITH_METRIC_DEFAULT || metric == own
               ? KITH_OK
               : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("metric"),
                             "is %s and the corpus was prepared for %s (give 0 or the same)",
                             kith_metric_name(metric), kith_metric_name(own));
}

kith_status kin_corpus_check_search(kith_ctx *ctx, const kith_corpus *corpus,
                                    const kith_search_params *given, kith_search_params *params)
{
    KIN_TRY(kin_check_search_params(ctx, given, params));
    return kin_corpus_check_metric(ctx, corpus, params->metric);
}

static kith_status check_tree_request(kith_ctx *ctx, kin_request *request)
{
    KIN_TRY(refuse_gpu(ctx));
    if (request->tree_height != 0) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("tree_height"),
                           "is %d, and the corpus has its tree already (leave it out)",
                           (int)request->tree_height);
    }
    if (request->method == KITH_METHOD_EXACT) {
        return kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at("method"),
                           "is exact, and the corpus is prepared as a tree (use auto or tree; or "
                           "search its points themselves)");
    }
    request->method = KITH_METHOD_TREE;
    return kin_method_check(ctx, request);
}

kith_status kin_corpus_check_method(kith_ctx *ctx, const kith_corpus *corpus, kin_request *request)
{
    return corpus->has_tree
               ? check_tree_request(ctx, request)
               : kin_method_refuse_tree(ctx, request,
                                        "this corpus was prepared without one, its points may be "
                                        "searched");
}

static kith_status solve(kith_ctx *ctx, const kith_corpus *corpus, kin_knn_job *job,
                         const kith_neighbors *out)
{
    KIN_TRY(kin_corpus_check_method(ctx, corpus, &job->request));
    if (corpus->has_tree) {
        return kin_tree_search(ctx, &corpus->prepared, &corpus->tree, &job->queries, &job->request,
                               out);
    }
    if (corpus->fused != NULL) {
        return search_on_gpu(ctx, corpus, job, out);
    }
    KIN_TRY(kin_pipeline_check_cpu(ctx, &job->request));
    return kin_exact_search(ctx, &corpus->prepared, &job->queries, &job->request, out);
}

static kith_status search(kith_ctx *ctx, const kith_corpus *corpus, const kith_matrix *queries,
                          const kith_search_params *given, const kith_neighbors *out)
{
    kith_search_params params;
    kin_knn_job job = {.corpus = corpus->prepared.rows.matrix,
                       .request.distance = corpus->prepared.distance};
    kin_limit limit;
    KIN_TRY(kin_corpus_check_search(ctx, corpus, given, &params));
    KIN_TRY(kin_api_check_queries(ctx, queries, &params, out, &job));
    KIN_TRY(kin_limit_begin(ctx, &job.request, out, &limit));
    return kin_limit_end(&limit, solve(ctx, corpus, &job, &limit.out));
}

kith_status kith_corpus_search(kith_ctx *ctx, const kith_corpus *corpus, const kith_matrix *queries,
                               const kith_search_params *params, const kith_neighbors *out)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = kin_corpus_enter(ctx, corpus);
    if (status == KITH_OK) {
        status = search(ctx, corpus, queries, params, out);
        kin_corpus_leave(ctx, corpus);
    }
    return kin_call_end(&call, status);
}

const kith_matrix *kith_corpus_points(const kith_corpus *corpus)
{
    return &corpus->prepared.rows.matrix;
}

kith_metric kith_corpus_metric(const kith_corpus *corpus)
{
    return corpus->prepared.distance.metric;
}

uint64_t kith_corpus_bytes(const kith_corpus *corpus)
{
    kin_guard_enter(corpus->guard, false);
    const kith_matrix *points = &corpus->prepared.rows.matrix;
    const uint64_t rows =
        corpus->rows != NULL ? (uint64_t)points->rows * (uint64_t)points->stride_bytes : 0;
    const uint64_t fused = corpus->fused != NULL ? kin_fused_corpus_bytes(corpus->fused) : 0;
    const uint64_t bytes = atomic_load(&corpus->own->held_bytes) - rows + fused;
    kin_guard_leave(corpus->guard);
    return bytes;
}
