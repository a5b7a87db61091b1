/* SPDX-License-Identifier: Apache-2.0
 * The .kith container: a header, a table of sections, sections. docs/format.md has the bytes.
 *
 *     | header 128 | table: 48 a section | pad | section 0 | pad | section 1 | ...
 *
 * Sections begin at multiples of 64 bytes, so a mapped file can be used as it is. Everything is
 * little-endian and of fixed width; nothing depends on the day, the machine or the library's
 * version. Every byte is covered: header and table by the header's checksum, sections by their own,
 * the padding by being 0. */
#ifndef KIN_FILE_CONTAINER_H
#define KIN_FILE_CONTAINER_H

#include "file/file_checksum.h"
#include "host/host_file.h"

#include <assert.h>

enum { KIN_CONTAINER_FORMAT = 1, KIN_TAG_BYTES = 16, KIN_SECTIONS_MAX = 64 };

/* Tags that more than one room knows; others are their writers' own. At most 15 characters. */
#define KIN_TAG_POINTS "points"           /* rows x cols of dtype, contiguous */
#define KIN_TAG_IDS "ids"                 /* uint32 */
#define KIN_TAG_DISTANCES "distances"     /* float32 */
#define KIN_TAG_DISTANCES64 "distances64" /* float64 */
#define KIN_TAG_OFFSETS "offsets"         /* int64, rows + 1 */
#define KIN_TAG_PERIOD "period"           /* float64, cols; none: no column has one */

/* What a tree says about itself, first of all in its section; src/tree has the rest. */
#define KIN_TAG_TREE "tree"
enum { KIN_STORED_TREE_MOST_HEIGHT = 28 };
static const int64_t KIN_STORED_TREE_MOST_PLACES = (int64_t)1 << 32;

typedef struct kin_stored_tree {
    uint32_t version; /* of the arrays; the fields above `equal` mean the same in each */
    int32_t height;
    int64_t points; /* distinct rows */
    int64_t places; /* for points, in all leaves */
    int64_t equal;  /* 1: some rows are equal, and there are links between them */
    int64_t leaf_points;
    double scale;
} kin_stored_tree;

/* What a file says about itself. Fields that do not apply are 0. */
typedef struct kin_container_header {
    kith_kind kind;
    kith_dtype dtype; /* of the points section */
    kith_metric metric;
    kith_exactness exact;
    int64_t rows;
    int64_t cols; /* d of points */
    int64_t k;
    int64_t corpus_rows;
    double recall; /* when approximate: estimate, < 0 = unknown */
    int64_t recall_at;
    kith_fingerprint points; /* that ids are rows of; rows 0: unknown, else corpus_rows */
} kin_container_header;

/* One section to write: `bytes` at data, or the rows of a matrix, which may have a stride. */
typedef struct kin_section {
    const char *tag;
    const void *data; /* NULL: zeros, where nothing below says otherwise */
    uint64_t bytes;
    const kith_matrix *matrix; /* NULL, or instead of data and bytes */
    const uint64_t *placed;    /* NULL, or instead of data: the checksum of bytes that somebody else
                                  places in the file */
} kin_section;

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* The bytes of a .kith file, shared by its writer and its reader. */

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

/* ---- Written, read --------------------------------------------------------------------------- */

/* Puts a container into a file that is open at its beginning. */
struct kin_writer;
kith_status kin_container_put(struct kin_writer *writer, const kin_container_header *header,
                              const kin_section *sections, int32_t count);

/* Written whole or not at all. */
kith_status kin_container_write(kith_ctx *ctx, const char *path, const kin_container_header *header,
                                const kin_section *sections, int32_t count);

/* A file that is open, to be read. */
typedef struct kin_container {
    kith_ctx *ctx;
    char *path;
    kin_map map;
    kin_container_header header;
    const kin_layout_entry *table;
    uint32_t count;
    uint64_t checksum; /* of header and table, which has the checksums of all sections: it stands
                          for the whole file */
} kin_container;

/* Maps a container and checks header and table. Keeps ctx. follows: of kin_map_open. */
kith_status kin_container_open(kith_ctx *ctx, const char *path, bool follows, kin_container **out);
bool kin_container_has(const kin_container *container, const char *tag);
/* A section, in the mapped file, after its checksum is found right (each time it is asked for).
 * KITH_E_FORMAT where there is none of the name. ctx may be another than the opener's. */
kith_status kin_container_section(kith_ctx *ctx, const kin_container *container, const char *tag,
                                  const void **data, uint64_t *bytes);
/* The same for one that must have rows x row_bytes. */
kith_status kin_container_table(kith_ctx *ctx, const kin_container *container, const char *tag,
                                uint64_t rows, uint64_t row_bytes, const void **data);
/* Where a section lies, unread: who maps it elsewhere holds it against its checksum there. */
kith_status kin_container_find(kith_ctx *ctx, const kin_container *container, const char *tag,
                               const kin_layout_entry **place);
/* The facts of a tree file, sane in themselves: KITH_E_FORMAT where they are not. */
kith_status kin_container_tree(kith_ctx *ctx, const kin_container *container,
                               kin_stored_tree *tree);
/* Accepts NULL. */
void kin_container_close(kin_container *container);
/* Opened, and closed by the end of the hold (base_mem.h). */
struct kin_hold;
kith_status kin_container_hold(struct kin_hold *hold, const char *path, bool follows,
                               kin_container **out);

#endif
