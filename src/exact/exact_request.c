/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_request.h"

#include "host/host_cpu.h"

#include <stdio.h>

bool kin_exact_screens(const kin_distance *distance)
{
    return distance->period == NULL &&
           kin_metric_get_traits(distance->metric)->screen != KIN_SCREEN_DIRECT;
}

bool kin_exact_job_screens(const kin_request *request)
{
    return request->pipeline == NULL && !request->compares && kin_exact_screens(&request->distance);
}

void kin_exact_note_pipeline(kith_ctx *ctx, const kin_pipeline *pipeline)
{
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "%s", pipeline->name);
}

void kin_exact_report(kith_ctx *ctx, const kin_prepared *corpus)
{
    const char *screen = "direct";
    if (kin_exact_screens(&corpus->distance)) {
        screen =
            corpus->frame.kernel != NULL ? kin_tile_type_name(corpus->frame.kernel->type) : "none";
    }
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "%s", screen);
    (void)snprintf(ctx->report.isa, sizeof ctx->report.isa, "%s", kin_isa_name(ctx->isa));
}
