/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Products of bytes take half the time of those of halves, and leave more candidates: as many
 * more as there are points within (1 + 2 lost / reach) of the k-th neighbour's distance. How many
 * that is, only the data knows. So four runs of 2,048 near rows, spread over the order, are
 * quantised, each row is screened against its own run, and the columns that its bound cannot
 * discard are counted. Among near rows the k-th neighbour is about where it is in the whole corpus,
 * and so is the count.
 *
 * Cost: some ten launches and one wait, a third of a millisecond.
 */
#include "screen/screen_prepare_gpu.h"

enum {
    RUNS = 4,
    RUN_ROWS = 2048,
    ROWS = RUNS * RUN_ROWS,
    RUN_TILES = RUN_ROWS / KIN_SCREEN_GPU_TILE,
    BLOCKS = ROWS / KIN_SCREEN_GPU_BLOCK,
    RUN_BLOCKS = RUN_ROWS / KIN_SCREEN_GPU_BLOCK,
    SPARE = 8
};

typedef struct pilot {
    const kin_screen_gpu_device *on;
    kin_screen_gpu_chosen rows;
    kin_screen_gpu_lists lists;
    uint32_t *matrix;
    uint32_t *tiles;
    kin_screen_gpu_unit *units;
    uint32_t *counters; /* units, next, and the worst norm and lost */
} pilot;

static pilot pilot_of(const kin_screen_gpu_frame *frame, int64_t k)
{
    return (pilot){.rows = kin_screen_gpu_chosen_of(frame, ROWS),
                   .lists = {.rows = ROWS, .k = (int32_t)k, .capacity = (int32_t)k + SPARE}};
}

static void name_pilot(kin_layout *layout, void *job)
{
    pilot *p = job;
    kin_screen_gpu_chosen_name(layout, &p->rows);
    kin_screen_gpu_lists_name(layout, &p->lists);
    p->matrix = kin_layout_array(layout, (uint64_t)ROWS * RUN_ROWS, sizeof *p->matrix);
    p->tiles = kin_layout_array(layout, (uint64_t)BLOCKS * RUN_TILES, sizeof *p->tiles);
    p->units = kin_layout_array(layout, BLOCKS, sizeof *p->units);
    p->counters = kin_layout_array(layout, 4, sizeof *p->counters);
    p->rows.worst = p->counters == NULL ? NULL : (float *)(void *)(p->counters + 2);
}

uint64_t kin_screen_gpu_type_bytes(int32_t row_bytes, int64_t k)
{
    const kin_screen_gpu_frame frame = {.row_bytes = row_bytes};
    pilot p = pilot_of(&frame, k);
    return kin_gpu_layout_bytes(name_pilot, &p);
}

/* Each block of rows meets the tiles of its run. */
static kith_status upload_work(const pilot *p)
{
    uint32_t tiles[BLOCKS * RUN_TILES];
    kin_screen_gpu_unit units[BLOCKS];
    const uint32_t counters[4] = {BLOCKS, 0, 0, 0};
    for (uint32_t block = 0; block < BLOCKS; block++) {
        units[block] = (kin_screen_gpu_unit){block, block * RUN_TILES, RUN_TILES, 0};
        for (uint32_t t = 0; t < RUN_TILES; t++) {
            tiles[block * RUN_TILES + t] = block / RUN_BLOCKS * RUN_TILES + t;
        }
    }
    kith_ctx *ctx = p->on->ctx;
    KIN_TRY(kin_gpu_upload(ctx, p->on->gpu, p->tiles, tiles, sizeof tiles));
    KIN_TRY(kin_gpu_upload(ctx, p->on->gpu, p->units, units, sizeof units));
    return kin_gpu_upload(ctx, p->on->gpu, p->counters, counters, sizeof counters);
}

static kith_status round_runs(pilot *p, const kin_screen_gpu_prepared *prepared)
{
    for (int64_t run = 0; run < RUNS; run++) {
        const int64_t first = (prepared->set.points - RUN_ROWS) * run / (RUNS - 1);
        KIN_TRY(kin_gpu_copy(p->on->ctx, p->on->gpu, p->rows.ids + run * RUN_ROWS,
                             prepared->ids + first, RUN_ROWS * sizeof *prepared->ids));
    }
    KIN_TRY(kin_screen_gpu_chosen_round(p->on, &prepared->rows, &p->rows));
    return kin_screen_gpu_chosen_see(p->on, &p->rows);
}

static kith_status screen_runs(const pilot *p)
{
    const kin_screen_gpu_costs costs = {.rows = p->rows.set,
                                        .cols = p->rows.set,
                                        .lists = p->lists,
                                        .count = ROWS,
                                        .units = p->units,
                                        .unit_count = p->counters,
                                        .next = p->counters + 1,
                                        .tiles = p->tiles,
                                        .tiles_a_block = RUN_TILES,
                                        .matrix = p->matrix,
                                        .pitch = RUN_ROWS};
    KIN_TRY(kin_screen_gpu_costs_reach(p->on, &costs));
    return kin_screen_gpu_costs_gather(p->on, &costs);
}

/* Lists count what they have no room for, too. */
static kith_status count_candidates(const pilot *p, double *a_row)
{
    kith_ctx *ctx = p->on->ctx;
    int32_t *counts = NULL;
    double sum = 0.0;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, counts, ROWS, "a pilot's counts");
    KIN_TRY(kin_gpu_download(ctx, p->on->gpu, counts, p->lists.counts, ROWS * sizeof *counts));
    for (int row = 0; row < ROWS; row++) {
        sum += counts[row];
    }
    *a_row = sum / ROWS;
    kin_log(ctx, 2, "bytes leave %.1f candidates a row of a pilot", *a_row);
    return KITH_OK;
}

kith_status kin_screen_gpu_type_try(const kin_screen_gpu_device *on,
                                    const kin_screen_gpu_prepared *prepared,
                                    const kin_screen_gpu_frame *frame, int64_t k,
                                    double *candidates)
{
    pilot p = pilot_of(frame, k);
    p.on = on;
    KIN_HOLD(hold, on->ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, on->gpu, name_pilot, &p, "a pilot's rows"));
    KIN_TRY(kin_screen_gpu_lists_clear(on, &p.rows.set, &p.lists));
    KIN_TRY(upload_work(&p));
    KIN_TRY(round_runs(&p, prepared));
    KIN_TRY(screen_runs(&p));
    return count_candidates(&p, candidates);
}
