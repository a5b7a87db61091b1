/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli_stream.h"

#include "cli.h"
#include "cli_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 65536 };

/* FNV-1a. */
static uint64_t add(uint64_t sum, const unsigned char *data, ssize_t bytes)
{
    for (ssize_t i = 0; i < bytes; i++) {
        sum = (sum ^ data[i]) * 0x100000001b3u;
    }
    return sum;
}

/* All of them, whatever the system gives at a time; fewer where the file has been shortened. */
static ssize_t read_at(int file, unsigned char *to, size_t bytes, off_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(file, to + done, bytes - done, offset + (off_t)done);
        if (got == 0) {
            break;
        }
        if (got > 0) {
            done += (size_t)got;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return (ssize_t)done;
}

/* Of the first and the last piece. */
static bool sum_ends(int file, off_t bytes, uint64_t *sum)
{
    unsigned char piece[PIECE_BYTES];
    const off_t last = bytes > PIECE_BYTES ? bytes - PIECE_BYTES : 0;
    *sum = 0xcbf29ce484222325u;
    for (int i = 0; i < 2; i++) {
        const ssize_t got = read_at(file, piece, sizeof piece, i == 0 ? 0 : last);
        if (got < 0) {
            return false;
        }
        *sum = add(*sum, piece, got);
    }
    return true;
}

int cli_same_file(const char *what, const char *path, char *text, size_t room)
{
    struct stat info;
    char name[CLI_FILE_BYTES];
    uint64_t sum = 0;
    const char *dataset = strrchr(path, ':');
    CLI_FAIL_IF(strcmp(path, "-") == 0 || (stat(path, &info) == 0 && S_ISFIFO(info.st_mode)), path,
                "is a pipe, and a job in chunks looks for its files again when it "
                "goes on (give a file, or more --memory)");
    const int file = open(cli_file_of(path, name), O_RDONLY | O_CLOEXEC);
    const bool known = file >= 0 && fstat(file, &info) == 0 && sum_ends(file, info.st_size, &sum);
    const int error = errno;
    if (file >= 0) {
        (void)close(file);
    }
    CLI_FAIL_IF(!known, path, "cannot be read: %s (check the file)", strerror(error));
    (void)snprintf(text, room,
                   "%s %" PRId64 " bytes, file %" PRIu64 ", changed %" PRId64 ".%09ld and %" PRId64
                   ".%09ld, ends %016" PRIx64 "%.64s\n",
                   what, (int64_t)info.st_size, (uint64_t)info.st_ino, (int64_t)info.st_mtim.tv_sec,
                   (long)info.st_mtim.tv_nsec, (int64_t)info.st_ctim.tv_sec,
                   (long)info.st_ctim.tv_nsec, sum, dataset != NULL ? dataset : "");
    return CLI_DONE;
}

int cli_same_describe(const cli_args *args, char text[CLI_SAME_BYTES])
{
    static const char *const names[] = {"corpus", "queries"};
    size_t used = (size_t)snprintf(text, CLI_SAME_BYTES, "kith %s\nradius %.17g\nperiod %.512s\n",
                                   kith_version(), args->radius,
                                   args->period != NULL ? args->period : "none");
    int code = CLI_DONE;
    for (int i = 0; i < 2 && i < args->path_count && code == CLI_DONE; i++) {
        code = cli_same_file(names[i], args->paths[i], text + used, CLI_SAME_BYTES - used);
        used += code == CLI_DONE ? strlen(text + used) : 0;
    }
    return code;
}
