/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The pipeline of the papers, certified. The screen writes the costs of a batch of rows to
 * all columns (products of rounded rows: Euclidean without the query's own term in the product,
 * cosine and Pearson of transformed rows); a method of selection, by name, finds the k smallest of
 * each row; the largest of them proves how far the k-th neighbour can be at most, and every column
 * that the bound leaves within that reach is gathered. From there on all is as after a fused
 * screen: canonical keys of what was gathered, sorted and written, overflowed lists run again.
 *
 *      rows      costs, 4 bytes a pair             k a row          reach, then all within it
 *      a batch   [ chunk of columns | chunk ]  ->  selection  ->    gather -> tighten -> lists
 *
 * So the answer does not depend on the method, nor on the rounding, nor on the cuts.
 *
 * The launch that turns costs into a reach reads least costs of tiles where those are given. The k
 * selected costs are given as such: k tiles of which each one's least cost is known.
 *
 * Memory. The matrix: 1 GiB, more where a block of rows needs it, at most a quarter of the room;
 * then in chunks of columns (below). k costs a row of a batch; what the method takes.
 */
#include "papers/papers.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "papers/papers_hybrid.h"
#include "screen/screen_schedule.h"

/* ---- Costs of a batch ------------------------------------------------------------------------ */

/* Enough rows of a million columns for every processor of the device; more where a block of rows
 * needs it. */
static const uint64_t MATRIX_BYTES = (uint64_t)1 << 30;
enum { LEAST_UNIT_TILES = 8, MOST_UNIT_TILES = 64, UNITS_A_PROCESSOR = 16 };

static const uint64_t TILE_BYTES = (uint64_t)KIN_SCREEN_GPU_BLOCK * KIN_SCREEN_GPU_TILE *
                                   sizeof(uint32_t); /* of a block of rows */

/* ---- Room ------------------------------------------------------------------------------------ */

/* All columns at once where a block of rows has room for them, else as many as it has. */
static void set_shape(kin_papers_costs *c, int64_t row_blocks, uint64_t a_block, uint64_t bytes)
{
    const int64_t tiles = kin_screen_gpu_tiles_of(c->cols.points);
    c->chunk = kin_max_i64(1, kin_min_i64(tiles, (int64_t)(bytes / TILE_BYTES)));
    const uint64_t block = kin_size_add(kin_size_mul((uint64_t)c->chunk, TILE_BYTES), a_block);
    c->blocks = kin_max_i64(1, kin_min_i64(row_blocks, (int64_t)(bytes / block)));
    c->pitch = c->chunk * KIN_SCREEN_GPU_TILE;
}

static uint64_t words_of(const kin_papers_costs *c)
{
    return kin_size_mul((uint64_t)(c->blocks * KIN_SCREEN_GPU_BLOCK), (uint64_t)c->pitch);
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
        kin_size_add((uint64_t)kin_screen_gpu_tiles_of(columns) * TILE_BYTES, a_block);
    const uint64_t least = whole ? kin_size_mul((uint64_t)row_blocks, block) : block;
    const uint64_t wished = least > MATRIX_BYTES ? least : MATRIX_BYTES;
    return scope / 4 < wished ? scope / 4 : wished;
}

kin_papers_costs_size kin_papers_costs_size_of(int64_t columns, int64_t row_blocks, bool whole,
                                               uint64_t a_block, uint64_t scope)
{
    kin_papers_costs c = {.cols = {.points = columns}};
    set_shape(&c, row_blocks, a_block, first_bytes(columns, row_blocks, whole, a_block, scope));
    const uint64_t tiles = (uint64_t)kin_screen_gpu_tiles_of(columns) * sizeof *c.tiles;
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
    const kin_screen_gpu_device *on = &c->on;
    const uint64_t words = words_of(c);
    const uint64_t units = units_of(c);
    char *held = NULL;
    c->hold.ctx = on->ctx;
    KIN_GPU_NEW(&c->hold, on->gpu, c->matrix, words, "costs of a batch");
    KIN_GPU_NEW(&c->hold, on->gpu, c->tiles, (uint64_t)kin_screen_gpu_tiles_of(c->cols.points),
                "tiles");
    KIN_GPU_NEW(&c->hold, on->gpu, c->units, units, "units of work");
    KIN_GPU_NEW(&c->hold, on->gpu, c->numbers, 2, "counters");
    /* What the caller wants next must fit, too. */
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &held, beside, 1, "what a batch needs"));
    kin_gpu_free(on->gpu, held);
    return KITH_OK;
}

static kith_status upload_tiles(const kin_papers_costs *c)
{
    const kin_screen_gpu_device *on = &c->on;
    const int64_t count = kin_screen_gpu_tiles_of(c->cols.points);
    const int64_t step = kin_sequence_step(count);
    uint32_t *tiles = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, tiles, (uint64_t)count, "tiles");
    for (int64_t i = 0; i < count; i++) {
        tiles[i] = (uint32_t)kin_screen_gpu_sequence_tile(count, step, i);
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
    const kin_screen_gpu_device *on = &c->on;
    if (c->unit_blocks == blocks && c->unit_tiles == tiles) {
        return KITH_OK;
    }
    const int64_t wished = (int64_t)on->gpu->info.processors * UNITS_A_PROCESSOR;
    const int64_t fair = blocks * tiles / kin_max_i64(wished, 1);
    const int64_t length = kin_max_i64(LEAST_UNIT_TILES, kin_min_i64(fair, MOST_UNIT_TILES));
    const int64_t parts = kin_ceil_div(tiles, length);
    const uint32_t count = (uint32_t)(blocks * parts);
    kin_screen_gpu_unit *units = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, units, count, "units of work");
    for (int64_t i = 0; i < blocks * parts; i++) {
        const int64_t first = tiles * (i / blocks) / parts;
        const int64_t end = tiles * (i / blocks + 1) / parts;
        units[i] = (kin_screen_gpu_unit){(uint32_t)(i % blocks), (uint32_t)first,
                                         (uint32_t)(end - first), 0};
    }
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, c->units, units, count * sizeof *units));
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, c->numbers, &count, sizeof count));
    c->unit_blocks = blocks;
    c->unit_tiles = tiles;
    return KITH_OK;
}

kith_status kin_papers_costs_run(kin_papers_costs *c, const kin_screen_gpu_set *rows, int64_t first,
                                 int64_t tiles)
{
    const kin_screen_gpu_device *on = &c->on;
    const kin_screen_gpu_screen job = {.mode = KIN_SCREEN_GPU_MATRIX,
                                       .rows = *rows,
                                       .cols = c->cols,
                                       .units = c->units,
                                       .unit_count = &c->numbers[0],
                                       .next = &c->numbers[1],
                                       .tiles = c->tiles + first,
                                       .worst = c->col_worst,
                                       .matrix = c->matrix,
                                       .pitch = c->pitch};
    KIN_TRY(set_units(c, rows->padded / KIN_SCREEN_GPU_BLOCK, tiles));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, &c->numbers[1], 0, sizeof *c->numbers));
    return KIN_SCREEN_LAUNCH(on, screen, &job, "screening");
}

kith_status kin_papers_costs_gather(const kin_papers_costs *c, const kin_screen_gpu_set *rows,
                                    const kin_screen_gpu_lists *lists, int64_t first, int64_t tiles)
{
    const kin_screen_gpu_device *on = &c->on;
    const kin_screen_gpu_gather job = {.rows_set = *rows,
                                       .cols_set = c->cols,
                                       .lists = *lists,
                                       .rows = rows->points,
                                       .matrix = c->matrix,
                                       .pitch = c->pitch,
                                       .count = tiles * KIN_SCREEN_GPU_TILE,
                                       .tiles = c->tiles + first};
    return KIN_SCREEN_LAUNCH(on, gather, &job, "gathering candidates");
}

enum { USUAL_SAMPLE = 8 /* of threshold_heap, times k */ };

/* Answers are complete; its seconds are taken from those of the screen, which runs around it. */
static kith_status select_timed(const kin_screen_gpu_device *on, const kin_select_job *job)
{
    KIN_TRY(kin_gpu_wait(on->ctx, on->gpu));
    const int64_t start = kin_clock_ns();
    const kith_status status = kin_select_device(on->ctx, on->gpu, job, true);
    const double seconds = kin_clock_since(start);
    on->ctx->report.seconds_select += seconds;
    on->ctx->report.seconds_screen -= seconds;
    return status;
}

/* ---- Costs ----------------------------------------------------------------------------------- */

typedef struct pipeline {
    kin_screen_gpu_work *work;
    const kin_select_method *method;
    kin_papers_costs costs;
    uint32_t *picked; /* the k least costs of each row of a batch, in any order */
} pipeline;

static kith_status find_reach(const pipeline *p, const kin_screen_gpu_set *rows,
                              const kin_screen_gpu_lists *lists, int64_t columns)
{
    const kin_screen_gpu_device *on = &p->work->on;
    const int64_t k = lists->k;
    const kin_select_job job = {.values = (const char *)p->costs.matrix,
                                .stride_bytes = p->costs.pitch * (int64_t)sizeof(uint32_t),
                                .rows = rows->points,
                                .cols = columns,
                                .k = k,
                                .dtype = KIN_SELECT_KEYS,
                                .method = p->method,
                                .sample = USUAL_SAMPLE,
                                .out_values = p->picked};
    const kin_screen_gpu_kth kth = {.set = *rows,
                                    .lists = *lists,
                                    .rows = rows->points,
                                    .matrix = p->costs.matrix,
                                    .minima = p->picked,
                                    .pitch = k * KIN_SCREEN_GPU_TILE,
                                    .count = k * KIN_SCREEN_GPU_TILE,
                                    .col_worst = p->costs.cols.worst};
    KIN_TRY(select_timed(on, &job));
    return KIN_SCREEN_LAUNCH(on, kth, &kth, "finding thresholds");
}

static kith_status run_chunk(pipeline *p, const kin_screen_gpu_set *rows,
                             const kin_screen_gpu_lists *lists, int64_t first, int64_t tiles)
{
    const kin_screen_gpu_device *on = &p->work->on;
    const kin_screen_gpu_tighten tighten = {
        .set = *rows, .cols_set = p->costs.cols, .lists = *lists};
    KIN_TRY(kin_papers_costs_run(&p->costs, rows, first, tiles));
    if (tiles * KIN_SCREEN_GPU_TILE >= lists->k) {
        KIN_TRY(find_reach(p, rows, lists, tiles * KIN_SCREEN_GPU_TILE));
    }
    KIN_TRY(kin_papers_costs_gather(&p->costs, rows, lists, first, tiles));
    return KIN_SCREEN_LAUNCH(on, tighten, &tighten, "tightening lists");
}

static kith_status run_batches(pipeline *p)
{
    const kin_screen_gpu_work *w = p->work;
    const int64_t all = kin_screen_gpu_tiles_of(w->cols.points);
    const int64_t batch = p->costs.blocks * KIN_SCREEN_GPU_BLOCK;
    for (int64_t row0 = 0; row0 < w->rows.points; row0 += batch) {
        const kin_screen_gpu_set rows = kin_screen_gpu_set_part(&w->rows, row0, batch);
        const kin_screen_gpu_lists lists = kin_screen_gpu_lists_part(&w->lists, row0, rows.padded);
        for (int64_t first = 0; first < all; first += p->costs.chunk) {
            KIN_TRY(run_chunk(p, &rows, &lists, first, kin_min_i64(p->costs.chunk, all - first)));
        }
        KIN_TRY(kin_progress(w->on.ctx, "screen", (double)row0, (double)w->rows.points));
    }
    return KITH_OK;
}

/* The costs that are selected, of a block of rows. */
static uint64_t picked_bytes(int64_t k)
{
    return kin_size_mul((uint64_t)(KIN_SCREEN_GPU_BLOCK * k), sizeof(uint32_t));
}

static kith_status run_matrix(kin_screen_gpu_work *w, const kin_select_method *method)
{
    const kin_screen_gpu_device *on = &w->on;
    const int64_t blocks = w->rows.padded / KIN_SCREEN_GPU_BLOCK;
    const uint64_t a_block = picked_bytes(w->lists.k);
    pipeline p = {.work = w,
                  .method = method,
                  .costs = {.on = *on, .cols = w->cols, .col_worst = w->col_worst}};
    kith_status status = KITH_OK;
    KIN_TRY(kin_papers_costs_make(&p.costs, blocks, false, a_block));
    KIN_TRY_GOTO(status,
                 kin_gpu_alloc(on->ctx, on->gpu, &p.picked,
                               kin_size_mul((uint64_t)p.costs.blocks, a_block), 1,
                               "selected costs"),
                 done);
    KIN_TRY_GOTO(status, run_batches(&p), done);
    w->seed_pairs += (double)blocks * (double)kin_screen_gpu_tiles_of(w->cols.points);
done:
    kin_gpu_free(on->gpu, p.picked);
    kin_papers_costs_free(&p.costs);
    return status;
}

static kith_status fill(kin_screen_gpu_work *w, const kin_request *request)
{
    if (w->rows.points == 0 || w->cols.points == 0) {
        return KITH_OK;
    }
    kin_exact_note_pipeline(w->on.ctx, request->pipeline);
    return run_matrix(w, request->select);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Of a selection, of which a batch is halved until it fits. */
static uint64_t scratch_bytes(const kin_gpu *gpu, const kin_select_job *job, uint64_t scope)
{
    kin_select_job one = *job;
    one.rows = 1;
    const uint64_t least = kin_select_device_scratch(gpu, &one);
    const uint64_t all = kin_select_device_scratch(gpu, job);
    const uint64_t most = scope / 8 > least ? scope / 8 : least;
    return all < most ? all : most;
}

static uint64_t bytes_of(const kin_gpu *gpu, const kin_request *request, int64_t rows,
                         int64_t columns, uint64_t scope)
{
    const int64_t k = kin_min_i64(request->k + 1, columns);
    const kin_papers_costs_size costs = kin_papers_costs_size_of(
        columns, kin_screen_gpu_blocks_of(rows), false, picked_bytes(k), scope);
    const kin_select_job job = {.stride_bytes = costs.columns * (int64_t)sizeof(uint32_t),
                                .rows = kin_min_i64(rows, costs.blocks * KIN_SCREEN_GPU_BLOCK),
                                .cols = costs.columns,
                                .k = kin_min_i64(k, costs.columns),
                                .dtype = KIN_SELECT_KEYS,
                                .method = request->select,
                                .sample = USUAL_SAMPLE};
    const uint64_t lists = kin_screen_gpu_seedless_bytes(rows, columns, k, scope);
    return kin_size_add(kin_size_add(lists, costs.bytes), scratch_bytes(gpu, &job, scope));
}

const kin_exact_gpu_pipeline kin_papers_matrix = {.fill = fill, .bytes = bytes_of};
