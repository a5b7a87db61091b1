/* SPDX-License-Identifier: Apache-2.0
 * All neighbours within a radius, by the tree: the table of kin_radius_run, for the metrics that
 * kin_tree_allows. */
#ifndef KIN_TREE_RADIUS_H
#define KIN_TREE_RADIUS_H

#include "exact/exact_hits.h"

#include <stdbool.h>

/* queries NULL: each point of the corpus against all of them. *ranges is all zero before; what it
 * got stays its own when this fails. may_decline: where a few packets say that all pairs are the
 * faster way, nothing is written and *declined is true. */
kith_status kin_tree_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                            const kin_radius_request *request, bool may_decline,
                            kith_ranges *ranges, bool *declined);

#endif
