/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_call.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "metric/metric.h"

/* ---- Reports -------------------------------------------------------------------------------- */

static void take_text(char *to, const char *from, size_t size)
{
    if (from[0] != '\0') {
        memcpy(to, from, size);
    }
}

/* What a call inside took and found, to what the call around it has so far: seconds add up, and the
 * last word is of what was found last. */
static void add_report(kith_report *sum, const kith_report *own)
{
    sum->exact = own->exact;
    sum->recall = own->recall;
    sum->reached = own->reached;
    sum->seconds_check += own->seconds_check;
    sum->seconds_prepare += own->seconds_prepare;
    sum->seconds_screen += own->seconds_screen;
    sum->seconds_rescore += own->seconds_rescore;
    sum->seconds_select += own->seconds_select;
    sum->select_cpu_rows += own->select_cpu_rows;
    sum->select_gpu_rows += own->select_gpu_rows;
    sum->rerun_share = own->rerun_share;
    sum->skipped_share = own->skipped_share;
    sum->looked_share = own->looked_share;
    sum->shadow_axes = own->shadow_axes;
    sum->candidates = own->candidates;
    sum->distinct_rows = own->distinct_rows;
    if (own->gpu_peak_bytes > sum->gpu_peak_bytes) {
        sum->gpu_peak_bytes = own->gpu_peak_bytes;
    }
    take_text(sum->isa, own->isa, sizeof sum->isa);
    take_text(sum->screen, own->screen, sizeof sum->screen);
    take_text(sum->backend, own->backend, sizeof sum->backend);
    take_text(sum->gpu, own->gpu, sizeof sum->gpu);
}

static void open_report(kin_call *call)
{
    kith_ctx *ctx = call->ctx;
    if (ctx->calls > 0) {
        call->outer = ctx->report;
        call->outer_peak = atomic_load(&ctx->peak_bytes);
    }
    ctx->calls += 1;
    memset(&ctx->report, 0, sizeof ctx->report);
    atomic_store(&ctx->peak_bytes, atomic_load(&ctx->held_bytes));
}

static void close_report(kin_call *call)
{
    kith_ctx *ctx = call->ctx;
    call->report = ctx->report;
    ctx->calls -= 1;
    if (ctx->calls > 0) {
        ctx->report = call->outer;
        add_report(&ctx->report, &call->report);
        if (call->outer_peak > atomic_load(&ctx->peak_bytes)) {
            atomic_store(&ctx->peak_bytes, call->outer_peak);
        }
    }
}

/* ---- Calls ---------------------------------------------------------------------------------- */

kith_status kin_call_begin(kith_ctx *ctx, kin_call *call)
{
    if (ctx == NULL) {
        return KITH_E_ARGUMENT;
    }
    if (ctx->calls > 0) {
        KIN_TRY(kin_progress_close(ctx)); /* of what the call around this one has done */
    }
    KIN_TRY(kin_ctx_begin(ctx));
    *call = (kin_call){.ctx = ctx, .found = kin_fpenv_enter(), .start_ns = kin_clock_ns()};
    open_report(call);
    const kith_status status = kin_metric_selftest(ctx);
    if (status != KITH_OK) {
        close_report(call);
        kin_fpenv_leave(call->found);
    }
    return status;
}

kith_status kin_call_end(kin_call *call, kith_status status)
{
    kith_report *report = &call->ctx->report;
    status = status == KITH_OK && call->ctx->calls > 1 ? kin_progress_close(call->ctx)
                                                       : kin_progress_end(call->ctx, status);
    report->seconds_total = kin_clock_since(call->start_ns);
    report->peak_bytes = atomic_load(&call->ctx->peak_bytes);
    report->reached = report->exact == KITH_CERTIFIED ? 1 : report->reached;
    if (report->backend[0] == '\0') {
        memcpy(report->backend, "cpu", sizeof "cpu");
    }
    if (status == KITH_OK) {
        kin_forgive(call->ctx); /* smaller batches may have done what larger ones could not */
    }
    close_report(call);
    kin_fpenv_leave(call->found);
    return status;
}
