/* SPDX-License-Identifier: Apache-2.0
 * What tells near tiles from others, for the start of a descent (cascade_start.c). */
#ifndef KIN_CASCADE_CASCADE_NEAR_H
#define KIN_CASCADE_CASCADE_NEAR_H

#include "cascade/cascade_run.h"

typedef struct kin_cascade_nearness {
    kin_fused_worst *worst;  /* of each tile: how far its near ones are */
    float *radii;            /* zeros: balls are points */
    kin_fused_coarse coarse; /* where near tiles are looked for; none: everywhere */
    uint32_t *groups;
    uint32_t *counts;
} kin_cascade_nearness;

/* Of the points of a run whose set has centres. nearness: zero; freed by its owner, also after an
 * error. */
kith_status kin_cascade_nearness_make(const kin_cascade_run *run, kin_cascade_nearness *nearness);
void kin_cascade_nearness_free(const kin_cascade_run *run, kin_cascade_nearness *nearness);

#endif
