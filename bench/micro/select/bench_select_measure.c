/* SPDX-License-Identifier: Apache-2.0
 * Contract: bench_select.h. */
#include "bench_select.h"

#include "base/base_random.h"
#include "host/host_clock.h"
#include "host/host_threads.h"
#include "select/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLED = 16, PIECE = 1 << 18 };

void bench_stop(const char *what, const char *detail)
{
    (void)fprintf(stderr, "bench_select: %s %s\n", what, detail);
    exit(1);
}

static void must(const bench *b, kith_status status, const char *what)
{
    if (status != KITH_OK) {
        bench_stop(what, kith_ctx_detail(b->ctx));
    }
}

static void *take(uint64_t bytes)
{
    void *block = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (block == NULL) {
        bench_stop("no host memory for", "the matrix");
    }
    return block;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of all threads of the process, wherever else the machine is busy. */
static double busy_seconds(void)
{
    struct timespec spent;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) != 0) {
        return 0.0;
    }
    return (double)spent.tv_sec + (double)spent.tv_nsec * 1e-9;
}

/* ---- The matrix ----------------------------------------------------------------------------- */

static int64_t matrix_values(const bench_matrix *m)
{
    return m->rows * m->cols;
}

int64_t bench_matrix_bytes(const bench_matrix *m)
{
    return matrix_values(m) * kin_select_type_bytes(m->dtype);
}

static uint64_t matrix_bytes(const bench_matrix *m)
{
    return (uint64_t)bench_matrix_bytes(m);
}

static void put(const bench_matrix *m, int64_t at, uint64_t random)
{
    const double wide = (double)(random >> 11) * 0x1p-53;
    const float single = (float)(random >> 40) * 0x1p-24F;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (m->dtype == KIN_SELECT_F64) {
        memcpy(m->host + 8 * at, &wide, sizeof wide);
    } else if (m->dtype == KIN_SELECT_F32) {
        memcpy(m->host + 4 * at, &bits, sizeof bits);
    } else {
        const uint16_t half = m->dtype == KIN_SELECT_BF16 ? (uint16_t)(bits >> 16)
                              : single < 0x1p-14F         ? (uint16_t)0
                                                          : kin_f16_of_bits32(bits & ~0x1fffu);
        memcpy(m->host + 2 * at, &half, sizeof half);
    }
}

static kith_status fill_piece(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const bench_matrix *m = arg;
    uint64_t seed = (uint64_t)task * 0x10001 + 7;
    const int64_t all = matrix_values(m);
    for (int64_t i = task * PIECE; i < all && i < (task + 1) * PIECE; i++) {
        put(m, i, kin_random_next(&seed));
    }
    return KITH_OK;
}

static volatile uint64_t read_sink;

static kith_status read_piece(void *arg, int64_t task, int32_t thread)
{
    typedef uint64_t u64x2 __attribute__((vector_size(16)));
    (void)thread;
    const bench_matrix *m = arg;
    const int64_t bytes = bench_matrix_bytes(m);
    const int64_t last = (task + 1) * 4 * PIECE < bytes ? (task + 1) * 4 * PIECE : bytes;
    u64x2 even = {0};
    u64x2 odd = {0};
    for (int64_t at = task * 4 * PIECE; at + 64 <= last; at += 64) {
        const u64x2 *line = (const u64x2 *)(const void *)(m->host + at);
        __builtin_prefetch(m->host + at + 1024);
        even |= line[0] | line[1];
        odd |= line[2] | line[3];
    }
    even |= odd;
    read_sink = even[0] | even[1];
    return KITH_OK;
}

static double time_read(bench *b, bench_matrix *m, void *copy)
{
    const int64_t start = kin_clock_ns();
    if (b->gpu == NULL) {
        const int64_t pieces = ((int64_t)matrix_bytes(m) + 4 * PIECE - 1) / (4 * PIECE);
        must(b, kin_parallel(b->ctx, NULL, pieces, read_piece, m), "reading:");
        return kin_clock_since(start);
    }
    const kin_gpu_ops *ops = b->gpu->module->ops;
    const uint64_t half = matrix_bytes(m) / 2;
    must(b,
         kin_gpu_check(b->ctx, b->gpu, ops->copy_within(b->gpu->stream, copy, m->device, half),
                       "copying"),
         "copying:");
    must(b, kin_gpu_wait(b->ctx, b->gpu), "copying:");
    return kin_clock_since(start);
}

void bench_release(bench *b)
{
    free(b->held.host);
    if (b->gpu != NULL) {
        kin_gpu_free(b->gpu, b->held.device);
    }
    b->held = (bench_matrix){0};
}

static void matrix_make(bench *b, int64_t rows, int64_t cols, kin_select_type dtype)
{
    bench_matrix *m = &b->held;
    if (m->host != NULL && m->rows == rows && m->cols == cols && m->dtype == dtype) {
        return;
    }
    bench_release(b);
    *m =
        (bench_matrix){.rows = rows, .cols = cols, .dtype = dtype, .floor = 1e9, .floor_busy = 1e9};
    m->host = take(matrix_bytes(m));
    const int64_t pieces = (matrix_values(m) + PIECE - 1) / PIECE;
    must(b, kin_parallel(b->ctx, NULL, pieces, fill_piece, m), "making:");
    void *copy = NULL;
    if (b->gpu != NULL) {
        must(b, kin_gpu_alloc(b->ctx, b->gpu, &m->device, matrix_bytes(m), 1, "matrix"), "device:");
        must(b, kin_gpu_upload(b->ctx, b->gpu, m->device, m->host, matrix_bytes(m)), "device:");
        must(b, kin_gpu_alloc(b->ctx, b->gpu, &copy, matrix_bytes(m), 1, "copy"), "device:");
    }
    for (int i = 0; i < 6; i++) {
        const double before = busy_seconds();
        const double seconds = time_read(b, m, copy);
        const double spent = (busy_seconds() - before) / b->ctx->threads;
        m->floor_busy = spent < m->floor_busy ? spent : m->floor_busy;
        m->floor = seconds < m->floor ? seconds : m->floor;
    }
    if (b->gpu != NULL) {
        kin_gpu_free(b->gpu, copy);
    }
}

/* ---- One measurement ------------------------------------------------------------------------ */

static void *answer_make(bench *b, uint64_t bytes)
{
    void *block = NULL;
    if (b->gpu == NULL) {
        block = take(bytes);
        memset(block, 0, bytes);
    } else {
        must(b, kin_gpu_alloc(b->ctx, b->gpu, &block, bytes, 1, "answer"), "device:");
    }
    return block;
}

static void answer_free(bench *b, void *block)
{
    if (b->gpu == NULL) {
        free(block);
    } else {
        kin_gpu_free(b->gpu, block);
    }
}

static void answer_read(bench *b, void *to, const void *from, uint64_t bytes)
{
    if (b->gpu == NULL) {
        memcpy(to, from, bytes);
    } else {
        must(b, kin_gpu_download(b->ctx, b->gpu, to, from, bytes), "device:");
    }
}

static int words_in_order(const void *a, const void *b)
{
    const kin_word128 x = *(const kin_word128 *)a;
    const kin_word128 y = *(const kin_word128 *)b;
    return (x > y) - (x < y);
}

/* Sampled rows against all of their words, sorted by the C library. Unsorted answers are sorted. */
static bool check(bench *b, const kin_select_job *job)
{
    const int64_t samples = job->rows < SAMPLED ? job->rows : SAMPLED;
    const uint64_t size = (uint64_t)kin_select_type_bytes(job->dtype);
    const uint64_t k = (uint64_t)job->k;
    kin_word128 *words = take((uint64_t)job->cols * sizeof *words);
    kin_word128 *given = take(k * sizeof *given);
    char *values = take(k * size);
    uint32_t *ids = take(k * sizeof *ids);
    bool right = true;
    for (int64_t i = 0; i < samples; i++) {
        const int64_t row = i * (job->rows - 1) / (samples > 1 ? samples - 1 : 1);
        kin_run run = {.values = b->held.host + (uint64_t)(row * job->cols) * size,
                       .count = job->cols,
                       .dtype = job->dtype,
                       .largest = job->largest};
        answer_read(b, values, (char *)job->out_values + (uint64_t)row * k * size, k * size);
        answer_read(b, ids, job->out_ids + (uint64_t)row * k, k * sizeof *ids);
        for (int pass = 0; pass < 2; pass++) {
            const int64_t count = pass == 0 ? job->cols : job->k;
            kin_word128 *to = pass == 0 ? words : given;
            for (int64_t at = 0; at < count; at++) {
                kin_word64 word = 0;
                if (job->dtype == KIN_SELECT_F64) {
                    kin_select_load128(&run, at, 1, &to[at]);
                } else {
                    kin_select_load64(&run, at, 1, &word);
                    to[at] = word;
                }
                /* Words of what was given back have its ids, not its places. */
                to[at] = pass == 0 ? to[at] : (to[at] >> 32 << 32 | ids[at]);
            }
            run.values = values;
        }
        qsort(words, (size_t)job->cols, sizeof *words, words_in_order);
        if (!job->sorted) {
            qsort(given, k, sizeof *given, words_in_order);
        }
        right = right && memcmp(words, given, k * sizeof *given) == 0;
    }
    free(words);
    free(given);
    free(values);
    free(ids);
    return right;
}

static void select_once(bench *b, const kin_select_job *job)
{
    must(b,
         b->gpu == NULL ? kin_select_host(b->ctx, job)
                        : kin_select_device(b->ctx, b->gpu, job, true),
         "selecting:");
}

void bench_hold(bench *b, kin_select_job *job)
{
    matrix_make(b, job->rows, job->cols, job->dtype);
    job->values = b->gpu == NULL ? b->held.host : b->held.device;
    job->stride_bytes = job->cols * kin_select_type_bytes(job->dtype);
}

static kin_select_job job_make(bench *b, kin_select_job job)
{
    const uint64_t entries = (uint64_t)job.rows * (uint64_t)job.k;
    bench_hold(b, &job);
    job.out_values = answer_make(b, entries * (uint64_t)kin_select_type_bytes(job.dtype));
    job.out_ids = answer_make(b, entries * sizeof(uint32_t));
    return job;
}

static void job_free(bench *b, kin_select_job *job)
{
    answer_free(b, job->out_values);
    answer_free(b, job->out_ids);
}

bench_result bench_measure(bench *b, const kin_select_job *wanted)
{
    kin_select_job job = job_make(b, *wanted);
    double seconds[BENCH_MOST_RUNS];
    double busy = 1e9;
    select_once(b, &job);
    for (int i = 0; i < b->runs; i++) {
        const int64_t start = kin_clock_ns();
        const double before = busy_seconds();
        select_once(b, &job);
        seconds[i] = kin_clock_since(start);
        const double spent = (busy_seconds() - before) / b->ctx->threads;
        busy = spent < busy ? spent : busy;
    }
    qsort(seconds, (size_t)b->runs, sizeof *seconds, by_size);
    const bench_result r = {seconds[b->runs / 2], seconds[0], seconds[b->runs - 1], busy,
                            !b->checks || check(b, &job)};
    job_free(b, &job);
    return r;
}
