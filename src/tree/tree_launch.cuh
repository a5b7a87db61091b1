/* SPDX-License-Identifier: Apache-2.0
 * What kernels of the tree share: who a thread is, in blocks of KIN_FUSED_THREADS, and a library's
 * sort, one instance for everybody here, since each costs a minute of compiling and a part of the
 * module's size. */
#ifndef KIN_TREE_LAUNCH_CUH
#define KIN_TREE_LAUNCH_CUH

#include "fused/fused_row.cuh"
#include "tree/tree_kernels.h"

#include <stddef.h>
#include <stdint.h>

enum { KIN_TREE_GPU_WARPS = KIN_FUSED_THREADS / KIN_FUSED_WARP /* of a block */ };

KIN_DEVICE int64_t kin_tree_gpu_my_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

KIN_DEVICE int64_t kin_tree_gpu_my_warp(void)
{
    return (int64_t)blockIdx.x * KIN_TREE_GPU_WARPS + threadIdx.x / KIN_FUSED_WARP;
}

KIN_DEVICE int32_t kin_tree_gpu_my_lane(void)
{
    return (int32_t)(threadIdx.x % KIN_FUSED_WARP);
}

/* Blocks for `count` items, so many a block. */
static inline unsigned kin_tree_gpu_blocks_for(int64_t count, int64_t a_block)
{
    return (unsigned)((count + a_block - 1) / a_block);
}

/* ---- Across files ---------------------------------------------------------------------------- */

extern "C" {

/* Pairs of 32-bit numbers sorted, stably (tree_rows.cu). Scratch for `count` pairs. */
int kin_tree_gpu_sort_bytes(int64_t count, size_t *bytes);
/* By the lower `bits` bits of the keys, at least one. Inputs stay as they are. */
int kin_tree_gpu_sort(kin_gpu_stream *stream, void *scratch, size_t bytes, const uint32_t *keys,
                      uint32_t *sorted_keys, const uint32_t *values, uint32_t *sorted_values,
                      int64_t count, int32_t bits);

} /* extern "C" */

/* ---- A tree while it is made (tree_build.cu), until its leaves are (tree_build_leaves.cu) -----
 */

typedef struct kin_tree_gpu_building {
    kin_tree_gpu tree;
    const float *rows;
    const float *row_lost;
    const uint32_t *firsts;
    uint32_t *lists;   /* cols + 1 of them, and at least three, of tree.points numbers */
    uint32_t *others;  /* the lists of the next level */
    uint8_t *sides;    /* by number: the last level where it went left, and 1; 0: none */
    uint32_t *middles; /* by block of places: the middle of the node, */
    uint8_t *splits;   /* and the column that it is split in */
    uint32_t *masks;   /* by list and step: sides of 32 places */
    uint32_t *sums;    /* by list and tile: its surplus, then that before it */
    int64_t tiles;     /* of a list */
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

/* The component by which a column's list is sorted, at a place. */
KIN_DEVICE float kin_tree_gpu_component(const kin_tree_gpu_building &b, int32_t column,
                                        int64_t place)
{
    return b.rows[(int64_t)kin_tree_gpu_list_of(b, column)[place] * b.tree.wide + column];
}

/* Everything of the tree, from lists whose points stand leaf by leaf; splits and planes are there.
 */
extern "C" int kin_tree_gpu_write_tree(kin_gpu_stream *stream, const kin_tree_gpu_building *b);

#endif
