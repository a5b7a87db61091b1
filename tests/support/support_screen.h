/* SPDX-License-Identifier: Apache-2.0
 * Launches of the screen by themselves: a device, memory on it, and the bodies that it has. */
#ifndef SUPPORT_SCREEN_H
#define SUPPORT_SCREEN_H

#include "gpu/gpu.h"
#include "screen/screen_kernels.h"

enum { TEST_BLOCKS = 64 };

/* A device, and what is to be given back to it. */
typedef struct test_bench {
    kith_ctx *ctx;
    kin_gpu *gpu;
    const char
        *units[2];    /* bodies of the screen that this device has, the second one may be NULL */
    const char *unit; /* the one that test_screen_run takes */
    void *blocks[TEST_BLOCKS];
    int block_count;
    uint64_t seed;
    int64_t wrong;
} test_bench;

/* All of these end the test where something fails. */
test_bench test_bench_open(void);
void test_bench_close(test_bench *b);
/* The same for a group of tests. */
int test_bench_setup(void **state);
int test_bench_teardown(void **state);

/* Zeros; free() takes it back. */
void *test_host_block(uint64_t count, size_t item);
/* Device memory full of this byte, or with a copy. */
void *test_bench_block(test_bench *b, uint64_t bytes, int fill);
void *test_bench_copy(test_bench *b, const void *from, uint64_t bytes);
/* A host copy of device memory, for free(). */
void *test_host_copy(test_bench *b, const void *from, uint64_t bytes);
/* Frees the youngest device blocks until `count` are left. */
void test_give_back(test_bench *b, int count);

/* Waits for what gave this error, or none. */
void test_bench_launched(test_bench *b, int error, const char *what);
/* Counts what is wrong, and says what the first ones are. */
void test_bench_tell(test_bench *b, const char *what, const char *kind, int64_t k, int64_t row,
                     double want, double got);

/* A frame of few columns for a bound of that kind. */
kin_screen_gpu_frame test_screen_frame(kin_bound_kind kind);
/* Sets KITH_GPU_UNIT, launches, waits. */
void test_screen_run(test_bench *b, const kin_screen_gpu_screen *job);

int test_compare_doubles(const void *a, const void *b);
/* Whether these can be the least costs of the parts of a tile that has these costs. Sorts both. */
bool test_are_parts(uint32_t *costs, uint32_t *parts);

double test_cost_of_order(kin_screen_gpu_type type, uint32_t order);
/* The least float that is not below x. */
float test_float_above(double x);

#endif
