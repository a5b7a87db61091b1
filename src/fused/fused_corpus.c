/* SPDX-License-Identifier: Apache-2.0
 *
 * A corpus is prepared once (fused_prepare.c) and read by every search of it. Beside the set it
 * keeps the worst of its tiles, which one-sided screens prune by, and a list of all its tiles in
 * units of work, since a batch of a few queries (fused_batch.c) has no time to make one; and of
 * rows of halves a copy as bytes, a corpus of its own, of which a few queries read half as much and
 * many multiply in half the time. It leaves more candidates.
 */
#include "fused/fused_search.h"

#include "fused/fused_start.h"
#include "host/host_cpu.h"

#include <math.h>
#include <stdio.h>

enum {
    UNITS_A_PROCESSOR = 4,
    AMPLE = 16, /* entries of a list for each candidate that a pilot was left, */
    LEAST = 4   /* and where there is less room */
};

/* Fewer are not worth the pass over the rows, or that a wrong guess costs. */
static const double MANY_PAIRS = 2e9;

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

/* Every tile, in units of one block of rows. */
static kith_status list_tiles(kith_ctx *ctx, const kin_fused_corpus *corpus)
{
    const int64_t tiles = kin_fused_tiles_of(corpus->prepared.set.points);
    const uint64_t count = numbers_of(corpus);
    const int64_t units = corpus->batch_units;
    uint32_t *numbers = NULL;
    kin_fused_unit *work = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, numbers, count, "tiles");
    KIN_NEW(&hold, work, (uint64_t)units, "tiles");
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = (uint32_t)i;
    }
    for (int64_t i = 0; i < units; i++) {
        const int64_t first = tiles * i / units;
        const int64_t end = tiles * (i + 1) / units;
        work[i] = (kin_fused_unit){0, (uint32_t)first, (uint32_t)(end - first), 0};
    }
    KIN_TRY(kin_gpu_upload(ctx, corpus->gpu, corpus->numbers, numbers, count * sizeof *numbers));
    KIN_TRY(kin_gpu_upload(ctx, corpus->gpu, corpus->units, work, (uint64_t)units * sizeof *work));
    return kin_gpu_upload(ctx, corpus->gpu, corpus->unit_count, &corpus->batch_units,
                          sizeof corpus->batch_units);
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
    const kin_fused_prepared *prepared = &corpus->prepared;
    kith_status status = kin_fused_prepare_corpus(ctx, gpu, points, asked, k, &corpus->prepared);
    KIN_THEN(status, prepared->set.points > 0 ? make_lists(ctx, corpus) : KITH_OK);
    if (status == KITH_OK && (double)points->askers * (double)prepared->set.points >= MANY_PAIRS) {
        status = kin_fused_corpus_glance(ctx, NULL, corpus);
    }
    if (status != KITH_OK) {
        kin_fused_corpus_free(ctx, corpus);
        return status;
    }
    ctx->report.seconds_prepare += prepared->seconds_prepare + prepared->seconds_upload;
    *out = corpus;
    return KITH_OK;
}

/* Of the rows of another: prepared by whoever asks. */
static kith_status begin_of(kith_ctx *ctx, const kin_fused_corpus *all, kin_fused_corpus **out)
{
    KIN_TRY(kin_alloc_zero(ctx, out, 1, sizeof **out, "a corpus"));
    **out = (kin_fused_corpus){
        .gpu = all->gpu, .points = all->points, .distance = all->distance, .place = all->place};
    return KITH_OK;
}

static kith_status finish_of(kith_ctx *ctx, kith_status status, kin_fused_corpus **corpus)
{
    KIN_THEN(status, make_lists(ctx, *corpus));
    if (status != KITH_OK) {
        kin_fused_corpus_free(ctx, *corpus);
        *corpus = NULL;
        return status;
    }
    ctx->report.seconds_prepare += (*corpus)->prepared.seconds_prepare;
    return KITH_OK;
}

kith_status kin_fused_corpus_some(kith_ctx *ctx, const kin_fused_corpus *all, const uint8_t *allow,
                                  int64_t kept, kin_fused_corpus **out)
{
    const kin_fused_device on = kin_fused_device_of(ctx, all->gpu);
    *out = NULL;
    KIN_TRY(begin_of(ctx, all, out));
    return finish_of(
        ctx, kin_fused_prepare_some(&on, &all->prepared, allow, kept, &(*out)->prepared), out);
}

/* ---- As bytes -------------------------------------------------------------------------------- */

uint64_t kin_fused_glance_bytes(const kith_matrix *points, int64_t askers)
{
    const uint64_t a_copy = (uint64_t)kin_round_up(points->cols, KIN_FUSED_SLICE) +
                            sizeof(kin_fused_facts) + 2 * sizeof(uint32_t);
    const uint64_t balls = a_copy * KIN_FUSED_BALLS / KIN_FUSED_TILE + 1;
    const uint64_t a_row = a_copy + KIN_START_BYTES + balls;
    return (double)askers * (double)points->rows < MANY_PAIRS
               ? 0
               : kin_size_mul((uint64_t)points->rows, a_row);
}

/* Of a row that no byte of is cut off; a row far outside of the frame, which a corpus that grew may
 * have, would widen every query's reach. */
static double most_lost(int32_t cols)
{
    return sqrt((double)cols);
}

/* Rounded from the rows as they are given: halves in between would lose more. What is left must
 * have room for queries and their lists. */
static kith_status make_glance(kith_ctx *ctx, const kin_fused_corpus *like,
                               kin_fused_corpus *corpus)
{
    const kin_fused_prepared *halves = &corpus->prepared;
    const kin_fused_set *set = &halves->set;
    const kin_fused_device on = kin_fused_device_of(ctx, corpus->gpu);
    if (set->points == 0 || set->frame.type != KIN_FUSED_F16 ||
        set->frame.bound != KIN_BOUND_DISTANCE || halves->byte_candidates == 0.0 ||
        kin_fused_glance_bytes(&corpus->points, INT64_MAX) > kin_gpu_room(corpus->gpu) / 4) {
        return KITH_OK;
    }
    const bool known = like != NULL && like->glance != NULL;
    const kin_fused_past past = {.set = known ? like->glance->prepared.set : halves->set,
                                 .places = known ? like->prepared.places : NULL,
                                 .known = known ? like->prepared.rows.rows : 0};
    kith_status status = begin_of(ctx, corpus, &corpus->glance);
    if (status == KITH_OK) {
        status = kin_fused_prepare_bytes(&on, halves, &past, &corpus->glance->prepared);
        status = finish_of(ctx, status, &corpus->glance);
    }
    if (status == KITH_OK && corpus->glance->prepared.set.worst.lost > most_lost(set->frame.cols)) {
        kin_fused_corpus_free(ctx, corpus->glance);
        corpus->glance = NULL;
    }
    if (status == KITH_E_DEVICE_MEMORY || status == KITH_E_MEMORY || status == KITH_E_LIMIT) {
        kin_forgive(ctx); /* halves serve, too */
        return KITH_OK;
    }
    return status;
}

kith_status kin_fused_corpus_glance(kith_ctx *ctx, const kin_fused_corpus *like,
                                    kin_fused_corpus *corpus)
{
    const kin_fused_device on = kin_fused_device_of(ctx, corpus->gpu);
    KIN_TRY(make_glance(ctx, like, corpus));
    kin_fused_corpus *bytes = corpus->glance != NULL ? corpus->glance : corpus;
    const kin_fused_corpus *before = like != NULL && like->glance != NULL ? like->glance : like;
    const kin_fused_ball_source source = {.rows = &bytes->prepared.rows,
                                          .set = bytes->prepared.set,
                                          .grew = before != NULL && before->prepared.set.points >=
                                                                        KIN_FUSED_BALLS_LEAST,
                                          .like = before != NULL ? before->balls : NULL};
    return kin_fused_balls_make(&on, &source, &bytes->balls);
}

/* A pilot asked for fewer neighbours; of more, about as many more are left. */
double kin_fused_glance_left(const kin_fused_corpus *corpus, const kin_request *request)
{
    const kin_fused_prepared *halves = &corpus->prepared;
    return corpus->glance == NULL || request->pipeline != NULL
               ? (double)INFINITY
               : halves->byte_candidates *
                     fmax(1.0, (double)(request->k + 1) / (double)halves->byte_k);
}

bool kin_fused_glance_serves(const kin_fused_corpus *corpus, const kin_request *request,
                             int64_t queries)
{
    return (double)queries * (double)corpus->prepared.set.points >= MANY_PAIRS &&
           kin_fused_glance_left(corpus, request) <= KIN_FUSED_TYPE_TELLS;
}

/* Without clusters a row has many more within the bounds' slack than a pilot saw of near ones. */
int32_t kin_fused_glance_capacity(const kin_fused_corpus *corpus, const kin_request *request,
                                  int64_t rows)
{
    const double left = kin_fused_glance_left(corpus, request);
    const double room = (double)kin_gpu_room(corpus->gpu) / (4.0 * sizeof(uint64_t));
    const double fitting = fmin(AMPLE, floor(room / ((double)rows * left)));
    return fitting < LEAST ? 0 : (int32_t)kin_round_up((int64_t)(fitting * left), 8);
}

void kin_fused_corpus_free(kith_ctx *ctx, kin_fused_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    const kin_fused_device on = kin_fused_device_of(ctx, corpus->gpu);
    kin_fused_corpus_free(ctx, corpus->glance);
    kin_fused_balls_free(&on, corpus->balls);
    kin_gpu_free(corpus->gpu, corpus->block);
    kin_fused_prepared_free(ctx, corpus->gpu, &corpus->prepared);
    kin_free(ctx, corpus);
}

/* nearest, hashes and places of what grows. */
static const uint64_t KEPT_A_ROW = 2 * sizeof(uint64_t) + sizeof(uint32_t);

uint64_t kin_fused_corpus_bytes(const kin_fused_corpus *corpus)
{
    const int64_t rows = corpus->points.rows;
    const uint64_t resident = kin_fused_prepared_bytes(&corpus->points, rows, &corpus->distance,
                                                       corpus->points.dtype, corpus->place, true)
                                  .resident;
    const uint64_t kept =
        corpus->prepared.grows ? (uint64_t)(rows + 2 * KIN_FUSED_BLOCK) * KEPT_A_ROW : 0;
    const uint64_t glance =
        corpus->glance != NULL ? kin_fused_set_bytes(&corpus->glance->prepared) : 0;
    const kin_fused_balls *balls = corpus->glance != NULL ? corpus->glance->balls : corpus->balls;
    return kin_size_add(kin_size_add(resident, kin_fused_balls_bytes(balls)),
                        kin_size_add(kept, glance));
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
