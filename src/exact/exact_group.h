/* SPDX-License-Identifier: Apache-2.0
 * Equal rows. Real data is full of them (39 % of one of our sets stand in groups of more than 64);
 * they are found by hash and comparison, screened once, and expanded in order at the end. */
#ifndef KIN_EXACT_GROUP_H
#define KIN_EXACT_GROUP_H

#include "base/base_layout.h"
#include "metric/metric.h"

/* A group is represented by its lowest id, its *first*. */
typedef struct kin_groups {
    int64_t rows;
    int64_t count;         /* groups of rows that are not degenerate */
    uint32_t *firsts;      /* their firsts, ascending */
    uint32_t *weights;     /* by first: rows in the group. NULL where all rows are distinct */
    uint32_t *next;        /* by id: the next larger id of the group, or KITH_ID_NONE. NULL ditto */
    int64_t degenerate;    /* rows at distance 1 from everything (cosine, correlation) */
    uint32_t *degenerates; /* their ids, ascending; NULL where there are none */
} kin_groups;

/* Rows are equal when their bytes are. Where `distinguish` is set, every row is a group. */
kith_status kin_groups_make(kith_ctx *ctx, const kin_rows *rows, bool distinguish,
                            kin_groups *groups);
/* The same of what is known: by row the lowest row like it (NULL: each is its own first), and 1
 * where it is degenerate (NULL: none is). */
kith_status kin_groups_of_firsts(kith_ctx *ctx, int64_t rows, const uint32_t *firsts,
                                 const uint8_t *degenerate, kin_groups *groups);
void kin_groups_free(kith_ctx *ctx, kin_groups *groups);

/* What is known of rows before they are grouped: of their shape alone, the worst. */
typedef struct kin_rows_known {
    int64_t distinct; /* groups, at most */
    bool equal;       /* rows may be equal */
    bool degenerate;  /* or degenerate */
    bool counted;     /* all this is so, not at most */
} kin_rows_known;

/* What kin_groups_make holds, and leaves. */
void kin_groups_plan(kin_layout *plan, int64_t rows, bool distinguish, kin_rows_known known);

#endif
