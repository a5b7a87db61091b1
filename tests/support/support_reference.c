/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_reference.h"

#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BROKEN = 700 /* the error that it gives */ };

test_reference_faults test_faults;
test_reference_counts test_counts;
test_reference_tables test_tables;

static const kin_gpu_ops *ops; /* those that do the work */
static atomic_int_fast64_t streams;
static atomic_int_fast64_t events;
static atomic_int_fast64_t blocks;
static atomic_int_fast64_t pinned;

static const char *error_text(int error)
{
    return error == BROKEN ? "broken on purpose" : ops->error_text(error);
}

static int open_stream(int32_t index, void *foreign, kin_gpu_stream **out)
{
    *out = NULL;
    const int error = test_faults.no_stream ? BROKEN : ops->open(index, foreign, out);
    streams += error == 0 ? 1 : 0;
    return error;
}

static void close_stream(kin_gpu_stream *stream)
{
    streams -= 1;
    ops->close(stream);
}

static int allocate(kin_gpu_stream *stream, uint64_t bytes, void **out)
{
    const int error = ops->allocate(stream, bytes, out);
    blocks += error == 0 ? 1 : 0;
    return error;
}

static void release(kin_gpu_stream *stream, void *block)
{
    blocks -= 1;
    ops->release(stream, block);
}

static int allocate_pinned(uint64_t bytes, void **out)
{
    *out = NULL;
    const int error =
        test_faults.no_pinned ? KIN_GPU_ERROR_MEMORY : ops->allocate_pinned(bytes, out);
    pinned += error == 0 ? 1 : 0;
    return error;
}

static void release_pinned(void *block)
{
    pinned -= 1;
    ops->release_pinned(block);
}

static int event_make(void **event)
{
    *event = NULL;
    const int error = test_faults.no_event ? BROKEN : ops->event_make(event);
    events += error == 0 ? 1 : 0;
    return error;
}

static void event_free(void *event)
{
    events -= event != NULL ? 1 : 0;
    ops->event_free(event);
}

static int event_follow(kin_gpu_stream *stream, void *event)
{
    test_counts.follower = stream;
    return ops->event_follow(stream, event);
}

/* Whether a copy fails, after the time that it takes. */
static int begin_copy(void)
{
    const struct timespec pause = {.tv_nsec = test_faults.copy_ns};
    const int64_t number = atomic_fetch_add(&test_counts.copies, 1) + 1;
    if (test_faults.copy_ns > 0) {
        (void)nanosleep(&pause, NULL);
    }
    return test_faults.failing_copy != 0 && number >= test_faults.failing_copy ? BROKEN : 0;
}

static int copy_in(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    const int error = begin_copy();
    return error != 0 ? error : ops->copy_in(stream, to, from, bytes);
}

static int copy_out(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    const int error = begin_copy();
    return error != 0 ? error : ops->copy_out(stream, to, from, bytes);
}

static void fill_tables(const kin_gpu_module *given)
{
    test_reference_tables *t = &test_tables;
    ops = given->ops;
    t->module = *given;
    t->module.ops = &t->ops;
    t->module.screen = &t->screen;
    t->module.tree = &t->tree;
    t->module.graph = &t->graph;
    t->screen = *given->screen;
    t->tree = *given->tree;
    t->graph = *given->graph;
    t->ops = *ops;
    t->ops.error_text = error_text;
    t->ops.open = open_stream;
    t->ops.close = close_stream;
    t->ops.allocate = allocate;
    t->ops.release = release;
    t->ops.allocate_pinned = allocate_pinned;
    t->ops.release_pinned = release_pinned;
    t->ops.event_make = event_make;
    t->ops.event_free = event_free;
    t->ops.event_follow = event_follow;
    t->ops.copy_in = copy_in;
    t->ops.copy_out = copy_out;
}

void test_reference_use(int32_t devices)
{
    char count[16];
    (void)snprintf(count, sizeof count, "%d", (int)devices);
    assert_int_equal(setenv("KITH_CUDA_MODULE", KITH_REFERENCE, 1), 0);
    assert_int_equal(setenv("KITH_REFERENCE_DEVICES", count, 1), 0);
}

void test_reference_watch(kin_gpu *gpu)
{
    assert_string_equal(gpu->info.name, "reference device");
    fill_tables(kin_gpu_get_module());
    gpu->module = &test_tables.module;
    streams += 1;
}

/* ---- Teams ----------------------------------------------------------------------------------- */

char test_logged[256];
static pthread_mutex_t logging = PTHREAD_MUTEX_INITIALIZER; /* members log, too */

static void take_log(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    pthread_mutex_lock(&logging);
    (void)snprintf(test_logged, sizeof test_logged, "%s", line);
    pthread_mutex_unlock(&logging);
}

kith_ctx *test_reference_ctx(void)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = "cpu";
    params.threads = 2;
    params.log = take_log;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

kin_gpu *test_reference_team(kith_ctx *ctx, const int32_t *indices, int32_t count, uint64_t budget)
{
    kin_gpu *gpu = NULL;
    assert_int_equal(kin_gpu_open(ctx, indices[0], budget, &gpu), KITH_OK);
    if (count > 1) {
        assert_int_equal(kin_gpu_team_open(ctx, gpu, indices, count, budget), KITH_OK);
    }
    for (int32_t i = 0; i < count; i++) {
        test_reference_watch(count > 1 ? kin_gpu_team_member(gpu->team, i) : gpu);
    }
    test_logged[0] = '\0';
    return gpu;
}

/* ---- One ------------------------------------------------------------------------------------- */

kin_gpu *test_reference_gpu(kith_ctx *ctx, uint64_t budget)
{
    kin_gpu *gpu = NULL;
    test_reference_use(1);
    assert_int_equal(kin_gpu_open(ctx, 0, budget, &gpu), KITH_OK);
    memset(&test_faults, 0, sizeof test_faults);
    test_counts.copies = 0;
    test_counts.follower = NULL;
    test_reference_watch(gpu);
    return gpu;
}

void test_reference_is_empty(void)
{
    assert_int_equal(streams, 0);
    assert_int_equal(events, 0);
    assert_int_equal(blocks, 0);
    assert_int_equal(pinned, 0);
}
