/* SPDX-License-Identifier: Apache-2.0
 * Whose rows a query may find: by bitmaps, by groups, and by the one id that it leaves out. */
#ifndef KIN_EXACT_ALLOW_H
#define KIN_EXACT_ALLOW_H

#include "kith/kith.h"

#include <stdbool.h>

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
