/* SPDX-License-Identifier: Apache-2.0
 * What an approximate graph will take. */
#include "api/api_check.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_cost.h"
#include "engine/engine_device.h"
#include "host/host_cpu.h"

#include <stdio.h>

kith_status kin_descent_check_estimate(kith_ctx *ctx, const kith_descent_estimate *out)
{
    return out == NULL ? kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("estimate"),
                                     "is NULL (give a kith_descent_estimate, its struct_size set)")
                       : kin_check_room(ctx, out, "estimate", "kith_descent_estimate");
}

/* Rows of the samples: ids, a K-th and K distances each. */
static uint64_t sample_bytes(const kin_descent_job *job)
{
    enum { ROW_BYTES = 32 };
    return kin_size_mul(2 * (uint64_t)job->sample, ROW_BYTES + 8 * (uint64_t)job->at);
}

/* On the processor; known: of the rows. */
static void plan_cpu(const kith_ctx *ctx, const kin_descent_job *job,
                     const kin_graph_request *given, kin_rows_known known, kith_plan *plan)
{
    kin_graph_request request = *given;
    kin_recall_control control = {.count = job->sample, .at = job->at};
    request.control = job->sample > 0 ? &control : NULL;
    const uint64_t most = kin_graph_bytes(&job->points, &request, known, ctx->threads, false);
    const uint64_t least = kin_graph_bytes(&job->points, &request, known, ctx->threads, true);
    plan->state_bytes = kin_size_add(plan->state_bytes, most);
    plan->undecided_bytes = most > least ? most - least : 0;
    (void)snprintf(plan->backend, sizeof plan->backend, "cpu");
}

static kith_status plan_of(kith_ctx *ctx, const kin_descent_job *job, const kin_gpu *gpu,
                           kin_rows_known known, kith_plan *out)
{
    KIN_TRY(kin_check_room(ctx, out, "plan", "kith_plan"));
    const uint64_t answers = kin_size_mul((uint64_t)job->points.rows, (uint64_t)job->request.k);
    kin_graph_request request = job->request;
    kin_descent_complete(gpu, job->points.rows, &request);
    kith_plan own = {.threads = ctx->threads,
                     .result_bytes = kin_size_mul(answers, sizeof(uint32_t) + sizeof(float)),
                     .state_bytes = sample_bytes(job)};
    if (gpu == NULL) {
        plan_cpu(ctx, job, &request, known, &own);
    } else {
        own.gpu_bytes = kin_graph_gpu_bytes(&job->points, &request, 0);
        own.gpu_least_bytes = own.gpu_bytes;
        own.gpu_budget_bytes = kin_gpu_room(gpu);
        own.gpu_corpus_chunks = 1;
        own.gpu_query_stripes = 1;
        kin_device_name(gpu, own.backend, sizeof own.backend);
    }
    own.peak_bytes = kin_size_add(own.state_bytes, own.result_bytes);
    (void)snprintf(own.isa, sizeof own.isa, "%s", kin_isa_name(ctx->isa));
    (void)snprintf(own.method, sizeof own.method, "descent");
    kin_fill_room(out, &own, sizeof own);
    return KITH_OK;
}

kith_status kin_descent_check_shape(kith_ctx *ctx, const kith_matrix *points,
                                    const kith_descent_params *params, kin_descent_job *job)
{
    static const char nothing;
    kith_matrix shape = {0};
    if (points != NULL) {
        shape = *points;
        shape.data = shape.data != NULL ? shape.data : &nothing;
    }
    const bool sized =
        params != NULL && params->struct_size >= offsetof(kith_descent_params, flags);
    const kith_neighbors out = {.rows = shape.rows, .k = sized ? params->k : 0};
    return kin_descent_check(ctx, points != NULL ? &shape : NULL, params, 0, &out, job);
}

static kith_status plan(kith_ctx *ctx, const kith_matrix *points, const kith_descent_params *params,
                        kith_plan *plan_out, kith_descent_estimate *estimate)
{
    kin_descent_job job;
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_descent_check_shape(ctx, points, params, &job));
    if (estimate != NULL) {
        kith_descent_estimate own;
        KIN_TRY(kin_descent_check_estimate(ctx, estimate));
        KIN_TRY(kin_cost_descent(ctx, &job, &own));
        kin_fill_room(estimate, &own, sizeof own);
    }
    if (plan_out == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_cost_finds_gpu(ctx, &job, &gpu));
    const kin_distance *distance = &job.request.distance;
    kin_rows_known known = kin_prepare_unknown(&job.points, distance);
    if (gpu == NULL && points->data != NULL && distance->metric != KITH_CUSTOM) {
        KIN_TRY(kin_prepare_know(ctx, &job.points, distance, &known));
    }
    return plan_of(ctx, &job, gpu, known, plan_out);
}

kith_status kith_plan_descent(kith_ctx *ctx, const kith_matrix *points,
                              const kith_descent_params *params, kith_plan *plan_out,
                              kith_descent_estimate *estimate)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, plan(ctx, points, params, plan_out, estimate));
}
