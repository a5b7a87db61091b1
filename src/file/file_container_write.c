/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_atomic.h"
#include "file/file_container_layout.h"

static uint64_t section_bytes(const kin_section *section)
{
    const kith_matrix *m = section->matrix;
    if (m == NULL) {
        return section->bytes;
    }
    const uint64_t row = kin_size_mul((uint64_t)m->cols, (uint64_t)kin_item_of(m->dtype).bytes);
    return kin_size_mul((uint64_t)m->rows, row);
}

static kith_status put_matrix(kin_writer *writer, const kith_matrix *m, kin_checksum *sum)
{
    const int64_t row_bytes = (int64_t)m->cols * kin_item_of(m->dtype).bytes;
    const int64_t stride = m->stride_bytes != 0 ? m->stride_bytes : row_bytes;
    for (int64_t row = 0; row < m->rows; row++) {
        const unsigned char *data = (const unsigned char *)m->data + row * stride;
        kin_checksum_add(sum, data, (uint64_t)row_bytes);
        KIN_TRY(kin_writer_put(writer, data, (uint64_t)row_bytes));
    }
    return KITH_OK;
}

/* In pieces, so that what the checksum has read is still in the cache when it is copied. */
static kith_status put_bytes(kin_writer *writer, const void *data, uint64_t bytes,
                             kin_checksum *sum)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        const uint64_t piece = bytes < 65536 ? bytes : 65536;
        kin_checksum_add(sum, from, piece);
        KIN_TRY(kin_writer_put(writer, from, piece));
        from += piece;
        bytes -= piece;
    }
    return KITH_OK;
}

static kith_status put_zeros(kin_writer *writer, uint64_t bytes, kin_checksum *sum)
{
    static const unsigned char zeros[4096];
    while (bytes > 0) {
        const uint64_t piece = bytes < sizeof zeros ? bytes : sizeof zeros;
        kin_checksum_add(sum, zeros, piece);
        KIN_TRY(kin_writer_put(writer, zeros, piece));
        bytes -= piece;
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
    } else if (section->data == NULL) {
        KIN_TRY(put_zeros(writer, section->bytes, &sum));
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
    if (count < 0 || count > KIN_SECTIONS_MAX) {
        return kin_fail_at(ctx, KITH_E_INTERNAL, kin_at_file(path),
                           "%d sections in one file, at most %d are possible", count,
                           KIN_SECTIONS_MAX);
    }
    kin_writer writer;
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    return kin_writer_close(&writer, kin_container_put(&writer, header, sections, count));
}
