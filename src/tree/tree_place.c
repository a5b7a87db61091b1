/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_place.h"

/* Where the first component of a position is; others are KIN_TREE_LANES apart. */
static float *components(const kin_tree *tree, int64_t at)
{
    return tree->values + at / KIN_TREE_LANES * KIN_TREE_LANES * tree->cols + at % KIN_TREE_LANES;
}

static void make_hole(kin_tree *tree, int64_t at)
{
    float *out = components(tree, at);
    for (int32_t c = 0; c < tree->cols; c++) {
        out[(int64_t)c * KIN_TREE_LANES] = 0.0F;
    }
    tree->ids[at] = KITH_ID_NONE;
}

void kin_tree_leaf_clear(kin_tree *tree, int64_t leaf)
{
    const int64_t node = kin_tree_leaves(tree) + leaf;
    float *box = tree->boxes + node * 2 * tree->cols;
    for (int32_t c = 0; c < tree->cols; c++) {
        box[c] = INFINITY;
        box[tree->cols + c] = -INFINITY;
    }
    tree->lost[node] = 0.0F;
    tree->counts[leaf] = 0;
}

void kin_tree_leaf_put(kin_tree *tree, int64_t leaf, const float *row, uint32_t id, float lost)
{
    const int64_t node = kin_tree_leaves(tree) + leaf;
    const int64_t at = (int64_t)tree->starts[leaf] * KIN_TREE_LANES + tree->counts[leaf];
    float *out = components(tree, at);
    float *low = tree->boxes + node * 2 * tree->cols;
    float *high = low + tree->cols;
    for (int32_t c = 0; c < tree->cols; c++) {
        out[(int64_t)c * KIN_TREE_LANES] = row[c];
        low[c] = row[c] < low[c] ? row[c] : low[c];
        high[c] = row[c] > high[c] ? row[c] : high[c];
    }
    tree->ids[at] = id;
    tree->lost[node] = fmaxf(tree->lost[node], lost);
    tree->counts[leaf] += 1;
}

void kin_tree_leaf_drop(kin_tree *tree, int64_t leaf, int64_t lane)
{
    const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    const int64_t last = first + tree->counts[leaf] - 1;
    const float *from = components(tree, last);
    float *to = components(tree, first + lane);
    for (int64_t c = 0; c < tree->cols; c++) {
        to[c * KIN_TREE_LANES] = from[c * KIN_TREE_LANES];
    }
    tree->ids[first + lane] = tree->ids[last];
    make_hole(tree, last);
    tree->counts[leaf] -= 1;
    if (tree->counts[leaf] == 0) {
        kin_tree_leaf_clear(tree, leaf);
    }
}

void kin_tree_leaf_end(kin_tree *tree, int64_t leaf)
{
    const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    const int64_t behind = (int64_t)tree->starts[leaf + 1] * KIN_TREE_LANES;
    for (int64_t at = first + tree->counts[leaf]; at < behind; at++) {
        make_hole(tree, at);
    }
}

void kin_tree_join(kin_tree *tree, int64_t node)
{
    const int32_t cols = tree->cols;
    const float *left = kin_tree_box(tree, 2 * node);
    const float *right = kin_tree_box(tree, 2 * node + 1);
    float *box = tree->boxes + node * 2 * cols;
    for (int32_t c = 0; c < cols; c++) {
        box[c] = fminf(left[c], right[c]);
        box[cols + c] = fmaxf(left[cols + c], right[cols + c]);
    }
    tree->lost[node] = fmaxf(tree->lost[2 * node], tree->lost[2 * node + 1]);
}
