/* SPDX-License-Identifier: Apache-2.0
 * Measuring selection for bench_select: a matrix, a job on it, its time and its check. What fails
 * ends the program with a sentence. */
#ifndef BENCH_SELECT_MEASURE_H
#define BENCH_SELECT_MEASURE_H

#include "gpu/gpu.h"
#include "select/select.h"

enum { BENCH_MOST_RUNS = 64 };

/* Uniform values, the same in every run. */
typedef struct bench_matrix {
    char *host;
    char *device; /* NULL on the processor */
    int64_t rows;
    int64_t cols;
    kin_select_type dtype;
    double floor;      /* seconds of one read of it, */
    double floor_busy; /* and of the threads that read (see busy) */
} bench_matrix;

typedef struct bench {
    kith_ctx *ctx;
    kin_gpu *gpu;      /* NULL: the processor */
    bench_matrix held; /* made again only where another one is wanted */
    int runs;
    bool checks;
    const char *csv;
    char machine[192];
} bench;

typedef struct bench_result {
    double median; /* seconds */
    double fastest;
    double slowest;
    double busy; /* on the processor: the least time of all threads by their number */
    bool right;
} bench_result;

_Noreturn void bench_stop(const char *what, const char *detail);
int64_t bench_matrix_bytes(const bench_matrix *m);
/* Memory of values and outputs is added to `wanted`: rows, cols, k, dtype and switches count. */
bench_result bench_measure(bench *b, const kin_select_job *wanted);
/* The matrix of a job, without outputs: values and stride are set. */
void bench_hold(bench *b, kin_select_job *job);
/* All that is held. */
void bench_release(bench *b);

/* Of select_tune.inc: that of the machine. */
int32_t bench_chip(const bench *b);
/* Measures every method in every class of this chip and adds or rewrites its rows of the file. */
void bench_tune(bench *b, const char *path);

/* The parts of threshold_heap on the processor, a line each: name, and seconds that its threads
 * worked, by their number: median, least, most. A GPU's are kernels, which profilers know by name.
 */
void bench_parts(bench *b, kin_select_job job);

#endif
