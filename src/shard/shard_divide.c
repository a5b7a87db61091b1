/* SPDX-License-Identifier: Apache-2.0
 * Cells divided among groups. First by halving them again and again across the direction in which
 * they are spread most, by weight; that goes through the middle of clusters. Then cells go, one
 * after another and some times over, to the group of most of their neighbours, as long as there is
 * room: the few cells of a torn cluster follow the others, and borders become short.
 *
 * Neighbours are cells that are near to the same rows: the nearest one of a row that was seen and
 * each of its next ones, the less the farther these are. */
#include "shard/shard_job.h"

#include <math.h>

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
