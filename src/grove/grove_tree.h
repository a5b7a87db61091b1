/* SPDX-License-Identifier: Apache-2.0
 * A tree that is made in device memory. */
#ifndef KIN_GROVE_TREE_H
#define KIN_GROVE_TREE_H

#include "fused/fused_lists.h"
#include "grove/grove_kernels.h"
#include "tree/tree.h"

/* What kin_tree_make makes of the same points, byte for byte but for padded columns. rows: of a
 * metric that has a tree, up to KIN_GROVE_MOST_COLS columns; firsts: device memory, the rows that
 * become points, ascending (NULL: all); points: how many, at least one. The tree is complete when
 * this returns. */
kith_status kin_grove_tree_make(const kin_fused_device *on, const kin_fused_rows *rows,
                                const uint32_t *firsts, int64_t points, kith_metric metric,
                                int64_t leaf_points, kin_grove_tree *tree);
/* Accepts a tree of zeros. */
void kin_grove_tree_free(const kin_fused_device *on, kin_grove_tree *tree);

/* Columns that its rows have. */
static inline int32_t kin_grove_wide(int32_t cols)
{
    return (cols + KIN_GROVE_WIDE - 1) / KIN_GROVE_WIDE * KIN_GROVE_WIDE;
}

/* Device memory of a tree that is made, and the most while it is; rows and firsts not among them.
 */
uint64_t kin_grove_tree_bytes(int64_t points, int32_t cols, int64_t leaf_points);
uint64_t kin_grove_tree_peak_bytes(int64_t points, int32_t cols, int64_t leaf_points);

#endif
