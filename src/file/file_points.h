/* SPDX-License-Identifier: Apache-2.0
 * Points from files: the reader's side of what kith_points is. */
#ifndef KIN_FILE_POINTS_H
#define KIN_FILE_POINTS_H

#include "file/file_container.h"
#include "file/file_input.h"
#include "file/file_shape.h"

enum { KIN_NAMES_BYTES = 160 };

/* The matrix lies in the input, in the container's map, or in the block. */
struct kith_points {
    kith_ctx *ctx;
    kith_matrix matrix;
    kith_values values; /* the same for selection, whose rows may be longer than a matrix' */
    kin_item item;      /* what the file holds; what that became is matrix.dtype */
    uint64_t cols_max;
    kin_input input;
    kin_container *container;
    void *block;
    uint64_t block_bytes; /* in memory: of the block, and of input that is not mapped */
    kith_points_source source;
    char names[KIN_NAMES_BYTES]; /* of the source */
};

kith_status kin_points_open(kith_ctx *ctx, const char *path, const kith_points_params *params,
                            kith_points **out);
void kin_points_close(kith_points *points);
/* Takes a block of rows x cols values of dtype for the points to own; the caller fills it. */
kith_status kin_points_reserve(kith_points *points, int64_t rows, int64_t cols, kith_dtype dtype);

/* .csv .txt .tsv. rows, columns and how it is read; rows by counting lines. */
kith_status kin_text_inspect(kith_ctx *ctx, const char *path, const kith_points_params *params,
                             kin_format format, const kin_input *input, kith_file_info *info);
/* Reads points->input and closes it. */
kith_status kin_text_read(kith_points *points, const char *path, const kith_points_params *params,
                          kin_format format);

/* FILE.hdf5:DATASET, by way of the module libkith_hdf5. */
kith_status kin_hdf5_shape(kith_ctx *ctx, const char *path, uint64_t *file_bytes, kin_shape *shape);
kith_status kin_hdf5_read(kith_points *points, const char *path);

/* Points to a file, in the format of the path's extension. */
kith_status kin_points_save(kith_ctx *ctx, const char *path, const kith_matrix *points);
/* One value a row to a .npy of one axis. */
kith_status kin_points_save_vector(kith_ctx *ctx, const char *path, const kith_matrix *column);

#endif
