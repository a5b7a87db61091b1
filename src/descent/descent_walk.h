/* SPDX-License-Identifier: Apache-2.0
 * Best-first search on a graph: the points that are near a query, from position to position.
 *
 * A walk keeps the `width` nearest positions that it has met. Of those whose links it has not
 * looked at the nearest are next; it ends when there are none. Costs are those of the exact
 * engine's rounded rows, or canonical keys where the metric has no products; what is written has
 * canonical distances in the exact engine's order, so that what may be missing is a row that no way
 * led to.
 *
 * Walks begin with what a gate shows them (descent_gate.h). Where there is none they enter at the
 * lowest position of each part of the graph and at random ones, but at no more than some times the
 * root of all: where there are more parts, the largest. The wider a walk is, the more of these. */
#ifndef KIN_DESCENT_DESCENT_WALK_H
#define KIN_DESCENT_DESCENT_WALK_H

#include "descent/descent_ground.h"

typedef struct kin_descent_walk {
    const kin_descent_ground *ground;
    const kin_rows *queries;
    const uint32_t *rows; /* queries to answer; NULL: all of them */
    int64_t count;
    int64_t width; /* >= out.k; as many as there are points: no walk, all points are looked at */
    uint64_t seed;
    int64_t meets; /* of kin_descent_guide_make */
} kin_descent_walk;

/* Where walks of this width enter a graph that has no gate: so many parts, the first of
 * links.parts, and so many positions by chance. */
typedef struct kin_descent_entries {
    int64_t parts;
    int64_t random;
} kin_descent_entries;
kin_descent_entries kin_descent_count_entries(int64_t count, int64_t part_count, int64_t width);
/* ids: entries.parts + entries.random of them, some of which may be equal. */
void kin_descent_draw_entries(const kin_descent_entries *entries, int64_t count,
                              const uint32_t *parts, uint64_t seed, uint32_t *ids);

/* Distances that walks took. */
typedef struct kin_descent_effort {
    double met;    /* at gates, in dense products */
    double walked; /* of rows anywhere in memory */
} kin_descent_effort;

/* out: count x k, k at most the points. No slot is empty: where a walk has met fewer than k rows
 * all are looked at. The same bytes whatever the number of threads and of queries. Fails with
 * E_DATA where a caller's function gives NaN. */
kith_status kin_descent_walk_run(kith_ctx *ctx, const kin_descent_walk *walk,
                                 const kith_neighbors *out, kin_descent_effort *effort);

#endif
