/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a work. How large its parts are: what is wished for speed, and less where the room
 * is small. Everything but the lists is bounded by a constant.
 */
#include "screen/screen_stage_gpu.h"

#include "host/host_threads.h"
#include "screen/screen_schedule.h"

#include <time.h>

/* Chosen for one H200: a seed that costs a percent of a million rows' screen; units that load their
 * rows (two tiles' worth) rarely, and are still many for each processor. */
enum {
    SEED_COLUMNS = 1024,
    SEED_A_NEIGHBOUR = 8,   /* columns of a graph's seed for each of the k */
    SMALL_A_PROCESSOR = 60, /* rows of a small graph, */
    SMALL_A_NEIGHBOUR = 3,  /* as many more for two of the k, */
    SMALL_MOST = 65536,     /* and at most; */
    SMALL_BYTES = 16384,    /* half as many where a rounded row takes so much */
    SAMPLE_COLUMNS = 4096,
    SAMPLE_A_NEIGHBOUR = 16,
    HOME_MARGIN = 8,        /* tiles of a seed beside the home of a block */
    WHOLE_HOME = 24,        /* tiles; of larger homes a share goes into the seed, */
    HOME_SHARE = 2,         /* one tile in two, or in more where lists have room */
    TILES_A_SHARE = 8192,   /* two cells' worth of the most cells */
    ROOM_A_NEIGHBOUR = 4,   /* entries of a list for each neighbour of a share */
    SEED_SHARE = 8,         /* as long as seeds are at most this part of all columns */
    AMPLE = 4096,           /* entries of lists of few rows, */
    AMPLE_A_NEIGHBOUR = 32, /* and for each of the k */
    WIDE_POINTS = 16000000,
    LEAST_UNIT_TILES = 8,
    MOST_UNIT_TILES = 64,
    UNITS_A_PROCESSOR = 16,
    PROCESSORS = 132
};
static const uint64_t MATRIX_BYTES = 256u << 20;
static const uint64_t TILE_BYTES = 128u << 20;
static const uint64_t GRAPH_TILE_BYTES = 1u << 30;
static const uint64_t TILE_COLUMN_BYTES = KIN_SCREEN_GPU_TILE * sizeof(uint32_t);

/* Where the tiles of seeds come from: the rows' own surroundings, all there are, a spread sample,
 * or near to a block's home in the corpus. */
typedef enum seeding {
    GRAPH,
    SMALL_GRAPH, /* whose seeds are everything */
    CUT_SHORT,   /* a graph's, whose stages meet few tiles and so are long */
    SPREAD,
    SEEDLESS, /* the same without its matrix */
    NEAR
} seeding;

bool kin_screen_gpu_is_wide(int64_t points)
{
    return points >= WIDE_POINTS;
}

int32_t kin_screen_gpu_capacity(int64_t k)
{
    return (int32_t)kin_round_up(4 * k + 64, 8);
}

static kin_screen_gpu_lists lists_of(int64_t rows, int64_t k, int32_t capacity)
{
    return (kin_screen_gpu_lists){
        .rows = kin_round_up(rows, KIN_SCREEN_GPU_BLOCK), .k = (int32_t)k, .capacity = capacity};
}

/* Few rows, which have no order and so no home, get lists that hold whole clusters. */
int32_t kin_screen_gpu_search_capacity(int64_t rows, int64_t cols, int64_t k, uint64_t room)
{
    const int32_t plain = kin_screen_gpu_capacity(k);
    const int64_t wished = kin_min_i64(AMPLE_A_NEIGHBOUR * k + AMPLE, kin_round_up(cols, 8) + 8);
    kin_screen_gpu_lists lists = lists_of(rows, k, (int32_t)wished);
    const bool fits = kin_gpu_layout_bytes(kin_screen_gpu_lists_name, &lists) <= room / 8;
    return rows < KIN_SCREEN_GPU_ORDERED_ROWS && fits && wished > plain ? (int32_t)wished : plain;
}

/* Few rows against few columns make small units, so that every processor has some. */
static uint32_t unit_tiles_of(int64_t blocks, int64_t tiles, int64_t processors)
{
    const int64_t fair = blocks * tiles / (processors * UNITS_A_PROCESSOR);
    return (uint32_t)kin_max_i64(LEAST_UNIT_TILES, kin_min_i64(fair, MOST_UNIT_TILES));
}

/* Tiles of a seed: as many as are wished, fewer where the costs of one block of rows would take
 * more than a quarter of the room. */
static int64_t seed_tiles_of(int64_t wished, uint64_t room)
{
    const uint64_t a_tile = KIN_SCREEN_GPU_BLOCK * TILE_COLUMN_BYTES;
    const uint64_t fit = room / 4 / a_tile;
    return kin_max_i64(1, fit < (uint64_t)wished ? (int64_t)fit : wished);
}

/* Tiles of a seed near home: queries in the corpus' own order have tiles / blocks of it to a block.
 * One tile in `share` of those is seen: some of each cell, and so many that lists have room for
 * what those leave, which is about share k. */
static int64_t near_tiles_of(int64_t blocks, int64_t tiles, int64_t k, int32_t capacity)
{
    const int64_t home = kin_ceil_div(tiles, kin_max_i64(blocks, 1));
    const int64_t room = capacity / (ROOM_A_NEIGHBOUR * kin_max_i64(k, 1));
    const int64_t share = kin_max_i64(HOME_SHARE, kin_min_i64(room, tiles / TILES_A_SHARE));
    const int64_t wished = home <= WHOLE_HOME ? home + HOME_MARGIN
                                              : kin_max_i64(WHOLE_HOME + HOME_MARGIN, home / share);
    return kin_max_i64(wished, kin_screen_gpu_tiles_of(SAMPLE_A_NEIGHBOUR * k));
}

bool kin_screen_gpu_wants_homes(int64_t rows, int64_t cols, int64_t k)
{
    const int64_t tiles = kin_screen_gpu_tiles_of(cols);
    const int64_t near =
        near_tiles_of(kin_screen_gpu_blocks_of(rows), tiles, k, kin_screen_gpu_capacity(k));
    return rows >= KIN_SCREEN_GPU_ORDERED_ROWS && near * SEED_SHARE <= tiles;
}

/* A product of all rows and a pass over its costs take less time than stages that push candidates
 * into lists, of which few rows and many neighbours have many for each pair; the wider rows are,
 * the more a second product of each pair takes. */
int64_t kin_screen_gpu_small_graph(const kin_gpu *gpu, int64_t k, int64_t row_bytes)
{
    const int64_t most = gpu->info.processors * (SMALL_A_PROCESSOR + SMALL_A_NEIGHBOUR * k / 2);
    return kin_gpu_parts(gpu) < 2
               ? kin_min_i64(most, SMALL_MOST) * SMALL_BYTES / (SMALL_BYTES + row_bytes)
               : 0;
}

/* Where all tiles have no room as seeds, they are as usual. */
static seeding graph_seeding(const kin_screen_gpu_work *w, uint64_t room)
{
    const int64_t tiles = 2 * kin_screen_gpu_blocks_of(w->rows.points);
    const int64_t most = kin_screen_gpu_small_graph(w->on.gpu, w->lists.k, w->rows.frame.row_bytes);
    return w->rows.points <= most && seed_tiles_of(tiles, room) == tiles ? SMALL_GRAPH : GRAPH;
}

static kin_screen_gpu_sizes sizes_of(int64_t rows, int64_t cols, const kin_screen_gpu_lists *lists,
                                     seeding how, uint64_t room)
{
    const int64_t k = lists->k;
    const bool cut_short = how == CUT_SHORT;
    const bool graph = how <= CUT_SHORT;
    const int64_t blocks = kin_screen_gpu_blocks_of(rows);
    const int64_t tiles = kin_screen_gpu_tiles_of(cols);
    kin_screen_gpu_sizes s = {0};
    if (graph) {
        const int64_t some = kin_max_i64(SEED_COLUMNS, SEED_A_NEIGHBOUR * k);
        const int64_t wished = how == SMALL_GRAPH ? blocks * KIN_SCREEN_GPU_BLOCK : some;
        const int64_t seed_tiles = seed_tiles_of(kin_screen_gpu_tiles_of(wished), room);
        const int64_t reach = kin_ceil_div(seed_tiles / 2 - 1, 2);
        s.seed_blocks = kin_screen_gpu_seed_blocks(blocks, reach);
        s.seed_tiles = 2 * s.seed_blocks;
    } else {
        const int64_t spread =
            kin_screen_gpu_tiles_of(kin_max_i64(SAMPLE_COLUMNS, SAMPLE_A_NEIGHBOUR * k));
        const int64_t wished =
            how == NEAR ? near_tiles_of(blocks, tiles, k, lists->capacity) : spread;
        s.seed_tiles = kin_min_i64(seed_tiles_of(wished, room), tiles);
    }
    const uint64_t block_bytes = KIN_SCREEN_GPU_BLOCK * (uint64_t)s.seed_tiles * TILE_COLUMN_BYTES;
    const uint64_t bytes = MATRIX_BYTES < room / 4 ? MATRIX_BYTES : room / 4;
    s.batch_blocks = kin_max_i64(1, kin_min_i64((int64_t)(bytes / block_bytes), blocks));
    const int64_t step_tiles = graph ? 2 : 1;
    const int64_t most = graph ? kin_screen_gpu_offsets_end(blocks) : tiles;
    const uint64_t wide = graph ? GRAPH_TILE_BYTES : TILE_BYTES;
    const uint64_t table = wide < room / 8 ? wide : room / 8;
    const int64_t fitting =
        (int64_t)(table / sizeof(uint32_t)) / (kin_max_i64(blocks, 1) * step_tiles);
    s.stretch = kin_max_i64(1, kin_min_i64(fitting, most));
    s.unit_tiles = unit_tiles_of(blocks, graph ? tiles / 2 : tiles, PROCESSORS);
    const int64_t seed_table =
        how == SPREAD || how == SEEDLESS ? s.seed_tiles : blocks * s.seed_tiles;
    const int64_t stage_tiles = cut_short && kin_screen_gpu_is_wide(rows)
                                    ? KIN_SCREEN_GPU_WIDE_TILES
                                    : s.stretch * step_tiles;
    s.tile_count = kin_max_i64(seed_table, blocks * stage_tiles);
    const int64_t seed_units = blocks * kin_ceil_div(s.seed_tiles, KIN_SCREEN_GPU_SEED_UNIT_TILES);
    s.unit_count =
        kin_max_i64(seed_units, kin_screen_gpu_plan_units(blocks, stage_tiles, s.unit_tiles));
    return s;
}

/* Of a graph that `parts` GPUs share: in the same tables stages find room that are as many times as
 * long. */
static void share_sizes(kin_screen_gpu_sizes *sizes, int64_t rows, int32_t parts)
{
    const int64_t blocks = kin_screen_gpu_blocks_of(rows);
    const int64_t planned = kin_screen_gpu_plan_share(blocks, parts);
    const int64_t fitting = sizes->tile_count / kin_max_i64(1, 2 * planned);
    const int64_t stretch = kin_min_i64(fitting, kin_screen_gpu_offsets_end(blocks));
    sizes->stretch = kin_max_i64(sizes->stretch, stretch);
    sizes->tile_count = kin_max_i64(sizes->tile_count, planned * sizes->stretch * 2);
    sizes->unit_count =
        kin_max_i64(sizes->unit_count,
                    kin_screen_gpu_plan_units(planned, sizes->stretch * 2, sizes->unit_tiles));
}

kin_screen_gpu_sizes kin_screen_gpu_sizes_known(const kin_gpu *gpu, int64_t rows, int64_t cols,
                                                uint64_t memory)
{
    const int64_t blocks = kin_screen_gpu_blocks_of(rows);
    const int64_t tiles = kin_screen_gpu_tiles_of(cols);
    const int64_t fit = (int64_t)(memory / sizeof(uint32_t)) / 2 / blocks;
    const int64_t stretch = kin_max_i64(2, kin_min_i64(fit, tiles));
    const uint32_t unit_tiles = unit_tiles_of(blocks, tiles, kin_max_i64(gpu->info.processors, 1));
    return (kin_screen_gpu_sizes){.stretch = stretch,
                                  .tile_count = blocks * stretch,
                                  .unit_count =
                                      kin_screen_gpu_plan_units(blocks, stretch, unit_tiles),
                                  .unit_tiles = unit_tiles};
}

/* ---- Layout ---------------------------------------------------------------------------------- */

static void name_work(kin_layout *layout, void *job)
{
    kin_screen_gpu_work *w = job;
    const uint64_t rows = (uint64_t)w->lists.rows;
    kin_screen_gpu_lists_name(layout, &w->lists);
    w->worst = kin_layout_array(layout, rows / KIN_SCREEN_GPU_TILE, sizeof *w->worst);
    w->gates = kin_layout_array(layout, rows, sizeof *w->gates);
    w->tiles = kin_layout_array(layout, (uint64_t)w->size.tile_count, sizeof *w->tiles);
    w->units = kin_layout_array(
        layout, (uint64_t)w->size.unit_count + 2 * KIN_SCREEN_GPU_STAGE_UNITS, sizeof *w->units);
    w->counters = kin_layout_array(layout, 1, sizeof *w->counters);
    w->before = kin_layout_array(layout, rows, sizeof *w->before);
    if (w->share.parts > 0) {
        kin_screen_gpu_share_name(layout, &w->share);
    }
}

/* Costs of a batch of a small graph of at most so many rows: batches are whole blocks, so that
 * fewer rows may take more. */
static uint64_t small_words(int64_t rows, uint64_t room)
{
    const uint64_t padded = (uint64_t)kin_round_up(rows, KIN_SCREEN_GPU_BLOCK);
    const uint64_t most = (MATRIX_BYTES < room / 4 ? MATRIX_BYTES : room / 4) / sizeof(uint32_t);
    return padded * padded < most ? padded * padded : most;
}

/* Of lists for rows and k. */
static uint64_t work_bytes(const kin_screen_gpu_lists *lists, int64_t rows, int64_t cols,
                           seeding how, uint64_t room)
{
    kin_screen_gpu_work w = {.cut_short = how == CUT_SHORT,
                             .lists = *lists,
                             .size = sizes_of(rows, cols, lists, how, room)};
    const uint64_t words = how == SEEDLESS      ? 0
                           : how == SMALL_GRAPH ? small_words(rows, room)
                                                : kin_screen_gpu_matrix_words(&w.size);
    return kin_size_add(kin_gpu_layout_bytes(name_work, &w), words * sizeof *w.matrix);
}

uint64_t kin_screen_gpu_seedless_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room)
{
    const kin_screen_gpu_lists lists =
        lists_of(rows, k, kin_screen_gpu_search_capacity(rows, cols, k, room));
    return work_bytes(&lists, rows, cols, SEEDLESS, room);
}

uint64_t kin_screen_gpu_cut_short_bytes(int64_t rows, int64_t k, int32_t capacity, uint64_t room)
{
    const kin_screen_gpu_lists lists = lists_of(rows, k, capacity);
    return work_bytes(&lists, rows, rows, CUT_SHORT, room);
}

/* How many rows are distinct is not known: few make a small graph. */
uint64_t kin_screen_gpu_graph_bytes(const kin_gpu *gpu, int64_t rows, int64_t k, uint64_t room)
{
    const int64_t few = kin_min_i64(rows, kin_screen_gpu_small_graph(gpu, k, 0));
    const kin_screen_gpu_lists lists = lists_of(rows, k, kin_screen_gpu_capacity(k));
    const kin_screen_gpu_lists few_lists = lists_of(few, k, kin_screen_gpu_capacity(k));
    const uint64_t usual = work_bytes(&lists, rows, rows, GRAPH, room);
    const uint64_t small = few > 0 ? work_bytes(&few_lists, few, few, SMALL_GRAPH, room) : 0;
    return small > usual ? small : usual;
}

uint64_t kin_screen_gpu_work_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room)
{
    const kin_screen_gpu_lists lists =
        lists_of(rows, k, kin_screen_gpu_search_capacity(rows, cols, k, room));
    const uint64_t spread = work_bytes(&lists, rows, cols, SPREAD, room);
    const uint64_t near =
        kin_screen_gpu_wants_homes(rows, cols, k) ? work_bytes(&lists, rows, cols, NEAR, room) : 0;
    return near > spread ? near : spread;
}

/* ---- Work ------------------------------------------------------------------------------------ */

static kith_status choose_sizes(kin_screen_gpu_work *w)
{
    uint64_t scope = kin_gpu_scope(w->on.gpu);
    const seeding how = w->cut_short       ? CUT_SHORT
                        : w->graph         ? graph_seeding(w, scope)
                        : w->homes != NULL ? NEAR
                                           : SPREAD;
    if (w->shared) {
        KIN_TRY(kin_gpu_agree(w->on.gpu, scope, &scope)); /* stages are of one length for all */
        w->share = kin_screen_gpu_share_of(w->on.gpu, w->rows.points, w->lists.capacity, scope);
    }
    w->size = sizes_of(w->rows.points, w->cols.points, &w->lists, how, scope);
    if (w->share.parts > 0 && !w->cut_short) {
        share_sizes(&w->size, w->rows.points, w->share.parts);
    }
    return KITH_OK;
}

static kith_status begin(kin_screen_gpu_work *w)
{
    const kin_screen_gpu_device *on = &w->on;
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_work, w, "candidate lists and their plans",
                                &w->block));
    KIN_TRY(kin_screen_gpu_lists_clear(on, &w->rows, &w->lists));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, w->counters, 0, sizeof *w->counters));
    KIN_TRY(
        kin_gpu_fill(on->ctx, on->gpu, w->before, 0, (uint64_t)w->lists.rows * sizeof *w->before));
    for (int i = 0; i < 2; i++) {
        KIN_TRY(kin_screen_gpu_launched(on, on->gpu->module->ops->event_make(&w->events[i]),
                                        "making an event"));
    }
    return KITH_OK;
}

kith_status kin_screen_gpu_work_make(kin_screen_gpu_work *w, int64_t k, int32_t capacity)
{
    w->lists = lists_of(w->rows.points, k, capacity);
    if (w->size.stretch == 0) {
        KIN_TRY(choose_sizes(w));
    }
    const kith_status status = begin(w);
    if (status != KITH_OK) {
        kin_screen_gpu_work_free(w);
    }
    return status;
}

void kin_screen_gpu_work_free(kin_screen_gpu_work *w)
{
    kin_gpu *gpu = w->on.gpu;
    for (int i = 0; i < 2; i++) {
        if (w->events[i] != NULL) {
            gpu->module->ops->event_free(w->events[i]);
            w->events[i] = NULL;
        }
    }
    kin_gpu_free(gpu, w->matrix);
    kin_gpu_free(gpu, w->block);
    w->matrix = NULL;
    w->block = NULL;
}

/* ---- What was lost --------------------------------------------------------------------------- */

kith_status kin_screen_gpu_work_lost(const kin_screen_gpu_work *w, uint64_t **count)
{
    const kin_screen_gpu_device *on = &w->on;
    const kin_screen_gpu_lost job = {.lost = w->lists.lost,
                                     .points = w->rows.points,
                                     .count = &w->counters->lost,
                                     .ids = (uint32_t *)w->before};
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, job.count, 0, sizeof *job.count));
    KIN_TRY(KIN_SCREEN_LAUNCH(on, lost, &job, "finding rows to screen again"));
    KIN_TRY(kin_gpu_fetch_count(on->ctx, on->gpu, job.count, count));
    return kin_screen_gpu_launched(on, on->gpu->module->ops->event_record(on->stream, w->events[0]),
                                   "screening");
}

kith_status kin_screen_gpu_work_lost_wait(const kin_screen_gpu_work *w)
{
    return kin_screen_gpu_launched(&w->on, w->on.gpu->module->ops->event_wait(w->events[0]),
                                   "screening");
}

kith_status kin_screen_gpu_work_tally(const kin_screen_gpu_work *w, kin_screen_gpu_tally *tally)
{
    kin_screen_gpu_counters counters;
    KIN_TRY(kin_gpu_download(w->on.ctx, w->on.gpu, &counters, w->counters, sizeof counters));
    tally->skipped += (double)counters.skipped;
    tally->pairs += (double)(counters.met + counters.skipped) + w->seed_pairs;
    tally->keys += (double)counters.keys;
    tally->looked += (double)counters.looked;
    return KITH_OK;
}

/* ---- Pace ------------------------------------------------------------------------------------ */

/* A nap of the shortest kind takes some 60 microseconds, so what ends soon is not slept through,
 * and naps grow. */
static kith_status await(const kin_screen_gpu_work *w, void *event, double share)
{
    enum { LOOKS = 100, SHORTEST_NS = 1000, LONGEST_NS = 100000 };
    const kin_gpu_ops *ops = w->on.gpu->module->ops;
    struct timespec nap = {0, SHORTEST_NS};
    int32_t done = 0;
    if (w->on.ctx->params.progress == NULL) {
        return kin_screen_gpu_launched(&w->on, ops->event_wait(event), "screening");
    }
    for (int look = 0; done == 0; look++) {
        if (look > LOOKS) {
            (void)nanosleep(&nap, NULL);
            nap.tv_nsec = nap.tv_nsec < LONGEST_NS ? nap.tv_nsec + SHORTEST_NS : LONGEST_NS;
        }
        KIN_TRY(kin_screen_gpu_launched(&w->on, ops->event_done(event, &done), "screening"));
        KIN_TRY(kin_progress(w->on.ctx, "screen", share, 1.0));
    }
    return KITH_OK;
}

kith_status kin_screen_gpu_work_pace(const kin_screen_gpu_work *w, double share)
{
    void *event = w->events[0];
    KIN_TRY(kin_screen_gpu_launched(
        &w->on, w->on.gpu->module->ops->event_record(w->on.stream, event), "screening"));
    return await(w, event, share);
}

kith_status kin_screen_gpu_work_end_stage(kin_screen_gpu_work *w, double share)
{
    void *event = w->events[w->stages % 2];
    if (w->stages >= 2) {
        KIN_TRY(await(w, event, share));
    }
    w->stages += 1;
    return kin_screen_gpu_launched(
        &w->on, w->on.gpu->module->ops->event_record(w->on.stream, event), "screening");
}
