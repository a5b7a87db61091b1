/* SPDX-License-Identifier: Apache-2.0
 * Tree or all pairs for a radius search, where each point of a graph asks for itself. What tells is
 * how many pairs a few packets look at: first of a tree of few points, unless the whole one costs
 * little beside all pairs anyway. */
#ifndef KIN_TREE_RADIUS_CHOOSE_H
#define KIN_TREE_RADIUS_CHOOSE_H

#include "exact/exact_hits.h"

/* Whether a tree may win at all. */
bool kin_tree_radius_may_win(const kith_matrix *corpus, const kin_distance *distance);
/* Whether it costs little beside all pairs. */
bool kin_tree_radius_is_cheap(const kith_matrix *corpus, int64_t queries,
                              const kin_distance *distance);
/* Whether it wins, also with its building where it does not stand yet; share: of all pairs, that
 * packets looked at. */
bool kin_tree_radius_wins(double share, bool stands, int64_t queries, const kin_distance *distance);

#endif
