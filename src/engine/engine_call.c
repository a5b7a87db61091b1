/* SPDX-License-Identifier: Apache-2.0
 * Calls, their reports, and the device that they compute on. */
#include "engine/engine_call.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>

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

/* ---- The device ------------------------------------------------------------------------------ */

/* Which device a call computes on. "auto" estimates both ways and takes the shorter one; the first
 * use of a GPU in a process costs so much that small jobs never ask whether there is one.
 *
 *   processor   pairs * cols / (threads * rate of the instruction set)
 *   GPU         start + pairs * cols / rate of its tensor cores
 *   a tree      points and queries, a time each
 *
 * The rates are measured on one machine (docs/notes/performance.md) and rounded; they decide where,
 * never what: the answers are the same bytes. */

/* Seconds: the driver, a context on the device and the kernels; a device that is open already. */
static const double FIRST_START = 0.3;
static const double LATER_START = 0.001;
/* Multiply-accumulates a second. */
static const double GPU_RATE = 1e14;
static const double GPU_DIRECT_RATE = 1e12;
static const double CPU_DIRECT_RATE = 1e9; /* a thread */
/* Seconds of a tree: a point of it that is built, a query in few columns (tree_cost.c;
 * the processor's are of a thread). */
static const double CPU_TREE_POINT = 1.2e-6;
static const double CPU_TREE_QUERY = 2e-6;
static const double GPU_TREE_POINT = 5e-9;
static const double GPU_TREE_QUERY = 1e-8;

static double cpu_rate(kin_isa isa)
{
#define RATE(NAME, name, part, rate, ...) [KIN_ISA_##NAME] = (rate),
    static const double rates[KIN_ISA_COUNT] = {KIN_ISA_MAP(RATE)};
    return rates[isa];
}

/* ---- The choice ------------------------------------------------------------------------------ */

kin_device_seconds kin_device_seconds_of_pairs(const kith_ctx *ctx, const kin_distance *distance,
                                               double pairs)
{
    const bool screens = kin_is_screened(distance);
    const double work = pairs * (double)distance->cols;
    const double cpu = screens ? cpu_rate(ctx->isa) : CPU_DIRECT_RATE;
    return (kin_device_seconds){.cpu = work / (cpu * (double)ctx->threads),
                                .gpu = work / (screens ? GPU_RATE : GPU_DIRECT_RATE)};
}

kin_device_seconds kin_device_seconds_of_tree(const kith_ctx *ctx, double points, double queries)
{
    return (kin_device_seconds){.cpu = (points * CPU_TREE_POINT + queries * CPU_TREE_QUERY) /
                                       (double)ctx->threads,
                                .gpu = points * GPU_TREE_POINT + queries * GPU_TREE_QUERY};
}

static bool worth_it(const kith_ctx *ctx, kin_device_seconds seconds)
{
    const double start = ctx->gpu != NULL ? LATER_START : FIRST_START;
    return start + seconds.gpu < seconds.cpu;
}

/* Of a context that names its device. */
static kith_status find_named(kith_ctx *ctx, int32_t *index)
{
    if (kin_gpu_reason() != NULL) {
        return kin_fail(ctx, KITH_E_UNSUPPORTED, "no GPU can be used: %s", kin_gpu_reason());
    }
    *index = ctx->device_index >= 0 ? ctx->device_index : kin_gpu_first();
    return KITH_OK;
}

kith_status kin_device_refuse(kith_ctx *ctx, const kin_distance *distance)
{
    KIN_PASS_IF(distance->metric != KITH_CUSTOM, ctx, KITH_E_UNSUPPORTED, kin_at("metric"),
                "is custom, which a GPU cannot call (use the device cpu or auto, and host memory)");
}

/* -1: the processor. */
static kith_status choose(kith_ctx *ctx, const kin_distance *distance, kin_device_seconds seconds,
                          int32_t *index)
{
    *index = -1;
    if (ctx->device == KIN_DEVICE_CPU) {
        return KITH_OK;
    }
    if (ctx->device == KIN_DEVICE_AUTO) {
        if (distance->metric != KITH_CUSTOM && worth_it(ctx, seconds)) {
            *index = ctx->gpu != NULL ? ctx->gpu->index : kin_gpu_first();
        }
        return KITH_OK;
    }
    KIN_TRY(kin_device_refuse(ctx, distance));
    return find_named(ctx, index);
}

static kith_status enter(kith_ctx *ctx, const kin_distance *distance, kin_device_seconds seconds,
                         kin_gpu **gpu)
{
    int32_t index = -1;
    *gpu = NULL;
    KIN_TRY(choose(ctx, distance, seconds, &index));
    if (index < 0) {
        return KITH_OK;
    }
    const kith_status status = kin_device_enter_gpu(ctx, index, gpu);
    return kin_device_yields(ctx, status) ? KITH_OK : status;
}

kith_status kin_device_enter(kith_ctx *ctx, const kin_distance *distance, double pairs,
                             kin_gpu **gpu)
{
    return enter(ctx, distance, kin_device_seconds_of_pairs(ctx, distance, pairs), gpu);
}

kith_status kin_device_enter_tree(kith_ctx *ctx, const kin_distance *distance, double points,
                                  double queries, kin_gpu **gpu)
{
    return enter(ctx, distance, kin_device_seconds_of_tree(ctx, points, queries), gpu);
}

kith_status kin_device_enter_walks(kith_ctx *ctx, const kin_distance *distance, double keys,
                                   kin_gpu **gpu)
{
    const double work = keys * (double)distance->cols;
    const kin_device_seconds seconds = {.cpu = work / (CPU_DIRECT_RATE * (double)ctx->threads),
                                        .gpu = work / GPU_DIRECT_RATE};
    return enter(ctx, distance, seconds, gpu);
}

kith_status kin_device_enter_named(kith_ctx *ctx, kin_gpu **gpu)
{
    int32_t index = -1;
    *gpu = NULL;
    if (ctx->device != KIN_DEVICE_CUDA) {
        return KITH_OK;
    }
    KIN_TRY(find_named(ctx, &index));
    return kin_device_enter_gpu(ctx, index, gpu);
}

/* The numbers that "all" stands for. */
static int32_t find_all(int32_t *indices)
{
    kin_gpu_info info;
    int32_t count = 0;
    for (int32_t i = 0; i < kin_gpu_count() && count < KIN_MOST_DEVICES; i++) {
        if (kin_gpu_describe(i, &info) && kin_gpu_usable(&info)) {
            indices[count++] = i;
        }
    }
    return count;
}

/* The context's GPU, and the others beside it where several were named. */
static kith_status open_devices(kith_ctx *ctx, int32_t index)
{
    const uint64_t budget = ctx->params.gpu_memory_limit;
    const int32_t count = ctx->device_count < 0 ? find_all(ctx->devices) : ctx->device_count;
    KIN_TRY(kin_gpu_open(ctx, index, budget, &ctx->gpu));
    if (ctx->device != KIN_DEVICE_CUDA || count < 2 || ctx->devices[0] != index) {
        return KITH_OK;
    }
    const kith_status status = kin_gpu_team_open(ctx, ctx->gpu, ctx->devices, count, budget);
    if (status != KITH_OK) {
        kin_gpu_close(ctx, ctx->gpu);
        ctx->gpu = NULL;
    }
    return status;
}

kith_status kin_device_enter_gpu(kith_ctx *ctx, int32_t index, kin_gpu **gpu)
{
    *gpu = NULL;
    if (ctx->gpu == NULL) {
        KIN_TRY(open_devices(ctx, index));
    }
    if (ctx->gpu->index != index) {
        return kin_fail(ctx, KITH_E_ARGUMENT,
                        "this context computes on cuda:%d, and cuda:%d was asked for (make a "
                        "context for each device)",
                        (int)ctx->gpu->index, (int)index);
    }
    *gpu = ctx->gpu;
    kin_gpu_enter(*gpu);
    (*gpu)->peak = (*gpu)->held;
    return KITH_OK;
}

void kin_device_name(const kin_gpu *gpu, char *text, size_t size)
{
    if (gpu->team != NULL) {
        kin_gpu_team_name(gpu->team, text, size);
    } else {
        (void)snprintf(text, size, "cuda:%d", (int)gpu->index);
    }
}

void kin_device_leave(kith_ctx *ctx, kin_gpu *gpu)
{
    kith_report *report = &ctx->report;
    if (gpu == NULL) {
        return;
    }
    kin_device_name(gpu, report->backend, sizeof report->backend);
    if (gpu->team == NULL) {
        (void)snprintf(report->gpu, sizeof report->gpu, "%.*s", (int)sizeof report->gpu - 1,
                       gpu->info.name);
        report->gpu_peak_bytes = gpu->peak;
    } else {
        (void)snprintf(report->gpu, sizeof report->gpu, "%d x %.*s",
                       (int)kin_gpu_team_count(gpu->team), (int)sizeof report->gpu - 8,
                       gpu->info.name);
        report->gpu_peak_bytes = kin_gpu_team_peak(gpu->team);
    }
    kin_gpu_leave(gpu);
}

bool kin_device_yields(kith_ctx *ctx, kith_status status)
{
    if (ctx->device != KIN_DEVICE_AUTO ||
        (status != KITH_E_DEVICE_MEMORY && status != KITH_E_UNSUPPORTED)) {
        return false;
    }
    enum { WARNING = 1 };
    kin_log(ctx, WARNING, "the GPU is not used: %s", ctx->failure.detail);
    kin_forgive(ctx);
    memset(&ctx->report, 0, sizeof ctx->report);
    return true;
}
