/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_exact.h"

#include "papers/papers.h"
#include "tree/tree_cost.h"

const kin_pipeline *kin_pipeline_of(kith_pipeline number)
{
    const kin_pipeline *pipeline = NULL;
    (void)kin_papers_pipeline(number, &pipeline);
    return pipeline;
}

kin_request kin_engine_request(const kith_search_params *params, const kin_distance *distance)
{
    return (kin_request){.distance = *distance,
                         .k = params->k,
                         .flags = params->flags,
                         .exclude = params->exclude,
                         .pipeline = kin_pipeline_of(params->pipeline),
                         .select = kin_papers_select_method(params->select),
                         .method = params->method,
                         .sample = params->sample,
                         .batch = params->batch,
                         .limited = (params->flags & KITH_WITHIN_RADIUS) != 0,
                         .radius = params->radius,
                         .tree_height = params->tree_height,
                         .leaf_buffer = params->leaf_buffer};
}

/* Why there is no GPU for this job. */
static const char *missing(const kith_ctx *ctx, const kin_request *request)
{
    if (ctx->device == KIN_DEVICE_CPU) {
        return "the device cpu was asked for";
    }
    if (request->distance.metric == KITH_CUSTOM) {
        return "metric is custom, which a GPU cannot call";
    }
    return kin_gpu_reason() != NULL ? kin_gpu_reason() : "it is not what this call computes on";
}

bool kin_pipeline_needs_gpu(const kin_request *request)
{
    return request->pipeline != NULL && request->pipeline->run == NULL;
}

static bool makes_tree(const kin_request *request)
{
    return request->pipeline != NULL && request->pipeline->tree;
}

kith_status kin_pipeline_check_cpu(kith_ctx *ctx, const kin_request *request)
{
    if (!kin_pipeline_needs_gpu(request)) {
        return KITH_OK;
    }
    return kin_fail_at(ctx, KITH_E_UNSUPPORTED, kin_at("pipeline"),
                       "is %s, which selects from what a GPU computes, and there is none: %s (use "
                       "fused or matrix)",
                       request->pipeline->name, missing(ctx, request));
}

kith_status kin_pipeline_enter(kith_ctx *ctx, const kin_request *request, double pairs,
                               kin_gpu **gpu)
{
    static const double WORTH_A_GPU = 1e300;
    const bool needed = kin_pipeline_needs_gpu(request);
    *gpu = NULL;
    KIN_TRY(kin_method_check(ctx, request));
    if (request->pipeline != NULL && request->pipeline->gpu == NULL) { /* of the processors */
        return ctx->device == KIN_DEVICE_CUDA
                   ? kin_method_refuse_tree(ctx, request, "both directions at once have none")
                   : KITH_OK;
    }
    KIN_TRY(kin_device_enter(ctx, &request->distance, needed ? WORTH_A_GPU : pairs, gpu));
    return *gpu != NULL ? KITH_OK : kin_pipeline_check_cpu(ctx, request);
}

/* ---- All pairs, or the tree ----------------------------------------------------------------- */

kith_status kin_method_check(kith_ctx *ctx, const kin_request *request)
{
    KIN_REFUSE_IF(request->distance.period != NULL && request->pipeline != NULL, ctx, "period",
                  "is set, and the pipeline %s has none (leave one out)", request->pipeline->name);
    if (request->method != KITH_METHOD_TREE && !makes_tree(request)) {
        return KITH_OK;
    }
    KIN_REFUSE_IF(!kin_tree_allows(request->distance.metric), ctx, "metric",
                  "is %s, which has no tree (euclidean, sqeuclidean, manhattan, chebyshev and "
                  "haversine have; or compare all pairs)",
                  request->distance.metric == KITH_CUSTOM
                      ? "a function"
                      : kith_metric_name(request->distance.metric));
    KIN_REFUSE_IF(kin_place_has(request->distance.metric) && request->pipeline != NULL, ctx,
                  "metric", "is haversine, of which the pipeline %s has no tree (leave one out)",
                  request->pipeline->name);
    KIN_ALLOW_IF(request->method != KITH_METHOD_TREE || request->pipeline == NULL, ctx, "method",
                 "is tree, and the pipeline %s is another way (leave one out)",
                 request->pipeline->name);
}

kith_status kin_method_check_height(kith_ctx *ctx, int32_t height, int64_t rows)
{
    const int32_t most = kin_tree_most_height(rows);
    KIN_ALLOW_IF(height >= 0 && height <= most, ctx, "tree_height",
                 "is %d, must be 0 to %d for %lld rows (0: chosen by the number of columns)",
                 (int)height, (int)most, (long long)rows);
}

kith_status kin_method_refuse_tree(kith_ctx *ctx, const kin_request *request, const char *why)
{
    KIN_FAIL_IF(makes_tree(request), ctx, KITH_E_UNSUPPORTED, kin_at("pipeline"),
                "is %s, which makes a tree, and %s (leave it out)", request->pipeline->name, why);
    KIN_FAIL_IF(request->tree_height != 0 && request->method != KITH_METHOD_TREE, ctx,
                KITH_E_UNSUPPORTED, kin_at("tree_height"), "is %d, and %s (leave it out)",
                (int)request->tree_height, why);
    KIN_PASS_IF(request->method != KITH_METHOD_TREE, ctx, KITH_E_UNSUPPORTED, kin_at("method"),
                "asks for a tree, and %s (leave it out)", why);
}

kith_status kin_method_check_gpu(kith_ctx *ctx, const kin_request *request)
{
    const char *why = kin_tree_gpu_missing(request);
    return why != NULL ? kin_method_refuse_tree(ctx, request, why) : KITH_OK;
}

/* Where a tree is the processor's alone: whether it is done before a GPU has compared all pairs. */
static bool tree_is_sooner(const kith_ctx *ctx, const kin_request *request, double points,
                           double queries, double pairs)
{
    return kin_tree_gpu_missing(request) != NULL &&
           kin_device_seconds_of_tree(ctx, points, queries).cpu <
               kin_device_seconds_of_pairs(ctx, &request->distance, pairs).gpu;
}

kith_status kin_method_enter(kith_ctx *ctx, const kin_request *request, const kith_matrix *corpus,
                             const kith_matrix *queries, kin_gpu **gpu)
{
    const double rows = (double)corpus->rows;
    *gpu = NULL;
    KIN_TRY(kin_method_check(ctx, request));
    if (request->method != KITH_METHOD_TREE && !makes_tree(request)) {
        const double asked = queries != NULL ? (double)queries->rows : rows;
        const double pairs = queries != NULL ? rows * asked : rows * rows / 2.0;
        const bool stays = ctx->device == KIN_DEVICE_AUTO &&
                           kin_method_takes_tree(request, corpus, queries) &&
                           tree_is_sooner(ctx, request, rows, asked, pairs);
        return stays ? KITH_OK : kin_pipeline_enter(ctx, request, pairs, gpu);
    }
    if (ctx->device == KIN_DEVICE_CUDA) {
        KIN_TRY(kin_method_check_gpu(ctx, request));
    }
    return kin_tree_gpu_missing(request) != NULL
               ? KITH_OK
               : kin_device_enter_tree(ctx, &request->distance, rows,
                                       queries != NULL ? (double)queries->rows : rows, gpu);
}

bool kin_method_takes_tree(const kin_request *request, const kith_matrix *corpus,
                           const kith_matrix *queries)
{
    if (request->method != KITH_METHOD_AUTO || request->pipeline != NULL) {
        return request->method == KITH_METHOD_TREE;
    }
    const int64_t rows = queries != NULL ? queries->rows : corpus->rows;
    const kin_tree_cost cost = kin_tree_cost_of(request, corpus->rows, rows, queries == NULL);
    return kin_tree_chance_of(&cost) != KIN_TREE_NO_CHANCE;
}

void kin_method_set_few(kin_request *request, const kith_matrix *corpus, const kith_matrix *queries)
{
    const bool screens = request->pipeline == NULL && kin_is_screened(&request->distance);
    request->compares = screens && request->method == KITH_METHOD_AUTO &&
                        kin_tree_compares(request, corpus->rows, queries->rows);
    request->unordered = screens && kin_tree_stays(request, corpus->rows, queries->rows);
}

bool kin_method_goes_twice(const kin_request *request, const kith_matrix *one,
                           const kith_matrix *other)
{
    return kin_method_takes_tree(request, one, other) && kin_method_takes_tree(request, other, one);
}

/* ---- On a GPU -------------------------------------------------------------------------------- */

bool kin_method_takes_tree_gpu(const kin_request *request, const kith_matrix *corpus,
                               const kith_matrix *queries)
{
    if (request->method != KITH_METHOD_AUTO || request->pipeline != NULL) {
        return kin_tree_gpu_named(request);
    }
    return kin_tree_gpu_missing(request) == NULL &&
           kin_tree_gpu_worth_trying(corpus, queries, request);
}

kith_status kin_method_knn_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_knn_job *job,
                                  uint32_t place, const kith_neighbors *out)
{
    const kith_matrix *queries = kin_knn_queries(job);
    const kin_exact_gpu_query query = {queries, job->graph ? "points" : "queries", &job->request,
                                       place, out};
    bool declined = true;
    if (kin_method_takes_tree_gpu(&job->request, &job->corpus, queries)) {
        KIN_TRY(kin_tree_gpu_search(ctx, gpu, &job->corpus, &query, &declined));
    }
    return declined ? kin_exact_gpu_search(ctx, gpu, &job->corpus, &query) : KITH_OK;
}
