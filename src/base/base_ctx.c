/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base_ctx.h"

#include <stdarg.h>
#include <stdio.h>

kith_status kin_ctx_begin(kith_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->failed = ctx->setup;
    memcpy(ctx->detail, ctx->setup_detail, sizeof ctx->detail);
    pthread_mutex_unlock(&ctx->lock);
    ctx->progress_ns = 0;
    ctx->phase_count = 0;
    return ctx->setup;
}

/* A path may be longer than the room. Then the middle gives way: what is wrong stands at the end.
 */
static void explain(char detail[KIN_DETAIL_BYTES], const char *format, va_list args)
{
    enum { WHOLE = 8192, HEAD = 256, GAP = 3, TAIL = KIN_DETAIL_BYTES - HEAD - GAP };
    char whole[WHOLE];
    const int wanted = vsnprintf(whole, sizeof whole, format, args);
    const size_t length = wanted < WHOLE ? (size_t)(wanted > 0 ? wanted : 0) : WHOLE - 1;
    if (length < KIN_DETAIL_BYTES) {
        memcpy(detail, whole, length + 1);
        return;
    }
    memcpy(detail, whole, HEAD);
    memcpy(detail + HEAD, "...", GAP);
    memcpy(detail + HEAD + GAP, whole + length + 1 - TAIL, TAIL);
}

kith_status kin_fail(kith_ctx *ctx, kith_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&ctx->lock);
    if (ctx->failed == KITH_OK) {
        ctx->failed = status;
        explain(ctx->detail, format, args);
    }
    pthread_mutex_unlock(&ctx->lock);
    va_end(args);
    return status;
}

void kin_forgive(kith_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->failed = KITH_OK;
    ctx->detail[0] = '\0';
    pthread_mutex_unlock(&ctx->lock);
}

void kin_log(const kith_ctx *ctx, int level, const char *format, ...)
{
    if (ctx->params.log == NULL) {
        return;
    }
    char line[KIN_DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ctx->params.log(ctx->params.log_arg, level, line);
}
