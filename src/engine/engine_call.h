/* SPDX-License-Identifier: Apache-2.0
 * What every computing public call begins and ends with: floating-point mode, self-test, report;
 * and where it computes.
 *
 * Calls may be inside one another: a graph that loses points is searched again, a graph from shards
 * is many graphs. Each has a report and a peak of memory of its own, which its end gives back
 * (kin_call.report) and adds to those of the call around it:
 *
 *     time ->      remove  | begin |  own lists  | begin: graph ... end |  | end
 *     memory held          |   copy, ids         | and the graph's      |  |
 *     report               |   its own           | the graph's          |  | seconds added */
#ifndef KIN_ENGINE_CALL_H
#define KIN_ENGINE_CALL_H

#include "base/base_ctx.h"
#include "exact/exact_search.h"
#include "gpu/gpu.h"
#include "host/host_cpu.h"

typedef struct kin_call {
    kith_ctx *ctx;
    kin_fpenv found;
    int64_t start_ns;
    kith_report outer; /* of the call around this one, as far as that had come */
    uint64_t outer_peak;
    kith_report report; /* once it has ended */
} kin_call;

/* Fails for a NULL context and for one that cannot compute; nothing needs to be ended then. */
kith_status kin_call_begin(kith_ctx *ctx, kin_call *call);
/* Completes the report, puts the caller's floating-point mode back, hands the status on. */
kith_status kin_call_end(kin_call *call, kith_status status);
/* All that most public functions are: the work, between the two. */
#define KIN_CALL(ctx, work)                     \
    do {                                        \
        kin_call call_;                         \
        KIN_TRY(kin_call_begin((ctx), &call_)); \
        return kin_call_end(&call_, (work));    \
    } while (0)

/* ---- Where a call computes ------------------------------------------------------------------- */

/* Where a call computes: the processor, or the GPU of its context. */

/* *gpu: the context's, opened where it was not and locked for this thread until kin_device_leave,
 * or NULL where the job is the processor's. A device that was named must be had: KITH_E_UNSUPPORTED
 * says why it cannot. pairs: of rows that must be compared. */
kith_status kin_device_enter(kith_ctx *ctx, const kin_distance *distance, double pairs,
                             kin_gpu **gpu);
/* KITH_E_UNSUPPORTED for what no GPU computes: a caller's function. */
kith_status kin_device_refuse(kith_ctx *ctx, const kin_distance *distance);
/* The same for a tree of `points` rows that so many queries go through. */
kith_status kin_device_enter_tree(kith_ctx *ctx, const kin_distance *distance, double points,
                                  double queries, kin_gpu **gpu);
/* And for walks on a graph that take so many keys. */
kith_status kin_device_enter_walks(kith_ctx *ctx, const kin_distance *distance, double keys,
                                   kin_gpu **gpu);
/* *gpu: that of a context which names one, else NULL: for work on host memory that is done sooner
 * than the memory is copied. */
kith_status kin_device_enter_named(kith_ctx *ctx, kin_gpu **gpu);
/* The GPU of device `index` (-1: the first that can be used), locked, whatever the job. */
kith_status kin_device_enter_gpu(kith_ctx *ctx, int32_t index, kin_gpu **gpu);
/* "cuda:0", or "cuda:0,1,2" where several work together. */
void kin_device_name(const kin_gpu *gpu, char *text, size_t size);
/* Fills in the report's part about the GPU. NULL is accepted. */
void kin_device_leave(kith_ctx *ctx, kin_gpu *gpu);

/* Seconds of a job on the processor, and on a GPU that has started: by rates of one machine. */
typedef struct kin_device_seconds {
    double cpu;
    double gpu;
} kin_device_seconds;
kin_device_seconds kin_device_seconds_of_pairs(const kith_ctx *ctx, const kin_distance *distance,
                                               double pairs);
kin_device_seconds kin_device_seconds_of_tree(const kith_ctx *ctx, double points, double queries);

/* Whether the processor shall do what a GPU could not: "auto" passes on what is no fault of the
 * data (too little device memory, not supported there). The failure is then logged and forgotten.
 */
bool kin_device_yields(kith_ctx *ctx, kith_status status);

/* `work` on the GPU that was entered, if one was: its status is the job's, unless it yields, which
 * what `stays` never does. Else the processor's work comes behind this. */
#define KIN_TRY_GPU(ctx, gpu, stays, work)                           \
    do {                                                             \
        if ((gpu) != NULL) {                                         \
            const kith_status gpu_status_ = (work);                  \
            kin_device_leave((ctx), (gpu));                          \
            if ((stays) || !kin_device_yields((ctx), gpu_status_)) { \
                return gpu_status_;                                  \
            }                                                        \
        }                                                            \
    } while (0)

#endif
