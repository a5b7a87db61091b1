/* SPDX-License-Identifier: Apache-2.0
 * Exact engines behind the public functions: what is prepared, screened or computed directly, and
 * written. Arguments are checked in api/. */
#ifndef KIN_EXACT_SEARCH_H
#define KIN_EXACT_SEARCH_H

#include "exact/exact_corpus.h"
#include "exact/exact_hits.h"

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
    int64_t room;   /* ids that take() may write */
    int64_t shared; /* Ids that lists one behind another have in common, at most: rows that are
                       expanded once. They do not stand in `room`. 0: lists have none */
    /* Of list i < lists; ids may stand in `room`. */
    kin_picked (*take)(const void *arg, int64_t i, uint32_t *room);
    const void *arg;
} kin_pick;

/* The k first of each list's own rows; request.exclude and, where queries == corpus, the flags say
 * which id is left out. */
kith_status kin_direct_pick(kith_ctx *ctx, const kin_prepared *corpus, const kin_prepared *queries,
                            const kin_request *request, const kin_pick *pick,
                            const kith_neighbors *out);

/* What kin_direct_pick holds while it runs; of the pick room and shared are read, as below. */
void kin_direct_pick_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                          const kin_request *request, const kin_pick *pick, int32_t threads);

/* What kin_direct_run holds; of both only matrix and distance are read. */
void kin_direct_plan(kin_layout *plan, const kin_prepared *corpus, const kin_prepared *queries,
                     const kin_request *request, int32_t threads);

/* ---- Graphs made one, points that leave ------------------------------------------------------ */

/* Lists of two graphs made one: each row's own list, with ids alone, and the list of what it has
 * nearest in the other set, with canonical keys, become the first k of both by (key, id). */

/* Rows of one set, and what is known of their neighbours. */
typedef struct kin_merge_side {
    const char *name;             /* of the graph, for messages */
    int64_t first;                /* row of all points at which the set begins */
    const kith_neighbors *graph;  /* ids count from `first`, in any order, empty slots among them */
    int64_t other_first;          /* the other set's, from which the ids of `across` count */
    const kith_neighbors *across; /* rows of the set: ids, and in distances64 the keys, ascending by
                                     (key, id), empty slots last; k 0: nothing is known of them */
    bool may_be_short;            /* a list of too few ids is no error, what it leaves is empty */
    const uint32_t
        *across_rows;           /* whose rows those of `across` are; NULL: of all rows of the set */
    const uint32_t *other_rows; /* what rows of the other set ids of `across` name; NULL: those */
    bool written;   /* out has the own lists: rows with nothing across stay. Only then may
                       across_rows be set */
    double *limits; /* a key for each row, or NULL: its k-th neighbour's; of a list that
                       is shorter INFINITY */
} kin_merge_side;

/* points: after kin_prepare_rows; of all sets. out: rows of all points, of which those of the side
 * are written, ids counting from the first of all; what a short list leaves is empty. E_DATA where
 * a graph's list has fewer different ids than out->k and than the set has to give. Ids are checked
 * to be below the set's rows by the caller. flags: KITH_INCLUDE_SELF. */
kith_status kin_merge_write(kith_ctx *ctx, const kin_prepared *points, const kin_merge_side *side,
                            uint32_t flags, const kith_neighbors *out);

/* ---- Lists of a graph without the points that leave it -------------------------------------- */

/* New ids of rows and rows of new ids: those whose byte is 0 move up. map: a number for each row,
 * KITH_ID_NONE of those that leave; rows: room for as many. Returns how many are left. */
int64_t kin_remove_map(const uint8_t *removed, int64_t count, uint32_t *map, uint32_t *rows);

typedef struct kin_remove_job {
    const kith_neighbors *graph;
    uint32_t *map;  /* of kin_remove_map */
    uint32_t *rows; /* of kin_remove_map */
    int64_t left;
    int64_t wanted;    /* different ids of a list */
    bool self;         /* a row's own id is one of them */
    uint32_t *ids;     /* left x graph->k, written: lists in new ids, KITH_ID_NONE where one left */
    uint32_t *lacking; /* room for `left`, written: new ids of lists with fewer, ascending */
    int64_t lacking_count;
} kin_remove_job;

kith_status kin_remove_lists(kith_ctx *ctx, kin_remove_job *job);

#endif
