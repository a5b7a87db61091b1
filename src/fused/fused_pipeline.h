/* SPDX-License-Identifier: Apache-2.0
 * The pipeline matrix on a GPU: costs written as a matrix, a named method of selection on it. */
#ifndef KIN_FUSED_PIPELINE_H
#define KIN_FUSED_PIPELINE_H

#include "exact/exact_search.h"
#include "fused/fused_stage.h"

/* What kin_fused_work_run does, by the request's pipeline: FUSED is it, MATRIX fills the same lists
 * from costs that were written. Lists of a MATRIX are one-sided: work->graph is not set. */
kith_status kin_fused_pipeline_run(kin_fused_work *work, const kin_request *request);

/* Keys in device memory, rows x columns: the first k of each row, sorted, as pairs. ids: the
 * column. values, ids: scratch of rows x k. */
typedef struct kin_fused_picking {
    const double *keys;
    int64_t pitch;
    int64_t rows;
    int64_t columns;
    int64_t k;
    kith_select_method method;
    double *values;
    uint32_t *ids;
    kin_fused_pair *pairs;
} kin_fused_picking;
kith_status kin_fused_pick(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_picking *p);

/* The report's name of what was run, in place of the type of a screen. */
void kin_fused_pipeline_note(kith_ctx *ctx, kith_pipeline pipeline);

#endif
