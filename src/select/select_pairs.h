/* SPDX-License-Identifier: Apache-2.0
 * Small sorted lists: order (key, id) pairs, find the k-th of 64-bit words. Knows nothing of
 * distances. */
#ifndef KIN_SELECT_PAIRS_H
#define KIN_SELECT_PAIRS_H

#include "select/select_word.h"

/* One candidate with its canonical key. Ordered by (key, id); keys are never NaN. */
typedef struct kin_pair {
    double key;
    uint32_t id;
    uint32_t weight; /* how many ids this one stands for; at least 1 */
} kin_pair;

static inline int kin_pair_less(const kin_pair *a, const kin_pair *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

/* Ascending by (key, id). n log n at worst, in place, not stable (the order is total). */
void kin_select_sort_pairs(kin_pair *pairs, int64_t count);

/* The same for plain words. */
void kin_select_sort_words(uint64_t *words, int64_t count);
void kin_select_sort_words128(kin_word128 *words, int64_t count);

/* A number that at least k of the values do not exceed, not far above the k-th of them; they are
 * KIN_SELECT_BOUND_MOST or more, and 1 <= k <= KIN_SELECT_BOUND_MOST. Of values with NaN among them
 * it is any number. */
enum { KIN_SELECT_BOUND_MOST = 32 };
double kin_select_bound(const double *values, int64_t count, int64_t k);

/* Reorders words so that words[k] is what sorting would put there, smaller ones before it and
 * larger ones behind. 0 <= k < count. Linear on average; falls back to sorting. */
void kin_select_nth_word(uint64_t *words, int64_t count, int64_t k);
void kin_select_nth_word128(kin_word128 *words, int64_t count, int64_t k);

#endif
