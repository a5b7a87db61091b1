/* SPDX-License-Identifier: Apache-2.0
 * A disk that refuses names when it is told to: open(), linkat() and rename() of the program that
 * includes this, and mmap() and fstat() of files that are read, stand in front of the C library's.
 * For one source file of a program, behind its #define _GNU_SOURCE. */
#ifndef SUPPORT_DISK_NAMES_H
#define SUPPORT_DISK_NAMES_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the next calls do. */
typedef struct test_names {
    int fail_at; /* the n-th call and all after it fail; 0 = none */
    int reading; /* calls that read are counted, else those that write */
    int calls;
} test_names;

static test_names test_disk_names;

static int test_names_refuse(int reading)
{
    if (test_disk_names.fail_at == 0 || test_disk_names.reading != reading) {
        return 0;
    }
    test_disk_names.calls += 1;
    if (test_disk_names.calls < test_disk_names.fail_at) {
        return 0;
    }
    errno = EIO;
    return 1;
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const int creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    const int mode = creates ? va_arg(list, int) : 0;
    va_end(list);
    const int writes = (flags & O_ACCMODE) != O_RDONLY;
    if ((flags & O_DIRECTORY) == 0 || creates) {
        if (test_names_refuse(!writes)) {
            return -1;
        }
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int linkat(int from, const char *old, int to, const char *path, int flags)
{
    return test_names_refuse(0) ? -1 : (int)syscall(SYS_linkat, from, old, to, path, flags);
}

int rename(const char *old, const char *path)
{
    return test_names_refuse(0) ? -1
                                : (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, path, 0);
}

void *mmap(void *at, size_t bytes, int rights, int flags, int file, off_t offset)
{
    if (file >= 0 && (flags & MAP_SHARED) != 0 && test_names_refuse(1)) {
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, rights, flags, file, offset);
}

#endif
