/* SPDX-License-Identifier: Apache-2.0
 * A disk that fails when it is told to: write(), pwrite(), fsync(), fdatasync() and fallocate() of
 * the program that includes this stand in front of the C library's. Not a part of the helpers'
 * library, where every test would get them. For one source file of a program, behind its
 * #define _GNU_SOURCE. */
#ifndef SUPPORT_DISK_H
#define SUPPORT_DISK_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the next calls do. */
static struct {
    int interrupt; /* every second call is interrupted */
    size_t most;   /* bytes a call takes; 0 = all */
    int fail_at;   /* the n-th call and all after it fail; 0 = none */
    int error;     /* with which errno; 0: the disk is full */
    int calls;
    int lazy; /* nothing is brought to disk, which takes its time: no machine crashes here */
} test_disk;

static void test_disk_works(void)
{
    memset(&test_disk, 0, sizeof test_disk);
}

static int test_disk_refuses(void)
{
    test_disk.calls += 1;
    if (test_disk.interrupt && test_disk.calls % 2 == 1) {
        errno = EINTR;
        return 1;
    }
    if (test_disk.fail_at != 0 && test_disk.calls >= test_disk.fail_at) {
        errno = test_disk.error != 0 ? test_disk.error : ENOSPC;
        return 1;
    }
    return 0;
}

static size_t test_disk_takes(size_t bytes)
{
    return test_disk.most != 0 && bytes > test_disk.most ? test_disk.most : bytes;
}

ssize_t write(int file, const void *data, size_t bytes)
{
    if (file > 2 && test_disk_refuses()) {
        return -1;
    }
    return syscall(SYS_write, file, data, file > 2 ? test_disk_takes(bytes) : bytes);
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t offset)
{
    return test_disk_refuses() ? -1
                               : syscall(SYS_pwrite64, file, data, test_disk_takes(bytes), offset);
}

int fsync(int file)
{
    return test_disk_refuses() ? -1 : test_disk.lazy ? 0 : (int)syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    return test_disk_refuses() ? -1 : test_disk.lazy ? 0 : (int)syscall(SYS_fdatasync, file);
}

int fallocate(int file, int mode, off_t offset, off_t bytes)
{
    (void)mode;
    return test_disk_refuses() ? -1 : (int)syscall(SYS_fallocate, file, 0, offset, bytes);
}

#endif
