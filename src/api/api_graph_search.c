/* SPDX-License-Identifier: Apache-2.0
 * Search on a graph: walks that are made for one call, and walks that are kept. */
#include "api/api_check.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_walks.h"
#include "file/file_checksum.h"

enum { USUAL_SAMPLE = 1000, USUAL_AT = 10, USUAL_WIDTH = 64 };

/* ---- Arguments ------------------------------------------------------------------------------ */

static kith_status check_recall(kith_ctx *ctx, const kith_graph_search_params *params)
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
    if (params->recall > 0.0 && params->width != 0) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("recall"),
                           "is %g and width is %lld, which a recall chooses (leave one out)",
                           params->recall, (long long)params->width);
    }
    if (params->sample < -1 || (params->sample == -1 && params->recall > 0.0)) {
        return kin_fail_at(
            ctx, KITH_E_ARGUMENT, kin_at("sample"),
            "is %lld, must be at least 1 (or 0: %d; or, where no recall is wanted, -1: none)",
            (long long)params->sample, (int)USUAL_SAMPLE);
    }
    return KITH_OK;
}

static kith_status check_width(kith_ctx *ctx, const kith_graph_search_params *params)
{
    return params->width == 0 || params->width >= params->k
               ? KITH_OK
               : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("width"),
                             "is %lld, must be at least k, %lld (left out: by k, or by a recall)",
                             (long long)params->width, (long long)params->k);
}

static kith_status check_meets(kith_ctx *ctx, const kith_graph_search_params *params)
{
    return params->meets >= 0
               ? KITH_OK
               : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("meets"),
                             "is %lld, must be at least 1 (or 0: what serves many queries at once)",
                             (long long)params->meets);
}

/* The zeros that mean a default. */
static void complete(kith_graph_search_params *params, int64_t points, int64_t queries)
{
    const int64_t usual = kin_max_i64((int64_t)USUAL_WIDTH, 2 * params->k);
    const int64_t rows = params->sample == 0 ? (int64_t)USUAL_SAMPLE : params->sample;
    const int64_t width = params->recall > 0.0 ? params->k : usual;
    params->width = kin_min_i64(params->width == 0 ? width : params->width, points);
    params->sample = rows < 0 ? 0 : kin_min_i64(rows, queries);
    params->recall_at =
        params->recall_at == 0 ? kin_min_i64((int64_t)USUAL_AT, params->k) : params->recall_at;
}

/* What both kinds of search check alike, once the points and the metric are known. */
static kith_status check_search(kith_ctx *ctx, const kith_matrix *points,
                                const kith_matrix *queries, const kith_neighbors *out,
                                const kith_graph_search_report *report, kin_walks_search *job)
{
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &job->queries));
    KIN_TRY(kin_check_cols(ctx, points, "points", &job->queries, "queries"));
    KIN_TRY(kin_check_output(ctx, job->params.k, points->rows, "there are no more points", out,
                             job->queries.rows));
    KIN_TRY(check_recall(ctx, &job->params));
    KIN_TRY(check_width(ctx, &job->params));
    KIN_TRY(check_meets(ctx, &job->params));
    KIN_TRY(kin_check_room(ctx, report, "report", "kith_graph_search_report"));
    job->out = out;
    complete(&job->params, points->rows, job->queries.rows);
    return KITH_OK;
}

/* ---- One call ------------------------------------------------------------------------------- */

static kith_status search(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *queries,
                          const kith_graph_search_params *params, const kith_neighbors *out,
                          kith_graph_search_report *report)
{
    kin_walks_source source = {0};
    kin_walks_search job;
    kith_graph_search_report known;
    job.params = kith_graph_search_params_default();
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_graph_search_params, width), params, &job.params));
    source.graph = job.params.graph;
    KIN_TRY(kin_check_matrix(ctx, points, "points", &source.points));
    KIN_TRY(kin_check_metric(ctx, job.params.metric, job.params.custom, job.params.custom_arg,
                             source.points.cols, &source.distance));
    KIN_TRY(check_search(ctx, &source.points, queries, out, report, &job));
    KIN_TRY(kin_check_graph(ctx, source.graph, source.points.rows));
    KIN_TRY(
        kin_fingerprint_check(ctx, source.graph, "graph", &source.points, source.distance.metric));
    source.asked = job.queries.dtype;
    source.k = job.params.k;
    KIN_TRY(kin_engine_walks(ctx, &source, &job, &known));
    kin_fill_room(report, &known, sizeof known);
    return KITH_OK;
}

kith_status kith_graph_search(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *queries,
                              const kith_graph_search_params *params, const kith_neighbors *out,
                              kith_graph_search_report *report)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, search(ctx, points, queries, params, out, report));
}

/* ---- Kept walks ----------------------------------------------------------------------------- */

static kith_status refuse_gpu(kith_ctx *ctx)
{
    return ctx->device == KIN_DEVICE_CUDA
               ? kin_fail(ctx, KITH_E_UNSUPPORTED,
                          "walks that are kept are the processor's, and the device is cuda (use "
                          "auto or cpu; or kith_graph_search)")
               : KITH_OK;
}

static kith_status take_walks_params(kith_ctx *ctx, const kith_walks_params *given,
                                     kith_walks_params *known)
{
    *known = kith_walks_params_default();
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_walks_params, queries), given, known));
    if (known->queries != KITH_DTYPE_NONE && kith_dtype_bytes(known->queries) == 0) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("queries"),
                           "is %d, must be a kith_dtype (or 0: that of the points)",
                           (int)known->queries);
    }
    return KITH_OK;
}

static kith_status create(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                          const kith_walks_params *given, kith_walks **out)
{
    kith_walks_params params;
    kin_walks_source source = {.graph = graph};
    if (out == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("out"),
                           "is NULL (give room for a pointer)");
    }
    KIN_TRY(take_walks_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &source.points));
    KIN_TRY(kin_check_metric(ctx, params.metric, params.custom, params.custom_arg,
                             source.points.cols, &source.distance));
    KIN_TRY(kin_check_graph(ctx, graph, source.points.rows));
    KIN_TRY(kin_fingerprint_check(ctx, graph, "graph", &source.points, source.distance.metric));
    KIN_TRY(refuse_gpu(ctx));
    source.asked = params.queries == KITH_DTYPE_NONE ? source.points.dtype : params.queries;
    KIN_TRY(kin_walks_make(ctx, NULL, &source, out));
    ctx->report.distinct_rows = (*out)->prepared.groups.count;
    return KITH_OK;
}

kith_status kith_walks_create(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                              const kith_walks_params *params, kith_walks **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, create(ctx, points, graph, params, out));
}

static kith_status check_walks(kith_ctx *ctx, const kith_walks *walks,
                               const kith_graph_search_params *params)
{
    const kin_distance *own = &walks->distance;
    if (params->metric != KITH_METRIC_DEFAULT && params->metric != own->metric) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("metric"),
                           "is %s and the walks were prepared for %s (give 0 or the same)",
                           kith_metric_name(params->metric), kith_metric_name(own->metric));
    }
    if (params->graph != NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("graph"),
                           "is set, and walks that are kept have theirs (leave it out)");
    }
    return params->custom == NULL || params->custom == own->custom
               ? KITH_OK
               : kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("custom"),
                             "is not the function that the walks were prepared for (give NULL or "
                             "the same)");
}

/* Costs of 8-bit points are whole numbers where queries are of their type, and only there. */
static kith_status check_type(kith_ctx *ctx, const kith_walks *walks, const kith_matrix *queries)
{
    if (kin_frame_is_integer(&walks->distance, &walks->points, queries) == walks->integer) {
        return KITH_OK;
    }
    return kin_fail_at(
        ctx, KITH_E_ARGUMENT, kin_at("queries"),
        "are %s, and the walks on %s were prepared for %s (say so in kith_walks_params.queries)",
        kith_dtype_name(queries->dtype), kith_dtype_name(walks->points.dtype),
        walks->integer ? "that type" : "another type");
}

static kith_status search_kept(kith_ctx *ctx, const kith_walks *walks, const kith_matrix *queries,
                               const kith_graph_search_params *params, const kith_neighbors *out,
                               kith_graph_search_report *report)
{
    kin_walks_search job;
    kith_graph_search_report known;
    if (walks == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("walks"), "is NULL (give walks)");
    }
    KIN_TRY(refuse_gpu(ctx));
    job.params = kith_graph_search_params_default();
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_graph_search_params, width), params, &job.params));
    KIN_TRY(check_walks(ctx, walks, &job.params));
    if (job.params.sample == 0 && job.params.recall == 0.0) {
        job.params.sample = -1; /* nobody who asks for one query wants it solved exactly */
    }
    KIN_TRY(check_search(ctx, &walks->points, queries, out, report, &job));
    KIN_TRY(check_type(ctx, walks, &job.queries));
    KIN_TRY(kin_walks_answer(ctx, walks, &job, &known));
    kin_fill_room(report, &known, sizeof known);
    return KITH_OK;
}

kith_status kith_walks_search(kith_ctx *ctx, const kith_walks *walks, const kith_matrix *queries,
                              const kith_graph_search_params *params, const kith_neighbors *out,
                              kith_graph_search_report *report)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, search_kept(ctx, walks, queries, params, out, report));
}

const kith_matrix *kith_walks_points(const kith_walks *walks)
{
    return &walks->points;
}

kith_metric kith_walks_metric(const kith_walks *walks)
{
    return walks->distance.metric;
}

uint64_t kith_walks_bytes(const kith_walks *walks)
{
    return walks->bytes;
}
