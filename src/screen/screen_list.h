/* SPDX-License-Identifier: Apache-2.0
 * Candidate lists: for each row of one set, the points of another that may still be among its k
 * nearest. A list is a buffer that is compacted when it is due; each compaction tightens the row's
 * reach, so that later candidates fail in the screen.
 *
 * Invariant: every point that was screened against the row and is not in its list has been proven
 * to come after k others in the order (canonical key, id). No candidate is ever dropped for want of
 * room: what the cheap costs cannot separate is separated by canonical keys
 * (docs/notes/numerics.md, "Ends").
 *
 * An entry is a 64-bit word, order of the cost above, name of the candidate below: its id where
 * costs are keys (ties go to the smaller id), its position elsewhere.
 *
 * Concurrency: rows are independent; the caller sees to it that one thread works on a row.
 */
#ifndef KIN_SCREEN_LIST_H
#define KIN_SCREEN_LIST_H

#include "screen/screen_set.h"
#include "select/select_word.h"

/* What is known of rows before they are searched: of row i no neighbour with a key above
 * keys[i * step] is wanted, and its answer may be short. keys NULL: nothing is known. */
typedef struct kin_within {
    const double *keys;
    int64_t step;
} kin_within;

typedef struct kin_lists {
    const kin_set *rows;
    const kin_set *points;   /* the candidates' */
    const uint32_t *weights; /* by id of a candidate: how many equal rows it stands for; NULL: 1 */
    int64_t k;               /* ids wanted */
    int64_t capacity;        /* entries a list, above k */
    uint64_t *words;
    int32_t *counts;
    int32_t *due;  /* at this many entries the list is compacted again, full or not: the sooner, the
                      tighter the reach */
    double *reach; /* screen_bound.h; INFINITY until k ids were seen */
    uint8_t *reran; /* 1: canonical keys were needed before the end */
    void *block;
} kin_lists;

/* What one thread needs to compute canonical keys. */
typedef struct kin_list_scratch {
    KIN_APART double *query;
    kin_pair *pairs; /* capacity of them, as keys, ids and words */
    double *keys;
    uint32_t *ids;
    uint64_t *words;
    int64_t keys_computed;
} kin_list_scratch;

/* The arrays of a scratch for lists of this capacity and rows of `cols` components. */
void kin_list_scratch_name(kin_layout *layout, int64_t capacity, int64_t cols,
                           kin_list_scratch *scratch);

/* Entries a list that keep the average cost of a candidate small. */
int64_t kin_lists_capacity(int64_t k, int64_t rows);
/* Lists without arrays, of sets that may be shapes; and what kin_lists_make holds of such. */
kin_lists kin_lists_shape(const kin_set *rows, const kin_set *points, int64_t k);
void kin_lists_plan(kin_layout *plan, kin_lists *shape);

/* What a key lets through, as the reach of a row. */
double kin_lists_reach(const kin_lists *lists, int64_t row, double key);

kith_status kin_lists_make(kith_ctx *ctx, const kin_set *rows, const kin_set *points,
                           const uint32_t *weights, int64_t k, kin_lists *lists);
void kin_lists_free(kith_ctx *ctx, kin_lists *lists);
/* By the end of the hold, whose scope they live in. */
void kin_lists_hold(kin_hold *hold, kin_lists *lists);
/* Reaches from what is known. next: groups of equal rows (screen_prepare.h), which have one list.
 */
void kin_lists_begin_within(kin_lists *lists, const uint32_t *next, kin_within within);

/* Whether entries are named by id. */
static inline bool kin_lists_by_id(const kin_lists *lists)
{
    return lists->points->frame->bound == KIN_BOUND_INTEGER;
}

/* Makes room in a full list and tightens the row's reach. */
void kin_lists_compact(kin_lists *lists, int64_t row, kin_list_scratch *scratch);

/* One more candidate. Returns whether the row's reach may have changed. */
static inline bool kin_lists_add(kin_lists *lists, int64_t row, int32_t order, uint32_t name,
                                 kin_list_scratch *scratch)
{
    const int32_t count = lists->counts[row]++;
    lists->words[row * lists->capacity + count] =
        (uint64_t)((uint32_t)order ^ 0x80000000u) << 32 | name;
    if (count + 1 < lists->due[row]) {
        return false;
    }
    kin_lists_compact(lists, row, scratch);
    return true;
}

/* The end: the first entries of the row in the order (canonical key, id), in scratch->pairs, with
 * weights: all that are needed for k ids, or all that there are. Returns how many. */
int64_t kin_lists_finish(kin_lists *lists, int64_t row, kin_list_scratch *scratch);

#endif
