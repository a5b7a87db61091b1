/* SPDX-License-Identifier: Apache-2.0
 * Graphs of two sets, and whether an exact merge of them is the graph of all. */
#ifndef SUPPORT_MERGES_H
#define SUPPORT_MERGES_H

#include "kith/kith.h"

/* Lists of a second graph may be longer than k. */
enum { TEST_MERGE_LONGER = 13 };

/* An exact graph whose lists are as long as they can be, and `k` wide: the rest are empty slots. */
kith_neighbors test_merge_graph(kith_ctx *ctx, const kith_matrix *points, int64_t k,
                                const kith_search_params *like);
/* Whether merging graphs of the first rows and of the others gives the graph of all. params->k is
 * at most TEST_MERGE_LONGER. */
void test_merge_is_true(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                        const kith_search_params *params, const kith_neighbors *truth);

#endif
