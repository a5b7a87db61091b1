/* SPDX-License-Identifier: Apache-2.0
 * What an approximate graph will take, and whether it is worth being approximate. */
#include "api/api_check.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_device.h"
#include "graph/graph_word.h"
#include "host/host_cpu.h"
#include "tree/tree_cost.h"

#include <math.h>
#include <stdio.h>

/* Seconds of a descent to a recall of about 0.99: a row, and each of its values. The lists cost
 * most in few columns, distances in many. The processor's are of a thread. Exact engines read rows
 * in order and in narrow types, a descent reads them here and there, so that a pair costs it more,
 * and the number of its pairs grows with the rows instead of their square: the lines cross near
 * 150,000 rows of 128 columns on two threads with AMX, and near a million on a GPU. Data of many
 * dimensions in earnest take some times longer, others less: nobody knows before. */
static const double CPU_ROW = 2e-5;
static const double CPU_VALUE = 5e-9;
static const double CPU_DIRECT_VALUE = 2e-7; /* metrics without matrix products */
static const double GPU_ROW = 2e-7;
static const double GPU_VALUE = 1.5e-9;
static const double GPU_DIRECT_VALUE = 5e-9;

/* Of exact answers we are certain, of these rates within some tens of percent. */
static const double IN_DOUBT = 0.7;

static double seconds_of_descent(const kith_ctx *ctx, const kin_descent_job *job, bool gpu)
{
    const bool screens = kin_exact_screens(&job->request.distance);
    const double rows = (double)job->points.rows;
    const double cols = (double)job->points.cols;
    if (gpu) {
        return rows * (GPU_ROW + cols * (screens ? GPU_VALUE : GPU_DIRECT_VALUE));
    }
    return rows * (CPU_ROW + cols * (screens ? CPU_VALUE : CPU_DIRECT_VALUE)) /
           (double)ctx->threads;
}

static double seconds_of_exact(const kith_ctx *ctx, const kin_descent_job *job, bool gpu)
{
    const kin_request request = {.distance = job->request.distance, .k = job->request.k};
    const int64_t rows = job->points.rows;
    const kin_tree_cost cost = kin_tree_cost_of(&request, rows, rows, true);
    const bool tree = kin_tree_chance_of(&cost) == KIN_TREE_LIKELY;
    const kin_device_seconds seconds =
        tree ? kin_device_seconds_of_tree(ctx, (double)rows, (double)rows)
             : kin_device_seconds_of_pairs(ctx, &job->request.distance,
                                           (double)rows * (double)rows / 2.0);
    return gpu ? seconds.gpu : seconds.cpu;
}

kith_status kin_descent_finds_gpu(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu)
{
    KIN_TRY(kin_descent_enter(ctx, job, gpu));
    if (*gpu != NULL) {
        kin_gpu_leave(*gpu);
    }
    return KITH_OK;
}

/* A descent on a GPU has no batches: where it does not fit, "auto" goes on with the processor. */
static bool fits(const kin_descent_job *job, const kin_gpu *gpu)
{
    kin_graph_request request = job->request;
    kin_graph_gpu_defaults(&request, job->points.rows);
    return kin_graph_gpu_bytes(&job->points, &request, 0) <= kin_gpu_room(gpu);
}

/* Whether lists are of hubs, and a GPU's start knows none: of many rows it has no relatives
 * (graph_relative_gpu.c). Rounds then may end without the recall that is wanted, so that exact
 * graphs are the sooner ones. */
static bool is_lost(const kin_descent_job *job, const kin_gpu *gpu)
{
    const kith_metric metric = job->request.distance.metric;
    kin_graph_request request = job->request;
    kin_graph_gpu_defaults(&request, job->points.rows);
    return gpu != NULL && request.related < 0 &&
           (metric == KITH_INNER_PRODUCT || metric == KITH_KL);
}

kith_status kin_descent_estimate(kith_ctx *ctx, const kin_descent_job *job, const kin_gpu *gpu,
                                 double scale, kith_descent_estimate *own,
                                 kith_descent_estimate *out)
{
    if (out == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("estimate"),
                           "is NULL (give a kith_descent_estimate, its struct_size set)");
    }
    KIN_TRY(kin_check_room(ctx, out, "estimate", "kith_descent_estimate"));
    own->seconds_descent += scale * seconds_of_descent(ctx, job, gpu != NULL && fits(job, gpu));
    if (is_lost(job, gpu)) {
        own->seconds_descent = fmax(own->seconds_descent, own->seconds_exact);
    }
    own->pays = job->points.rows <= KIN_GRAPH_MOST_POINTS &&
                own->seconds_descent < IN_DOUBT * own->seconds_exact;
    kin_fill_room(out, own, sizeof *own);
    return KITH_OK;
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
    KIN_TRY(kin_descent_finds_gpu(ctx, &job, &gpu));
    if (estimate != NULL) {
        kith_descent_estimate own = {.seconds_exact = seconds_of_exact(ctx, &job, gpu != NULL)};
        KIN_TRY(kin_descent_estimate(ctx, &job, gpu, 1.0, &own, estimate));
    }
    if (plan_out == NULL) {
        return KITH_OK;
    }
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
