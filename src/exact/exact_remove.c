/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_remove.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "select/select_pairs.h"

enum { ROWS_A_TASK = 256 };

typedef struct removing {
    const kith_neighbors *graph;
    const uint32_t *map;
    const uint32_t *rows;
    int64_t left;
    int64_t wanted;
    bool self;
    uint32_t *ids;
    uint8_t *lacks;    /* by new id */
    uint64_t *scratch; /* by thread: graph->k */
} removing;

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
static int64_t different(const removing *r, int64_t row, const uint32_t *ids, uint64_t *sorted)
{
    int64_t count = 0;
    int64_t distinct = 0;
    for (int64_t i = 0; i < r->graph->k; i++) {
        if (ids[i] != KITH_ID_NONE && (r->self || (int64_t)ids[i] != row)) {
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
    const int64_t k = r->graph->k;
    uint64_t *sorted = r->scratch + (int64_t)thread * k;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, r->left);
    for (int64_t row = task * ROWS_A_TASK; row < last; row++) {
        const uint32_t *from = r->graph->ids + (int64_t)r->rows[row] * k;
        uint32_t *to = r->ids + row * k;
        for (int64_t i = 0; i < k; i++) {
            to[i] = from[i] == KITH_ID_NONE ? KITH_ID_NONE : r->map[from[i]];
        }
        r->lacks[row] = different(r, row, to, sorted) < r->wanted;
    }
    return KITH_OK;
}

kith_status kin_remove_lists(kith_ctx *ctx, const kith_neighbors *graph, const uint32_t *map,
                             const uint32_t *rows, int64_t left, int64_t wanted, bool self,
                             uint32_t *ids, uint32_t *lacking, int64_t *lacking_count)
{
    removing r = {.graph = graph,
                  .map = map,
                  .rows = rows,
                  .left = left,
                  .wanted = wanted,
                  .self = self,
                  .ids = ids};
    kith_status status = KITH_OK;
    *lacking_count = 0;
    KIN_TRY_GOTO(
        status,
        kin_alloc(ctx, &r.lacks, (uint64_t)left, sizeof *r.lacks, "rows that lost neighbours"),
        done);
    KIN_TRY_GOTO(status,
                 kin_alloc(ctx, &r.scratch,
                           kin_size_mul((uint64_t)ctx->threads, (uint64_t)graph->k),
                           sizeof *r.scratch, "the list of a row"),
                 done);
    KIN_TRY_GOTO(
        status, kin_parallel(ctx, "remove", kin_ceil_div(left, ROWS_A_TASK), take_lists, &r), done);
    for (int64_t row = 0; row < left; row++) {
        if (r.lacks[row] != 0) {
            lacking[(*lacking_count)++] = (uint32_t)row;
        }
    }
done:
    kin_free(ctx, r.scratch);
    kin_free(ctx, r.lacks);
    return status;
}
