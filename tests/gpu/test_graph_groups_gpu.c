/* SPDX-License-Identifier: Apache-2.0
 * Near tiles that are looked for in near groups: centres of groups, how far near tiles are, which
 * tiles a plan takes, and what it leaves out for want of room; against all pairs in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "screen/screen_schedule.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT_TILES = 5, COLS = 7 };

typedef struct groups_case {
    int64_t tiles;
    int32_t size;  /* tiles of a group */
    uint32_t room; /* groups of a list */
    int64_t count; /* near tiles wanted */
    int64_t reach;
    uint32_t tiles_a_block;
} groups_case;

/* A set of tiles at random places, and lists of different groups in random order. */
typedef struct scene {
    const groups_case *c;
    int64_t groups;
    int64_t pairs;
    int64_t blocks;
    float *centres;
    float *radii;
    uint32_t *lists;
    uint32_t *counts;
    kin_screen_gpu_worst *worst;
    kin_screen_gpu_set set; /* on the device */
    kin_screen_gpu_coarse coarse;
} scene;

static scene make_scene(const groups_case *c)
{
    scene s = {.c = c, .groups = kin_ceil_div(c->tiles, c->size)};
    const int64_t points = c->tiles * KIN_SCREEN_GPU_TILE - 50;
    const int64_t padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK);
    const size_t tiles = (size_t)(padded / KIN_SCREEN_GPU_TILE);
    s.pairs = kin_ceil_div(s.groups, 2);
    s.blocks = padded / KIN_SCREEN_GPU_BLOCK;
    s.centres = test_host_room(tiles * COLS * sizeof *s.centres);
    s.radii = test_host_room(tiles * sizeof *s.radii);
    s.worst = test_host_room(tiles * sizeof *s.worst);
    for (size_t i = 0; i < tiles * COLS; i++) {
        s.centres[i] = (float)test_below(1 << 20) * 0x1p-14F;
    }
    s.counts = test_host_room((size_t)s.pairs * sizeof *s.counts);
    s.lists = test_host_room((size_t)s.pairs * c->room * sizeof *s.lists);
    for (int64_t pair = 0; pair < s.pairs; pair++) {
        const uint32_t most = (uint32_t)kin_min_i64(c->room, s.groups);
        const uint32_t first = (uint32_t)test_below((uint32_t)s.groups);
        const int64_t step = kin_sequence_step(s.groups);
        s.counts[pair] = (uint32_t)test_below(most + 1);
        for (uint32_t i = 0; i < s.counts[pair]; i++) {
            s.lists[pair * c->room + i] =
                (uint32_t)kin_screen_gpu_sequence_tile(s.groups, step, first + i);
        }
    }
    s.set = (kin_screen_gpu_set){.frame = {.cols = COLS},
                                 .points = points,
                                 .padded = padded,
                                 .centres = test_device_copy(s.centres, tiles * COLS * 4),
                                 .radii = test_device_copy(s.radii, tiles * 4)};
    s.coarse = (kin_screen_gpu_coarse){
        .groups = test_device_copy(s.lists, (uint64_t)s.pairs * c->room * sizeof *s.lists),
        .counts = test_device_copy(s.counts, (uint64_t)s.pairs * sizeof *s.counts),
        .room = c->room,
        .tiles = c->size};
    return s;
}

static void free_scene(scene *s)
{
    kin_gpu_free(test_device, (void *)(uintptr_t)s->set.centres);
    kin_gpu_free(test_device, (void *)(uintptr_t)s->set.radii);
    kin_gpu_free(test_device, (void *)(uintptr_t)s->coarse.groups);
    kin_gpu_free(test_device, (void *)(uintptr_t)s->coarse.counts);
    free(s->centres);
    free(s->radii);
    free(s->worst);
    free(s->lists);
    free(s->counts);
}

static void tell(const char *what, int64_t a, int64_t b, double wanted, double got)
{
    test_wrong += 1;
    if (test_wrong <= TEST_MOST_TOLD) {
        printf("WRONG %s: %lld %lld: %g wanted, %g\n", what, (long long)a, (long long)b, wanted,
               got);
        (void)fflush(stdout);
    }
}

static double square_of(const scene *s, int64_t i, int64_t j)
{
    double square = 0.0;
    for (int d = 0; d < COLS; d++) {
        const double t = (double)s->centres[i * COLS + d] - (double)s->centres[j * COLS + d];
        square += t * t;
    }
    return square;
}

/* ---- Centres --------------------------------------------------------------------------------- */

static void check_centres(const scene *s)
{
    const uint64_t bytes = (uint64_t)s->groups * COLS * sizeof(float);
    const kin_graph_gpu_groups job = {
        .set = s->set, .tiles = s->c->size, .centres = test_device_room(bytes)};
    float *got = test_host_room(bytes);
    test_launch(test_graph_gpu_kernels()->group_centres(test_device->stream, &job), "centres");
    test_download(got, job.centres, bytes);
    for (int64_t group = 0; group < s->groups; group++) {
        const int64_t end = kin_min_i64((group + 1) * s->c->size, s->c->tiles);
        for (int d = 0; d < COLS; d++) {
            double sum = 0.0;
            for (int64_t tile = group * s->c->size; tile < end; tile++) {
                sum += (double)s->centres[tile * COLS + d];
            }
            const double mean = sum / (double)(end - group * s->c->size);
            const double found = (double)got[group * COLS + d];
            if (fabs(found - mean) > 1e-5 * mean) {
                tell("centre", group, d, mean, found);
            }
        }
    }
    free(got);
    kin_gpu_free(test_device, job.centres);
}

/* ---- How far near tiles are ------------------------------------------------------------------ */

/* Tiles of the lists of this one's groups within the root of `most`. */
static int64_t listed_within(const scene *s, int64_t tile, double most)
{
    const int64_t pair = tile / (2 * s->c->size);
    int64_t count = 0;
    for (uint32_t i = 0; i < s->counts[pair]; i++) {
        const int64_t first = (int64_t)s->lists[pair * s->c->room + i] * s->c->size;
        for (int64_t j = first; j < kin_min_i64(first + s->c->size, s->c->tiles); j++) {
            count += j != tile && square_of(s, tile, j) <= most;
        }
    }
    return count;
}

static void check_near(scene *s)
{
    const uint64_t bytes = (uint64_t)(s->set.padded / KIN_SCREEN_GPU_TILE) * sizeof *s->worst;
    const kin_graph_gpu_near job = {
        .set = s->set, .coarse = s->coarse, .count = s->c->count, .worst = test_device_room(bytes)};
    test_launch(test_graph_gpu_kernels()->near_tiles(test_device->stream, &job), "near tiles");
    test_download(s->worst, job.worst, bytes);
    for (int64_t tile = 0; tile < s->c->tiles; tile++) {
        const double far = (double)s->worst[tile].far;
        const int64_t above = listed_within(s, tile, far * far * (1 + 0x1p-16));
        const int64_t below = listed_within(s, tile, far * far * (1 - 0x1p-8));
        const bool few = listed_within(s, tile, INFINITY) < s->c->count;
        if (few ? far != INFINITY : above < s->c->count || below > s->c->count) {
            tell("rank", tile, below, (double)s->c->count, (double)above);
        }
    }
    kin_gpu_free(test_device, job.worst);
}

/* ---- Which tiles a plan takes ---------------------------------------------------------------- */

/* By how much the nearer of a block's two tiles is nearer than it need be to meet this one. */
static double margin_of(const scene *s, int64_t block, int64_t tile)
{
    double margin = -INFINITY;
    for (int64_t own = 2 * block; own < kin_min_i64(2 * block + 2, s->c->tiles); own++) {
        const double reach = fmax((double)s->worst[own].far, (double)s->worst[tile].far);
        margin = fmax(margin, reach - sqrt(square_of(s, own, tile)));
    }
    return margin;
}

static bool takes(const scene *s, int64_t block, int64_t tile)
{
    const int64_t ahead = (tile / 2 - block + s->blocks) % s->blocks;
    return ahead > s->c->reach && s->blocks - ahead > s->c->reach &&
           kin_screen_gpu_takes(s->blocks, block, ahead);
}

/* met: how often the units of a block name each tile. */
static void check_block(const scene *s, int64_t block, const int *met)
{
    const int64_t pair = block / s->c->size;
    int64_t due = 0;
    int64_t got = 0;
    int64_t unsure = 0;
    for (uint32_t i = 0; i < s->counts[pair]; i++) {
        const int64_t first = (int64_t)s->lists[pair * s->c->room + i] * s->c->size;
        for (int64_t j = first; j < kin_min_i64(first + s->c->size, s->c->tiles); j++) {
            const double margin = margin_of(s, block, j);
            const bool eligible = takes(s, block, j);
            const bool is_near = !(margin < -0.01);
            due += eligible && is_near;
            unsure += eligible && fabs(margin) <= 0.01;
            got += met[j];
            if (met[j] > 1 || (met[j] == 1 && !(eligible && is_near))) {
                tell("meeting", block, j, eligible && is_near ? 1.0 : 0.0, met[j]);
            }
        }
    }
    const int64_t room = s->c->tiles_a_block;
    if (got > room || got < kin_min_i64(due - unsure, room)) {
        tell("tiles of a block", block, due, (double)room, (double)got);
    }
}

static void read_units(const scene *s, const kin_screen_gpu_plan *job, int *met)
{
    const uint64_t table_words = (uint64_t)s->blocks * job->tiles_a_block;
    const uint64_t most =
        (uint64_t)kin_screen_gpu_plan_units(s->blocks, job->tiles_a_block, UNIT_TILES);
    uint32_t count = 0;
    kin_screen_gpu_unit *units = test_host_room(most * sizeof *units);
    uint32_t *table = test_host_room(table_words * sizeof *table);
    test_download(&count, job->unit_count, sizeof count);
    assert_true(count <= most);
    test_download(units, job->units, count * sizeof *units);
    test_download(table, job->tiles, table_words * sizeof *table);
    for (uint32_t u = 0; u < count; u++) {
        for (uint32_t t = 0; t < units[u].count; t++) {
            const uint32_t tile = table[units[u].first + t];
            if (units[u].count > UNIT_TILES || tile >= s->c->tiles) {
                tell("unit", units[u].block, u, UNIT_TILES, units[u].count);
                continue;
            }
            met[(int64_t)units[u].block * s->c->tiles + tile] += 1;
        }
    }
    free(table);
    free(units);
}

static void check_plan(const scene *s, int64_t first, int64_t last, int *met)
{
    const uint64_t tiles = (uint64_t)(s->set.padded / KIN_SCREEN_GPU_TILE);
    const uint32_t room = s->c->tiles_a_block;
    const uint64_t units = (uint64_t)kin_screen_gpu_plan_units(s->blocks, room, UNIT_TILES);
    uint64_t tally[2] = {0, 0};
    kin_screen_gpu_worst *worst = test_device_copy(s->worst, tiles * sizeof *worst);
    const uint64_t table_bytes = (uint64_t)s->blocks * room * sizeof(uint32_t);
    uint32_t *nothing = test_host_room(table_bytes); /* a block's places behind its tiles */
    const kin_screen_gpu_plan job = {.rows = s->set,
                                     .cols = s->set,
                                     .graph = 1,
                                     .coarse = s->coarse,
                                     .reach = s->c->reach,
                                     .first = first,
                                     .last = last,
                                     .row_worst = worst,
                                     .col_worst = worst,
                                     .tiles = test_device_copy(nothing, table_bytes),
                                     .tiles_a_block = room,
                                     .unit_tiles = UNIT_TILES,
                                     .units = test_device_room(units * sizeof(kin_screen_gpu_unit)),
                                     .unit_count = test_device_copy(tally, sizeof(uint32_t)),
                                     .met = test_device_copy(tally, sizeof tally)};
    test_launch(test_device->module->screen->plan(test_device->stream, &job), "plan");
    free(nothing);
    read_units(s, &job, met);
    kin_gpu_free(test_device, job.met);
    kin_gpu_free(test_device, job.unit_count);
    kin_gpu_free(test_device, job.units);
    kin_gpu_free(test_device, job.tiles);
    kin_gpu_free(test_device, worst);
}

/* In two stages and in one: parts of lists meet what whole ones do, where there is room. */
static void check_plans(const scene *s, bool in_two)
{
    int *met = test_host_room((size_t)(s->blocks * s->c->tiles) * sizeof *met);
    if (in_two) {
        check_plan(s, 0, 5, met);
        check_plan(s, 5, KIN_SCREEN_GPU_COARSE_PARTS, met);
    } else {
        check_plan(s, 0, KIN_SCREEN_GPU_COARSE_PARTS, met);
    }
    for (int64_t block = 0; block < s->blocks; block++) {
        check_block(s, block, met + block * s->c->tiles);
    }
    free(met);
}

static void test_groups(void **state)
{
    (void)state;
    static const groups_case cases[] = {
        {1000, 4, 40, 30, 2, 400}, {777, 8, 30, 20, 1, 400}, {1500, 16, 20, 90, 3, 600},
        {600, 4, 150, 10, 0, 9},   {64, 16, 4, 40, 1, 100},  {33, 4, 9, 3, 0, 40},
    };
    test_wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene s = make_scene(&cases[i]);
        check_centres(&s);
        check_near(&s);
        check_plans(&s, false);
        if (cases[i].tiles_a_block > 10) {
            check_plans(&s, true);
        }
        free_scene(&s);
    }
    printf("near groups: %zu sets, centres, ranks and plans: %d differences\n",
           sizeof cases / sizeof cases[0], test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- The plan of groups ---------------------------------------------------------------------- */

/* A search's plan that writes counts in place of units: each tile once, no more than there is room
 * for. */
static void test_counts(void **state)
{
    (void)state;
    static const groups_case shape = {500, 4, 1, 1, 0, 1};
    scene s = make_scene(&shape);
    test_wrong = 0;
    for (uint32_t room = 600; room > 0; room = room == 600 ? 37 : 0) {
        const uint64_t blocks = (uint64_t)s.blocks;
        for (int64_t tile = 0; tile < s.c->tiles; tile++) {
            s.worst[tile].far = 40.0F;
            s.worst[tile].integer = 1600;
        }
        kin_screen_gpu_worst *worst = test_device_copy(
            s.worst, (uint64_t)(s.set.padded / KIN_SCREEN_GPU_TILE) * sizeof *s.worst);
        const kin_screen_gpu_plan job = {.rows = s.set,
                                         .cols = s.set,
                                         .last = s.c->tiles,
                                         .row_worst = worst,
                                         .col_worst = worst,
                                         .tiles = test_device_room(blocks * room * 4),
                                         .tiles_a_block = room,
                                         .counts = test_device_room(blocks * 4)};
        uint32_t *table = test_host_room(blocks * room * 4);
        uint32_t *counts = test_host_room(blocks * 4);
        test_launch(test_device->module->screen->plan(test_device->stream, &job), "plan");
        test_download(table, job.tiles, blocks * room * 4);
        test_download(counts, job.counts, blocks * 4);
        for (int64_t block = 0; block < s.blocks; block++) {
            int64_t due = 0;
            int64_t unsure = 0;
            for (int64_t tile = 0; tile < s.c->tiles; tile++) {
                const double margin = margin_of(&s, block, tile);
                due += margin > 0.01;
                unsure += fabs(margin) <= 0.01;
            }
            if (counts[block] < kin_min_i64(due, room) || counts[block] > room ||
                counts[block] > due + unsure) {
                tell("count", block, due, room, counts[block]);
            }
            for (uint32_t i = 0; i < counts[block]; i++) {
                const uint32_t tile = table[block * room + i];
                if (tile >= s.c->tiles || margin_of(&s, block, tile) < -0.01) {
                    tell("tile of a list", block, i, room, tile);
                }
            }
        }
        free(counts);
        free(table);
        kin_gpu_free(test_device, job.counts);
        kin_gpu_free(test_device, job.tiles);
        kin_gpu_free(test_device, worst);
    }
    free_scene(&s);
    printf("plans that count: with room and without: %d differences\n", test_wrong);
    assert_int_equal(test_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_counts)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
