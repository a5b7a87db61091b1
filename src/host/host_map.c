/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "host/host_map.h"

#include "base/base_try.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (fstat(file, &info) != 0) {
        return kin_fail_at(ctx, KITH_E_IO, kin_at_file(path), "cannot be examined: %s",
                           strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return kin_fail_at(ctx, KITH_E_IO, kin_at_file(path),
                           "is %s, not a file (kith maps its input into memory; give a file)",
                           kind_of(info.st_mode));
    }
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
    if (*file < 0 && errno == ELOOP && !follows) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "is a symbolic link, which kith makes none of that name (remove it)");
    }
    return *file >= 0 ? KITH_OK
                      : kin_fail_at(ctx, KITH_E_IO, kin_at_file(path), "cannot be opened: %s (%s)",
                                    strerror(errno), open_advice(errno));
}

static kith_status fail_map(kith_ctx *ctx, const char *path)
{
    return kin_fail_at(ctx, errno == ENOMEM ? KITH_E_MEMORY : KITH_E_IO, kin_at_file(path),
                       "cannot be mapped into memory: %s", strerror(errno));
}

static kith_status open_map(kith_ctx *ctx, const char *path, bool follows, kin_map *map)
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

kith_status kin_map_open(kith_ctx *ctx, const char *path, kin_map *map)
{
    return open_map(ctx, path, true, map);
}

kith_status kin_map_open_own(kith_ctx *ctx, const char *path, kin_map *map)
{
    return open_map(ctx, path, false, map);
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
