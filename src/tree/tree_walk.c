/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A leaf is worth its way through the caches when several queries wait for it. Queries are
 * sorted by the leaf they fall into, sixteen neighbours make a packet, and the packet is what
 * waits: a node is tested for all sixteen at once, one register of bounds, and whoever it may still
 * give something to is a bit of a mask. A leaf is then screened for all whose bit is set, while its
 * points lie in the first cache. The state of a traversal is a stack of (node, mask, bounds), at
 * most one entry a level; the child that more of the queries are nearer to comes first, and what
 * was put off is tested again when its turn comes, because reaches have shrunk.
 *
 *         node 1                 visits      node  waiting           values
 *        /      \                            3     1111111111111111  0.3 0.1 ...
 *      2  <--    3  put off                  5     0011000000110000  0.0 0.2 ...
 *     / \                                    leaf 8: screened for all sixteen
 *    4   5  put off
 *   / \
 *  8   9
 */
#include "tree/tree_walk.h"

#include "host/host_cpu.h"
#include "host/host_threads.h"

/* Lines of a leaf that are asked for in one go: what a core can wait for at a time. */
enum { LINES_AT_ONCE = 12 };

/* ---- Candidates ------------------------------------------------------------------------------ */

int32_t kin_tree_list_capacity(int64_t wanted)
{
    return (int32_t)(wanted > KIN_LIST_SORTED ? 2 * wanted + 8 * KIN_LIST_SLACK
                                              : wanted + KIN_LIST_SLACK);
}

void kin_tree_list_begin(const kin_tree *tree, int64_t wanted, int64_t query, float lost,
                         kin_tree_list *list)
{
    const kin_tree_keep keep =
        kin_tree_keep_of(tree->norm, lost, tree->lost[1], tree->widen, tree->floor);
    list->count = 0;
    list->capacity = kin_tree_list_capacity(wanted);
    list->wanted = (int32_t)wanted;
    list->tightened = false;
    list->keep = INFINITY;
    list->kth = INFINITY;
    list->gain = keep.gain;
    list->more = keep.more;
    list->lost = lost;
    list->query = query;
}

static void drop_above(kin_tree_list *list)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < list->count; i++) {
        if (!(kin_tree_value(list->words[i]) > list->keep)) {
            list->words[kept++] = list->words[i];
        }
    }
    list->count = kept;
}

/* (key, id) of every entry, sorted; a pair's weight is the entry's place in the list. */
static void rank(const kin_tree_list *list, kin_tree_keys *keys)
{
    const kin_query query =
        kin_metric_load(keys->distance, keys->queries, list->query, keys->query);
    for (int32_t i = 0; i < list->count; i++) {
        keys->ids[i] = keys->tree->ids[(uint32_t)list->words[i]];
    }
    kin_metric_keys(keys->distance, &query, keys->corpus, keys->ids, list->count, keys->keys);
    for (int32_t i = 0; i < list->count; i++) {
        keys->pairs[i] = (kin_pair){keys->keys[i], keys->ids[i], (uint32_t)i};
    }
    kin_select_sort_pairs(keys->pairs, list->count);
    keys->computed += list->count;
}

/* Leaves the first `wanted` by (key, id). */
static float settle(kin_tree_list *list, kin_tree_keys *keys)
{
    const kin_tree *tree = keys->tree;
    rank(list, keys);
    list->count = list->wanted;
    for (int32_t i = 0; i < list->count; i++) {
        keys->words[i] = list->words[keys->pairs[i].weight];
    }
    memcpy(list->words, keys->words, (size_t)list->count * sizeof *list->words);
    if (list->wanted <= KIN_LIST_SORTED) {
        kin_select_sort_words(list->words, list->count);
    }
    const float reach = kin_tree_reach(tree, keys->pairs[list->wanted - 1].key, list->lost);
    const float keep = kin_tree_limit(tree->norm, reach, tree->lost[1], tree->widen);
    list->keep = keep < list->keep ? keep : list->keep;
    return reach;
}

/* Makes room in a full list, by values or by keys; returns a reach that keys prove, or INFINITY. */
static float squeeze(kin_tree_list *list, kin_tree_keys *keys)
{
    if (list->wanted > KIN_LIST_SORTED) {
        kin_select_nth_word(list->words, list->count, list->wanted - 1);
        kin_tree_list_note(list, kin_tree_value(list->words[list->wanted - 1]));
        drop_above(list);
        if (list->count <= list->wanted + (list->capacity - list->wanted) / 2) {
            return INFINITY;
        }
    }
    return settle(list, keys);
}

int64_t kin_tree_list_finish(const kin_tree_list *list, kin_tree_keys *keys)
{
    rank(list, keys);
    for (int32_t i = 0; i < list->count; i++) {
        keys->pairs[i].weight = 1;
    }
    return kin_min_i64(list->count, list->wanted);
}

/* ---- A packet on its way --------------------------------------------------------------------- */

/* Asks for some more lines of the leaf that is to come, between other work: asked for all at once
 * they would stand in each other's way, and the core with them. */
static void fetch_ahead(kin_tree_walk *w)
{
    for (int32_t i = 0; i < LINES_AT_ONCE && w->ahead < w->ahead_end; i++) {
        __builtin_prefetch(w->ahead);
        w->ahead += KIN_TREE_LANES;
    }
}

/* Which child comes first: 0 or 1. */
static int32_t nearer_child(const kin_tree_walk *w, int64_t node, const kin_boxes_job *job)
{
    if (job->who[0] == 0 || job->who[1] == 0) {
        return job->who[0] == 0;
    }
    if (job->votes != 0) {
        return job->votes < 0;
    }
    const kin_tree *tree = w->tree;
    const int32_t q = __builtin_ctz(job->who[0]);
    return !(w->columns[(int64_t)tree->planes[node] * KIN_PACKET + q] < tree->splits[node]);
}

/* From a visit down to a leaf, which it becomes; what is passed by goes on the stack, of which *top
 * entries are in use. False: nobody gets to any leaf. */
static bool descend(kin_tree_walk *w, kin_tree_visit *at, int32_t *top)
{
    const kin_tree *tree = w->tree;
    const int64_t leaves = kin_tree_leaves(tree);
    float values[2 * KIN_PACKET];
    kin_boxes_job job = {.cols = tree->cols,
                         .columns = w->columns,
                         .reach = w->reach,
                         .widen = tree->widen,
                         .period = tree->period,
                         .values = values};
    bool moved = false;
    int32_t first = 0;
    while (at->node < leaves && at->waiting != 0) {
        job.boxes = kin_tree_box(tree, 2 * at->node);
        job.lost = tree->lost + 2 * at->node;
        job.waiting = at->waiting;
        w->body->boxes(&job);
        fetch_ahead(w);
        first = nearer_child(w, at->node, &job);
        const int32_t other = 1 - first;
        if (job.who[other] != 0) {
            kin_tree_visit *put_off = &w->visits[(*top)++];
            put_off->node = 2 * at->node + other;
            put_off->waiting = job.who[other];
            memcpy(put_off->values, values + (int64_t)other * KIN_PACKET, sizeof put_off->values);
        }
        at->node = 2 * at->node + first;
        at->waiting = job.who[first];
        moved = true;
    }
    if (moved) {
        memcpy(at->values, values + (int64_t)first * KIN_PACKET, sizeof at->values);
    }
    return at->waiting != 0;
}

/* Reaches may have shrunk since the visit was noted. */
static uint32_t still_waiting(const kin_tree_walk *w, const kin_tree_visit *visit)
{
    return visit->waiting &
           w->body->within(visit->values, w->reach, w->tree->lost[visit->node], w->tree->widen);
}

/* The next leaf that somebody waits for. */
static bool next_leaf(kin_tree_walk *w, kin_tree_visit *leaf, int32_t *top)
{
    while (*top > 0) {
        *leaf = w->visits[--*top];
        leaf->waiting = still_waiting(w, leaf);
        if (descend(w, leaf, top)) {
            return true;
        }
    }
    return false;
}

static void plan_ahead(kin_tree_walk *w, const kin_tree_visit *leaf)
{
    const kin_tree *tree = w->tree;
    const int64_t number = leaf->node - kin_tree_leaves(tree);
    const int64_t floats = (int64_t)KIN_TREE_LANES * tree->cols;
    w->ahead = tree->values + (int64_t)tree->starts[number] * floats;
    w->ahead_end = w->ahead + kin_ceil_div(tree->counts[number], KIN_TREE_LANES) * floats;
    fetch_ahead(w);
}

static void to_list(kin_tree_walk *w, int32_t q)
{
    kin_tree_list *list = &w->lists[q];
    const uint64_t *words = w->words + (int64_t)q * w->room;
    for (int32_t i = 0; i < w->found[q]; i++) {
        if (kin_tree_list_add(list, words[i])) {
            const float reach = squeeze(list, &w->keys);
            w->reach[q] = reach < w->reach[q] ? reach : w->reach[q];
        }
    }
    if (list->tightened) {
        list->tightened = false;
        const kin_tree *tree = w->tree;
        const float reach =
            kin_tree_reach_of_value(tree->norm, list->kth, tree->widen, (double)list->lost,
                                    (double)tree->lost[1], tree->floor);
        w->reach[q] = reach < w->reach[q] ? reach : w->reach[q];
    }
}

static void to_lists(kin_tree_walk *w, uint32_t waiting)
{
    for (; waiting != 0; waiting &= waiting - 1) {
        const int32_t q = __builtin_ctz(waiting);
        if (w->found[q] > 0) {
            to_list(w, q);
        }
    }
}

void kin_tree_walk_leaf(kin_tree_walk *w, int64_t node, uint32_t waiting)
{
    const kin_tree *tree = w->tree;
    const int64_t leaf = node - kin_tree_leaves(tree);
    const int64_t first = tree->starts[leaf];
    const uint32_t count = tree->counts[leaf];
    const kin_leaf_job job = {.values = tree->values + first * KIN_TREE_LANES * tree->cols,
                              .blocks = (int32_t)kin_ceil_div(count, KIN_TREE_LANES),
                              .tail = 0xffffu >> (-count % KIN_TREE_LANES),
                              .first = (uint32_t)(first * KIN_TREE_LANES),
                              .cols = tree->cols,
                              .waiting = waiting,
                              .rows = w->rows,
                              .reach = w->reach,
                              .lost = tree->lost[node],
                              .widen = tree->widen,
                              .period = tree->period,
                              .room = w->room,
                              .counts = w->found,
                              .words = w->words};
    w->body->leaf(&job);
    w->screened(w, waiting);
    const int32_t queries = __builtin_popcount(waiting);
    w->leaves += queries;
    w->pairs += (double)queries * (double)(job.blocks * KIN_TREE_LANES);
}

static void write_rows(kin_tree_walk *w)
{
    const int32_t cols = w->tree->cols;
    for (int32_t c = 0; c < cols; c++) {
        for (int32_t q = 0; q < KIN_PACKET; q++) {
            w->rows[(int64_t)q * cols + c] = w->columns[(int64_t)c * KIN_PACKET + q];
        }
    }
}

void kin_tree_walk_run(kin_tree_walk *w)
{
    int32_t top = 1;
    write_rows(w);
    w->visits[0].node = 1;
    w->visits[0].waiting = w->waiting;
    memset(w->visits[0].values, 0, sizeof w->visits[0].values);
    kin_tree_visit at;
    kin_tree_visit next;
    w->ahead = w->ahead_end = NULL;
    bool more = next_leaf(w, &at, &top);
    while (more) {
        more = next_leaf(w, &next, &top);
        if (more) {
            plan_ahead(w, &next);
        }
        const uint32_t waiting = still_waiting(w, &at);
        if (waiting != 0) {
            kin_tree_walk_leaf(w, at.node, waiting);
        }
        at = next;
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void name_lists(kin_layout *layout, int32_t cols, int64_t wanted, kin_tree_walk *walk)
{
    const uint64_t capacity = (uint64_t)kin_tree_list_capacity(wanted);
    const uint64_t row = (uint64_t)kin_round_up(cols, KIN_METRIC_LANES);
    kin_tree_keys *keys = &walk->keys;
    uint64_t *words = kin_layout_array(layout, kin_size_mul(capacity, KIN_PACKET), sizeof *words);
    for (int32_t q = 0; q < KIN_PACKET && words != NULL; q++) {
        walk->lists[q].words = words + (uint64_t)q * capacity;
    }
    keys->query = kin_layout_array(layout, row, sizeof *keys->query);
    keys->pairs = kin_layout_array(layout, capacity, sizeof *keys->pairs);
    keys->keys = kin_layout_array(layout, capacity, sizeof *keys->keys);
    keys->ids = kin_layout_array(layout, capacity, sizeof *keys->ids);
    keys->words = kin_layout_array(layout, capacity, sizeof *keys->words);
}

static const kin_tree_body *body_of(kin_isa isa, kin_tree_norm norm, int32_t cols, bool wraps)
{
    static const void *const tables[KIN_ISA_COUNT] = KIN_BODIES_WIDE(kin_tree_bodies);
    const kin_tree_bodies *bodies = kin_isa_pick(isa, tables);
    const kin_tree_body *of = wraps ? bodies->wrapped[norm] : bodies->of[norm];
    const int32_t most = wraps ? KIN_TREE_WRAP_COLS : KIN_TREE_CONST_COLS;
    return cols <= most && of[cols].leaf != NULL ? &of[cols] : of;
}

void kin_tree_walk_name(kin_layout *layout, const kin_tree *tree, kin_isa isa, int64_t wanted,
                        kin_tree_walk *walk)
{
    const uint64_t floats = kin_size_mul((uint64_t)tree->cols, KIN_PACKET);
    walk->tree = tree;
    walk->body = body_of(isa, tree->norm, tree->cols, tree->wraps);
    walk->room = (int32_t)(kin_tree_most_blocks(tree) * KIN_TREE_LANES);
    walk->columns = kin_layout_zeros(layout, floats, sizeof *walk->columns);
    walk->rows = kin_layout_array(layout, floats, sizeof *walk->rows);
    walk->words = kin_layout_array(layout, (uint64_t)walk->room * KIN_PACKET, sizeof *walk->words);
    if (wanted > 0) {
        walk->screened = to_lists;
        name_lists(layout, tree->cols, wanted, walk);
    }
}
