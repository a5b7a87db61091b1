/* SPDX-License-Identifier: Apache-2.0
 * Sizes of the pipeline hybrid, and what they take: the same sums for its drivers and for plans. */
#ifndef KIN_PAPERS_HYBRID_SIZE_H
#define KIN_PAPERS_HYBRID_SIZE_H

#include "exact/exact_search.h"
#include "gpu/gpu.h"

typedef struct kin_papers_hybrid_size {
    int64_t sample;   /* columns of a row's sample; 0: all */
    int32_t leaves;   /* columns that its k-th leaves, with room for chance: places of a list */
    uint64_t a_block; /* device memory for a block of a batch beside its costs, if screened */
} kin_papers_hybrid_size;

/* times: kin_request.sample. */
kin_papers_hybrid_size kin_papers_hybrid_size_of(int64_t columns, int64_t k, int32_t times);

/* Queries of a stripe that is computed by keys, before anything is found not to fit. */
int64_t kin_papers_hybrid_stripe(int64_t queries, int64_t columns, uint64_t scope);

/* Device memory within that much scope (gpu.h), beside corpus and queries: screened, and by keys.
 * gpu: whose methods of selection are asked for their scratch. */
uint64_t kin_papers_hybrid_bytes(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                                 int64_t columns, uint64_t scope);
uint64_t kin_papers_hybrid_keys_bytes(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                                      int64_t columns, uint64_t scope);

/* Host memory likewise, pinned memory with it. */
uint64_t kin_papers_hybrid_host_bytes(const kin_request *request, bool screens, int64_t rows,
                                      int64_t columns, uint64_t scope, int32_t threads);

#endif
