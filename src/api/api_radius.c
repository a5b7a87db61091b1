/* SPDX-License-Identifier: Apache-2.0
 * Radius search, and the tables that it gives. A table keeps the context that made it. */
#include "api/api_check.h"
#include "api/api_corpus.h"
#include "base/base_mem.h"
#include "base/base_try.h"
#include "engine/engine_call.h"
#include "engine/engine_device.h"
#include "engine/engine_exact.h"
#include "exact/exact_search.h"
#include "fused/fused_search.h"
#include "tree/tree_search.h"

static kith_status check_radii(kith_ctx *ctx, kith_metric metric, const double *radii, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        if (radii[i] != radii[i] || (radii[i] < 0.0 && !kin_radius_may_be_negative(metric))) {
            return kin_fail_at(
                ctx, KITH_E_ARGUMENT, kin_at_row("radii", i), "is %g, must be %s", radii[i],
                kin_radius_may_be_negative(metric) ? "a number" : "a number of at least 0");
        }
    }
    return KITH_OK;
}

/* Checked arguments. */
typedef struct radius_job {
    const kith_corpus *prepared; /* NULL: there are but the points */
    kith_matrix asked;
    kin_radius_job points; /* its queries: &asked, or NULL */
} radius_job;

/* The corpus of a call, and its metric. */
static kith_status check_corpus(kith_ctx *ctx, const kith_matrix *corpus, bool graph,
                                const kith_radius_params *params, radius_job *job)
{
    kin_distance *distance = &job->points.request.distance;
    if (job->prepared == NULL) {
        KIN_TRY(kin_check_matrix(ctx, corpus, graph ? "points" : "corpus", &job->points.corpus));
        return kin_check_metric(ctx, params->metric, params->custom, params->custom_arg,
                                job->points.corpus.cols, distance);
    }
    KIN_TRY(kin_corpus_check_metric(ctx, job->prepared, params->metric));
    job->points.corpus = job->prepared->prepared.rows.matrix;
    *distance = job->prepared->prepared.distance;
    distance->isa = ctx->isa;
    return KITH_OK;
}

static kith_status check(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kith_radius_params *given, radius_job *job)
{
    kith_radius_params params = kith_radius_params_default();
    kin_radius_request *request = &job->points.request;
    const bool graph = queries == NULL;
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_radius_params, radii), given, &params));
    KIN_TRY(kin_check_flags(ctx, params.flags, KITH_INCLUDE_SELF, "a radius"));
    KIN_TRY(kin_check_method(ctx, (int)params.method));
    KIN_TRY(check_corpus(ctx, corpus, graph, &params, job));
    if (!graph) {
        KIN_TRY(kin_check_matrix(ctx, queries, "queries", &job->asked));
        KIN_TRY(kin_check_cols(ctx, &job->points.corpus, "the corpus", &job->asked, "queries"));
        job->points.queries = &job->asked;
    }
    const kith_metric metric = request->distance.metric;
    if (params.radii == NULL) {
        KIN_TRY(kin_check_radius(ctx, metric, params.radius));
    } else {
        KIN_TRY(check_radii(ctx, metric, params.radii,
                            graph ? job->points.corpus.rows : job->asked.rows));
    }
    request->radius = params.radius;
    request->radii = params.radii;
    request->leaves_self_out = graph && (params.flags & KITH_INCLUDE_SELF) == 0;
    request->count_only = params.count_only != 0;
    job->points.method = params.method;
    return KITH_OK;
}

static kith_status radius_of_corpus(kith_ctx *ctx, const radius_job *job, kith_ranges *ranges)
{
    const kith_corpus *corpus = job->prepared;
    const kin_radius_job *points = &job->points;
    kin_request like = {.distance = points->request.distance, .method = points->method};
    KIN_TRY(kin_corpus_check_method(ctx, corpus, &like));
    if (corpus->has_tree) {
        return kin_tree_radius_search(ctx, &corpus->prepared, &corpus->tree, points->queries,
                                      &points->request, ranges);
    }
    if (corpus->fused == NULL) {
        return kin_radius_search(ctx, &corpus->prepared, points->queries, &points->request, ranges);
    }
    kin_corpus_enter_gpu(corpus);
    const kith_status status =
        kin_fused_corpus_radius(ctx, corpus->fused, points->queries, &points->request, ranges);
    kin_device_leave(ctx, corpus->gpu);
    return status;
}

/* Of a prepared corpus, or of a matrix. */
static kith_status create(kith_ctx *ctx, const kith_corpus *prepared, const kith_matrix *corpus,
                          const kith_matrix *queries, const kith_radius_params *params,
                          kith_ranges **out)
{
    radius_job job = {.prepared = prepared};
    if (out == NULL) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("out"),
                           "is NULL (give room for a pointer)");
    }
    kith_ranges *ranges = NULL;
    KIN_TRY(check(ctx, corpus, queries, params, &job));
    KIN_TRY(kin_alloc_zero(ctx, &ranges, 1, sizeof *ranges, "ranges"));
    ranges->ctx = ctx;
    const kith_status status = prepared != NULL ? radius_of_corpus(ctx, &job, ranges)
                                                : kin_engine_radius(ctx, &job.points, ranges);
    if (status != KITH_OK) {
        kith_ranges_free(ranges);
        return status;
    }
    *out = ranges;
    return KITH_OK;
}

kith_status kith_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                        const kith_radius_params *params, kith_ranges **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, create(ctx, NULL, corpus, queries, params, out));
}

kith_status kith_corpus_radius(kith_ctx *ctx, const kith_corpus *corpus, const kith_matrix *queries,
                               const kith_radius_params *params, kith_ranges **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    kith_status status = kin_corpus_enter(ctx, corpus);
    if (status == KITH_OK) {
        status = create(ctx, corpus, NULL, queries, params, out);
        kin_corpus_leave(ctx, corpus);
    }
    return kin_call_end(&call, status);
}

const kith_lists *kith_ranges_lists(const kith_ranges *ranges)
{
    return &ranges->lists;
}

void kith_ranges_free(kith_ranges *ranges)
{
    if (ranges == NULL) {
        return;
    }
    kin_ranges_clear(ranges->ctx, ranges);
    kin_free(ranges->ctx, ranges);
}
