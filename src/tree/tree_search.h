/* SPDX-License-Identifier: Apache-2.0
 * The tree as an engine: the bytes of kin_exact_graph and kin_exact_search, for the metrics that
 * kin_tree_allows. Arguments are checked in api/.
 *
 * Where the request's method is AUTO, a few packets tell first whether the tree is the faster way;
 * where it is not, nothing is written and *declined is true. */
#ifndef KIN_TREE_SEARCH_H
#define KIN_TREE_SEARCH_H

#include "exact/exact_plan.h"
#include "tree/tree.h"

kith_status kin_tree_graph(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                           const kith_neighbors *out, bool *declined);
kith_status kin_tree_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kin_request *request, const kith_neighbors *out, bool *declined);

/* What the two will hold at most; queries NULL: a graph. */
kin_plan kin_tree_plan(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, int32_t threads);

/* Points a leaf that are fastest for so many columns. */
int64_t kin_tree_leaf_points(int32_t cols);

#endif
