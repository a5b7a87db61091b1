/* SPDX-License-Identifier: Apache-2.0
 * What files hold, opened and saved: points, neighbours, and these in parts. */
#ifndef KIN_FILE_OPEN_H
#define KIN_FILE_OPEN_H

#include "file/file_atomic.h"
#include "file/file_container.h"
#include "file/file_reader.h"

/* ---- Points (file_points.c) ------------------------------------------------------------------ */

enum { KIN_NAMES_BYTES = 160 };

/* The matrix lies in the input, in the container's map, or in the block. */
struct kith_points {
    kith_ctx *ctx;
    kith_matrix matrix;
    kith_values values; /* the same for selection, whose rows may be longer than a matrix' */
    kin_item item;      /* what the file holds; what that became is matrix.dtype */
    bool column;        /* float64 whatever it holds */
    kin_input input;
    kin_container *container;
    void *block;
    kith_points_source source;
    char names[KIN_NAMES_BYTES]; /* of the source */
};

kith_status kin_points_open(kith_ctx *ctx, const char *path, const kith_points_params *params,
                            kith_points **out);
/* What kith_file_inspect says. */
kith_status kin_file_inspect(kith_ctx *ctx, const char *path, const kith_points_params *params,
                             kith_file_info *info);

/* The table as the points: seen where it lies, or else copied, and converted; the input is closed
 * then. */
kith_status kin_points_take(kith_points *points, const char *path, const kin_shape *shape);
/* What a file's values become. */
kith_dtype kin_points_dtype(const kith_points *points, kin_item item);
/* That a value of the file is none of float64. */
kith_status kin_points_fail_value(kith_ctx *ctx, const char *path, kin_item item, int64_t row,
                                  int64_t col);
/* Takes a block of rows x cols values of dtype for the points to own; the caller fills it. */
kith_status kin_points_reserve(kith_points *points, int64_t rows, int64_t cols, kith_dtype dtype);

/* Points to a file, in the format of the path's extension. */
kith_status kin_points_save(kith_ctx *ctx, const char *path, const kith_matrix *points);
/* One value a row to a .npy of one axis. */
kith_status kin_points_save_vector(kith_ctx *ctx, const char *path, const kith_matrix *column);

/* ---- Neighbours ------------------------------------------------------------------------------ */

enum { KIN_RESULT_BLOCKS = 8 };

/* The tables lie in the input, in the container's map, in maps of their own, or in blocks. */
struct kith_result {
    kith_ctx *ctx;
    kith_neighbors neighbors;
    kith_result_meta meta;
    kin_input input;
    kin_map tables[2]; /* of a set of parts: ids and distances of all */
    kin_container *container;
    void *blocks[KIN_RESULT_BLOCKS];
    int block_count;
};

kith_status kin_result_save(kith_ctx *ctx, const char *path, kith_format format,
                            const kith_neighbors *neighbors, const kith_result_meta *meta);
/* *format by the extension of the path, where it is AUTO. */
kith_status kin_result_choose(kith_ctx *ctx, const char *path, kith_format *format);
/* .csv, .tsv: to look at, and not to read back. k: entries a row where lists have no offsets. */
bool kin_result_is_text(kith_format format);
/* .npz (a SciPy sparse matrix), .kith, .range, .csv or .tsv. */
kith_status kin_ranges_save(kith_ctx *ctx, const char *path, const kith_lists *lists,
                            const kith_result_meta *meta);

/* What a .range holds, in the input's bytes. */
typedef struct kin_range_table {
    int64_t rows;
    int64_t entries;       /* of all rows */
    const int32_t *counts; /* by row */
    const uint32_t *ids;
    const float *distances;
} kin_range_table;
/* KITH_E_FORMAT where the bytes are none. */
kith_status kin_range_parse(kith_ctx *ctx, const char *path, const kin_input *input,
                            kin_range_table *table);
kith_status kin_result_open(kith_ctx *ctx, const char *path, kith_result **out);

/* Copies ids of any integer type; -1 becomes KITH_ID_NONE, another negative is an error. */
kith_status kin_result_take_ids(kith_result *result, const char *path, const kin_shape *shape);
/* Whether all ids, which are in place, are rows of the corpus, or none. has_sign: they were
 * signed. */
kith_status kin_result_check_ids(kith_result *result, const char *path, bool has_sign);
/* Float32 is viewed where it can be, float64 is rounded and kept as distances64 too. */
kith_status kin_result_take_distances(kith_result *result, const char *path,
                                      const kin_shape *shape);

/* What a .kith says of neighbours or ranges. */
kin_container_header kin_result_header(kith_kind kind, int64_t rows, int64_t k,
                                       const kith_result_meta *meta);

/* An .npz of int32 ids and their distances without these two, which are placed by somebody else;
 * crcs: theirs. */
struct kin_writer;
kith_status kin_npz_frame(struct kin_writer *writer, int64_t rows, int64_t k,
                          const uint32_t crcs[2], const kith_result_meta *meta);

/* Lists to write, in any format. */
typedef struct kin_saved {
    kith_ctx *ctx;
    const char *path;
    kith_lists lists; /* offsets NULL: k entries a row. KITH_ID_NONE is an empty slot */
    int64_t k;
    int64_t
        cols; /* of a sparse matrix, which passes empty slots over; without distances each is 1 */
    const kith_result_meta *meta;
} kin_saved;
static inline int64_t kin_saved_before(const kin_saved *s, int64_t row)
{
    return s->lists.offsets != NULL ? s->lists.offsets[row] : row * s->k;
}
kith_status kin_npz_save(const kin_saved *saved);
kith_status kin_csr_save(const kin_saved *saved);

/* An answer of selection to write as .npz: `ids`, `values`, `meta`. */
typedef struct kin_selected {
    const void *values;  /* rows x k of dtype, or NULL */
    const uint32_t *ids; /* rows x k, or NULL */
    int64_t rows;
    int64_t k;
    kith_dtype dtype;
    bool largest;
    bool sorted;
} kin_selected;
kith_status kin_selected_save(kith_ctx *ctx, const char *path, const kin_selected *selected);

/* The JSON text in .npz, and back: what is not understood stays unknown. */
enum { KIN_META_TEXT = 512 };
int kin_meta_print(char text[KIN_META_TEXT], const kith_result_meta *meta, int64_t k);
void kin_meta_parse(const char *text, uint64_t bytes, kith_result_meta *meta);

/* ---- Parts (file_parts.c) --------------------------------------------------------------------
 *
 * A graph in several .kith files, its parts, and one that names them, its index.
 *
 * A part is a result of its rows: ids are those of all, and say nothing of parts. Ids and distances
 * begin at multiples of KIN_PART_ALIGNMENT, and all parts but the last have as many rows as make
 * their tables a multiple of it: so the tables of all parts can be mapped side by side, and are one
 * table of each. The index has rows and checksum of each part, whose checksum is that of its header
 * and table, and these have the checksums of its ids and distances: what is not as it was when all
 * were written is found.
 *
 * Parts lie in the folder of the index, NAME-00000-of-00008.kith. The index has NAME, so that it
 * may be given another name, and the folder be moved. */

#define KIN_TAG_PART "part"   /* of a part: kin_part */
#define KIN_TAG_PARTS "parts" /* of an index: kin_part_entry of each part */
#define KIN_TAG_NAME "name"   /* of an index: NAME */

/* A page is no larger on any machine. */
enum { KIN_PART_ALIGNMENT = 1 << 16, KIN_PART_SECTIONS = 5 };

typedef struct kin_part {
    int64_t first; /* row of the whole */
    int32_t number;
    int32_t count;
} kin_part;

typedef struct kin_part_entry {
    int64_t first;
    int64_t rows;
    uint64_t checksum;
} kin_part_entry;

kith_status kin_part_read(kith_ctx *ctx, const kin_container *container, kin_part *part);

/* Ids and distances of all parts into the tables of a result whose container is an index. */
kith_status kin_parts_map(kith_result *result, const char *path);
/* Whether all parts are there, by their headers; *bytes: theirs are added. */
kith_status kin_parts_inspect(kith_ctx *ctx, const char *path, const kin_container *index,
                              int32_t *count, uint64_t *bytes);

#endif
