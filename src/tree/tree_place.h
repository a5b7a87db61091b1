/* SPDX-License-Identifier: Apache-2.0
 * Points in the leaves of a tree, one at a time. The nodes above are joined afterwards. */
#ifndef KIN_TREE_PLACE_H
#define KIN_TREE_PLACE_H

#include "tree/tree.h"

/* No point, and a box that nothing is in. The lanes are not touched. */
void kin_tree_leaf_clear(kin_tree *tree, int64_t leaf);
/* Behind the points of the leaf, which has a lane left. lost: what the row lost, rounded up. */
void kin_tree_leaf_put(kin_tree *tree, int64_t leaf, const float *row, uint32_t id, float lost);
/* The last point of the leaf takes the place of the one at `lane`; box and loss stay. */
void kin_tree_leaf_drop(kin_tree *tree, int64_t leaf, int64_t lane);
/* Makes holes of the lanes behind the points. */
void kin_tree_leaf_end(kin_tree *tree, int64_t leaf);
/* Box and loss of an inner node from those of its children. */
void kin_tree_join(kin_tree *tree, int64_t node);

#endif
