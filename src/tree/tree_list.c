/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/tree_list.h"

#include "base/base_size.h"

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

float kin_tree_list_squeeze(kin_tree_list *list, kin_tree_keys *keys)
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
