/* SPDX-License-Identifier: Apache-2.0
 *
 *      part 0    pack ---- meet - copy from 1 - accept - copy from 2 - accept -- meet
 *      part 1    pack - meet ---- copy from 2 - accept - copy from 0 - accept -- meet
 *      part 2    pack -- meet --- copy from 0 - accept - copy from 1 - accept -- meet
 *
 * Bytes of a stage, of n rows: 12 for each candidate of a row that another part found (of the
 * stages' k ln 2 a row about all but one in `parts`), then 8 n of reaches to each part. For 10^7
 * rows and k = 10 on 4 GPUs that is some 0.2 GB and 60 MB to each, where a stage takes 0.1 to 1 s.
 *
 * Memory. Segments hold what a stage leaves of usual data; what does not fit goes in a second
 * exchange.
 */
#include "fused/fused_share.h"

#include "base/base_size.h"
#include "base/base_try.h"

_Static_assert((int)KIN_FUSED_MOST_PARTS == (int)KIN_GPU_TEAM_MOST, "each member has a part");

/* Words a row of another part that a stage finds, at most as a rule; and what segments take of the
 * scope. */
enum { WORDS_A_ROW = 6, SHARE_OF_SCOPE = 16 };

/* What a part shows: where its segments are, and how much of them is filled. */
typedef struct parcel {
    const uint64_t *words;
    const uint32_t *rows;
    uint64_t counts[KIN_FUSED_MOST_PARTS]; /* that are there */
    bool more;                             /* some found no room */
} parcel;

/* ---- Memory ---------------------------------------------------------------------------------- */

void kin_fused_share_free(const kin_fused_device *on, kin_fused_share *share)
{
    kin_gpu_free(on->gpu, share->counts);
    kin_gpu_free(on->gpu, share->got_rows);
    kin_gpu_free(on->gpu, share->got_words);
    kin_gpu_free(on->gpu, share->rows);
    kin_gpu_free(on->gpu, share->words);
    *share = (kin_fused_share){0};
}

static const uint64_t WORD_BYTES = sizeof(uint64_t) + sizeof(uint32_t); /* with its row */

static uint64_t room_of(int64_t points, int32_t parts, int32_t capacity, uint64_t scope)
{
    const uint64_t least = 32 * ((uint64_t)capacity + 1);
    const uint64_t wished = (uint64_t)(points / parts) * WORDS_A_ROW;
    const uint64_t fit = scope / SHARE_OF_SCOPE / ((uint64_t)(parts + 1) * WORD_BYTES);
    const uint64_t room = wished < fit ? wished : fit;
    return room > least ? room : least;
}

uint64_t kin_fused_share_bytes(int64_t points, int32_t parts, int32_t capacity, uint64_t room)
{
    return kin_size_mul(room_of(points, parts, capacity, room), (uint64_t)(parts + 1) * WORD_BYTES);
}

static kith_status allocate(const kin_fused_device *on, kin_fused_share *share)
{
    const char *what = "candidates of other GPUs";
    const uint64_t all = kin_size_mul(share->room, (uint64_t)share->parts);
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &share->words, all, sizeof *share->words, what));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &share->rows, all, sizeof *share->rows, what));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &share->got_words, share->room,
                          sizeof *share->got_words, what));
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &share->got_rows, share->room, sizeof *share->got_rows,
                          what));
    return kin_gpu_alloc(on->ctx, on->gpu, &share->counts, 2 * (uint64_t)share->parts,
                         sizeof *share->counts, what);
}

kith_status kin_fused_share_make(const kin_fused_device *on, const kin_fused_set *set,
                                 int32_t capacity, uint64_t scope, kin_fused_share *share)
{
    *share = (kin_fused_share){.part = kin_gpu_part(on->gpu), .parts = kin_gpu_parts(on->gpu)};
    if (share->parts < 2) {
        share->parts = 0;
        return KITH_OK;
    }
    kin_gpu_divide(set->points, KIN_FUSED_BLOCK, share->parts, share->firsts);
    share->room = room_of(set->points, share->parts, capacity, scope);
    const kith_status status = allocate(on, share);
    if (status != KITH_OK) {
        kin_fused_share_free(on, share);
    }
    return status;
}

kin_fused_lists kin_fused_lists_part(const kin_fused_lists *lists, int64_t first, int64_t rows)
{
    kin_fused_lists part = *lists;
    part.rows = rows;
    part.words += first * lists->capacity;
    part.counts += first;
    part.reach += first;
    part.lost += first;
    return part;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static kith_status pack(const kin_fused_device *on, kin_fused_share *share,
                        const kin_fused_lists *lists, int64_t points, bool whole, parcel *mine)
{
    uint64_t counts[2 * KIN_FUSED_MOST_PARTS];
    const uint64_t bytes = 2 * (uint64_t)share->parts * sizeof *counts;
    kin_fused_pack job = {.lists = *lists,
                          .points = points,
                          .part = share->part,
                          .parts = share->parts,
                          .whole = whole,
                          .room = share->room,
                          .words = share->words,
                          .rows = share->rows,
                          .counts = share->counts};
    memcpy(job.firsts, share->firsts, sizeof job.firsts);
    for (int32_t p = 0; p < share->parts; p++) {
        counts[2 * p] = 0;
        counts[2 * p + 1] = UINT64_MAX;
    }
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, share->counts, counts, bytes));
    KIN_TRY(
        kin_gpu_check(on->ctx, on->gpu, on->kernels->pack(on->stream, &job), "packing candidates"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, counts, share->counts, bytes));
    *mine = (parcel){.words = share->words, .rows = share->rows};
    for (int32_t p = 0; p < share->parts; p++) {
        const uint64_t end = counts[2 * p + 1];
        mine->counts[p] = counts[2 * p] < end ? counts[2 * p] : end;
        mine->more = mine->more || end != UINT64_MAX;
    }
    return KITH_OK;
}

static kith_status accept_all(const kin_fused_device *on, const kin_fused_share *share,
                              const kin_fused_lists *lists, bool whole)
{
    for (int32_t turn = 1; turn < share->parts; turn++) {
        const int32_t p = (share->part + turn) % share->parts;
        const parcel *theirs = kin_gpu_shown(on->gpu, p);
        const uint64_t count = theirs->counts[share->part];
        const uint64_t at = (uint64_t)share->part * share->room;
        const kin_fused_accept job = {.lists = *lists,
                                      .words = share->got_words,
                                      .rows = share->got_rows,
                                      .count = (int64_t)count,
                                      .whole = whole};
        KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, share->got_words, theirs->words + at,
                                  count * sizeof *share->words));
        KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, share->got_rows, theirs->rows + at,
                                  count * sizeof *share->rows));
        KIN_TRY(kin_gpu_check(on->ctx, on->gpu, on->kernels->accept(on->stream, &job),
                              "taking candidates"));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

kith_status kin_fused_share_lists(const kin_fused_device *on, kin_fused_share *share,
                                  const kin_fused_lists *lists, int64_t points, bool whole)
{
    bool more = true;
    while (more) {
        parcel mine = {0};
        const kith_status packed = pack(on, share, lists, points, whole, &mine);
        kin_gpu_show(on->gpu, &mine);
        KIN_TRY(kin_gpu_meet(on->gpu, packed));
        more = false;
        for (int32_t p = 0; p < share->parts; p++) {
            more = more || ((const parcel *)kin_gpu_shown(on->gpu, p))->more;
        }
        KIN_TRY(kin_gpu_meet(on->gpu, accept_all(on, share, lists, whole)));
    }
    return KITH_OK;
}

kith_status kin_fused_share_reach(const kin_fused_device *on, const kin_fused_share *share,
                                  const kin_fused_lists *lists)
{
    return kin_gpu_gather(on->ctx, on->gpu, lists->reach, sizeof *lists->reach, share->firsts);
}

kith_status kin_fused_share_lost(const kin_fused_device *on, const kin_fused_share *share,
                                 const kin_fused_lists *lists)
{
    return kin_gpu_gather(on->ctx, on->gpu, lists->lost, sizeof *lists->lost, share->firsts);
}
