/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_pipeline.h"

#include "base/base_try.h"

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

kith_status kin_pipeline_check_cpu(kith_ctx *ctx, const kin_request *request)
{
    if (request->pipeline != KITH_PIPELINE_HYBRID) {
        return KITH_OK;
    }
    return kin_fail(ctx, KITH_E_UNSUPPORTED,
                    "pipeline is hybrid, which selects from what a GPU computes, and there is "
                    "none: %s (use fused or matrix)",
                    missing(ctx, request));
}

kith_status kin_pipeline_enter(kith_ctx *ctx, const kin_request *request, double pairs,
                               kin_gpu **gpu)
{
    static const double WORTH_A_GPU = 1e300;
    const bool needed = request->pipeline == KITH_PIPELINE_HYBRID;
    KIN_TRY(kin_device_enter(ctx, &request->distance, needed ? WORTH_A_GPU : pairs, gpu));
    return *gpu != NULL ? KITH_OK : kin_pipeline_check_cpu(ctx, request);
}

bool kin_pipeline_yields(kith_ctx *ctx, const kin_request *request, kith_status status)
{
    return request->pipeline != KITH_PIPELINE_HYBRID && kin_device_yields(ctx, status);
}
