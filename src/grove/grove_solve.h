/* SPDX-License-Identifier: Apache-2.0
 * From places before a tree to answers: packets go through the tree, what is left gets canonical
 * keys, lists that lost something are made again with more room. And whether the tree is the faster
 * way (grove_choose.c). */
#ifndef KIN_GROVE_SOLVE_H
#define KIN_GROVE_SOLVE_H

#include "fused/fused_answer.h"
#include "fused/fused_prepare.h"
#include "grove/grove_kernels.h"

/* Numbers that kernels count in, one block of device memory. */
typedef struct kin_grove_counters {
    uint64_t met[3]; /* kin_grove_walk */
    uint64_t keys;
} kin_grove_counters;

/* A tree and what is done with it in one call. */
typedef struct kin_grove_solver {
    kin_fused_device on;
    const kin_grove_kernels *kernels;
    const kin_grove_tree *tree;
    const kin_fused_prepared *corpus;
    int32_t wanted;               /* points a list */
    kin_grove_counters *counters; /* device */
    kin_fused_tally tally;        /* pairs: of a query and a point, computed */
} kin_grove_solver;

/* solver: on, tree, corpus and wanted are set, the rest is zero. */
kith_status kin_grove_solver_make(kin_grove_solver *s);
void kin_grove_solver_free(kin_grove_solver *s);

/* Queries in an order. Device memory. */
typedef struct kin_grove_places {
    kin_fused_rows rows;   /* that ask */
    const float *rounded;  /* of them, in the tree's units; NULL: the points of the tree */
    const float *lost;     /* by row of rounded */
    const uint32_t *order; /* place -> row of rounded; NULL: the same */
    const uint32_t *ids;   /* place -> row of rows and of the outputs; KITH_ID_NONE: nobody */
    int64_t count;
} kin_grove_places;

/* Rows ids[0 .. count) (device; NULL: 0, 1, ...) in the units of a tree; two blocks that the caller
 * gives back, also on failure. */
kith_status kin_grove_round_rows(const kin_grove_solver *s, const kin_fused_rows *rows,
                                 const uint32_t *ids, int64_t count, float **rounded, float **lost);

/* Rows in the tree's units, in its order: a block that the caller gives back, also on failure. */
kith_status kin_grove_order_rows(const kin_grove_solver *s, const float *rounded, int64_t count,
                                 uint32_t **order);

/* Sends places through the tree; lists are the caller's to free, also on failure. Waits. */
kith_status kin_grove_walk_places(kin_grove_solver *s, const kin_grove_places *places,
                                  int32_t capacity, kin_grove_lists *lists, int64_t *lost);
void kin_grove_lists_free(const kin_grove_solver *s, kin_grove_lists *lists);

/* Answers of all places. */
kith_status kin_grove_solve(kin_grove_solver *s, kin_fused_answers *a,
                            const kin_grove_places *places);
/* Answers of the rows ids[0 .. count) (host) of places, which are in the order of the tree, as many
 * at a time as fit. */
kith_status kin_grove_solve_ids(kin_grove_solver *s, kin_fused_answers *a,
                                const kin_grove_places *places, const uint32_t *ids, int64_t count);

/* Room of a list in a first walk. */
int32_t kin_grove_capacity(const kin_grove_solver *s);

/* ---- Tree or all pairs: before there is a tree, and by a sample of it ------------------------ */

/* A job, as far as the choice depends on it. */
typedef struct kin_grove_choice {
    const kin_request *request;
    int64_t points; /* rows of the corpus, or groups of equal ones */
    int64_t queries;
    int32_t wanted; /* points a list */
    bool graph;
} kin_grove_choice;

/* Whether a sample costs little beside all pairs, and the tree may win. */
bool kin_grove_may_win(const kin_grove_choice *choice, int32_t cols);
/* Sends a sample of rows (NULL: of the corpus' points, a graph) through a tree of a sample of the
 * corpus. */
kith_status kin_grove_try(const kin_fused_device *on, const kin_fused_prepared *corpus,
                          const kin_fused_rows *rows, const kin_grove_choice *choice, bool *wins);

#endif
