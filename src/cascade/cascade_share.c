/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Points are on every GPU, lists are owned: part p has those of the positions firsts[p] ..
 * firsts[p + 1] - 1, samples them and lets their samples meet. What that leaves for points of
 * others goes to slots, and a slot keeps the least word, whoever wrote it: so the slots that all
 * have left for a point are combined by its owner, word by word, and are what one GPU would have
 * left. A graph has the same bytes on any number of GPUs.
 *
 *      sample    own lists -> slots of all points     | least of all, to the owner
 *      collect   own slots -> ids
 *      join      own ids meet -> offers to all points | least of all, to the owner
 *      merge     own offers -> own lists              | counts are added up
 *
 * What foreign points the kernels read: rounded rows and their terms, or rows as given, which are
 * on every GPU, and in join the last word of each list, which its owner sends before.
 *
 * Bytes of a round, to each of G GPUs: (G - 1) / G of n (16 reverse + 8 SLOTS + 8), which with 16
 * samples and 32 slots is 520 for each point. Of 4 * 10^7 points on 4 GPUs each gets 16 GB: 50 ms
 * where they see each other, a second by way of the host.
 *
 * Memory. Slots and graph are as large as on one GPU; beside them a piece of what others left.
 */
#include "base/base_try.h"
#include "cascade/cascade_run.h"

/* What is fetched of another's slots at a time. */
static const uint64_t PIECE_WORDS = 32u << 20;

void kin_cascade_share_free(kin_cascade_run *run)
{
    kin_gpu_free(run->on.gpu, run->share.got);
    kin_gpu_free(run->on.gpu, run->share.lasts);
    run->share = (kin_cascade_share){0};
}

/* Slots of a point are at least 32 words, and pieces are of whole points. */
kith_status kin_cascade_share_make(kin_cascade_run *run)
{
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    kin_cascade_share *share = &run->share;
    share->part = kin_gpu_part(gpu);
    share->parts = kin_gpu_parts(gpu) > 1 ? kin_gpu_parts(gpu) : 0;
    if (share->parts == 0) {
        return KITH_OK;
    }
    kin_gpu_divide(run->count, KIN_FUSED_BLOCK, share->parts, share->firsts);
    run->graph.first = share->firsts[share->part];
    run->graph.end = share->firsts[share->part + 1];
    const uint64_t all = kin_size_mul((uint64_t)(run->count / share->parts + KIN_FUSED_BLOCK),
                                      KIN_CASCADE_MOST_SAMPLES);
    share->got_words = all < PIECE_WORDS ? all : PIECE_WORDS;
    KIN_TRY(kin_gpu_alloc(ctx, gpu, &share->lasts, (uint64_t)run->count, sizeof *share->lasts,
                          "ends of lists"));
    return kin_gpu_alloc(ctx, gpu, &share->got, share->got_words, sizeof *share->got,
                         "slots of other GPUs");
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static kith_status fetch_least(const kin_cascade_run *run, uint64_t *words, int64_t a_point)
{
    const kin_cascade_share *share = &run->share;
    const uint64_t first = (uint64_t)share->firsts[share->part] * (uint64_t)a_point;
    const uint64_t end = (uint64_t)share->firsts[share->part + 1] * (uint64_t)a_point;
    for (int32_t turn = 1; turn < share->parts; turn++) {
        const int32_t p = (share->part + turn) % share->parts;
        const uint64_t *theirs = kin_gpu_shown(run->on.gpu, p);
        for (uint64_t at = first; at < end; at += share->got_words) {
            const uint64_t count = end - at < share->got_words ? end - at : share->got_words;
            const kin_cascade_least job = {
                .words = words + at, .others = share->got, .count = (int64_t)count};
            KIN_TRY(kin_gpu_copy_from(run->on.ctx, run->on.gpu, p, share->got, theirs + at,
                                      count * sizeof *words));
            KIN_TRY(kin_cascade_check(run, run->kernels->least(run->on.stream, &job),
                                      "combining slots"));
        }
    }
    return kin_gpu_wait(run->on.ctx, run->on.gpu);
}

kith_status kin_cascade_share_least(const kin_cascade_run *run, uint64_t *words, int64_t a_point)
{
    kin_gpu *gpu = run->on.gpu;
    if (run->share.parts == 0) {
        return KITH_OK;
    }
    const kith_status made = kin_gpu_wait(run->on.ctx, gpu);
    kin_gpu_show(gpu, words);
    KIN_TRY(kin_gpu_meet(gpu, made));
    return kin_gpu_meet(gpu, fetch_least(run, words, a_point));
}

kith_status kin_cascade_share_lasts(const kin_cascade_run *run)
{
    const kin_cascade_share *share = &run->share;
    const kin_cascade_ends job = {.graph = run->graph, .lasts = share->lasts};
    if (share->parts == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_cascade_check(run, run->kernels->ends(run->on.stream, &job), "ends of lists"));
    return kin_gpu_gather(run->on.ctx, run->on.gpu, share->lasts, sizeof *share->lasts,
                          share->firsts);
}

/* ---- Control --------------------------------------------------------------------------------- */

/* A list is not empty where its owner is. */
static void take_lists(const kin_cascade_run *run, kin_cascade_watch *own,
                       const kin_cascade_watch *theirs)
{
    const int32_t length = run->graph.length;
    for (int64_t i = 0; i < own->count; i++) {
        const int64_t at = i * length;
        if (theirs->host_entries[at] != KITH_ID_NONE) {
            memcpy(own->host_keys + at, theirs->host_keys + at,
                   (size_t)length * sizeof *own->host_keys);
            memcpy(own->host_entries + at, theirs->host_entries + at,
                   (size_t)length * sizeof *own->host_entries);
        }
    }
}

kith_status kin_cascade_share_watch(kin_cascade_run *run)
{
    kin_gpu *gpu = run->on.gpu;
    if (run->share.parts == 0) {
        return KITH_OK;
    }
    kin_gpu_show(gpu, &run->watch);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    for (int32_t p = 1; p < run->share.parts && run->share.part == 0; p++) {
        take_lists(run, &run->watch, kin_gpu_shown(gpu, p));
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

kith_status kin_cascade_share_verdict(const kin_cascade_run *run, kin_descent_verdict *verdict)
{
    kin_gpu *gpu = run->on.gpu;
    if (run->share.parts == 0) {
        return KITH_OK;
    }
    const kin_descent_verdict own = *verdict;
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    *verdict = *(const kin_descent_verdict *)kin_gpu_shown(gpu, 0);
    return kin_gpu_meet(gpu, KITH_OK);
}
