/* SPDX-License-Identifier: Apache-2.0
 * The start where there is a screen.
 *
 *   by cells    a point meets the members of its nearest cells (graph_cells.h), of more and more
 *               of them, until little is new
 *   by blocks   of too many columns for centres: each block of the exact engine meets itself
 *               and the blocks that stand next to it. All pairs, too, are by blocks
 */
#ifndef KIN_GRAPH_START_H
#define KIN_GRAPH_START_H

#include "exact/exact_answer.h"
#include "graph/graph.h"
#include "graph/graph_lists.h"

typedef struct kin_graph_started {
    double evaluations;
    bool closed;  /* blocks met: what they know is closed in itself */
    bool settled; /* the last cells brought little that is new */
    bool all;     /* every pair was looked at: the lists are exact but for the rounding of costs */
} kin_graph_started;

/* Lists that start. */
typedef struct kin_graph_starting {
    const kin_graph_points *points;
    double share;         /* of all pairs, (0, 1], that may be looked at; a small one still has the
                             nearest few */
    const uint8_t *sides; /* of each position, where two graphs are made one (kin_graph_sides) */
    int32_t wanted;       /* entries, at most length */
    int32_t length;
    uint64_t *words; /* count x length */
    /* By cells, after some more of them: whether the lists will do. NULL: nobody asks */
    kith_status (*judge)(void *arg, bool *enough);
    void *judge_arg;
} kin_graph_starting;

/* Fills words, each row ascending: of what its position met the least by (order, position), itself
 * left out, all marked new; KIN_GRAPH_EMPTY behind. By blocks they are `length` if so many were
 * met, by cells some more than `wanted`. Orders are those of kin_graph_join_run. The same bytes
 * whatever the threads. Only where the metric has a screen (points->kernel). Sides are not read. */
kith_status kin_graph_start_screen(kith_ctx *ctx, const kin_graph_starting *starting,
                                   kin_graph_started *started);
/* The same where two graphs are made one: words has their lists, as kin_graph_fill_graph left
 * them. The `wanted` nearest that a position meets in blocks, or on the other side in cells, join
 * its list; what is from the other side is new. */
kith_status kin_graph_start_across(kith_ctx *ctx, const kin_graph_starting *starting,
                                   kin_graph_started *started);
/* What a start has to do, for its plan. */
typedef struct kin_graph_start_size {
    const kin_frame *frame;
    int64_t points;
    double share;
    int32_t length;
    int32_t threads;
    bool cheapest; /* where the first cells bring most */
} kin_graph_start_size;
/* What it takes while it runs. */
void kin_graph_start_plan(kin_layout *plan, const kin_graph_start_size *size);

/* Lists before the first round: from a graph that is given, and at random. */

/* Rows in the order of positions: owner[row] is the position of its group, KITH_ID_NONE of
 * degenerate rows. owner: a number for each row of the matrix. */
void kin_graph_owners(const kin_prepared *prepared, uint32_t *owner);

/* sides: a number for each position. */
void kin_graph_sides(const kin_prepared *prepared, int64_t split, uint8_t *sides);

/* The ids of request->init, a row for each row of the matrix, come into the lists of their groups,
 * marked new; of a group the row of its first. Ids that are no row's are passed over. Of a merge:
 * the ids of init and init2, not marked new; of a group the rows of the first in each set. */
kith_status kin_graph_fill_graph(kin_graph_rounds *rounds, const kin_graph_request *request,
                                 const uint32_t *owner);

/* Lists get `each` positions, not the own, which are marked new. */
kith_status kin_graph_fill_ids(kin_graph_rounds *rounds, const uint32_t *ids, int32_t each);

/* Free places of all lists get positions of the other set, which seed and place draw, marked new
 * (kin_graph_row_across); who stands in both sets is of the one below. request: with a split. */
kith_status kin_graph_fill_across(kin_graph_rounds *rounds, const kin_graph_request *request,
                                  const uint32_t *owner);

/* Lists of fewer than `least` entries get positions that seed and place draw; where near rows stand
 * together (`ordered`), half of them from the places around. Draws may meet: a list of a small set
 * may stay short. */
kith_status kin_graph_fill_random(kin_graph_rounds *rounds, int32_t least, bool ordered);

/* The start of metrics without matrix products. Each has a relative that has them: near under one
 * is mostly near under the other.
 *
 *   chi2, kl                 |sqrt a - sqrt b|^2: of shares that are close, any divergence is this
 *                            one times a number (Csiszar 1967)
 *   jaccard                  the cosine of the patterns, zeros and ones
 *   manhattan, chebyshev     the Euclidean distance, which lies between them, as those of
 *   minkowski                other powers do
 *
 * So the graph of the relative is made first, approximately, and is what rounds begin with: a pair
 * costs it a hundredth of a pair of the metric itself. */

bool kin_graph_has_relative(kith_metric metric);

/* A descent under the relative: what it is asked for, and room for its ids. */
typedef struct kin_graph_relative {
    kin_graph_request request;
    kith_matrix rows; /* by position */
    float *values;    /* of rows */
    uint32_t *ids;    /* rows x request.k */
} kin_graph_relative;

/* Without values and ids. request: of the descent that starts, complete. */
kin_graph_relative kin_graph_relative_of(const kin_graph_request *request, int64_t rows);
/* Its rows, and room for ids; to be freed whatever the status is. */
kith_status kin_graph_relative_make(kith_ctx *ctx, const kin_graph_points *points,
                                    kin_graph_relative *near);
void kin_graph_relative_free(kith_ctx *ctx, kin_graph_relative *near);

/* Crowds. 32 positions that stand together are near each other, and so is what they have to meet:
 * it is gathered once, and all of the crowd meets all of it in one dense product. A crowd meets
 * what its lists name, forward and reverse, and what the lists of those name: a point meets a
 * thousand others for the price of a few rows.
 *
 * Who is nearer than the end of a list comes into it. Crowds write their own lists alone, from
 * those of before: no locks, and the same bytes whatever the threads. */

enum { KIN_GRAPH_CROWD = 32 };

typedef struct kin_graph_expansion {
    const kin_graph_points *points; /* with a kernel */
    int32_t length;                 /* words a list */
    int32_t watched;                /* of these, updates are counted */
    const uint64_t *from;    /* count x length, ascending; marked new is what the expansion before
                                brought */
    int32_t near;            /* of each list of the crowd: these are neighbours, */
    int32_t far;             /* and so many of each of their lists are met as well */
    const uint64_t *reverse; /* reverse_each words a position, KIN_GRAPH_EMPTY among them: who
                                names it. All are neighbours of the crowd */
    int32_t reverse_each;
    int32_t reverse_far; /* of each neighbour, met as well */
    uint64_t *to;        /* as from, not the same memory */
    double evaluations;  /* out */
    int64_t updates;     /* out: entries that came among the first `watched` of a list */
} kin_graph_expansion;

typedef struct kin_graph_expanded {
    double evaluations;
    int64_t updates; /* as of an expansion */
} kin_graph_expanded;

/* An expansion of lists in place, with a reach that suits most data. Lists as in an expansion. */
kith_status kin_graph_expand_lists(kith_ctx *ctx, const kin_graph_points *points,
                                   const kin_graph_lists *lists, int32_t watched,
                                   kin_graph_expanded *expanded);
/* What it takes while it runs. */
void kin_graph_expand_lists_plan(kin_layout *plan, const kin_frame *frame, int64_t points,
                                 int32_t length, int32_t threads);

/* ---- The end --------------------------------------------------------------------------------- */

/* From lists to answers: canonical keys, sorted by (key, id), equal rows expanded. Costs only
 * choose whose keys are computed. */

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

/* Of a list, expanded, of the control `which`, its own id apart: the first `at` keys to
 * control->found, and the sum of the first k distances. */
double kin_graph_control_take(const kin_graph_request *request, const kin_answer *answer,
                              int64_t which);

/* Fills control->found and *phi (kin_graph_round) from lists as they are. */
kith_status kin_graph_control_look(kith_ctx *ctx, const kin_graph_look *look, double *phi);

#endif
