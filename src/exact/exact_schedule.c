/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_screen.h"

#include "base/base_size.h"
#include "host/host_threads.h"

/* Above this many pairs of blocks, sorting them would take as long as it saves. */
static const int64_t MOST_PAIRS = 8 << 20;

int64_t kin_schedule_count(const kin_schedule *schedule, int64_t row_block)
{
    if (!schedule->graph) {
        return schedule->point_blocks;
    }
    if (schedule->counts != NULL) {
        return schedule->counts[row_block];
    }
    /* With an even number of blocks the farthest step would meet every pair twice: only the first
     * half of the circle takes it. */
    const int64_t blocks = schedule->row_blocks;
    const int64_t half = (blocks - 1) / 2 + (blocks % 2 == 0 && row_block < blocks / 2 ? 1 : 0);
    return schedule->near == 0 ? half : kin_min_i64(half, kin_ceil_div(schedule->near, 2));
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
    int32_t threads;
    void *block;
    float *row_centres;
    float *point_centres;
    uint64_t *words;  /* by thread */
    uint64_t *chosen; /* near: row_blocks x near, each ascending */
} sorting;

/* Bits of a non-negative float rise with it; a NaN comes last. */
static uint64_t order_of(float distance)
{
    uint32_t bits;
    memcpy(&bits, &distance, sizeof bits);
    return (uint64_t)bits << 32;
}

static void measure_blocks(const sorting *s, int64_t row_block, int64_t count, uint64_t *words)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t block = natural(s->schedule, row_block, i);
        words[i] = order_of(s->ops->distance_sq(s->row_centres + row_block * s->wide,
                                                s->point_centres + block * s->wide, s->wide)) |
                   (uint64_t)block;
    }
}

static kith_status sort_row(void *arg, int64_t row_block, int32_t thread)
{
    const sorting *s = arg;
    uint64_t *words = s->words + thread * s->schedule->most;
    const int64_t count = kin_schedule_count(s->schedule, row_block);
    measure_blocks(s, row_block, count, words);
    kin_select_sort_words(words, count);
    for (int64_t i = 0; i < count; i++) {
        s->schedule->order[row_block * s->schedule->most + i] = (uint32_t)words[i];
    }
    return KITH_OK;
}

/* The nearest of all others, wherever they stand on the circle. */
static kith_status choose_row(void *arg, int64_t row_block, int32_t thread)
{
    const sorting *s = arg;
    const int64_t near = s->schedule->near;
    const int64_t others = s->schedule->row_blocks - 1;
    uint64_t *words = s->words + thread * others;
    measure_blocks(s, row_block, others, words);
    kin_select_nth_word(words, others, near - 1);
    kin_select_sort_words(words, near);
    memcpy(s->chosen + row_block * near, words, (size_t)near * sizeof *words);
    return KITH_OK;
}

/* Of two that chose each other, the first has the pair. A block chose another if that one's word is
 * not behind the last that it chose: distances are the same bits from both ends. */
static void keep_chosen(const sorting *s)
{
    kin_schedule *schedule = s->schedule;
    const int64_t near = schedule->near;
    for (int64_t row = 0; row < schedule->row_blocks; row++) {
        const uint64_t *chosen = s->chosen + row * near;
        uint32_t *kept = schedule->order + row * near;
        uint32_t count = 0;
        for (int64_t i = 0; i < near; i++) {
            const uint32_t block = (uint32_t)chosen[i];
            const uint64_t turned = (chosen[i] & ~(uint64_t)UINT32_MAX) | (uint64_t)row;
            const bool both = turned <= s->chosen[(block + 1) * near - 1];
            if (!both || row < block) {
                kept[count++] = block;
            }
        }
        schedule->counts[row] = count;
    }
}

static kith_status choose_blocks(kith_ctx *ctx, sorting *s)
{
    kin_schedule *schedule = s->schedule;
    KIN_TRY(kin_parallel(ctx, "prepare", schedule->row_blocks, choose_row, s));
    keep_chosen(s);
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

static void name_order(kin_layout *layout, void *job)
{
    kin_schedule *schedule = job;
    const uint64_t rows = (uint64_t)schedule->row_blocks;
    schedule->order = kin_layout_array(layout, kin_size_mul(rows, (uint64_t)schedule->most),
                                       sizeof *schedule->order);
    if (schedule->near > 0) {
        schedule->counts = kin_layout_array(layout, rows, sizeof *schedule->counts);
    }
}

static void name_sorting(kin_layout *layout, void *job)
{
    sorting *s = job;
    const kin_schedule *schedule = s->schedule;
    const uint64_t rows = (uint64_t)schedule->row_blocks;
    const uint64_t wide = (uint64_t)s->wide;
    const int64_t measured = schedule->near == 0 ? schedule->most : schedule->row_blocks;
    const uint64_t points = (uint64_t)schedule->point_blocks;
    s->row_centres = kin_layout_zeros(layout, kin_size_mul(rows, wide), sizeof *s->row_centres);
    s->point_centres =
        kin_layout_zeros(layout, kin_size_mul(points, wide), sizeof *s->point_centres);
    s->words =
        kin_layout_array(layout, (uint64_t)s->threads * (uint64_t)measured, sizeof *s->words);
    if (schedule->near > 0) {
        s->chosen = kin_layout_array(layout, kin_size_mul(rows, (uint64_t)schedule->near),
                                     sizeof *s->chosen);
    }
}

static kith_status sort_blocks(kith_ctx *ctx, const kin_blocks *blocks, kin_schedule *schedule)
{
    sorting s = {.ops = kin_round_get(ctx->isa),
                 .schedule = schedule,
                 .wide = blocks->rows->wide,
                 .threads = ctx->threads};
    static const char *const WHAT = "an order of blocks";
    KIN_TRY(kin_layout_make(ctx, name_order, schedule, WHAT, &schedule->block));
    kith_status status = kin_layout_make(ctx, name_sorting, &s, WHAT, &s.block);
    if (status == KITH_OK) {
        centre_blocks(blocks->rows, blocks->row_points, blocks->block, s.row_centres);
        centre_blocks(blocks->points, blocks->point_points, blocks->block, s.point_centres);
        status = schedule->near == 0
                     ? kin_parallel(ctx, "prepare", schedule->row_blocks, sort_row, &s)
                     : choose_blocks(ctx, &s);
    }
    kin_free(ctx, s.block);
    if (status != KITH_OK) {
        kin_free(ctx, schedule->block);
        schedule->block = NULL;
    }
    return status;
}

/* Whether blocks have an order but their own. */
static bool size_schedule(const kin_blocks *blocks, kin_schedule *schedule)
{
    *schedule = (kin_schedule){.row_blocks = kin_ceil_div(blocks->row_points, blocks->block),
                               .point_blocks = kin_ceil_div(blocks->point_points, blocks->block),
                               .graph = blocks->graph};
    schedule->near = kin_min_i64(blocks->near, schedule->row_blocks - 1);
    schedule->most = kin_schedule_count(schedule, 0);
    const int64_t pairs = schedule->row_blocks * schedule->most;
    if (blocks->rows == NULL || blocks->rows->wide == 0 || blocks->points->wide == 0 ||
        pairs == 0 || (blocks->near == 0 && pairs > MOST_PAIRS)) {
        return false;
    }
    if (blocks->near > 0) {
        schedule->most = schedule->near;
    }
    return true;
}

kith_status kin_schedule_make(kith_ctx *ctx, const kin_blocks *blocks, kin_schedule *schedule)
{
    return size_schedule(blocks, schedule) ? sort_blocks(ctx, blocks, schedule) : KITH_OK;
}

void kin_schedule_plan(kin_layout *plan, const kin_blocks *blocks, int32_t threads)
{
    kin_schedule schedule;
    if (!size_schedule(blocks, &schedule)) {
        return;
    }
    sorting s = {.schedule = &schedule, .wide = blocks->rows->wide, .threads = threads};
    kin_layout_block(plan, name_order, &schedule);
    kin_layout_passing(plan, name_sorting, &s);
}
