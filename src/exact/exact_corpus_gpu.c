/* SPDX-License-Identifier: Apache-2.0
 *
 * A corpus is prepared once (screen_prepare_gpu.c) and read by every search of it. Beside the set
 * it keeps the worst of its tiles, which one-sided screens prune by, and a list of all its tiles in
 * units of work, since a batch of a few queries (exact_batch_gpu.c) has no time to make one; and of
 * rows of halves a copy as bytes, a corpus of its own, of which a few queries read half as much and
 * many multiply in half the time. It leaves more candidates.
 */
#include "exact/exact_search_gpu.h"

#include "host/host_cpu.h"
#include "screen/screen_start.h"

#include <math.h>
#include <stdio.h>

enum {
    UNITS_A_PROCESSOR = 4,
    AMPLE = 16, /* entries of a list for each candidate that a pilot was left, */
    LEAST = 4   /* and where there is less room */
};

/* Fewer are not worth the pass over the rows, or that a wrong guess costs. */
static const double MANY_PAIRS = 2e9;

static uint64_t numbers_of(const kin_exact_gpu_corpus *corpus)
{
    const int64_t tiles = kin_screen_gpu_tiles_of(corpus->prepared.set.points);
    return (uint64_t)kin_max_i64(tiles, KIN_EXACT_GPU_BATCH);
}

static void name_corpus(kin_layout *layout, void *job)
{
    kin_exact_gpu_corpus *c = job;
    const uint64_t tiles = (uint64_t)(c->prepared.set.padded / KIN_SCREEN_GPU_TILE);
    c->worst = kin_layout_array(layout, tiles, sizeof *c->worst);
    c->numbers = kin_layout_array(layout, numbers_of(c), sizeof *c->numbers);
    c->units = kin_layout_array(layout, c->batch_units, sizeof *c->units);
    c->unit_count = kin_layout_array(layout, 1, sizeof *c->unit_count);
}

/* Every tile, in units of one block of rows. */
static kith_status list_tiles(kith_ctx *ctx, const kin_exact_gpu_corpus *corpus)
{
    const int64_t tiles = kin_screen_gpu_tiles_of(corpus->prepared.set.points);
    const uint64_t count = numbers_of(corpus);
    const int64_t units = corpus->batch_units;
    uint32_t *numbers = NULL;
    kin_screen_gpu_unit *work = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, numbers, count, "tiles");
    KIN_NEW(&hold, work, (uint64_t)units, "tiles");
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = (uint32_t)i;
    }
    for (int64_t i = 0; i < units; i++) {
        const int64_t first = tiles * i / units;
        const int64_t end = tiles * (i + 1) / units;
        work[i] = (kin_screen_gpu_unit){0, (uint32_t)first, (uint32_t)(end - first), 0};
    }
    KIN_TRY(kin_gpu_upload(ctx, corpus->gpu, corpus->numbers, numbers, count * sizeof *numbers));
    KIN_TRY(kin_gpu_upload(ctx, corpus->gpu, corpus->units, work, (uint64_t)units * sizeof *work));
    return kin_gpu_upload(ctx, corpus->gpu, corpus->unit_count, &corpus->batch_units,
                          sizeof corpus->batch_units);
}

/* What searches read beside the set; alone: one graph reads it, which has no use for lists of
 * tiles.
 */
static kith_status make_lists(kith_ctx *ctx, kin_exact_gpu_corpus *corpus, bool alone)
{
    kin_gpu *gpu = corpus->gpu;
    const kin_screen_gpu_set *set = &corpus->prepared.set;
    const int64_t wished = (int64_t)UNITS_A_PROCESSOR * kin_max_i64(gpu->info.processors, 1);
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    corpus->batch_units =
        alone ? 0 : (uint32_t)kin_min_i64(wished, kin_screen_gpu_tiles_of(set->points));
    KIN_TRY(kin_gpu_layout_make(ctx, gpu, name_corpus, corpus, "tiles", &corpus->block));
    KIN_TRY(kin_screen_gpu_worst_find(&on, set, corpus->worst));
    return alone ? KITH_OK : list_tiles(ctx, corpus);
}

kith_status kin_exact_gpu_corpus_make(kith_ctx *ctx, kin_gpu *gpu,
                                      const kin_screen_gpu_source *points, kith_dtype asked,
                                      int64_t k, kin_exact_gpu_corpus **out)
{
    kin_exact_gpu_corpus *corpus = NULL;
    *out = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &corpus, 1, sizeof *corpus, "a corpus"));
    *corpus = (kin_exact_gpu_corpus){.gpu = gpu,
                                     .points = kin_screen_gpu_source_rows(points),
                                     .distance = *points->distance,
                                     .place = points->place};
    const kin_screen_gpu_prepared *prepared = &corpus->prepared;
    kith_status status =
        kin_screen_gpu_prepare_corpus(ctx, gpu, points, asked, k, &corpus->prepared);
    KIN_THEN(status,
             prepared->set.points > 0 ? make_lists(ctx, corpus, points->arranged) : KITH_OK);
    if (status == KITH_OK && (double)points->askers * (double)prepared->set.points >= MANY_PAIRS) {
        status = kin_exact_gpu_corpus_glance(ctx, NULL, corpus);
    }
    if (status != KITH_OK) {
        kin_exact_gpu_corpus_free(ctx, corpus);
        return status;
    }
    *out = corpus;
    return KITH_OK;
}

/* Of the rows of another: prepared by whoever asks. */
static kith_status begin_of(kith_ctx *ctx, const kin_exact_gpu_corpus *all,
                            kin_exact_gpu_corpus **out)
{
    KIN_TRY(kin_alloc_zero(ctx, out, 1, sizeof **out, "a corpus"));
    **out = (kin_exact_gpu_corpus){
        .gpu = all->gpu, .points = all->points, .distance = all->distance, .place = all->place};
    return KITH_OK;
}

static kith_status finish_of(kith_ctx *ctx, kith_status status, kin_exact_gpu_corpus **corpus)
{
    KIN_THEN(status, make_lists(ctx, *corpus, false));
    if (status != KITH_OK) {
        kin_exact_gpu_corpus_free(ctx, *corpus);
        *corpus = NULL;
    }
    return status;
}

kith_status kin_exact_gpu_corpus_some(kith_ctx *ctx, const kin_exact_gpu_corpus *all,
                                      const uint8_t *allow, int64_t kept,
                                      kin_exact_gpu_corpus **out)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, all->gpu);
    *out = NULL;
    KIN_TRY(begin_of(ctx, all, out));
    return finish_of(
        ctx, kin_screen_gpu_prepare_some(&on, &all->prepared, allow, kept, &(*out)->prepared), out);
}

/* ---- As bytes -------------------------------------------------------------------------------- */

uint64_t kin_exact_gpu_glance_bytes(const kith_matrix *points, int64_t askers)
{
    const uint64_t a_copy = (uint64_t)kin_round_up(points->cols, KIN_SCREEN_GPU_SLICE) +
                            sizeof(kin_screen_gpu_facts) + 2 * sizeof(uint32_t);
    const uint64_t balls = a_copy * KIN_SCREEN_GPU_BALLS / KIN_SCREEN_GPU_TILE + 1;
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
static kith_status make_glance(kith_ctx *ctx, const kin_exact_gpu_corpus *like,
                               kin_exact_gpu_corpus *corpus)
{
    const kin_screen_gpu_prepared *halves = &corpus->prepared;
    const kin_screen_gpu_set *set = &halves->set;
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, corpus->gpu);
    if (set->points == 0 || set->frame.type != KIN_SCREEN_GPU_F16 ||
        set->frame.bound != KIN_BOUND_DISTANCE || halves->byte_candidates == 0.0 ||
        kin_exact_gpu_glance_bytes(&corpus->points, INT64_MAX) > kin_gpu_room(corpus->gpu) / 4) {
        return KITH_OK;
    }
    const bool known = like != NULL && like->glance != NULL;
    const kin_screen_gpu_past past = {.set = known ? like->glance->prepared.set : halves->set,
                                      .places = known ? like->prepared.places : NULL,
                                      .known = known ? like->prepared.rows.rows : 0};
    kith_status status = begin_of(ctx, corpus, &corpus->glance);
    if (status == KITH_OK) {
        status = kin_screen_gpu_prepare_bytes(&on, halves, &past, &corpus->glance->prepared);
        status = finish_of(ctx, status, &corpus->glance);
    }
    if (status == KITH_OK && corpus->glance->prepared.set.worst.lost > most_lost(set->frame.cols)) {
        kin_exact_gpu_corpus_free(ctx, corpus->glance);
        corpus->glance = NULL;
    }
    if (status == KITH_E_DEVICE_MEMORY || status == KITH_E_MEMORY || status == KITH_E_LIMIT) {
        kin_forgive(ctx); /* halves serve, too */
        return KITH_OK;
    }
    return status;
}

kith_status kin_exact_gpu_corpus_glance(kith_ctx *ctx, const kin_exact_gpu_corpus *like,
                                        kin_exact_gpu_corpus *corpus)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, corpus->gpu);
    KIN_TRY(make_glance(ctx, like, corpus));
    kin_exact_gpu_corpus *bytes = corpus->glance != NULL ? corpus->glance : corpus;
    const kin_exact_gpu_corpus *before = like != NULL && like->glance != NULL ? like->glance : like;
    const kin_screen_gpu_ball_source source = {
        .rows = &bytes->prepared.rows,
        .set = bytes->prepared.set,
        .grew = before != NULL && before->prepared.set.points >= KIN_SCREEN_GPU_BALLS_LEAST,
        .like = before != NULL ? before->balls : NULL};
    return kin_screen_gpu_balls_make(&on, &source, &bytes->balls);
}

/* A pilot asked for fewer neighbours; of more, about as many more are left. */
double kin_exact_gpu_glance_left(const kin_exact_gpu_corpus *corpus, const kin_request *request)
{
    const kin_screen_gpu_prepared *halves = &corpus->prepared;
    return corpus->glance == NULL || request->pipeline != NULL
               ? (double)INFINITY
               : halves->byte_candidates *
                     fmax(1.0, (double)(request->k + 1) / (double)halves->byte_k);
}

bool kin_exact_gpu_glance_serves(const kin_exact_gpu_corpus *corpus, const kin_request *request,
                                 int64_t queries)
{
    return (double)queries * (double)corpus->prepared.set.points >= MANY_PAIRS &&
           kin_exact_gpu_glance_left(corpus, request) <= KIN_SCREEN_GPU_TYPE_TELLS;
}

/* Without clusters a row has many more within the bounds' slack than a pilot saw of near ones. */
int32_t kin_exact_gpu_glance_capacity(const kin_exact_gpu_corpus *corpus,
                                      const kin_request *request, int64_t rows)
{
    const double left = kin_exact_gpu_glance_left(corpus, request);
    const double room = (double)kin_gpu_room(corpus->gpu) / (4.0 * sizeof(uint64_t));
    const double fitting = fmin(AMPLE, floor(room / ((double)rows * left)));
    return fitting < LEAST ? 0 : (int32_t)kin_round_up((int64_t)(fitting * left), 8);
}

void kin_exact_gpu_corpus_free(kith_ctx *ctx, kin_exact_gpu_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, corpus->gpu);
    kin_exact_gpu_corpus_free(ctx, corpus->glance);
    kin_screen_gpu_balls_free(&on, corpus->balls);
    kin_gpu_free(corpus->gpu, corpus->block);
    kin_screen_gpu_prepared_free(ctx, corpus->gpu, &corpus->prepared);
    kin_free(ctx, corpus);
}

/* nearest, hashes and places of what grows. */
static const uint64_t KEPT_A_ROW = 2 * sizeof(uint64_t) + sizeof(uint32_t);

uint64_t kin_exact_gpu_corpus_bytes(const kin_exact_gpu_corpus *corpus)
{
    const int64_t rows = corpus->points.rows;
    const uint64_t resident =
        kin_screen_gpu_prepared_bytes(&corpus->points, rows, &corpus->distance,
                                      corpus->points.dtype, corpus->place, true)
            .resident;
    const uint64_t kept =
        corpus->prepared.grows ? (uint64_t)(rows + 2 * KIN_SCREEN_GPU_BLOCK) * KEPT_A_ROW : 0;
    const uint64_t glance =
        corpus->glance != NULL ? kin_screen_gpu_set_bytes(&corpus->glance->prepared) : 0;
    const kin_screen_gpu_balls *balls =
        corpus->glance != NULL ? corpus->glance->balls : corpus->balls;
    return kin_size_add(kin_size_add(resident, kin_screen_gpu_balls_bytes(balls)),
                        kin_size_add(kept, glance));
}

void kin_exact_gpu_report(kith_ctx *ctx, const kin_screen_gpu_prepared *corpus,
                          const kin_screen_gpu_tally *tally, int64_t rows)
{
    kith_report *report = &ctx->report;
    const double n = (double)kin_max_i64(rows, 1);
    report->exact = KITH_CERTIFIED;
    report->skipped_share = tally->pairs > 0.0 ? tally->skipped / tally->pairs : 0.0;
    const double tile_pairs = (double)KIN_SCREEN_GPU_BLOCK * KIN_SCREEN_GPU_TILE;
    report->looked_share = tally->pairs > 0.0 ? tally->looked / (tally->pairs * tile_pairs) : 0.0;
    report->rerun_share = tally->reruns / n;
    report->candidates = tally->keys / n;
    report->distinct_rows = corpus->groups.count;
    if (report->screen[0] == '\0') { /* else a pipeline has told its name */
        (void)snprintf(report->screen, sizeof report->screen, "%s",
                       corpus->set.frame.type == KIN_SCREEN_GPU_S8 ? "s8" : "f16");
    }
    (void)snprintf(report->isa, sizeof report->isa, "%s", kin_isa_name(ctx->isa));
}
