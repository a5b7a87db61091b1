/* SPDX-License-Identifier: Apache-2.0
 * Best-first search on a graph: the rows that are near a query, from row to row.
 *
 * A walk keeps the `width` nearest rows that it has met. Of those whose links it has not looked at
 * the nearest is next; it ends when there is none. Distances are canonical keys throughout, so that
 * the order is that of the exact engine, and what may be missing is a row that no way led to.
 *
 * Walks enter at the lowest row of each part of the graph and at random rows, but at no more than
 * some times the root of all rows: where there are more parts, the largest. The wider a walk is,
 * the more entries it has. */
#ifndef KIN_DESCENT_DESCENT_WALK_H
#define KIN_DESCENT_DESCENT_WALK_H

#include "descent/descent_links.h"
#include "metric/metric.h"

typedef struct kin_descent_walk {
    const kin_descent_links *links;
    const kin_distance *distance;
    const kin_rows *points;
    const kin_rows *queries;
    const uint32_t *rows; /* queries to answer; NULL: all of them */
    int64_t count;
    int64_t width; /* >= out.k; as many as there are points: no walk, all points are looked at */
    uint64_t seed;
} kin_descent_walk;

/* Where walks of this width enter a graph: so many parts, the first of links.parts, and so many
 * rows by chance. */
typedef struct kin_descent_entries {
    int64_t parts;
    int64_t random;
} kin_descent_entries;
kin_descent_entries kin_descent_count_entries(int64_t rows, int64_t part_count, int64_t width);
/* ids: entries.parts + entries.random of them, some of which may be equal. */
void kin_descent_draw_entries(const kin_descent_entries *entries, int64_t rows,
                              const uint32_t *parts, uint64_t seed, uint32_t *ids);

/* out: count x k, k at most the points. No slot is empty: where a walk has met fewer than k rows it
 * looks at all of them. *evaluations is what was computed in all. The same bytes whatever the
 * number of threads. Fails with E_DATA where a caller's function gives NaN. */
kith_status kin_descent_walk_run(kith_ctx *ctx, const kin_descent_walk *walk,
                                 const kith_neighbors *out, double *evaluations);

#endif
