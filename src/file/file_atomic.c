/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file/file_atomic.h"

#include "base/base_random.h"
#include "file/file_checksum.h"
#include "file/file_reader.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, MODE = 0666 };

/* ---- Hidden names ---------------------------------------------------------------------------- */

/* Hidden names beside a target, `.kith-HASH-N.tmp`: for the moment in which a file replaces another
 * and, where the file system has no files without names, while it is written.
 *
 * A target has the same few names always, and a name is in use as long as the file that has it is
 * locked, which ends with its process. So what a process that was killed has left is found by
 * whoever writes the same target next, and removed.
 *
 * The protocol: a name is removed or renamed by nobody but the holder of the lock on the file that
 * has it. So who holds the lock, and then sees that the name still is this file's, may remove it.
 */

/* Bytes that a name needs beside those of its folder. */
enum { NAME_ROOM = 64 };

enum { NAMES = 4, TRIES = 16, ROUNDS = 1000 };

/* Whose a name is. On file systems without locks that cannot be known. */
typedef enum owner { NOBODY, SOMEBODY, UNKNOWN } owner;

static size_t room_of(const kin_writer *w)
{
    return strlen(w->folder) + NAME_ROOM;
}

static void print_name(kin_writer *w, uint64_t number)
{
    const char *slash = strrchr(w->target, '/');
    const char *base = slash != NULL ? slash + 1 : w->target;
    (void)snprintf(w->temporary, room_of(w), "%s/.kith-%016" PRIx64 "-%" PRIx64 ".tmp", w->folder,
                   kin_checksum_of(base, strlen(base)), number);
}

static bool has_name(int file, const char *path)
{
    struct stat own;
    struct stat named;
    return fstat(file, &own) == 0 && lstat(path, &named) == 0 && own.st_ino == named.st_ino &&
           own.st_dev == named.st_dev;
}

/* Who locks on NFS must be allowed to write; a file that replaces a read-only one is such, too. */
static int open_left(const char *path)
{
    enum { FLAGS = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
    const int file = open(path, O_RDWR | FLAGS);
    return file >= 0 || errno != EACCES ? file : open(path, O_RDONLY | FLAGS);
}

/* Removes what nobody holds any more. */
static owner remove_dead(const char *path)
{
    const int file = open_left(path);
    if (file < 0) {
        const bool link = errno == ELOOP; /* none of ours, and in the place of one */
        return errno == ENOENT || (link && unlink(path) == 0) ? NOBODY : UNKNOWN;
    }
    owner found = NOBODY;
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        found = errno == EWOULDBLOCK ? SOMEBODY : UNKNOWN;
    } else if (has_name(file, path) && unlink(path) != 0) {
        found = UNKNOWN;
    }
    (void)close(file);
    return found;
}

static int link_file(int file, const char *path)
{
    char self[64];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* EEXIST, too, where somebody took the new file for a dead one before it was locked. */
static int create_file(const char *path, int *file)
{
    *file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    if (*file < 0) {
        return errno;
    }
    const bool taken = flock(*file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && has_name(*file, path)) {
        return 0;
    }
    (void)close(*file);
    *file = -1;
    return EEXIST;
}

/* One name; EEXIST where it is in use, and *found says by whom. */
static int take_path(const char *path, int *file, owner *found)
{
    int error = EEXIST;
    *found = NOBODY;
    for (int i = 0; i < TRIES && *found == NOBODY; i++) {
        error = *file >= 0 ? link_file(*file, path) : create_file(path, file);
        if (error != EEXIST && error != EINTR) {
            return error;
        }
        *found = error == EINTR ? NOBODY : remove_dead(path);
    }
    return error;
}

/* Gives the writer's file, which has none, a name (w->temporary), or where there is no file creates
 * it with one. Returns 0, or errno; EBUSY where others hold all names for more than a second. */
static int take_name(kin_writer *w)
{
    const struct timespec a_while = {0, 1000000};
    uint64_t state = (uint64_t)kin_clock_ns() ^ ((uint64_t)getpid() << 40);
    if (w->file >= 0) {
        (void)flock(w->file, LOCK_EX | LOCK_NB); /* nobody else has it; there may be no locks */
    }
    for (int round = 0; round < ROUNDS; round++) {
        bool unknown = false;
        for (uint64_t i = 0; i <= NAMES; i++) {
            owner found = NOBODY;
            if (i == NAMES && !unknown) {
                break; /* all are at work, and will be done */
            }
            print_name(w, i < NAMES ? i : kin_random_next(&state));
            const int error = take_path(w->temporary, &w->file, &found);
            if (error != EEXIST && error != EINTR) {
                return error;
            }
            unknown = unknown || found == UNKNOWN;
        }
        (void)nanosleep(&a_while, NULL);
    }
    return EBUSY;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static kith_status fail_io(kin_writer *w, const char *what, int error)
{
    const bool full = error == ENOSPC || error == EDQUOT;
    const char *advice = "the file was not changed";
    if (w->passing) {
        advice = full ? "free some space there, or write elsewhere" : "nothing reads on there";
    } else if (w->kept && (full || error == EFBIG)) {
        advice = "free some space there, the same job then goes on where it is";
    } else if (full) {
        advice = "free some space there or write elsewhere; the file was not changed";
    } else if (error == EACCES || error == EPERM || error == EROFS) {
        advice = "you need the right to write in its folder";
    } else if (error == ENOENT || error == ENOTDIR) {
        advice = "make its folder first";
    } else if (error == EBUSY) {
        advice = "others are writing the same file: wait for them, or stop them";
    }
    return kin_fail_at(w->ctx, KITH_E_IO, kin_at_file(w->path), "%s: %s (%s)", what,
                       strerror(error), advice);
}

/* The path that the new file takes: where path is a symbolic link that is followed, what it points
 * to. */
static kith_status find_target(kin_writer *w, bool follows)
{
    struct stat info;
    const bool there = lstat(w->path, &info) == 0;
    if (there && S_ISLNK(info.st_mode) && follows) {
        char *real = realpath(w->path, NULL);
        KIN_FAIL_IF(real == NULL, w->ctx, KITH_E_IO, kin_at_file(w->path),
                    "is a symbolic link that leads nowhere: %s (make what it points to)",
                    strerror(errno));
        const kith_status status = kin_alloc_text(w->ctx, &w->target, "a file's path", "%s", real);
        free(real);
        KIN_TRY(status);
    } else {
        KIN_TRY(kin_alloc_text(w->ctx, &w->target, "a file's path", "%s", w->path));
    }
    KIN_FAIL_IF(follows ? stat(w->target, &info) == 0 && !S_ISREG(info.st_mode)
                        : there && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode),
                w->ctx, KITH_E_IO, kin_at_file(w->path),
                "is %s, not a file, and cannot be replaced by one (give another path)",
                S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    const char *slash = strrchr(w->target, '/');
    const int bytes = slash == NULL || slash == w->target ? 1 : (int)(slash - w->target);
    return kin_alloc_text(w->ctx, &w->folder, "a file's path", "%.*s", bytes,
                          slash == NULL ? "." : w->target);
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
    KIN_TRY(kin_alloc(w->ctx, &w->temporary, room_of(w), 1, "a file's path"));
    for (uint64_t i = 0; i < NAMES; i++) { /* what dead processes have left beside the target */
        print_name(w, i);
        (void)remove_dead(w->temporary);
    }
    w->file = open_unnamed(w);
    if (w->file < 0) {
        const int error = take_name(w);
        if (error != 0) {
            return fail_io(w, "cannot be created", error);
        }
        w->named = true;
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

kith_status kin_writer_open_text(kith_ctx *ctx, const char *path, kin_writer *w)
{
    struct stat info;
    const bool standard = kin_input_is_standard(path);
    if (!standard && (stat(path, &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))) {
        return kin_writer_open(ctx, path, w);
    }
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->path = path;
    w->passing = true;
    do {
        w->file = standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                           : open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } while (w->file < 0 && errno == EINTR);
    return w->file >= 0 ? KITH_OK : fail_io(w, "cannot be opened", errno);
}

/* One process at a time, and the file that now has the name: whoever was at it before may have
 * finished and renamed it. File systems without locks do without. */
static kith_status lock_partial(kin_writer *w)
{
    struct stat own;
    struct stat named;
    const bool busy = flock(w->file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (busy || fstat(w->file, &own) != 0 || lstat(w->temporary, &named) != 0 ||
        own.st_ino != named.st_ino || own.st_dev != named.st_dev) {
        w->kept = true; /* it is somebody else's */
        return kin_fail_at(w->ctx, KITH_E_IO, kin_at_file(w->temporary),
                           "another process is at work on it (wait for that, or stop it)");
    }
    return KITH_OK;
}

static kith_status open_partial(kin_writer *w, bool *found)
{
    struct stat info;
    KIN_TRY(kin_alloc_text(w->ctx, &w->temporary, "a file's path", "%s.partial", w->target));
    *found = lstat(w->temporary, &info) == 0;
    KIN_FAIL_IF(*found && !S_ISREG(info.st_mode), w->ctx, KITH_E_IO, kin_at_file(w->temporary),
                "is no file (give another output)");
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

kith_status kin_writer_open_as(kith_ctx *ctx, const char *path, bool follows, kin_writer *w,
                               bool *found)
{
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->path = path;
    w->file = -1;
    kith_status status = find_target(w, follows);
    KIN_THEN(status, found != NULL ? open_partial(w, found) : open_temporary(w));
    if (status != KITH_OK) {
        release(w);
    }
    return status;
}

kith_status kin_writer_open(kith_ctx *ctx, const char *path, kin_writer *w)
{
    return kin_writer_open_as(ctx, path, true, w, NULL);
}

static kith_status check_written(kin_writer *w, int error)
{
    return error == 0 ? KITH_OK : fail_io(w, "cannot be written", error);
}

static kith_status flush(kin_writer *w)
{
    const uint64_t bytes = w->used;
    w->used = 0;
    KIN_TRY(check_written(w, kin_file_write(w->file, w->buffer, bytes, -1)));
    w->written += bytes;
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

kith_status kin_writer_print(kin_writer *w, const char *format, ...)
{
    char text[KIN_WRITER_TEXT];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kin_writer_put(w, text, (uint64_t)length);
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
    return check_written(w, kin_file_write(w->file, data, bytes, (int64_t)offset));
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
    const int error = kin_file_sync(w->file, false);
    return error == 0 ? KITH_OK : fail_io(w, "cannot be brought to disk", error);
}

/* Some file systems cannot sync a folder and say EINVAL; there is nothing more to do then. */
static kith_status sync_folder(kin_writer *w)
{
    const int folder = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return KITH_OK; /* a folder may be writable and not readable */
    }
    const int error = kin_file_sync(folder, false);
    (void)close(folder);
    KIN_FAIL_IF(error != 0 && error != EINVAL, w->ctx, KITH_E_IO, kin_at_file(w->path),
                "is written, but its folder cannot be synced: %s", strerror(error));
    return KITH_OK;
}

static kith_status replace_target(kin_writer *w)
{
    if (!w->named) {
        const int error = take_name(w);
        if (error != 0) {
            return fail_io(w, "cannot be given its name", error);
        }
        w->named = true;
    }
    if (rename(w->temporary, w->target) != 0) {
        return fail_io(w, "cannot be replaced", errno);
    }
    w->named = false;
    return KITH_OK;
}

static kith_status commit(kin_writer *w)
{
    if (w->passing) {
        return flush(w);
    }
    if (w->kept) {
        keep_mode(w);
    }
    KIN_TRY(kin_writer_sync(w));
    /* Where nothing has the target's name there is no moment between two names. */
    if (w->named || link_file(w->file, w->target) != 0) {
        KIN_TRY(replace_target(w));
    }
    return sync_folder(w);
}

kith_status kin_writer_close(kin_writer *w, kith_status status)
{
    KIN_THEN(status, commit(w));
    release(w);
    return status;
}
