/* SPDX-License-Identifier: Apache-2.0
 * Graphs of groups that overlap (api_shard_group.c), and their lists made one.
 *
 *     time ->     engine    | group 0      | group 1                | group 2      ...
 *                 thread    | gather 1     | write 0, gather 2      | write 1, gather 3
 *
 * A step is a group: its rows are gathered, a descent makes their graph, and the lists go to the
 * folder as those of a shard that meets nobody. Rows of a group stand in rising order, so that at
 * the end one pass over all files, side by side, has both lists of every point. */
#include "api/api_shard.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <math.h>
#include <stdio.h>

enum { SIDES = 2, ENTRIES_A_TASK = 1 << 16 };
/* What borders take has to be found elsewhere; but not every neighbour. */
static const double MOST_RECALL = 0.999;

/* What is computed, and what the thread is at. */
typedef struct side {
    int32_t group; /* -1: none */
    bool dirty;
    unsigned char *rows;
    uint32_t *members; /* rising */
    kin_shard_lists lists;
} side;

typedef struct following {
    kin_sharding *job;
    kin_shard_run *run;
    side sides[SIDES];
    int32_t wanted; /* group that the thread gathers; -1: none */
    int32_t at;     /* the side of the engine; the other one is the thread's */
    kith_status status;
    pthread_t thread;
    bool started;
} following;

typedef struct counting {
    const side *side;
    int64_t count;
} counting;

static int64_t size_of(const kin_sharding *job, int32_t group)
{
    return job->groups.sizes[group];
}

static void list_members(const kin_sharding *job, int32_t group, uint32_t *members)
{
    const kin_sharding_groups *all = &job->groups;
    int64_t count = 0;
    for (int64_t row = 0; row < job->points.rows; row++) {
        if (all->home[0][row] == group || all->home[1][row] == group) {
            members[count++] = (uint32_t)row;
        }
    }
}

/* Rows in rising order, so that a disk is read from one end to the other. */
static void gather(const kin_sharding *job, side *s, int32_t group)
{
    const kith_matrix *points = &job->points;
    const size_t bytes = (size_t)points->cols * (size_t)kith_dtype_bytes(points->dtype);
    const int64_t count = size_of(job, group);
    const int64_t window = kin_ceil_div(points->rows, job->shards);
    int64_t given_back = 0;
    list_members(job, group, s->members);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = s->members[i];
        memcpy(s->rows + (size_t)i * bytes,
               (const unsigned char *)points->data + row * points->stride_bytes, bytes);
        if (row - given_back > window) {
            kin_sharding_return(job, given_back, row - given_back);
            given_back = row;
        }
    }
    kin_sharding_return(job, given_back, points->rows - given_back);
    s->group = group;
}

/* ---- The thread ----------------------------------------------------------------------------- */

static kith_status write_side(following *f, side *s)
{
    if (!s->dirty) {
        return KITH_OK;
    }
    const kin_shard_step step = {s->group, s->group};
    kin_shard_mark_done(f->job->folder, step);
    KIN_TRY(kin_shard_store(f->run->disk, f->job->folder, s->group, s->group, &s->lists));
    s->dirty = false;
    return KITH_OK;
}

static void *body(void *arg)
{
    following *f = arg;
    side *s = &f->sides[1 - f->at];
    f->status = write_side(f, s);
    if (f->status == KITH_OK && f->wanted >= 0) {
        gather(f->job, s, f->wanted);
    }
    return NULL;
}

static void start(following *f, int32_t wanted)
{
    f->wanted = wanted;
    kin_forgive(f->run->disk);
    f->started = kin_thread_start(&f->thread, body, f) == 0;
    if (!f->started) {
        (void)body(f);
    }
}

static kith_status wait(following *f)
{
    const int64_t begin = kin_clock_ns();
    if (f->started) {
        (void)pthread_join(f->thread, NULL);
        f->started = false;
    }
    f->run->seconds_wait += kin_clock_since(begin);
    return f->status == KITH_OK ? KITH_OK
                                : kin_fail(f->job->ctx, f->status, "%s", f->run->disk->detail);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static int32_t next_group(const following *f, int32_t after)
{
    for (int32_t i = after + 1; i < f->job->shards; i++) {
        if (kin_shard_run_wants(f->run, (kin_shard_step){i, i})) {
            return i;
        }
    }
    return -1;
}

/* Rows of the group become rows of all points. */
static kith_status count_from_all(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const counting *c = arg;
    uint32_t *ids = c->side->lists.ids;
    const int64_t last = kin_min_i64((task + 1) * ENTRIES_A_TASK, c->count);
    for (int64_t i = task * ENTRIES_A_TASK; i < last; i++) {
        ids[i] = ids[i] != KITH_ID_NONE ? c->side->members[ids[i]] : KITH_ID_NONE;
    }
    return KITH_OK;
}

static kith_status solve(following *f, side *s)
{
    kin_sharding *job = f->job;
    const int64_t rows = size_of(job, s->group);
    const int64_t entries = rows * job->k;
    kith_matrix matrix = job->points;
    kith_descent_params params = job->descent;
    matrix.data = s->rows;
    matrix.rows = rows;
    matrix.stride_bytes = (int64_t)job->points.cols * kith_dtype_bytes(job->points.dtype);
    params.sample = params.recall > 0.0 ? params.sample : -1;
    params.recall = fmin(params.recall / job->groups.cover, MOST_RECALL);
    const kith_neighbors out = {
        .ids = s->lists.ids, .distances64 = s->lists.keys, .rows = rows, .k = job->k};
    const kin_shard_part part = {.shard = s->group};
    (void)snprintf(job->phase, sizeof job->phase, "group %d of %d", (int)s->group + 1,
                   (int)job->shards);
    const int64_t begin = kin_clock_ns();
    KIN_TRY(
        kin_sharding_note(job, kith_graph_descent(job->ctx, &matrix, &params, &out, NULL), &part));
    counting c = {s, entries};
    KIN_TRY(
        kin_parallel(job->ctx, NULL, kin_ceil_div(entries, ENTRIES_A_TASK), count_from_all, &c));
    f->run->seconds_compute += kin_clock_since(begin);
    s->dirty = true;
    return KITH_OK;
}

static kith_status solve_all(following *f)
{
    int32_t group = next_group(f, -1);
    if (group >= 0) {
        gather(f->job, &f->sides[f->at], group);
    }
    while (group >= 0) {
        const int32_t next = next_group(f, group);
        start(f, next);
        kith_status status = solve(f, &f->sides[f->at]);
        KIN_KEEP(status, wait(f));
        KIN_TRY(status);
        f->at = 1 - f->at;
        group = next;
    }
    start(f, -1);
    return wait(f);
}

static kith_status make_sides(following *f)
{
    kith_ctx *ctx = f->job->ctx;
    const uint64_t most = (uint64_t)f->job->groups.most;
    const uint64_t entries = kin_size_mul(most, (uint64_t)f->job->k);
    const uint64_t row_bytes =
        (uint64_t)f->job->points.cols * (uint64_t)kith_dtype_bytes(f->job->points.dtype);
    for (int i = 0; i < SIDES; i++) {
        side *s = &f->sides[i];
        s->group = -1;
        KIN_TRY(kin_alloc(ctx, &s->rows, most, row_bytes, "rows of a group"));
        KIN_TRY(kin_alloc(ctx, &s->members, most, sizeof *s->members, "rows of a group"));
        KIN_TRY(kin_alloc(ctx, &s->lists.ids, entries, sizeof(uint32_t), "lists of a group"));
        KIN_TRY(kin_alloc(ctx, &s->lists.keys, entries, sizeof(double), "lists of a group"));
    }
    return KITH_OK;
}

kith_status kin_sharding_follow(void *arg, kin_shard_run *run)
{
    kin_sharding *job = arg;
    following f = {.job = job, .run = run};
    kith_status status = make_sides(&f);
    if (status == KITH_OK) {
        status = solve_all(&f);
    }
    for (int i = 0; i < SIDES; i++) {
        kin_free(job->ctx, f.sides[i].lists.keys);
        kin_free(job->ctx, f.sides[i].lists.ids);
        kin_free(job->ctx, f.sides[i].members);
        kin_free(job->ctx, f.sides[i].rows);
    }
    return status;
}
