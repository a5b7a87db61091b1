/* SPDX-License-Identifier: Apache-2.0
 * All lists of every point, from groups that overlap, made one: lists that are still in memory, and
 * the files of the others, are read side by side, from their first row to their last.
 *
 *     time ->     all threads    | piece 0 | piece 1   | piece 2 ...
 *                 some threads   |         | put 0     | put 1       (file_stream.c)
 *                 two threads    |         | its sums  | its sums
 *
 * Most points are in one group, and what its file has of them goes to the result as it is: ids and
 * distances. Of the others there are keys, by which lists are merged. */
#include "host/host_clock.h"
#include "shard/shard_job.h"

/* ---- The result ------------------------------------------------------------------------------ */

/* Between two records of a result that is copied from lists on disk. */
enum { RECORD_BYTES = 1 << 30 };

enum { ROWS_A_TASK = 2048 };

/* ---- Opening -------------------------------------------------------------------------------- */

static kith_status open_files(void *arg)
{
    kin_shard_result *r = arg;
    KIN_TRY(kin_fingerprint_make(r->ctx, &r->job->points, &r->meta.points));
    return kin_parts_open(r->ctx, r->path, &r->params, &r->meta, r->wanted, &r->parts);
}

/* To the job's caller. */
static kith_status explain(const kin_shard_result *r, kith_status status)
{
    return status == KITH_OK ? KITH_OK : kin_fail_like(r->job->ctx, status, r->ctx);
}

static kith_status wait(kin_shard_result *r)
{
    return kin_beside_wait(&r->opening, r->job->ctx);
}

static void describe(kin_shard_result *r)
{
    const kin_shard_job *job = r->job;
    r->meta = kith_result_meta_default();
    r->meta.kind = KITH_KIND_GRAPH;
    r->meta.metric = job->metric;
    r->meta.exact = job->descends  ? KITH_APPROXIMATE
                    : job->filters ? KITH_EXACTNESS_UNKNOWN /* no file says the filter */
                                   : KITH_CERTIFIED;
    r->meta.corpus_rows = job->points.rows;
    r->params = kith_result_stream_params_default();
    r->params.format = job->params.format;
    r->params.rows = job->points.rows;
    r->params.k = job->k;
    r->params.job = r->text;
    r->params.restart = job->params.restart;
    r->wanted = job->params.parts == KITH_PARTS_AUTO
                    ? (int32_t)kin_min_i64(job->shards, KITH_PARTS_MAX)
                    : job->params.parts;
}

kith_status kin_shard_result_begin(kin_shard_result *result)
{
    describe(result);
    KIN_TRY(kin_shard_make_ctx(result->job->ctx, 1, &result->ctx));
    if (!result->job->follows) {
        return explain(result, open_files(result));
    }
    kin_beside_start(&result->opening, result->ctx, open_files, result);
    return KITH_OK;
}

int32_t kin_shard_result_parts(const kin_shard_result *result)
{
    const bool open = !result->opening.started && result->parts != NULL;
    return open && result->wanted > 0 ? result->parts->count : 0;
}

kith_status kin_shard_result_look(void *arg)
{
    kin_shard_result *r = arg;
    return atomic_load(&r->opening.ended) ? wait(r) : KITH_OK;
}

void kin_shard_result_end(kin_shard_result *result)
{
    if (result->ctx != NULL) {
        (void)wait(result);
        kin_parts_close(result->parts);
        kith_ctx_free(result->ctx);
        result->parts = NULL;
        result->ctx = NULL;
    }
}

/* ---- Lists ---------------------------------------------------------------------------------- */

typedef struct converting {
    const kin_shard_job *job;
    const double *keys;
    float *distances;
} converting;

static kith_status convert(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const converting *c = arg;
    const int64_t k = c->job->k;
    kin_shard_to_distances(c->job, c->keys + row * k, k, c->distances + row * k);
    return KITH_OK;
}

/* The table of found keys is free by now, and as large as the distances. */
static kith_status write_part(void *arg, const kin_shard_part *part)
{
    kin_shard_result *r = arg;
    const kin_shard_job *job = r->job;
    if (kin_parts_stand(r->parts, part->first, part->rows)) {
        return KITH_OK;
    }
    float *distances = (float *)(void *)job->found_keys;
    converting c = {job, part->lists.keys, distances};
    KIN_TRY(kin_parallel_rows(job->ctx, NULL, part->rows, ROWS_A_TASK, convert, &c));
    const kith_neighbors rows = {
        .ids = part->lists.ids, .distances = distances, .rows = part->rows, .k = job->k};
    return kin_parts_put(job->ctx, r->parts, part->first, &rows);
}

/* Of an approximate graph; told again, lists may be others than before. */
static kith_status tell_recall(kin_shard_result *r)
{
    KIN_TRY(wait(r));
    if (r->job->follows) {
        kin_shard_estimate(r->job, &r->recall);
        kin_parts_hurry(r->parts, RECORD_BYTES);
    }
    const kith_status status = kin_parts_tell_recall(r->ctx, r->parts, &r->recall, r->told);
    r->told = true;
    return explain(r, status);
}

/* ---- Groups made one ------------------------------------------------------------------------- */

enum { ENTRIES_A_PIECE = 1 << 23, SIDES = 2, MOST_PUTTERS = 8 };

/* Rows whose lists are one. */
typedef struct piece {
    int64_t first;
    int64_t rows;
    uint32_t *ids;
    float *distances;
} piece;

/* Where the next row of a group is: see kin_shard_view. */
typedef struct place {
    int64_t row;
    int64_t shared;
} place;

typedef struct uniting {
    kin_shard_job *job;
    kith_ctx *beside; /* of the thread */
    kin_shard_result *result;
    kin_shard_view *views; /* by group */
    unsigned char *lost;   /* by group: its file is damaged */
    int64_t most;          /* rows of a piece */
    place *starts;         /* of each task: where it begins in every view */
    kin_shard_lists room;  /* 2 k entries a thread */
    piece sides[SIDES];
    const piece *piece; /* whose rows are taken */
    const piece *put;   /* that the thread is at */
    kin_beside putting;
    void *block;
} uniting;

/* ---- A piece -------------------------------------------------------------------------------- */

static bool is_shared(const uint16_t *homes)
{
    return homes[1] != KIN_SHARD_NO_GROUP;
}

static const double *keys_of(const kin_shard_view *view, place at)
{
    return view->keys + (view->distances != NULL ? at.shared : at.row) * view->k;
}

/* The row of one group alone. */
static void copy_list(const uniting *u, const kin_shard_view *view, place at, uint32_t *ids,
                      float *distances)
{
    const int64_t k = view->k;
    memcpy(ids, view->ids + at.row * k, (size_t)k * sizeof *ids);
    if (view->distances != NULL) {
        memcpy(distances, view->distances + at.row * k, (size_t)k * sizeof *distances);
    } else {
        kin_shard_to_distances(u->job, view->keys + at.row * k, k, distances);
    }
}

/* next: the place in each view. room: twice k. */
static void take_row(const uniting *u, const uint16_t *homes, place *next, int64_t row,
                     const kin_shard_lists *room)
{
    const int64_t k = u->job->k;
    const kin_shard_lists spare = {.ids = room->ids + k, .keys = room->keys + k};
    uint32_t *ids = u->piece->ids + row * k;
    float *distances = u->piece->distances + row * k;
    if (!is_shared(homes)) {
        copy_list(u, &u->views[homes[0]], next[homes[0]], ids, distances);
        next[homes[0]].row += 1;
        return;
    }
    for (int i = 0; i < KIN_SHARD_HOMES && homes[i] != KIN_SHARD_NO_GROUP; i++) {
        const kin_shard_view *view = &u->views[homes[i]];
        place *at = &next[homes[i]];
        const uint32_t *more = view->ids + at->row * k;
        if (i == 0) {
            memcpy(ids, more, (size_t)k * sizeof *ids);
            memcpy(room->keys, keys_of(view, *at), (size_t)k * sizeof *room->keys);
        } else {
            const kin_shard_lists own = {.ids = ids, .keys = room->keys};
            kin_shard_merge(k, &own, more, keys_of(view, *at), &spare);
        }
        at->row += 1;
        at->shared += 1;
    }
    kin_shard_to_distances(u->job, room->keys, k, distances);
}

static const uint16_t *homes_of(const uniting *u, int64_t row)
{
    return u->job->groups.homes + row * KIN_SHARD_HOMES;
}

static kith_status take_rows(void *arg, int64_t task, int32_t thread)
{
    const uniting *u = arg;
    const int64_t k = u->job->k;
    const kin_shard_lists room = {.ids = u->room.ids + 2 * thread * k,
                                  .keys = u->room.keys + 2 * thread * k};
    place *next = u->starts + task * u->job->shards;
    const int64_t last = kin_min_i64((task + 1) * ROWS_A_TASK, u->piece->rows);
    for (int64_t i = task * ROWS_A_TASK; i < last; i++) {
        take_row(u, homes_of(u, u->piece->first + i), next, i, &room);
    }
    return KITH_OK;
}

static void pass_row(const uniting *u, int64_t row)
{
    const uint16_t *homes = homes_of(u, row);
    for (int i = 0; i < KIN_SHARD_HOMES && homes[i] != KIN_SHARD_NO_GROUP; i++) {
        u->views[homes[i]].row += 1;
        u->views[homes[i]].shared += is_shared(homes);
    }
}

/* The next rows. Where each task begins is counted first. */
static kith_status take_piece(uniting *u, const piece *p)
{
    const int32_t groups = u->job->shards;
    u->piece = p;
    for (int64_t i = 0; i < p->rows; i++) {
        for (int32_t j = 0; i % ROWS_A_TASK == 0 && j < groups; j++) {
            u->starts[i / ROWS_A_TASK * groups + j] = (place){u->views[j].row, u->views[j].shared};
        }
        pass_row(u, p->first + i);
    }
    return kin_parallel(u->job->ctx, NULL, kin_ceil_div(p->rows, ROWS_A_TASK), take_rows, u);
}

/* What the lists of the sample have, before anything is written: the result says its recall. */
static kith_status note_sample(uniting *u)
{
    kin_shard_job *job = u->job;
    const kin_shard_sample *s = &job->sample;
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
        kin_shard_sample_note_distances(job, next, p->distances);
        next += 1;
    }
    for (int32_t i = 0; i < job->shards; i++) {
        kin_shard_view_rewind(&u->views[i]);
    }
    return KITH_OK;
}

/* ---- All pieces ----------------------------------------------------------------------------- */

static kith_status put_piece(void *arg)
{
    const uniting *u = arg;
    const piece *p = u->put;
    const kith_neighbors rows = {
        .ids = p->ids, .distances = p->distances, .rows = p->rows, .k = u->job->k};
    return kin_parts_put(u->beside, u->result->parts, p->first, &rows);
}

static kith_status put_all(uniting *u)
{
    kin_shard_job *job = u->job;
    kith_status status = KITH_OK;
    int at = 0;
    for (int64_t first = 0; first < job->points.rows && status == KITH_OK; first += u->most) {
        piece *p = &u->sides[at];
        p->first = first;
        p->rows = kin_min_i64(u->most, job->points.rows - first);
        status = take_piece(u, p);
        KIN_KEEP(status, kin_beside_wait(&u->putting, job->ctx));
        if (status == KITH_OK) {
            u->put = p;
            kin_beside_start(&u->putting, u->beside, put_piece, u);
        }
        for (int32_t j = 0; j < job->shards; j++) {
            kin_shard_view_return(&u->views[j]);
        }
        at = 1 - at;
    }
    KIN_KEEP(status, kin_beside_wait(&u->putting, job->ctx));
    return status;
}

/* ---- Files ---------------------------------------------------------------------------------- */

static kith_status open_view(kith_ctx *ctx, uniting *u, int32_t group)
{
    const kith_status status = kin_shard_view_open(ctx, u->job->folder, group,
                                                   u->job->groups.shared[group], &u->views[group]);
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
    const kin_shard_lists *lists = kin_shard_follow_lists(u->job, (int32_t)task);
    if (lists != NULL) {
        u->views[task] = (kin_shard_view){.ids = lists->ids, .keys = lists->keys, .k = u->job->k};
        return KITH_OK;
    }
    u->lost[task] = open_view(u->job->ctx, u, (int32_t)task) != KITH_OK;
    return KITH_OK;
}

static kith_status open_views(uniting *u, bool *lost)
{
    kin_shard_job *job = u->job;
    KIN_TRY(kin_parallel(job->ctx, NULL, job->shards, try_view, u));
    for (int32_t i = 0; i < job->shards; i++) {
        kith_status status = KITH_OK;
        if (u->lost[i] != 0) {
            kin_forgive(job->ctx);
            kin_forgive(u->beside);
            status = open_view(u->beside, u, i);
        }
        if (status == KITH_E_FORMAT) {
            *lost = true;
            KIN_TRY(kin_shard_lose(job->folder, i, u->beside->failure.detail));
        } else if (status != KITH_OK) {
            return kin_fail_like(job->ctx, status, u->beside);
        }
    }
    return KITH_OK;
}

static void name_arrays(kin_layout *layout, void *arg)
{
    uniting *u = arg;
    const kin_shard_job *job = u->job;
    const uint64_t groups = (uint64_t)job->shards;
    const uint64_t entries = kin_size_mul((uint64_t)u->most, (uint64_t)job->k);
    const uint64_t tasks = (uint64_t)kin_ceil_div(u->most, ROWS_A_TASK);
    const uint64_t room = 2 * (uint64_t)job->ctx->threads * (uint64_t)job->k;
    u->views = kin_layout_zeros(layout, groups, sizeof *u->views);
    u->lost = kin_layout_zeros(layout, groups, 1);
    u->starts = kin_layout_array(layout, tasks * groups, sizeof *u->starts);
    u->room.ids = kin_layout_array(layout, room, sizeof *u->room.ids);
    u->room.keys = kin_layout_array(layout, room, sizeof *u->room.keys);
    for (int i = 0; i < SIDES; i++) {
        u->sides[i].ids = kin_layout_array(layout, entries, sizeof *u->sides[i].ids);
        u->sides[i].distances = kin_layout_array(layout, entries, sizeof *u->sides[i].distances);
    }
}

static kith_status make(uniting *u)
{
    const kin_shard_job *job = u->job;
    const int64_t wanted = kin_min_i64(ENTRIES_A_PIECE / job->k, job->groups.most);
    const int32_t putters = job->ctx->threads < MOST_PUTTERS ? job->ctx->threads : MOST_PUTTERS;
    u->most = kin_max_i64(wanted, ROWS_A_TASK);
    KIN_TRY(kin_shard_make_ctx(job->ctx, putters, &u->beside));
    return kin_layout_make(job->ctx, name_arrays, u, "lists of groups", &u->block);
}

static void release(uniting *u)
{
    for (int32_t i = 0; u->views != NULL && i < u->job->shards; i++) {
        kin_shard_view_close(&u->views[i]);
    }
    kin_free(u->job->ctx, u->block);
    kith_ctx_free(u->beside);
}

static kith_status unite(uniting *u, bool *lost)
{
    const int64_t start = kin_clock_ns();
    KIN_TRY(make(u));
    KIN_TRY(open_views(u, lost));
    if (*lost) {
        return KITH_OK;
    }
    KIN_TRY(note_sample(u));
    u->job->seconds_check += kin_clock_since(start);
    KIN_TRY(tell_recall(u->result));
    return put_all(u);
}

/* Lists of all groups made one: those of the sample are noted, what is known of the recall is told,
 * then rows of all points are put in their order, piece after piece, in a thread. All groups are on
 * disk when this returns KITH_OK. */
static kith_status write_groups(kin_shard_result *result, bool *lost)
{
    kin_shard_job *job = result->job;
    uniting u = {.job = job, .result = result};
    *lost = false;
    kith_status status = unite(&u, lost);
    release(&u);
    KIN_KEEP(status, kin_shard_follow_end(job));
    return status;
}

static kith_status write_shards(kin_shard_result *r, bool *lost)
{
    if (r->job->descends) {
        KIN_TRY(kin_shard_recall(r->job, r->run, &r->recall, lost));
        if (*lost) {
            return KITH_OK;
        }
        KIN_TRY(tell_recall(r));
    }
    return kin_shard_each(r->run, write_part, r, lost);
}

kith_status kin_shard_result_write(kin_shard_result *result, bool *lost)
{
    *lost = false;
    KIN_TRY(result->job->follows ? write_groups(result, lost) : write_shards(result, lost));
    return *lost ? KITH_OK : explain(result, kin_parts_finish(result->ctx, result->parts));
}
