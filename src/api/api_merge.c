/* SPDX-License-Identifier: Apache-2.0
 * Two approximate graphs made one: a descent that begins with both. */
#include "api/api_merge.h"

#include "api/api_call.h"
#include "api/api_device.h"
#include "base/base_try.h"

/* What the caller gave is a descent's, but for its start. */
static kith_status check_params(kith_ctx *ctx, const kith_descent_params *given,
                                kith_descent_params *params)
{
    *params = kith_descent_params_default();
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_descent_params, flags), given, params));
    if (params->init != NULL || (int)params->start == KITH_START_GRAPH) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at(params->init != NULL ? "init" : "start"),
                           "is %s, and a merge begins with its two graphs (leave it out)",
                           params->init != NULL ? "set" : "KITH_START_GRAPH");
    }
    return KITH_OK;
}

kith_status kin_merge_check_job(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                                const kith_neighbors *graph1, const kith_neighbors *graph2,
                                const kith_descent_params *given, uint32_t place,
                                const kith_neighbors *out, kin_merge_job *job)
{
    kith_descent_params params;
    kin_graph_request *request = &job->descent.request;
    KIN_TRY(check_params(ctx, given, &params));
    KIN_TRY(kin_descent_check(ctx, points, &params, place, out, &job->descent));
    KIN_TRY(kin_merge_check(ctx, points, first_rows, graph1, graph2, params.k, params.flags, place,
                            &job->sets));
    KIN_TRY(kin_merge_check_known(ctx, &job->sets, request->distance.metric, place));
    const bool one_sided = first_rows == 0 || first_rows == points->rows;
    request->by_chance = request->start == KIN_GRAPH_START_RANDOM;
    request->start = KIN_GRAPH_START_GRAPH;
    request->init = first_rows == 0 ? &job->sets.graph[1] : &job->sets.graph[0];
    request->init2 = one_sided ? NULL : &job->sets.graph[1];
    request->split = one_sided ? 0 : first_rows;
    return KITH_OK;
}

static kith_status merge(kith_ctx *ctx, const kin_merge_job *m, const kith_neighbors *out,
                         kith_descent_report *report)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_descent_report"));
    KIN_TRY(kin_descent_enter(ctx, &m->descent, &gpu));
    if (gpu != NULL) {
        const kith_status status = kin_descent_run(ctx, gpu, &m->descent, 0, out, report);
        kin_device_leave(ctx, gpu);
        if (!kin_device_yields(ctx, status)) {
            return status;
        }
    }
    return kin_descent_run(ctx, NULL, &m->descent, 0, out, report);
}

kith_status kith_graph_merge(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                             const kith_neighbors *graph1, const kith_neighbors *graph2,
                             const kith_descent_params *params, const kith_neighbors *out,
                             kith_descent_report *report)
{
    kin_call call;
    kin_merge_job m;
    memset(&m, 0, sizeof m);
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status =
        kin_merge_check_job(ctx, points, first_rows, graph1, graph2, params, 0, out, &m);
    if (status == KITH_OK) {
        status = merge(ctx, &m, out, report);
    }
    return kin_call_end(&call, status);
}
