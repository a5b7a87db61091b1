/* SPDX-License-Identifier: Apache-2.0
 * Tree or all pairs, on either machine and for each kind of job: before there is a tree, after a
 * small one, and when a few packets have been through the one that will answer; and what is asked
 * of the tree that wins. */
#ifndef KIN_TREE_COST_H
#define KIN_TREE_COST_H

#include "exact/exact_search.h"
#include "tree/tree.h"

/* Packets that tell, spread over all of them. */
enum { KIN_TREE_PILOT = 16 };

/* What a job costs either way, in nanoseconds of a thread, or of a GPU. */
typedef struct kin_tree_cost {
    int64_t points; /* rows of the corpus, or groups of equal ones */
    int64_t queries;
    int32_t cols;
    bool allowed;       /* the metric has a tree, and the shape one that may win */
    double leaf;        /* its points */
    int64_t wanted;     /* ids of a list */
    bool graph;         /* lists have the row that asks */
    double tree_start;  /* whatever the job */
    double tree_point;  /* of the corpus, built */
    double tree_query;  /* rounded, sorted, its way down, its list finished */
    double tree_pair;   /* that a query looks at */
    double tree_least;  /* fewer queries take as long to look */
    double pairs_start; /* whatever the job */
    double pairs_point; /* of the corpus, before all pairs; */
    double pairs_order; /* of it, its order. 0: there is one in any case */
    double pairs_pair;
    double pairs_query; /* its list */
    double pairs_key;   /* of all pairs that are compared at once; 0: they are not */
    int64_t least_sample;
    double sample_start;
    double sample_point; /* of a sample's */
    double sample_asks;  /* rows that it is asked by; 0: by its own */
} kin_tree_cost;

/* On the processor; queries of a graph: its points. */
kin_tree_cost kin_tree_cost_of(const kin_request *request, int64_t points, int64_t queries,
                               bool graph);
/* All within a radius, where each point of a graph asks for itself. */
kin_tree_cost kin_tree_cost_radius(const kin_distance *distance, int64_t points, int64_t queries);
/* On a GPU; wanted: ids of a list. */
kin_tree_cost kin_tree_cost_gpu(const kin_request *request, int64_t points, int64_t queries,
                                int64_t wanted, bool graph);
/* All within a radius there; `like` has the distance. */
kin_tree_cost kin_tree_cost_radius_gpu(const kin_request *like, int64_t points, int64_t queries,
                                       bool graph);

/* A canonical key; a tree; all pairs of a search, what is done before included where they are
 * screened. On the processor. */
double kin_tree_key_ns(const kin_distance *distance);
/* A query against rows that are expanded already (kin_direct_pick). */
double kin_tree_shared_ns(const kin_distance *distance, double rows);
double kin_tree_build_ns(int64_t points, const kin_distance *distance);
double kin_tree_screen_ns(const kin_request *request, int64_t points, int64_t queries);
/* Whether a search of so few queries is sooner done with comparing all pairs than with what a
 * screen does before it begins. On the processor. */
bool kin_tree_compares(const kin_request *request, int64_t points, int64_t queries);
/* Or with a screen of rows that stay in their order. */
bool kin_tree_stays(const kin_request *request, int64_t points, int64_t queries);

typedef enum kin_tree_chance {
    KIN_TREE_NO_CHANCE,
    KIN_TREE_UNCERTAIN, /* a small tree says whether to build */
    KIN_TREE_LIKELY,    /* building costs little beside all pairs, or the tree can hardly lose */
} kin_tree_chance;

kin_tree_chance kin_tree_chance_of(const kin_tree_cost *cost);
/* Building costs little beside all pairs: a tree that is given up is no loss. */
bool kin_tree_is_cheap(const kin_tree_cost *cost);
/* Whether a sample costs little beside all pairs, and the tree may win. */
bool kin_tree_may_win(const kin_tree_cost *cost);
/* Whether the tree is taken because of the shape: so few columns, and a job so short that a sample
 * would weigh. On a GPU. */
bool kin_tree_goes_unasked(const kin_tree_cost *cost);
/* Whether the tree can not lose, however much of it queries look at. */
bool kin_tree_cannot_lose(const kin_tree_cost *cost);
/* Points, and queries, of the small tree: as many as cost little beside all pairs. */
int64_t kin_tree_sample_of(const kin_tree_cost *cost);
/* Ids that a query of so many points asks for: as many as lie within the reach that its list has in
 * the whole tree. */
int64_t kin_tree_sample_ids(const kin_tree_cost *cost, int64_t points);

/* What a small tree says of the whole one, or the shapes alone. */
typedef enum kin_tree_verdict {
    KIN_TREE_DECLINE,
    KIN_TREE_TRY,  /* build it, and let a few packets decide */
    KIN_TREE_TAKE, /* it wins by far: build it, and keep to it */
} kin_tree_verdict;

/* A small tree, and what a query looked at in the mean for kin_tree_sample_ids. */
typedef struct kin_tree_seen {
    double points;
    double pairs;
} kin_tree_seen;

kin_tree_verdict kin_tree_judge(const kin_tree_cost *cost, const kin_tree_seen *seen);
/* share: of all pairs, that packets looked at; stands: nothing is to be built. */
bool kin_tree_wins(const kin_tree_cost *cost, double share, bool stands);

/* ---- The tree as an engine ------------------------------------------------------------------- */

/* The tree as an engine: the bytes of kin_exact_search, or without queries of kin_exact_graph, for
 * the metrics that kin_tree_allows. Arguments are checked in api/.
 *
 * Where the request's method is AUTO, a few packets tell first whether the tree is the faster way;
 * where it is not, nothing is written and *declined is true. */

kith_status kin_tree_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         const kin_request *request, const kith_neighbors *out, bool *declined);
/* Queries against a tree that stands, whatever the request's method, and the groups that it was
 * made of; others may search it at the same time. */
kith_status kin_tree_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                            const kith_matrix *queries, const kin_request *request,
                            const kith_neighbors *out);

/* Whether it would take the tree: kin_tree_knn asks the same, of the same data, and keeps to the
 * answer. */
kith_status kin_tree_foresee(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                             const kin_request *request, kin_tree_verdict *verdict);

/* What it will hold at most. known: of the rows of the corpus. */
kin_plan kin_tree_plan(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, kin_rows_known known, int32_t threads);
/* What kin_tree_search will hold beside a tree of so many rows. */
kin_plan kin_tree_search_plan(const kin_tree *tree, int64_t rows, const kith_matrix *queries,
                              const kin_request *request, int32_t threads);

/* ---- All within a radius (tree_search.c) ----------------------------------------------------- */

/* queries NULL: each point of the corpus against all of them. *ranges is all zero before; what it
 * got stays its own when this fails. Where a few packets say that all pairs are the faster way,
 * nothing is written and *declined is true; declined NULL: nobody asks. */
kith_status kin_tree_radius(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                            const kin_radius_request *request, kith_ranges *ranges, bool *declined);
/* The same of a corpus whose tree stands. */
kith_status kin_tree_radius_search(kith_ctx *ctx, const kin_prepared *corpus, const kin_tree *tree,
                                   const kith_matrix *queries, const kin_radius_request *request,
                                   kith_ranges *ranges);

#endif
