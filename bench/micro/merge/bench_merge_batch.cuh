/* SPDX-License-Identifier: Apache-2.0
 * What bench_merge merges: queues of two falling runs, made and merged plainly on the host, kept on
 * the device in both layouts, and the comparison with what a kernel has left. What fails ends the
 * program with a sentence. */
#ifndef BENCH_MERGE_BATCH_CUH
#define BENCH_MERGE_BATCH_CUH

#include "bench_merge.cuh"

#include "base/base_random.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIXED_QUEUES = 2048, MIXED_KINDS = 8, CHECK_THREADS = 256 };

static void stop(const char *what, const char *detail)
{
    (void)fprintf(stderr, "bench_merge: %s %s\n", what, detail);
    exit(1);
}

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        stop(what, cudaGetErrorString(error));
    }
}

/* Where word `word` of queues that stand one behind the other lies if 32 stand side by side. */
static __device__ __forceinline__ int64_t beside(int64_t word, int32_t places)
{
    const int64_t queue = word / places;
    return queue / LANES * LANES * places + word % places * LANES + queue % LANES;
}

static __global__ void lay_kernel(const kin_word64 *rows, kin_word64 *lanes, int64_t words,
                                  int32_t places)
{
    const int64_t word = (int64_t)blockIdx.x * CHECK_THREADS + threadIdx.x;
    if (word < words) {
        lanes[beside(word, places)] = rows[word];
    }
}

/* Adds to `wrong` the words from place `first` of each queue on that are not as expected. */
static __global__ void check_kernel(const kin_word64 *got, const kin_word64 *expected,
                                    int64_t words, int32_t places, int32_t first, bool of_lanes,
                                    unsigned long long *wrong)
{
    const int64_t word = (int64_t)blockIdx.x * CHECK_THREADS + threadIdx.x;
    if (word < words && word % places >= first &&
        got[of_lanes ? beside(word, places) : word] != expected[word]) {
        (void)atomicAdd(wrong, 1ULL);
    }
}

/* Of one length; on the device but for `made`. */
typedef struct batch {
    int64_t queues;
    int32_t length;
    kin_word64 *rows;  /* queues one behind the other */
    kin_word64 *lanes; /* 32 side by side */
    kin_word64 *expected;
} batch;

static int64_t batch_words(const batch *b)
{
    return b->queues * 2 * b->length;
}

/* A falling run: sums of random gaps, so that two runs interleave as two samples of one
 * distribution do. Kinds but 0 are what a search or a sentinel could stumble over. */
static void make_run(kin_word64 *run, int32_t length, bool lower, int32_t kind, uint64_t *seed)
{
    const bool behind = (kind == 4 && !lower) || (kind == 5 && lower); /* the other run's words */
    const int32_t same = kind == 6 ? length / (lower ? 2 : 3) : 0;
    kin_word64 word = behind ? UINT64_MAX >> 1 : UINT64_MAX;
    for (int32_t at = 0; at < length; at++) {
        const uint64_t random = kin_random_next(seed);
        uint64_t gap = random >> 13; /* 1024 of them are below 2^61 */
        if (kind == 1 || kind == 2) {
            gap = random >> 60 < (kind == 1 ? 1 : 8) ? 1 : 0; /* few words, many words twice */
        } else if (kind == 3 || at < same) {
            gap = 0; /* one word; empty places of a queue */
        }
        word -= gap;
        run[at] = kind == 7 && at >= length / (lower ? 2 : 3) ? 0 : word;
    }
}

static void merge_plainly(const kin_word64 *runs, int32_t length, kin_word64 *out)
{
    int32_t i = 0;
    int32_t j = 0;
    while (i + j < 2 * length) {
        if (j == length || (i < length && runs[i] >= runs[length + j])) {
            out[i + j] = runs[i];
            i += 1;
        } else {
            out[i + j] = runs[length + j];
            j += 1;
        }
    }
}

static kin_word64 *on_device(int64_t words)
{
    void *block = NULL;
    must(cudaMalloc(&block, (size_t)words * sizeof(kin_word64)), "allocating:");
    return (kin_word64 *)block;
}

static kin_word64 *on_host(int64_t words)
{
    void *block = malloc((size_t)words * sizeof(kin_word64));
    if (block == NULL) {
        stop("no host memory for", "the queues");
    }
    return (kin_word64 *)block;
}

static unsigned blocks_of(int64_t words)
{
    return (unsigned)((words + CHECK_THREADS - 1) / CHECK_THREADS);
}

static batch batch_make(int32_t length, int64_t queues, bool mixed)
{
    batch b = {queues, length, NULL, NULL, NULL};
    const int64_t words = batch_words(&b);
    const size_t bytes = (size_t)words * sizeof(kin_word64);
    kin_word64 *made = on_host(words);
    kin_word64 *merged = on_host(words);
    uint64_t seed = (uint64_t)length;
    for (int64_t queue = 0; queue < queues; queue++) {
        kin_word64 *runs = made + queue * 2 * length;
        const int32_t kind = mixed ? (int32_t)(queue % MIXED_KINDS) : 0;
        make_run(runs, length, false, kind, &seed);
        make_run(runs + length, length, true, kind, &seed);
        merge_plainly(runs, length, merged + queue * 2 * length);
    }
    b.rows = on_device(words);
    b.lanes = on_device(words);
    b.expected = on_device(words);
    must(cudaMemcpy(b.rows, made, bytes, cudaMemcpyHostToDevice), "copying:");
    must(cudaMemcpy(b.expected, merged, bytes, cudaMemcpyHostToDevice), "copying:");
    lay_kernel<<<blocks_of(words), CHECK_THREADS>>>(b.rows, b.lanes, words, 2 * length);
    must(cudaDeviceSynchronize(), "laying:");
    free(made);
    free(merged);
    return b;
}

static void batch_free(const batch *b)
{
    must(cudaFree(b->rows), "freeing:");
    must(cudaFree(b->lanes), "freeing:");
    must(cudaFree(b->expected), "freeing:");
}

#endif
