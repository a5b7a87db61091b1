/* SPDX-License-Identifier: Apache-2.0
 * What all parts of a graph from shards use: contexts for threads beside, messages that count rows,
 * rows that are copied, bounds. */
#include "shard/shard_job.h"

#include <string.h>

enum { RETURNED_BYTES = 1 << 20 };

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
    kin_failure_shift(job->ctx, "points", "points", part->first);
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

void kin_shard_merge(int64_t k, const kin_shard_lists *own, const uint32_t *more_ids,
                     const double *more_keys, const kin_shard_lists *room)
{
    uint32_t *ids = own->ids;
    double *keys = own->keys;
    int64_t i = 0;
    int64_t j = 0;
    for (int64_t at = 0; at < k; at++) {
        /* Neither moves by more than one place a turn: both are within their lists. */
        const bool same = ids[i] == more_ids[j];
        const bool mine =
            keys[i] < more_keys[j] || (keys[i] == more_keys[j] && ids[i] <= more_ids[j]);
        room->ids[at] = mine ? ids[i] : more_ids[j];
        room->keys[at] = mine ? keys[i] : more_keys[j];
        i += mine || same;
        j += !mine || same;
    }
    memcpy(ids, room->ids, (size_t)k * sizeof *ids);
    memcpy(keys, room->keys, (size_t)k * sizeof *keys);
}

void kin_shard_cut_bits(const uint8_t *from, int64_t first, int64_t count, uint8_t *to)
{
    memset(to, 0, (size_t)kin_ceil_div(count, 8));
    for (int64_t i = 0; i < count; i++) {
        to[i / 8] |= (uint8_t)((from[(first + i) / 8] >> (first + i) % 8 & 1) << i % 8);
    }
}

kith_status kin_shard_descend(const kin_shard_job *job, const kith_matrix *rows,
                              const kith_descent_params *like, const kith_neighbors *out)
{
    const kith_search_params params = kin_shard_search_params(like, out->k);
    return kith_graph(job->ctx, rows, &params, out, NULL);
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

kin_bounds_sets kin_shard_bounds_sets(const kin_shard_job *job, int32_t shards)
{
    return (kin_bounds_sets){
        .distance = {.metric = job->exact.metric, .cols = job->points.cols, .isa = job->ctx->isa},
        .rows = kin_ceil_div(job->points.rows, shards),
        .count = job->descends || job->filters ? 0 : shards};
}
