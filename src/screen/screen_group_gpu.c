/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The device says of each row which is the first one like it (screen_group.cu), and which are
 * degenerate. Where all rows are distinct and none is degenerate, which two counts tell, nothing
 * more is read; otherwise the host makes the lists of screen_prepare.h of it in one pass.
 *
 * Memory. Device: a table of at least two slots of 16 bytes a row, for a while. Host: 9 bytes a row
 * for a while beside the lists.
 */
#include "screen/screen_prepare_gpu.h"

enum { SLOT_BYTES = 2 * sizeof(uint64_t) };

static uint64_t table_slots(int64_t rows)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)rows) {
        slots *= 2;
    }
    return slots;
}

static void name_equal(kin_layout *layout, void *job)
{
    kin_screen_gpu_equal *found = job;
    found->firsts = kin_layout_array(layout, (uint64_t)found->rows, sizeof *found->firsts);
    found->table = kin_layout_array(layout, table_slots(found->rows), SLOT_BYTES);
}

uint64_t kin_screen_gpu_equal_bytes(int64_t rows)
{
    kin_screen_gpu_equal found = {.rows = rows};
    return kin_gpu_layout_bytes(name_equal, &found);
}

kith_status kin_screen_gpu_equal_start(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_rows *rows, uint64_t *distinct,
                                       kin_screen_gpu_equal *found)
{
    const uint64_t slots = table_slots(rows->rows);
    found->rows = rows->rows;
    KIN_TRY(
        kin_gpu_layout_make(on->ctx, on->gpu, name_equal, found, "a table of rows", &found->block));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, found->table, 0xff, slots * SLOT_BYTES));
    const kin_screen_gpu_group job = {.rows = *rows,
                                      .slots = slots,
                                      .table = found->table,
                                      .firsts = found->firsts,
                                      .distinct = distinct,
                                      .hashes = found->hashes,
                                      .known = found->known};
    return KIN_SCREEN_LAUNCH(on, group, &job, "finding equal rows");
}

void kin_screen_gpu_equal_free(const kin_screen_gpu_device *on, kin_screen_gpu_equal *found)
{
    kin_gpu_free(on->gpu, found->block);
    found->block = NULL;
    found->firsts = NULL;
}

bool kin_screen_gpu_equal_is_plain(const kin_screen_gpu_equal *found, int64_t rows)
{
    return (found->firsts == NULL || found->distinct == (uint64_t)rows) && found->degenerate == 0;
}

kith_status kin_screen_gpu_equal_lists(const kin_screen_gpu_device *on,
                                       const kin_screen_gpu_equal *found, int64_t rows,
                                       kin_groups *groups)
{
    kith_ctx *ctx = on->ctx;
    *groups = (kin_groups){.rows = rows};
    if (kin_screen_gpu_equal_is_plain(found, rows)) {
        groups->count = rows;
        return KITH_OK;
    }
    const uint64_t n = (uint64_t)rows;
    uint32_t *firsts = NULL;
    uint8_t *degenerate = NULL;
    KIN_HOLD(hold, ctx);
    if (found->firsts != NULL && found->distinct < n) {
        KIN_NEW(&hold, firsts, n, "groups of equal rows");
        KIN_TRY(kin_gpu_download(ctx, on->gpu, firsts, found->firsts, n * sizeof *firsts));
    }
    if (found->degenerate > 0) {
        KIN_NEW(&hold, degenerate, n, "degenerate rows");
        KIN_TRY(kin_gpu_download(ctx, on->gpu, degenerate, found->is_degenerate, n));
    }
    return kin_groups_of_firsts(ctx, rows, firsts, degenerate, groups);
}
