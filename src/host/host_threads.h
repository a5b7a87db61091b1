/* SPDX-License-Identifier: Apache-2.0
 * Work for all threads of a context. */
#ifndef KIN_HOST_THREADS_H
#define KIN_HOST_THREADS_H

#include "base/base_ctx.h"
#include "host/host_progress.h"

/* One piece of work. `thread` is 0 .. ctx->threads - 1, and no two pieces that run at the same time
 * have the same one, so it may index scratch memory. */
typedef kith_status (*kin_task_fn)(void *arg, int64_t task, int32_t thread);

/* Runs fn(arg, 0 .. tasks - 1), each once, in rising order of start, on at most ctx->threads
 * threads; the caller is thread 0. The first failure stops what has not begun and is returned.
 * Between pieces the caller's thread reports progress under the name `phase` (NULL: none) and may
 * be told to cancel: pieces should last well under 0.1 s. Every thread runs in the standard
 * floating-point mode. All that fn wrote is visible to the caller afterwards. */
kith_status kin_parallel(kith_ctx *ctx, const char *phase, int64_t tasks, kin_task_fn fn,
                         void *arg);

/* A thread that takes no signals: Ctrl-C belongs to the thread that called kith. As pthread_create.
 */
int kin_thread_start(pthread_t *thread, void *(*body)(void *), void *arg);

#endif
