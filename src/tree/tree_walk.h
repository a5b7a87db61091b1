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

#endif
