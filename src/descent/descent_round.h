/* SPDX-License-Identifier: Apache-2.0
 * A round (the paper's Algorithm 1, lines 7 to 35): samples tell their targets, samples of a point
 * meet and are offered to each other's lists, lists take what was offered. Three passes over the
 * points, each parallel, none with a lock; the result does not depend on threads. */
#ifndef KIN_DESCENT_DESCENT_ROUND_H
#define KIN_DESCENT_DESCENT_ROUND_H

#include "descent/descent_match.h"
#include "descent/descent_sample.h"

/* What a thread needs. */
typedef struct kin_descent_worker {
    kin_descent_matcher matcher;
    kin_descent_seen seen;
    kin_descent_meeting meetings[2]; /* the one that is matched, and the next, whose rows are on
                                        their way from memory */
    uint64_t *words;  /* nearest samples of a meeting; or a list's offers and its next state */
    uint32_t *worst;  /* of each sample of a meeting: kin_descent_lists.worst */
    uint32_t *orders; /* of what comes into one list at the start, and before them its positions */
    int64_t updates;
} kin_descent_worker;

typedef struct kin_descent_rounds {
    kith_ctx *ctx;
    const kin_descent_points *points;
    kin_descent_lists lists;
    kin_descent_samples samples;
    kin_descent_worker *workers; /* by thread */
    uint64_t seed;
    uint64_t salt; /* of the round that runs */
    bool all;      /* every pair is offered, not the nearest alone */
    int32_t length;
    int32_t candidates;
    int32_t threads;
    void *block;
} kin_descent_rounds;

/* seed and all are set by the caller. points stays. */
kith_status kin_descent_rounds_make(kith_ctx *ctx, const kin_descent_points *points, int32_t length,
                                    int32_t candidates, kin_descent_rounds *rounds);
void kin_descent_rounds_free(kin_descent_rounds *rounds);
/* What it holds, of points that are a shape. */
void kin_descent_rounds_plan(kin_layout *plan, const kin_descent_points *points, int32_t length,
                             int32_t candidates, int32_t threads);

/* Round `number`, from 1; *updates: entries that came into lists. */
kith_status kin_descent_round_run(kin_descent_rounds *rounds, int32_t number, int64_t *updates);

/* Costs that all workers have computed. */
double kin_descent_rounds_evaluations(const kin_descent_rounds *rounds);

/* KITH_E_DATA where a caller's own function gave a NaN, which no order has a place for. */
kith_status kin_descent_check_orders(const kin_descent_rounds *rounds, const uint32_t *orders,
                                     int64_t count);

#endif
