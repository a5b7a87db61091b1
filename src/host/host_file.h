/* SPDX-License-Identifier: Apache-2.0
 * Whole reads and writes. The system may take or give a part of what it is asked for, or be
 * interrupted by a signal: nobody else in this library calls read, write, pread, pwrite or fsync.
 * Each returns 0, or errno. */
#ifndef KIN_HOST_FILE_H
#define KIN_HOST_FILE_H

#include "base/base_ctx.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* at: the offset, or below 0: where the file stands. ENOSPC where the system takes nothing, and
 * gives no reason. */
int kin_file_write(int file, const void *data, uint64_t bytes, int64_t at);
/* *got is less than bytes where the file ends. */
int kin_file_read_at(int file, void *data, uint64_t bytes, uint64_t offset, uint64_t *got);
/* What there is now, of a pipe: *got is 0 at its end. EAGAIN where nothing came yet. */
int kin_file_read_some(int file, void *data, uint64_t bytes, uint64_t *got);
/* To disk; data_only: but for what is not needed to read it, such as its time. */
int kin_file_sync(int file, bool data_only);
int kin_file_resize(int file, uint64_t bytes);

/* ---- Modules --------------------------------------------------------------------------------- */

/* Where the modules are that libkith opens when they are needed. */

/* The path of a file that stands in the folder of the library (or program) which this code is in,
 * as in a build folder and a Python package, or in the folder KIN_MODULE_FOLDER below it, as where
 * kith is installed. False where neither has it. */
bool kin_host_beside(const char *name, char *path, size_t size);

/* ---- Files as memory ------------------------------------------------------------------------- */

/* Files as memory: opened read-only, mapped whole. */

typedef struct kin_map {
    const unsigned char *data; /* NULL for a file of 0 bytes */
    uint64_t bytes;
} kin_map;

/* Maps a regular file. Anything else (missing, a folder, a pipe, a device) is KITH_E_IO with a
 * message that starts with the path; a pipe does not block. Whoever shortens the file while it is
 * mapped ends this process with SIGBUS, as with any mapping: kith itself only replaces files.
 * follows false, for a name that is kith's own: KITH_E_FORMAT where it is a symbolic link. */
kith_status kin_map_open(kith_ctx *ctx, const char *path, bool follows, kin_map *map);
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
