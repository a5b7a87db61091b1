/* SPDX-License-Identifier: Apache-2.0
 * Search on a graph, and the recall that chooses how wide its walks are.
 *
 * As for approximate graphs (api_descent.c) two samples are drawn: walks of the deciding one become
 * wider until its recall is the wanted one, the telling one knows nothing of that and is reported.
 * What a sample finds is what its queries find in the answer: a walk depends on its query, its
 * width and the seed alone. */
#include "api/api_call.h"
#include "api/api_check.h"
#include "api/api_sample.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "descent/descent_walk.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"

#include <stdio.h>

enum { USUAL_SAMPLE = 1000, USUAL_AT = 10, USUAL_WIDTH = 64 };

/* Walks that look at more than one of so many points are slower than the exact engine. */
enum { WORTH = 8 };

/* Makes the seed of the deciding sample another one than the telling one's. */
static const uint64_t DECIDING_SEED = 0x6b697468206b6e6eu;

typedef struct searching {
    kith_ctx *ctx;
    kith_graph_search_params params; /* no zeros but recall and seed; sample 0: none */
    kin_distance distance;
    const kith_neighbors *graph;
    const kith_neighbors *out;
    kin_prepared points;
    kin_prepared queries;
    kin_descent_links links;
    bool prepared; /* points are ready for the exact engine */
    double sample_seconds;
    kith_graph_search_report report;
} searching;

/* Queries that are solved exactly. */
typedef struct sample {
    int64_t count;
    uint32_t *rows;
    unsigned char *copy;
    kith_neighbors truth; /* distances64 alone, as of found */
    kith_neighbors found;
} sample;

/* ---- Arguments ------------------------------------------------------------------------------ */

static kith_status take_params(kith_ctx *ctx, const kith_graph_search_params *given,
                               kith_graph_search_params *known)
{
    *known = kith_graph_search_params_default();
    if (given == NULL || given->struct_size < offsetof(kith_graph_search_params, width)) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "params is NULL or was not made by kith_graph_search_params_default()");
    }
    memcpy(known, given, given->struct_size < sizeof *known ? given->struct_size : sizeof *known);
    return KITH_OK;
}

static kith_status check_recall(kith_ctx *ctx, const kith_graph_search_params *params)
{
    if (!(params->recall >= 0.0 && params->recall <= 1.0)) {
        return kin_fail(ctx, KITH_E_ARGUMENT, "recall is %g, must be 0 to 1", params->recall);
    }
    if (params->recall_at < 0 || params->recall_at > params->k) {
        return kin_fail(ctx, KITH_E_ARGUMENT, "recall_at is %lld, must be 0 to k, %lld",
                        (long long)params->recall_at, (long long)params->k);
    }
    if (params->recall > 0.0 && params->width != 0) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "recall is %g and width is %lld, which a recall chooses (leave one out)",
                        params->recall, (long long)params->width);
    }
    if (params->sample < -1 || (params->sample == -1 && params->recall > 0.0)) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "sample is %lld, must be at least 1 (or 0: %d; or, where no recall is "
                        "wanted, -1: none)",
                        (long long)params->sample, (int)USUAL_SAMPLE);
    }
    return KITH_OK;
}

static kith_status check_width(kith_ctx *ctx, const kith_graph_search_params *params)
{
    return params->width == 0 || params->width >= params->k
               ? KITH_OK
               : kin_fail(ctx, KITH_E_ARGUMENT,
                          "width is %lld, must be at least k, %lld (or 0: by k, or by a recall)",
                          (long long)params->width, (long long)params->k);
}

/* What is needed beside the numbers. */
static kith_status check_report(kith_ctx *ctx, const kith_graph_search_report *report)
{
    if (report != NULL && report->struct_size < sizeof report->struct_size) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "report.struct_size is %lu, must be sizeof(kith_graph_search_report)",
                        (unsigned long)report->struct_size);
    }
    return ctx->device == KIN_DEVICE_CUDA
               ? kin_fail(ctx, KITH_E_UNSUPPORTED,
                          "a search on a graph is the processor's, and the device is cuda (use "
                          "auto or cpu)")
               : KITH_OK;
}

/* The zeros that mean a default. */
static void complete(kith_graph_search_params *params, int64_t points, int64_t queries)
{
    const int64_t usual = kin_max_i64((int64_t)USUAL_WIDTH, 2 * params->k);
    const int64_t rows = params->sample == 0 ? (int64_t)USUAL_SAMPLE : params->sample;
    params->width = kin_min_i64(params->width == 0 ? usual : params->width, points);
    params->sample = rows < 0 ? 0 : kin_min_i64(rows, queries);
    params->recall_at =
        params->recall_at == 0 ? kin_min_i64((int64_t)USUAL_AT, params->k) : params->recall_at;
}

/* ---- Exact answers -------------------------------------------------------------------------- */

static kin_descent_walk walk_of(const searching *s, const sample *of, int64_t width)
{
    return (kin_descent_walk){.links = &s->links,
                              .distance = &s->distance,
                              .points = &s->points.rows,
                              .queries = &s->queries.rows,
                              .rows = of != NULL ? of->rows : NULL,
                              .count = of != NULL ? of->count : s->queries.rows.matrix.rows,
                              .width = width,
                              .seed = s->params.seed};
}

/* Of a sample (NULL: of all queries). A caller's function is asked of the rows themselves, whose
 * addresses it may know. */
static kith_status solve(searching *s, const sample *of, const kith_neighbors *out)
{
    const kith_matrix *points = &s->points.rows.matrix;
    const kith_matrix *queries = &s->queries.rows.matrix;
    if (!kin_exact_screens(&s->distance)) {
        const kin_descent_walk walk = walk_of(s, of, points->rows);
        double evaluations = 0.0;
        return kin_descent_walk_run(s->ctx, &walk, out, &evaluations);
    }
    if (!s->prepared) {
        const bool integer = kin_frame_is_integer(&s->distance, points, queries);
        KIN_TRY(kin_prepare_corpus(s->ctx, integer, s->params.k, &s->points));
        s->prepared = true;
    }
    const kin_request request = {.distance = s->distance, .k = out->k};
    const kith_matrix asked =
        of != NULL ? kin_sample_gather(queries, of->rows, of->count, of->copy) : *queries;
    return kin_exact_search(s->ctx, &s->points, &asked, &request, out);
}

/* ---- Samples -------------------------------------------------------------------------------- */

static void sample_free(kith_ctx *ctx, sample *of)
{
    kin_free(ctx, of->found.distances64);
    kin_free(ctx, of->truth.distances64);
    kin_free(ctx, of->copy);
    kin_free(ctx, of->rows);
}

static kith_status sample_make(searching *s, uint64_t seed, sample *of)
{
    kith_ctx *ctx = s->ctx;
    const kith_matrix *queries = &s->queries.rows.matrix;
    const uint64_t count = (uint64_t)s->params.sample;
    const uint64_t entries = kin_size_mul(count, (uint64_t)s->params.recall_at);
    const uint64_t row_bytes = (uint64_t)queries->cols * (uint64_t)kith_dtype_bytes(queries->dtype);
    const kith_neighbors shape = {.rows = s->params.sample, .k = s->params.recall_at};
    const int64_t start_ns = kin_clock_ns();
    *of = (sample){.count = s->params.sample, .truth = shape, .found = shape};
    KIN_TRY(kin_alloc(ctx, &of->rows, count, sizeof *of->rows, "sample rows"));
    KIN_TRY(kin_alloc(ctx, &of->copy, count, row_bytes, "sample queries"));
    KIN_TRY(kin_alloc(ctx, &of->truth.distances64, entries, sizeof(double), "sample distances"));
    KIN_TRY(kin_alloc(ctx, &of->found.distances64, entries, sizeof(double), "sample distances"));
    kin_sample_draw(queries->rows, of->count, seed, of->rows);
    const kith_report before = ctx->report; /* which is the answer's */
    const kith_status status = solve(s, of, &of->truth);
    ctx->report = before;
    s->sample_seconds += kin_clock_since(start_ns);
    return status;
}

/* Recalls of a sample's queries, at this width of walks of at most k. */
static kith_status look(searching *s, const sample *of, int64_t width, kin_sample_sums *sums,
                        double *evaluations)
{
    const int64_t at = of->found.k;
    const kin_descent_walk walk = walk_of(s, of, width);
    KIN_TRY(kin_descent_walk_run(s->ctx, &walk, &of->found, evaluations));
    *sums = (kin_sample_sums){0};
    for (int64_t i = 0; i < of->count; i++) {
        const double *found = of->found.distances64 + i * at;
        const double last = of->truth.distances64[i * at + at - 1];
        int64_t hits = 0;
        while (hits < at && kin_metric_within(s->distance.metric, found[hits], last)) {
            hits += 1;
        }
        kin_sample_add(sums, (double)hits / (double)at);
    }
    return KITH_OK;
}

/* As wide as the deciding sample wants it. */
static kith_status widen(searching *s, const sample *deciding)
{
    const int64_t points = s->points.rows.matrix.rows;
    const double worth = (double)points * (double)deciding->count / WORTH;
    double evaluations = 0.0;
    kin_sample_sums sums;
    while (s->params.width < points) {
        KIN_TRY(look(s, deciding, s->params.width, &sums, &evaluations));
        if (sums.sum >= s->params.recall * (double)sums.rows) {
            s->report.reached = 1;
            return KITH_OK;
        }
        s->params.width = evaluations > worth ? points : kin_min_i64(2 * s->params.width, points);
    }
    return KITH_OK;
}

static kith_status choose_width(searching *s)
{
    sample deciding = {0};
    if (s->params.recall == 0.0 || s->params.width == s->points.rows.matrix.rows) {
        return KITH_OK;
    }
    kith_status status = sample_make(s, s->params.seed ^ DECIDING_SEED, &deciding);
    if (status == KITH_OK) {
        status = widen(s, &deciding);
    }
    sample_free(s->ctx, &deciding);
    return status;
}

static kith_status tell(searching *s)
{
    sample telling = {0};
    kin_sample_sums sums;
    double evaluations = 0.0;
    if (s->params.sample == 0) {
        return KITH_OK;
    }
    kith_status status = sample_make(s, s->params.seed, &telling);
    if (status == KITH_OK) {
        status = look(s, &telling, s->params.width, &sums, &evaluations);
    }
    if (status == KITH_OK) {
        const bool all = sums.rows == s->queries.rows.matrix.rows;
        kin_sample_interval(&sums, all, &s->report.recall);
        s->report.recall.at = telling.found.k;
    }
    sample_free(s->ctx, &telling);
    return status;
}

/* ---- The call ------------------------------------------------------------------------------- */

static kith_status answer_exactly(searching *s)
{
    const double rows = (double)s->queries.rows.matrix.rows;
    s->report.exact = 1;
    s->report.reached = 1;
    s->report.evaluations = rows * (double)s->points.rows.matrix.rows;
    s->report.recall = (kith_recall){.recall = 1.0,
                                     .low = 1.0,
                                     .high = 1.0,
                                     .rows = s->queries.rows.matrix.rows,
                                     .at = s->params.recall_at};
    KIN_TRY(solve(s, NULL, s->out));
    kin_exact_report(s->ctx, &s->points);
    return KITH_OK;
}

static kith_status answer(searching *s)
{
    kith_report *report = &s->ctx->report;
    KIN_TRY(choose_width(s));
    s->report.width = s->params.width;
    if (s->params.width == s->points.rows.matrix.rows) {
        return answer_exactly(s);
    }
    const int64_t start_ns = kin_clock_ns();
    const kin_descent_walk walk = walk_of(s, NULL, s->params.width);
    KIN_TRY(kin_descent_walk_run(s->ctx, &walk, s->out, &s->report.evaluations));
    report->seconds_screen += kin_clock_since(start_ns);
    report->candidates = s->report.evaluations / (double)s->queries.rows.matrix.rows;
    (void)snprintf(report->screen, sizeof report->screen, "walk");
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(s->ctx->isa));
    return tell(s);
}

static kith_status prepare(searching *s, const kith_matrix *points, const kith_matrix *queries)
{
    kith_report *report = &s->ctx->report;
    const bool screens = kin_exact_screens(&s->distance);
    KIN_TRY(kin_prepare_rows(s->ctx, points, &s->distance, "points", !screens, false, &s->points));
    KIN_TRY(kin_prepare_rows(s->ctx, queries, &s->distance, "queries", true, false, &s->queries));
    const int64_t start_ns = kin_clock_ns();
    KIN_TRY(kin_descent_links_make(s->ctx, s->graph, &s->links));
    s->report.parts = s->links.part_count;
    report->seconds_check = s->points.seconds_check + s->queries.seconds_check;
    report->seconds_prepare =
        s->points.seconds_prepare + s->queries.seconds_prepare + kin_clock_since(start_ns);
    report->distinct_rows = s->points.groups.count;
    return KITH_OK;
}

static kith_status run(searching *s, const kith_matrix *points, const kith_matrix *queries)
{
    kith_status status = prepare(s, points, queries);
    if (status == KITH_OK) {
        status = answer(s);
    }
    s->ctx->report.seconds_rescore += s->sample_seconds;
    s->ctx->report.exact = s->report.exact;
    kin_descent_links_free(s->ctx, &s->links);
    kin_prepared_free(s->ctx, &s->queries);
    kin_prepared_free(s->ctx, &s->points);
    return status;
}

static kith_status search(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                          const kith_matrix *queries, const kith_graph_search_params *params,
                          const kith_neighbors *out, kith_graph_search_report *report)
{
    kith_matrix corpus;
    kith_matrix asked;
    searching s = {.ctx = ctx, .graph = graph, .out = out};
    KIN_TRY(take_params(ctx, params, &s.params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &corpus));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &asked));
    KIN_TRY(kin_check_cols(ctx, &corpus, "points", &asked, "queries"));
    KIN_TRY(kin_check_metric(ctx, s.params.metric, s.params.custom, s.params.custom_arg,
                             corpus.cols, &s.distance));
    KIN_TRY(kin_check_output(ctx, s.params.k, corpus.rows, "there are no more points", out,
                             asked.rows));
    KIN_TRY(check_recall(ctx, &s.params));
    KIN_TRY(check_width(ctx, &s.params));
    KIN_TRY(check_report(ctx, report));
    KIN_TRY(kin_check_graph(ctx, graph, corpus.rows));
    complete(&s.params, corpus.rows, asked.rows);
    KIN_TRY(run(&s, &corpus, &asked));
    if (report != NULL) {
        s.report.struct_size = report->struct_size;
        memcpy(report, &s.report,
               report->struct_size < sizeof s.report ? report->struct_size : sizeof s.report);
    }
    return KITH_OK;
}

kith_status kith_graph_search(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                              const kith_matrix *queries, const kith_graph_search_params *params,
                              const kith_neighbors *out, kith_graph_search_report *report)
{
    kin_call call;
    KIN_TRY(kin_call_begin(ctx, &call));
    return kin_call_end(&call, search(ctx, points, graph, queries, params, out, report));
}
