/* SPDX-License-Identifier: Apache-2.0
 *
 *      part 0   the caller's thread    ---- show, meet ==== copy from 1, 2 ==== wait, meet ----
 *      part 1   a thread of its own    ------- show, meet = copy from 2, 0 ==== wait, meet ----
 *      part 2   a thread of its own    -- show, meet ====== copy from 0, 1 ==== wait, meet ----
 *
 * A meeting costs some ten microseconds; who copies from whom is turned by one a step, so that no
 * GPU is asked by all at a time. */
#include "gpu/gpu.h"

#include "host/host_cpu.h"
#include "host/host_threads.h"

#include <stdio.h>

typedef struct member {
    kith_ctx *ctx; /* its own; of the leader: NULL */
    kin_gpu *gpu;
    bool left_out; /* its device failed */
} member;

struct kin_gpu_team {
    member members[KIN_GPU_TEAM_MOST];
    int32_t count;
    bool running; /* the leader's thread, which alone reads it, works for a member */

    /* A run. */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int32_t parts;
    int32_t here;   /* at the meeting that is under way */
    int64_t number; /* of that meeting */
    int32_t gone;   /* members that have returned */
    kith_status failed;
    kith_status came_out[2]; /* of the last two meetings: what all of one must be told alike */
    int32_t culprit;         /* a member; -1: none */
    const void *shown[KIN_GPU_TEAM_MOST];
};

/* ---- Making ---------------------------------------------------------------------------------- */

/* A context for a member: the caller's settings, without his progress function, which is asked in
 * his own thread alone, and with a share of his threads. */
static kith_status make_ctx(kith_ctx *ctx, int32_t count, kith_ctx **out)
{
    kith_ctx *own = kin_ctx_new(&ctx->params);
    if (own == NULL) {
        return kin_fail(ctx, KITH_E_MEMORY, "no memory for a context of a GPU (free some memory)");
    }
    own->params.progress = NULL;
    own->isa = ctx->isa;
    own->device = ctx->device;
    own->threads = (int32_t)kin_max_i64(1, ctx->threads / count);
    *out = own;
    return KITH_OK;
}

static void free_member(member *m)
{
    kin_gpu_close_one(m->ctx, m->gpu);
    kin_ctx_delete(m->ctx);
}

/* Accepts NULL. The leader stays. */
static void close_team(kith_ctx *ctx, kin_gpu_team *team)
{
    if (team == NULL) {
        return;
    }
    team->members[0].gpu->team = NULL;
    for (int32_t i = 1; i < team->count; i++) {
        free_member(&team->members[i]);
    }
    (void)pthread_cond_destroy(&team->turn);
    (void)pthread_mutex_destroy(&team->lock);
    kin_free(ctx, team);
}

void kin_gpu_close(kith_ctx *ctx, kin_gpu *gpu)
{
    if (gpu != NULL) {
        close_team(ctx, gpu->team);
    }
    kin_gpu_close_one(ctx, gpu);
}

typedef struct opening {
    kith_ctx *ctx;
    int32_t number; /* in the team */
    int32_t index;
    uint64_t budget;
    kin_gpu *gpu;
    kith_status status;
    pthread_t thread;
    bool started;
} opening;

static void *open_one(void *arg)
{
    opening *o = arg;
    o->status = kin_gpu_open(o->ctx, o->index, o->budget, &o->gpu);
    if (o->status == KITH_OK) {
        o->gpu->number = o->number;
    }
    return NULL;
}

/* Opening a device takes the driver a tenth of a second: all at once. */
static kith_status open_members(kith_ctx *ctx, kin_gpu_team *team, const int32_t *indices,
                                uint64_t budget)
{
    opening all[KIN_GPU_TEAM_MOST] = {0};
    kith_status status = KITH_OK;
    for (int32_t i = 1; i < team->count && status == KITH_OK; i++) {
        opening *o = &all[i];
        *o = (opening){.number = i, .index = indices[i], .budget = budget};
        status = make_ctx(ctx, team->count, &o->ctx);
        team->members[i].ctx = o->ctx;
        o->started = status == KITH_OK && kin_thread_start(&o->thread, open_one, o) == 0;
        if (status == KITH_OK && !o->started) {
            (void)open_one(o);
        }
    }
    for (int32_t i = 1; i < team->count; i++) {
        if (all[i].started) {
            (void)pthread_join(all[i].thread, NULL);
        }
        team->members[i].gpu = all[i].gpu;
        if (status == KITH_OK && all[i].status != KITH_OK) {
            status = kin_fail_like(ctx, all[i].status, all[i].ctx);
        }
    }
    return status;
}

static kith_status check_models(kith_ctx *ctx, const kin_gpu_team *team)
{
    const kin_gpu_info *first = &team->members[0].gpu->info;
    for (int32_t i = 1; i < team->count; i++) {
        const kin_gpu *gpu = team->members[i].gpu;
        if (strcmp(gpu->info.name, first->name) != 0 || gpu->info.major != first->major ||
            gpu->info.minor != first->minor) {
            return kin_fail(ctx, KITH_E_ARGUMENT,
                            "cuda:%d is a %s and cuda:%d a %s: GPUs that work together must be of "
                            "one model (name those that are)",
                            (int)team->members[0].gpu->index, first->name, (int)gpu->index,
                            gpu->info.name);
        }
    }
    return KITH_OK;
}

/* Who sees whom; where nobody does, copies go through the host all the same. */
static kith_status see_each_other(kith_ctx *ctx, const kin_gpu_team *team)
{
    for (int32_t i = 0; i < team->count; i++) {
        kin_gpu *gpu = team->members[i].gpu;
        const kin_gpu_ops *ops = gpu->module->ops;
        int32_t found = gpu->index;
        (void)ops->current(&found);
        int error = ops->make_current(gpu->index);
        for (int32_t j = 0; j < team->count && error == 0; j++) {
            int32_t direct = 0;
            error = j != i ? ops->see_peer(gpu->index, team->members[j].gpu->index, &direct) : 0;
        }
        (void)ops->make_current(found);
        KIN_TRY(kin_gpu_check(ctx, gpu, error, "looking for the other GPUs"));
    }
    return KITH_OK;
}

kith_status kin_gpu_team_open(kith_ctx *ctx, kin_gpu *leader, const int32_t *indices, int32_t count,
                              uint64_t budget)
{
    kin_gpu_team *team = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &team, 1, sizeof *team, "a team of GPUs"));
    team->count = count < KIN_GPU_TEAM_MOST ? count : KIN_GPU_TEAM_MOST;
    team->members[0].gpu = leader;
    if (pthread_mutex_init(&team->lock, NULL) != 0) {
        kin_free(ctx, team);
        return kin_fail(ctx, KITH_E_MEMORY, "no memory for the lock of a team (free some memory)");
    }
    if (pthread_cond_init(&team->turn, NULL) != 0) {
        (void)pthread_mutex_destroy(&team->lock);
        kin_free(ctx, team);
        return kin_fail(ctx, KITH_E_MEMORY, "no memory for the lock of a team (free some memory)");
    }
    kith_status status = open_members(ctx, team, indices, budget);
    if (status == KITH_OK) {
        status = check_models(ctx, team);
    }
    if (status == KITH_OK) {
        status = see_each_other(ctx, team);
    }
    if (status != KITH_OK) {
        close_team(ctx, team);
        return status;
    }
    leader->team = team;
    return KITH_OK;
}

int32_t kin_gpu_team_count(const kin_gpu_team *team)
{
    int32_t count = 0;
    for (int32_t i = 0; i < team->count; i++) {
        count += team->members[i].left_out ? 0 : 1;
    }
    return count;
}

int32_t kin_gpu_team_size(const kin_gpu_team *team)
{
    return team->count;
}

kin_gpu *kin_gpu_team_member(const kin_gpu_team *team, int32_t number)
{
    return team->members[number].gpu;
}

bool kin_gpu_team_takes(const kin_gpu *gpu, int64_t rows, int64_t rows_a_member)
{
    if (gpu->team == NULL || gpu->seat != NULL || gpu->team->running) {
        return false;
    }
    const int32_t count = kin_gpu_team_count(gpu->team);
    return gpu->team->members[0].left_out || (count > 1 && rows >= rows_a_member * count);
}

void kin_gpu_team_name(const kin_gpu_team *team, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < team->count; i++) {
        if (team->members[i].left_out) {
            continue;
        }
        const int added = snprintf(text + length, size - length, "%s%d",
                                   length == 0 ? "cuda:" : ",", (int)team->members[i].gpu->index);
        if (added < 0 || (size_t)added >= size - length) {
            text[length] = '\0'; /* whole numbers alone */
            return;
        }
        length += (size_t)added;
    }
}

uint64_t kin_gpu_team_peak(const kin_gpu_team *team)
{
    uint64_t peak = 0;
    for (int32_t i = 0; i < team->count; i++) {
        const uint64_t own = team->members[i].gpu->peak;
        peak = own > peak ? own : peak;
    }
    return peak;
}

/* ---- Meetings -------------------------------------------------------------------------------- */

static void note_failure(kin_gpu_team *team, kith_status status, int32_t who)
{
    if (status != KITH_OK && team->failed == KITH_OK) {
        team->failed = status;
        team->culprit = who;
    }
}

kith_status kin_gpu_meet(kin_gpu *gpu, kith_status own)
{
    if (gpu->seat == NULL) {
        return own;
    }
    kin_gpu_team *team = gpu->seat->team;
    pthread_mutex_lock(&team->lock);
    note_failure(team, own, gpu->seat->part);
    const int64_t number = team->number;
    team->here += 1;
    if (team->here == team->parts) {
        team->here = 0;
        team->came_out[number % 2] = team->failed;
        team->number += 1;
        pthread_cond_broadcast(&team->turn);
    }
    while (team->number == number && team->gone == 0) {
        pthread_cond_wait(&team->turn, &team->lock);
    }
    kith_status status = team->came_out[number % 2];
    if (team->number == number) {
        note_failure(team, KITH_E_INTERNAL, -1); /* gone without a failure: they lost step */
        status = team->failed;
    }
    pthread_mutex_unlock(&team->lock);
    return status;
}

static void go(kin_gpu_team *team, int32_t part, kith_status status)
{
    pthread_mutex_lock(&team->lock);
    note_failure(team, status, part);
    team->gone += 1;
    pthread_cond_broadcast(&team->turn);
    pthread_mutex_unlock(&team->lock);
}

void kin_gpu_break_step(kin_gpu *gpu)
{
    gpu->seat = NULL;
}

void kin_gpu_show(kin_gpu *gpu, const void *what)
{
    gpu->seat->team->shown[gpu->seat->part] = what;
}

const void *kin_gpu_shown(const kin_gpu *gpu, int32_t part)
{
    return gpu->seat->team->shown[part];
}

/* The member that is the n-th of those that work; there are more than n. */
static member *working(kin_gpu_team *team, int32_t n)
{
    member *found = team->members;
    while (found->left_out || n > 0) {
        n -= found->left_out ? 0 : 1;
        found++;
    }
    return found;
}

/* ---- What is said and sent between two meetings ---------------------------------------------- */

kith_status kin_gpu_copy_from(kith_ctx *ctx, kin_gpu *gpu, int32_t part, void *to, const void *from,
                              uint64_t bytes)
{
    if (bytes == 0) {
        return KITH_OK;
    }
    const int32_t index = working(gpu->seat->team, part)->gpu->index;
    return kin_gpu_check(ctx, gpu, gpu->module->ops->copy_peer(gpu->stream, to, from, index, bytes),
                         "copying from another GPU");
}

kith_status kin_gpu_agree(kin_gpu *gpu, uint64_t own, uint64_t *least)
{
    *least = own;
    if (gpu->seat == NULL) {
        return KITH_OK;
    }
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    for (int32_t p = 0; p < gpu->seat->parts; p++) {
        const uint64_t given = *(const uint64_t *)kin_gpu_shown(gpu, p);
        *least = given < *least ? given : *least;
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

kith_status kin_gpu_add_up(kin_gpu *gpu, double own, double *sum)
{
    *sum = own;
    if (gpu->seat == NULL) {
        return KITH_OK;
    }
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, KITH_OK));
    *sum = 0.0;
    for (int32_t p = 0; p < gpu->seat->parts; p++) {
        *sum += *(const double *)kin_gpu_shown(gpu, p);
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

static kith_status fetch_all(kith_ctx *ctx, kin_gpu *gpu, void *base, uint64_t item_bytes,
                             const int64_t *firsts)
{
    const int32_t parts = gpu->seat->parts;
    kith_status status = KITH_OK;
    for (int32_t turn = 1; turn < parts; turn++) {
        const int32_t p = (gpu->seat->part + turn) % parts;
        const uint64_t at = (uint64_t)firsts[p] * item_bytes;
        const uint64_t bytes = (uint64_t)(firsts[p + 1] - firsts[p]) * item_bytes;
        KIN_THEN(status, kin_gpu_copy_from(ctx, gpu, p, (char *)base + at,
                                           (const char *)kin_gpu_shown(gpu, p) + at, bytes));
    }
    KIN_KEEP(status,
             kin_gpu_wait(ctx, gpu)); /* of a failure, too: copies from others are on their way */
    return status;
}

kith_status kin_gpu_gather(kith_ctx *ctx, kin_gpu *gpu, void *base, uint64_t item_bytes,
                           const int64_t *firsts)
{
    if (gpu->seat == NULL) {
        return KITH_OK;
    }
    const kith_status made = kin_gpu_wait(ctx, gpu);
    kin_gpu_show(gpu, base);
    KIN_TRY(kin_gpu_meet(gpu, made));
    return kin_gpu_meet(gpu, fetch_all(ctx, gpu, base, item_bytes, firsts));
}

void kin_gpu_divide(int64_t count, int64_t unit, int32_t parts, int64_t *firsts)
{
    const int64_t units = kin_ceil_div(count, unit);
    for (int32_t p = 0; p <= parts; p++) {
        firsts[p] = kin_min_i64(count, units * p / parts * unit);
    }
}

/* Each brings a part of the rows, and gets the others' from them. */
static kith_status upload_share(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void *to)
{
    const int32_t part = kin_gpu_part(gpu);
    int64_t firsts[KIN_GPU_TEAM_MOST + 1];
    kin_gpu_divide(rows->count, 1, kin_gpu_parts(gpu), firsts);
    const int64_t first = firsts[part];
    const kin_gpu_rows own = kin_gpu_rows_part(rows, first, firsts[part + 1] - first);
    KIN_TRY(kin_gpu_upload_rows(ctx, gpu, (char *)to + first * rows->row_bytes, &own));
    return kin_gpu_gather(ctx, gpu, to, (uint64_t)rows->row_bytes, firsts);
}

kith_status kin_gpu_bring(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void **block)
{
    KIN_TRY(kin_gpu_ahead_take(ctx, gpu, rows, block));
    if (*block != NULL) {
        return KITH_OK;
    }
    KIN_TRY(
        kin_gpu_alloc(ctx, gpu, block, (uint64_t)rows->count, (uint64_t)rows->row_bytes, "rows"));
    return kin_gpu_parts(gpu) > 1 ? upload_share(ctx, gpu, rows, *block)
                                  : kin_gpu_upload_rows(ctx, gpu, *block, rows);
}

/* ---- A run ----------------------------------------------------------------------------------- */

typedef struct seated {
    kin_gpu_team *team;
    member *who;
    kin_gpu_seat seat;
    kith_ctx *ctx;
    kin_gpu_member_fn fn;
    void *arg;
    bool lockstep;
    bool entered; /* the caller has */
    kith_status status;
    pthread_t thread;
} seated;

static void *work(void *arg)
{
    seated *s = arg;
    kin_gpu *gpu = s->who->gpu;
    const kin_fpenv found = kin_fpenv_enter();
    if (!s->entered) {
        kin_gpu_enter(gpu);
        gpu->peak = gpu->held;
    }
    gpu->seat = s->lockstep && s->seat.parts > 1 ? &s->seat : NULL;
    s->status = s->fn(s->arg, s->ctx, gpu, s->seat.part, s->seat.parts);
    gpu->seat = NULL;
    if (s->status != KITH_OK) {
        (void)gpu->module->ops->wait(gpu->stream); /* copies of what others give back hereafter */
    }
    go(s->team, s->seat.part, s->status);
    if (!s->entered) {
        kin_gpu_leave(gpu);
    }
    kin_fpenv_leave(found);
    return NULL;
}

/* A member's sentence is the caller's, unless he has one. */
static kith_status tell(kith_ctx *ctx, const kin_gpu_team *team, const seated *all)
{
    const int32_t who = team->culprit;
    if (team->failed == KITH_OK) {
        return KITH_OK;
    }
    return who >= 0 && all[who].ctx->failure.status != KITH_OK
               ? kin_fail_like(ctx, team->failed, all[who].ctx)
               : kin_fail(ctx, team->failed, "GPUs of a team lost step");
}

/* A team may outlive the context that it was opened for, as an index does. */
static void follow_caller(kith_ctx *own, const kith_ctx *caller, int32_t parts)
{
    own->params.log = caller->params.log;
    own->params.log_arg = caller->params.log_arg;
    own->params.memory_limit = caller->params.memory_limit;
    own->threads = (int32_t)kin_max_i64(1, caller->threads / parts);
    kin_forgive(own);
    memset(&own->report, 0, sizeof own->report);
}

static kith_status run_once(kith_ctx *ctx, kin_gpu_team *team, bool lockstep, kin_gpu_member_fn fn,
                            void *arg)
{
    seated all[KIN_GPU_TEAM_MOST];
    bool born[KIN_GPU_TEAM_MOST] = {false};
    const int32_t parts = (int32_t)kin_max_i64(1, kin_gpu_team_count(team));
    team->parts = parts;
    team->here = 0;
    team->gone = 0;
    team->failed = KITH_OK;
    team->culprit = -1;
    for (int32_t p = 0; p < parts; p++) {
        member *m = working(team, p);
        all[p] = (seated){.team = team,
                          .who = m,
                          .seat = {.team = team, .part = p, .parts = parts},
                          .ctx = p == 0 ? ctx : m->ctx,
                          .fn = fn,
                          .arg = arg,
                          .lockstep = lockstep,
                          .entered = m == &team->members[0]};
    }
    kith_status status = KITH_OK;
    for (int32_t p = 1; p < parts && status == KITH_OK; p++) {
        follow_caller(all[p].ctx, ctx, parts);
        born[p] = kin_thread_start(&all[p].thread, work, &all[p]) == 0;
        if (!born[p]) {
            status = kin_fail(ctx, KITH_E_MEMORY,
                              "no thread for a GPU (raise the limit of threads, ulimit -u)");
            go(team, 0, status); /* whoever waits is woken */
        }
    }
    if (status == KITH_OK) {
        (void)work(&all[0]);
    }
    for (int32_t p = 1; p < parts; p++) {
        if (born[p]) {
            (void)pthread_join(all[p].thread, NULL);
        }
    }
    return tell(ctx, team, all);
}

/* Whether the job may be begun again without the member that failed. */
static bool leave_out(kith_ctx *ctx, kin_gpu_team *team, kith_status status)
{
    enum { WARNING = 1 };
    if (status != KITH_E_DEVICE || team->culprit < 0 || kin_gpu_team_count(team) < 2) {
        return false;
    }
    member *m = working(team, team->culprit);
    m->left_out = true;
    kin_log(ctx, WARNING, "cuda:%d is left out, its work is done again by the others: %s",
            (int)m->gpu->index, ctx->failure.detail);
    kin_forgive(ctx);
    return true;
}

kith_status kin_gpu_team_run(kith_ctx *ctx, kin_gpu_team *team, bool lockstep, kin_gpu_member_fn fn,
                             void *arg)
{
    const kith_report before = ctx->report;
    kith_status status = KITH_OK;
    team->running = true;
    do {
        ctx->report = before;
        status = run_once(ctx, team, lockstep, fn, arg);
    } while (leave_out(ctx, team, status));
    team->running = false;
    return status;
}

/* ---- One thing on each ----------------------------------------------------------------------- */

typedef struct making {
    const kin_gpu_each *each;
    void **things;
} making;

/* The GPU has been entered. What stands there is of a run that another one broke. */
static kith_status make_thing(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part, int32_t parts)
{
    const making *m = arg;
    void **thing = &m->things[gpu->number];
    (void)part;
    (void)parts;
    if (*thing != NULL) {
        m->each->free(*thing);
        *thing = NULL;
    }
    return m->each->make(m->each->arg, ctx, gpu, thing);
}

void kin_gpu_each_free(kin_gpu *leader, void (*free_thing)(void *thing), void **things)
{
    for (int32_t i = 0; i < KIN_GPU_TEAM_MOST; i++) {
        if (things[i] != NULL && i == 0) {
            free_thing(things[i]);
        } else if (things[i] != NULL) {
            kin_gpu *gpu = kin_gpu_team_member(leader->team, i);
            kin_gpu_enter(gpu);
            free_thing(things[i]);
            kin_gpu_leave(gpu);
        }
        things[i] = NULL;
    }
}

kith_status kin_gpu_each_make(kith_ctx *ctx, kin_gpu *leader, const kin_gpu_each *each,
                              void **things)
{
    making m = {each, things};
    kith_status status = leader->team != NULL
                             ? kin_gpu_team_run(ctx, leader->team, true, make_thing, &m)
                             : make_thing(&m, ctx, leader, 0, 1);
    if (status == KITH_OK && things[0] == NULL) {
        status = kin_fail(ctx, KITH_E_DEVICE,
                          "cuda:%d, the first of several GPUs, has failed (name others)",
                          (int)leader->index);
    }
    if (status != KITH_OK) {
        kin_gpu_each_free(leader, each->free, things);
    }
    return status;
}
