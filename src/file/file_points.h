/* SPDX-License-Identifier: Apache-2.0
 * Points from files: the reader's side of what kith_points is. */
#ifndef KIN_FILE_POINTS_H
#define KIN_FILE_POINTS_H

#include "file/file_container.h"
#include "file/file_shape.h"

/* The matrix lies in the map, in the container's map, or in the block. */
struct kith_points {
    kith_ctx *ctx;
    kith_matrix matrix;
    kith_values values; /* the same for selection, whose rows may be longer than a matrix' */
    kin_item item;      /* what the file holds; what that became is matrix.dtype */
    uint64_t cols_max;
    kin_map map;
    kin_container *container;
    void *block;
    uint64_t block_bytes;
};

kith_status kin_points_open(kith_ctx *ctx, const char *path, kith_points **out);
/* Rows of floats for selection, of up to KIN_VALUES_COLS_MAX; other types are KITH_E_DATA. */
kith_status kin_points_open_values(kith_ctx *ctx, const char *path, kith_points **out);
void kin_points_close(kith_points *points);
/* Takes a block of rows x cols values of dtype for the points to own; the caller fills it. */
kith_status kin_points_reserve(kith_points *points, int64_t rows, int64_t cols, kith_dtype dtype);

/* .csv .tsv. shape: rows and cols by counting lines and the fields of the first. */
kith_status kin_text_shape(kith_ctx *ctx, const char *path, const kin_map *map, kin_format format,
                           kin_shape *shape);
/* Reads points->map and closes it. */
kith_status kin_text_read(kith_points *points, const char *path, kin_format format);

/* FILE.hdf5:DATASET, by way of the module libkith_hdf5. */
kith_status kin_hdf5_shape(kith_ctx *ctx, const char *path, uint64_t *file_bytes, kin_shape *shape);
kith_status kin_hdf5_read(kith_points *points, const char *path);

/* Points to a file, in the format of the path's extension. */
kith_status kin_points_save(kith_ctx *ctx, const char *path, const kith_matrix *points);
/* One value a row to a .npy of one axis. */
kith_status kin_points_save_vector(kith_ctx *ctx, const char *path, const kith_matrix *column);

#endif
