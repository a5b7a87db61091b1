/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_set.h"

#include "base/base_size.h"
#include "host/host_threads.h"

enum { PARTS_A_TASK = 8 * KIN_PANEL / KIN_SET_AT_ONCE, SHIFT_U8 = 128 };

/* Above this |x^|^2 a cost might leave 32 bits (screen_tile.h). */
static const double LARGEST_NORM_SQ = 0x1p28;
/* What is cut off a row is a loss like any other where it is less than rounding loses, or than so
 * much: all components of a row of bits are as large as the largest, and rounded. */
static const double SMALL_CUT = 0.01;

/* fp32: a norm may be larger than that of what is stored, and is so many times as large as what is
 * lost at least, so that the slack of a term is below its square (KIN_MEET_NORM, screen.h).
 */
static const float LOST_IN_NORM = 0x1p11F;

typedef struct making {
    kin_set *set;
    const kin_set_source *source; /* NULL: the set's rows */
    const kin_round_ops *round;
    double *values;   /* KIN_SET_AT_ONCE rows of doubles for each thread, and a rounded one */
    uint32_t *points; /* the words of a rounded row for each thread */
    int64_t wide;
    kin_bound_row *worst; /* by thread, each on its line of the cache, as their words are */
    int32_t threads;
} making;

enum { WORST_APART = KIN_MEM_ALIGNMENT / sizeof(kin_bound_row) };

static int64_t words_apart(const kin_frame *frame)
{
    return kin_round_up(frame->groups, KIN_MEM_ALIGNMENT / (int64_t)sizeof(uint32_t));
}

/* What a rounded row is made of besides its words. */
typedef struct row_facts {
    double stored_sq;
    double stored;
    double lost;
    bool far; /* drawn in: it is nearer to others than it was */
} row_facts;

static float up(double x)
{
    const float f = (float)x;
    return (double)f < x ? nextafterf(f, INFINITY) : f;
}

static row_facts facts_of(const kin_round_sums *sums, kin_bound_kind bound)
{
    /* lost: the rounding, the shift's own roundings, and components whose squares underflow
     * (docs/notes/numerics.md, "Rows"): a row that is not zero never counts as a lossless one. */
    const double rounding = sqrt(sums->lost_sq);
    const double cut = sqrt(sums->cut_sq);
    double lost = rounding + 0x1p-49 * (sqrt(sums->stored_sq) + rounding) + 0x1p-500;
    const bool far = bound == KIN_BOUND_DISTANCE && !(cut <= lost + SMALL_CUT);
    if (!far) {
        lost += cut * KIN_BOUND_WIDEN;
    }
    return (row_facts){sums->stored_sq, sums->stored, lost * KIN_BOUND_WIDEN, far};
}

static void pack_s8(const int32_t *values, int32_t groups, uint32_t *words)
{
    for (int32_t g = 0; g < groups; g++) {
        const int32_t *v = values + (int64_t)g * 4;
        words[g] = (((uint32_t)v[0] & 0xff) | ((uint32_t)v[1] & 0xff) << 8 |
                    ((uint32_t)v[2] & 0xff) << 16 | ((uint32_t)v[3] & 0xff) << 24) ^
                   0x80808080u;
    }
}

static void pack_s16(const int32_t *values, int32_t groups, uint32_t *words)
{
    for (int32_t g = 0; g < groups; g++) {
        words[g] = ((uint32_t)values[(int64_t)g * 2] & 0xffff) |
                   (uint32_t)values[(int64_t)g * 2 + 1] << 16;
    }
}

static void pack_bf16(const float *values, int32_t groups, uint32_t *words)
{
    for (int32_t g = 0; g < groups; g++) {
        const kin_word low = {.f = values[(int64_t)g * 2]};
        const kin_word high = {.f = values[(int64_t)g * 2 + 1]};
        words[g] = low.u >> 16 | (high.u & 0xffff0000u);
    }
}

/* A row of bytes as it is; u8 moves by 128 into s8, which changes no difference. So few columns
 * (screen_frame.c) leave room for sums of squares in 32 bits. rounded: room for the row. */
static row_facts take_row(const kin_set *set, int64_t row, int16_t *rounded, uint32_t *words)
{
    const kith_matrix *m = &set->rows->matrix;
    const unsigned char *from = (const unsigned char *)m->data + row * m->stride_bytes;
    const int32_t cols = set->frame->cols;
    const size_t bytes = (size_t)set->frame->groups * sizeof *words;
    const uint8_t flip = m->dtype == KITH_U8 ? SHIFT_U8 : 0;
    int32_t sum = 0;
    int32_t squares = 0;
    for (int32_t i = 0; i < cols; i++) {
        const int16_t value = (int8_t)(from[i] ^ flip);
        sum += value;
        squares += value * value;
    }
    if (set->frame->kernel->type == KIN_TILE_S8) {
        unsigned char *to = (unsigned char *)words;
        memset(to, SHIFT_U8, bytes);
        for (int32_t i = 0; i < cols; i++) {
            to[i] = from[i] ^ flip ^ SHIFT_U8;
        }
    } else {
        memset(rounded, 0, bytes);
        for (int32_t i = 0; i < cols; i++) {
            rounded[i] = (int8_t)(from[i] ^ flip);
        }
        memcpy(words, rounded, bytes);
    }
    return (row_facts){(double)squares, (double)sum, 0.0, false};
}

/* Distances: rows are drawn into a ball, and clamped to a box. Neither takes two rows farther apart
 * (docs/notes/numerics.md, "Rows that are far"). All of the corpus' usual rows are inside. */
static kin_round_sums round_integers(const making *m, kin_round_input in, void *rounded)
{
    const kin_frame *frame = m->set->frame;
    const double most = frame->kernel->type == KIN_TILE_S8 ? 127.0 : 32767.0;
    const double radius = kin_frame_radius(frame->cols);
    kin_round_sums sums = m->round->to_integer(&in, most, rounded);
    const double given_sq = sums.given_sq;
    const bool outside = !(given_sq <= radius * radius);
    if (outside && frame->bound == KIN_BOUND_DISTANCE && isfinite(given_sq)) {
        in.inverse *= radius / sqrt(given_sq);
        sums = m->round->to_integer(&in, most, rounded);
        sums.cut_sq = given_sq;
    } else if (sums.stored_sq > LARGEST_NORM_SQ || !isfinite(given_sq)) {
        /* Only a row far outside its corpus: the origin stands for it, and loses all of it. */
        memset(rounded, 0, (size_t)m->wide * sizeof(int32_t));
        sums = (kin_round_sums){.lost_sq = given_sq, .given_sq = given_sq};
    }
    return sums;
}

/* One row of values into words of the frame's type. */
static row_facts round_row(const making *m, const double *values, void *rounded, uint32_t *words)
{
    const kin_frame *frame = m->set->frame;
    const kin_tile_type type = frame->kernel->type;
    const kin_round_input in = {values, frame->mean, 1.0 / frame->scale,
                                kin_round_up(frame->cols, KIN_METRIC_LANES)};
    kin_round_sums sums;
    if (type == KIN_TILE_F32) {
        sums = m->round->to_f32(&in, rounded);
        memcpy(words, rounded, (size_t)frame->groups * sizeof *words);
        return facts_of(&sums, frame->bound);
    }
    if (type == KIN_TILE_BF16) {
        sums = m->round->to_bf16(&in, rounded);
        pack_bf16(rounded, frame->groups, words);
        return facts_of(&sums, frame->bound);
    }
    sums = round_integers(m, in, rounded);
    (type == KIN_TILE_S8 ? pack_s8 : pack_s16)(rounded, frame->groups, words);
    return facts_of(&sums, frame->bound);
}

/* term_j as column and term_i as row of an integer type; they differ by what the unsigned panels
 * of s8 add to the product (screen_tile.h). */
static void set_integer_terms(kin_set *set, int64_t p, const row_facts *facts)
{
    const bool product =
        kin_metric_get_traits(set->frame->distance.metric)->screen == KIN_SCREEN_PRODUCT;
    int64_t term = (int64_t)facts->stored_sq;
    if (product) {
        const bool shifted =
            set->frame->bound == KIN_BOUND_INTEGER && set->rows->matrix.dtype == KITH_U8;
        term = shifted ? -2 * SHIFT_U8 * (int64_t)facts->stored -
                             (int64_t)SHIFT_U8 * SHIFT_U8 * set->frame->cols
                       : 0;
    }
    const int64_t half = term >> 1; /* floor, for negatives too */
    set->start[p].i = (int32_t)-half;
    set->odd[p].i = (int32_t)(term - 2 * half);
    const int64_t unsigned_panels =
        set->frame->kernel->type == KIN_TILE_S8 ? 256 * (int64_t)facts->stored : 0;
    set->row_term[p].i = (int32_t)(term + unsigned_panels);
    set->half_term[p].i = (int32_t)((term + unsigned_panels) >> 1);
}

static void set_float_terms(kin_set *set, int64_t p, const row_facts *facts)
{
    const float term = set->frame->bound == KIN_BOUND_PRODUCT ? 0.0F : (float)facts->stored_sq;
    set->start[p].f = -0.5F * term;
    set->odd[p].i = 0; /* nobody reads it, but it goes into files */
    set->row_term[p].f = term;
    set->half_term[p].f = 0.5F * term;
}

static void set_facts(kin_set *set, int64_t p, const row_facts *facts, kin_bound_row *worst)
{
    if (kin_tile_is_float(set->frame->kernel->type)) {
        set_float_terms(set, p, facts);
    } else {
        set_integer_terms(set, p, facts);
    }
    if (set->lost != NULL) {
        const float lost = up(facts->lost);
        set->norm[p] = up(sqrt(facts->stored_sq) * KIN_BOUND_WIDEN);
        if (set->frame->kernel->type == KIN_TILE_F32 && set->frame->bound == KIN_BOUND_DISTANCE) {
            set->norm[p] = fmaxf(set->norm[p], LOST_IN_NORM * lost);
        }
        set->lost[p] = facts->far ? -lost : lost;
        worst->norm = fmax(worst->norm, (double)set->norm[p]);
        worst->lost = fmax(worst->lost, (double)lost);
    }
}

static void set_padding(kin_set *set, int64_t p)
{
    if (kin_tile_is_float(set->frame->kernel->type)) {
        set->start[p].f = KIN_PAD_START_F;
        set->odd[p].i = 0;
        set->half_term[p].f = KIN_PAD_TERM_F;
        set->row_term[p].f = KIN_PAD_TERM_F;
    } else {
        set->start[p].i = KIN_PAD_START;
        set->odd[p].i = 0;
        set->half_term[p].i = KIN_PAD_TERM;
        set->row_term[p].i = KIN_PAD_TERM;
    }
    if (set->lost != NULL) {
        set->norm[p] = 0.0F;
        set->lost[p] = 0.0F;
    }
}

static void store_words(const kin_set *set, int64_t p, const uint32_t *words)
{
    const int64_t groups = set->frame->groups;
    if (set->line > 0) {
        uint32_t *line = set->lines + p * set->line;
        memcpy(line, words, (size_t)groups * sizeof *words);
        memset(line + groups, 0, (size_t)(set->line - groups) * sizeof *words);
        return;
    }
    uint32_t *cells = set->panels + p / KIN_PANEL * groups * KIN_PANEL + p % KIN_PANEL;
    for (int64_t g = 0; g < groups; g++) {
        cells[g * KIN_PANEL] = words[g];
    }
}

/* Values of positions from `first` on; integers are read later, as they are. */
static void load_some(const making *m, int64_t first, int32_t thread, double *values, double *off)
{
    const kin_set *set = m->set;
    const int64_t count = kin_min_i64(KIN_SET_AT_ONCE, set->points - first);
    memset(off, 0, KIN_SET_AT_ONCE * sizeof *off);
    if (m->source != NULL && count > 0) {
        m->source->load(m->source->arg, thread, first, count, values, off);
        return;
    }
    for (int64_t next = first + KIN_SET_AT_ONCE;
         next < kin_min_i64(first + 2 * KIN_SET_AT_ONCE, set->points); next++) {
        kin_rows_fetch(set->rows, set->ids[next]);
    }
    for (int64_t i = 0; set->frame->bound != KIN_BOUND_INTEGER && i < count; i++) {
        (void)kin_metric_load(&set->frame->distance, set->rows, set->ids[first + i],
                              values + i * m->wide);
    }
}

static kith_status make_some(void *arg, int64_t part, int32_t thread)
{
    const making *m = arg;
    const int64_t first = part * KIN_SET_AT_ONCE;
    kin_set *set = m->set;
    const kin_frame *frame = set->frame;
    uint32_t *words = m->points + thread * words_apart(frame);
    double *values = m->values + (int64_t)thread * (KIN_SET_AT_ONCE + 1) * m->wide;
    double *rounded = values + KIN_SET_AT_ONCE * m->wide;
    double off[KIN_SET_AT_ONCE];
    load_some(m, first, thread, values, off);
    for (int64_t i = 0; i < KIN_SET_AT_ONCE; i++) {
        const int64_t p = first + i;
        if (p < set->points) {
            row_facts facts = frame->bound == KIN_BOUND_INTEGER
                                  ? take_row(set, set->ids[p], (int16_t *)rounded, words)
                                  : round_row(m, values + i * m->wide, rounded, words);
            facts.lost += off[i] / frame->scale * KIN_BOUND_WIDEN;
            set_facts(set, p, &facts, &m->worst[thread * WORST_APART]);
        } else {
            memset(words, 0, (size_t)frame->groups * sizeof *words);
            set_padding(set, p);
        }
        store_words(set, p, words);
    }
    return KITH_OK;
}

static void name_arrays(kin_layout *layout, void *job)
{
    kin_set *set = job;
    const uint64_t n = (uint64_t)set->padded;
    const uint64_t words =
        kin_size_mul(n, (uint64_t)(set->line > 0 ? set->line : set->frame->groups));
    uint32_t *rows = kin_layout_array(layout, words, sizeof *rows);
    set->panels = set->line > 0 ? NULL : rows;
    set->lines = set->line > 0 ? rows : NULL;
    set->start = kin_layout_array(layout, n, sizeof *set->start);
    set->odd = kin_layout_array(layout, n, sizeof *set->odd);
    set->half_term = kin_layout_array(layout, n, sizeof *set->half_term);
    set->row_term = kin_layout_array(layout, n, sizeof *set->row_term);
    if (set->frame->bound != KIN_BOUND_INTEGER) {
        set->norm = kin_layout_array(layout, n, sizeof *set->norm);
        set->lost = kin_layout_array(layout, n, sizeof *set->lost);
    }
}

/* A rounded row is as wide as its groups or as the expanded row, whichever is more. */
int64_t kin_set_wide(const kin_frame *frame)
{
    return kin_round_up(
        kin_max_i64(frame->cols, (int64_t)frame->groups * kin_tile_group_size(frame->kernel->type)),
        KIN_METRIC_LANES);
}

static void name_making(kin_layout *layout, void *job)
{
    making *m = job;
    const kin_frame *frame = m->set->frame;
    const uint64_t threads = (uint64_t)m->threads;
    m->wide = kin_set_wide(frame);
    m->values =
        kin_layout_zeros(layout, kin_size_mul(threads, (KIN_SET_AT_ONCE + 1) * (uint64_t)m->wide),
                         sizeof *m->values);
    m->points = kin_layout_array(layout, kin_size_mul(threads, (uint64_t)words_apart(frame)),
                                 sizeof *m->points);
    m->worst = kin_layout_zeros(layout, threads * WORST_APART, sizeof *m->worst);
}

kin_set kin_set_shape(const kin_frame *frame, int64_t points)
{
    return (kin_set){
        .frame = frame, .points = points, .padded = kin_round_up(points, KIN_BLOCK_STEP)};
}

kin_set kin_set_shape_lines(const kin_frame *frame, int64_t points)
{
    kin_set set = kin_set_shape(frame, points);
    set.line = (int32_t)kin_round_up(frame->groups, KIN_LINE_STEP);
    return set;
}

void kin_set_plan(kin_layout *plan, kin_set *shape, int32_t threads)
{
    making m = {.set = shape, .threads = threads};
    kin_layout_block(plan, name_arrays, shape);
    kin_layout_passing(plan, name_making, &m);
}

/* The rows of a shape. */
static kith_status fill(kith_ctx *ctx, const kin_set_source *source, kin_set *set)
{
    making m = {
        .set = set, .source = source, .round = kin_round_get(ctx->isa), .threads = ctx->threads};
    const int64_t parts = set->padded / KIN_SET_AT_ONCE; /* padded to whole panels */
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_layout_make(ctx, name_arrays, set, "the rounded copy of the points", &set->block));
    kith_status status = kin_hold_layout(&hold, name_making, &m, "rows in double");
    KIN_THEN(status, kin_parallel_rows(ctx, "prepare", parts, PARTS_A_TASK, make_some, &m));
    if (status != KITH_OK) {
        kin_set_free(ctx, set);
        return status;
    }
    for (int32_t t = 0; t < m.threads; t++) {
        set->worst.norm = fmax(set->worst.norm, m.worst[t * WORST_APART].norm);
        set->worst.lost = fmax(set->worst.lost, m.worst[t * WORST_APART].lost);
    }
    return KITH_OK;
}

kith_status kin_set_make(kith_ctx *ctx, kin_set shape, const kin_rows *rows, const uint32_t *ids,
                         kin_set *set)
{
    *set = shape;
    set->rows = rows;
    set->ids = ids;
    return fill(ctx, NULL, set);
}

kith_status kin_set_make_from(kith_ctx *ctx, const kin_frame *frame, const kin_set_source *source,
                              int64_t points, kin_set *set)
{
    *set = kin_set_shape(frame, points);
    return fill(ctx, source, set);
}

const uint32_t *kin_set_panels(const kin_set *set, int64_t first, int64_t count, uint32_t *room)
{
    const int64_t groups = set->frame->groups;
    if (set->line == 0) {
        return set->panels + first * groups;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint32_t *line = set->lines + (first + i) * set->line;
        uint32_t *cells = room + i / KIN_PANEL * groups * KIN_PANEL + i % KIN_PANEL;
        for (int64_t g = 0; g < groups; g++) {
            cells[g * KIN_PANEL] = line[g];
        }
    }
    return room;
}

void kin_set_free(kith_ctx *ctx, kin_set *set)
{
    kin_free(ctx, set->block);
    memset(set, 0, sizeof *set);
}
