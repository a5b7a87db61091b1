/* SPDX-License-Identifier: Apache-2.0
 * A library that is loaded before the C library (LD_PRELOAD) and stands between a program and its
 * files. KITH_SHIM=short: of each two reads or writes the first is interrupted (EINTR), the second
 * moves 4099 bytes at most. KITH_SHIM=kill:N: the process is killed (SIGKILL) instead of making the
 * N-th call that changes a file, a folder or a name. KITH_SHIM_OLD: the file system has no files
 * without names (O_TMPFILE). KITH_SHIM=full:N: the disk is full (ENOSPC) from the N-th call on that
 * makes or fills a file, or brings it to disk. KITH_SHIM=count: how many such calls there
 * were is written to the file that KITH_SHIM_COUNT names. Standard streams are left alone. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 4099 };

static int is_short;
static int is_old;
static long kill_at;
static long full_at;
static atomic_long changes;
static atomic_long moves;
static atomic_long fillings;

__attribute__((constructor)) static void begin(void)
{
    const char *wish = getenv("KITH_SHIM");
    is_old = getenv("KITH_SHIM_OLD") != NULL;
    is_short = wish != NULL && strcmp(wish, "short") == 0;
    kill_at = wish != NULL && strncmp(wish, "kill:", 5) == 0 ? atol(wish + 5) : 0;
    full_at = wish != NULL && strncmp(wish, "full:", 5) == 0 ? atol(wish + 5) : 0;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("KITH_SHIM_COUNT");
    char text[32];
    if (path != NULL) {
        const long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const int bytes = snprintf(text, sizeof text, "%ld", atomic_load(&changes));
        (void)syscall(SYS_write, file, text, (size_t)bytes);
        (void)syscall(SYS_close, file);
    }
}

static void change(void)
{
    if (atomic_fetch_add(&changes, 1) + 1 == kill_at) {
        (void)syscall(SYS_kill, getpid(), SIGKILL);
    }
}

/* Whether there is no room for what the next call wants to put on the disk. */
static int is_full(void)
{
    if (full_at == 0 || atomic_fetch_add(&fillings, 1) + 1 < full_at) {
        return 0;
    }
    errno = ENOSPC;
    return 1;
}

static int interrupts(void)
{
    if (is_short && atomic_fetch_add(&moves, 1) % 2 == 0) {
        errno = EINTR;
        return 1;
    }
    return 0;
}

static size_t taken(size_t bytes)
{
    return is_short && bytes > MOST ? MOST : bytes;
}

/* ---- What moves bytes ----------------------------------------------------------------------- */

ssize_t read(int file, void *data, size_t bytes)
{
    return file > 2 && interrupts() ? -1 : syscall(SYS_read, file, data, taken(bytes));
}

ssize_t pread(int file, void *data, size_t bytes, off_t at)
{
    return interrupts() ? -1 : syscall(SYS_pread64, file, data, taken(bytes), at);
}

ssize_t write(int file, const void *data, size_t bytes)
{
    if (file <= 2) {
        return syscall(SYS_write, file, data, bytes);
    }
    if (interrupts() || is_full()) {
        return -1;
    }
    change();
    return syscall(SYS_write, file, data, taken(bytes));
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t at)
{
    if (interrupts() || is_full()) {
        return -1;
    }
    change();
    return syscall(SYS_pwrite64, file, data, taken(bytes), at);
}

/* A copy through a mapping, too, may end in the middle. */
ssize_t process_vm_readv(pid_t process, const struct iovec *to, unsigned long to_count,
                         const struct iovec *from, unsigned long from_count, unsigned long flags)
{
    struct iovec some = *to;
    some.iov_len = taken(some.iov_len);
    change();
    return syscall(SYS_process_vm_readv, process, to_count == 1 ? &some : to, to_count, from,
                   from_count, flags);
}

int fsync(int file)
{
    change(); /* and nothing is brought to disk, which takes its time: no machine crashes here */
    return interrupts() || is_full() ? -1 : fcntl(file, F_GETFD) < 0 ? -1 : 0;
}

int fdatasync(int file)
{
    return fsync(file);
}

int ftruncate(int file, off_t bytes)
{
    change();
    return interrupts() ? -1 : (int)syscall(SYS_ftruncate, file, bytes);
}

int fallocate(int file, int mode, off_t offset, off_t bytes)
{
    change();
    return interrupts() || is_full() ? -1 : (int)syscall(SYS_fallocate, file, mode, offset, bytes);
}

/* ---- What changes names --------------------------------------------------------------------- */

static int open_at(int folder, const char *path, int flags, int mode)
{
    if (is_old && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if ((flags & (O_CREAT | O_TRUNC)) != 0) {
        change();
    }
    if (((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) && is_full()) {
        return -1;
    }
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, int) : 0;
    va_end(list);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, int) : 0;
    va_end(list);
    return open_at(folder, path, flags, mode);
}

int linkat(int from, const char *old, int to, const char *path, int flags)
{
    change();
    return is_full() ? -1 : (int)syscall(SYS_linkat, from, old, to, path, flags);
}

int rename(const char *old, const char *path)
{
    change();
    return (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, path, 0);
}

int unlinkat(int folder, const char *path, int flags)
{
    change();
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode)
{
    change();
    return is_full() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
