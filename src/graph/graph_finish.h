/* SPDX-License-Identifier: Apache-2.0
 * From lists to answers: canonical keys, sorted by (key, id), equal rows expanded. Costs only
 * choose whose keys are computed. */
#ifndef KIN_GRAPH_FINISH_H
#define KIN_GRAPH_FINISH_H

#include "exact/exact_answer.h"
#include "exact/exact_list.h"
#include "graph/graph.h"
#include "graph/graph_join.h"
#include "graph/graph_lists.h"

typedef struct kin_graph_finish_thread {
    kin_list_scratch scratch;
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
    void *block;
} kin_graph_finish;

/* wanted is cut to the rows that there are. points and lists may be NULL, both. */
kith_status kin_graph_finish_make(kith_ctx *ctx, const kin_prepared *prepared,
                                  const kin_graph_points *points, const kin_graph_lists *lists,
                                  int64_t wanted, kin_graph_finish *finish);
void kin_graph_finish_free(kin_graph_finish *finish);
/* What it holds, of points that are a shape and lists of this length. */
void kin_graph_finish_plan(kin_layout *plan, const kin_graph_points *points, int32_t length,
                           int64_t wanted, int32_t threads);

/* All rows, the degenerate ones too. Lists that are short are scanned for. *keys: canonical keys
 * that were computed. */
kith_status kin_graph_finish_write(kin_graph_finish *finish, uint32_t flags,
                                   const kith_neighbors *out, double *keys);

/* Rows that are solved exactly, so that lists can be judged while they descend. */

/* Fills control->kth: by the exact engine's screen, and by a scan of all groups for metrics that
 * have none. owner: kin_graph_owners. */
kith_status kin_graph_control_solve(kith_ctx *ctx, const kin_prepared *prepared,
                                    const kin_graph_request *request, const uint32_t *owner);

/* Where control points are looked for. */
typedef struct kin_graph_look {
    const kin_prepared *prepared;
    const kin_graph_points *points; /* NULL, */
    const kin_graph_lists *lists;   /* and NULL: all groups are scanned, which is the truth */
    const kin_graph_request *request;
    const uint32_t *owner; /* kin_graph_owners */
} kin_graph_look;

/* Fills control->found and *phi (kin_graph_round) from lists as they are. */
kith_status kin_graph_control_look(kith_ctx *ctx, const kin_graph_look *look, double *phi);

/* Beside what is prepared, while kth is solved. */
uint64_t kin_graph_control_bytes(const kith_matrix *points, const kin_graph_request *request,
                                 kin_rows_known known, int32_t threads);

#endif
