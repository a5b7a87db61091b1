/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory. Hits lie in chunks that each thread fills for itself: 16 bytes a group within reach, as
 * much again for the table, so at the end about twice the answer and never the product of the
 * sizes.
 */
#include "exact/exact_search.h"

#include "base/base_size.h"
#include "host/host_threads.h"

enum { CHUNK_HITS = 4096, ROWS_A_TASK = 64 };
static const double DEGENERATE_KEY = 1.0;

typedef struct hit {
    double key;
    uint32_t query;
    uint32_t first;
} hit;

struct kin_hit_chunk {
    kin_hit_chunk *next;
    int64_t count;
    int64_t ids; /* that its hits stand for */
    hit hits[CHUNK_HITS];
};

void kin_ranges_clear(kith_ctx *ctx, kith_ranges *ranges)
{
    kin_free(ctx, ranges->lists.distances64);
    kin_free(ctx, ranges->lists.distances);
    kin_free(ctx, ranges->lists.ids);
    kin_free(ctx, ranges->lists.offsets);
    ranges->lists = (kith_lists){0};
}

/* An array of `before` items becomes one of `room`. */
static kith_status widen(kith_ctx *ctx, void *array, uint64_t item, int64_t before, int64_t room)
{
    void *old = NULL;
    void *larger = NULL;
    memcpy(&old, array, sizeof old);
    KIN_TRY(kin_alloc(ctx, &larger, (uint64_t)room, item, "neighbours within reach"));
    if (before > 0) {
        memcpy(larger, old, (size_t)before * item);
    }
    memcpy(array, &larger, sizeof larger);
    kin_free(ctx, old);
    return KITH_OK;
}

static kith_status widen_all(kith_ctx *ctx, kith_lists *lists, int64_t room, int64_t larger)
{
    KIN_TRY(widen(ctx, &lists->ids, sizeof *lists->ids, room, larger));
    KIN_TRY(widen(ctx, &lists->distances, sizeof *lists->distances, room, larger));
    return widen(ctx, &lists->distances64, sizeof *lists->distances64, room, larger);
}

kith_status kin_ranges_grow(kith_ctx *ctx, kith_ranges *ranges, int64_t *room, int64_t rows)
{
    kith_lists *lists = &ranges->lists;
    const int64_t wanted = lists->offsets[rows];
    const double each = (double)wanted / (double)kin_max_i64(rows, 1);
    const int64_t larger =
        rows == lists->rows ? wanted : (int64_t)(each * (double)lists->rows) + CHUNK_HITS;
    if (wanted <= *room && lists->ids != NULL) {
        return KITH_OK;
    }
    kith_status status = widen_all(ctx, lists, *room, larger);
    if ((status == KITH_E_MEMORY || status == KITH_E_LIMIT) && larger > wanted) {
        kin_forgive(ctx); /* rows that come later may have fewer */
        status = widen_all(ctx, lists, *room, wanted);
        *room = status == KITH_OK ? wanted : *room;
        return status;
    }
    *room = status == KITH_OK ? larger : *room;
    return status;
}

/* Entries of a part at a time: memory that nobody has touched yet comes a page at a time. */
enum { ENTRIES_A_PIECE = 1 << 18 };

typedef struct joining {
    const kith_lists *from;
    kith_lists *to;
    int64_t first; /* of the part's entries, in the whole */
    int64_t count;
} joining;

static kith_status copy_entries(void *arg, int64_t task, int32_t thread)
{
    const joining *j = arg;
    const int64_t at = task * ENTRIES_A_PIECE;
    const size_t count = (size_t)kin_min_i64(ENTRIES_A_PIECE, j->count - at);
    (void)thread;
    memcpy(j->to->ids + j->first + at, j->from->ids + at, count * sizeof *j->to->ids);
    memcpy(j->to->distances + j->first + at, j->from->distances + at,
           count * sizeof *j->to->distances);
    memcpy(j->to->distances64 + j->first + at, j->from->distances64 + at,
           count * sizeof *j->to->distances64);
    return KITH_OK;
}

static kith_status join_offsets(kith_ctx *ctx, const kith_ranges *parts, int32_t count,
                                kith_lists *lists)
{
    for (int32_t p = 0; p < count; p++) {
        lists->rows += parts[p].lists.rows;
    }
    KIN_TRY(kin_alloc(ctx, &lists->offsets, (uint64_t)lists->rows + 1, sizeof *lists->offsets,
                      "offsets of lists"));
    int64_t *to = lists->offsets;
    *to = 0;
    for (int32_t p = 0; p < count; p++) {
        const int64_t before = *to;
        for (int64_t row = 1; row <= parts[p].lists.rows; row++) {
            *++to = before + parts[p].lists.offsets[row];
        }
    }
    return KITH_OK;
}

static kith_status join_entries(kith_ctx *ctx, const kith_ranges *parts, int32_t count,
                                kith_lists *lists)
{
    joining j = {.to = lists};
    KIN_TRY(widen_all(ctx, lists, 0, lists->offsets[lists->rows]));
    for (int32_t p = 0; p < count; p++) {
        j.from = &parts[p].lists;
        j.count = j.from->rows > 0 ? j.from->offsets[j.from->rows] : 0;
        KIN_TRY(kin_parallel(ctx, NULL, kin_ceil_div(j.count, ENTRIES_A_PIECE), copy_entries, &j));
        j.first += j.count;
    }
    return KITH_OK;
}

kith_status kin_ranges_join(kith_ctx *ctx, const kith_ranges *parts, int32_t count,
                            kith_ranges *ranges)
{
    kith_status status = join_offsets(ctx, parts, count, &ranges->lists);
    if (parts[0].lists.ids != NULL) { /* else they were counted alone */
        KIN_THEN(status, join_entries(ctx, parts, count, &ranges->lists));
    }
    if (status != KITH_OK) {
        kin_ranges_clear(ctx, ranges);
    }
    return status;
}

kith_status kin_hits_make(kith_ctx *ctx, const kin_radius_request *request,
                          const kin_groups *groups, const kin_rows *queries, kin_hits *hits)
{
    *hits = (kin_hits){.ctx = ctx, .request = request, .groups = groups, .queries = queries};
    const uint64_t rows = (uint64_t)queries->matrix.rows;
    kith_status status =
        kin_alloc_zero(ctx, &hits->counts, rows, sizeof *hits->counts, "counts of neighbours");
    KIN_THEN(status, kin_alloc_zero(ctx, &hits->chunks, (uint64_t)ctx->threads,
                                    sizeof(kin_hit_chunk *), "threads"));
    if (status != KITH_OK) {
        kin_hits_free(hits);
    }
    return status;
}

void kin_hits_free(kin_hits *hits)
{
    kith_ctx *ctx = hits->ctx;
    for (int32_t t = 0; hits->chunks != NULL && t < ctx->threads; t++) {
        for (kin_hit_chunk *chunk = hits->chunks[t]; chunk != NULL;) {
            kin_hit_chunk *next = chunk->next;
            kin_free(ctx, chunk);
            chunk = next;
        }
    }
    kin_free(ctx, hits->chunks);
    kin_free(ctx, hits->counts);
    memset(hits, 0, sizeof *hits);
}

static bool within(const kin_hits *hits, int64_t query, double key)
{
    const kith_metric metric = hits->request->distance.metric;
    return kin_metric_within(metric, kin_metric_distance(metric, key),
                             kin_radius_of(hits->request, query));
}

static bool may_find(const kin_hits *hits, uint32_t query, uint32_t id)
{
    const kin_radius_request *request = hits->request;
    return (int64_t)id >= kin_radius_least(request, query) &&
           !kin_radius_leaves(request, query, id);
}

/* The next id of the group that may stand in the query's list, from `id` on. */
static uint32_t next_id(const kin_hits *hits, uint32_t query, uint32_t id)
{
    while (id != KITH_ID_NONE && !may_find(hits, query, id)) {
        id = kin_groups_next(hits->groups, id);
    }
    return id;
}

static uint32_t following_id(const kin_hits *hits, uint32_t query, uint32_t id)
{
    return next_id(hits, query, kin_groups_next(hits->groups, id));
}

static int64_t count_ids(const kin_hits *hits, uint32_t query, uint32_t first)
{
    int64_t count = 0;
    for (uint32_t id = next_id(hits, query, first); id != KITH_ID_NONE;
         id = following_id(hits, query, id)) {
        count += 1;
    }
    return count;
}

kith_status kin_hits_too_many(kith_ctx *ctx, const kin_radius_request *request)
{
    return kin_fail(
        ctx, KITH_E_LIMIT,
        "more than %lld neighbours are within the radius (ask for fewer rows at a time)",
        (long long)request->most);
}

/* Full chunks are counted, so that a job ends soon that finds too many: threads that all added to
 * one number with each hit would wait for it. Whether there are too many make_offsets says. */
static kith_status count_chunk(kin_hits *hits, const kin_hit_chunk *chunk)
{
    const int64_t most = hits->request->most;
    if (most == 0 || chunk == NULL) {
        return KITH_OK;
    }
    const int64_t before = (int64_t)atomic_fetch_add(&hits->found, chunk->ids);
    return before + chunk->ids > most ? kin_hits_too_many(hits->ctx, hits->request) : KITH_OK;
}

static kith_status append(kin_hits *hits, int32_t thread, const hit *one, int64_t ids)
{
    kin_hit_chunk *chunk = hits->chunks[thread];
    if (chunk == NULL || chunk->count == CHUNK_HITS) {
        kin_hit_chunk *fresh = NULL;
        KIN_TRY(count_chunk(hits, chunk));
        KIN_TRY(kin_alloc(hits->ctx, &fresh, 1, sizeof *fresh, "neighbours within reach"));
        fresh->next = chunk;
        fresh->count = 0;
        fresh->ids = 0;
        hits->chunks[thread] = fresh;
        chunk = fresh;
    }
    chunk->hits[chunk->count++] = *one;
    chunk->ids += ids;
    return KITH_OK;
}

kith_status kin_hits_offer(kin_hits *hits, int32_t thread, uint32_t query, uint32_t first,
                           double key)
{
    if (!within(hits, query, key)) {
        return KITH_OK;
    }
    const int64_t count = count_ids(hits, query, first);
    if (count == 0) {
        return KITH_OK;
    }
    atomic_fetch_add(&hits->counts[query], count);
    const hit one = {key, query, first};
    return hits->request->count_only ? KITH_OK : append(hits, thread, &one, count);
}

/* ---- The table ------------------------------------------------------------------------------ */

typedef struct table {
    kin_hits *hits;
    kith_ranges *ranges;
    kin_hit_chunk **chunks; /* all threads' */
    kin_pair *scratch;      /* threads x longest */
    int64_t longest;        /* list */
} table;

static bool is_degenerate(const kin_hits *hits, int64_t query)
{
    const kin_row_transform *transforms = hits->queries->transforms;
    return transforms != NULL && transforms[query].degenerate != 0.0;
}

/* Rows at distance 1 for a reason of their own: all of them for a degenerate query, the degenerate
 * ones for others. */
typedef struct ones {
    const uint32_t *ids; /* NULL: each row */
    int64_t first;
    int64_t last;
} ones;

static ones ones_of(const kin_hits *hits, int64_t query)
{
    const kin_groups *groups = hits->groups;
    const int64_t least = kin_radius_least(hits->request, query);
    if (!within(hits, query, DEGENERATE_KEY)) {
        return (ones){.ids = NULL};
    }
    if (is_degenerate(hits, query)) {
        return (ones){.first = least, .last = groups->rows};
    }
    ones some = {groups->degenerates, 0, groups->degenerate};
    for (int64_t end = groups->degenerate; some.first < end;) {
        const int64_t middle = some.first + (end - some.first) / 2;
        if (some.ids[middle] < least) {
            some.first = middle + 1;
        } else {
            end = middle;
        }
    }
    return some;
}

static int64_t count_ones(const kin_hits *hits, int64_t query)
{
    const ones some = ones_of(hits, query);
    const int64_t self = hits->request->own_row + query;
    const bool own = some.ids == NULL && self >= some.first && self < some.last;
    return some.last - some.first - (own && hits->request->leaves_self_out ? 1 : 0);
}

static kith_status make_offsets(const kin_hits *hits, kith_ranges *ranges)
{
    const int64_t rows = hits->queries->matrix.rows;
    KIN_TRY(kin_alloc(hits->ctx, &ranges->lists.offsets, (uint64_t)rows + 1,
                      sizeof *ranges->lists.offsets, "offsets of lists"));
    ranges->lists.rows = rows;
    ranges->lists.offsets[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t count = (int64_t)atomic_load(&hits->counts[row]) + count_ones(hits, row);
        ranges->lists.offsets[row + 1] = ranges->lists.offsets[row] + count;
    }
    const int64_t most = hits->request->most;
    return most > 0 && ranges->lists.offsets[rows] > most
               ? kin_hits_too_many(hits->ctx, hits->request)
               : KITH_OK;
}

/* The hits of a chunk to their rows, in any order, keys in the place of distances. */
static kith_status scatter(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const table *t = arg;
    const kin_hits *hits = t->hits;
    const kin_hit_chunk *chunk = t->chunks[task];
    for (int64_t i = 0; i < chunk->count; i++) {
        const hit *one = &chunk->hits[i];
        for (uint32_t id = next_id(hits, one->query, one->first); id != KITH_ID_NONE;
             id = following_id(hits, one->query, id)) {
            const int64_t at = t->ranges->lists.offsets[one->query] +
                               (int64_t)atomic_fetch_add(&hits->counts[one->query], 1);
            t->ranges->lists.ids[at] = id;
            t->ranges->lists.distances64[at] = one->key;
        }
    }
    return KITH_OK;
}

static int64_t take_row(const table *t, int64_t row, kin_pair *pairs)
{
    const kin_hits *hits = t->hits;
    const int64_t first = t->ranges->lists.offsets[row];
    int64_t count = (int64_t)atomic_load(&hits->counts[row]);
    for (int64_t i = 0; i < count; i++) {
        pairs[i] =
            (kin_pair){t->ranges->lists.distances64[first + i], t->ranges->lists.ids[first + i], 1};
    }
    const ones some = ones_of(hits, row);
    for (int64_t i = some.first; i < some.last; i++) {
        const uint32_t id = some.ids != NULL ? some.ids[i] : (uint32_t)i;
        if (!kin_radius_leaves(hits->request, row, id)) {
            pairs[count++] = (kin_pair){DEGENERATE_KEY, id, 1};
        }
    }
    return count;
}

static kith_status finish_rows(void *arg, int64_t row, int32_t thread)
{
    const table *t = arg;
    kith_ranges *ranges = t->ranges;
    kin_pair *pairs = t->scratch + (int64_t)thread * t->longest;
    const kith_metric metric = t->hits->request->distance.metric;
    const int64_t first = ranges->lists.offsets[row];
    const int64_t count = take_row(t, row, pairs);
    kin_select_sort_pairs(pairs, count);
    for (int64_t i = 0; i < count; i++) {
        const double distance = kin_metric_distance(metric, pairs[i].key);
        ranges->lists.ids[first + i] = pairs[i].id;
        ranges->lists.distances64[first + i] = distance;
        ranges->lists.distances[first + i] = (float)distance;
    }
    return KITH_OK;
}

static int64_t longest_row(const kith_ranges *ranges)
{
    int64_t most = 0;
    for (int64_t row = 0; row < ranges->lists.rows; row++) {
        most = kin_max_i64(most, ranges->lists.offsets[row + 1] - ranges->lists.offsets[row]);
    }
    return most;
}

static kith_status allocate(kin_hold *hold, table *t, int64_t *chunk_count)
{
    kith_ranges *ranges = t->ranges;
    const int32_t threads = hold->ctx->threads;
    int64_t room = 0;
    KIN_TRY(kin_ranges_grow(hold->ctx, ranges, &room, ranges->lists.rows));
    t->longest = longest_row(ranges);
    KIN_NEW(hold, t->scratch, kin_size_mul((uint64_t)threads, (uint64_t)t->longest), "threads");
    *chunk_count = 0;
    for (int32_t i = 0; i < threads; i++) {
        for (const kin_hit_chunk *chunk = t->hits->chunks[i]; chunk != NULL; chunk = chunk->next) {
            *chunk_count += 1;
        }
    }
    return kin_hold_alloc(hold, &t->chunks, (uint64_t)*chunk_count, sizeof(void *),
                          "chunks of hits");
}

static void list_chunks(const kith_ctx *ctx, table *t)
{
    int64_t count = 0;
    for (int32_t i = 0; i < ctx->threads; i++) {
        for (kin_hit_chunk *chunk = t->hits->chunks[i]; chunk != NULL; chunk = chunk->next) {
            t->chunks[count++] = chunk;
        }
    }
}

static kith_status fill(kith_ctx *ctx, table *t)
{
    int64_t chunk_count = 0;
    KIN_HOLD(hold, ctx);
    KIN_TRY(allocate(&hold, t, &chunk_count));
    list_chunks(ctx, t);
    for (int64_t row = 0; row < t->ranges->lists.rows; row++) {
        atomic_store(&t->hits->counts[row], 0); /* from here on, where the row's next hit goes */
    }
    KIN_TRY(kin_parallel(ctx, "rescore", chunk_count, scatter, t));
    return kin_parallel_rows(ctx, "rescore", t->ranges->lists.rows, ROWS_A_TASK, finish_rows, t);
}

kith_status kin_hits_finish(kin_hits *hits, kith_ranges *ranges)
{
    KIN_TRY(make_offsets(hits, ranges));
    if (hits->request->count_only) {
        return KITH_OK;
    }
    table t = {.hits = hits, .ranges = ranges};
    return fill(hits->ctx, &t);
}
