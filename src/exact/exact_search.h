/* SPDX-License-Identifier: Apache-2.0
 * Exact engines behind the public functions: what is prepared, screened or computed directly, and
 * written. Arguments are checked in api/. */
#ifndef KIN_EXACT_SEARCH_H
#define KIN_EXACT_SEARCH_H

#include "exact/exact_corpus.h"
#include "exact/exact_hits.h"
#include "exact/exact_prepare.h"
#include "exact/exact_request.h"
#include "exact/exact_screen.h"

/* Each point against all others. */
kith_status kin_exact_graph(kith_ctx *ctx, const kith_matrix *points, const kin_request *request,
                            const kith_neighbors *out);

/* Shadows of a corpus for such a request, unless it shall skip nothing. */
kith_status kin_exact_shadows(kith_ctx *ctx, const kin_request *request, const kin_shadow_job *job,
                              kin_prepared *prepared);

/* Queries against a corpus that kin_prepare_rows and kin_prepare_corpus have made ready (for direct
 * metrics, kin_prepare_rows alone). */
kith_status kin_exact_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                             const kin_request *request, const kith_neighbors *out);

/* Both directions from one product. */
kith_status kin_exact_both(kith_ctx *ctx, const kith_matrix *a, const kith_matrix *b,
                           const kin_request *request, const kith_neighbors *ab,
                           const kith_neighbors *ba);

/* Queries that a search takes at a time. */
int64_t kin_exact_stripe(const kin_frame *frame, int64_t wanted);

/* A side's lists and what writes them, in the order of the engines: kept lists, and what comes and
 * goes beside them. Sets and covers of the screen may be shapes; its lists are made of them.
 * wanted: ids an answer. */
void kin_exact_plan_screen(kin_layout *plan, kin_screen *shape, int64_t wanted, int32_t threads);

/* ---- All neighbours within a radius (exact_radius.c) ----------------------------------------- */

/* queries NULL: each point of the corpus against all of them. *ranges is all zero before; what it
 * got stays its own when this fails. */
kith_status kin_radius_run(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kin_radius_request *request, kith_ranges *ranges);
/* The same of a corpus that is ready as for kin_exact_search. */
kith_status kin_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kith_matrix *queries,
                              const kin_radius_request *request, kith_ranges *ranges);

/* ---- All pairs, without a screen (exact_direct.c) -------------------------------------------- */

/* Metrics without a matrix product: canonical keys of all pairs, the k first of each row kept. */

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
