/* SPDX-License-Identifier: Apache-2.0
 * What every computing public call begins and ends with: floating-point mode, self-test, report.
 * This file is short because rooms above need no more of the engine to begin and to end.
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
#include "base/base_try.h"
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

#endif
