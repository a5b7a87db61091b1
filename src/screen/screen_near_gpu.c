/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Many queries of a corpus of bytes that lies in clusters: a stage for all tiles meets what
 * none of them can reach, since a ball around 128 queries of as many clusters is as large as the
 * corpus. So each query is held against the balls of all tiles (screen_balls.cu), some blocks of
 * queries at a time, and a block meets the tiles that one of its queries reaches:
 *
 *      blocks 0 ..     costs with balls | aim | meet | screen of what is met -> lists
 *      blocks 16 ..                                                          ...     | tighten
 *
 * Reaches of the nearest tiles are nearly what they will be, so nothing is gained by stages. What
 * overflows is screened again like any other row. After the first blocks it is known whether tiles
 * are few enough, and whether rows are too coarse. */
#include "screen/screen_stage_gpu.h"

#include "host/host_threads.h"

/* Blocks of rows are aimed at a time, as far as there is room; more than a share of all tiles is
 * not worth it; and where more than a share of the first rows overflow, rows are too coarse. */
enum { UNITS_A_PROCESSOR = 16, MOST_NEAR = 2, MOST_LOST = 4 };
static const uint64_t AIMED_BYTES = UINT64_C(1) << 31;

typedef struct aiming {
    const kin_screen_gpu_balls *balls;
    kin_screen_gpu_aimed found;
} aiming;

static void name_aiming(kin_layout *layout, void *job)
{
    aiming *a = job;
    const uint64_t counters = (uint64_t)kin_screen_gpu_aimed_counters(a->found.rows);
    a->found.counters = kin_layout_array(layout, counters + 1, sizeof *a->found.counters);
    kin_screen_gpu_aimed_name(layout, a->balls, &a->found);
}

/* None where not even one block of rows has room. */
static int64_t aimed_blocks(const kin_screen_gpu_work *w, aiming *a)
{
    const uint64_t room = kin_gpu_scope(w->on.gpu) / 4;
    int64_t blocks =
        kin_min_i64(KIN_SCREEN_GPU_AIMED_BLOCKS, w->rows.padded / KIN_SCREEN_GPU_BLOCK);
    const int64_t processors = kin_max_i64(w->on.gpu->info.processors, 1);
    for (; blocks > 0; blocks--) {
        a->found.rows = blocks * KIN_SCREEN_GPU_BLOCK;
        a->found.units_a_block = (uint32_t)kin_ceil_div(UNITS_A_PROCESSOR * processors, blocks);
        const uint64_t bytes = kin_gpu_layout_bytes(name_aiming, a);
        if (bytes <= (AIMED_BYTES < room ? AIMED_BYTES : room)) {
            return blocks;
        }
    }
    return 0;
}

/* Rows of a set, as one. */
static kith_status aim_rows(kin_screen_gpu_work *w, aiming *a, const kin_screen_gpu_set *rows,
                            const kin_screen_gpu_lists *lists)
{
    const uint64_t counters = (uint64_t)kin_screen_gpu_aimed_counters(a->found.rows) + 1;
    KIN_TRY(kin_gpu_fill(w->on.ctx, w->on.gpu, a->found.counters, 0,
                         counters * sizeof *a->found.counters));
    return kin_screen_gpu_aimed_find(&w->on, w->balls, rows, &w->cols, lists, &a->found);
}

static kith_status screen_aimed(const kin_screen_gpu_work *w, const aiming *a,
                                const kin_screen_gpu_set *rows, const kin_screen_gpu_lists *lists)
{
    const int64_t last = kin_screen_gpu_aimed_counters(a->found.rows);
    const kin_screen_gpu_screen job = {.mode = KIN_SCREEN_GPU_LISTS,
                                       .rows = *rows,
                                       .cols = w->cols,
                                       .units = a->found.units,
                                       .unit_count = a->found.unit_count,
                                       .next = &a->found.counters[last],
                                       .tiles = a->found.tiles,
                                       .tiles_a_block = a->found.tiles_a_block,
                                       .row_lists = *lists,
                                       .worst = w->col_worst};
    return KIN_SCREEN_LAUNCH(&w->on, screen, &job, "screening");
}

/* Whether the first rows need few enough tiles. */
static kith_status are_few(const kin_screen_gpu_work *w, const aiming *a, bool *few)
{
    const int64_t blocks = a->found.rows / KIN_SCREEN_GPU_BLOCK;
    const int64_t all = blocks * (int64_t)a->found.tiles_a_block;
    uint32_t columns[KIN_SCREEN_GPU_AIMED_BLOCKS];
    int64_t met = 0;
    KIN_TRY(kin_gpu_download(w->on.ctx, w->on.gpu, columns, a->found.columns,
                             (uint64_t)blocks * sizeof *columns));
    for (int64_t b = 0; b < blocks; b++) {
        met += (int64_t)columns[b] / KIN_SCREEN_GPU_TILE;
    }
    kin_log(w->on.ctx, 2, "blocks of queries need %lld of %lld tiles", (long long)met,
            (long long)all);
    *few = met * MOST_NEAR <= all;
    return KITH_OK;
}

/* Whether rows are so coarse that lists overflow. */
static kith_status look_at_lists(kin_screen_gpu_work *w, int64_t rows)
{
    int32_t counts[KIN_SCREEN_GPU_AIMED_BLOCKS * KIN_SCREEN_GPU_BLOCK];
    int64_t lost = 0;
    KIN_TRY(kin_gpu_download(w->on.ctx, w->on.gpu, counts, w->lists.counts,
                             (uint64_t)rows * sizeof *counts));
    for (int64_t row = 0; row < rows; row++) {
        lost += counts[row] > w->lists.capacity ? 1 : 0;
    }
    w->crowded = lost * MOST_LOST > rows;
    return KITH_OK;
}

/* All blocks; *done is false, and lists are empty, where there is no room for it or the first rows
 * need too many tiles. */
static kith_status aim_all(kin_screen_gpu_work *w, aiming *a, int64_t blocks, bool *done)
{
    const int64_t step = blocks * KIN_SCREEN_GPU_BLOCK;
    for (int64_t row0 = 0; row0 < w->rows.points && !w->crowded; row0 += step) {
        const int64_t count = kin_min_i64(step, w->rows.padded - row0);
        const kin_screen_gpu_set rows = kin_screen_gpu_set_part(&w->rows, row0, count);
        const kin_screen_gpu_lists lists = kin_screen_gpu_lists_part(&w->lists, row0, count);
        KIN_TRY(aim_rows(w, a, &rows, &lists));
        if (row0 == 0) {
            KIN_TRY(are_few(w, a, done));
            if (!*done) {
                return kin_gpu_fill(w->on.ctx, w->on.gpu, &w->counters->met, 0,
                                    2 * sizeof w->counters->met);
            }
        }
        KIN_TRY(screen_aimed(w, a, &rows, &lists));
        KIN_TRY(row0 == 0 && w->wary ? look_at_lists(w, rows.points) : KITH_OK);
        KIN_TRY(kin_screen_gpu_work_end_stage(w, (double)row0 / (double)w->rows.points));
    }
    return KITH_OK;
}

kith_status kin_screen_gpu_work_near(kin_screen_gpu_work *w, bool *done)
{
    aiming a = {.balls = w->balls,
                .found = {.tiles_a_block = (uint32_t)kin_screen_gpu_tiles_of(w->cols.points),
                          .met = &w->counters->met}};
    const int64_t blocks = aimed_blocks(w, &a);
    if (blocks == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, w->on.ctx);
    const kith_status status =
        kin_gpu_hold_layout(&hold, w->on.gpu, name_aiming, &a, "tiles near to queries");
    if (status == KITH_E_DEVICE_MEMORY) { /* others hold what seemed free: all tiles, then */
        kin_forgive(w->on.ctx);
        return KITH_OK;
    }
    KIN_TRY(status);
    return aim_all(w, &a, blocks, done);
}
