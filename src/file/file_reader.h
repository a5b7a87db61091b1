/* SPDX-License-Identifier: Apache-2.0
 * How a format is read: what its header says of a table of numbers, held against the bytes that are
 * there. A layout has one kin_reader, kin_reader_LAYOUT; KITH_FILE_MAP says which formats are of
 * it, and file_open.c calls them. */
#ifndef KIN_FILE_READER_H
#define KIN_FILE_READER_H

#include "file/file_format.h"
#include "file/file_input.h"

static const uint64_t KIN_COLS_MAX = 1u << 20;           /* of points */
static const uint64_t KIN_VALUES_COLS_MAX = 4294967294u; /* of what is selected from */
static const uint64_t KIN_ROWS_MAX = 4294967294u;        /* 2^32 - 2; k is below it */

/* A file that is being read. */
typedef struct kin_source {
    kith_ctx *ctx;
    const char *path;
    kin_format format;
    const kith_points_params *params; /* of points; NULL: neighbours are read */
    uint64_t cols_max;
    bool column;      /* one axis is a table of one column */
    kin_input *input; /* its bytes; none where the reader opens the file itself */
} kin_source;

/* Row i starts at data + i * stride. Its values stand side by side, or step bytes from each other
 * where step is not 0; swapped: their bytes stand the other way round. */
typedef struct kin_shape {
    const unsigned char *data;
    int64_t rows;
    int64_t cols;
    int64_t stride;
    int64_t step;
    kin_item item;
    bool swapped;
} kin_shape;

typedef struct kin_reader {
    /* Bytes that are one table, as they are: its shape is all there is to say. NULL: the others. */
    kith_status (*shape)(const kin_source *source, kin_shape *shape);
    /* What only the whole table shows; NULL: nothing. */
    kith_status (*check)(const kin_source *source, const kin_shape *shape);
    kith_status (*points)(const kin_source *source, kith_points *points);
    kith_status (*lists)(const kin_source *source, kith_result *result);
    kith_status (*inspect)(const kin_source *source, kith_file_info *info);
    bool opens; /* the file itself: its bytes are not brought */
} kin_reader;

/* 1 <= rows <= 2^32 - 2, 1 <= cols <= cols_max, else KITH_E_FORMAT. */
kith_status kin_shape_check(kith_ctx *ctx, const char *path, uint64_t rows, uint64_t cols,
                            uint64_t cols_max);
/* Rows that stand side by side at data, of a number that is checked. */
kith_status kin_shape_make(const kin_source *source, const void *data, uint64_t rows, uint64_t cols,
                           kin_item item, kin_shape *shape);

/* What kith_file_inspect says of a table. */
void kin_info_take_shape(kith_file_info *info, kith_kind kind, const kin_shape *shape);
/* What it says of neighbours: metric, exactness, which points, recall. */
void kin_info_take_meta(kith_file_info *info, const kith_result_meta *meta);

#endif
