/* SPDX-License-Identifier: Apache-2.0
 * Search by walks on a graph: arguments, of one call and of an index, and the one call. */
#include "api/api_check.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "file/file_checksum.h"

enum { USUAL_SAMPLE = 1000, USUAL_AT = 10, USUAL_WIDTH = 64 };

/* ---- Arguments ------------------------------------------------------------------------------ */

static kith_status check_recall(kith_ctx *ctx, const kith_search_params *params,
                                const kith_walk_params *walk)
{
    if (!(params->recall >= 0.0 && params->recall <= 1.0)) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("recall"), "is %g, must be 0 to 1",
                           params->recall);
    }
    if (params->recall_at < 0 || params->recall_at > params->k) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("recall_at"),
                           "is %lld, must be 0 to k, %lld", (long long)params->recall_at,
                           (long long)params->k);
    }
    if (params->recall > 0.0 && walk->width != 0) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("recall"),
                           "is %g and width is %lld, which a recall chooses (leave one out)",
                           params->recall, (long long)walk->width);
    }
    if (walk->sample < -1 || (walk->sample == -1 && params->recall > 0.0)) {
        return kin_fail_at(
            ctx, KITH_E_ARGUMENT, kin_at("sample"),
            "is %lld, must be at least 1 (or 0: %d; or, where no recall is wanted, -1: none)",
            (long long)walk->sample, (int)USUAL_SAMPLE);
    }
    return KITH_OK;
}

static kith_status check_walk(kith_ctx *ctx, const kith_walk_params *walk, int64_t k)
{
    if (walk->width != 0 && walk->width < k) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("width"),
                           "is %lld, must be at least k, %lld (left out: by k, or by a recall)",
                           (long long)walk->width, (long long)k);
    }
    return walk->meets >= 0
               ? KITH_OK
               : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("meets"),
                             "is %lld, must be at least 1 (or 0: what serves many queries at once)",
                             (long long)walk->meets);
}

/* What is of exact searches alone. */
static kith_status refuse_exact(kith_ctx *ctx, const kith_search_params *params)
{
    static const char *const why = "%s, and walks on a graph have none (leave it out)";
    if (params->filter != NULL || params->exclude != NULL) {
        return kin_fail_at(ctx, KITH_E_UNSUPPORTED,
                           kin_at(params->filter != NULL ? "filter" : "exclude"), why, "is set");
    }
    if (params->flags != 0 || params->pipeline != KITH_PIPELINE_FUSED) {
        return kin_fail_at(ctx, KITH_E_UNSUPPORTED,
                           kin_at(params->flags != 0 ? "flags" : "pipeline"), why, "is not 0");
    }
    return params->tree_height == 0 && params->leaf_buffer == 0 && params->batch == 0
               ? KITH_OK
               : kin_fail_at(ctx, KITH_E_UNSUPPORTED,
                             kin_at(params->tree_height != 0   ? "tree_height"
                                    : params->leaf_buffer != 0 ? "leaf_buffer"
                                                               : "batch"),
                             why, "is not 0");
}

/* With the zeros that mean a default. */
static void take_job(const kith_search_params *params, const kith_walk_params *walk, int64_t points,
                     kin_walks_search *job)
{
    const bool wants = params->recall > 0.0;
    const int64_t usual = kin_max_i64((int64_t)USUAL_WIDTH, 2 * params->k);
    const int64_t width = wants ? params->k : usual;
    const int64_t sample = walk->sample != 0 ? walk->sample : wants ? (int64_t)USUAL_SAMPLE : -1;
    job->width = kin_min_i64(walk->width == 0 ? width : walk->width, points);
    job->recall = params->recall;
    job->recall_at =
        params->recall_at == 0 ? kin_min_i64((int64_t)USUAL_AT, params->k) : params->recall_at;
    job->sample = sample < 0 ? 0 : kin_min_i64(sample, job->queries.rows);
    job->seed = params->seed;
    job->meets = walk->meets;
}

kith_status kin_api_check_walk(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *queries,
                               const kith_search_params *params, const kith_neighbors *out,
                               kin_walk_call *call)
{
    kin_walks_search *job = &call->job;
    call->walk = kith_walk_params_default();
    KIN_TRY(params->walk == NULL ? KITH_OK
                                 : kin_take_params(ctx, KIN_GROWS(kith_walk_params, width),
                                                   params->walk, &call->walk));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &job->queries));
    KIN_TRY(kin_check_cols(ctx, points, "the corpus", &job->queries, "queries"));
    KIN_TRY(kin_check_output(ctx, params->k, points->rows, "the corpus has no more rows", out,
                             job->queries.rows));
    KIN_TRY(refuse_exact(ctx, params));
    KIN_TRY(check_recall(ctx, params, &call->walk));
    KIN_TRY(check_walk(ctx, &call->walk, params->k));
    KIN_TRY(kin_check_room(ctx, params->walk_report, "walk_report", "kith_walk_report"));
    job->out = out;
    take_job(params, &call->walk, points->rows, job);
    return KITH_OK;
}

/* ---- One call ------------------------------------------------------------------------------- */

kith_status kin_api_walk(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kith_search_params *params, const kith_neighbors *out)
{
    kin_walks_source source = {.name = "corpus"};
    kin_walk_call call;
    kith_walk_report told;
    KIN_TRY(kin_check_matrix(ctx, corpus, "corpus", &source.points));
    KIN_TRY(kin_check_metric(ctx, params->metric, params->custom, params->custom_arg,
                             source.points.cols, &source.distance));
    KIN_TRY(kin_api_check_walk(ctx, &source.points, queries, params, out, &call));
    source.graph = call.walk.graph;
    KIN_TRY(kin_check_graph(ctx, source.graph, source.points.rows));
    KIN_TRY(
        kin_fingerprint_check(ctx, source.graph, "graph", &source.points, source.distance.metric));
    source.asked = call.job.queries.dtype;
    source.k = params->k;
    KIN_TRY(kin_engine_walks(ctx, &source, &call.job, &told));
    kin_fill_room(params->walk_report, &told, sizeof told);
    return KITH_OK;
}
