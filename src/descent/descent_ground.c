/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_ground.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"

#include <math.h>

/* Points whose rounding is tried; one of so many may be coarse. */
enum { TRIED = 256, COARSE = 10 };
/* A point is, where its farthest neighbour is nearer than so many times what it lost. */
static const double FINE = 2.0;

/* ---- Spare blocks --------------------------------------------------------------------------- */

uint64_t kin_descent_spare_words(int64_t positions)
{
    return (uint64_t)kin_ceil_div(positions, 32) + KIN_DESCENT_REMEMBERED;
}

static void free_spares(kith_ctx *ctx, kin_descent_spares *spares)
{
    for (int32_t i = 0; i < spares->count; i++) {
        kin_free(ctx, atomic_load(&spares->blocks[i]));
    }
    kin_free(ctx, spares->blocks);
    *spares = (kin_descent_spares){0};
}

static kith_status make_spares(kith_ctx *ctx, uint64_t words, kin_descent_spares *spares)
{
    *spares = (kin_descent_spares){.words = words};
    kith_status status =
        kin_alloc(ctx, &spares->blocks, (uint64_t)ctx->threads, sizeof *spares->blocks, "walks");
    for (int32_t i = 0; i < ctx->threads && status == KITH_OK; i++) {
        uint32_t *block = NULL;
        status = kin_alloc_zero(ctx, &block, words, sizeof *block, "a walk");
        if (status == KITH_OK) {
            atomic_init(&spares->blocks[i], block);
            spares->count += 1;
        }
    }
    if (status != KITH_OK) {
        free_spares(ctx, spares);
    }
    return status;
}

uint32_t *kin_descent_spare_take(const kin_descent_spares *spares)
{
    uint32_t *block = NULL;
    for (int32_t i = 0; i < spares->count && block == NULL; i++) {
        block = atomic_exchange(&spares->blocks[i], NULL);
    }
    return block;
}

/* There is a place: whoever fills one has emptied one before. */
void kin_descent_spare_give(const kin_descent_spares *spares, uint32_t *block)
{
    for (int32_t i = 0; i < spares->count; i++) {
        uint32_t *none = NULL;
        if (atomic_compare_exchange_strong(&spares->blocks[i], &none, block)) {
            return;
        }
    }
}

/* ---- The ground ----------------------------------------------------------------------------- */

/* Whether rounded rows tell neighbours apart: whether what they lost is well below the distance of
 * the farthest neighbour of a point, for nearly all of a sample. Two clusters that are far from
 * each other fill the range of a narrow type, and within each all points round to one. */
static kith_status try_rounded(kith_ctx *ctx, const kith_neighbors *graph,
                               const kin_prepared *prepared, bool *fine)
{
    const kin_frame *frame = &prepared->frame;
    const int64_t count = kin_min_i64(prepared->groups.count, TRIED);
    const int64_t expanded = kin_round_up(prepared->distance.cols, KIN_METRIC_LANES);
    double *values = NULL;
    int64_t coarse = 0;
    *fine = true;
    if (frame->kernel == NULL || frame->bound != KIN_BOUND_DISTANCE) {
        return KITH_OK;
    }
    KIN_TRY(kin_alloc(ctx, &values, (uint64_t)expanded, sizeof *values, "a row"));
    for (int64_t i = 0; i < count; i++) {
        const int64_t position = i * prepared->groups.count / count;
        const uint32_t row = prepared->order[position];
        const uint32_t *ids = graph->ids + (int64_t)row * graph->k;
        double farthest = 0.0;
        for (int64_t j = 0; j < graph->k; j++) {
            if (ids[j] != KITH_ID_NONE) {
                double key = 0.0;
                const kin_query query =
                    kin_metric_load(&prepared->distance, &prepared->rows, row, values);
                kin_metric_keys(&prepared->distance, &query, &prepared->rows, &ids[j], 0, 1, &key);
                farthest = fmax(farthest, key);
            }
        }
        const double far = sqrt(farthest / frame->key_scale) / frame->scale;
        coarse += far > 0.0 && far < FINE * kin_set_row(&prepared->set, position).lost;
    }
    *fine = coarse * COARSE <= count;
    kin_free(ctx, values);
    return KITH_OK;
}

kith_status kin_descent_ground_make(kith_ctx *ctx, const kin_prepared *prepared,
                                    const kith_neighbors *graph, kin_descent_ground *ground)
{
    *ground = (kin_descent_ground){.prepared = prepared};
    kith_status status = KITH_OK;
    bool fine = true;
    if (prepared->groups.count >= KIN_DESCENT_MOST_POINTS) {
        return kin_fail(ctx, KITH_E_UNSUPPORTED,
                        "%lld points are more than a walk takes (at most %lld)",
                        (long long)prepared->groups.count, (long long)KIN_DESCENT_MOST_POINTS - 1);
    }
    KIN_TRY_GOTO(status, try_rounded(ctx, graph, prepared, &fine), done);
    KIN_TRY_GOTO(status, kin_descent_points_make(ctx, prepared, &ground->points), done);
    if (!fine) {
        ground->points.kernel = NULL; /* keys */
    }
    KIN_TRY_GOTO(status, kin_descent_links_make(ctx, graph, &ground->points, &ground->links), done);
    KIN_TRY_GOTO(status,
                 make_spares(ctx, kin_descent_spare_words(ground->points.count), &ground->spares),
                 done);
    if (kin_descent_gate_possible(&ground->points)) {
        ground->has_gate = true;
        status = kin_descent_gate_make(ctx, &ground->points, &ground->gate);
    }
done:
    if (status != KITH_OK) {
        kin_descent_ground_free(ctx, ground);
    }
    return status;
}

void kin_descent_ground_free(kith_ctx *ctx, kin_descent_ground *ground)
{
    if (ground->has_gate) {
        kin_descent_gate_free(ctx, &ground->gate);
    }
    free_spares(ctx, &ground->spares);
    kin_descent_links_free(ctx, &ground->links);
    kin_descent_points_free(ctx, &ground->points);
    *ground = (kin_descent_ground){0};
}
