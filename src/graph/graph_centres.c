/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_cells.h"

#include "host/host_threads.h"

#include <math.h>

enum { CENTRES_A_TASK = 16, POINTS_A_TASK = 1024 };

typedef struct moving {
    const kin_graph_points *points;
    const int64_t *starts;
    const uint32_t *members;
    kin_graph_centres *centres;
    double scale;
} moving;

/* ---- Values of rounded rows ----------------------------------------------------------------- */

static void add_bytes(const uint32_t *row, int64_t width, double *sums)
{
    const int8_t *values = (const int8_t *)row;
    for (int64_t i = 0; i < width; i++) {
        sums[i] += values[i];
    }
}

static void add_halves(const uint32_t *row, int64_t width, double *sums)
{
    for (int64_t i = 0; i < width; i++) {
        sums[i] += (int16_t)(row[i / 2] >> i % 2 * 16 & 0xffff);
    }
}

static void add_floats(const uint32_t *row, int64_t width, bool narrow, double *sums)
{
    for (int64_t i = 0; i < width; i++) {
        const kin_word word = {.u = narrow ? (row[i / 2] >> i % 2 * 16) << 16 : row[i]};
        sums[i] += (double)word.f;
    }
}

static void add_row(const kin_graph_points *points, uint32_t position, int64_t width, double *sums)
{
    const uint32_t *row = points->rows + (int64_t)position * points->stride;
    switch (points->kernel->type) {
    case KIN_TILE_S8:
        add_bytes(row, width, sums);
        break;
    case KIN_TILE_S16:
        add_halves(row, width, sums);
        break;
    case KIN_TILE_BF16:
        add_floats(row, width, true, sums);
        break;
    default:
        add_floats(row, width, false, sums);
        break;
    }
}

/* ---- Heights -------------------------------------------------------------------------------- */

/* Rows of bytes without a sign are stored with this taken off (screen_set.c): no difference knows
 * of it, but products do. */
static double taken_off(const kin_graph_points *points)
{
    const kin_prepared *prepared = points->prepared;
    const bool off =
        prepared->frame.bound == KIN_BOUND_INTEGER && prepared->rows.matrix.dtype == KITH_U8;
    return off ? 128.0 : 0.0;
}

static double square_of(const double *values, int32_t cols, double off)
{
    double sum = 0.0;
    for (int32_t i = 0; i < cols; i++) {
        sum += (values[i] + off) * (values[i] + off);
    }
    return sum;
}

typedef struct raising {
    const kin_graph_points *points;
    const kin_graph_centres *centres;
    double *rows; /* by thread: width */
    double *most; /* by thread: the largest square */
    double square;
    int32_t threads;
} raising;

static void name_raising(kin_layout *layout, void *job)
{
    raising *r = job;
    const uint64_t threads = (uint64_t)r->threads;
    r->rows = kin_layout_array(layout, kin_size_mul(threads, (uint64_t)r->centres->width),
                               sizeof *r->rows);
    r->most = kin_layout_zeros(layout, threads, sizeof *r->most);
}

/* Squares first, where heights will stand. */
static kith_status take_squares(void *arg, int64_t p, int32_t thread)
{
    const raising *r = arg;
    const int64_t width = r->centres->width;
    double *row = r->rows + thread * width;
    memset(row, 0, (size_t)width * sizeof *row);
    add_row(r->points, (uint32_t)p, width, row);
    const double square = square_of(row, r->points->prepared->frame.cols, taken_off(r->points));
    r->centres->heights[p] = (float)square;
    if (square > r->most[thread]) { /* seldom: others' stand beside it */
        r->most[thread] = square;
    }
    return KITH_OK;
}

static kith_status take_heights(void *arg, int64_t p, int32_t thread)
{
    (void)thread;
    const raising *r = arg;
    float *heights = r->centres->heights;
    heights[p] = (float)sqrt(fmax(r->square - (double)heights[p], 0.0));
    return KITH_OK;
}

static kith_status raise_points(kith_ctx *ctx, const kin_graph_points *points,
                                kin_graph_centres *centres)
{
    raising r = {.points = points, .centres = centres, .threads = ctx->threads};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_raising, &r, "threads"));
    KIN_TRY(kin_parallel_rows(ctx, "start", points->count, POINTS_A_TASK, take_squares, &r));
    for (int32_t t = 0; t < ctx->threads; t++) {
        r.square = fmax(r.square, r.most[t]);
    }
    return kin_parallel_rows(ctx, "start", points->count, POINTS_A_TASK, take_heights, &r);
}

/* ---- Where centres are ---------------------------------------------------------------------- */

/* Sums of whole numbers are exact in any order, so integer types have the same centres on every
 * machine. */
static kith_status take_means(void *arg, int64_t c, int32_t thread)
{
    (void)thread;
    const moving *m = arg;
    kin_graph_centres *centres = m->centres;
    const int64_t count = m->starts[c + 1] - m->starts[c];
    double *values = centres->values + c * centres->width;
    if (count == 0) {
        return KITH_OK;
    }
    double height = 0.0;
    memset(values, 0, (size_t)centres->width * sizeof *values);
    for (int64_t i = m->starts[c]; i < m->starts[c + 1]; i++) {
        add_row(m->points, m->members[i], centres->width, values);
        height += centres->heights != NULL ? (double)centres->heights[m->members[i]] : 0.0;
    }
    if (centres->heights != NULL) {
        centres->height[c] = (float)(height / (double)count);
    }
    for (int64_t i = 0; i < centres->width; i++) {
        values[i] /= (double)count;
    }
    return KITH_OK;
}

/* The middle of integer types, in whole numbers, and the largest of all |e|. */
static double measure(const kin_graph_centres *centres, bool is_float)
{
    double most = 0.0;
    memset(centres->middle, 0, (size_t)centres->width * sizeof *centres->middle);
    for (int64_t c = 0; c < centres->count && !is_float; c++) {
        for (int64_t i = 0; i < centres->width; i++) {
            centres->middle[i] += centres->values[c * centres->width + i];
        }
    }
    for (int64_t i = 0; i < centres->width; i++) {
        centres->middle[i] = rint(centres->middle[i] / (double)centres->count);
    }
    for (int64_t c = 0; c < centres->count; c++) {
        for (int64_t i = 0; i < centres->width; i++) {
            most = fmax(most, fabs(centres->values[c * centres->width + i] - centres->middle[i]));
        }
    }
    return most;
}

/* ---- As columns ----------------------------------------------------------------------------- */

static uint32_t half_of_float(float value)
{
    const kin_word word = {.f = value};
    return (word.u + 0x7fff + (word.u >> 16 & 1)) >> 16;
}

/* One value into its word; returns what is stored, in units of the rows. */
static double store(const moving *m, int64_t i, double e, uint32_t *word)
{
    kin_word cell = {.f = (float)e};
    switch (m->points->kernel->type) {
    case KIN_TILE_S8:
        cell.i = (int32_t)rint(e * m->scale);
        *word |= ((cell.u + 128) & 0xff) << i % 4 * 8;
        return cell.i;
    case KIN_TILE_S16:
        cell.i = (int32_t)rint(e * m->scale);
        *word |= (cell.u & 0xffff) << i % 2 * 16;
        return cell.i;
    case KIN_TILE_BF16:
        cell.u = half_of_float(cell.f) << 16;
        *word |= cell.u >> 16 << i % 2 * 16;
        return (double)cell.f;
    default:
        *word = cell.u;
        return (double)cell.f;
    }
}

/* The term of a centre as a column. squares, across: of what is stored. */
static kin_word term_of(const moving *m, double squares, double across)
{
    if (kin_tile_is_float(m->points->kernel->type)) {
        return (kin_word){.f = (float)squares};
    }
    return (kin_word){.i = (int32_t)rint(squares / m->scale) + 2 * (int32_t)across};
}

/* The same of a product, and what heights add. sum: of what is stored. */
static kin_word product_term_of(const moving *m, int64_t c, double sum)
{
    kin_graph_centres *centres = m->centres;
    const bool is_float = kin_tile_is_float(m->points->kernel->type);
    const double off = taken_off(m->points);
    const double scale = is_float ? 1.0 : m->scale;
    const double height = (double)centres->height[c];
    const double square =
        square_of(centres->values + c * centres->width, m->points->prepared->frame.cols, off);
    centres->lifts[c] = (float)(scale * (square + height * height));
    centres->slopes[c] = (float)(-2.0 * scale * height);
    return is_float ? (kin_word){.f = 0.0F} : (kin_word){.i = -2 * (int32_t)(off * sum)};
}

static kith_status store_centres(void *arg, int64_t c, int32_t thread)
{
    (void)thread;
    const moving *m = arg;
    kin_graph_centres *centres = m->centres;
    const kin_tile_type type = m->points->kernel->type;
    const int64_t size = kin_tile_group_size(type);
    uint32_t *words = centres->panels + c / KIN_PANEL * centres->pitch * KIN_PANEL + c % KIN_PANEL;
    const double *values = centres->values + c * centres->width;
    double squares = 0.0;
    double across = 0.0;
    double sum = 0.0;
    for (int64_t i = 0; i < centres->width; i++) {
        uint32_t *word = &words[i / size * KIN_PANEL];
        *word = i % size == 0 ? 0 : *word;
        const double stored = store(m, i, values[i] - centres->middle[i], word);
        squares += stored * stored;
        across += stored * centres->middle[i];
        sum += stored;
    }
    centres->terms[c] =
        centres->heights != NULL ? product_term_of(m, c, sum) : term_of(m, squares, across);
    return KITH_OK;
}

kith_status kin_graph_centres_move(kith_ctx *ctx, const kin_graph_points *points,
                                   const int64_t *starts, const uint32_t *members,
                                   kin_graph_centres *centres)
{
    moving m = {.points = points, .starts = starts, .members = members, .centres = centres};
    KIN_TRY(kin_parallel_rows(ctx, "start", centres->count, CENTRES_A_TASK, take_means, &m));
    const double most = measure(centres, kin_tile_is_float(points->kernel->type));
    m.scale = most > 0.0 ? 127.0 / most : 1.0;
    return kin_parallel_rows(ctx, "start", centres->count, CENTRES_A_TASK, store_centres, &m);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void name_centres(kin_layout *layout, void *job)
{
    kin_graph_centres *c = job;
    const uint64_t count = (uint64_t)c->count;
    const uint64_t padded = (uint64_t)c->padded;
    c->middle = kin_layout_zeros(layout, (uint64_t)c->width, sizeof *c->middle);
    c->panels =
        kin_layout_zeros(layout, kin_size_mul(padded, (uint64_t)c->pitch), sizeof *c->panels);
    c->terms = kin_layout_array(layout, padded, sizeof *c->terms);
    if (c->raised) {
        c->heights = kin_layout_array(layout, (uint64_t)c->points, sizeof *c->heights);
        c->height = kin_layout_zeros(layout, count, sizeof *c->height);
        c->lifts = kin_layout_zeros(layout, count, sizeof *c->lifts);
        c->slopes = kin_layout_zeros(layout, count, sizeof *c->slopes);
    }
}

kin_graph_centres kin_graph_centres_shape(const kin_frame *frame, int64_t points, int64_t count)
{
    return (kin_graph_centres){
        .count = count,
        .padded = kin_round_up(count, KIN_GRAPH_COLS_STEP),
        .width = (int64_t)frame->groups * kin_tile_group_size(frame->kernel->type),
        .pitch = kin_round_up(frame->groups, KIN_GRAPH_WIDE_STEP),
        .points = points,
        .raised = kin_metric_get_traits(frame->distance.metric)->screen == KIN_SCREEN_PRODUCT};
}

kith_status kin_graph_centres_make(kin_hold *hold, kin_hold *passing,
                                   const kin_graph_points *points, int64_t count,
                                   kin_graph_centres *centres)
{
    const kin_frame *frame = &points->prepared->frame;
    const bool is_float = kin_tile_is_float(points->kernel->type);
    *centres = kin_graph_centres_shape(frame, points->count, count);
    const uint64_t values = kin_size_mul((uint64_t)count, (uint64_t)centres->width);
    KIN_TRY(kin_hold_layout(hold, name_centres, centres, "centres"));
    KIN_NEW_ZERO(passing, centres->values, values, "centres");
    for (int64_t c = count; c < centres->padded; c++) {
        centres->terms[c] =
            is_float ? (kin_word){.f = KIN_LIMIT_ALL_F} : (kin_word){.i = KIN_LIMIT_ALL};
    }
    return centres->raised ? raise_points(hold->ctx, points, centres) : KITH_OK;
}

void kin_graph_centres_plan(kin_layout *plan, kin_graph_centres *centres, int32_t threads)
{
    raising r = {.centres = centres, .threads = threads};
    kin_layout_block(plan, name_centres, centres);
    kin_layout_alone(plan, (uint64_t)centres->count,
                     (uint64_t)centres->width * sizeof *centres->values);
    if (centres->raised) {
        kin_layout_passing(plan, name_raising, &r);
    }
}
