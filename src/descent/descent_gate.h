/* SPDX-License-Identifier: Apache-2.0
 * Where walks begin. Positions stand in an order in which near ones are together; runs of them have
 * centres. A query meets all centres, and then the points of the runs whose centres are nearest:
 * dense products of many queries at once, of which a hundred cost what an edge costs that leads to
 * a row anywhere in memory. What is left for the walk is to find what these runs lack.
 *
 * Whom a query meets depends on the query alone, not on what else is asked. */
#ifndef KIN_DESCENT_DESCENT_GATE_H
#define KIN_DESCENT_DESCENT_GATE_H

#include "descent/descent_centres.h"

/* Positions of a run are a multiple of the first; queries at a time, at most. */
enum { KIN_DESCENT_RUN = 64, KIN_DESCENT_LED = 2048 };

typedef struct kin_descent_gate {
    const kin_descent_points *points;
    int64_t run; /* positions of a run; the last one may have fewer */
    int64_t runs;
    uint32_t *names; /* centre -> run: neighbouring centres are of runs that are not */
    kin_descent_centres centres;
} kin_descent_gate;

/* Whether points have centres: not those of direct metrics, nor rows of very many columns. */
bool kin_descent_gate_possible(const kin_descent_points *points);
kith_status kin_descent_gate_make(kith_ctx *ctx, const kin_descent_points *points,
                                  kin_descent_gate *gate);
void kin_descent_gate_free(kith_ctx *ctx, kin_descent_gate *gate);

/* One thread's way through a gate. */
typedef struct kin_descent_guide {
    const kin_descent_gate *gate;
    int64_t each; /* runs that a query meets, about */
    int64_t most; /* and at most */
    int64_t (*hits_of)(const uint32_t *orders, int64_t stride, int64_t rows, int64_t cols,
                       const uint32_t *row_limits, const uint32_t *col_limits, uint32_t *hits);
    void (*put)(uint64_t *words, int64_t length, uint64_t word);
    int64_t wide;
    uint32_t *runs;   /* by query: most, of which counts are used */
    uint32_t *counts; /* by query */
    int64_t *starts;  /* by run */
    uint16_t *who;    /* queries, by the run that they meet */
    uint32_t *asking; /* their places among those that are asked */
    uint32_t *rows;   /* gathered */
    uint32_t *orders;
    uint32_t *hits;
    uint32_t *no_limits; /* of columns */
    kin_word *col_terms;
    double evaluations;
} kin_descent_guide;

/* At most `queries` at a time, KIN_DESCENT_LED at most. meets: points that each shall meet; 0: what
 * serves many queries at once. */
kith_status kin_descent_guide_make(kith_ctx *ctx, const kin_descent_gate *gate, int64_t queries,
                                   int64_t meets, kin_descent_guide *guide);
void kin_descent_guide_free(kith_ctx *ctx, kin_descent_guide *guide);

/* Queries first .. first + count - 1 of `asked`, rows in the frame of the points: lists, count x
 * length, get the nearest of all points that they meet, ascending, and KIN_DESCENT_EMPTY behind.
 * guide->runs says which runs these were. */
void kin_descent_guide_lead(kin_descent_guide *guide, const kin_descent_points *asked,
                            int64_t first, int32_t count, uint64_t *lists, int64_t length);

#endif
