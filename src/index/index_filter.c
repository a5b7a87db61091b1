/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. What is prepared of all points is of no use where few may be found; but where an index lies
 * on a GPU
 *
 *     a bitmap for all        is a choice of its rows, which stand in the same order and frame
 *                             (kin_fused_corpus_some)
 *     small groups, and what  are compared pair by pair with the rows that are there
 *     keeps little            (engine_filter_gpu.c)
 *
 * All else is a search of the points themselves, in host memory. */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_device.h"
#include "fused/fused_search.h"
#include "index/index.h"

/* Whether a choice of rows answers, or all of them; *kept: how many there are. */
static bool takes_some(const kin_fused_corpus *corpus, const kin_filter_job *job, int64_t *kept)
{
    const kith_filter *filter = &job->filter;
    if (corpus == NULL || filter->rule != KITH_RULE_NONE || kin_filter_has_bitmaps(filter) ||
        job->request.pipeline != NULL) {
        return false;
    }
    *kept = kin_filter_count_allowed(filter, job->corpus.rows);
    return *kept == job->corpus.rows ||
           (corpus->prepared.plain && *kept > job->request.k &&
            kin_fused_screens(&job->request, *kept, job->queries.rows));
}

static kith_status search_some(kith_ctx *ctx, const kin_fused_corpus *corpus,
                               const kin_filter_job *job, int64_t kept,
                               const kin_filter_place *where)
{
    kin_fused_corpus *again = NULL;
    kin_fused_corpus *some = NULL;
    KIN_TRY(kin_fused_corpus_for(ctx, corpus, &job->queries, job->request.k, &again));
    const kin_fused_corpus *all = again != NULL ? again : corpus;
    kith_status status = kept == job->corpus.rows
                             ? KITH_OK
                             : kin_fused_corpus_some(ctx, all, job->filter.allow, kept, &some);
    KIN_THEN(status, kin_fused_corpus_search(ctx, some != NULL ? some : all, &job->queries,
                                             &job->request, where->place, where->out));
    kin_fused_corpus_free(ctx, some);
    kin_fused_corpus_free(ctx, again);
    return status;
}

/* By the index' rows on its GPU, which was entered; *done is false where nothing was done. */
static kith_status filter_there(kith_ctx *ctx, const void *arg, const kin_filter_job *job,
                                const kin_filter_place *where, bool *done)
{
    const kith_index *index = arg;
    const kin_fused_corpus *corpus = index->kept->fused;
    int64_t kept = 0;
    *done = false;
    if (takes_some(corpus, job, &kept)) {
        const kith_status status = search_some(ctx, corpus, job, kept, where);
        *done = status != KITH_E_DEVICE_MEMORY && status != KITH_E_UNSUPPORTED;
        if (*done) {
            return status;
        }
        kin_fused_make_room(ctx, where->gpu);
    }
    return corpus == NULL ? KITH_OK : kin_engine_filter_on_gpu(ctx, job, where, done);
}

/* The points, on the device where they are there. */
static kith_matrix points_of(const kith_index *index)
{
    const kin_index_kept *kept = index->kept;
    kith_matrix points = kept->prepared.rows.matrix;
    if (kept->fused != NULL) {
        points.data = kept->fused->prepared.rows.data;
        points.stride_bytes = kept->fused->prepared.rows.stride_bytes;
    }
    return points;
}

/* Parameters for the points themselves. */
static kith_status take_params(kith_ctx *ctx, const kith_index *index,
                               const kith_search_params *given, kith_search_params *params)
{
    const kin_distance *own = &index->kept->prepared.distance;
    *params = *given;
    KIN_TRY(kin_check_same_metric(ctx, params->metric, own->metric));
    KIN_TRY(kin_index_check_method(ctx, index, params->method));
    KIN_TRY(kin_refuse_period(ctx, params->period, KIN_INDEX_HAS_ITS_OWN));
    params->metric = own->metric;
    params->period = index->period;
    params->method = KITH_METHOD_AUTO;
    return KITH_OK;
}

/* queries, out: in host memory. */
static kith_status try_gpu(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out, bool *done)
{
    const kith_matrix points = points_of(index);
    kin_filter_job job;
    kin_limit limit;
    if (index->gpu == NULL || index->kept->fused == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_api_check_filtered(ctx, &points, queries, params, out, &job));
    job.resident = true;
    KIN_TRY(kin_limit_begin(ctx, &job.request, out, &limit));
    kin_gpu_enter(index->gpu);
    index->gpu->peak = index->gpu->held;
    const kin_filter_place where = {.gpu = index->gpu, .out = &limit.out};
    const kith_status status = filter_there(ctx, index, &job, &where, done);
    kin_device_leave(ctx, index->gpu);
    return *done ? kin_limit_end(&limit, status) : kin_limit_drop(&limit, status);
}

kith_status kin_index_filter(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                             const kith_search_params *given, const kith_neighbors *out)
{
    const kith_matrix none = {0};
    const kith_matrix *asked = queries != NULL ? queries : &none;
    kith_search_params params;
    kith_matrix points;
    void *copy = NULL;
    bool done = false;
    KIN_TRY(take_params(ctx, index, given, &params));
    KIN_TRY(try_gpu(ctx, index, asked, &params, out, &done));
    if (done) {
        return KITH_OK;
    }
    kith_status status = kin_index_host_rows(ctx, index, &points, &copy);
    KIN_THEN(status, kin_api_search_filtered(ctx, &points, asked, &params, out));
    kin_free(ctx, copy);
    return status;
}

kith_status kin_index_filter_on_device(kith_ctx *ctx, const kith_index *index,
                                       const kith_matrix *queries, const kith_search_params *given,
                                       const kith_neighbors *out, void *stream)
{
    const kith_matrix *own = &index->kept->prepared.rows.matrix;
    const kith_matrix points = points_of(index);
    kith_search_params params;
    kin_api_filtering f = {
        .out = out, .gpu = index->gpu, .stream = stream, .there = filter_there, .arg = index};
    KIN_TRY(take_params(ctx, index, given, &params));
    KIN_TRY(kin_api_check_filtered(ctx, &points, queries, &params, out, &f.job));
    f.job.resident = points.data != own->data || kin_index_rows_on_device(index->kept);
    f.on_host = kin_index_rows_on_device(index->kept) ? NULL : own;
    return kin_api_filter(ctx, &f);
}
