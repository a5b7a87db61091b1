/* SPDX-License-Identifier: Apache-2.0 */
#include "screen/screen_corpus.h"

#include "host/host_clock.h"

static kith_status cast_rows(kith_ctx *ctx, const kin_prepared *corpus, const uint32_t *ids,
                             int64_t points, kin_prepared *p)
{
    if (corpus->shadow.axes > 0) {
        KIN_TRY(kin_shadow_cast(ctx, &corpus->shadow, p, ids, points, &p->cast));
    }
    return corpus->sieve_shadow.axes > 0
               ? kin_shadow_cast(ctx, &corpus->sieve_shadow, p, ids, points, &p->sieve)
               : KITH_OK;
}

/* The rounded rows: in panels, or, where there are shadows but of tiles, as lines. */
static kith_status make_set(kith_ctx *ctx, const kin_prepared *corpus, const uint32_t *ids,
                            int64_t points, kin_prepared *p)
{
    const kin_shadow *shadow = &corpus->shadow;
    const kin_set shape = shadow->axes > 0 && !shadow->tiles
                              ? kin_set_shape_lines(&p->frame, points)
                              : kin_set_shape(&p->frame, points);
    return kin_set_make(ctx, shape, &p->rows, ids, &p->set);
}

/* From the cheapest type up, until one is fine enough. The last one has to do, unless it is in
 * vain.
 */
static kith_status round_in_best_type(kith_ctx *ctx, int64_t k, kin_prepared *prepared)
{
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    const int32_t cols = prepared->distance.cols;
    const int count = kin_type_ladder(ctx->isa, cols, ladder);
    for (int i = kin_type_first(ladder, cols, prepared->groups.count, k); i < count; i++) {
        if (ladder[i]->type == KIN_TILE_S16) {
            KIN_TRY(kin_frame_measure_norms(ctx, &prepared->distance, &prepared->rows,
                                            &prepared->stats));
        }
        prepared->frame = kin_frame_make(&prepared->distance, ladder[i], false, &prepared->stats);
        KIN_TRY(make_set(ctx, prepared, prepared->order, prepared->groups.count, prepared));
        kin_type_verdict verdict;
        const bool last = i + 1 == count;
        KIN_TRY(kin_type_try(ctx, prepared, k, last ? NULL : ladder[i + 1], &verdict));
        prepared->vain = verdict == KIN_TYPE_VAIN;
        if (verdict == KIN_TYPE_FINE || last) {
            break;
        }
        kin_set_free(ctx, &prepared->set);
    }
    return KITH_OK;
}

static kith_status round_integers(kith_ctx *ctx, kin_prepared *prepared)
{
    prepared->frame = kin_frame_make(&prepared->distance, kin_type_integer(ctx->isa), true, NULL);
    return make_set(ctx, prepared, prepared->order, prepared->groups.count, prepared);
}

kith_status kin_prepare_set(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared)
{
    const int64_t start = kin_clock_ns();
    if (prepared->groups.count == 0) {
        return KITH_OK;
    }
    if (!prepared->unordered) {
        KIN_TRY(kin_order_make(ctx, &prepared->rows, &prepared->distance, prepared->groups.count,
                               prepared->graph, prepared->order));
    }
    if (integer) {
        KIN_TRY(round_integers(ctx, prepared));
    } else {
        KIN_TRY(kin_frame_measure(ctx, &prepared->distance, &prepared->rows, &prepared->stats));
        if (prepared->by_cost) {
            prepared->stats.middle = NULL;
        }
        KIN_TRY(round_in_best_type(ctx, k, prepared));
    }
    prepared->seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

kith_status kin_prepare_corpus(kith_ctx *ctx, bool integer, int64_t k, kin_prepared *prepared)
{
    KIN_TRY(kin_prepare_set(ctx, integer, k, prepared));
    const int64_t start = kin_clock_ns();
    if (prepared->groups.count > 0) {
        KIN_TRY(kin_cover_make(ctx, &prepared->set, prepared->graph, &prepared->cover));
    }
    prepared->seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

kith_status kin_prepare_corpus_for(kith_ctx *ctx, const kin_prepared *corpus,
                                   const kith_matrix *queries, int64_t k, kin_prepared *again,
                                   const kin_prepared **use)
{
    *use = corpus;
    const bool integer = kin_frame_is_integer(&corpus->distance, &corpus->rows.matrix, queries);
    if (integer || corpus->groups.count == 0 || corpus->frame.bound != KIN_BOUND_INTEGER) {
        return KITH_OK;
    }
    KIN_TRY(kin_prepare_rows(ctx, &corpus->rows.matrix, &corpus->distance, "corpus",
                             KIN_ROWS_CHECKED, again));
    *use = again;
    return kin_prepare_corpus(ctx, false, k, again);
}

/* ---- Shadows --------------------------------------------------------------------------------- */

static bool lacks_memory(kith_status status)
{
    return status == KITH_E_MEMORY || status == KITH_E_LIMIT;
}

bool kin_prepare_drop_shadows(kith_ctx *ctx, kin_prepared *prepared, kith_status *status)
{
    if (!lacks_memory(*status) || prepared->shadow.axes == 0) {
        return false;
    }
    const bool in_panels = prepared->set.panels != NULL; /* it is what it was without them */
    kin_forgive(ctx);
    kin_set_free(ctx, &prepared->sieve);
    kin_shadow_free(ctx, &prepared->sieve_shadow);
    kin_set_free(ctx, &prepared->cast);
    kin_shadow_free(ctx, &prepared->shadow);
    ctx->report.skipped_share = 0.0;
    ctx->report.looked_share = 0.0;
    ctx->report.rerun_share = 0.0;
    ctx->report.candidates = 0.0;
    *status = KITH_OK;
    if (!in_panels) {
        kin_set_free(ctx, &prepared->set);
        *status = make_set(ctx, prepared, prepared->order, prepared->groups.count, prepared);
    }
    return *status == KITH_OK;
}

kith_status kin_prepare_shadows(kith_ctx *ctx, const kin_shadow_job *job, kin_prepared *prepared)
{
    const int64_t start = kin_clock_ns();
    kith_status status =
        kin_shadow_learn(ctx, prepared, job, &prepared->shadow, &prepared->sieve_shadow);
    KIN_THEN(status, cast_rows(ctx, prepared, prepared->order, prepared->groups.count, prepared));
    if (status == KITH_OK && prepared->shadow.axes > 0 && !prepared->shadow.tiles) {
        kin_set_free(ctx, &prepared->set); /* that in panels gives way */
        status = make_set(ctx, prepared, prepared->order, prepared->groups.count, prepared);
    }
    if (lacks_memory(status) && prepared->shadow.axes == 0) {
        kin_forgive(ctx);
        status = KITH_OK;
    }
    (void)kin_prepare_drop_shadows(ctx, prepared, &status);
    prepared->seconds_prepare += kin_clock_since(start);
    return status;
}

/* ---- Queries --------------------------------------------------------------------------------- */

kith_status kin_prepare_queries(kith_ctx *ctx, const kin_prepared *corpus, int64_t first,
                                int64_t count, kin_prepared *prepared)
{
    const int64_t start = kin_clock_ns();
    const uint32_t *ids = prepared->order + first;
    kin_cover_free(ctx, &prepared->cover);
    kin_set_free(ctx, &prepared->sieve);
    kin_set_free(ctx, &prepared->cast);
    kin_set_free(ctx, &prepared->set);
    prepared->frame = corpus->frame;
    KIN_TRY(make_set(ctx, corpus, ids, count, prepared));
    KIN_TRY(cast_rows(ctx, corpus, ids, count, prepared));
    KIN_TRY(kin_cover_make(ctx, &prepared->set, false, &prepared->cover));
    prepared->seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}
