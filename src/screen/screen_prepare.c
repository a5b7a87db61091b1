/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_prepare.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"

#include <stdio.h>

static kith_status transform(kith_ctx *ctx, kin_prepared *prepared)
{
    if (!kin_metric_get_traits(prepared->distance.metric)->transforms) {
        return KITH_OK;
    }
    kin_row_transform *transforms = NULL;
    KIN_TRY(kin_alloc(ctx, &transforms, (uint64_t)prepared->rows.matrix.rows, sizeof *transforms,
                      "row norms"));
    prepared->rows.transforms = transforms;
    return kin_metric_transforms(ctx, &prepared->rows.matrix, prepared->distance.metric,
                                 transforms);
}

/* What the metric makes of rows, and which are equal. */
static kith_status group_rows(kith_ctx *ctx, bool distinguish, kin_prepared *p)
{
    KIN_TRY(transform(ctx, p));
    KIN_TRY(kin_groups_make(ctx, &p->rows, distinguish, &p->groups));
    const uint64_t count = (uint64_t)p->groups.count;
    KIN_TRY(kin_alloc(ctx, &p->order, count, sizeof *p->order, "the order of the points"));
    memcpy(p->order, p->groups.firsts, (size_t)count * sizeof *p->order);
    return KITH_OK;
}

kith_status kin_prepare_rows(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             const char *name, int flags, kin_prepared *prepared)
{
    memset(prepared, 0, sizeof *prepared);
    prepared->rows.matrix = *matrix;
    prepared->distance = *distance;
    int64_t start = kin_clock_ns();
    if ((flags & KIN_ROWS_CHECKED) == 0) {
        KIN_TRY(kin_metric_check_box(ctx, matrix, distance, name));
    }
    prepared->seconds_check = kin_clock_since(start);
    start = kin_clock_ns();
    const kith_status status = group_rows(ctx, (flags & KIN_ROWS_DISTINCT) != 0, prepared);
    prepared->seconds_prepare = kin_clock_since(start);
    if (status != KITH_OK) {
        kin_prepared_free(ctx, prepared);
    }
    return status;
}

kin_rows_known kin_prepare_unknown(const kith_matrix *matrix, const kin_distance *distance)
{
    return (kin_rows_known){.distinct = matrix->rows,
                            .equal = true,
                            .degenerate = kin_metric_get_traits(distance->metric)->transforms};
}

kith_status kin_prepare_know(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             kin_rows_known *known)
{
    kin_prepared prepared;
    *known = kin_prepare_unknown(matrix, distance);
    const kith_status status =
        kin_prepare_rows(ctx, matrix, distance, "corpus", KIN_ROWS_CHECKED, &prepared);
    if (status == KITH_E_MEMORY || status == KITH_E_LIMIT) {
        kin_forgive(ctx);
        return KITH_OK;
    }
    KIN_TRY(status);
    *known = (kin_rows_known){.distinct = prepared.groups.count,
                              .equal = prepared.groups.next != NULL,
                              .degenerate = prepared.groups.degenerate > 0,
                              .counted = true};
    kin_prepared_free(ctx, &prepared);
    return KITH_OK;
}

void kin_prepare_rows_plan(kin_layout *plan, int64_t rows, const kin_distance *distance,
                           bool distinguish, kin_rows_known known)
{
    if (kin_metric_get_traits(distance->metric)->transforms) {
        kin_layout_alone(plan, (uint64_t)rows, sizeof(kin_row_transform));
    }
    kin_groups_plan(plan, rows, distinguish, known);
    kin_layout_alone(plan, (uint64_t)(distinguish ? rows : known.distinct), sizeof(uint32_t));
}

void kin_glance_free(kith_ctx *ctx, kin_glance *glance)
{
    kin_free(ctx, glance->lost);
    kin_set_free(ctx, &glance->cast);
    kin_free(ctx, glance->shadow.block);
    memset(glance, 0, sizeof *glance);
}

void kin_prepared_free(kith_ctx *ctx, kin_prepared *prepared)
{
    kin_cover_free(ctx, &prepared->cover);
    kin_glance_free(ctx, &prepared->glance);
    kin_set_free(ctx, &prepared->sieve);
    kin_free(ctx, prepared->sieve_shadow.block);
    kin_set_free(ctx, &prepared->cast);
    kin_free(ctx, prepared->shadow.block);
    kin_set_free(ctx, &prepared->set);
    kin_frame_stats_free(ctx, &prepared->stats);
    kin_free(ctx, prepared->order);
    kin_groups_free(ctx, &prepared->groups);
    /* The pointer is const for readers; the block is ours. */
    union {
        const kin_row_transform *read;
        kin_row_transform *own;
    } transforms = {prepared->rows.transforms};
    kin_free(ctx, transforms.own);
    memset(prepared, 0, sizeof *prepared);
}

void kin_prepared_tell(kith_ctx *ctx, const kin_prepared *prepared)
{
    ctx->report.seconds_check += prepared->seconds_check;
    ctx->report.seconds_prepare += prepared->seconds_prepare;
}

static void give_prepared(void *ctx, void *prepared)
{
    kin_prepared_free(ctx, prepared);
}

void kin_prepared_hold(kin_hold *hold, kin_prepared *prepared)
{
    kin_hold_take(hold, give_prepared, hold->ctx, prepared);
}

bool kin_is_screened(const kin_distance *distance)
{
    return distance->period == NULL &&
           kin_metric_get_traits(distance->metric)->screen != KIN_SCREEN_DIRECT;
}

void kin_prepared_report(kith_ctx *ctx, const kin_prepared *corpus)
{
    const char *screen = "direct";
    if (kin_is_screened(&corpus->distance)) {
        screen =
            corpus->frame.kernel != NULL ? kin_tile_type_name(corpus->frame.kernel->type) : "none";
    }
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "%s", screen);
    (void)snprintf(ctx->report.isa, sizeof ctx->report.isa, "%s", kin_isa_name(ctx->isa));
}

/* ---- Rows that are bytes ---------------------------------------------------------------------
 *
 * Pixels, counts and descriptors of bytes are often kept as floats. Read back as the bytes that
 * they are, they need no try of a type, no rounding and no keys behind the screen, and a fourth of
 * the memory's traffic. A canonical key depends on the components' values alone, so answers stay as
 * they are (docs/notes/numerics.md, "Whole numbers as floats"). */

enum { ROWS_A_TASK = 256 };

/* One thread's row: as doubles, and as bytes. */
typedef struct room {
    KIN_APART double *values;
    uint8_t *bytes;
} room;

typedef struct taking {
    const kin_distance *distance;
    const kin_round_ops *ops;
    kin_rows rows;
    uint8_t *copy;     /* of the rows, dense; NULL: they are looked at alone */
    atomic_uint kinds; /* types that hold all rows so far */
    int64_t wide;
    int32_t threads;
    room *rooms;
} taking;

static unsigned kinds_of(kith_dtype dtype)
{
    return dtype == KITH_U8   ? KIN_BYTES_U8
           : dtype == KITH_I8 ? KIN_BYTES_I8
                              : KIN_BYTES_U8 | KIN_BYTES_I8;
}

static bool is_float(const kith_matrix *m)
{
    return m->dtype != KITH_U8 && m->dtype != KITH_I8;
}

static bool may_take(const kin_distance *distance, const kith_matrix *corpus,
                     const kith_matrix *queries)
{
    kith_matrix bytes = *corpus;
    bytes.dtype = KITH_U8;
    return (is_float(corpus) || is_float(queries)) &&
           (kinds_of(corpus->dtype) & kinds_of(queries->dtype)) != 0 && kin_is_screened(distance) &&
           kin_frame_is_integer(distance, &bytes, &bytes);
}

static uint64_t bytes_of(const kith_matrix *m)
{
    return is_float(m) ? kin_size_mul((uint64_t)m->rows, (uint64_t)m->cols) : 0;
}

static void name_rooms(kin_layout *layout, void *job)
{
    taking *t = job;
    t->rooms = kin_layout_zeros(layout, (uint64_t)t->threads, sizeof *t->rooms);
    for (int32_t i = 0; i < t->threads; i++) {
        room spare;
        room *one = kin_layout_item(t->rooms, i, &spare);
        one->values = kin_layout_array(layout, (uint64_t)t->wide, sizeof *one->values);
        one->bytes = kin_layout_array(layout, (uint64_t)t->wide, sizeof *one->bytes);
    }
}

/* Once a row is of no type the others are not read. */
static kith_status take_row(void *arg, int64_t row, int32_t thread)
{
    taking *t = arg;
    const room *own = &t->rooms[thread];
    const size_t cols = (size_t)t->rows.matrix.cols;
    if (atomic_load_explicit(&t->kinds, memory_order_relaxed) == 0) {
        return KITH_OK;
    }
    (void)kin_metric_load(t->distance, &t->rows, row, own->values);
    const unsigned kinds = t->ops->to_bytes(own->values, t->wide, own->bytes);
    (void)atomic_fetch_and_explicit(&t->kinds, kinds, memory_order_relaxed);
    if (t->copy != NULL) {
        memcpy(t->copy + (size_t)row * cols, own->bytes, cols);
    }
    return KITH_OK;
}

/* copy NULL: the first of them says mostly that they are something else. */
static kith_status take_rows(kith_ctx *ctx, taking *t, kith_matrix *matrix, uint8_t *copy)
{
    t->rows.matrix = *matrix;
    t->copy = copy;
    if (!is_float(matrix) || matrix->rows == 0) {
        return KITH_OK;
    }
    if (copy == NULL) {
        return take_row(t, 0, 0);
    }
    matrix->data = copy;
    matrix->stride_bytes = matrix->cols;
    return kin_parallel_rows(ctx, "check", t->rows.matrix.rows, ROWS_A_TASK, take_row, t);
}

/* Of a graph the second has no rows. What few queries are is known before the corpus is read. */
static kith_status take_both(kith_ctx *ctx, taking *t, kith_matrix taken[2], uint8_t *copy)
{
    uint8_t *second = copy != NULL ? copy + bytes_of(&taken[0]) : NULL;
    KIN_TRY(take_rows(ctx, t, &taken[1], second));
    return take_rows(ctx, t, &taken[0], copy);
}

/* Copies are the hold's where t->kinds says that there are types for them. */
static kith_status take(kin_hold *hold, taking *t, kith_matrix taken[2])
{
    const uint64_t bytes = kin_size_add(bytes_of(&taken[0]), bytes_of(&taken[1]));
    uint8_t *copy = NULL;
    KIN_HOLD(rooms, hold->ctx);
    KIN_TRY(kin_hold_layout(&rooms, name_rooms, t, "rows as bytes"));
    KIN_TRY(take_both(hold->ctx, t, taken, NULL));
    if (atomic_load(&t->kinds) == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_alloc(hold->ctx, &copy, bytes, 1, "rows as bytes"));
    const kith_status status = take_both(hold->ctx, t, taken, copy);
    if (status == KITH_OK && atomic_load(&t->kinds) != 0) {
        kin_hold_block(hold, copy);
    } else {
        kin_free(hold->ctx, copy);
    }
    return status;
}

kith_status kin_bytes_take(kin_hold *hold, const kin_distance *distance, kith_matrix *corpus,
                           kith_matrix *queries)
{
    const int64_t start = kin_clock_ns();
    const kith_matrix *asked = queries != NULL ? queries : corpus;
    kith_matrix taken[2] = {*corpus, queries != NULL ? *queries : (kith_matrix){.dtype = KITH_U8}};
    taking t = {.distance = distance,
                .ops = kin_round_get(hold->ctx->isa),
                .wide = kin_round_up(corpus->cols, KIN_METRIC_LANES),
                .threads = hold->ctx->threads};
    if (hold->ctx->params.memory_limit != 0 || !may_take(distance, corpus, asked)) {
        return KITH_OK;
    }
    atomic_init(&t.kinds, kinds_of(corpus->dtype) & kinds_of(asked->dtype));
    const kith_status status = take(hold, &t, taken);
    hold->ctx->report.seconds_check += kin_clock_since(start);
    if (status == KITH_E_MEMORY || status == KITH_E_LIMIT) {
        kin_forgive(hold->ctx); /* the rows as they are may take less */
        return KITH_OK;
    }
    const unsigned kinds = atomic_load(&t.kinds);
    if (status == KITH_OK && kinds != 0) {
        taken[0].dtype = (kinds & KIN_BYTES_U8) != 0 ? KITH_U8 : KITH_I8;
        taken[1].dtype = taken[0].dtype;
        *corpus = taken[0];
        if (queries != NULL) {
            *queries = taken[1];
        }
    }
    return status;
}

bool kin_bytes_plan(kin_layout *plan, const kin_distance *distance, int32_t threads,
                    kith_matrix *corpus, kith_matrix *queries)
{
    const kith_matrix *asked = queries != NULL ? queries : corpus;
    taking t = {.wide = kin_round_up(corpus->cols, KIN_METRIC_LANES), .threads = threads};
    if (!may_take(distance, corpus, asked)) {
        return false;
    }
    kin_layout_alone(plan, kin_size_add(bytes_of(corpus), queries != NULL ? bytes_of(queries) : 0),
                     1);
    kin_layout_passing(plan, name_rooms, &t);
    corpus->dtype = KITH_U8;
    if (queries != NULL) {
        queries->dtype = KITH_U8;
    }
    return true;
}
