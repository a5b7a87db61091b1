/* SPDX-License-Identifier: Apache-2.0 */
#include "fused/fused_answer.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

enum { ROWS_A_TASK = 64 };

/* ---- Finished lists -------------------------------------------------------------------------- */

/* The first `wanted` of the row's list so far and of the present chunk's. */
static void merge_list(const kin_fused_answers *a, const kin_answer *answer, uint32_t row,
                       kin_pair *scratch)
{
    kin_pair *list = a->merged + (int64_t)row * a->wanted;
    const int64_t have = a->merged_count[row];
    int64_t i = 0;
    int64_t j = 0;
    int64_t count = 0;
    while (count < a->wanted && (i < have || j < answer->count)) {
        kin_pair other = {0};
        if (j < answer->count) {
            other = answer->list[j];
            other.id += a->id0;
        }
        const bool old = j == answer->count || (i < have && kin_pair_less(&list[i], &other));
        scratch[count++] = old ? list[i++] : other;
        j += old ? 0 : 1;
    }
    memcpy(list, scratch, (size_t)count * sizeof *list);
    a->merged_count[row] = (int32_t)count;
}

typedef struct writing {
    const kin_fused_answers *a;
    const kin_fused_finished *lists;
    kin_pair *scratch; /* by thread, wanted of them; for merging */
} writing;

static kith_status write_some(void *arg, int64_t task, int32_t thread)
{
    const writing *w = arg;
    const kin_fused_answers *a = w->a;
    const kin_fused_finished *l = w->lists;
    kin_answer *answer = &a->threads[thread];
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, l->rows);
    for (int64_t i = task * ROWS_A_TASK; i < last; i++) {
        if (l->ids[i] == KITH_ID_NONE || (l->lost != NULL && l->lost[i] != 0)) {
            continue;
        }
        const bool none = l->pairs == NULL;
        const int32_t full = l->counts == NULL ? l->k : l->counts[i];
        kin_answer_expand(answer, none ? NULL : l->pairs + i * l->k, none ? 0 : full);
        if (a->merged != NULL) {
            merge_list(a, answer, a->row0 + l->ids[i], w->scratch + (int64_t)thread * a->wanted);
        } else {
            KIN_TRY(kin_answer_write_group(a->on.ctx, &a->target, answer, l->ids[i]));
        }
    }
    return KITH_OK;
}

kith_status kin_fused_host_write(const kin_fused_answers *a, const kin_fused_finished *lists)
{
    kith_ctx *ctx = a->on.ctx;
    writing w = {.a = a, .lists = lists};
    if (a->merged != NULL) {
        KIN_TRY(kin_alloc(ctx, &w.scratch,
                          kin_size_mul((uint64_t)ctx->threads, (uint64_t)a->wanted),
                          sizeof *w.scratch, "merged lists"));
    }
    const kith_status status =
        kin_parallel(ctx, "rescore", kin_ceil_div(lists->rows, ROWS_A_TASK), write_some, &w);
    kin_free(ctx, w.scratch);
    return status;
}

/* ---- The end --------------------------------------------------------------------------------- */

static kith_status write_merged(void *arg, int64_t task, int32_t thread)
{
    const kin_fused_answers *a = arg;
    kin_answer *answer = &a->threads[thread];
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, a->target.out->rows);
    for (int64_t row = task * ROWS_A_TASK; row < last; row++) {
        answer->count = a->merged_count[row];
        memcpy(answer->list, a->merged + row * a->wanted,
               (size_t)answer->count * sizeof *answer->list);
        if (answer->count == 0) { /* no chunk had a list for it: a degenerate row */
            kin_answer_degenerate(answer);
        }
        KIN_TRY(kin_answer_write_group(a->on.ctx, &a->target, answer, (uint32_t)row));
    }
    return KITH_OK;
}

kith_status kin_fused_host_finish(kin_fused_answers *a)
{
    if (a->merged == NULL) {
        kin_answer_write_degenerates(&a->target, &a->threads[0]);
        return KITH_OK;
    }
    return kin_parallel(a->on.ctx, "rescore", kin_ceil_div(a->target.out->rows, ROWS_A_TASK),
                        write_merged, a);
}
