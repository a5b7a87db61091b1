/* SPDX-License-Identifier: Apache-2.0
 * As for approximate graphs (engine_descent.c) two samples are drawn: walks of the deciding one
 * become wider until its recall is the wanted one, the telling one knows nothing of that and is
 * reported. What a sample finds is what its queries find in the answer: a walk depends on its
 * query, its width and the seed alone. */
#include "engine/engine_walks.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "engine/engine_device.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "recall/recall.h"

#include <stdio.h>

/* Of a walk, for each of those that it keeps: seen with graphs of 10 to 32 neighbours. */
static const double KEYS_A_PLACE = 25.0;

typedef struct searching {
    kith_ctx *ctx;
    const kin_walks_search *job;
    kin_walks_asked asked;
    int64_t width;
    double sample_seconds;
    kith_graph_search_report *report;
} searching;

/* Queries that are solved exactly. */
typedef struct sample {
    kin_walks_sample of;
    uint32_t *rows;
    kith_neighbors truth; /* distances64 alone, as of found */
    kith_neighbors found;
} sample;

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
    const kith_graph_search_params *params = &s->job->params;
    const kith_matrix *queries = &s->asked.queries;
    const uint64_t count = (uint64_t)params->sample;
    const uint64_t entries = kin_size_mul(count, (uint64_t)params->recall_at);
    const uint64_t row_bytes = (uint64_t)queries->cols * (uint64_t)kith_dtype_bytes(queries->dtype);
    const kith_neighbors shape = {.rows = params->sample, .k = params->recall_at};
    const int64_t start_ns = kin_clock_ns();
    *of = (sample){.of.count = params->sample, .truth = shape, .found = shape};
    KIN_TRY(kin_alloc(ctx, &of->rows, count, sizeof *of->rows, "sample rows"));
    KIN_TRY(kin_alloc(ctx, &of->of.copy, count, row_bytes, "sample queries"));
    KIN_TRY(kin_alloc(ctx, &of->truth.distances64, entries, sizeof(double), "sample distances"));
    KIN_TRY(kin_alloc(ctx, &of->found.distances64, entries, sizeof(double), "sample distances"));
    kin_recall_draw(queries->rows, of->of.count, seed, of->rows);
    of->of.rows = of->rows;
    const kith_report before = ctx->report; /* which is the answer's */
    const kith_status status = kin_walks_solve(&s->asked, &of->of, &of->truth);
    ctx->report = before;
    s->sample_seconds += kin_clock_since(start_ns);
    return status;
}

static kin_walks_way way_of(const searching *s, int64_t width)
{
    const kith_graph_search_params *params = &s->job->params;
    return (kin_walks_way){.width = width, .meets = params->meets, .seed = params->seed};
}

/* Recalls of a sample's queries, at this width of walks of at most k. */
static kith_status look(searching *s, const sample *of, int64_t width, kin_recall_sums *sums,
                        kin_walks_effort *effort)
{
    const int64_t at = of->found.k;
    KIN_TRY(kin_walks_run(&s->asked, &of->of, way_of(s, width), &of->found, effort));
    *sums = (kin_recall_sums){0};
    for (int64_t i = 0; i < of->of.count; i++) {
        const double *found = of->found.distances64 + i * at;
        const double last = of->truth.distances64[i * at + at - 1];
        int64_t hits = 0;
        while (hits < at && kin_metric_within(s->asked.walks->distance.metric, found[hits], last)) {
            hits += 1;
        }
        kin_recall_add(sums, (double)hits / (double)at);
    }
    return KITH_OK;
}

/* Wider than walks are: all points. */
static int64_t width_or_all(const searching *s, int64_t width)
{
    return width <= s->asked.walks->most ? width : s->asked.walks->points.rows;
}

/* As wide as the deciding sample wants it, but no slower than the exact engine. */
static kith_status widen(searching *s, const sample *deciding)
{
    const int64_t points = s->asked.walks->points.rows;
    kin_walks_effort effort;
    kin_recall_sums sums;
    while (s->width < points) {
        KIN_TRY(look(s, deciding, s->width, &sums, &effort));
        if (effort.share >= 1.0) {
            s->width = points;
        } else if (sums.sum >= s->job->params.recall * (double)sums.rows) {
            s->report->reached = 1;
            return KITH_OK;
        } else {
            s->width = width_or_all(s, kin_min_i64(2 * s->width, points));
        }
    }
    return KITH_OK;
}

static kith_status choose_width(searching *s)
{
    sample deciding = {0};
    if (s->job->params.recall == 0.0 || s->width == s->asked.walks->points.rows) {
        return KITH_OK;
    }
    kith_status status = sample_make(s, kin_recall_deciding_seed(s->job->params.seed), &deciding);
    if (status == KITH_OK) {
        status = widen(s, &deciding);
    }
    sample_free(s->ctx, &deciding);
    return status;
}

static kith_status tell(searching *s)
{
    sample telling = {0};
    kin_recall_sums sums;
    kin_walks_effort effort;
    if (s->job->params.sample == 0) {
        return KITH_OK;
    }
    kith_status status = sample_make(s, s->job->params.seed, &telling);
    if (status == KITH_OK) {
        status = look(s, &telling, s->width, &sums, &effort);
    }
    if (status == KITH_OK) {
        const bool all = sums.rows == s->asked.queries.rows;
        kin_recall_interval(&sums, all, &s->report->recall);
        s->report->recall.at = telling.found.k;
    }
    sample_free(s->ctx, &telling);
    return status;
}

/* ---- The answer ----------------------------------------------------------------------------- */

static kith_status answer_exactly(searching *s)
{
    const double rows = (double)s->asked.queries.rows;
    s->report->exact = 1;
    s->report->reached = 1;
    s->report->evaluations = rows * (double)s->asked.walks->points.rows;
    s->report->recall = kin_recall_exact(s->asked.queries.rows, s->job->params.recall_at);
    return kin_walks_solve(&s->asked, NULL, s->job->out);
}

static kith_status answer(searching *s)
{
    kith_report *report = &s->ctx->report;
    s->width = width_or_all(s, s->width);
    KIN_TRY(choose_width(s));
    s->report->width = s->width;
    if (s->width == s->asked.walks->points.rows) {
        return answer_exactly(s);
    }
    const int64_t start_ns = kin_clock_ns();
    kin_walks_effort effort;
    KIN_TRY(kin_walks_run(&s->asked, NULL, way_of(s, s->width), s->job->out, &effort));
    s->report->evaluations = effort.evaluations;
    report->seconds_screen += kin_clock_since(start_ns);
    report->candidates = s->report->evaluations / (double)s->asked.queries.rows;
    (void)snprintf(report->screen, sizeof report->screen, "walk");
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(s->ctx->isa));
    return tell(s);
}

kith_status kin_walks_answer(kith_ctx *ctx, const kith_walks *walks, const kin_walks_search *job,
                             kith_graph_search_report *report)
{
    searching s = {.ctx = ctx,
                   .job = job,
                   .asked = {.ctx = ctx, .walks = walks, .queries = job->queries},
                   .width = job->params.width,
                   .report = report};
    *report = (kith_graph_search_report){.parts = walks->parts};
    kith_status status = kin_walks_ask(&s.asked, job->params.sample > 0);
    if (status == KITH_OK) {
        status = answer(&s);
    }
    ctx->report.seconds_rescore += s.sample_seconds;
    ctx->report.exact = report->exact == 1 ? KITH_CERTIFIED : KITH_APPROXIMATE;
    kin_walks_asked_free(&s.asked);
    return status;
}

/* ---- One call ------------------------------------------------------------------------------- */

/* Keys that walks of this width may take. */
static double guess_keys(const kin_walks_source *source, const kin_walks_search *job)
{
    const double width = (double)job->params.width;
    const kin_graph_entries entries =
        kin_graph_count_entries(source->points.rows, 1, job->params.width);
    return (double)job->queries.rows * ((double)entries.random + KEYS_A_PLACE * width);
}

static kith_status make_and_answer(kith_ctx *ctx, kin_gpu *gpu, const kin_walks_source *source,
                                   const kin_walks_search *job, kith_graph_search_report *report)
{
    kith_walks *walks = NULL;
    KIN_TRY(kin_walks_make(ctx, gpu, source, &walks));
    const kith_status status = kin_walks_answer(ctx, walks, job, report);
    kith_walks_free(walks);
    return status;
}

kith_status kin_engine_walks(kith_ctx *ctx, const kin_walks_source *source,
                             const kin_walks_search *job, kith_graph_search_report *report)
{
    kin_gpu *gpu = NULL;
    KIN_TRY(kin_device_enter_walks(ctx, &source->distance, guess_keys(source, job), &gpu));
    if (gpu != NULL) {
        const kith_status status = make_and_answer(ctx, gpu, source, job, report);
        kin_device_leave(ctx, gpu);
        if (!kin_device_yields(ctx, status)) {
            return status;
        }
    }
    return make_and_answer(ctx, NULL, source, job, report);
}
