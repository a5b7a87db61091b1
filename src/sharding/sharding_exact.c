/* SPDX-License-Identifier: Apache-2.0
 * Exact graphs of shards, and what each shard gets from another one. */
#include "api/api_across.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "sharding/sharding_bounds.h"

kith_status kin_sharding_build_exact(void *arg, const kin_shard_part *a)
{
    kin_sharding *job = arg;
    kith_search_params params = job->exact;
    const kith_matrix rows = kin_sharding_rows(job, a);
    params.k = kin_min_i64(job->k, a->rows - (job->self ? 0 : 1));
    kin_sharding_clear(job, a);
    kin_sharding_aim(job, &a, &params.k, 1);
    if (params.k == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_sharding_note(job, kith_graph_exact(job->ctx, &rows, &params, &job->found[0]), a));
    KIN_TRY(kin_sharding_take(job, &job->found[0], a->first, a));
    return kin_sharding_measure(job, a);
}

/* Those rows of both that can meet: found ids count from the first of them. */
static kith_status meet_near(kin_sharding *job, const kin_shard_part *a, const kin_shard_part *b)
{
    const kin_shard_part *const parts[] = {a, b};
    const int64_t k[] = {kin_min_i64(job->k, b->rows), kin_min_i64(job->k, a->rows)};
    kith_matrix rows = job->points;
    kin_sharding_aim(job, parts, k, KIN_SHARDING_SIDES);
    rows.rows /= job->shards;
    kin_across across = {.rows = {kin_sharding_rows(job, a), kin_sharding_rows(job, b)},
                         .known = {kin_sharding_known(job, a), kin_sharding_known(job, b)},
                         .found = {job->found[0], job->found[1]},
                         .params = job->exact,
                         .suits_tree = kin_across_suits_tree(job->ctx, &rows, &job->exact)};
    across.params.k = job->k;
    across.params.flags &= ~(uint32_t)KITH_INCLUDE_SELF;
    return kin_sharding_note(job, kin_across_search(job->ctx, &across), a);
}

kith_status kin_sharding_meet_exact(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_sharding *job = arg;
    kin_shard_part *near = job->near;
    bool any = false;
    near[0] = *a;
    near[1] = *b;
    memset(job->found, 0, sizeof job->found);
    KIN_TRY(kin_sharding_narrow(job, near, &any));
    return any ? meet_near(job, &near[0], &near[1]) : KITH_OK;
}

static kith_status merge_near(kin_sharding *job)
{
    const kin_shard_part *near = job->near;
    KIN_TRY(kin_sharding_take(job, &job->found[0], near[1].first, &near[0]));
    return kin_sharding_take(job, &job->found[1], near[0].first, &near[1]);
}

kith_status kin_sharding_merge(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_sharding *job = arg;
    if (!job->descends) {
        return merge_near(job);
    }
    KIN_TRY(kin_sharding_take(job, &job->found[0], 0, a));
    KIN_TRY(kin_sharding_take(job, &job->found[1], 0, b));
    if (job->sample.count > 0) {
        kin_sharding_sample_note(job, a);
        kin_sharding_sample_note(job, b);
    }
    return KITH_OK;
}
