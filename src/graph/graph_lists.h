/* SPDX-License-Identifier: Apache-2.0
 * The graph while it descends: a list of words (graph_word.h) a point, and offers that wait to
 * come into it.
 *
 *   list      ascending, no position twice, never its own; KIN_GRAPH_EMPTY behind
 *   worst     order of a list's last word: what is not below it cannot come in
 *   offers    `slots` a point; an offer goes to the slot that its position's hash names, and the
 *             least of a slot stays
 *
 * In rounds lists change in kin_graph_list_merge alone, offers come in between: whoever offers
 * reads lists that stand still. */
#ifndef KIN_GRAPH_LISTS_H
#define KIN_GRAPH_LISTS_H

#include "graph/graph_join.h"

typedef struct kin_graph_lists {
    int64_t points;
    int32_t length;  /* entries a list */
    int32_t slots;   /* offers that a point takes in a round */
    uint64_t *words; /* points x length */
    uint32_t *worst;
    _Atomic uint64_t *offers; /* points x slots */
} kin_graph_lists;

/* Slots of lists of this length. */
int32_t kin_graph_lists_slots(int32_t length);
void kin_graph_lists_name(kin_layout *layout, int64_t points, int32_t length,
                          kin_graph_lists *lists);
/* Empty lists, no offers: as they have to begin. */
void kin_graph_lists_clear(const kin_graph_lists *lists);

static inline uint64_t *kin_graph_list(const kin_graph_lists *lists, int64_t position)
{
    return lists->words + position * lists->length;
}

/* Entries of a list. */
int32_t kin_graph_list_count(const kin_graph_lists *lists, int64_t position);

/* After words were written: worst[] of a list. */
static inline void kin_graph_list_measure(const kin_graph_lists *lists, int64_t position)
{
    lists->worst[position] = (uint32_t)(kin_graph_list(lists, position)[lists->length - 1] >> 32);
}

/* Whether the list has this position at this order, new or not. */
bool kin_graph_list_holds(const kin_graph_lists *lists, int64_t position, uint64_t word);

/* Offers `word` to the list of `to`, whose own position it is not. Any thread, at any time between
 * merges: a minimum is the same in any order. A word that is as far as the list's last is of no use
 * and stays out. salt: the same in a round, another in the next, so that two that met in a slot do
 * not meet again. */
static inline void kin_graph_list_offer(const kin_graph_lists *lists, uint32_t to, uint64_t word,
                                        uint64_t salt)
{
    if ((uint32_t)(word >> 32) >= lists->worst[to] || kin_graph_list_holds(lists, to, word)) {
        return;
    }
    const uint32_t hash = kin_graph_hash(salt, kin_graph_position(word));
    _Atomic uint64_t *slot =
        lists->offers + (int64_t)to * lists->slots + kin_graph_slot(hash, (uint32_t)lists->slots);
    uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
    while (word < seen && !atomic_compare_exchange_weak_explicit(
                              slot, &seen, word, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Puts `count` words, in any order and of any positions but the own, into a list: what is there
 * already (the same position at the same order) stays as it is, what does not fit goes. Sorts
 * words. scratch: `length` words. Returns how many came. */
int32_t kin_graph_list_join(const kin_graph_lists *lists, int64_t position, uint64_t *words,
                            int32_t count, uint64_t *scratch);

/* The first `sampled` NEW entries become OLD; then the offers go to the list, and their slots are
 * empty. scratch: slots + length words. Returns how many came. */
int32_t kin_graph_list_merge(const kin_graph_lists *lists, int64_t position, int32_t sampled,
                             uint64_t *scratch);

/* Samples of a round (the paper's section 4.1): who meets at a point. Of each kind, NEW and OLD:
 *
 *   forward   the first p entries of that kind in the point's own list
 *   reverse   up to p of those in whose forward samples the point is
 *
 * A reverse edge goes to the slot of its target that a hash names; of what meets in a slot the
 * least stays, so that no edge waits for another and any number of threads leaves the same. To make
 * the choice random, and another one for each target, a slot holds the sampler's number after a
 * permutation of all 32-bit numbers that depends on target and round, and is read by its inverse.
 */

/* Which of a target's slots: twice as many as are wanted, so that few edges are lost to others. */
enum { KIN_GRAPH_SLOTS_A_SAMPLE = 2 };

typedef struct kin_graph_samples {
    int64_t points;
    int32_t most;             /* p */
    int32_t slots;            /* of each kind a point */
    _Atomic uint32_t *to_new; /* points x slots; UINT32_MAX: empty */
    _Atomic uint32_t *to_old;
} kin_graph_samples;

void kin_graph_samples_name(kin_layout *layout, int64_t points, int32_t most,
                            kin_graph_samples *samples);

/* Empties the slots of points [first, last). */
void kin_graph_samples_clear(const kin_graph_samples *samples, int64_t first, int64_t last);

/* Tells the forward samples of a point that it has them. Any thread; slots are all empty before the
 * first of a round. */
void kin_graph_samples_tell(const kin_graph_samples *samples, const kin_graph_lists *lists,
                            uint32_t position, uint64_t salt);

/* Who meets at a point: both kinds, distinct, the point itself not among them, and who is NEW is
 * not OLD, too. The NEW ones stand first. */
typedef struct kin_graph_joined {
    uint32_t *positions; /* room for 4 p */
    int32_t new_count;
    int32_t old_count;
} kin_graph_joined;

/* A thread's set of the positions that it has seen at a point: open, never more than half full. */
typedef struct kin_graph_seen {
    uint64_t *cells; /* number of the meeting << 32 | position */
    uint32_t mask;
    uint32_t meeting;
} kin_graph_seen;

void kin_graph_seen_name(kin_layout *layout, int32_t most, kin_graph_seen *seen);

/* After all have told. Where nobody is NEW, nobody is OLD either: they have met. */
void kin_graph_samples_meet(const kin_graph_samples *samples, const kin_graph_lists *lists,
                            uint32_t position, uint64_t salt, kin_graph_seen *seen,
                            kin_graph_joined *meeting);

/* A round (the paper's Algorithm 1, lines 7 to 35): samples tell their targets, samples of a point
 * meet and are offered to each other's lists, lists take what was offered. Three passes over the
 * points, each parallel, none with a lock; the result does not depend on threads. */

/* What a thread needs. */
typedef struct kin_graph_thread {
    kin_graph_join matcher;
    kin_graph_seen seen;
    kin_graph_joined meetings[2]; /* the one that is matched, and the next, whose rows are on
                                        their way from memory */
    uint64_t *words;  /* nearest samples of a meeting; or a list's offers and its next state */
    uint32_t *across; /* samples of a meeting, by set */
    uint32_t *worst;  /* of each sample of a meeting: kin_graph_lists.worst */
    uint32_t *orders; /* of what comes into one list at the start, and before them its positions */
    int64_t updates;
} kin_graph_thread;

typedef struct kin_graph_rounds {
    kith_ctx *ctx;
    const kin_graph_points *points;
    kin_graph_lists lists;
    kin_graph_samples samples;
    kin_graph_thread *workers; /* by thread */
    uint64_t seed;
    uint64_t salt; /* of the round that runs */
    bool all;      /* every pair is offered, not the nearest alone */
    int64_t split; /* rows below are one set, the others another, and samples of one set do not
                      meet; 0: all meet. A position's set is that of its first row */
    int32_t length;
    int32_t candidates;
    int32_t threads;
    void *block;
} kin_graph_rounds;

/* seed, all and split are set by the caller. points stays. */
kith_status kin_graph_rounds_make(kith_ctx *ctx, const kin_graph_points *points, int32_t length,
                                  int32_t candidates, kin_graph_rounds *rounds);
void kin_graph_rounds_free(kin_graph_rounds *rounds);
/* What it holds, of points that are a shape. */
void kin_graph_rounds_plan(kin_layout *plan, const kin_graph_points *points, int32_t length,
                           int32_t candidates, int32_t threads);

/* Round `number`, from 1; *updates: entries that came into lists. */
kith_status kin_graph_round_run(kin_graph_rounds *rounds, int32_t number, int64_t *updates);

/* The meeting of a round with a split: NEW and NEW, and NEW and OLD, of different sets alone, are
 * compared, and offered as in any round. */
kith_status kin_graph_meet_across(const kin_graph_rounds *rounds, kin_graph_thread *worker,
                                  const kin_graph_joined *meeting);

/* Two graphs made one as Wang, Zhao, Zeng 2021 have it (section 5.1, algorithm 3): the farther
 * half of each list is put aside before the first round, and comes back after the last. */

/* Words that a list puts aside at most: points x this many are `aside`. */
static inline int32_t kin_graph_halves(int32_t length)
{
    return length / 2;
}

/* Lists keep their nearer half, the middle one of an odd number too; KIN_GRAPH_EMPTY behind. */
void kin_graph_halves_cut(const kin_graph_lists *lists, uint64_t *aside);
/* The nearest of both stay. Sorts what was put aside. */
kith_status kin_graph_halves_join(kin_graph_rounds *rounds, uint64_t *aside);

/* KITH_E_DATA where a caller's own function gave a NaN, which no order has a place for. */
kith_status kin_graph_check_orders(const kin_graph_rounds *rounds, const uint32_t *orders,
                                   int64_t count);

#endif
