/* SPDX-License-Identifier: Apache-2.0
 * Cells of near points. Of some rows that are drawn the nearest ones are joined, pair by pair, the
 * nearest pair first, until as many sets are left as cells are wanted; a center is the mean of a
 * set. So a cluster that has any row among them has a center of its own, and a large one several,
 * where centers drawn by chance leave out one of three clusters when there are as many clusters as
 * centers: the points of a cluster without one are torn among cells that are all about as far.
 * What cells are like is then told by other rows: centers are nearer to those that they were made
 * of.
 *
 * Cells are divided among groups (below). */
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
 * its values, its nearest cells, and what divides these. */
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

/* ---- Cells divided among groups -------------------------------------------------------------- */

/* Cells divided among groups. First by halving them again and again across the direction in which
 * they are spread most, by weight; that goes through the middle of clusters. Then cells go, one
 * after another and some times over, to the group of most of their neighbours, as long as there is
 * room: the few cells of a torn cluster follow the others, and borders become short.
 *
 * Neighbours are cells that are near to the same rows: the nearest one of a row that was seen and
 * each of its next ones, the less the farther these are. */

enum { TURNS = 20, DIRECTION_CELLS = 2048, DIRECTION_TURNS = 16, FEW_MOVED = 1000 };
/* Rows that a group may have beyond its share. */
static const double SLACK = 1.03;

typedef struct edge {
    uint32_t cell;
    float weight;
} edge;

typedef struct dividing {
    const kin_shard_cells *cells;
    uint16_t *group;
    kin_pair *sorted;  /* cells in the order of a direction */
    double *direction; /* three rows of values: the direction, its next turn, a mean */
    int64_t *starts;   /* by cell: its edges */
    edge *edges;
    double *sizes; /* by group: weight */
    double *pulls; /* by group */
    int64_t *next; /* by cell: where its next edge goes */
    int32_t groups;
} dividing;

static void name_arrays(kin_layout *layout, void *arg)
{
    dividing *d = arg;
    const uint64_t cells = (uint64_t)d->cells->centers.rows;
    const uint64_t edges = 2 * (uint64_t)(d->cells->seen.rows * (d->cells->near - 1));
    d->sorted = kin_layout_array(layout, cells, sizeof *d->sorted);
    d->direction =
        kin_layout_array(layout, 3 * (uint64_t)d->cells->centers.cols, sizeof *d->direction);
    d->starts = kin_layout_array(layout, cells + 1, sizeof *d->starts);
    d->next = kin_layout_zeros(layout, cells, sizeof *d->next);
    d->edges = kin_layout_array(layout, edges, sizeof *d->edges);
    d->sizes = kin_layout_zeros(layout, (uint64_t)d->groups, sizeof *d->sizes);
    d->pulls = kin_layout_array(layout, (uint64_t)d->groups, sizeof *d->pulls);
}

/* ---- Halves --------------------------------------------------------------------------------- */

static const float *values_of(const dividing *d, uint32_t cell)
{
    return d->cells->values + (int64_t)cell * d->cells->centers.cols;
}

static double weight_of(const dividing *d, uint32_t cell)
{
    return (double)d->cells->weights[cell] + 1.0;
}

static double project(const dividing *d, uint32_t cell, const double *direction)
{
    const float *values = values_of(d, cell);
    double sum = 0.0;
    for (int64_t j = 0; j < d->cells->centers.cols; j++) {
        sum += (double)values[j] * direction[j];
    }
    return sum;
}

static void find_mean(const dividing *d, int64_t first, int64_t last, int64_t step, double *mean)
{
    const int64_t cols = d->cells->centers.cols;
    double all = 0.0;
    memset(mean, 0, (size_t)cols * sizeof *mean);
    for (int64_t i = first; i < last; i += step) {
        const float *values = values_of(d, d->sorted[i].id);
        const double weight = weight_of(d, d->sorted[i].id);
        all += weight;
        for (int64_t j = 0; j < cols; j++) {
            mean[j] += weight * (double)values[j];
        }
    }
    for (int64_t j = 0; j < cols; j++) {
        mean[j] /= all;
    }
}

/* One turn of the power method; false: there is no spread. */
static bool turn_direction(const dividing *d, int64_t first, int64_t last, int64_t step)
{
    const int64_t cols = d->cells->centers.cols;
    double *now = d->direction;
    double *next = now + cols;
    const double *mean = next + cols;
    double middle = 0.0;
    double squares = 0.0;
    for (int64_t j = 0; j < cols; j++) {
        middle += mean[j] * now[j];
    }
    memset(next, 0, (size_t)cols * sizeof *next);
    for (int64_t i = first; i < last; i += step) {
        const uint32_t cell = d->sorted[i].id;
        const float *values = values_of(d, cell);
        const double share = weight_of(d, cell) * (project(d, cell, now) - middle);
        for (int64_t j = 0; j < cols; j++) {
            next[j] += share * ((double)values[j] - mean[j]);
        }
    }
    for (int64_t j = 0; j < cols; j++) {
        squares += next[j] * next[j];
    }
    if (!(squares > 0.0) || !isfinite(squares)) {
        return false;
    }
    for (int64_t j = 0; j < cols; j++) {
        now[j] = next[j] / sqrt(squares);
    }
    return true;
}

/* The direction of the greatest spread, as some of the cells have it. */
static void find_direction(const dividing *d, int64_t first, int64_t last)
{
    const int64_t cols = d->cells->centers.cols;
    const int64_t step = kin_max_i64((last - first) / DIRECTION_CELLS, 1);
    find_mean(d, first, last, step, d->direction + 2 * cols);
    for (int64_t j = 0; j < cols; j++) {
        d->direction[j] = 1.0 + (double)(j % 7) / 8.0;
    }
    bool spreads = true;
    for (int turn = 0; turn < DIRECTION_TURNS && spreads; turn++) {
        spreads = turn_direction(d, first, last, step);
    }
}

/* Where the first `before` of `groups` groups have their share of the weight. */
static int64_t cut_at(const dividing *d, int64_t first, int64_t last, int32_t groups,
                      int32_t before)
{
    double all = 0.0;
    double sum = 0.0;
    for (int64_t i = first; i < last; i++) {
        all += weight_of(d, d->sorted[i].id);
    }
    int64_t at = first;
    for (; at < last - 1 && sum * groups < all * before; at++) {
        sum += weight_of(d, d->sorted[at].id);
    }
    return at > first ? at : first + 1;
}

/* Depth: log2 of the groups. */
static void halve(dividing *d, int64_t first, int64_t last, int32_t group, int32_t groups)
{
    if (groups == 1 || last - first < 2) {
        for (int64_t i = first; i < last; i++) {
            d->group[d->sorted[i].id] = (uint16_t)group;
        }
        return;
    }
    find_direction(d, first, last);
    for (int64_t i = first; i < last; i++) {
        d->sorted[i].key = project(d, d->sorted[i].id, d->direction);
    }
    kin_select_sort_pairs(d->sorted + first, last - first);
    const int32_t before = groups / 2;
    const int64_t at = cut_at(d, first, last, groups, before);
    halve(d, first, at, group, before);
    halve(d, at, last, group + before, groups - before);
}

/* ---- Neighbours ----------------------------------------------------------------------------- */

/* How much a row pulls its nearest cell and another one together. */
static float pull_of(double nearest, double key)
{
    const double ratio = key > 0.0 ? fmax(nearest, 0.0) / key : 1.0;
    return (float)(ratio * ratio * ratio * ratio);
}

/* Puts the edges of all rows in their places; fills: only counts them otherwise. */
static void put_edges(const dividing *d, bool fills)
{
    int64_t *next = d->next;
    const int64_t near = d->cells->near;
    const kin_shard_near *t = &d->cells->seen;
    for (int64_t i = 0; i < t->rows; i++) {
        const uint32_t *cells = t->cells + i * near;
        const double *keys = t->keys + i * near;
        for (int64_t j = 1; j < near; j++) {
            const float pull = pull_of(keys[0], keys[j]);
            if (fills) {
                d->edges[next[cells[0]]] = (edge){cells[j], pull};
                d->edges[next[cells[j]]] = (edge){cells[0], pull};
            }
            next[cells[0]] += 1;
            next[cells[j]] += 1;
        }
    }
}

static void make_edges(const dividing *d)
{
    put_edges(d, false);
    d->starts[0] = 0;
    for (int64_t i = 0; i < d->cells->centers.rows; i++) {
        d->starts[i + 1] = d->starts[i] + d->next[i];
        d->next[i] = d->starts[i];
    }
    put_edges(d, true);
}

/* ---- Turns ---------------------------------------------------------------------------------- */

/* The group that pulls the cell most and has room; its own where none pulls more. */
static uint16_t best_group(const dividing *d, uint32_t cell, double most)
{
    const uint16_t own = d->group[cell];
    uint16_t best = own;
    memset(d->pulls, 0, (size_t)d->groups * sizeof *d->pulls);
    for (int64_t i = d->starts[cell]; i < d->starts[cell + 1]; i++) {
        d->pulls[d->group[d->edges[i].cell]] += (double)d->edges[i].weight;
    }
    for (int32_t i = 0; i < d->groups; i++) {
        if (d->pulls[i] > d->pulls[best] && d->sizes[i] + weight_of(d, cell) <= most) {
            best = (uint16_t)i;
        }
    }
    return best;
}

static int64_t turn(const dividing *d, double most)
{
    int64_t moved = 0;
    for (int64_t i = 0; i < d->cells->centers.rows; i++) {
        const uint32_t cell = (uint32_t)i;
        const uint16_t best = best_group(d, cell, most);
        if (best != d->group[cell]) {
            d->sizes[d->group[cell]] -= weight_of(d, cell);
            d->sizes[best] += weight_of(d, cell);
            d->group[cell] = best;
            moved += 1;
        }
    }
    return moved;
}

static void straighten(const dividing *d)
{
    double all = 0.0;
    for (int64_t i = 0; i < d->cells->centers.rows; i++) {
        d->sizes[d->group[i]] += weight_of(d, (uint32_t)i);
        all += weight_of(d, (uint32_t)i);
    }
    int64_t moved = d->cells->centers.rows;
    for (int i = 0; i < TURNS && moved > d->cells->centers.rows / FEW_MOVED; i++) {
        moved = turn(d, SLACK * all / d->groups);
    }
}

kith_status kin_shard_divide(const kin_shard_cells *cells, int32_t groups, uint16_t *group)
{
    const int64_t count = cells->centers.rows;
    dividing d = {.cells = cells, .group = group, .groups = groups};
    KIN_HOLD(hold, cells->job->ctx);
    KIN_TRY(kin_hold_layout(&hold, name_arrays, &d, "cells and their neighbours"));
    make_edges(&d);
    for (int64_t i = 0; i < count; i++) {
        d.sorted[i].id = (uint32_t)i;
    }
    halve(&d, 0, count, 0, groups);
    straighten(&d);
    return KITH_OK;
}
