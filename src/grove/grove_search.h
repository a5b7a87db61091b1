/* SPDX-License-Identifier: Apache-2.0
 * The tree on a GPU as an engine: the bytes of kin_tree_graph and kin_tree_knn. Arguments are
 * checked in api/.
 *
 * Where the request's method is AUTO, a sample tells first whether the tree is the faster way
 * (grove_choose.c); where it is not, or where the tree does not fit into the device, nothing is
 * written and *declined is true. A tree that was named and does not fit: KITH_E_DEVICE_MEMORY. */
#ifndef KIN_GROVE_SEARCH_H
#define KIN_GROVE_SEARCH_H

#include "fused/fused_corpus.h"
#include "grove/grove_need.h"

/* Neighbours that lists are made for. */
enum { KIN_GROVE_MOST_K = 2048 };

/* Why a GPU has no tree for such a job, one line; NULL: it has. */
const char *kin_grove_missing(const kin_request *request);

/* Whether a sample costs little beside all pairs, and the tree may be the faster way; queries NULL:
 * a graph. */
bool kin_grove_worth_trying(const kith_matrix *corpus, const kith_matrix *queries,
                            const kin_request *request);

/* Without queries: the graph of the corpus' points. */
kith_status kin_grove_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kin_fused_query *query, bool *declined);

#endif
