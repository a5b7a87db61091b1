/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_query.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "tree/tree_leaf.h"

enum { QUERIES_A_TASK = 2048 };
static const uint64_t STRIPE_BYTES = 128u << 20;

typedef struct loading {
    const kin_tree *tree;
    const kin_distance *distance;
    const kin_rows *rows;
    kin_tree_queries *queries;
} loading;

/* The leaf whose cell the row is in. */
static uint32_t leaf_of(const kin_tree *tree, const float *row)
{
    int64_t node = 1;
    for (int32_t level = 0; level < tree->height; level++) {
        node = 2 * node + (row[tree->planes[node]] < tree->splits[node] ? 0 : 1);
    }
    return (uint32_t)(node - kin_tree_leaves(tree));
}

static kith_status load(void *arg, int64_t task, int32_t thread)
{
    const loading *l = arg;
    kin_tree_queries *q = l->queries;
    const int64_t last = kin_min_i64((task + 1) * QUERIES_A_TASK, q->count);
    for (int64_t i = task * QUERIES_A_TASK; i < last; i++) {
        float *row = q->rows + i * l->tree->cols;
        const kin_query query =
            kin_metric_load(l->distance, l->rows, q->first + i, q->scratches[thread]);
        const double lost = kin_tree_round(l->tree, query.values, row);
        q->lost[i] = lost > 0.0 ? kin_tree_up(lost) : 0.0F;
        q->leaves[i] = leaf_of(l->tree, row);
    }
    return KITH_OK;
}

static void sort_by_leaf(const kin_tree *tree, kin_tree_queries *q)
{
    const int64_t leaves = kin_tree_leaves(tree);
    memset(q->starts, 0, (size_t)(leaves + 1) * sizeof *q->starts);
    for (int64_t i = 0; i < q->count; i++) {
        q->starts[q->leaves[i] + 1] += 1;
    }
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        q->starts[leaf + 1] += q->starts[leaf];
    }
    for (int64_t i = 0; i < q->count; i++) {
        q->order[q->starts[q->leaves[i]]++] = (uint32_t)i;
    }
}

kith_status kin_tree_queries_load(kith_ctx *ctx, const kin_tree *tree, const kin_distance *distance,
                                  const kin_rows *rows, int64_t first, int64_t count,
                                  kin_tree_queries *queries)
{
    loading l = {.tree = tree, .distance = distance, .rows = rows, .queries = queries};
    queries->first = first;
    queries->count = count;
    KIN_TRY(kin_parallel(ctx, "tree", kin_ceil_div(count, QUERIES_A_TASK), load, &l));
    sort_by_leaf(tree, queries);
    return KITH_OK;
}

int32_t kin_tree_queries_packet(const kin_tree_queries *queries, int32_t cols, int64_t packet,
                                float *columns)
{
    const int64_t first = packet * KIN_PACKET;
    const int32_t count = (int32_t)kin_min_i64(KIN_PACKET, queries->count - first);
    for (int32_t q = 0; q < count; q++) {
        const float *row = queries->rows + (int64_t)queries->order[first + q] * cols;
        for (int32_t c = 0; c < cols; c++) {
            columns[(int64_t)c * KIN_PACKET + q] = row[c];
        }
    }
    return count;
}

int64_t kin_tree_queries_stripe(int64_t rows, int32_t cols)
{
    const int64_t a_query = ((int64_t)cols + 3) * (int64_t)sizeof(float);
    return kin_min_i64(rows, kin_max_i64((int64_t)STRIPE_BYTES / a_query, KIN_PACKET));
}

uint64_t kin_tree_queries_bytes(int64_t most, int64_t leaves, int32_t cols, int32_t threads)
{
    const uint64_t a_query = ((uint64_t)cols + 3) * sizeof(float);
    const uint64_t wide = (uint64_t)kin_round_up(cols, KIN_METRIC_LANES) * sizeof(double);
    return kin_size_add(kin_size_mul((uint64_t)most, a_query),
                        (uint64_t)(leaves + 1) * sizeof(uint32_t) + (uint64_t)threads * wide);
}

kith_status kin_tree_queries_make(kith_ctx *ctx, const kin_tree *tree, int64_t most,
                                  kin_tree_queries *queries)
{
    static const char *const WHAT = "queries of a tree";
    const uint64_t n = (uint64_t)most;
    const uint64_t leaves = (uint64_t)kin_tree_leaves(tree);
    const int64_t wide = kin_round_up(tree->cols, KIN_METRIC_LANES);
    *queries = (kin_tree_queries){.count = 0};
    KIN_TRY(kin_alloc(ctx, &queries->rows, kin_size_mul(n, (uint64_t)tree->cols),
                      sizeof *queries->rows, WHAT));
    KIN_TRY(kin_alloc(ctx, &queries->lost, n, sizeof *queries->lost, WHAT));
    KIN_TRY(kin_alloc(ctx, &queries->order, n, sizeof *queries->order, WHAT));
    KIN_TRY(kin_alloc(ctx, &queries->leaves, n, sizeof *queries->leaves, WHAT));
    KIN_TRY(kin_alloc(ctx, &queries->starts, leaves + 1, sizeof *queries->starts, WHAT));
    KIN_TRY(kin_alloc_zero(ctx, &queries->scratches, (uint64_t)ctx->threads,
                           sizeof *queries->scratches, WHAT));
    for (int32_t t = 0; t < ctx->threads; t++) {
        KIN_TRY(kin_alloc(ctx, &queries->scratches[t], (uint64_t)wide, sizeof(double), WHAT));
    }
    return KITH_OK;
}

void kin_tree_queries_free(kith_ctx *ctx, kin_tree_queries *queries)
{
    for (int32_t t = 0; queries->scratches != NULL && t < ctx->threads; t++) {
        kin_free(ctx, queries->scratches[t]);
    }
    kin_free(ctx, queries->scratches);
    kin_free(ctx, queries->starts);
    kin_free(ctx, queries->leaves);
    kin_free(ctx, queries->order);
    kin_free(ctx, queries->lost);
    kin_free(ctx, queries->rows);
    memset(queries, 0, sizeof *queries);
}
