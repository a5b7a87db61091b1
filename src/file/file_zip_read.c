/* SPDX-License-Identifier: Apache-2.0
 * Every number in an archive is somebody's claim; each is held against the bytes that are there. */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_gzip.h"
#include "file/file_zip.h"

#include <inttypes.h>
#include <zlib.h>

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    COMMENT_MAX = 65535,
    EXTRA_ZIP64 = 1,
    FLAG_ENCRYPTED = 1,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    DEFLATE_RATIO = 1032 /* what deflate gains at most */
};

typedef struct archive {
    kith_ctx *ctx;
    const char *path;
    const unsigned char *data;
    uint64_t bytes;
    uint64_t directory; /* offset and length of the central directory */
    uint64_t directory_bytes;
    uint64_t count;
} archive;

static uint64_t load(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, (size_t)bytes);
    return value;
}

static bool lies_in(const archive *a, uint64_t offset, uint64_t bytes)
{
    return offset <= a->bytes && bytes <= a->bytes - offset;
}

static kith_status fail_damaged(const archive *a, const char *what)
{
    return kin_fail_at(a->ctx, KITH_E_FORMAT, kin_at_file(a->path),
                       "%s (it is cut short or damaged: make it again)", what);
}

/* The end record stands last, before a comment of unknown length. */
static bool find_end(const archive *a, uint64_t *end)
{
    for (uint64_t back = END_BYTES; back <= END_BYTES + COMMENT_MAX && back <= a->bytes; back++) {
        const uint64_t at = a->bytes - back;
        if (load(a->data + at, 4) == 0x06054b50u &&
            load(a->data + at + 20, 2) == back - END_BYTES) {
            *end = at;
            return true;
        }
    }
    return false;
}

static kith_status read_end64(archive *a, uint64_t end)
{
    if (end < LOCATOR_BYTES || load(a->data + end - LOCATOR_BYTES, 4) != 0x07064b50u) {
        return KITH_OK;
    }
    const uint64_t at = load(a->data + end - LOCATOR_BYTES + 8, 8);
    if (!lies_in(a, at, END64_BYTES) || load(a->data + at, 4) != 0x06064b50u) {
        return fail_damaged(a, "its zip64 end record is not where it should be");
    }
    a->count = load(a->data + at + 32, 8);
    a->directory_bytes = load(a->data + at + 40, 8);
    a->directory = load(a->data + at + 48, 8);
    return KITH_OK;
}

static kith_status read_end(archive *a)
{
    uint64_t end = 0;
    if (a->bytes < 4 || load(a->data, 2) != 0x4b50u) {
        return kin_fail_at(a->ctx, KITH_E_FORMAT, kin_at_file(a->path),
                           "does not begin with the magic of .npz (is it of another format?)");
    }
    if (!find_end(a, &end)) {
        return fail_damaged(a, "has no list of its members at its end");
    }
    a->count = load(a->data + end + 10, 2);
    a->directory_bytes = load(a->data + end + 12, 4);
    a->directory = load(a->data + end + 16, 4);
    KIN_TRY(read_end64(a, end));
    if (!lies_in(a, a->directory, a->directory_bytes)) {
        return fail_damaged(a, "the list of its members does not lie in it");
    }
    return KITH_OK;
}

/* The zip64 extra field holds, in this order, those of size, stored size and offset that are all
 * ones in the header. */
static void widen(const unsigned char *extra, uint64_t extra_bytes, uint64_t *fields[3])
{
    uint64_t at = 0;
    while (at + 4 <= extra_bytes) {
        const uint64_t id = load(extra + at, 2);
        const uint64_t bytes = load(extra + at + 2, 2);
        at += 4;
        if (bytes > extra_bytes - at) {
            return;
        }
        uint64_t inner = at;
        for (int i = 0; id == EXTRA_ZIP64 && i < 3; i++) {
            if (*fields[i] == KIN_ZIP_LIMIT && inner + 8 <= at + bytes) {
                *fields[i] = load(extra + inner, 8);
                inner += 8;
            }
        }
        at += bytes;
    }
}

static kith_status take_member(const archive *a, const unsigned char *entry,
                               kin_unzip_member *member)
{
    const uint64_t name_bytes = load(entry + 28, 2);
    uint64_t offset = load(entry + 42, 4);
    member->method = (uint32_t)load(entry + 10, 2);
    member->crc = (uint32_t)load(entry + 16, 4);
    member->stored_bytes = load(entry + 20, 4);
    member->bytes = load(entry + 24, 4);
    uint64_t *fields[3] = {&member->bytes, &member->stored_bytes, &offset};
    widen(entry + CENTRAL_BYTES + name_bytes, load(entry + 30, 2), fields);
    if ((load(entry + 8, 2) & FLAG_ENCRYPTED) != 0) {
        return kin_fail_at(a->ctx, KITH_E_FORMAT, kin_at_file(a->path),
                           "is encrypted (save it plainly)");
    }
    if (!lies_in(a, offset, LOCAL_BYTES) || load(a->data + offset, 4) != 0x04034b50u) {
        return fail_damaged(a, "a member is not where it should be");
    }
    const uint64_t start =
        offset + LOCAL_BYTES + load(a->data + offset + 26, 2) + load(a->data + offset + 28, 2);
    if (!lies_in(a, start, member->stored_bytes)) {
        return fail_damaged(a, "a member does not lie in it");
    }
    member->data = a->data + start;
    member->found = true;
    return KITH_OK;
}

kith_status kin_unzip_find(kith_ctx *ctx, const char *path, const kin_map *map, const char *name,
                           kin_unzip_member *member)
{
    memset(member, 0, sizeof *member);
    archive a = {.ctx = ctx, .path = path, .data = map->data, .bytes = map->bytes};
    KIN_TRY(read_end(&a));
    const size_t wanted = strlen(name);
    uint64_t at = a.directory;
    const uint64_t end = a.directory + a.directory_bytes;
    for (uint64_t i = 0; i < a.count; i++) {
        if (end - at < CENTRAL_BYTES || load(a.data + at, 4) != 0x02014b50u) {
            return fail_damaged(&a, "the list of its members is broken");
        }
        const unsigned char *entry = a.data + at;
        const uint64_t name_bytes = load(entry + 28, 2);
        const uint64_t bytes =
            CENTRAL_BYTES + name_bytes + load(entry + 30, 2) + load(entry + 32, 2);
        if (bytes > end - at) {
            return fail_damaged(&a, "the list of its members is broken");
        }
        if (name_bytes == wanted && memcmp(entry + CENTRAL_BYTES, name, wanted) == 0) {
            return take_member(&a, entry, member);
        }
        at += bytes;
    }
    return KITH_OK;
}

/* True when the stream ends exactly where both lengths say. */
static bool inflate_all(z_stream *stream, const kin_unzip_member *member, unsigned char *out)
{
    static const uint64_t PIECE = 1u << 30;
    uint64_t in_left = member->stored_bytes;
    uint64_t out_left = member->bytes;
    stream->next_in = (z_const Bytef *)(uintptr_t)member->data;
    stream->next_out = out;
    int result = Z_OK;
    while (result == Z_OK) {
        const uInt in = (uInt)(in_left < PIECE ? in_left : PIECE);
        const uInt room = (uInt)(out_left < PIECE ? out_left : PIECE);
        stream->avail_in = in;
        stream->avail_out = room;
        result = inflate(stream, Z_NO_FLUSH);
        in_left -= in - stream->avail_in;
        out_left -= room - stream->avail_out;
    }
    return result == Z_STREAM_END && in_left == 0 && out_left == 0;
}

static kith_status inflate_member(kith_ctx *ctx, const char *label, const kin_unzip_member *member,
                                  void **block)
{
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    stream.zalloc = kin_zlib_allocate;
    stream.zfree = kin_zlib_release;
    stream.opaque = ctx;
    KIN_TRY(kin_alloc(ctx, block, member->bytes, 1, "a decompressed member"));
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
        return kin_fail_at(ctx, KITH_E_MEMORY, kin_at_file(label),
                           "no memory to decompress it (free some memory)");
    }
    const bool whole = inflate_all(&stream, member, *block);
    (void)inflateEnd(&stream);
    return whole ? KITH_OK
                 : kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(label),
                               "does not decompress to the %" PRIu64
                               " bytes announced (it is damaged: make it again)",
                               member->bytes);
}

kith_status kin_unzip_load(kith_ctx *ctx, const char *label, const kin_unzip_member *member,
                           const unsigned char **data, void **block)
{
    const bool stored = member->method == METHOD_STORED;
    if (!stored && member->method != METHOD_DEFLATED) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(label),
                           "is compressed by method %" PRIu32
                           ", kith reads stored and deflated members (save it with numpy.savez)",
                           member->method);
    }
    const uint64_t most =
        stored ? member->stored_bytes : kin_size_mul(member->stored_bytes, DEFLATE_RATIO);
    if (member->bytes > most || (stored && member->bytes != most)) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(label),
                           "announces %" PRIu64 " bytes, which its %" PRIu64
                           " in the file cannot hold (it is damaged: make it again)",
                           member->bytes, member->stored_bytes);
    }
    *data = member->data;
    if (!stored) {
        KIN_TRY(inflate_member(ctx, label, member, block));
        *data = *block;
    }
    if ((uint32_t)crc32_z(0, *data, (size_t)member->bytes) != member->crc) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(label),
                           "its checksum is wrong (it is damaged: make it again)");
    }
    return KITH_OK;
}
