/* SPDX-License-Identifier: Apache-2.0
 * Metrics without a matrix product: canonical keys of all pairs, the k first of each row kept. */
#ifndef KIN_EXACT_DIRECT_H
#define KIN_EXACT_DIRECT_H

#include "exact/exact_search.h"

/* queries == corpus: a graph. Both after kin_prepare_rows. */
kith_status kin_direct_run(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                           const kin_request *request, const kith_neighbors *out);

/* Working memory of the threads. */
uint64_t kin_direct_bytes(int64_t k, int64_t rows, int64_t queries, int32_t cols, int32_t threads);

#endif
