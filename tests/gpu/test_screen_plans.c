/* SPDX-License-Identifier: Apache-2.0
 * Which tiles meet (plan), on a device against plain C: stretches of the schedules of graphs and of
 * searches, with balls, of which some reach everywhere, and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "screen/screen_schedule.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIMENSIONS = 21, UNIT_TILES = 7 };

/* Tiles of two sets as balls. */
typedef struct test_balls {
    kin_screen_gpu_set set;
    float *centres;
    float *radii;
    kin_screen_gpu_worst *worst;
    kin_screen_gpu_worst *device_worst;
} test_balls;

static test_balls make_balls(test_bench *b, kin_bound_kind kind, int64_t points)
{
    test_balls t = {.set = {.frame = test_screen_frame(kind),
                            .points = points,
                            .padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK)}};
    t.set.frame.cols = DIMENSIONS;
    const uint64_t tiles = (uint64_t)(t.set.padded / KIN_SCREEN_GPU_TILE);
    t.centres = test_host_block(tiles * DIMENSIONS, sizeof *t.centres);
    t.radii = test_host_block(tiles, sizeof *t.radii);
    t.worst = test_host_block(tiles, sizeof *t.worst);
    for (uint64_t i = 0; i < tiles; i++) {
        for (int d = 0; d < DIMENSIONS; d++) {
            t.centres[i * DIMENSIONS + (uint64_t)d] = (float)(100.0 * test_uniform(&b->seed));
        }
        const double reach = i % 29 == 3 ? INFINITY : 40.0 + 60.0 * test_uniform(&b->seed);
        t.radii[i] = (float)(20.0 + 40.0 * test_uniform(&b->seed));
        t.worst[i].far = (float)reach;
        t.worst[i].integer = reach < 1e9 ? (int32_t)(reach * reach) : INT32_MAX;
    }
    t.set.centres = test_bench_copy(b, t.centres, tiles * DIMENSIONS * sizeof *t.centres);
    t.set.radii = test_bench_copy(b, t.radii, tiles * sizeof *t.radii);
    t.device_worst = test_bench_copy(b, t.worst, tiles * sizeof *t.worst);
    return t;
}

static void free_balls(test_balls *t)
{
    free(t->centres);
    free(t->radii);
    free(t->worst);
}

static double ball_reach(const test_balls *t, int64_t tile)
{
    if (t->set.frame.bound != KIN_BOUND_INTEGER) {
        return (double)t->worst[tile].far;
    }
    return t->worst[tile].integer == INT32_MAX ? INFINITY : sqrt((double)t->worst[tile].integer);
}

/* By how much the balls of two tiles are farther apart than they need be. */
static double gap_of(const test_balls *rows, const test_balls *cols, bool two_sided, int64_t i,
                     int64_t j)
{
    double sum = 0.0;
    for (int d = 0; d < DIMENSIONS; d++) {
        const double t =
            (double)rows->centres[i * DIMENSIONS + d] - (double)cols->centres[j * DIMENSIONS + d];
        sum += t * t;
    }
    const double reach =
        two_sided ? fmax(ball_reach(rows, i), ball_reach(cols, j)) : ball_reach(rows, i);
    return sqrt(sum) - (reach + (double)rows->radii[i] + (double)cols->radii[j]);
}

typedef struct plan_case {
    int64_t rows;
    int64_t cols; /* 0: a graph */
    int64_t first;
    int64_t last;
    bool balls;
    int64_t far_first; /* of a graph: more offsets */
    int64_t far_last;
} plan_case;

/* met[block * tiles + tile] = how often units name it. */
static void read_units(test_bench *b, const kin_screen_gpu_plan *job, int64_t blocks, int64_t tiles,
                       int *met)
{
    uint32_t *count = test_host_copy(b, job->unit_count, sizeof *count);
    const uint64_t room =
        (uint64_t)kin_screen_gpu_plan_units(blocks, job->tiles_a_block, UNIT_TILES);
    assert_true(*count <= room);
    kin_screen_gpu_unit *units = test_host_copy(b, job->units, room * sizeof *units);
    uint32_t *table =
        test_host_copy(b, job->tiles, (uint64_t)(blocks * job->tiles_a_block) * sizeof *table);
    for (uint32_t u = 0; u < *count; u++) {
        if (units[u].block >= blocks || units[u].count == 0 || units[u].count > UNIT_TILES ||
            units[u].first < units[u].block * job->tiles_a_block ||
            units[u].first + units[u].count > (units[u].block + 1) * job->tiles_a_block) {
            test_bench_tell(b, "unit", "plan", units[u].block, u, units[u].first, units[u].count);
            continue;
        }
        for (uint32_t t = 0; t < units[u].count; t++) {
            const uint32_t tile = table[units[u].first + t];
            if (tile >= tiles) {
                test_bench_tell(b, "tile of a unit", "plan", units[u].block, u, (double)tiles,
                                tile);
                continue;
            }
            met[units[u].block * tiles + tile] += 1;
        }
    }
    free(table);
    free(units);
    free(count);
}

/* Whether the schedule lets block and tile meet. */
static bool scheduled(const plan_case *c, int64_t blocks, int64_t tiles, int64_t block,
                      int64_t tile)
{
    if (c->cols == 0) {
        const int64_t offset = (tile / 2 - block + blocks) % blocks;
        const bool near = offset >= c->first && offset < c->last;
        const bool far = offset >= c->far_first && offset < c->far_last;
        return (near || far) && kin_screen_gpu_takes(blocks, block, offset);
    }
    const int64_t step = kin_sequence_step(tiles);
    for (int64_t i = c->first; i < c->last; i++) {
        if (kin_screen_gpu_sequence_tile(tiles, step, i) == tile) {
            return true;
        }
    }
    return false;
}

static void check_plan(test_bench *b, const plan_case *c, const char *kind, const test_balls *rows,
                       const test_balls *cols, const int *met, const uint64_t *tally)
{
    const int64_t blocks = rows->set.padded / KIN_SCREEN_GPU_BLOCK;
    const int64_t tiles = kin_ceil_div(cols->set.points, KIN_SCREEN_GPU_TILE);
    uint64_t total = 0;
    uint64_t skipped = 0;
    for (int64_t block = 0; block < blocks; block++) {
        for (int64_t tile = 0; tile < tiles; tile++) {
            const bool due = scheduled(c, blocks, tiles, block, tile);
            double gap = c->balls ? gap_of(rows, cols, c->cols == 0, 2 * block, tile) : -1.0;
            if (c->balls && (2 * block + 1) * KIN_SCREEN_GPU_TILE < rows->set.points) {
                gap = fmin(gap, gap_of(rows, cols, c->cols == 0, 2 * block + 1, tile));
            }
            const int got = met[block * tiles + tile];
            const bool near = !(gap > 0.0);
            total += due;
            skipped += due && got == 0;
            if (got > 1 || (got == 1 && !due) || (got == 0 && due && near) ||
                (got == 1 && gap > 0.01)) {
                test_bench_tell(b, "meeting", kind, block, tile, due && near ? 1.0 : 0.0, got);
            }
        }
    }
    if (tally[0] + tally[1] != total || tally[1] != skipped) {
        test_bench_tell(b, "tally", kind, (int64_t)total, (int64_t)skipped, (double)tally[0],
                        (double)tally[1]);
    }
}

static void plan_case_run(test_bench *b, kin_bound_kind kind, const plan_case *c)
{
    const int held = b->block_count;
    const bool graph = c->cols == 0;
    test_balls rows = make_balls(b, kind, c->rows);
    test_balls cols = graph ? rows : make_balls(b, kind, c->cols);
    const int64_t blocks = rows.set.padded / KIN_SCREEN_GPU_BLOCK;
    const int64_t tiles = kin_ceil_div(cols.set.points, KIN_SCREEN_GPU_TILE);
    const int64_t length = c->last - c->first + c->far_last - c->far_first;
    const int64_t tiles_a_block = length * (graph ? 2 : 1);
    const uint64_t units = (uint64_t)kin_screen_gpu_plan_units(blocks, tiles_a_block, UNIT_TILES);
    kin_screen_gpu_plan job = {
        .rows = rows.set,
        .cols = cols.set,
        .graph = graph,
        .first = c->first,
        .last = c->last,
        .far_first = c->far_first,
        .far_last = c->far_last,
        .row_worst = rows.device_worst,
        .col_worst = graph ? rows.device_worst : NULL,
        .tiles = test_bench_block(b, (uint64_t)(blocks * tiles_a_block) * 4, 0xff),
        .tiles_a_block = (uint32_t)tiles_a_block,
        .unit_tiles = UNIT_TILES,
        .units = test_bench_block(b, units * sizeof(kin_screen_gpu_unit), 0xff),
        .unit_count = test_bench_block(b, sizeof(uint32_t), 0),
        .met = test_bench_block(b, 2 * sizeof(uint64_t), 0)};
    if (!c->balls) {
        job.rows.centres = NULL;
        job.cols.centres = NULL;
    }
    test_bench_launched(b, b->gpu->module->screen->plan(b->gpu->stream, &job), "plan");
    int *met = test_host_block((uint64_t)(blocks * tiles), sizeof *met);
    read_units(b, &job, blocks, tiles, met);
    uint64_t *tally = test_host_copy(b, job.met, 2 * sizeof *tally);
    check_plan(b, c, kind == KIN_BOUND_INTEGER ? "integer" : "distance", &rows, &cols, met, tally);
    free(tally);
    free(met);
    if (!graph) {
        free_balls(&cols);
    }
    free_balls(&rows);
    test_give_back(b, held);
}

static void plans(void **state)
{
    test_bench *b = *state;
    static const plan_case cases[] = {
        {20000, 0, 1, 40, true, 0, 0},      {20000, 0, 3, 6, true, 0, 0},
        {19900, 0, 20, 40, true, 0, 0},     {10240, 0, 1, 21, true, 0, 0},
        {9985, 0, 1, 20, true, 0, 0},       {5000, 0, 3, 11, false, 0, 0},
        {700, 30000, 0, 235, true, 0, 0},   {5000, 9000, 10, 71, true, 0, 0},
        {100, 20000, 32, 157, false, 0, 0}, {300, 100, 0, 1, true, 0, 0},
        {60000, 0, 60, 118, true, 0, 0},    {20000, 0, 3, 13, true, 31, 40},
        {60000, 0, 3, 40, true, 81, 118},   {9985, 0, 3, 5, false, 19, 20},
    };
    b->wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_case_run(b, KIN_BOUND_DISTANCE, &cases[i]);
        plan_case_run(b, KIN_BOUND_INTEGER, &cases[i]);
    }
    printf("plan: %zu stretches of graphs and searches, with balls and without: %lld differences\n",
           2 * sizeof cases / sizeof cases[0], (long long)b->wrong);
    assert_int_equal(b->wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_bench_setup, test_bench_teardown);
}
