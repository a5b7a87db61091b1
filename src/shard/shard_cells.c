/* SPDX-License-Identifier: Apache-2.0
 * Cells of near points. Centers are rows that were drawn; of some times as many rows each finds its
 * nearest center, and centers move to the mean of those: once, after which hardly a cluster that
 * has a center shares it with another one. More rounds move centers within clusters alone. What
 * cells are like is then told by other rows: centers are nearer to those that they were made of. */
#include "base/base_layout.h"
#include "base/base_random.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_number.h"
#include "host/host_threads.h"
#include "recall/recall.h"
#include "shard/shard_group.h"

/* A cluster that has no center is torn: there should be some of them in each. On a processor
 * finding the nearest of so many would take longer than the graphs. */
enum { ROWS_A_CELL = 64, MOST_CELLS = 65536, MOST_CELLS_OF_CPU = 8192, TRAINED_A_CELL = 4 };
enum { BYTES_OF_TRAINING = 256, SHARE_OF_MEMORY = 4 };
enum { CELLS_A_TASK = 64, ROWS_A_TASK = 1024 };

void kin_shard_near_free(kith_ctx *ctx, kin_shard_near *near)
{
    kin_free(ctx, near->keys);
    kin_free(ctx, near->cells);
    memset(near, 0, sizeof *near);
}

kith_status kin_shard_near_make(kith_ctx *ctx, int64_t rows, int64_t count, kin_shard_near *near)
{
    const uint64_t entries = kin_size_mul((uint64_t)rows, (uint64_t)count);
    near->rows = rows;
    KIN_TRY(kin_alloc(ctx, &near->cells, entries, sizeof *near->cells, "nearest cells"));
    return kin_alloc(ctx, &near->keys, entries, sizeof *near->keys, "nearest cells");
}

void kin_shard_cells_free(kin_shard_cells *cells)
{
    kith_ctx *ctx = cells->job->ctx;
    kin_shard_near_free(ctx, &cells->seen);
    kin_free(ctx, cells->block);
}

kith_status kin_shard_find_cells(const kin_shard_cells *cells, const kith_matrix *rows,
                                 int64_t count, const kin_shard_near *near)
{
    kith_search_params params = kith_search_params_default();
    params.metric = cells->job->descent.metric;
    params.k = count;
    const kith_neighbors out = {
        .ids = near->cells, .distances64 = near->keys, .rows = rows->rows, .k = count};
    return kith_search(cells->job->ctx, &cells->centers, rows, &params, &out, NULL);
}

/* ---- Training ------------------------------------------------------------------------------- */

typedef struct training {
    kin_shard_cells *cells;
    unsigned char *copy;
    kith_matrix rows;
    int64_t *starts; /* by cell: where its rows begin in `order` */
    uint32_t *order; /* rows by their nearest cell */
    double *sums;    /* two rows of values for each thread */
} training;

static void name_training(kin_layout *layout, void *arg)
{
    training *t = arg;
    const kin_shard_job *job = t->cells->job;
    const uint64_t trained = (uint64_t)t->cells->seen.rows;
    const uint64_t values = 2 * (uint64_t)job->ctx->threads * (uint64_t)job->points.cols;
    t->order = kin_layout_array(layout, trained, sizeof *t->order);
    t->copy = kin_layout_array(layout, trained, (uint64_t)kin_shard_row_bytes(job));
    t->starts = kin_layout_array(layout, (uint64_t)t->cells->centers.rows + 1, sizeof *t->starts);
    t->sums = kin_layout_array(layout, values, sizeof *t->sums);
}

static void name_cells(kin_layout *layout, void *arg)
{
    kin_shard_cells *cells = arg;
    const uint64_t count = (uint64_t)cells->centers.rows;
    cells->values =
        kin_layout_array(layout, kin_size_mul(count, (uint64_t)cells->centers.cols), sizeof(float));
    cells->weights = kin_layout_zeros(layout, count, sizeof *cells->weights);
}

static void load_row(const kith_matrix *rows, int64_t row, double *values)
{
    const kin_item item = kin_item_of(rows->dtype);
    const unsigned char *data = (const unsigned char *)rows->data + row * rows->stride_bytes;
    for (int32_t i = 0; i < rows->cols; i++) {
        (void)kin_item_load(item, data + (int64_t)i * item.bytes, &values[i]);
    }
}

static kith_status move_centers(void *arg, int64_t task, int32_t thread)
{
    const training *t = arg;
    const int64_t cols = t->rows.cols;
    double *sum = t->sums + 2 * thread * cols;
    double *values = sum + cols;
    const int64_t last = kin_min_i64((task + 1) * CELLS_A_TASK, t->cells->centers.rows);
    for (int64_t cell = task * CELLS_A_TASK; cell < last; cell++) {
        const int64_t count = t->starts[cell + 1] - t->starts[cell];
        memset(sum, 0, (size_t)cols * sizeof *sum);
        for (int64_t i = 0; i < count; i++) {
            load_row(&t->rows, t->order[t->starts[cell] + i], values);
            for (int64_t j = 0; j < cols; j++) {
                sum[j] += values[j];
            }
        }
        for (int64_t j = 0; j < cols && count > 0; j++) {
            t->cells->values[cell * cols + j] = (float)(sum[j] / (double)count);
        }
    }
    return KITH_OK;
}

/* Rows in the order of their nearest cells; weights. */
static void sort_rows(const training *t, int64_t each)
{
    int64_t *weights = t->cells->weights;
    const int64_t count = t->cells->centers.rows;
    const uint32_t *nearest = t->cells->seen.cells;
    memset(weights, 0, (size_t)count * sizeof *weights);
    for (int64_t i = 0; i < t->rows.rows; i++) {
        weights[nearest[i * each]] += 1;
    }
    t->starts[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        t->starts[i + 1] = t->starts[i] + weights[i];
    }
    for (int64_t i = t->rows.rows - 1; i >= 0; i--) {
        const uint32_t cell = nearest[i * each];
        t->order[t->starts[cell] + --weights[cell]] = (uint32_t)i;
    }
    for (int64_t i = 0; i < count; i++) {
        weights[i] = t->starts[i + 1] - t->starts[i];
    }
}

static kith_status copy_rows(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const training *t = arg;
    const int64_t first = task * ROWS_A_TASK;
    const int64_t count = kin_min_i64(ROWS_A_TASK, t->cells->seen.rows - first);
    kin_shard_copy(t->cells->job, t->order + first, count, t->copy + first * t->rows.stride_bytes);
    return KITH_OK;
}

/* As many rows as there is room for: the points are cut into as many runs, and one row is drawn of
 * each. */
static kith_status draw_rows(training *t, uint64_t seed)
{
    const kith_matrix *points = &t->cells->job->points;
    const int64_t count = t->cells->seen.rows;
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = points->rows / count * i + points->rows % count * i / count;
        const int64_t next =
            points->rows / count * (i + 1) + points->rows % count * (i + 1) / count;
        t->order[i] =
            (uint32_t)(first + (int64_t)kin_random_below(&seed, (uint64_t)(next - first)));
    }
    t->rows = (kith_matrix){.data = t->copy,
                            .rows = count,
                            .stride_bytes = kin_shard_row_bytes(t->cells->job),
                            .cols = points->cols,
                            .dtype = points->dtype};
    return kin_parallel(t->cells->job->ctx, NULL, kin_ceil_div(count, ROWS_A_TASK), copy_rows, t);
}

static kith_status train(training *t)
{
    kin_shard_cells *cells = t->cells;
    const uint64_t seed = cells->job->descent.seed;
    KIN_TRY(kin_shard_find_cells(cells, &t->rows, 1, &cells->seen));
    sort_rows(t, 1);
    KIN_TRY(kin_parallel(cells->job->ctx, NULL, kin_ceil_div(cells->centers.rows, CELLS_A_TASK),
                         move_centers, t));
    KIN_TRY(draw_rows(t, seed + 4));
    KIN_TRY(kin_shard_find_cells(cells, &t->rows, cells->near, &cells->seen));
    sort_rows(t, cells->near);
    return KITH_OK;
}

/* As many as points and the processor ask for, in a part of the memory: of each row of the training
 * its values, its nearest cells, and what divides these (shard_divide.c). */
static int64_t cell_count(const kin_shard_job *job)
{
    const uint64_t a_cell =
        TRAINED_A_CELL * ((uint64_t)kin_shard_row_bytes(job) + BYTES_OF_TRAINING);
    const uint64_t limit = job->ctx->params.memory_limit;
    int64_t most = job->on_gpu ? MOST_CELLS : MOST_CELLS_OF_CPU;
    if (limit > 0 && limit / SHARE_OF_MEMORY / a_cell < (uint64_t)most) {
        most = (int64_t)(limit / SHARE_OF_MEMORY / a_cell);
    }
    return kin_max_i64(kin_min_i64(job->points.rows / ROWS_A_CELL, most), 1);
}

/* The rows of the training, and of these the first centers. */
static kith_status draw(training *t)
{
    kin_shard_cells *cells = t->cells;
    const kin_shard_job *job = cells->job;
    const int32_t cols = job->points.cols;
    const int64_t count = cells->centers.rows;
    KIN_TRY(draw_rows(t, job->descent.seed + 2));
    kin_recall_draw(cells->seen.rows, count, job->descent.seed + 3, t->order);
    for (int64_t i = 0; i < count; i++) {
        load_row(&t->rows, t->order[i], t->sums);
        for (int32_t j = 0; j < cols; j++) {
            cells->values[i * cols + j] = (float)t->sums[j];
        }
    }
    return KITH_OK;
}

kith_status kin_shard_cells_make(kin_shard_job *job, kin_shard_cells *cells)
{
    const int64_t count = cell_count(job);
    const int64_t trained = kin_min_i64(TRAINED_A_CELL * count, job->points.rows);
    training t = {.cells = cells};
    void *block = NULL;
    *cells =
        (kin_shard_cells){.job = job,
                          .near = kin_min_i64(KIN_SHARD_NEAREST, count),
                          .centers = {.rows = count,
                                      .stride_bytes = job->points.cols * (int64_t)sizeof(float),
                                      .cols = job->points.cols,
                                      .dtype = KITH_F32}};
    KIN_TRY(kin_layout_make(job->ctx, name_cells, cells, "cells", &cells->block));
    cells->centers.data = cells->values;
    KIN_TRY(kin_shard_near_make(job->ctx, trained, cells->near, &cells->seen));
    KIN_TRY(kin_layout_make(job->ctx, name_training, &t, "rows that train cells", &block));
    kith_status status = draw(&t);
    if (status == KITH_OK) {
        status = train(&t);
    }
    kin_free(job->ctx, block);
    return status;
}
