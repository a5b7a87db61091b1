/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "host/host_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
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
