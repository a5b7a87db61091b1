/* SPDX-License-Identifier: Apache-2.0
 * Where the tree is faster than all pairs on the processor. */
#include "tree/tree_search.h"

/* Until it is measured for a machine: few columns, and a corpus that pays for a tree. */
enum { MOST_COLS = 10, LEAST_POINTS = 20000, LEAST_QUERIES = 1000, MOST_K = 128 };

bool kin_tree_pays(const kith_matrix *corpus, int64_t queries, const kin_request *request)
{
    return kin_tree_allows(request->distance.metric) && corpus->cols <= MOST_COLS &&
           corpus->rows >= LEAST_POINTS && queries >= LEAST_QUERIES && request->k <= MOST_K;
}
