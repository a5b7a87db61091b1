/* SPDX-License-Identifier: Apache-2.0
 * Tiles that rows can reach, on a device against plain C: balls of each tile (split), what the
 * nearest tiles prove (aim), and which tiles each block of rows then meets (meet). Rows lie in
 * clusters, or are equal, or nothing tells them apart; some of those that ask are far from all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 40, K = 7, UNITS = 5, FAR = 37 };

/* Rows of bytes, on both sides. */
typedef struct test_bytes {
    kin_screen_gpu_set host;
    kin_screen_gpu_set device;
    signed char *rows;
    kin_screen_gpu_facts *facts;
} test_bytes;

typedef struct balls_case {
    const char *name;
    int64_t asked;
    int64_t points;
    uint64_t clusters;
    double width; /* of a cluster */
} balls_case;

static test_bytes make_bytes(test_bench *b, const balls_case *c, int64_t points, bool asks)
{
    test_bytes t = {
        .host = {.points = points, .padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK)}};
    const uint64_t padded = (uint64_t)t.host.padded;
    t.host.frame = (kin_screen_gpu_frame){.type = KIN_SCREEN_GPU_S8,
                                          .bound = KIN_BOUND_DISTANCE,
                                          .cols = COLS,
                                          .row_bytes = KIN_SCREEN_GPU_SLICE,
                                          .scale = 1.0,
                                          .key_scale = 1.0,
                                          .reach_scale = 1.0};
    t.rows = test_host_block(padded, KIN_SCREEN_GPU_SLICE);
    t.facts = test_host_block(padded, sizeof *t.facts);
    for (int64_t p = 0; p < points; p++) {
        uint64_t centre = 1 + (uint64_t)p * c->clusters / (uint64_t)points;
        double square = 0.0;
        for (int j = 0; j < COLS; j++) {
            const double x = 160.0 * (test_uniform(&centre) - 0.5);
            const double near = x + c->width * (test_uniform(&b->seed) - 0.5);
            const signed char byte = (signed char)(asks && p % FAR == 5 ? 127.0 : near);
            t.rows[p * KIN_SCREEN_GPU_SLICE + j] = byte;
            square += (double)byte * (double)byte;
        }
        t.facts[p].term.i = (int32_t)square;
        t.facts[p].norm = (float)(sqrt(square) * (1.0 + 0x1p-20));
        t.facts[p].lost = (float)(2.0 * test_uniform(&b->seed));
        t.host.worst.norm = fmax(t.host.worst.norm, (double)t.facts[p].norm);
        t.host.worst.lost = fmax(t.host.worst.lost, (double)t.facts[p].lost);
    }
    t.host.rounded = (unsigned char *)t.rows;
    t.host.facts = t.facts;
    t.device = t.host;
    t.device.rounded = test_bench_copy(b, t.rows, padded * KIN_SCREEN_GPU_SLICE);
    t.device.facts = test_bench_copy(b, t.facts, padded * sizeof *t.facts);
    return t;
}

static void free_bytes(test_bytes *t)
{
    free(t->facts);
    free(t->rows);
}

static double distance(const signed char *row, const float *centre)
{
    double square = 0.0;
    for (int j = 0; j < COLS; j++) {
        const double t = (double)row[j] - (double)centre[j];
        square += t * t;
    }
    return sqrt(square);
}

/* ---- Balls ----------------------------------------------------------------------------------- */

/* Every row, and what it has lost, is in one of them, and no ball is much too large. */
static void check_split(test_bench *b, const balls_case *c, const test_bytes *cols,
                        const float *centres, const float *radii)
{
    double most[KIN_SCREEN_GPU_BALLS] = {0.0};
    for (int64_t p = 0; p < cols->host.points; p++) {
        const int64_t ball = p / KIN_SCREEN_GPU_TILE * KIN_SCREEN_GPU_BALLS;
        const double lost = (double)cols->facts[p].lost;
        double least = INFINITY;
        if (p % KIN_SCREEN_GPU_TILE == 0) {
            memset(most, 0, sizeof most);
        }
        bool within = false;
        for (int64_t i = 0; i < KIN_SCREEN_GPU_BALLS; i++) {
            const double away =
                distance(cols->rows + p * KIN_SCREEN_GPU_SLICE, centres + (ball + i) * COLS) + lost;
            within = within || away <= (double)radii[ball + i];
            least = fmin(least, away);
            most[i] = fmax(most[i], away);
        }
        if (!within) {
            test_bench_tell(b, "a row in no ball", c->name, ball, p, least, (double)radii[ball]);
        }
        if (p % KIN_SCREEN_GPU_TILE == KIN_SCREEN_GPU_TILE - 1 || p == cols->host.points - 1) {
            for (int64_t i = 0; i < KIN_SCREEN_GPU_BALLS; i++) {
                if ((double)radii[ball + i] > most[i] * 1.001 + 0.001) {
                    test_bench_tell(b, "radius", c->name, ball + i, p, most[i],
                                    (double)radii[ball + i]);
                }
            }
        }
    }
}

/* The balls as a set, from what split has found. */
static test_bytes round_balls(test_bench *b, const test_bytes *cols, const float *centres,
                              const float *radii)
{
    const int64_t points =
        KIN_SCREEN_GPU_BALLS * kin_ceil_div(cols->host.points, KIN_SCREEN_GPU_TILE);
    test_bytes t = {.host = cols->host};
    t.host.points = points;
    t.host.padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK);
    t.rows = test_host_block((uint64_t)t.host.padded, KIN_SCREEN_GPU_SLICE);
    t.facts = test_host_block((uint64_t)t.host.padded, sizeof *t.facts);
    for (int64_t p = 0; p < points; p++) {
        double square = 0.0;
        for (int j = 0; j < COLS; j++) {
            t.rows[p * KIN_SCREEN_GPU_SLICE + j] = (signed char)rintf(centres[p * COLS + j]);
            square += pow((double)t.rows[p * KIN_SCREEN_GPU_SLICE + j], 2.0);
        }
        const double off = distance(t.rows + p * KIN_SCREEN_GPU_SLICE, centres + p * COLS);
        t.facts[p].term.i = (int32_t)square;
        t.facts[p].norm = (float)(sqrt(square) * (1.0 + 0x1p-20));
        t.facts[p].lost = test_float_above((off + (double)radii[p]) * (1.0 + 0x1p-20));
    }
    t.host.rounded = (unsigned char *)t.rows;
    t.host.facts = t.facts;
    t.device = t.host;
    t.device.rounded = test_bench_copy(b, t.rows, (uint64_t)t.host.padded * KIN_SCREEN_GPU_SLICE);
    t.device.facts = test_bench_copy(b, t.facts, (uint64_t)t.host.padded * sizeof *t.facts);
    return t;
}

/* ---- What is reached ------------------------------------------------------------------------- */

static int32_t cost_of(const test_bytes *rows, int64_t row, const test_bytes *cols, int64_t col)
{
    int32_t cost = 0;
    for (int j = 0; j < COLS; j++) {
        const int32_t t = (int32_t)rows->rows[row * KIN_SCREEN_GPU_SLICE + j] -
                          (int32_t)cols->rows[col * KIN_SCREEN_GPU_SLICE + j];
        cost += t * t;
    }
    return cost;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* away[row * points + col]: how far rows are apart at most. */
static double *make_distances(const test_bytes *rows, const test_bytes *cols)
{
    const int64_t n = cols->host.points;
    double *away = test_host_block((uint64_t)(rows->host.points * n), sizeof *away);
    for (int64_t i = 0; i < rows->host.points * n; i++) {
        away[i] = sqrt((double)cost_of(rows, i / n, cols, i % n));
    }
    return away;
}

/* The k-th neighbour, whatever rounding has done to it, is within the reach, and where there are as
 * many near tiles the reach is that of one of their columns. */
static void check_reach(test_bench *b, const balls_case *c, const test_bytes *rows,
                        const test_bytes *cols, const double *away, const double *reach)
{
    const int64_t n = cols->host.points;
    double *sorted = test_host_block((uint64_t)(n > K ? n : K), sizeof *sorted);
    for (int64_t row = 0; row < rows->host.points; row++) {
        const double lost = (double)rows->facts[row].lost + cols->host.worst.lost;
        memcpy(sorted, away + row * n, (size_t)n * sizeof *sorted);
        for (int64_t i = n; i < K; i++) {
            sorted[i] = INFINITY;
        }
        qsort(sorted, (size_t)(n > K ? n : K), sizeof *sorted, by_value);
        const bool enough = n >= KIN_SCREEN_GPU_AIMED * KIN_SCREEN_GPU_TILE;
        if (!(reach[row] >= sorted[K - 1] + lost) ||
            (enough && !(reach[row] <= (sorted[n - 1] + lost) * 1.000001))) {
            test_bench_tell(b, "reach", c->name, row, n, sorted[K - 1] + lost, reach[row]);
        }
    }
    free(sorted);
}

/* Whether a row of the block may have a neighbour in the tile. */
static bool is_near(const test_bytes *rows, const test_bytes *cols, const double *away,
                    const double *reach, int64_t block, int64_t tile)
{
    const int64_t n = cols->host.points;
    for (int64_t r = block * KIN_SCREEN_GPU_BLOCK;
         r < (block + 1) * KIN_SCREEN_GPU_BLOCK && r < rows->host.points; r++) {
        for (int64_t p = tile * KIN_SCREEN_GPU_TILE; p < (tile + 1) * KIN_SCREEN_GPU_TILE && p < n;
             p++) {
            const double lost = (double)rows->facts[r].lost + (double)cols->facts[p].lost;
            if (away[r * n + p] - lost <= reach[r]) {
                return true;
            }
        }
    }
    return false;
}

/* Units name each tile that is listed once, and every tile that is near is listed. */
static void check_meet(test_bench *b, const balls_case *c, const kin_screen_gpu_meet *job,
                       const uint8_t *near, int64_t blocks, int64_t tiles)
{
    uint32_t *columns = test_host_copy(b, job->columns, (uint64_t)blocks * sizeof *columns);
    uint32_t *count = test_host_copy(b, job->unit_count, sizeof *count);
    uint32_t *table =
        test_host_copy(b, job->tiles, (uint64_t)(blocks * job->tiles_a_block) * sizeof *table);
    kin_screen_gpu_unit *units =
        test_host_copy(b, job->units, (uint64_t)(blocks * UNITS) * sizeof *units);
    int *met = test_host_block((uint64_t)(blocks * tiles), sizeof *met);
    assert_true(*count <= (uint32_t)(blocks * UNITS));
    for (uint32_t u = 0; u < *count; u++) {
        assert_true(units[u].block < blocks && units[u].count > 0);
        for (uint32_t t = 0; t < units[u].count; t++) {
            const uint32_t tile = table[units[u].first + t];
            assert_true(units[u].first / job->tiles_a_block == units[u].block && tile < tiles);
            met[units[u].block * tiles + tile] += 1;
        }
    }
    for (int64_t block = 0; block < blocks; block++) {
        const bool fits = columns[block] <= job->tiles_a_block * KIN_SCREEN_GPU_TILE;
        uint32_t listed = 0;
        for (int64_t tile = 0; tile < tiles; tile++) {
            const int got = met[block * tiles + tile];
            listed += (uint32_t)got;
            if (got > 1 || (fits && got == 0 && near[block * tiles + tile])) {
                test_bench_tell(b, "meeting", c->name, block, tile, near[block * tiles + tile],
                                got);
            }
        }
        if (fits ? listed * KIN_SCREEN_GPU_TILE != columns[block] : listed != 0) {
            test_bench_tell(b, "columns", c->name, block, tiles, listed, columns[block]);
        }
    }
    free(met);
    free(units);
    free(table);
    free(count);
    free(columns);
}

/* With room for all tiles, and for one of a block. */
static void run_meet(test_bench *b, const balls_case *c, kin_screen_gpu_meet *job,
                     const uint8_t *near, int64_t blocks)
{
    const int64_t tiles = job->balls.points / KIN_SCREEN_GPU_BALLS;
    for (int turn = 0; turn < 2; turn++) {
        const int held = b->block_count;
        job->tiles_a_block = turn == 0 ? (uint32_t)tiles : 1;
        job->tiles = test_bench_block(b, (uint64_t)(blocks * tiles) * sizeof(uint32_t), 0xff);
        job->units =
            test_bench_block(b, (uint64_t)(blocks * UNITS) * sizeof(kin_screen_gpu_unit), 0xff);
        job->unit_count = test_bench_block(b, sizeof(uint32_t), 0xff);
        job->arrived = test_bench_block(b, sizeof(uint32_t), 0);
        job->counts = test_bench_block(b, (uint64_t)blocks * sizeof(uint32_t), 0);
        job->columns = test_bench_block(b, (uint64_t)blocks * sizeof(uint32_t), 0xff);
        job->met = test_bench_block(b, 2 * sizeof(uint64_t), 0);
        test_bench_launched(b, b->gpu->module->screen->meet(b->gpu->stream, job), "meet");
        check_meet(b, c, job, near, blocks, tiles);
        uint64_t *tally = test_host_copy(b, job->met, 2 * sizeof *tally);
        if (tally[0] + tally[1] != (uint64_t)(blocks * tiles)) {
            test_bench_tell(b, "tally", c->name, blocks, tiles, (double)tally[0], (double)tally[1]);
        }
        free(tally);
        test_give_back(b, held);
    }
}

static void run_aim(test_bench *b, const balls_case *c, const test_bytes *rows,
                    const test_bytes *cols, const test_bytes *balls)
{
    const int64_t tiles = balls->host.points / KIN_SCREEN_GPU_BALLS;
    const int64_t blocks = kin_ceil_div(rows->host.points, KIN_SCREEN_GPU_BLOCK);
    const uint64_t asked = (uint64_t)rows->host.points;
    const uint64_t groups = (uint64_t)(balls->host.padded / KIN_SCREEN_GPU_TILE);
    const kin_screen_gpu_aim aim = {
        .rows = rows->device,
        .cols = cols->device,
        .balls = balls->device,
        .lists = {.k = K, .reach = test_bench_block(b, asked * sizeof(double), 0)},
        .minima = test_bench_block(b, asked * groups * sizeof(uint32_t), 0)};
    test_bench_launched(b, b->gpu->module->screen->aim(b->gpu->stream, &aim), "aim");
    double *away = make_distances(rows, cols);
    double *reach = test_host_copy(b, aim.lists.reach, (uint64_t)rows->host.points * sizeof *reach);
    uint8_t *near = test_host_block((uint64_t)(blocks * tiles), 1);
    check_reach(b, c, rows, cols, away, reach);
    for (int64_t i = 0; i < blocks * tiles; i++) {
        near[i] = is_near(rows, cols, away, reach, i / tiles, i % tiles) ? 1 : 0;
    }
    kin_screen_gpu_meet meet = {
        .rows = rows->device, .balls = balls->device, .lists = aim.lists, .units_a_block = UNITS};
    run_meet(b, c, &meet, near, blocks);
    free(near);
    free(reach);
    free(away);
}

static void run_case(test_bench *b, const balls_case *c)
{
    const int held = b->block_count;
    const uint64_t n =
        KIN_SCREEN_GPU_BALLS * (uint64_t)kin_ceil_div(c->points, KIN_SCREEN_GPU_TILE);
    test_bytes rows = make_bytes(b, c, c->asked, true);
    test_bytes cols = make_bytes(b, c, c->points, false);
    const kin_screen_gpu_split split = {.set = cols.device,
                                        .centres =
                                            test_bench_block(b, n * COLS * sizeof(float), 0xff),
                                        .radii = test_bench_block(b, n * sizeof(float), 0xff)};
    test_bench_launched(b, b->gpu->module->screen->split(b->gpu->stream, &split), "split");
    float *centres = test_host_copy(b, split.centres, n * COLS * sizeof *centres);
    float *radii = test_host_copy(b, split.radii, n * sizeof *radii);
    check_split(b, c, &cols, centres, radii);
    test_bytes balls = round_balls(b, &cols, centres, radii);
    run_aim(b, c, &rows, &cols, &balls);
    free(radii);
    free(centres);
    free_bytes(&balls);
    free_bytes(&cols);
    free_bytes(&rows);
    test_give_back(b, held);
}

static void balls(void **state)
{
    test_bench *b = *state;
    static const balls_case cases[] = {
        {"clusters", 300, 20000, 90, 30.0}, {"one cluster", 40, 9000, 1, 90.0},
        {"equal rows", 70, 5000, 3, 0.0},   {"few rows", 9, 100, 2, 20.0},
        {"fewer than k", 3, 5, 1, 20.0},
    };
    b->wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_case(b, &cases[i]);
    }
    printf("balls, reaches and meetings of %zu sets: %lld differences\n",
           sizeof cases / sizeof cases[0], (long long)b->wrong);
    assert_int_equal(b->wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(balls)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_bench_setup, test_bench_teardown);
}
