/* SPDX-License-Identifier: Apache-2.0
 * Graphs of groups that overlap (shard_group.c), each alone.
 *
 *     time ->     engine         | group 0      | group 1        | group 2        | union
 *                 some threads   | gather 1     | gather 2       |                |
 *                 a thread each  |              | write 0 .................       |
 *                                               |                | write 1 ....................
 *
 * A step is a group: its rows are gathered, a descent makes their graph, and the lists go to the
 * folder as those of a shard that meets nobody. Lists have as many places as memory allows, two at
 * least: the engine waits for the disk where all of them are on their way there, and what is still
 * in its place at the end need not be read again. Rows of a group stand in rising order, so that
 * at the end one pass over all lists, side by side, has those of every point
 * (shard_union.c). */
#include "base/base_layout.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"
#include "metric/metric.h"
#include "shard/shard_group.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

enum { BAGS = 2, ENTRIES_A_TASK = 1 << 16, MOST_GATHERERS = 4 };
/* What borders take has to be found elsewhere; but not every neighbour. */
static const double MOST_RECALL = 0.999;

typedef struct beside {
    pthread_t thread;
    bool started;
    bool threaded;
    atomic_bool ended;
    kith_status status;
} beside;

/* Lists of one group, which are computed, then written, then kept until another one needs the
 * place. */
typedef struct place {
    struct kin_shard_last *all;
    kith_ctx *ctx; /* of the thread that writes */
    int32_t group; /* -1: none */
    int64_t turn;  /* when it was taken */
    kin_shard_lists lists;
    unsigned char *shared; /* by row */
    void *block;
    beside writing;
} place;

struct kin_shard_last {
    kin_shard_job *job;
    kin_shard_run *run;
    kith_ctx *gatherer;
    kin_shard_bag bags[BAGS];
    int at;         /* the bag of the engine */
    int32_t wanted; /* group that is gathered into the other one */
    beside gathering;
    beside freeing;
    place places[KIN_SHARD_PLACES];
    int32_t place_count;
    int64_t turns;
};

typedef struct kin_shard_last following;

/* ---- Threads -------------------------------------------------------------------------------- */

static void *write_beside(void *arg)
{
    place *p = arg;
    const kin_shard_job *job = p->all->job;
    const kin_shard_brief brief = {.shared = p->shared, kin_shard_to_distances, job};
    kin_forgive(p->ctx);
    kin_shard_mark_done(job->folder, (kin_shard_step){p->group, p->group});
    p->writing.status = kin_shard_store(p->ctx, job->folder, p->group, p->group, &p->lists, &brief);
    atomic_store(&p->writing.ended, true);
    return NULL;
}

static void *gather_beside(void *arg)
{
    following *f = arg;
    kin_forgive(f->gatherer);
    f->gathering.status = kin_shard_gather(f->job, f->gatherer, f->wanted, &f->bags[1 - f->at]);
    atomic_store(&f->gathering.ended, true);
    return NULL;
}

static void start(beside *b, void *(*body)(void *), void *arg)
{
    b->status = KITH_OK;
    atomic_store(&b->ended, false);
    b->started = true;
    b->threaded = kin_thread_start(&b->thread, body, arg) == 0;
    if (!b->threaded) {
        (void)body(arg);
    }
}

/* Once for every start; at other times KITH_OK. */
static kith_status wait(const following *f, beside *b, const kith_ctx *theirs, double *seconds)
{
    const int64_t begin = kin_clock_ns();
    if (!b->started) {
        return KITH_OK;
    }
    if (b->threaded) {
        (void)pthread_join(b->thread, NULL);
    }
    b->started = false;
    *seconds += kin_clock_since(begin);
    return b->status == KITH_OK ? KITH_OK : kin_fail_like(f->job->ctx, b->status, theirs);
}

static kith_status wait_for_rows(following *f)
{
    return wait(f, &f->gathering, f->gatherer, &f->run->seconds_rows);
}

static kith_status wait_for_lists(const following *f, place *p)
{
    return wait(f, &p->writing, p->ctx, &f->run->seconds_wait);
}

/* ---- Places --------------------------------------------------------------------------------- */

/* One that is free, or else the one that was taken first, once it is on disk. What has gone wrong
 * elsewhere is heard of before more is computed. */
static kith_status take_place(following *f, int32_t group, place **out)
{
    place *chosen = &f->places[0];
    KIN_TRY(f->job->between(f->job->between_arg));
    for (int32_t i = 0; i < f->place_count; i++) {
        place *p = &f->places[i];
        if (atomic_load(&p->writing.ended)) {
            KIN_TRY(wait_for_lists(f, p));
        }
        chosen = p->turn < chosen->turn ? p : chosen;
    }
    KIN_TRY(wait_for_lists(f, chosen));
    chosen->group = group;
    chosen->turn = ++f->turns;
    *out = chosen;
    return KITH_OK;
}

static uint64_t entries_of(const place *p)
{
    const kin_shard_job *job = p->all->job;
    return kin_size_mul((uint64_t)job->groups.most, (uint64_t)job->k);
}

static void name_place(kin_layout *layout, void *arg)
{
    place *p = arg;
    p->lists.ids = kin_layout_array(layout, entries_of(p), sizeof *p->lists.ids);
    p->lists.keys = kin_layout_array(layout, entries_of(p), sizeof *p->lists.keys);
    p->shared = kin_layout_array(layout, (uint64_t)p->all->job->groups.most, 1);
}

static kith_status make_place(following *f, place *p)
{
    p->all = f;
    p->group = -1;
    KIN_TRY(kin_shard_make_ctx(f->job, 1, &p->ctx));
    KIN_TRY(kin_layout_make(f->job->ctx, name_place, p, "lists of a group", &p->block));
    const uint64_t entries = entries_of(p);
    kin_shard_use_large_pages(p->lists.ids, entries * sizeof(uint32_t));
    kin_shard_use_large_pages(p->lists.keys, entries * sizeof(double));
    return KITH_OK;
}

/* Giving back gigabytes takes a while. */
static kith_status free_place(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    following *f = arg;
    place *p = &f->places[task];
    kin_free(f->job->ctx, p->block);
    kith_ctx_free(p->ctx);
    *p = (place){.group = -1};
    return KITH_OK;
}

static kith_status make(following *f)
{
    const kin_shard_job *job = f->job;
    const int32_t gatherers =
        job->ctx->threads < MOST_GATHERERS ? job->ctx->threads : MOST_GATHERERS;
    KIN_TRY(kin_shard_make_ctx(job, gatherers, &f->gatherer));
    for (int i = 0; i < BAGS; i++) {
        KIN_TRY(kin_shard_bag_make(job, job->groups.most, &f->bags[i]));
    }
    KIN_TRY(kin_shard_group_places(job, &f->place_count));
    for (int32_t i = 0; i < f->place_count; i++) {
        KIN_TRY(make_place(f, &f->places[i]));
    }
    return KITH_OK;
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

typedef struct counting {
    const uint32_t *members;
    uint32_t *ids;
    int64_t count;
} counting;

/* Rows of the group become rows of all points. */
static kith_status count_from_all(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const counting *c = arg;
    const int64_t last = kin_min_i64((task + 1) * ENTRIES_A_TASK, c->count);
    for (int64_t i = task * ENTRIES_A_TASK; i < last; i++) {
        c->ids[i] = c->ids[i] != KITH_ID_NONE ? c->members[c->ids[i]] : KITH_ID_NONE;
    }
    return KITH_OK;
}

static kith_status solve(following *f, const kin_shard_bag *bag, const place *p)
{
    kin_shard_job *job = f->job;
    const int64_t rows = job->groups.sizes[bag->group];
    kith_matrix matrix = job->points;
    kith_descent_params params = job->descent;
    matrix.data = bag->rows;
    matrix.rows = rows;
    matrix.stride_bytes = kin_shard_row_bytes(job);
    params.sample = params.recall > 0.0 ? params.sample : -1;
    params.recall = fmin(params.recall / job->groups.cover, MOST_RECALL);
    const kith_neighbors out = {
        .ids = p->lists.ids, .distances64 = p->lists.keys, .rows = rows, .k = job->k};
    const kin_shard_part part = {.shard = bag->group};
    (void)kin_progress_end(job->ctx, KITH_OK); /* of the step before */
    (void)snprintf(job->phase, sizeof job->phase, "group %d of %d", (int)bag->group + 1,
                   (int)job->shards);
    const int64_t begin = kin_clock_ns();
    KIN_TRY(kin_shard_note(job, kith_graph_descent(job->ctx, &matrix, &params, &out, NULL), &part));
    counting c = {bag->members, p->lists.ids, rows * job->k};
    KIN_TRY(
        kin_parallel(job->ctx, NULL, kin_ceil_div(c.count, ENTRIES_A_TASK), count_from_all, &c));
    memcpy(p->shared, bag->shared, (size_t)rows);
    f->run->seconds_compute += kin_clock_since(begin);
    return KITH_OK;
}

static kith_status solve_all(following *f)
{
    int32_t group = next_group(f, -1);
    const int64_t begin = kin_clock_ns();
    KIN_TRY(kin_shard_gather(f->job, f->job->ctx, group, &f->bags[f->at]));
    f->run->seconds_rows += kin_clock_since(begin);
    while (group >= 0) {
        place *p = NULL;
        f->wanted = next_group(f, group);
        if (f->wanted >= 0) {
            start(&f->gathering, gather_beside, f);
        }
        kith_status status = take_place(f, group, &p);
        if (status == KITH_OK) {
            status = solve(f, &f->bags[f->at], p);
        }
        KIN_KEEP(status, wait_for_rows(f));
        KIN_TRY(status);
        start(&p->writing, write_beside, p);
        f->at = 1 - f->at;
        group = f->wanted;
    }
    return KITH_OK;
}

static void free_bags(following *f)
{
    for (int i = 0; i < BAGS; i++) {
        kin_shard_bag_free(f->job, &f->bags[i]);
    }
}

static void *free_beside(void *arg)
{
    free_bags(arg);
    return NULL;
}

kith_status kin_shard_follow_end(kin_shard_job *job)
{
    following *f = job->last;
    kith_status status = KITH_OK;
    if (f == NULL) {
        return KITH_OK;
    }
    KIN_KEEP(status, wait_for_rows(f));
    for (int32_t i = 0; i < f->place_count; i++) {
        KIN_KEEP(status, wait_for_lists(f, &f->places[i]));
    }
    (void)wait(f, &f->freeing, f->gatherer, &f->run->seconds_wait);
    free_bags(f);
    (void)kin_parallel(job->ctx, NULL, f->place_count, free_place, f);
    kith_ctx_free(f->gatherer);
    kin_free(job->ctx, f);
    job->last = NULL;
    return status;
}

const kin_shard_lists *kin_shard_follow_lists(const kin_shard_job *job, int32_t group)
{
    const following *f = job->last;
    for (int32_t i = 0; f != NULL && i < f->place_count; i++) {
        if (f->places[i].group == group) {
            return &f->places[i].lists;
        }
    }
    return NULL;
}

kith_status kin_shard_follow(void *arg, kin_shard_run *run)
{
    kin_shard_job *job = arg;
    KIN_TRY(kin_shard_follow_end(job));
    KIN_TRY(kin_alloc_zero(job->ctx, &job->last, 1, sizeof *job->last, "groups"));
    following *f = job->last;
    f->job = job;
    f->run = run;
    kith_status status = KITH_OK;
    const bool any = next_group(f, -1) >= 0;
    if (any) {
        status = make(f);
    }
    if (any && status == KITH_OK) {
        status = solve_all(f);
    }
    start(&f->freeing, free_beside, f);
    if (status != KITH_OK || run->listed != NULL || !any) {
        KIN_KEEP(status, kin_shard_follow_end(job));
    }
    return status;
}
