/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a corpus that is prepared, as a set of their own: some of them, or all as bytes. Rows,
 * means and pivots are the corpus', and so is the order: nothing is looked for again. */
#include "screen/screen_prepare_gpu.h"

/* ---- Some of them ---------------------------------------------------------------------------- */

/* What is kept of a set, on its way. */
typedef struct keeping {
    int64_t points; /* of all */
    uint32_t *words;
    uint32_t *counts;
} keeping;

static void name_keeping(kin_layout *layout, void *job)
{
    keeping *k = job;
    k->words = kin_layout_array(layout, (uint64_t)kin_ceil_div(k->points, 32), sizeof *k->words);
    k->counts =
        kin_layout_array(layout, (uint64_t)kin_screen_gpu_keep_parts(k->points), sizeof *k->counts);
}

typedef struct allowing {
    const kin_screen_gpu_prepared *all;
    const uint8_t *allow;
} allowing;

/* kin_screen_gpu_listing.list */
static kith_status keep_ids(void *arg, const kin_screen_gpu_device *on,
                            kin_screen_gpu_prepared *out)
{
    kith_ctx *ctx = on->ctx;
    const allowing *a = arg;
    const kin_screen_gpu_prepared *all = a->all;
    keeping k = {.points = all->rows.rows};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_gpu_hold_layout(&hold, on->gpu, name_keeping, &k, "rows that are allowed"));
    const kin_screen_gpu_keep job = {.words = k.words,
                                     .ids = all->ids,
                                     .points = all->set.points,
                                     .marks = out->pivots != NULL ? all->marks : NULL,
                                     .kept = out->set.points,
                                     .to_ids = out->ids,
                                     .to_marks = out->marks,
                                     .counts = k.counts};
    KIN_TRY(kin_gpu_upload(ctx, on->gpu, k.words, a->allow, (uint64_t)kin_ceil_div(k.points, 8)));
    return KIN_SCREEN_LAUNCH(on, keep, &job, "keeping rows that are allowed");
}

kith_status kin_screen_gpu_prepare_some(const kin_screen_gpu_device *on,
                                        const kin_screen_gpu_prepared *all, const uint8_t *allow,
                                        int64_t kept, kin_screen_gpu_prepared *out)
{
    allowing a = {all, allow};
    const kin_screen_gpu_listing listing = {.frame = all->set.frame, .list = keep_ids, .arg = &a};
    *out = (kin_screen_gpu_prepared){.distance = all->distance,
                                     .rows = all->rows,
                                     .borrows = true,
                                     .some = true,
                                     .plain = true,
                                     .groups = {.rows = all->groups.rows, .count = kept},
                                     .covered = kin_screen_gpu_is_covered(&all->distance, kept)};
    if (out->covered) {
        out->pivots = all->pivots;
        out->pivot_count = all->pivot_count;
    }
    return kin_screen_gpu_prepare_listed(on, &listing, out);
}

/* ---- As bytes -------------------------------------------------------------------------------- */

/* kin_screen_gpu_listing.list */
static kith_status copy_ids(void *arg, const kin_screen_gpu_device *on,
                            kin_screen_gpu_prepared *out)
{
    const kin_screen_gpu_prepared *halves = arg;
    out->marks = halves->marks;
    return kin_gpu_copy(on->ctx, on->gpu, out->ids, halves->ids,
                        (uint64_t)out->set.points * sizeof *out->ids);
}

kith_status kin_screen_gpu_prepare_bytes(const kin_screen_gpu_device *on,
                                         const kin_screen_gpu_prepared *halves,
                                         const kin_screen_gpu_past *past,
                                         kin_screen_gpu_prepared *out)
{
    const bool grown = halves->groups.count > halves->framed;
    const kin_screen_gpu_listing listing = {
        .frame = halves->byte_frame,
        .room = grown ? kin_screen_gpu_room_of(halves->framed) : 0,
        .past = grown && past != NULL ? *past : (kin_screen_gpu_past){.known = 0},
        .list = copy_ids,
        .arg = (void *)(uintptr_t)halves};
    *out = (kin_screen_gpu_prepared){
        .distance = halves->distance,
        .rows = halves->rows,
        .borrows = true,
        .plain = halves->plain,
        .groups = {.rows = halves->groups.rows, .count = halves->groups.count},
        .covered = halves->covered,
        .pivots = halves->pivots,
        .pivot_count = halves->pivot_count};
    return kin_screen_gpu_prepare_listed(on, &listing, out);
}
