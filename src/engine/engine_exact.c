/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_exact.h"

#include "host/host_threads.h"
#include "tree/tree_cost.h"
#include "tree/tree_gpu.h"

/* ---- A radius ------------------------------------------------------------------------------- */

enum { ROWS_A_TASK = 1024, USUAL_K = 10 };

/* What is beyond the radius; before the search, when nothing is within it yet, all. */
static kith_status empty_beyond(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const kin_limit *limit = arg;
    const double *distances = limit->out.distances64 + row * limit->out.k;
    int64_t count = limit->found ? limit->out.k : 0;
    while (count > 0 && !kin_metric_within(limit->metric, distances[count - 1], limit->radius)) {
        count -= 1;
    }
    kin_answer_empty(limit->metric, &limit->out, row * limit->out.k + count,
                     (row + 1) * limit->out.k);
    return KITH_OK;
}

static kith_status empty_rows(kin_limit *limit, const char *phase)
{
    return kin_parallel_rows(limit->ctx, phase, limit->out.rows, ROWS_A_TASK, empty_beyond, limit);
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

kith_status kin_limit_drop(kin_limit *limit, kith_status status)
{
    kin_free(limit->ctx, limit->own);
    limit->own = NULL;
    return status;
}

kith_status kin_limit_end(kin_limit *limit, kith_status status)
{
    if (limit->limited && status == KITH_OK) {
        status = empty_rows(limit, "rescore");
    }
    return kin_limit_drop(limit, status);
}

uint64_t kin_limit_bytes(const kin_request *request, int64_t rows)
{
    const uint64_t entries = kin_size_mul((uint64_t)rows, (uint64_t)request->k);
    return request->limited ? kin_size_mul(entries, sizeof(double)) : 0;
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
        prepared->unordered = job->request.unordered;
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
static kith_status pairs_on_cpu(kith_ctx *ctx, kin_knn_job *job, const kith_neighbors *out)
{
    kin_prepared prepared;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_exact_job_screens(&job->request)
                ? kin_bytes_take(&hold, &job->request.distance, &job->corpus, &job->queries)
                : KITH_OK);
    KIN_TRY(kin_engine_prepare(ctx, job, "corpus", &prepared));
    kith_status status = shadows_for(ctx, job, &prepared);
    kin_prepared_tell(ctx, &prepared);
    KIN_THEN(status, kin_exact_search(ctx, &prepared, &job->queries, &job->request, out));
    if (kin_prepare_drop_shadows(ctx, &prepared, &status)) {
        status = kin_exact_search(ctx, &prepared, &job->queries, &job->request, out);
    }
    kin_prepared_free(ctx, &prepared);
    return status;
}

static kith_status knn_on_cpu(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out)
{
    const kith_matrix *queries = kin_knn_queries(job);
    bool declined = true;
    if (kin_method_takes_tree(&job->request, &job->corpus, queries)) {
        KIN_TRY(kin_tree_knn(ctx, &job->corpus, queries, &job->request, out, &declined));
    }
    if (job->graph || !declined) {
        return declined ? kin_exact_graph(ctx, &job->corpus, &job->request, out) : KITH_OK;
    }
    kin_knn_job pairs = *job;
    kin_method_set_few(&pairs.request, &job->corpus, queries);
    return pairs_on_cpu(ctx, &pairs, out);
}

static kith_status solve_knn(kith_ctx *ctx, const kin_knn_job *job, const kith_neighbors *out)
{
    const kin_request *request = &job->request;
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_method_enter(ctx, request, &job->corpus, kin_knn_queries(job), &gpu));
    KIN_TRY_GPU(ctx, gpu, kin_pipeline_needs_gpu(request),
                kin_method_knn_on_gpu(ctx, gpu, job, 0, out));
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
    kin_request back = *request;
    kin_gpu *gpu = NULL;
    back.k = ba->k;
    const kin_exact_gpu_query forth = {a, "a", request, 0, ab};
    const kin_exact_gpu_query and_back = {b, "b", &back, 0, ba};
    KIN_TRY(kin_pipeline_enter(ctx, request, (double)a->rows * (double)b->rows, &gpu));
    KIN_TRY_GPU(ctx, gpu, kin_pipeline_needs_gpu(request),
                kin_exact_gpu_both(ctx, gpu, &forth, &and_back));
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
    if (job->kept.prepared != NULL) {
        return kin_radius_search(ctx, job->kept.prepared, job->queries, &job->request, ranges);
    }
    if (!declined) {
        bool *may_decline = job->method == KITH_METHOD_AUTO ? &declined : NULL;
        KIN_TRY(
            kin_tree_radius(ctx, &job->corpus, job->queries, &job->request, ranges, may_decline));
    }
    return declined ? kin_radius_run(ctx, &job->corpus, job->queries, &job->request, ranges)
                    : KITH_OK;
}

/* *gpu: as kin_device_enter, or that of what is kept. */
static kith_status enter_radius(kith_ctx *ctx, const kin_radius_job *job, kin_gpu **gpu)
{
    const kin_request like = {.distance = job->request.distance, .method = job->method};
    const int64_t rows = job->queries != NULL ? job->queries->rows : job->corpus.rows;
    *gpu = NULL;
    if (job->kept.resident != NULL) {
        return kin_device_enter_gpu(ctx, job->kept.resident->gpu->index, gpu);
    }
    KIN_TRY(kin_method_check(ctx, &like));
    if (job->method == KITH_METHOD_TREE) {
        return kin_method_enter(ctx, &like, &job->corpus, job->queries, gpu);
    }
    return job->kept.prepared != NULL
               ? KITH_OK
               : kin_device_enter(ctx, &job->request.distance,
                                  (double)job->corpus.rows * (double)rows, gpu);
}

static kith_status find_radius(void *arg, const kin_exact_gpu_member *on,
                               const kin_exact_gpu_radius_query *query, kith_ranges *ranges)
{
    const kin_radius_job *job = arg;
    const kin_screen_gpu_source corpus = {.matrix = &job->corpus,
                                          .distance = &job->request.distance,
                                          .name = query->queries == NULL ? "points" : "corpus",
                                          .place = query->place & KIN_GPU_DATA_ON_DEVICE};
    bool declined = job->method == KITH_METHOD_EXACT;
    if (job->kept.resident != NULL) {
        return kin_exact_gpu_corpus_radius(on->ctx, job->kept.resident, query, ranges);
    }
    if (!declined) {
        bool *may_decline = job->method == KITH_METHOD_AUTO ? &declined : NULL;
        KIN_TRY(kin_tree_gpu_radius_alone(on->ctx, on->gpu, &corpus, query, ranges, may_decline));
    }
    return declined ? kin_exact_gpu_radius(on->ctx, on->gpu, &corpus, query, ranges) : KITH_OK;
}

/* Of a graph by all pairs each serves both ends, which two GPUs that divide it would not make up
 * for. */
static bool is_shared(const kin_gpu *gpu, const kin_radius_job *job,
                      const kin_exact_gpu_radius_query *query)
{
    const kith_matrix *asked = query->queries != NULL ? query->queries : &job->corpus;
    if (job->kept.resident != NULL || job->request.most > 0) {
        return false;
    }
    return job->method == KITH_METHOD_TREE ||
                   (job->method == KITH_METHOD_AUTO &&
                    kin_tree_gpu_radius_worth_trying(&job->corpus, query))
               ? kin_tree_gpu_team_radii(gpu, asked, query->place)
               : query->queries != NULL &&
                     kin_exact_gpu_team_searches(gpu, asked->rows, query->place);
}

kith_status kin_engine_radius_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_radius_job *job,
                                     uint32_t place, kith_ranges *ranges)
{
    kin_radius_job own = *job;
    const kin_exact_gpu_radius_query query = {job->queries, &job->request, place};
    const kin_exact_gpu_radius_division all = {&job->corpus, &query, find_radius, &own};
    return kin_exact_gpu_radius_solve(ctx, gpu, is_shared(gpu, job, &query), &all, ranges);
}

kith_status kin_engine_radius(kith_ctx *ctx, const kin_radius_job *job, kith_ranges *ranges)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(enter_radius(ctx, job, &gpu));
    KIN_TRY_GPU(ctx, gpu, false, kin_engine_radius_on_gpu(ctx, gpu, job, 0, ranges));
    return radius_on_cpu(ctx, job, ranges);
}

/* ---- A corpus that is kept for many radii ---------------------------------------------------- */

/* What the corpus is asked with. */
static const kith_matrix *asked_of(const kin_radius_job *job)
{
    return job->queries != NULL ? job->queries : &job->corpus;
}

static kith_status keep_on_gpu(kith_ctx *ctx, kin_gpu *gpu, const kin_radius_job *job,
                               kin_radius_kept *kept)
{
    const kith_matrix *corpus = &job->corpus;
    const kin_distance *distance = &job->request.distance;
    const kin_screen_gpu_source source = {.matrix = corpus, .distance = distance, .name = "corpus"};
    kith_status status = KITH_OK;
    if (job->method != KITH_METHOD_TREE &&
        kin_screen_gpu_prepared_bytes(corpus, corpus->rows, distance, asked_of(job)->dtype, 0, true)
                .most <= kin_gpu_room(gpu) / 2) {
        status = kin_exact_gpu_corpus_make(ctx, gpu, &source, asked_of(job)->dtype, USUAL_K,
                                           &kept->resident);
    }
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_exact_gpu_make_room(ctx, gpu);
        return KITH_OK;
    }
    return status;
}

static kith_status keep_on_cpu(kith_ctx *ctx, const kin_radius_job *job, kin_radius_kept *kept)
{
    const kin_distance *distance = &job->request.distance;
    const int64_t rows = job->corpus.rows;
    const kin_knn_job like = {.corpus = job->corpus,
                              .queries = *asked_of(job),
                              .request = {.distance = *distance, .k = USUAL_K}};
    if (job->method == KITH_METHOD_TREE ||
        (job->method == KITH_METHOD_AUTO &&
         kin_tree_cost_radius(distance, rows, asked_of(job)->rows).allowed)) {
        return KITH_OK;
    }
    KIN_TRY(kin_alloc(ctx, &kept->prepared, 1, sizeof *kept->prepared, "a corpus"));
    kith_status status = kin_engine_prepare(ctx, &like, "corpus", kept->prepared);
    if (status == KITH_OK) {
        kin_prepared_tell(ctx, kept->prepared);
        return KITH_OK;
    }
    kin_free(ctx, kept->prepared);
    kept->prepared = NULL;
    if (status == KITH_E_MEMORY || status == KITH_E_LIMIT) {
        kin_forgive(ctx);
        status = KITH_OK;
    }
    return status;
}

kith_status kin_engine_radius_keep(kith_ctx *ctx, const kin_radius_job *job, kin_radius_kept *kept)
{
    kin_gpu *gpu = NULL;
    *kept = (kin_radius_kept){.resident = NULL};
    KIN_TRY(enter_radius(ctx, job, &gpu));
    if (gpu == NULL) {
        return keep_on_cpu(ctx, job, kept);
    }
    const kith_status status = keep_on_gpu(ctx, gpu, job, kept);
    kin_device_leave(ctx, gpu);
    return kin_device_yields(ctx, status) ? KITH_OK : status;
}

void kin_engine_radius_drop(kith_ctx *ctx, kin_radius_kept *kept)
{
    if (kept->resident != NULL) {
        kin_gpu *gpu = kept->resident->gpu;
        kin_gpu_enter(gpu);
        kin_exact_gpu_corpus_free(ctx, kept->resident);
        kin_gpu_leave(gpu);
    }
    if (kept->prepared != NULL) {
        kin_prepared_free(ctx, kept->prepared);
        kin_free(ctx, kept->prepared);
    }
    *kept = (kin_radius_kept){.resident = NULL};
}
