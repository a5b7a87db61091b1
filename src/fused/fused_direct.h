/* SPDX-License-Identifier: Apache-2.0
 * Canonical keys of all pairs on a device: metrics without a matrix product, jobs that are too
 * small to be screened, and the last resort for rows that no screen could finish. Equal rows need
 * no care here: every row is itself. */
#ifndef KIN_FUSED_DIRECT_H
#define KIN_FUSED_DIRECT_H

#include "fused/fused_answer.h"

/* All pairs of queries and corpus; both are resident, with their transforms. queries == corpus (the
 * same pointer): a graph. query: request, place and out are read. Any k up to what exists. Adds to
 * the context's report. */
kith_status kin_fused_direct(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_rows *corpus,
                             const kin_fused_rows *queries, const kin_fused_query *query);

/* Some rows, and the k <= cols->rows first of all columns for each of them, sorted by (key, id). */
typedef struct kin_fused_solving {
    const kin_fused_rows *rows;
    const kin_fused_rows *cols;
    const uint32_t *ids; /* device: of rows */
    int64_t count;
    int32_t k;
    kin_fused_pair *pairs; /* device, count x k */
} kin_fused_solving;
/* Waits. */
kith_status kin_fused_direct_rows(const kin_fused_device *on, const kin_fused_solving *solving);

/* Device memory that kin_fused_direct takes at least beside the rows. */
uint64_t kin_fused_direct_least_bytes(int64_t corpus_rows, int64_t k);
/* And what a pipeline that picks takes, beside its own scratch, within that much scope: keys of
 * some rows at a time. Where the pitch is less than the corpus has rows, nothing is picked. */
typedef struct kin_fused_direct_size {
    int64_t rows;
    int64_t pitch;
    uint64_t bytes;
} kin_fused_direct_size;
kin_fused_direct_size kin_fused_direct_picks(int64_t k, int64_t rows, int64_t corpus_rows,
                                             uint64_t scope);

#endif
