/* SPDX-License-Identifier: Apache-2.0
 * The graph while it descends: a list of words (descent_word.h) a point, and offers that wait to
 * come into it.
 *
 *   list      ascending, no position twice, never its own; KIN_DESCENT_EMPTY behind
 *   worst     order of a list's last word: what is not below it cannot come in
 *   offers    `slots` a point; an offer goes to the slot that its position's hash names, and the
 *             least of a slot stays
 *
 * In rounds lists change in kin_descent_list_merge alone, offers come in between: whoever offers
 * reads lists that stand still. */
#ifndef KIN_DESCENT_DESCENT_LISTS_H
#define KIN_DESCENT_DESCENT_LISTS_H

#include "base/base_layout.h"
#include "descent/descent_word.h"

typedef struct kin_descent_lists {
    int64_t points;
    int32_t length;  /* entries a list */
    int32_t slots;   /* offers that a point takes in a round */
    uint64_t *words; /* points x length */
    uint32_t *worst;
    _Atomic uint64_t *offers; /* points x slots */
} kin_descent_lists;

/* Slots of lists of this length. */
int32_t kin_descent_lists_slots(int32_t length);
void kin_descent_lists_name(kin_layout *layout, int64_t points, int32_t length,
                            kin_descent_lists *lists);
/* Empty lists, no offers: as they have to begin. */
void kin_descent_lists_clear(const kin_descent_lists *lists);

static inline uint64_t *kin_descent_list(const kin_descent_lists *lists, int64_t position)
{
    return lists->words + position * lists->length;
}

/* Entries of a list. */
int32_t kin_descent_list_count(const kin_descent_lists *lists, int64_t position);

/* After words were written: worst[] of a list. */
static inline void kin_descent_list_measure(const kin_descent_lists *lists, int64_t position)
{
    lists->worst[position] = (uint32_t)(kin_descent_list(lists, position)[lists->length - 1] >> 32);
}

/* Whether the list has this position at this order, new or not. */
bool kin_descent_list_holds(const kin_descent_lists *lists, int64_t position, uint64_t word);

/* Offers `word` to the list of `to`, whose own position it is not. Any thread, at any time between
 * merges: a minimum is the same in any order. A word that is as far as the list's last is of no use
 * and stays out. salt: the same in a round, another in the next, so that two that met in a slot do
 * not meet again. */
static inline void kin_descent_list_offer(const kin_descent_lists *lists, uint32_t to,
                                          uint64_t word, uint64_t salt)
{
    if ((uint32_t)(word >> 32) >= lists->worst[to] || kin_descent_list_holds(lists, to, word)) {
        return;
    }
    const uint32_t hash = kin_descent_hash(salt, kin_descent_position(word));
    _Atomic uint64_t *slot =
        lists->offers + (int64_t)to * lists->slots + kin_descent_slot(hash, (uint32_t)lists->slots);
    uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
    while (word < seen && !atomic_compare_exchange_weak_explicit(
                              slot, &seen, word, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Puts `count` words, in any order and of any positions but the own, into a list: what is there
 * already (the same position at the same order) stays as it is, what does not fit goes. Sorts
 * words. scratch: `length` words. Returns how many came. */
int32_t kin_descent_list_join(const kin_descent_lists *lists, int64_t position, uint64_t *words,
                              int32_t count, uint64_t *scratch);

/* The first `sampled` NEW entries become OLD; then the offers go to the list, and their slots are
 * empty. scratch: slots + length words. Returns how many came. */
int32_t kin_descent_list_merge(const kin_descent_lists *lists, int64_t position, int32_t sampled,
                               uint64_t *scratch);

/* Whether a list is what it has to be: ascending, distinct, without its own position, nothing
 * behind an empty place, positions below `points`. For tests. */
bool kin_descent_list_is_sound(const kin_descent_lists *lists, int64_t position);

#endif
