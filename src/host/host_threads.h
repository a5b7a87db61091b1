/* SPDX-License-Identifier: Apache-2.0
 * Work for all threads of a context. */
#ifndef KIN_HOST_THREADS_H
#define KIN_HOST_THREADS_H

#include "base/base_mem.h"

/* One piece of work. `thread` is 0 .. ctx->threads - 1, and no two pieces that run at the same time
 * have the same one, so it may index scratch memory. */
typedef kith_status (*kin_task_fn)(void *arg, int64_t task, int32_t thread);

/* Runs fn(arg, 0 .. tasks - 1), each once, in rising order of start, on at most ctx->threads
 * threads, and no more than tasks, numbered from 0; the caller is thread 0. A failure stops what
 * has not begun; of all that failed the one with the lowest number is returned, which does not
 * depend on the threads. Between pieces the caller's thread reports progress under the name `phase`
 * (NULL: none) and may be told to cancel: pieces should last well under 0.1 s. Every thread runs in
 * the standard floating-point mode. All that fn wrote is visible to the caller afterwards. */
kith_status kin_parallel(kith_ctx *ctx, const char *phase, int64_t tasks, kin_task_fn fn,
                         void *arg);
/* The same for rows or the like: fn(arg, 0 .. rows - 1), `step` of them a piece, in rising order
 * inside it. Progress is told in pieces. */
kith_status kin_parallel_rows(kith_ctx *ctx, const char *phase, int64_t rows, int64_t step,
                              kin_task_fn fn, void *arg);

/* Copies of these rows of a matrix (NULL: of the first ones), one after another, by all threads. */
kith_status kin_copy_rows(kith_ctx *ctx, const kith_matrix *from, const uint32_t *rows,
                          int64_t count, void *to, kith_matrix *copy);
/* The same, into memory of the hold. */
kith_status kin_hold_rows(kin_hold *hold, const kith_matrix *from, const uint32_t *rows,
                          int64_t count, const char *what, kith_matrix *copy);

/* A thread that takes no signals: Ctrl-C belongs to the thread that called kith. As pthread_create.
 */
int kin_thread_start(pthread_t *thread, void *(*body)(void *), void *arg);

/* Work beside the caller's: by a thread of its own, or at once where none can be had. */
typedef struct kin_beside {
    kith_ctx *ctx; /* the work's own; NULL: it has none, and cannot fail */
    kith_status (*body)(void *arg);
    void *arg;
    kith_status status;
    bool started; /* and not waited for */
    bool threaded;
    atomic_bool ended;
    pthread_t thread;
} kin_beside;

void kin_beside_start(kin_beside *beside, kith_ctx *ctx, kith_status (*body)(void *arg), void *arg);
/* Once for every start; at other times KITH_OK. A failure becomes one of this context. */
kith_status kin_beside_wait(kin_beside *beside, kith_ctx *ctx);

/* Many readers, or one who changes: who wants to change waits for readers, and readers that come
 * later wait behind it. In a forked process, where other threads are gone, nobody holds it. */
typedef struct kin_guard {
    pthread_mutex_t gate; /* passed by all, and held by a change that waits */
    pthread_rwlock_t lock;
    atomic_int process;
} kin_guard;

void kin_guard_make(kin_guard *guard);
void kin_guard_free(kin_guard *guard);
void kin_guard_enter(kin_guard *guard, bool alone);
void kin_guard_leave(kin_guard *guard);

/* ---- Progress -------------------------------------------------------------------------------- */

/* What a caller's progress function hears. Here alone it is asked, so that this holds for every
 * call: a phase never goes beyond its total, does not go back before it has reached it (then it
 * begins anew: work of that name is done in several turns), and has reached it when a call ends
 * that did what it was asked for. */

/* Asks the caller's progress function, at most every 50 ms; KITH_E_CANCELLED if it says stop. For
 * long work outside kin_parallel; only from the thread that called kith. name: of the phase, a text
 * that stays; NULL: nobody is asked. */
kith_status kin_progress(kith_ctx *ctx, const char *name, double done, double total);

/* The end of a step behind which others follow: what was told of is done. */
kith_status kin_progress_close(kith_ctx *ctx);
/* The end of a public call: what was told of is done, and it is too late to stop. Hands the status
 * on. */
kith_status kin_progress_end(kith_ctx *ctx, kith_status status);

#endif
