/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_gzip.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "host/host_threads.h"

#include <zlib.h>

enum { PIECE_BYTES = 1 << 20, GZIP_ONLY = 16 };

typedef struct unpacking {
    kith_ctx *ctx;
    const char *path;
    const unsigned char *from;
    uint64_t from_bytes;
    uint64_t from_left;
    unsigned char *to; /* NULL: what comes is counted and dropped, piece by piece */
    unsigned char *dropped;
    uint64_t unpacked;
    uint64_t room; /* of to */
} unpacking;

void *kin_zlib_allocate(void *ctx, unsigned count, unsigned bytes)
{
    void *block = NULL;
    (void)kin_alloc(ctx, &block, count, bytes, "decompression");
    return block;
}

void kin_zlib_release(void *ctx, void *block)
{
    kin_free(ctx, block);
}

bool kin_gzip_begins(const unsigned char *data, uint64_t bytes)
{
    return bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

static kith_status fail_damaged(const unpacking *u)
{
    return kin_fail_at(u->ctx, KITH_E_FORMAT, kin_at_file(u->path),
                       "is no .gz, or damaged (make it again)");
}

/* One step of inflate: at most a piece in, at most a piece out. */
static int step(unpacking *u, z_stream *stream)
{
    const uInt in = (uInt)(u->from_left < PIECE_BYTES ? u->from_left : PIECE_BYTES);
    stream->next_in = (z_const Bytef *)(uintptr_t)(u->from + (u->from_bytes - u->from_left));
    stream->avail_in = in;
    stream->next_out = u->to != NULL ? u->to + u->unpacked : u->dropped;
    const uint64_t room = u->to != NULL ? u->room - u->unpacked : PIECE_BYTES;
    const uInt out = (uInt)(room < PIECE_BYTES ? room : PIECE_BYTES);
    stream->avail_out = out;
    const int result = inflate(stream, Z_NO_FLUSH);
    u->from_left -= in - stream->avail_in;
    u->unpacked += out - stream->avail_out;
    return result;
}

/* Bytes behind the last member are no member: gunzip passes over zeros alone, and so do we. */
static bool only_zeros(const unpacking *u)
{
    for (uint64_t i = 0; i < u->from_left; i++) {
        if (u->from[u->from_bytes - u->from_left + i] != 0) {
            return false;
        }
    }
    return true;
}

static kith_status unpack_members(unpacking *u, z_stream *stream)
{
    u->from_left = u->from_bytes;
    u->unpacked = 0;
    while (u->from_left > 0) {
        const int result = step(u, stream);
        if (result != Z_OK && result != Z_STREAM_END) {
            return fail_damaged(u);
        }
        KIN_TRY(kin_progress(u->ctx, "read", (double)(u->from_bytes - u->from_left),
                             (double)u->from_bytes));
        if (result == Z_STREAM_END) {
            if (only_zeros(u)) {
                return KITH_OK;
            }
            if (inflateReset(stream) != Z_OK) {
                return fail_damaged(u);
            }
        }
    }
    /* All bytes are in; what zlib still holds comes out until the stream has ended. */
    for (int result = Z_OK; result != Z_STREAM_END;) {
        result = step(u, stream);
        if (result != Z_OK && result != Z_STREAM_END) {
            return fail_damaged(u);
        }
    }
    return KITH_OK;
}

static kith_status run(unpacking *u)
{
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    stream.zalloc = kin_zlib_allocate;
    stream.zfree = kin_zlib_release;
    stream.opaque = u->ctx;
    if (inflateInit2(&stream, MAX_WBITS + GZIP_ONLY) != Z_OK) {
        return kin_fail_at(u->ctx, KITH_E_MEMORY, kin_at_file(u->path),
                           "no memory to unpack it (free some memory)");
    }
    const kith_status status = unpack_members(u, &stream);
    (void)inflateEnd(&stream);
    return status;
}

kith_status kin_gzip_unpack(kith_ctx *ctx, const char *path, const unsigned char *data,
                            uint64_t bytes, unsigned char **block, uint64_t *unpacked)
{
    unpacking u = {.ctx = ctx, .path = path, .from = data, .from_bytes = bytes};
    *block = NULL;
    KIN_TRY(kin_alloc(ctx, &u.dropped, PIECE_BYTES, 1, "a read buffer"));
    kith_status status = run(&u);
    kin_free(ctx, u.dropped);
    KIN_TRY(status);
    /* A byte more: inflate wants room also where nothing is left to come. */
    u.room = u.unpacked + 1;
    KIN_TRY(kin_alloc(ctx, block, u.room, 1, "an unpacked file"));
    u.to = *block;
    status = run(&u);
    *unpacked = u.unpacked;
    if (status != KITH_OK) {
        kin_free(ctx, *block);
        *block = NULL;
    }
    return status;
}
