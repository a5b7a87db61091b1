/* SPDX-License-Identifier: Apache-2.0
 * An answer by walks, and the recall that chooses how wide they are. */
#ifndef KIN_API_WALKS_RECALL_H
#define KIN_API_WALKS_RECALL_H

#include "api/api_walks.h"

typedef struct kin_walks_search {
    kith_matrix queries;             /* checked, with strides */
    kith_graph_search_params params; /* no zeros but recall and seed; sample 0: none */
    const kith_neighbors *out;       /* checked */
} kin_walks_search;

/* As kith_graph_search. walks->gpu is entered. Fills all of *report but its size. */
kith_status kin_walks_answer(kith_ctx *ctx, const kith_walks *walks, const kin_walks_search *job,
                             kith_graph_search_report *report);

#endif
