/* SPDX-License-Identifier: Apache-2.0 */
#include "host/host_threads.h"

#include "host/host_clock.h"

#include <string.h>

static const int64_t PROGRESS_NS = 50000000;

static kith_status tell(kith_ctx *ctx, kin_phase *phase, double done, double total)
{
    phase->done = done;
    phase->total = total;
    if (ctx->params.progress(ctx->params.progress_arg, phase->name, done, total) != 0) {
        return kin_fail(ctx, KITH_E_CANCELLED, "stopped by the progress function");
    }
    return KITH_OK;
}

static kith_status finish(kith_ctx *ctx, kin_phase *phase)
{
    return phase->done < phase->total ? tell(ctx, phase, phase->total, phase->total) : KITH_OK;
}

/* What was told of a phase in this call; where there is no room the last one gives its place. */
static kin_phase *find(kith_ctx *ctx, const char *name)
{
    for (int32_t i = 0; i < ctx->phase_count; i++) {
        if (strcmp(ctx->phases[i].name, name) == 0) {
            return &ctx->phases[i];
        }
    }
    if (ctx->phase_count < KIN_PHASES) {
        ctx->phase_count += 1;
    }
    kin_phase *phase = &ctx->phases[ctx->phase_count - 1];
    *phase = (kin_phase){.name = name};
    return phase;
}

kith_status kin_progress(kith_ctx *ctx, const char *name, double done, double total)
{
    if (ctx->params.progress == NULL || name == NULL) {
        return KITH_OK;
    }
    const int64_t now = kin_clock_ns();
    if (ctx->progress_ns != 0 && now - ctx->progress_ns < PROGRESS_NS) {
        return KITH_OK;
    }
    ctx->progress_ns = now;
    if (ctx->progress_part != NULL) {
        name = ctx->progress_part;
        done = 0.0;
        total = 1.0;
    }
    kin_phase *phase = find(ctx, name);
    const double here = done > total ? total : done;
    if (total != phase->total || here < phase->done) {
        const kith_status status = finish(ctx, phase);
        if (status != KITH_OK) {
            return status;
        }
    }
    return tell(ctx, phase, here, total);
}

kith_status kin_progress_close(kith_ctx *ctx)
{
    kith_status status = KITH_OK;
    while (status == KITH_OK && ctx->phase_count > 0 && ctx->progress_part == NULL) {
        ctx->phase_count -= 1;
        status = finish(ctx, &ctx->phases[ctx->phase_count]);
    }
    return status;
}

kith_status kin_progress_end(kith_ctx *ctx, kith_status status)
{
    while (status == KITH_OK && kin_progress_close(ctx) != KITH_OK) {
        kin_forgive(ctx); /* too late to stop */
    }
    ctx->phase_count = 0;
    return status;
}
