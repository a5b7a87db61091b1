/* SPDX-License-Identifier: Apache-2.0
 * A few queries against a prepared corpus, where the time of an answer is what counts. */
#ifndef KIN_FUSED_BATCH_H
#define KIN_FUSED_BATCH_H

#include "fused/fused_side.h"

/* What all batches read of a corpus: every tile, in units of one block of rows. */
kith_status kin_fused_batch_prepare(kith_ctx *ctx, kin_fused_corpus *corpus);
void kin_fused_batch_free(kin_fused_corpus *corpus);

/* Tries the short way. *done is false, and nothing was written, where the job is not of its kind
 * (many queries, equal or degenerate rows, very many neighbours) or where a list overflowed: then
 * the long way is to be taken. */
kith_status kin_fused_batch_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                   const kin_fused_asking *asking, bool *done);

#endif
