/* SPDX-License-Identifier: Apache-2.0
 * The exact engine on a GPU behind the public functions: the same answers as exact/exact_search.h,
 * byte for byte. Arguments are checked in api/; metrics are all but KITH_CUSTOM.
 *
 * What does not fit into the device's budget is batched; only when not even the smallest batch fits
 * does a call fail with KITH_E_DEVICE_MEMORY. The context's report is filled as by the CPU engine.
 */
#ifndef KIN_FUSED_SEARCH_H
#define KIN_FUSED_SEARCH_H

#include "exact/exact_search.h"
#include "gpu/gpu.h"

/* Where the caller's arrays lie: bits of `place`. Matrices and outputs of one call lie together. */
enum { KIN_FUSED_DATA_ON_DEVICE = 1u << 0, KIN_FUSED_OUT_ON_DEVICE = 1u << 1 };

/* A corpus in device memory: points, order, rounded copy, equal rows. Keeps gpu; where the matrix
 * lay on the device, that too. Read-only after creation. */
typedef struct kin_fused_corpus kin_fused_corpus;

/* `name` stands in messages about values. k: ids a row that will be asked for. asked: the dtype of
 * the queries to come (integer costs need equal 8-bit types). */
kith_status kin_fused_corpus_make(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                  const kin_distance *distance, kith_dtype asked, int64_t k,
                                  const char *name, uint32_t place, kin_fused_corpus **out);
void kin_fused_corpus_free(kith_ctx *ctx, kin_fused_corpus *corpus);
uint64_t kin_fused_corpus_bytes(const kin_fused_corpus *corpus); /* of device memory */

kith_status kin_fused_corpus_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                    const kith_matrix *queries, const kin_request *request,
                                    uint32_t place, const kith_neighbors *out);

/* Corpus and queries of any size, in batches where they do not fit. */
kith_status kin_fused_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kith_matrix *queries, const kin_request *request, uint32_t place,
                             const kith_neighbors *out);
kith_status kin_fused_graph(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                            const kin_request *request, uint32_t place, const kith_neighbors *out);
kith_status kin_fused_both(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *a, const kith_matrix *b,
                           const kin_request *request, uint32_t place, const kith_neighbors *ab,
                           const kith_neighbors *ba);

/* Device memory: what a job wants at its best, and the least it runs in, by its pipeline; gpu is
 * the device that it would run on. queries NULL: a graph. */
typedef struct kin_fused_need {
    uint64_t whole_bytes;  /* everything resident */
    uint64_t least_bytes;  /* smallest batches */
    int64_t corpus_chunks; /* batches within the budget of gpu */
    int64_t query_stripes;
    uint64_t host_bytes; /* of a pipeline's batches within the budget, pinned memory with it */
} kin_fused_need;
kin_fused_need kin_fused_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                   const kin_request *request, const kin_gpu *gpu, int32_t threads);

#endif
