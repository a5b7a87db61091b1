/* SPDX-License-Identifier: Apache-2.0
 * Which tiles of columns each block of rows meets, as units for the screen. */
#include "base/base_size.h"
#include "reference/reference_screen.h"
#include "screen/screen_cover.h"
#include "screen/screen_schedule.h"
#include "select/select_word.h"

#include <stdlib.h>

/* ---- Balls ----------------------------------------------------------------------------------- */

static float tile_reach(const kin_screen_gpu_plan *job, const kin_screen_gpu_worst *worst,
                        int64_t tile)
{
    if (worst == NULL) {
        return 0.0F;
    }
    if (job->rows.frame.bound != KIN_BOUND_INTEGER) {
        return worst[tile].far;
    }
    const int32_t reach = worst[tile].integer;
    if (reach == INT32_MAX) {
        return INFINITY;
    }
    return reach > 0 ? kin_up_of(sqrt((double)reach) * (1.0 + 0x1p-50)) : 0.0F;
}

static float square_between(const kin_screen_gpu_plan *job, int64_t own, int64_t tile)
{
    const int32_t cols = job->rows.frame.cols;
    const float *a = job->rows.centres + own * cols;
    const float *b = job->cols.centres + tile * cols;
    double sum = 0.0;
    for (int32_t c = 0; c < cols; c++) {
        const double t = (double)(a[c] - b[c]);
        sum += t * t;
    }
    return (float)sum;
}

/* Whether one of the block's two tiles may hold a pair with this one that matters. */
static bool is_near(const kin_screen_gpu_plan *job, int64_t block, int64_t tile)
{
    if (job->rows.centres == NULL || job->cols.centres == NULL || job->row_worst == NULL) {
        return true;
    }
    for (int64_t own = 2 * block; own < 2 * block + 2; own++) {
        if (own * KIN_SCREEN_GPU_TILE < job->rows.points) {
            const float reach =
                fmaxf(tile_reach(job, job->row_worst, own), tile_reach(job, job->col_worst, tile));
            if (!kin_ball_apart(square_between(job, own, tile),
                                kin_ball_shrink(job->rows.frame.cols), reach, job->rows.radii[own],
                                job->cols.radii[tile])) {
                return true;
            }
        }
    }
    return false;
}

/* ---- The schedule ---------------------------------------------------------------------------- */

typedef struct walk {
    const kin_screen_gpu_plan *job;
    int64_t blocks;
    int64_t col_tiles;
    int64_t step;
    int64_t ahead; /* in a search's sequence */
    int64_t block;
    int64_t own;            /* its place among those that are planned */
    const uint32_t *groups; /* of columns, NULL: the schedule's tiles */
    int64_t length;         /* places */
} walk;

/* The tile at place q, or -1 where there is none that the block meets. */
static int64_t tile_at(const walk *w, int64_t q)
{
    const kin_screen_gpu_plan *job = w->job;
    if (job->graph == 0) {
        return kin_screen_gpu_sequence_tile(w->col_tiles, w->step,
                                            (w->ahead + job->first + q) % w->col_tiles);
    }
    int64_t tile;
    bool meets;
    if (w->groups != NULL) {
        const int64_t wide = job->coarse.tiles;
        tile = (int64_t)w->groups[q / wide] * wide + q % wide;
        const int64_t ahead = (tile / 2 - w->block + w->blocks) % w->blocks;
        meets = ahead > job->reach && w->blocks - ahead > job->reach &&
                kin_screen_gpu_takes(w->blocks, w->block, ahead);
    } else {
        const int64_t near = job->last - job->first;
        const int64_t offset = q / 2 < near ? job->first + q / 2 : job->far_first + q / 2 - near;
        tile = (w->block + offset) % w->blocks * 2 + q % 2;
        meets = kin_screen_gpu_takes(w->blocks, w->block, offset);
    }
    return meets && tile < w->col_tiles ? tile : -1;
}

/* Units of nearly equal size. */
static void make_units(const walk *w, uint32_t count)
{
    const kin_screen_gpu_plan *job = w->job;
    const uint32_t units = (count + job->unit_tiles - 1) / job->unit_tiles;
    const uint32_t slot = (uint32_t)(w->own * job->tiles_a_block);
    for (uint32_t i = 0; i < units; i++) {
        const uint32_t begin = (uint32_t)((uint64_t)count * i / units);
        const uint32_t end = (uint32_t)((uint64_t)count * (i + 1) / units);
        job->units[(*job->unit_count)++] =
            (kin_screen_gpu_unit){(uint32_t)w->block, slot + begin, end - begin, 0};
    }
}

static void plan_block(const walk *w)
{
    const kin_screen_gpu_plan *job = w->job;
    uint32_t *tiles = job->tiles + w->own * job->tiles_a_block;
    uint32_t count = 0;
    uint64_t skipped = 0;
    for (int64_t q = 0; q < w->length; q++) {
        const int64_t tile = tile_at(w, q);
        if (tile >= 0 && count < job->tiles_a_block && is_near(job, w->block, tile)) {
            tiles[count++] = (uint32_t)tile;
        } else {
            skipped += tile >= 0 ? 1 : 0;
        }
    }
    if (job->counts != NULL) {
        job->counts[w->own] = count;
    }
    if (job->units != NULL) {
        make_units(w, count);
    }
    if (job->met != NULL) {
        job->met[0] += job->units != NULL ? count : 0;
        job->met[1] += skipped;
    }
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The blocks of a group of rows, which stand from `own` on. */
static void plan_group(walk w, int64_t group, int64_t all, int64_t tall, int64_t own)
{
    const kin_screen_gpu_plan *job = w.job;
    const kin_screen_gpu_coarse *coarse = &job->coarse;
    w.length =
        (job->last - job->first + job->far_last - job->far_first) * (job->graph != 0 ? 2 : 1);
    if (coarse->groups != NULL) {
        const int64_t count = coarse->counts[group];
        const int64_t begin = count * job->first / KIN_SCREEN_GPU_COARSE_PARTS;
        const int64_t end = count * job->last / KIN_SCREEN_GPU_COARSE_PARTS;
        w.groups = coarse->groups + group * coarse->room + begin;
        w.length = (end - begin) * coarse->tiles;
    }
    for (int64_t g = 0; g < tall && group * tall + g < w.blocks; g++) {
        w.block = group * tall + g;
        w.own = own + g;
        w.ahead = job->dealt != 0 ? kin_screen_gpu_sequence_ahead(w.col_tiles, all, group) : 0;
        plan_block(&w);
    }
}

static void body_plan(const kin_screen_gpu_plan *job)
{
    walk w = {.job = job,
              .blocks = job->rows.padded / KIN_SCREEN_GPU_BLOCK,
              .col_tiles = (job->cols.points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE};
    if (w.blocks == 0 || w.col_tiles == 0 || job->last <= job->first) {
        return;
    }
    w.step = kin_sequence_step(w.col_tiles);
    const int64_t parts = job->parts > 1 ? job->parts : 1;
    const int64_t tall = job->coarse.groups != NULL ? job->coarse.tiles : KIN_SCREEN_GPU_PLAN_GROUP;
    const int64_t all = (w.blocks + tall - 1) / tall;
    const bool adjoins = job->adjoining != 0;
    const int64_t first = adjoins ? all * job->part / parts : job->part;
    const int64_t end = adjoins ? all * (job->part + 1) / parts : all;
    int64_t own = 0;
    for (int64_t group = first; group < end; group += adjoins ? 1 : parts) {
        plan_group(w, group, all, tall, own);
        own += tall;
    }
}

REFERENCE_SCREEN(plan)

/* ---- Tiles that rows can reach --------------------------------------------------------------- */

static int64_t tiles_of(const kin_screen_gpu_set *set)
{
    return (set->points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
}

static uint32_t order_between(const kin_screen_gpu_set *rows, int64_t row,
                              const kin_screen_gpu_set *cols, int64_t column)
{
    kin_screen_gpu_word cost;
    int64_t product = 0;
    for (int32_t c = 0; c < rows->frame.cols; c++) {
        product += (int64_t)rounded_of(rows, row, c) * (int64_t)rounded_of(cols, column, c);
    }
    cost.i = (int32_t)(rows->facts[row].term.i + cols->facts[column].term.i - 2 * product);
    return order_of(KIN_SCREEN_GPU_S8, cost);
}

/* By ascending cost of the nearest ball. words: a word a tile. */
static void sort_tiles(const kin_screen_gpu_aim *job, int64_t row, uint64_t *words)
{
    for (int64_t ball = 0; ball < job->balls.points; ball++) {
        const uint64_t order = order_between(&job->rows, row, &job->balls, ball);
        const int64_t tile = ball / KIN_SCREEN_GPU_BALLS;
        const uint64_t word = order << 32 | (uint64_t)tile;
        words[tile] = ball % KIN_SCREEN_GPU_BALLS == 0 || word < words[tile] ? word : words[tile];
    }
    kin_select_nth_word(words, tiles_of(&job->cols),
                        kin_min_i64(KIN_SCREEN_GPU_AIMED, tiles_of(&job->cols)) - 1);
}

static void body_aim(const kin_screen_gpu_aim *job)
{
    uint64_t *tiles = reference_room(tiles_of(&job->cols), sizeof *tiles);
    for (int64_t row = 0; row < job->rows.points; row++) {
        uint64_t words[KIN_SCREEN_GPU_AIMED * KIN_SCREEN_GPU_TILE];
        int64_t count = 0;
        sort_tiles(job, row, tiles);
        for (int64_t i = 0; i < KIN_SCREEN_GPU_AIMED && i < tiles_of(&job->cols); i++) {
            const int64_t first = (int64_t)(uint32_t)tiles[i] * KIN_SCREEN_GPU_TILE;
            for (int64_t c = first; c < first + KIN_SCREEN_GPU_TILE && c < job->cols.points; c++) {
                words[count++] = order_between(&job->rows, row, &job->cols, c);
            }
        }
        job->lists.reach[row] = (double)INFINITY;
        if (count >= job->lists.k) {
            kin_select_nth_word(words, count, job->lists.k - 1);
            job->lists.reach[row] = proven_by(&job->rows.frame, (uint32_t)words[job->lists.k - 1],
                                              bounds_of(&job->rows, row), job->cols.worst);
        }
    }
    free(tiles);
}

REFERENCE_SCREEN(aim)

static bool any_reaches(const kin_screen_gpu_meet *job, int64_t block, int64_t tile)
{
    const int64_t end = (block + 1) * KIN_SCREEN_GPU_BLOCK;
    for (int64_t row = block * KIN_SCREEN_GPU_BLOCK; row < end && row < job->rows.points; row++) {
        for (int64_t b = 0; b < KIN_SCREEN_GPU_BALLS; b++) {
            const int64_t ball = KIN_SCREEN_GPU_BALLS * tile + b;
            const double cost =
                cost_of(KIN_SCREEN_GPU_S8, order_between(&job->rows, row, &job->balls, ball));
            if (is_within(&job->rows.frame, job->lists.reach[row], cost, bounds_of(&job->rows, row),
                          bounds_of(&job->balls, ball))) {
                return true;
            }
        }
    }
    return false;
}

static void body_meet(const kin_screen_gpu_meet *job)
{
    const int64_t tiles = job->balls.points / KIN_SCREEN_GPU_BALLS;
    *job->unit_count = 0;
    for (int64_t b = 0; b * KIN_SCREEN_GPU_BLOCK < job->rows.points; b++) {
        const uint32_t slot = (uint32_t)b * job->tiles_a_block;
        uint32_t count = 0;
        for (int64_t tile = 0; tile < tiles; tile++) {
            if (any_reaches(job, b, tile) && count++ < job->tiles_a_block) {
                job->tiles[slot + count - 1] = (uint32_t)tile;
            }
        }
        uint32_t units = count < job->units_a_block ? count : job->units_a_block;
        units = count <= job->tiles_a_block ? units : 0;
        for (uint32_t i = 0; i < units; i++) {
            const uint32_t begin = (uint32_t)((uint64_t)count * i / units);
            const uint32_t end = (uint32_t)((uint64_t)count * (i + 1) / units);
            job->units[(*job->unit_count)++] =
                (kin_screen_gpu_unit){(uint32_t)b, slot + begin, end - begin, 0};
        }
        job->columns[b] = count * KIN_SCREEN_GPU_TILE;
        if (job->met != NULL) {
            job->met[0] += count;
            job->met[1] += (uint64_t)tiles - count;
        }
    }
}

REFERENCE_SCREEN(meet)
