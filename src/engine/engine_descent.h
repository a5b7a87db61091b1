/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs: the loop that ends with a recall, on either device. */
#ifndef KIN_ENGINE_DESCENT_H
#define KIN_ENGINE_DESCENT_H

#include "graph/graph_gpu.h"

/* Checked arguments. */
typedef struct kin_descent_job {
    kith_matrix points;
    kin_graph_request request;
    double recall;     /* wanted; 0: none */
    int64_t at;        /* K of recall@K */
    int64_t sample;    /* rows of each of the two samples, at most all of them; 0: none */
    bool may_lengthen; /* the caller leaves the lists to us */
} kin_descent_job;

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

/* gpu NULL: the processor. place: of fused_search.h. *report: all of it, where it succeeds. */
kith_status kin_descent_run(kith_ctx *ctx, kin_gpu *gpu, const kin_descent_job *job, uint32_t place,
                            const kith_neighbors *out, kith_descent_report *report);

/* *gpu: as kin_device_enter, by what descents take. */
kith_status kin_descent_enter(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu);
/* On the device that is chosen for it. */
kith_status kin_engine_descent(kith_ctx *ctx, const kin_descent_job *job, const kith_neighbors *out,
                               kith_descent_report *report);

/* ---- Exactly, or by a descent (engine_cost.c) ----------------------------------------------- */

typedef struct kin_choice {
    bool open; /* it may be either: by a descent where that is sooner by more than a doubt */
    bool descends;
    double exact_seconds; /* by which it was chosen; 0: there was no choice */
    double descent_seconds;
} kin_choice;

/* Whether a GPU would take it: *gpu, which is not held. */
kith_status kin_cost_finds_gpu(kith_ctx *ctx, const kin_descent_job *job, kin_gpu **gpu);

/* How a graph is made; the report tells the seconds. Of the job, which is not read where nothing is
 * open, shapes and types are read. gpu NULL: the processor. */
void kin_choose_on(kith_ctx *ctx, const kin_gpu *gpu, const kin_descent_job *job,
                   kin_choice *choice);
/* On the device that a descent would take. */
kith_status kin_choose(kith_ctx *ctx, const kin_descent_job *job, kin_choice *choice);
/* How a graph is made whose first rows are one set and the others another, and both have theirs. */
kith_status kin_choose_merge(kith_ctx *ctx, const kin_descent_job *job, int64_t first_rows,
                             kin_choice *choice);

#endif
