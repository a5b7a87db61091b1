/* SPDX-License-Identifier: Apache-2.0
 *
 * A corpus is prepared once (fused_prepare.c) and read by every search of it. Beside the set it
 * keeps the worst of its tiles, which one-sided screens prune by, and a list of all its tiles in
 * units of work, since a batch of a few queries (fused_batch.c) has no time to make one; and of
 * rows of halves, where it is asked for, a copy as bytes, since such a batch is a read of the rows.
 */
#include "fused/fused_search.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_cpu.h"

#include <stdio.h>

enum { UNITS_A_PROCESSOR = 4 };

static uint64_t numbers_of(const kin_fused_corpus *corpus)
{
    const int64_t tiles = kin_fused_tiles_of(corpus->prepared.set.points);
    return (uint64_t)kin_max_i64(tiles, KIN_FUSED_BATCH);
}

static void name_corpus(kin_layout *layout, void *job)
{
    kin_fused_corpus *c = job;
    const uint64_t tiles = (uint64_t)(c->prepared.set.padded / KIN_FUSED_TILE);
    c->worst = kin_layout_array(layout, tiles, sizeof *c->worst);
    c->numbers = kin_layout_array(layout, numbers_of(c), sizeof *c->numbers);
    c->units = kin_layout_array(layout, c->batch_units, sizeof *c->units);
    c->unit_count = kin_layout_array(layout, 1, sizeof *c->unit_count);
}

typedef struct listing {
    uint64_t count;
    int64_t units;
    uint32_t *numbers;
    kin_fused_unit *work;
} listing;

static void name_listing(kin_layout *layout, void *job)
{
    listing *l = job;
    l->numbers = kin_layout_array(layout, l->count, sizeof *l->numbers);
    l->work = kin_layout_array(layout, (uint64_t)l->units, sizeof *l->work);
}

/* Every tile, in units of one block of rows. */
static kith_status list_tiles(kith_ctx *ctx, const kin_fused_corpus *corpus)
{
    const int64_t tiles = kin_fused_tiles_of(corpus->prepared.set.points);
    listing l = {.count = numbers_of(corpus), .units = corpus->batch_units};
    void *block = NULL;
    KIN_TRY(kin_layout_make(ctx, name_listing, &l, "tiles", &block));
    for (uint64_t i = 0; i < l.count; i++) {
        l.numbers[i] = (uint32_t)i;
    }
    for (int64_t i = 0; i < l.units; i++) {
        const int64_t first = tiles * i / l.units;
        const int64_t end = tiles * (i + 1) / l.units;
        l.work[i] = (kin_fused_unit){0, (uint32_t)first, (uint32_t)(end - first), 0};
    }
    kith_status status =
        kin_gpu_upload(ctx, corpus->gpu, corpus->numbers, l.numbers, l.count * sizeof *l.numbers);
    KIN_THEN(status, kin_gpu_upload(ctx, corpus->gpu, corpus->units, l.work,
                                    (uint64_t)l.units * sizeof *l.work));
    KIN_THEN(status, kin_gpu_upload(ctx, corpus->gpu, corpus->unit_count, &corpus->batch_units,
                                    sizeof corpus->batch_units));
    kin_free(ctx, block);
    return status;
}

/* What searches read beside the set. */
static kith_status make_lists(kith_ctx *ctx, kin_fused_corpus *corpus)
{
    kin_gpu *gpu = corpus->gpu;
    const kin_fused_set *set = &corpus->prepared.set;
    const int64_t wished = (int64_t)UNITS_A_PROCESSOR * kin_max_i64(gpu->info.processors, 1);
    const kin_fused_device on = kin_fused_device_of(ctx, gpu);
    corpus->batch_units = (uint32_t)kin_min_i64(wished, kin_fused_tiles_of(set->points));
    KIN_TRY(kin_gpu_layout_make(ctx, gpu, name_corpus, corpus, "tiles", &corpus->block));
    KIN_TRY(kin_fused_worst_find(&on, set, corpus->worst));
    return list_tiles(ctx, corpus);
}

kith_status kin_fused_corpus_make(kith_ctx *ctx, kin_gpu *gpu, const kin_fused_source *points,
                                  kith_dtype asked, int64_t k, kin_fused_corpus **out)
{
    kin_fused_corpus *corpus = NULL;
    *out = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &corpus, 1, sizeof *corpus, "a corpus"));
    *corpus = (kin_fused_corpus){.gpu = gpu,
                                 .points = kin_fused_source_rows(points),
                                 .distance = *points->distance,
                                 .place = points->place};
    kith_status status = kin_fused_prepare_corpus(ctx, gpu, points, asked, k, &corpus->prepared);
    if (status == KITH_OK && corpus->prepared.set.points > 0) {
        status = make_lists(ctx, corpus);
    }
    if (status != KITH_OK) {
        kin_fused_corpus_free(ctx, corpus);
        return status;
    }
    ctx->report.seconds_prepare +=
        corpus->prepared.seconds_prepare + corpus->prepared.seconds_upload;
    *out = corpus;
    return KITH_OK;
}

kith_status kin_fused_corpus_some(kith_ctx *ctx, const kin_fused_corpus *all, const uint8_t *allow,
                                  int64_t kept, kin_fused_corpus **out)
{
    const kin_fused_device on = kin_fused_device_of(ctx, all->gpu);
    kin_fused_corpus *corpus = NULL;
    *out = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &corpus, 1, sizeof *corpus, "a corpus"));
    *corpus = (kin_fused_corpus){
        .gpu = all->gpu, .points = all->points, .distance = all->distance, .place = all->place};
    kith_status status =
        kin_fused_prepare_some(&on, &all->prepared, allow, kept, &corpus->prepared);
    KIN_THEN(status, make_lists(ctx, corpus));
    if (status != KITH_OK) {
        kin_fused_corpus_free(ctx, corpus);
        return status;
    }
    ctx->report.seconds_prepare += corpus->prepared.seconds_prepare;
    *out = corpus;
    return KITH_OK;
}

/* Bytes that leave more of a row are no shortcut. */
static const double MOST_LEFT = 256.0;

static bool takes_glances(const kin_fused_prepared *prepared)
{
    const kin_fused_set *set = &prepared->set;
    return set->points > 0 && prepared->plain && set->frame.type == KIN_FUSED_F16 &&
           set->frame.bound == KIN_BOUND_DISTANCE && prepared->byte_candidates > 0.0 &&
           prepared->byte_candidates <= MOST_LEFT;
}

/* Rounded from the rows as they are given: halves in between would lose more. */
kith_status kin_fused_corpus_glance(kith_ctx *ctx, kin_fused_corpus *corpus)
{
    const kin_fused_prepared *prepared = &corpus->prepared;
    const kin_fused_device on = kin_fused_device_of(ctx, corpus->gpu);
    if (!takes_glances(prepared)) {
        return KITH_OK;
    }
    corpus->glance = kin_fused_chosen_of(&prepared->byte_frame, prepared->set.points);
    corpus->glance.set.ids = prepared->set.ids;
    kith_status status = kin_fused_chosen_make(&on, &corpus->glance);
    KIN_THEN(status, kin_fused_chosen_round(&on, &prepared->rows, &corpus->glance));
    KIN_THEN(status, kin_fused_chosen_see(&on, &corpus->glance));
    if (status == KITH_OK) {
        return KITH_OK;
    }
    kin_gpu_free(corpus->gpu, corpus->glance.block);
    corpus->glance = (kin_fused_chosen){0};
    if (status != KITH_E_DEVICE_MEMORY) {
        return status;
    }
    kin_forgive(ctx); /* halves serve, too */
    return KITH_OK;
}

void kin_fused_corpus_free(kith_ctx *ctx, kin_fused_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    kin_gpu_free(corpus->gpu, corpus->glance.block);
    kin_gpu_free(corpus->gpu, corpus->block);
    kin_fused_prepared_free(ctx, corpus->gpu, &corpus->prepared);
    kin_free(ctx, corpus);
}

uint64_t kin_fused_corpus_bytes(const kin_fused_corpus *corpus)
{
    kin_fused_chosen glance = corpus->glance;
    const uint64_t resident =
        kin_fused_prepared_bytes(&corpus->points, corpus->points.rows, &corpus->distance,
                                 corpus->points.dtype, corpus->place, true)
            .resident;
    return glance.block == NULL
               ? resident
               : kin_size_add(resident, kin_gpu_layout_bytes(kin_fused_chosen_name, &glance));
}

void kin_fused_report(kith_ctx *ctx, const kin_fused_prepared *corpus, const kin_fused_tally *tally,
                      int64_t rows)
{
    kith_report *report = &ctx->report;
    const double n = (double)kin_max_i64(rows, 1);
    report->exact = KITH_CERTIFIED;
    report->skipped_share = tally->pairs > 0.0 ? tally->skipped / tally->pairs : 0.0;
    const double tile_pairs = (double)KIN_FUSED_BLOCK * KIN_FUSED_TILE;
    report->looked_share = tally->pairs > 0.0 ? tally->looked / (tally->pairs * tile_pairs) : 0.0;
    report->rerun_share = tally->reruns / n;
    report->candidates = tally->keys / n;
    report->distinct_rows = corpus->groups.count;
    if (report->screen[0] == '\0') { /* else a pipeline has told its name */
        (void)snprintf(report->screen, sizeof report->screen, "%s",
                       corpus->set.frame.type == KIN_FUSED_S8 ? "s8" : "f16");
    }
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(ctx->isa));
}
