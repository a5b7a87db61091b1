/* SPDX-License-Identifier: Apache-2.0
 * Graphs of groups that overlap (api_shard_group.c), each alone.
 *
 *     time ->     engine         | group 0      | group 1        | group 2        | union
 *                 some threads   | gather 1     | gather 2       |                |
 *                 one thread     |              | write 0        | write 1        | write 2
 *
 * A step is a group: its rows are gathered, a descent makes their graph, and the lists go to the
 * folder as those of a shard that meets nobody. Rows of a group stand in rising order, so that at
 * the end one pass over all files, side by side, has all lists of every point
 * (api_shard_union.c). */
#include "api/api_shard.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <math.h>
#include <stdio.h>

enum { SIDES = 2, ENTRIES_A_TASK = 1 << 16, ROWS_A_TASK = 1 << 13, MOST_GATHERERS = 4 };
enum { WINDOW_BYTES = 1 << 20 };
/* What borders take has to be found elsewhere; but not every neighbour. */
static const double MOST_RECALL = 0.999;

/* Of one side the engine has rows and lists; of the other one rows are gathered, and lists written.
 */
typedef struct side {
    int32_t group;   /* whose rows are there; -1: none */
    int32_t written; /* whose lists are not on disk yet; -1: none */
    unsigned char *rows;
    uint32_t *members; /* rising */
    kin_shard_lists lists;
} side;

typedef struct beside {
    pthread_t thread;
    bool started;
    kith_status status;
} beside;

struct kin_sharding_last {
    kin_sharding *job;
    kin_shard_run *run;
    kith_ctx *gatherer;
    side sides[SIDES];
    int32_t wanted; /* group that is gathered; -1: none */
    int32_t at;     /* the side of the engine */
    int32_t group;  /* the last one, which is written when all are computed; -1: none */
    beside writing;
    beside gathering;
};

typedef struct kin_sharding_last following;

/* ---- Gathering ------------------------------------------------------------------------------ */

typedef struct copying {
    const kin_sharding *job;
    const side *side;
    int64_t count;
} copying;

static int64_t list_members(const kin_sharding *job, int32_t group, uint32_t *members)
{
    int64_t count = 0;
    for (int64_t row = 0; row < job->points.rows; row++) {
        const uint16_t *homes = job->groups.homes + row * KIN_SHARDING_HOMES;
        bool there = homes[0] == group;
        for (int i = 1; i < KIN_SHARDING_HOMES && homes[i] != KIN_SHARDING_NO_GROUP; i++) {
            there = there || homes[i] == group;
        }
        members[count] = (uint32_t)row; /* one place more than members: see make_sides */
        count += there;
    }
    return count;
}

void kin_sharding_copy(const kin_sharding *job, const uint32_t *rows, int64_t count,
                       unsigned char *to)
{
    const kith_matrix *points = &job->points;
    const unsigned char *data = points->data;
    const size_t bytes = (size_t)points->cols * (size_t)kith_dtype_bytes(points->dtype);
    const int64_t window = kin_max_i64(WINDOW_BYTES / points->stride_bytes, 1);
    int64_t given_back = rows[0];
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + (size_t)i * bytes, data + rows[i] * points->stride_bytes, bytes);
        if (rows[i] - given_back >= window) {
            kin_sharding_return(job, given_back, rows[i] - given_back);
            given_back = rows[i];
        }
    }
    kin_sharding_return(job, given_back, (int64_t)rows[count - 1] + 1 - given_back);
}

static kith_status copy_rows(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const copying *c = arg;
    const kith_matrix *points = &c->job->points;
    const int64_t bytes = (int64_t)points->cols * kith_dtype_bytes(points->dtype);
    const int64_t first = task * ROWS_A_TASK;
    kin_sharding_copy(c->job, c->side->members + first, kin_min_i64(ROWS_A_TASK, c->count - first),
                      c->side->rows + first * bytes);
    return KITH_OK;
}

static kith_status gather(const following *f, kith_ctx *ctx, side *s, int32_t group)
{
    copying c = {f->job, s, list_members(f->job, group, s->members)};
    KIN_TRY(kin_parallel(ctx, NULL, kin_ceil_div(c.count, ROWS_A_TASK), copy_rows, &c));
    s->group = group;
    return KITH_OK;
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void *write_beside(void *arg)
{
    following *f = arg;
    side *s = &f->sides[1 - f->at];
    const kin_shard_step step = {s->written, s->written};
    kin_forgive(f->run->disk);
    kin_shard_mark_done(f->job->folder, step);
    f->writing.status =
        kin_shard_store(f->run->disk, f->job->folder, s->written, s->written, &s->lists);
    s->written = -1;
    return NULL;
}

static void *gather_beside(void *arg)
{
    following *f = arg;
    kin_forgive(f->gatherer);
    f->gathering.status = gather(f, f->gatherer, &f->sides[1 - f->at], f->wanted);
    return NULL;
}

static void start(following *f, beside *b, void *(*body)(void *))
{
    b->status = KITH_OK;
    b->started = kin_thread_start(&b->thread, body, f) == 0;
    if (!b->started) {
        (void)body(f);
    }
}

static kith_status wait(following *f, beside *b, const kith_ctx *theirs)
{
    const int64_t begin = kin_clock_ns();
    if (b->started) {
        (void)pthread_join(b->thread, NULL);
        b->started = false;
    }
    f->run->seconds_wait += kin_clock_since(begin);
    return b->status == KITH_OK ? KITH_OK : kin_fail(f->job->ctx, b->status, "%s", theirs->detail);
}

static void start_both(following *f)
{
    f->writing.status = KITH_OK;
    f->gathering.status = KITH_OK;
    if (f->sides[1 - f->at].written >= 0) {
        start(f, &f->writing, write_beside);
    }
    if (f->wanted >= 0) {
        start(f, &f->gathering, gather_beside);
    }
}

static kith_status wait_for_both(following *f)
{
    kith_status status = wait(f, &f->gathering, f->gatherer);
    KIN_KEEP(status, wait(f, &f->writing, f->run->disk));
    return status;
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
    const copying *c = arg;
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
    const int64_t rows = job->groups.sizes[s->group];
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
    copying c = {job, s, rows * job->k};
    KIN_TRY(
        kin_parallel(job->ctx, NULL, kin_ceil_div(c.count, ENTRIES_A_TASK), count_from_all, &c));
    f->run->seconds_compute += kin_clock_since(begin);
    s->written = s->group;
    return KITH_OK;
}

static kith_status solve_all(following *f)
{
    int32_t group = next_group(f, -1);
    if (group >= 0) {
        const int64_t begin = kin_clock_ns();
        KIN_TRY(gather(f, f->job->ctx, &f->sides[f->at], group));
        f->run->seconds_wait += kin_clock_since(begin);
    }
    while (group >= 0) {
        f->wanted = next_group(f, group);
        group = f->wanted;
        start_both(f);
        kith_status status = solve(f, &f->sides[f->at]);
        KIN_KEEP(status, wait_for_both(f));
        KIN_TRY(status);
        f->at = 1 - f->at;
    }
    f->wanted = -1;
    return KITH_OK;
}

static kith_status make_sides(following *f)
{
    kith_ctx *ctx = f->job->ctx;
    const uint64_t most = (uint64_t)f->job->groups.most;
    const uint64_t entries = kin_size_mul(most, (uint64_t)f->job->k);
    const uint64_t row_bytes =
        (uint64_t)f->job->points.cols * (uint64_t)kith_dtype_bytes(f->job->points.dtype);
    const int32_t gatherers = ctx->threads < MOST_GATHERERS ? ctx->threads : MOST_GATHERERS;
    KIN_TRY(kin_sharding_make_ctx(f->job, gatherers, &f->gatherer));
    for (int i = 0; i < SIDES; i++) {
        side *s = &f->sides[i];
        s->group = -1;
        s->written = -1;
        KIN_TRY(kin_alloc(ctx, &s->rows, most, row_bytes, "rows of a group"));
        KIN_TRY(kin_alloc(ctx, &s->members, most + 1, sizeof *s->members, "rows of a group"));
        KIN_TRY(kin_alloc(ctx, &s->lists.ids, entries, sizeof(uint32_t), "lists of a group"));
        KIN_TRY(kin_alloc(ctx, &s->lists.keys, entries, sizeof(double), "lists of a group"));
    }
    return KITH_OK;
}

static void free_lists(const following *f, side *s)
{
    kin_free(f->job->ctx, s->lists.keys);
    kin_free(f->job->ctx, s->lists.ids);
    s->lists = (kin_shard_lists){NULL, NULL, NULL};
}

static void free_rows(const following *f, side *s)
{
    kin_free(f->job->ctx, s->members);
    kin_free(f->job->ctx, s->rows);
    s->members = NULL;
    s->rows = NULL;
}

kith_status kin_sharding_follow_end(kin_sharding *job)
{
    following *f = job->last;
    if (f == NULL) {
        return KITH_OK;
    }
    const kith_status status = wait_for_both(f);
    for (int i = 0; i < SIDES; i++) {
        free_lists(f, &f->sides[i]);
        free_rows(f, &f->sides[i]);
    }
    kith_ctx_free(f->gatherer);
    kin_free(job->ctx, f);
    job->last = NULL;
    return status;
}

const kin_shard_lists *kin_sharding_follow_lists(const kin_sharding *job, int32_t group)
{
    const following *f = job->last;
    return f != NULL && f->group == group ? &f->sides[1 - f->at].lists : NULL;
}

/* The last group is the other side's by now. */
static void write_last(following *f)
{
    f->group = f->sides[1 - f->at].written;
    free_lists(f, &f->sides[f->at]);
    for (int i = 0; i < SIDES; i++) {
        free_rows(f, &f->sides[i]);
    }
    start_both(f);
}

kith_status kin_sharding_follow(void *arg, kin_shard_run *run)
{
    kin_sharding *job = arg;
    KIN_TRY(kin_sharding_follow_end(job));
    KIN_TRY(kin_alloc_zero(job->ctx, &job->last, 1, sizeof *job->last, "groups"));
    following *f = job->last;
    f->job = job;
    f->run = run;
    f->group = -1;
    kith_status status = KITH_OK;
    const bool any = next_group(f, -1) >= 0;
    if (any) {
        status = make_sides(f);
    }
    if (any && status == KITH_OK) {
        status = solve_all(f);
    }
    if (any && status == KITH_OK) {
        write_last(f);
    }
    if (status != KITH_OK || run->listed != NULL || !any) {
        KIN_KEEP(status, kin_sharding_follow_end(job));
    }
    return status;
}
