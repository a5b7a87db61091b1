/* SPDX-License-Identifier: Apache-2.0
 * Contract: bench_select.h.
 *
 * The text of the method is part of this file, so that a clock can stand between its own parts. It
 * is the clock of the thread: what else the machine does is not in it. */
#include "bench_select.h"

/* The library has the function of that name. */
#define kin_papers_threshold_heap bench_threshold_heap
#include "papers/papers_threshold_heap.c" /* NOLINT(bugprone-suspicious-include) */

#include "host/host_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLE, COMPRESS, HEAP, PARTS, MOST_THREADS = 256 };

/* A thread's memory and seconds, on cache lines of its own. */
typedef struct worker {
    kin_word64 *scratch;
    kin_word64 *out;
    double seconds[PARTS];
    char apart[64];
} worker;

typedef struct turn {
    const kin_select_job *job;
    worker worker[MOST_THREADS];
} turn;

static double thread_seconds(void)
{
    struct timespec spent;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent) != 0) {
        bench_stop("no clock of", "a thread");
    }
    return (double)spent.tv_sec + (double)spent.tv_nsec * 1e-9;
}

static kith_status select_row(void *arg, int64_t row, int32_t thread)
{
    turn *t = arg;
    worker *w = &t->worker[thread];
    const kin_select_job *job = t->job;
    const kin_run run = {.values = job->values + row * job->stride_bytes,
                         .count = job->cols,
                         .dtype = job->dtype,
                         .largest = job->largest};
    heap_64 heap = {w->scratch, job->k};
    const double start = thread_seconds();
    const kin_word64 threshold = threshold_64(job, &run, &heap);
    const double sampled = thread_seconds();
    const int64_t count = prune_64(&run, threshold, w->scratch + job->k);
    const double compressed = thread_seconds();
    finish_64(job, &heap, count, w->out);
    w->seconds[SAMPLE] += sampled - start;
    w->seconds[COMPRESS] += compressed - sampled;
    w->seconds[HEAP] += thread_seconds() - compressed;
    return KITH_OK;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void open_turn(turn *t, int32_t threads)
{
    for (int32_t i = 0; i < threads; i++) {
        t->worker[i].scratch = malloc(scratch_bytes(t->job, t->job->cols));
        t->worker[i].out = malloc((size_t)t->job->k * sizeof(kin_word64));
        if (t->worker[i].scratch == NULL || t->worker[i].out == NULL) {
            bench_stop("no host memory for", "a heap");
        }
    }
}

void bench_parts(bench *b, kin_select_job job)
{
    static const char *const names[PARTS] = {"threshold", "compression", "heap"};
    const int32_t threads = b->ctx->threads;
    if (b->gpu != NULL || job.dtype == KIN_SELECT_F64 || threads > MOST_THREADS) {
        bench_stop("--parts:", "of a processor with 256 threads at most, and not of f64");
    }
    bench_hold(b, &job);
    turn *t = calloc(1, sizeof *t);
    if (t == NULL) {
        bench_stop("no host memory for", "threads");
    }
    t->job = &job;
    open_turn(t, threads);
    double seconds[PARTS][BENCH_MOST_RUNS] = {{0.0}};
    for (int run = -1; run < b->runs; run++) {
        for (int32_t i = 0; i < threads; i++) {
            memset(t->worker[i].seconds, 0, sizeof t->worker[i].seconds);
        }
        if (kin_parallel(b->ctx, NULL, job.rows, select_row, t) != KITH_OK) {
            bench_stop("selecting:", kith_ctx_detail(b->ctx));
        }
        for (int32_t i = 0; i < threads && run >= 0; i++) {
            for (int p = 0; p < PARTS; p++) {
                seconds[p][run] += t->worker[i].seconds[p] / threads;
            }
        }
    }
    for (int p = 0; p < PARTS; p++) {
        qsort(seconds[p], (size_t)b->runs, sizeof seconds[p][0], by_size);
        printf("%s %.7f %.7f %.7f\n", names[p], seconds[p][b->runs / 2], seconds[p][0],
               seconds[p][b->runs - 1]);
    }
    for (int32_t i = 0; i < threads; i++) {
        free(t->worker[i].scratch);
        free(t->worker[i].out);
    }
    free(t);
}
