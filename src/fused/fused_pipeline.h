/* SPDX-License-Identifier: Apache-2.0
 * The pipeline matrix on a GPU: costs written as a matrix, a named method of selection on it. */
#ifndef KIN_FUSED_PIPELINE_H
#define KIN_FUSED_PIPELINE_H

#include "exact/exact_search.h"
#include "fused/fused_stage.h"
#include "select/select.h"

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

/* Device memory, within that much scope, beside corpus, queries and answers: of MATRIX where costs
 * are screened; of a selection of rows x columns, of which a batch is halved until it fits. */
uint64_t kin_fused_pipeline_bytes(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                                  int64_t columns, uint64_t scope);
uint64_t kin_fused_scratch_bytes(const kin_gpu *gpu, const kin_select_job *job, uint64_t scope);

/* The report's name of what was run, in place of the type of a screen. */
void kin_fused_pipeline_note(kith_ctx *ctx, kith_pipeline pipeline);

#endif
