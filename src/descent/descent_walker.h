/* SPDX-License-Identifier: Apache-2.0
 * One walk, and what is written of it. A walker belongs to a thread. */
#ifndef KIN_DESCENT_DESCENT_WALKER_H
#define KIN_DESCENT_DESCENT_WALKER_H

#include "descent/descent_ground.h"
#include "exact/exact_answer.h"

/* Positions whose costs are computed together. */
enum { KIN_DESCENT_TOGETHER = 96 };

typedef struct kin_descent_walker {
    const kin_descent_ground *ground;
    void (*put)(uint64_t *words, int64_t length, uint64_t word);
    int64_t wide;

    /* The query. */
    double *values;
    kin_query query;
    int64_t row; /* for messages */
    kin_bound_row bound;
    uint32_t *panels;   /* its rounded row as a panel's first column, */
    uint32_t *column;   /* and before it was turned */
    kin_word terms[16]; /* of it as column, zeros behind */

    /* The walk. */
    uint64_t *list; /* ascending words of positions (descent_word.h); KIN_DESCENT_EMPTY behind. The
                       lowest bit: its links have been looked at */
    int64_t length;
    int64_t next;         /* nobody before it has links to be looked at */
    uint64_t least;       /* word that came since `next` was known */
    uint32_t *met;        /* a bit for each position; zeros between walks */
    uint32_t *remembered; /* words of met, to forget them one by one; behind it, one block */
    bool borrowed;        /* which is the ground's */
    int64_t remembered_count;
    int32_t waiting;
    uint32_t who[KIN_DESCENT_TOGETHER + 1]; /* positions that wait for their costs */
    uint32_t orders[KIN_DESCENT_TOGETHER * 16];
    uint32_t ids[KIN_DESCENT_TOGETHER];
    double keys[KIN_DESCENT_TOGETHER];
    kin_word row_terms[KIN_DESCENT_TOGETHER];
    uint32_t *rows; /* gathered */

    /* The answer. */
    kin_pair *pairs;
    kin_answer answer;
    double evaluations;
} kin_descent_walker;

/* Lists of at most `length` words, answers of k. */
kith_status kin_descent_walker_make(kith_ctx *ctx, const kin_descent_ground *ground, int64_t length,
                                    int64_t k, kin_descent_walker *walker);
void kin_descent_walker_free(kith_ctx *ctx, kin_descent_walker *walker);

/* Row `row` of the queries walks next; of `asked` it is the row `place` (ignored without rounded
 * rows). list, length words: what is known already, positions that have been met. */
void kin_descent_walker_ask(kin_descent_walker *walker, const kin_rows *queries, int64_t row,
                            const kin_descent_points *asked, int64_t place, uint64_t *list,
                            int64_t length);
/* The run has been met, every position of it. */
void kin_descent_walker_has_met(kin_descent_walker *walker, int64_t run);
kith_status kin_descent_walker_meet(kith_ctx *ctx, kin_descent_walker *walker, const uint32_t *ids,
                                    int64_t count);
/* Until no link is left. */
kith_status kin_descent_walker_go(kith_ctx *ctx, kin_descent_walker *walker);
/* The first k of the list; of all positions, where `all` is set or the list lacks some. */
kith_status kin_descent_walker_write(kith_ctx *ctx, kin_descent_walker *walker, bool all,
                                     const kith_neighbors *out, int64_t at);

#endif
