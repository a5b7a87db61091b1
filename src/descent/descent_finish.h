/* SPDX-License-Identifier: Apache-2.0
 * From lists to answers: canonical keys, sorted by (key, id), equal rows expanded. Costs only
 * choose whose keys are computed. */
#ifndef KIN_DESCENT_DESCENT_FINISH_H
#define KIN_DESCENT_DESCENT_FINISH_H

#include "descent/descent_lists.h"
#include "descent/descent_match.h"
#include "exact/exact_answer.h"
#include "exact/exact_list.h"

typedef struct kin_descent_finisher {
    kin_list_scratch scratch;
    kin_descent_matcher matcher; /* of one meeting: what the own position costs */
    kin_answer answer;
    kin_pair *scanned; /* groups of a scan */
} kin_descent_finisher;

typedef struct kin_descent_finish {
    kith_ctx *ctx;
    const kin_prepared *prepared;
    const kin_descent_points *points; /* NULL, and no lists: every row is scanned */
    const kin_descent_lists *lists;
    int64_t wanted; /* ids a row, its own among them where it may be left out */
    int64_t capacity;
    int32_t threads;
    kin_descent_finisher *finishers; /* by thread */
    void *block;
} kin_descent_finish;

/* wanted is cut to the rows that there are. points and lists may be NULL, both. */
kith_status kin_descent_finish_make(kith_ctx *ctx, const kin_prepared *prepared,
                                    const kin_descent_points *points,
                                    const kin_descent_lists *lists, int64_t wanted,
                                    kin_descent_finish *finish);
void kin_descent_finish_free(kin_descent_finish *finish);
/* What it holds, of points that are a shape and lists of this length. */
void kin_descent_finish_plan(kin_layout *plan, const kin_descent_points *points, int32_t length,
                             int64_t wanted, int32_t threads);

/* The list of a position as ids in order, in finishers[thread].answer; not changed itself. Where
 * it has fewer ids than wanted, answer.count is below finish->wanted. */
kith_status kin_descent_finish_list(kin_descent_finish *finish, int64_t position, int32_t thread);
/* The same, of all rows, in canonical keys of all groups. */
kith_status kin_descent_finish_scan(kin_descent_finish *finish, int64_t position, int32_t thread);

/* All rows, the degenerate ones too. Lists that are short are scanned for. *keys: canonical keys
 * that were computed. */
kith_status kin_descent_finish_write(kin_descent_finish *finish, uint32_t flags,
                                     const kith_neighbors *out, double *keys);

#endif
