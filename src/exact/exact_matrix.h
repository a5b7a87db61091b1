/* SPDX-License-Identifier: Apache-2.0
 * The pipeline of the papers: distances written as a matrix, then k-selection on its rows. */
#ifndef KIN_EXACT_MATRIX_H
#define KIN_EXACT_MATRIX_H

#include "exact/exact_request.h"

/* The k first of each query by request->select, for every metric and every k. queries == corpus: a
 * graph. Both after kin_prepare_rows; of corpus the rows and their transforms are read, so that it
 * may be prepared for a screen. */
kith_status kin_matrix_run(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                           const kin_request *request, const kith_neighbors *out);

/* Working memory, the selection's among it. k: with the one more that may be left out. */
uint64_t kin_matrix_bytes(int64_t k, int64_t rows, int64_t queries, int32_t cols, int32_t threads);

#endif
