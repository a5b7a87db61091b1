/* SPDX-License-Identifier: Apache-2.0
 * Arguments of searches, whether their corpus lives for one call or for many, on the processor or
 * on a GPU. */
#ifndef KIN_API_SEARCH_H
#define KIN_API_SEARCH_H

#include "engine/engine_job.h"

kith_status kin_api_check_graph(kith_ctx *ctx, const kith_matrix *points,
                                const kith_search_params *given, const kith_neighbors *out,
                                kin_graph_job *job);
kith_status kin_api_check_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                              const kith_search_params *given, const kith_neighbors *out,
                              kin_knn_job *job);
/* The same for a corpus that was checked: job->corpus and job->request.distance. */
kith_status kin_api_check_queries(kith_ctx *ctx, const kith_matrix *queries,
                                  const kith_search_params *params, const kith_neighbors *out,
                                  kin_knn_job *job);

#endif
