/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on the processor: an approximate k-NN graph from a start and rounds in which
 * neighbours of a point meet (Wang, Zhao, Zeng 2021, "Large-scale approximate k-NN graph
 * construction on GPU", sections 3 and 4; Dong, Moses, Li 2011). graph_gpu.h has the same on a GPU.
 *
 *   start    points meet the members of their nearest cells; or random lists; or a graph
 *   round    all neighbours of neighbours of crowds, as long as they bring much; then: sample p NEW
 *            and p OLD of each list, and reverse edges | meet NEW x NEW, NEW x OLD | the nearest
 *            that each sample met goes to its list
 *   end      canonical distances of the lists, sorted by (distance, id), equal rows expanded
 *
 * Everything between start and end is in positions of the prepared rows (graph_word.h). */
#ifndef KIN_GRAPH_H
#define KIN_GRAPH_H

#include "exact/exact_search.h"
#include "recall/recall.h"

typedef enum kin_graph_start {
    KIN_GRAPH_START_AUTO = 0, /* screen where the metric or its relative has one, else random */
    KIN_GRAPH_START_RANDOM,
    KIN_GRAPH_START_SCREEN, /* near cells; without products: of the metric's relative */
    KIN_GRAPH_START_GGM,    /* of a merge: outcome.start where request.ggm was set */
    KIN_GRAPH_START_GRAPH   /* init */
} kin_graph_start;

/* What a round did. Round 0 is the start, which asks as it goes on, too: enough, or not. */
enum { KIN_GRAPH_STARTING = -1 };
typedef struct kin_graph_round {
    int32_t number;
    int64_t updates; /* entries of lists that changed; on a GPU among the first k of a list */
    double
        evaluations; /* costs computed since the beginning, those of the start's screen included */
    double phi;      /* sum of the canonical distances of the control points' first k entries,
                        times rows / control points: the paper's phi(G), estimated */
    double seconds;  /* since the beginning */
} kin_graph_round;

/* What a judge says after the start and after each round. */
typedef enum kin_graph_verdict {
    KIN_GRAPH_GO_ON = 0,
    KIN_GRAPH_STUCK, /* rounds of such lists will not get there: longer ones, or end */
    KIN_GRAPH_ENOUGH,
    KIN_GRAPH_FAR /* after a start: one that looks at more pairs is wanted, if there is such */
} kin_graph_verdict;

typedef struct kin_graph_request {
    kin_distance distance;
    int64_t k;          /* ids a row of the answer */
    uint32_t flags;     /* KITH_INCLUDE_SELF */
    int32_t list;       /* entries of a list while it descends, >= k + 1; 0: kin_graph_defaults */
    int32_t candidates; /* p: NEW, and OLD, sampled of a list; 0: default */
    int32_t rounds;     /* at most; 0: default; -1: the start alone */
    double delta;       /* ends when a round changed less than this share of rows x k; 0: default */
    double share;       /* START_SCREEN, or with a split: of all pairs that the start may look at;
                           0: default; 1: the processor makes an exact graph where it
                           has a screen */
    uint64_t seed;
    kin_graph_start start;
    int32_t all_updates; /* 1: everything that met is offered to lists, as in NN-Descent before the
                            paper's selective update (its section 4.3); -1: selective; 0: default */
    const kith_neighbors *init; /* START_GRAPH: ids alone are read; empty slots may be among them */
    int64_t split; /* START_GRAPH, a merge: init is a finished graph of the rows below, init2 one of
                      the others, whose ids count from this row. What they have is known, and is
                      joined by candidates from across. 0: init is one graph, to be improved */
    const kith_neighbors *init2;
    int32_t by_chance; /* with a split: free places of lists are drawn from all points, of both
                          sets, not screened across, as of metrics that have no screen */
    int32_t ggm; /* with a split: the paper's section 5.1 (graph_round.c); by_chance is set, too */
    int32_t related; /* on a GPU: 1: inner products, and metrics that have no screen, begin with
                        what is near under their relative (START_SCREEN), and two graphs with the
                        longest rows, where these are near to all; -1: not; 0: by the number of
                        rows */
    kin_recall_control *control; /* NULL: nobody asks */
    /* Within the start, after it and after each round; control->found is filled. */
    kith_status (*judge)(void *arg, const kin_graph_round *round, kin_graph_verdict *verdict);
    void *judge_arg;
    bool ends_start;      /* the judge may say ENOUGH within the start */
    uint32_t place;       /* on a GPU: of points and answers (exact/exact_search_gpu.h) */
    int32_t lengthenings; /* on a GPU: times that lists become twice as long, once rounds change
                             little or a judge says STUCK, before the descent ends without ENOUGH */
} kin_graph_request;

/* Whether a row's own id is none of its neighbours. */
static inline bool kin_graph_leaves_own_out(const kin_graph_request *request)
{
    return (request->flags & KITH_INCLUDE_SELF) == 0;
}

typedef struct kin_graph_outcome {
    int32_t rounds; /* run, the start not counted */
    int32_t list;   /* as they were at the end; 0: as the request says */
    int32_t candidates;
    int64_t updates; /* of the last round */
    double evaluations;
    double seconds_start;
    double seconds_rounds;
    kin_graph_start start; /* what it was */
    bool exact;            /* the start looked at all pairs and no round was needed: small sets */
} kin_graph_outcome;

/* Fills the zeros of a request, for n rows. Both engines call it. */
void kin_graph_defaults(kin_graph_request *request, int64_t rows);

/* The graph, answers as kin_exact_graph writes them (exact/exact_search.h): each row ascending by
 * (canonical key, id), k different ids, its own not among them unless INCLUDE_SELF; no empty slot.
 * The same bytes for the same request, whatever the number of threads. The context's report is
 * filled. Fails with E_UNSUPPORTED above KIN_GRAPH_MOST_POINTS rows, E_MEMORY, E_LIMIT, E_DATA,
 * E_CANCELLED. Memory: 8 bytes x list, twice, and 4 p x 4 bytes a point beside the prepared rows.
 */
kith_status kin_graph_descend(kith_ctx *ctx, const kith_matrix *points,
                              const kin_graph_request *request, const kith_neighbors *out,
                              kin_graph_outcome *outcome);
/* Sets of up to so many groups are solved exactly before a descent would have begun, and so are
 * those of which a list would hold a good part: rounds would look at more pairs than there are.
 * Where there is a screen they may be twice as many: up to there nobody asks whether the cheap type
 * is fine enough (screen_corpus.h), and lists by cost alone need one that is. */
enum { KIN_GRAPH_FEW = 4096 };
/* Whether so many distinct rows are solved exactly; of a request without zeros. */
bool kin_graph_is_few(const kin_graph_request *request, int64_t distinct);
/* Host memory that it takes, for a plan, with lists as long as the request says. known: of its
 * rows. `cheapest`: where the cheapest type is fine enough, and the start soon finds little that is
 * new; else at most. */
uint64_t kin_graph_bytes(const kith_matrix *points, const kin_graph_request *request,
                         kin_rows_known known, int32_t threads, bool cheapest);

/* A graph whose edges all go both ways: of any graph, exact or approximate. */

/* graph: checked, with distances of one kind at least. mutual: edges that both rows have, else
 * those that one of them has. *ranges is all zero before but its ctx; what it got stays its own
 * when this fails. The same whatever the number of threads. */
kith_status kin_graph_symmetric(kith_ctx *ctx, const kith_neighbors *graph, kith_metric metric,
                                bool mutual, kith_ranges *ranges);

/* Where walks of this width enter a graph that has no gate: so many parts, the first of
 * links.parts, and so many positions by chance. */
typedef struct kin_graph_entries {
    int64_t parts;
    int64_t random;
} kin_graph_entries;

/* Distances that walks took. */
typedef struct kin_graph_effort {
    double met;    /* at gates, in dense products */
    double walked; /* of rows anywhere in memory */
} kin_graph_effort;

#endif
