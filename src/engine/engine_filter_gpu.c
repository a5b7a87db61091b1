/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. On a GPU a part costs the launches of an engine, some hundred microseconds whatever it
 * does; ten thousand groups of a hundred rows are less work than one of them. So where groups are
 * small, or a bitmap keeps little, all pairs are compared in one go (exact_pick_gpu.c). Larger
 * groups are screened in one go, of which each block of queries meets its own group's rows alone
 * (exact_seats_gpu.c). A graph of a few groups whose points look for those of others is one job of
 * the engine (kin_exact_gpu_across). */
#include "engine/engine_filter.h"

#include "engine/engine_graph.h"
#include "host/host_threads.h"

/* Seconds of an H200: a pair, and each column of it, compared as it is (groups of 1,000 rows; of
 * 100 it is half of that); an engine's call, with the copies of its rows; a pair's column that is
 * screened. */
static const double PICK_PAIR = 1.2e-10;
static const double PICK_COL = 6e-13;
static const double CALL = 1.5e-3;
static const double SCREEN_COL = 1e-14;
/* All groups at once: the job, a row, and each column of it; beside them a pair of each row's k. */
static const double SEATS = 2e-3;
static const double SEAT = 5e-9;
static const double SEAT_COL = 3e-11;

enum { MOST_ROWS = 1 << 30 }; /* of a span */

/* Pairs are picked for what a screen solves in one pass. */
static bool may_pick(const kin_filter_job *job)
{
    const kin_request *request = &job->request;
    return job->filter.rule != KITH_RULE_EACH && job->queries.rows > 0 &&
           !kin_filter_has_bitmaps(&job->filter) && request->method != KITH_METHOD_TREE &&
           request->pipeline == NULL && kin_is_screened(&request->distance) &&
           request->k < KIN_SCREEN_GPU_PASS_K && job->corpus.rows > 0;
}

/* Seconds, about. */
typedef struct costs {
    double pairs;
    double seats;
    double engine;
} costs;

static costs costs_of(const kin_filter_job *job, const kin_screen_gpu_span_totals *found)
{
    const double cols = (double)job->corpus.cols;
    const double rows = (double)(job->queries.rows + (job->graph ? 0 : job->corpus.rows));
    const double pairs = (double)found->pairs;
    const double a_pair = PICK_PAIR + PICK_COL * cols;
    const double screen = pairs * cols * SCREEN_COL;
    const double kept = fmin(pairs, (double)job->queries.rows * (double)job->request.k);
    const bool seats =
        job->filter.rule != KITH_RULE_OTHER && found->longest <= KIN_EXACT_GPU_SEATS_ROWS;
    return (costs){.pairs = found->longest <= MOST_ROWS ? pairs * a_pair : (double)INFINITY,
                   .seats = seats ? SEATS + rows * (SEAT + SEAT_COL * cols) + kept * a_pair + screen
                                  : (double)INFINITY,
                   .engine = CALL * (double)found->used + screen};
}

/* By the engine, and by one GPU: several divide the searches of halves. */
static bool may_meet(const kin_filter_job *job, const kin_filter_place *where)
{
    return job->graph && job->filter.rule == KITH_RULE_OTHER && job->filter.allow == NULL &&
           !kin_method_goes_twice(&job->request, &job->corpus, &job->corpus) &&
           !kin_exact_gpu_team_searches(where->gpu, job->corpus.rows / 2, where->place);
}

/* Groups that are in device memory. */
static kith_status solve(kith_ctx *ctx, const kin_filter_job *job, const kin_filter_place *where,
                         const kin_exact_gpu_grouping *grouping, bool *done)
{
    const kin_exact_gpu_query query = {.queries = job->graph ? NULL : &job->queries,
                                       .name = job->graph ? "points" : "queries",
                                       .request = &job->request,
                                       .place = where->place,
                                       .out = where->out};
    const kin_exact_gpu_picks what = {.corpus = &job->corpus,
                                      .place =
                                          job->resident ? KIN_GPU_DATA_ON_DEVICE : where->place,
                                      .query = &query,
                                      .grouping = grouping};
    const costs c = costs_of(job, &grouping->found);
    if (c.seats < fmin(c.pairs, c.engine)) {
        KIN_TRY(kin_exact_gpu_seats(ctx, where->gpu, &what, done));
        if (*done) {
            return KITH_OK;
        }
    }
    if (c.pairs <= c.engine) {
        *done = true;
        return kin_exact_gpu_pick(ctx, where->gpu, &what);
    }
    return may_meet(job, where) ? kin_exact_gpu_across(ctx, where->gpu, &what, done) : KITH_OK;
}

/* A side's groups there, as they are; *count: above all of them, and those before. */
static kith_status number_there(kin_hold *hold, kin_gpu *gpu, const char *name,
                                const int64_t *numbers, int64_t rows, const uint32_t **of,
                                uint64_t *count)
{
    kin_screen_gpu_numbers found;
    uint32_t *own = NULL;
    int64_t number = 0;
    KIN_GPU_NEW(hold, gpu, own, (uint64_t)rows, "groups of rows");
    KIN_TRY(kin_exact_gpu_numbers_find(hold->ctx, gpu, numbers, rows, own, &found));
    if (found.refused != 0) {
        const int64_t row = rows - (int64_t)found.refused;
        KIN_TRY(kin_gpu_download(hold->ctx, gpu, &number, numbers + row, sizeof number));
        return kin_filter_refuse_number(hold->ctx, name, row, number);
    }
    *of = own;
    *count = found.largest >= *count ? found.largest + 1 : *count;
    return KITH_OK;
}

enum { NUMBERS_A_TASK = 1 << 16 };

typedef struct narrowing {
    const int64_t *numbers; /* NULL: zeros */
    int64_t rows;
    uint32_t *index;
    int64_t *largest; /* by thread */
} narrowing;

static kith_status narrow_some(void *arg, int64_t task, int32_t thread)
{
    const narrowing *n = arg;
    const int64_t last = kin_min_i64(n->rows, (task + 1) * NUMBERS_A_TASK);
    int64_t largest = n->largest[thread];
    for (int64_t i = task * NUMBERS_A_TASK; i < last; i++) {
        const int64_t number = n->numbers != NULL ? n->numbers[i] : 0;
        largest = kin_max_i64(largest, number);
        n->index[i] = (uint32_t)number;
    }
    n->largest[thread] = largest;
    return KITH_OK;
}

/* Numbers as they are, if all are small; *count: above all of them, and those before. */
static kith_status narrow_numbers(kith_ctx *ctx, const int64_t *numbers, int64_t rows,
                                  uint32_t *index, int64_t *count)
{
    narrowing n = {.numbers = numbers, .rows = rows, .index = index};
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, n.largest, (uint64_t)ctx->threads, "numbers of groups");
    KIN_TRY(kin_parallel(ctx, NULL, kin_ceil_div(rows, NUMBERS_A_TASK), narrow_some, &n));
    for (int32_t t = 0; t < ctx->threads; t++) {
        *count = kin_max_i64(*count, kin_min_i64(n.largest[t], INT64_MAX - 1) + 1);
    }
    return KITH_OK;
}

/* Each row's group, and each query's (NULL: not wanted), as numbers below *count, which is at most
 * twice what there is of both; different groups have different ones. */
static kith_status index_groups(kith_ctx *ctx, const kin_filter_job *job, uint32_t *of_rows,
                                uint32_t *of_queries, int64_t *count)
{
    const int64_t rows = job->corpus.rows;
    const int64_t queries = of_queries != NULL ? job->queries.rows : 0;
    const int64_t *others = of_queries != NULL ? job->filter.query_groups : NULL;
    kin_filter_numbers g = {.most = job->corpus.rows + job->queries.rows};
    KIN_HOLD(hold, ctx);
    *count = 1;
    KIN_TRY(narrow_numbers(ctx, job->filter.groups, rows, of_rows, count));
    KIN_TRY(narrow_numbers(ctx, others, queries, of_queries, count));
    if (*count <= kin_min_i64(g.most, UINT32_MAX)) {
        return KITH_OK;
    }
    KIN_TRY(kin_hold_layout(&hold, kin_filter_numbers_name, &g, "numbers of groups"));
    kin_filter_number(job, &g);
    kin_filter_index_numbers(&g, job->filter.groups, rows, of_rows);
    kin_filter_index_numbers(&g, others, queries, of_queries);
    *count = g.count;
    return KITH_OK;
}

/* Groups have small numbers for the most part, which serve as they are, and need not pass the host.
 * A graph of others is divided there (kin_exact_gpu_across). */
static kith_status number_groups(kin_hold *hold, kin_gpu *gpu, const kin_filter_job *job,
                                 kin_exact_gpu_groups *source)
{
    const int64_t rows = job->corpus.rows;
    const uint64_t most = (uint64_t)(rows + job->queries.rows);
    kin_filter_job here = *job;
    uint32_t *of_rows = NULL;
    uint32_t *of_queries = NULL;
    uint64_t count = 1;
    if (!source->others || job->there) { /* what lies there was looked at by nobody */
        KIN_TRY(
            number_there(hold, gpu, "groups", job->filter.groups, rows, &source->of_rows, &count));
        KIN_TRY(job->graph ? KITH_OK
                           : number_there(hold, gpu, "query_groups", job->filter.query_groups,
                                          job->queries.rows, &source->of_queries, &count));
        source->groups = (int64_t)count;
        source->there = !source->others && count <= (most < UINT32_MAX ? most : UINT32_MAX);
    }
    if (source->there) {
        return KITH_OK;
    }
    kin_hold_end(hold); /* what was read there is of no use */
    KIN_TRY(kin_filter_fetch(hold, gpu, &here));
    KIN_NEW(hold, of_rows, (uint64_t)rows, "groups of rows");
    if (!job->graph) {
        KIN_NEW(hold, of_queries, (uint64_t)job->queries.rows, "groups of queries");
    }
    source->of_rows = of_rows;
    source->of_queries = of_queries;
    return index_groups(hold->ctx, &here, of_rows, of_queries, &source->groups);
}

static kith_status group_and_solve(kith_ctx *ctx, const kin_filter_job *job,
                                   const kin_filter_place *where, bool *done)
{
    kin_exact_gpu_groups source = {.rows = job->corpus.rows,
                                   .queries = job->queries.rows,
                                   .allow = job->filter.allow,
                                   .others = job->filter.rule == KITH_RULE_OTHER};
    kin_exact_gpu_grouping grouping;
    KIN_HOLD(hold, ctx);
    KIN_TRY(number_groups(&hold, where->gpu, job, &source));
    KIN_TRY(kin_exact_gpu_grouping_make(ctx, where->gpu, &source, &grouping));
    const kith_status status = solve(ctx, job, where, &grouping, done);
    kin_exact_gpu_grouping_free(where->gpu, &grouping);
    return status;
}

kith_status kin_engine_filter_on_gpu(kith_ctx *ctx, const kin_filter_job *job,
                                     const kin_filter_place *where, bool *done)
{
    *done = false;
    if (!may_pick(job)) {
        return KITH_OK;
    }
    const kith_status status = group_and_solve(ctx, job, where, done);
    if (status != KITH_E_DEVICE_MEMORY && status != KITH_E_LIMIT && status != KITH_E_MEMORY) {
        return status;
    }
    kin_exact_gpu_make_room(ctx, where->gpu); /* other ways need less */
    *done = false;
    return KITH_OK;
}

/* As if all groups were of one size. */
static double pairs_of(const kin_filter_job *job)
{
    const int64_t *groups = job->filter.rule == KITH_RULE_SAME ? job->filter.groups : NULL;
    int64_t largest = 0;
    for (int64_t i = 0; groups != NULL && i < job->corpus.rows; i++) {
        largest = kin_max_i64(largest, groups[i]);
    }
    return (double)kin_filter_count_allowed(&job->filter, job->corpus.rows) *
           (double)job->queries.rows / ((double)kin_min_i64(largest, job->corpus.rows) + 1.0);
}

kith_status kin_filter_try_gpu(kith_ctx *ctx, const kin_filter_job *job, const kith_neighbors *out,
                               bool *done)
{
    kin_gpu *gpu = NULL;
    kin_limit limit;
    *done = false;
    if (ctx->device == KIN_DEVICE_CPU || job->declined || !may_pick(job)) {
        return KITH_OK;
    }
    KIN_TRY(kin_device_enter(ctx, &job->request.distance, pairs_of(job), &gpu));
    if (gpu == NULL) {
        return KITH_OK;
    }
    kith_status status = kin_limit_begin(ctx, &job->request, out, &limit);
    if (status == KITH_OK) {
        const kin_filter_place where = {.gpu = gpu, .out = &limit.out};
        status = kin_engine_filter_on_gpu(ctx, job, &where, done);
        status = *done ? kin_limit_end(&limit, status) : kin_limit_drop(&limit, status);
    }
    kin_device_leave(ctx, gpu);
    if (kin_device_yields(ctx, status)) {
        *done = false;
        return KITH_OK;
    }
    return status;
}

/* ---- Before it begins ------------------------------------------------------------------------ */

/* Sizes of groups on the host. */
typedef struct sizes {
    uint32_t *of_rows;
    uint32_t *of_queries;
    uint32_t *row_begin;
    uint32_t *query_begin;
} sizes;

/* begin[g]: rows of the groups before g. */
static void sum_up(const uint32_t *of, int64_t rows, const kith_filter *filter, int64_t groups,
                   uint32_t *begin)
{
    for (int64_t i = 0; i < rows; i++) {
        begin[of[i] + 1] +=
            filter == NULL || filter->allow == NULL || kin_filter_allows(filter, 0, (uint32_t)i);
    }
    for (int64_t g = 0; g < groups; g++) {
        begin[g + 1] += begin[g];
    }
}

static kith_status find_totals(kin_hold *hold, const kin_filter_job *job, sizes *s, int64_t *groups,
                               kin_screen_gpu_span_totals *found)
{
    const int64_t rows = job->corpus.rows;
    const bool once = job->graph && job->filter.allow == NULL;
    KIN_NEW(hold, s->of_rows, (uint64_t)rows, "groups of rows");
    if (!job->graph) {
        KIN_NEW(hold, s->of_queries, (uint64_t)job->queries.rows, "groups of queries");
    }
    KIN_TRY(index_groups(hold->ctx, job, s->of_rows, s->of_queries, groups));
    KIN_NEW_ZERO(hold, s->row_begin, (uint64_t)*groups + 1, "groups of rows");
    s->query_begin = s->row_begin;
    sum_up(s->of_rows, rows, &job->filter, *groups, s->row_begin);
    if (!once) {
        KIN_NEW_ZERO(hold, s->query_begin, (uint64_t)*groups + 1, "groups of queries");
        sum_up(job->graph ? s->of_rows : s->of_queries, job->queries.rows, NULL, *groups,
               s->query_begin);
    }
    const kin_screen_gpu_spans spans = {.row_begin = s->row_begin, .groups = *groups};
    for (int64_t g = 0; g < *groups; g++) {
        const kin_screen_gpu_span span = kin_screen_gpu_span_of(&spans, g);
        const uint64_t asked = s->query_begin[g + 1] - s->query_begin[g];
        if (asked > 0 && span.count > 0) {
            found->pairs += asked * span.count;
            found->longest = span.count > found->longest ? span.count : found->longest;
            found->used += 1;
        }
    }
    return KITH_OK;
}

static kith_status add_bytes(kith_ctx *ctx, kin_gpu *gpu, const kin_filter_job *job,
                             uint64_t *bytes)
{
    kin_exact_gpu_groups source = {.there = true,
                                   .rows = job->corpus.rows,
                                   .queries = job->queries.rows,
                                   .allow = job->filter.allow};
    kin_screen_gpu_span_totals found = {0};
    sizes s = {0};
    KIN_HOLD(hold, ctx);
    KIN_TRY(find_totals(&hold, job, &s, &source.groups, &found));
    const costs c = costs_of(job, &found);
    source.of_queries = s.of_queries;
    if (c.seats >= fmin(c.pairs, c.engine) || found.longest < KIN_EXACT_GPU_SEATS_LEAST) {
        return KITH_OK;
    }
    const kin_exact_gpu_seated seated = {.corpus = &job->corpus,
                                         .queries = job->graph ? NULL : &job->queries,
                                         .request = &job->request,
                                         .groups = source.groups,
                                         .row_begin = s.row_begin,
                                         .query_begin = s.query_begin};
    *bytes = kin_exact_gpu_grouping_bytes(&source);
    return kin_exact_gpu_seats_bytes(ctx, gpu, &seated, bytes);
}

kith_status kin_filter_gpu_bytes(kith_ctx *ctx, const kin_filter_job *job, uint64_t *bytes)
{
    kin_gpu *gpu = NULL;
    *bytes = 0;
    if (ctx->device == KIN_DEVICE_CPU || !may_pick(job) || job->filter.rule != KITH_RULE_SAME) {
        return KITH_OK;
    }
    KIN_TRY(kin_device_enter(ctx, &job->request.distance, pairs_of(job), &gpu));
    if (gpu == NULL) {
        return KITH_OK;
    }
    const kith_status status = add_bytes(ctx, gpu, job, bytes);
    kin_device_leave(ctx, gpu);
    return status;
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* They tell of all that they keep, so many entries at a time, and the host picks what each query
 * may find. */

enum { PICKED_AT_ONCE = 1 << 22, ROWS_A_TASK = 64 };

typedef struct picking {
    const kin_walks_pick *job;
    kin_allowed allowed;
    int64_t first;       /* of the rows */
    kith_neighbors kept; /* of those from there on */
    const kith_neighbors *out;
    int64_t *found; /* by row of kept */
} picking;

static int64_t query_of(const kin_walks_pick *job, int64_t row)
{
    return job->rows != NULL ? (int64_t)job->rows[row] : row;
}

static kith_status pick_row(void *arg, int64_t i, int32_t thread)
{
    const picking *p = arg;
    const int64_t k = p->out->k;
    const int64_t row = p->first + i;
    const int64_t query = query_of(p->job, row);
    int64_t found = 0;
    (void)thread;
    for (int64_t j = i * p->kept.k; j < (i + 1) * p->kept.k && found < k; j++) {
        if (kin_allowed_has(&p->allowed, query, p->kept.ids[j])) {
            kin_answer_put(p->out, row * k + found, p->kept.ids[j], p->kept.distances64[j]);
            found += 1;
        }
    }
    p->found[i] = found;
    return KITH_OK;
}

static kith_status pick(picking *p, kin_walks_picked *picked)
{
    const kin_walks_pick *job = p->job;
    const kith_matrix part = kin_matrix_part(&job->queries, p->first, p->kept.rows);
    const kin_graph_gpu_walks walkers = {.queries = &part, .width = p->kept.k, .seed = job->seed};
    kin_graph_effort sums;
    KIN_TRY(kin_graph_gpu_walk_run(job->ctx, job->walks->paths, &walkers, &p->kept, &sums));
    picked->effort.met += sums.met;
    picked->effort.walked += sums.walked;
    KIN_TRY(kin_parallel_rows(job->ctx, NULL, part.rows, ROWS_A_TASK, pick_row, p));
    for (int64_t i = 0; i < part.rows; i++) {
        if (p->found[i] < p->out->k) {
            picked->places[picked->lacking] = (uint32_t)(p->first + i);
            picked->lacking_rows[picked->lacking++] = (uint32_t)query_of(job, p->first + i);
        }
    }
    return KITH_OK;
}

kith_status kin_walks_pick_allowed(const kin_walks_pick *job, const kith_neighbors *out,
                                   kin_walks_picked *picked)
{
    const int64_t rows = job->queries.rows;
    const int64_t at_once = kin_max_i64(1, kin_min_i64(rows, PICKED_AT_ONCE / job->width));
    const uint64_t entries = kin_size_mul((uint64_t)at_once, (uint64_t)job->width);
    picking p = {.job = job,
                 .allowed = {&job->filter->filter, job->filter->request.exclude},
                 .kept = {.k = job->width},
                 .out = out};
    KIN_HOLD(hold, job->ctx);
    KIN_NEW(&hold, p.kept.ids, entries, "what walks keep");
    KIN_NEW(&hold, p.kept.distances64, entries, "what walks keep");
    KIN_NEW(&hold, p.found, (uint64_t)at_once, "what walks keep");
    for (; p.first < rows; p.first += at_once) {
        p.kept.rows = kin_min_i64(at_once, rows - p.first);
        KIN_TRY(pick(&p, picked));
    }
    return KITH_OK;
}
