/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Where each query may find a few rows alone (small groups, a bitmap that keeps little), no
 * screen pays: all pairs get canonical keys at once, whatever the group.
 *
 *     position   0 1 2 | 3 4 | 5 6 7 8        queries, group by group
 *     owners     0 0 0 | 1 1 | 2 2 2 2
 *     spans      0: rows listed[0 .. 3)   1: listed[3 .. 9)   2: listed[9 .. 12)
 *
 * Groups are sorted on the device (screen_regroup.cu). Queries that stand together read the same
 * rows, so that these come from the caches.
 *
 * Cost. A canonical key a pair, and sorting a row's pairs. 4 bytes a row and query go to the device
 * beside the rows. */
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>

/* ---- Groups ---------------------------------------------------------------------------------- */

kith_status kin_exact_gpu_numbers_find(kith_ctx *ctx, kin_gpu *gpu, const int64_t *numbers,
                                       int64_t rows, uint32_t *of, kin_screen_gpu_numbers *found)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    const uint64_t count = (uint64_t)rows;
    kin_screen_gpu_number job = {.numbers = numbers, .rows = rows, .of = of};
    int64_t *copy = NULL;
    KIN_HOLD(hold, ctx);
    *found = (kin_screen_gpu_numbers){0};
    if (numbers == NULL || rows == 0) {
        return kin_gpu_fill(ctx, gpu, of, 0, count * sizeof *of);
    }
    if (kin_gpu_index_of(numbers) != gpu->index) {
        KIN_GPU_NEW(&hold, gpu, copy, count, "numbers of groups");
        KIN_TRY(kin_gpu_upload(ctx, gpu, copy, numbers, count * sizeof *numbers));
        job.numbers = copy;
    }
    KIN_GPU_NEW(&hold, gpu, job.found, 1, "numbers of groups");
    KIN_TRY(KIN_SCREEN_LAUNCH(&on, number, &job, "reading groups"));
    return kin_gpu_download(ctx, gpu, found, job.found, sizeof *found);
}

static void name_grouping(kin_layout *layout, void *job)
{
    kin_exact_gpu_grouping *g = job;
    const kin_exact_gpu_groups *source = g->source;
    const uint64_t rows = (uint64_t)source->rows;
    const uint64_t queries = (uint64_t)source->queries;
    const uint64_t groups = (uint64_t)source->groups;
    g->totals = kin_layout_array(layout, 1, sizeof *g->totals);
    g->spans = kin_layout_array(layout, groups, sizeof *g->spans);
    g->row_begin = kin_layout_array(layout, groups + 1, sizeof *g->row_begin);
    g->next = kin_layout_array(layout, groups + 1, sizeof *g->next);
    if (!source->there) {
        g->of_rows = kin_layout_array(layout, rows, sizeof *g->of_rows);
    }
    g->listed = kin_layout_array(layout, rows, sizeof *g->listed);
    g->owners = kin_layout_array(layout, queries, sizeof *g->owners);
    if (source->allow != NULL) {
        g->words =
            kin_layout_array(layout, (uint64_t)kin_ceil_div(source->rows, 32), sizeof *g->words);
    }
    if (!g->once) {
        g->query_begin = kin_layout_array(layout, groups + 1, sizeof *g->query_begin);
        g->asked = kin_layout_array(layout, queries, sizeof *g->asked);
    }
    if (source->of_queries != NULL && !source->there) {
        g->of_queries = kin_layout_array(layout, queries, sizeof *g->of_queries);
    }
}

uint64_t kin_exact_gpu_grouping_bytes(const kin_exact_gpu_groups *source)
{
    kin_exact_gpu_grouping g = {.source = source,
                                .once = source->of_queries == NULL && source->allow == NULL};
    const uint64_t rows = (uint64_t)source->rows * sizeof *source->of_rows;
    const uint64_t queries = (uint64_t)source->queries * sizeof *source->of_queries;
    const uint64_t blocks[] = {kin_gpu_layout_bytes(name_grouping, &g), source->there ? rows : 0,
                               source->there && source->of_queries != NULL ? queries : 0};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        sum = kin_size_add(sum, kin_gpu_block_bytes(blocks[i]));
    }
    return sum;
}

static kith_status bring_groups(kith_ctx *ctx, kin_gpu *gpu, kin_exact_gpu_grouping *g)
{
    const kin_exact_gpu_groups *source = g->source;
    KIN_TRY(kin_gpu_layout_make(ctx, gpu, name_grouping, g, "groups of rows", &g->block));
    g->query_begin = g->once ? g->row_begin : g->query_begin;
    g->asked = g->once ? g->listed : g->asked;
    if (!source->there) {
        KIN_TRY(kin_gpu_upload(ctx, gpu, g->of_rows, source->of_rows,
                               (uint64_t)source->rows * sizeof *source->of_rows));
    }
    if (!source->there && source->of_queries != NULL) {
        KIN_TRY(kin_gpu_upload(ctx, gpu, g->of_queries, source->of_queries,
                               (uint64_t)source->queries * sizeof *source->of_queries));
    }
    return source->allow == NULL ? KITH_OK
                                 : kin_gpu_upload(ctx, gpu, g->words, source->allow,
                                                  (uint64_t)kin_ceil_div(source->rows, 8));
}

static kith_status sort_groups(const kin_screen_gpu_device *on, kin_exact_gpu_grouping *g)
{
    const kin_exact_gpu_groups *source = g->source;
    const uint32_t *of_rows = source->there ? source->of_rows : g->of_rows;
    const uint32_t *of_queries = source->there ? source->of_queries : g->of_queries;
    const kin_screen_gpu_regroup rows = {.of = of_rows,
                                         .rows = source->rows,
                                         .words = g->words,
                                         .groups = source->groups,
                                         .begin = g->row_begin,
                                         .next = g->next,
                                         .order = g->listed,
                                         .owners = g->once ? g->owners : NULL};
    const kin_screen_gpu_regroup queries = {.of = source->of_queries != NULL ? of_queries : of_rows,
                                            .rows = source->queries,
                                            .groups = source->groups,
                                            .begin = g->query_begin,
                                            .next = g->next,
                                            .order = g->asked,
                                            .owners = g->owners};
    const kin_screen_gpu_spans spans = {.row_begin = g->row_begin,
                                        .query_begin = g->query_begin,
                                        .groups = source->groups,
                                        .others = source->others,
                                        .spans = g->spans,
                                        .totals = g->totals};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, regroup, &rows, "sorting rows by group"));
    if (!g->once) {
        KIN_TRY(KIN_SCREEN_LAUNCH(on, regroup, &queries, "sorting queries by group"));
    }
    KIN_TRY(KIN_SCREEN_LAUNCH(on, spans, &spans, "measuring groups"));
    return kin_gpu_download(on->ctx, on->gpu, &g->found, g->totals, sizeof g->found);
}

kith_status kin_exact_gpu_grouping_make(kith_ctx *ctx, kin_gpu *gpu,
                                        const kin_exact_gpu_groups *source,
                                        kin_exact_gpu_grouping *grouping)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    *grouping = (kin_exact_gpu_grouping){
        .source = source, .once = source->of_queries == NULL && source->allow == NULL};
    kith_status status = bring_groups(ctx, gpu, grouping);
    KIN_THEN(status, sort_groups(&on, grouping));
    if (status != KITH_OK) {
        kin_exact_gpu_grouping_free(gpu, grouping);
    }
    return status;
}

void kin_exact_gpu_grouping_free(kin_gpu *gpu, kin_exact_gpu_grouping *grouping)
{
    kin_gpu_free(gpu, grouping->block);
    grouping->block = NULL;
}

/* ---- All pairs of a group -------------------------------------------------------------------- */

typedef struct picking {
    kin_screen_gpu_device on;
    const kin_exact_gpu_picks *picks;
    const kin_screen_gpu_prepared *corpus;
    const kin_screen_gpu_prepared *queries;
    kin_exact_gpu_answers answers;
} picking;

/* Queries first .. first + count. */
static kith_status pick_some(kin_exact_gpu_answers *answers, const kin_exact_gpu_asked *asked,
                             kin_exact_gpu_delivery *d, int64_t first, int64_t count)
{
    const kin_screen_gpu_device *on = &answers->on;
    const kin_exact_gpu_grouping *g = asked->grouping;
    const kin_screen_gpu_rescore job = {
        .set = {.frame.bound = KIN_BOUND_DISTANCE, .ids = asked->ids},
        .set_rows = *asked->queries,
        .cols_rows = *asked->corpus,
        .lists = {.k = d->k, .capacity = (int32_t)kin_max_i64(asked->longest, 1)},
        .spans = g->spans,
        .owners = asked->owners,
        .listed = g->listed,
        .row0 = first,
        .rows = count,
        .pairs = d->pairs,
        .count = d->counts};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, rescore, &job, "computing canonical distances"));
    KIN_TRY(kin_exact_gpu_delivery_run(answers, d, asked->ids + first, count, NULL));
    return kin_gpu_wait(on->ctx, on->gpu); /* so that progress is true */
}

static kith_status pick_asked(kin_exact_gpu_answers *answers, const kin_exact_gpu_asked *asked)
{
    const int64_t rows = asked->rows;
    kin_exact_gpu_delivery d;
    KIN_HOLD(hold, answers->on.ctx);
    KIN_TRY(kin_exact_gpu_delivery_make(&hold, answers, rows, (int32_t)answers->wanted, &d));
    for (int64_t first = 0; first < rows; first += d.most) {
        const int64_t count = kin_min_i64(d.most, rows - first);
        KIN_TRY(pick_some(answers, asked, &d, first, count));
        KIN_TRY(kin_progress(answers->on.ctx, "screen", (double)(first + count), (double)rows));
    }
    return KITH_OK;
}

static kith_status answer(picking *p)
{
    const kin_exact_gpu_query *query = p->picks->query;
    const bool on_device = (query->place & KIN_GPU_OUT_ON_DEVICE) != 0;
    const kin_exact_gpu_grouping *grouping = p->picks->grouping;
    const int64_t rows = p->corpus->rows.rows;
    const kin_groups corpus = {.rows = rows, .count = rows};
    const int64_t queries = grouping->source->queries;
    const kin_groups asked = {.rows = queries, .count = queries};
    const kin_exact_gpu_asked all = {.grouping = grouping,
                                     .queries = &p->queries->rows,
                                     .corpus = &p->corpus->rows,
                                     .ids = grouping->asked,
                                     .owners = grouping->owners,
                                     .rows = queries,
                                     .longest = grouping->found.longest};
    p->answers = kin_exact_gpu_answers_of(&p->on, query, &corpus, &asked);
    p->answers.fills = true;
    KIN_TRY(kin_exact_gpu_answers_make(&p->answers, on_device, false));
    kith_status status = pick_asked(&p->answers, &all);
    KIN_THEN(status, kin_exact_gpu_answers_finish(&p->answers, query->out, rows));
    kin_exact_gpu_answers_free(&p->answers);
    return status;
}

static kith_status prepare(const picking *p, const kith_matrix *matrix, const char *name,
                           uint32_t place, kin_screen_gpu_prepared *prepared)
{
    const kin_screen_gpu_source source = {.matrix = matrix,
                                          .distance = &p->picks->query->request->distance,
                                          .name = name,
                                          .place = place};
    return kin_screen_gpu_prepare_queries(&p->on, &source, NULL, prepared);
}

static void report(const picking *p)
{
    kith_report *told = &p->on.ctx->report;
    told->exact = KITH_CERTIFIED;
    told->distinct_rows = p->corpus->rows.rows;
    (void)snprintf(told->screen, sizeof told->screen, "direct");
}

kith_status kin_exact_gpu_pick(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_picks *picks)
{
    const kin_exact_gpu_query *query = picks->query;
    const bool graph = query->queries == NULL;
    kin_screen_gpu_prepared corpus = {0};
    kin_screen_gpu_prepared queries = {0};
    picking p = {.on = kin_screen_gpu_device_of(ctx, gpu),
                 .picks = picks,
                 .corpus = &corpus,
                 .queries = graph ? &corpus : &queries};
    KIN_TRY(prepare(&p, picks->corpus, graph ? "points" : "corpus", picks->place, &corpus));
    kith_status status =
        graph ? KITH_OK : prepare(&p, query->queries, query->name, query->place, &queries);
    const int64_t start = kin_clock_ns();
    KIN_THEN(status, answer(&p));
    ctx->report.seconds_screen += kin_clock_since(start);
    if (status == KITH_OK) {
        report(&p);
    }
    kin_screen_gpu_prepared_free(ctx, gpu, &queries);
    kin_screen_gpu_prepared_free(ctx, gpu, &corpus);
    return status;
}

/* ---- What a screen of groups leaves ---------------------------------------------------------- */

kith_status kin_exact_gpu_pick_few(kin_exact_gpu_answers *answers, const kin_exact_gpu_asked *all,
                                   int64_t least)
{
    const kin_screen_gpu_device *on = &answers->on;
    kin_exact_gpu_asked some = *all;
    uint32_t *ids = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_GPU_NEW(&hold, on->gpu, ids, (uint64_t)all->rows, "queries of small groups");
    const kin_screen_gpu_few few = {.asked = all->ids,
                                    .owners = all->owners,
                                    .spans = all->grouping->spans,
                                    .queries = all->rows,
                                    .least = (uint32_t)least,
                                    .ids = ids};
    KIN_TRY(KIN_SCREEN_LAUNCH(on, few, &few, "finding queries of small groups"));
    some.ids = ids;
    some.longest = least - 1;
    return pick_asked(answers, &some);
}

/* Of a stripe's lost rows: a second and a half of an H200. */
static const double MOST_LOST_PAIRS = 1e10;

kith_status kin_exact_gpu_pick_lost(kin_exact_gpu_answers *answers, const kin_exact_gpu_asked *all,
                                    const kin_screen_gpu_lost *lost, bool *many)
{
    const kin_screen_gpu_device *on = &answers->on;
    kin_exact_gpu_asked some = *all;
    kin_screen_gpu_lost job = *lost;
    uint32_t *there = NULL; /* ids, and behind them owners */
    uint64_t count = 0;
    KIN_HOLD(hold, on->ctx);
    KIN_GPU_NEW(&hold, on->gpu, job.count, 1, "rows to solve");
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, job.count, 0, sizeof *job.count));
    KIN_TRY(KIN_SCREEN_LAUNCH(on, lost, &job, "counting rows to solve"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &count, job.count, sizeof count));
    *many = (double)count * (double)all->longest > MOST_LOST_PAIRS;
    if (count == 0 || *many) {
        return KITH_OK;
    }
    KIN_GPU_NEW(&hold, on->gpu, there, 2 * count, "rows to solve");
    job.ids = there;
    job.owners = there + count;
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, job.count, 0, sizeof *job.count));
    KIN_TRY(KIN_SCREEN_LAUNCH(on, lost, &job, "finding rows to solve"));
    answers->tally.reruns += (double)count;
    some.ids = job.ids;
    some.owners = job.owners;
    some.rows = (int64_t)count;
    return pick_asked(answers, &some);
}

/* ---- Rows whose lists overflowed, among some columns ----------------------------------------- */

enum { MOST_PLACES = 1 << 20 }; /* more are taken in turns, as these are */

typedef struct among {
    int64_t count;
    uint32_t *owners;
    kin_screen_gpu_span *span;
    int32_t *counts;
} among;

static void name_among(kin_layout *layout, void *job)
{
    among *a = job;
    a->owners = kin_layout_array(layout, (uint64_t)a->count, sizeof *a->owners);
    a->counts = kin_layout_array(layout, (uint64_t)a->count, sizeof *a->counts);
    a->span = kin_layout_array(layout, 1, sizeof *a->span);
}

kith_status kin_exact_gpu_pick_among(const kin_screen_gpu_device *on,
                                     const kin_exact_gpu_solving *s)
{
    const uint32_t columns = (uint32_t)s->among->points;
    const kin_screen_gpu_span all = {.count = columns, .before = columns};
    among a = {.count = s->count};
    KIN_HOLD(hold, on->ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, on->gpu, name_among, &a, "rows to solve"));
    const kin_screen_gpu_rescore job = {
        .set = {.frame.bound = KIN_BOUND_DISTANCE, .ids = s->ids},
        .set_rows = *s->rows,
        .cols_rows = *s->cols,
        .lists = {.k = s->k, .capacity = (int32_t)kin_min_i64(columns, MOST_PLACES)},
        .spans = a.span,
        .owners = a.owners,
        .listed = s->among->ids,
        .rows = s->count,
        .pairs = s->pairs,
        .count = a.counts};
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, a.owners, 0, (uint64_t)s->count * sizeof *a.owners));
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, a.span, &all, sizeof all));
    KIN_TRY(KIN_SCREEN_LAUNCH(on, rescore, &job, "computing canonical distances"));
    return kin_gpu_wait(on->ctx, on->gpu);
}
