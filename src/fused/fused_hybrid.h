/* SPDX-License-Identifier: Apache-2.0
 * The pipeline hybrid: the GPU prunes and computes keys, processor and GPU select. */
#ifndef KIN_FUSED_HYBRID_H
#define KIN_FUSED_HYBRID_H

#include "fused/fused_answer.h"
#include "fused/fused_prepare.h"

/* The lists of all positions of `queries` among those of `corpus`, to a, whose answers the host
 * writes. Both sets hold rows; worst: of the tiles of the corpus. */
kith_status kin_fused_hybrid_run(kin_fused_answers *a, const kin_fused_prepared *queries,
                                 const kin_fused_prepared *corpus, const kin_fused_worst *worst,
                                 const kin_request *request);

/* The same where there are no costs: metrics without a product, k beyond lists. Rows of two
 * matrices in device memory; queries == corpus: a graph. Canonical keys of all pairs, a threshold
 * from a sample of them. */
kith_status kin_fused_hybrid_keys(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_rows *corpus,
                                  const kin_fused_rows *queries, const kin_request *request,
                                  uint32_t place, const kith_neighbors *out);

#endif
