/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TOLD = 20 };

test_bench test_bench_open(void)
{
    test_bench b = {.units = {"mma", NULL}};
    assert_int_equal(kith_ctx_create(NULL, &b.ctx), KITH_OK);
    if (kin_gpu_open(b.ctx, kin_gpu_first(), 0, &b.gpu) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(b.ctx));
    }
    kin_gpu_enter(b.gpu);
    if (b.gpu->info.major == 9 && b.gpu->info.minor == 0) {
        b.units[1] = "wgmma";
    }
    b.unit = b.units[0];
    return b;
}

void test_bench_close(test_bench *b)
{
    test_give_back(b, 0);
    kin_gpu_leave(b->gpu);
    kin_gpu_close(b->ctx, b->gpu);
    kith_ctx_free(b->ctx);
}

int test_bench_setup(void **state)
{
    static test_bench bench;
    bench = test_bench_open();
    bench.seed = 7;
    *state = &bench;
    return 0;
}

int test_bench_teardown(void **state)
{
    test_bench_close(*state);
    return 0;
}

void *test_host_block(uint64_t count, size_t item)
{
    void *block = calloc(count > 0 ? count : 1, item);
    assert_non_null(block);
    return block;
}

void *test_bench_block(test_bench *b, uint64_t bytes, int fill)
{
    void *block = NULL;
    assert_true(b->block_count < TEST_BLOCKS);
    assert_int_equal(kin_gpu_alloc(b->ctx, b->gpu, &block, bytes, 1, "test"), KITH_OK);
    b->blocks[b->block_count++] = block;
    assert_int_equal(kin_gpu_fill(b->ctx, b->gpu, block, fill, bytes), KITH_OK);
    return block;
}

void *test_bench_copy(test_bench *b, const void *from, uint64_t bytes)
{
    void *block = test_bench_block(b, bytes, 0);
    assert_int_equal(kin_gpu_upload(b->ctx, b->gpu, block, from, bytes), KITH_OK);
    return block;
}

void *test_host_copy(test_bench *b, const void *from, uint64_t bytes)
{
    void *block = test_host_block(bytes, 1);
    assert_int_equal(kin_gpu_download(b->ctx, b->gpu, block, from, bytes), KITH_OK);
    return block;
}

void test_give_back(test_bench *b, int count)
{
    while (b->block_count > count) {
        kin_gpu_free(b->gpu, b->blocks[--b->block_count]);
    }
}

void test_bench_launched(test_bench *b, int error, const char *what)
{
    if (kin_gpu_check(b->ctx, b->gpu, error, what) != KITH_OK ||
        kin_gpu_wait(b->ctx, b->gpu) != KITH_OK) {
        fail_msg("%s: %s", what, kith_ctx_detail(b->ctx));
    }
}

void test_bench_tell(test_bench *b, const char *what, const char *kind, int64_t k, int64_t row,
                     double want, double got)
{
    b->wrong += 1;
    if (b->wrong <= MOST_TOLD) {
        printf("WRONG %s: %s, k %lld, row %lld: want %.17g, got %.17g\n", what, kind, (long long)k,
               (long long)row, want, got);
        (void)fflush(stdout);
    }
}

kin_screen_gpu_frame test_screen_frame(kin_bound_kind kind)
{
    return (kin_screen_gpu_frame){.type = kind == KIN_BOUND_INTEGER ? KIN_SCREEN_GPU_S8
                                                                    : KIN_SCREEN_GPU_F16,
                                  .bound = kind,
                                  .cols = 8,
                                  .row_bytes = 128,
                                  .scale = kind == KIN_BOUND_INTEGER ? 1.0 : 0x1p-7,
                                  .kappa = kind == KIN_BOUND_INTEGER ? 0.0 : 128 * 0x1p-24,
                                  .key_scale = 1.0,
                                  .reach_scale = 1.0};
}

void test_screen_run(test_bench *b, const kin_screen_gpu_screen *job)
{
    assert_int_equal(setenv("KITH_GPU_UNIT", b->unit, 1), 0);
    test_bench_launched(b, b->gpu->module->screen->screen(b->gpu->stream, job), b->unit);
}

double test_cost_of_order(kin_screen_gpu_type type, uint32_t order)
{
    kin_screen_gpu_word w = {.u = order ^ 0x80000000U};
    if (type == KIN_SCREEN_GPU_F16 && order < 0x80000000U) {
        w.u = ~order;
    }
    return type == KIN_SCREEN_GPU_S8 ? (double)w.i : (double)w.f;
}

float test_float_above(double x)
{
    const float f = (float)x;
    return (double)f < x ? nextafterf(f, INFINITY) : f;
}

int test_compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int compare_costs(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The i-th of the parts is a cost of the tile; i + 1 columns cost no more, and of those that cost
 * less each is in one of the i parts before. */
bool test_are_parts(uint32_t *costs, uint32_t *parts)
{
    enum { PARTS = KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_PART };
    bool right = true;
    qsort(costs, KIN_SCREEN_GPU_TILE, sizeof *costs, compare_costs);
    qsort(parts, PARTS, sizeof *parts, compare_costs);
    for (int i = 0; i < PARTS; i++) {
        int less = 0;
        int at_most = 0;
        for (int j = 0; j < KIN_SCREEN_GPU_TILE; j++) {
            less += costs[j] < parts[i];
            at_most += costs[j] <= parts[i];
        }
        right = right && at_most > i && at_most > less && less <= i * KIN_SCREEN_GPU_PART;
    }
    return right;
}
