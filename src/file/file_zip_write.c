/* SPDX-License-Identifier: Apache-2.0
 *
 *     | local header, name, extra | bytes | ... | central directory | (zip64 end) | end |
 *
 * Dates are 1980-01-01, the system is Unix, everything is stored: equal members, equal archives.
 */
#include "base/base_try.h"
#include "file/file_zip.h"

#include <zlib.h>

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
    if (zip->count == KIN_ZIP_MEMBERS || strlen(name) >= KIN_ZIP_NAME) {
        return kin_fail_at(zip->writer->ctx, KITH_E_INTERNAL, kin_at_file(zip->writer->path),
                           "member '%s' does not fit", name);
    }
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
