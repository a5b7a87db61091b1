/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_join.h"

#include "host/host_cpu.h"
#include "host/host_threads.h"

/* Which kernel serves a type on a machine. */

#define KERNEL(TYPE, type, NAME, isa) [KIN_TILE_##TYPE][KIN_ISA_##NAME] = &kin_graph_##type##_##isa,
static const void *const kernels[KIN_TILE_TYPES][KIN_ISA_COUNT] = {KIN_PRODUCT_MAP(KERNEL)};

const kin_graph_words *kin_graph_words_get(kin_isa isa)
{
    static const void *const bodies[KIN_ISA_COUNT] = KIN_BODIES(kin_graph_words);
    return kin_isa_pick(isa, bodies);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* What a matcher's arrays are as large as. */
typedef struct sizes {
    uint64_t samples;
    uint64_t rows;
    uint64_t cols;
    uint64_t wide; /* 0: direct */
    uint64_t expanded;
} sizes;

static sizes sizes_of(int32_t groups, int32_t components, int32_t most_new, int32_t most_old)
{
    const int64_t samples = (int64_t)most_new + most_old;
    return (sizes){.samples = (uint64_t)samples,
                   .rows = (uint64_t)kin_round_up(samples, KIN_GRAPH_ROWS_STEP),
                   .cols = (uint64_t)kin_round_up(most_new, KIN_GRAPH_COLS_STEP),
                   .wide = (uint64_t)kin_round_up(groups, KIN_GRAPH_WIDE_STEP),
                   .expanded = (uint64_t)kin_round_up(components, KIN_METRIC_LANES)};
}

kin_graph_points kin_graph_points_shape(const kin_frame *frame, const kin_distance *distance,
                                        kin_prepared *prepared)
{
    prepared->distance = *distance;
    if (frame == NULL) {
        return (kin_graph_points){.prepared = prepared};
    }
    prepared->frame = *frame;
    return (kin_graph_points){.prepared = prepared,
                              .kernel = kin_isa_pick(distance->isa, kernels[frame->kernel->type]),
                              .symmetric = kin_metric_get_traits(distance->metric)->symmetric};
}

/* Rows, panels and terms are zeros at first: kernels multiply whole tiles, also what no sample was
 * gathered into. */
static void name_tiles(kin_layout *layout, const sizes *s, kin_graph_join *m)
{
    m->rows = kin_layout_zeros(layout, kin_size_mul(s->rows, s->wide), sizeof *m->rows);
    m->cols = kin_layout_zeros(layout, kin_size_mul(s->cols, s->wide), sizeof *m->cols);
    m->row_terms = kin_layout_zeros(layout, s->rows, sizeof *m->row_terms);
    m->col_terms = kin_layout_zeros(layout, s->cols, sizeof *m->col_terms);
}

void kin_graph_join_name(kin_layout *layout, const kin_graph_points *points, int32_t most_new,
                         int32_t most_old, kin_graph_join *matcher)
{
    const kin_prepared *prepared = points->prepared;
    const bool screens = points->kernel != NULL;
    const sizes s =
        sizes_of(screens ? prepared->frame.groups : 0, prepared->distance.cols, most_new, most_old);
    const uint64_t costs = kin_size_mul(s.rows, s.cols);
    kin_graph_join *m = matcher;
    *m = (kin_graph_join){.points = points,
                          .least = kin_graph_words_get(prepared->distance.isa)->least,
                          .most_new = most_new,
                          .most_old = most_old,
                          .stride = (int64_t)s.cols};
    m->orders = kin_layout_zeros(layout, costs, sizeof *m->orders);
    m->back = points->symmetric ? m->orders : kin_layout_zeros(layout, costs, sizeof *m->back);
    m->ids = kin_layout_array(layout, s.samples + 1, sizeof *m->ids);
    m->nearest = kin_layout_array(layout, 2 * s.rows + 4 * s.cols, sizeof *m->nearest);
    if (screens) {
        name_tiles(layout, &s, m);
    } else {
        m->query = kin_layout_array(layout, s.expanded, sizeof *m->query);
        m->keys = kin_layout_array(layout, s.samples, sizeof *m->keys);
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Rows meet columns. own: these are the first of the rows, and a row meets those before it alone.
 */
typedef struct meeting {
    const uint32_t *rows;
    int32_t row_count;
    const uint32_t *cols;
    int32_t col_count;
    bool own;
} meeting;

/* Columns are gathered where rows come after them. */
static void match_products(kin_graph_join *m, const meeting *of)
{
    const kin_graph_points *points = m->points;
    const kin_graph_kernel *kernel = points->kernel;
    const int64_t wide = kin_round_up(points->prepared->frame.groups, KIN_GRAPH_WIDE_STEP);
    const int32_t cols = (int32_t)kin_round_up(of->col_count, KIN_PANEL);
    for (int32_t j = 0; j < of->col_count; j++) {
        m->col_terms[j] = points->terms[of->cols[j]].col;
    }
    if (of->own) {
        kin_graph_take_rows(points, of->rows, of->row_count, m->rows, m->row_terms);
    } else {
        kernel->gather(points, of->cols, of->col_count, wide, m->rows);
    }
    kernel->transpose(m->rows, wide, cols, m->cols);
    if (!of->own) {
        kin_graph_take_rows(points, of->rows, of->row_count, m->rows, m->row_terms);
    }
    kin_graph_multiply(points, (kin_graph_product){.rows = m->rows,
                                                   .panels = m->cols,
                                                   .pitch = wide,
                                                   .before = of->own ? 0 : cols,
                                                   .row_count = of->row_count,
                                                   .col_count = cols,
                                                   .row_terms = m->row_terms,
                                                   .col_terms = m->col_terms,
                                                   .orders = m->orders,
                                                   .stride = m->stride});
}

/* ---- Direct metrics ------------------------------------------------------------------------- */

/* Keys of one query against samples, to m->keys. */
static void query_keys(kin_graph_join *m, uint32_t position, const uint32_t *samples, int32_t count)
{
    const kin_graph_points *points = m->points;
    const kin_prepared *prepared = points->prepared;
    for (int32_t i = 0; i < count; i++) {
        m->ids[i] = points->ids[samples[i]];
    }
    const kin_query query =
        kin_metric_load(&prepared->distance, &prepared->rows, points->ids[position], m->query);
    kin_metric_keys(&prepared->distance, &query, &prepared->rows, m->ids, count, m->keys);
}

static void match_direct(kin_graph_join *m, const meeting *of)
{
    for (int32_t j = 0; j < of->col_count; j++) {
        const int32_t first = of->own ? j + 1 : 0;
        query_keys(m, of->cols[j], of->rows + first, of->row_count - first);
        for (int32_t i = first; i < of->row_count; i++) {
            m->back[i * m->stride + j] = kin_graph_order_of_float((float)m->keys[i - first]);
        }
    }
    for (int32_t i = of->own; i < of->row_count && !m->points->symmetric; i++) {
        const int32_t asked = of->own && i < of->col_count ? i : of->col_count;
        query_keys(m, of->rows[i], of->cols, asked);
        for (int32_t j = 0; j < asked; j++) {
            m->orders[i * m->stride + j] = kin_graph_order_of_float((float)m->keys[j]);
        }
    }
}

/* ---- Meetings ------------------------------------------------------------------------------- */

static void match(kin_graph_join *m, const meeting *of)
{
    if (m->points->kernel != NULL) {
        match_products(m, of);
    } else {
        match_direct(m, of);
    }
}

void kin_graph_join_run(kin_graph_join *matcher, const uint32_t *samples, int32_t new_count,
                        int32_t old_count)
{
    const meeting of = {samples, new_count + old_count, samples, new_count, true};
    if (new_count > 0) {
        matcher->evaluations += 0.5 * new_count * (new_count - 1) + (double)new_count * old_count;
        match(matcher, &of);
    }
}

void kin_graph_join_between(kin_graph_join *matcher, const uint32_t *rows, int32_t row_count,
                            const uint32_t *cols, int32_t col_count)
{
    const meeting of = {rows, row_count, cols, col_count, false};
    if (row_count > 0 && col_count > 0) {
        matcher->evaluations += (double)row_count * col_count;
        match(matcher, &of);
    }
}

void kin_graph_join_one(kin_graph_join *matcher, uint32_t position, const uint32_t *others,
                        int64_t count, uint32_t *orders)
{
    kin_graph_join *m = matcher;
    const int64_t most = kin_max_i64((int64_t)m->most_new + m->most_old - 1, 1);
    m->evaluations += (double)count;
    for (int64_t first = 0; first < count; first += most) {
        const int32_t part = (int32_t)kin_min_i64(most, count - first);
        if (m->points->kernel == NULL) {
            query_keys(m, position, others + first, part);
            for (int32_t i = 0; i < part; i++) {
                orders[first + i] = kin_graph_order_of_float((float)m->keys[i]);
            }
            continue;
        }
        m->ids[0] = position;
        memcpy(m->ids + 1, others + first, (size_t)part * sizeof *others);
        match_products(m, &(meeting){m->ids, part + 1, m->ids, 1, true});
        for (int32_t i = 0; i < part; i++) {
            orders[first + i] = m->orders[(1 + i) * m->stride];
        }
    }
}

/* ---- The nearest ---------------------------------------------------------------------------- */

static uint64_t word_of(uint32_t order, uint32_t sample, const uint32_t *samples)
{
    return order == UINT32_MAX ? KIN_GRAPH_EMPTY : kin_graph_word(order, samples[sample], 1);
}

void kin_graph_join_least(const kin_graph_join *matcher, const uint32_t *samples, int32_t new_count,
                          int32_t old_count, uint64_t *nearest_new, uint64_t *nearest_old)
{
    const int32_t count = new_count + old_count;
    const int64_t rows =
        kin_round_up((int64_t)matcher->most_new + matcher->most_old, KIN_GRAPH_ROWS_STEP);
    const int64_t cols = matcher->stride;
    uint32_t *room = matcher->nearest;
    const kin_graph_least least = {.row_order = room,
                                   .row_sample = room + rows,
                                   .new_order = room + 2 * rows,
                                   .new_sample = room + 2 * rows + cols,
                                   .old_order = room + 2 * rows + 2 * cols,
                                   .old_sample = room + 2 * rows + 3 * cols};
    matcher->least(matcher->orders, matcher->back, matcher->stride, new_count, count, &least);
    for (int32_t i = 0; i < count; i++) {
        /* Samples of columns stand before i, those of rows behind it. */
        const bool later = i < new_count && least.new_order[i] < least.row_order[i];
        nearest_new[i] = later ? word_of(least.new_order[i], least.new_sample[i], samples)
                               : word_of(least.row_order[i], least.row_sample[i], samples);
    }
    for (int32_t j = 0; j < new_count; j++) {
        nearest_old[j] = word_of(least.old_order[j], least.old_sample[j], samples);
    }
}

/* Rows of the exact engine's rounded set, out of their panels. */

enum { PANELS_A_TASK = 64 };

/* Words of a row: so many that none crosses a line that it need not. */
static int64_t row_stride(int32_t groups)
{
    int64_t stride = 1;
    while (stride < groups && stride < KIN_GRAPH_WIDE_STEP) {
        stride *= 2;
    }
    return stride >= groups ? stride : kin_round_up(groups, KIN_GRAPH_WIDE_STEP);
}

static kin_graph_terms terms_of(const kin_set *set, int64_t position)
{
    kin_graph_terms terms = {.row = set->row_term[position]};
    if (kin_tile_is_float(set->frame->kernel->type)) {
        terms.col.f = -2.0F * set->start[position].f;
    } else {
        terms.col.i = set->odd[position].i - 2 * set->start[position].i;
    }
    return terms;
}

static kith_status take_panels(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_graph_points *points = arg;
    const kin_set *set = &points->prepared->set;
    const int64_t groups = set->frame->groups;
    const uint32_t flip = set->frame->kernel->type == KIN_TILE_S8 ? 0x80808080u : 0;
    const int64_t first = task * PANELS_A_TASK * KIN_PANEL;
    const int64_t last = kin_min_i64(first + (int64_t)PANELS_A_TASK * KIN_PANEL, points->count);
    for (int64_t p = first; p < last; p++) {
        const uint32_t *from = set->panels + p / KIN_PANEL * groups * KIN_PANEL + p % KIN_PANEL;
        uint32_t *to = points->rows + p * points->stride;
        for (int64_t g = 0; g < groups; g++) {
            to[g] = from[g * KIN_PANEL] ^ flip;
        }
        for (int64_t g = groups; g < points->stride; g++) {
            to[g] = 0;
        }
        points->terms[p] = terms_of(set, p);
    }
    return KITH_OK;
}

static kith_status take_rows(kith_ctx *ctx, kin_graph_points *points)
{
    const kin_frame *frame = &points->prepared->frame;
    points->kernel = kin_isa_pick(points->prepared->distance.isa, kernels[frame->kernel->type]);
    points->stride = row_stride(frame->groups);
    const uint64_t count = (uint64_t)points->count;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &points->rows, kin_size_mul(count, (uint64_t)points->stride),
                           sizeof *points->rows, "the rounded rows"),
                 done);
    KIN_TRY_GOTO(status, kin_alloc(ctx, &points->terms, count, sizeof *points->terms, "row terms"),
                 done);
    status = kin_parallel(ctx, "prepare",
                          kin_ceil_div(points->count, (int64_t)PANELS_A_TASK * KIN_PANEL),
                          take_panels, points);
done:
    if (status != KITH_OK) {
        kin_graph_points_free(ctx, points);
    }
    return status;
}

kith_status kin_graph_points_make(kith_ctx *ctx, const kin_prepared *prepared,
                                  kin_graph_points *points)
{
    *points = (kin_graph_points){
        .prepared = prepared,
        .count = prepared->groups.count,
        .ids = prepared->order,
        .symmetric = kin_metric_get_traits(prepared->distance.metric)->symmetric,
    };
    return prepared->set.panels != NULL ? take_rows(ctx, points) : KITH_OK;
}

void kin_graph_points_free(kith_ctx *ctx, kin_graph_points *points)
{
    kin_free(ctx, points->terms);
    kin_free(ctx, points->rows);
    *points = (kin_graph_points){0};
}

uint64_t kin_graph_points_bytes(const kin_frame *frame, int64_t count)
{
    if (frame == NULL) {
        return 0;
    }
    const uint64_t a_row =
        (uint64_t)row_stride(frame->groups) * sizeof(uint32_t) + sizeof(kin_graph_terms);
    return kin_size_mul((uint64_t)count, a_row);
}
