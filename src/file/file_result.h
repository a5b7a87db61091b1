/* SPDX-License-Identifier: Apache-2.0
 * Neighbours to files and back. */
#ifndef KIN_FILE_RESULT_H
#define KIN_FILE_RESULT_H

#include "file/file_atomic.h"
#include "file/file_container.h"
#include "file/file_reader.h"

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
void kin_result_close(kith_result *result);

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

kith_status kin_npz_save(kith_ctx *ctx, const char *path, const kith_neighbors *neighbors,
                         const kith_result_meta *meta);

/* A sparse matrix to write: row i has entries offsets[i] .. offsets[i + 1] - 1. */
typedef struct kin_csr {
    int64_t rows;
    int64_t cols;
    int64_t k;              /* entries a row where offsets is NULL */
    const int64_t *offsets; /* rows + 1 */
    const uint32_t *ids;    /* KITH_ID_NONE is passed over */
    const float *distances; /* NULL: each entry is 1 */
    kith_result_meta meta;
} kin_csr;
kith_status kin_csr_save(kith_ctx *ctx, const char *path, const kin_csr *csr);

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

#endif
