/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "host/host_file.h"

#include "base/base_try.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* Linux moves no more than 2 GiB in one call. */
static const uint64_t most = UINT64_C(1) << 30;

static size_t piece_of(uint64_t bytes)
{
    return (size_t)(bytes < most ? bytes : most);
}

int kin_file_write(int file, const void *data, uint64_t bytes, int64_t at)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        const size_t piece = piece_of(bytes);
        const ssize_t done =
            at < 0 ? write(file, from, piece) : pwrite(file, from, piece, (off_t)at);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return done < 0 ? errno : ENOSPC;
        }
        from += done;
        bytes -= (uint64_t)done;
        at += at < 0 ? 0 : done;
    }
    return 0;
}

int kin_file_read_at(int file, void *data, uint64_t bytes, uint64_t offset, uint64_t *got)
{
    unsigned char *to = data;
    *got = 0;
    while (*got < bytes) {
        const ssize_t done = pread(file, to + *got, piece_of(bytes - *got), (off_t)(offset + *got));
        if (done == 0) {
            break;
        }
        if (done > 0) {
            *got += (uint64_t)done;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int kin_file_read_some(int file, void *data, uint64_t bytes, uint64_t *got)
{
    ssize_t done = -1;
    do {
        done = read(file, data, piece_of(bytes));
    } while (done < 0 && errno == EINTR);
    *got = done > 0 ? (uint64_t)done : 0;
    return done >= 0 ? 0 : errno;
}

int kin_file_sync(int file, bool data_only)
{
    int result = 0;
    do {
        result = data_only ? fdatasync(file) : fsync(file);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int kin_file_resize(int file, uint64_t bytes)
{
    int result = 0;
    do {
        result = ftruncate(file, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

/* ---- Modules --------------------------------------------------------------------------------- */

/* Installed modules have a folder of their own, with the library's binary interface in its name:
 * they are no libraries to link with, and two libkith of different interfaces can be installed
 * together. */
bool kin_host_beside(const char *name, char *path, size_t size)
{
    static const char *const folders[] = {"", KIN_MODULE_FOLDER "/"};
    static const char here;
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const int stem = slash != NULL ? (int)(slash - info.dli_fname) + 1 : 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && slash != NULL; i++) {
        const int length = snprintf(path, size, "%.*s%s%s", stem, info.dli_fname, folders[i], name);
        if (length > 0 && (size_t)length < size && access(path, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- Files as memory ------------------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) {
        return "a folder";
    }
    if (S_ISFIFO(mode)) {
        return "a pipe";
    }
    return S_ISSOCK(mode) ? "a socket" : "a device";
}

static const char *open_advice(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return "check the path";
    case EACCES:
    case EPERM:
        return "you need the right to read it";
    default:
        return "check the file and its folder";
    }
}

static kith_status measure(kith_ctx *ctx, const char *path, int file, uint64_t *bytes)
{
    struct stat info;
    KIN_FAIL_IF(fstat(file, &info) != 0, ctx, KITH_E_IO, kin_at_file(path),
                "cannot be examined: %s", strerror(errno));
    KIN_FAIL_IF(!S_ISREG(info.st_mode), ctx, KITH_E_IO, kin_at_file(path),
                "is %s, not a file (kith maps its input into memory; give a file)",
                kind_of(info.st_mode));
    *bytes = (uint64_t)info.st_size;
    return KITH_OK;
}

static kith_status open_input(kith_ctx *ctx, const char *path, bool follows, int *file)
{
    /* Without O_NONBLOCK a pipe that nobody writes to would hold us here for ever. */
    enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };
    do {
        *file = open(path, follows ? FLAGS : FLAGS | O_NOFOLLOW);
    } while (*file < 0 && errno == EINTR);
    KIN_DAMAGED_IF(*file < 0 && errno == ELOOP && !follows, ctx, path,
                   "is a symbolic link, which kith makes none of that name (remove it)");
    KIN_PASS_IF(*file >= 0, ctx, KITH_E_IO, kin_at_file(path), "cannot be opened: %s (%s)",
                strerror(errno), open_advice(errno));
}

static kith_status fail_map(kith_ctx *ctx, const char *path)
{
    return kin_fail_at(ctx, errno == ENOMEM ? KITH_E_MEMORY : KITH_E_IO, kin_at_file(path),
                       "cannot be mapped into memory: %s", strerror(errno));
}

kith_status kin_map_open(kith_ctx *ctx, const char *path, bool follows, kin_map *map)
{
    int file = -1;
    uint64_t bytes = 0;
    memset(map, 0, sizeof *map);
    KIN_TRY(open_input(ctx, path, follows, &file));
    kith_status status = measure(ctx, path, file, &bytes);
    if (status == KITH_OK && bytes > 0) {
        void *data = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, file, 0);
        if (data != MAP_FAILED) {
            map->data = data;
            map->bytes = bytes;
        } else {
            status = fail_map(ctx, path);
        }
    }
    (void)close(file);
    return status;
}

kith_status kin_map_reserve(kith_ctx *ctx, uint64_t bytes, kin_map *map)
{
    memset(map, 0, sizeof *map);
    void *data =
        mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        return kin_fail(
            ctx, KITH_E_MEMORY,
            "no addresses for %llu bytes of files (raise the limit of address space, ulimit -v)",
            (unsigned long long)bytes);
    }
    map->data = data;
    map->bytes = bytes;
    return KITH_OK;
}

kith_status kin_map_place(kith_ctx *ctx, const char *path, uint64_t from, uint64_t bytes,
                          const kin_map *map, uint64_t at)
{
    int file = -1;
    uint64_t there = 0;
    KIN_TRY(open_input(ctx, path, true, &file));
    kith_status status = measure(ctx, path, file, &there);
    if (status == KITH_OK && (there < from || there - from < bytes)) {
        status =
            kin_fail_at(ctx, KITH_E_IO, kin_at_file(path), "has become shorter (make it again)");
    }
    if (status == KITH_OK && mmap((void *)(uintptr_t)(map->data + at), (size_t)bytes, PROT_READ,
                                  MAP_SHARED | MAP_FIXED, file, (off_t)from) == MAP_FAILED) {
        status = fail_map(ctx, path);
    }
    (void)close(file);
    return status;
}

void kin_map_close(kin_map *map)
{
    if (map->data != NULL) {
        (void)munmap((void *)(uintptr_t)map->data, (size_t)map->bytes);
    }
    memset(map, 0, sizeof *map);
}
