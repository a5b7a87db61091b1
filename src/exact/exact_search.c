/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_search.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_threads.h"
#include "kith/kith_papers.h"

enum { ROWS_A_TASK = 64 };
/* A search takes as many queries at a time as keep their copies and lists within this. */
static const uint64_t STRIPE_BYTES = 32u << 20;

/* Canonical keys of all pairs, by either way. */
static kith_status run_all_pairs(kith_ctx *ctx, const kin_prepared *corpus,
                                 const kin_prepared *queries, const kin_request *request,
                                 const kith_neighbors *out)
{
    return request->pipeline != NULL ? request->pipeline->run(ctx, corpus, queries, request, out)
                                     : kin_direct_run(ctx, corpus, queries, request, out);
}

/* ---- Writing -------------------------------------------------------------------------------- */

typedef struct writer {
    KIN_APART kin_list_scratch scratch;
    kin_answer answer;
} writer;

typedef struct writing {
    kith_ctx *ctx;
    kin_lists *lists; /* of one side's groups; NULL where that side has none */
    kin_answer_target target;
    const kin_groups *groups; /* of the corpus */
    const kin_distance *distance;
    int64_t wanted;
    int32_t threads;
    writer *writers;
    void *block;
} writing;

/* Groups of a side without lists have no candidates but the degenerate rows of the corpus. */
static int64_t groups_to_write(const writing *w)
{
    return w->lists != NULL ? w->lists->rows->points : w->target.groups->count;
}

static kith_status write_rows(void *arg, int64_t position, int32_t thread)
{
    const writing *w = arg;
    kin_list_scratch *scratch = &w->writers[thread].scratch;
    kin_answer *answer = &w->writers[thread].answer;
    const uint32_t *ids = w->lists != NULL ? w->lists->rows->ids : w->target.groups->firsts;
    const int64_t count = w->lists != NULL ? kin_lists_finish(w->lists, position, scratch) : 0;
    kin_answer_expand(answer, scratch->pairs, count);
    KIN_TRY(kin_answer_write_group(w->ctx, &w->target, answer, ids[position]));
    return KITH_OK;
}

static void name_writers(kin_layout *layout, void *job)
{
    writing *w = job;
    w->writers = kin_layout_zeros(layout, (uint64_t)w->threads, sizeof *w->writers);
    for (int32_t t = 0; t < w->threads; t++) {
        writer spare;
        writer *one = kin_layout_item(w->writers, t, &spare);
        one->answer =
            (kin_answer){.groups = w->groups, .metric = w->distance->metric, .wanted = w->wanted};
        kin_answer_name(layout, &one->answer);
        if (w->lists != NULL) {
            kin_list_scratch_name(layout, w->lists->capacity, w->distance->cols, &one->scratch);
        }
    }
}

/* Writes all rows of a side, the degenerate ones too, as neighbours in `corpus`. */
static kith_status write_all(kith_ctx *ctx, writing *w, const kin_prepared *corpus, int64_t wanted)
{
    const int64_t start = kin_clock_ns();
    w->groups = &corpus->groups;
    w->distance = &corpus->distance;
    w->wanted = wanted;
    w->threads = ctx->threads;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_writers, w, "the lists of rows"));
    const kith_status status =
        kin_parallel_rows(ctx, "rescore", groups_to_write(w), ROWS_A_TASK, write_rows, w);
    if (status == KITH_OK) {
        kin_answer_write_degenerates(&w->target, &w->writers[0].answer);
    }
    for (int32_t t = 0; t < w->threads; t++) {
        ctx->report.candidates += (double)w->writers[t].scratch.keys_computed;
    }
    ctx->report.seconds_rescore += kin_clock_since(start);
    return status;
}

void kin_exact_plan_screen(kin_layout *plan, kin_screen *shape, int64_t wanted, int32_t threads)
{
    kin_lists lists = kin_lists_shape(shape->row.set, shape->point.set, wanted);
    writing w = {.lists = &lists,
                 .distance = &shape->point.set->frame->distance,
                 .wanted = wanted,
                 .threads = threads};
    kin_lists_plan(plan, &lists);
    const uint64_t kept = kin_layout_mark(plan);
    shape->row.lists = &lists;
    shape->point.lists = shape->point.lists != NULL ? &lists : NULL;
    kin_screen_plan(plan, shape, threads);
    kin_layout_block(plan, name_writers, &w);
    kin_layout_back(plan, kept);
    shape->row.lists = NULL;
}

/* ---- Report --------------------------------------------------------------------------------- */

static void count_lists(kith_ctx *ctx, const kin_lists *lists)
{
    for (int64_t i = 0; i < lists->rows->points; i++) {
        ctx->report.rerun_share += lists->reran[i];
    }
}

/* Sums become shares when the call ends: kin_prepared_report. */
static void count_screen(kith_ctx *ctx, const kin_screen *screen)
{
    ctx->report.skipped_share += (double)screen->pairs_skipped;
    ctx->report.looked_share += (double)screen->pairs_looked;
    ctx->report.candidates += (double)screen->keys_computed;
}

static kith_status run_screen(kith_ctx *ctx, kin_screen *screen, double *pairs)
{
    const int64_t start = kin_clock_ns();
    const kith_status status = kin_screen_run(ctx, screen);
    count_screen(ctx, screen);
    *pairs += (double)screen->pairs;
    ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}

static void finish_report(kith_ctx *ctx, const kin_prepared *corpus, double pairs, int64_t rows)
{
    kith_report *report = &ctx->report;
    report->exact = KITH_CERTIFIED;
    report->skipped_share = pairs > 0.0 ? report->skipped_share / pairs : 0.0;
    report->looked_share = pairs > 0.0 ? report->looked_share / pairs : 0.0;
    report->shadow_axes = corpus->shadow.axes;
    report->rerun_share /= (double)kin_max_i64(rows, 1);
    report->candidates /= (double)kin_max_i64(rows, 1);
    report->distinct_rows = corpus->groups.count;
    kin_prepared_report(ctx, corpus);
}

static kin_meet_side side_of(const kin_prepared *prepared, uint32_t flags, kin_lists *lists)
{
    return (kin_meet_side){.set = &prepared->set,
                           .cast = prepared->cast.points > 0 ? &prepared->cast : NULL,
                           .sieve = prepared->sieve.points > 0 ? &prepared->sieve : NULL,
                           .lists = lists,
                           .cover = (flags & KITH_NO_SKIP) != 0 ? NULL : &prepared->cover};
}

static kin_screen screen_of(const kin_prepared *rows, const kin_prepared *points, uint32_t flags,
                            kin_lists *lists)
{
    return (kin_screen){.row = side_of(rows, flags, lists),
                        .point = side_of(points, flags, NULL),
                        .block = kin_screen_block(&points->frame)};
}

/* ---- Graph ---------------------------------------------------------------------------------- */

kith_status kin_exact_shadows(kith_ctx *ctx, const kin_request *request, const kin_shadow_job *job,
                              kin_prepared *prepared)
{
    return kin_exact_job_screens(request) && (request->flags & KITH_NO_SKIP) == 0
               ? kin_prepare_shadows(ctx, job, prepared)
               : KITH_OK;
}

static kith_status graph_by_screen(kith_ctx *ctx, kin_prepared *points, const kin_request *request,
                                   const kith_neighbors *out)
{
    const bool leaves_out = kin_request_leaves(request, true);
    const int64_t wanted = kin_request_ids(request, true, points->rows.matrix.rows);
    kin_lists lists = {0};
    writing w = {.ctx = ctx,
                 .target = {.groups = &points->groups, .leaves_self_out = leaves_out, .out = out}};
    double pairs = 0.0;
    KIN_HOLD(hold, ctx);
    kin_lists_hold(&hold, &lists);
    if (points->groups.count > 0) {
        KIN_TRY(kin_lists_make(ctx, &points->set, &points->set, points->groups.weights, wanted,
                               &lists));
        w.lists = &lists;
        kin_screen screen = screen_of(points, points, request->flags, &lists);
        screen.point.lists = (request->flags & KITH_NO_SYMMETRY) == 0 ? &lists : NULL;
        screen.block = kin_screen_graph_block(&points->frame, points->groups.count);
        KIN_TRY(run_screen(ctx, &screen, &pairs));
    }
    KIN_TRY(write_all(ctx, &w, points, wanted));
    if (w.lists != NULL) {
        count_lists(ctx, &lists);
    }
    finish_report(ctx, points, pairs, points->groups.count);
    return KITH_OK;
}

kith_status kin_exact_graph(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                            const kith_neighbors *out)
{
    kin_prepared prepared = {0};
    kith_matrix rows = *points;
    KIN_HOLD(hold, ctx);
    kin_prepared_hold(&hold, &prepared);
    const bool screens = kin_exact_job_screens(request);
    KIN_TRY(screens ? kin_bytes_take(&hold, &request->distance, &rows, NULL) : KITH_OK);
    const bool integer = kin_frame_is_integer(&request->distance, &rows, &rows);
    KIN_TRY(kin_prepare_rows(ctx, &rows, &request->distance, "points",
                             screens ? 0 : KIN_ROWS_DISTINCT, &prepared));
    prepared.graph = true;
    if (screens) {
        KIN_TRY(kin_prepare_corpus(ctx, integer, request->k + 1, &prepared));
    }
    const bool by_screen = screens && !prepared.vain;
    if (by_screen) {
        const double n = (double)prepared.groups.count;
        const kin_shadow_job job = {.k = request->k + 1, .pairs = 0.5 * n * n, .ends = 2};
        KIN_TRY(kin_exact_shadows(ctx, request, &job, &prepared));
    }
    kin_prepared_tell(ctx, &prepared);
    kith_status status = by_screen ? graph_by_screen(ctx, &prepared, request, out)
                                   : run_all_pairs(ctx, &prepared, &prepared, request, out);
    if (kin_prepare_drop_shadows(ctx, &prepared, &status)) {
        status = graph_by_screen(ctx, &prepared, request, out);
    }
    return status;
}

/* ---- Search --------------------------------------------------------------------------------- */

typedef struct searching {
    const kin_prepared *corpus;
    kin_prepared *queries;
    const kin_request *request;
    const kith_neighbors *out;
    int64_t wanted;
    double pairs;
} searching;

static kith_status search_stripe(kith_ctx *ctx, searching *s, int64_t first, int64_t count)
{
    KIN_TRY(kin_prepare_queries(ctx, s->corpus, first, count, s->queries));
    kin_lists lists;
    KIN_TRY(kin_lists_make(ctx, &s->queries->set, &s->corpus->set, s->corpus->groups.weights,
                           s->wanted, &lists));
    kin_lists_begin_within(&lists, s->queries->groups.next, s->request->within[0]);
    kin_screen screen = screen_of(s->queries, s->corpus, s->request->flags, &lists);
    /* Degenerate queries are written once, with the first stripe. */
    kin_groups groups = s->queries->groups;
    groups.degenerate = first == 0 ? groups.degenerate : 0;
    writing w = {.ctx = ctx,
                 .lists = &lists,
                 .target = {.groups = &groups,
                            .exclude = s->request->exclude,
                            .may_be_short = s->request->within[0].keys != NULL,
                            .out = s->out}};
    kith_status status = run_screen(ctx, &screen, &s->pairs);
    KIN_THEN(status, write_all(ctx, &w, s->corpus, s->wanted));
    count_lists(ctx, &lists);
    kin_lists_free(ctx, &lists);
    return status;
}

int64_t kin_exact_stripe(const kin_frame *frame, int64_t wanted)
{
    const uint64_t words = (uint64_t)frame->groups + (frame->bound == KIN_BOUND_INTEGER ? 4 : 6);
    const uint64_t entries = (uint64_t)kin_lists_capacity(wanted, 1) + 2;
    const uint64_t a_row = words * sizeof(uint32_t) + entries * sizeof(uint64_t) + 1;
    const int64_t block = kin_screen_block(frame);
    return kin_max_i64(1, (int64_t)(STRIPE_BYTES / a_row) / block) * block;
}

static kith_status search_by_screen(kith_ctx *ctx, searching *s)
{
    const int64_t queries = s->queries->groups.count;
    if (queries == 0 || s->corpus->groups.count == 0) {
        writing w = {.ctx = ctx,
                     .target = {.groups = &s->queries->groups,
                                .exclude = s->request->exclude,
                                .out = s->out}};
        return write_all(ctx, &w, s->corpus, s->wanted);
    }
    const int64_t stripe = kin_exact_stripe(&s->corpus->frame, s->wanted);
    for (int64_t first = 0; first < queries; first += stripe) {
        KIN_TRY(search_stripe(ctx, s, first, kin_min_i64(stripe, queries - first)));
    }
    return KITH_OK;
}

kith_status kin_exact_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                             const kin_request *request, const kith_neighbors *out)
{
    kin_prepared prepared = {0};
    kin_prepared again = {0};
    KIN_HOLD(hold, ctx);
    kin_prepared_hold(&hold, &prepared);
    kin_prepared_hold(&hold, &again);
    const kin_prepared *use = corpus;
    const bool screens = kin_exact_job_screens(request);
    KIN_TRY(kin_prepare_rows(ctx, queries, &request->distance, "queries", KIN_ROWS_DISTINCT,
                             &prepared));
    kin_prepared_tell(ctx, &prepared);
    if (!screens) {
        return run_all_pairs(ctx, corpus, &prepared, request, out);
    }
    if (kin_glance_suits(corpus, request, prepared.groups.count)) {
        const kith_status status = kin_glance_search(ctx, corpus, &prepared, request, out);
        if (status != KITH_E_MEMORY && status != KITH_E_LIMIT) {
            return status;
        }
        kin_forgive(ctx); /* the screen takes less */
    }
    KIN_TRY(kin_prepare_corpus_for(ctx, corpus, queries, request->k, &again, &use));
    if (use->vain) {
        return kin_direct_run(ctx, use, &prepared, request, out);
    }
    KIN_TRY(kin_order_make(ctx, &prepared.rows, &prepared.distance, prepared.groups.count, false,
                           prepared.order));
    searching s = {.corpus = use,
                   .queries = &prepared,
                   .request = request,
                   .out = out,
                   .wanted = kin_request_ids(request, false, corpus->rows.matrix.rows)};
    KIN_TRY(search_by_screen(ctx, &s));
    finish_report(ctx, use, s.pairs, prepared.groups.count);
    return KITH_OK;
}

/* ---- Both directions ------------------------------------------------------------------------ */

static kith_status both_by_screen(kith_ctx *ctx, kin_prepared *a, kin_prepared *b,
                                  const kin_request *request, const kith_neighbors *ab,
                                  const kith_neighbors *ba)
{
    kin_lists a_lists = {0};
    kin_lists b_lists = {0};
    const bool may_be_short = request->within[0].keys != NULL;
    writing to_b = {.ctx = ctx,
                    .target = {.groups = &a->groups, .may_be_short = may_be_short, .out = ab}};
    writing to_a = {.ctx = ctx,
                    .target = {.groups = &b->groups, .may_be_short = may_be_short, .out = ba}};
    double pairs = 0.0;
    KIN_HOLD(hold, ctx);
    kin_lists_hold(&hold, &a_lists);
    kin_lists_hold(&hold, &b_lists);
    if (a->groups.count > 0 && b->groups.count > 0) {
        KIN_TRY(kin_lists_make(ctx, &a->set, &b->set, b->groups.weights, ab->k, &a_lists));
        KIN_TRY(kin_lists_make(ctx, &b->set, &a->set, a->groups.weights, ba->k, &b_lists));
        kin_lists_begin_within(&a_lists, a->groups.next, request->within[0]);
        kin_lists_begin_within(&b_lists, b->groups.next, request->within[1]);
        kin_screen screen = screen_of(a, b, request->flags, &a_lists);
        screen.point.lists = &b_lists;
        KIN_TRY(run_screen(ctx, &screen, &pairs));
        to_b.lists = &a_lists;
        to_a.lists = &b_lists;
        count_lists(ctx, &a_lists);
        count_lists(ctx, &b_lists);
    }
    KIN_TRY(write_all(ctx, &to_b, b, ab->k));
    KIN_TRY(write_all(ctx, &to_a, a, ba->k));
    finish_report(ctx, b, pairs, a->groups.count + b->groups.count);
    return KITH_OK;
}

/* It says which type is fine enough: of few rows that is not asked (screen_corpus.h). */
static kin_prepared *larger(kin_prepared *a, kin_prepared *b)
{
    return b->groups.count >= a->groups.count ? b : a;
}

static kith_status prepare_other(kith_ctx *ctx, kin_prepared *a, kin_prepared *b)
{
    const kin_prepared *corpus = larger(a, b);
    kin_prepared *other = corpus == b ? a : b;
    return kin_prepare_queries(ctx, corpus, 0, other->groups.count, other);
}

static kith_status prepare_both(kith_ctx *ctx, bool integer, const kin_request *request,
                                kin_prepared *a, kin_prepared *b)
{
    kin_prepared *corpus = larger(a, b);
    kin_prepared *other = corpus == b ? a : b;
    if (corpus->groups.count == 0) {
        return KITH_OK;
    }
    corpus->within = request->within[corpus == b];
    KIN_TRY(kin_prepare_corpus(ctx, integer, request->k, corpus));
    if (other->groups.count == 0 || corpus->vain) {
        return KITH_OK;
    }
    const kin_shadow_job job = {.k = request->k,
                                .pairs = (double)corpus->groups.count * (double)other->groups.count,
                                .ends = 2};
    KIN_TRY(kin_exact_shadows(ctx, request, &job, corpus));
    KIN_TRY(kin_order_make(ctx, &other->rows, &other->distance, other->groups.count, false,
                           other->order));
    return prepare_other(ctx, a, b);
}

kith_status kin_exact_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                           const kin_request *request, const kith_neighbors *ab,
                           const kith_neighbors *ba)
{
    const bool screens = kin_exact_job_screens(request);
    const int flags = screens ? 0 : KIN_ROWS_DISTINCT;
    kith_matrix ma = *a;
    kith_matrix mb = *b;
    kin_prepared pa = {0};
    kin_prepared pb = {0};
    KIN_HOLD(hold, ctx);
    kin_prepared_hold(&hold, &pa);
    kin_prepared_hold(&hold, &pb);
    KIN_TRY(screens ? kin_bytes_take(&hold, &request->distance, &ma, &mb) : KITH_OK);
    const bool integer = kin_frame_is_integer(&request->distance, &ma, &mb);
    KIN_TRY(kin_prepare_rows(ctx, &ma, &request->distance, "a", flags, &pa));
    KIN_TRY(kin_prepare_rows(ctx, &mb, &request->distance, "b", flags, &pb));
    if (screens) {
        KIN_TRY(prepare_both(ctx, integer, request, &pa, &pb));
    }
    if (!screens || larger(&pa, &pb)->vain) {
        kin_request back = *request;
        back.within[0] = request->within[1];
        KIN_TRY(run_all_pairs(ctx, &pb, &pa, request, ab));
        return run_all_pairs(ctx, &pa, &pb, &back, ba);
    }
    kin_prepared_tell(ctx, &pa);
    kin_prepared_tell(ctx, &pb);
    kith_status status = both_by_screen(ctx, &pa, &pb, request, ab, ba);
    if (kin_prepare_drop_shadows(ctx, larger(&pa, &pb), &status)) {
        KIN_TRY(prepare_other(ctx, &pa, &pb));
        status = both_by_screen(ctx, &pa, &pb, request, ab, ba);
    }
    return status;
}
