/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A piece of work is one query and a range of the corpus: keys are computed a chunk at a
 * time, compared with the worst that the list still needs, and the survivors appended to a list
 * that is compacted when it is full. A query whose corpus was cut into several ranges has as many
 * lists, merged at the end; the answer does not depend on the cuts, because the order (key, id) is
 * total.
 *
 * Cost. One canonical key a pair; each id enters a list about k ln(n / k) times in all.
 */
#include "exact/exact_search.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>

enum {
    CHUNK = 256,
    LEAST_RANGE = 4096,
    TASKS_A_THREAD = 8,
    SLACK = 64,
    LISTS_A_TASK = 64,
    SHORT = KIN_SELECT_BOUND_MOST,
    LEAST_BOUNDED =
        2 * SHORT,         /* keys that are looked through for a bound before they enter a list */
    SHARED_BYTES = 1 << 19 /* of a cache that a core has for itself */
};

/* The candidates of one query in one range. */
typedef struct list {
    kin_pair *pairs;
    int64_t count;
    double worst; /* no key above it is needed */
} list;

typedef struct worker {
    KIN_APART double *query;
    double *keys;
    list list;
    kin_answer answer;
    uint32_t *places;    /* keys of a chunk that may enter the list */
    uint32_t *room;      /* of a pick, */
    int64_t picked;      /* rows so far, */
    kin_expanded shared; /* and those that the next list may have, too */
} worker;

typedef struct direct {
    kith_ctx *ctx;
    const kin_prepared *corpus;
    const kin_prepared *queries;
    const kin_request *request;
    const kith_neighbors *out;
    kin_groups each; /* every row is met, those at distance 1 from everything, too: nobody joins */
    int64_t wanted;
    int64_t capacity;
    int64_t ranges;       /* a query's corpus is cut into this many */
    kin_pair *range_best; /* rows x ranges x wanted, when there is more than one range */
    int64_t *range_count;
    bool graph;
    const kin_pick *pick; /* NULL: each query is compared with all rows */
    int64_t shared;       /* rows that a worker may expand */
    int32_t threads;
    worker *workers;
} direct;

static void set_worst(const direct *d, list *l)
{
    if (l->count == d->wanted) {
        l->worst = l->pairs[l->count - 1].key;
    }
}

static void compact(const direct *d, list *l)
{
    kin_select_sort_pairs(l->pairs, l->count);
    l->count = kin_min_i64(l->count, d->wanted);
    set_worst(d, l);
}

/* A short list is in order at any time, a long one when it is compacted. */
static void add(const direct *d, list *l, kin_pair pair)
{
    if (d->wanted <= SHORT) {
        (void)kin_pair_insert(l->pairs, d->wanted, &l->count, pair);
        set_worst(d, l);
        return;
    }
    l->pairs[l->count++] = pair;
    if (l->count == d->capacity) {
        compact(d, l);
    }
}

/* Keys of the query and of corpus rows ids[at, at + count), or where ids is NULL of the rows from
 * `at` on. */
static void compare(const direct *d, const worker *w, const kin_query *query, const uint32_t *ids,
                    int64_t at, int64_t count)
{
    const kin_distance *distance = &d->request->distance;
    if (ids == NULL) {
        kin_metric_keys_run(distance, query, &d->corpus->rows, at, count, w->keys);
    } else if (ids == w->shared.ids) {
        const kin_expanded some = {.ids = ids + at,
                                   .count = count,
                                   .values = w->shared.values + at * kin_metric_wide(distance)};
        kin_metric_keys_expanded(distance, query, &d->corpus->rows, &some, w->keys);
    } else {
        kin_metric_keys(distance, query, &d->corpus->rows, ids + at, count, w->keys);
    }
}

/* Which of a chunk's keys may enter the list: no branch for each of them, which nobody could
 * predict. NaN is one of them. */
static int64_t sift(const direct *d, const worker *w, list *l, int64_t count)
{
    int64_t kept = 0;
    if (l->count == 0 && count >= LEAST_BOUNDED && d->wanted < SHORT) {
        const double bound = kin_select_bound(w->keys, count, d->wanted + 1); /* one is left out */
        l->worst = bound < l->worst ? bound : l->worst;
    }
    for (int64_t i = 0; i < count; i++) {
        w->places[kept] = (uint32_t)i;
        kept += !(w->keys[i] > l->worst);
    }
    return kept;
}

/* Query `row` and corpus rows ids[first, last), or where ids is NULL rows [first, last): the list.
 */
static kith_status scan(const direct *d, worker *w, int64_t row, const uint32_t *ids, int64_t first,
                        int64_t last)
{
    const kin_query query =
        kin_metric_load(&d->request->distance, &d->queries->rows, row, w->query);
    const kin_within within = d->request->within[0];
    const uint32_t skipped = kin_request_left_out(d->request, d->graph, row);
    list *l = &w->list;
    l->count = 0;
    l->worst = within.keys != NULL ? within.keys[row * within.step] : INFINITY;
    for (int64_t at = first; at < last; at += CHUNK) {
        const int64_t count = kin_min_i64(CHUNK, last - at);
        compare(d, w, &query, ids, at, count);
        const int64_t kept = sift(d, w, l, count);
        for (int64_t i = 0; i < kept; i++) {
            const int64_t place = w->places[i];
            const double key = w->keys[place];
            const uint32_t id = ids != NULL ? ids[at + place] : (uint32_t)(at + place);
            if (key != key) {
                return kin_metric_fail_nan(d->ctx, row, id);
            }
            if (key <= l->worst && id != skipped) {
                add(d, l, (kin_pair){key, id, 1});
            }
        }
    }
    compact(d, l);
    return KITH_OK;
}

/* As list `to` of the answer. Every pair was a candidate. */
static void write_list(const direct *d, worker *w, const list *l, int64_t to)
{
    kin_answer_expand(&w->answer, l->pairs, l->count);
    (void)kin_answer_write(&w->answer, KITH_ID_NONE, d->out, to);
}

static kith_status solve(void *arg, int64_t task, int32_t thread)
{
    const direct *d = arg;
    worker *w = &d->workers[thread];
    const int64_t row = task / d->ranges;
    const int64_t range = task % d->ranges;
    const int64_t rows = d->corpus->rows.matrix.rows;
    KIN_TRY(scan(d, w, row, NULL, rows * range / d->ranges, rows * (range + 1) / d->ranges));
    if (d->ranges == 1) {
        write_list(d, w, &w->list, row);
    } else {
        memcpy(d->range_best + task * d->wanted, w->list.pairs,
               (size_t)w->list.count * sizeof(kin_pair));
        d->range_count[task] = w->list.count;
    }
    return KITH_OK;
}

/* A list whose rows the next ones may have, too. */
static void share(const direct *d, worker *w, const kin_picked *picked)
{
    kin_expanded *shared = &w->shared;
    if (picked->count <= d->shared && picked->ids != w->room &&
        (picked->ids != shared->ids || picked->count != shared->count)) {
        shared->ids = picked->ids;
        shared->count = picked->count;
        kin_metric_expand(&d->request->distance, &d->corpus->rows, shared);
    }
}

/* Lists of a pick stand anywhere: what is written at the end is asked for at the beginning. */
static void expect_list(const kith_neighbors *out, int64_t to)
{
    enum { LINE = 64 };
    for (int64_t i = to * out->k; i < (to + 1) * out->k; i += LINE / (int64_t)sizeof(double)) {
        __builtin_prefetch(out->distances64 + i, 1);
        __builtin_prefetch(out->ids + i, 1);
    }
}

static kith_status solve_picked(void *arg, int64_t i, int32_t thread)
{
    const direct *d = arg;
    worker *w = &d->workers[thread];
    const kin_picked picked = d->pick->take(d->pick->arg, i, w->room);
    if (picked.count > 0) {
        expect_list(d->out, picked.list);
        share(d, w, &picked);
        KIN_TRY(scan(d, w, picked.query, picked.ids, 0, picked.count));
        write_list(d, w, &w->list, picked.list);
        w->picked += picked.count;
    }
    return KITH_OK;
}

static void merge_ranges(const direct *d, int64_t row)
{
    worker *w = &d->workers[0];
    list *l = &w->list;
    l->count = 0;
    for (int64_t range = 0; range < d->ranges; range++) {
        const int64_t task = row * d->ranges + range;
        for (int64_t i = 0; i < d->range_count[task]; i++) {
            add(d, l, d->range_best[task * d->wanted + i]);
        }
    }
    compact(d, l);
    write_list(d, w, l, row);
}

static int64_t choose_ranges(int64_t rows, int64_t queries, int32_t threads)
{
    const int64_t wished = kin_ceil_div((int64_t)threads * TASKS_A_THREAD, queries);
    return kin_max_i64(1, kin_min_i64(queries < threads ? wished : 1, rows / LEAST_RANGE));
}

static void name_arrays(kin_layout *layout, void *job)
{
    direct *d = job;
    const uint64_t wide = (uint64_t)kin_round_up(d->corpus->distance.cols, KIN_METRIC_LANES);
    const uint64_t lists = (uint64_t)(d->queries->rows.matrix.rows * d->ranges);
    d->workers = kin_layout_zeros(layout, (uint64_t)d->threads, sizeof *d->workers);
    for (int32_t t = 0; t < d->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(d->workers, t, &spare);
        w->query = kin_layout_array(layout, wide, sizeof *w->query);
        w->keys = kin_layout_array(layout, CHUNK, sizeof *w->keys);
        w->places = kin_layout_array(layout, CHUNK, sizeof *w->places);
        w->list.pairs = kin_layout_array(layout, (uint64_t)d->capacity, sizeof *w->list.pairs);
        w->answer = (kin_answer){
            .groups = &d->each, .metric = d->corpus->distance.metric, .wanted = d->wanted};
        kin_answer_name(layout, &w->answer);
        if (d->pick != NULL) {
            w->room = kin_layout_array(layout, (uint64_t)d->pick->room, sizeof *w->room);
            w->shared.values = kin_layout_array(layout, kin_size_mul((uint64_t)d->shared, wide),
                                                sizeof *w->shared.values);
        }
    }
    if (d->ranges > 1) {
        d->range_best = kin_layout_array(layout, kin_size_mul(lists, (uint64_t)d->wanted),
                                         sizeof *d->range_best);
        d->range_count = kin_layout_array(layout, lists, sizeof *d->range_count);
    }
}

static direct direct_of(const kin_prepared *corpus, const kin_prepared *queries,
                        const kin_request *request, int32_t threads)
{
    const int64_t rows = corpus->rows.matrix.rows;
    direct d = {.corpus = corpus,
                .queries = queries,
                .request = request,
                .each = {.rows = rows, .count = rows},
                .graph = corpus == queries,
                .ranges = choose_ranges(rows, queries->rows.matrix.rows, threads),
                .threads = threads};
    d.wanted = kin_min_i64(request->k, rows);
    d.capacity = 2 * d.wanted + SLACK;
    return d;
}

void kin_direct_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                     const kin_request *request, int32_t threads)
{
    direct d = direct_of(corpus, queries, request, threads);
    kin_layout_block(plan, name_arrays, &d);
}

static direct pick_of(const kin_prepared *corpus, const kin_prepared *queries,
                      const kin_request *request, const kin_pick *pick, int32_t threads)
{
    direct d = direct_of(corpus, queries, request, threads);
    const int64_t row_bytes =
        kin_metric_wide(&request->distance) * (int64_t)sizeof *d.workers->query;
    d.ranges = 1;
    d.pick = pick;
    d.shared = kin_metric_expands(&request->distance)
                   ? kin_min_i64(pick->shared, SHARED_BYTES / row_bytes)
                   : 0;
    return d;
}

void kin_direct_pick_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                          const kin_request *request, const kin_pick *pick, int32_t threads)
{
    direct d = pick_of(corpus, queries, request, pick, threads);
    kin_layout_passing(plan, name_arrays, &d);
}

static void finish_report(const direct *d, double candidates, int64_t start)
{
    kith_report *report = &d->ctx->report;
    report->exact = KITH_CERTIFIED;
    report->candidates = candidates;
    report->distinct_rows = d->corpus->groups.count;
    report->seconds_screen += kin_clock_since(start);
    kin_prepared_report(d->ctx, d->corpus);
    (void)snprintf(report->screen, sizeof report->screen, "direct");
}

kith_status kin_direct_run(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                           const kin_request *request, const kith_neighbors *out)
{
    const int64_t start = kin_clock_ns();
    const int64_t count = queries->rows.matrix.rows;
    direct d = direct_of(corpus, queries, request, ctx->threads);
    d.ctx = ctx;
    d.out = out;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_arrays, &d, "the lists of rows"));
    KIN_TRY(kin_parallel(ctx, "screen", count * d.ranges, solve, &d));
    for (int64_t row = 0; d.ranges > 1 && row < count; row++) {
        merge_ranges(&d, row);
    }
    finish_report(&d, (double)corpus->rows.matrix.rows, start);
    return KITH_OK;
}

kith_status kin_direct_pick(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                            const kin_request *request, const kin_pick *pick,
                            const kith_neighbors *out)
{
    const int64_t start = kin_clock_ns();
    direct d = pick_of(corpus, queries, request, pick, ctx->threads);
    d.ctx = ctx;
    d.out = out;
    double picked = 0.0;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_arrays, &d, "the lists of rows"));
    KIN_TRY(kin_parallel_rows(ctx, "screen", pick->lists, LISTS_A_TASK, solve_picked, &d));
    for (int32_t t = 0; t < d.threads; t++) {
        picked += (double)d.workers[t].picked;
    }
    finish_report(&d, picked / (double)kin_max_i64(pick->lists, 1), start);
    return KITH_OK;
}
