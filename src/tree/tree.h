/* SPDX-License-Identifier: Apache-2.0
 * The buffer k-d tree: exact neighbours in few dimensions without looking at all pairs.
 *
 *   tree_build.c    medians, leaves, boxes (tree_split.c)
 *   tree_update.c   rows that come and go
 *   tree_job.c      whatever is asked: queries in float32, sorted by leaf, sent in packets
 *   tree_search.c   the k nearest, and all within a radius
 *   tree_walk.c     a packet on its way; its candidates
 *   tree_leaf*.c    the arithmetic, a body a machine
 *
 * The tree is complete: inner nodes are 1 .. 2^height - 1, node i has the children 2i and 2i + 1,
 * leaves are 2^height .. 2^(height+1) - 1. Points stand leaf by leaf in blocks of KIN_TREE_LANES;
 * a node of level l that is the i-th of its level owns the blocks
 *
 *     blocks * i / 2^l  ..  blocks * (i + 1) / 2^l - 1
 *
 * and a leaf's points stand first in its blocks. Whoever reads a tree goes by starts and counts: in
 * a tree that was made and not changed since every block but the last one is full, others have
 * holes behind the points of any leaf (tree_update.c). Rows that are equal, byte for byte, are one
 * point, which has the lowest of their ids.
 *
 *   values   [block][column][lane], zeros where there is no point
 *   boxes    [node][low of each column, high of each column]
 *   threads  read-only after creation; the same bytes for any number of threads
 */
#ifndef KIN_TREE_TREE_H
#define KIN_TREE_TREE_H

#include "base/base_size.h"
#include "exact/exact_answer.h"
#include "file/file_container.h"
#include "tree/tree_bound.h"

typedef struct kin_tree {
    int32_t cols;
    int32_t height;
    int64_t leaf_points; /* at most so many in a leaf when the tree is made */
    int64_t points;
    int64_t blocks; /* holes included */
    kin_tree_norm norm;
    double scale;
    double *shift;    /* by column; zeros where the corpus is not float64 */
    uint32_t *starts; /* by leaf: its first block; one more says where the last leaf ends */
    uint32_t *counts; /* by leaf: its points */
    float *values;
    uint32_t *ids; /* by position; KITH_ID_NONE where there is no point */
    float *boxes;
    float *lost;     /* by node: at least what any of its points lost */
    float *splits;   /* by inner node: smaller components go to the left child */
    int32_t *planes; /* by inner node: the column that it splits */
    float widen;
    float floor;
    bool wraps;    /* some columns have a period, and */
    float *period; /* by column, in the tree's units: theirs, infinity: it has none */
    double slack;  /* at least what any row loses by wrapping (tree_bound.h) */
    bool places;   /* columns are those of vectors of places (tree_bound.h) */
    void *block;   /* all arrays; NULL: they are a view of a file */
} kin_tree;

static inline int64_t kin_tree_leaves(const kin_tree *tree)
{
    return (int64_t)1 << tree->height;
}

/* Blocks of the largest leaf. */
static inline int64_t kin_tree_most_blocks(const kin_tree *tree)
{
    return (tree->blocks + kin_tree_leaves(tree) - 1) >> tree->height;
}

/* The period of a tree that has its scale is filled in, or, where it is given, must be this. */
bool kin_tree_take_period(kin_tree *tree, const double *period, bool given);

/* Extremes of the columns, for queries that may be anywhere in the box. */
void kin_tree_take_box(int32_t cols, const double *period, double *low, double *high);

/* Down from a node of this level: the leaf, a node too, whose cell a row is in. */
static inline int64_t kin_tree_leaf_below(const kin_tree *tree, int64_t node, int32_t level,
                                          const float *row)
{
    for (; level < tree->height; level++) {
        node = 2 * node + (row[tree->planes[node]] < tree->splits[node] ? 0 : 1);
    }
    return node;
}

/* The leaf whose cell a row is in. */
static inline int64_t kin_tree_leaf_of(const kin_tree *tree, const float *row)
{
    return kin_tree_leaf_below(tree, 1, 0, row) - kin_tree_leaves(tree);
}

static inline const float *kin_tree_box(const kin_tree *tree, int64_t node)
{
    return tree->boxes + node * 2 * tree->cols;
}

/* The metrics that have a tree, and the norm of their differences. */
bool kin_tree_allows(kith_metric metric);
kin_tree_norm kin_tree_norm_of(kith_metric metric);

/* One row in the tree's units: out[0 .. cols - 1]; `values` is what kin_metric_load gave, and of a
 * place becomes its vector. Returns what was lost, in the metric's norm. */
double kin_tree_round(const kin_tree *tree, double *values, float *out);

/* From where a query that lost so much begins, when a key is known that is far enough. */
static inline float kin_tree_reach(const kin_tree *tree, double key, float lost)
{
    return kin_tree_reach_of_key(tree->norm, key, kin_place_scale(tree->places, tree->scale),
                                 (double)lost, tree->floor);
}

/* The units of a corpus of this dtype, from the extremes of its columns: shift (cols), and *scale.
 */
void kin_tree_units(kith_dtype dtype, int32_t cols, const double *low, const double *high,
                    double *shift, double *scale);

/* The least height of which no leaf has more than leaf_points, at least a block. */
int32_t kin_tree_height(int64_t points, int64_t leaf_points);

/* Points a leaf that are fastest for so many columns. */
int64_t kin_tree_leaf_points(int32_t cols);
/* Points a leaf of a tree of `height` (0: the fastest); what kin_tree_make takes. Where there are
 * fewer points than a leaf of each 2^height needs, it makes a lower tree. */
int64_t kin_tree_leaf_points_of(int32_t cols, int64_t points, int32_t height);
/* The highest tree whose leaves all have a block of points. */
int32_t kin_tree_most_height(int64_t points);

/* A tree of the corpus' groups (kin_prepare_rows), of which there is at least one. leaf_points: at
 * most so many in a leaf, at least KIN_TREE_LANES. */
kith_status kin_tree_make(kith_ctx *ctx, const kin_prepared *corpus, int64_t leaf_points,
                          kin_tree *tree);
void kin_tree_free(kith_ctx *ctx, kin_tree *tree);
/* The shape that kin_tree_make gives a tree of so many distinct rows; it has no arrays. */
kin_tree kin_tree_shape(int64_t points, int32_t cols, int64_t leaf_points);
/* Arrays of a tree whose shape is known, as they lie in memory and in a file; how many. */
enum { KIN_TREE_ARRAYS = 10 };
typedef struct kin_tree_array {
    const char *tag;
    void *at; /* the address of the pointer in the tree */
    int64_t rows;
    uint64_t row_bytes;
    bool zeros; /* before they are filled */
} kin_tree_array;
int kin_tree_arrays(kin_tree *tree, kin_tree_array arrays[KIN_TREE_ARRAYS]);
void kin_tree_name(kin_layout *layout, void *tree);
/* What kin_tree_make holds, and leaves. */
void kin_tree_plan_make(kin_layout *plan, kin_tree *shape, int32_t threads);

/* What a job counted, which becomes the report: of a tree of so many points, by our walk (NULL) or
 * another. */
typedef struct kin_tree_sums {
    int64_t rows; /* that asked */
    double pairs;
    double keys;
    double reruns;
} kin_tree_sums;
void kin_tree_report(kith_ctx *ctx, int64_t points, const kin_tree_sums *sums,
                     const kin_pipeline *pipeline);

/* ---- In a file (tree_store.c) ---------------------------------------------------------------- */

/* Written whole or not at all. Equal trees of equal points are equal files, whichever instruction
 * set, and however many threads, made them. */
kith_status kin_tree_store_save(kith_ctx *ctx, const char *path, const kin_prepared *prepared,
                                const kin_tree *tree);

/* The tree as it lies in the map: *prepared has its matrix, that of kin_store_points, and distance,
 * and nothing else. Both are all views then: they are not freed, and end with the container.
 * *usable is false where another version made the file: then make the tree again, of
 * tree->leaf_points (which is always set). */
kith_status kin_tree_store_view(kith_ctx *ctx, const kin_container *container,
                                kin_prepared *prepared, kin_tree *tree, bool *usable);

/* The same tree in memory of its own. */
kith_status kin_tree_store_copy(kith_ctx *ctx, const kin_tree *from, kin_tree *to);

/* ---- Rows that come and go (tree_update.c says how) ------------------------------------------ */

/* kin_tree_make, with room in every leaf. */
kith_status kin_tree_make_roomy(kith_ctx *ctx, const kin_prepared *corpus, int64_t leaf_points,
                                kin_tree *tree);

/* corpus: all rows (kin_prepare_rows), of which those from first_new on are not in the tree yet.
 * The others are what they were, in the same order; the matrix may lie elsewhere. Where this fails,
 * the tree is as it was. */
kith_status kin_tree_add(kith_ctx *ctx, const kin_prepared *corpus, int64_t first_new,
                         kin_tree *tree);

/* before: the groups of the rows before (their rows are not read). corpus: what is left, at least
 * one row. removed: `count` row numbers of before, rising, each once. Cannot fail. */
void kin_tree_remove(kith_ctx *ctx, const kin_groups *before, const kin_prepared *corpus,
                     const uint32_t *removed, int64_t count, kin_tree *tree);

/* ---- A tree while it is built ---------------------------------------------------------------- */

/* A tree while it is built, and how a node's points are split in two. */

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
    double *low;     /* threads x apart, while the corpus is measured */
    double *high;
    int64_t apart;     /* cols and more: a line of the cache has what one thread writes */
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

/* ---- Points in leaves, one at a time; the nodes above are joined after ----------------------- */

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
