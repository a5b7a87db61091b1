/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. From where a node's rows fit into a core's own cache they are copied there once, and move
 * with their numbers at every split, between the two halves of a plot: each level reads and writes
 * what stands side by side. Above, only numbers move, as rows would be as many bytes again.
 */
#include "base/base_mem.h"
#include "base/base_try.h"
#include "tree/tree_place.h"
#include "tree/tree_split.h"

/* Of half a plot: 512 KiB, so that both halves stay within the second cache of most cores. */
enum { PLOT_FLOATS = 1 << 17 };

int64_t kin_tree_plot_points(int64_t points, int32_t cols)
{
    const int64_t wide = kin_round_up(cols, KIN_TREE_QUARTER);
    return kin_min_i64(points, kin_max_i64(PLOT_FLOATS / wide, 1));
}

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
    kin_tree_leaf_clear(tree, leaf);
    for (int64_t i = 0; i < last - first; i++) {
        const float *row =
            rows != NULL ? rows + i * b->wide : b->rows + (int64_t)numbers[i] * b->wide;
        kin_tree_leaf_put(tree, leaf, row, ids[i], b->loses ? b->lost[numbers[i]] : 0.0F);
    }
    kin_tree_leaf_end(tree, leaf);
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
