/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_prepare.h"

#include "host/host_clock.h"
#include "host/host_cpu.h"

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
