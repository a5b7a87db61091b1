/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_remove.h"

#include "base/base_layout.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "select/select_pairs.h"

enum { ROWS_A_TASK = 256 };

typedef struct removing {
    const kin_remove_job *job;
    int32_t threads;
    uint8_t *lacks;    /* by new id */
    uint64_t *scratch; /* by thread: graph->k */
} removing;

static void name_arrays(kin_layout *layout, void *arg)
{
    removing *r = arg;
    const uint64_t threads = (uint64_t)r->threads;
    r->lacks = kin_layout_array(layout, (uint64_t)r->job->left, sizeof *r->lacks);
    r->scratch = kin_layout_array(layout, kin_size_mul(threads, (uint64_t)r->job->graph->k),
                                  sizeof *r->scratch);
}

int64_t kin_remove_map(const uint8_t *removed, int64_t count, uint32_t *map, uint32_t *rows)
{
    int64_t left = 0;
    for (int64_t row = 0; row < count; row++) {
        map[row] = removed[row] != 0 ? KITH_ID_NONE : (uint32_t)left;
        if (removed[row] == 0) {
            rows[left++] = (uint32_t)row;
        }
    }
    return left;
}

/* Different ids of a list that count. A row's own counts where it stands in the list, not because
 * it may: k others can be before it, of equal points the lower ones, of products the larger ones.
 */
static int64_t different(const kin_remove_job *job, int64_t row, const uint32_t *ids,
                         uint64_t *sorted)
{
    int64_t count = 0;
    int64_t distinct = 0;
    for (int64_t i = 0; i < job->graph->k; i++) {
        if (ids[i] != KITH_ID_NONE && (job->self || (int64_t)ids[i] != row)) {
            sorted[count++] = ids[i];
        }
    }
    kin_select_sort_words(sorted, count);
    for (int64_t i = 0; i < count; i++) {
        distinct += i == 0 || sorted[i] != sorted[i - 1];
    }
    return distinct;
}

static kith_status take_lists(void *arg, int64_t task, int32_t thread)
{
    const removing *r = arg;
    const kin_remove_job *job = r->job;
    const int64_t k = job->graph->k;
    uint64_t *sorted = r->scratch + (int64_t)thread * k;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, job->left);
    for (int64_t row = task * ROWS_A_TASK; row < last; row++) {
        const uint32_t *from = job->graph->ids + (int64_t)job->rows[row] * k;
        uint32_t *to = job->ids + row * k;
        for (int64_t i = 0; i < k; i++) {
            to[i] = from[i] == KITH_ID_NONE ? KITH_ID_NONE : job->map[from[i]];
        }
        r->lacks[row] = different(job, row, to, sorted) < job->wanted;
    }
    return KITH_OK;
}

kith_status kin_remove_lists(kith_ctx *ctx, kin_remove_job *job)
{
    removing r = {.job = job, .threads = ctx->threads};
    void *block = NULL;
    KIN_TRY(kin_layout_make(ctx, name_arrays, &r, "rows that lost neighbours", &block));
    const kith_status status =
        kin_parallel(ctx, "remove", kin_ceil_div(job->left, ROWS_A_TASK), take_lists, &r);
    job->lacking_count = 0;
    for (int64_t row = 0; row < job->left && status == KITH_OK; row++) {
        if (r.lacks[row] != 0) {
            job->lacking[job->lacking_count++] = (uint32_t)row;
        }
    }
    kin_free(ctx, block);
    return status;
}
