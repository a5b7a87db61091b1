/* SPDX-License-Identifier: Apache-2.0
 * Metrics without a matrix product: canonical keys of all pairs, the k first of each row kept. */
#ifndef KIN_EXACT_DIRECT_H
#define KIN_EXACT_DIRECT_H

#include "exact/exact_request.h"

/* queries == corpus: a graph. Both after kin_prepare_rows. */
kith_status kin_direct_run(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                           const kin_request *request, const kith_neighbors *out);

/* What it holds; of both only matrix and distance are read. */
void kin_direct_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                     const kin_request *request, int32_t threads);

#endif
