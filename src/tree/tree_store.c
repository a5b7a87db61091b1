/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout. Section "points", which every reader of points knows; "tree", the facts that kith info
 * tells; the groups of equal rows; then the arrays of kin_tree as they are.
 *
 * Trust. What is used as an index or a length, and what the search relies on to end, is checked: a
 * file can be wrong, but not lead outside of itself. That boxes hold their points, and that these
 * are the rows rounded, is believed: who forges numbers and their checksums gets wrong neighbours.
 */
#include "tree/tree.h"

#include "exact/exact_store.h"

#include <assert.h>

/* Rises with every change of what an array means, or of the arithmetic that made it. */
enum { STORE_VERSION = 1 };

static_assert(sizeof(kin_stored_tree) == 48, "facts have no padding");

/* Positions, and the room for what a leaf leaves of a query, are 32-bit numbers. */
static const int64_t MOST_LEAF_BLOCKS = (int64_t)1 << 26;

kith_status kin_tree_store_save(kith_ctx *ctx, const char *path, const kin_prepared *prepared,
                                const kin_tree *tree)
{
    const kin_stored_tree facts = {.version = STORE_VERSION,
                                   .height = tree->height,
                                   .points = tree->points,
                                   .places = tree->blocks * KIN_TREE_LANES,
                                   .equal = prepared->groups.next != NULL,
                                   .leaf_points = tree->leaf_points,
                                   .scale = tree->scale};
    kin_tree shape = *tree;
    kin_tree_array arrays[KIN_TREE_ARRAYS];
    kin_storing storing =
        kin_store_begin(KITH_KIND_TREE_INDEX, prepared->distance.metric, &prepared->rows.matrix);
    kin_store_add(&storing, KIN_TAG_TREE, &facts, 1, sizeof facts);
    kin_store_add_groups(&storing, &prepared->groups);
    kin_store_add_period(&storing, &prepared->distance);
    const int count = kin_tree_arrays(&shape, arrays);
    for (int i = 0; i < count; i++) {
        const void *data = NULL;
        memcpy(&data, arrays[i].at, sizeof data);
        kin_store_add(&storing, arrays[i].tag, data, arrays[i].rows, arrays[i].row_bytes);
    }
    return kin_container_write(ctx, path, &storing.header, storing.sections, storing.count);
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* Blocks are where kin_tree_block_of has them: points are dealt anew by that, too. */
static bool leaves_fit(const kin_tree *tree)
{
    const int64_t leaves = kin_tree_leaves(tree);
    int64_t points = 0;
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const int64_t first = kin_tree_block_of(tree->blocks, tree->height, leaf);
        const int64_t blocks = kin_tree_block_of(tree->blocks, tree->height, leaf + 1) - first;
        if ((int64_t)tree->starts[leaf] != first || blocks > MOST_LEAF_BLOCKS ||
            (int64_t)tree->counts[leaf] > blocks * KIN_TREE_LANES) {
            return false;
        }
        points += tree->counts[leaf];
    }
    return (int64_t)tree->starts[leaves] == tree->blocks && points == tree->points;
}

static bool take_bit(uint64_t *bits, uint32_t at)
{
    const uint64_t bit = (uint64_t)1 << (at % 64);
    const bool there = (bits[at / 64] & bit) != 0;
    bits[at / 64] &= ~bit;
    return there;
}

/* Each leaf has ids of distinct rows first and none behind them. firsts: a bit for each distinct
 * row, which is taken away where it is found. */
static bool ids_stand_once(const kin_tree *tree, int64_t rows, uint64_t *firsts)
{
    const int64_t leaves = kin_tree_leaves(tree);
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
        const int64_t end = (int64_t)tree->starts[leaf + 1] * KIN_TREE_LANES;
        const int64_t last = first + tree->counts[leaf];
        for (int64_t at = first; at < end; at++) {
            const uint32_t id = tree->ids[at];
            const bool good =
                at < last ? (int64_t)id < rows && take_bit(firsts, id) : id == KITH_ID_NONE;
            if (!good) {
                return false;
            }
        }
    }
    return true;
}

static kith_status check_ids(const kin_viewing *v, const kin_groups *groups, const kin_tree *tree)
{
    uint64_t *firsts = NULL;
    KIN_TRY(kin_alloc_zero(v->ctx, &firsts, (uint64_t)groups->rows / 64 + 1, sizeof *firsts,
                           "the check of a tree"));
    for (int64_t i = 0; i < groups->count; i++) {
        firsts[groups->firsts[i] / 64] |= (uint64_t)1 << (groups->firsts[i] % 64);
    }
    const bool good = ids_stand_once(tree, groups->rows, firsts);
    kin_free(v->ctx, firsts);
    return good ? KITH_OK : kin_store_fail_damaged(v, "its leaves do not hold each distinct row");
}

/* Without NaN, and where they are finite without infinity: a carry into the sign tells. */
static bool all_numbers(const float *values, int64_t count, bool finite)
{
    const uint32_t carry = finite ? 0x00800000u : 0x007fffffu;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & 0x7fffffffu) + carry;
    }
    return (bad & 0x80000000u) == 0;
}

static bool numbers_are(const kin_tree *tree)
{
    const int64_t nodes = 2 * kin_tree_leaves(tree);
    bool good = isfinite(tree->scale) && tree->scale > 0.0;
    for (int32_t c = 0; c < tree->cols; c++) {
        good = good && isfinite(tree->shift[c]);
    }
    /* The lists' limits are above what they limit because nothing is lost below 0. */
    for (int64_t node = 0; node < nodes; node++) {
        good = good && tree->lost[node] >= 0.0F;
    }
    return good && all_numbers(tree->lost, nodes, true) &&
           all_numbers(tree->values, tree->blocks * KIN_TREE_LANES * tree->cols, true) &&
           all_numbers(tree->boxes, nodes * 2 * tree->cols, false);
}

static bool planes_are_columns(const kin_tree *tree)
{
    for (int64_t node = 1; node < kin_tree_leaves(tree); node++) {
        if (tree->planes[node] < 0 || tree->planes[node] >= tree->cols) {
            return false;
        }
    }
    return true;
}

static kith_status check_tree(const kin_viewing *v, const kin_groups *groups, const kin_tree *tree)
{
    if (!leaves_fit(tree)) {
        return kin_store_fail_damaged(v, "its leaves do not lie in it one behind the other");
    }
    if (!planes_are_columns(tree)) {
        return kin_store_fail_damaged(v, "its tree splits a column that it does not have");
    }
    if (!numbers_are(tree)) {
        return kin_store_fail_damaged(v, "its tree holds values that are no numbers");
    }
    return check_ids(v, groups, tree);
}

/* ---- Views ---------------------------------------------------------------------------------- */

static kith_status view_arrays(const kin_viewing *v, kin_tree *tree)
{
    kin_tree_array arrays[KIN_TREE_ARRAYS];
    const int count = kin_tree_arrays(tree, arrays);
    for (int i = 0; i < count; i++) {
        KIN_TRY(kin_store_view_array(v, arrays[i].tag, arrays[i].rows, arrays[i].row_bytes,
                                     arrays[i].at));
    }
    return KITH_OK;
}

kith_status kin_tree_store_view(kith_ctx *ctx, const kin_container *container,
                                kin_prepared *prepared, kin_tree *tree, bool *usable)
{
    const kin_viewing v = {.ctx = ctx, .container = container};
    const kith_matrix *points = &prepared->rows.matrix;
    const kith_metric metric = prepared->distance.metric;
    kin_stored_tree facts;
    KIN_TRY(kin_container_tree(ctx, container, &facts));
    *tree = (kin_tree){.leaf_points = facts.leaf_points};
    *usable = facts.version == STORE_VERSION;
    if (!kin_tree_allows(metric)) {
        return kin_store_fail_damaged(&v, "its metric has no tree");
    }
    if (facts.places % KIN_TREE_LANES != 0 || facts.leaf_points < KIN_TREE_LANES ||
        facts.leaf_points > KIN_STORED_TREE_MOST_PLACES) {
        return kin_store_fail_damaged(&v, "its leaves are no whole blocks");
    }
    if (!*usable) {
        return KITH_OK;
    }
    prepared->groups = (kin_groups){.rows = points->rows, .count = facts.points};
    const int32_t cols = kin_place_cols(metric, points->cols);
    *tree = (kin_tree){.cols = cols,
                       .height = facts.height,
                       .leaf_points = facts.leaf_points,
                       .points = facts.points,
                       .blocks = facts.places / KIN_TREE_LANES,
                       .norm = kin_tree_norm_of(metric),
                       .scale = facts.scale,
                       .widen = kin_tree_widen(cols),
                       .floor = kin_tree_floor(facts.scale),
                       .wraps = prepared->distance.period != NULL,
                       .places = kin_place_has(metric)};
    KIN_TRY(kin_metric_check_box(ctx, points, &prepared->distance, container->path));
    KIN_TRY(kin_store_view_groups(&v, facts.equal != 0, &prepared->groups));
    KIN_TRY(view_arrays(&v, tree));
    if (!kin_tree_take_period(tree, prepared->distance.period, true)) {
        return kin_store_fail_damaged(&v, "its tree has another period than its points");
    }
    return check_tree(&v, &prepared->groups, tree);
}

kith_status kin_tree_store_copy(kith_ctx *ctx, const kin_tree *from, kin_tree *to)
{
    kin_tree view = *from;
    kin_tree_array read[KIN_TREE_ARRAYS];
    kin_tree_array written[KIN_TREE_ARRAYS];
    *to = *from;
    const int count = kin_tree_arrays(&view, read);
    (void)kin_tree_arrays(to, written);
    KIN_TRY(kin_layout_make(ctx, kin_tree_name, to, "a tree", &to->block));
    for (int i = 0; i < count; i++) {
        const void *data = NULL;
        void *own = NULL;
        memcpy(&data, read[i].at, sizeof data);
        memcpy(&own, written[i].at, sizeof own);
        memcpy(own, data, (size_t)((uint64_t)read[i].rows * read[i].row_bytes));
    }
    return KITH_OK;
}
