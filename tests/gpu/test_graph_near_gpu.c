/* SPDX-License-Identifier: Apache-2.0
 * How far near tiles are (near_tiles), against all distances in double: exact where all tiles are
 * looked at, near the wanted rank where a sample is. With KITH_TIMES: what the launches that begin
 * a graph of a million points take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct near_case {
    int64_t tiles;
    int32_t cols;
    int64_t count;
    bool sampled;
} near_case;

static float *make_centres(int64_t tiles, int32_t cols)
{
    float *centres = test_host_room((size_t)(tiles * cols) * sizeof *centres);
    for (int64_t i = 0; i < tiles * cols; i++) {
        centres[i] = (float)test_below(1 << 20) * 0x1p-14F;
    }
    return centres;
}

/* Squares of tile i and each other one, and how many of them are at most `most`. */
static int64_t rank_of(const near_case *c, const float *centres, int64_t i, double most)
{
    int64_t rank = 0;
    for (int64_t j = 0; j < c->tiles; j++) {
        double square = 0;
        for (int32_t d = 0; d < c->cols; d++) {
            const double t = (double)centres[i * c->cols + d] - (double)centres[j * c->cols + d];
            square += t * t;
        }
        rank += j != i && square <= most;
    }
    return rank;
}

static void tell(const near_case *c, const char *what, int64_t tile, double got)
{
    test_wrong += 1;
    if (test_wrong <= TEST_MOST_TOLD) {
        printf("WRONG near tiles: %lld tiles, %d columns, %lld wanted, tile %lld: %s %g\n",
               (long long)c->tiles, c->cols, (long long)c->count, (long long)tile, what, got);
        (void)fflush(stdout);
    }
}

static void check_near(const near_case *c, const float *centres, int64_t tile,
                       const kin_screen_gpu_worst *worst)
{
    const double far = (double)worst->far;
    if (c->count >= c->tiles - 1) {
        if (worst->far != INFINITY || worst->integer != INT32_MAX) {
            tell(c, "not all are near:", tile, far);
        }
        return;
    }
    /* What the kernel may be off by: rounding in fp32, and that it tells a little more. */
    const int64_t above = rank_of(c, centres, tile, far * far * (1 + 0x1p-16));
    const int64_t below = rank_of(c, centres, tile, far * far * (1 - 0x1p-8));
    const double slack = c->sampled ? 2.5 : 1.0; /* of 12 that are expected, over all tiles */
    if ((double)above * slack < (double)c->count || (double)below > (double)c->count * slack) {
        tell(c, "rank", tile, (double)above);
    }
    if (far * far * (1 - 0x1p-20) > (double)worst->integer ||
        (double)worst->integer > far * far * 1.01 + 2.0) {
        tell(c, "integer", tile, (double)worst->integer);
    }
}

static void near_case_run(const near_case *c)
{
    float *centres = make_centres(c->tiles, c->cols);
    const int64_t points = c->tiles * KIN_SCREEN_GPU_TILE - 50;
    const int64_t padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK);
    const uint64_t bytes = (uint64_t)(padded / KIN_SCREEN_GPU_TILE) * sizeof(kin_screen_gpu_worst);
    kin_graph_gpu_near job = {
        .set = {.frame = {.cols = c->cols},
                .points = points,
                .padded = padded,
                .centres = test_device_copy(centres, (uint64_t)(c->tiles * c->cols) * 4)},
        .count = c->count};
    kin_screen_gpu_worst *worst = test_host_room(bytes);
    const int64_t all = padded / KIN_SCREEN_GPU_TILE;
    const int64_t half =
        kin_min_i64(all, kin_round_up(kin_ceil_div(all, 2), KIN_GRAPH_GPU_NEAR_TILES));
    for (int run = 0; run < 2; run++) {
        job.worst = test_device_room(bytes);
        job.first = 0;
        job.end = run == 0 ? 0 : half;
        test_launch(test_graph_gpu_kernels()->near_tiles(test_device->stream, &job), "near tiles");
        if (run == 0) {
            test_download(worst, job.worst, bytes);
        } else {
            job.first = half;
            job.end = all;
            test_launch(test_graph_gpu_kernels()->near_tiles(test_device->stream, &job),
                        "near tiles");
            test_compare_words("near tiles, in halves", points, c->cols, worst, job.worst, bytes);
        }
        kin_gpu_free(test_device, job.worst);
    }
    for (int64_t tile = 0; tile<c->tiles; tile += c->tiles> 1000 ? 131 : 1) {
        check_near(c, centres, tile, &worst[tile]);
    }
    kin_gpu_free(test_device, (void *)(uintptr_t)job.set.centres);
    free(worst);
    free(centres);
}

static void test_near(void **state)
{
    (void)state;
    static const near_case cases[] = {
        {1, 5, 1, false},      {2, 5, 1, false},      {3, 1, 1, false},     {9, 33, 3, false},
        {257, 16, 1, false},   {257, 17, 255, false}, {600, 8, 40, false},  {2048, 4, 2000, false},
        {3001, 6, 5, false},   {3001, 6, 32, true},   {3001, 6, 400, true}, {2999, 3, 90, true},
        {300, 20, 400, false},
    };
    test_wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        near_case_run(&cases[i]);
    }
    printf("near tiles: %zu shapes, all tiles and samples of them: %d differences\n",
           sizeof cases / sizeof cases[0], test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void time_near(int64_t tiles, int32_t cols, int64_t count)
{
    float *centres = make_centres(tiles, cols);
    const kin_graph_gpu_near job = {
        .set = {.frame = {.cols = cols},
                .points = tiles * KIN_SCREEN_GPU_TILE,
                .padded = tiles * KIN_SCREEN_GPU_TILE,
                .centres = test_device_copy(centres, (uint64_t)(tiles * cols) * 4)},
        .count = count,
        .worst = test_device_room((uint64_t)tiles * sizeof(kin_screen_gpu_worst))};
    char what[80];
    (void)snprintf(what, sizeof what, "near tiles, %lld of %d columns, %lld wanted",
                   (long long)tiles, cols, (long long)count);
    test_time_begin();
    test_launch(test_graph_gpu_kernels()->near_tiles(test_device->stream, &job), "near tiles");
    test_time_end(what);
    kin_gpu_free(test_device, job.worst);
    kin_gpu_free(test_device, (void *)(uintptr_t)job.set.centres);
    free(centres);
}

/* Rows of one value, which cost as much as others. */
static void time_fill(bool rounded, kith_metric metric, int32_t row_bytes)
{
    const int64_t points = 1000000;
    const int32_t length = 32;
    const uint64_t bytes = (uint64_t)(points * row_bytes);
    uint32_t *same = test_host_room((size_t)points * sizeof *same);
    for (uint32_t i = 0; i < (uint32_t)points; i++) {
        same[i] = i;
    }
    void *rows = test_device_room(bytes);
    kin_screen_gpu_facts *facts = test_device_room((uint64_t)points * sizeof *facts);
    uint32_t *ids = test_device_copy(same, (uint64_t)points * sizeof *same);
    const uint64_t graph_bytes = (uint64_t)(points * length) * 8;
    kin_graph_gpu_fill job = {
        .points = {.set = {.frame = {.type = KIN_SCREEN_GPU_F16, .row_bytes = row_bytes},
                           .points = points,
                           .rounded = rounded ? rows : NULL,
                           .facts = facts,
                           .ids = ids},
                   .rows = {.data = rows,
                            .rows = points,
                            .stride_bytes = row_bytes,
                            .cols = row_bytes / 4,
                            .dtype = KITH_F32,
                            .metric = metric}},
        .graph = {.points = points, .length = length, .words = test_device_room(graph_bytes)},
        .wanted = length,
        .seed = 3};
    test_must(kin_gpu_fill(test_device_ctx, test_device, rows, 0x3c, bytes));
    test_must(
        kin_gpu_fill(test_device_ctx, test_device, facts, 0, (uint64_t)points * sizeof *facts));
    test_must(kin_gpu_fill(test_device_ctx, test_device, job.graph.words, 0xff, graph_bytes));
    char what[80];
    (void)snprintf(what, sizeof what, "fill, 1000000 x 32 draws, rows of %d bytes%s%s", row_bytes,
                   rounded ? "" : ", ", rounded ? "" : kith_metric_name(metric));
    test_time_begin();
    test_launch(test_graph_gpu_kernels()->fill(test_device->stream, &job), "fill");
    test_time_end(what);
    kin_gpu_free(test_device, job.graph.words);
    kin_gpu_free(test_device, ids);
    kin_gpu_free(test_device, facts);
    kin_gpu_free(test_device, rows);
    free(same);
}

static void test_times(void **state)
{
    (void)state;
    if (!test_times_wanted()) {
        printf("times: not asked for (KITH_TIMES)\n");
        return;
    }
    time_near(7813, 128, 30);
    time_near(7813, 128, 80);
    time_near(7813, 128, 400);
    time_near(78125, 96, 30);
    time_near(78125, 96, 400);
    time_near(78125, 96, 4000);
    time_fill(true, KITH_SQEUCLIDEAN, 256);
    time_fill(false, KITH_MANHATTAN, 512);
    time_fill(false, KITH_CHI2, 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_near), cmocka_unit_test(test_times)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
