/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Edges are turned by counting: of each row those that name it, ascending. The row's own
 * entries, ascending too, are merged with them, once to count and once to write; what comes out is
 * sorted by (distance, id).
 *
 * Memory. 8 bytes an edge that is turned, 16 an edge of the answer. */
#include "graph/graph.h"

#include "base/base_size.h"
#include "host/host_threads.h"

enum { ROWS_A_TASK = 1024 };

/* An entry of a graph. */
typedef struct entry {
    uint32_t row;
    uint32_t place;
} entry;

typedef struct turning {
    kin_hold *hold;
    int32_t threads;
    const kith_neighbors *graph;
    bool mutual;
    bool largest_first;
    int64_t *starts; /* rows + 1: of turned */
    entry *turned;   /* by row: entries that name it */
    uint64_t *own;   /* threads x k: id << 32 | place of a row's entries, ascending */
    kin_pair *list;  /* threads x longest: a row of the answer */
    int64_t longest;
    kith_ranges *ranges;
} turning;

/* ---- Turning --------------------------------------------------------------------------------- */

static kith_status turn(turning *t)
{
    const kith_neighbors *graph = t->graph;
    const int64_t cells = graph->rows * graph->k;
    int64_t *starts = t->starts + 1; /* so that at the end starts[row] is where the row begins */
    for (int64_t i = 0; i < cells; i++) {
        if (graph->ids[i] != KITH_ID_NONE) {
            starts[(int64_t)graph->ids[i] + 1] += 1;
        }
    }
    for (int64_t row = 0; row < graph->rows; row++) {
        starts[row + 1] += starts[row];
    }
    KIN_NEW(t->hold, t->turned, (uint64_t)starts[graph->rows], "turned edges");
    for (int64_t i = 0; i < cells; i++) {
        if (graph->ids[i] != KITH_ID_NONE) {
            t->turned[starts[graph->ids[i]]++] =
                (entry){(uint32_t)(i / graph->k), (uint32_t)(i % graph->k)};
        }
    }
    return KITH_OK;
}

/* ---- A row ----------------------------------------------------------------------------------- */

static double distance_at(const kith_neighbors *graph, int64_t cell)
{
    return graph->distances64 != NULL ? graph->distances64[cell] : (double)graph->distances[cell];
}

/* Each id once, at its nearest. */
static int64_t take_own(const turning *t, int64_t row, uint64_t *own)
{
    const int64_t k = t->graph->k;
    int64_t count = 0;
    int64_t kept = 0;
    for (int64_t j = 0; j < k; j++) {
        const uint32_t id = t->graph->ids[row * k + j];
        if (id != KITH_ID_NONE) {
            own[count++] = (uint64_t)id << 32 | (uint64_t)j;
        }
    }
    kin_select_sort_words(own, count);
    for (int64_t i = 0; i < count; i++) {
        if (kept == 0 || own[kept - 1] >> 32 != own[i] >> 32) {
            own[kept++] = own[i];
        }
    }
    return kept;
}

static void put(const turning *t, kin_pair *list, int64_t at, uint32_t id, int64_t cell)
{
    if (list != NULL) {
        const double distance = distance_at(t->graph, cell);
        list[at] = (kin_pair){t->largest_first ? -distance : distance, id, 1};
    }
}

/* Edges of a row, whose length is returned; list NULL: it alone. An edge that both have is as far
 * as the row says. */
static int64_t merge(const turning *t, int64_t row, int32_t thread, kin_pair *list)
{
    const int64_t k = t->graph->k;
    uint64_t *own = t->own + thread * k;
    const int64_t own_count = take_own(t, row, own);
    const entry *others = t->turned + t->starts[row];
    const int64_t other_count = t->starts[row + 1] - t->starts[row];
    int64_t count = 0;
    int64_t i = 0;
    int64_t j = 0;
    while (i < own_count || j < other_count) {
        const uint64_t mine = i < own_count ? own[i] >> 32 : UINT64_MAX;
        const uint64_t other = j < other_count ? others[j].row : UINT64_MAX;
        const bool both = mine == other;
        if (both || !t->mutual) {
            const uint64_t id = mine <= other ? mine : other;
            const int64_t cell = mine <= other ? row * k + (int64_t)(own[i] & UINT32_MAX)
                                               : (int64_t)other * k + others[j].place;
            put(t, list, count++, (uint32_t)id, cell);
        }
        i += mine <= other;
        while (j < other_count && others[j].row <= (mine < other ? mine : other)) {
            j += 1; /* a row that names this one twice does so once */
        }
    }
    return count;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static kith_status count_some(void *arg, int64_t row, int32_t thread)
{
    const turning *t = arg;
    t->ranges->lists.offsets[row + 1] = merge(t, row, thread, NULL);
    return KITH_OK;
}

static kith_status write_some(void *arg, int64_t row, int32_t thread)
{
    const turning *t = arg;
    const kith_ranges *ranges = t->ranges;
    kin_pair *list = t->list + thread * t->longest;
    const int64_t first = ranges->lists.offsets[row];
    const int64_t count = merge(t, row, thread, list);
    kin_select_sort_pairs(list, count);
    for (int64_t i = 0; i < count; i++) {
        const double distance = t->largest_first ? -list[i].key : list[i].key;
        ranges->lists.ids[first + i] = list[i].id;
        ranges->lists.distances64[first + i] = distance;
        ranges->lists.distances[first + i] = (float)distance;
    }
    return KITH_OK;
}

/* Offsets, from lengths; then all that has their size. */
static kith_status make_room(turning *t)
{
    kith_ctx *ctx = t->hold->ctx;
    kith_ranges *ranges = t->ranges;
    for (int64_t row = 0; row < ranges->lists.rows; row++) {
        t->longest = kin_max_i64(t->longest, ranges->lists.offsets[row + 1]);
        ranges->lists.offsets[row + 1] += ranges->lists.offsets[row];
    }
    const uint64_t all = (uint64_t)ranges->lists.offsets[ranges->lists.rows];
    KIN_TRY(kin_alloc(ctx, &ranges->lists.ids, all, sizeof(uint32_t), "ids"));
    KIN_TRY(kin_alloc(ctx, &ranges->lists.distances, all, sizeof(float), "distances"));
    KIN_TRY(kin_alloc(ctx, &ranges->lists.distances64, all, sizeof(double), "distances"));
    KIN_NEW(t->hold, t->list, (uint64_t)(t->threads * t->longest), "a row");
    return KITH_OK;
}

kith_status kin_graph_symmetric(kith_ctx *ctx, const kith_neighbors *graph, kith_metric metric,
                                bool mutual, kith_ranges *ranges)
{
    KIN_HOLD(hold, ctx);
    turning t = {.hold = &hold,
                 .threads = ctx->threads,
                 .graph = graph,
                 .mutual = mutual,
                 .largest_first = metric == KITH_INNER_PRODUCT,
                 .ranges = ranges};
    const int64_t rows = graph->rows;
    ranges->lists.rows = rows;
    KIN_TRY(
        kin_alloc_zero(ctx, &ranges->lists.offsets, (uint64_t)rows + 1, sizeof(int64_t), "rows"));
    KIN_NEW_ZERO(&hold, t.starts, (uint64_t)rows + 2, "turned edges");
    KIN_NEW(&hold, t.own, (uint64_t)(t.threads * graph->k), "threads");
    KIN_TRY(turn(&t));
    KIN_TRY(kin_parallel_rows(ctx, "symmetric", rows, ROWS_A_TASK, count_some, &t));
    KIN_TRY(make_room(&t));
    return kin_parallel_rows(ctx, "symmetric", rows, ROWS_A_TASK, write_some, &t);
}
