/* SPDX-License-Identifier: Apache-2.0
 * Whole reads and writes. The system may take or give a part of what it is asked for, or be
 * interrupted by a signal: nobody else in this library calls read, write, pread, pwrite or fsync.
 * Each returns 0, or errno. */
#ifndef KIN_HOST_FILE_H
#define KIN_HOST_FILE_H

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

#endif
