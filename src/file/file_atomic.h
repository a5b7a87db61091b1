/* SPDX-License-Identifier: Apache-2.0
 * A file that is written whole or not at all.
 *
 * What is put goes to a file without a name (or, where the file system has no such thing, with a
 * hidden one) in the folder of the target. Closing with KITH_OK syncs it, gives
 * it the target's name (where that is another file's already: a hidden one, and renames it over
 * that) and syncs the folder; closing with anything else removes it (but see below) and leaves an
 * existing target as it was. */
#ifndef KIN_FILE_ATOMIC_H
#define KIN_FILE_ATOMIC_H

#include "base/base_ctx.h"

enum { KIN_WRITER_HOLES = 3 };

typedef struct kin_writer {
    kith_ctx *ctx;
    const char *path; /* as the caller gave it, for messages; borrowed */
    char *target;     /* the same with symbolic links resolved */
    char *folder;
    char *temporary;
    unsigned char *buffer;
    uint64_t used;    /* bytes in the buffer */
    uint64_t written; /* bytes before the buffer */
    uint64_t total;   /* what the caller expects to put, for progress; 0 = unknown */
    uint64_t holes[KIN_WRITER_HOLES]; /* where what was left out begins, in its order */
    int hole_count;
    int file;
    bool named;    /* the temporary name exists */
    bool kept;     /* and stays when it is not finished */
    bool passing;  /* to a pipe or the like: nothing is renamed at the end */
    bool reserved; /* all bytes have their places on the disk, and keep them */
} kin_writer;

/* KITH_E_IO when there is no folder to write to, no right to, or when path is there and is no
 * regular file: renaming over a device would destroy it. */
kith_status kin_writer_open(kith_ctx *ctx, const char *path, kin_writer *writer);

/* What is put from the first byte to the last may also go to a pipe, a device or, as "-", to
 * standard output: there it stands as soon as it was put. */
kith_status kin_writer_open_text(kith_ctx *ctx, const char *path, kin_writer *writer);

/* follows: a symbolic link at path, as kin_writer_open does; else, for a name that is kith's own,
 * in a folder where others may write, it is replaced itself, and not what it points to. found:
 * NULL, or a file of many hours: what is put goes to TARGET.partial, which stays when this is
 * closed with anything but KITH_OK, or when the process dies; *found: it was there already, with
 * what somebody had put. KITH_E_IO where another process is at it. */
kith_status kin_writer_open_as(kith_ctx *ctx, const char *path, bool follows, kin_writer *writer,
                               bool *found);
/* Begins to put from the first byte again; what stands behind it stays. */
kith_status kin_writer_rewind(kin_writer *writer);
/* Removes the file, whatever it holds, when it is closed with anything but KITH_OK. */
static inline void kin_writer_drop(kin_writer *writer)
{
    writer->kept = false;
}

kith_status kin_writer_put(kin_writer *writer, const void *data, uint64_t bytes);
/* Text of that format, less than KIN_WRITER_TEXT bytes of it. */
enum { KIN_WRITER_TEXT = 256 };
kith_status kin_writer_print(kin_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* That many bytes of 0, at most 4096. */
kith_status kin_writer_pad(kin_writer *writer, uint64_t bytes);
/* Leaves bytes out: whoever placed them there, or will, uses kin_writer_patch. */
kith_status kin_writer_skip(kin_writer *writer, uint64_t bytes);
/* Overwrites bytes that were put before. */
kith_status kin_writer_patch(kin_writer *writer, uint64_t offset, const void *data, uint64_t bytes);
/* Gives back the buffer, if it is empty, until somebody puts again. */
void kin_writer_rest(kin_writer *writer);
/* The disk is asked for all of the file now, not after hours; some file systems cannot say, and
 * that is KITH_OK. Bytes are then the size of the file. */
kith_status kin_writer_reserve(kin_writer *writer, uint64_t bytes);
/* Patches what is reserved, by all threads of the writer's context where that is possible. */
kith_status kin_writer_patch_wide(kin_writer *writer, uint64_t offset, const void *data,
                                  uint64_t bytes);
/* The disk may begin with these bytes, which were patched: who syncs later waits less. */
void kin_writer_urge(const kin_writer *writer, uint64_t offset, uint64_t bytes);
/* Bytes put so far. */
uint64_t kin_writer_offset(const kin_writer *writer);
/* What was put and patched is on disk. */
kith_status kin_writer_sync(kin_writer *writer);
/* Ends it, one way or the other, and gives back status or the error of its own. Must be called
 * exactly once after a successful open. */
kith_status kin_writer_close(kin_writer *writer, kith_status status);

#endif
