/* SPDX-License-Identifier: Apache-2.0 */
#include "papers/papers_hybrid.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "fused/fused_schedule.h"
#include "fused/fused_stage.h"

/* Enough rows of a million columns for every processor of the device; more where a block of rows
 * needs it. */
static const uint64_t MATRIX_BYTES = (uint64_t)1 << 30;
enum { LEAST_UNIT_TILES = 8, MOST_UNIT_TILES = 64, UNITS_A_PROCESSOR = 16 };

static const uint64_t TILE_BYTES =
    (uint64_t)KIN_FUSED_BLOCK * KIN_FUSED_TILE * sizeof(uint32_t); /* of a block of rows */

/* ---- Room ------------------------------------------------------------------------------------ */

/* All columns at once where a block of rows has room for them, else as many as it has. */
static void set_shape(kin_papers_costs *c, int64_t row_blocks, uint64_t a_block, uint64_t bytes)
{
    const int64_t tiles = kin_fused_tiles_of(c->cols.points);
    c->chunk = kin_max_i64(1, kin_min_i64(tiles, (int64_t)(bytes / TILE_BYTES)));
    const uint64_t block = kin_size_add(kin_size_mul((uint64_t)c->chunk, TILE_BYTES), a_block);
    c->blocks = kin_max_i64(1, kin_min_i64(row_blocks, (int64_t)(bytes / block)));
    c->pitch = c->chunk * KIN_FUSED_TILE;
}

static uint64_t words_of(const kin_papers_costs *c)
{
    return kin_size_mul((uint64_t)(c->blocks * KIN_FUSED_BLOCK), (uint64_t)c->pitch);
}

static uint64_t units_of(const kin_papers_costs *c)
{
    return (uint64_t)(c->blocks * kin_ceil_div(c->chunk, (int64_t)LEAST_UNIT_TILES));
}

/* For matrix and a_block, before anything is found not to fit. */
static uint64_t first_bytes(int64_t columns, int64_t row_blocks, bool whole, uint64_t a_block,
                            uint64_t scope)
{
    const uint64_t block =
        kin_size_add((uint64_t)kin_fused_tiles_of(columns) * TILE_BYTES, a_block);
    const uint64_t least = whole ? kin_size_mul((uint64_t)row_blocks, block) : block;
    const uint64_t wished = least > MATRIX_BYTES ? least : MATRIX_BYTES;
    return scope / 4 < wished ? scope / 4 : wished;
}

kin_papers_costs_size kin_papers_costs_size_of(int64_t columns, int64_t row_blocks, bool whole,
                                               uint64_t a_block, uint64_t scope)
{
    kin_papers_costs c = {.cols = {.points = columns}};
    set_shape(&c, row_blocks, a_block, first_bytes(columns, row_blocks, whole, a_block, scope));
    const uint64_t tiles = (uint64_t)kin_fused_tiles_of(columns) * sizeof *c.tiles;
    const uint64_t fixed = units_of(&c) * sizeof *c.units + 2 * sizeof *c.numbers;
    const uint64_t matrix = kin_size_mul(words_of(&c), sizeof *c.matrix);
    return (kin_papers_costs_size){
        .blocks = c.blocks,
        .columns = c.pitch,
        .bytes = kin_size_add(kin_size_add(matrix, kin_size_mul((uint64_t)c.blocks, a_block)),
                              tiles + fixed)};
}

static kith_status take_room(kin_papers_costs *c, uint64_t beside)
{
    const kin_fused_device *on = &c->on;
    const uint64_t words = words_of(c);
    const uint64_t units = units_of(c);
    char *held = NULL;
    c->hold.ctx = on->ctx;
    KIN_GPU_NEW(&c->hold, on->gpu, c->matrix, words, "costs of a batch");
    KIN_GPU_NEW(&c->hold, on->gpu, c->tiles, (uint64_t)kin_fused_tiles_of(c->cols.points), "tiles");
    KIN_GPU_NEW(&c->hold, on->gpu, c->units, units, "units of work");
    KIN_GPU_NEW(&c->hold, on->gpu, c->numbers, 2, "counters");
    /* What the caller wants next must fit, too. */
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &held, beside, 1, "what a batch needs"));
    kin_gpu_free(on->gpu, held);
    return KITH_OK;
}

static kith_status upload_tiles(const kin_papers_costs *c)
{
    const kin_fused_device *on = &c->on;
    const int64_t count = kin_fused_tiles_of(c->cols.points);
    const int64_t step = kin_sequence_step(count);
    uint32_t *tiles = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, tiles, (uint64_t)count, "tiles");
    for (int64_t i = 0; i < count; i++) {
        tiles[i] = (uint32_t)kin_fused_sequence_tile(count, step, i);
    }
    return kin_gpu_upload(on->ctx, on->gpu, c->tiles, tiles, (uint64_t)count * sizeof *tiles);
}

kith_status kin_papers_costs_make(kin_papers_costs *c, int64_t row_blocks, bool whole,
                                  uint64_t a_block)
{
    uint64_t bytes =
        first_bytes(c->cols.points, row_blocks, whole, a_block, kin_gpu_scope(c->on.gpu));
    kith_status status = KITH_OK;
    for (;; bytes /= 2) {
        set_shape(c, row_blocks, a_block, bytes);
        status = take_room(c, kin_size_mul((uint64_t)c->blocks, a_block));
        KIN_THEN(status, upload_tiles(c));
        if (status != KITH_OK) {
            kin_papers_costs_free(c);
        }
        if (status != KITH_E_DEVICE_MEMORY || (c->blocks == 1 && c->chunk == 1)) {
            return status;
        }
        kin_forgive(c->on.ctx);
        kin_gpu_trim(c->on.gpu);
    }
}

void kin_papers_costs_free(kin_papers_costs *c)
{
    kin_hold_end(&c->hold);
    c->unit_blocks = 0;
    c->unit_tiles = 0;
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* Blocks that meet the same tiles stand side by side, so that one reads what another left in the
 * cache. */
static kith_status set_units(kin_papers_costs *c, int64_t blocks, int64_t tiles)
{
    const kin_fused_device *on = &c->on;
    if (c->unit_blocks == blocks && c->unit_tiles == tiles) {
        return KITH_OK;
    }
    const int64_t wished = (int64_t)on->gpu->info.processors * UNITS_A_PROCESSOR;
    const int64_t fair = blocks * tiles / kin_max_i64(wished, 1);
    const int64_t length = kin_max_i64(LEAST_UNIT_TILES, kin_min_i64(fair, MOST_UNIT_TILES));
    const int64_t parts = kin_ceil_div(tiles, length);
    const uint32_t count = (uint32_t)(blocks * parts);
    kin_fused_unit *units = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, units, count, "units of work");
    for (int64_t i = 0; i < blocks * parts; i++) {
        const int64_t first = tiles * (i / blocks) / parts;
        const int64_t end = tiles * (i / blocks + 1) / parts;
        units[i] =
            (kin_fused_unit){(uint32_t)(i % blocks), (uint32_t)first, (uint32_t)(end - first), 0};
    }
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, c->units, units, count * sizeof *units));
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, c->numbers, &count, sizeof count));
    c->unit_blocks = blocks;
    c->unit_tiles = tiles;
    return KITH_OK;
}

kith_status kin_papers_costs_run(kin_papers_costs *c, const kin_fused_set *rows, int64_t first,
                                 int64_t tiles)
{
    const kin_fused_device *on = &c->on;
    const kin_fused_screen job = {.mode = KIN_FUSED_MATRIX,
                                  .rows = *rows,
                                  .cols = c->cols,
                                  .units = c->units,
                                  .unit_count = &c->numbers[0],
                                  .next = &c->numbers[1],
                                  .tiles = c->tiles + first,
                                  .worst = c->col_worst,
                                  .matrix = c->matrix,
                                  .pitch = c->pitch};
    KIN_TRY(set_units(c, rows->padded / KIN_FUSED_BLOCK, tiles));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, &c->numbers[1], 0, sizeof *c->numbers));
    return kin_gpu_check(on->ctx, on->gpu, on->kernels->screen(on->stream, &job), "screening");
}

kith_status kin_papers_costs_gather(const kin_papers_costs *c, const kin_fused_set *rows,
                                    const kin_fused_lists *lists, int64_t first, int64_t tiles)
{
    const kin_fused_device *on = &c->on;
    const kin_fused_gather job = {.rows_set = *rows,
                                  .cols_set = c->cols,
                                  .lists = *lists,
                                  .rows = rows->points,
                                  .matrix = c->matrix,
                                  .pitch = c->pitch,
                                  .count = tiles * KIN_FUSED_TILE,
                                  .tiles = c->tiles + first};
    return kin_gpu_check(on->ctx, on->gpu, on->kernels->gather(on->stream, &job),
                         "gathering candidates");
}
