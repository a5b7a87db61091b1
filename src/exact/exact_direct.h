/* SPDX-License-Identifier: Apache-2.0
 * Metrics without a matrix product: canonical keys of all pairs, the k first of each row kept. */
#ifndef KIN_EXACT_DIRECT_H
#define KIN_EXACT_DIRECT_H

#include "exact/exact_request.h"

/* queries == corpus: a graph. Both after kin_prepare_rows. */
kith_status kin_direct_run(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                           const kin_request *request, const kith_neighbors *out);

/* Lists of the answer whose queries have their own rows of the corpus to be compared with. */
typedef struct kin_picked {
    int64_t query;
    int64_t list;        /* row of the answer that is written, whole or as far as there are rows */
    const uint32_t *ids; /* different ones, in any order */
    int64_t count;       /* 0: nothing is written */
} kin_picked;
typedef struct kin_pick {
    int64_t lists;
    int64_t room; /* ids that take() may write */
    /* Of list i < lists; ids may stand in `room`. */
    kin_picked (*take)(const void *arg, int64_t i, uint32_t *room);
    const void *arg;
} kin_pick;

/* The k first of each list's own rows; request.exclude and, where queries == corpus, the flags say
 * which id is left out. */
kith_status kin_direct_pick(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                            const kin_request *request, const kin_pick *pick,
                            const kith_neighbors *out);

/* What kin_direct_run holds; of both only matrix and distance are read. */
void kin_direct_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                     const kin_request *request, int32_t threads);

#endif
