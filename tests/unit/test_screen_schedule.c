/* SPDX-License-Identifier: Apache-2.0
 * The schedule of the GPU engine, as arithmetic: every unordered pair of blocks meets once, every
 * tile of a search is visited once, and a stretch of a search is spread over the corpus. */
#include "screen/screen_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST_BLOCKS = 70, MOST_TILES = 3000 };

/* How often the pairs of each block with each other are screened. */
static void count_meetings(int64_t blocks, int64_t reach, int *met)
{
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t seeds = kin_screen_gpu_seed_blocks(blocks, reach);
        for (int64_t i = 0; i < seeds; i++) {
            met[block * blocks + kin_screen_gpu_seed_block(blocks, reach, block, i)] += 1;
        }
        if (seeds == blocks) {
            continue;
        }
        for (int64_t o = reach + 1; o < kin_screen_gpu_offsets_end(blocks); o++) {
            if (kin_screen_gpu_takes(blocks, block, o)) { /* both ends collect */
                const int64_t other = (block + o) % blocks;
                met[block * blocks + other] += 1;
                met[other * blocks + block] += 1;
            }
        }
    }
}

static void test_every_pair_of_blocks_once(void **state)
{
    (void)state;
    static int met[MOST_BLOCKS * MOST_BLOCKS];
    for (int64_t blocks = 1; blocks <= MOST_BLOCKS; blocks++) {
        for (int64_t reach = 0; reach <= 36; reach++) {
            for (int64_t i = 0; i < blocks * blocks; i++) {
                met[i] = 0;
            }
            count_meetings(blocks, reach, met);
            for (int64_t i = 0; i < blocks * blocks; i++) {
                if (met[i] != 1) {
                    fail_msg("%lld blocks, reach %lld: block %lld meets block %lld %d times",
                             (long long)blocks, (long long)reach, (long long)(i / blocks),
                             (long long)(i % blocks), met[i]);
                }
            }
        }
    }
    puts("each row meets every block once, by seed or by offset: 1 to 70 blocks, seeds of 1 to 73");
}

static void test_work_is_even(void **state)
{
    (void)state;
    for (int64_t blocks = 2; blocks <= MOST_BLOCKS; blocks++) {
        int64_t least = blocks;
        int64_t most = 0;
        for (int64_t block = 0; block < blocks; block++) {
            int64_t own = 0;
            for (int64_t o = 1; o < kin_screen_gpu_offsets_end(blocks); o++) {
                own += kin_screen_gpu_takes(blocks, block, o);
            }
            least = own < least ? own : least;
            most = own > most ? own : most;
        }
        assert_true(most - least <= 1);
    }
    puts("blocks own equally many pairs, but for one where their number is even");
}

static void test_every_tile_once(void **state)
{
    (void)state;
    static unsigned char seen[MOST_TILES];
    for (int64_t tiles = 1; tiles <= MOST_TILES; tiles++) {
        const int64_t step = kin_sequence_step(tiles);
        for (int64_t i = 0; i < tiles; i++) {
            seen[i] = 0;
        }
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t tile = kin_screen_gpu_sequence_tile(tiles, step, i);
            assert_true(tile >= 0 && tile < tiles);
            seen[tile] += 1;
        }
        for (int64_t i = 0; i < tiles; i++) {
            assert_int_equal(seen[i], 1);
        }
    }
    const int64_t largest = ((int64_t)1 << 32) / 128;
    const int64_t step = kin_sequence_step(largest);
    assert_int_equal(kin_common_divisor(step, largest), 1);
    assert_true(kin_screen_gpu_sequence_tile(largest, step, largest - 1) >= 0);
    puts("a search visits every tile once: 1 to 3,000 tiles");
}

/* The farthest that a tile of the corpus is from one of the first `count` of the sequence. */
static int64_t widest_gap(int64_t tiles, int64_t count)
{
    static unsigned char seen[MOST_TILES];
    const int64_t step = kin_sequence_step(tiles);
    int64_t gap = 0;
    int64_t widest = 0;
    for (int64_t i = 0; i < tiles; i++) {
        seen[i] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        seen[kin_screen_gpu_sequence_tile(tiles, step, i)] = 1;
    }
    for (int64_t i = 0; i < tiles; i++) {
        gap = seen[i] != 0 ? 0 : gap + 1;
        widest = gap > widest ? gap : widest;
    }
    return widest;
}

static void test_samples_are_spread(void **state)
{
    (void)state;
    int64_t worst = 0;
    for (int64_t tiles = 500; tiles <= MOST_TILES; tiles += 7) {
        for (int64_t count = 16; count <= tiles; count *= 2) {
            const int64_t times = widest_gap(tiles, count) * count * 100 / tiles;
            worst = times > worst ? times : worst;
        }
    }
    printf("the widest gap of a sample is at most %.2f times the even one\n",
           (double)worst / 100.0);
    assert_true(worst < 2500);
}

/* Tiles of a seed near home: different ones, in the corpus, within the home or around it. */
static void test_near_tiles(void **state)
{
    (void)state;
    for (int64_t tiles = 1; tiles <= 40; tiles++) {
        for (int64_t first = 0; first < tiles; first++) {
            for (int64_t end = first + 1; end <= tiles; end++) {
                for (int64_t count = 1; count <= tiles; count++) {
                    int64_t before = -1;
                    int64_t inside = 0;
                    for (int64_t i = 0; i < count; i++) {
                        const int64_t tile = kin_screen_gpu_near_tile(tiles, first, end, count, i);
                        assert_true(tile > before && tile < tiles);
                        inside += tile >= first && tile < end ? 1 : 0;
                        before = tile;
                    }
                    assert_true(inside == (count < end - first ? count : end - first));
                }
            }
        }
    }
    puts("seeds near home: all of a short home, different tiles of a long one");
}

static void test_units_have_room(void **state)
{
    (void)state;
    for (int64_t tiles = 1; tiles < 500; tiles++) {
        for (int64_t unit = 1; unit <= 64; unit *= 4) {
            /* Any cut into pieces makes at most one part unit a piece. */
            const int64_t most =
                kin_screen_gpu_plan_pieces(1, tiles + 2 * KIN_SCREEN_GPU_PLAN_GROUP);
            for (int64_t pieces = 1; pieces <= most; pieces++) {
                int64_t units = 0;
                for (int64_t p = 0; p < pieces; p++) {
                    const int64_t own = tiles * (p + 1) / pieces - tiles * p / pieces;
                    units += (own + unit - 1) / unit;
                }
                assert_true(units <= kin_screen_gpu_plan_units(1, tiles, unit));
            }
        }
    }
    /* Of a share that has a group fewer than there is room for. */
    for (int64_t groups = 2; groups < 1200; groups++) {
        const int64_t room =
            kin_screen_gpu_plan_units(groups * KIN_SCREEN_GPU_PLAN_GROUP, 5000, 5000);
        for (int64_t own = groups - 1; own <= groups; own++) {
            const int64_t pieces = kin_screen_gpu_plan_pieces(own, 5000);
            assert_true(pieces >= 1 && pieces <= KIN_SCREEN_GPU_PLAN_PIECES);
            assert_true(own * KIN_SCREEN_GPU_PLAN_GROUP * pieces <= room);
        }
    }
    puts("units of any cut of a plan fit into their room");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_pair_of_blocks_once),
                                       cmocka_unit_test(test_work_is_even),
                                       cmocka_unit_test(test_every_tile_once),
                                       cmocka_unit_test(test_samples_are_spread),
                                       cmocka_unit_test(test_near_tiles),
                                       cmocka_unit_test(test_units_have_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
