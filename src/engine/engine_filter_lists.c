/* SPDX-License-Identifier: Apache-2.0
 * The lists of a filtered job: empty, until parts have something for them, and in the end the
 * answer. They are the caller's own arrays where there are such. And lists within a radius, which
 * are found without the filter; and numbers of groups. */
#include "engine/engine_filter.h"

#include "engine/engine_graph.h"
#include "host/host_threads.h"

enum { ROWS_A_TASK = 1024 };

static kith_status empty_list(void *arg, int64_t list, int32_t thread)
{
    (void)thread;
    const kin_filter_run *run = arg;
    const int64_t k = run->request.k;
    const kith_neighbors slots = {.ids = run->ids, .distances64 = run->far};
    kin_answer_empty(run->request.distance.metric, &slots, list * k, (list + 1) * k);
    return KITH_OK;
}

/* A list becomes the answer's: its distances, as far as they are within the radius. */
typedef struct telling {
    const kin_filter_run *run;
    const kith_neighbors *out;
} telling;

static kith_status tell_list(void *arg, int64_t list, int32_t thread)
{
    (void)thread;
    const telling *t = arg;
    const kin_filter_run *run = t->run;
    const kin_request *asked = &run->job->request;
    const kith_metric metric = asked->distance.metric;
    const int64_t k = run->request.k;
    for (int64_t i = list * k; i < (list + 1) * k; i++) {
        double distance = run->far[i];
        if (metric != run->request.distance.metric && run->ids[i] != KITH_ID_NONE) {
            distance = kin_metric_distance(metric, distance);
        }
        if (asked->limited && !kin_metric_within(metric, distance, asked->radius)) {
            run->ids[i] = KITH_ID_NONE;
            distance = kin_filter_nothing(run);
        }
        if (t->out->distances != NULL) {
            t->out->distances[i] = (float)distance;
        }
        run->far[i] = distance;
    }
    return KITH_OK;
}

static kith_status over_lists(kin_filter_run *run, const char *phase, kin_task_fn fn, void *arg)
{
    const int64_t lists = run->queries->rows.matrix.rows * run->job->lists;
    return kin_parallel_rows(run->ctx, phase, lists, ROWS_A_TASK, fn, arg);
}

static kith_status prepare(kin_filter_run *run, const kith_matrix *rows, const char *name,
                           kin_prepared *prepared)
{
    KIN_TRY(kin_prepare_rows(run->ctx, rows, &run->request.distance, name, KIN_ROWS_DISTINCT,
                             prepared));
    kin_prepared_tell(run->ctx, prepared);
    return KITH_OK;
}

kith_status kin_filter_begin(kin_hold *hold, const kin_filter_job *job, const kith_neighbors *out,
                             kin_filter_run *run)
{
    kith_ctx *ctx = hold->ctx;
    *run =
        (kin_filter_run){.ctx = ctx, .job = job, .request = job->request, .threads = ctx->threads};
    run->request.limited = false;
    run->request.distance.metric = kin_metric_of_keys(run->request.distance.metric);
    const double pairs = (double)job->corpus.rows * (double)job->queries.rows;
    const uint64_t entries = kin_size_mul(
        kin_size_mul((uint64_t)job->queries.rows, (uint64_t)job->lists), (uint64_t)job->request.k);
    kin_prepared_hold(hold, &run->corpus);
    kin_prepared_hold(hold, &run->own_queries);
    KIN_TRY(kin_across_is_processors(ctx, &run->request, pairs, &run->knows));
    KIN_TRY(prepare(run, &job->corpus, job->graph ? "points" : "corpus", &run->corpus));
    run->queries = &run->corpus;
    if (!job->graph) {
        run->queries = &run->own_queries;
        KIN_TRY(prepare(run, &job->queries, "queries", &run->own_queries));
    }
    run->ids = out->ids;
    run->far = out->distances64;
    if (run->ids == NULL) {
        KIN_NEW(hold, run->ids, entries, "neighbours");
    }
    if (run->far == NULL) {
        KIN_NEW(hold, run->far, entries, "neighbours");
    }
    return over_lists(run, "prepare", empty_list, run);
}

static void prepare_plan(kin_layout *plan, const kith_matrix *rows, const kin_distance *distance)
{
    kin_prepare_rows_plan(plan, rows->rows, distance, true, kin_prepare_unknown(rows, distance));
}

void kin_filter_begin_plan(kin_layout *plan, const kin_filter_run *run)
{
    const kin_filter_job *job = run->job;
    const uint64_t entries = kin_size_mul(
        kin_size_mul((uint64_t)job->queries.rows, (uint64_t)job->lists), (uint64_t)job->request.k);
    prepare_plan(plan, &job->corpus, &job->request.distance);
    if (!job->graph) {
        prepare_plan(plan, &job->queries, &job->request.distance);
    }
    kin_layout_alone(plan, entries, sizeof *run->ids);
    kin_layout_alone(plan, entries, sizeof *run->far);
}

kith_status kin_filter_end(kin_filter_run *run, const kith_neighbors *out)
{
    telling t = {run, out};
    run->ctx->report.exact = KITH_CERTIFIED;
    return over_lists(run, "rescore", tell_list, &t);
}

/* ---- Within a radius ------------------------------------------------------------------------- */

static void drop_lists(kith_ctx *ctx, kith_lists *lists)
{
    kin_free(ctx, lists->ids);
    kin_free(ctx, lists->distances);
    kin_free(ctx, lists->distances64);
    *lists = (kith_lists){.rows = lists->rows, .offsets = lists->offsets};
}

void kin_filter_ranges(const kith_filter *filter, const int64_t *numbers, bool counts,
                       kith_ranges *ranges)
{
    kith_lists *lists = &ranges->lists;
    int64_t kept = 0;
    int64_t from = 0;
    for (int64_t row = 0; row < lists->rows; row++) {
        const int64_t end = lists->offsets[row + 1];
        for (; from < end; from++) {
            if (kin_filter_admits(filter, numbers, row, lists->ids[from])) {
                lists->ids[kept] = lists->ids[from];
                lists->distances[kept] = lists->distances[from];
                lists->distances64[kept++] = lists->distances64[from];
            }
        }
        lists->offsets[row + 1] = kept;
    }
    if (counts) {
        drop_lists(ranges->ctx, lists);
    }
}

/* ---- Numbers of groups ----------------------------------------------------------------------- */

/* Groups have any numbers; whoever sorts by them wants them small. Small ones are a table of their
 * indices, others are sorted and searched for. */

kith_status kin_filter_refuse_number(kith_ctx *ctx, const char *name, int64_t row, int64_t number)
{
    return kin_fail_at(
        ctx, KITH_E_ARGUMENT, kin_at_row(name, row),
        "is %lld, must be at least 0 (a row that is in no group can be left out by allow)",
        (long long)number);
}

static kith_status fetch(kin_hold *hold, kin_gpu *gpu, int64_t rows, const int64_t **numbers)
{
    int64_t *copy = NULL;
    if (kin_gpu_index_of(*numbers) < 0) {
        return KITH_OK;
    }
    KIN_NEW(hold, copy, (uint64_t)rows, "numbers of groups");
    KIN_TRY(kin_gpu_download(hold->ctx, gpu, copy, *numbers, (uint64_t)rows * sizeof *copy));
    *numbers = copy;
    return KITH_OK;
}

kith_status kin_filter_fetch(kin_hold *hold, kin_gpu *gpu, kin_filter_job *job)
{
    if (!job->there) {
        return KITH_OK;
    }
    job->there = false;
    KIN_TRY(fetch(hold, gpu, job->corpus.rows, &job->filter.groups));
    return fetch(hold, gpu, job->queries.rows, &job->filter.query_groups);
}

/* ---- Numbers below `most` ------------------------------------------------------------------- */

static bool are_small(const int64_t *numbers, int64_t rows, int64_t most)
{
    int64_t largest = 0;
    for (int64_t i = 0; numbers != NULL && i < rows; i++) {
        largest = numbers[i] > largest ? numbers[i] : largest;
    }
    return largest < most;
}

static void mark_numbers(const int64_t *numbers, int64_t rows, uint64_t *marks)
{
    for (int64_t i = 0; numbers != NULL && i < rows; i++) {
        marks[numbers[i]] = 1;
    }
}

/* Marks become indices; how many there are. */
static int64_t settle_marks(uint64_t *marks, int64_t most)
{
    int64_t different = 0;
    for (int64_t i = 0; i < most; i++) {
        const uint64_t marked = marks[i];
        marks[i] = (uint64_t)different;
        different += (int64_t)marked;
    }
    return different;
}

/* ---- Any numbers ---------------------------------------------------------------------------- */

/* Numbers that stand in runs are one each: points often come group by group. */
static int64_t add_numbers(const int64_t *numbers, int64_t rows, uint64_t *words, int64_t count)
{
    for (int64_t i = 0; numbers != NULL && i < rows; i++) {
        if (i == 0 || numbers[i] != numbers[i - 1]) {
            words[count++] = (uint64_t)numbers[i];
        }
    }
    return count;
}

/* Sorted, each once; how many there are. */
static int64_t settle_numbers(uint64_t *words, int64_t count)
{
    int64_t different = 0;
    kin_select_sort_words(words, count);
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || words[i] != words[i - 1]) {
            words[different++] = words[i];
        }
    }
    return different;
}

/* ---- Indices --------------------------------------------------------------------------------- */

kith_status kin_filter_count_lists(kith_ctx *ctx, const kith_filter *filter, int64_t rows,
                                   int64_t *lists)
{
    uint64_t *words = NULL;
    *lists = 1;
    if (filter->rule != KITH_RULE_EACH) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, words, (uint64_t)rows, "numbers of groups");
    if (are_small(filter->groups, rows, rows)) {
        mark_numbers(filter->groups, rows, words);
        *lists = settle_marks(words, rows);
    } else {
        *lists = settle_numbers(words, add_numbers(filter->groups, rows, words, 0));
    }
    return KITH_OK;
}

int64_t kin_filter_count_allowed(const kith_filter *filter, int64_t rows)
{
    int64_t count = 0;
    int64_t byte = 0;
    uint64_t word;
    if (filter->allow == NULL) {
        return rows;
    }
    for (; (byte + (int64_t)sizeof word) * 8 <= rows; byte += (int64_t)sizeof word) {
        memcpy(&word, filter->allow + byte, sizeof word);
        count += __builtin_popcountll(word);
    }
    for (int64_t row = byte * 8; row < rows; row++) {
        count += kin_filter_allows(filter, 0, (uint32_t)row);
    }
    return count;
}

bool kin_filter_allows_all(const kith_filter *filter, int64_t rows)
{
    return filter->rule == KITH_RULE_NONE && !kin_filter_has_bitmaps(filter) &&
           kin_filter_count_allowed(filter, rows) == rows;
}

/* The index of a number, which is there. */
static uint32_t index_of(const kin_filter_numbers *numbers, int64_t number)
{
    return (uint32_t)(numbers->table
                          ? (int64_t)numbers->number[number]
                          : kin_lower_u64(numbers->number, numbers->count, (uint64_t)number));
}

void kin_filter_index_numbers(const kin_filter_numbers *numbers, const int64_t *groups,
                              int64_t rows, uint32_t *index)
{
    for (int64_t i = 0; i < rows; i++) {
        const bool same = i > 0 && (groups == NULL || groups[i] == groups[i - 1]);
        index[i] = same ? index[i - 1] : groups == NULL ? 0 : index_of(numbers, groups[i]);
    }
}

void kin_filter_number(const kin_filter_job *job, kin_filter_numbers *numbers)
{
    const int64_t rows = job->corpus.rows;
    const int64_t queries = job->queries.rows;
    const bool asked = job->filter.rule != KITH_RULE_EACH && !job->graph;
    const int64_t *groups = job->filter.groups;
    const int64_t *others = asked ? job->filter.query_groups : NULL;
    numbers->table =
        are_small(groups, rows, numbers->most) && are_small(others, queries, numbers->most);
    if (groups == NULL) {
        numbers->count = 1;
    } else if (numbers->table) {
        mark_numbers(groups, rows, numbers->number);
        mark_numbers(others, queries, numbers->number);
        numbers->count = settle_marks(numbers->number, numbers->most);
    } else {
        const int64_t count = add_numbers(groups, rows, numbers->number, 0);
        numbers->count =
            settle_numbers(numbers->number, add_numbers(others, queries, numbers->number, count));
    }
}

void kin_filter_numbers_name(kin_layout *layout, void *job)
{
    kin_filter_numbers *numbers = job;
    numbers->number = kin_layout_zeros(layout, (uint64_t)numbers->most, sizeof *numbers->number);
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

kith_status kin_filter_index(kith_ctx *ctx, const kin_filter_job *job, uint32_t *of_rows,
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
