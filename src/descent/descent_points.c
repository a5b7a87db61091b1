/* SPDX-License-Identifier: Apache-2.0
 * Rows of the exact engine's rounded set, out of their panels. */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "descent/descent_kernel.h"
#include "descent/descent_match.h"
#include "exact/exact_search.h"
#include "host/host_threads.h"

enum { PANELS_A_TASK = 64 };

/* Words of a row: so many that none crosses a line that it need not. */
static int64_t row_stride(int32_t groups)
{
    int64_t stride = 1;
    while (stride < groups && stride < KIN_DESCENT_WIDE_STEP) {
        stride *= 2;
    }
    return stride >= groups ? stride : kin_round_up(groups, KIN_DESCENT_WIDE_STEP);
}

static kin_descent_terms terms_of(const kin_set *set, int64_t position)
{
    kin_descent_terms terms = {.row = set->row_term[position]};
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
    const kin_descent_points *points = arg;
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

static kith_status take_rows(kith_ctx *ctx, kin_descent_points *points)
{
    const kin_frame *frame = &points->prepared->frame;
    points->kernel = kin_descent_kernel_get(points->prepared->distance.isa, frame->kernel->type);
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
        kin_descent_points_free(ctx, points);
    }
    return status;
}

kith_status kin_descent_points_make(kith_ctx *ctx, const kin_prepared *prepared,
                                    kin_descent_points *points)
{
    *points = (kin_descent_points){
        .prepared = prepared,
        .count = prepared->groups.count,
        .ids = prepared->order,
        .symmetric = kin_metric_get_traits(prepared->distance.metric)->symmetric,
    };
    return prepared->set.panels != NULL ? take_rows(ctx, points) : KITH_OK;
}

void kin_descent_points_free(kith_ctx *ctx, kin_descent_points *points)
{
    kin_free(ctx, points->terms);
    kin_free(ctx, points->rows);
    *points = (kin_descent_points){0};
}

uint64_t kin_descent_points_bytes(const kin_frame *frame, int64_t count)
{
    if (frame == NULL) {
        return 0;
    }
    const uint64_t a_row =
        (uint64_t)row_stride(frame->groups) * sizeof(uint32_t) + sizeof(kin_descent_terms);
    return kin_size_mul((uint64_t)count, a_row);
}
