/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as their shadows: products with a basis, the length of the rest, and what of both is unsure.
 *
 * Rows of bytes that are screened as they are have been made ready for a unit, which multiplies
 * them here, too: a basis is whole numbers, of two digits where words hold bytes, and nothing is
 * rounded. The mean is one more axis, so that lengths are exact. Other rows are multiplied in fp32.
 */
#include "screen/screen_corpus.h"

#include "base/base_size.h"

/* The length of the rest, behind a row's image, and e of the row, of sums of so many roundings. */
static double end_shadow(const kin_shadow *s, double length_sq, double image_sq, int32_t roundings,
                         double *values)
{
    if (!(length_sq < 0x1p100)) { /* only a query far outside its corpus: fp32 does not hold it */
        memset(values, 0, (size_t)(s->axes + 1) * sizeof *values);
        return INFINITY;
    }
    values[s->axes] = kin_bound_shadow_rest(length_sq, image_sq);
    return kin_bound_shadow_error(length_sq, values[s->axes], s->skew, s->axes, roundings);
}

/* ---- Any rows -------------------------------------------------------------------------------- */

typedef struct casting {
    const kin_shadow *shadow;
    const kin_prepared *prepared;
    const uint32_t *ids;
    const kin_round_ops *ops;
    float *rows;    /* for each thread: KIN_PROJECT_ROWS x wide, */
    double *images; /* x padded, */
    double *values; /* wide */
    int32_t threads;
} casting;

static void name_casting(kin_layout *layout, void *job)
{
    casting *c = job;
    const uint64_t threads = (uint64_t)c->threads;
    const uint64_t wide = (uint64_t)c->shadow->wide;
    const uint64_t padded = (uint64_t)c->shadow->padded;
    c->rows = kin_layout_zeros(layout, threads * KIN_PROJECT_ROWS * wide, sizeof *c->rows);
    c->images = kin_layout_array(layout, threads * KIN_PROJECT_ROWS * padded, sizeof *c->images);
    c->values = kin_layout_zeros(layout, threads * wide, sizeof *c->values);
}

/* |x|^2 of a row less the mean, which goes to `row` in fp32. */
static double load_row(const casting *c, uint32_t id, double *values, float *row)
{
    const kin_shadow *s = c->shadow;
    const int64_t cols = kin_round_up(c->prepared->distance.cols, KIN_METRIC_LANES);
    double sum[KIN_METRIC_LANES] = {0.0};
    (void)kin_metric_load(&c->prepared->distance, &c->prepared->rows, id, values);
    for (int64_t i = 0; i < cols; i += KIN_METRIC_LANES) {
        for (int lane = 0; lane < KIN_METRIC_LANES; lane++) {
            const double x = (values[i + lane] - s->mean[i + lane]) / c->prepared->frame.scale;
            sum[lane] += x * x;
            row[i + lane] = (float)x;
        }
    }
    double all = 0.0;
    for (int lane = 0; lane < KIN_METRIC_LANES; lane++) {
        all += sum[lane];
    }
    return all;
}

static void cast_some(void *arg, int32_t thread, int64_t first, int64_t count, double *values,
                      double *off)
{
    const casting *c = arg;
    const kin_shadow *s = c->shadow;
    float *rows = c->rows + (int64_t)thread * KIN_PROJECT_ROWS * s->wide;
    double *images = c->images + (int64_t)thread * KIN_PROJECT_ROWS * s->padded;
    double length_sq[KIN_PROJECT_ROWS];
    for (int64_t r = 0; r < count; r++) {
        length_sq[r] =
            load_row(c, c->ids[first + r], c->values + thread * s->wide, rows + r * s->wide);
    }
    c->ops->project(rows, s->basis, s->wide, s->padded, images);
    for (int64_t r = 0; r < count; r++) {
        const double *image = images + r * s->padded;
        double *own = values + r * kin_set_wide(&s->frame);
        double image_sq = 0.0;
        for (int32_t j = 0; j < s->axes; j++) {
            own[j] = image[j];
            image_sq += image[j] * image[j];
        }
        off[r] = end_shadow(s, length_sq[r], image_sq, KIN_PROJECT_STEP + 2, own);
    }
}

/* ---- Rows of bytes --------------------------------------------------------------------------- */

enum { DIGIT = 256, TOGETHER = KIN_MULTIPLY_PANELS * KIN_PANEL };

typedef struct multiplying {
    const kin_shadow *shadow;
    const kin_set *set;
    int32_t digits;     /* of a number: the lowest of all lines stand first */
    int32_t lines;      /* axes, and the mean */
    int32_t rows;       /* digits x lines, rounded up */
    uint32_t *panels;   /* of them, */
    uint32_t *packed;   /* and as the unit multiplies them */
    double *offsets;    /* by line: what is added to products */
    kin_word *start;    /* zeros */
    uint32_t *room;     /* for each thread: the panels of rows that lie as lines, */
    kin_word *products; /* those of some rows, */
    int64_t *held;      /* and which rows these are */
    double mean_sq;
    int32_t threads;
} multiplying;

enum { HELD_APART = KIN_MEM_ALIGNMENT / sizeof(int64_t) };

static bool may_multiply(const kin_set *set)
{
    return set->frame->bound == KIN_BOUND_INTEGER && set->frame->kernel->multiply != NULL;
}

static multiplying multiplying_of(const kin_shadow *shadow, const kin_set *set, int32_t threads)
{
    const int32_t digits = set->frame->kernel->type == KIN_TILE_S8 ? 2 : 1;
    const int32_t lines = shadow->axes + 1;
    return (multiplying){.shadow = shadow,
                         .set = set,
                         .digits = digits,
                         .lines = lines,
                         .rows = (int32_t)kin_round_up(digits * lines, KIN_BLOCK_STEP),
                         .threads = threads};
}

static void name_multiplying(kin_layout *layout, void *job)
{
    multiplying *m = job;
    const uint64_t threads = (uint64_t)m->threads;
    const uint64_t groups = (uint64_t)m->set->frame->groups;
    const uint64_t rows = (uint64_t)m->rows;
    m->panels = kin_layout_array(layout, rows * groups, sizeof *m->panels);
    m->packed = kin_layout_array(layout, rows * groups, sizeof *m->packed);
    m->offsets = kin_layout_array(layout, (uint64_t)m->lines, sizeof *m->offsets);
    m->start = kin_layout_zeros(layout, TOGETHER, sizeof *m->start);
    m->room = kin_layout_array(layout, threads * TOGETHER * groups, sizeof *m->room);
    m->products = kin_layout_array(layout, threads * TOGETHER * rows, sizeof *m->products);
    m->held = kin_layout_array(layout, threads * HELD_APART, sizeof *m->held);
}

static void put_digit(const multiplying *m, int64_t row, int64_t col, int64_t digit)
{
    const kin_frame *frame = m->set->frame;
    const int32_t size = kin_tile_group_size(frame->kernel->type);
    const int64_t bits = 32 / size;
    uint32_t *panel = m->panels + row / KIN_PANEL * frame->groups * KIN_PANEL;
    panel[col / size * KIN_PANEL + row % KIN_PANEL] ^= ((uint32_t)digit & ((1U << bits) - 1))
                                                       << (col % size * bits);
}

/* Rows are stored less `shift`, and so is the mean. */
static int64_t number_of(const multiplying *m, int32_t line, int64_t col, double shift)
{
    const kin_shadow *s = m->shadow;
    return llrint(line < s->axes ? (double)s->basis[col * s->padded + line] * s->grid
                                 : s->mean[col] - shift);
}

static void set_line(const multiplying *m, int32_t line, double shift)
{
    const double step = line < m->shadow->axes ? 1.0 / m->shadow->grid : 1.0;
    const double more = m->set->frame->kernel->type == KIN_TILE_S8 ? 128.0 : 0.0; /* in panels */
    double offset = 0.0;
    for (int64_t col = 0; col < m->set->frame->cols; col++) {
        int64_t left = number_of(m, line, col, shift);
        const double mean = line < m->shadow->axes ? m->shadow->mean[col] - shift : 0.0;
        offset -= (double)left * (more + mean);
        for (int32_t digit = 0; digit < m->digits; digit++) {
            const int64_t low =
                digit + 1 < m->digits ? ((left + DIGIT / 2) & (DIGIT - 1)) - DIGIT / 2 : left;
            put_digit(m, digit * m->lines + line, col, low);
            left = (left - low) / DIGIT;
        }
    }
    m->offsets[line] = offset * step;
}

static void set_lines(multiplying *m)
{
    const kin_frame *frame = m->set->frame;
    const double shift = m->set->rows->matrix.dtype == KITH_U8 ? 128.0 : 0.0;
    memset(m->panels, frame->kernel->type == KIN_TILE_S8 ? 0x80 : 0,
           (size_t)m->rows * (size_t)frame->groups * sizeof *m->panels);
    for (int32_t line = 0; line < m->lines; line++) {
        set_line(m, line, shift);
    }
    for (int64_t col = 0; col < frame->cols; col++) {
        const double mean = m->shadow->mean[col] - shift;
        m->mean_sq += mean * mean;
    }
    frame->kernel->pack(m->panels, frame->groups, m->rows, m->packed);
    for (int32_t thread = 0; thread < m->threads; thread++) {
        m->held[thread * HELD_APART] = -1;
    }
}

/* Products of rows from `first` on. */
static const kin_word *multiply_some(const multiplying *m, int32_t thread, int64_t first)
{
    const int32_t groups = m->set->frame->groups;
    kin_word *products = m->products + (int64_t)thread * TOGETHER * m->rows;
    uint32_t *room = m->room + (int64_t)thread * TOGETHER * groups;
    if (m->held[thread * HELD_APART] != first) {
        const kin_tile_job job = {.rows = m->packed,
                                  .panels = kin_set_panels(m->set, first, TOGETHER, room),
                                  .groups = groups,
                                  .row_count = m->rows,
                                  .start = m->start};
        m->set->frame->kernel->multiply(&job, products);
        m->held[thread * HELD_APART] = first;
    }
    return products;
}

/* KIN_SET_AT_ONCE rows of a panel, one beside the other. */
static void multiply_rows(void *arg, int32_t thread, int64_t first, int64_t count, double *values,
                          double *off)
{
    const multiplying *m = arg;
    const kin_shadow *s = m->shadow;
    const int64_t wide = kin_set_wide(&s->frame);
    const int64_t digit = (int64_t)m->lines * KIN_PANEL;
    const kin_word *products = multiply_some(m, thread, first / TOGETHER * TOGETHER) +
                               first % TOGETHER / KIN_PANEL * m->rows * KIN_PANEL +
                               first % KIN_PANEL;
    double image_sq[KIN_SET_AT_ONCE] = {0.0};
    double sums[KIN_SET_AT_ONCE];
    for (int32_t line = 0; line < m->lines; line++) {
        const kin_word *own = products + (int64_t)line * KIN_PANEL;
        const double step = line < s->axes ? 1.0 / s->grid : 1.0;
        for (int i = 0; i < KIN_SET_AT_ONCE; i++) {
            const double high = m->digits == 2 ? DIGIT * (double)own[digit + i].i : 0.0;
            sums[i] = (high + (double)own[i].i) * step + m->offsets[line];
            values[i * wide + line] = sums[i];
            image_sq[i] += line < s->axes ? sums[i] * sums[i] : 0.0;
        }
    }
    for (int64_t i = 0; i < count; i++) { /* the last sums are those with the mean */
        const double stored_sq =
            (double)m->set->odd[first + i].i - 2.0 * (double)m->set->start[first + i].i;
        const double length_sq = stored_sq - 2.0 * sums[i] + m->mean_sq;
        off[i] = end_shadow(s, length_sq, image_sq[i], 0, values + i * wide);
    }
}

/* ---- Both ------------------------------------------------------------------------------------ */

kith_status kin_shadow_cast(kith_ctx *ctx, const kin_shadow *shadow, const kin_prepared *prepared,
                            const uint32_t *ids, int64_t points, kin_set *set)
{
    _Static_assert((int)KIN_SET_AT_ONCE == (int)KIN_PROJECT_ROWS, "rows that are cast together");
    const kin_set *rows = &prepared->set;
    const bool made = rows->padded > 0 && rows->ids == ids && rows->points == points;
    KIN_HOLD(hold, ctx);
    if (made && shadow->grid > 0.0 && may_multiply(rows)) {
        multiplying m = multiplying_of(shadow, rows, ctx->threads);
        KIN_TRY(kin_hold_layout(&hold, name_multiplying, &m, "rows in a basis"));
        set_lines(&m);
        return kin_set_make_from(ctx, &shadow->frame, &(kin_set_source){multiply_rows, &m}, points,
                                 set);
    }
    casting c = {.shadow = shadow,
                 .prepared = prepared,
                 .ids = ids,
                 .ops = kin_round_get(ctx->isa),
                 .threads = ctx->threads};
    KIN_TRY(kin_hold_layout(&hold, name_casting, &c, "rows in a basis"));
    return kin_set_make_from(ctx, &shadow->frame, &(kin_set_source){cast_some, &c}, points, set);
}

void kin_shadow_cast_plan(kin_layout *plan, const kin_shadow *shape, const kin_set *rows,
                          kin_set *cast, int32_t threads)
{
    casting c = {.shadow = shape, .threads = threads};
    const uint64_t before = kin_layout_mark(plan);
    if (may_multiply(rows)) {
        multiplying m = multiplying_of(shape, rows, threads);
        kin_layout_block(plan, name_multiplying, &m);
    } else {
        kin_layout_block(plan, name_casting, &c);
    }
    kin_set_plan(plan, cast, threads);
    kin_layout_back(plan, before);
    kin_set_plan(plan, cast, threads);
}
