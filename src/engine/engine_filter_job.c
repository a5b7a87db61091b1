/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Rows and queries are sorted by group, rows of a group rising. Without groups all are one.
 *
 *   same    a group's queries against its rows
 *   each    all queries against each group's rows, into a list of its own
 *   other   the groups are halved, and the halves; two halves meet, the smallest first:
 *
 *               0  1 | 2  3 | 4  5 | 6  7        each pair of groups once, none with itself;
 *               0  1   2  3 | 4  5   6  7        what lists know when halves meet says how far is
 *               0  1   2  3   4  5   6  7        too far
 *
 * Small groups, and halves as long as they are small, are compared pair by pair, all in one go: an
 * engine's call would take longer than its work. What is left is parts (engine_filter_part.c). Of a
 * graph the rows that a bitmap for all allows are queries, too, so that they are a graph
 * themselves, and other points are searched among them.
 *
 * Cost. What is compared is what is allowed; under each rule a pair at most once for each end. */
#include "engine/engine_filter.h"

#include "engine/engine_graph.h"
#include "file/file_checksum.h"
#include "host/host_threads.h"

/* ---- Groups --------------------------------------------------------------------------------- */

/* Different numbers have an index each, rising; ids of an index's rows rise. */
typedef struct groups {
    const kin_filter_job *job;
    kin_filter_numbers numbers;
    int64_t count;         /* of different ones */
    uint32_t *row_group;   /* by row; of one that no query may find, count */
    uint32_t *query_group; /* by query; after sorting, of queries[i] */
    uint32_t *rows;        /* by group */
    uint32_t *queries;
    uint32_t *merged;   /* of rows, or of queries, that are merged */
    int64_t *row_begin; /* count + 1 */
    int64_t *query_begin;
    uint8_t *few;      /* by group: it is compared pair by pair; */
    int64_t *few_from; /* under other, with groups [few_from, few_to) */
    int64_t *few_to;
    int64_t room; /* most rows of those */
} groups;

static const int64_t *query_numbers(const kin_filter_job *job)
{
    return job->filter.rule == KITH_RULE_EACH ? NULL
           : job->graph                       ? job->filter.groups
                                              : job->filter.query_groups;
}

uint64_t kin_filter_sum(const kith_filter *filter, int64_t rows, int64_t queries)
{
    const uint64_t bytes = (uint64_t)kin_ceil_div(rows, 8);
    const int64_t maps = filter->allow_stride_bytes != 0 ? queries : 1;
    kin_checksum sum;
    kin_checksum_begin(&sum);
    for (int64_t i = 0; filter->allow != NULL && rows > 0 && i < maps; i++) {
        const uint8_t *map = filter->allow + i * filter->allow_stride_bytes;
        const uint8_t last = (uint8_t)(map[bytes - 1] & (0xffU >> (8 * bytes - (uint64_t)rows)));
        kin_checksum_add(&sum, map, bytes - 1); /* bits behind the last row are nobody's */
        kin_checksum_add(&sum, &last, 1);
    }
    if (filter->groups != NULL) {
        kin_checksum_add(&sum, filter->groups, (uint64_t)rows * sizeof *filter->groups);
    }
    if (filter->query_groups != NULL) {
        kin_checksum_add(&sum, filter->query_groups,
                         (uint64_t)queries * sizeof *filter->query_groups);
    }
    return kin_checksum_end(&sum);
}

static void name_rows(kin_layout *layout, void *job)
{
    groups *g = job;
    const uint64_t rows = (uint64_t)g->job->corpus.rows;
    const uint64_t queries = (uint64_t)g->job->queries.rows;
    kin_filter_numbers_name(layout, &g->numbers);
    g->row_group = kin_layout_array(layout, rows, sizeof *g->row_group);
    g->query_group = kin_layout_array(layout, queries, sizeof *g->query_group);
    g->rows = kin_layout_array(layout, rows, sizeof *g->rows);
    g->queries = kin_layout_array(layout, queries, sizeof *g->queries);
    g->merged = kin_layout_array(layout, rows > queries ? rows : queries, sizeof *g->merged);
}

static void name_groups(kin_layout *layout, void *job)
{
    groups *g = job;
    const uint64_t count = (uint64_t)g->count;
    g->row_begin = kin_layout_zeros(layout, count + 2, sizeof *g->row_begin);
    g->query_begin = kin_layout_zeros(layout, count + 2, sizeof *g->query_begin);
    g->few = kin_layout_zeros(layout, count, sizeof *g->few);
    g->few_from = kin_layout_zeros(layout, count, sizeof *g->few_from);
    g->few_to = kin_layout_zeros(layout, count, sizeof *g->few_to);
}

/* Of sorted ids. */
static void index_sorted(const int64_t *begin, int64_t count, uint32_t *index)
{
    for (int64_t group = 0; group < count; group++) {
        for (int64_t i = begin[group]; i < begin[group + 1]; i++) {
            index[i] = (uint32_t)group;
        }
    }
}

/* begin: zeros, one more than an index can be and the end. Ids of the index count are left out. */
static void sort_by_group(const groups *g, const uint32_t *index, int64_t rows, int64_t *begin,
                          uint32_t *ids)
{
    for (int64_t i = 0; i < rows; i++) {
        begin[index[i] + 1] += index[i] < g->count;
    }
    for (int64_t i = 0; i < g->count; i++) {
        begin[i + 1] += begin[i];
    }
    for (int64_t i = 0; i < rows; i++) {
        if (index[i] < g->count) {
            ids[begin[index[i]]++] = (uint32_t)i;
        }
    }
    memmove(begin + 1, begin, (size_t)g->count * sizeof *begin);
    begin[0] = 0;
}

static void forbid_rows(const groups *g)
{
    const kith_filter *filter = &g->job->filter;
    if (filter->allow == NULL || kin_filter_has_bitmaps(filter)) {
        return;
    }
    for (int64_t i = 0; i < g->job->corpus.rows; i++) {
        if (!kin_filter_allows(filter, 0, (uint32_t)i)) {
            g->row_group[i] = (uint32_t)g->count;
        }
    }
}

static kith_status make_groups(kin_hold *hold, const kin_filter_job *job, groups *g)
{
    const int64_t rows = job->corpus.rows;
    const int64_t queries = job->queries.rows;
    *g = (groups){.job = job, .numbers.most = rows + queries};
    KIN_TRY(kin_hold_layout(hold, name_rows, g, "groups of rows"));
    kin_filter_number(job, &g->numbers);
    g->count = g->numbers.count;
    KIN_TRY(kin_hold_layout(hold, name_groups, g, "groups of rows"));
    kin_filter_index_numbers(&g->numbers, job->filter.groups, rows, g->row_group);
    kin_filter_index_numbers(&g->numbers, query_numbers(job), queries, g->query_group);
    forbid_rows(g);
    sort_by_group(g, g->row_group, rows, g->row_begin, g->rows);
    sort_by_group(g, g->query_group, queries, g->query_begin, g->queries);
    index_sorted(g->query_begin, g->count, g->query_group);
    return KITH_OK;
}

/* ---- Small groups, pair by pair -------------------------------------------------------------- */

typedef struct picking {
    const kin_filter_run *run;
    const groups *groups;
} picking;

/* Rows [first, last) that the query's own bitmap allows, behind `count` others. */
static int64_t add_allowed(const picking *p, uint32_t query, int64_t first, int64_t last,
                           uint32_t *room, int64_t count)
{
    const kith_filter *filter = &p->run->job->filter;
    const bool asks = kin_filter_has_bitmaps(filter);
    for (int64_t i = first; i < last; i++) {
        room[count] = p->groups->rows[i];
        count += !asks || kin_filter_allows(filter, query, room[count]);
    }
    return count;
}

static kin_picked take_group(const picking *p, uint32_t query, uint32_t group, int64_t of,
                             uint32_t *room)
{
    const groups *g = p->groups;
    const int64_t first = g->row_begin[group];
    kin_picked picked = {.query = query, .list = kin_filter_list(p->run, query, of)};
    if (g->few[group] != 0) {
        const bool asks = kin_filter_has_bitmaps(&p->run->job->filter);
        const int64_t last = g->row_begin[group + 1];
        picked.ids = asks ? room : g->rows + first;
        picked.count = asks ? add_allowed(p, query, first, last, room, 0) : last - first;
    }
    return picked;
}

static kin_picked take_same(const void *arg, int64_t i, uint32_t *room)
{
    const picking *p = arg;
    return take_group(p, p->groups->queries[i], p->groups->query_group[i], 0, room);
}

static kin_picked take_each(const void *arg, int64_t i, uint32_t *room)
{
    const picking *p = arg;
    const int64_t queries = p->run->job->queries.rows;
    const int64_t group = i / queries;
    return take_group(p, (uint32_t)(i % queries), (uint32_t)group, group, room);
}

static kin_picked take_other(const void *arg, int64_t i, uint32_t *room)
{
    const picking *p = arg;
    const groups *g = p->groups;
    const uint32_t query = g->queries[i];
    const uint32_t own = g->query_group[i];
    kin_picked picked = {.query = query, .list = query, .ids = room};
    if (g->few[own] != 0) {
        const int64_t before =
            add_allowed(p, query, g->row_begin[g->few_from[own]], g->row_begin[own], room, 0);
        picked.count = add_allowed(p, query, g->row_begin[own + 1], g->row_begin[g->few_to[own]],
                                   room, before);
    }
    return picked;
}

static kith_status pick_few(kin_filter_run *run, const groups *g, int64_t lists,
                            kin_picked (*take)(const void *arg, int64_t i, uint32_t *room))
{
    const picking p = {run, g};
    const kin_pick pick = {
        .lists = lists, .room = g->room + 1, .shared = g->room, .take = take, .arg = &p};
    return g->room > 0 ? kin_filter_pick(run, &pick) : KITH_OK;
}

/* Groups [from, to) are compared pair by pair. */
static void mark_few(groups *g, int64_t from, int64_t to)
{
    g->room = kin_max_i64(g->room, g->row_begin[to] - g->row_begin[from]);
    for (int64_t i = from; i < to; i++) {
        g->few[i] = 1;
        g->few_from[i] = from;
        g->few_to[i] = to;
    }
}

/* ---- same, each ------------------------------------------------------------------------------ */

/* Rising ids of `all` that are not in `some`, which has no others. */
static int64_t leave_out(const uint32_t *all, int64_t count, const uint32_t *some, int64_t fewer,
                         uint32_t *left)
{
    int64_t at = 0;
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (at < fewer && some[at] == all[i]) {
            at += 1;
        } else {
            left[kept++] = all[i];
        }
    }
    return kept;
}

static kith_status solve_part(kin_filter_run *run, const groups *g, const kin_filter_part *part)
{
    kin_filter_part others = *part;
    if (!run->job->graph || kin_filter_has_bitmaps(&run->job->filter) || part->row_count == 0) {
        return kin_filter_search(run, part);
    }
    others.queries = g->merged;
    others.query_count =
        leave_out(part->queries, part->query_count, part->rows, part->row_count, g->merged);
    KIN_TRY(kin_filter_graph(run, part));
    return kin_filter_search(run, &others);
}

static kith_status solve_groups(kin_filter_run *run, groups *g)
{
    const bool each = run->job->filter.rule == KITH_RULE_EACH;
    const int64_t queries = run->job->queries.rows;
    const bool shared = !kin_filter_has_bitmaps(&run->job->filter);
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t rows = g->row_begin[i + 1] - g->row_begin[i];
        const int64_t asked = each ? queries : g->query_begin[i + 1] - g->query_begin[i];
        if (rows > 0 && asked > 0 && kin_filter_is_few(run, (double)rows, (double)asked, shared)) {
            mark_few(g, i, i + 1);
        }
    }
    KIN_TRY(pick_few(run, g, each ? queries * g->count : queries, each ? take_each : take_same));
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t first = each ? 0 : g->query_begin[i];
        const kin_filter_part part = {.rows = g->rows + g->row_begin[i],
                                      .row_count = g->row_begin[i + 1] - g->row_begin[i],
                                      .queries = g->queries + first,
                                      .query_count =
                                          (each ? queries : g->query_begin[i + 1]) - first,
                                      .group = each ? i : 0};
        if (g->few[i] == 0) {
            KIN_TRY(solve_part(run, g, &part));
        }
    }
    return KITH_OK;
}

/* ---- other ----------------------------------------------------------------------------------- */

static int64_t weight_before(const groups *g, int64_t group)
{
    return g->row_begin[group] + g->query_begin[group];
}

/* Groups [from, to), at least two, halved by their rows and queries. */
static int64_t middle_of(const groups *g, int64_t from, int64_t to)
{
    const int64_t half = (weight_before(g, from) + weight_before(g, to)) / 2;
    int64_t low = from + 1;
    int64_t high = to - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (weight_before(g, middle) < half) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void find_few(const kin_filter_run *run, groups *g, int64_t from, int64_t to)
{
    const double rows = (double)(g->row_begin[to] - g->row_begin[from]);
    const double queries = (double)(g->query_begin[to] - g->query_begin[from]);
    if (to - from < 2) {
        return;
    }
    if (kin_filter_is_few(run, rows, queries, false)) {
        mark_few(g, from, to);
        return;
    }
    const int64_t middle = middle_of(g, from, to);
    find_few(run, g, from, middle);
    find_few(run, g, middle, to);
}

/* Two rising runs of ids become one. */
static void merge_runs(uint32_t *ids, int64_t first, int64_t second, uint32_t *merged)
{
    int64_t a = 0;
    int64_t b = first;
    for (int64_t i = 0; i < second; i++) {
        const bool mine = b == second || (a < first && ids[a] < ids[b]);
        merged[i] = mine ? ids[a++] : ids[b++];
    }
    memcpy(ids, merged, (size_t)second * sizeof *ids);
}

static kith_status meet_halves(kin_filter_run *run, const groups *g, int64_t from, int64_t middle,
                               int64_t to)
{
    const kin_filter_part forth = {.rows = g->rows + g->row_begin[middle],
                                   .row_count = g->row_begin[to] - g->row_begin[middle],
                                   .queries = g->queries + g->query_begin[from],
                                   .query_count = g->query_begin[middle] - g->query_begin[from]};
    const kin_filter_part back = {.rows = g->rows + g->row_begin[from],
                                  .row_count = g->row_begin[middle] - g->row_begin[from],
                                  .queries = g->queries + g->query_begin[middle],
                                  .query_count = g->query_begin[to] - g->query_begin[middle]};
    if (run->job->graph && run->job->filter.allow == NULL) {
        return kin_filter_across(run, &forth);
    }
    KIN_TRY(kin_filter_search(run, &forth));
    return kin_filter_search(run, &back);
}

/* Afterwards ids of all these groups rise together. */
static kith_status solve_halves(kin_filter_run *run, const groups *g, int64_t from, int64_t to)
{
    if (to - from < 2) {
        return KITH_OK;
    }
    const int64_t middle = middle_of(g, from, to);
    const int64_t *rows = g->row_begin;
    const int64_t *queries = g->query_begin;
    KIN_TRY(solve_halves(run, g, from, middle));
    KIN_TRY(solve_halves(run, g, middle, to));
    if (g->few[from] == 0 || g->few_to[from] < to) {
        KIN_TRY(meet_halves(run, g, from, middle, to));
    }
    merge_runs(g->rows + rows[from], rows[middle] - rows[from], rows[to] - rows[from], g->merged);
    merge_runs(g->queries + queries[from], queries[middle] - queries[from],
               queries[to] - queries[from], g->merged);
    return KITH_OK;
}

static kith_status solve_others(kin_filter_run *run, groups *g)
{
    find_few(run, g, 0, g->count);
    KIN_TRY(pick_few(run, g, run->job->queries.rows, take_other));
    run->merges = true;
    return solve_halves(run, g, 0, g->count);
}

/* ---- Lists: empty, until parts have something for them, and in the end the answer ------------ */

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

/* Values are checked, lists are empty. run: the caller's, before the hold. */
static kith_status begin_lists(kin_hold *hold, const kin_filter_job *job, const kith_neighbors *out,
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

/* What they hold while a job runs; of the run job, request and threads are read. */
static void plan_lists(kin_layout *plan, const kin_filter_run *run)
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

/* Lists become the answer. */
static kith_status end_lists(kin_filter_run *run, const kith_neighbors *out)
{
    telling t = {run, out};
    run->ctx->report.exact = KITH_CERTIFIED;
    return over_lists(run, "rescore", tell_list, &t);
}

static kith_status solve_by_parts(kith_ctx *ctx, const kin_filter_job *job,
                                  const kith_neighbors *out)
{
    groups g;
    kin_filter_run run;
    KIN_HOLD(hold, ctx);
    KIN_TRY(begin_lists(&hold, job, out, &run));
    KIN_TRY(make_groups(&hold, job, &g));
    KIN_TRY(job->filter.rule == KITH_RULE_OTHER ? solve_others(&run, &g) : solve_groups(&run, &g));
    return end_lists(&run, out);
}

kith_status kin_engine_filter(kith_ctx *ctx, const kin_filter_job *job, const kith_neighbors *out)
{
    bool done = false;
    if (kin_filter_allows_all(&job->filter, job->corpus.rows)) {
        const kin_knn_job plain = kin_filter_without(job);
        return kin_engine_knn(ctx, &plain, out);
    }
    KIN_TRY(kin_filter_try_gpu(ctx, job, out, &done));
    return done ? KITH_OK : solve_by_parts(ctx, job, out);
}

uint64_t kin_filter_bytes(const kin_filter_job *job)
{
    kin_filter_run run = {.job = job,
                          .request = job->request,
                          .threads = job->threads,
                          .knows = true,
                          .merges = true};
    kin_layout plan = {0};
    groups g = {.job = job, .numbers.most = job->corpus.rows + job->queries.rows};
    g.count = job->filter.rule == KITH_RULE_NONE ? 1 : g.numbers.most;
    plan_lists(&plan, &run);
    kin_layout_block(&plan, name_rows, &g);
    kin_layout_block(&plan, name_groups, &g);
    kin_filter_part_plan(&plan, &run);
    return plan.peak;
}
