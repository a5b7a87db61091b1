/* SPDX-License-Identifier: Apache-2.0
 * Crowds. 32 positions that stand together are near each other, and so is what they have to meet:
 * it is gathered once, and all of the crowd meets all of it in one dense product. A crowd meets
 * what its lists name, forward and reverse, and what the lists of those name: a point meets a
 * thousand others for the price of a few rows.
 *
 * Who is nearer than the end of a list comes into it. Crowds write their own lists alone, from
 * those of before: no locks, and the same bytes whatever the threads. */
#ifndef KIN_DESCENT_DESCENT_EXPAND_H
#define KIN_DESCENT_DESCENT_EXPAND_H

#include "descent/descent_match.h"

enum { KIN_DESCENT_CROWD = 32 };

typedef struct kin_descent_expansion {
    const kin_descent_points *points; /* with a kernel */
    int32_t length;                   /* words a list */
    int32_t watched;                  /* of these, updates are counted */
    const uint64_t *from;    /* count x length, ascending; marked new is what the expansion before
                                brought */
    int32_t near;            /* of each list of the crowd: these are neighbours, */
    int32_t far;             /* and so many of each of their lists are met as well */
    const uint64_t *reverse; /* reverse_each words a position, KIN_DESCENT_EMPTY among them: who
                                names it. All are neighbours of the crowd */
    int32_t reverse_each;
    int32_t reverse_far; /* of each neighbour, met as well */
    uint64_t *to;        /* as from, not the same memory */
    double evaluations;  /* out */
    int64_t updates;     /* out: entries that came among the first `watched` of a list */
} kin_descent_expansion;

kith_status kin_descent_expand(kith_ctx *ctx, kin_descent_expansion *expansion);

/* reverse: count x each words, of each position a sample of those that have it among their first
 * `near`: one a slot, the nearest of those that a hash sends there. */
kith_status kin_descent_reverse(kith_ctx *ctx, const kin_descent_points *points, int32_t length,
                                int32_t near, const uint64_t *from, int32_t each,
                                uint64_t *reverse);

/* An expansion of lists in place, with a reach that suits most data. Lists as in an expansion. */
kith_status kin_descent_expand_lists(kith_ctx *ctx, const kin_descent_points *points,
                                     int32_t length, int32_t watched, uint64_t *words,
                                     double *evaluations, int64_t *updates);
uint64_t kin_descent_expand_lists_bytes(const kin_frame *frame, int64_t points, int32_t length,
                                        int32_t threads);

#endif
