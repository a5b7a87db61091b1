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
 * the others set 2. graph1 is a graph of set 1, graph2 one of set 2 whose ids count from its own
 * first row; in the answer ids count from the first row of all, so that those of set 1 stay as they
 * were. Of both graphs the ids alone are read, in any order: distances of the answer are canonical,
 * whatever the file that the graphs came from says.
 *
 * k of the answer is at most that of each graph, where its set has so many neighbours to give: of a
 * set of n points a list of n - 1 is complete (KITH_INCLUDE_SELF: of n). Slots behind these may be
 * empty (KITH_ID_NONE). Own ids in the lists are left out, or with KITH_INCLUDE_SELF compete.
 * One of the sets may be empty (first_rows 0 or points.rows); its graph may then be NULL. */

/* The graph of both, exact where both graphs are: the exact engine screens the pairs across the
 * sets, in both directions from one product, and lists are merged by (canonical key, id). The bytes
 * are those of kith_graph_exact of all points. params: as for kith_graph_exact, but radius and
 * exclude are 0.
 * Cost: first_rows * (points.rows - first_rows) pairs, and a canonical distance for each id of the
 * graphs. Memory: 12 bytes an id of the answer beside what kith_knn_both takes.
 * Returns KITH_E_DATA also where a list has fewer different neighbours than it must (names the
 * graph and the row), for the rest as kith_graph_exact; out then holds nothing of use. */
KITH_API kith_status kith_graph_merge_exact(kith_ctx *ctx, const kith_matrix *points,
                                            int64_t first_rows, const kith_neighbors *graph1,
                                            const kith_neighbors *graph2,
                                            const kith_search_params *params,
                                            const kith_neighbors *out);

/* The graph of both by a descent that begins with the lists of both and with a few candidates of
 * the other set: far sooner than a new graph. Lists may be those of approximate graphs, with empty
 * slots among them. params: as for kith_graph_descent, but start is auto and init NULL; recall,
 * sample, rounds, seed and report mean what they mean there, report.start is KITH_START_GRAPH. Few
 * points are solved exactly, whatever the graphs say (report.exact). No slot of the answer is
 * empty. Same bytes for the same seed, whatever the number of threads, on one kind of device.
 * Memory and errors as kith_graph_descent. */
KITH_API kith_status kith_graph_merge(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                                      const kith_neighbors *graph1, const kith_neighbors *graph2,
                                      const kith_descent_params *params, const kith_neighbors *out,
                                      kith_descent_report *report);

#ifdef __cplusplus
}
#endif
#endif
