/* SPDX-License-Identifier: Apache-2.0
 * The tree as an engine: the bytes of kin_exact_graph and kin_exact_search, for the metrics that
 * kin_tree_allows. Arguments are checked in api/.
 *
 * Where the request's method is AUTO, a few packets tell first whether the tree is the faster way;
 * where it is not, nothing is written and *declined is true. */
#ifndef KIN_TREE_SEARCH_H
#define KIN_TREE_SEARCH_H

#include "exact/exact_hits.h"
#include "exact/exact_prepare.h"
#include "tree/tree_cost.h"

kith_status kin_tree_graph(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                           const kith_neighbors *out, bool *declined);
kith_status kin_tree_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kin_request *request, const kith_neighbors *out, bool *declined);
/* Queries against a tree that stands, whatever the request's method, and the groups that it was
 * made of; others may search it at the same time. */
kith_status kin_tree_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                            const kith_matrix *queries, const kin_request *request,
                            const kith_neighbors *out);

/* Whether the two would take the tree: kin_tree_graph and kin_tree_knn ask the same, of the same
 * data, and keep to the answer. */
kith_status kin_tree_foresee(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             const kin_request *request, kin_tree_verdict *verdict);

/* What the two will hold at most; queries NULL: a graph. known: of the rows of the corpus. */
kin_plan kin_tree_plan(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, kin_rows_known known, int32_t threads);
/* What kin_tree_search will hold beside a tree of so many rows. */
kin_plan kin_tree_search_plan(const kin_tree *tree, int64_t rows, const kith_matrix *queries,
                              const kin_request *request, int32_t threads);

/* ---- All within a radius (tree_radius.c) ----------------------------------------------------- */

/* queries NULL: each point of the corpus against all of them. *ranges is all zero before; what it
 * got stays its own when this fails. Where a few packets say that all pairs are the faster way,
 * nothing is written and *declined is true; declined NULL: nobody asks. */
kith_status kin_tree_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                            const kin_radius_request *request, kith_ranges *ranges, bool *declined);
/* The same of a corpus whose tree stands. */
kith_status kin_tree_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                                   const kith_matrix *queries, const kin_radius_request *request,
                                   kith_ranges *ranges);

#endif
