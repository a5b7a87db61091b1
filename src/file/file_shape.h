/* SPDX-License-Identifier: Apache-2.0
 * What a header says about a table of numbers in a file, held against the file itself. */
#ifndef KIN_FILE_SHAPE_H
#define KIN_FILE_SHAPE_H

#include "file/file_format.h"
#include "host/host_map.h"

static const uint64_t KIN_COLS_MAX = 1u << 20;           /* of points */
static const uint64_t KIN_VALUES_COLS_MAX = 4294967294u; /* of what is selected from */
static const uint64_t KIN_ROWS_MAX = 4294967294u;        /* 2^32 - 2; k is below it */

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

/* 1 <= rows <= 2^32 - 2, 1 <= cols <= cols_max, else KITH_E_FORMAT. */
kith_status kin_shape_check(kith_ctx *ctx, const char *path, uint64_t rows, uint64_t cols,
                            uint64_t cols_max);
/* Whether a file of `have` bytes is header_bytes and rows x row_bytes long, no more and no less. */
kith_status kin_shape_check_bytes(kith_ctx *ctx, const char *path, uint64_t have,
                                  uint64_t header_bytes, uint64_t rows, uint64_t row_bytes);
kith_status kin_shape_check_empty(kith_ctx *ctx, const char *path, const kin_map *map);

/* .fvecs .bvecs .ivecs: each row is int32 cols and cols values. From the first row and the size. */
kith_status kin_vecs_shape(kith_ctx *ctx, const char *path, const kin_map *map, kin_format format,
                           uint64_t cols_max, kin_shape *shape);
/* Whether every row says the same cols: reads the whole file. */
kith_status kin_vecs_check(kith_ctx *ctx, const char *path, const kin_shape *shape);
/* .fbin .u8bin .i8bin .ibin: uint32 rows, uint32 cols, rows. */
kith_status kin_bin_shape(kith_ctx *ctx, const char *path, const kin_map *map, kin_format format,
                          uint64_t cols_max, kin_shape *shape);

#endif
