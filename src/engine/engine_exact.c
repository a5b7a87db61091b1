/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_exact.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_corpus.h"
#include "exact/exact_search.h"
#include "fused/fused_search.h"
#include "host/host_threads.h"
#include "tree/tree_search.h"

/* ---- A radius ------------------------------------------------------------------------------- */

enum { ROWS_A_TASK = 1024 };

/* What is beyond the radius; before the search, when nothing is within it yet, all. */
static kith_status empty_beyond(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_limit *limit = arg;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, limit->out.rows);
    for (int64_t row = task * ROWS_A_TASK; row < last; row++) {
        const double *distances = limit->out.distances64 + row * limit->out.k;
        int64_t count = limit->found ? limit->out.k : 0;
        while (count > 0 &&
               !kin_metric_within(limit->metric, distances[count - 1], limit->radius)) {
            count -= 1;
        }
        kin_answer_empty(limit->metric, &limit->out, row * limit->out.k + count,
                         (row + 1) * limit->out.k);
    }
    return KITH_OK;
}

static kith_status empty_rows(kin_limit *limit, const char *phase)
{
    return kin_parallel(limit->ctx, phase, kin_ceil_div(limit->out.rows, ROWS_A_TASK), empty_beyond,
                        limit);
}

kith_status kin_limit_begin(kith_ctx *ctx, const kin_request *request, const kith_neighbors *out,
                            kin_limit *limit)
{
    *limit = (kin_limit){.ctx = ctx,
                         .metric = request->distance.metric,
                         .limited = request->limited,
                         .radius = request->radius,
                         .out = *out};
    if (!limit->limited) {
        return KITH_OK;
    }
    if (out->distances64 == NULL) {
        KIN_TRY(kin_alloc(ctx, &limit->own, kin_size_mul((uint64_t)out->rows, (uint64_t)out->k),
                          sizeof *limit->own, "distances that a radius is compared with"));
        limit->out.distances64 = limit->own;
    }
    const kith_status status = empty_rows(limit, "prepare");
    limit->found = true;
    return status == KITH_OK ? KITH_OK : kin_limit_end(limit, status);
}

kith_status kin_limit_end(kin_limit *limit, kith_status status)
{
    if (limit->limited && status == KITH_OK) {
        status = empty_rows(limit, "rescore");
    }
    kin_free(limit->ctx, limit->own);
    limit->own = NULL;
    return status;
}

kith_status kin_limit_drop(kin_limit *limit, kith_status status)
{
    kin_free(limit->ctx, limit->own);
    limit->own = NULL;
    return status;
}

uint64_t kin_limit_bytes(const kin_request *request, int64_t rows)
{
    const uint64_t entries = kin_size_mul((uint64_t)rows, (uint64_t)request->k);
    return request->limited ? kin_size_mul(entries, sizeof(double)) : 0;
}

/* ---- Graph ---------------------------------------------------------------------------------- */

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

kith_status kin_engine_graph(kith_ctx *ctx, const kin_graph_job *job, const kith_neighbors *out)
{
    kin_limit limit;
    KIN_TRY(kin_limit_begin(ctx, &job->request, out, &limit));
    return kin_limit_end(&limit, solve_graph(ctx, job, &limit.out));
}

/* ---- Search --------------------------------------------------------------------------------- */

kith_status kin_engine_prepare(kith_ctx *ctx, const kin_knn_job *job, const char *name,
                               kin_prepared *prepared)
{
    const kin_distance *distance = &job->request.distance;
    const bool screens = kin_exact_job_screens(&job->request);
    KIN_TRY(kin_prepare_rows(ctx, &job->corpus, distance, name, screens ? 0 : KIN_ROWS_DISTINCT,
                             prepared));
    kith_status status = KITH_OK;
    if (screens) {
        const bool integer = kin_frame_is_integer(distance, &job->corpus, &job->queries);
        status = kin_prepare_corpus(ctx, integer, job->request.k, prepared);
    }
    if (status != KITH_OK) {
        kin_prepared_free(ctx, prepared);
    }
    return status;
}

/* For this search alone. */
static kith_status shadows_for(kith_ctx *ctx, const kin_knn_job *job, kin_prepared *prepared)
{
    const kin_shadow_job pairs = {.k = job->request.k,
                                  .pairs =
                                      (double)prepared->groups.count * (double)job->queries.rows,
                                  .ends = 1};
    return kin_exact_shadows(ctx, &job->request, &pairs, prepared);
}

/* All pairs. */
static kith_status pairs_on_cpu(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out)
{
    kin_prepared prepared;
    KIN_TRY(kin_engine_prepare(ctx, job, "corpus", &prepared));
    kith_status status = shadows_for(ctx, job, &prepared);
    ctx->report.seconds_check += prepared.seconds_check;
    ctx->report.seconds_prepare += prepared.seconds_prepare;
    KIN_THEN(status, kin_exact_search(ctx, &prepared, &job->queries, &job->request, out));
    if (kin_prepare_drop_shadows(ctx, &prepared, &status)) {
        status = kin_exact_search(ctx, &prepared, &job->queries, &job->request, out);
    }
    kin_prepared_free(ctx, &prepared);
    return status;
}

static kith_status knn_on_cpu(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out)
{
    bool declined = true;
    if (kin_method_takes_tree(&job->request, &job->corpus, &job->queries)) {
        KIN_TRY(kin_tree_knn(ctx, &job->corpus, &job->queries, &job->request, out, &declined));
    }
    kin_knn_job pairs = *job;
    pairs.request.compares = kin_method_compares(&job->request, &job->corpus, &job->queries);
    return declined ? pairs_on_cpu(ctx, &pairs, out) : KITH_OK;
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

kith_status kin_engine_knn(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out)
{
    kin_limit limit;
    KIN_TRY(kin_limit_begin(ctx, &job->request, out, &limit));
    return kin_limit_end(&limit, solve_knn(ctx, job, &limit.out));
}

/* ---- Both directions ------------------------------------------------------------------------ */

static kith_status solve_both(kith_ctx *ctx, const kin_both_job *job, const kith_neighbors *ab,
                              const kith_neighbors *ba)
{
    const kith_matrix *a = &job->a;
    const kith_matrix *b = &job->b;
    const kin_request *request = &job->request;
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

kith_status kin_engine_both(kith_ctx *ctx, const kin_both_job *job, const kith_neighbors *ab,
                            const kith_neighbors *ba)
{
    kin_limit there;
    kin_limit back;
    KIN_TRY(kin_limit_begin(ctx, &job->request, ab, &there));
    kith_status status = kin_limit_begin(ctx, &job->request, ba, &back);
    if (status == KITH_OK) {
        status = solve_both(ctx, job, &there.out, &back.out);
        status = kin_limit_end(&back, status);
    }
    return kin_limit_end(&there, status);
}

/* ---- All within a radius -------------------------------------------------------------------- */

static kith_status radius_on_cpu(kith_ctx *ctx, const kin_radius_job *job, kith_ranges *ranges)
{
    bool declined = job->method == KITH_METHOD_EXACT;
    if (!declined) {
        bool *may_decline = job->method == KITH_METHOD_AUTO ? &declined : NULL;
        KIN_TRY(
            kin_tree_radius(ctx, &job->corpus, job->queries, &job->request, ranges, may_decline));
    }
    return declined ? kin_radius_run(ctx, &job->corpus, job->queries, &job->request, ranges)
                    : KITH_OK;
}

kith_status kin_engine_radius(kith_ctx *ctx, const kin_radius_job *job, kith_ranges *ranges)
{
    const kin_request like = {.distance = job->request.distance, .method = job->method};
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_method_check(ctx, &like));
    const int64_t rows = job->queries != NULL ? job->queries->rows : job->corpus.rows;
    if (ctx->device == KIN_DEVICE_CUDA) {
        KIN_TRY(kin_method_refuse_tree(ctx, &like, "a GPU has none for a radius"));
    }
    if (job->method != KITH_METHOD_TREE) {
        KIN_TRY(kin_device_enter(ctx, &job->request.distance,
                                 (double)job->corpus.rows * (double)rows, &gpu));
    }
    if (gpu != NULL) {
        const kin_fused_source corpus = {.matrix = &job->corpus};
        const kin_fused_radius_query query = {job->queries, &job->request, 0};
        const kith_status status = kin_fused_radius(ctx, gpu, &corpus, &query, ranges);
        kin_device_leave(ctx, gpu);
        if (!kin_device_yields(ctx, status)) {
            return status;
        }
    }
    return radius_on_cpu(ctx, job, ranges);
}
