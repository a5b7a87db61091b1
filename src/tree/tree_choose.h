/* SPDX-License-Identifier: Apache-2.0
 * Tree or all pairs: before there is a tree, and when a few packets have been through it. */
#ifndef KIN_TREE_CHOOSE_H
#define KIN_TREE_CHOOSE_H

#include "tree/tree_search.h"

/* Packets that tell, spread over all of them. */
enum { KIN_TREE_PILOT = 16 };

/* Whether a tree of the corpus costs little beside all pairs, and may win. */
bool kin_tree_worth_trying(const kith_matrix *corpus, int64_t queries, bool graph,
                           const kin_request *request);
/* share: of all pairs, that packets looked at. */
bool kin_tree_wins(double share, int64_t points, bool graph, const kin_request *request);
#endif
