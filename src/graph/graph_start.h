/* SPDX-License-Identifier: Apache-2.0
 * What descents on both machines begin and end with: lists, samples, rounds, halves, the finish
 * and control; and the start where there are cells (graph_cells.h): a point meets the members of
 * its nearest ones, of more and more of them, until little is new. */
#ifndef KIN_GRAPH_START_H
#define KIN_GRAPH_START_H

#include "exact/exact_answer.h"
#include "graph/graph.h"
#include "graph/graph_join.h"

/* ---- The graph while it descends ------------------------------------------------------------- */

/* The graph while it descends: a list of words (graph_word.h) a point, and offers that wait to
 * come into it.
 *
 *   list      ascending, no position twice, never its own; KIN_GRAPH_EMPTY behind
 *   worst     order of a list's last word: what is not below it cannot come in
 *   offers    `slots` a point; an offer goes to the slot that its position's hash names, and the
 *             least of a slot stays
 *
 * In rounds lists change in kin_graph_list_merge alone, offers come in between: whoever offers
 * reads lists that stand still. */

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

/* The least of all that come stays, in whatever order they come. */
static inline void kin_graph_leave_least(_Atomic uint64_t *slot, uint64_t word)
{
    uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
    while (word < seen && !atomic_compare_exchange_weak_explicit(
                              slot, &seen, word, memory_order_relaxed, memory_order_relaxed)) {
    }
}

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
    kin_graph_leave_least(lists->offers + (int64_t)to * lists->slots +
                              kin_graph_slot(hash, (uint32_t)lists->slots),
                          word);
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
    KIN_APART kin_graph_join matcher;
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

typedef struct kin_graph_started {
    double evaluations;
    bool settled; /* the last cells brought little that is new */
} kin_graph_started;

/* Lists that start. */
typedef struct kin_graph_starting {
    const kin_graph_points *points; /* with a kernel, of a symmetric metric */
    double share;         /* of all pairs, (0, 1), that may be looked at; a small one still has the
                             nearest few */
    const uint8_t *sides; /* of each position, where two graphs are made one (kin_graph_sides) */
    int32_t wanted;       /* entries, at most length */
    int32_t length;
    uint64_t *words; /* count x length */
    /* After some more cells: whether the lists will do. NULL: nobody asks */
    kith_status (*judge)(void *arg, bool *enough);
    void *judge_arg;
} kin_graph_starting;

/* Fills words, each row ascending: of what its position met the least by (order, position), itself
 * left out, all marked new, some more than `wanted`; KIN_GRAPH_EMPTY behind. Orders are those of
 * kin_graph_join_run. The same bytes whatever the threads. Without sides. started: zeros. */
kith_status kin_graph_start_screen(kith_ctx *ctx, const kin_graph_starting *start,
                                   kin_graph_started *started);
/* The same where two graphs are made one: words has their lists, as kin_graph_fill_graph left
 * them. The `wanted` nearest that a position meets on the other side join its list, and are new. */
kith_status kin_graph_start_across(kith_ctx *ctx, const kin_graph_starting *start,
                                   kin_graph_started *started);
/* What a start has to do, for its plan. */
typedef struct kin_graph_start_size {
    const kin_frame *frame;
    int64_t points;
    double share;
    int32_t length;
    int32_t threads;
    bool cheapest; /* where the first cells bring most */
} kin_graph_start_size;
/* What it takes while it runs. */
void kin_graph_start_plan(kin_layout *plan, const kin_graph_start_size *size);

/* Lists before the first round: from a graph that is given, and at random. */

/* Rows in the order of positions: owner[row] is the position of its group, KITH_ID_NONE of
 * degenerate rows. owner: a number for each row of the matrix. */
void kin_graph_owners(const kin_prepared *prepared, uint32_t *owner);

/* sides: a number for each position. */
void kin_graph_sides(const kin_prepared *prepared, int64_t split, uint8_t *sides);

/* The ids of request->init, a row for each row of the matrix, come into the lists of their groups,
 * marked new; of a group the row of its first. Ids that are no row's are passed over. Of a merge:
 * the ids of init and init2, not marked new; of a group the rows of the first in each set. */
kith_status kin_graph_fill_graph(kin_graph_rounds *rounds, const kin_graph_request *request,
                                 const uint32_t *owner);

/* Lists get `each` positions, not the own, which are marked new. */
kith_status kin_graph_fill_ids(kin_graph_rounds *rounds, const uint32_t *ids, int32_t each);

/* Free places of all lists get positions of the other set, which seed and place draw, marked new
 * (kin_graph_row_across); who stands in both sets is of the one below. request: with a split. */
kith_status kin_graph_fill_across(kin_graph_rounds *rounds, const kin_graph_request *request,
                                  const uint32_t *owner);

/* Lists of fewer than `least` entries get positions that seed and place draw; where near rows stand
 * together (`ordered`), half of them from the places around. Draws may meet: a list of a small set
 * may stay short. */
kith_status kin_graph_fill_random(kin_graph_rounds *rounds, int32_t least, bool ordered);

/* The start of metrics without matrix products. Each has a relative that has them: near under one
 * is mostly near under the other.
 *
 *   chi2, kl                 |sqrt a - sqrt b|^2: of shares that are close, any divergence is this
 *                            one times a number (Csiszar 1967)
 *   jaccard                  the cosine of the patterns, zeros and ones
 *   manhattan, chebyshev     the Euclidean distance, which lies between them, as those of
 *   minkowski                other powers do
 *
 * So the graph of the relative is made first, approximately, and is what rounds begin with: a pair
 * costs it a hundredth of a pair of the metric itself. */

bool kin_graph_has_relative(kith_metric metric);

/* A descent under the relative: what it is asked for, and room for its ids. */
typedef struct kin_graph_relative {
    kin_graph_request request;
    kith_matrix rows; /* by position */
    uint32_t *ids;    /* rows x request.k */
} kin_graph_relative;

/* Without values and ids. request: of the descent that starts, complete. */
kin_graph_relative kin_graph_relative_of(const kin_graph_request *request, int64_t rows);
/* Its rows, and room for ids. */
kith_status kin_graph_relative_make(kin_hold *hold, const kin_graph_points *points,
                                    kin_graph_relative *near);

/* Crowds. 32 positions that stand together are near each other, and so is what they have to meet:
 * it is gathered once, and all of the crowd meets all of it in one dense product. A crowd meets
 * what its lists name, forward and reverse, and what the lists of those name: a point meets a
 * thousand others for the price of a few rows.
 *
 * Who is nearer than the end of a list comes into it. Crowds write their own lists alone, from
 * those of before: no locks, and the same bytes whatever the threads. */

enum { KIN_GRAPH_CROWD = 32 };

typedef struct kin_graph_expanded {
    double evaluations;
    int64_t updates; /* entries that came among the first `watched` of a list */
} kin_graph_expanded;

/* An expansion of lists in place, with a reach that suits most data. Of the words that are marked
 * new the expansion before has brought them. points: with a kernel. */
kith_status kin_graph_expand_lists(kith_ctx *ctx, const kin_graph_points *points,
                                   const kin_graph_lists *lists, int32_t watched,
                                   kin_graph_expanded *expanded);
/* What it takes while it runs. */
void kin_graph_expand_lists_plan(kin_layout *plan, const kin_frame *frame, int64_t points,
                                 int32_t length, int32_t threads);

/* ---- The end --------------------------------------------------------------------------------- */

/* From lists to answers: canonical keys, sorted by (key, id), equal rows expanded. Costs only
 * choose whose keys are computed. */

typedef struct kin_graph_finish_thread {
    KIN_APART kin_list_scratch scratch;
    kin_graph_join matcher; /* of one meeting: what the own position costs */
    kin_answer answer;
    kin_pair *scanned; /* groups of a scan */
} kin_graph_finish_thread;

typedef struct kin_graph_finish {
    kith_ctx *ctx;
    const kin_prepared *prepared;
    const kin_graph_points *points; /* NULL, and no lists: every row is scanned */
    const kin_graph_lists *lists;
    int64_t wanted; /* ids a row, its own among them where it may be left out */
    int64_t capacity;
    int32_t threads;
    kin_graph_finish_thread *finishers; /* by thread */
} kin_graph_finish;

/* wanted is cut to the rows that there are. points and lists may be NULL, both. */
kith_status kin_graph_finish_make(kin_hold *hold, const kin_prepared *prepared,
                                  const kin_graph_points *points, const kin_graph_lists *lists,
                                  int64_t wanted, kin_graph_finish *finish);
/* What it holds, of points that are a shape and lists of this length. */
void kin_graph_finish_plan(kin_layout *plan, const kin_graph_points *points, int32_t length,
                           int64_t wanted, int32_t threads);

/* All rows, the degenerate ones too. Lists that are short are scanned for. *keys: canonical keys
 * that were computed. */
kith_status kin_graph_finish_write(kin_graph_finish *finish, uint32_t flags,
                                   const kith_neighbors *out, double *keys);

/* Rows that are solved exactly, so that lists can be judged while they descend. */

/* Where control points are looked for. */
typedef struct kin_graph_look {
    const kin_prepared *prepared;
    const kin_graph_points *points; /* NULL, */
    const kin_graph_lists *lists;   /* and NULL: all groups are scanned, which is the truth */
    const kin_graph_request *request;
    const uint32_t *owner; /* kin_graph_owners */
} kin_graph_look;

/* Of a list, expanded, of the control `which`, its own id apart: the first `at` keys to
 * control->found, and the sum of the first k distances. */
double kin_graph_control_take(const kin_graph_request *request, const kin_answer *answer,
                              int64_t which);

/* Fills control->found and *phi (kin_graph_round) from lists as they are. */
kith_status kin_graph_control_look(kith_ctx *ctx, const kin_graph_look *look, double *phi);

#endif
