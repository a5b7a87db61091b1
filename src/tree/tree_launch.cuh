/* SPDX-License-Identifier: Apache-2.0
 * What kernels of the tree share: who a thread is, in blocks of KIN_SCREEN_GPU_THREADS; and of
 * those that make a tree, the state that they hand on, and how a node is cut. */
#ifndef KIN_TREE_LAUNCH_CUH
#define KIN_TREE_LAUNCH_CUH

#include "screen/screen_row.cuh"
#include "select/select_word.h"
#include "tree/tree_kernels.h"

#include <stddef.h>
#include <stdint.h>

enum { KIN_TREE_GPU_WARPS = KIN_SCREEN_GPU_THREADS / KIN_SCREEN_GPU_WARP /* of a block */ };

KIN_DEVICE int64_t kin_tree_gpu_my_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

KIN_DEVICE int64_t kin_tree_gpu_my_warp(void)
{
    return (int64_t)blockIdx.x * KIN_TREE_GPU_WARPS + threadIdx.x / KIN_SCREEN_GPU_WARP;
}

KIN_DEVICE int32_t kin_tree_gpu_my_lane(void)
{
    return (int32_t)(threadIdx.x % KIN_SCREEN_GPU_WARP);
}

/* Blocks for `count` items, so many a block. */
static inline unsigned kin_tree_gpu_blocks_for(int64_t count, int64_t a_block)
{
    return (unsigned)((count + a_block - 1) / a_block);
}

/* ---- A tree while it is made (tree_build.cu), until its leaves are (tree_build_leaves.cu) ---- */

/* Where a node is cut: keys below low go left, and the first `rank` of those from it on, in the
 * order (key, number). Each digit that is found raises low, until it is a key and only keys that
 * are equal to it are counted by rank. */
typedef struct kin_tree_gpu_cut {
    int32_t column;
    uint32_t low;
    uint32_t rank;
    int32_t shift; /* bits below the digit that is looked for next */
} kin_tree_gpu_cut;

typedef struct kin_tree_gpu_building {
    kin_tree_gpu tree;
    const float *rows;
    const float *row_lost;
    const uint32_t *firsts;
    uint32_t *lists;        /* a column each, of keys, then one of numbers: in the order of nodes */
    uint32_t *others;       /* the lists of the next level */
    uint32_t *extents;      /* [node][least key of each column, what is left above its largest] */
    kin_tree_gpu_cut *cuts; /* by node of a level */
    uint32_t *bins;         /* counters of digits, by node of a level */
    uint2 *shares;          /* by piece: keys below the cut, and on it */
    int64_t piece_points;
    int32_t pieces; /* of a node */
} kin_tree_gpu_building;

/* ---- Nodes ----------------------------------------------------------------------------------- */

KIN_DEVICE int64_t kin_tree_gpu_first_point(const kin_tree_gpu &tree, int32_t level, int64_t i)
{
    const int64_t point = kin_tree_block_of(tree.blocks, level, i) * KIN_TREE_LANES;
    return point < tree.points ? point : tree.points;
}

KIN_DEVICE uint32_t *kin_tree_gpu_list_of(const kin_tree_gpu_building &b, int32_t list)
{
    return b.lists + list * b.tree.points;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

#define KIN_TREE_GPU_NO_KEY UINT32_MAX /* above all keys */

KIN_DEVICE float kin_tree_gpu_component_of(uint32_t key)
{
    return __uint_as_float(kin_key32_bits(key, false));
}

/* All lanes call it. */
KIN_DEVICE void kin_tree_gpu_lower(uint32_t *to, uint32_t value)
{
    const uint32_t least = __reduce_min_sync(KIN_SCREEN_GPU_ALL_LANES, value);
    if (kin_tree_gpu_my_lane() == 0 && least != KIN_TREE_GPU_NO_KEY) {
        (void)atomicMin(to, least);
    }
}

/* ---- Cuts ------------------------------------------------------------------------------------ */

/* The first digit of keys between low and high, `rank` of which go left. */
KIN_DEVICE kin_tree_gpu_cut kin_tree_gpu_begin_cut(int32_t column, uint32_t low, uint32_t high,
                                                   uint32_t rank, int32_t digit)
{
    const int32_t bits = 32 - __clz((int)(high - low));
    return kin_tree_gpu_cut{column, low, rank, bits > digit ? bits - digit : 0};
}

/* Above all digits: the key is below all that are looked at. */
KIN_DEVICE uint32_t kin_tree_gpu_digit_of(const kin_tree_gpu_cut &cut, uint32_t key)
{
    return key >= cut.low ? (key - cut.low) >> cut.shift : KIN_TREE_GPU_NO_KEY;
}

KIN_DEVICE double kin_tree_gpu_width_of(uint32_t low, uint32_t high)
{
    return (double)kin_tree_gpu_component_of(high) - (double)kin_tree_gpu_component_of(low);
}

KIN_DEVICE void kin_tree_gpu_write_split(const kin_tree_gpu &tree, int64_t node, int32_t column,
                                         float split)
{
    ((int32_t *)tree.planes)[node] = column;
    ((float *)tree.splits)[node] = split;
}

/* Where the cut is among counters that follow each other, of which the first is digit `first`;
 * before: what is counted in those before them. False: not among them. */
template <int COUNTERS>
KIN_DEVICE bool kin_tree_gpu_find_digit(const uint32_t (&counts)[COUNTERS], uint32_t before,
                                        int32_t first, int32_t digit_bits, kin_tree_gpu_cut &cut)
{
    const uint32_t rank = cut.rank;
    bool found = false;
#pragma unroll
    for (int j = 0; j < COUNTERS; j++) {
        if (rank >= before && rank - before < counts[j]) {
            cut.low += (uint32_t)(first + j) << cut.shift;
            cut.rank = rank - before;
            cut.shift = max(cut.shift - digit_bits, 0);
            found = true;
        }
        before += counts[j];
    }
    return found;
}

/* ---- Across files ---------------------------------------------------------------------------- */

/* All levels from `top` on, whose nodes have so many points at most; lists to others. */
enum { KIN_TREE_GPU_PLOT = 4096, KIN_TREE_GPU_PLOT_LEVELS = 8 };
extern "C" int kin_tree_gpu_split_plots(kin_gpu_stream *stream, const kin_tree_gpu_building *b,
                                        int32_t top);
/* Everything of the tree, from lists whose points stand leaf by leaf; splits and planes are there.
 */
extern "C" int kin_tree_gpu_write_tree(kin_gpu_stream *stream, const kin_tree_gpu_building *b);

#endif
