/* SPDX-License-Identifier: Apache-2.0
 * What searches have in common, whether their corpus lives for one call or for many, on the
 * processor or on a GPU. */
#ifndef KIN_API_SEARCH_H
#define KIN_API_SEARCH_H

#include "exact/exact_search.h"

/* Checked arguments. */
typedef struct kin_graph_job {
    kith_matrix points;
    kin_request request;
} kin_graph_job;

typedef struct kin_knn_job {
    kith_matrix corpus;
    kith_matrix queries;
    kin_request request;
} kin_knn_job;

kith_status kin_api_check_graph(kith_ctx *ctx, const kith_matrix *points,
                                const kith_search_params *given, const kith_neighbors *out,
                                kin_graph_job *job);
kith_status kin_api_check_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                              const kith_search_params *given, const kith_neighbors *out,
                              kin_knn_job *job);
/* The same for a corpus that was checked when it was made. */
kith_status kin_api_check_queries(kith_ctx *ctx, const kith_matrix *corpus,
                                  const kin_distance *distance, const kith_matrix *queries,
                                  const kith_search_params *params, const kith_neighbors *out,
                                  kin_knn_job *job);

/* kith_knn_exact and kith_knn_both where something is known (exact_list.h), of which engines may
 * make use: slots of the answer that they do not write stay as they are. In both directions: two.
 */
kith_status kin_api_knn_within(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                               const kith_search_params *params, kin_within within,
                               const kith_neighbors *out);
kith_status kin_api_both_within(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                                const kith_search_params *params, const kin_within *within,
                                const kith_neighbors *ab, const kith_neighbors *ba);

/* A corpus in host memory that waits for queries of the type of `queries`, and for k ids each.
 * Freed on failure. `name` stands in messages. */
kith_status kin_api_prepare(kith_ctx *ctx, const kith_matrix *points, const char *name,
                            const kin_distance *distance, const kith_matrix *queries, int64_t k,
                            kin_prepared *prepared);

#endif
