/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: approximate graphs, and search on a graph. kith.h includes this
 * file, nobody else needs to. */
#include "kith/kith.h" /* before the guard: headers behind this one need its types */

#ifndef KITH_KITH_DESCENT_H
#define KITH_KITH_DESCENT_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 13. Approximate graphs ----------------------------------------------------------------- */

/* k-NN graphs by NN-Descent (Dong, Moses, Li 2011; on a GPU as Wang, Zhao, Zeng 2021;
 * docs/nn-descent.md): neighbours of a point meet, and who is near stays. With a million points and
 * more far faster than an exact graph, in any metric, with a recall that is measured: the rows of a
 * sample are solved exactly. Distances are canonical, ids of a row differ and their order is that
 * of an exact graph; what may be missing is a true neighbour. The same bytes for the same seed,
 * whatever the number of threads, on one kind of device: the processor's and a GPU's graphs differ.
 */
typedef enum kith_start {
    KITH_START_AUTO = 0,   /* screen where the metric has matrix products, or on the processor a
                              relative of it (docs/notes/descent.md), else random */
    KITH_START_RANDOM = 1, /* random lists */
    KITH_START_SCREEN = 2, /* products with what is near: cells of near points, on a GPU blocks of
                              them; of more than 8,192 columns the processor has random lists */
    KITH_START_GGM = 3,    /* of kith_graph_merge alone: as Wang, Zhao, Zeng 2021 have it, for
                              comparison */
    KITH_START_GRAPH = 4   /* init */
} kith_start;

typedef struct kith_descent_params {
    uint32_t struct_size; /* set by kith_descent_params_default() */
    kith_metric metric;   /* 0 = KITH_EUCLIDEAN */
    int64_t k;            /* neighbours a row; no default, 0 is an error */
    uint32_t flags;       /* KITH_INCLUDE_SELF */
    kith_start start;
    double recall;       /* 0 .. 1: rounds end when a sample has this recall. 0 = when they change
                            little (delta) */
    int64_t recall_at;   /* K of recall@K; 0 = min(10, k) */
    int64_t sample;      /* rows to solve exactly; 0 = 1,000, -1 = none, and recall is not known */
    uint64_t seed;       /* of samples and of the descent */
    int32_t rounds;      /* at most; 0 = 30, with a wanted recall 60; -1 = the start alone */
    int32_t candidates;  /* entries of a list that meet others in a round, new ones and as many old
                            ones (the paper's p), at most 2^20; 0 = by k. A GPU takes at most 32 */
    int32_t list;        /* entries of a list while it descends, >= k + 1; 0 = by k */
    int32_t all_updates; /* 1: every pair that met is offered to lists, as in the original method;
                            -1: to each point the nearest that it met alone (GNND's selective
                            update); 0 = what finds more in the same time: on a GPU every pair, on
                            the processor the nearest */
    double delta;        /* rounds end when one changed less than this share of rows * k; 0 = 0.001,
                            with a wanted recall 0.0001 */
    double start_share;  /* START_SCREEN: of all pairs that it may look at; 0 = by rows; 1: all,
                            which is an exact graph on the processor */
    const kith_neighbors *init; /* START_GRAPH: a graph of points.rows rows; its ids alone are read,
                                   empty slots are none. It may be any other graph of points that
                                   were similar, or a part of one */
    kith_distance_fn custom;    /* for KITH_CUSTOM: on the processor. Its row pointers point into
                                   points.data, so that (pointer - data) / stride_bytes is the row's
                                   index, for functions that know rows by number */
    void *custom_arg;
} kith_descent_params;

static inline kith_descent_params kith_descent_params_default(void)
{
    kith_descent_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

typedef struct kith_descent_round {
    int32_t number; /* 0: the start */
    int32_t reserved;
    int64_t updates;    /* entries of lists that changed */
    double evaluations; /* costs computed since the beginning, those of the start among them */
    double phi;         /* sum of all distances in the graph, estimated from the sample (0: none) */
    double recall;      /* of the sample that is looked at between rounds; < 0: none */
    double seconds;     /* since the beginning */
} kith_descent_round;

enum { KITH_DESCENT_ROUNDS = 128 };

/* What a descent did. */
typedef struct kith_descent_report {
    uint32_t struct_size; /* set by the caller to sizeof(kith_descent_report) */
    kith_start start;     /* what it was */
    int32_t exact;        /* 1: every pair was looked at, as of few points: recall is 1 */
    int32_t reached;      /* 1: a sample had the recall that was wanted, or exact */
    int32_t rounds;       /* run, the start not counted */
    int32_t round_count;  /* of round[]: the start (twice where it was made wider), then the rounds,
                             the first of them */
    int32_t list;         /* as they were at the end */
    int32_t candidates;   /* that met: on a GPU at most 32 */
    double evaluations;
    double seconds_start;
    double seconds_rounds;
    kith_recall recall; /* rows 0: not estimated. Its sample is not the one that rounds end by: that
                           one was looked at until it was good, and would say too much. equal_ids
                           and distance_ratio are 0 */
    kith_descent_round round[KITH_DESCENT_ROUNDS];
} kith_descent_report;

/* A graph of kith_graph with KITH_METHOD_DESCENT, or where that method is chosen: points.rows x k,
 * no slot empty, and points.rows at most 2^31 - 1. Where the wanted recall is not reached when
 * rounds hardly change lists any more, they go on with longer lists (up to twice on the processor
 * and three times on a GPU, unless `list` or `rounds` is given); report.reached says how it ended.
 * The processor where the metric is KITH_CUSTOM. Cost: docs/notes/descent.md, far below rows^2;
 * kith_plan_search tells the memory. KITH_E_DEVICE_MEMORY: a GPU that was named has no room for
 * points and lists, for there are no batches. */

/* Neighbours of new points by walks on a graph (best-first search), from near points to nearer
 * ones: kith_search with KITH_METHOD_GRAPH, or an index of that method (chapter 6). A graph of any
 * origin serves: exact or approximate, as a rule in the metric of the search. */
typedef struct kith_walk_params {
    uint32_t struct_size;        /* set by kith_walk_params_default() */
    int32_t reserved;            /* 0 */
    const kith_neighbors *graph; /* kith_search: to walk on, a graph of the corpus (corpus.rows
                                    rows, any k), whose ids alone are read; empty slots may be among
                                    them. No default. Of an index NULL: it has its own */
    int64_t width; /* nearest points that a walk keeps, >= k: more take longer and find more; 0 = 64
                      or 2 k, whichever is more, or what params.recall asks for (with it, 0) */
    int64_t sample; /* queries to solve exactly, for the recall of the answer; 0 = 1,000 where a
                       recall is wanted, else none; -1 = none */
    int64_t meets;  /* points that a query is compared with densely, in runs of near ones, before it
                       walks; on the processor, for metrics with products. 0 = 16,384, but no more
                       than a sixteenth of all: what serves many queries at once. For one at a time
                       512 with a greater width is the faster way to the same recall */
} kith_walk_params;

static inline kith_walk_params kith_walk_params_default(void)
{
    kith_walk_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* What walks did. */
typedef struct kith_walk_report {
    uint32_t struct_size; /* set by the caller to sizeof(kith_walk_report) */
    int32_t exact;   /* 1: walks would have taken so long that the exact engine answered (recall is
                        1) */
    int32_t reached; /* 1: a sample had the recall that was wanted, or exact */
    int32_t reserved;
    int64_t width;      /* as it was at the end */
    int64_t parts;      /* weakly connected components of the graph (the processor's: equal rows are
                           one) */
    double evaluations; /* distances that the answer took */
    kith_recall recall; /* rows 0: not estimated. Of other queries than those that chose the width;
                           equal_ids and distance_ratio are 0 */
} kith_walk_report;

/* An answer of walks: queries.rows x k, k at most the points; no slot is empty, ids of a row
 * differ, distances are canonical and in the order of an exact search. Of kith_search_params they
 * have metric, k, recall, recall_at, seed, custom, exclude, filter and walk; the rest is of exact
 * searches, and KITH_E_UNSUPPORTED. The same bytes for the same seed, whatever the number of
 * threads and of queries, on one kind of device: walks of the processor and of a GPU may find
 * different neighbours. A GPU's keep at most 4,096 points, and a wider search is exact there; a GPU
 * has no KITH_CUSTOM. Memory: 8 bytes an id of the graph, and two rounded copies of the points
 * (none for metrics without products); on a GPU 8 bytes an id beside the points, and 12 more while
 * links are made; queries come in batches where memory is short.
 *
 * Under a filter, or with excluded ids, walks lead over all points and tell of those that are
 * allowed: width is of these, about. An index by graph on a GPU compares what is allowed instead.
 * Where a walk would keep as many as a query may find, by rule each, and, where neither a width nor
 * a recall is named, where comparing allowed points will be sooner, the exact engine answers, and
 * walk_report.exact is 1. A query for which a walk has met fewer than k is compared with all that
 * it may find: slots are empty only where there are no more. The recall is that of the filtered
 * truth, of queries that may find something.
 *
 * A wanted recall is measured in each call that wants one, by its own queries; nothing of it is
 * kept. So choose a width once, with some hundred queries and params.recall, and give
 * walk_report.width as walk.width from then on: what other libraries call ef. Where
 * walk_report.exact is 1 the exact engine answers so many queries at once as soon as walks do,
 * which says nothing of one at a time: then try widths, and look at walk_report.recall with
 * walk.sample. */

/* Which edges a graph keeps that shall go both ways. */
typedef enum kith_symmetry {
    KITH_SYMMETRY_UNION = 1, /* those that one of two rows has */
    KITH_SYMMETRY_MUTUAL = 2 /* those that both have */
} kith_symmetry;

/* A graph of any origin made symmetric: row i has j where row j has i. Rows have different lengths,
 * some of a mutual graph none; they ascend by (distance, id), inner_product descends. Distances are
 * those of the graph, its doubles where it has them: where both rows have an edge each keeps its
 * own, which differ for kl alone. graph: ids and distances; its empty slots are none. metric: whose
 * distances these are (0 = KITH_EUCLIDEAN). Works on the processor; 24 bytes an edge, and 8 a row.
 * Returns KITH_E_ARGUMENT, E_DATA, E_MEMORY, E_CANCELLED. */
KITH_API kith_status kith_graph_symmetric(kith_ctx *ctx, const kith_neighbors *graph,
                                          kith_metric metric, kith_symmetry symmetry,
                                          kith_ranges **out);

#ifdef __cplusplus
}
#endif
#endif
