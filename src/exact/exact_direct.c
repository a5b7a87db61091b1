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
#include "exact/exact_direct.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_answer.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

enum { CHUNK = 256, LEAST_RANGE = 4096, TASKS_A_THREAD = 8, SLACK = 64 };

/* The candidates of one query in one range. */
typedef struct list {
    kin_pair *pairs;
    int64_t count;
    double worst; /* no key above it is needed */
} list;

typedef struct worker {
    double *query;
    double *keys;
    list list;
    kin_answer answer;
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
    int32_t threads;
    worker *workers;
    void *block;
} direct;

static void compact(const direct *d, list *l)
{
    kin_select_sort_pairs(l->pairs, l->count);
    l->count = kin_min_i64(l->count, d->wanted);
    if (l->count == d->wanted) {
        l->worst = l->pairs[l->count - 1].key;
    }
}

static uint32_t left_out(const direct *d, int64_t row)
{
    if (d->graph) {
        return (d->request->flags & KITH_INCLUDE_SELF) != 0 ? KITH_ID_NONE : (uint32_t)row;
    }
    return d->request->exclude != NULL ? d->request->exclude[row] : KITH_ID_NONE;
}

static kith_status complain(const direct *d, int64_t row, int64_t id)
{
    return kin_fail_at(d->ctx, KITH_E_DATA, kin_at("custom"),
                       "gave NaN for query %lld and point %lld (a distance must be a number)",
                       (long long)row, (long long)id);
}

/* Keys of query `row` and corpus rows [first, last) into the list. */
static kith_status scan(const direct *d, worker *w, int64_t row, int64_t first, int64_t last)
{
    const kin_distance *distance = &d->request->distance;
    const kin_query query = kin_metric_load(distance, &d->queries->rows, row, w->query);
    const kin_within within = d->request->within[0];
    list *l = &w->list;
    l->count = 0;
    l->worst = within.keys != NULL ? within.keys[row * within.step] : INFINITY;
    for (int64_t at = first; at < last; at += CHUNK) {
        const int64_t count = kin_min_i64(CHUNK, last - at);
        kin_metric_keys(distance, &query, &d->corpus->rows, NULL, at, count, w->keys);
        for (int64_t i = 0; i < count; i++) {
            if (w->keys[i] > l->worst) {
                continue;
            }
            if (w->keys[i] != w->keys[i]) {
                return complain(d, row, at + i);
            }
            l->pairs[l->count++] = (kin_pair){w->keys[i], (uint32_t)(at + i), 1};
            if (l->count == d->capacity) {
                compact(d, l);
            }
        }
    }
    compact(d, l);
    return KITH_OK;
}

static void write_row(const direct *d, worker *w, const kin_pair *pairs, int64_t count, int64_t row)
{
    kin_answer_expand(&w->answer, pairs, count);
    (void)kin_answer_write(&w->answer, left_out(d, row), d->out,
                           row); /* every pair was a candidate */
}

static kith_status solve(void *arg, int64_t task, int32_t thread)
{
    const direct *d = arg;
    worker *w = &d->workers[thread];
    const int64_t row = task / d->ranges;
    const int64_t range = task % d->ranges;
    const int64_t rows = d->corpus->rows.matrix.rows;
    KIN_TRY(scan(d, w, row, rows * range / d->ranges, rows * (range + 1) / d->ranges));
    if (d->ranges == 1) {
        write_row(d, w, w->list.pairs, w->list.count, row);
    } else {
        memcpy(d->range_best + task * d->wanted, w->list.pairs,
               (size_t)w->list.count * sizeof(kin_pair));
        d->range_count[task] = w->list.count;
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
            l->pairs[l->count++] = d->range_best[task * d->wanted + i];
            if (l->count == d->capacity) {
                compact(d, l);
            }
        }
    }
    compact(d, l);
    write_row(d, w, l->pairs, l->count, row);
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
        w->list.pairs = kin_layout_array(layout, (uint64_t)d->capacity, sizeof *w->list.pairs);
        w->answer = (kin_answer){
            .groups = &d->each, .metric = d->corpus->distance.metric, .wanted = d->wanted};
        kin_answer_name(layout, &w->answer);
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
    const bool leaves_out =
        d.graph ? (request->flags & KITH_INCLUDE_SELF) == 0 : request->exclude != NULL;
    d.wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), rows);
    d.capacity = 2 * d.wanted + SLACK;
    return d;
}

void kin_direct_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                     const kin_request *request, int32_t threads)
{
    direct d = direct_of(corpus, queries, request, threads);
    kin_layout_block(plan, name_arrays, &d);
}

kith_status kin_direct_run(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                           const kin_request *request, const kith_neighbors *out)
{
    const int64_t start = kin_clock_ns();
    const int64_t count = queries->rows.matrix.rows;
    direct d = direct_of(corpus, queries, request, ctx->threads);
    d.ctx = ctx;
    d.out = out;
    kith_status status = kin_layout_make(ctx, name_arrays, &d, "the lists of rows", &d.block);
    if (status == KITH_OK) {
        status = kin_parallel(ctx, "screen", count * d.ranges, solve, &d);
    }
    for (int64_t row = 0; status == KITH_OK && d.ranges > 1 && row < count; row++) {
        merge_ranges(&d, row);
    }
    kin_free(ctx, d.block);
    ctx->report.exact = KITH_CERTIFIED;
    ctx->report.candidates = (double)corpus->rows.matrix.rows;
    ctx->report.distinct_rows = corpus->groups.count;
    ctx->report.seconds_screen += kin_clock_since(start);
    kin_exact_report(ctx, corpus);
    return status;
}
