/* SPDX-License-Identifier: Apache-2.0
 * Points from files: the reader's side of what kith_points is. */
#ifndef KIN_FILE_POINTS_H
#define KIN_FILE_POINTS_H

#include "file/file_container.h"
#include "file/file_reader.h"

enum { KIN_NAMES_BYTES = 160 };

/* The matrix lies in the input, in the container's map, or in the block. */
struct kith_points {
    kith_ctx *ctx;
    kith_matrix matrix;
    kith_values values; /* the same for selection, whose rows may be longer than a matrix' */
    kin_item item;      /* what the file holds; what that became is matrix.dtype */
    kin_input input;
    kin_container *container;
    void *block;
    kith_points_source source;
    char names[KIN_NAMES_BYTES]; /* of the source */
};

kith_status kin_points_open(kith_ctx *ctx, const char *path, const kith_points_params *params,
                            kith_points **out);
void kin_points_close(kith_points *points);
/* What kith_file_inspect says. */
kith_status kin_file_inspect(kith_ctx *ctx, const char *path, const kith_points_params *params,
                             kith_file_info *info);

/* ---- For readers ----------------------------------------------------------------------------- */

/* The table as the points: seen where it lies, or else copied, and converted; the input is closed
 * then. */
kith_status kin_points_take(kith_points *points, const char *path, const kin_shape *shape);
/* That a value of the file is none of float64. */
kith_status kin_points_fail_value(kith_ctx *ctx, const char *path, kin_item item, int64_t row,
                                  int64_t col);
/* Takes a block of rows x cols values of dtype for the points to own; the caller fills it. */
kith_status kin_points_reserve(kith_points *points, int64_t rows, int64_t cols, kith_dtype dtype);

/* ---- Out ------------------------------------------------------------------------------------- */

/* Points to a file, in the format of the path's extension. */
kith_status kin_points_save(kith_ctx *ctx, const char *path, const kith_matrix *points);
/* One value a row to a .npy of one axis. */
kith_status kin_points_save_vector(kith_ctx *ctx, const char *path, const kith_matrix *column);

#endif
