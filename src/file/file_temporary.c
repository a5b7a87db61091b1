/* SPDX-License-Identifier: Apache-2.0
 * The protocol: a name is removed or renamed by nobody but the holder of the lock on the file that
 * has it. So who holds the lock, and then sees that the name still is this file's, may remove it.
 */
#define _GNU_SOURCE
#include "file/file_temporary.h"

#include "base/base_random.h"
#include "file/file_checksum.h"
#include "host/host_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAMES = 4, TRIES = 16, ROUNDS = 1000 };

/* Whose a name is. On file systems without locks that cannot be known. */
typedef enum owner { NOBODY, SOMEBODY, UNKNOWN } owner;

static void print_name(const char *folder, const char *target, uint64_t number, char *path,
                       size_t room)
{
    const char *slash = strrchr(target, '/');
    const char *base = slash != NULL ? slash + 1 : target;
    (void)snprintf(path, room, "%s/.kith-%016" PRIx64 "-%" PRIx64 ".tmp", folder,
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

void kin_temporary_sweep(const char *folder, const char *target, char *path, size_t room)
{
    for (uint64_t i = 0; i < NAMES; i++) {
        print_name(folder, target, i, path, room);
        (void)remove_dead(path);
    }
}

static int link_file(int file, const char *path)
{
    char self[64];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* EEXIST, too, where somebody took the new file for a dead one before it was locked. */
static int create_file(const char *path, int mode, int *file)
{
    *file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
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
static int take_name(const char *path, int mode, int *file, owner *found)
{
    int error = EEXIST;
    *found = NOBODY;
    for (int i = 0; i < TRIES && *found == NOBODY; i++) {
        error = *file >= 0 ? link_file(*file, path) : create_file(path, mode, file);
        if (error != EEXIST && error != EINTR) {
            return error;
        }
        *found = error == EINTR ? NOBODY : remove_dead(path);
    }
    return error;
}

int kin_temporary_take(const char *folder, const char *target, char *path, size_t room, int mode,
                       int *file)
{
    const struct timespec a_while = {0, 1000000};
    uint64_t state = (uint64_t)kin_clock_ns() ^ ((uint64_t)getpid() << 40);
    if (*file >= 0) {
        (void)flock(*file, LOCK_EX | LOCK_NB); /* nobody else has it; there may be no locks */
    }
    for (int round = 0; round < ROUNDS; round++) {
        bool unknown = false;
        for (uint64_t i = 0; i <= NAMES; i++) {
            owner found = NOBODY;
            if (i == NAMES && !unknown) {
                break; /* all are at work, and will be done */
            }
            print_name(folder, target, i < NAMES ? i : kin_random_next(&state), path, room);
            const int error = take_name(path, mode, file, &found);
            if (error != EEXIST && error != EINTR) {
                return error;
            }
            unknown = unknown || found == UNKNOWN;
        }
        (void)nanosleep(&a_while, NULL);
    }
    return EBUSY;
}
