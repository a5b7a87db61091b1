/* SPDX-License-Identifier: Apache-2.0
 *
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
 * Memory: kin_tree_add holds, beside the tree, 24 bytes and a row in float32 for each new point and
 * for each that is dealt anew, plots of half as many rows or, of few, two for each point and
 * thread, and 16 for each leaf; or, where the tree is made again, a second one and what
 * kin_tree_make holds. kin_tree_remove holds nothing but for the
 * latter, and keeps a loose tree where that fails.
 *
 *   threads  the caller has the tree for himself; the same bytes for any number of threads. The
 *            bytes of a tree depend on its history; those of answers do not.
 *
 * Idea. Blocks of leaves stay where they are, and a node's points can be dealt anew among them
 * without anybody else noticing. A packed-memory array keeps sorted numbers with holes by the same
 * rule: the higher a node, the emptier it has to be to deal for those below. All of an addition's
 * points are counted into the tree first, so that no node is dealt twice for one call, and the
 * nodes that are, are disjoint and given to threads.
 *
 * Everything that can fail comes before the first change: memory, and rows in float32.
 *
 * Source. Bender, Demaine, Farach-Colton 2000, "Cache-oblivious B-trees", for the limits by level.
 */
#include "tree/tree.h"

#include "host/host_threads.h"

enum {
    POINTS_A_TASK = 2048,
    LEAVES_A_TASK = 256,
    ROOT_LEAVES_FREE = 8, /* the root may be filled up to an eighth */
    LOOSE = 4             /* lanes a point, above which a tree is made again */
};

/* A node whose points are dealt anew. */
typedef struct dealing {
    int64_t node;
    int32_t level;
    int64_t first_leaf;
    int64_t last_leaf;
    int64_t first; /* of its points, among those of all dealings */
    int64_t points;
} dealing;

typedef struct adding {
    kith_ctx *ctx;
    kin_tree *tree;
    kin_tree_build fresh; /* the new points; words: leaf << 32 | number, sorted */
    kin_tree_build dealt; /* all points of dealings */
    atomic_bool far;      /* a point is beyond what the tree's units are good for */
    uint32_t *added;      /* by node: new points */
    uint32_t *totals;     /* by node: points, new ones included */
    dealing *dealings;    /* by rising leaf */
    int64_t dealing_count;
    uint32_t *dealt_ids;
    void *block; /* counts and dealings */
} adding;

static void name_counts(kin_layout *layout, void *job)
{
    adding *a = job;
    const int64_t leaves = kin_tree_leaves(a->tree);
    const uint64_t most = (uint64_t)kin_min_i64(a->fresh.points, leaves);
    a->added = kin_layout_zeros(layout, 2 * (uint64_t)leaves, sizeof *a->added);
    a->totals = kin_layout_zeros(layout, 2 * (uint64_t)leaves, sizeof *a->totals);
    a->dealings = kin_layout_array(layout, most, sizeof *a->dealings);
}

/* ---- Where new points go --------------------------------------------------------------------- */

static int64_t leaf_of_word(uint64_t word)
{
    return (int64_t)(word >> 32);
}

static kith_status find_leaf(void *arg, int64_t i, int32_t thread)
{
    (void)thread;
    adding *a = arg;
    const kin_tree *tree = a->tree;
    const kin_tree_build *b = &a->fresh;
    const float *row = b->rows + i * b->wide;
    float largest = 0.0F;
    for (int32_t c = 0; c < tree->cols; c++) {
        largest = fmaxf(largest, fabsf(row[c]));
    }
    if ((double)largest > 0.5 * KIN_TREE_CLAMP) {
        atomic_store_explicit(&a->far, true, memory_order_relaxed);
    }
    b->words[i] = (uint64_t)kin_tree_leaf_of(tree, row) << 32 | (uint64_t)i;
    return KITH_OK;
}

static kith_status route(adding *a)
{
    kin_tree_build *b = &a->fresh;
    KIN_TRY(kin_tree_build_load(b));
    KIN_TRY(kin_parallel_rows(a->ctx, "tree", b->points, POINTS_A_TASK, find_leaf, a));
    kin_select_sort_words(b->words, b->points);
    return KITH_OK;
}

/* Of the new points, how many stand before those of a leaf. */
static int64_t first_word(const adding *a, int64_t leaf)
{
    return kin_lower_u64(a->fresh.words, a->fresh.points, (uint64_t)leaf << 32);
}

static kith_status count_points(adding *a)
{
    const kin_tree *tree = a->tree;
    const int64_t leaves = kin_tree_leaves(tree);
    KIN_TRY(kin_layout_make(a->ctx, name_counts, a, "counts of a tree", &a->block));
    for (int64_t i = 0; i < a->fresh.points; i++) {
        a->added[leaves + leaf_of_word(a->fresh.words[i])] += 1;
    }
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        a->totals[leaves + leaf] = tree->counts[leaf] + a->added[leaves + leaf];
    }
    for (int64_t node = leaves - 1; node >= 1; node--) {
        a->added[node] = a->added[2 * node] + a->added[2 * node + 1];
        a->totals[node] = a->totals[2 * node] + a->totals[2 * node + 1];
    }
    return KITH_OK;
}

/* ---- Which nodes are dealt anew -------------------------------------------------------------- */

static dealing dealing_of(const kin_tree *tree, int64_t node, int32_t level)
{
    const int32_t below = tree->height - level;
    const int64_t first = (node << below) - kin_tree_leaves(tree);
    return (dealing){.node = node,
                     .level = level,
                     .first_leaf = first,
                     .last_leaf = first + ((int64_t)1 << below)};
}

static int64_t blocks_of(const kin_tree *tree, const dealing *d)
{
    return (int64_t)tree->starts[d->last_leaf] - (int64_t)tree->starts[d->first_leaf];
}

/* Whether a node is empty enough to hold so many points: a leaf may be full, the root may not. */
static bool fits(const kin_tree *tree, const dealing *d, int64_t points)
{
    const int64_t lanes = blocks_of(tree, d) * KIN_TREE_LANES;
    const int64_t below = tree->height - d->level;
    const int64_t free =
        below > 0 ? kin_ceil_div(lanes * below, ROOT_LEAVES_FREE * tree->height) : 0;
    return points <= lanes - free;
}

/* The lowest node above a leaf, or itself, that fits what comes; false: there is none. */
static bool find_dealing(const adding *a, int64_t leaf, dealing *found)
{
    int64_t node = kin_tree_leaves(a->tree) + leaf;
    for (int32_t level = a->tree->height; level >= 0; level--) {
        *found = dealing_of(a->tree, node, level);
        found->points = a->totals[node];
        if (fits(a->tree, found, found->points)) {
            return true;
        }
        node /= 2;
    }
    return false;
}

/* Leaves are taken in rising order, so a node that is found covers the last of those before it or
 * none of them. */
static bool plan_dealings(adding *a)
{
    const kin_tree *tree = a->tree;
    const int64_t leaves = kin_tree_leaves(tree);
    int64_t count = 0;
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const int64_t lanes =
            (int64_t)(tree->starts[leaf + 1] - tree->starts[leaf]) * KIN_TREE_LANES;
        const bool covered = count > 0 && leaf < a->dealings[count - 1].last_leaf;
        dealing found;
        if (covered || (int64_t)a->totals[leaves + leaf] <= lanes) {
            continue;
        }
        if (!find_dealing(a, leaf, &found)) {
            return false;
        }
        while (count > 0 && a->dealings[count - 1].first_leaf >= found.first_leaf) {
            count -= 1;
        }
        a->dealings[count++] = found;
    }
    a->dealing_count = count;
    a->dealt.points = 0;
    for (int64_t i = 0; i < count; i++) {
        a->dealings[i].first = a->dealt.points;
        a->dealt.points += a->dealings[i].points;
    }
    return true;
}

/* ---- Dealing --------------------------------------------------------------------------------- */

static void gather_ids(const adding *a, const dealing *d, uint32_t *ids)
{
    const kin_tree *tree = a->tree;
    for (int64_t leaf = d->first_leaf; leaf < d->last_leaf; leaf++) {
        const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
        memcpy(ids, tree->ids + first, tree->counts[leaf] * sizeof *ids);
        ids += tree->counts[leaf];
    }
    const int64_t last = first_word(a, d->last_leaf);
    for (int64_t i = first_word(a, d->first_leaf); i < last; i++) {
        *ids++ = a->fresh.ids[(uint32_t)a->fresh.words[i]];
    }
}

static kith_status prepare_dealings(adding *a)
{
    if (a->dealing_count == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_alloc(a->ctx, &a->dealt_ids, (uint64_t)a->dealt.points, sizeof *a->dealt_ids,
                      "points of a tree"));
    for (int64_t i = 0; i < a->dealing_count; i++) {
        gather_ids(a, &a->dealings[i], a->dealt_ids + a->dealings[i].first);
    }
    a->dealt.ids = a->dealt_ids;
    return kin_tree_build_load(&a->dealt);
}

static kith_status deal(void *arg, int64_t task, int32_t thread)
{
    const adding *a = arg;
    const dealing *d = &a->dealings[task];
    kin_tree_build b = a->dealt;
    b.points = d->points;
    b.first_block = a->tree->starts[d->first_leaf];
    b.blocks = blocks_of(a->tree, d);
    b.roomy = true;
    b.ids += d->first;
    b.rows += d->first * b.wide;
    b.lost += d->first;
    b.order += d->first;
    b.words += d->first;
    b.room += d->first;
    for (int64_t i = 0; i < d->points; i++) {
        b.order[i] = (uint32_t)i;
    }
    kin_tree_build_under(&b, d->level, d->node - ((int64_t)1 << d->level), thread);
    for (int32_t level = a->tree->height - 1; level >= d->level; level--) {
        const int32_t below = level - d->level;
        for (int64_t node = d->node << below; node < (d->node + 1) << below; node++) {
            kin_tree_join(b.tree, node);
        }
    }
    return KITH_OK;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* New points of leaves that have lanes for them. */
static void append(const adding *a)
{
    const kin_tree_build *b = &a->fresh;
    const dealing *d = a->dealings;
    const dealing *end = a->dealings + a->dealing_count;
    for (int64_t i = 0; i < b->points; i++) {
        const int64_t leaf = leaf_of_word(b->words[i]);
        const uint32_t number = (uint32_t)b->words[i];
        while (d < end && d->last_leaf <= leaf) {
            d++;
        }
        if (d == end || leaf < d->first_leaf) {
            kin_tree_leaf_put(a->tree, leaf, b->rows + (int64_t)number * b->wide, b->ids[number],
                              b->lost[number]);
        }
    }
}

/* Cannot fail: without a phase nobody is asked whether to go on. */
static void change(adding *a)
{
    kin_tree *tree = a->tree;
    append(a);
    (void)kin_parallel(a->ctx, NULL, a->dealing_count, deal, a);
    for (int64_t node = kin_tree_leaves(tree) - 1; node >= 1; node--) {
        if (a->added[node] > 0) {
            kin_tree_join(tree, node);
        }
    }
    tree->points += a->fresh.points;
}

static kith_status make_again(kith_ctx *ctx, const kin_prepared *corpus, kin_tree *tree)
{
    kin_tree made;
    KIN_TRY(kin_tree_make_roomy(ctx, corpus, tree->leaf_points, &made));
    kin_tree_free(ctx, tree);
    *tree = made;
    return KITH_OK;
}

/* *fits: whether the tree was changed, or else has to be made again. */
static kith_status add(adding *a, bool *fits)
{
    *fits = false;
    KIN_TRY(route(a));
    if (atomic_load(&a->far)) {
        return KITH_OK;
    }
    KIN_TRY(count_points(a));
    if (!plan_dealings(a)) {
        return KITH_OK;
    }
    KIN_TRY(prepare_dealings(a));
    change(a);
    *fits = true;
    return KITH_OK;
}

kith_status kin_tree_add(kith_ctx *ctx, const kin_prepared *corpus, int64_t first_new,
                         kin_tree *tree)
{
    const int64_t known =
        kin_lower_u32(corpus->groups.firsts, corpus->groups.count, (uint32_t)first_new);
    const int64_t points = corpus->groups.count - known;
    if (points == 0) {
        return KITH_OK;
    }
    const kin_tree_build build = {.ctx = ctx, .corpus = corpus, .tree = tree};
    adding a = {.ctx = ctx, .tree = tree, .fresh = build, .dealt = build};
    a.fresh.points = points;
    a.fresh.ids = corpus->groups.firsts + known;
    atomic_init(&a.far, false);
    bool fits = false;
    kith_status status = add(&a, &fits);
    kin_free(ctx, a.dealt_ids);
    kin_free(ctx, a.block);
    kin_free(ctx, a.dealt.block);
    kin_free(ctx, a.fresh.block);
    if (status == KITH_OK && !fits) {
        status = make_again(ctx, corpus, tree);
    }
    return status;
}

/* ---- Removing -------------------------------------------------------------------------------- */

typedef struct removing {
    kin_tree *tree;
    const kin_groups *before;
    const uint32_t *removed;
    int64_t count;
} removing;

/* How many rows of lower number are removed. Ids stand in no order in a tree, so a branch would be
 * guessed wrongly at every step. */
static int64_t removed_before(const removing *r, uint32_t row)
{
    int64_t before = 0;
    int64_t count = r->count;
    while (count > 1) {
        const int64_t half = count / 2;
        before += r->removed[before + half - 1] < row ? half : 0;
        count -= half;
    }
    return before + (count == 1 && r->removed[before] < row ? 1 : 0);
}

/* What the point of this id is called afterwards: by the lowest row that is left of its group. */
static uint32_t id_after(const removing *r, uint32_t id)
{
    while (id != KITH_ID_NONE) {
        const int64_t before = removed_before(r, id);
        if (before == r->count || r->removed[before] != id) {
            return id - (uint32_t)before;
        }
        id = r->before->next != NULL ? r->before->next[id] : KITH_ID_NONE;
    }
    return KITH_ID_NONE;
}

static kith_status remove_from_leaf(void *arg, int64_t leaf, int32_t thread)
{
    (void)thread;
    const removing *r = arg;
    kin_tree *tree = r->tree;
    uint32_t *ids = tree->ids + (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
    for (int64_t lane = 0; lane < tree->counts[leaf];) {
        const uint32_t id = id_after(r, ids[lane]);
        if (id == KITH_ID_NONE) {
            kin_tree_leaf_drop(tree, leaf, lane);
        } else {
            ids[lane++] = id;
        }
    }
    return KITH_OK;
}

void kin_tree_remove(kith_ctx *ctx, const kin_groups *before, const kin_prepared *corpus,
                     const uint32_t *removed, int64_t count, kin_tree *tree)
{
    removing r = {.tree = tree, .before = before, .removed = removed, .count = count};
    (void)kin_parallel_rows(ctx, NULL, kin_tree_leaves(tree), LEAVES_A_TASK, remove_from_leaf, &r);
    tree->points = corpus->groups.count;
    if (tree->blocks > 1 && tree->points * LOOSE < tree->blocks * KIN_TREE_LANES &&
        make_again(ctx, corpus, tree) != KITH_OK) {
        kin_forgive(ctx);
    }
}
