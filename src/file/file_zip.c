/* SPDX-License-Identifier: Apache-2.0
 *
 *     | local header, name, extra | bytes | ... | central directory | (zip64 end) | end |
 *
 * Dates are 1980-01-01, the system is Unix, everything is stored: equal members, equal archives.
 */
#include "file/file_numpy.h"

#include "base/base_mem.h"
#include "base/base_size.h"

#include <inttypes.h>

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ALIGNMENT = 64,
    VERSION_STORED = 20,
    VERSION_ZIP64 = 45,
    SYSTEM_UNIX = 3,
    EXTRA_ZIP64 = 1,
    EXTRA_ALIGN = 0xd935, /* zipalign's: alignment, then zeros */
    DATE_1980 = 0x21,
    CRC_OFFSET = 14,
    PIECE_BYTES = 65536
};

/* A record that is filled from left to right. */
typedef struct record {
    unsigned char bytes[256];
    uint64_t used;
} record;

static void add(record *r, uint64_t value, int bytes)
{
    memcpy(r->bytes + r->used, &value, (size_t)bytes); /* little-endian, as the host is */
    r->used += (uint64_t)bytes;
}

static void add_name(record *r, const char *name)
{
    const size_t bytes = strlen(name);
    memcpy(r->bytes + r->used, name, bytes);
    r->used += bytes;
}

static uint64_t narrow(const kin_zip *zip, uint64_t value)
{
    return value >= zip->limit ? KIN_ZIP_LIMIT : value;
}

void kin_zip_begin(kin_zip *zip, kin_writer *writer)
{
    memset(zip, 0, sizeof *zip);
    zip->writer = writer;
    zip->limit = KIN_ZIP_LIMIT;
}

/* What follows the signature in local and central header alike. */
static void add_common(const kin_zip *zip, record *r, const kin_zip_entry *e, bool wide)
{
    add(r, wide ? VERSION_ZIP64 : VERSION_STORED, 2);
    add(r, 0, 2); /* flags */
    add(r, 0, 2); /* method: stored */
    add(r, 0, 2); /* time */
    add(r, DATE_1980, 2);
    add(r, e->crc, 4);
    add(r, narrow(zip, e->bytes), 4); /* compressed, and not */
    add(r, narrow(zip, e->bytes), 4);
    add(r, strlen(e->name), 2);
}

/* An extra field of at least 6 bytes brings the member to an aligned offset. */
static void add_alignment(record *r, uint64_t start)
{
    const uint64_t used = (start + r->used) % ALIGNMENT;
    uint64_t gap = (ALIGNMENT - used) % ALIGNMENT;
    if (gap > 0 && gap < 6) {
        gap += ALIGNMENT;
    }
    if (gap > 0) {
        add(r, EXTRA_ALIGN, 2);
        add(r, gap - 4, 2);
        add(r, ALIGNMENT, 2);
        memset(r->bytes + r->used, 0, (size_t)(gap - 6));
        r->used += gap - 6;
    }
}

kith_status kin_zip_member(kin_zip *zip, const char *name, uint64_t bytes)
{
    kin_zip_entry *e = &zip->entries[zip->count];
    KIN_FAIL_IF(zip->count == KIN_ZIP_MEMBERS || strlen(name) >= KIN_ZIP_NAME, zip->writer->ctx,
                KITH_E_INTERNAL, kin_at_file(zip->writer->path), "member '%s' does not fit", name);
    memset(e, 0, sizeof *e);
    memcpy(e->name, name, strlen(name));
    e->offset = kin_writer_offset(zip->writer);
    e->bytes = bytes;
    e->crc = 0;
    const bool wide = bytes >= zip->limit;
    record r = {.used = 0};
    add(&r, 0x04034b50u, 4);
    add_common(zip, &r, e, wide);
    add(&r, 0, 2); /* length of the extra fields, below */
    add_name(&r, name);
    const uint64_t extra = r.used;
    if (wide) {
        add(&r, EXTRA_ZIP64, 2);
        add(&r, 16, 2);
        add(&r, bytes, 8);
        add(&r, bytes, 8);
    }
    add_alignment(&r, e->offset);
    const uint16_t extra_bytes = (uint16_t)(r.used - extra);
    memcpy(r.bytes + LOCAL_BYTES - 2, &extra_bytes, sizeof extra_bytes);
    return kin_writer_put(zip->writer, r.bytes, r.used);
}

kith_status kin_zip_put(kin_zip *zip, const void *data, uint64_t bytes)
{
    kin_zip_entry *e = &zip->entries[zip->count];
    const unsigned char *from = data;
    while (bytes > 0) { /* small pieces are still in the cache when they are copied */
        const uint64_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        e->crc = (uint32_t)crc32_z(e->crc, from, (size_t)piece);
        KIN_TRY(kin_writer_put(zip->writer, from, piece));
        from += piece;
        bytes -= piece;
    }
    return KITH_OK;
}

kith_status kin_zip_skip(kin_zip *zip, uint64_t bytes, uint32_t crc)
{
    kin_zip_entry *e = &zip->entries[zip->count];
    e->crc = (uint32_t)crc32_combine(e->crc, crc, (z_off_t)bytes);
    return kin_writer_skip(zip->writer, bytes);
}

kith_status kin_zip_member_end(kin_zip *zip)
{
    kin_zip_entry *e = &zip->entries[zip->count];
    zip->count += 1;
    return kin_writer_patch(zip->writer, e->offset + CRC_OFFSET, &e->crc, sizeof e->crc);
}

static kith_status put_central(kin_zip *zip, const kin_zip_entry *e)
{
    const bool wide_size = e->bytes >= zip->limit;
    const bool wide_offset = e->offset >= zip->limit;
    const uint64_t wide_bytes = (wide_size ? 16u : 0u) + (wide_offset ? 8u : 0u);
    const bool wide = wide_bytes > 0;
    record r = {.used = 0};
    add(&r, 0x02014b50u, 4);
    add(&r, SYSTEM_UNIX << 8 | (wide ? VERSION_ZIP64 : VERSION_STORED), 2);
    add_common(zip, &r, e, wide);
    add(&r, wide ? 4 + wide_bytes : 0, 2);
    add(&r, 0, 2);              /* comment */
    add(&r, 0, 2);              /* disk */
    add(&r, 0, 2);              /* internal attributes */
    add(&r, 0100644u << 16, 4); /* a regular file, rw-r--r-- */
    add(&r, narrow(zip, e->offset), 4);
    add_name(&r, e->name);
    if (wide) {
        add(&r, EXTRA_ZIP64, 2);
        add(&r, wide_bytes, 2);
    }
    if (wide_size) {
        add(&r, e->bytes, 8);
        add(&r, e->bytes, 8);
    }
    if (wide_offset) {
        add(&r, e->offset, 8);
    }
    return kin_writer_put(zip->writer, r.bytes, r.used);
}

static void add_end64(record *r, const kin_zip *zip, uint64_t start, uint64_t bytes)
{
    add(r, 0x06064b50u, 4);
    add(r, END64_BYTES - 12, 8);
    add(r, SYSTEM_UNIX << 8 | VERSION_ZIP64, 2);
    add(r, VERSION_ZIP64, 2);
    add(r, 0, 4);
    add(r, 0, 4);
    add(r, (uint64_t)zip->count, 8);
    add(r, (uint64_t)zip->count, 8);
    add(r, bytes, 8);
    add(r, start, 8);
    add(r, 0x07064b50u, 4); /* the locator */
    add(r, 0, 4);
    add(r, start + bytes, 8);
    add(r, 1, 4);
}

kith_status kin_zip_end(kin_zip *zip)
{
    const uint64_t start = kin_writer_offset(zip->writer);
    for (int i = 0; i < zip->count; i++) {
        KIN_TRY(put_central(zip, &zip->entries[i]));
    }
    const uint64_t bytes = kin_writer_offset(zip->writer) - start;
    record r = {.used = 0};
    if (start >= zip->limit) {
        add_end64(&r, zip, start, bytes);
    }
    add(&r, 0x06054b50u, 4);
    add(&r, 0, 2);
    add(&r, 0, 2);
    add(&r, (uint64_t)zip->count, 2);
    add(&r, (uint64_t)zip->count, 2);
    add(&r, bytes, 4);
    add(&r, narrow(zip, start), 4);
    add(&r, 0, 2); /* comment */
    return kin_writer_put(zip->writer, r.bytes, r.used);
}

/* ---- Read ------------------------------------------------------------------------------------ */

/* Every number in an archive is somebody's claim; each is held against the bytes that are there. */

enum {
    COMMENT_MAX = 65535,
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
    KIN_DAMAGED_IF(a->bytes < 4 || load(a->data, 2) != 0x4b50u, a->ctx, a->path,
                   "does not begin with the magic of .npz (is it of another format?)");
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
    KIN_DAMAGED_IF((load(entry + 8, 2) & FLAG_ENCRYPTED) != 0, a->ctx, a->path,
                   "is encrypted (save it plainly)");
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

/* The stream ends exactly where both lengths say. */
static kith_status whole(kin_inflating *u)
{
    int result = Z_OK;
    while (result == Z_OK) {
        result = kin_inflate_step(u);
    }
    KIN_SOUND_IF(
        result == Z_STREAM_END && u->from_left == 0 && u->unpacked == u->room, u->ctx, u->path,
        "does not decompress to the %" PRIu64 " bytes announced (it is damaged: make it again)",
        u->room);
}

kith_status kin_unzip_load(kith_ctx *ctx, const char *label, const kin_unzip_member *member,
                           const unsigned char **data, void **block)
{
    const bool stored = member->method == METHOD_STORED;
    KIN_DAMAGED_IF(!stored && member->method != METHOD_DEFLATED, ctx, label,
                   "is compressed by method %" PRIu32
                   ", kith reads stored and deflated members (save it with numpy.savez)",
                   member->method);
    const uint64_t most =
        stored ? member->stored_bytes : kin_size_mul(member->stored_bytes, DEFLATE_RATIO);
    KIN_DAMAGED_IF(member->bytes > most || (stored && member->bytes != most), ctx, label,
                   "announces %" PRIu64 " bytes, which its %" PRIu64
                   " in the file cannot hold (it is damaged: make it again)",
                   member->bytes, member->stored_bytes);
    *data = member->data;
    if (!stored) {
        KIN_TRY(kin_alloc(ctx, block, member->bytes, 1, "a decompressed member"));
        kin_inflating u = {.ctx = ctx,
                           .path = label,
                           .from = member->data,
                           .from_bytes = member->stored_bytes,
                           .to = *block,
                           .room = member->bytes};
        KIN_TRY(kin_inflate_all(&u, -MAX_WBITS, "decompress", whole));
        *data = *block;
    }
    KIN_DAMAGED_IF((uint32_t)crc32_z(0, *data, (size_t)member->bytes) != member->crc, ctx, label,
                   "its checksum is wrong (it is damaged: make it again)");
    return KITH_OK;
}
