/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shard/shard_run.h"

#include "base/base_random.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <fcntl.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 24 };

/* ---- One word of all ------------------------------------------------------------------------ */

/* In pieces that a caller can count by an int. */
static kith_status combine(kith_ctx *ctx, const kith_shard_team *team, void *data, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const uint64_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        if (team->combine(team->arg, (unsigned char *)data + done, piece) != 0) {
            return kin_fail(
                ctx, KITH_E_IO,
                "worker %d: the other workers cannot be reached (one has ended, see what it says)",
                (int)team->worker);
        }
    }
    return KITH_OK;
}

kith_status kin_shard_tell_from(kith_ctx *ctx, const kith_shard_team *team, int32_t worker,
                                void *data, uint64_t bytes)
{
    if (team->worker != worker) {
        memset(data, 0, (size_t)bytes);
    }
    return combine(ctx, team, data, bytes);
}

kith_status kin_shard_tell(kith_ctx *ctx, const kith_shard_team *team, void *data, uint64_t bytes)
{
    return team == NULL ? KITH_OK : kin_shard_tell_from(ctx, team, 0, data, bytes);
}

kith_status kin_shard_least(kith_ctx *ctx, const kith_shard_team *team, int64_t *number)
{
    int64_t *said = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, said, (uint64_t)team->workers, "workers");
    said[team->worker] = *number;
    KIN_TRY(combine(ctx, team, said, (uint64_t)team->workers * sizeof *said));
    for (int32_t i = 0; i < team->workers; i++) {
        *number = said[i] < *number ? said[i] : *number;
    }
    return KITH_OK;
}

/* What worker `first` failed for becomes everyone's. */
static kith_status fail_together(kith_ctx *ctx, const kith_shard_team *team, int32_t first,
                                 kith_status status)
{
    kin_failure said;
    memset(&said, 0, sizeof said);
    if (team->worker == first) {
        said = ctx->failure;
    }
    KIN_TRY(combine(ctx, team, &said, sizeof said));
    const kin_place place = {.argument = said.argument,
                             .member = said.member,
                             .file = said.file,
                             .row = said.row,
                             .column = said.column};
    kin_forgive(ctx);
    return team->workers == 1
               ? kin_fail_at(ctx, status, place, "%s", said.reason)
               : kin_fail_at(ctx, status, place, "%s [worker %d]", said.reason, (int)first);
}

kith_status kin_shard_agree(kith_ctx *ctx, const kith_shard_team *team, kith_status status)
{
    unsigned char *said = NULL;
    KIN_HOLD(hold, ctx);
    if (team == NULL) {
        return status;
    }
    /* Without memory for that there is no way to tell the others but this one, which ends them. */
    KIN_NEW_ZERO(&hold, said, (uint64_t)team->workers, "workers");
    said[team->worker] = (unsigned char)-status;
    KIN_TRY(combine(ctx, team, said, (uint64_t)team->workers));
    for (int32_t i = 0; i < team->workers; i++) {
        if (said[i] != KITH_OK) {
            return fail_together(ctx, team, i, (kith_status) - (int)said[i]);
        }
    }
    return KITH_OK;
}

/* ---- One job -------------------------------------------------------------------------------- */

static kith_status judge(kith_ctx *ctx, const kin_journal *ours, const char *told, uint64_t bytes)
{
    char theirs[KIN_JOURNAL_EXCERPT] = "";
    char mine[KIN_JOURNAL_EXCERPT] = "";
    return kin_journal_judge(ours, told, bytes, theirs, mine) == KIN_JOURNAL_SAME
               ? KITH_OK
               : kin_fail(ctx, KITH_E_ARGUMENT,
                          "worker 0 has another job, it says '%s', this one '%s' (give all workers "
                          "the same program, points, parameters and kind of device)",
                          theirs, mine);
}

/* As journals are compared, which name the first line that differs. */
kith_status kin_shard_compare(kith_ctx *ctx, const kith_shard_team *team, const char *lines)
{
    kin_journal ours = {.file = -1};
    char *told = NULL;
    KIN_HOLD(hold, ctx);
    kin_journal_hold(&hold, &ours);
    KIN_TRY(kin_shard_agree(ctx, team, kin_journal_init(ctx, "", lines, &ours)));
    uint64_t bytes = ours.head_bytes;
    KIN_TRY(kin_shard_tell(ctx, team, &bytes, sizeof bytes));
    KIN_TRY(kin_shard_agree(ctx, team, kin_hold_alloc(&hold, &told, bytes, 1, "worker 0's job")));
    if (kin_shard_leads(team)) {
        memcpy(told, ours.head, (size_t)bytes);
    }
    KIN_TRY(kin_shard_tell(ctx, team, told, bytes));
    return kin_shard_agree(ctx, team, judge(ctx, &ours, told, bytes));
}

/* ---- One folder ----------------------------------------------------------------------------- */

static const char sign_name[] = "shards.team";

/* A number that nobody has written there before. */
static kith_status write_sign(const kin_shard_folder *folder, uint64_t *sign)
{
    uint64_t state = (uint64_t)kin_clock_ns() ^ ((uint64_t)getpid() << 32);
    *sign = kin_random_next(&state);
    (void)unlinkat(folder->file, sign_name, 0); /* who was killed has left his */
    const int file = openat(folder->file, sign_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const bool wrote = file >= 0 && kin_file_write(file, sign, sizeof *sign, 0) == 0;
    const bool closed = file >= 0 && close(file) == 0;
    KIN_PASS_IF(wrote && closed, folder->ctx, KITH_E_IO, kin_at_file_in(folder->path, sign_name),
                "cannot be written (check who may write there)");
}

static kith_status check_sign(const kin_shard_folder *folder, const uint64_t said[2])
{
    uint64_t sign = 0;
    uint64_t bytes = 0;
    const int file = openat(folder->file, sign_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const bool got = file >= 0 && kin_file_read_at(file, &sign, sizeof sign, 0, &bytes) == 0 &&
                     bytes == sizeof sign;
    if (file >= 0) {
        (void)close(file);
    }
    KIN_FAIL_IF(!got || sign != said[0], folder->ctx, KITH_E_IO, kin_at_file(folder->path),
                "is another folder than that of worker 0 (give one on a file system that all "
                "machines share)");
    KIN_PASS_IF(said[1] == folder->job, folder->ctx, KITH_E_ARGUMENT, kin_at_file(folder->path),
                "worker 0 has other points or other parameters (give all workers the same)");
}

/* Versions and meetings, as worker 0 knows them. */
static kith_status tell_standing(kin_shard_folder *folder, const kith_shard_team *team)
{
    const uint64_t shards = (uint64_t)folder->shape.shards;
    KIN_TRY(kin_shard_tell(folder->ctx, team, folder->versions, shards * sizeof(int64_t)));
    return kin_shard_tell(folder->ctx, team, folder->met, shards * shards);
}

kith_status kin_shard_join(kin_shard_folder *folder, const kith_shard_team *team,
                           kith_status status)
{
    uint64_t said[2] = {0, folder->job};
    if (status == KITH_OK && kin_shard_leads(team)) {
        status = write_sign(folder, &said[0]);
    }
    KIN_TRY(kin_shard_agree(folder->ctx, team, status));
    KIN_TRY(kin_shard_tell(folder->ctx, team, said, sizeof said));
    status = kin_shard_agree(folder->ctx, team,
                             kin_shard_leads(team) ? KITH_OK : check_sign(folder, said));
    if (kin_shard_leads(team)) {
        (void)unlinkat(folder->file, sign_name, 0);
    }
    KIN_TRY(status);
    return tell_standing(folder, team);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* One round: steps of which no two have a shard in common. */
typedef struct round {
    kin_shard_run *run;
    const kith_shard_team *team;
    kin_shard_step *steps; /* that are to be done, the same for all workers */
    kin_shard_step *mine;
    int32_t count;
    unsigned char *said; /* by shard: its step is done; then by shard: its file was damaged */
} round;

static kith_status make_round(kin_hold *hold, uint64_t shards, round *r)
{
    KIN_NEW(hold, r->steps, shards, "steps");
    KIN_NEW(hold, r->mine, shards, "steps");
    KIN_NEW(hold, r->said, 2 * shards, "steps");
    return KITH_OK;
}

/* Round 0: the builds. */
static void collect(round *r, int32_t number)
{
    const kin_shard_folder *folder = r->run->folder;
    const int32_t shards = folder->shape.shards;
    const int32_t most = number == 0 ? shards : kin_shard_tables(shards);
    r->count = 0;
    for (int32_t i = 0; i < most; i++) {
        kin_shard_step step = {i, i};
        if ((number == 0 || kin_shard_meeting(shards, number - 1, i, &step)) &&
            !kin_shard_is_done(folder, step)) {
            r->steps[r->count++] = step;
        }
    }
}

static bool is_mine(const round *r, int32_t step)
{
    return step % r->team->workers == r->team->worker;
}

static kith_status work(round *r)
{
    kin_shard_run *run = r->run;
    int32_t count = 0;
    for (int32_t i = 0; i < r->count; i++) {
        if (is_mine(r, i)) {
            r->mine[count++] = r->steps[i];
        }
    }
    run->listed = r->mine;
    run->listed_count = count;
    const kith_status status = kin_shard_run_steps(run);
    run->listed = NULL;
    KIN_TRY(status);
    /* Who had nothing to do hears of Ctrl-C, too. */
    return kin_progress(run->ctx, "steps", (double)kin_shard_count_done(run->folder),
                        (double)kin_shard_steps(run->folder->shape.shards));
}

static void forget(kin_shard_run *run, int32_t shard)
{
    const int32_t slot = kin_shard_slot_of(run, shard);
    if (slot >= 0) {
        run->slots[slot].shard = -1;
    }
}

/* What others have done to a shard, or found out about it. */
static void hear_of(round *r, int32_t shard, bool done, bool lost)
{
    kin_shard_folder *folder = r->run->folder;
    const int32_t shards = folder->shape.shards;
    if (done) {
        folder->versions[shard] += 1;
        forget(r->run, shard);
    }
    if (lost) {
        folder->versions[shard] = -1;
        folder->lost += 1;
        memset(folder->met + (int64_t)shard * shards, 0, (size_t)shards);
        forget(r->run, shard);
    }
}

static bool is_dirty(const kin_shard_run *run, int32_t shard)
{
    const int32_t slot = kin_shard_slot_of(run, shard);
    return slot >= 0 && run->slots[slot].dirty;
}

/* Also after a failure: what is on disk stands. */
static kith_status report(round *r, bool *lost)
{
    kin_shard_folder *folder = r->run->folder;
    const int32_t shards = folder->shape.shards;
    unsigned char *done = r->said;
    unsigned char *gone = r->said + shards;
    memset(r->said, 0, 2 * (size_t)shards);
    for (int32_t i = 0; i < r->count; i++) {
        const kin_shard_step step = r->steps[i];
        if (is_mine(r, i)) {
            done[step.a] = kin_shard_is_done(folder, step) && folder->versions[step.a] >= 0 &&
                           !is_dirty(r->run, step.a) && !is_dirty(r->run, step.b);
            gone[step.a] = !kin_shard_is_build(step) && folder->versions[step.a] < 0;
            gone[step.b] = !kin_shard_is_build(step) && folder->versions[step.b] < 0;
        }
    }
    KIN_TRY(combine(folder->ctx, r->team, r->said, 2 * (uint64_t)shards));
    for (int32_t i = 0; i < r->count; i++) {
        const kin_shard_step step = r->steps[i];
        *lost = *lost || gone[step.a] != 0 || gone[step.b] != 0;
        if (is_mine(r, i)) {
            continue;
        }
        hear_of(r, step.a, done[step.a] != 0, gone[step.a] != 0);
        if (!kin_shard_is_build(step)) {
            hear_of(r, step.b, done[step.a] != 0, gone[step.b] != 0);
        }
        if (done[step.a] != 0) {
            kin_shard_mark_done(folder, step);
        }
    }
    return KITH_OK;
}

/* *lost: a file was damaged, and rounds that are over have steps to be done again. */
static kith_status play(round *r, bool *lost)
{
    const kin_shard_shape *shape = &r->run->folder->shape;
    const int32_t rounds = shape->sizes != NULL ? 0 : kin_shard_rounds(shape->shards);
    *lost = false;
    for (int32_t i = 0; i <= rounds && !*lost; i++) {
        collect(r, i);
        if (r->count > 0) {
            const kith_status status = work(r);
            KIN_TRY(report(r, lost));
            KIN_TRY(kin_shard_agree(r->run->ctx, r->team, status));
        }
    }
    return KITH_OK;
}

kith_status kin_shard_run_rounds(kin_shard_run *run, const kith_shard_team *team)
{
    kith_ctx *ctx = run->ctx;
    const uint64_t shards = (uint64_t)run->folder->shape.shards;
    round r = {.run = run, .team = team};
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_shard_agree(ctx, team, make_round(&hold, shards, &r)));
    KIN_TRY(tell_standing(run->folder, team)); /* worker 0 may have found a damaged file */
    for (int32_t i = 0; i < run->slot_count; i++) {
        run->slots[i].shard = -1;
    }
    for (bool lost = true; lost;) {
        KIN_TRY(play(&r, &lost));
    }
    return KITH_OK;
}
