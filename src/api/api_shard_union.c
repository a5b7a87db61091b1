/* SPDX-License-Identifier: Apache-2.0
 * All lists of every point, from the files of groups that overlap, made one: all files are read
 * side by side, from their first row to their last.
 *
 *     time ->     all threads    | piece 0 | piece 1 | piece 2 ...
 *                 one thread     |         | put 0   | put 1
 */
#include "api/api_shard.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "metric/metric.h"
#include "shard/shard_view.h"

enum { ROWS_A_TASK = 2048, ROWS_A_PIECE = 1 << 18, SIDES = 2 };

/* Rows whose lists are one. */
typedef struct piece {
    int64_t first;
    int64_t rows;
    kin_shard_lists lists;
    float *distances;
} piece;

typedef struct uniting {
    kin_sharding *job;
    kith_ctx *beside; /* of the thread */
    const kin_sharding_sink *sink;
    kin_shard_view *views; /* by group */
    unsigned char *lost;   /* by group: its file is damaged */
    int64_t most;          /* rows of a piece */
    int64_t *starts;       /* of each task: where it begins in every view */
    kin_shard_lists room;  /* k entries a thread */
    piece sides[SIDES];
    const piece *piece; /* whose rows are taken */
    const piece *put;   /* that the thread is at */
    pthread_t thread;
    bool started;
    kith_status status;
} uniting;

/* ---- A piece -------------------------------------------------------------------------------- */

/* next: the row of each view. */
static void take_row(const uniting *u, const uint16_t *homes, int64_t *next, int64_t at,
                     const kin_shard_lists *room)
{
    const int64_t k = u->job->k;
    uint32_t *ids = u->piece->lists.ids + at * k;
    double *keys = u->piece->lists.keys + at * k;
    for (int i = 0; i < KIN_SHARDING_HOMES && homes[i] != KIN_SHARDING_NO_GROUP; i++) {
        const kin_shard_view *view = &u->views[homes[i]];
        const int64_t from = next[homes[i]]++ * k;
        if (i == 0) {
            memcpy(ids, view->ids + from, (size_t)k * sizeof *ids);
            memcpy(keys, view->keys + from, (size_t)k * sizeof *keys);
        } else {
            kin_sharding_take_list(k, ids, keys, view->ids + from, view->keys + from, room);
        }
    }
    for (int64_t i = 0; i < k; i++) {
        u->piece->distances[at * k + i] = (float)kin_metric_distance(u->job->metric, keys[i]);
    }
}

static const uint16_t *homes_of(const uniting *u, int64_t row)
{
    return u->job->groups.homes + row * KIN_SHARDING_HOMES;
}

static kith_status take_rows(void *arg, int64_t task, int32_t thread)
{
    const uniting *u = arg;
    const int64_t k = u->job->k;
    const kin_shard_lists room = {.ids = u->room.ids + thread * k,
                                  .keys = u->room.keys + thread * k};
    int64_t *next = u->starts + task * u->job->shards;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, u->piece->rows);
    for (int64_t i = task * ROWS_A_TASK; i < last; i++) {
        take_row(u, homes_of(u, u->piece->first + i), next, i, &room);
    }
    return KITH_OK;
}

static void pass_row(const uniting *u, int64_t row)
{
    const uint16_t *homes = homes_of(u, row);
    for (int i = 0; i < KIN_SHARDING_HOMES && homes[i] != KIN_SHARDING_NO_GROUP; i++) {
        u->views[homes[i]].row += 1;
    }
}

/* The next rows. Where each task begins is counted first. */
static kith_status take_piece(uniting *u, const piece *p)
{
    const int32_t groups = u->job->shards;
    u->piece = p;
    for (int64_t i = 0; i < p->rows; i++) {
        for (int32_t j = 0; i % ROWS_A_TASK == 0 && j < groups; j++) {
            u->starts[i / ROWS_A_TASK * groups + j] = u->views[j].row;
        }
        pass_row(u, p->first + i);
    }
    return kin_parallel(u->job->ctx, NULL, kin_ceil_div(p->rows, ROWS_A_TASK), take_rows, u);
}

/* What the lists of the sample have, before anything is written: the result says its recall. */
static kith_status note_sample(uniting *u)
{
    kin_sharding *job = u->job;
    const kin_sharding_sample *s = &job->sample;
    piece *p = &u->sides[0];
    int64_t next = 0;
    for (int64_t row = 0; row < job->points.rows && next < s->count; row++) {
        if (s->rows[next] != row) {
            pass_row(u, row);
            continue;
        }
        p->first = row;
        p->rows = 1;
        KIN_TRY(take_piece(u, p));
        const kin_shard_part part = {.first = row, .rows = 1, .lists = p->lists};
        kin_sharding_sample_note(job, &part);
        next += 1;
    }
    for (int32_t i = 0; i < job->shards; i++) {
        kin_shard_view_rewind(&u->views[i]);
    }
    return KITH_OK;
}

/* ---- All pieces ----------------------------------------------------------------------------- */

static void *put_beside(void *arg)
{
    uniting *u = arg;
    const piece *p = u->put;
    const kith_neighbors rows = {
        .ids = p->lists.ids, .distances = p->distances, .rows = p->rows, .k = u->job->k};
    u->status = u->sink->put(u->sink->arg, u->beside, p->first, &rows);
    return NULL;
}

static void start_put(uniting *u, const piece *p)
{
    u->put = p;
    kin_forgive(u->beside);
    u->started = kin_thread_start(&u->thread, put_beside, u) == 0;
    if (!u->started) {
        (void)put_beside(u);
    }
}

static kith_status wait_for_put(uniting *u)
{
    if (u->started) {
        (void)pthread_join(u->thread, NULL);
        u->started = false;
    }
    return u->status == KITH_OK ? KITH_OK
                                : kin_fail(u->job->ctx, u->status, "%s", u->beside->detail);
}

static kith_status put_all(uniting *u)
{
    kin_sharding *job = u->job;
    kith_status status = KITH_OK;
    int at = 0;
    for (int64_t first = 0; first < job->points.rows && status == KITH_OK; first += u->most) {
        piece *p = &u->sides[at];
        p->first = first;
        p->rows = kin_min_i64(u->most, job->points.rows - first);
        status = take_piece(u, p);
        KIN_KEEP(status, wait_for_put(u));
        if (status == KITH_OK) {
            start_put(u, p);
        }
        for (int32_t j = 0; j < job->shards; j++) {
            kin_shard_view_return(&u->views[j]);
        }
        at = 1 - at;
    }
    KIN_KEEP(status, wait_for_put(u));
    return status;
}

/* ---- Files ---------------------------------------------------------------------------------- */

static kith_status open_view(kith_ctx *ctx, uniting *u, int32_t group)
{
    const kith_status status = kin_shard_view_open(ctx, u->job->folder, group, &u->views[group]);
    if (status != KITH_OK) {
        kin_shard_view_close(&u->views[group]);
    }
    return status;
}

/* Several files at the same time: their checksums are looked at. What does not open is tried again,
 * so that each has its own message. */
static kith_status try_view(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    uniting *u = arg;
    const kin_shard_lists *lists = kin_sharding_follow_lists(u->job, (int32_t)task);
    if (lists != NULL) {
        u->views[task] = (kin_shard_view){.ids = lists->ids, .keys = lists->keys, .k = u->job->k};
        return KITH_OK;
    }
    u->lost[task] = open_view(u->job->ctx, u, (int32_t)task) != KITH_OK;
    return KITH_OK;
}

static kith_status open_views(uniting *u, bool *lost)
{
    kin_sharding *job = u->job;
    KIN_TRY(kin_parallel(job->ctx, NULL, job->shards, try_view, u));
    for (int32_t i = 0; i < job->shards; i++) {
        kith_status status = KITH_OK;
        if (u->lost[i] != 0) {
            kin_forgive(job->ctx);
            kin_forgive(u->beside);
            status = open_view(u->beside, u, i);
        }
        if (status == KITH_E_FORMAT) {
            kin_shard_lose(job->folder, i, u->beside->detail);
            *lost = true;
        } else if (status != KITH_OK) {
            return kin_fail(job->ctx, status, "%s", u->beside->detail);
        }
    }
    return KITH_OK;
}

static kith_status make(uniting *u)
{
    kith_ctx *ctx = u->job->ctx;
    const uint64_t groups = (uint64_t)u->job->shards;
    const int64_t rows = kin_max_i64(kin_min_i64(ROWS_A_PIECE, u->job->groups.most), ROWS_A_TASK);
    const uint64_t k = (uint64_t)u->job->k;
    const uint64_t entries = kin_size_mul((uint64_t)rows, k);
    const uint64_t tasks = (uint64_t)kin_ceil_div(rows, ROWS_A_TASK);
    const uint64_t room = (uint64_t)ctx->threads * k;
    u->most = rows;
    KIN_TRY(kin_sharding_make_ctx(u->job, 1, &u->beside));
    KIN_TRY(kin_alloc_zero(ctx, &u->views, groups, sizeof *u->views, "groups"));
    KIN_TRY(kin_alloc_zero(ctx, &u->lost, groups, 1, "groups"));
    KIN_TRY(kin_alloc(ctx, &u->starts, tasks * groups, sizeof *u->starts, "groups"));
    KIN_TRY(kin_alloc(ctx, &u->room.ids, room, sizeof(uint32_t), "lists of threads"));
    KIN_TRY(kin_alloc(ctx, &u->room.keys, room, sizeof(double), "lists of threads"));
    for (int i = 0; i < SIDES; i++) {
        piece *p = &u->sides[i];
        KIN_TRY(kin_alloc(ctx, &p->lists.ids, entries, sizeof(uint32_t), "lists of rows"));
        KIN_TRY(kin_alloc(ctx, &p->lists.keys, entries, sizeof(double), "lists of rows"));
        KIN_TRY(kin_alloc(ctx, &p->distances, entries, sizeof(float), "lists of rows"));
    }
    return KITH_OK;
}

static void release(uniting *u)
{
    kith_ctx *ctx = u->job->ctx;
    for (int32_t i = 0; u->views != NULL && i < u->job->shards; i++) {
        kin_shard_view_close(&u->views[i]);
    }
    for (int i = 0; i < SIDES; i++) {
        kin_free(ctx, u->sides[i].distances);
        kin_free(ctx, u->sides[i].lists.keys);
        kin_free(ctx, u->sides[i].lists.ids);
    }
    kin_free(ctx, u->room.keys);
    kin_free(ctx, u->room.ids);
    kin_free(ctx, u->starts);
    kin_free(ctx, u->lost);
    kin_free(ctx, u->views);
    kith_ctx_free(u->beside);
}

static kith_status unite(uniting *u, bool *lost)
{
    KIN_TRY(make(u));
    KIN_TRY(open_views(u, lost));
    if (*lost) {
        return KITH_OK;
    }
    KIN_TRY(note_sample(u));
    KIN_TRY(u->sink->ready(u->sink->arg));
    return put_all(u);
}

kith_status kin_sharding_unite(kin_sharding *job, const kin_sharding_sink *sink, bool *lost)
{
    uniting u = {.job = job, .sink = sink};
    *lost = false;
    kith_status status = unite(&u, lost);
    release(&u);
    KIN_KEEP(status, kin_sharding_follow_end(job));
    return status;
}
