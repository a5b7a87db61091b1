/* SPDX-License-Identifier: Apache-2.0
 * Search on a graph, and the recall that chooses how wide its walks are.
 *
 * As for approximate graphs (api_descent.c) two samples are drawn: walks of the deciding one become
 * wider until its recall is the wanted one, the telling one knows nothing of that and is reported.
 * What a sample finds is what its queries find in the answer: a walk depends on its query, its
 * width and the seed alone. */
#include "api/api_call.h"
#include "api/api_check.h"
#include "api/api_device.h"
#include "api/api_sample.h"
#include "api/api_walks.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"

#include <stdio.h>

enum { USUAL_SAMPLE = 1000, USUAL_AT = 10, USUAL_WIDTH = 64 };

/* Of a walk, for each of those that it keeps: seen with graphs of 10 to 32 neighbours. */
static const double KEYS_A_PLACE = 25.0;

/* Makes the seed of the deciding sample another one than the telling one's. */
static const uint64_t DECIDING_SEED = 0x6b697468206b6e6eu;

typedef struct searching {
    kith_ctx *ctx;
    kith_graph_search_params params; /* no zeros but recall and seed; sample 0: none */
    kin_walks walks;
    const kith_neighbors *out;
    double sample_seconds;
    kith_graph_search_report report;
} searching;

/* Queries that are solved exactly. */
typedef struct sample {
    kin_walks_sample of;
    uint32_t *rows;
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

static kith_status check_report(kith_ctx *ctx, const kith_graph_search_report *report)
{
    return report == NULL || report->struct_size >= sizeof report->struct_size
               ? KITH_OK
               : kin_fail(ctx, KITH_E_ARGUMENT,
                          "report.struct_size is %lu, must be sizeof(kith_graph_search_report)",
                          (unsigned long)report->struct_size);
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

/* ---- Samples -------------------------------------------------------------------------------- */

static void sample_free(kith_ctx *ctx, sample *of)
{
    kin_free(ctx, of->found.distances64);
    kin_free(ctx, of->truth.distances64);
    kin_free(ctx, of->of.copy);
    kin_free(ctx, of->rows);
}

static kith_status sample_make(searching *s, uint64_t seed, sample *of)
{
    kith_ctx *ctx = s->ctx;
    const kith_matrix *queries = &s->walks.queries;
    const uint64_t count = (uint64_t)s->params.sample;
    const uint64_t entries = kin_size_mul(count, (uint64_t)s->params.recall_at);
    const uint64_t row_bytes = (uint64_t)queries->cols * (uint64_t)kith_dtype_bytes(queries->dtype);
    const kith_neighbors shape = {.rows = s->params.sample, .k = s->params.recall_at};
    const int64_t start_ns = kin_clock_ns();
    *of = (sample){.of.count = s->params.sample, .truth = shape, .found = shape};
    KIN_TRY(kin_alloc(ctx, &of->rows, count, sizeof *of->rows, "sample rows"));
    KIN_TRY(kin_alloc(ctx, &of->of.copy, count, row_bytes, "sample queries"));
    KIN_TRY(kin_alloc(ctx, &of->truth.distances64, entries, sizeof(double), "sample distances"));
    KIN_TRY(kin_alloc(ctx, &of->found.distances64, entries, sizeof(double), "sample distances"));
    kin_sample_draw(queries->rows, of->of.count, seed, of->rows);
    of->of.rows = of->rows;
    const kith_report before = ctx->report; /* which is the answer's */
    const kith_status status = kin_walks_solve(&s->walks, &of->of, &of->truth);
    ctx->report = before;
    s->sample_seconds += kin_clock_since(start_ns);
    return status;
}

/* Recalls of a sample's queries, at this width of walks of at most k. */
static kith_status look(searching *s, const sample *of, int64_t width, kin_sample_sums *sums,
                        kin_walks_effort *effort)
{
    const int64_t at = of->found.k;
    KIN_TRY(kin_walks_run(&s->walks, &of->of, width, s->params.seed, &of->found, effort));
    *sums = (kin_sample_sums){0};
    for (int64_t i = 0; i < of->of.count; i++) {
        const double *found = of->found.distances64 + i * at;
        const double last = of->truth.distances64[i * at + at - 1];
        int64_t hits = 0;
        while (hits < at && kin_metric_within(s->walks.distance.metric, found[hits], last)) {
            hits += 1;
        }
        kin_sample_add(sums, (double)hits / (double)at);
    }
    return KITH_OK;
}

/* Wider than walks are: all points. */
static int64_t width_or_all(const searching *s, int64_t width)
{
    return width <= s->walks.most ? width : s->walks.points.rows;
}

/* As wide as the deciding sample wants it, but no slower than the exact engine. */
static kith_status widen(searching *s, const sample *deciding)
{
    const int64_t points = s->walks.points.rows;
    kin_walks_effort effort;
    kin_sample_sums sums;
    while (s->params.width < points) {
        KIN_TRY(look(s, deciding, s->params.width, &sums, &effort));
        if (effort.share >= 1.0) {
            s->params.width = points;
        } else if (sums.sum >= s->params.recall * (double)sums.rows) {
            s->report.reached = 1;
            return KITH_OK;
        } else {
            s->params.width = width_or_all(s, kin_min_i64(2 * s->params.width, points));
        }
    }
    return KITH_OK;
}

static kith_status choose_width(searching *s)
{
    sample deciding = {0};
    if (s->params.recall == 0.0 || s->params.width == s->walks.points.rows) {
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
    kin_walks_effort effort;
    if (s->params.sample == 0) {
        return KITH_OK;
    }
    kith_status status = sample_make(s, s->params.seed, &telling);
    if (status == KITH_OK) {
        status = look(s, &telling, s->params.width, &sums, &effort);
    }
    if (status == KITH_OK) {
        const bool all = sums.rows == s->walks.queries.rows;
        kin_sample_interval(&sums, all, &s->report.recall);
        s->report.recall.at = telling.found.k;
    }
    sample_free(s->ctx, &telling);
    return status;
}

/* ---- The call ------------------------------------------------------------------------------- */

static kith_status answer_exactly(searching *s)
{
    const double rows = (double)s->walks.queries.rows;
    s->report.exact = 1;
    s->report.reached = 1;
    s->report.evaluations = rows * (double)s->walks.points.rows;
    s->report.recall = (kith_recall){.recall = 1.0,
                                     .low = 1.0,
                                     .high = 1.0,
                                     .rows = s->walks.queries.rows,
                                     .at = s->params.recall_at};
    return kin_walks_solve(&s->walks, NULL, s->out);
}

static kith_status answer(searching *s)
{
    kith_report *report = &s->ctx->report;
    s->params.width = width_or_all(s, s->params.width);
    KIN_TRY(choose_width(s));
    s->report.width = s->params.width;
    if (s->params.width == s->walks.points.rows) {
        return answer_exactly(s);
    }
    const int64_t start_ns = kin_clock_ns();
    kin_walks_effort effort;
    KIN_TRY(kin_walks_run(&s->walks, NULL, s->params.width, s->params.seed, s->out, &effort));
    s->report.evaluations = effort.evaluations;
    report->seconds_screen += kin_clock_since(start_ns);
    report->candidates = s->report.evaluations / (double)s->walks.queries.rows;
    (void)snprintf(report->screen, sizeof report->screen, "walk");
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(s->ctx->isa));
    return tell(s);
}

static kith_status run(searching *s)
{
    kith_status status = kin_walks_make(&s->walks);
    s->report.parts = s->walks.parts;
    if (status == KITH_OK) {
        status = answer(s);
    }
    s->ctx->report.seconds_rescore += s->sample_seconds;
    s->ctx->report.exact = s->report.exact;
    kin_walks_free(&s->walks);
    return status;
}

/* Keys that walks of this width may take. */
static double guess_keys(const searching *s)
{
    const double width = (double)s->params.width;
    const kin_descent_entries entries =
        kin_descent_count_entries(s->walks.points.rows, 1, s->params.width);
    return (double)s->walks.queries.rows * ((double)entries.random + KEYS_A_PLACE * width);
}

static kith_status run_somewhere(searching *s)
{
    const searching before = *s;
    kith_status status = KITH_OK;
    KIN_TRY(kin_device_enter_walks(s->ctx, &s->walks.distance, guess_keys(s), &s->walks.gpu));
    if (s->walks.gpu != NULL) {
        kin_gpu *gpu = s->walks.gpu;
        status = run(s);
        kin_device_leave(s->ctx, gpu);
        if (!kin_device_yields(s->ctx, status)) {
            return status;
        }
        *s = before;
    }
    return run(s);
}

static kith_status search(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                          const kith_matrix *queries, const kith_graph_search_params *params,
                          const kith_neighbors *out, kith_graph_search_report *report)
{
    searching s = {.ctx = ctx, .out = out, .walks = {.ctx = ctx, .graph = graph}};
    kin_walks *walks = &s.walks;
    KIN_TRY(take_params(ctx, params, &s.params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &walks->points));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &walks->queries));
    KIN_TRY(kin_check_cols(ctx, &walks->points, "points", &walks->queries, "queries"));
    KIN_TRY(kin_check_metric(ctx, s.params.metric, s.params.custom, s.params.custom_arg,
                             walks->points.cols, &walks->distance));
    KIN_TRY(kin_check_output(ctx, s.params.k, walks->points.rows, "there are no more points", out,
                             walks->queries.rows));
    KIN_TRY(check_recall(ctx, &s.params));
    KIN_TRY(check_width(ctx, &s.params));
    KIN_TRY(check_report(ctx, report));
    KIN_TRY(kin_check_graph(ctx, graph, walks->points.rows));
    complete(&s.params, walks->points.rows, walks->queries.rows);
    walks->k = s.params.k;
    walks->samples = s.params.sample > 0;
    KIN_TRY(run_somewhere(&s));
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
