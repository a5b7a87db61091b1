/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_search.h"

#include "base/base_size.h"
#include "host/host_threads.h"

/* ---- Two graphs made one -------------------------------------------------------------------- */

enum { ROWS_A_TASK = 64 };

typedef struct merging {
    kith_ctx *ctx;
    const kin_prepared *points;
    const kin_merge_side *side;
    const kith_neighbors *out;
    bool self;
    kin_list_scratch *workers; /* by thread */
} merging;

/* Ids of the graph's list in rows of all points; where the own counts it is there. */
static int64_t gather(const merging *m, int64_t row, uint32_t *ids)
{
    const kith_neighbors *graph = m->side->graph;
    const uint32_t *from = graph->ids + row * graph->k;
    int64_t count = 0;
    for (int64_t i = 0; i < graph->k; i++) {
        if (from[i] != KITH_ID_NONE && (int64_t)from[i] != row) {
            ids[count++] = (uint32_t)(m->side->first + from[i]);
        }
    }
    if (m->self) {
        ids[count++] = (uint32_t)(m->side->first + row);
    }
    return count;
}

/* The list with its keys, ascending, each id once. An id has one key, so that twice the same stand
 * side by side. */
static kith_status own_list(const merging *m, int64_t row, kin_list_scratch *w, int64_t *listed)
{
    const kin_distance *distance = &m->points->distance;
    const int64_t given = gather(m, row, w->ids);
    const kin_query query =
        kin_metric_load(distance, &m->points->rows, m->side->first + row, w->query);
    kin_metric_keys(distance, &query, &m->points->rows, w->ids, given, w->keys);
    for (int64_t i = 0; i < given; i++) {
        KIN_FAIL_IF(w->keys[i] != w->keys[i], m->ctx, KITH_E_DATA, kin_at("custom"),
                    "gave NaN for points %lld and %lu (a distance must be a number)",
                    (long long)(m->side->first + row), (unsigned long)w->ids[i]);
        w->pairs[i] = (kin_pair){w->keys[i], w->ids[i], 1};
    }
    kin_select_sort_pairs(w->pairs, given);
    int64_t count = 0;
    for (int64_t i = 0; i < given; i++) {
        if (count == 0 || w->pairs[count - 1].id != w->pairs[i].id) {
            w->pairs[count++] = w->pairs[i];
        }
    }
    *listed = count;
    return KITH_OK;
}

/* Neighbours of a row in the other set. */
static int64_t count_across(const merging *m, int64_t at)
{
    const kith_neighbors *across = m->side->across;
    int64_t count = 0;
    while (count < across->k && across->ids[at * across->k + count] != KITH_ID_NONE) {
        count += 1;
    }
    return count;
}

/* A neighbour of the other set, with its row of all points. */
static kin_pair pair_across(const merging *m, int64_t entry)
{
    const uint32_t id = m->side->across->ids[entry];
    const uint32_t row = m->side->other_rows != NULL ? m->side->other_rows[id] : id;
    return (kin_pair){.key = m->side->across->distances64[entry],
                      .id = (uint32_t)(m->side->other_first + row)};
}

/* others: neighbours in the other set, from entry `first` of `across`. */
static void write_row(const merging *m, int64_t row, const kin_pair *own, int64_t count,
                      int64_t first, int64_t others)
{
    const kith_metric metric = m->points->distance.metric;
    int64_t at = (m->side->first + row) * m->out->k;
    const int64_t last = at + m->out->k;
    int64_t i = 0;
    int64_t j = 0;
    while (at < last && (i < count || j < others)) {
        const kin_pair other = j < others ? pair_across(m, first + j) : (kin_pair){0};
        const bool mine = j == others || (i < count && kin_pair_less(&own[i], &other));
        const kin_pair *next = mine ? &own[i] : &other;
        kin_answer_put(m->out, at++, next->id, kin_metric_distance(metric, next->key));
        i += mine;
        j += !mine;
    }
    kin_answer_empty(metric, m->out, at, last);
}

static int64_t rows_to_write(const kin_merge_side *side)
{
    return side->across_rows != NULL ? side->across->rows : side->graph->rows;
}

static kith_status merge_rows(void *arg, int64_t at, int32_t thread)
{
    const merging *m = arg;
    const kith_neighbors *graph = m->side->graph;
    kin_list_scratch *w = &m->workers[thread];
    const int64_t enough = kin_min_i64(m->out->k, graph->rows - (m->self ? 0 : 1));
    const int64_t row = m->side->across_rows != NULL ? (int64_t)m->side->across_rows[at] : at;
    const int64_t others = count_across(m, at);
    int64_t count = 0;
    if (others == 0 && m->side->written) {
        return KITH_OK;
    }
    KIN_TRY(own_list(m, row, w, &count));
    KIN_FAIL_IF(count < enough && !m->side->may_be_short, m->ctx, KITH_E_DATA,
                kin_at(m->side->name),
                "has %lld different neighbours in row %lld, an exact merge needs "
                "%lld (give a graph with longer lists, or merge approximately)",
                (long long)count, (long long)row, (long long)enough);
    write_row(m, row, w->pairs, count, at * m->side->across->k, others);
    if (m->side->limits != NULL) {
        m->side->limits[row] = count < m->out->k ? INFINITY : w->pairs[m->out->k - 1].key;
    }
    return KITH_OK;
}

static void name_workers(kin_layout *layout, void *job)
{
    merging *m = job;
    kin_list_scratch spare;
    m->workers = kin_layout_array(layout, (uint64_t)m->ctx->threads, sizeof *m->workers);
    for (int32_t t = 0; t < m->ctx->threads; t++) {
        kin_list_scratch_name(layout, m->side->graph->k + 1, m->points->distance.cols,
                              kin_layout_item(m->workers, t, &spare));
    }
}

kith_status kin_merge_write(kith_ctx *ctx, const kin_prepared *points, const kin_merge_side *side,
                            uint32_t flags, const kith_neighbors *out)
{
    merging m = {.ctx = ctx,
                 .points = points,
                 .side = side,
                 .out = out,
                 .self = (flags & KITH_INCLUDE_SELF) != 0};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_workers, &m, "lists of rows"));
    return kin_parallel_rows(ctx, "merge", rows_to_write(side), ROWS_A_TASK, merge_rows, &m);
}

/* ---- Points that leave ---------------------------------------------------------------------- */

enum { LISTS_A_TASK = 256 };

typedef struct removing {
    const kin_remove_job *job;
    int32_t threads;
    uint8_t *lacks;    /* by new id */
    uint64_t *scratch; /* by thread: graph->k */
} removing;

static void name_arrays(kin_layout *layout, void *arg)
{
    removing *r = arg;
    const uint64_t threads = (uint64_t)r->threads;
    r->lacks = kin_layout_array(layout, (uint64_t)r->job->left, sizeof *r->lacks);
    r->scratch = kin_layout_array(layout, kin_size_mul(threads, (uint64_t)r->job->graph->k),
                                  sizeof *r->scratch);
}

int64_t kin_remove_map(const uint8_t *removed, int64_t count, uint32_t *map, uint32_t *rows)
{
    int64_t left = 0;
    for (int64_t row = 0; row < count; row++) {
        map[row] = removed[row] != 0 ? KITH_ID_NONE : (uint32_t)left;
        if (removed[row] == 0) {
            rows[left++] = (uint32_t)row;
        }
    }
    return left;
}

/* Different ids of a list that count. A row's own counts where it stands in the list, not because
 * it may: k others can be before it, of equal points the lower ones, of products the larger ones.
 */
static int64_t different(const kin_remove_job *job, int64_t row, const uint32_t *ids,
                         uint64_t *sorted)
{
    int64_t count = 0;
    int64_t distinct = 0;
    for (int64_t i = 0; i < job->graph->k; i++) {
        if (ids[i] != KITH_ID_NONE && (job->self || (int64_t)ids[i] != row)) {
            sorted[count++] = ids[i];
        }
    }
    kin_select_sort_words(sorted, count);
    for (int64_t i = 0; i < count; i++) {
        distinct += i == 0 || sorted[i] != sorted[i - 1];
    }
    return distinct;
}

static kith_status take_lists(void *arg, int64_t row, int32_t thread)
{
    const removing *r = arg;
    const kin_remove_job *job = r->job;
    const int64_t k = job->graph->k;
    uint64_t *sorted = r->scratch + (int64_t)thread * k;
    const uint32_t *from = job->graph->ids + (int64_t)job->rows[row] * k;
    uint32_t *to = job->ids + row * k;
    for (int64_t i = 0; i < k; i++) {
        to[i] = from[i] == KITH_ID_NONE ? KITH_ID_NONE : job->map[from[i]];
    }
    r->lacks[row] = different(job, row, to, sorted) < job->wanted;
    return KITH_OK;
}

kith_status kin_remove_lists(kith_ctx *ctx, kin_remove_job *job)
{
    removing r = {.job = job, .threads = ctx->threads};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_arrays, &r, "rows that lost neighbours"));
    KIN_TRY(kin_parallel_rows(ctx, "remove", job->left, LISTS_A_TASK, take_lists, &r));
    job->lacking_count = 0;
    for (int64_t row = 0; row < job->left; row++) {
        if (r.lacks[row] != 0) {
            job->lacking[job->lacking_count++] = (uint32_t)row;
        }
    }
    return KITH_OK;
}
