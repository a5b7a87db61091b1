/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic of the search in float32: a packet of queries against boxes and against the points
 * of a leaf. Bodies: tree_leaf_portable.c, _avx2.c, _avx512.c, one source for three machines. What
 * they compute may differ in the last bits; what is kept is decided by a bound that covers each of
 * them (tree_bound.h), so the answers do not. Boxes and leaves of one body use the same operations
 * in the same order, which is what makes boxes right.
 */
#ifndef KIN_TREE_LEAF_H
#define KIN_TREE_LEAF_H

#include "base/base_ctx.h"
#include "tree/tree_bound.h"

enum {
    KIN_PACKET = 16,          /* queries that travel together */
    KIN_TREE_CONST_COLS = 16, /* up to here there is a body for the very number of columns */
    KIN_TREE_WRAP_COLS = 3,   /* of periodic boxes up to here */
    KIN_TREE_NORMS = 3
};

/* A leaf and the queries of a packet that wait for it. */
typedef struct kin_leaf_job {
    const float *values; /* its first block */
    int32_t blocks;
    uint32_t tail;  /* which lanes of the last block hold points */
    uint32_t first; /* position of the first point */
    int32_t cols;
    uint32_t waiting;   /* which queries */
    const float *rows;  /* the packet, [query][column] */
    const float *reach; /* by query */
    float lost;         /* of the leaf's points */
    float widen;
    const float *period; /* by column, of a body that wraps */
    /* What is kept: for each query that waits, value << 32 | position. */
    int32_t room; /* words a query */
    int32_t *counts;
    uint64_t *words;
} kin_leaf_job;

/* The two children of a node and a packet. Masks have a bit for each of its queries. */
typedef struct kin_boxes_job {
    const float *boxes; /* of both, one behind the other */
    int32_t cols;
    const float *columns; /* the packet, [column][query] */
    const float *reach;   /* by query */
    const float *lost;    /* of both */
    float widen;
    const float *period; /* by column, of a body that wraps */
    uint32_t waiting;    /* which queries */
    float *values;       /* [child][query]: at most the float32 distance to any point of the box */
    uint32_t who[2];     /* by child: which of those that wait are within their limit */
    int32_t votes;       /* of those who are within both: how many more are nearer to the first */
} kin_boxes_job;

typedef struct kin_tree_body {
    void (*boxes)(kin_boxes_job *job);
    /* Which of 16 values are within the limit of their query. */
    uint32_t (*within)(const float *values, const float *reach, float lost, float widen);
    void (*leaf)(const kin_leaf_job *job);
} kin_tree_body;

typedef struct kin_tree_bodies {
    kin_tree_body of[KIN_TREE_NORMS][KIN_TREE_CONST_COLS + 1]; /* 0: any number of columns */
    kin_tree_body wrapped[KIN_TREE_NORMS][KIN_TREE_WRAP_COLS + 1];
} kin_tree_bodies;

KIN_BODIES_OF_WIDE(kin_tree_bodies)

#endif
