/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists on their way between the members of a team:
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
#include "screen/screen_lists_gpu.h"

#include "screen/screen_gate.h"
#include "screen/screen_start.h"

_Static_assert((int)KIN_SCREEN_GPU_MOST_PARTS == (int)KIN_GPU_TEAM_MOST, "each member has a part");

/* Words a row of another part that a stage finds, at most as a rule; and what segments take of the
 * scope. */
enum { WORDS_A_ROW = 6, SHARE_OF_SCOPE = 16, START_SHARE = 1024 };

/* What a part shows: where its segments are, and how much of them is filled. */
typedef struct parcel {
    const uint64_t *words;
    const uint32_t *rows;
    uint64_t counts[KIN_SCREEN_GPU_MOST_PARTS]; /* that are there */
    bool more;                                  /* some found no room */
} parcel;

/* ---- Sets ------------------------------------------------------------------------------------ */

kin_screen_gpu_set kin_screen_gpu_set_part(const kin_screen_gpu_set *set, int64_t first,
                                           int64_t count)
{
    kin_screen_gpu_set part = *set;
    part.points = kin_min_i64(count, set->points - first);
    part.padded = kin_round_up(part.points, KIN_SCREEN_GPU_BLOCK);
    part.rounded += first * set->frame.row_bytes;
    part.facts += first;
    part.half += first;
    part.starts = set->starts == NULL ? NULL : set->starts + first * KIN_START_BYTES;
    part.ids = set->ids == NULL ? NULL : set->ids + first;
    if (set->centres != NULL) {
        part.centres += first / KIN_SCREEN_GPU_TILE * set->frame.cols;
        part.radii += first / KIN_SCREEN_GPU_TILE;
    }
    return part;
}

void kin_screen_gpu_set_start(kin_screen_gpu_set *set, const unsigned char *starts,
                              const kin_screen_gpu_starts *found)
{
    const bool few = (int64_t)found->cut <= set->points / START_SHARE &&
                     kin_gate_is_even(set->frame.cols, set->worst);
    set->starts = few ? starts : NULL;
    set->start_shift = few ? kin_start_shift(found->least) : 0;
}

kith_status kin_screen_gpu_worst_find(const kin_screen_gpu_device *on,
                                      const kin_screen_gpu_set *set, kin_screen_gpu_worst *worst)
{
    const kin_screen_gpu_tighten job = {.set = *set, .cols_set = *set, .worst = worst};
    return KIN_SCREEN_LAUNCH(on, tighten, &job, "finding the worst of tiles");
}

kin_screen_gpu_chosen kin_screen_gpu_chosen_of(const kin_screen_gpu_frame *frame, int64_t count)
{
    return (kin_screen_gpu_chosen){.set = {.frame = *frame,
                                           .points = count,
                                           .padded = kin_round_up(count, KIN_SCREEN_GPU_BLOCK)}};
}

void kin_screen_gpu_chosen_name(kin_layout *layout, void *chosen)
{
    kin_screen_gpu_chosen *c = chosen;
    const uint64_t n = (uint64_t)c->set.padded;
    c->set.rounded = c->rounded = kin_layout_array(layout, n, (uint64_t)c->set.frame.row_bytes);
    c->set.facts = c->facts = kin_layout_array(layout, n, sizeof *c->facts);
    c->set.half = c->half = kin_layout_array(layout, n, sizeof *c->half);
    c->worst = kin_layout_array(layout, 2, sizeof *c->worst);
    if (c->set.ids == NULL) {
        c->set.ids = c->ids = kin_layout_array(layout, n, sizeof *c->ids);
    }
}

kith_status kin_screen_gpu_chosen_make(const kin_screen_gpu_device *on,
                                       kin_screen_gpu_chosen *chosen)
{
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, kin_screen_gpu_chosen_name, chosen,
                                "rounded rows", &chosen->block));
    return kin_gpu_fill(on->ctx, on->gpu, chosen->worst, 0, 2 * sizeof *chosen->worst);
}

kith_status kin_screen_gpu_chosen_round(const kin_screen_gpu_device *on,
                                        const kin_screen_gpu_rows *rows,
                                        const kin_screen_gpu_chosen *chosen)
{
    const kin_screen_gpu_round job = {.rows = *rows,
                                      .frame = chosen->set.frame,
                                      .ids = chosen->set.ids,
                                      .points = chosen->set.points,
                                      .padded = chosen->set.padded,
                                      .rounded = chosen->rounded,
                                      .facts = chosen->facts,
                                      .half = chosen->half,
                                      .worst = chosen->worst};
    return KIN_SCREEN_LAUNCH(on, round, &job, "rounding rows");
}

kith_status kin_screen_gpu_chosen_see(const kin_screen_gpu_device *on,
                                      kin_screen_gpu_chosen *chosen)
{
    float worst[2];
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, worst, chosen->worst, sizeof worst));
    chosen->set.worst = (kin_bound_row){(double)worst[0], (double)worst[1]};
    return KITH_OK;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

void kin_screen_gpu_lists_name(kin_layout *layout, void *lists)
{
    kin_screen_gpu_lists *l = lists;
    const uint64_t rows = (uint64_t)l->rows;
    l->words =
        kin_layout_array(layout, kin_size_mul(rows, (uint64_t)l->capacity), sizeof *l->words);
    l->reach = kin_layout_array(layout, rows, sizeof *l->reach);
    l->counts = kin_layout_array(layout, rows, sizeof *l->counts);
    l->lost = kin_layout_array(layout, rows, sizeof *l->lost);
}

kith_status kin_screen_gpu_lists_clear(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_set *set,
                                       const kin_screen_gpu_lists *lists)
{
    const uint64_t rows = (uint64_t)set->padded;
    const int64_t padding = set->padded - set->points;
    double closed[KIN_SCREEN_GPU_BLOCK];
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, lists->counts, 0, rows * sizeof *lists->counts));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, lists->lost, 0, rows * sizeof *lists->lost));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, lists->reach, KIN_SCREEN_GPU_NO_REACH_BYTE,
                         rows * sizeof *lists->reach));
    for (int64_t i = 0; i < padding; i++) {
        closed[i] = set->frame.bound == KIN_BOUND_INTEGER ? -1.0 : -INFINITY;
    }
    return padding == 0 ? KITH_OK
                        : kin_gpu_upload(on->ctx, on->gpu, lists->reach + set->points, closed,
                                         (uint64_t)padding * sizeof *closed);
}

kith_status kin_screen_gpu_lists_make(const kin_screen_gpu_device *on,
                                      const kin_screen_gpu_set *set, int64_t k, int32_t capacity,
                                      kin_screen_gpu_lists *lists)
{
    void *block = NULL;
    *lists = (kin_screen_gpu_lists){.rows = set->padded, .k = (int32_t)k, .capacity = capacity};
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, kin_screen_gpu_lists_name, lists,
                                "candidate lists", &block));
    const kith_status status = kin_screen_gpu_lists_clear(on, set, lists);
    if (status != KITH_OK) {
        kin_screen_gpu_lists_free(on, lists);
    }
    return status;
}

void kin_screen_gpu_lists_free(const kin_screen_gpu_device *on, kin_screen_gpu_lists *lists)
{
    kin_gpu_free(on->gpu, lists->words);
    *lists = (kin_screen_gpu_lists){0};
}

kin_screen_gpu_lists kin_screen_gpu_lists_part(const kin_screen_gpu_lists *lists, int64_t first,
                                               int64_t rows)
{
    kin_screen_gpu_lists part = *lists;
    part.rows = rows;
    part.words += first * lists->capacity;
    part.counts += first;
    part.reach += first;
    part.lost += first;
    return part;
}

/* ---- A team's -------------------------------------------------------------------------------- */

static const uint64_t WORD_BYTES = sizeof(uint64_t) + sizeof(uint32_t); /* with its row */

static uint64_t room_of(int64_t points, int32_t parts, int32_t capacity, uint64_t scope)
{
    const uint64_t least = 32 * ((uint64_t)capacity + 1);
    const uint64_t wished = (uint64_t)(points / parts) * WORDS_A_ROW;
    const uint64_t fit = scope / SHARE_OF_SCOPE / ((uint64_t)(parts + 1) * WORD_BYTES);
    const uint64_t room = wished < fit ? wished : fit;
    return room > least ? room : least;
}

void kin_screen_gpu_share_name(kin_layout *layout, void *share)
{
    kin_screen_gpu_share *s = share;
    const uint64_t all = kin_size_mul(s->room, (uint64_t)s->parts);
    s->words = kin_layout_array(layout, all, sizeof *s->words);
    s->rows = kin_layout_array(layout, all, sizeof *s->rows);
    s->got_words = kin_layout_array(layout, s->room, sizeof *s->got_words);
    s->got_rows = kin_layout_array(layout, s->room, sizeof *s->got_rows);
    s->counts = kin_layout_array(layout, 2 * (uint64_t)s->parts, sizeof *s->counts);
}

uint64_t kin_screen_gpu_share_bytes(int64_t points, int32_t parts, int32_t capacity, uint64_t room)
{
    kin_screen_gpu_share share = {.parts = parts, .room = room_of(points, parts, capacity, room)};
    return kin_gpu_layout_bytes(kin_screen_gpu_share_name, &share);
}

kin_screen_gpu_share kin_screen_gpu_share_of(const kin_gpu *gpu, int64_t points, int32_t capacity,
                                             uint64_t scope)
{
    kin_screen_gpu_share share = {.part = kin_gpu_part(gpu), .parts = kin_gpu_parts(gpu)};
    if (share.parts < 2) {
        share.parts = 0;
        return share;
    }
    kin_gpu_divide(points, KIN_SCREEN_GPU_BLOCK, share.parts, share.firsts);
    share.room = room_of(points, share.parts, capacity, scope);
    return share;
}

static kith_status pack(const kin_screen_gpu_device *on, kin_screen_gpu_share *share,
                        const kin_screen_gpu_lists *lists, int64_t points, bool whole, parcel *mine)
{
    uint64_t counts[2 * KIN_SCREEN_GPU_MOST_PARTS];
    const uint64_t bytes = 2 * (uint64_t)share->parts * sizeof *counts;
    kin_screen_gpu_pack job = {.lists = *lists,
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
    KIN_TRY(KIN_SCREEN_LAUNCH(on, pack, &job, "packing candidates"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, counts, share->counts, bytes));
    *mine = (parcel){.words = share->words, .rows = share->rows};
    for (int32_t p = 0; p < share->parts; p++) {
        const uint64_t end = counts[2 * p + 1];
        mine->counts[p] = counts[2 * p] < end ? counts[2 * p] : end;
        mine->more = mine->more || end != UINT64_MAX;
    }
    return KITH_OK;
}

static kith_status accept_all(const kin_screen_gpu_device *on, const kin_screen_gpu_share *share,
                              const kin_screen_gpu_lists *lists, bool whole)
{
    for (int32_t turn = 1; turn < share->parts; turn++) {
        const int32_t p = (share->part + turn) % share->parts;
        const parcel *theirs = kin_gpu_shown(on->gpu, p);
        const uint64_t count = theirs->counts[share->part];
        const uint64_t at = (uint64_t)share->part * share->room;
        const kin_screen_gpu_accept job = {.lists = *lists,
                                           .words = share->got_words,
                                           .rows = share->got_rows,
                                           .count = (int64_t)count,
                                           .whole = whole};
        KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, share->got_words, theirs->words + at,
                                  count * sizeof *share->words));
        KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, share->got_rows, theirs->rows + at,
                                  count * sizeof *share->rows));
        KIN_TRY(KIN_SCREEN_LAUNCH(on, accept, &job, "taking candidates"));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

kith_status kin_screen_gpu_share_lists(const kin_screen_gpu_device *on, kin_screen_gpu_share *share,
                                       const kin_screen_gpu_lists *lists, int64_t points,
                                       bool whole)
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

kith_status kin_screen_gpu_share_reach(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_share *share,
                                       const kin_screen_gpu_lists *lists)
{
    return kin_gpu_gather(on->ctx, on->gpu, lists->reach, sizeof *lists->reach, share->firsts);
}
