/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file/file_atomic.h"

#include "base/base_mem.h"
#include "base/base_random.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, MODE = 0666, NAME_TRIES = 16 };

static kith_status fail_io(kin_writer *w, const char *what, int error)
{
    const char *advice = "the file was not changed";
    if (w->kept && (error == ENOSPC || error == EDQUOT || error == EFBIG)) {
        advice = "free some space there, the same job then goes on where it is";
    } else if (error == ENOSPC || error == EDQUOT) {
        advice = "free some space there or write elsewhere; the file was not changed";
    } else if (error == EACCES || error == EPERM || error == EROFS) {
        advice = "you need the right to write in its folder";
    } else if (error == ENOENT || error == ENOTDIR) {
        advice = "make its folder first";
    }
    return kin_fail(w->ctx, KITH_E_IO, "%s: %s: %s (%s)", w->path, what, strerror(error), advice);
}

static kith_status copy_text(kith_ctx *ctx, const char *text, size_t bytes, char **out)
{
    KIN_TRY(kin_alloc(ctx, out, bytes + 1, 1, "a file's path"));
    memcpy(*out, text, bytes);
    (*out)[bytes] = '\0';
    return KITH_OK;
}

/* The path that the new file takes: where path is a symbolic link that is followed, what it points
 * to. */
static kith_status find_target(kin_writer *w, bool follows)
{
    struct stat info;
    const bool there = lstat(w->path, &info) == 0;
    if (there && S_ISLNK(info.st_mode) && follows) {
        char *real = realpath(w->path, NULL);
        if (real == NULL) {
            return kin_fail(
                w->ctx, KITH_E_IO,
                "%s: is a symbolic link that leads nowhere: %s (make what it points to)", w->path,
                strerror(errno));
        }
        const kith_status status = copy_text(w->ctx, real, strlen(real), &w->target);
        free(real);
        KIN_TRY(status);
    } else {
        KIN_TRY(copy_text(w->ctx, w->path, strlen(w->path), &w->target));
    }
    if (follows ? stat(w->target, &info) == 0 && !S_ISREG(info.st_mode)
                : there && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
        return kin_fail(w->ctx, KITH_E_IO,
                        "%s: is %s, not a file, and cannot be replaced by one (give another path)",
                        w->path, S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    }
    const char *slash = strrchr(w->target, '/');
    if (slash == NULL) {
        return copy_text(w->ctx, ".", 1, &w->folder);
    }
    return copy_text(w->ctx, w->target, slash == w->target ? 1 : (size_t)(slash - w->target),
                     &w->folder);
}

static kith_status name_temporary(kin_writer *w)
{
    const size_t room = strlen(w->folder) + 64;
    if (w->temporary == NULL) {
        KIN_TRY(kin_alloc(w->ctx, &w->temporary, room, 1, "a file's path"));
    }
    uint64_t state = (uint64_t)kin_clock_ns() ^ ((uint64_t)getpid() << 40);
    (void)snprintf(w->temporary, room, "%s/.kith-%016" PRIx64 ".tmp", w->folder,
                   kin_random_next(&state));
    return KITH_OK;
}

/* A file without a name vanishes with its process, even when that is killed. */
static int open_unnamed(const kin_writer *w)
{
#ifdef O_TMPFILE
    if (access("/proc/self/fd", X_OK) == 0) {
        return open(w->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, MODE);
    }
#endif
    (void)w;
    return -1;
}

/* A file that is replaced keeps who may read it. */
static void keep_mode(const kin_writer *w)
{
    struct stat old;
    if (lstat(w->target, &old) == 0 && S_ISREG(old.st_mode)) {
        (void)fchmod(w->file, old.st_mode & 07777);
    }
}

static kith_status open_temporary(kin_writer *w)
{
    w->file = open_unnamed(w);
    for (int i = 0; w->file < 0 && i < NAME_TRIES; i++) {
        KIN_TRY(name_temporary(w));
        w->file = open(w->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
        w->named = w->file >= 0;
        if (w->file < 0 && errno != EEXIST && errno != EINTR) {
            break;
        }
    }
    if (w->file < 0) {
        return fail_io(w, "cannot be created", errno);
    }
    keep_mode(w);
    return KITH_OK;
}

static void release(kin_writer *w)
{
    if (w->file >= 0) {
        (void)close(w->file);
    }
    if (w->named && !w->kept) {
        (void)unlink(w->temporary);
    }
    kin_free(w->ctx, w->buffer);
    kin_free(w->ctx, w->temporary);
    kin_free(w->ctx, w->folder);
    kin_free(w->ctx, w->target);
    memset(w, 0, sizeof *w);
    w->file = -1;
}

static kith_status open_writer(kith_ctx *ctx, const char *path, bool follows, kin_writer *w)
{
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->path = path;
    w->file = -1;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, find_target(w, follows), done);
    KIN_TRY_GOTO(status, open_temporary(w), done);
done:
    if (status != KITH_OK) {
        release(w);
    }
    return status;
}

kith_status kin_writer_open(kith_ctx *ctx, const char *path, kin_writer *w)
{
    return open_writer(ctx, path, true, w);
}

kith_status kin_writer_open_own(kith_ctx *ctx, const char *path, kin_writer *w)
{
    return open_writer(ctx, path, false, w);
}

/* One process at a time, and the file that now has the name: whoever was at it before may have
 * finished and renamed it. File systems without locks do without. */
static kith_status lock_partial(kin_writer *w)
{
    struct stat own;
    struct stat named;
    const bool busy = flock(w->file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (busy || fstat(w->file, &own) != 0 || stat(w->temporary, &named) != 0 ||
        own.st_ino != named.st_ino || own.st_dev != named.st_dev) {
        w->kept = true; /* it is somebody else's */
        return kin_fail(w->ctx, KITH_E_IO,
                        "%s: another process is at work on it (wait for that, or stop it)",
                        w->temporary);
    }
    return KITH_OK;
}

static kith_status open_partial(kin_writer *w, bool *found)
{
    const size_t room = strlen(w->target) + sizeof ".partial";
    struct stat info;
    KIN_TRY(kin_alloc(w->ctx, &w->temporary, room, 1, "a file's path"));
    (void)snprintf(w->temporary, room, "%s.partial", w->target);
    *found = lstat(w->temporary, &info) == 0;
    if (*found && !S_ISREG(info.st_mode)) {
        return kin_fail(w->ctx, KITH_E_IO, "%s: is no file (give another output)", w->temporary);
    }
    const int create = *found ? 0 : O_CREAT | O_EXCL;
    w->file = open(w->temporary, O_RDWR | O_NOFOLLOW | O_CLOEXEC | create, MODE);
    if (w->file < 0) {
        return fail_io(w, *found ? "its .partial cannot be opened" : "cannot be created", errno);
    }
    w->named = true;
    w->kept = *found;
    KIN_TRY(lock_partial(w));
    w->kept = true;
    return KITH_OK;
}

kith_status kin_writer_open_partial(kith_ctx *ctx, const char *path, kin_writer *w, bool *found)
{
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->path = path;
    w->file = -1;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, find_target(w, true), done);
    KIN_TRY_GOTO(status, open_partial(w, found), done);
done:
    if (status != KITH_OK) {
        release(w);
    }
    return status;
}

static kith_status write_all(kin_writer *w, const unsigned char *data, uint64_t bytes)
{
    while (bytes > 0) {
        const size_t piece = bytes < (1u << 30) ? (size_t)bytes : (size_t)1 << 30;
        const ssize_t got = write(w->file, data, piece);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return fail_io(w, "cannot be written", got < 0 ? errno : ENOSPC);
        }
        data += got;
        bytes -= (uint64_t)got;
        w->written += (uint64_t)got;
    }
    return KITH_OK;
}

static kith_status flush(kin_writer *w)
{
    const uint64_t bytes = w->used;
    w->used = 0;
    KIN_TRY(write_all(w, w->buffer, bytes));
    if (w->total > 0) {
        KIN_TRY(kin_progress(w->ctx, "write", (double)w->written, (double)w->total));
    }
    return KITH_OK;
}

kith_status kin_writer_put(kin_writer *w, const void *data, uint64_t bytes)
{
    const unsigned char *from = data;
    if (w->buffer == NULL) {
        KIN_TRY(kin_alloc(w->ctx, &w->buffer, BUFFER_BYTES, 1, "a write buffer"));
    }
    while (bytes > 0) {
        const uint64_t room = BUFFER_BYTES - w->used;
        const uint64_t piece = bytes < room ? bytes : room;
        memcpy(w->buffer + w->used, from, (size_t)piece);
        w->used += piece;
        from += piece;
        bytes -= piece;
        if (w->used == BUFFER_BYTES) {
            KIN_TRY(flush(w));
        }
    }
    return KITH_OK;
}

void kin_writer_rest(kin_writer *w)
{
    if (w->used == 0) {
        kin_free(w->ctx, w->buffer);
        w->buffer = NULL;
    }
}

kith_status kin_writer_pad(kin_writer *w, uint64_t bytes)
{
    static const unsigned char zeros[4096];
    return kin_writer_put(w, zeros, bytes < sizeof zeros ? bytes : sizeof zeros);
}

static kith_status seek(kin_writer *w, off_t offset, int whence)
{
    return lseek(w->file, offset, whence) >= 0 ? KITH_OK : fail_io(w, "cannot be written", errno);
}

kith_status kin_writer_skip(kin_writer *w, uint64_t bytes)
{
    KIN_TRY(flush(w));
    if (w->hole_count < KIN_WRITER_HOLES) {
        w->holes[w->hole_count++] = w->written;
    }
    w->written += bytes;
    return seek(w, (off_t)bytes, SEEK_CUR);
}

kith_status kin_writer_rewind(kin_writer *w)
{
    KIN_TRY(flush(w));
    w->written = 0;
    w->hole_count = 0;
    return seek(w, 0, SEEK_SET);
}

kith_status kin_writer_patch(kin_writer *w, uint64_t offset, const void *data, uint64_t bytes)
{
    KIN_TRY(flush(w));
    const unsigned char *from = data;
    while (bytes > 0) {
        const ssize_t got = pwrite(w->file, from, (size_t)bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return fail_io(w, "cannot be written", got < 0 ? errno : ENOSPC);
        }
        from += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return KITH_OK;
}

void kin_writer_urge(const kin_writer *w, uint64_t offset, uint64_t bytes)
{
    (void)sync_file_range(w->file, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}

uint64_t kin_writer_offset(const kin_writer *w)
{
    return w->written + w->used;
}

kith_status kin_writer_sync(kin_writer *w)
{
    KIN_TRY(flush(w));
    int result = 0;
    do {
        result = fsync(w->file);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? KITH_OK : fail_io(w, "cannot be brought to disk", errno);
}

/* Some file systems cannot sync a folder and say EINVAL; there is nothing more to do then. */
static kith_status sync_folder(kin_writer *w)
{
    const int folder = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return KITH_OK; /* a folder may be writable and not readable */
    }
    const int result = fsync(folder);
    const int error = errno;
    (void)close(folder);
    if (result != 0 && error != EINVAL && error != EINTR) {
        return kin_fail(w->ctx, KITH_E_IO, "%s: is written, but its folder cannot be synced: %s",
                        w->path, strerror(error));
    }
    return KITH_OK;
}

static kith_status give_name(kin_writer *w)
{
    char self[64];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", w->file);
    for (int i = 0; !w->named && i < NAME_TRIES; i++) {
        KIN_TRY(name_temporary(w));
        w->named = linkat(AT_FDCWD, self, AT_FDCWD, w->temporary, AT_SYMLINK_FOLLOW) == 0;
        if (!w->named && errno != EEXIST) {
            break;
        }
    }
    return w->named ? KITH_OK : fail_io(w, "cannot be given its name", errno);
}

static kith_status commit(kin_writer *w)
{
    if (w->kept) {
        keep_mode(w);
    }
    KIN_TRY(kin_writer_sync(w));
    KIN_TRY(give_name(w));
    if (rename(w->temporary, w->target) != 0) {
        return fail_io(w, "cannot be replaced", errno);
    }
    w->named = false;
    return sync_folder(w);
}

kith_status kin_writer_close(kin_writer *w, kith_status status)
{
    if (status == KITH_OK) {
        status = commit(w);
    }
    release(w);
    return status;
}
