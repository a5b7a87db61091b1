/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_container.h"
#include "base/base_mem.h"
#include "base/base_size.h"
#include "file/file_atomic.h"
#include "file/file_reader.h"

#include <inttypes.h>
#include <math.h>

static uint64_t section_bytes(const kin_section *section)
{
    const kith_matrix *m = section->matrix;
    if (m == NULL) {
        return section->bytes;
    }
    const uint64_t row = kin_size_mul((uint64_t)m->cols, (uint64_t)kin_item_of(m->dtype).bytes);
    return kin_size_mul((uint64_t)m->rows, row);
}

/* In pieces, so that what the checksum has read is still in the cache when it is copied. NULL:
 * zeros. */
static kith_status put_bytes(kin_writer *writer, const unsigned char *data, uint64_t bytes,
                             kin_checksum *sum)
{
    static const unsigned char zeros[4096];
    const uint64_t most = data != NULL ? 65536 : sizeof zeros;
    for (uint64_t at = 0; at < bytes; at += most) {
        const uint64_t piece = bytes - at < most ? bytes - at : most;
        const unsigned char *from = data != NULL ? data + at : zeros;
        kin_checksum_add(sum, from, piece);
        KIN_TRY(kin_writer_put(writer, from, piece));
    }
    return KITH_OK;
}

static kith_status put_matrix(kin_writer *writer, const kith_matrix *m, kin_checksum *sum)
{
    const int64_t row_bytes = (int64_t)m->cols * kin_item_of(m->dtype).bytes;
    const int64_t stride = m->stride_bytes != 0 ? m->stride_bytes : row_bytes;
    for (int64_t row = 0; row < m->rows; row++) {
        KIN_TRY(put_bytes(writer, (const unsigned char *)m->data + row * stride,
                          (uint64_t)row_bytes, sum));
    }
    return KITH_OK;
}

static kith_status put_section(kin_writer *writer, const kin_section *section,
                               kin_layout_entry *entry)
{
    const uint64_t here = kin_writer_offset(writer);
    KIN_TRY(kin_writer_pad(writer, kin_layout_align(here) - here));
    memset(entry, 0, sizeof *entry);
    memcpy(entry->tag, section->tag, strnlen(section->tag, KIN_TAG_BYTES - 1));
    entry->offset = kin_writer_offset(writer);
    entry->bytes = section_bytes(section);
    if (section->placed != NULL) {
        entry->checksum = *section->placed;
        return kin_writer_skip(writer, section->bytes);
    }
    kin_checksum sum;
    kin_checksum_begin(&sum);
    if (section->matrix != NULL) {
        KIN_TRY(put_matrix(writer, section->matrix, &sum));
    } else {
        KIN_TRY(put_bytes(writer, section->data, section->bytes, &sum));
    }
    entry->checksum = kin_checksum_end(&sum);
    return KITH_OK;
}

static kin_layout_header make_header(const kin_container_header *header, int32_t count)
{
    kin_layout_header layout;
    memset(&layout, 0, sizeof layout);
    memcpy(layout.magic, KIN_CONTAINER_MAGIC, sizeof layout.magic);
    layout.format = KIN_CONTAINER_FORMAT;
    layout.kind = (uint32_t)header->kind;
    layout.dtype = (uint32_t)header->dtype;
    layout.metric = (uint32_t)header->metric;
    layout.exact = (uint32_t)header->exact;
    layout.section_count = (uint32_t)count;
    layout.rows = header->rows;
    layout.cols = header->cols;
    layout.k = header->k;
    layout.corpus_rows = header->corpus_rows;
    layout.recall = header->recall;
    layout.recall_at = header->recall_at;
    layout.points_cols = header->points.cols;
    layout.points_dtype = (uint32_t)header->points.dtype;
    layout.points_checksum = header->points.checksum;
    return layout;
}

/* Sections first, behind room for header and table, which are known only when all is written. */
kith_status kin_container_put(kin_writer *writer, const kin_container_header *header,
                              const kin_section *sections, int32_t count)
{
    kin_layout_entry table[KIN_SECTIONS_MAX];
    const uint64_t table_end = kin_layout_table_end((uint64_t)count);
    writer->total = table_end;
    for (int32_t i = 0; i < count; i++) {
        writer->total = kin_layout_align(writer->total);
        writer->total = kin_size_add(writer->total, section_bytes(&sections[i]));
    }
    KIN_TRY(kin_writer_pad(writer, table_end));
    for (int32_t i = 0; i < count; i++) {
        KIN_TRY(put_section(writer, &sections[i], &table[i]));
    }
    kin_layout_header layout = make_header(header, count);
    layout.file_bytes = kin_writer_offset(writer);
    layout.checksum = kin_layout_checksum(&layout, table);
    KIN_TRY(kin_writer_patch(writer, 0, &layout, sizeof layout));
    return kin_writer_patch(writer, sizeof layout, table, (uint64_t)count * sizeof table[0]);
}

kith_status kin_container_write(kith_ctx *ctx, const char *path, const kin_container_header *header,
                                const kin_section *sections, int32_t count)
{
    KIN_FAIL_IF(count < 0 || count > KIN_SECTIONS_MAX, ctx, KITH_E_INTERNAL, kin_at_file(path),
                "%d sections in one file, at most %d are possible", count, KIN_SECTIONS_MAX);
    kin_writer writer;
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    return kin_writer_close(&writer, kin_container_put(&writer, header, sections, count));
}

/* ---- Read ------------------------------------------------------------------------------------ */

static kith_status check_magic(kith_ctx *ctx, const kin_container *c)
{
    const kin_layout_header *layout = (const void *)c->map.data;
    KIN_TRY(kin_input_check_empty(ctx, c->path, c->map.bytes));
    KIN_DAMAGED_IF(c->map.bytes < sizeof *layout, ctx, c->path,
                   "has %" PRIu64
                   " bytes, less than the %zu of its header (it is cut short: make it again)",
                   c->map.bytes, sizeof *layout);
    KIN_DAMAGED_IF(memcmp(layout->magic, KIN_CONTAINER_MAGIC, sizeof layout->magic) != 0, ctx,
                   c->path, "does not begin with the magic of .kith (is it of another format?)");
    KIN_DAMAGED_IF(layout->format != KIN_CONTAINER_FORMAT, ctx, c->path,
                   "is .kith of format %" PRIu32
                   ", this library reads format %d (use a newer kith)",
                   layout->format, KIN_CONTAINER_FORMAT);
    return KITH_OK;
}

static kith_status fail_damaged(kith_ctx *ctx, const kin_container *c, const char *what)
{
    return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(c->path),
                       "%s (it is damaged: make it again)", what);
}

static bool all_zero(const kin_container *c, uint64_t from, uint64_t end)
{
    while (from < end && c->map.data[from] == 0) {
        from += 1;
    }
    return from == end;
}

/* Each section begins at the first aligned byte behind its predecessor, with zeros between them,
 * and the last one ends the file: every byte belongs to something that is checked. */
static bool sections_tile(const kin_container *c, const kin_layout_header *layout)
{
    const kin_layout_entry *table = (const void *)(layout + 1);
    uint64_t end = kin_layout_table_end(layout->section_count);
    for (uint32_t i = 0; i < layout->section_count; i++) {
        const uint64_t start = kin_layout_align(end);
        if (table[i].offset != start || start > c->map.bytes || !all_zero(c, end, start) ||
            table[i].bytes > c->map.bytes - start || table[i].tag[KIN_TAG_BYTES - 1] != '\0') {
            return false;
        }
        end = start + table[i].bytes;
    }
    return end == c->map.bytes;
}

static kith_status check_table(kith_ctx *ctx, const kin_container *c)
{
    const kin_layout_header *layout = (const void *)c->map.data;
    KIN_DAMAGED_IF(layout->file_bytes != c->map.bytes, ctx, c->path,
                   "has %" PRIu64 " bytes, its header says %" PRIu64
                   " (it is cut short or damaged: make it again)",
                   c->map.bytes, layout->file_bytes);
    if (layout->section_count > KIN_SECTIONS_MAX ||
        kin_layout_table_end(layout->section_count) > c->map.bytes) {
        return fail_damaged(ctx, c, "its table of sections does not fit");
    }
    if (kin_layout_checksum(layout, layout + 1) != layout->checksum) {
        return fail_damaged(ctx, c, "the checksum of its header is wrong");
    }
    if (!sections_tile(c, layout)) {
        return fail_damaged(ctx, c, "its sections do not lie in it one behind the other");
    }
    return KITH_OK;
}

/* All of the corpus or nothing, and nothing is certified of points that are not stated. */
static bool points_known(const kin_layout_header *layout)
{
    if (layout->points_cols == 0) {
        return layout->points_dtype == 0 && layout->points_checksum == 0 &&
               layout->exact != KITH_CERTIFIED;
    }
    return layout->points_cols > 0 && layout->points_dtype <= KITH_DTYPE_LAST &&
           layout->points_dtype != KITH_DTYPE_NONE && layout->corpus_rows > 0;
}

static kith_status take_header(kith_ctx *ctx, kin_container *c)
{
    const kin_layout_header *layout = (const void *)c->map.data;
    if (layout->kind > KITH_KIND_PAIRS || layout->dtype > KITH_DTYPE_LAST ||
        layout->metric % KITH_POWER_FIRST > KITH_METRIC_LAST || layout->metric > INT32_MAX ||
        (layout->metric >= KITH_POWER_FIRST) !=
            (layout->metric % KITH_POWER_FIRST == KITH_MINKOWSKI) ||
        layout->exact > KITH_APPROXIMATE || layout->rows < 0 || layout->cols < 0 ||
        layout->cols > INT32_MAX || layout->k < 0 || layout->corpus_rows < 0 ||
        isnan(layout->recall) || !points_known(layout)) {
        return fail_damaged(ctx, c, "its header holds a value that this format does not know");
    }
    c->header.kind = (kith_kind)layout->kind;
    c->header.dtype = (kith_dtype)layout->dtype;
    c->header.metric = (kith_metric)layout->metric;
    c->header.exact = (kith_exactness)layout->exact;
    c->header.rows = layout->rows;
    c->header.cols = layout->cols;
    c->header.k = layout->k;
    c->header.corpus_rows = layout->corpus_rows;
    c->header.recall = layout->recall;
    c->header.recall_at = layout->recall_at;
    if (layout->points_cols > 0) {
        c->header.points = (kith_fingerprint){.rows = layout->corpus_rows,
                                              .cols = layout->points_cols,
                                              .dtype = (kith_dtype)layout->points_dtype,
                                              .checksum = layout->points_checksum};
    }
    c->checksum = layout->checksum;
    c->table = (const void *)(layout + 1);
    c->count = layout->section_count;
    return KITH_OK;
}

kith_status kin_container_open(kith_ctx *ctx, const char *path, bool follows, kin_container **out)
{
    *out = NULL;
    kin_container *c = NULL;
    kith_status status = KITH_OK;
    KIN_TRY(kin_alloc_zero(ctx, &c, 1, sizeof *c, "an open file"));
    c->ctx = ctx;
    KIN_THEN(status, kin_alloc_text(ctx, &c->path, "a file's path", "%s", path));
    KIN_THEN(status, kin_map_open(ctx, path, follows, &c->map));
    KIN_THEN(status, check_magic(ctx, c));
    KIN_THEN(status, check_table(ctx, c));
    KIN_THEN(status, take_header(ctx, c));
    if (status != KITH_OK) {
        kin_container_close(c);
        return status;
    }
    *out = c;
    return KITH_OK;
}

static const kin_layout_entry *find(const kin_container *c, const char *tag)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (strcmp(c->table[i].tag, tag) == 0) {
            return &c->table[i];
        }
    }
    return NULL;
}

bool kin_container_has(const kin_container *container, const char *tag)
{
    return find(container, tag) != NULL;
}

kith_status kin_container_find(kith_ctx *ctx, const kin_container *c, const char *tag,
                               const kin_layout_entry **place)
{
    *place = find(c, tag);
    KIN_DAMAGED_IF(*place == NULL, ctx, c->path, "has no section '%s' (it is of another kind)",
                   tag);
    return KITH_OK;
}

kith_status kin_container_section(kith_ctx *ctx, const kin_container *c, const char *tag,
                                  const void **data, uint64_t *bytes)
{
    const kin_layout_entry *place = NULL;
    KIN_TRY(kin_container_find(ctx, c, tag, &place));
    const unsigned char *start = c->map.data + place->offset;
    KIN_DAMAGED_IF(kin_checksum_of(start, place->bytes) != place->checksum, ctx, c->path,
                   "the checksum of its section '%s' is wrong (it is damaged: make it again)", tag);
    *data = start;
    *bytes = place->bytes;
    return KITH_OK;
}

kith_status kin_container_table(kith_ctx *ctx, const kin_container *c, const char *tag,
                                uint64_t rows, uint64_t row_bytes, const void **data)
{
    uint64_t bytes = 0;
    KIN_TRY(kin_container_section(ctx, c, tag, data, &bytes));
    const uint64_t need = kin_size_mul(rows, row_bytes);
    KIN_DAMAGED_IF(bytes != need, ctx, c->path,
                   "its section '%s' has %" PRIu64 " bytes, its header announces %" PRIu64
                   " (it is damaged: make it again)",
                   tag, bytes, need);
    return KITH_OK;
}

kith_status kin_container_tree(kith_ctx *ctx, const kin_container *c, kin_stored_tree *tree)
{
    const void *data = NULL;
    KIN_TRY(kin_container_table(ctx, c, KIN_TAG_TREE, 1, sizeof *tree, &data));
    memcpy(tree, data, sizeof *tree);
    if (tree->height < 0 || tree->height > KIN_STORED_TREE_MOST_HEIGHT || tree->points < 1 ||
        tree->points > c->header.rows || tree->places < tree->points ||
        tree->places > KIN_STORED_TREE_MOST_PLACES) {
        return fail_damaged(ctx, c, "its tree has a shape that no tree has");
    }
    return KITH_OK;
}

void kin_container_close(kin_container *c)
{
    if (c == NULL) {
        return;
    }
    kith_ctx *ctx = c->ctx;
    kin_map_close(&c->map);
    kin_free(ctx, c->path);
    kin_free(ctx, c);
}

static void give_back(void *owner, void *container)
{
    (void)owner;
    kin_container_close(container);
}

kith_status kin_container_hold(kin_hold *hold, const char *path, bool follows, kin_container **out)
{
    KIN_TRY(kin_container_open(hold->ctx, path, follows, out));
    kin_hold_take(hold, give_back, NULL, *out);
    return KITH_OK;
}
