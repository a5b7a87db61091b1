/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_set.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <float.h>

enum {
    LANES = 16,
    SMALL = 1024,
    SAMPLE = 32,   /* coarse tiles */
    ASKED_OF = 24, /* one of so many of their rows */
    CENTRE_OF = 12 /* where there are no balls, one row of so many */
};
/* Of pairs of tiles, those that must be apart: balls take some hundredths of the screen, and rule
 * out less than a sample says. */
static const double LEAST_APART = 0.05;

static const int64_t steps[2] = {KIN_FINE_STEP, KIN_COARSE_STEP};

typedef struct covering {
    const kin_set *set;
    kin_cover *cover;
    int64_t wide;   /* doubles of an expanded row */
    double *values; /* by thread: a tile's rows, in the frame, and one row more */
    int64_t apart;  /* from a coarse tile that is covered to the next */
    int64_t step;   /* from a row that is read to the next; 1: with balls */
    double near[SAMPLE];
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

static kith_status cover_tile(void *arg, int64_t number, int32_t thread)
{
    const covering *c = arg;
    kin_cover *cover = c->cover;
    const int64_t task = number * c->apart;
    double *values = c->values + (int64_t)thread * (KIN_COARSE_STEP + 1) * c->wide;
    const int64_t first = task * KIN_COARSE_STEP;
    const int64_t rows = kin_min_i64(KIN_COARSE_STEP, c->set->points - first);
    const int64_t read = kin_ceil_div(rows, c->step);
    for (int64_t i = 0; i < read; i++) {
        load_row(c, first + i * c->step, values + i * c->wide);
    }
    double *sums = values + KIN_COARSE_STEP * c->wide;
    cover_rows(c, values, read, sums, cover->centres[KIN_COVER_COARSE] + task * cover->wide,
               &cover->radii[KIN_COVER_COARSE][task]);
    for (int64_t row = 0; row < rows && c->step == 1; row += KIN_FINE_STEP) {
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

/* A tile of the sample, and how far the nearest in it are of its loneliest row of some: no farther
 * than reaches will be, where near rows stand together. */
static kith_status try_tile(void *arg, int64_t number, int32_t thread)
{
    covering *c = arg;
    const double *values = c->values + (int64_t)thread * (KIN_COARSE_STEP + 1) * c->wide;
    double most = 0.0;
    KIN_TRY(cover_tile(arg, number, thread));
    for (int64_t row = 0; row < KIN_COARSE_STEP; row += ASKED_OF) {
        double least = INFINITY;
        for (int64_t i = 0; i < KIN_COARSE_STEP; i++) {
            const double far =
                c->ops->distance_sq64(values + row * c->wide, values + i * c->wide, c->wide);
            least = i != row && far < least ? far : least;
        }
        most = fmax(most, least);
    }
    c->near[number] = c->set->frame->bound == KIN_BOUND_INTEGER ? most : sqrt(most);
    return KITH_OK;
}

/* Whether balls would do next to nothing for a graph. */
static kith_status try_some(kith_ctx *ctx, covering *c, int64_t tasks, bool *vain)
{
    int64_t apart = 0;
    c->apart = tasks / SAMPLE;
    KIN_TRY(kin_parallel(ctx, "prepare", SAMPLE, try_tile, c));
    for (int64_t i = 0; i < SAMPLE; i++) {
        for (int64_t j = 0; j < SAMPLE; j++) {
            const int64_t fine = j * c->apart * (KIN_COARSE_STEP / KIN_FINE_STEP);
            apart +=
                kin_cover_apart(c->set, c->ops, (kin_cover_tile){c->cover, i * c->apart},
                                (kin_cover_tile){c->cover, fine}, fmax(c->near[i], c->near[j]));
        }
    }
    *vain = (double)apart < LEAST_APART * SAMPLE * SAMPLE;
    c->apart = 1;
    return KITH_OK;
}

kith_status kin_cover_make(kith_ctx *ctx, const kin_set *set, bool graph, kin_cover *cover)
{
    bool vain = false;
    memset(cover, 0, sizeof *cover);
    if (!worth_it(set)) {
        return KITH_OK;
    }
    covering c = covering_of(set, ctx->threads, cover);
    const int64_t tasks = kin_ceil_div(set->points, KIN_COARSE_STEP);
    c.ops = kin_round_get(ctx->isa);
    c.apart = 1;
    c.step = 1;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_layout_make(ctx, name_arrays, &c, "centres of tiles", &cover->block));
    kith_status status = kin_hold_layout(&hold, name_tiles, &c, "a tile of rows");
    if (graph && tasks > SAMPLE) {
        KIN_THEN(status, try_some(ctx, &c, tasks, &vain));
    }
    if (vain) {
        c.step = CENTRE_OF;
        cover->radii[KIN_COVER_FINE] = NULL;
    }
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
