/* SPDX-License-Identifier: Apache-2.0
 * Neighbours and selections as NumPy's .npz, neighbours as the sparse matrix of SciPy's load_npz.
 */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "file/file_numpy.h"
#include "file/file_open.h"

#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

/* ---- A zip archive --------------------------------------------------------------------------- */

/*     | local header, name, extra | bytes | ... | central directory | (zip64 end) | end |
 *
 * Dates are 1980-01-01, the system is Unix, everything is stored: equal members, equal archives. */

enum {
    ALIGNMENT = 64,
    VERSION_STORED = 20,
    VERSION_ZIP64 = 45,
    SYSTEM_UNIX = 3,
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
        add(&r, KIN_ZIP_EXTRA64, 2);
        add(&r, 16, 2);
        add(&r, bytes, 8);
        add(&r, bytes, 8);
    }
    add_alignment(&r, e->offset);
    const uint16_t extra_bytes = (uint16_t)(r.used - extra);
    memcpy(r.bytes + KIN_ZIP_LOCAL_BYTES - 2, &extra_bytes, sizeof extra_bytes);
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

/* As kin_zip_put, for bytes of this CRC that somebody else places in the file. */
static kith_status zip_skip(kin_zip *zip, uint64_t bytes, uint32_t crc)
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
        add(&r, KIN_ZIP_EXTRA64, 2);
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
    add(r, KIN_ZIP_END64_BYTES - 12, 8);
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

/* ---- Arrays ---------------------------------------------------------------------------------- */

enum { COLUMN_BYTES = 1 << 15 };

/* Items on their way into a member, ids among them as int32 or int64. */
typedef struct column {
    kin_zip *zip;
    bool wide;
    uint64_t used;
    unsigned char bytes[COLUMN_BYTES];
} column;

static kith_status column_flush(column *c)
{
    const uint64_t used = c->used;
    c->used = 0;
    return kin_zip_put(c->zip, c->bytes, used);
}

/* Of 4 or 8 bytes, all of a member alike. */
static inline kith_status column_put(column *c, const void *item, size_t bytes)
{
    memcpy(c->bytes + c->used, item, bytes);
    c->used += bytes;
    return c->used == COLUMN_BYTES ? column_flush(c) : KITH_OK;
}

static kith_status column_put_id(column *c, int64_t id)
{
    const int32_t narrow = (int32_t)id;
    return c->wide ? column_put(c, &id, sizeof id) : column_put(c, &narrow, sizeof narrow);
}

/* What was put ends the member. */
static kith_status column_end(column *c)
{
    KIN_TRY(column_flush(c));
    return kin_zip_member_end(c->zip);
}

typedef struct array {
    const char *name;
    const char *descr; /* of its items */
    int axes;
    int64_t rows;
    int64_t cols;
    uint64_t bytes;
} array;

/* Columns of ids are as wide as the largest asks for. */
static const char *id_descr(const column *c)
{
    return c->wide ? "<i8" : "<i4";
}

static uint64_t id_bytes(const column *c, int64_t count)
{
    return (uint64_t)count * (c->wide ? 8 : 4);
}

static kith_status begin_array(kin_zip *zip, const array *a)
{
    char header[KIN_NPY_HEADER_MAX];
    const uint64_t header_bytes = kin_npy_header(header, a->descr, a->axes, a->rows, a->cols);
    KIN_TRY(kin_zip_member(zip, a->name, header_bytes + a->bytes));
    return kin_zip_put(zip, header, header_bytes);
}

static kith_status put_array(kin_zip *zip, const array *a, const void *data)
{
    KIN_TRY(begin_array(zip, a));
    KIN_TRY(kin_zip_put(zip, data, a->bytes));
    return kin_zip_member_end(zip);
}

static bool any_beyond_int32(const uint32_t *ids, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] > INT32_MAX && ids[i] != KITH_ID_NONE) {
            return true;
        }
    }
    return false;
}

static kith_status put_ids(const uint32_t *ids, int64_t rows, int64_t k, column *c)
{
    kin_zip *zip = c->zip;
    const int64_t count = rows * k;
    c->wide = any_beyond_int32(ids, count);
    const array a = {"ids.npy", id_descr(c), 2, rows, k, id_bytes(c, count)};
    KIN_TRY(begin_array(zip, &a));
    if (c->wide) {
        for (int64_t i = 0; i < count; i++) {
            KIN_TRY(column_put_id(c, ids[i] == KITH_ID_NONE ? -1 : (int64_t)ids[i]));
        }
    } else { /* the same bits, KITH_ID_NONE being -1 */
        KIN_TRY(kin_zip_put(zip, ids, (uint64_t)count * sizeof ids[0]));
    }
    return column_end(c);
}

/* A zero-dimensional array of one string of UCS-4 letters. */
static kith_status put_meta(kin_zip *zip, const char text[KIN_META_TEXT], int length)
{
    uint32_t letters[KIN_META_TEXT];
    char descr[16];
    for (int i = 0; i < length; i++) {
        letters[i] = (unsigned char)text[i];
    }
    (void)snprintf(descr, sizeof descr, "<U%d", length);
    const array a = {
        .name = "meta.npy", .descr = descr, .bytes = (uint64_t)length * sizeof letters[0]};
    return put_array(zip, &a, letters);
}

/* The last of an archive's members; in a sparse matrix SciPy passes over it. */
static kith_status put_result_meta(kin_zip *zip, const kith_result_meta *meta, int64_t k)
{
    char text[KIN_META_TEXT];
    return put_meta(zip, text, kin_meta_print(text, meta, k));
}

static kith_status put_npz(kin_zip *zip, const void *what, column *c)
{
    const kin_saved *s = what;
    const kith_lists *lists = &s->lists;
    const uint64_t count = (uint64_t)kin_saved_before(s, lists->rows);
    const array a = {"distances.npy", "<f4", 2, lists->rows, s->k, count * sizeof(float)};
    zip->writer->total = kin_size_mul(count, lists->distances != NULL ? 8 : 4);
    KIN_TRY(put_ids(lists->ids, lists->rows, s->k, c));
    KIN_TRY(lists->distances != NULL ? put_array(zip, &a, lists->distances) : KITH_OK);
    return put_result_meta(zip, s->meta, s->k);
}

kith_status kin_npz_frame(kin_writer *writer, int64_t rows, int64_t k, const uint32_t crcs[2],
                          const kith_result_meta *meta)
{
    static const char *const names[2] = {"ids.npy", "distances.npy"};
    static const char *const descrs[2] = {"<i4", "<f4"};
    const uint64_t bytes = (uint64_t)rows * (uint64_t)k * 4;
    kin_zip zip;
    kin_zip_begin(&zip, writer);
    for (int i = 0; i < 2; i++) {
        const array a = {names[i], descrs[i], 2, rows, k, bytes};
        KIN_TRY(begin_array(&zip, &a));
        KIN_TRY(zip_skip(&zip, bytes, crcs[i]));
        KIN_TRY(kin_zip_member_end(&zip));
    }
    KIN_TRY(put_result_meta(&zip, meta, k));
    return kin_zip_end(&zip);
}

/* What an archive has, through a column; what: the caller's. */
typedef kith_status put_fn(kin_zip *zip, const void *what, column *c);

static kith_status save(kith_ctx *ctx, const char *path, put_fn *put, const void *what)
{
    column *c = NULL;
    kin_writer writer;
    kin_zip zip;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, c, 1, "a write buffer");
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    kin_zip_begin(&zip, &writer);
    c->zip = &zip;
    c->used = 0;
    kith_status status = put(&zip, what, c);
    KIN_THEN(status, kin_zip_end(&zip));
    return kin_writer_close(&writer, status);
}

kith_status kin_npz_save(const kin_saved *saved)
{
    return save(saved->ctx, saved->path, put_npz, saved);
}

/* ---- Selections ------------------------------------------------------------------------------ */

/* NumPy has no bfloat16; each of them is a float32. */
static kith_status put_bf16(column *c, const uint16_t *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t single = (uint32_t)values[i] << 16;
        KIN_TRY(column_put(c, &single, sizeof single));
    }
    return KITH_OK;
}

static kith_status put_values(kin_zip *zip, const kin_selected *selected, column *c)
{
    const uint64_t count = (uint64_t)selected->rows * (uint64_t)selected->k;
    const kin_item own = kin_item_of(selected->dtype);
    const kin_item item = own.kind == 'h' ? kin_item_make('f', 4) : own;
    char descr[8];
    kin_npy_descr(item, descr);
    const array a = {"values.npy",   descr,       2,
                     selected->rows, selected->k, count * (uint64_t)item.bytes};
    KIN_TRY(begin_array(zip, &a));
    KIN_TRY(own.kind == 'h' ? put_bf16(c, selected->values, count)
                            : kin_zip_put(zip, selected->values, a.bytes));
    return column_end(c);
}

static kith_status put_selected(kin_zip *zip, const void *what, column *c)
{
    const kin_selected *selected = what;
    zip->writer->total = kin_size_mul((uint64_t)selected->rows, (uint64_t)selected->k * 8);
    if (selected->ids != NULL) {
        KIN_TRY(put_ids(selected->ids, selected->rows, selected->k, c));
    }
    if (selected->values != NULL) {
        KIN_TRY(put_values(zip, selected, c));
    }
    char text[KIN_META_TEXT];
    const int length = snprintf(
        text, sizeof text,
        "{\"kind\": \"selection\", \"k\": %" PRId64 ", \"largest\": %s, \"sorted\": %s}",
        selected->k, selected->largest ? "true" : "false", selected->sorted ? "true" : "false");
    return put_meta(zip, text, length);
}

kith_status kin_selected_save(kith_ctx *ctx, const char *path, const kin_selected *selected)
{
    KIN_FAIL_IF(kin_format_of(path, KITH_FILE_LISTS_IN) != KIN_FORMAT_NPZ, ctx, KITH_E_ARGUMENT,
                kin_at_file(path), "a selection is saved as .npz (give this extension)");
    return save(ctx, path, put_selected, selected);
}

/* ---- Sparse matrices ------------------------------------------------------------------------- */

static int64_t count_entries(const kin_saved *s, int64_t first, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = kin_saved_before(s, first); i < kin_saved_before(s, end); i++) {
        count += s->lists.ids[i] != KITH_ID_NONE;
    }
    return count;
}

static kith_status put_indices(kin_zip *zip, const kin_saved *s, int64_t count, column *c)
{
    const int64_t end = kin_saved_before(s, s->lists.rows);
    const array a = {"indices.npy", id_descr(c), 1, count, 0, id_bytes(c, count)};
    KIN_TRY(begin_array(zip, &a));
    for (int64_t i = 0; i < end; i++) {
        if (s->lists.ids[i] != KITH_ID_NONE) {
            KIN_TRY(column_put_id(c, (int64_t)s->lists.ids[i]));
        }
    }
    return column_end(c);
}

static kith_status put_indptr(kin_zip *zip, const kin_saved *s, column *c)
{
    const int64_t rows = s->lists.rows;
    const array a = {"indptr.npy", id_descr(c), 1, rows + 1, 0, id_bytes(c, rows + 1)};
    int64_t at = 0;
    KIN_TRY(begin_array(zip, &a));
    KIN_TRY(column_put_id(c, at));
    for (int64_t row = 0; row < rows; row++) {
        at += count_entries(s, row, row + 1);
        KIN_TRY(column_put_id(c, at));
    }
    return column_end(c);
}

static kith_status put_data(kin_zip *zip, const kin_saved *s, int64_t count, column *c)
{
    const kith_lists *lists = &s->lists;
    const int64_t end = kin_saved_before(s, lists->rows);
    const array a = {"data.npy", "<f4", 1, count, 0, (uint64_t)count * sizeof(float)};
    KIN_TRY(begin_array(zip, &a));
    for (int64_t i = 0; i < end; i++) {
        const float value = lists->distances != NULL ? lists->distances[i] : 1.0F;
        KIN_TRY(lists->ids[i] != KITH_ID_NONE ? column_put(c, &value, sizeof value) : KITH_OK);
    }
    return column_end(c);
}

static kith_status put_csr(kin_zip *zip, const void *what, column *c)
{
    const kin_saved *s = what;
    const int64_t shape[2] = {s->lists.rows, s->cols};
    const int64_t count = count_entries(s, 0, s->lists.rows);
    c->wide = count > INT32_MAX || s->cols > INT32_MAX;
    zip->writer->total = kin_size_mul((uint64_t)count, c->wide ? 12 : 8);
    KIN_TRY(put_indices(zip, s, count, c));
    KIN_TRY(put_indptr(zip, s, c));
    const array of_format = {.name = "format.npy", .descr = "|S3", .bytes = 3};
    const array of_shape = {"shape.npy", "<i8", 1, 2, 0, sizeof shape};
    KIN_TRY(put_array(zip, &of_format, "csr"));
    KIN_TRY(put_array(zip, &of_shape, shape));
    KIN_TRY(put_data(zip, s, count, c));
    return put_result_meta(zip, s->meta, s->k);
}

kith_status kin_csr_save(const kin_saved *saved)
{
    return save(saved->ctx, saved->path, put_csr, saved);
}
