/* SPDX-License-Identifier: Apache-2.0
 * A graph made ready to be walked on: whom a position leads to, and how it hangs together.
 *
 * A k-NN graph leads from each point to its near ones, and to many points nobody leads: edges are
 * taken both ways. Equal rows are one position, which has the edges of all of them. */
#ifndef KIN_DESCENT_DESCENT_LINKS_H
#define KIN_DESCENT_DESCENT_LINKS_H

#include "descent/descent_match.h"

typedef struct kin_descent_links {
    int64_t count; /* positions */
    int64_t most;  /* room of a position: twice the k of the graph */
    uint32_t *ids; /* positions */
    uint32_t *counts;
    uint32_t *parts; /* the lowest position of each weakly connected part, the largest part first */
    int64_t part_count;
} kin_descent_links;

/* Of a checked graph: its ids are rows of the points, or empty. Edges back are as many as there is
 * room for, those from near the front of their lists first. The same links whatever the number of
 * threads. Memory: 8 k bytes a row, and 12 more. */
kith_status kin_descent_links_make(kith_ctx *ctx, const kith_neighbors *graph,
                                   const kin_descent_points *points, kin_descent_links *links);
void kin_descent_links_free(kith_ctx *ctx, kin_descent_links *links);

#endif
