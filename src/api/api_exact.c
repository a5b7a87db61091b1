/* SPDX-License-Identifier: Apache-2.0
 * Exact search, graphs, prepared corpora, distances: arguments in, one call of a room, report out.
 */
#include "api/api_call.h"
#include "api/api_check.h"
#include "api/api_limit.h"
#include "api/api_method.h"
#include "api/api_pipeline.h"
#include "api/api_search.h"
#include "base/base_mem.h"
#include "base/base_try.h"
#include "exact/exact_type.h"
#include "fused/fused_search.h"
#include "tree/tree_search.h"

static const char *const OF_GRAPH = "a point's own id does not count";
static const char *const OF_SEARCH = "the corpus has no more rows";
static const char *const OF_EXCLUDE = "the corpus has no more rows beside the excluded one";

/* ---- Graph ---------------------------------------------------------------------------------- */

kith_status kin_api_check_graph(kith_ctx *ctx, const kith_matrix *points,
                                const kith_search_params *given, const kith_neighbors *out,
                                kin_graph_job *job)
{
    kith_search_params params;
    kin_distance distance;
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &job->points));
    KIN_TRY(kin_check_metric(ctx, params.metric, params.custom, params.custom_arg, job->points.cols,
                             &distance));
    const bool self = (params.flags & KITH_INCLUDE_SELF) != 0;
    KIN_TRY(kin_check_output(ctx, params.k, job->points.rows - (self ? 0 : 1),
                             self ? OF_SEARCH : OF_GRAPH, out, job->points.rows));
    KIN_TRY(kin_method_check_height(ctx, params.tree_height, job->points.rows));
    KIN_TRY(kin_check_radius(ctx, distance.metric, params.radius));
    job->request = kin_api_request(&params, &distance);
    return KITH_OK;
}

static kith_status solve_graph(kith_ctx *ctx, const kin_graph_job *job, const kith_neighbors *out)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_method_enter(ctx, &job->request, &job->points, NULL, &gpu));
    if (gpu != NULL) {
        const kith_status status = kin_method_graph_on_gpu(ctx, gpu, job, 0, out);
        kin_device_leave(ctx, gpu);
        if (!kin_pipeline_yields(ctx, &job->request, status)) {
            return status;
        }
    }
    bool declined = true;
    if (kin_method_takes_tree(&job->request, &job->points, NULL)) {
        KIN_TRY(kin_tree_graph(ctx, &job->points, &job->request, out, &declined));
    }
    return declined ? kin_exact_graph(ctx, &job->points, &job->request, out) : KITH_OK;
}

static kith_status graph(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *given,
                         const kith_neighbors *out)
{
    kin_graph_job job;
    kin_limit limit;
    KIN_TRY(kin_api_check_graph(ctx, points, given, out, &job));
    KIN_TRY(kin_limit_begin(ctx, &job.request, out, &limit));
    return kin_limit_end(&limit, solve_graph(ctx, &job, &limit.out));
}

kith_status kith_graph_exact(kith_ctx *ctx, const kith_matrix *points,
                             const kith_search_params *params, const kith_neighbors *out)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, graph(ctx, points, params, out));
}

/* ---- Search --------------------------------------------------------------------------------- */

kith_status kin_api_check_queries(kith_ctx *ctx, const kith_matrix *corpus,
                                  const kin_distance *distance, const kith_matrix *queries,
                                  const kith_search_params *params, const kith_neighbors *out,
                                  kin_knn_job *job)
{
    const bool excludes = params->exclude != NULL;
    job->corpus = *corpus;
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &job->queries));
    KIN_TRY(kin_check_cols(ctx, corpus, "the corpus", &job->queries, "queries"));
    KIN_TRY(kin_check_output(ctx, params->k, corpus->rows - (excludes ? 1 : 0),
                             excludes ? OF_EXCLUDE : OF_SEARCH, out, job->queries.rows));
    KIN_TRY(kin_method_check_height(ctx, params->tree_height, corpus->rows));
    KIN_TRY(kin_check_radius(ctx, distance->metric, params->radius));
    job->request = kin_api_request(params, distance);
    job->request.distance.isa = ctx->isa;
    return KITH_OK;
}

kith_status kin_api_check_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                              const kith_search_params *given, const kith_neighbors *out,
                              kin_knn_job *job)
{
    kith_search_params params;
    kith_matrix matrix;
    kin_distance distance;
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, corpus, "corpus", &matrix));
    KIN_TRY(kin_check_metric(ctx, params.metric, params.custom, params.custom_arg, matrix.cols,
                             &distance));
    return kin_api_check_queries(ctx, &matrix, &distance, queries, &params, out, job);
}

kith_status kin_api_prepare(kith_ctx *ctx, const kith_matrix *points, const char *name,
                            const kin_distance *distance, const kith_matrix *queries, int64_t k,
                            kin_prepared *prepared)
{
    const bool screens = kin_exact_screens(distance);
    KIN_TRY(kin_prepare_rows(ctx, points, distance, name, !screens, false, prepared));
    kith_status status = KITH_OK;
    if (screens) {
        status =
            kin_prepare_corpus(ctx, kin_frame_is_integer(distance, points, queries), k, prepared);
    }
    if (status != KITH_OK) {
        kin_prepared_free(ctx, prepared);
    }
    return status;
}

static kith_status knn_on_cpu(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out)
{
    kin_prepared prepared;
    const kin_distance *distance = &job->request.distance;
    bool declined = true;
    if (kin_method_takes_tree(&job->request, &job->corpus, &job->queries)) {
        KIN_TRY(kin_tree_knn(ctx, &job->corpus, &job->queries, &job->request, out, &declined));
    }
    if (!declined) {
        return KITH_OK;
    }
    KIN_TRY(job->request.pipeline != NULL
                ? kin_prepare_rows(ctx, &job->corpus, distance, "corpus", true, false, &prepared)
                : kin_api_prepare(ctx, &job->corpus, "corpus", distance, &job->queries,
                                  job->request.k, &prepared));
    ctx->report.seconds_check += prepared.seconds_check;
    ctx->report.seconds_prepare += prepared.seconds_prepare;
    const kith_status status = kin_exact_search(ctx, &prepared, &job->queries, &job->request, out);
    kin_prepared_free(ctx, &prepared);
    return status;
}

static kith_status solve_knn(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_method_enter(ctx, &job->request, &job->corpus, &job->queries, &gpu));
    if (gpu != NULL) {
        const kith_status status = kin_method_knn_on_gpu(ctx, gpu, job, 0, out);
        kin_device_leave(ctx, gpu);
        if (!kin_pipeline_yields(ctx, &job->request, status)) {
            return status;
        }
    }
    return knn_on_cpu(ctx, job, out);
}

static kith_status knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                       const kith_search_params *given, kin_within within,
                       const kith_neighbors *out)
{
    kin_knn_job job;
    kin_limit limit;
    KIN_TRY(kin_api_check_knn(ctx, corpus, queries, given, out, &job));
    job.request.within[0] = within;
    KIN_TRY(kin_limit_begin(ctx, &job.request, out, &limit));
    return kin_limit_end(&limit, solve_knn(ctx, &job, &limit.out));
}

kith_status kin_api_knn_within(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                               const kith_search_params *params, kin_within within,
                               const kith_neighbors *out)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, knn(ctx, corpus, queries, params, within, out));
}

kith_status kith_knn_exact(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out)
{
    return kin_api_knn_within(ctx, corpus, queries, params, (kin_within){NULL, 0}, out);
}

/* ---- Both directions ------------------------------------------------------------------------ */

static kith_status solve_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                              const kin_request *request, const kith_neighbors *ab,
                              const kith_neighbors *ba)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_pipeline_enter(ctx, request, (double)a->rows * (double)b->rows, &gpu));
    if (gpu != NULL) {
        kin_request back = *request;
        back.k = ba->k;
        const kin_fused_query forth = {a, "a", request, 0, ab};
        const kin_fused_query and_back = {b, "b", &back, 0, ba};
        const kith_status status = kin_fused_both(ctx, gpu, &forth, &and_back);
        kin_device_leave(ctx, gpu);
        if (!kin_pipeline_yields(ctx, request, status)) {
            return status;
        }
    }
    return kin_exact_both(ctx, a, b, request, ab, ba);
}

static kith_status both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                        const kith_search_params *given, const kin_within *within,
                        const kith_neighbors *ab, const kith_neighbors *ba)
{
    kin_limit there;
    kin_limit back;
    kith_search_params params;
    kith_matrix am;
    kith_matrix bm;
    kin_distance distance;
    KIN_TRY(kin_check_search_params(ctx, given, &params));
    KIN_TRY(kin_check_matrix(ctx, a, "a", &am));
    KIN_TRY(kin_check_matrix(ctx, b, "b", &bm));
    KIN_TRY(kin_check_cols(ctx, &am, "a", &bm, "b"));
    KIN_TRY(
        kin_check_metric(ctx, params.metric, params.custom, params.custom_arg, am.cols, &distance));
    KIN_TRY(kin_check_output(ctx, params.k, bm.rows, OF_SEARCH, ab, am.rows));
    KIN_TRY(kin_check_output(ctx, params.k, am.rows, OF_SEARCH, ba, bm.rows));
    if (params.exclude != NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("exclude"),
                           "has no meaning in both directions at once (leave it out)");
    }
    KIN_TRY(kin_check_radius(ctx, distance.metric, params.radius));
    kin_request request = kin_api_request(&params, &distance);
    memcpy(request.within, within, sizeof request.within);
    KIN_TRY(kin_method_refuse_tree(ctx, &request, "both directions at once have none"));
    KIN_TRY(kin_limit_begin(ctx, &request, ab, &there));
    kith_status status = kin_limit_begin(ctx, &request, ba, &back);
    if (status == KITH_OK) {
        status = solve_both(ctx, &am, &bm, &request, &there.out, &back.out);
        status = kin_limit_end(&back, status);
    }
    return kin_limit_end(&there, status);
}

kith_status kin_api_both_within(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                                const kith_search_params *params, const kin_within *within,
                                const kith_neighbors *ab, const kith_neighbors *ba)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, both(ctx, a, b, params, within, ab, ba));
}

kith_status kith_knn_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                          const kith_search_params *params, const kith_neighbors *ab,
                          const kith_neighbors *ba)
{
    static const kin_within nothing[2];
    return kin_api_both_within(ctx, a, b, params, nothing, ab, ba);
}

/* ---- Distances ------------------------------------------------------------------------------ */

static kith_status check_ids(kith_ctx *ctx, const uint32_t *ids, int64_t count, int64_t rows,
                             const char *name)
{
    for (int64_t i = 0; i < count; i++) {
        if ((int64_t)ids[i] >= rows) {
            return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_row(name, i),
                               "is %lu, must be below %lld (rows count from 0)",
                               (unsigned long)ids[i], (long long)rows);
        }
    }
    return KITH_OK;
}

static kith_status pair_distances(kith_ctx *ctx, const kin_prepared *corpus,
                                  const kin_prepared *queries, int64_t count,
                                  const uint32_t *query_ids, const uint32_t *corpus_ids,
                                  double *out)
{
    const kin_distance *distance = &corpus->distance;
    double *values = NULL;
    KIN_TRY(kin_alloc(ctx, &values, (uint64_t)distance->cols + KIN_METRIC_LANES, sizeof *values,
                      "a query"));
    int64_t last = 0;
    for (int64_t first = 0; first < count; first = last) { /* runs of the same query */
        for (last = first + 1; last < count && query_ids[last] == query_ids[first]; last++) {
        }
        const kin_query query = kin_metric_load(distance, &queries->rows, query_ids[first], values);
        kin_metric_keys(distance, &query, &corpus->rows, corpus_ids + first, 0, last - first,
                        out + first);
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = kin_metric_distance(distance->metric, out[i]);
    }
    kin_free(ctx, values);
    return KITH_OK;
}

static kith_status distances(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             kith_metric metric, int64_t count, const uint32_t *query_ids,
                             const uint32_t *corpus_ids, double *out)
{
    kith_matrix cm;
    kith_matrix qm;
    kin_distance distance;
    KIN_TRY(kin_check_matrix(ctx, corpus, "corpus", &cm));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &qm));
    KIN_TRY(kin_check_cols(ctx, &cm, "the corpus", &qm, "queries"));
    KIN_TRY(kin_check_metric(ctx, metric, NULL, NULL, cm.cols, &distance));
    if (count < 0 || (count > 0 && (query_ids == NULL || corpus_ids == NULL || out == NULL))) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("count"),
                           "is %lld with ids or out NULL (give arrays of that length)",
                           (long long)count);
    }
    KIN_TRY(check_ids(ctx, query_ids, count, qm.rows, "query_ids"));
    KIN_TRY(check_ids(ctx, corpus_ids, count, cm.rows, "corpus_ids"));
    kin_prepared pc = {0};
    kin_prepared pq = {0};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_prepare_rows(ctx, &cm, &distance, "corpus", true, false, &pc), done);
    KIN_TRY_GOTO(status, kin_prepare_rows(ctx, &qm, &distance, "queries", true, false, &pq), done);
    status = pair_distances(ctx, &pc, &pq, count, query_ids, corpus_ids, out);
done:
    kin_prepared_free(ctx, &pq);
    kin_prepared_free(ctx, &pc);
    return status;
}

kith_status kith_distances(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           kith_metric metric, int64_t count, const uint32_t *query_ids,
                           const uint32_t *corpus_ids, double *out)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call,
                        distances(ctx, corpus, queries, metric, count, query_ids, corpus_ids, out));
}
