/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_call.h"

#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_progress.h"
#include "metric/metric.h"

kith_status kin_call_begin(kith_ctx *ctx, kin_call *call)
{
    if (ctx == NULL) {
        return KITH_E_ARGUMENT;
    }
    KIN_TRY(kin_ctx_begin(ctx));
    *call = (kin_call){.ctx = ctx, .found = kin_fpenv_enter(), .start_ns = kin_clock_ns()};
    memset(&ctx->report, 0, sizeof ctx->report);
    atomic_store(&ctx->peak_bytes, atomic_load(&ctx->held_bytes));
    const kith_status status = kin_metric_selftest(ctx);
    if (status != KITH_OK) {
        kin_fpenv_leave(call->found);
    }
    return status;
}

kith_status kin_call_end(const kin_call *call, kith_status status)
{
    (void)kin_progress_end(call->ctx, status);
    call->ctx->report.seconds_total = kin_clock_since(call->start_ns);
    call->ctx->report.peak_bytes = atomic_load(&call->ctx->peak_bytes);
    if (call->ctx->report.backend[0] == '\0') {
        memcpy(call->ctx->report.backend, "cpu", sizeof "cpu");
    }
    if (status == KITH_OK) {
        kin_forgive(call->ctx); /* smaller batches may have done what larger ones could not */
    }
    kin_fpenv_leave(call->found);
    return status;
}
