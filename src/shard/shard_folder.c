/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shard/shard_folder.h"

#include "host/host_threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODE = 0777, MOST_LOSSES = 2 };
static const char shards_line[] = "\nshards ";
static const char groups_line[] = "\nown 0\n";

/* ---- Opening -------------------------------------------------------------------------------- */

static kith_status fail_io(const kin_shard_folder *folder, const char *what, const char *advice)
{
    return kin_fail_at(folder->ctx, KITH_E_IO, kin_at_file(folder->path), "%s: %s (%s)", what,
                       strerror(errno), advice);
}

static kith_status open_path(kin_shard_folder *folder)
{
    folder->file = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder->file >= 0 ? KITH_OK
                             : fail_io(folder, "cannot be opened as a folder", "give another one");
}

static kith_status lock(kin_shard_folder *folder)
{
    folder->made = mkdir(folder->path, MODE) == 0;
    if (!folder->made && errno != EEXIST) {
        return fail_io(folder, "the folder cannot be made", "check the path");
    }
    KIN_TRY(open_path(folder));
    /* File systems without locks do without. */
    KIN_FAIL_IF(flock(folder->file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, folder->ctx,
                KITH_E_IO, kin_at_file(folder->path),
                "another process is at work in it (wait for that, or stop it)");
    return KITH_OK;
}

/* The number in the journal's head, before it is known whose journal it is. */
static int32_t read_shards(const kin_map *map)
{
    const size_t length = sizeof shards_line - 1;
    if (map->data == NULL) {
        return 0;
    }
    const char *at = memmem(map->data, map->bytes, shards_line, length);
    const char *end = (const char *)map->data + map->bytes;
    int32_t shards = 0;
    for (at = at == NULL ? end : at + length; at < end && *at >= '0' && *at <= '9'; at++) {
        shards = shards > KIN_SHARD_MOST ? shards : shards * 10 + (*at - '0');
    }
    return shards <= KIN_SHARD_MOST ? shards : 0;
}

/* "FOLDER/shards": what the journal stands beside. */
static kith_status name_target(const kin_shard_folder *folder, kin_hold *hold, char **target)
{
    KIN_TRY(kin_alloc_text(folder->ctx, target, "a file's path", "%s/shards", folder->path));
    kin_hold_block(hold, *target);
    return KITH_OK;
}

static kith_status find_job(kin_shard_folder *folder)
{
    char *target = NULL;
    kin_map map = {.data = NULL};
    KIN_HOLD(hold, folder->ctx);
    KIN_TRY(name_target(folder, &hold, &target));
    kith_status status = kin_journal_init(folder->ctx, target, "", &folder->journal);
    if (status == KITH_OK && access(folder->journal.path, F_OK) == 0) {
        status = kin_map_open(folder->ctx, folder->journal.path, false, &map);
        if (status == KITH_E_FORMAT) { /* whoever goes on is told; who begins anew removes it */
            kin_forgive(folder->ctx);
            status = KITH_OK;
        }
        folder->found = read_shards(&map);
        folder->found_groups = map.data != NULL && memmem(map.data, map.bytes, groups_line,
                                                          sizeof groups_line - 1) != NULL;
    }
    kin_map_close(&map);
    kin_journal_free(folder->ctx, &folder->journal);
    return status;
}

kith_status kin_shard_folder_open(kith_ctx *ctx, const char *path, bool enters,
                                  kin_shard_folder *folder)
{
    memset(folder, 0, sizeof *folder);
    folder->ctx = ctx;
    folder->file = -1;
    folder->journal.file = -1;
    KIN_TRY(kin_alloc_text(ctx, &folder->path, "a file's path", "%s", path));
    folder->entered = enters;
    KIN_TRY(enters ? open_path(folder) : lock(folder));
    return find_job(folder);
}

/* ---- What is there -------------------------------------------------------------------------- */

typedef kith_status (*file_fn)(kin_shard_folder *folder, kin_shard_name name, void *arg);

/* Calls fn for every file that has the name of a shard's. */
static kith_status each_file(kin_shard_folder *folder, file_fn fn, void *arg)
{
    DIR *entries = opendir(folder->path);
    if (entries == NULL) {
        return fail_io(folder, "cannot be read", "check who may read it");
    }
    kith_status status = KITH_OK;
    const struct dirent *entry = NULL;
    while (status == KITH_OK && (entry = readdir(entries)) != NULL) {
        kin_shard_name name;
        if (kin_shard_name_parse(entry->d_name, &name)) {
            status = fn(folder, name, arg);
        }
    }
    (void)closedir(entries);
    return status;
}

static void remove_file(kin_shard_folder *folder, kin_shard_name name)
{
    char text[KIN_SHARD_NAME_BYTES];
    kin_shard_name_print(name, text);
    (void)unlinkat(folder->file, text, 0);
}

static kith_status remove_each(kin_shard_folder *folder, kin_shard_name name, void *arg)
{
    (void)arg;
    remove_file(folder, name);
    return KITH_OK;
}

static void tell_lost(kin_shard_folder *folder, int32_t shard, const char *why)
{
    kin_log(folder->ctx, 1, "%s", why);
    kin_log(folder->ctx, 1, "shard %d: its lists are made again", (int)shard);
    folder->lost += 1;
}

/* Versions of one shard that are whole: a pair that was on its way to the disk leaves two. */
typedef struct standing {
    kin_shard_facts newest;
    int64_t before; /* -1: there is no older version */
} standing;

static kith_status take_file(kin_shard_folder *folder, kin_shard_name name, void *arg)
{
    standing *all = arg;
    kin_shard_facts facts;
    const kith_status status = kin_shard_file_facts(folder->ctx, folder, name, &facts, NULL);
    if (status == KITH_E_FORMAT) {
        tell_lost(folder, name.shard, folder->ctx->failure.detail);
        kin_forgive(folder->ctx);
        remove_file(folder, name);
        return KITH_OK;
    }
    KIN_TRY(status);
    standing *s = &all[name.shard];
    if (s->newest.version < facts.version) {
        s->before = s->newest.version;
        s->newest = facts;
    } else if (s->before < facts.version) {
        s->before = facts.version;
    }
    return KITH_OK;
}

/* Which version counts: see the head of shard_folder.h. */
static kith_status choose(kin_shard_folder *folder, const standing *all, int32_t shard)
{
    const standing *s = &all[shard];
    const int32_t shards = folder->shape.shards;
    unsigned char *met = folder->met + (int64_t)shard * shards;
    kin_shard_name name = {shard, s->newest.version};
    unsigned char *theirs = NULL;
    kin_shard_facts facts;
    KIN_HOLD(hold, folder->ctx);
    if (name.version < 0) {
        return KITH_OK;
    }
    const int32_t last = s->newest.last;
    if (last != shard && s->before >= 0) {
        const kin_shard_name other = {last, all[last].newest.version};
        KIN_NEW_ZERO(&hold, theirs, (uint64_t)shards, "shards");
        if (other.version >= 0) {
            KIN_TRY(kin_shard_file_facts(folder->ctx, folder, other, &facts, theirs));
        }
        if (theirs[shard] == 0) {
            name.version = s->before;
        }
    }
    folder->versions[shard] = name.version;
    return kin_shard_file_facts(folder->ctx, folder, name, &facts, met);
}

static kith_status remove_others(kin_shard_folder *folder, kin_shard_name name, void *arg)
{
    (void)arg;
    /* What could not be removed before, or has come since, may be no shard of this job. */
    if (name.shard >= folder->shape.shards || folder->versions[name.shard] != name.version) {
        remove_file(folder, name);
    }
    return KITH_OK;
}

static kith_status scan(kin_shard_folder *folder)
{
    const int32_t shards = folder->shape.shards;
    standing *all = NULL;
    KIN_HOLD(hold, folder->ctx);
    KIN_NEW(&hold, all, KIN_SHARD_MOST, "shards");
    for (int32_t i = 0; i < KIN_SHARD_MOST; i++) {
        all[i] = (standing){.newest = {.version = -1}, .before = -1};
    }
    KIN_TRY(each_file(folder, take_file, all));
    for (int32_t i = 0; i < shards; i++) {
        KIN_TRY(choose(folder, all, i));
    }
    return each_file(folder, remove_others, NULL);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static kith_status init_journal(kin_shard_folder *folder, const kin_shard_shape *shape)
{
    char *text = NULL;
    char *target = NULL;
    KIN_HOLD(hold, folder->ctx);
    KIN_TRY(name_target(folder, &hold, &target));
    KIN_TRY(kin_alloc_text(folder->ctx, &text, "a journal",
                           "shards %d\nrows %" PRId64 "\nk %" PRId64 "\nmetric %s\nown %d\n%s",
                           (int)shape->shards, shape->rows, shape->k,
                           kith_metric_name(shape->metric), (int)shape->own, shape->job));
    kin_hold_block(&hold, text);
    KIN_TRY(kin_journal_init(folder->ctx, target, text, &folder->journal));
    folder->job = kin_checksum_of(folder->journal.head, folder->journal.head_bytes);
    return KITH_OK;
}

/* Whether the job that is there is this one. */
static kith_status judge(kin_shard_folder *folder, bool *same)
{
    static const char *const remedy = "to begin anew add --restart, or give another folder";
    char theirs[KIN_JOURNAL_EXCERPT];
    char ours[KIN_JOURNAL_EXCERPT];
    kin_map map = {.data = NULL};
    *same = false;
    if (access(folder->journal.path, F_OK) != 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_map_open(folder->ctx, folder->journal.path, false, &map));
    const kin_journal_kind kind =
        kin_journal_judge(&folder->journal, (const char *)map.data, map.bytes, theirs, ours);
    kin_map_close(&map);
    *same = kind == KIN_JOURNAL_SAME;
    KIN_DAMAGED_IF(kind == KIN_JOURNAL_FOREIGN, folder->ctx, folder->journal.path,
                   "is no journal of kith, or damaged (%s)", remedy);
    KIN_PASS_IF(*same, folder->ctx, KITH_E_ARGUMENT, kin_at_file(folder->path),
                "the folder is of another job, it says '%s', this one '%s' (%s)", theirs, ours,
                remedy);
}

kith_status kin_shard_folder_begin(kin_shard_folder *folder, const kin_shard_shape *shape,
                                   bool restart)
{
    const uint64_t shards = (uint64_t)shape->shards;
    bool same = false;
    folder->shape = *shape;
    KIN_TRY(init_journal(folder, shape));
    folder->shape.job = NULL;
    KIN_TRY(kin_alloc_zero(folder->ctx, &folder->met, shards * shards, 1, "pairs of shards"));
    KIN_TRY(kin_alloc(folder->ctx, &folder->versions, shards, sizeof *folder->versions, "shards"));
    KIN_TRY(kin_alloc_zero(folder->ctx, &folder->losses, shards, 1, "shards"));
    for (uint64_t i = 0; i < shards; i++) {
        folder->versions[i] = -1;
    }
    if (!restart) {
        KIN_TRY(judge(folder, &same));
    }
    if (folder->entered) {
        KIN_PASS_IF(same, folder->ctx, KITH_E_IO, kin_at_file(folder->path),
                    "has no job, but worker 0 has begun one (give a folder on a file system that "
                    "all machines share)");
    }
    if (same) {
        return scan(folder);
    }
    /* What lies there without a journal is nobody's any more. The journal goes first and comes
     * last, so that no file is ever taken for one of another job's. */
    kin_journal_remove(&folder->journal);
    KIN_TRY(each_file(folder, remove_each, NULL));
    return kin_journal_create(folder->ctx, &folder->journal);
}

static kith_status remove_newest(void *arg, int64_t shard, int32_t thread)
{
    (void)thread;
    kin_shard_folder *folder = arg;
    remove_file(folder, (kin_shard_name){(int32_t)shard, folder->versions[shard]});
    return KITH_OK;
}

void kin_shard_folder_empty(kin_shard_folder *folder)
{
    kin_journal_remove(&folder->journal);
    (void)kin_parallel(folder->ctx, NULL, folder->shape.shards, remove_newest, folder);
    (void)each_file(folder, remove_each, NULL);
}

void kin_shard_folder_close(kin_shard_folder *folder)
{
    bool nothing = folder->versions != NULL;
    for (int32_t i = 0; nothing && i < folder->shape.shards; i++) {
        nothing = folder->versions[i] < 0;
    }
    if (nothing && folder->journal.file >= 0) {
        kin_journal_remove(&folder->journal);
    }
    if (folder->file >= 0) {
        (void)close(folder->file);
    }
    if (folder->made) {
        (void)rmdir(folder->path); /* where it is empty */
    }
    kin_journal_free(folder->ctx, &folder->journal);
    kin_free(folder->ctx, folder->versions);
    kin_free(folder->ctx, folder->losses);
    kin_free(folder->ctx, folder->met);
    kin_free(folder->ctx, folder->path);
    memset(folder, 0, sizeof *folder);
    folder->file = -1;
    folder->journal.file = -1;
}

/* ---- Who has met whom ----------------------------------------------------------------------- */

bool kin_shard_is_done(const kin_shard_folder *folder, kin_shard_step step)
{
    return kin_shard_has_met(folder, step.a, step.b) && kin_shard_has_met(folder, step.b, step.a);
}

int64_t kin_shard_count_done(const kin_shard_folder *folder)
{
    int64_t count = 0;
    for (int32_t a = 0; a < folder->shape.shards; a++) {
        for (int32_t b = a; b < folder->shape.shards; b++) {
            count += kin_shard_is_done(folder, (kin_shard_step){a, b});
        }
    }
    return count;
}

void kin_shard_mark_done(kin_shard_folder *folder, kin_shard_step step)
{
    const int64_t shards = folder->shape.shards;
    folder->met[step.a * shards + step.b] = 1;
    folder->met[step.b * shards + step.a] = 1;
}

kith_status kin_shard_lose(kin_shard_folder *folder, int32_t shard, const char *why)
{
    const kin_shard_name name = {shard, folder->versions[shard]};
    char text[KIN_SHARD_NAME_BYTES];
    kin_shard_name_print(name, text);
    tell_lost(folder, shard, why);
    if (name.version >= 0) {
        remove_file(folder, name);
    }
    folder->versions[shard] = -1;
    memset(folder->met + (int64_t)shard * folder->shape.shards, 0, (size_t)folder->shape.shards);
    folder->losses[shard] += 1;
    KIN_PASS_IF(folder->losses[shard] < MOST_LOSSES, folder->ctx, KITH_E_IO,
                kin_at_file_in(folder->path, text),
                "was damaged again after it had been written anew (check the disk and the memory "
                "of this machine, or give a folder on another disk)");
}

void kin_shard_settle(kin_shard_folder *folder, int32_t shard)
{
    if (folder->versions[shard] > 0) {
        remove_file(folder, (kin_shard_name){shard, folder->versions[shard] - 1});
    }
}
