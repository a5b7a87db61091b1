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
/* Queries against a tree that stands, and the groups that it was made of; others may search it at
 * the same time. */
kith_status kin_tree_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                            const kith_matrix *queries, const kin_request *request,
                            const kith_neighbors *out, bool *declined);

/* What the two will hold at most; queries NULL: a graph. known: of the rows of the corpus. */
kin_plan kin_tree_plan(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, kin_rows_known known, int32_t threads);
/* What kin_tree_search will hold beside a tree of so many rows. */
kin_plan kin_tree_search_plan(const kin_tree *tree, int64_t rows, const kith_matrix *queries,
                              const kin_request *request, int32_t threads);

/* Points a leaf that are fastest for so many columns. */
int64_t kin_tree_leaf_points(int32_t cols);
/* Points a leaf of a tree of `height` (0: the fastest); what kin_tree_make takes. Where there are
 * fewer points than a leaf of each 2^height needs, it makes a lower tree. */
int64_t kin_tree_leaf_points_of(int32_t cols, int64_t points, int32_t height);
/* The highest tree whose leaves all have a block of points. */
int32_t kin_tree_most_height(int64_t points);

#endif
