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
#include "host/host_clock.h"
#include "shard/shard_job.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

enum { BAGS = 2, ROWS_A_TASK = 4096, MOST_GATHERERS = 4 };
/* What borders take has to be found elsewhere; but not every neighbour. */
static const double MOST_RECALL = 0.999;

/* ---- Rows of a group, copied from all points in rising order ---------------------------------
 *
 * All rows are cut into runs; once it is known how many members of the group each has, runs are
 * copied in any order. */

enum { ROWS_A_RUN = 1 << 15 };

typedef struct group_rows {
    int32_t group; /* whose rows are there; -1: none */
    unsigned char *rows;
    uint32_t *members;     /* rising */
    unsigned char *shared; /* by member: 1, other groups have it, too */
    int64_t *starts;       /* of each run of all rows: its first member */
    void *block;
} group_rows;

typedef struct gathering {
    const kin_shard_job *job;
    group_rows *bag;
    int32_t group;
} gathering;

typedef struct rows_making {
    const kin_shard_job *job;
    group_rows *bag;
    uint64_t rows;
} rows_making;

static void name_rows(kin_layout *layout, void *arg)
{
    const rows_making *m = arg;
    group_rows *bag = m->bag;
    const uint64_t runs = (uint64_t)kin_ceil_div(m->job->points.rows, ROWS_A_RUN);
    bag->starts = kin_layout_array(layout, runs + 1, sizeof *bag->starts);
    bag->members = kin_layout_array(layout, m->rows, sizeof *bag->members);
    bag->shared = kin_layout_array(layout, m->rows, 1);
    bag->rows = kin_layout_array(layout, m->rows, (uint64_t)kin_shard_row_bytes(m->job));
}

static kith_status make_rows(const kin_shard_job *job, int64_t most, group_rows *bag)
{
    rows_making m = {job, bag, (uint64_t)most};
    bag->group = -1;
    return kin_layout_make(job->ctx, name_rows, &m, "rows of a group", &bag->block);
}

static void free_rows(const kin_shard_job *job, group_rows *bag)
{
    kin_free(job->ctx, bag->block);
    *bag = (group_rows){.group = -1};
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
    const group_rows *bag = g->bag;
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

static kith_status gather(const kin_shard_job *job, kith_ctx *ctx, int32_t group, group_rows *bag)
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

/* ---- Places ---------------------------------------------------------------------------------- */

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
    kin_beside writing;
} place;

struct kin_shard_last {
    kin_shard_job *job;
    kin_shard_run *run;
    kith_ctx *gatherer;
    group_rows bags[BAGS];
    int at;         /* of the bags, that of the engine */
    int32_t wanted; /* group that is gathered into the other one */
    kin_beside gathering;
    kin_beside freeing;
    place places[KIN_SHARD_PLACES];
    int32_t place_count;
    int64_t turns;
};

typedef struct kin_shard_last following;

/* ---- Threads -------------------------------------------------------------------------------- */

static kith_status write_lists(void *arg)
{
    place *p = arg;
    const kin_shard_job *job = p->all->job;
    const kin_shard_brief brief = {.shared = p->shared, kin_shard_to_distances, job};
    kin_shard_mark_done(job->folder, (kin_shard_step){p->group, p->group});
    return kin_shard_store(p->ctx, job->folder, p->group, p->group, &p->lists, &brief);
}

static kith_status gather_wanted(void *arg)
{
    following *f = arg;
    return gather(f->job, f->gatherer, f->wanted, &f->bags[1 - f->at]);
}

static kith_status wait(const following *f, kin_beside *b, double *seconds)
{
    const int64_t begin = kin_clock_ns();
    const kith_status status = kin_beside_wait(b, f->job->ctx);
    *seconds += kin_clock_since(begin);
    return status;
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
            KIN_TRY(wait(f, &p->writing, &f->run->seconds_wait));
        }
        chosen = p->turn < chosen->turn ? p : chosen;
    }
    KIN_TRY(wait(f, &chosen->writing, &f->run->seconds_wait));
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
    KIN_TRY(kin_shard_make_ctx(f->job->ctx, 1, &p->ctx));
    return kin_layout_make(f->job->ctx, name_place, p, "lists of a group", &p->block);
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
    KIN_TRY(kin_shard_make_ctx(job->ctx, gatherers, &f->gatherer));
    for (int i = 0; i < BAGS; i++) {
        KIN_TRY(make_rows(job, job->groups.most, &f->bags[i]));
    }
    KIN_TRY(kin_shard_group_places(job, &f->place_count));
    for (int32_t i = 0; i < f->place_count; i++) {
        KIN_TRY(make_place(f, &f->places[i]));
    }
    return KITH_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* Whether the step is ours to do, once more. */
static bool wants(const kin_shard_run *run, kin_shard_step step)
{
    bool ours = run->listed == NULL;
    for (int64_t i = 0; i < run->listed_count && !ours; i++) {
        ours = run->listed[i].a == step.a && run->listed[i].b == step.b;
    }
    return ours && !kin_shard_is_done(run->folder, step);
}

static int32_t next_group(const following *f, int32_t after)
{
    for (int32_t i = after + 1; i < f->job->shards; i++) {
        if (wants(f->run, (kin_shard_step){i, i})) {
            return i;
        }
    }
    return -1;
}

typedef struct counting {
    const uint32_t *members;
    uint32_t *ids;
    int64_t k;
} counting;

/* Rows of the group become rows of all points. */
static kith_status count_from_all(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const counting *c = arg;
    for (int64_t i = row * c->k; i < (row + 1) * c->k; i++) {
        c->ids[i] = c->ids[i] != KITH_ID_NONE ? c->members[c->ids[i]] : KITH_ID_NONE;
    }
    return KITH_OK;
}

static kith_status solve(following *f, const group_rows *bag, const place *p)
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
    KIN_TRY(kin_progress_close(job->ctx)); /* of the step before */
    (void)snprintf(job->phase, sizeof job->phase, "group %d of %d", (int)bag->group + 1,
                   (int)job->shards);
    const int64_t begin = kin_clock_ns();
    KIN_TRY(kin_shard_note(job, kin_shard_descend(job, &matrix, &params, &out), &part));
    counting c = {bag->members, p->lists.ids, job->k};
    KIN_TRY(kin_parallel_rows(job->ctx, NULL, rows, ROWS_A_TASK, count_from_all, &c));
    memcpy(p->shared, bag->shared, (size_t)rows);
    f->run->seconds_compute += kin_clock_since(begin);
    return KITH_OK;
}

static kith_status solve_all(following *f)
{
    int32_t group = next_group(f, -1);
    const int64_t begin = kin_clock_ns();
    KIN_TRY(gather(f->job, f->job->ctx, group, &f->bags[f->at]));
    f->run->seconds_rows += kin_clock_since(begin);
    while (group >= 0) {
        place *p = NULL;
        f->wanted = next_group(f, group);
        if (f->wanted >= 0) {
            kin_beside_start(&f->gathering, f->gatherer, gather_wanted, f);
        }
        kith_status status = take_place(f, group, &p);
        KIN_THEN(status, solve(f, &f->bags[f->at], p));
        KIN_KEEP(status, wait(f, &f->gathering, &f->run->seconds_rows));
        KIN_TRY(status);
        kin_beside_start(&p->writing, p->ctx, write_lists, p);
        f->at = 1 - f->at;
        group = f->wanted;
    }
    return KITH_OK;
}

static void free_bags(following *f)
{
    for (int i = 0; i < BAGS; i++) {
        free_rows(f->job, &f->bags[i]);
    }
}

static kith_status free_rest(void *arg)
{
    free_bags(arg);
    return KITH_OK;
}

kith_status kin_shard_follow_end(kin_shard_job *job)
{
    following *f = job->last;
    kith_status status = KITH_OK;
    if (f == NULL) {
        return KITH_OK;
    }
    KIN_KEEP(status, wait(f, &f->gathering, &f->run->seconds_rows));
    for (int32_t i = 0; i < f->place_count; i++) {
        KIN_KEEP(status, wait(f, &f->places[i].writing, &f->run->seconds_wait));
    }
    (void)wait(f, &f->freeing, &f->run->seconds_wait);
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
    const bool any = next_group(f, -1) >= 0;
    kith_status status = any ? make(f) : KITH_OK;
    KIN_THEN(status, any ? solve_all(f) : KITH_OK);
    kin_beside_start(&f->freeing, NULL, free_rest, f);
    if (status != KITH_OK || run->listed != NULL || !any) {
        KIN_KEEP(status, kin_shard_follow_end(job));
    }
    return status;
}
