/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_set.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <float.h>

enum { LANES = 16, SMALL = 1024 };

static const int64_t steps[2] = {KIN_FINE_STEP, KIN_COARSE_STEP};

typedef struct covering {
    const kin_set *set;
    kin_cover *cover;
    int64_t wide;   /* doubles of an expanded row */
    double *values; /* by thread: a tile's rows, in the frame, and one row more */
    const kin_round_ops *ops;
    int32_t threads;
} covering;

/* Row p in the frame: a = (x - mean) / scale, not rounded to the cheap type. */
static void load_row(const covering *c, int64_t p, double *a)
{
    const kin_frame *frame = c->set->frame;
    if (p + KIN_SET_AT_ONCE < c->set->points) {
        kin_rows_fetch(c->set->rows, c->set->ids[p + KIN_SET_AT_ONCE]);
    }
    (void)kin_metric_load(&frame->distance, c->set->rows, c->set->ids[p], a);
    const double inverse = 1.0 / frame->scale;
    for (int64_t i = 0; frame->mean != NULL && i < c->wide; i++) {
        a[i] = (a[i] - frame->mean[i]) * inverse;
    }
}

static float up(double x)
{
    return nextafterf((float)x, INFINITY);
}

/* The ball of the rows in `values`, around their mean as floats. It also
 * holds what the shift's roundings moved a row by (at most 2^-50 of it), and the absolute error of
 * fp32 squares that underflow between centres (kin_cover_apart). sums: a row of doubles. */
static void cover_rows(const covering *c, const double *values, int64_t rows, double *sums,
                       float *centre, float *radius)
{
    memset(sums, 0, (size_t)c->wide * sizeof *sums);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < c->wide; i++) {
            sums[i] += values[row * c->wide + i];
        }
    }
    double norm_sq = 0.0;
    for (int64_t i = 0; i < c->wide; i++) {
        centre[i] = (float)(sums[i] / (double)rows);
        sums[i] = (double)centre[i];
        norm_sq += sums[i] * sums[i];
    }
    double most = 0.0;
    for (int64_t row = 0; row < rows; row++) {
        const double far = c->ops->distance_sq64(values + row * c->wide, sums, c->wide);
        most = far > most || far != far ? far : most;
    }
    const double moved = (sqrt(norm_sq) + sqrt(most)) * 0x1p-50;
    *radius = up(sqrt(most) * KIN_BOUND_WIDEN + moved + 0x1p-60);
}

static kith_status cover_tile(void *arg, int64_t task, int32_t thread)
{
    const covering *c = arg;
    kin_cover *cover = c->cover;
    double *values = c->values + (int64_t)thread * (KIN_COARSE_STEP + 1) * c->wide;
    const int64_t first = task * KIN_COARSE_STEP;
    const int64_t rows = kin_min_i64(KIN_COARSE_STEP, c->set->points - first);
    for (int64_t row = 0; row < rows; row++) {
        load_row(c, first + row, values + row * c->wide);
    }
    double *sums = values + KIN_COARSE_STEP * c->wide;
    cover_rows(c, values, rows, sums, cover->centres[KIN_COVER_COARSE] + task * cover->wide,
               &cover->radii[KIN_COVER_COARSE][task]);
    for (int64_t row = 0; row < rows; row += KIN_FINE_STEP) {
        const int64_t tile = (first + row) / KIN_FINE_STEP;
        cover_rows(c, values + row * c->wide, kin_min_i64(KIN_FINE_STEP, rows - row), sums,
                   cover->centres[KIN_COVER_FINE] + tile * cover->wide,
                   &cover->radii[KIN_COVER_FINE][tile]);
    }
    return KITH_OK;
}

int64_t kin_cover_wide(int32_t cols)
{
    return kin_round_up(cols, LANES);
}

static bool worth_it(const kin_set *set)
{
    const kin_metric_traits *traits = kin_metric_get_traits(set->frame->distance.metric);
    return traits->screen == KIN_SCREEN_DISTANCE && set->points > SMALL;
}

static void name_arrays(kin_layout *layout, void *job)
{
    const covering *c = job;
    kin_cover *cover = c->cover;
    for (int level = 0; level < 2; level++) {
        const uint64_t tiles = (uint64_t)kin_ceil_div(c->set->points, steps[level]);
        const uint64_t floats = kin_size_mul(tiles, (uint64_t)cover->wide);
        cover->centres[level] = kin_layout_zeros(layout, floats, sizeof(float));
        cover->radii[level] = kin_layout_array(layout, tiles, sizeof(float));
    }
}

static void name_tiles(kin_layout *layout, void *job)
{
    covering *c = job;
    const uint64_t rows = (uint64_t)c->threads * (KIN_COARSE_STEP + 1);
    c->values = kin_layout_array(layout, kin_size_mul(rows, (uint64_t)c->wide), sizeof *c->values);
}

static covering covering_of(const kin_set *set, int32_t threads, kin_cover *cover)
{
    *cover = (kin_cover){.wide = kin_cover_wide(set->frame->cols)};
    return (covering){.set = set,
                      .cover = cover,
                      .wide = kin_round_up(set->frame->cols, KIN_METRIC_LANES),
                      .threads = threads};
}

void kin_cover_plan(kin_layout *plan, const kin_set *set, int32_t threads, kin_cover *shape)
{
    memset(shape, 0, sizeof *shape);
    if (!worth_it(set)) {
        return;
    }
    covering c = covering_of(set, threads, shape);
    kin_layout_block(plan, name_arrays, &c);
    kin_layout_passing(plan, name_tiles, &c);
}

kith_status kin_cover_make(kith_ctx *ctx, const kin_set *set, kin_cover *cover)
{
    memset(cover, 0, sizeof *cover);
    if (!worth_it(set)) {
        return KITH_OK;
    }
    covering c = covering_of(set, ctx->threads, cover);
    const int64_t tasks = kin_ceil_div(set->points, KIN_COARSE_STEP);
    c.ops = kin_round_get(ctx->isa);
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_layout_make(ctx, name_arrays, &c, "centres of tiles", &cover->block));
    kith_status status = kin_hold_layout(&hold, name_tiles, &c, "a tile of rows");
    KIN_THEN(status, kin_parallel(ctx, "prepare", tasks, cover_tile, &c));
    if (status != KITH_OK) {
        kin_cover_free(ctx, cover);
    }
    return status;
}

void kin_cover_free(kith_ctx *ctx, kin_cover *cover)
{
    kin_free(ctx, cover->block);
    memset(cover, 0, sizeof *cover);
}

bool kin_cover_apart(const kin_set *set, const kin_round_ops *ops, kin_cover_tile rows,
                     kin_cover_tile points, double reach)
{
    const int64_t wide = rows.of->wide;
    const float *a = rows.of->centres[KIN_COVER_COARSE] + rows.tile * wide;
    const float *b = points.of->centres[KIN_COVER_FINE] + points.tile * points.of->wide;
    /* fp32: differences and squares are each rounded, partial sums wide / 16 times. */
    const double roundings = (double)wide / LANES + LANES + 4;
    const float square = ops->distance_sq(a, b, wide);
    if (!(square <= FLT_MAX)) { /* it overflowed, and proves nothing */
        return false;
    }
    const double between = sqrt((double)square) * (1.0 - roundings * 0x1p-23);
    const double radii = (double)rows.of->radii[KIN_COVER_COARSE][rows.tile] +
                         (double)points.of->radii[KIN_COVER_FINE][points.tile];
    const double far = set->frame->bound == KIN_BOUND_INTEGER ? sqrt(reach) : reach;
    /* A NaN or an infinite radius compares false: nothing is skipped. */
    return between > (far + radii) * KIN_BOUND_WIDEN;
}
