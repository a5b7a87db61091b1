/* SPDX-License-Identifier: Apache-2.0
 * The kernels of the tree on a GPU, as a table of launches. A launch takes a stream and a job, does
 * not wait, and gives 0 or a number of the CUDA runtime. Pointers are device memory unless the
 * comment says otherwise; counters are cleared by the caller.
 *
 *   number   a point in the order of its group's first row (tree.h); its id is firsts[number]
 *   place    a query in the order in which queries stand before the tree
 *   packet   KIN_TREE_GPU_PACKET consecutive places: a warp, a lane a query
 */
#ifndef KIN_TREE_KERNELS_H
#define KIN_TREE_KERNELS_H

#include "screen/screen_kernels.h"
#include "tree/tree_bound.h"

enum {
    KIN_TREE_GPU_PACKET = 32,
    KIN_TREE_GPU_MOST_COLS = 64,
    KIN_TREE_GPU_SHORT =
        64, /* lists up to this capacity live in shared memory while they are filled */
    KIN_TREE_GPU_WIDE = 4 /* columns are padded to a multiple, with zeros */
};

/* A tree in device memory: tree/tree.h, but rows are `wide` columns instead of cols. */
typedef struct kin_tree_gpu {
    int32_t cols;
    int32_t wide;
    int32_t height;
    kin_tree_norm norm;
    int64_t points;
    int64_t blocks;
    double scale;
    const double *shift; /* cols */
    float widen;
    float floor;
    float most_lost; /* of any point */
    float unused;
    double slack;           /* that any row loses by wrapping */
    const float *period;    /* wide: as in tree/tree.h; NULL: no column has one */
    const float *values;    /* [block][column][lane of 16], zeros where no point is */
    const uint32_t *ids;    /* by position; 0xffffffff where no point is */
    const float *boxes;     /* [node][low of each column, high of each column]; node 0 unused */
    const float *lost;      /* by node */
    const float *splits;    /* by inner node */
    const int32_t *planes;  /* by inner node */
    const uint32_t *starts; /* leaf -> its first block; leaves + 1 of them */
    const uint32_t *counts; /* leaf -> its points, which stand first in its blocks */
} kin_tree_gpu;

/* ---- Rows (tree_rows.cu) -------------------------------------------------------------------- */

/* Rows of a metric whose tree has places (tree_bound.h) have the columns of their vectors here. */

/* The extremes of the columns of rows ids[0 .. count) (NULL: 0, 1, ...), exact. */
typedef struct kin_tree_gpu_measure {
    kin_screen_gpu_rows rows;
    const uint32_t *ids;
    int64_t count;
    double *low;  /* cols; filled with +inf by the launch itself */
    double *high; /* cols */
} kin_tree_gpu_measure;

/* Rows in the units of a tree, the bits of kin_tree_round: out [i][wide], lost[i] rounded up by
 * kin_tree_up, the tree's slack included, 0 where nothing was lost. most_lost: NULL, or one float,
 * cleared before: the largest of all. */
typedef struct kin_tree_gpu_round {
    kin_screen_gpu_rows rows;
    const uint32_t *ids; /* NULL: 0, 1, ... */
    int64_t count;
    int32_t wide;
    kin_tree_norm norm;
    double scale;
    double slack;
    const double *shift;
    float *out;
    float *lost;
    float *most_lost;
} kin_tree_gpu_round;

/* order[0 .. count): the queries sorted by (leaf that they fall into, cell of its box, query); the
 * more queries, the finer the cells. scratch of *scratch_bytes; with scratch NULL only
 * *scratch_bytes (host memory) is set. */
typedef struct kin_tree_gpu_order {
    kin_tree_gpu tree;
    const float *rows; /* count x wide */
    int64_t count;
    uint32_t *order;
    void *scratch;
    uint64_t *scratch_bytes;
} kin_tree_gpu_order;

/* ---- Building (tree_build.cu) --------------------------------------------------------------- */

/* Everything of a tree that depends on the points: the bytes of kin_tree_make, padded columns
 * apart. tree: cols, wide, height, norm, points, blocks are set, and the arrays are there; this
 * launch fills values, ids, boxes, lost, splits, planes, starts and counts. */
typedef struct kin_tree_gpu_build {
    kin_tree_gpu tree;
    const float *rows;      /* points x wide, by number */
    const float *row_lost;  /* by number */
    const uint32_t *firsts; /* number -> id; NULL: the same */
    void *scratch;          /* NULL: only *scratch_bytes is set */
    uint64_t *scratch_bytes;
} kin_tree_gpu_build;

/* ---- The search (tree_walk.cuh, tree_finish_short.cu, tree_finish_long.cu) ------------------- */

/* Candidates of each place. Every point that is not in a list has been proven to come after
 * `wanted` others in the order (canonical key, id), unless lost[place]. */
typedef struct kin_tree_gpu_lists {
    int32_t wanted;
    int32_t capacity; /* above wanted */
    uint64_t *words;  /* [packet][slot][lane]: value << 32 | position; whole packets */
    int32_t *counts;  /* by place */
    uint8_t *lost;    /* by place, written by the walk: 1 where the room was too small */
} kin_tree_gpu_lists;

/* Every packet from its own leaf outwards. A list's candidates stand in no order. */
typedef struct kin_tree_gpu_walk {
    kin_tree_gpu tree;
    const float *rows;     /* by query, wide columns; NULL: place p is the point at position p of
                              the tree, a graph; holes (id 0xffffffff) get empty lists */
    const float *row_lost; /* by query; not read for a graph: tree.most_lost holds for all */
    const uint32_t *order; /* place -> query; NULL: the same */
    int64_t place0;        /* places place0 .. place0 + count; a multiple of KIN_TREE_GPU_PACKET */
    int64_t count;
    kin_tree_gpu_lists lists;
    uint64_t *met; /* 3 numbers, added to: pairs computed, leaves entered by queries,
                      places whose list lost something */
} kin_tree_gpu_walk;

/* Canonical keys of the candidates of places place0 .. place0 + count (place0 a multiple of
 * KIN_TREE_GPU_PACKET), sorted by (key, id): the first `wanted` of each to pairs (count x wanted),
 * counts says how many there are. Lists that lost something are written like any other. Place p
 * asks with row order[p] of queries (NULL: p); a graph passes tree.ids as order, whose holes are
 * skipped with count 0. answers: unless its rows are 0, they become output row order[p] instead, of
 * lists up to KIN_TREE_GPU_SHORT. near: NULL, or room for rows of the corpus by position, a short
 * row's floats and its id in KIN_TREE_GPU_WIDE words, which the launch of place 0 may fill and any
 * may read. */
typedef struct kin_tree_gpu_finish {
    kin_tree_gpu tree;
    kin_screen_gpu_rows queries;
    kin_screen_gpu_rows corpus;
    const uint32_t *order;
    kin_tree_gpu_lists lists;
    int64_t place0;
    int64_t count;
    kin_screen_gpu_pair *pairs;
    int32_t *counts;
    uint64_t *keys; /* one number, added to: keys computed */
    kin_screen_gpu_write answers;
    uint32_t *near;
} kin_tree_gpu_finish;

/* ---- All within a radius (tree_radius.cu) ---------------------------------------------------- */

/* What each query has within its radius: with `counts` how many ids, with `offsets` the ids and
 * their keys, in any order, each list where its row's stands; with neither only what is met is
 * counted. Place p asks with row order[p] (NULL: p) of the queries, a graph's with the id of the
 * point, whose group is of that row alone. */
typedef struct kin_tree_gpu_radius {
    kin_tree_gpu_walk walk; /* lists apart; met: pairs, leaves, keys computed */
    kin_screen_gpu_rows queries;
    kin_screen_gpu_rows corpus;
    kin_tree_within within;
    int64_t *counts;        /* by row of the queries */
    const int64_t *offsets; /* by row of the queries, one more; the first of them is `first` */
    int64_t first;
    uint32_t *ids;
    double *keys;
} kin_tree_gpu_radius;

/* offsets[i]: the sum of what stands before i, count + 1 of them. */
enum { KIN_TREE_GPU_SUMS = 1024 };
typedef struct kin_tree_gpu_sums {
    const int64_t *counts;
    int64_t count;
    int64_t *offsets;
    int64_t *scratch; /* KIN_TREE_GPU_SUMS */
} kin_tree_gpu_sums;

/* Lists as kin_tree_gpu_radius fills them are sorted by (key, id), and keys become distances. */
typedef struct kin_tree_gpu_ranges {
    kith_metric metric;
    int64_t rows;
    const int64_t *offsets; /* rows + 1; list i begins at offsets[i] - first */
    int64_t first;
    uint32_t *ids;
    double *distances64; /* keys before */
    float *distances;
} kin_tree_gpu_ranges;

/* ---- The table ------------------------------------------------------------------------------- */

/* A row a launch: its name, and that of the struct which it takes. */
#define KIN_TREE_LAUNCHES(X) \
    X(measure)               \
    X(round)                 \
    X(order)                 \
    X(build)                 \
    X(walk)                  \
    X(finish)                \
    X(radius)                \
    X(sums)                  \
    X(ranges)

typedef struct kin_tree_kernels {
#define KIN_ENTRY(name) int (*name)(kin_gpu_stream * stream, const kin_tree_gpu_##name *job);
    KIN_TREE_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY
    /* Lists up to this capacity live in shared memory while they are filled. */
    int32_t (*walk_short)(kin_gpu_stream *stream);
} kin_tree_kernels;

#ifdef __CUDACC__
extern "C" {
#define KIN_ENTRY(name) \
    int kin_tree_launch_##name(kin_gpu_stream *stream, const kin_tree_gpu_##name *job);
KIN_TREE_LAUNCHES(KIN_ENTRY)
#undef KIN_ENTRY
}
#endif

#endif
