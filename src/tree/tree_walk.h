/* SPDX-License-Identifier: Apache-2.0
 * A packet of queries on its way through a tree. */
#ifndef KIN_TREE_WALK_H
#define KIN_TREE_WALK_H

#include "tree/tree_leaf.h"
#include "tree/tree_list.h"

/* A node that some queries of the packet have still to see. */
typedef struct kin_tree_visit {
    int64_t node;
    uint32_t waiting;
    float values[KIN_PACKET]; /* its box, seen from each query */
} kin_tree_visit;

/* A thread's room for one packet. What a leaf left goes to `screened`: to the lists, unless a
 * walk was opened for something else. */
typedef struct kin_tree_walk kin_tree_walk;
struct kin_tree_walk {
    const kin_tree *tree;
    const kin_tree_body *body;
    void (*screened)(kin_tree_walk *walk, uint32_t waiting);
    void *owner;             /* whose `screened` it is */
    uint32_t waiting;        /* queries of the packet: the lowest bits */
    float *columns;          /* [column][query] */
    float *rows;             /* [query][column] */
    float reach[KIN_PACKET]; /* may shrink on the way */
    kin_tree_list lists[KIN_PACKET];
    kin_tree_visit visits[KIN_TREE_MOST_HEIGHT + 2];
    const float *ahead; /* what of the next leaf has not been asked for */
    const float *ahead_end;
    int32_t found[KIN_PACKET];
    uint64_t *words; /* [query][room]: what the leaf at hand left of each that waited */
    int32_t room;
    kin_tree_keys keys;
    double pairs;  /* computed in leaves */
    double leaves; /* leaf visits of queries */
};

/* A walk through a tree: its body and arrays. wanted: of the lists; 0: there are none, and
 * `screened` and `owner` are the caller's to set. With lists, what walk->keys needs to know is. */
void kin_tree_walk_name(kin_layout *layout, const kin_tree *tree, kin_isa isa, int64_t wanted,
                        kin_tree_walk *walk);

/* The packet that columns, waiting, reach and lists describe: afterwards every point that is
 * missing in a list has been proven to be farther than the query's first reach says, or than
 * `wanted` others. */
void kin_tree_walk_run(kin_tree_walk *walk);

/* One leaf, a node, against those of the packet that wait, whose `rows`, reach and lists are set:
 * a step of the walk, for who goes another way. Each leaf once a query. */
void kin_tree_walk_leaf(kin_tree_walk *walk, int64_t node, uint32_t waiting);

/* ---- Queries on their way into a tree (tree_query.c) ----------------------------------------- */

/* Rounded to float32 and sorted by the leaf that they fall into, so that neighbours in the order
 * share leaves. */

/* A stripe of a search's queries. */
typedef struct kin_tree_queries {
    const kin_tree *tree;
    const kin_distance *distance;
    const kin_rows *asked;
    int64_t first; /* row of the first query of the stripe */
    int64_t count;
    float *rows;     /* [query][column], in the order in which they came */
    float *lost;     /* by query, in the metric's norm */
    uint32_t *order; /* place -> query */
    uint32_t *leaves;
    uint32_t *starts;  /* places of leaves, while they are counted */
    double *scratches; /* by thread: a row */
    int64_t wide;
    /* sizes of the arrays */
    int64_t most;
    int64_t tree_leaves;
    int32_t cols;
    int32_t threads;
    void *block;
} kin_tree_queries;

/* Queries that are taken at a time. */
int64_t kin_tree_queries_stripe(int64_t rows, int32_t cols);
/* Room for `most` of the rows that ask at a time. Keeps tree, distance and asked. */
kith_status kin_tree_queries_make(kith_ctx *ctx, const kin_tree *tree, const kin_distance *distance,
                                  const kin_rows *asked, int64_t most, kin_tree_queries *queries);
void kin_tree_queries_free(kith_ctx *ctx, kin_tree_queries *queries);
/* What kin_tree_queries_make holds beside a tree of this shape. */
void kin_tree_queries_plan(kin_layout *plan, const kin_tree *shape, int64_t most, int32_t threads);

/* Rounds rows [first, first + count) and sorts them. */
kith_status kin_tree_queries_load(kith_ctx *ctx, kin_tree_queries *queries, int64_t first,
                                  int64_t count);

/* The sixteen queries of a packet, in order[] from KIN_PACKET * packet on, as [column][query].
 * Returns how many there are: the last packet may have fewer. */
int32_t kin_tree_queries_packet(const kin_tree_queries *queries, int32_t cols, int64_t packet,
                                float *columns);

#endif
