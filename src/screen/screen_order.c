/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Each row is reduced to a sketch of 32 floats: components are added into 32 buckets with
 * random signs (a count sketch: Charikar, Chen, Farach-Colton 2002), which keeps distances roughly
 * and reads the data once. Rows of up to 32 components are their own sketch. The sketches are then
 * halved again and again, each time at the median along the direction in which a sample of the part
 * spreads most (a few steps of power iteration), until runs of KIN_ORDER_RUN rows remain.
 *
 * Long jobs have sketches along the axes of a sample of the rows (screen_corpus.h), which keep more
 * of a distance: of Fashion-MNIST's nearest ten 32 % are among the 96 rows around, and 23 % by
 * random signs.
 *
 * Cost. One read of the data; then n * 32 multiply-adds for each of log2(n / 32) levels.
 *
 * Tried and dropped: splitting on full rows (as many reads of the data as there are levels).
 */
#include "screen/screen_corpus.h"

#include "base/base_random.h"
#include "base/base_size.h"
#include "host/host_threads.h"

#include <math.h>

enum {
    SKETCH = 32,
    LANES = 4,
    SMALL = 1024, /* fewer rows are not worth it */
    SAMPLES = 16, /* rows of which axes are found go so many times into all */
    SAMPLE = 128, /* rows that a direction is estimated from */
    POWER_STEPS = 4,
    AHEAD = 8,
    ROWS_A_TASK = 64
};
/* Products of a graph of the rows, of which axes take some hundredths. */
static const double LONG = 1e12;

typedef struct sketching {
    const kin_rows *rows;
    const kin_distance *distance;
    const uint32_t *order;
    int64_t count;
    float *signs; /* by component */
    float *sketches;
    double *values; /* a row for each thread */
    int64_t wide;
    const kin_axes *axes; /* of long jobs */
    float *some;          /* KIN_PROJECT_ROWS rows for each thread, by */
    double scale;         /* 1 over that of the axes */
} sketching;

static kith_status sketch_rows(void *arg, int64_t i, int32_t thread)
{
    const sketching *s = arg;
    double *values = s->values + (int64_t)thread * s->wide;
    (void)kin_metric_load(s->distance, s->rows, s->order[i], values);
    float *sketch = s->sketches + i * SKETCH;
    memset(sketch, 0, SKETCH * sizeof *sketch);
    for (int64_t first = 0; first < s->wide; first += SKETCH) {
        for (int64_t j = 0; j < SKETCH; j++) {
            sketch[j] += s->signs[first + j] * (float)values[first + j];
        }
    }
    return KITH_OK;
}

/* A row less its mean, in units of the axes' scale; bytes as they are, for whom both are as good.
 */
static void load_row(const sketching *s, int64_t row, double *values, float *to)
{
    const kith_matrix *m = &s->rows->matrix;
    const void *from = (const unsigned char *)m->data + row * m->stride_bytes;
    if (m->dtype == KITH_U8 && s->rows->transforms == NULL) {
        const uint8_t *bytes = from;
        for (int64_t c = 0; c < m->cols; c++) {
            to[c] = (float)bytes[c];
        }
    } else if (m->dtype == KITH_I8 && s->rows->transforms == NULL) {
        const int8_t *bytes = from;
        for (int64_t c = 0; c < m->cols; c++) {
            to[c] = (float)bytes[c];
        }
    } else {
        (void)kin_metric_load(s->distance, s->rows, row, values);
        for (int64_t c = 0; c < s->distance->cols; c++) {
            to[c] = (float)((values[c] - s->axes->mean[c]) * s->scale);
        }
    }
}

static kith_status project_rows(void *arg, int64_t task, int32_t thread)
{
    const sketching *s = arg;
    const kin_axes *a = s->axes;
    double *values = s->values + (int64_t)thread * s->wide;
    float *rows = s->some + (int64_t)thread * KIN_PROJECT_ROWS * a->wide;
    double sums[KIN_PROJECT_ROWS * SKETCH];
    const int64_t first = task * KIN_PROJECT_ROWS;
    const int64_t count = kin_min_i64(KIN_PROJECT_ROWS, s->count - first);
    for (int64_t r = 0; r < count; r++) {
        load_row(s, s->order[first + r], values, rows + r * a->wide);
    }
    a->ops->project(rows, a->basis, a->wide, SKETCH, sums);
    for (int64_t i = 0; i < count * SKETCH; i++) {
        s->sketches[first * SKETCH + i] = (float)sums[i];
    }
    return KITH_OK;
}

/* ---- Halving -------------------------------------------------------------------------------- */

typedef struct part {
    int64_t first;
    int64_t count;
} part;

typedef struct halving {
    const float *sketches;
    uint32_t *index; /* positions of sketches, permuted */
    uint64_t *words; /* scratch, one a row */
    const part *parts;
} halving;

static const float *sketch_of(const halving *h, int64_t i)
{
    return h->sketches + (int64_t)h->index[i] * SKETCH;
}

typedef float lanes_t __attribute__((vector_size(LANES * sizeof(float))));

static float dot(const float *a, const float *b)
{
    lanes_t sum = {0.0F};
    for (int j = 0; j < SKETCH; j += LANES) {
        lanes_t x;
        lanes_t y;
        memcpy(&x, a + j, sizeof x);
        memcpy(&y, b + j, sizeof y);
        sum += x * y;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void add(const float *restrict x, const float *restrict less, float times,
                float *restrict to)
{
    for (int j = 0; j < SKETCH; j++) {
        to[j] += times * (x[j] - less[j]);
    }
}

/* The direction of largest spread of a sample of a part, by power iteration on its covariance. A
 * poor one costs time, not correctness; infinities and NaN end up in one half. */
static void choose_direction(const halving *h, part p, float *direction)
{
    const int64_t sample = kin_min_i64(p.count, SAMPLE);
    static const float zeros[SKETCH];
    float mean[SKETCH] = {0.0F};
    for (int64_t i = 0; i < sample; i++) {
        add(sketch_of(h, p.first + i * p.count / sample), zeros, 1.0F / (float)sample, mean);
    }
    for (int j = 0; j < SKETCH; j++) {
        direction[j] = 1.0F + (float)j / SKETCH;
    }
    for (int step = 0; step < POWER_STEPS; step++) {
        float next[SKETCH] = {0.0F};
        const float offset = dot(mean, direction);
        for (int64_t i = 0; i < sample; i++) {
            const float *x = sketch_of(h, p.first + i * p.count / sample);
            add(x, mean, dot(x, direction) - offset, next);
        }
        const float length = sqrtf(dot(next, next));
        if (!(length > 0.0F) || !isfinite(length)) {
            return;
        }
        for (int j = 0; j < SKETCH; j++) {
            direction[j] = next[j] / length;
        }
    }
}

/* Runs of KIN_ORDER_RUN in the first half: whole ones. */
static int64_t first_half(int64_t count)
{
    return kin_round_up(count / 2, KIN_ORDER_RUN);
}

static kith_status halve(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const halving *h = arg;
    const part p = h->parts[task];
    float direction[SKETCH];
    choose_direction(h, p, direction);
    uint64_t *words = h->words + p.first;
    for (int64_t i = 0; i < p.count; i++) {
        __builtin_prefetch(sketch_of(h, p.first + kin_min_i64(i + AHEAD, p.count - 1)));
        const float along = dot(sketch_of(h, p.first + i), direction);
        uint32_t bits;
        memcpy(&bits, &along, sizeof bits);
        words[i] = (uint64_t)kin_key32(bits, false) << 32 | h->index[p.first + i];
    }
    kin_select_nth_word(words, p.count, first_half(p.count));
    for (int64_t i = 0; i < p.count; i++) {
        h->index[p.first + i] = (uint32_t)words[i];
    }
    return KITH_OK;
}

/* Level by level: the parts of a level are independent. */
static kith_status halve_all(kith_ctx *ctx, halving *h, part *parts, part *next, int64_t count)
{
    int64_t level = 1;
    parts[0] = (part){0, count};
    while (level > 0) {
        h->parts = parts;
        KIN_TRY(kin_parallel(ctx, "prepare", level, halve, h));
        int64_t made = 0;
        for (int64_t i = 0; i < level; i++) {
            const int64_t left = first_half(parts[i].count);
            const part halves[2] = {{parts[i].first, left},
                                    {parts[i].first + left, parts[i].count - left}};
            for (int side = 0; side < 2; side++) {
                if (halves[side].count > KIN_ORDER_RUN) {
                    next[made++] = halves[side];
                }
            }
        }
        part *swap = parts;
        parts = next;
        next = swap;
        level = made;
    }
    return KITH_OK;
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* Sketches, and their halving. */
typedef struct ordering {
    sketching s;
    halving h;
    part *parts;
    part *next;
    uint32_t *copy;
    int32_t threads;
    bool by_axes;
} ordering;

/* Of so many rows that a sample of them is little beside them. */
static bool is_long(int64_t count, int32_t cols)
{
    return cols >= 2 * SKETCH && count >= SAMPLES * KIN_AXES_SAMPLE &&
           0.5 * (double)count * (double)count * (double)cols >= LONG;
}

static void name_arrays(kin_layout *layout, void *job)
{
    ordering *o = job;
    const uint64_t n = (uint64_t)o->s.count;
    const uint64_t wide = (uint64_t)o->s.wide;
    const uint64_t parts = n / KIN_ORDER_RUN + 2;
    o->s.signs = kin_layout_array(layout, wide, sizeof *o->s.signs);
    o->s.values = kin_layout_zeros(layout, wide * (uint64_t)o->threads, sizeof *o->s.values);
    if (o->by_axes) {
        const uint64_t rows = (uint64_t)o->threads * KIN_PROJECT_ROWS;
        o->s.some = kin_layout_zeros(layout, rows * (wide + KIN_PROJECT_STEP), sizeof *o->s.some);
    }
    o->s.sketches = kin_layout_array(layout, n, SKETCH * sizeof *o->s.sketches);
    o->h.words = kin_layout_array(layout, n, sizeof *o->h.words);
    o->h.index = kin_layout_array(layout, n, sizeof *o->h.index);
    o->copy = kin_layout_array(layout, n, sizeof *o->copy);
    o->parts = kin_layout_array(layout, parts, sizeof *o->parts);
    o->next = kin_layout_array(layout, parts, sizeof *o->next);
}

void kin_order_plan(kin_layout *plan, int64_t count, int32_t cols, bool graph, int32_t threads)
{
    if (count > SMALL) {
        ordering o = {.s = {.count = count, .wide = kin_round_up(cols, SKETCH)},
                      .threads = threads,
                      .by_axes = graph && is_long(count, cols)};
        const uint64_t before = kin_layout_mark(plan);
        kin_layout_block(plan, name_arrays, &o);
        if (o.by_axes) {
            kin_axes_plan(plan, cols, SKETCH, 0, threads);
        }
        kin_layout_back(plan, before);
    }
}

/* A power of two near the largest magnitude of some rows, so that their squares are floats. */
static double scale_of(const sketching *s)
{
    enum { SOME = 64 };
    double most = 0.0;
    for (int64_t i = 0; i < SOME; i++) {
        (void)kin_metric_load(s->distance, s->rows, s->order[i * (s->count / SOME)], s->values);
        for (int32_t c = 0; c < s->distance->cols; c++) {
            most = fmax(most, fabs(s->values[c]));
        }
    }
    return most > 0x1p-1000 ? ldexp(1.0, ilogb(most)) : 1.0;
}

static kith_status sketch_along_axes(kith_ctx *ctx, sketching *s)
{
    _Static_assert((int)SKETCH == (int)KIN_PROJECT_AXES, "sketches are images");
    const double scale = scale_of(s);
    const kin_axes_points points = {s->distance, s->rows, s->order, s->count, scale};
    s->scale = 1.0 / scale;
    kin_axes axes;
    KIN_TRY(kin_axes_make(ctx, &points, SKETCH, NULL, 0, &axes));
    s->axes = &axes;
    const kith_status status = kin_parallel_rows(
        ctx, "prepare", kin_ceil_div(s->count, KIN_PROJECT_ROWS), ROWS_A_TASK, project_rows, s);
    s->axes = NULL;
    kin_axes_free(ctx, &axes);
    return status;
}

static kith_status make_sketches(kith_ctx *ctx, sketching *s)
{
    uint64_t state = 7;
    const bool own = s->wide == SKETCH; /* the row is its own sketch */
    for (int64_t i = 0; i < s->wide; i++) {
        s->signs[i] = own || (kin_random_next(&state) >> 63) != 0 ? 1.0F : -1.0F;
    }
    return kin_parallel_rows(ctx, "prepare", s->count, ROWS_A_TASK, sketch_rows, s);
}

kith_status kin_order_make(kith_ctx *ctx, const kin_rows *rows, const kin_distance *distance,
                           int64_t count, bool graph, uint32_t *order)
{
    ordering o = {.s = {.rows = rows,
                        .distance = distance,
                        .order = order,
                        .count = count,
                        .wide = kin_round_up(rows->matrix.cols, SKETCH)},
                  .threads = ctx->threads,
                  .by_axes = graph && is_long(count, rows->matrix.cols)};
    KIN_HOLD(hold, ctx);
    if (count <= SMALL) {
        return KITH_OK;
    }
    KIN_TRY(kin_hold_layout(&hold, name_arrays, &o, "an order of the points"));
    KIN_TRY(o.by_axes ? sketch_along_axes(ctx, &o.s) : make_sketches(ctx, &o.s));
    for (int64_t i = 0; i < count; i++) {
        o.h.index[i] = (uint32_t)i;
    }
    o.h.sketches = o.s.sketches;
    KIN_TRY(halve_all(ctx, &o.h, o.parts, o.next, count));
    memcpy(o.copy, order, (size_t)count * sizeof *o.copy);
    for (int64_t i = 0; i < count; i++) {
        order[i] = o.copy[o.h.index[i]];
    }
    return KITH_OK;
}
