/* SPDX-License-Identifier: Apache-2.0 */
#include "sharding/sharding_bounds.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"

static kin_bounds_sets sets_of(const kin_sharding *job, int32_t shards)
{
    return (kin_bounds_sets){
        .distance = {.metric = job->exact.metric, .cols = job->points.cols, .isa = job->ctx->isa},
        .rows = kin_ceil_div(job->points.rows, shards),
        .count = job->descends ? 0 : shards};
}

uint64_t kin_sharding_bounds_bytes(const kin_sharding *job, int32_t shards)
{
    const kin_bounds_sets sets = sets_of(job, shards);
    return kin_bounds_bytes(job->ctx, &sets);
}

kith_status kin_sharding_bounds_make(kin_sharding *job)
{
    const kin_bounds_sets sets = sets_of(job, job->shards);
    kin_sharding_bounds *b = NULL;
    KIN_TRY(kin_alloc_zero(job->ctx, &b, 1, sizeof *b, "bounds of shards"));
    job->bounds = b;
    return kin_bounds_make(job->ctx, &sets, &b->bounds);
}

void kin_sharding_bounds_free(kin_sharding *job)
{
    if (job->bounds != NULL) {
        kin_bounds_free(job->ctx, &job->bounds->bounds);
    }
    kin_free(job->ctx, job->bounds);
    job->bounds = NULL;
}

kin_within kin_sharding_known(const kin_sharding *job, const kin_shard_part *part)
{
    return (kin_within){part->lists.keys + job->k - 1, job->k};
}

static kin_bounds_part part_of(const kin_sharding *job, const kin_shard_part *part)
{
    return (kin_bounds_part){.set = part->shard,
                             .rows = kin_sharding_rows(job, part),
                             .known = kin_sharding_known(job, part)};
}

kith_status kin_sharding_measure(kin_sharding *job, const kin_shard_part *part)
{
    const kin_bounds_part given = part_of(job, part);
    return kin_bounds_measure(job->ctx, &job->bounds->bounds, &given);
}

kith_status kin_sharding_narrow(kin_sharding *job, kin_shard_part parts[KIN_SHARDING_SIDES],
                                bool *any)
{
    kin_sharding_bounds *b = job->bounds;
    const kin_bounds_part given[] = {part_of(job, &parts[0]), part_of(job, &parts[1])};
    const double all = (double)parts[0].rows * (double)parts[1].rows;
    kin_bounds_range near[KIN_SHARDING_SIDES];
    KIN_TRY(kin_bounds_narrow(job->ctx, &b->bounds, given, near));
    for (int i = 0; i < KIN_SHARDING_SIDES; i++) {
        parts[i].first += near[i].first;
        parts[i].rows = near[i].rows;
        parts[i].lists.ids += near[i].first * job->k;
        parts[i].lists.keys += near[i].first * job->k;
    }
    *any = near[0].rows > 0;
    b->met += *any;
    b->skipped += !*any;
    b->rows += all;
    b->left_out += all - (double)near[0].rows * (double)near[1].rows;
    return KITH_OK;
}

kith_status kin_sharding_apart(void *arg, int32_t a, int32_t b, bool *yes)
{
    kin_sharding *job = arg;
    kin_sharding_bounds *bounds = job->bounds;
    const int32_t shards[] = {a, b};
    const int64_t rows[] = {kin_shard_rows(job->points.rows, job->shards, a),
                            kin_shard_rows(job->points.rows, job->shards, b)};
    KIN_TRY(kin_bounds_apart(job->ctx, &bounds->bounds, shards, rows, yes));
    if (*yes) {
        bounds->skipped += 1;
        bounds->rows += (double)rows[0] * (double)rows[1];
        bounds->left_out += (double)rows[0] * (double)rows[1];
    }
    return KITH_OK;
}
