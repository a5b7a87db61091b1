/* SPDX-License-Identifier: Apache-2.0
 * A corpus in device memory, what is asked of it, and what the report says of that. */
#ifndef KIN_FUSED_CORPUS_H
#define KIN_FUSED_CORPUS_H

#include "fused/fused_prepare.h"

/* A corpus in device memory: points, order, rounded copy, equal rows. Keeps gpu; where the matrix
 * lay on the device, that too. Read-only after creation. */
typedef struct kin_fused_corpus kin_fused_corpus;

struct kin_fused_corpus {
    kin_gpu *gpu;
    kith_matrix points; /* borrowed where `place` says that it lies on the device */
    kin_distance distance;
    uint32_t place;
    kin_fused_prepared prepared;
    void *block;            /* of what follows; NULL: an empty set */
    kin_fused_worst *worst; /* of its tiles */
    uint32_t *tiles;        /* all, for small batches (fused_batch.c) */
    kin_fused_unit *units;
    uint32_t batch_units;
};
/* k: ids a row that will be asked for. asked: the dtype of the queries to come (integer costs need
 * equal 8-bit types). */
kith_status kin_fused_corpus_make(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_source *points,
                                  kith_dtype asked, int64_t k, kin_fused_corpus **out);
void kin_fused_corpus_free(kith_ctx *ctx, kin_fused_corpus *corpus);
uint64_t kin_fused_corpus_bytes(const kin_fused_corpus *corpus); /* of device memory */

/* Sums become the context's report. */
void kin_fused_report(kith_ctx *ctx, const kin_fused_prepared *corpus, const kin_fused_tally *tally,
                      int64_t rows);

#endif
