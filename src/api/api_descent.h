/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs behind the public functions: checked arguments, the loop that ends with a
 * recall, and when descent is worth it. */
#ifndef KIN_API_DESCENT_H
#define KIN_API_DESCENT_H

#include "graph/graph.h"
#include "graph/graph_gpu.h"
#include "recall/recall.h"

/* Checked arguments. */
typedef struct kin_descent_job {
    kith_matrix points;
    kin_graph_request request;
    double recall;     /* wanted; 0: none */
    int64_t at;        /* K of recall@K */
    int64_t sample;    /* rows of each of the two samples, at most all of them; 0: none */
    bool may_lengthen; /* the caller leaves the lists to us */
} kin_descent_job;

/* place: of fused_search.h. Of `out` and points.data addresses are not followed. */
kith_status kin_descent_check(kith_ctx *ctx, const kith_matrix *points,
                              const kith_descent_params *given, uint32_t place,
                              const kith_neighbors *out, kin_descent_job *job);

/* What the request leaves open, as the engine on this device chooses. gpu NULL: the processor. */
static inline void kin_descent_complete(const kin_gpu *gpu, int64_t rows,
                                        kin_graph_request *request)
{
    if (gpu != NULL) {
        kin_graph_gpu_defaults(request, rows);
    } else {
        kin_graph_defaults(request, rows);
    }
}

/* gpu NULL: the processor. place: of fused_search.h. */
kith_status kin_descent_run(kith_ctx *ctx, kin_gpu *gpu, const kin_descent_job *job, uint32_t place,
                            const kith_neighbors *out, kith_descent_report *report);

/* *gpu: as kin_device_enter, by what descents take. */
kith_status kin_descent_enter(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu);

/* As kin_descent_check, of points whose shape is all that matters. */
kith_status kin_descent_check_shape(kith_ctx *ctx, const kith_matrix *points,
                                    const kith_descent_params *params, kin_descent_job *job);
/* Whether a GPU would take it: *gpu, which is not held. */
kith_status kin_descent_finds_gpu(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu);
/* Adds seconds of a descent from nothing to own->seconds_descent, scaled, and decides whether it
 * pays beside own->seconds_exact; gpu as kin_descent_enter said. Then own goes to out, as far as
 * the caller's struct reaches. */
kith_status kin_descent_estimate(kith_ctx *ctx, const kin_descent_job *job, const kin_gpu *gpu,
                                 double scale, kith_descent_estimate *own,
                                 kith_descent_estimate *out);

#endif
