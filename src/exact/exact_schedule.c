/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_schedule.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "select/select_pairs.h"

/* Above this many pairs of blocks, sorting them would take as long as it saves. */
static const int64_t MOST_PAIRS = 8 << 20;

int64_t kin_schedule_count(const kin_schedule *schedule, int64_t row_block)
{
    if (!schedule->graph) {
        return schedule->point_blocks;
    }
    /* With an even number of blocks the farthest step would meet every pair twice: only the first
     * half of the circle takes it. */
    const int64_t blocks = schedule->row_blocks;
    return (blocks - 1) / 2 + (blocks % 2 == 0 && row_block < blocks / 2 ? 1 : 0);
}

static int64_t natural(const kin_schedule *schedule, int64_t row_block, int64_t i)
{
    return (row_block + i + (schedule->graph ? 1 : 0)) % schedule->point_blocks;
}

int64_t kin_schedule_block(const kin_schedule *schedule, int64_t row_block, int64_t i)
{
    return schedule->order == NULL ? natural(schedule, row_block, i)
                                   : schedule->order[row_block * schedule->most + i];
}

typedef struct sorting {
    const kin_round_ops *ops;
    kin_schedule *schedule;
    int64_t wide;
    const float *row_centres;
    const float *point_centres;
    uint64_t *words; /* by thread */
} sorting;

/* Bits of a non-negative float rise with it; a NaN comes last. */
static uint64_t order_of(float distance)
{
    uint32_t bits;
    memcpy(&bits, &distance, sizeof bits);
    return (uint64_t)bits << 32;
}

static kith_status sort_row(void *arg, int64_t row_block, int32_t thread)
{
    const sorting *s = arg;
    uint64_t *words = s->words + thread * s->schedule->most;
    const int64_t count = kin_schedule_count(s->schedule, row_block);
    for (int64_t i = 0; i < count; i++) {
        const int64_t block = natural(s->schedule, row_block, i);
        words[i] = order_of(s->ops->distance_sq(s->row_centres + row_block * s->wide,
                                                s->point_centres + block * s->wide, s->wide)) |
                   (uint64_t)block;
    }
    kin_select_sort_words(words, count);
    for (int64_t i = 0; i < count; i++) {
        s->schedule->order[row_block * s->schedule->most + i] = (uint32_t)words[i];
    }
    return KITH_OK;
}

/* The mean of a block's coarse centres. */
static void centre_blocks(const kin_cover *cover, int64_t points, int64_t block, float *centres)
{
    const int64_t tiles = kin_ceil_div(points, KIN_COARSE_STEP);
    const int64_t tiles_a_block = block / KIN_COARSE_STEP;
    for (int64_t tile = 0; tile < tiles; tile++) {
        float *centre = centres + tile / tiles_a_block * cover->wide;
        const float *part = cover->centres[KIN_COVER_COARSE] + tile * cover->wide;
        const int64_t share =
            kin_min_i64(tiles_a_block, tiles - tile / tiles_a_block * tiles_a_block);
        for (int64_t i = 0; i < cover->wide; i++) {
            centre[i] += part[i] / (float)share;
        }
    }
}

static kith_status sort_blocks(kith_ctx *ctx, const kin_cover *rows, int64_t row_points,
                               const kin_cover *points, int64_t point_points, int64_t block,
                               kin_schedule *schedule)
{
    sorting s = {.ops = kin_round_get(ctx->isa), .schedule = schedule, .wide = rows->wide};
    float *centres = NULL;
    const int64_t blocks = schedule->row_blocks + schedule->point_blocks;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc_zero(ctx, &centres, kin_size_mul((uint64_t)blocks, (uint64_t)s.wide),
                                sizeof *centres, "centres of blocks"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &s.words, (uint64_t)ctx->threads * (uint64_t)schedule->most,
                           sizeof *s.words, "an order of blocks"),
                 done);
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &schedule->order, (uint64_t)(schedule->row_blocks * schedule->most),
                           sizeof *schedule->order, "an order of blocks"),
                 done);
    centre_blocks(rows, row_points, block, centres);
    centre_blocks(points, point_points, block, centres + schedule->row_blocks * s.wide);
    s.row_centres = centres;
    s.point_centres = centres + schedule->row_blocks * s.wide;
    status = kin_parallel(ctx, "prepare", schedule->row_blocks, sort_row, &s);
done:
    kin_free(ctx, s.words);
    kin_free(ctx, centres);
    if (status != KITH_OK) {
        kin_schedule_free(ctx, schedule);
    }
    return status;
}

kith_status kin_schedule_make(kith_ctx *ctx, const kin_cover *rows, int64_t row_points,
                              const kin_cover *points, int64_t point_points, int64_t block,
                              bool graph, kin_schedule *schedule)
{
    *schedule = (kin_schedule){.row_blocks = kin_ceil_div(row_points, block),
                               .point_blocks = kin_ceil_div(point_points, block),
                               .graph = graph};
    schedule->most = kin_schedule_count(schedule, 0);
    const int64_t pairs = schedule->row_blocks * schedule->most;
    if (rows == NULL || rows->wide == 0 || points->wide == 0 || pairs == 0 || pairs > MOST_PAIRS) {
        return KITH_OK;
    }
    return sort_blocks(ctx, rows, row_points, points, point_points, block, schedule);
}

void kin_schedule_free(kith_ctx *ctx, kin_schedule *schedule)
{
    kin_free(ctx, schedule->order);
    schedule->order = NULL;
}

uint64_t kin_schedule_bytes(int64_t row_points, int64_t point_points, int64_t block, int32_t cols)
{
    const int64_t row_blocks = kin_ceil_div(row_points, block);
    const int64_t point_blocks = kin_ceil_div(point_points, block);
    const int64_t pairs = row_blocks * point_blocks;
    const uint64_t centres =
        kin_size_mul((uint64_t)(row_blocks + point_blocks), ((uint64_t)cols + 16) * sizeof(float));
    return kin_size_add(centres, (uint64_t)kin_min_i64(pairs, MOST_PAIRS) * sizeof(uint32_t));
}
