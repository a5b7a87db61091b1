/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: graphs that grow and shrink. kith.h includes this file, nobody else
 * needs to. */
#ifndef KITH_KITH_MERGE_H
#define KITH_KITH_MERGE_H

#include "kith/kith.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 14. Graphs that grow ------------------------------------------------------------------- */

/* Points of two sets stand one behind the other in one matrix: rows 0 .. first_rows - 1 are set 1,
 * the others set 2. */
typedef struct kith_merge_sets {
    const kith_matrix *points;    /* of both */
    int64_t first_rows;           /* 0 to points.rows */
    const kith_neighbors *graph1; /* of set 1; NULL where it has no points */
    const kith_neighbors *graph2; /* of set 2, ids count from its own first row; NULL likewise */
} kith_merge_sets;

/* In the answer ids count from the first row of all, so that those of set 1 stay as they were. Of
 * both graphs the ids alone are read, in any order: distances of the answer are canonical, whatever
 * the file that the graphs came from says.
 *
 * k of the answer is at most that of each graph, or more where a graph is complete: each list has
 * all n - 1 others of its set of n points (KITH_INCLUDE_SELF: all n). Slots behind these may be
 * empty (KITH_ID_NONE). Own ids in the lists are left out, or with KITH_INCLUDE_SELF compete.
 * One of the sets may be empty (first_rows 0 or points.rows). */

/* What is known of the graphs (kith_neighbors.meta) is held against the points of their sets and
 * the metric, and kith_report.exact of the answer is what both allow: an exact merge of certified
 * graphs is certified, of graphs of which one is unknown it is unknown.
 *
 * params: as for kith_graph, which say the way, too; but there is no radius, exclude is NULL, and a
 * tree_height is that of a tree of either set. With the method auto
 *
 * - recall 1: exact, as with a pipeline, a tree's height or flags of kith_papers.h
 * - recall below 1: a descent until a sample has this recall
 * - recall 0: exact where both graphs are certified; else a descent where that will be sooner by
 *   more than a doubt (report and plan have the seconds)
 *
 * Exactly: each row is looked for in the other set, and lists are merged by (canonical key, id). Of
 * exact graphs the bytes are those of kith_graph of all points. Cost: a canonical distance for each
 * id of the graphs, and the pairs across
 * the sets. On the processor no row is looked for farther than its k-th neighbour so far: a few new
 * rows are compared with all one by one; in few columns trees meet; else the exact engine screens
 * the pairs of rows that bounds do not prove to be too far apart, in both directions from one
 * product. On a GPU, and at most, these are first_rows * (points.rows - first_rows) pairs. Memory:
 * 12 bytes an id of the answer and 32 bytes a row beside what kith_knn_both takes. KITH_E_DATA also
 * where a list has fewer different neighbours than it must (names the graph and the row).
 *
 * By a descent, which begins with the lists of both and with a few candidates of the other set:
 * mostly faster than a new graph. Lists may be those of approximate graphs, with empty slots among
 * them. params.descent->init is NULL; start is auto or screen (near points of the other set are
 * screened, where the metric can be) or random (they are drawn), not KITH_START_GRAPH; and delta 0
 * means 0.01 on a GPU where near points of the other set can be screened; descent_report.start is
 * KITH_START_GRAPH. Where points are few they are solved exactly, whatever the graphs say
 * (descent_report.exact). No slot of the answer is empty. Same bytes for the same seed, whatever
 * the number of threads, on one kind of device. By metrics with a matrix product it is divided
 * among the GPUs of the context, and has the bytes of one.
 *
 * With the start KITH_START_GGM it is algorithm 3 of Wang, Zhao, Zeng 2021, for comparison: the
 * farther half of each list is put aside, and free places get random points of the other set; in
 * rounds only pairs of different sets are compared; halves come back when rounds have ended. Lists
 * never become longer. Between rounds the recall is of lists without their halves; the last of
 * descent_report.round is with them. A point that stands in both sets counts as one of set 1. Where
 * one set is empty there is nothing to cut, and the start is that of any graph. Memory: half the
 * lists once more.
 *
 * Statuses as kith_graph; out then holds nothing of use. */
KITH_API kith_status kith_graph_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                                      const kith_search_params *params, const kith_neighbors *out,
                                      kith_report *report);

/* What kith_graph_merge will need, as kith_plan_search of a graph of all points tells it: also
 * which way it would take, and the seconds by which it would choose, those of an exact merge being
 * the most that it takes, since what limits and bounds leave out is not known before. Of the graphs
 * kith_neighbors.meta alone is read; one that is NULL is unknown. */
KITH_API kith_status kith_plan_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                                     const kith_search_params *params, kith_plan *plan);

/* Whether a graph is exact: points are solved anew, and *wrong is the number of rows whose first
 * params.k ids are others than those of kith_graph with these params, *first_wrong the first
 * of them, -1 where there is none. Of the graph the ids alone are read. kith_report.exact is
 * certified where no row is wrong, else approximate. Cost and statuses as kith_graph, and a
 * table of ids. */
KITH_API kith_status kith_graph_verify(kith_ctx *ctx, const kith_matrix *points,
                                       const kith_neighbors *graph,
                                       const kith_search_params *params, int64_t *wrong,
                                       int64_t *first_wrong);

/* Points leave a graph. */
typedef struct kith_remove_params {
    uint32_t struct_size; /* set by kith_remove_params_default() */
    kith_metric metric;   /* 0 = KITH_EUCLIDEAN; the graph's own */
    int64_t k;           /* neighbours a row of the answer, at most the graph's; no default, 0 is an
                            error */
    uint32_t flags;      /* KITH_INCLUDE_SELF */
    int32_t approximate; /* 1: the graph is, and what is made anew is made by a descent */
    kith_distance_fn custom; /* for KITH_CUSTOM; it gets rows of copies */
    void *custom_arg;
    const uint8_t *removed; /* points.rows bytes: a point leaves where its byte is not 0 */
    uint32_t *map; /* NULL, or room for points.rows numbers, the caller's: each point's new id,
                      KITH_ID_NONE of those that left. Written when all has succeeded */
} kith_remove_params;

static inline kith_remove_params kith_remove_params_default(void)
{
    kith_remove_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

typedef struct kith_remove_report {
    uint32_t struct_size; /* set by the caller to sizeof(kith_remove_report) */
    int32_t anew;         /* 1: so many rows lost neighbours that the graph was made anew */
    int64_t left;         /* rows of the answer */
    int64_t repaired;     /* of them, those that were searched for again */
} kith_remove_report;

/* Rows leave points and graph. Those that are left keep their order and move up. out: so many rows
 * as are left x k. Rows that have fewer than k neighbours afterwards are searched for, exactly, in
 * what is left; where they are more than half of it, the graph is made anew. So an exact graph
 * stays exact: the bytes of kith_graph of what is left. One that is approximate or unknown
 * (graph.meta) stays so, unless it is made anew exactly. report may be NULL. Cost: a search for the
 * rows that lost neighbours, and a canonical distance for each id of the graph. Memory: a copy of
 * the points and of the graph's ids. Errors as kith_graph; KITH_E_ARGUMENT also where removed
 * is NULL or nobody is left. out then holds nothing of use. */
KITH_API kith_status kith_graph_remove(kith_ctx *ctx, const kith_matrix *points,
                                       const kith_neighbors *graph,
                                       const kith_remove_params *params, const kith_neighbors *out,
                                       kith_remove_report *report);

#ifdef __cplusplus
}
#endif
#endif
