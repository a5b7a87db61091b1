/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a .kith file, shared by its writer and its reader. */
#ifndef KIN_FILE_CONTAINER_LAYOUT_H
#define KIN_FILE_CONTAINER_LAYOUT_H

#include "file/file_checksum.h"
#include "file/file_container.h"

#include <assert.h>

enum { KIN_CONTAINER_ALIGNMENT = 64 };

/* As in PNG: a byte that no text has, a name, and line ends that a careless copy would change. */
static const unsigned char KIN_CONTAINER_MAGIC[8] = {0x89, 'k', 'i', 't', 'h', '\r', '\n', 0x1a};

typedef struct kin_layout_header {
    unsigned char magic[8];
    uint32_t format;
    uint32_t kind;
    uint32_t dtype;
    uint32_t metric;
    uint32_t exact;
    uint32_t section_count;
    int64_t rows;
    int64_t cols;
    int64_t k;
    int64_t corpus_rows;
    double recall;
    int64_t recall_at;
    uint64_t file_bytes;
    int32_t points_cols; /* of the corpus that ids point into; 0: it is not known */
    uint32_t points_dtype;
    uint64_t points_checksum;
    uint64_t reserved[2];
    uint64_t checksum; /* of the header with this field 0, and the table */
} kin_layout_header;

typedef struct kin_layout_entry {
    char tag[KIN_TAG_BYTES]; /* filled up with zeros */
    uint64_t offset;
    uint64_t bytes;
    uint64_t checksum;
    uint64_t reserved;
} kin_layout_entry;

static_assert(sizeof(kin_layout_header) == 128, "the header has no padding");
static_assert(sizeof(kin_layout_entry) == 48, "a table entry has no padding");

static inline uint64_t kin_layout_align(uint64_t offset)
{
    return (offset + KIN_CONTAINER_ALIGNMENT - 1) / KIN_CONTAINER_ALIGNMENT *
           KIN_CONTAINER_ALIGNMENT;
}

static inline uint64_t kin_layout_table_end(uint64_t sections)
{
    return sizeof(kin_layout_header) + sections * sizeof(kin_layout_entry);
}

static inline uint64_t kin_layout_checksum(const kin_layout_header *header, const void *table)
{
    kin_layout_header plain = *header;
    plain.checksum = 0;
    kin_checksum sum;
    kin_checksum_begin(&sum);
    kin_checksum_add(&sum, &plain, sizeof plain);
    kin_checksum_add(&sum, table, header->section_count * sizeof(kin_layout_entry));
    return kin_checksum_end(&sum);
}

#endif
