/* SPDX-License-Identifier: Apache-2.0
 * A file that is written whole or not at all.
 *
 * What is put goes to a file without a name (or, where the file system has no such thing, with a
 * temporary one) in the folder of the target. Closing with KITH_OK syncs it, renames it over the
 * target and syncs the folder; closing with anything else removes it and leaves an existing target
 * as it was. */
#ifndef KIN_FILE_ATOMIC_H
#define KIN_FILE_ATOMIC_H

#include "base/base_ctx.h"

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
    int file;
    bool named; /* the temporary name exists */
} kin_writer;

/* KITH_E_IO when there is no folder to write to, no right to, or when path is there and is no
 * regular file: renaming over a device would destroy it. */
kith_status kin_writer_open(kith_ctx *ctx, const char *path, kin_writer *writer);
kith_status kin_writer_put(kin_writer *writer, const void *data, uint64_t bytes);
/* That many bytes of 0, at most 4096. */
kith_status kin_writer_pad(kin_writer *writer, uint64_t bytes);
/* Overwrites bytes that were put before. */
kith_status kin_writer_patch(kin_writer *writer, uint64_t offset, const void *data, uint64_t bytes);
/* Bytes put so far. */
uint64_t kin_writer_offset(const kin_writer *writer);
/* Ends it, one way or the other, and gives back status or the error of its own. Must be called
 * exactly once after a successful open. */
kith_status kin_writer_close(kin_writer *writer, kith_status status);

#endif
