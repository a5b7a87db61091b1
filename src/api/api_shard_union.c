/* SPDX-License-Identifier: Apache-2.0
 * Both lists of every point, from the files of groups that overlap, made one: all files are read
 * side by side, from their first row to their last. */
#include "api/api_shard.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "shard/shard_view.h"

#include <math.h>

enum { ROWS_A_TASK = 4096 };

typedef struct uniting {
    kin_sharding *job;
    kin_shard_run *run;
    kin_shard_view *views; /* by group */
    const kin_shard_lists *lists;
    const kin_shard_part *part; /* whose rows are taken */
    int64_t *starts;            /* of each task: where it begins in every view */
} uniting;

/* The row's list in a group's file, or an empty one. next: the row of each view. */
static void copy_row(const uniting *u, int64_t *next, uint16_t group, uint32_t *ids, double *keys)
{
    const int64_t k = u->job->k;
    if (group == KIN_SHARDING_NO_GROUP) {
        for (int64_t i = 0; i < k; i++) {
            ids[i] = KITH_ID_NONE;
            keys[i] = INFINITY;
        }
        return;
    }
    const kin_shard_view *view = &u->views[group];
    memcpy(ids, view->ids + next[group] * k, (size_t)k * sizeof *ids);
    memcpy(keys, view->keys + next[group] * k, (size_t)k * sizeof *keys);
    next[group] += 1;
}

static kith_status copy_rows(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const uniting *u = arg;
    const kin_sharding *job = u->job;
    const kin_shard_part *part = u->part;
    int64_t *next = u->starts + task * job->shards;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, part->rows);
    for (int64_t i = task * ROWS_A_TASK; i < last; i++) {
        const int64_t row = part->first + i;
        const int64_t at = i * job->k;
        copy_row(u, next, job->groups.home[0][row], part->lists.ids + at, part->lists.keys + at);
        copy_row(u, next, job->groups.home[1][row], job->found_ids + at, job->found_keys + at);
    }
    return KITH_OK;
}

static void pass_row(uniting *u, int64_t row)
{
    for (int i = 0; i < 2; i++) {
        const uint16_t group = u->job->groups.home[i][row];
        if (group != KIN_SHARDING_NO_GROUP) {
            u->views[group].row += 1;
        }
    }
}

/* The next rows, into the lists. Where each task begins is counted first. */
static kith_status take_rows(uniting *u, const kin_shard_part *part)
{
    kin_sharding *job = u->job;
    const kin_shard_part *const parts[] = {part};
    u->part = part;
    kin_sharding_aim(job, parts, &job->k, 1);
    for (int64_t i = 0; i < part->rows; i++) {
        for (int32_t j = 0; i % ROWS_A_TASK == 0 && j < job->shards; j++) {
            u->starts[i / ROWS_A_TASK * job->shards + j] = u->views[j].row;
        }
        pass_row(u, part->first + i);
    }
    KIN_TRY(kin_parallel(job->ctx, NULL, kin_ceil_div(part->rows, ROWS_A_TASK), copy_rows, u));
    return kin_sharding_take(job, &job->found[0], 0, part);
}

/* What the lists of the sample have, before anything is written: the result says its recall. */
static kith_status note_sample(uniting *u)
{
    kin_sharding *job = u->job;
    const kin_sharding_sample *s = &job->sample;
    int64_t next = 0;
    for (int64_t row = 0; row < job->points.rows && next < s->count; row++) {
        if (s->rows[next] != row) {
            pass_row(u, row);
            continue;
        }
        const kin_shard_part part = {.first = row, .rows = 1, .lists = *u->lists};
        KIN_TRY(take_rows(u, &part));
        kin_sharding_sample_note(job, &part);
        next += 1;
    }
    for (int32_t i = 0; i < job->shards; i++) {
        kin_shard_view_rewind(&u->views[i]);
    }
    return KITH_OK;
}

static kith_status unite(uniting *u, kin_shard_each_fn fn, void *arg)
{
    kin_sharding *job = u->job;
    for (int32_t i = 0; i < job->shards; i++) {
        const kin_shard_part part = {.shard = i,
                                     .first = kin_shard_first(job->points.rows, job->shards, i),
                                     .rows = kin_shard_rows(job->points.rows, job->shards, i),
                                     .lists = *u->lists};
        KIN_TRY(take_rows(u, &part));
        KIN_TRY(fn(arg, &part));
        for (int32_t j = 0; j < job->shards; j++) {
            kin_shard_view_return(&u->views[j]);
        }
    }
    return KITH_OK;
}

kith_status kin_sharding_unite(kin_sharding *job, kin_shard_run *run, kin_shard_each_fn fn,
                               void *arg, bool *lost)
{
    uniting u = {.job = job, .run = run, .lists = &run->slots[0].lists};
    kith_status status = KITH_OK;
    *lost = false;
    const uint64_t tasks =
        (uint64_t)kin_ceil_div(kin_ceil_div(job->points.rows, job->shards), ROWS_A_TASK);
    KIN_TRY(kin_alloc_zero(job->ctx, &u.views, (uint64_t)job->shards, sizeof *u.views, "groups"));
    status =
        kin_alloc(job->ctx, &u.starts, tasks * (uint64_t)job->shards, sizeof *u.starts, "groups");
    for (int32_t i = 0; i < job->shards && status == KITH_OK; i++) {
        kin_forgive(run->disk);
        status = kin_shard_view_open(run->disk, job->folder, i, &u.views[i]);
        if (status == KITH_E_FORMAT) {
            kin_shard_view_close(&u.views[i]);
            kin_shard_lose(job->folder, i, run->disk->detail);
            *lost = true;
            status = KITH_OK;
        } else if (status != KITH_OK) {
            (void)kin_fail(job->ctx, status, "%s", run->disk->detail);
        }
    }
    if (status == KITH_OK && !*lost) {
        status = fn == NULL ? note_sample(&u) : unite(&u, fn, arg);
    }
    for (int32_t i = 0; i < job->shards; i++) {
        kin_shard_view_close(&u.views[i]);
    }
    kin_free(job->ctx, u.starts);
    kin_free(job->ctx, u.views);
    return status;
}
