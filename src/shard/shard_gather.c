/* SPDX-License-Identifier: Apache-2.0
 * All rows are cut into runs; once it is known how many members of the group each has, runs are
 * copied in any order. */
#include "base/base_layout.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "shard/shard_group.h"

enum { ROWS_A_RUN = 1 << 15, WINDOW_BYTES = 1 << 20 };

typedef struct gathering {
    const kin_shard_job *job;
    kin_shard_bag *bag;
    int32_t group;
} gathering;

typedef struct making {
    const kin_shard_job *job;
    kin_shard_bag *bag;
    uint64_t rows;
} making;

static void name_bag(kin_layout *layout, void *arg)
{
    const making *m = arg;
    kin_shard_bag *bag = m->bag;
    const uint64_t runs = (uint64_t)kin_ceil_div(m->job->points.rows, ROWS_A_RUN);
    bag->starts = kin_layout_array(layout, runs + 1, sizeof *bag->starts);
    bag->members = kin_layout_array(layout, m->rows, sizeof *bag->members);
    bag->shared = kin_layout_array(layout, m->rows, 1);
    bag->rows = kin_layout_array(layout, m->rows, (uint64_t)kin_shard_row_bytes(m->job));
}

kith_status kin_shard_bag_make(const kin_shard_job *job, int64_t most, kin_shard_bag *bag)
{
    making m = {job, bag, (uint64_t)most};
    bag->group = -1;
    KIN_TRY(kin_layout_make(job->ctx, name_bag, &m, "rows of a group", &bag->block));
    kin_shard_use_large_pages(bag->rows, kin_size_mul(m.rows, (uint64_t)kin_shard_row_bytes(job)));
    return KITH_OK;
}

void kin_shard_bag_free(const kin_shard_job *job, kin_shard_bag *bag)
{
    kin_free(job->ctx, bag->block);
    *bag = (kin_shard_bag){.group = -1};
}

void kin_shard_copy(const kin_shard_job *job, const uint32_t *rows, int64_t count,
                    unsigned char *to)
{
    const kith_matrix *points = &job->points;
    const unsigned char *data = points->data;
    const size_t bytes = (size_t)kin_shard_row_bytes(job);
    const int64_t window = kin_max_i64(WINDOW_BYTES / points->stride_bytes, 1);
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

static bool has_member(const gathering *g, int64_t row)
{
    const uint16_t *homes = g->job->groups.homes + row * KIN_SHARD_HOMES;
    bool there = homes[0] == g->group;
    for (int i = 1; i < KIN_SHARD_HOMES && homes[i] != KIN_SHARD_NO_GROUP; i++) {
        there = there || homes[i] == g->group;
    }
    return there;
}

static int64_t end_of(const gathering *g, int64_t run)
{
    return kin_min_i64((run + 1) * ROWS_A_RUN, g->job->points.rows);
}

static kith_status count_run(void *arg, int64_t run, int32_t thread)
{
    (void)thread;
    const gathering *g = arg;
    int64_t count = 0;
    for (int64_t row = run * ROWS_A_RUN; row < end_of(g, run); row++) {
        count += has_member(g, row);
    }
    g->bag->starts[run + 1] = count;
    return KITH_OK;
}

static kith_status copy_run(void *arg, int64_t run, int32_t thread)
{
    (void)thread;
    const gathering *g = arg;
    const kin_shard_job *job = g->job;
    const kin_shard_bag *bag = g->bag;
    const int64_t bytes = kin_shard_row_bytes(job);
    const int64_t first = bag->starts[run];
    int64_t at = first;
    for (int64_t row = run * ROWS_A_RUN; row < end_of(g, run); row++) {
        if (has_member(g, row)) {
            const uint16_t *homes = job->groups.homes + row * KIN_SHARD_HOMES;
            bag->shared[at] = homes[1] != KIN_SHARD_NO_GROUP;
            bag->members[at++] = (uint32_t)row;
        }
    }
    if (at > first) {
        kin_shard_copy(job, bag->members + first, at - first, bag->rows + first * bytes);
    }
    return KITH_OK;
}

kith_status kin_shard_gather(const kin_shard_job *job, kith_ctx *ctx, int32_t group,
                             kin_shard_bag *bag)
{
    gathering g = {job, bag, group};
    const int64_t runs = kin_ceil_div(job->points.rows, ROWS_A_RUN);
    KIN_TRY(kin_parallel(ctx, NULL, runs, count_run, &g));
    bag->starts[0] = 0;
    for (int64_t i = 0; i < runs; i++) {
        bag->starts[i + 1] += bag->starts[i];
    }
    KIN_TRY(kin_parallel(ctx, NULL, runs, copy_run, &g));
    bag->group = group;
    return KITH_OK;
}
