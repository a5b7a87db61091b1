/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_pipeline.h"

#include "base/base_try.h"
#include "papers/papers_pipeline.h"
#include "papers/papers_select.h"

const kin_pipeline *kin_pipeline_of(kith_pipeline number)
{
    const kin_pipeline *pipeline = NULL;
    (void)kin_papers_pipeline(number, &pipeline);
    return pipeline;
}

kin_request kin_api_request(const kith_search_params *params, const kin_distance *distance)
{
    return (kin_request){.distance = *distance,
                         .k = params->k,
                         .flags = params->flags,
                         .exclude = params->exclude,
                         .pipeline = kin_pipeline_of(params->pipeline),
                         .select = kin_papers_select_method(params->select),
                         .method = params->method,
                         .sample = params->sample,
                         .radius = params->radius,
                         .tree_height = params->tree_height};
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

static bool needs_gpu(const kin_request *request)
{
    return request->pipeline != NULL && request->pipeline->run == NULL;
}

kith_status kin_pipeline_check_cpu(kith_ctx *ctx, const kin_request *request)
{
    if (!needs_gpu(request)) {
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
    const bool needed = needs_gpu(request);
    KIN_TRY(kin_device_enter(ctx, &request->distance, needed ? WORTH_A_GPU : pairs, gpu));
    return *gpu != NULL ? KITH_OK : kin_pipeline_check_cpu(ctx, request);
}

bool kin_pipeline_yields(kith_ctx *ctx, const kin_request *request, kith_status status)
{
    return !needs_gpu(request) && kin_device_yields(ctx, status);
}
