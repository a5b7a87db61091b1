/* SPDX-License-Identifier: Apache-2.0
 * What the tree's searches will hold, before anything is allocated. The sums are those of
 * tree_search.c and what it calls; tests/unit/test_plan.c compares them with what was held. */
#include "base/base_size.h"
#include "exact/exact_hits.h"
#include "tree/tree_query.h"
#include "tree/tree_search.h"
#include "tree/tree_walk.h"

enum { SLACK_JOB = 32768, SLACK_THREAD = 8192, GROUP_BYTES = 16 };

/* Threads and a stripe of queries, in a tree of `leaves`. */
static uint64_t state_bytes(int32_t cols, int64_t leaf_points, int64_t leaves, int64_t wanted,
                            const kith_matrix *queries, int32_t threads)
{
    const uint64_t a_thread = kin_size_add(
        kin_tree_walk_bytes(wanted, cols, leaf_points),
        kin_size_mul((uint64_t)wanted, 2 * sizeof(kin_pair) + sizeof(uint32_t)) + SLACK_THREAD);
    const uint64_t state = kin_size_mul((uint64_t)threads, a_thread);
    if (queries == NULL) {
        return state;
    }
    const int64_t stripe = kin_tree_queries_stripe(queries->rows, cols);
    return kin_size_add(state, kin_tree_queries_bytes(stripe, leaves, cols, threads));
}

/* Beside the tree: queries get their groups, which leave two numbers a query, then state. */
static uint64_t searching_bytes(uint64_t state, const kith_matrix *queries)
{
    const uint64_t asked = queries != NULL ? (uint64_t)queries->rows : 0;
    const uint64_t grouped = queries != NULL ? kin_groups_bytes(queries->rows) : 0;
    const uint64_t held = kin_size_add(state, kin_size_mul(asked, 2 * sizeof(uint32_t)));
    return held > grouped ? held : grouped;
}

kin_plan kin_tree_plan(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, int32_t threads)
{
    const int32_t cols = corpus->cols;
    const int64_t leaf_points = kin_tree_leaf_points_of(cols, corpus->rows, request->tree_height);
    const int64_t wanted = kin_min_i64(request->k + 1, corpus->rows);
    const uint64_t rows = kin_size_mul((uint64_t)corpus->rows, GROUP_BYTES);
    const uint64_t tree = kin_tree_bytes(corpus->rows, cols, leaf_points);
    /* A leaf has at least half as many blocks as the largest. */
    const int64_t leaves = 2 * corpus->rows / leaf_points + 1;
    const uint64_t state = state_bytes(cols, leaf_points, leaves, wanted, queries, threads);
    const uint64_t built =
        kin_size_add(rows, kin_tree_peak_bytes(corpus->rows, cols, threads, leaf_points));
    const uint64_t grouped = kin_groups_bytes(corpus->rows);
    const uint64_t searched =
        kin_size_add(kin_size_add(rows, tree), searching_bytes(state, queries));
    uint64_t peak = built > grouped ? built : grouped;
    peak = searched > peak ? searched : peak;
    return (kin_plan){.screens = true,
                      .prepared_bytes = kin_size_add(rows, tree),
                      .state_bytes = state,
                      .peak_bytes = kin_size_add(peak, SLACK_JOB)};
}

kin_plan kin_tree_search_plan(const kin_tree *tree, int64_t rows, const kith_matrix *queries,
                              const kin_request *request, int32_t threads)
{
    const int64_t wanted = kin_min_i64(request->k + 1, rows);
    const uint64_t state = state_bytes(tree->cols, kin_tree_most_blocks(tree) * KIN_TREE_LANES,
                                       kin_tree_leaves(tree), wanted, queries, threads);
    return (kin_plan){.screens = true,
                      .state_bytes = state,
                      .peak_bytes = kin_size_add(searching_bytes(state, queries), SLACK_JOB)};
}
