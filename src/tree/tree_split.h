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
    /* The node whose points are dealt to leaves: the root, or one below. */
    int64_t points;
    int64_t first_block;
    int64_t blocks;
    bool roomy;          /* holes in every leaf, instead of behind the last one */
    const uint32_t *ids; /* number -> id */
    int32_t wide;        /* floats a row */
    float *rows;         /* points x wide, by number */
    float *lost;         /* by number */
    atomic_bool loses;   /* any of them is above 0 */
    uint32_t *order;
    uint64_t *words; /* (component, number), of the nodes that are split */
    uint64_t *room;  /* where a median is searched */
    double *low;     /* threads x cols, while the corpus is measured */
    double *high;
    double *scratches; /* by thread: a row, or a box */
    int64_t scratch_doubles;
    float *plots; /* by thread: rows of a node that is dealt, twice */
    int64_t plot_points;
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
    int32_t threads;
    void *block; /* all arrays but ids */
} kin_tree_build;

static inline double *kin_tree_scratch(const kin_tree_build *b, int32_t thread)
{
    return b->scratches + thread * b->scratch_doubles;
}

static inline float *kin_tree_plot(const kin_tree_build *b, int32_t thread)
{
    return b->plots + thread * 2 * b->plot_points * b->wide;
}

/* How many of the points stand before the i-th node of a level. A roomy node gets a share of them
 * by its blocks, which hold them: no share is above 16 blocks' worth, rounded up. */
static inline int64_t kin_tree_first_point(const kin_tree_build *b, int32_t level, int64_t i)
{
    const int64_t before = kin_tree_block_of(b->tree->blocks, level, i) - b->first_block;
    return b->roomy
               ? (int64_t)((unsigned __int128)b->points * (uint64_t)before / (uint64_t)b->blocks)
               : kin_min_i64(before * KIN_TREE_LANES, b->points);
}

/* Rows of b->points, of b->ids, what they lost, and the first order, in b->block; ctx, corpus and
 * tree are set, and the tree has its units. */
kith_status kin_tree_build_load(kin_tree_build *b);
/* Splits the i-th node of a level and all below it, and writes its leaves. In b->order numbers
 * rise. */
void kin_tree_build_under(const kin_tree_build *b, int32_t level, int64_t i, int32_t thread);

/* Splits the i-th node of a level, by one thread or by all: the same two sets, numbers rising in
 * each. box: room for 2 * wide floats. */
void kin_tree_split_alone(const kin_tree_build *b, int32_t level, int64_t i, float *box);
kith_status kin_tree_split_together(kin_tree_build *b, int32_t level, int64_t i, float *box);

/* ---- Points in leaves, one at a time; the nodes above are joined after ------------------------
 */

/* Behind the points of the leaf, which has a lane left. lost: what the row lost, rounded up. */
void kin_tree_leaf_put(kin_tree *tree, int64_t leaf, const float *row, uint32_t id, float lost);
/* The last point of the leaf takes the place of the one at `lane`; box and loss stay. */
void kin_tree_leaf_drop(kin_tree *tree, int64_t leaf, int64_t lane);
/* Box and loss of an inner node from those of its children. */
void kin_tree_join(kin_tree *tree, int64_t node);

/* ---- A median -------------------------------------------------------------------------------- */

/* The word of a rank, where no two words are equal: what sorting would put at words[rank]. The
 * words are shuffled. 0 <= rank < count. */
uint64_t kin_tree_median(uint64_t *words, int64_t count, int64_t rank);

#endif
