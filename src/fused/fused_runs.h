/* SPDX-License-Identifier: Apache-2.0
 * Rows of a graph in runs by their reach. */
#ifndef KIN_FUSED_RUNS_H
#define KIN_FUSED_RUNS_H

#include "fused/fused_prepare.h"
#include "fused/fused_stage.h"

/* A pass over the seeds of a graph that has stages (kin_fused_work_reach), each `run` consecutive
 * positions of the prepared points sorted by what it proved, and rounded again: work has the new
 * set, with centres as before if it had any. Positions that were known before are not valid any
 * more. */
kith_status kin_fused_runs_arrange(kin_fused_work *work, kin_fused_prepared *points, int32_t run);

#endif
