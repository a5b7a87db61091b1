/* SPDX-License-Identifier: Apache-2.0
 * Walks on a graph, and the exact answers that they are judged by, on either device: what a search
 * on a graph asks of engines. */
#ifndef KIN_API_WALKS_H
#define KIN_API_WALKS_H

#include "cascade/cascade_walk.h"
#include "descent/descent_walk.h"
#include "exact/exact_search.h"

typedef struct kin_walks {
    kith_ctx *ctx;
    kin_gpu *gpu;       /* entered; NULL: the processor */
    kith_matrix points; /* with strides */
    kith_matrix queries;
    kin_distance distance;
    const kith_neighbors *graph; /* checked */
    int64_t k;
    bool samples;  /* some of the queries will be asked alone */
    int64_t parts; /* of the graph; made */
    int64_t most;  /* the widest walk */

    /* The processor's. */
    kin_prepared prepared_points;
    kin_prepared prepared_queries;
    kin_descent_ground ground;

    /* A GPU's. */
    kin_cascade_paths *paths;
} kin_walks;

/* Some of the queries, and room for copies of them. */
typedef struct kin_walks_sample {
    int64_t count;
    const uint32_t *rows;
    unsigned char *copy;
} kin_walks_sample;

/* What walks took. */
typedef struct kin_walks_effort {
    double evaluations; /* distances */
    double share;       /* about, of the time that the exact engine takes for the same queries */
} kin_walks_effort;

/* The first fields, up to samples, are set, the rest zero. Checks the values of points and queries.
 * Freed by the caller in any case. */
kith_status kin_walks_make(kin_walks *walks);
void kin_walks_free(kin_walks *walks);
/* Walks of `width` for a sample (NULL: for all queries), k of out at most the width. */
kith_status kin_walks_run(kin_walks *walks, const kin_walks_sample *of, int64_t width,
                          uint64_t seed, const kith_neighbors *out, kin_walks_effort *effort);
/* The exact answers of a sample (NULL: of all queries). */
kith_status kin_walks_solve(kin_walks *walks, const kin_walks_sample *of,
                            const kith_neighbors *out);

#endif
