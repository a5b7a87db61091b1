/* SPDX-License-Identifier: Apache-2.0
 * Two graphs made one: exactly, or by a descent that begins with both. */
#ifndef KIN_ENGINE_MERGE_H
#define KIN_ENGINE_MERGE_H

#include "engine/engine_descent.h"

/* Two sets in one matrix, and their graphs; of an empty set graph.rows is 0. */
typedef struct kin_merge_sets {
    kith_matrix points; /* checked */
    int64_t first_rows;
    kith_neighbors graph[2];
} kin_merge_sets;

/* Checked arguments. */
typedef struct kin_merge_job {
    kin_merge_sets sets;
    kin_choice choice;
    kin_descent_job descent;   /* where it descends or may; its request points into sets */
    kin_distance distance;     /* and the rest where it does not or may not: */
    kith_search_params params; /* of the searches across, by keys */
    uint32_t flags;            /* of the answer */
} kin_merge_job;

/* What both graphs allow to say of an exact answer. */
kith_exactness kin_merge_exactness(const kin_merge_sets *sets);
/* Exactly. */
kith_status kin_engine_merge(kith_ctx *ctx, const kin_merge_job *job, const kith_neighbors *out);
/* Host memory beside what a graph of all points takes, at most, of a way that was chosen. */
uint64_t kin_merge_bytes(const kin_merge_job *job);

/* ---- Across --------------------------------------------------------------------------------- */

/* What rows of two sets have nearest in one another, exactly, where each row knows how far is too
 * far: exact merges, and exact graphs from shards. */
enum { KIN_ACROSS_SIDES = 2 };

typedef struct kin_across {
    kith_matrix rows[KIN_ACROSS_SIDES];
    kin_within known[KIN_ACROSS_SIDES];
    kith_neighbors found[KIN_ACROSS_SIDES]; /* of rows of a side in the other one: ids and keys;
                                               lists that are shorter end with empty slots */
    kith_search_params params; /* by keys: the metric is not euclidean; the caller's k and method */
    bool suits_tree;           /* where the method is the library's choice, it is the tree */
    bool checked;              /* values are trusted, and the processor computes */
} kin_across;

/* Whether so many pairs are the processor's, which makes use of what rows know. */
kith_status kin_across_is_processors(kith_ctx *ctx, const kin_request *request, double pairs,
                                     bool *yes);
/* Whether the processor solves sets of such sizes by trees; of some rows that are left of them no
 * other way is better. */
bool kin_across_suits_tree(const kith_ctx *ctx, const kith_matrix *rows,
                           const kith_search_params *params);
/* suits_tree of two sets that `all` are the points of, where the processor computes (checked). */
void kin_across_aim(const kith_ctx *ctx, const kith_matrix *all, kin_across *across);
/* Seconds on the processor, at most: what limits and bounds leave out is not known before. Of rows
 * shapes and types are read. */
double kin_across_seconds(const kith_ctx *ctx, const kin_across *across);
kith_status kin_across_search(kith_ctx *ctx, kin_across *across);

/* kith_search of rows that were checked, where the processor computes and queries are so few
 * that keys of all pairs take less time than what is prepared else: *done. No radius. */
kith_status kin_across_few(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                           const kith_search_params *params, const kith_neighbors *out, bool *done);

#endif
