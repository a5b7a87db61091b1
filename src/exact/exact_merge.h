/* SPDX-License-Identifier: Apache-2.0
 * Lists of two graphs made one: each row's own list, with ids alone, and the list of what it has
 * nearest in the other set, with canonical keys, become the first k of both by (key, id). */
#ifndef KIN_EXACT_MERGE_H
#define KIN_EXACT_MERGE_H

#include "exact/exact_prepare.h"

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
