/* SPDX-License-Identifier: Apache-2.0
 * The exact engine on a GPU behind the public functions: the same answers as exact/exact_search.h,
 * byte for byte. Arguments are checked in api/; metrics are all but KITH_CUSTOM.
 *
 * What does not fit into the device's budget is batched; only when not even the smallest batch fits
 * does a call fail with KITH_E_DEVICE_MEMORY. The context's report is filled as by the CPU engine.
 */
#ifndef KIN_FUSED_SEARCH_H
#define KIN_FUSED_SEARCH_H

#include "exact/exact_hits.h"
#include "fused/fused_corpus.h"
#include "fused/fused_need.h"

kith_status kin_fused_corpus_search(kith_ctx *ctx, const kin_fused_corpus *corpus,
                                    const kith_matrix *queries, const kin_request *request,
                                    uint32_t place, const kith_neighbors *out);

/* Corpus and queries of any size, in batches where they do not fit. */
kith_status kin_fused_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kin_fused_query *query);
kith_status kin_fused_graph(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                            const kin_request *request, uint32_t place, const kith_neighbors *out);
/* Both directions: the queries of each are the corpus of the other. */
kith_status kin_fused_both(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_query *ab,
                           const kin_fused_query *ba);

/* All neighbours within a radius: the same table as exact/exact_radius.h, byte for byte. queries
 * NULL: each point of the corpus against all of them. Matrices lie on the host. *ranges is all zero
 * before; what it got stays its own when this fails. */
kith_status kin_fused_radius(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                             const kith_matrix *queries, const kin_radius_request *request,
                             kith_ranges *ranges);

#endif
