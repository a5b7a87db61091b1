/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shard/shard_run.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <sys/mman.h>
#include <unistd.h>

int32_t kin_shard_slot_of(const kin_shard_run *run, int32_t shard)
{
    for (int32_t i = 0; i < run->slot_count; i++) {
        if (run->slots[i].shard == shard) {
            return i;
        }
    }
    return -1;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* The bytes of some rows, on whole pages that they share with no others. */
static bool pages_of(const kith_matrix *points, int64_t first, int64_t rows, unsigned char **start,
                     size_t *bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const int64_t end = first + rows;
    const uintptr_t base = (uintptr_t)points->data;
    const uintptr_t from = (base + (uintptr_t)(first * points->stride_bytes) + page - 1) / page;
    const uintptr_t to = (base + (uintptr_t)(end * points->stride_bytes)) / page;
    *start = (unsigned char *)(from * page);
    *bytes = to > from ? (to - from) * page : 0;
    return to > from;
}

static void advise(const kith_matrix *points, int64_t first, int64_t rows, int advice)
{
    unsigned char *start = NULL;
    size_t bytes = 0;
    if (pages_of(points, first, rows, &start, &bytes)) {
        (void)madvise(start, bytes, advice);
    }
}

void kin_shard_fetch_rows(const kith_matrix *points, int64_t first, int64_t rows)
{
    advise(points, first, rows, MADV_WILLNEED);
}

void kin_shard_return_rows(const kith_matrix *points, int64_t first, int64_t rows)
{
    advise(points, first, rows, MADV_DONTNEED);
}

static void touch_rows(const kin_shard_run *run, int32_t shard)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *start = NULL;
    size_t bytes = 0;
    const kin_shard_shape *shape = &run->folder->shape;
    const int64_t first = kin_shard_first(shape->rows, shape->shards, shard);
    const int64_t rows = kin_shard_rows(shape->rows, shape->shards, shard);
    if (run->mapped && pages_of(run->points, first, rows, &start, &bytes)) {
        (void)madvise(start, bytes, MADV_WILLNEED);
        for (size_t i = 0; i < bytes; i += page) {
            (void)*(volatile const unsigned char *)(start + i);
        }
    }
}

/* ---- The thread ----------------------------------------------------------------------------- */

/* Lists are written, then the next ones are read. */
typedef struct disk_job {
    kin_shard_run *run;
    int32_t wanted[2]; /* shards to be read; -1: none */
    int32_t slots[2];  /* and where to */
    kin_beside beside;
} disk_job;

/* Both shards of a pair before the old version of either goes. */
static kith_status write_dirty(kin_shard_run *run)
{
    for (int32_t i = 0; i < run->slot_count; i++) {
        const kin_shard_slot *slot = &run->slots[i];
        if (slot->dirty) {
            KIN_TRY(kin_shard_store(run->disk, run->folder, slot->shard, slot->last, &slot->lists,
                                    NULL));
        }
    }
    for (int32_t i = 0; i < run->slot_count; i++) {
        kin_shard_slot *slot = &run->slots[i];
        if (slot->dirty) {
            kin_shard_settle(run->folder, slot->shard);
            slot->dirty = false;
        }
    }
    return KITH_OK;
}

static void read_wanted(const disk_job *disk)
{
    kin_shard_run *run = disk->run;
    for (int i = 0; i < 2; i++) {
        const int32_t shard = disk->wanted[i];
        if (shard < 0) {
            continue;
        }
        kin_shard_slot *slot = &run->slots[disk->slots[i]];
        slot->shard = -1;
        if (kin_shard_load(run->disk, run->folder, shard, &slot->lists) == KITH_OK) {
            slot->shard = shard;
            touch_rows(run, shard);
        }
    }
}

static kith_status work_at_disk(void *arg)
{
    const disk_job *disk = arg;
    KIN_TRY(write_dirty(disk->run));
    read_wanted(disk);
    return KITH_OK;
}

/* Writes what is dirty, then reads the wanted shards, which have free slots, and touches their
 * rows. */
static void start_disk(kin_shard_run *run, disk_job *disk)
{
    disk->run = run;
    kin_beside_start(&disk->beside, run->disk, work_at_disk, disk);
}

/* Waits. Nothing is dirty afterwards, or the status says why. What could not be read is in no slot:
 * who needs it reads it again, and hears why. */
static kith_status wait_for_disk(disk_job *disk)
{
    kin_shard_run *run = disk->run;
    const int64_t start = kin_clock_ns();
    const kith_status status = kin_beside_wait(&disk->beside, run->ctx);
    run->seconds_wait += kin_clock_since(start);
    return status;
}

/* ---- Making --------------------------------------------------------------------------------- */

static void name_slots(kin_layout *layout, void *arg)
{
    kin_shard_run *run = arg;
    const kin_shard_shape *shape = &run->folder->shape;
    const int64_t rows = kin_ceil_div(shape->rows, shape->shards);
    const uint64_t count = kin_size_mul((uint64_t)rows, (uint64_t)shape->k);
    for (int32_t i = 0; i < run->slot_count; i++) {
        kin_shard_lists *lists = &run->slots[i].lists;
        lists->ids = kin_layout_array(layout, count, sizeof *lists->ids);
        lists->keys = kin_layout_array(layout, count, sizeof *lists->keys);
        lists->own = shape->own ? kin_layout_array(layout, count, sizeof *lists->own) : NULL;
    }
}

kith_status kin_shard_run_make(kith_ctx *ctx, kith_ctx *disk, kin_shard_folder *folder,
                               kin_shard_run *run)
{
    const int32_t shards = folder->shape.shards;
    memset(run, 0, sizeof *run);
    run->ctx = ctx;
    run->disk = disk;
    run->folder = folder;
    run->slot_count = shards < KIN_SHARD_SLOTS ? shards : KIN_SHARD_SLOTS;
    if (folder->shape.sizes != NULL) {
        run->slot_count = 0; /* shards that meet nobody */
    }
    run->steps_stood = kin_shard_count_done(folder);
    for (int32_t i = 0; i < KIN_SHARD_SLOTS; i++) {
        run->slots[i].shard = -1;
    }
    return kin_layout_make(ctx, name_slots, run, "lists of shards", &run->block);
}

void kin_shard_run_free(kin_shard_run *run)
{
    kin_free(run->ctx, run->block);
    memset(run, 0, sizeof *run);
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static kin_shard_part part_of(const kin_shard_run *run, int32_t shard)
{
    const kin_shard_shape *shape = &run->folder->shape;
    return (kin_shard_part){.shard = shard,
                            .first = kin_shard_first(shape->rows, shape->shards, shard),
                            .rows = kin_shard_rows(shape->rows, shape->shards, shard),
                            .lists = run->slots[kin_shard_slot_of(run, shard)].lists};
}

static bool is_of(int32_t shard, kin_shard_step step)
{
    return shard == step.a || shard == step.b;
}

/* A slot for a shard of the step: one whose lists the step does not need and `but` does not name.
 * What is not on disk yet is taken last. */
static int32_t free_slot(const kin_shard_run *run, kin_shard_step step, int32_t but)
{
    int32_t chosen = -1;
    for (int32_t i = 0; i < run->slot_count; i++) {
        const kin_shard_slot *slot = &run->slots[i];
        if (i == but || (slot->shard >= 0 && is_of(slot->shard, step))) {
            continue;
        }
        if (chosen < 0 || (run->slots[chosen].dirty && !slot->dirty)) {
            chosen = i;
        }
    }
    return chosen;
}

/* Everything on disk, in the caller's time. */
static kith_status flush(kin_shard_run *run)
{
    disk_job disk = {.wanted = {-1, -1}};
    start_disk(run, &disk);
    return wait_for_disk(&disk);
}

/* Reads a shard now, where it is not there. *lost: its file is damaged. */
static kith_status need(kin_shard_run *run, kin_shard_step step, int32_t shard, bool *lost)
{
    if (kin_shard_slot_of(run, shard) >= 0) {
        return KITH_OK;
    }
    const int32_t at = free_slot(run, step, -1);
    if (run->slots[at].dirty) {
        KIN_TRY(flush(run));
    }
    kin_shard_slot *slot = &run->slots[at];
    slot->shard = -1;
    const int64_t start = kin_clock_ns();
    kin_forgive(run->disk);
    const kith_status status = kin_shard_load(run->disk, run->folder, shard, &slot->lists);
    run->seconds_wait += kin_clock_since(start);
    if (status == KITH_E_FORMAT) {
        run->cursor = 0;
        *lost = true;
        return kin_shard_lose(run->folder, shard, run->disk->failure.detail);
    }
    if (status != KITH_OK) {
        return kin_fail_like(run->ctx, status, run->disk);
    }
    slot->shard = shard;
    return KITH_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* Of a list, a pair with a damaged shard waits until the team has heard of that. */
static bool may_run(const kin_shard_run *run, kin_shard_step step)
{
    const int64_t *versions = run->folder->versions;
    return !kin_shard_is_done(run->folder, step) &&
           (run->listed == NULL || kin_shard_is_build(step) ||
            (versions[step.a] >= 0 && versions[step.b] >= 0));
}

/* The first step from *number on that is to be done; false: there is none. */
static bool next_step(const kin_shard_run *run, int64_t *number, kin_shard_step *step)
{
    const int32_t shards = run->folder->shape.shards;
    const int64_t count = run->listed != NULL ? run->listed_count : kin_shard_steps(shards);
    for (; *number < count; *number += 1) {
        *step = run->listed != NULL ? run->listed[*number] : kin_shard_step_at(shards, *number);
        if (may_run(run, *step)) {
            return true;
        }
    }
    return false;
}

/* What the thread reads while `step` is computed: shards of the one after it, as far as they stand
 * and have slots. */
static void look_ahead(const kin_shard_run *run, int64_t number, kin_shard_step step,
                       disk_job *disk)
{
    kin_shard_step next;
    int32_t used = -1;
    int64_t later = number + 1;
    if (!next_step(run, &later, &next) || kin_shard_is_build(next)) {
        return;
    }
    const int32_t shards[2] = {next.a, next.b};
    for (int i = 0; i < 2; i++) {
        if (kin_shard_slot_of(run, shards[i]) >= 0 || run->folder->versions[shards[i]] < 0) {
            continue;
        }
        const kin_shard_step both[] = {step, next};
        int32_t at = -1;
        for (int32_t j = 0; j < run->slot_count && at < 0; j++) {
            const int32_t held = run->slots[j].shard;
            const bool kept = held >= 0 && (is_of(held, both[0]) || is_of(held, both[1]));
            at = j != used && !kept ? j : -1;
        }
        if (at >= 0) {
            disk->wanted[i] = shards[i];
            disk->slots[i] = at;
            used = at;
        }
    }
}

/* Rows that the step after this one does not need. */
static void return_rows(const kin_shard_run *run, int64_t number, kin_shard_step step)
{
    kin_shard_step next = {-1, -1};
    int64_t later = number + 1;
    (void)next_step(run, &later, &next);
    const int32_t shards[2] = {step.a, step.b};
    for (int i = 0; i < 2; i++) {
        if (run->mapped && !is_of(shards[i], next)) {
            const kin_shard_part part = part_of(run, shards[i]);
            kin_shard_return_rows(run->points, part.first, part.rows);
        }
    }
}

static void mark(kin_shard_run *run, kin_shard_step step)
{
    kin_shard_slot *a = &run->slots[kin_shard_slot_of(run, step.a)];
    kin_shard_slot *b = &run->slots[kin_shard_slot_of(run, step.b)];
    kin_shard_mark_done(run->folder, step);
    a->last = step.b;
    b->last = step.a;
    a->dirty = true;
    b->dirty = true;
}

static kith_status build(kin_shard_run *run, int64_t number, kin_shard_step step)
{
    disk_job disk = {.wanted = {-1, -1}};
    const int32_t at = free_slot(run, step, -1);
    if (run->slots[at].dirty) {
        KIN_TRY(flush(run));
    }
    run->slots[at].shard = step.a;
    look_ahead(run, number, step, &disk);
    const kin_shard_part part = part_of(run, step.a);
    start_disk(run, &disk);
    const int64_t start = kin_clock_ns();
    kith_status status = run->engine.build(run->engine.arg, &part);
    run->seconds_compute += kin_clock_since(start);
    KIN_KEEP(status, wait_for_disk(&disk));
    if (status != KITH_OK) {
        run->slots[at].shard = -1;
        return status;
    }
    mark(run, step);
    return KITH_OK;
}

static kith_status meet(kin_shard_run *run, int64_t number, kin_shard_step step)
{
    disk_job disk = {.wanted = {-1, -1}};
    bool lost = false;
    KIN_TRY(need(run, step, step.a, &lost));
    if (!lost) {
        KIN_TRY(need(run, step, step.b, &lost));
    }
    if (lost) {
        return KITH_OK;
    }
    look_ahead(run, number, step, &disk);
    const kin_shard_part a = part_of(run, step.a);
    const kin_shard_part b = part_of(run, step.b);
    start_disk(run, &disk);
    int64_t start = kin_clock_ns();
    kith_status status = run->engine.meet(run->engine.arg, &a, &b);
    run->seconds_compute += kin_clock_since(start);
    KIN_KEEP(status, wait_for_disk(&disk));
    KIN_TRY(status);
    start = kin_clock_ns();
    KIN_TRY(run->engine.merge(run->engine.arg, &a, &b));
    run->seconds_compute += kin_clock_since(start);
    mark(run, step);
    return KITH_OK;
}

/* Pairs from a step on that have nothing for each other are done, up to the first that is not, so
 * that nothing is read for them. That they are, their files say when they are written next: who
 * goes on without asks again. */
static kith_status pass_over(kin_shard_run *run, int64_t number)
{
    kin_shard_step step;
    bool apart = run->engine.apart != NULL;
    while (apart && next_step(run, &number, &step)) {
        apart = false;
        if (!kin_shard_is_build(step)) {
            KIN_TRY(run->engine.apart(run->engine.arg, step.a, step.b, &apart));
        }
        if (apart) {
            kin_shard_mark_done(run->folder, step);
        }
    }
    return KITH_OK;
}

kith_status kin_shard_run_steps(kin_shard_run *run)
{
    kin_shard_step step;
    if (run->engine.build_all != NULL) {
        return run->engine.build_all(run->engine.arg, run);
    }
    run->cursor = 0;
    KIN_TRY(pass_over(run, 0));
    while (next_step(run, &run->cursor, &step)) {
        const int64_t number = run->cursor;
        KIN_TRY(pass_over(run, number + 1));
        KIN_TRY(kin_shard_is_build(step) ? build(run, number, step) : meet(run, number, step));
        return_rows(run, number, step);
    }
    return flush(run);
}

/* ---- At the end ----------------------------------------------------------------------------- */

kith_status kin_shard_each(kin_shard_run *run, kin_shard_each_fn fn, void *arg, bool *lost)
{
    const int32_t shards = run->folder->shape.shards;
    *lost = false;
    for (int32_t i = 0; i < shards; i++) {
        const kin_shard_step step = {i, i + 1};
        KIN_TRY(need(run, step, i, lost));
        if (*lost) {
            return KITH_OK;
        }
        disk_job disk = {.wanted = {-1, -1}};
        if (i + 1 < shards && kin_shard_slot_of(run, i + 1) < 0) {
            disk.wanted[0] = i + 1;
            disk.slots[0] = free_slot(run, step, -1);
        }
        const kin_shard_part part = part_of(run, i);
        start_disk(run, &disk);
        kith_status status = fn(arg, &part);
        KIN_KEEP(status, wait_for_disk(&disk));
        KIN_TRY(status);
    }
    return KITH_OK;
}
