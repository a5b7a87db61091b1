/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Where each query may find a few rows alone, which are known beforehand (small groups, a
 * bitmap that keeps little), no screen pays: all pairs get canonical keys at once, whatever the
 * group.
 *
 *     position   0 1 2 | 3 4 | 5 6 7 8        queries, group by group
 *     owners     0 0 0 | 1 1 | 2 2 2 2
 *     spans      0: rows listed[0 .. 3)   1: listed[3 .. 9)   2: listed[9 .. 12)
 *
 * Queries that stand together read the same rows, so that these come from the caches.
 *
 * Cost. A canonical key a pair, and sorting a row's pairs. 20 bytes of lists a query and row. */
#include "fused/fused_search.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_prepare.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>

typedef struct picking {
    kin_fused_device on;
    const kin_fused_picks *picks;
    const kin_fused_prepared *corpus;
    const kin_fused_prepared *queries;
    kin_fused_answers answers;
    /* Device: copies of the lists. */
    void *block;
    uint32_t *asked;
    uint32_t *owners;
    uint32_t *listed;
    kin_fused_span *spans;
} picking;

static void name_lists(kin_layout *layout, void *job)
{
    picking *p = job;
    const kin_fused_picks *picks = p->picks;
    p->asked = kin_layout_array(layout, (uint64_t)picks->asked_count, sizeof *p->asked);
    p->owners = kin_layout_array(layout, (uint64_t)picks->asked_count, sizeof *p->owners);
    p->listed = kin_layout_array(layout, (uint64_t)picks->listed_count, sizeof *p->listed);
    p->spans = kin_layout_array(layout, (uint64_t)picks->span_count, sizeof *p->spans);
}

static kith_status bring_lists(picking *p)
{
    kith_ctx *ctx = p->on.ctx;
    kin_gpu *gpu = p->on.gpu;
    const kin_fused_picks *picks = p->picks;
    const uint64_t asked = (uint64_t)picks->asked_count * sizeof *p->asked;
    KIN_TRY(kin_gpu_layout_make(ctx, gpu, name_lists, p, "groups of rows", &p->block));
    KIN_TRY(kin_gpu_upload(ctx, gpu, p->asked, picks->asked, asked));
    KIN_TRY(kin_gpu_upload(ctx, gpu, p->owners, picks->owners, asked));
    KIN_TRY(kin_gpu_upload(ctx, gpu, p->listed, picks->listed,
                           (uint64_t)picks->listed_count * sizeof *p->listed));
    return kin_gpu_upload(ctx, gpu, p->spans, picks->spans,
                          (uint64_t)picks->span_count * sizeof *p->spans);
}

/* Positions first .. first + count. */
static kith_status pick_some(picking *p, kin_fused_delivery *d, int64_t first, int64_t count)
{
    const kin_fused_rescore job = {
        .set = {.frame.bound = KIN_BOUND_DISTANCE, .ids = p->asked},
        .set_rows = p->queries->rows,
        .cols_rows = p->corpus->rows,
        .lists = {.k = d->k, .capacity = (int32_t)kin_max_i64(p->picks->longest, 1)},
        .spans = p->spans,
        .owners = p->owners,
        .listed = p->listed,
        .row0 = first,
        .rows = count,
        .pairs = d->pairs,
        .count = d->counts};
    KIN_TRY(kin_fused_launched(&p->on, p->on.kernels->rescore(p->on.stream, &job),
                               "computing canonical distances"));
    return kin_fused_delivery_run(&p->answers, d, p->asked + first, count, NULL);
}

static kith_status pick_all(picking *p)
{
    const int64_t rows = p->picks->asked_count;
    kin_fused_delivery d;
    KIN_TRY(kin_fused_delivery_make(&p->answers, rows, (int32_t)p->answers.wanted, &d));
    kith_status status = KITH_OK;
    for (int64_t first = 0; status == KITH_OK && first < rows; first += d.most) {
        const int64_t count = kin_min_i64(d.most, rows - first);
        status = pick_some(p, &d, first, count);
        KIN_THEN(status, kin_progress(p->on.ctx, "screen", (double)(first + count), (double)rows));
    }
    KIN_THEN(status, kin_gpu_wait(p->on.ctx, p->on.gpu));
    kin_fused_delivery_free(&p->answers, &d);
    return status;
}

static kith_status answer(picking *p)
{
    const kin_fused_query *query = p->picks->query;
    const bool on_device = (query->place & KIN_FUSED_OUT_ON_DEVICE) != 0;
    const int64_t rows = p->corpus->rows.rows;
    const kin_groups corpus = {.rows = rows, .count = rows};
    const kin_groups asked = {.rows = p->picks->asked_count, .count = p->picks->asked_count};
    p->answers = kin_fused_answers_of(&p->on, query, &corpus, &asked);
    p->answers.fills = true;
    KIN_TRY(kin_fused_answers_make(&p->answers, on_device, false));
    kith_status status = bring_lists(p);
    KIN_THEN(status, pick_all(p));
    KIN_THEN(status, kin_fused_answers_finish(&p->answers, query->out, rows));
    kin_fused_answers_free(&p->answers);
    kin_gpu_free(p->on.gpu, p->block);
    return status;
}

static kith_status prepare(const picking *p, const kith_matrix *matrix, const char *name,
                           uint32_t place, kin_fused_prepared *prepared)
{
    const kin_fused_source source = {.matrix = matrix,
                                     .distance = &p->picks->query->request->distance,
                                     .name = name,
                                     .place = place};
    KIN_TRY(kin_fused_prepare_queries(&p->on, &source, NULL, prepared));
    p->on.ctx->report.seconds_prepare += prepared->seconds_prepare + prepared->seconds_upload;
    return KITH_OK;
}

static void report(const picking *p)
{
    kith_report *told = &p->on.ctx->report;
    told->exact = KITH_CERTIFIED;
    told->distinct_rows = p->corpus->rows.rows;
    (void)snprintf(told->screen, sizeof told->screen, "direct");
}

kith_status kin_fused_pick(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_picks *picks)
{
    const kin_fused_query *query = picks->query;
    const bool graph = query->queries == NULL;
    kin_fused_prepared corpus = {0};
    kin_fused_prepared queries = {0};
    picking p = {.on = kin_fused_device_of(ctx, gpu),
                 .picks = picks,
                 .corpus = &corpus,
                 .queries = graph ? &corpus : &queries};
    KIN_TRY(prepare(&p, picks->corpus, graph ? "points" : "corpus", picks->place, &corpus));
    kith_status status =
        graph ? KITH_OK : prepare(&p, query->queries, query->name, query->place, &queries);
    const int64_t start = kin_clock_ns();
    KIN_THEN(status, answer(&p));
    ctx->report.seconds_screen += kin_clock_since(start);
    report(&p);
    kin_fused_prepared_free(ctx, gpu, &queries);
    kin_fused_prepared_free(ctx, gpu, &corpus);
    return status;
}

/* ---- Rows whose lists overflowed, among some columns ------------------------------------------
 */

typedef struct among {
    int64_t count;
    uint32_t *owners;
    kin_fused_span *span;
    int32_t *counts;
} among;

static void name_among(kin_layout *layout, void *job)
{
    among *a = job;
    a->owners = kin_layout_array(layout, (uint64_t)a->count, sizeof *a->owners);
    a->counts = kin_layout_array(layout, (uint64_t)a->count, sizeof *a->counts);
    a->span = kin_layout_array(layout, 1, sizeof *a->span);
}

kith_status kin_fused_pick_among(const kin_fused_device *on, const kin_fused_solving *s)
{
    const uint32_t columns = (uint32_t)s->among->points;
    const kin_fused_span all = {.count = columns, .before = columns};
    among a = {.count = s->count};
    void *block = NULL;
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_among, &a, "rows to solve", &block));
    const kin_fused_rescore job = {.set = {.frame.bound = KIN_BOUND_DISTANCE, .ids = s->ids},
                                   .set_rows = *s->rows,
                                   .cols_rows = *s->cols,
                                   .lists = {.k = s->k, .capacity = (int32_t)columns},
                                   .spans = a.span,
                                   .owners = a.owners,
                                   .listed = s->among->ids,
                                   .rows = s->count,
                                   .pairs = s->pairs,
                                   .count = a.counts};
    kith_status status =
        kin_gpu_fill(on->ctx, on->gpu, a.owners, 0, (uint64_t)s->count * sizeof *a.owners);
    KIN_THEN(status, kin_gpu_upload(on->ctx, on->gpu, a.span, &all, sizeof all));
    KIN_THEN(status, kin_fused_launched(on, on->kernels->rescore(on->stream, &job),
                                        "computing canonical distances"));
    KIN_THEN(status, kin_gpu_wait(on->ctx, on->gpu));
    kin_gpu_free(on->gpu, block);
    return status;
}

bool kin_fused_picks_take(const kin_request *request, int64_t corpus_rows)
{
    return request->pipeline == NULL && kin_exact_screens(&request->distance) &&
           request->k < KIN_FUSED_PASS_K && corpus_rows > 0;
}
