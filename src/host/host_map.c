/* SPDX-License-Identifier: Apache-2.0 */
#include "host/host_map.h"

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

static kith_status map_open_file(kith_ctx *ctx, const char *path, int file, kin_map *map)
{
    struct stat info;
    if (fstat(file, &info) != 0) {
        return kin_fail(ctx, KITH_E_IO, "%s: cannot be examined: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return kin_fail(ctx, KITH_E_IO,
                        "%s: is %s, not a file (kith maps its input into memory; give a file)",
                        path, kind_of(info.st_mode));
    }
    if (info.st_size == 0) {
        return KITH_OK;
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
        return kin_fail(ctx, errno == ENOMEM ? KITH_E_MEMORY : KITH_E_IO,
                        "%s: cannot be mapped into memory: %s", path, strerror(errno));
    }
    map->data = data;
    map->bytes = (uint64_t)info.st_size;
    return KITH_OK;
}

kith_status kin_map_open(kith_ctx *ctx, const char *path, kin_map *map)
{
    memset(map, 0, sizeof *map);
    /* Without O_NONBLOCK a pipe that nobody writes to would hold us here for ever. */
    int file = -1;
    do {
        file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (file < 0 && errno == EINTR);
    if (file < 0) {
        return kin_fail(ctx, KITH_E_IO, "%s: cannot be opened: %s (%s)", path, strerror(errno),
                        open_advice(errno));
    }
    const kith_status status = map_open_file(ctx, path, file, map);
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
