/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_list.h"

#include "base/base_size.h"

/* Lists may take this much beside their k entries before their slack is reduced. */
static const int64_t SLACK_BYTES = 40 << 20;
enum { LEAST_SLACK = 9 };

int64_t kin_lists_capacity(int64_t k, int64_t rows)
{
    const int64_t affordable = SLACK_BYTES / (8 * kin_max_i64(rows, 1));
    const int64_t wished = k + 32;
    return k + kin_max_i64(kin_min_i64(wished, affordable), LEAST_SLACK);
}

/* After a compaction that left `count` entries. A compaction costs as much as its entries, so they
 * may grow by a share of k in between. */
static int32_t next_due(const kin_lists *lists, int64_t count)
{
    return (int32_t)kin_min_i64(lists->capacity, count + lists->k / 2 + 2);
}

/* Where costs are keys a list is compacted to k entries as soon as it is due (next_due). */
kin_lists kin_lists_shape(const kin_set *rows, const kin_set *points, int64_t k)
{
    const bool keys = points->frame->bound == KIN_BOUND_INTEGER;
    const int64_t most = kin_lists_capacity(k, rows->points);
    const int64_t capacity = keys ? kin_min_i64(k + k / 2 + 2, most) : most;
    return (kin_lists){.rows = rows, .points = points, .k = k, .capacity = capacity};
}

static void name_arrays(kin_layout *layout, void *job)
{
    kin_lists *lists = job;
    const uint64_t n = (uint64_t)lists->rows->points;
    const uint64_t entries = kin_size_mul(n, (uint64_t)lists->capacity);
    lists->words = kin_layout_array(layout, entries, sizeof *lists->words);
    lists->counts = kin_layout_zeros(layout, n, sizeof *lists->counts);
    lists->due = kin_layout_array(layout, n, sizeof *lists->due);
    lists->reach = kin_layout_array(layout, n, sizeof *lists->reach);
    lists->reran = kin_layout_zeros(layout, n, sizeof *lists->reran);
}

void kin_lists_plan(kin_layout *plan, kin_lists *shape)
{
    kin_layout_block(plan, name_arrays, shape);
}

kith_status kin_lists_make(kith_ctx *ctx, const kin_set *rows, const kin_set *points,
                           const uint32_t *weights, int64_t k, kin_lists *lists)
{
    *lists = kin_lists_shape(rows, points, k);
    lists->weights = weights;
    KIN_TRY(kin_layout_make(ctx, name_arrays, lists, "candidate lists", &lists->block));
    for (int64_t i = 0; i < rows->points; i++) {
        lists->reach[i] = INFINITY;
        lists->due[i] = next_due(lists, k);
    }
    return KITH_OK;
}

/* The reach that a key proves; costs of integers are keys, and twice that of products. */
double kin_lists_reach(const kin_lists *lists, int64_t row, double key)
{
    const kin_frame *frame = lists->points->frame;
    const kin_screen_kind kind = kin_metric_get_traits(frame->distance.metric)->screen;
    if (frame->bound == KIN_BOUND_INTEGER) {
        return kind == KIN_SCREEN_PRODUCT ? 2.0 * key : key;
    }
    return kin_bound_reach_of_key(frame->bound, key, frame->key_scale, frame->scale,
                                  kin_set_row(lists->rows, row), lists->points->worst);
}

void kin_lists_begin_within(kin_lists *lists, const uint32_t *next, kin_within within)
{
    for (int64_t i = 0; within.keys != NULL && i < lists->rows->points; i++) {
        uint32_t row = lists->rows->ids[i];
        double key = within.keys[row * within.step];
        for (row = next != NULL ? next[row] : KITH_ID_NONE; row != KITH_ID_NONE; row = next[row]) {
            key = fmax(key, within.keys[row * within.step]);
        }
        lists->reach[i] = kin_lists_reach(lists, i, key);
    }
}

void kin_lists_free(kith_ctx *ctx, kin_lists *lists)
{
    kin_free(ctx, lists->block);
    memset(lists, 0, sizeof *lists);
}

static void give_lists(void *ctx, void *lists)
{
    kin_lists_free(ctx, lists);
}

void kin_lists_hold(kin_hold *hold, kin_lists *lists)
{
    kin_hold_take(hold, give_lists, hold->ctx, lists);
}

void kin_list_scratch_name(kin_layout *layout, int64_t capacity, int64_t cols,
                           kin_list_scratch *scratch)
{
    const uint64_t n = (uint64_t)capacity;
    const uint64_t row = (uint64_t)kin_round_up(cols, KIN_METRIC_LANES);
    scratch->query = kin_layout_array(layout, row, sizeof *scratch->query);
    scratch->pairs = kin_layout_array(layout, n, sizeof *scratch->pairs);
    scratch->keys = kin_layout_array(layout, n, sizeof *scratch->keys);
    scratch->ids = kin_layout_array(layout, n, sizeof *scratch->ids);
    scratch->words = kin_layout_array(layout, n, sizeof *scratch->words);
}

static uint32_t id_of(const kin_lists *lists, uint64_t word)
{
    const uint32_t name = (uint32_t)word;
    return lists->points->frame->bound == KIN_BOUND_INTEGER ? name : lists->points->ids[name];
}

static double cost_of(const kin_lists *lists, uint64_t word)
{
    const int32_t order = (int32_t)((uint32_t)(word >> 32) ^ 0x80000000u);
    if (kin_tile_is_float(lists->points->frame->kernel->type)) {
        return (double)kin_float_from_order(order);
    }
    return (double)order;
}

static kin_bound_row bound_of(const kin_lists *lists, uint64_t word)
{
    return kin_set_row(lists->points, (int64_t)(uint32_t)word); /* a position, unless unused */
}

static uint32_t weight_of(const kin_lists *lists, uint32_t id)
{
    return lists->weights == NULL ? 1 : lists->weights[id];
}

/* Brings the entries that hold the first k ids by (cost, name) to the front. Returns how many they
 * are, 0 when there are fewer than k ids. A group of equal rows counts all its ids as soon as its
 * first; at the last cost, groups with a larger first may still own ids that come before its other
 * ids, so they belong to the lead too: never more than k entries, since each has a first. */
static int64_t lead_by_cost(const kin_lists *lists, uint64_t *words, int64_t count)
{
    if (lists->weights == NULL) {
        if (count < lists->k) {
            return 0;
        }
        kin_select_nth_word(words, count, lists->k - 1);
        return lists->k;
    }
    kin_select_sort_words(words, count);
    int64_t ids = 0;
    int64_t lead = 0;
    while (lead < count && ids < lists->k) {
        ids += weight_of(lists, id_of(lists, words[lead++]));
    }
    if (ids < lists->k) {
        return 0;
    }
    const uint64_t last_cost = words[lead - 1] >> 32;
    while (lead < count && lead < lists->k && words[lead] >> 32 == last_cost) {
        lead += 1;
    }
    return lead;
}

/* First by what the costs prove. */
static void compact_by_cost(kin_lists *lists, int64_t row)
{
    const kin_frame *frame = lists->points->frame;
    uint64_t *words = lists->words + row * lists->capacity;
    const int64_t count = lists->counts[row];
    const int64_t lead = lead_by_cost(lists, words, count);
    if (lead == 0) {
        return;
    }
    if (frame->bound == KIN_BOUND_INTEGER) {
        lists->reach[row] = cost_of(lists, words[lead - 1]);
        lists->counts[row] = (int32_t)lead;
        return;
    }
    const kin_bound_row own = kin_set_row(lists->rows, row);
    double reach = kin_set_proves(lists->rows, row) ? -INFINITY : INFINITY;
    for (int64_t i = 0; i < lead; i++) {
        const double proven =
            kin_set_proves(lists->points, (int64_t)(uint32_t)words[i])
                ? kin_bound_reach_of_cost(frame->bound, cost_of(lists, words[i]), frame->kappa,
                                          frame->scale, own, bound_of(lists, words[i]))
                : INFINITY;
        reach = proven <= reach ? reach : proven; /* a NaN stays, and then tightens nothing */
    }
    if (reach < lists->reach[row]) {
        lists->reach[row] = reach;
    }
    int64_t kept = lead; /* its worst is the reach */
    for (int64_t i = lead; i < count; i++) {
        const double limit = kin_bound_limit(frame->bound, lists->reach[row], frame->kappa, own,
                                             bound_of(lists, words[i]));
        if (!(cost_of(lists, words[i]) > limit)) {
            words[kept++] = words[i];
        }
    }
    lists->counts[row] = (int32_t)kept;
}

/* Canonical keys of all entries of a row, sorted by (key, id); `weight` holds the index of the
 * entry. */
static void keys_of_row(const kin_lists *lists, int64_t row, kin_list_scratch *scratch)
{
    const kin_frame *frame = lists->points->frame;
    const uint64_t *words = lists->words + row * lists->capacity;
    const int64_t count = lists->counts[row];
    for (int64_t i = 0; i < count; i++) {
        scratch->ids[i] = id_of(lists, words[i]);
    }
    const kin_query query =
        kin_metric_load(&frame->distance, lists->rows->rows, lists->rows->ids[row], scratch->query);
    kin_metric_keys(&frame->distance, &query, lists->points->rows, scratch->ids, count,
                    scratch->keys);
    for (int64_t i = 0; i < count; i++) {
        scratch->pairs[i] = (kin_pair){scratch->keys[i], scratch->ids[i], (uint32_t)i};
    }
    kin_select_sort_pairs(scratch->pairs, count);
    scratch->keys_computed += count;
}

/* Then by canonical keys: only the entries of the first k ids stay. */
static void compact_by_key(kin_lists *lists, int64_t row, kin_list_scratch *scratch)
{
    const kin_frame *frame = lists->points->frame;
    uint64_t *words = lists->words + row * lists->capacity;
    const int64_t count = lists->counts[row];
    keys_of_row(lists, row, scratch);
    lists->reran[row] = 1;
    int64_t ids = 0;
    int64_t kept = 0;
    while (kept < count && ids < lists->k) {
        const kin_pair *pair = &scratch->pairs[kept];
        ids += weight_of(lists, pair->id);
        scratch->words[kept++] = words[pair->weight];
    }
    if (ids < lists->k) {
        return;
    }
    /* As in lead_by_cost: groups that tie with the last may own ids that come before its others. */
    const double last_key = scratch->pairs[kept - 1].key;
    for (; kept < count && kept < lists->k && scratch->pairs[kept].key == last_key; kept++) {
        scratch->words[kept] = words[scratch->pairs[kept].weight];
    }
    const double reach =
        kin_bound_reach_of_key(frame->bound, last_key, frame->key_scale, frame->scale,
                               kin_set_row(lists->rows, row), lists->points->worst);
    if (reach < lists->reach[row]) {
        lists->reach[row] = reach;
    }
    memcpy(words, scratch->words, (size_t)kept * sizeof *words);
    lists->counts[row] = (int32_t)kept;
}

void kin_lists_compact(kin_lists *lists, int64_t row, kin_list_scratch *scratch)
{
    compact_by_cost(lists, row);
    const int64_t slack = lists->capacity - lists->k;
    const bool unproven = !(lists->reach[row] < (double)INFINITY) && lists->counts[row] >= lists->k;
    if (unproven || lists->counts[row] > lists->capacity - (slack + 1) / 2) {
        compact_by_key(lists, row, scratch);
    }
    lists->due[row] = next_due(lists, lists->counts[row]);
}

/* Where costs are keys, nothing is computed again. */
static int64_t finish_integers(const kin_lists *lists, int64_t row, kin_list_scratch *scratch)
{
    const uint64_t *words = lists->words + row * lists->capacity;
    const int64_t count = lists->counts[row];
    const bool product =
        kin_metric_get_traits(lists->points->frame->distance.metric)->screen == KIN_SCREEN_PRODUCT;
    for (int64_t i = 0; i < count; i++) {
        const double cost = cost_of(lists, words[i]);
        scratch->pairs[i] = (kin_pair){product ? cost / 2 : cost, id_of(lists, words[i]), 0};
    }
    kin_select_sort_pairs(scratch->pairs, count);
    return count;
}

int64_t kin_lists_finish(kin_lists *lists, int64_t row, kin_list_scratch *scratch)
{
    compact_by_cost(lists, row);
    int64_t count = lists->counts[row];
    if (lists->points->frame->bound == KIN_BOUND_INTEGER) {
        count = finish_integers(lists, row, scratch);
    } else {
        keys_of_row(lists, row, scratch);
    }
    for (int64_t i = 0; i < count; i++) {
        scratch->pairs[i].weight = weight_of(lists, scratch->pairs[i].id);
    }
    return count;
}
