/* SPDX-License-Identifier: Apache-2.0
 * A graph made ready to be walked on: whom a row leads to, and from where all of it is reached.
 *
 * A k-NN graph leads from each point to its near ones, and to many points nobody leads: edges are
 * taken both ways. It need not hang together either, so that walks enter every part of it. */
#ifndef KIN_DESCENT_DESCENT_LINKS_H
#define KIN_DESCENT_DESCENT_LINKS_H

#include "base/base_ctx.h"

typedef struct kin_descent_links {
    int64_t rows;
    int64_t most; /* room of a row: twice the k of the graph */
    uint32_t *ids;
    uint32_t *counts; /* by row */
    uint32_t *parts;  /* the lowest row of each weakly connected part, the largest part first */
    int64_t part_count;
} kin_descent_links;

/* Of a checked graph: its ids are rows, or empty. Reverse edges are at most k a row, those that
 * stand nearest in their lists first. The same links whatever the number of threads. Memory: 8 k
 * bytes a row. */
kith_status kin_descent_links_make(kith_ctx *ctx, const kith_neighbors *graph,
                                   kin_descent_links *links);
void kin_descent_links_free(kith_ctx *ctx, kin_descent_links *links);

#endif
