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

#endif
