/* SPDX-License-Identifier: Apache-2.0
 * Two graphs behind the public functions: their arguments. */
#ifndef KIN_API_MERGE_H
#define KIN_API_MERGE_H

#include "api/api_check.h"
#include "api/api_descent.h"
#include "engine/engine_merge.h"

/* A descent that begins with two graphs; descent.request points into sets. */
typedef struct kin_merge_job {
    kin_merge_sets sets;
    kin_descent_job descent;
} kin_merge_job;

/* What a caller has given. */
typedef struct kin_merge_asked {
    const kith_matrix *points;
    int64_t first_rows;
    const kith_neighbors *graph[2];
    uint32_t place; /* of fused_search.h */
    int64_t k;      /* of its parameters, once they are known */
    uint32_t flags; /* of its parameters, once they are known */
} kin_merge_asked;

kith_status kin_merge_check_job(kith_ctx *ctx, kin_merge_asked *asked,
                                const kith_descent_params *given, const kith_neighbors *out,
                                kin_merge_job *job);

#endif
