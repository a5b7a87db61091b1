/* SPDX-License-Identifier: Apache-2.0
 * A way that a request brings in place of ours (kin_pipeline, exact_search.h), on a GPU. It is
 * either one of lists (fill, pick) or one whose answers the host writes (answer, keys). Sizes are
 * of device memory within that much scope, beside corpus, queries and answers. */
#ifndef KIN_FUSED_PIPELINE_H
#define KIN_FUSED_PIPELINE_H

#include "exact/exact_search.h"
#include "fused/fused_answer.h"
#include "fused/fused_prepare.h"
#include "fused/fused_stage.h"
#include "select/select.h"

/* Keys in device memory, rows x columns: the first k of each row, sorted, as pairs. ids: the
 * column. values, ids: scratch of rows x k. */
typedef struct kin_fused_picking {
    const double *keys;
    int64_t pitch;
    int64_t rows;
    int64_t columns;
    int64_t k;
    const kin_select_method *method;
    double *values;
    uint32_t *ids;
    kin_fused_pair *pairs;
} kin_fused_picking;

typedef struct kin_fused_pipeline {
    bool by_host;
    /* Where costs are screened. fill: what kin_fused_work_run does; lists are one-sided,
     * work->graph is not set. answer: the lists of all positions of `queries` among those of
     * `corpus`, to a; both sets hold rows; worst: of the tiles of the corpus. */
    kith_status (*fill)(kin_fused_work *work, const kin_request *request);
    kith_status (*answer)(kin_fused_answers *a, const kin_fused_prepared *queries,
                          const kin_fused_prepared *corpus, const kin_fused_worst *worst,
                          const kin_request *request);
    uint64_t (*bytes)(const kin_gpu *gpu, const kin_request *request, int64_t rows, int64_t columns,
                      uint64_t scope);
    /* By keys of all pairs. pick: all k of each row at once. keys: as kin_fused_direct. */
    kith_status (*pick)(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_picking *p);
    kith_status (*keys)(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_rows *corpus,
                        const kin_fused_rows *queries, const kin_fused_query *query);
    uint64_t (*keys_bytes)(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                           int64_t columns, uint64_t scope);
    /* Host memory, pinned memory with it; NULL: none to speak of. */
    uint64_t (*host_bytes)(const kin_request *request, bool screens, int64_t rows, int64_t columns,
                           uint64_t scope, int32_t threads);
} kin_fused_pipeline;

static inline bool kin_fused_by_host(const kin_request *request)
{
    return request->pipeline != NULL && request->pipeline->fused->by_host;
}

#endif
