/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_links.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "select/select_pairs.h"

enum { ROWS_A_TASK = 4096 };

typedef struct linking {
    const kith_neighbors *graph;
    kin_descent_links *links;
} linking;

/* ---- Edges ---------------------------------------------------------------------------------- */

static bool leads_to(const kin_descent_links *links, uint32_t row, uint32_t id)
{
    const uint32_t *ids = links->ids + (int64_t)row * links->most;
    for (uint32_t i = 0; i < links->counts[row]; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static void lead(kin_descent_links *links, uint32_t row, uint32_t id)
{
    links->ids[(int64_t)row * links->most + links->counts[row]++] = id;
}

static kith_status take_edges(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const linking *l = arg;
    const int64_t k = l->graph->k;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, l->links->rows);
    for (int64_t row = task * ROWS_A_TASK; row < last; row++) {
        const uint32_t *ids = l->graph->ids + row * k;
        l->links->counts[row] = 0;
        for (int64_t i = 0; i < k; i++) {
            if (ids[i] != KITH_ID_NONE && (int64_t)ids[i] != row) {
                lead(l->links, (uint32_t)row, ids[i]);
            }
        }
    }
    return KITH_OK;
}

/* One thread: whose edge comes first is part of the answer. Rows that everybody names have room for
 * a part of them alone, and those that are nearest to them are worth most. */
static kith_status turn_edges(kith_ctx *ctx, const linking *l)
{
    const kith_neighbors *graph = l->graph;
    for (int64_t place = 0; place < graph->k; place++) {
        for (int64_t row = 0; row < graph->rows; row++) {
            const uint32_t id = graph->ids[row * graph->k + place];
            if (id != KITH_ID_NONE && (int64_t)id != row &&
                (int64_t)l->links->counts[id] < l->links->most &&
                !leads_to(l->links, id, (uint32_t)row)) {
                lead(l->links, id, (uint32_t)row);
            }
        }
        KIN_TRY(kin_progress(ctx, "links", (double)place, (double)graph->k));
    }
    return KITH_OK;
}

/* ---- Parts ---------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parents, uint32_t row)
{
    while (parents[row] != row) {
        parents[row] = parents[parents[row]];
        row = parents[row];
    }
    return row;
}

/* The lowest row of a part is its root. */
static void unite(uint32_t *parents, const kith_neighbors *graph)
{
    for (int64_t i = 0; i < graph->rows * graph->k; i++) {
        if (graph->ids[i] != KITH_ID_NONE) {
            const uint32_t a = root_of(parents, (uint32_t)(i / graph->k));
            const uint32_t b = root_of(parents, graph->ids[i]);
            parents[a > b ? a : b] = a > b ? b : a;
        }
    }
}

/* words: (rows that are not in it, its root), so that the largest comes first. */
static int64_t rank_parts(uint32_t *parents, int64_t rows, uint32_t *sizes, uint64_t *words)
{
    int64_t count = 0;
    for (int64_t row = 0; row < rows; row++) {
        sizes[root_of(parents, (uint32_t)row)] += 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        if (sizes[row] > 0) {
            words[count++] = (uint64_t)(UINT32_MAX - sizes[row]) << 32 | (uint64_t)row;
        }
    }
    kin_select_sort_words(words, count);
    return count;
}

static kith_status find_parts(kith_ctx *ctx, const linking *l)
{
    const int64_t rows = l->graph->rows;
    kin_descent_links *links = l->links;
    uint32_t *sizes = NULL;
    uint64_t *words = NULL;
    kith_status status = KITH_OK;
    KIN_TRY(kin_alloc(ctx, &links->parts, (uint64_t)rows, sizeof *links->parts, "parts"));
    KIN_TRY_GOTO(status, kin_alloc_zero(ctx, &sizes, (uint64_t)rows, sizeof *sizes, "parts"), done);
    KIN_TRY_GOTO(status, kin_alloc(ctx, &words, (uint64_t)rows, sizeof *words, "parts"), done);
    for (int64_t row = 0; row < rows; row++) {
        links->parts[row] = (uint32_t)row;
    }
    unite(links->parts, l->graph);
    links->part_count = rank_parts(links->parts, rows, sizes, words);
    for (int64_t i = 0; i < links->part_count; i++) {
        links->parts[i] = (uint32_t)(words[i] & UINT32_MAX);
    }
done:
    kin_free(ctx, words);
    kin_free(ctx, sizes);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------ */

kith_status kin_descent_links_make(kith_ctx *ctx, const kith_neighbors *graph,
                                   kin_descent_links *links)
{
    *links = (kin_descent_links){.rows = graph->rows, .most = 2 * graph->k};
    linking l = {graph, links};
    const uint64_t rows = (uint64_t)graph->rows;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &links->ids, kin_size_mul(rows, (uint64_t)links->most),
                           sizeof *links->ids, "links"),
                 done);
    KIN_TRY_GOTO(status, kin_alloc(ctx, &links->counts, rows, sizeof *links->counts, "links"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_parallel(ctx, "links", kin_ceil_div(graph->rows, ROWS_A_TASK), take_edges, &l),
                 done);
    KIN_TRY_GOTO(status, turn_edges(ctx, &l), done);
    status = find_parts(ctx, &l);
done:
    if (status != KITH_OK) {
        kin_descent_links_free(ctx, links);
    }
    return status;
}

void kin_descent_links_free(kith_ctx *ctx, kin_descent_links *links)
{
    kin_free(ctx, links->parts);
    kin_free(ctx, links->counts);
    kin_free(ctx, links->ids);
    *links = (kin_descent_links){0};
}
