/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_walk.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "tree/tree_leaf.h"

enum { QUERIES_A_TASK = 2048 };
static const uint64_t STRIPE_BYTES = 128u << 20;

static kith_status load(void *arg, int64_t task, int32_t thread)
{
    kin_tree_queries *q = arg;
    const int64_t last = kin_min_i64((task + 1) * QUERIES_A_TASK, q->count);
    for (int64_t i = task * QUERIES_A_TASK; i < last; i++) {
        float *row = q->rows + i * q->cols;
        const kin_query query =
            kin_metric_load(q->distance, q->asked, q->first + i, q->scratches + thread * q->wide);
        const double lost = kin_tree_round(q->tree, query.values, row);
        q->lost[i] = lost > 0.0 ? kin_tree_up(lost) : 0.0F;
        q->leaves[i] = (uint32_t)kin_tree_leaf_of(q->tree, row);
    }
    return KITH_OK;
}

static void sort_by_leaf(kin_tree_queries *q)
{
    memset(q->starts, 0, (size_t)(q->tree_leaves + 1) * sizeof *q->starts);
    for (int64_t i = 0; i < q->count; i++) {
        q->starts[q->leaves[i] + 1] += 1;
    }
    for (int64_t leaf = 0; leaf < q->tree_leaves; leaf++) {
        q->starts[leaf + 1] += q->starts[leaf];
    }
    for (int64_t i = 0; i < q->count; i++) {
        q->order[q->starts[q->leaves[i]]++] = (uint32_t)i;
    }
}

kith_status kin_tree_queries_load(kith_ctx *ctx, kin_tree_queries *queries, int64_t first,
                                  int64_t count)
{
    queries->first = first;
    queries->count = count;
    KIN_TRY(kin_parallel(ctx, "tree", kin_ceil_div(count, QUERIES_A_TASK), load, queries));
    sort_by_leaf(queries);
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

static void name_arrays(kin_layout *layout, void *job)
{
    kin_tree_queries *q = job;
    const uint64_t n = (uint64_t)q->most;
    const uint64_t scratches = (uint64_t)q->threads * (uint64_t)q->wide;
    q->rows = kin_layout_array(layout, kin_size_mul(n, (uint64_t)q->cols), sizeof *q->rows);
    q->lost = kin_layout_array(layout, n, sizeof *q->lost);
    q->order = kin_layout_array(layout, n, sizeof *q->order);
    q->leaves = kin_layout_array(layout, n, sizeof *q->leaves);
    q->starts = kin_layout_array(layout, (uint64_t)q->tree_leaves + 1, sizeof *q->starts);
    q->scratches = kin_layout_array(layout, scratches, sizeof *q->scratches);
}

static kin_tree_queries size_of(const kin_tree *tree, int64_t most, int32_t threads)
{
    return (kin_tree_queries){.wide = kin_round_up(tree->cols, KIN_METRIC_LANES),
                              .most = most,
                              .tree_leaves = kin_tree_leaves(tree),
                              .cols = tree->cols,
                              .threads = threads};
}

kith_status kin_tree_queries_make(kith_ctx *ctx, const kin_tree *tree, const kin_distance *distance,
                                  const kin_rows *asked, int64_t most, kin_tree_queries *queries)
{
    *queries = size_of(tree, most, ctx->threads);
    queries->tree = tree;
    queries->distance = distance;
    queries->asked = asked;
    return kin_layout_make(ctx, name_arrays, queries, "queries of a tree", &queries->block);
}

void kin_tree_queries_plan(kin_layout *plan, const kin_tree *shape, int64_t most, int32_t threads)
{
    kin_tree_queries queries = size_of(shape, most, threads);
    kin_layout_block(plan, name_arrays, &queries);
}

void kin_tree_queries_free(kith_ctx *ctx, kin_tree_queries *queries)
{
    kin_free(ctx, queries->block);
    memset(queries, 0, sizeof *queries);
}
