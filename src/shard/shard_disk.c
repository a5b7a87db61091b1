/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shard/shard_run.h"

#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <sys/mman.h>
#include <unistd.h>

/* Below, a page that is filled in part would count beside what was planned. */
enum { LARGE_PAGE = 2 << 20, LEAST_LARGE = 256 << 20 };

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

void kin_shard_return_rows(const kith_matrix *points, int64_t first, int64_t rows)
{
    unsigned char *start = NULL;
    size_t bytes = 0;
    if (pages_of(points, first, rows, &start, &bytes)) {
        (void)madvise(start, bytes, MADV_DONTNEED);
    }
}

void kin_shard_use_large_pages(void *data, uint64_t bytes)
{
    const uintptr_t from = ((uintptr_t)data + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    const uintptr_t to = ((uintptr_t)data + (uintptr_t)bytes) / LARGE_PAGE * LARGE_PAGE;
    if (bytes >= LEAST_LARGE && to > from) {
        (void)madvise((unsigned char *)data + (from - (uintptr_t)data), to - from, MADV_HUGEPAGE);
    }
}

/* ---- The thread ----------------------------------------------------------------------------- */

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

static void read_wanted(const kin_shard_disk *disk)
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

static void *body(void *arg)
{
    kin_shard_disk *disk = arg;
    kin_forgive(disk->run->disk);
    disk->status = write_dirty(disk->run);
    if (disk->status == KITH_OK) {
        read_wanted(disk);
    }
    return NULL;
}

void kin_shard_disk_start(kin_shard_run *run, kin_shard_disk *disk)
{
    disk->run = run;
    disk->status = KITH_OK;
    disk->started = kin_thread_start(&disk->thread, body, disk) == 0;
    if (!disk->started) {
        (void)body(disk);
    }
}

kith_status kin_shard_disk_wait(kin_shard_disk *disk)
{
    kin_shard_run *run = disk->run;
    const int64_t start = kin_clock_ns();
    if (disk->started) {
        (void)pthread_join(disk->thread, NULL);
        disk->started = false;
    }
    run->seconds_wait += kin_clock_since(start);
    return disk->status == KITH_OK ? KITH_OK : kin_fail_like(run->ctx, disk->status, run->disk);
}
