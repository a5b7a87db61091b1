/* SPDX-License-Identifier: Apache-2.0
 * Every pair of rows within a radius, once, in chunks (kith_pairs.h).
 * This file is short because all but chunks is the radius search's (engine_exact.h). */
#ifndef KIN_ENGINE_PAIRS_H
#define KIN_ENGINE_PAIRS_H

#include "engine/engine_exact.h"

/* Checked arguments; values were checked, too. */
typedef struct kin_pairs_job {
    kith_matrix points;
    kith_matrix others; /* of one set those again */
    bool one_set;
    kith_pairs_params params;
    bool filters;
    kith_filter filter;
    kin_distance distance;
} kin_pairs_job;

kith_status kin_engine_pairs(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_report *report);
kith_status kin_engine_pairs_plan(kith_ctx *ctx, const kin_pairs_job *job, kith_pairs_plan *plan);

/* ---- What pairs say of rows (engine_components.c) ------------------------------------------- */

typedef struct kin_components {
    int64_t rows;
    kith_keep keep;
    uint32_t *parent; /* of each row one of its component with a smaller id, or itself; NULL: nobody
                         asks */
    uint8_t *kept;    /* NULL: nobody asks */
    uint32_t *degree; /* central: neighbours; and the best row by the component's smallest */
    uint32_t *best;
    void *block;
} kin_components;

/* labels and kept: the caller's, either may be NULL. */
kith_status kin_components_begin(kith_ctx *ctx, const kin_pairs_job *job,
                                 kin_components *components);
/* Of pairs by rising i < j. */
void kin_components_add(kin_components *components, uint32_t i, uint32_t j);
/* Labels and kept rows become those of the pairs so far. */
void kin_components_end(kith_ctx *ctx, kin_components *components);

#endif
