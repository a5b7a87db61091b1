/* SPDX-License-Identifier: Apache-2.0
 *
 * Orthogonal iteration: the axes are multiplied with the covariance of the sample and made
 * orthonormal again, one behind another, a few times from random ones. */
#include "screen/screen_corpus.h"

#include "base/base_random.h"
#include "base/base_size.h"
#include "host/host_threads.h"

#include <stdlib.h>

/* TAKEN, TESTED: rows that a thread takes at a time. */
enum { ROUNDS = 2, MEAN_ROWS = 256, TAKEN = 64, TESTED = 16 };

/* Columns of a mix. */
static int64_t mix_wide(int32_t count)
{
    return kin_round_up(count, KIN_METRIC_LANES);
}

static void name_axes(kin_layout *layout, void *job)
{
    kin_axes *a = job;
    const uint64_t wide = (uint64_t)a->wide;
    const uint64_t padded = (uint64_t)a->padded;
    const uint64_t all = (uint64_t)a->rows_all;
    a->mean = kin_layout_zeros(layout, wide, sizeof *a->mean);
    a->axes = kin_layout_zeros(layout, padded * wide, sizeof *a->axes);
    a->basis = kin_layout_zeros(layout, wide * padded, sizeof *a->basis);
    a->rows = kin_layout_zeros(layout, all * wide, sizeof *a->rows);
    a->columns = kin_layout_array(layout, (uint64_t)a->threads * KIN_PROJECT_ROWS * KIN_AXES_SAMPLE,
                                  sizeof *a->columns);
    a->images = kin_layout_zeros(layout, all * padded, sizeof *a->images);
    a->lengths = kin_layout_zeros(layout, all, sizeof *a->lengths);
    a->values = kin_layout_zeros(layout, (uint64_t)a->threads * wide, sizeof *a->values);
    a->mix = kin_layout_array(layout, (uint64_t)(a->count * mix_wide(a->count)), sizeof *a->mix);
    a->rests = kin_layout_array(layout, all * (uint64_t)kin_axes_steps(a->count), sizeof *a->rests);
    a->sums =
        kin_layout_array(layout, (uint64_t)a->threads * KIN_PROJECT_ROWS * padded, sizeof *a->sums);
}

int32_t kin_axes_steps(int32_t count)
{
    return count / KIN_AXES_STEP + 1;
}

static kin_axes axes_of(int32_t cols, int32_t count, int64_t more, int32_t threads)
{
    return (kin_axes){.count = count,
                      .wide = kin_round_up(cols, KIN_PROJECT_STEP),
                      .padded = kin_round_up(count, KIN_PROJECT_AXES),
                      .rows_all = kin_round_up(KIN_AXES_SAMPLE + more, KIN_PROJECT_ROWS),
                      .threads = threads};
}

void kin_axes_plan(kin_layout *plan, int32_t cols, int32_t count, int64_t more, int32_t threads)
{
    kin_axes a = axes_of(cols, count, more, threads);
    kin_layout_passing(plan, name_axes, &a);
}

/* ---- The sample ------------------------------------------------------------------------------ */

typedef struct sampling {
    const kin_axes_points *points;
    kin_axes *axes;
    const uint32_t *further;
    int64_t more;
} sampling;

/* Row i of the sample, by a fixed seed, or of those behind it. */
static void load(const sampling *s, int64_t i, double *values)
{
    const kin_axes_points *p = s->points;
    uint64_t state = (uint64_t)i;
    const uint32_t id = i < KIN_AXES_SAMPLE ? p->ids[kin_random_below(&state, (uint64_t)p->count)]
                                            : s->further[i - KIN_AXES_SAMPLE];
    (void)kin_metric_load(p->distance, p->rows, id, values);
}

/* Of a part of the sample: any mean is right, and of bytes whole numbers are (screen_cast.c). */
static void set_mean(const sampling *s)
{
    const kin_rows *rows = s->points->rows;
    const bool whole = kith_dtype_bytes(rows->matrix.dtype) == 1 && rows->transforms == NULL;
    for (int64_t i = 0; i < MEAN_ROWS; i++) {
        load(s, i * (KIN_AXES_SAMPLE / MEAN_ROWS), s->axes->values);
        for (int64_t c = 0; c < s->points->distance->cols; c++) {
            s->axes->mean[c] += s->axes->values[c] / MEAN_ROWS;
        }
    }
    for (int64_t c = 0; c < s->axes->wide && whole; c++) {
        s->axes->mean[c] = nearbyint(s->axes->mean[c]);
    }
}

static kith_status take_some(void *arg, int64_t i, int32_t thread)
{
    const sampling *s = arg;
    const kin_axes *a = s->axes;
    double *values = a->values + thread * a->wide;
    load(s, i, values);
    for (int64_t c = 0; c < s->points->distance->cols; c++) {
        const double x = (values[c] - a->mean[c]) / s->points->scale;
        a->lengths[i] += x * x;
        a->rows[i * a->wide + c] = (float)x;
    }
    return KITH_OK;
}

/* ---- The axes -------------------------------------------------------------------------------- */

/* Rows that are made orthonormal; columns are padded with zeros. */
typedef struct orthogonal {
    const kin_round_ops *ops;
    double *rows;
    int32_t count;
    int64_t wide;
    double *before; /* what each row was long, squared */
    int32_t first;  /* of a few that are orthonormal, which is taken from those behind */
    int32_t last;
} orthogonal;

static void subtract(const orthogonal *o, const double *other, double *own)
{
    o->ops->subtract64(o->ops->dot64(own, other, o->wide), other, o->wide, own);
}

/* A row of which nothing is left becomes zero, on which nothing falls. */
static void normalise(const orthogonal *o, double before, double *own)
{
    const double left = o->ops->dot64(own, own, o->wide);
    const double scale = left > before * 0x1p-60 && left > 0x1p-900 ? 1.0 / sqrt(left) : 0.0;
    for (int64_t c = 0; c < o->wide; c++) {
        own[c] *= scale;
    }
}

static kith_status take_away(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const orthogonal *o = arg;
    double *own = o->rows + (o->last + task) * o->wide;
    if (o->first == 0) {
        o->before[o->last + task] = o->ops->dot64(own, own, o->wide);
    }
    for (int32_t i = o->first; i < o->last; i++) {
        subtract(o, o->rows + i * o->wide, own);
    }
    return KITH_OK;
}

/* Gram-Schmidt, some rows at a time. Where they are nearly alike, they are less than orthogonal
 * afterwards. */
static kith_status orthonormalise(kith_ctx *ctx, const kin_axes *a, double *rows, int64_t wide)
{
    const int32_t count = a->count;
    double *before = a->values;
    for (int32_t first = 0; first < count; first += KIN_AXES_STEP) {
        const int32_t last = (int32_t)kin_min_i64(first + KIN_AXES_STEP, count);
        orthogonal o = {a->ops, rows, count, wide, before, first, last};
        for (int32_t j = first; j < last; j++) {
            double *own = rows + j * wide;
            const double was = first == 0 ? a->ops->dot64(own, own, wide) : before[j];
            for (int32_t i = first; i < j; i++) {
                subtract(&o, rows + i * wide, own);
            }
            normalise(&o, was, own);
        }
        if (last < count) {
            KIN_TRY(kin_parallel(ctx, "prepare", count - last, take_away, &o));
        }
    }
    return KITH_OK;
}

static void set_basis(const kin_axes *a)
{
    for (int64_t c = 0; c < a->wide; c++) {
        for (int32_t j = 0; j < a->count; j++) {
            a->basis[c * a->padded + j] = (float)a->axes[j * a->wide + c];
        }
    }
}

/* Work that threads share: KIN_PROJECT_ROWS rows a piece, or columns. */
typedef struct projecting {
    kin_axes *axes;
    bool columns; /* of the sample, times its images */
} projecting;

/* The next columns of the sample, one behind another. */
static const float *turn_some(const kin_axes *a, int64_t first, int32_t thread)
{
    float *columns = a->columns + (int64_t)thread * KIN_PROJECT_ROWS * KIN_AXES_SAMPLE;
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        const float *row = a->rows + i * a->wide + first;
        for (int64_t c = 0; c < KIN_PROJECT_ROWS; c++) {
            columns[c * KIN_AXES_SAMPLE + i] = row[c];
        }
    }
    return columns;
}

static kith_status project_some(void *arg, int64_t task, int32_t thread)
{
    const projecting *p = arg;
    const kin_axes *a = p->axes;
    const int64_t first = task * KIN_PROJECT_ROWS;
    double *sums = a->sums + thread * KIN_PROJECT_ROWS * a->padded;
    if (!p->columns) {
        a->ops->project(a->rows + first * a->wide, a->basis, a->wide, a->padded, sums);
        for (int64_t i = 0; i < KIN_PROJECT_ROWS * a->padded; i++) {
            a->images[first * a->padded + i] = (float)sums[i];
        }
        return KITH_OK;
    }
    a->ops->project(turn_some(a, first, thread), a->images, KIN_AXES_SAMPLE, a->padded, sums);
    for (int r = 0; r < KIN_PROJECT_ROWS; r++) {
        for (int32_t j = 0; j < a->count; j++) {
            a->axes[j * a->wide + first + r] = sums[r * a->padded + j];
        }
    }
    return KITH_OK;
}

static kith_status project_rows(kith_ctx *ctx, kin_axes *a, int64_t rows)
{
    projecting p = {.axes = a};
    return kin_parallel(ctx, "prepare", kin_ceil_div(rows, KIN_PROJECT_ROWS), project_some, &p);
}

static kith_status iterate(kith_ctx *ctx, kin_axes *a)
{
    projecting p = {.axes = a, .columns = true};
    KIN_TRY(project_rows(ctx, a, KIN_AXES_SAMPLE));
    KIN_TRY(kin_parallel(ctx, "prepare", a->wide / KIN_PROJECT_ROWS, project_some, &p));
    KIN_TRY(orthonormalise(ctx, a, a->axes, a->wide));
    set_basis(a);
    return KITH_OK;
}

static void set_rests(const kin_axes *a)
{
    const int32_t steps = kin_axes_steps(a->count);
    for (int64_t i = 0; i < a->rows_all; i++) {
        double left = a->lengths[i];
        for (int32_t step = 0; step < steps; step++) {
            a->rests[i * steps + step] = (float)sqrt(fmax(left, 0.0));
            for (int32_t j = 0; step + 1 < steps && j < KIN_AXES_STEP; j++) {
                const double x = (double)a->images[i * a->padded + step * KIN_AXES_STEP + j];
                left -= x * x;
            }
        }
    }
}

static double noise(uint64_t *state)
{
    return (double)(kin_random_next(state) >> 11) * 0x1p-52 - 1.0;
}

static kith_status find(kith_ctx *ctx, const sampling *s, kin_axes *a)
{
    uint64_t state = 2;
    sampling sample = *s;
    set_mean(s);
    KIN_TRY(
        kin_parallel_rows(ctx, "prepare", KIN_AXES_SAMPLE + s->more, TAKEN, take_some, &sample));
    for (int32_t j = 0; j < a->count; j++) {
        for (int64_t c = 0; c < s->points->distance->cols; c++) {
            a->axes[j * a->wide + c] = noise(&state);
        }
    }
    set_basis(a);
    for (int round = 0; round < ROUNDS; round++) {
        KIN_TRY(iterate(ctx, a));
    }
    KIN_TRY(project_rows(ctx, a, a->rows_all));
    set_rests(a);
    return KITH_OK;
}

kith_status kin_axes_make(kith_ctx *ctx, const kin_axes_points *points, int32_t count,
                          const uint32_t *further, int64_t more, kin_axes *axes)
{
    *axes = axes_of(points->distance->cols, count, more, ctx->threads);
    axes->ops = kin_round_get(ctx->isa);
    const sampling s = {points, axes, further, more};
    KIN_TRY(kin_layout_make(ctx, name_axes, axes, "a sample of the rows", &axes->block));
    const kith_status status = find(ctx, &s, axes);
    if (status != KITH_OK) {
        kin_axes_free(ctx, axes);
    }
    return status;
}

void kin_axes_free(kith_ctx *ctx, kin_axes *axes)
{
    kin_free(ctx, axes->block);
    memset(axes, 0, sizeof *axes);
}

/* ---- What they are good for ------------------------------------------------------------------ */

typedef struct testing {
    const kin_axes *axes;
    const kin_axes_test *test;
} testing;

static bool is_left_out(const kin_axes_test *test, int64_t row, int64_t i)
{
    if (test->places == NULL) {
        return false;
    }
    const int64_t ahead = llabs(test->places[KIN_AXES_SAMPLE + row] - test->places[i]);
    return kin_min_i64(ahead, test->circle - ahead) < test->apart;
}

static kith_status test_row(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const testing *t = arg;
    const kin_axes *a = t->axes;
    const int32_t steps = kin_axes_steps(a->count);
    const int types = t->test->types;
    const float *far = t->test->far + row * types * steps;
    int32_t *passed = t->test->passed + row * types * steps;
    const int64_t own = KIN_AXES_SAMPLE + row;
    memset(passed, 0, (size_t)(types * steps) * sizeof *passed);
    for (int64_t i = 0; i < KIN_AXES_SAMPLE; i++) {
        float spanned = 0.0F;
        for (int32_t step = is_left_out(t->test, row, i) ? steps : 1; step < steps; step++) {
            const int64_t axis = (step - 1) * KIN_AXES_STEP;
            spanned += a->ops->distance_sq(a->images + own * a->padded + axis,
                                           a->images + i * a->padded + axis, KIN_AXES_STEP);
            const float rest = a->rests[own * steps + step] - a->rests[i * steps + step];
            for (int type = 0; type < types; type++) {
                const int32_t at = type * steps + step;
                passed[at] += !(spanned + rest * rest > far[at]);
            }
        }
    }
    return KITH_OK;
}

kith_status kin_axes_run_test(kith_ctx *ctx, const kin_axes *axes, const kin_axes_test *test)
{
    testing t = {axes, test};
    return kin_parallel_rows(ctx, "prepare", test->rows, TESTED, test_row, &t);
}

void kin_axes_shadow(const kin_axes *a, int64_t i, double *values)
{
    double rest_sq = a->lengths[i];
    for (int32_t j = 0; j < a->count; j++) {
        values[j] = (double)a->images[i * a->padded + j];
        rest_sq -= values[j] * values[j];
    }
    values[a->count] = sqrt(fmax(rest_sq, 0.0));
}

/* Some columns of the axes times a random matrix. */
static kith_status mix_some(void *arg, int64_t task, int32_t thread)
{
    const kin_axes *a = arg;
    double *mixed = a->sums + thread * KIN_PROJECT_ROWS * a->padded;
    double *own = a->axes + task * KIN_PROJECT_ROWS;
    for (int64_t j = 0; j < a->count; j++) {
        double sum[KIN_PROJECT_ROWS] = {0.0};
        for (int64_t i = 0; i < a->count; i++) {
            for (int c = 0; c < KIN_PROJECT_ROWS; c++) {
                sum[c] += a->mix[j * mix_wide(a->count) + i] * own[i * a->wide + c];
            }
        }
        memcpy(mixed + j * KIN_PROJECT_ROWS, sum, sizeof sum);
    }
    for (int64_t j = 0; j < a->count; j++) {
        memcpy(own + j * a->wide, mixed + j * KIN_PROJECT_ROWS, KIN_PROJECT_ROWS * sizeof *own);
    }
    return KITH_OK;
}

/* The axes times a matrix that is random and orthogonal; those that are zero stay so. */
kith_status kin_axes_mix(kith_ctx *ctx, int32_t count, kin_axes *a)
{
    const int64_t wide = mix_wide(count);
    uint64_t state = 3;
    a->count = count;
    a->padded = kin_round_up(count, KIN_PROJECT_AXES);
    memset(a->mix, 0, (size_t)(count * wide) * sizeof *a->mix);
    for (int32_t j = 0; j < count; j++) {
        const double *own = a->axes + j * a->wide;
        a->values[j] = a->ops->dot64(own, own, a->wide);
    }
    for (int64_t i = 0; i < (int64_t)count * count; i++) {
        const double sum = noise(&state) + noise(&state);
        const bool both = a->values[i / count] > 0.0 && a->values[i % count] > 0.0;
        a->mix[i / count * wide + i % count] = both ? sum : 0.0;
    }
    KIN_TRY(orthonormalise(ctx, a, a->mix, wide));
    KIN_TRY(kin_parallel(ctx, "prepare", a->wide / KIN_PROJECT_ROWS, mix_some, a));
    memset(a->basis, 0, (size_t)(a->wide * a->padded) * sizeof *a->basis);
    set_basis(a);
    return project_rows(ctx, a, KIN_AXES_SAMPLE);
}

/* The norm of a symmetric matrix is at most the root of the largest row sum of its square; a root
 * of 1 + x differs from 1 by x / (1 + the root). An axis that is zero is none: what is left of the
 * others is orthonormal. */
double kin_axes_skew(kin_axes *a)
{
    const int64_t wide = mix_wide(a->count);
    double worst = 0.0;
    memset(a->mix, 0, (size_t)(a->count * wide) * sizeof *a->mix);
    for (int32_t j = 0; j < a->count; j++) {
        double *own = a->axes + j * a->wide;
        for (int64_t c = 0; c < a->wide; c++) {
            own[c] = (double)a->basis[c * a->padded + j];
        }
        for (int32_t i = 0; i <= j; i++) {
            const double product = a->ops->dot64(own, a->axes + i * a->wide, a->wide);
            const double off = product - (i == j && product > 0.0 ? 1.0 : 0.0);
            a->mix[j * wide + i] = off;
            a->mix[i * wide + j] = off;
        }
    }
    for (int32_t j = 0; j < a->count; j++) {
        double sum = 0.0;
        for (int32_t i = 0; i < a->count; i++) {
            sum += fabs(a->ops->dot64(a->mix + j * wide, a->mix + i * wide, wide));
        }
        worst = fmax(worst, sum);
    }
    const double rounding = fmax(0x1p-40, ((double)a->wide / 8.0 + 8.0) * 0x1p-53);
    const double skew = sqrt(worst) * KIN_BOUND_WIDEN + (double)a->count * rounding;
    return skew / (1.0 + sqrt(fmax(1.0 - skew, 0.0))) * KIN_BOUND_WIDEN;
}
