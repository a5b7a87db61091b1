/* SPDX-License-Identifier: Apache-2.0
 * A tree and its points in a .kith container, and back without a copy. */
#ifndef KIN_TREE_STORE_H
#define KIN_TREE_STORE_H

#include "file/file_container.h"
#include "tree/tree.h"

/* Written whole or not at all. Equal trees of equal points are equal files, whichever instruction
 * set, and however many threads, made them. */
kith_status kin_tree_store_save(kith_ctx *ctx, const char *path, const kin_prepared *prepared,
                                const kin_tree *tree);

/* The tree as it lies in the map, of points that kin_store_points gave. *prepared and *tree are all
 * views: they are not freed, and end with the container. *usable is false where another version
 * made the file: then make the tree again, of *leaf_points (which is always set). */
kith_status kin_tree_store_view(kith_ctx *ctx, const char *path, const kin_container *container,
                                const kith_matrix *points, const kin_distance *distance,
                                kin_prepared *prepared, kin_tree *tree, int64_t *leaf_points,
                                bool *usable);

/* The same tree in memory of its own. */
kith_status kin_tree_store_copy(kith_ctx *ctx, const kin_tree *from, kin_tree *to);

#endif
