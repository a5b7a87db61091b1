/* SPDX-License-Identifier: Apache-2.0
 * From candidates to answers: equal rows are expanded, degenerate rows join, one id is left out,
 * and the first k are written. */
#ifndef KIN_EXACT_ANSWER_H
#define KIN_EXACT_ANSWER_H

#include "base/base_mem.h"
#include "screen/screen_prepare.h"

/* A thread's room for the list of one row. */
typedef struct kin_answer {
    KIN_APART const kin_groups *groups; /* of the corpus */
    kith_metric metric;
    int64_t wanted; /* k, and one more where an id may be left out */
    kin_pair *list; /* wanted of them */
    int64_t count;
    uint32_t *heap; /* cursors of tied groups, wanted of them */
    void *block;    /* of kin_answer_make */
} kin_answer;

/* Its arrays, by `wanted`; all else is the caller's to set. */
void kin_answer_name(kin_layout *layout, kin_answer *answer);

kith_status kin_answer_make(kith_ctx *ctx, const kin_groups *groups, kith_metric metric,
                            int64_t wanted, kin_answer *answer);
void kin_answer_free(kith_ctx *ctx, kin_answer *answer);

/* The list of a row: groups (sorted by (key, first), as many as hold the wanted ids, or all there
 * are) expanded into ids in the order (key, id), degenerate rows among them at key 1, cut at
 * `wanted`. */
void kin_answer_expand(kin_answer *answer, const kin_pair *groups, int64_t count);
/* The list of a degenerate row: every row is at distance 1, so the lowest ids. */
void kin_answer_degenerate(kin_answer *answer);

/* One entry, to the arrays that there are. */
void kin_answer_put(const kith_neighbors *out, int64_t at, uint32_t id, double distance);

/* Writes the first out->k of the list, `left_out` not among them, as row `row`. Whether there were
 * that many: where there were not, a candidate was lost, and the answer must not be given out. */
bool kin_answer_write(const kin_answer *answer, uint32_t left_out, const kith_neighbors *out,
                      int64_t row);

/* Slots [first, last) of the arrays that there are hold nothing: KITH_ID_NONE, as far as can be. */
void kin_answer_empty(kith_metric metric, const kith_neighbors *out, int64_t first, int64_t last);

/* Where the lists of a side go. */
typedef struct kin_answer_target {
    const kin_groups *groups; /* of the side whose rows are written */
    const uint32_t *exclude;  /* by row, or NULL */
    bool leaves_self_out;
    bool may_be_short; /* a limit's: what is not written is empty already */
    const kith_neighbors *out;
} kin_answer_target;

/* The same list for every row of the group of `first`; each leaves out its own id. */
kith_status kin_answer_write_group(kith_ctx *ctx, const kin_answer_target *target,
                                   const kin_answer *answer, uint32_t first);
/* All degenerate rows of the side. Overwrites the list. */
void kin_answer_write_degenerates(const kin_answer_target *target, kin_answer *answer);

/* ---- Whose rows a query may find: by bitmaps, groups, and the id that it leaves out ---------- */

static inline bool kin_filter_has_bitmaps(const kith_filter *filter)
{
    return filter->allow != NULL && filter->allow_stride_bytes != 0;
}

/* Whether a query may find a row, as far as bitmaps say. */
static inline bool kin_filter_allows(const kith_filter *filter, int64_t query, uint32_t row)
{
    return filter->allow == NULL ||
           (filter->allow[query * filter->allow_stride_bytes + row / 8] >> row % 8 & 1) != 0;
}

/* Whether a query may find a row, by bitmaps and groups; numbers: the queries' groups. Not by rule
 * each. */
static inline bool kin_filter_admits(const kith_filter *filter, const int64_t *numbers,
                                     int64_t query, uint32_t row)
{
    return kin_filter_allows(filter, query, row) &&
           (filter->rule == KITH_RULE_NONE ||
            (numbers[query] == filter->groups[row]) == (filter->rule == KITH_RULE_SAME));
}

/* Of a search; not by rule each. Borrowed. */
typedef struct kin_allowed {
    const kith_filter *filter; /* NULL: every query may find every row */
    const uint32_t *exclude; /* by query; NULL: nobody is left out. Read where there is a filter */
} kin_allowed;

static inline bool kin_allowed_has(const kin_allowed *allowed, int64_t query, uint32_t row)
{
    return (allowed->exclude == NULL || allowed->exclude[query] != row) &&
           kin_filter_admits(allowed->filter, allowed->filter->query_groups, query, row);
}

#endif
