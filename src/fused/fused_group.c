/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The device says of each row which is the first one like it (fused_group.cu), and which are
 * degenerate. Where all rows are distinct and none is degenerate, which two counts tell, nothing
 * more is read; otherwise the host makes the lists of exact_group.h of it in one pass.
 *
 * Memory. Device: a table of at least two slots of 16 bytes a row, for a while. Host: 9 bytes a row
 * for a while beside the lists.
 */
#include "fused/fused_prepare.h"

#include "base/base_mem.h"
#include "base/base_try.h"

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
    kin_fused_equal *found = job;
    found->firsts = kin_layout_array(layout, (uint64_t)found->rows, sizeof *found->firsts);
    found->table = kin_layout_array(layout, table_slots(found->rows), SLOT_BYTES);
}

uint64_t kin_fused_equal_bytes(int64_t rows)
{
    kin_fused_equal found = {.rows = rows};
    return kin_gpu_layout_bytes(name_equal, &found);
}

kith_status kin_fused_equal_start(const kin_fused_device *on, const kin_fused_rows *rows,
                                  uint64_t *distinct, kin_fused_equal *found)
{
    const uint64_t slots = table_slots(rows->rows);
    found->rows = rows->rows;
    KIN_TRY(
        kin_gpu_layout_make(on->ctx, on->gpu, name_equal, found, "a table of rows", &found->block));
    KIN_TRY(kin_gpu_fill(on->ctx, on->gpu, found->table, 0xff, slots * SLOT_BYTES));
    const kin_fused_group job = {.rows = *rows,
                                 .slots = slots,
                                 .table = found->table,
                                 .firsts = found->firsts,
                                 .distinct = distinct};
    return kin_gpu_check(on->ctx, on->gpu, on->kernels->group(on->stream, &job),
                         "finding equal rows");
}

void kin_fused_equal_free(const kin_fused_device *on, kin_fused_equal *found)
{
    kin_gpu_free(on->gpu, found->block);
    found->block = NULL;
    found->firsts = NULL;
}

/* What the lists of groups are made from, on the host; NULL: every row is its own first, none is
 * degenerate. */
typedef struct marks {
    uint32_t *firsts;
    uint8_t *degenerate;
    uint32_t *last; /* by first: the last id of its group so far */
} marks;

static void collect(const marks *m, kin_groups *groups)
{
    for (int64_t i = 0; i < groups->rows; i++) {
        const uint32_t row = (uint32_t)i;
        if (m->degenerate != NULL && m->degenerate[i] != 0) {
            groups->degenerates[groups->degenerate++] = row;
            continue;
        }
        const uint32_t first = m->firsts != NULL ? m->firsts[i] : row;
        if (first == row) {
            groups->firsts[groups->count++] = row;
        } else {
            groups->next[m->last[first]] = row;
            groups->weights[first] += 1;
        }
        if (m->firsts != NULL) {
            m->last[first] = row;
        }
    }
}

static kith_status download_marks(const kin_fused_device *on, const kin_fused_equal *found,
                                  int64_t rows, marks *m)
{
    kith_ctx *ctx = on->ctx;
    const uint64_t n = (uint64_t)rows;
    if (found->firsts != NULL && found->distinct < n) {
        KIN_TRY(kin_alloc(ctx, &m->firsts, n, sizeof *m->firsts, "groups of equal rows"));
        KIN_TRY(kin_alloc(ctx, &m->last, n, sizeof *m->last, "groups of equal rows"));
        KIN_TRY(kin_gpu_download(ctx, on->gpu, m->firsts, found->firsts, n * sizeof *m->firsts));
    }
    if (found->degenerate > 0) {
        KIN_TRY(kin_alloc(ctx, &m->degenerate, n, 1, "degenerate rows"));
        KIN_TRY(kin_gpu_download(ctx, on->gpu, m->degenerate, found->is_degenerate, n));
    }
    return KITH_OK;
}

static kith_status allocate_groups(kith_ctx *ctx, const marks *m, kin_groups *groups)
{
    const uint64_t n = (uint64_t)groups->rows;
    KIN_TRY(kin_alloc(ctx, &groups->firsts, n, sizeof(uint32_t), "distinct rows"));
    if (m->firsts != NULL) {
        KIN_TRY(kin_alloc(ctx, &groups->weights, n, sizeof(uint32_t), "groups of equal rows"));
        KIN_TRY(kin_alloc(ctx, &groups->next, n, sizeof(uint32_t), "groups of equal rows"));
        memset(groups->next, 0xff, (size_t)n * sizeof *groups->next);
        for (uint64_t i = 0; i < n; i++) {
            groups->weights[i] = 1;
        }
    }
    if (m->degenerate != NULL) {
        KIN_TRY(kin_alloc(ctx, &groups->degenerates, n, sizeof(uint32_t), "degenerate rows"));
    }
    return KITH_OK;
}

/* Equal degenerate rows are no groups. */
static void drop_empty_links(kith_ctx *ctx, kin_groups *groups)
{
    if (groups->count + groups->degenerate == groups->rows) {
        kin_free(ctx, groups->weights);
        kin_free(ctx, groups->next);
        groups->weights = NULL;
        groups->next = NULL;
    }
}

bool kin_fused_equal_is_plain(const kin_fused_equal *found, int64_t rows)
{
    return (found->firsts == NULL || found->distinct == (uint64_t)rows) && found->degenerate == 0;
}

kith_status kin_fused_equal_lists(const kin_fused_device *on, const kin_fused_equal *found,
                                  int64_t rows, kin_groups *groups)
{
    kith_ctx *ctx = on->ctx;
    *groups = (kin_groups){.rows = rows};
    if (kin_fused_equal_is_plain(found, rows)) {
        groups->count = rows;
        return KITH_OK;
    }
    marks m = {0};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, download_marks(on, found, rows, &m), done);
    KIN_TRY_GOTO(status, allocate_groups(ctx, &m, groups), done);
    collect(&m, groups);
    drop_empty_links(ctx, groups);
done:
    kin_free(ctx, m.degenerate);
    kin_free(ctx, m.last);
    kin_free(ctx, m.firsts);
    return status;
}
