/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on a GPU (descent/descent.h has the request): nothing of a round happens on the host.
 * And walks on graphs.
 */
#ifndef KIN_CASCADE_CASCADE_H
#define KIN_CASCADE_CASCADE_H

#include "descent/descent.h"
#include "fused/fused_search.h"

/* What kin_descent_defaults is to the processor: a request without zeros, its list as kernels have
 * it. */
void kin_cascade_defaults(kin_descent_request *request, int64_t rows);
/* As kin_descent_graph, on a device; answers are canonical, but not the processor's graph. place:
 * of fused_search.h. E_DEVICE_MEMORY where graph and points do not fit: there are no batches.
 * E_UNSUPPORTED for KITH_CUSTOM. */
kith_status kin_cascade_graph_make(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                   const kin_descent_request *request, uint32_t place,
                                   const kith_neighbors *out, kin_descent_outcome *outcome);
/* Device memory that it takes. */
uint64_t kin_cascade_bytes(const kith_matrix *points, const kin_descent_request *request,
                           uint32_t place);

/* ---- Walks ----------------------------------------------------------------------------------- */

/* Best-first search on a graph of any origin (descent/descent_walk.h says what it is). */

/* Points and a graph of them in device memory, made ready for walks and for the exact engine, which
 * shares the points. Keeps gpu, and points where `place` says that they lie on the device. */
typedef struct kin_cascade_paths kin_cascade_paths;

/* What walks are made for. */
typedef struct kin_cascade_ground {
    const kith_matrix *points;
    const kith_neighbors *graph; /* checked, host memory */
    kin_distance distance;
    kith_dtype asked; /* of the queries to come */
    int64_t k;        /* ids a row that will be asked for */
    uint32_t place;   /* of fused_search.h: of points, queries and answers */
} kin_cascade_ground;

/* Queries that walk, each as it would alone. */
typedef struct kin_cascade_walkers {
    const kith_matrix *queries; /* checked here */
    int64_t width;              /* k .. KIN_CASCADE_MOST_WIDTH, below the points */
    uint64_t seed;
    uint32_t place;
} kin_cascade_walkers;

/* The most that a walk keeps. */
int64_t kin_cascade_most_width(void);
/* E_UNSUPPORTED for KITH_CUSTOM and for 2^31 - 1 points or more, E_DEVICE_MEMORY where points and
 * links do not fit. */
kith_status kin_cascade_paths_make(kith_ctx *ctx, kin_gpu *gpu, const kin_cascade_ground *ground,
                                   kin_cascade_paths **out);
/* Accepts NULL. */
void kin_cascade_paths_free(kith_ctx *ctx, kin_cascade_paths *paths);
int64_t kin_cascade_paths_parts(const kin_cascade_paths *paths);
/* As kin_descent_walk_run, in batches where memory is short. The same bytes in every run, but not
 * the processor's: what walks find differs. *evaluations: keys that they took. */
kith_status kin_cascade_walk_run(kith_ctx *ctx, const kin_cascade_paths *paths,
                                 const kin_cascade_walkers *walkers, const kith_neighbors *out,
                                 double *evaluations);
/* The exact engine's answer. */
kith_status kin_cascade_walk_solve(kith_ctx *ctx, const kin_cascade_paths *paths,
                                   const kith_matrix *queries, uint32_t place,
                                   const kith_neighbors *out);

#endif
