/* SPDX-License-Identifier: Apache-2.0
 * A file whose bytes have their places before they are written.
 *
 * The system takes what is written to one file from one thread at a time, which copies some 3 GB/s
 * where memory takes ten times that. Several threads can copy through a mapping. There a page that
 * cannot be had is a signal that ends the process, so that not they copy but the system does for
 * them: where a disk is full after all, or somebody has cut the file, its call fails, and all is
 * written once more, which tells why. This is done where space was reserved, on file systems that
 * are known to keep it. */
#define _GNU_SOURCE
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_atomic.h"
#include "host/host_file.h"
#include "host/host_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BYTES_A_TASK = 1 << 20, LEAST_WIDE = 2 << 20 };
enum { ON_TMPFS = 0x01021994, ON_EXT = 0xEF53, ON_XFS = 0x58465342 };

static bool keeps_places(int file)
{
    struct statfs info;
    if (fstatfs(file, &info) != 0) {
        return false;
    }
    return info.f_type == ON_TMPFS || info.f_type == ON_EXT || info.f_type == ON_XFS;
}

kith_status kin_writer_reserve(kin_writer *w, uint64_t bytes)
{
    int error = 0;
    do {
        error = fallocate(w->file, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error != ENOSPC && error != EDQUOT && error != EFBIG) {
        const bool reserved = error == 0 && keeps_places(w->file);
        error = kin_file_resize(w->file, bytes);
        w->reserved = reserved && error == 0;
    }
    KIN_PASS_IF(error == 0, w->ctx, KITH_E_IO, kin_at_file(w->temporary),
                "%" PRIu64 " bytes cannot be had: %s (free some space there or write elsewhere)",
                bytes, strerror(error));
}

typedef struct copying {
    unsigned char *to;
    const unsigned char *from;
    uint64_t bytes;
    atomic_bool failed;
} copying;

static kith_status copy(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    copying *c = arg;
    const uint64_t first = (uint64_t)task * BYTES_A_TASK;
    const uint64_t bytes = c->bytes - first < BYTES_A_TASK ? c->bytes - first : BYTES_A_TASK;
    const struct iovec to = {c->to + first, (size_t)bytes};
    const struct iovec from = {(void *)(uintptr_t)(c->from + first), (size_t)bytes};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)bytes) {
        atomic_store(&c->failed, true);
    }
    return KITH_OK;
}

kith_status kin_writer_patch_wide(kin_writer *w, uint64_t offset, const void *data, uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t start = offset / page * page;
    const size_t mapped = (size_t)(offset - start + bytes);
    if (!w->reserved || w->ctx->threads < 2 || bytes < LEAST_WIDE) {
        return kin_writer_patch(w, offset, data, bytes);
    }
    unsigned char *map =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, w->file, (off_t)start);
    if (map == MAP_FAILED) {
        return kin_writer_patch(w, offset, data, bytes);
    }
    copying c = {map + (offset - start), data, bytes, false};
    const int64_t tasks = kin_ceil_div((int64_t)bytes, BYTES_A_TASK);
    const kith_status status = kin_parallel(w->ctx, NULL, tasks, copy, &c);
    (void)munmap(map, mapped);
    return status == KITH_OK && atomic_load(&c.failed) ? kin_writer_patch(w, offset, data, bytes)
                                                       : status;
}
