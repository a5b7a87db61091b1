/* SPDX-License-Identifier: Apache-2.0
 * What searches have in common, whether their corpus lives for one call or for many. */
#ifndef KIN_API_SEARCH_H
#define KIN_API_SEARCH_H

#include "exact/exact_search.h"

/* A corpus that waits for queries of the type of `queries`, and for k ids each. Freed on failure.
 * `name` stands in messages. */
kith_status kin_api_prepare(kith_ctx *ctx, const kith_matrix *points, const char *name,
                            const kin_distance *distance, const kith_matrix *queries, int64_t k,
                            kin_prepared *prepared);

/* Checks queries and output against the corpus, and searches. */
kith_status kin_api_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out);

#endif
