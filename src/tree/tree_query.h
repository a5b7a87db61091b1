/* SPDX-License-Identifier: Apache-2.0
 * Queries on their way into a tree: rounded to float32 and sorted by the leaf that they fall into,
 * so that neighbours in the order share leaves. */
#ifndef KIN_TREE_QUERY_H
#define KIN_TREE_QUERY_H

#include "tree/tree.h"

/* A stripe of a search's queries. */
typedef struct kin_tree_queries {
    int64_t first; /* row of the first query of the stripe */
    int64_t count;
    float *rows;     /* [query][column], in the order in which they came */
    float *lost;     /* by query, in the metric's norm */
    uint32_t *order; /* place -> query */
    uint32_t *leaves;
    uint32_t *starts;  /* places of leaves, while they are counted */
    double *scratches; /* by thread: a row */
    int64_t wide;
    /* sizes of the arrays */
    int64_t most;
    int64_t tree_leaves;
    int32_t cols;
    int32_t threads;
    void *block;
} kin_tree_queries;

/* Queries that are taken at a time. */
int64_t kin_tree_queries_stripe(int64_t rows, int32_t cols);
/* Room for `most` queries at a time. */
kith_status kin_tree_queries_make(kith_ctx *ctx, const kin_tree *tree, int64_t most,
                                  kin_tree_queries *queries);
void kin_tree_queries_free(kith_ctx *ctx, kin_tree_queries *queries);
/* What kin_tree_queries_make holds beside a tree of this shape. */
void kin_tree_queries_plan(kin_layout *plan, const kin_tree *shape, int64_t most, int32_t threads);

/* Rounds rows [first, first + count) and sorts them. */
kith_status kin_tree_queries_load(kith_ctx *ctx, const kin_tree *tree, const kin_distance *distance,
                                  const kin_rows *rows, int64_t first, int64_t count,
                                  kin_tree_queries *queries);

/* The sixteen queries of a packet, in order[] from KIN_PACKET * packet on, as [column][query].
 * Returns how many there are: the last packet may have fewer. */
int32_t kin_tree_queries_packet(const kin_tree_queries *queries, int32_t cols, int64_t packet,
                                float *columns);

#endif
