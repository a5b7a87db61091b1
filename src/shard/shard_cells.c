/* SPDX-License-Identifier: Apache-2.0
 * Cells of near points. Of some rows that are drawn the nearest ones are joined, pair by pair, the
 * nearest pair first, until as many sets are left as cells are wanted; a center is the mean of a
 * set. So a cluster that has any row among them has a center of its own, and a large one several,
 * where centers drawn by chance leave out one of three clusters when there are as many clusters as
 * centers: the points of a cluster without one are torn among cells that are all about as far.
 * What cells are like is then told by other rows: centers are nearer to those that they were made
 * of. */
#include "base/base_random.h"
#include "shard/shard_job.h"

#include <math.h>

/* There should be some cells in each cluster, as long as finding the nearest of so many takes no
 * longer than the graphs. Of many points, one for so many of them. */
enum { ROWS_A_CELL = 64, ROWS_OF_MANY = 1024 };
/* Of clusters that a cell each is meant for, one of 150 has none of the rows that train. */
enum { TRAINED_A_CELL = 5, SEEN_A_CELL = 3 };
enum { SOME_CELLS = 1 << 16, MOST_CELLS = 1 << 20, MOST_CELLS_OF_CPU = 8192 };
enum { BYTES_OF_TRAINING = 256, SHARE_OF_MEMORY = 4 };
enum { CELLS_A_TASK = 64, ROWS_A_TASK = 1024 };
/* Nearest rows of a row that it may be joined with; rows of a set, as long as that leaves few
 * enough sets. */
enum { LINKS = TRAINED_A_CELL, MOST_JOINED = 4 * TRAINED_A_CELL };

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
    int64_t most; /* rows that are drawn at a time */
    unsigned char *copy;
    kith_matrix rows; /* that were drawn */
    uint32_t *sets;   /* of joined rows: the cell that each becomes a part of */
    int64_t *starts;  /* by cell: where its rows begin in `order` */
    uint32_t *order;  /* rows by their cell */
    double *sums;     /* two rows of values for each thread */
} training;

static kith_status make_training(kin_hold *hold, training *t)
{
    const kin_shard_job *job = t->cells->job;
    const uint64_t trained = (uint64_t)t->most;
    const char *what = "rows that train cells";
    KIN_NEW(hold, t->order, trained, what);
    KIN_NEW(hold, t->sets, trained, what);
    KIN_TRY(kin_hold_alloc(hold, &t->copy, trained, (uint64_t)kin_shard_row_bytes(job), what));
    KIN_NEW(hold, t->starts, (uint64_t)t->cells->centers.rows + 1, what);
    KIN_NEW(hold, t->sums, 2 * (uint64_t)job->ctx->threads * (uint64_t)job->points.cols, what);
    return KITH_OK;
}

/* Bytes are screened twice as fast as what lies between them; under other metrics a center that is
 * rounded to zeros may not be allowed. */
static bool has_bytes(const kin_shard_job *job)
{
    return job->descent.metric == KITH_SQEUCLIDEAN &&
           (job->points.dtype == KITH_U8 || job->points.dtype == KITH_I8);
}

static void name_cells(kin_layout *layout, void *arg)
{
    kin_shard_cells *cells = arg;
    const uint64_t count = (uint64_t)cells->centers.rows;
    cells->values =
        kin_layout_array(layout, kin_size_mul(count, (uint64_t)cells->centers.cols), sizeof(float));
    if (has_bytes(cells->job)) {
        cells->bytes =
            kin_layout_array(layout, kin_size_mul(count, (uint64_t)cells->centers.cols), 1);
    }
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

static void round_center(const kin_shard_cells *cells, int64_t cell)
{
    const int64_t cols = cells->centers.cols;
    for (int64_t j = cell * cols; j < (cell + 1) * cols; j++) {
        cells->bytes[j] = (unsigned char)lroundf(cells->values[j]); /* two's complement */
    }
}

static kith_status move_center(void *arg, int64_t cell, int32_t thread)
{
    const training *t = arg;
    const int64_t cols = t->rows.cols;
    double *sum = t->sums + 2 * thread * cols;
    double *values = sum + cols;
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
    if (t->cells->bytes != NULL) {
        round_center(t->cells, cell);
    }
    return KITH_OK;
}

/* Rows in the order of their cells, of which each row's `each` words begin with one; weights. */
static void sort_rows(const training *t, const uint32_t *nearest, int64_t each)
{
    int64_t *weights = t->cells->weights;
    const int64_t count = t->cells->centers.rows;
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
    const int64_t count = kin_min_i64(ROWS_A_TASK, t->rows.rows - first);
    kin_shard_copy(t->cells->job, t->order + first, count, t->copy + first * t->rows.stride_bytes);
    return KITH_OK;
}

/* The points are cut into as many runs, and one row is drawn of each. */
static kith_status draw_rows(training *t, int64_t count, uint64_t seed)
{
    const kith_matrix *points = &t->cells->job->points;
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

/* ---- Sets of near rows ----------------------------------------------------------------------- */

typedef struct joining {
    int64_t rows;
    int64_t links; /* of a row */
    int64_t sets;  /* that are left */
    uint32_t *ids;
    double *keys;
    kin_pair *pairs;  /* id: of the entry of a row's list */
    uint32_t *parent; /* by row: another one of its set, or itself */
    uint32_t *weight; /* by row that is its own parent: rows of its set */
} joining;

static uint32_t set_of(const joining *j, uint32_t row)
{
    while (j->parent[row] != row) {
        j->parent[row] = j->parent[j->parent[row]];
        row = j->parent[row];
    }
    return row;
}

/* Pairs in their order, until `wanted` sets are left. */
static void join_pairs(joining *j, int64_t wanted, int64_t most)
{
    for (int64_t i = 0; i < j->rows * j->links && j->sets > wanted; i++) {
        const kin_pair *pair = &j->pairs[i];
        const uint32_t a = set_of(j, (uint32_t)(pair->id / j->links));
        const uint32_t b = set_of(j, j->ids[pair->id]);
        if (a != b && j->weight[a] + (int64_t)j->weight[b] <= most) {
            j->parent[b] = a;
            j->weight[a] += j->weight[b];
            j->sets -= 1;
        }
    }
}

/* Each row's set as a number below `wanted`. A row has LINKS others in its set at least when no
 * pair is left, so that there are fewer sets than that. */
static void join_rows(joining *j, int64_t wanted, uint32_t *sets)
{
    for (int64_t i = 0; i < j->rows; i++) {
        j->parent[i] = (uint32_t)i;
        j->weight[i] = 1;
        for (int64_t k = i * j->links; k < (i + 1) * j->links; k++) {
            j->pairs[k] = (kin_pair){j->keys[k], (uint32_t)k, 1};
        }
    }
    j->sets = j->rows;
    kin_select_sort_pairs(j->pairs, j->rows * j->links);
    join_pairs(j, wanted, MOST_JOINED);
    join_pairs(j, wanted, INT64_MAX);
    kin_assert(j->sets <= wanted);
    int64_t number = 0;
    for (int64_t i = 0; i < j->rows; i++) {
        if (j->parent[i] == i) {
            sets[i] = (uint32_t)number++;
        }
    }
    for (int64_t i = 0; i < j->rows; i++) {
        sets[i] = sets[set_of(j, (uint32_t)i)];
    }
}

static kith_status join(const training *t)
{
    const kin_shard_job *job = t->cells->job;
    joining j = {.rows = t->rows.rows, .links = kin_min_i64(LINKS, t->rows.rows - 1)};
    const uint64_t entries = kin_size_mul((uint64_t)j.rows, (uint64_t)j.links);
    const char *what = "rows that train cells";
    kith_search_params params = kith_search_params_default();
    KIN_HOLD(hold, job->ctx);
    KIN_NEW(&hold, j.ids, entries, what);
    KIN_NEW(&hold, j.keys, entries, what);
    KIN_NEW(&hold, j.pairs, entries, what);
    KIN_NEW(&hold, j.parent, (uint64_t)j.rows, what);
    KIN_NEW(&hold, j.weight, (uint64_t)j.rows, what);
    params.metric = job->descent.metric;
    params.k = j.links;
    const kith_neighbors out = {.ids = j.ids, .distances64 = j.keys, .rows = j.rows, .k = j.links};
    KIN_TRY(j.links > 0 ? kith_graph(job->ctx, &t->rows, &params, &out, NULL) : KITH_OK);
    join_rows(&j, t->cells->centers.rows, t->sets);
    return KITH_OK;
}

static kith_status train(training *t)
{
    kin_shard_cells *cells = t->cells;
    const uint64_t seed = cells->job->descent.seed;
    KIN_TRY(draw_rows(t, t->most, seed + 2));
    KIN_TRY(join(t));
    sort_rows(t, t->sets, 1);
    KIN_TRY(kin_parallel_rows(cells->job->ctx, NULL, cells->centers.rows, CELLS_A_TASK, move_center,
                              t));
    KIN_TRY(draw_rows(t, cells->seen.rows, seed + 4));
    KIN_TRY(kin_shard_find_cells(cells, &t->rows, cells->near, &cells->seen));
    sort_rows(t, cells->seen.cells, cells->near);
    return KITH_OK;
}

/* As many as points and the processor ask for, in a part of the memory: of each row of the training
 * its values, its nearest cells, and what divides these (shard_divide.c). */
static int64_t cell_count(const kin_shard_job *job)
{
    const uint64_t a_cell =
        TRAINED_A_CELL * ((uint64_t)kin_shard_row_bytes(job) + BYTES_OF_TRAINING);
    const uint64_t limit = job->ctx->params.memory_limit;
    const int64_t many = kin_max_i64(job->points.rows / ROWS_OF_MANY, SOME_CELLS);
    int64_t most = job->on_gpu ? kin_min_i64(many, MOST_CELLS) : MOST_CELLS_OF_CPU;
    if (limit > 0 && limit / SHARE_OF_MEMORY / a_cell < (uint64_t)most) {
        most = (int64_t)(limit / SHARE_OF_MEMORY / a_cell);
    }
    return kin_max_i64(kin_min_i64(job->points.rows / ROWS_A_CELL, most), 1);
}

kith_status kin_shard_cells_make(kin_shard_job *job, kin_shard_cells *cells)
{
    const int64_t count = cell_count(job);
    const int64_t seen = kin_min_i64(SEEN_A_CELL * count, job->points.rows);
    training t = {.cells = cells, .most = kin_min_i64(TRAINED_A_CELL * count, job->points.rows)};
    KIN_HOLD(hold, job->ctx);
    *cells = (kin_shard_cells){.job = job,
                               .near = kin_min_i64(KIN_SHARD_NEAREST, count),
                               .centers = {.rows = count, .cols = job->points.cols}};
    KIN_TRY(kin_layout_make(job->ctx, name_cells, cells, "cells", &cells->block));
    cells->centers.dtype = cells->bytes != NULL ? job->points.dtype : KITH_F32;
    cells->centers.data = cells->bytes != NULL ? (const void *)cells->bytes : cells->values;
    cells->centers.stride_bytes =
        (int64_t)cells->centers.cols * kith_dtype_bytes(cells->centers.dtype);
    KIN_TRY(kin_shard_near_make(job->ctx, seen, cells->near, &cells->seen));
    KIN_TRY(make_training(&hold, &t));
    return train(&t);
}
