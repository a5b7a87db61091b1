/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base_ctx.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local int64_t current_task = KIN_NO_TASK;

int64_t kin_task_enter(int64_t task)
{
    const int64_t before = current_task;
    current_task = task;
    return before;
}

static void clear(kin_failure *failure)
{
    failure->status = KITH_OK;
    failure->task = KIN_NO_TASK;
    failure->row = -1;
    failure->column = -1;
    failure->argument[0] = '\0';
    failure->member[0] = '\0';
    failure->file[0] = '\0';
    failure->reason[0] = '\0';
    failure->detail[0] = '\0';
}

/* The block alone: its lock is gone, or never was. */
static void release_ctx(kith_ctx *ctx)
{
    if (ctx->params.release != NULL) {
        ctx->params.release(ctx->params.allocate_arg, ctx, sizeof *ctx);
    } else {
        free(ctx);
    }
}

kith_ctx *kin_ctx_new(const kith_ctx_params *params)
{
    kith_ctx *ctx = params->allocate != NULL ? params->allocate(params->allocate_arg, sizeof *ctx)
                                             : malloc(sizeof *ctx);
    if (ctx == NULL) {
        return NULL;
    }
    memset(ctx, 0, sizeof *ctx);
    ctx->params = *params;
    clear(&ctx->failure);
    ctx->setup = ctx->failure;
    atomic_init(&ctx->held_bytes, 0);
    atomic_init(&ctx->peak_bytes, 0);
    if (pthread_mutex_init(&ctx->lock, NULL) != 0) {
        release_ctx(ctx);
        return NULL;
    }
    return ctx;
}

void kin_ctx_delete(kith_ctx *ctx)
{
    if (ctx != NULL) {
        (void)pthread_mutex_destroy(&ctx->lock);
        release_ctx(ctx);
    }
}

kith_status kin_ctx_begin(kith_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    if (ctx->setup.status == KITH_OK) {
        clear(&ctx->failure);
    } else {
        ctx->failure = ctx->setup;
    }
    pthread_mutex_unlock(&ctx->lock);
    ctx->progress_ns = 0;
    ctx->phase_count = 0;
    return ctx->setup.status;
}

enum { WHOLE_BYTES = 2 * KIN_FILE_BYTES + 2 * KIN_DETAIL_BYTES };

static void copy(char *out, size_t room, const char *text)
{
    (void)snprintf(out, room, "%s", text != NULL ? text : "");
}

static void put_file(char *out, size_t room, const kin_place *place)
{
    (void)snprintf(out, room, "%s%s%s", place->folder != NULL ? place->folder : "",
                   place->folder != NULL ? "/" : "", place->file != NULL ? place->file : "");
}

/* A path may be longer than the room. Then the middle gives way: what is wrong stands at the end.
 */
static void shorten(char detail[KIN_DETAIL_BYTES], const char *whole)
{
    enum { HEAD = 256, GAP = 3, TAIL = KIN_DETAIL_BYTES - HEAD - GAP };
    const size_t length = strlen(whole);
    if (length < KIN_DETAIL_BYTES) {
        memcpy(detail, whole, length + 1);
        return;
    }
    memcpy(detail, whole, HEAD);
    memcpy(detail + HEAD, "...", GAP);
    memcpy(detail + HEAD + GAP, whole + length + 1 - TAIL, TAIL);
}

/* The place in words, with what parts it from the reason. */
static void put_place(const kin_failure *f, char *out, size_t room)
{
    char cell[64] = "";
    if (f->file[0] != '\0') {
        (void)snprintf(out, room, "%s: ", f->file);
        return;
    }
    if (f->argument[0] == '\0') {
        out[0] = '\0';
        return;
    }
    if (f->row >= 0 && f->column >= 0) {
        (void)snprintf(cell, sizeof cell, "[%" PRId64 ", %" PRId64 "]", f->row, f->column);
    } else if (f->row >= 0) {
        (void)snprintf(cell, sizeof cell, "[%" PRId64 "]", f->row);
    }
    (void)snprintf(out, room, "%s%s%s%s ", f->argument, f->member[0] != '\0' ? "." : "", f->member,
                   cell);
}

static void put_sentence(kin_failure *f)
{
    char whole[WHOLE_BYTES];
    put_place(f, whole, sizeof whole);
    const size_t used = strlen(whole);
    (void)snprintf(whole + used, sizeof whole - used, "%s", f->reason);
    shorten(f->detail, whole);
}

/* There is none, or one of a later piece of the same region. */
static bool gives_way(const kin_failure *f)
{
    return f->status == KITH_OK || (current_task != KIN_NO_TASK && f->task > current_task);
}

static kith_status record(kith_ctx *ctx, kith_status status, const kin_place *place,
                          const char *format, va_list args)
{
    kin_failure *f = &ctx->failure;
    pthread_mutex_lock(&ctx->lock);
    if (gives_way(f)) {
        char whole[WHOLE_BYTES];
        f->status = status;
        f->task = current_task;
        f->row = place->row;
        f->column = place->column;
        copy(f->argument, sizeof f->argument, place->argument);
        copy(f->member, sizeof f->member, place->member);
        put_file(f->file, sizeof f->file, place);
        (void)vsnprintf(whole, sizeof whole, format, args);
        shorten(f->reason, whole);
        put_sentence(f);
    }
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

kith_status kin_fail_at(kith_ctx *ctx, kith_status status, kin_place place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)record(ctx, status, &place, format, args);
    va_end(args);
    return status;
}

kith_status kin_fail(kith_ctx *ctx, kith_status status, const char *format, ...)
{
    const kin_place nowhere = {.row = -1, .column = -1};
    va_list args;
    va_start(args, format);
    (void)record(ctx, status, &nowhere, format, args);
    va_end(args);
    return status;
}

kith_status kin_fail_like(kith_ctx *ctx, kith_status status, const kith_ctx *other)
{
    pthread_mutex_lock(&ctx->lock);
    if (gives_way(&ctx->failure)) {
        ctx->failure = other->failure;
        ctx->failure.status = status;
        ctx->failure.task = current_task;
    }
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

void kin_failure_shift(kith_ctx *ctx, const char *argument, const char *name, int64_t first)
{
    kin_failure *f = &ctx->failure;
    pthread_mutex_lock(&ctx->lock);
    if (f->status != KITH_OK && f->row >= 0 && strcmp(f->argument, argument) == 0) {
        f->row += first;
        copy(f->argument, sizeof f->argument, name);
        put_sentence(f);
    }
    pthread_mutex_unlock(&ctx->lock);
}

void kin_failure_settle(kith_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->failure.task = current_task; /* of the region around, if there is one */
    pthread_mutex_unlock(&ctx->lock);
}

void kin_forgive(kith_ctx *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    clear(&ctx->failure);
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

/* ---- Names and sentences of the statuses, from the table in the public header ---------------- */

const char *kith_status_name(kith_status status)
{
    switch (status) {
#define CASE(name, value, text) \
    case KITH_##name:           \
        return #name;
        KITH_STATUS_MAP(CASE)
#undef CASE
    }
    return "E_UNKNOWN";
}

const char *kith_status_text(kith_status status)
{
    switch (status) {
#define CASE(name, value, text) \
    case KITH_##name:           \
        return text;
        KITH_STATUS_MAP(CASE)
#undef CASE
    }
    return "a status that this version of kith does not know";
}
