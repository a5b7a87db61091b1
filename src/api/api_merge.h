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

/* place: of fused_search.h. */
kith_status kin_merge_check_job(kith_ctx *ctx, const kith_merge_sets *sets,
                                const kith_descent_params *given, uint32_t place,
                                const kith_neighbors *out, kin_merge_job *job);

#endif
