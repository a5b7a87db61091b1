/* SPDX-License-Identifier: Apache-2.0
 * Two graphs behind the public functions: their arguments. */
#ifndef KIN_API_MERGE_H
#define KIN_API_MERGE_H

#include "api/api_check.h"
#include "api/api_descent.h"

/* Two sets in one matrix, and their graphs; of an empty set graph.rows is 0. */
typedef struct kin_merge_sets {
    kith_matrix points; /* checked */
    int64_t first_rows;
    kith_neighbors graph[2];
} kin_merge_sets;

/* first_rows of the points are set 1. */
kith_status kin_merge_check_first(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows);

/* points, first_rows and both graphs: shapes, ids, and that their lists are long enough for k.
 * place: of fused_search.h; what lies on a device is not looked at. */
kith_status kin_merge_check(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                            const kith_neighbors *graph1, const kith_neighbors *graph2, int64_t k,
                            uint32_t flags, uint32_t place, kin_merge_sets *sets);

/* What is known of both graphs against the points and the metric; points on a device are not read.
 */
kith_status kin_merge_check_known(kith_ctx *ctx, const kin_merge_sets *sets, kith_metric metric,
                                  uint32_t place);

/* A descent that begins with two graphs; descent.request points into sets. */
typedef struct kin_merge_job {
    kin_merge_sets sets;
    kin_descent_job descent;
} kin_merge_job;

kith_status kin_merge_check_job(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                                const kith_neighbors *graph1, const kith_neighbors *graph2,
                                const kith_descent_params *given, uint32_t place,
                                const kith_neighbors *out, kin_merge_job *job);

#endif
