/* SPDX-License-Identifier: Apache-2.0
 * A tree while it is built, and how a node's points are split in two. */
#ifndef KIN_TREE_SPLIT_H
#define KIN_TREE_SPLIT_H

#include "base/base_size.h"
#include "tree/tree.h"

enum {
    KIN_TREE_CHUNK = 16384, /* points of a large node that a thread takes at a time */
    KIN_TREE_BUCKETS = 1024,
    KIN_TREE_QUARTER = 4 /* rows are padded to whole vectors of so many floats */
};

/* What a thread finds in a chunk of a large node. */
typedef struct kin_tree_chunk {
    int64_t left;  /* points that go left; then the place of the first of them */
    int64_t right; /* the place of the first of the others */
    int64_t counts[KIN_TREE_BUCKETS];
} kin_tree_chunk;

typedef struct kin_tree_build {
    kith_ctx *ctx;
    const kin_prepared *corpus;
    kin_tree *tree;
    int32_t wide; /* floats a row */
    float *rows;  /* points x wide, by number in the corpus' groups */
    float *lost;  /* by number */
    uint32_t *order;
    uint64_t *words; /* (component, number), of the nodes that are split */
    double *low;     /* threads x cols, while the corpus is measured */
    double *high;
    double **scratches; /* by thread: a row, or a box */
    int32_t subtree_level;
    /* the large node that all threads split together */
    int64_t first;
    int64_t count;
    int32_t column;
    float start;
    float gain;
    uint64_t pivot;
    kin_tree_chunk *chunks;
    float *chunk_boxes;
} kin_tree_build;

/* Position of the first point of the i-th node of a level. */
static inline int64_t kin_tree_first_point(const kin_tree *tree, int32_t level, int64_t i)
{
    return kin_min_i64(kin_tree_first_block(tree, level, i) * KIN_TREE_LANES, tree->points);
}

/* Splits the i-th node of a level, by one thread or by all: the same two sets. box: room for
 * 2 * wide floats. */
void kin_tree_split_alone(const kin_tree_build *b, int32_t level, int64_t i, float *box);
kith_status kin_tree_split_together(kin_tree_build *b, int32_t level, int64_t i, float *box);

#endif
