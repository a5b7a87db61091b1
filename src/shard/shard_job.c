/* SPDX-License-Identifier: Apache-2.0
 * What all parts of a graph from shards use: found neighbours into the lists of shards, contexts
 * for threads beside, messages that count rows. */
#include "shard/shard_job.h"

#include <math.h>

enum { ROWS_A_TASK = 256, RETURNED_BYTES = 1 << 20 };

void kin_shard_aim(kin_shard_job *job, const kin_shard_part *const *parts, const int64_t *k,
                   int32_t sides)
{
    int64_t at = 0;
    for (int32_t i = 0; i < sides; i++) {
        job->found[i] = (kith_neighbors){.ids = job->found_ids + at,
                                         .distances64 = job->found_keys + at,
                                         .rows = parts[i]->rows,
                                         .k = k[i]};
        at += parts[i]->rows * k[i];
    }
}

void kin_shard_clear(const kin_shard_job *job, const kin_shard_part *part)
{
    for (int64_t i = 0; i < part->rows * job->k; i++) {
        part->lists.ids[i] = KITH_ID_NONE;
        part->lists.keys[i] = INFINITY;
    }
}

typedef struct taking {
    const kith_neighbors *found;
    const kin_shard_part *part;
    uint32_t *ids; /* k a thread */
    double *keys;
    int64_t k;
    uint32_t first;
    bool negates;
    uint64_t threads;
} taking;

static void name_lists(kin_layout *layout, void *arg)
{
    taking *t = arg;
    t->ids = kin_layout_array(layout, t->threads * (uint64_t)t->k, sizeof *t->ids);
    t->keys = kin_layout_array(layout, t->threads * (uint64_t)t->k, sizeof *t->keys);
}

/* Whether the nearest of what was found comes behind the last of a list that is full. */
static bool is_too_far(const taking *t, int64_t row)
{
    const int64_t last = row * t->k + t->k - 1;
    const double key = t->found->distances64[row * t->found->k];
    return t->part->lists.ids[last] != KITH_ID_NONE &&
           (t->negates ? -key : key) > t->part->lists.keys[last];
}

/* One list and what was found, both ascending by (key, id). An id has one key wherever it is, so
 * that twice the same are met side by side. */
static kith_status take_row(void *arg, int64_t row, int32_t thread)
{
    const taking *t = arg;
    if (is_too_far(t, row)) {
        return KITH_OK;
    }
    const int64_t wide = t->found->k;
    uint32_t *ids = t->ids + thread * t->k;
    double *keys = t->keys + thread * t->k;
    uint32_t *own_ids = t->part->lists.ids + row * t->k;
    double *own_keys = t->part->lists.keys + row * t->k;
    const uint32_t *new_ids = t->found->ids + row * wide;
    const double *new_keys = t->found->distances64 + row * wide;
    int64_t i = 0;
    int64_t j = 0;
    for (int64_t at = 0; at < t->k; at++) {
        const bool has_own = i < t->k && own_ids[i] != KITH_ID_NONE;
        const bool has_new = j < wide && new_ids[j] != KITH_ID_NONE;
        const uint32_t id = has_new ? t->first + new_ids[j] : KITH_ID_NONE;
        const double key = !has_new ? INFINITY : t->negates ? -new_keys[j] : new_keys[j];
        const bool same = has_own && has_new && own_ids[i] == id;
        const bool mine =
            has_own && (!has_new || own_keys[i] < key || (own_keys[i] == key && own_ids[i] <= id));
        ids[at] = mine ? own_ids[i] : id;
        keys[at] = mine ? own_keys[i] : key;
        i += mine || same;
        j += !mine || same;
    }
    memcpy(own_ids, ids, (size_t)t->k * sizeof *ids);
    memcpy(own_keys, keys, (size_t)t->k * sizeof *keys);
    return KITH_OK;
}

kith_status kin_shard_take(const kin_shard_job *job, const kith_neighbors *found, int64_t first,
                           const kin_shard_part *part)
{
    kith_ctx *ctx = job->ctx;
    taking t = {.found = found,
                .part = part,
                .k = job->k,
                .first = (uint32_t)first,
                .negates = job->metric == KITH_INNER_PRODUCT,
                .threads = (uint64_t)ctx->threads};
    if (found->k == 0) {
        return KITH_OK;
    }
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_lists, &t, "lists of threads"));
    return kin_parallel_rows(ctx, NULL, part->rows, ROWS_A_TASK, take_row, &t);
}

void kin_shard_to_distances(const void *arg, const double *keys, int64_t count, float *distances)
{
    const kin_shard_job *job = arg;
    for (int64_t i = 0; i < count; i++) {
        distances[i] = (float)kin_metric_distance(job->metric, keys[i]);
    }
}

kith_status kin_shard_make_ctx(kith_ctx *like, int32_t threads, kith_ctx **ctx)
{
    const kith_ctx_params *ours = &like->params;
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    params.device = "cpu";
    params.allocate = ours->allocate;
    params.release = ours->release;
    params.allocate_arg = ours->allocate_arg;
    const kith_status status = kith_ctx_create(&params, ctx);
    return status == KITH_OK
               ? KITH_OK
               : kin_fail(like, status, "no memory for a thread's context (free some memory)");
}

kith_status kin_shard_note(const kin_shard_job *job, kith_status status, const kin_shard_part *part)
{
    kin_failure_shift(job->ctx, "points", part->first);
    return status;
}

void kin_shard_copy(const kin_shard_job *job, const uint32_t *rows, int64_t count,
                    unsigned char *to)
{
    const kith_matrix *points = &job->points;
    const unsigned char *data = points->data;
    const size_t bytes = (size_t)kin_shard_row_bytes(job);
    const int64_t window = kin_max_i64(RETURNED_BYTES / points->stride_bytes, 1);
    int64_t given_back = rows[0];
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + (size_t)i * bytes, data + rows[i] * points->stride_bytes, bytes);
        if (rows[i] - given_back >= window) {
            kin_shard_return(job, given_back, rows[i] - given_back);
            given_back = rows[i];
        }
    }
    kin_shard_return(job, given_back, (int64_t)rows[count - 1] + 1 - given_back);
}
