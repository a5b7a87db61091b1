/* SPDX-License-Identifier: Apache-2.0
 * The candidates of one query: words value << 32 | position, value being a float32 distance that is
 * not negative, so words are in the order of values.
 *
 * Invariant: every point that was screened against the query and is not in its list comes after
 * `wanted` others in the order (canonical key, id). Short lists are kept sorted; long ones are
 * squeezed when they are full. Where values cannot tell enough points apart, canonical keys do
 * (kin_tree_list_squeeze), and `wanted` entries are left: nothing is dropped for want of room.
 */
#ifndef KIN_TREE_LIST_H
#define KIN_TREE_LIST_H

#include "select/select_pairs.h"
#include "tree/tree.h"

/* Up to so many are kept sorted. */
enum { KIN_LIST_SORTED = 48, KIN_LIST_SLACK = 16, KIN_LIST_SHORT = 16 };

typedef struct kin_tree_list {
    uint64_t *words;
    int32_t count;
    int32_t capacity;
    int32_t wanted;
    bool tightened; /* kth has changed since the reach was computed */
    float kth;      /* the smallest value of a k-th so far */
    float keep;     /* values above it are not needed; holds for all leaves */
    float gain;     /* keep = value of the k-th * gain + more */
    float more;
    float lost;    /* of the query */
    int64_t query; /* its row */
} kin_tree_list;

/* What a thread needs to compute canonical keys. */
typedef struct kin_tree_keys {
    const kin_tree *tree;
    const kin_distance *distance;
    const kin_rows *corpus;
    const kin_rows *queries;
    double *query;
    kin_pair *pairs; /* capacity of each */
    double *keys;
    uint32_t *ids;
    uint64_t *words;
    int64_t computed;
} kin_tree_keys;

int32_t kin_tree_list_capacity(int64_t wanted);

/* An empty list for a query. */
void kin_tree_list_begin(const kin_tree *tree, int64_t wanted, int64_t query, float lost,
                         kin_tree_list *list);
/* Makes room in a full list, by values or by keys; returns a reach that keys prove, or INFINITY. */
float kin_tree_list_squeeze(kin_tree_list *list, kin_tree_keys *keys);
/* The end: canonical keys of what is left, sorted by (key, id), in keys->pairs, weights 1. Returns
 * how many: `wanted`, or all there are. */
int64_t kin_tree_list_finish(const kin_tree_list *list, kin_tree_keys *keys);

static inline float kin_tree_value(uint64_t word)
{
    const uint32_t bits = (uint32_t)(word >> 32);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void kin_tree_list_note(kin_tree_list *list, float kth)
{
    const float keep = kth * list->gain + list->more;
    if (keep < list->keep) {
        list->keep = keep;
        list->kth = kth;
        list->tightened = true;
    }
}

/* Enters a word into `count` sorted ones; returns its place. Short lists are passed through as a
 * whole: where the word stops cannot be guessed, and a wrong guess costs as much as ten places. */
static inline int32_t kin_tree_list_insert(uint64_t *words, int32_t count, uint64_t word)
{
    int32_t at = count;
    if (count > KIN_LIST_SHORT) {
        for (; at > 0 && words[at - 1] > word; at--) {
            words[at] = words[at - 1];
        }
        words[at] = word;
        return at;
    }
    for (int32_t i = 0; i < count; i++) {
        const uint64_t other = words[i];
        const bool later = other > word;
        words[i] = later ? word : other;
        word = later ? other : word;
        at -= later;
    }
    words[count] = word;
    return at;
}

/* One more candidate; true: the list is full and must be squeezed before the next one. */
static inline bool kin_tree_list_add(kin_tree_list *list, uint64_t word)
{
    if (kin_tree_value(word) > list->keep) {
        return false;
    }
    uint64_t *words = list->words;
    int32_t at = list->count++;
    if (list->wanted > KIN_LIST_SORTED) {
        words[at] = word;
        return list->count == list->capacity;
    }
    at = kin_tree_list_insert(words, at, word);
    if (list->count >= list->wanted) {
        if (at < list->wanted) {
            kin_tree_list_note(list, kin_tree_value(words[list->wanted - 1]));
        }
        while (kin_tree_value(words[list->count - 1]) > list->keep) {
            list->count -= 1;
        }
    }
    return list->count == list->capacity;
}

#endif
