/* SPDX-License-Identifier: Apache-2.0
 * Files as memory: opened read-only, mapped whole. */
#ifndef KIN_HOST_MAP_H
#define KIN_HOST_MAP_H

#include "base/base_ctx.h"

typedef struct kin_map {
    const unsigned char *data; /* NULL for a file of 0 bytes */
    uint64_t bytes;
} kin_map;

/* Maps a regular file. Anything else (missing, a folder, a pipe, a device) is KITH_E_IO with a
 * message that starts with the path; a pipe does not block. Whoever shortens the file while it is
 * mapped ends this process with SIGBUS, as with any mapping: kith itself only replaces files. */
kith_status kin_map_open(kith_ctx *ctx, const char *path, kin_map *map);
/* For a name that is kith's own: KITH_E_FORMAT where it is a symbolic link. */
kith_status kin_map_open_own(kith_ctx *ctx, const char *path, kin_map *map);
/* Addresses for what lies in several files and is to stand side by side; nothing can be read there
 * yet. */
kith_status kin_map_reserve(kith_ctx *ctx, uint64_t bytes, kin_map *map);
/* Maps bytes of a regular file, from `from` on, to `at` bytes behind the beginning of what is
 * reserved; both are multiples of the size of a page. KITH_E_IO where the file has not so many. */
kith_status kin_map_place(kith_ctx *ctx, const char *path, uint64_t from, uint64_t bytes,
                          const kin_map *map, uint64_t at);
/* Accepts a map that is all zero, and leaves one. */
void kin_map_close(kin_map *map);

#endif
