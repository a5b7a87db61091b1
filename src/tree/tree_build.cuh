/* SPDX-License-Identifier: Apache-2.0
 * A tree while a device makes it (tree_build.cu), until its leaves are written
 * (tree_build_leaves.cu).
 */
#ifndef KIN_TREE_BUILD_CUH
#define KIN_TREE_BUILD_CUH

#include "tree/tree_launch.cuh"

typedef struct kin_tree_gpu_building {
    kin_tree_gpu tree;
    const float *rows;
    const float *row_lost;
    const uint32_t *firsts;
    uint32_t *lists;   /* cols + 1 of them, of tree.points numbers */
    uint32_t *others;  /* the lists of the next level */
    uint8_t *sides;    /* by number: 1 where it goes left */
    uint32_t *middles; /* by block of places: the middle of the node */
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
