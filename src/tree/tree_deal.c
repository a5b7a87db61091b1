/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. From where a node's rows fit into a core's own cache they are copied there once, and move
 * with their numbers at every split, between the two halves of a plot: each level reads and writes
 * what stands side by side. Above, only numbers move, as rows would be as many bytes again.
 */
#include "base/base_mem.h"
#include "base/base_try.h"
#include "tree/tree_split.h"

/* Of half a plot: 512 KiB, so that both halves stay within the second cache of most cores. */
enum { PLOT_FLOATS = 1 << 17 };

int64_t kin_tree_plot_points(int64_t points, int32_t cols)
{
    const int64_t wide = kin_round_up(cols, KIN_TREE_QUARTER);
    return kin_min_i64(points, kin_max_i64(PLOT_FLOATS / wide, 1));
}

/* ---- Points in leaves ------------------------------------------------------------------------ */

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

/* No point, and a box that nothing is in. The lanes are not touched. */
static void leaf_clear(kin_tree *tree, int64_t leaf)
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
        leaf_clear(tree, leaf);
    }
}

/* Makes holes of the lanes behind the points. */
static void leaf_end(kin_tree *tree, int64_t leaf)
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

/* ---- Rows that are dealt to leaves ------------------------------------------------------------
 */

/* rows: of the leaf's points, one behind the other; NULL: where their numbers say. */
static void write_leaf(const kin_tree_build *b, int64_t leaf, const float *rows)
{
    kin_tree *tree = b->tree;
    const int64_t first = kin_tree_first_point(b, tree->height, leaf);
    const int64_t last = kin_tree_first_point(b, tree->height, leaf + 1);
    const uint32_t *numbers = b->order + first;
    /* Ids first: they are far apart, and a loop of nothing else waits for many at a time. */
    uint32_t *ids = tree->ids + (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    for (int64_t i = 0; i < last - first; i++) {
        ids[i] = b->ids[numbers[i]];
    }
    leaf_clear(tree, leaf);
    for (int64_t i = 0; i < last - first; i++) {
        const float *row =
            rows != NULL ? rows + i * b->wide : b->rows + (int64_t)numbers[i] * b->wide;
        kin_tree_leaf_put(tree, leaf, row, ids[i], b->loses ? b->lost[numbers[i]] : 0.0F);
    }
    leaf_end(tree, leaf);
}

static void deal_packed(const kin_tree_build *b, int32_t level, int64_t i, float *box, float *rows,
                        float *other)
{
    if (level == b->tree->height) {
        write_leaf(b, i, rows);
        return;
    }
    const int64_t middle = kin_tree_first_point(b, level + 1, 2 * i + 1);
    const int64_t left = (middle - kin_tree_first_point(b, level, i)) * b->wide;
    kin_tree_split_packed(b, level, i, box, rows, other);
    deal_packed(b, level + 1, 2 * i, box, other, rows);
    deal_packed(b, level + 1, 2 * i + 1, box, other + left, rows + left);
}

static void pack(const kin_tree_build *b, int64_t first, int64_t last, float *rows)
{
    for (int64_t at = first; at < last; at++) {
        memcpy(rows, b->rows + (int64_t)b->order[at] * b->wide, (size_t)b->wide * sizeof *rows);
        rows += b->wide;
    }
}

void kin_tree_build_under(const kin_tree_build *b, int32_t level, int64_t i, int32_t thread)
{
    float *box = (float *)(void *)kin_tree_scratch(b, thread);
    const int64_t first = kin_tree_first_point(b, level, i);
    const int64_t last = kin_tree_first_point(b, level, i + 1);
    if (last - first <= b->plot_points) {
        float *plot = kin_tree_plot(b, thread);
        pack(b, first, last, plot);
        deal_packed(b, level, i, box, plot, plot + b->plot_points * b->wide);
    } else if (level == b->tree->height) {
        write_leaf(b, i, NULL);
    } else {
        kin_tree_split_alone(b, level, i, box);
        kin_tree_build_under(b, level + 1, 2 * i, thread);
        kin_tree_build_under(b, level + 1, 2 * i + 1, thread);
    }
}
