/* SPDX-License-Identifier: Apache-2.0
 * Before the first round: which tiles are near, and rows that stand for rows. */
#include "metric/metric_arith.h"
#include "metric/metric_canonical.h"
#include "reference/reference_graph.h"
#include "select/select_word.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Near tiles ------------------------------------------------------------------------------ */

static int64_t tiles_of(const kin_screen_gpu_set *set)
{
    return (set->points + KIN_SCREEN_GPU_TILE - 1) / KIN_SCREEN_GPU_TILE;
}

static float square_between(const kin_screen_gpu_set *set, int64_t i, int64_t j)
{
    const int32_t cols = set->frame.cols;
    float square = 0.0F;
    for (int32_t c = 0; c < cols; c++) {
        const float t = set->centres[i * cols + c] - set->centres[j * cols + c];
        square = fmaf(t, t, square);
    }
    return square;
}

/* Column number `place` of a tile's list, which is all tiles or those of near groups. */
static int64_t column_of(const kin_graph_gpu_near *job, int64_t tile, int64_t place)
{
    const kin_screen_gpu_coarse *coarse = &job->coarse;
    if (coarse->groups == NULL) {
        return place;
    }
    const uint32_t *groups = coarse->groups + tile / (2 * coarse->tiles) * coarse->room;
    return (int64_t)groups[place / coarse->tiles] * coarse->tiles + place % coarse->tiles;
}

static int64_t columns_of(const kin_graph_gpu_near *job, int64_t tile)
{
    const kin_screen_gpu_coarse *coarse = &job->coarse;
    return coarse->groups == NULL
               ? tiles_of(&job->set)
               : (int64_t)coarse->counts[tile / (2 * coarse->tiles)] * coarse->tiles;
}

/* Squares are not negative, and rise like their bits. */
static float count_th_square(const kin_graph_gpu_near *job, int64_t tile)
{
    const int64_t columns = columns_of(job, tile);
    const int64_t wanted = job->count > 1 ? job->count : 1;
    uint64_t *squares = reference_room(columns, sizeof *squares);
    float square = INFINITY;
    int64_t there = 0;
    for (int64_t place = 0; place < columns; place++) {
        const int64_t other = column_of(job, tile, place);
        if (other != tile && other < tiles_of(&job->set)) {
            squares[there++] = kin_graph_order_of_float(square_between(&job->set, tile, other));
        }
    }
    kin_select_sort_words(squares, there);
    if (wanted <= there) {
        const uint32_t bits = (uint32_t)squares[wanted - 1] & 0x7fffffffu;
        memcpy(&square, &bits, sizeof square);
    }
    free(squares);
    return square;
}

static float rounded_up(double value)
{
    const float nearest = (float)value;
    return (double)nearest < value ? nextafterf(nearest, INFINITY) : nearest;
}

/* A little more than that: what is as far as the wanted tile shall be met, in whatever order a plan
 * sums. All tiles are near where fewer than are wanted are looked at, or just as many of all. */
void reference_graph_near_tiles(const kin_graph_gpu_near *job)
{
    const int64_t tiles = tiles_of(&job->set);
    const bool all = job->coarse.groups == NULL && job->count >= tiles - 1;
    const int64_t end = job->end > 0 ? job->end : job->set.padded / KIN_SCREEN_GPU_TILE;
    REFERENCE_MUST(job->first % KIN_GRAPH_GPU_NEAR_TILES == 0 || job->first == end);
    for (int64_t tile = job->first; tile < end; tile++) {
        const float square = tile >= tiles ? 0.0F : all ? INFINITY : count_th_square(job, tile);
        const float wide = rounded_up((double)square * (1.0 + 0x1p-10));
        job->worst[tile] =
            (kin_screen_gpu_worst){.far = rounded_up(sqrt((double)wide)),
                                   .integer = wide < 0x1p30F ? (int32_t)ceilf(wide) : INT32_MAX};
    }
}

void reference_graph_group_centres(const kin_graph_gpu_groups *job)
{
    const int64_t tiles = tiles_of(&job->set);
    const int32_t cols = job->set.frame.cols;
    for (int64_t first = 0; first < tiles; first += job->tiles) {
        const int64_t end = first + job->tiles < tiles ? first + job->tiles : tiles;
        for (int32_t c = 0; c < cols; c++) {
            float sum = 0.0F;
            for (int64_t tile = first; tile < end; tile++) {
                sum += job->set.centres[tile * cols + c];
            }
            job->centres[first / job->tiles * cols + c] = sum / (float)(end - first);
        }
    }
}

/* ---- Rows that stand for rows ---------------------------------------------------------------- */

#define LARGEST 0x1p100
#define LEAST_LOG (-100.0)

static double related_value(const kin_graph_gpu_relate *job, int64_t row, int32_t col)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    const char *data = (const char *)rows->data + row * rows->stride_bytes;
    double value = kin_value(rows->dtype, data, col);
    if (rows->transforms != NULL) {
        value = kin_row_apply(&rows->transforms[row], value);
    }
    switch (job->relation) {
    case KIN_GRAPH_GPU_ROOTS:
    case KIN_GRAPH_GPU_SHARES:
        return sqrt(value > 0.0 ? value : 0.0);
    case KIN_GRAPH_GPU_PATTERNS:
        return value != 0.0 ? 1.0 : 0.0;
    case KIN_GRAPH_GPU_LOGS:
        return value > 0.0 ? fmax(log(value), LEAST_LOG) : LEAST_LOG;
    case KIN_GRAPH_GPU_AS_GIVEN:
    case KIN_GRAPH_GPU_DIRECTIONS:
        break;
    }
    return value;
}

static bool has_length(kin_graph_gpu_relation relation)
{
    return relation == KIN_GRAPH_GPU_SHARES || relation == KIN_GRAPH_GPU_PATTERNS ||
           relation == KIN_GRAPH_GPU_DIRECTIONS;
}

static void relate_row(const kin_graph_gpu_relate *job, int64_t row)
{
    const int32_t cols = job->rows.cols;
    double lane[KIN_METRIC_LANES] = {0};
    for (int32_t c = 0; c < cols; c++) {
        const double value = related_value(job, row, c);
        lane[c % KIN_METRIC_LANES] = fma(value, value, lane[c % KIN_METRIC_LANES]);
    }
    const double sum = kin_lanes_sum(lane);
    const double scale = has_length(job->relation) && sum > 0.0 ? 1.0 / sqrt(sum) : 1.0;
    if (job->lengths != NULL) {
        job->lengths[row] = ~kin_graph_order_of_float((float)sum);
    }
    for (int32_t c = 0; job->related != NULL && c < cols; c++) {
        const double value = scale * related_value(job, row, c);
        job->related[row * cols + c] = (float)fmin(fmax(value, -LARGEST), LARGEST);
    }
}

void reference_graph_relate(const kin_graph_gpu_relate *job)
{
    for (int64_t row = 0; row < job->rows.rows; row++) {
        relate_row(job, row);
    }
}

void reference_graph_pick(const kin_graph_gpu_pick *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        memcpy((char *)job->to + i * job->bytes,
               (const char *)job->from + (int64_t)job->rows[i] * job->stride_bytes,
               (size_t)job->bytes);
    }
}
