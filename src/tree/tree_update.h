/* SPDX-License-Identifier: Apache-2.0
 * A tree that is kept while rows come and go. Ids are row numbers: what is added stands behind the
 * rows that were there, and where rows disappear later ones move up. After every change a search
 * gives the bytes that a search in a new tree of the same rows gives.
 *
 *   room     A tree made by kin_tree_make is full. kin_tree_make_roomy makes as many leaves and
 *            leaves a fifth of the lanes of each free; a full tree that points are added to is made
 *            again, roomy, unless removals left holes where the points go.
 *   add      A point goes to the leaf whose cell it is in. Where a leaf has no lane left, the
 *            lowest node above it that is not too full gets its points dealt anew among the same
 *            blocks, by medians. "Too full" is 16/16 of a leaf's lanes and falls evenly with the
 *            level to 14/16 of all lanes, so that nodes far up have room for what nodes below need
 *            again and again. Where all of the tree is too full it is made again, with room.
 *   remove   The last point of a leaf takes the lane. Boxes stay: larger ones are right. Where less
 *            than a quarter of all lanes are in use, the tree is made again.
 *   units    Scale and shift stay, and hold as long as numbers are below KIN_TREE_CLAMP, 2^21 times
 *            the largest that the tree was made of. A tree is made again for a point beyond half of
 *            that: a clamped point would be right, but what it lost would be in every reach.
 *
 * Cost of an addition of m points to a tree of height h: rounding and the way down, m h steps; two
 * passes over the counts of 2^(h+1) nodes; and what is dealt anew. At worst, all points beside each
 * other and one a call, a level costs 16 h moves a point, all of them 16 h^2, and a move is a row
 * rounded anew and up to h steps of medians. A tree that grows is made again for every eleventh
 * point that it has at least, so that the last building costs twelve in all.
 * A removal is one pass over the points, and log2(rows removed) steps for each.
 *
 * Memory: kin_tree_add holds, beside the tree, 16 bytes and a row in float32 for each new point, 20
 * and a row for each point that is dealt anew, and 16 for each leaf; or, where the tree is made
 * again, a second one and what kin_tree_make holds. kin_tree_remove holds nothing but for the
 * latter, and keeps a loose tree where that fails.
 *
 *   threads  the caller has the tree for himself; the same bytes for any number of threads. The
 *            bytes of a tree depend on its history; those of answers do not.
 */
#ifndef KIN_TREE_UPDATE_H
#define KIN_TREE_UPDATE_H

#include "tree/tree.h"

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

#endif
