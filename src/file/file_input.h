/* SPDX-License-Identifier: Apache-2.0
 * The bytes of an input that is read from its first to its last: a file, mapped; what a .gz unpacks
 * to; what comes out of a pipe or standard input. */
#ifndef KIN_FILE_INPUT_H
#define KIN_FILE_INPUT_H

#include "base/base_ctx.h"
#include "host/host_map.h"

typedef struct kin_input {
    const unsigned char *data;
    uint64_t bytes;
    uint64_t file_bytes; /* before they were unpacked */
    bool compressed;
    kin_map map;
    void *block; /* the bytes, where they are not mapped */
} kin_input;

/* "-", standard input or output. */
bool kin_input_is_standard(const char *path);
/* Whether path is that, a pipe or a socket: what can be read once, and not mapped. */
bool kin_input_is_pipe(const char *path);
/* A path that ends in .gz is unpacked, and a pipe whose first bytes are a .gz' is. Empty input is
 * an error. */
kith_status kin_input_open(kith_ctx *ctx, const char *path, kin_input *input);
/* A file, mapped as it is. The input is to be closed whatever comes of it. */
kith_status kin_input_map(kith_ctx *ctx, const char *path, kin_input *input);
kith_status kin_input_check_empty(kith_ctx *ctx, const char *path, uint64_t bytes);
/* Accepts one that is all zero, and leaves one. */
void kin_input_close(kith_ctx *ctx, kin_input *input);

/* ---- .gz ------------------------------------------------------------------------------------- */

/* .gz in memory to its bytes in memory. */

/* For zlib's streams: memory of the context, which is their opaque pointer. */
void *kin_zlib_allocate(void *ctx, unsigned count, unsigned bytes);
void kin_zlib_release(void *ctx, void *block);

#endif
