/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that are born for one piece of work and joined at its end. A pool that waits would save
 * some 20 microseconds a region, of which a job has a dozen, and would cost what pools cost inside
 * other people's processes: a second OpenMP runtime beside NumPy's and PyTorch's, threads that do
 * not survive fork(), and floating-point modes inherited from whoever started them.
 *
 * And what a progress function hears of their work.
 */
#include "host/host_threads.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 1024 };

typedef struct team {
    kith_ctx *ctx;
    const char *phase;
    int64_t tasks;
    kin_task_fn fn;
    void *arg;
    atomic_int_fast64_t next;
    atomic_int_fast32_t seats; /* the next thread number */
    atomic_bool stop;
    pthread_mutex_t lock; /* guards what follows */
    kith_status status;   /* of piece `failed` */
    int64_t failed;       /* the lowest that has failed */
} team;

/* Pieces begin in order, and those that have begun end: the lowest that can fail has been told of
 * when all threads are through. */
static void give_up(team *t, int64_t task, kith_status status)
{
    pthread_mutex_lock(&t->lock);
    if (t->status == KITH_OK || task < t->failed) {
        t->status = status;
        t->failed = task;
    }
    pthread_mutex_unlock(&t->lock);
    atomic_store_explicit(&t->stop, true, memory_order_relaxed);
}

static void work(team *t, int32_t thread)
{
    const kin_fpenv found = kin_fpenv_enter();
    const int64_t around = kin_task_enter(KIN_NO_TASK);
    while (!atomic_load_explicit(&t->stop, memory_order_relaxed)) {
        const int64_t task = atomic_fetch_add(&t->next, 1);
        if (task >= t->tasks) {
            break;
        }
        (void)kin_task_enter(task);
        kith_status status = t->fn(t->arg, task, thread);
        if (status == KITH_OK && thread == 0) {
            status = kin_progress(t->ctx, t->phase, (double)(task + 1), (double)t->tasks);
        }
        if (status != KITH_OK) {
            give_up(t, task, status);
        }
    }
    (void)kin_task_enter(around);
    kin_fpenv_leave(found);
}

static void *thread_main(void *arg)
{
    team *t = arg;
    work(t, (int32_t)atomic_fetch_add(&t->seats, 1));
    return NULL;
}

int kin_thread_start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, body, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void *work_beside(void *arg)
{
    kin_beside *b = arg;
    b->status = b->body(b->arg);
    atomic_store(&b->ended, true);
    return NULL;
}

void kin_beside_start(kin_beside *beside, kith_ctx *ctx, kith_status (*body)(void *arg), void *arg)
{
    beside->ctx = ctx;
    beside->body = body;
    beside->arg = arg;
    beside->started = true;
    atomic_store(&beside->ended, false);
    if (ctx != NULL) {
        kin_forgive(ctx);
    }
    beside->threaded = kin_thread_start(&beside->thread, work_beside, beside) == 0;
    if (!beside->threaded) {
        (void)work_beside(beside);
    }
}

kith_status kin_beside_wait(kin_beside *beside, kith_ctx *ctx)
{
    if (!beside->started) {
        return KITH_OK;
    }
    if (beside->threaded) {
        (void)pthread_join(beside->thread, NULL);
    }
    beside->started = false;
    return beside->status == KITH_OK ? KITH_OK : kin_fail_like(ctx, beside->status, beside->ctx);
}

kith_status kin_parallel(kith_ctx *ctx, const char *phase, int64_t tasks, kin_task_fn fn, void *arg)
{
    team t = {.ctx = ctx,
              .phase = phase,
              .tasks = tasks,
              .fn = fn,
              .arg = arg,
              .lock = PTHREAD_MUTEX_INITIALIZER};
    atomic_init(&t.next, 0);
    atomic_init(&t.seats, 1);
    atomic_init(&t.stop, false);
    pthread_t threads[MAX_THREADS];
    const int64_t wanted = kin_min_i64(kin_min_i64(ctx->threads, tasks), MAX_THREADS) - 1;
    int64_t born = 0;

    while (born < wanted && kin_thread_start(&threads[born], thread_main, &t) == 0) {
        born += 1; /* fewer threads than wished for are slower, not wrong */
    }
    work(&t, 0);
    for (int64_t i = 0; i < born; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (t.status == KITH_OK) {
        return kin_progress(ctx, phase, (double)tasks, (double)tasks);
    }
    kin_failure_settle(ctx);
    return t.status;
}

typedef struct pieces {
    int64_t rows;
    int64_t step;
    kin_task_fn fn;
    void *arg;
} pieces;

static kith_status do_piece(void *arg, int64_t task, int32_t thread)
{
    const pieces *p = arg;
    const int64_t last = kin_min_i64((task + 1) * p->step, p->rows);
    for (int64_t row = task * p->step; row < last; row++) {
        KIN_TRY(p->fn(p->arg, row, thread));
    }
    return KITH_OK;
}

kith_status kin_parallel_rows(kith_ctx *ctx, const char *phase, int64_t rows, int64_t step,
                              kin_task_fn fn, void *arg)
{
    pieces p = {.rows = rows, .step = step, .fn = fn, .arg = arg};
    return kin_parallel(ctx, phase, kin_ceil_div(rows, step), do_piece, &p);
}

enum { ROWS_A_COPY = 1024 };

typedef struct copying {
    const kith_matrix *from;
    const uint32_t *rows;
    kith_matrix copy;
} copying;

static kith_status copy_row(void *arg, int64_t i, int32_t thread)
{
    const copying *c = arg;
    const int64_t row = c->rows != NULL ? (int64_t)c->rows[i] : i;
    (void)thread;
    memcpy((char *)(uintptr_t)c->copy.data + i * c->copy.stride_bytes,
           (const char *)c->from->data + row * c->from->stride_bytes, (size_t)c->copy.stride_bytes);
    return KITH_OK;
}

kith_status kin_copy_rows(kith_ctx *ctx, const kith_matrix *from, const uint32_t *rows,
                          int64_t count, void *to, kith_matrix *copy)
{
    copying c = {.from = from, .rows = rows, .copy = *from};
    c.copy.data = to;
    c.copy.rows = count;
    c.copy.stride_bytes = (int64_t)kin_row_bytes(from);
    *copy = c.copy;
    return kin_parallel_rows(ctx, NULL, count, ROWS_A_COPY, copy_row, &c);
}

kith_status kin_hold_rows(kin_hold *hold, const kith_matrix *from, const uint32_t *rows,
                          int64_t count, const char *what, kith_matrix *copy)
{
    void *block = NULL;
    KIN_TRY(kin_hold_alloc(hold, &block, (uint64_t)count, kin_row_bytes(from), what));
    return kin_copy_rows(hold->ctx, from, rows, count, block, copy);
}

/* ---- Guards ---------------------------------------------------------------------------------- */

/* The defaults of these two take nothing that could be missing. */
void kin_guard_make(kin_guard *guard)
{
    (void)pthread_mutex_init(&guard->gate, NULL);
    (void)pthread_rwlock_init(&guard->lock, NULL);
    atomic_store(&guard->process, getpid());
}

void kin_guard_free(kin_guard *guard)
{
    (void)pthread_rwlock_destroy(&guard->lock);
    (void)pthread_mutex_destroy(&guard->gate);
}

/* What the parent's threads held at the fork is never given back. */
static void renew(kin_guard *guard)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    if (atomic_load(&guard->process) != getpid()) {
        kin_guard_make(guard);
    }
    pthread_mutex_unlock(&one_at_a_time);
}

void kin_guard_enter(kin_guard *guard, bool alone)
{
    if (atomic_load(&guard->process) != getpid()) {
        renew(guard);
    }
    pthread_mutex_lock(&guard->gate);
    if (alone) {
        pthread_rwlock_wrlock(&guard->lock);
    } else {
        pthread_rwlock_rdlock(&guard->lock);
    }
    pthread_mutex_unlock(&guard->gate);
}

void kin_guard_leave(kin_guard *guard)
{
    pthread_rwlock_unlock(&guard->lock);
}

/* ---- Progress -------------------------------------------------------------------------------- */

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
