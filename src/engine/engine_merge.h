/* SPDX-License-Identifier: Apache-2.0
 * Two exact graphs made one. */
#ifndef KIN_ENGINE_MERGE_H
#define KIN_ENGINE_MERGE_H

#include "exact/exact_search.h"

/* Two sets in one matrix, and their graphs; of an empty set graph.rows is 0. */
typedef struct kin_merge_sets {
    kith_matrix points; /* checked */
    int64_t first_rows;
    kith_neighbors graph[2];
} kin_merge_sets;

/* Checked arguments. */
typedef struct kin_merge_exact {
    kin_merge_sets sets;
    kin_distance distance;
    kith_search_params params; /* of the searches across, by keys */
    uint32_t flags;            /* of the answer */
} kin_merge_exact;

kith_status kin_engine_merge(kith_ctx *ctx, const kin_merge_exact *job, const kith_neighbors *out);

#endif
