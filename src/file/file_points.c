/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_points.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_npy.h"
#include "host/host_threads.h"

#include <inttypes.h>

enum { BAND_ROWS = 1024 };

/* As values, and as a matrix: of rows that are longer than a matrix' only values are shown. */
static void show(kith_points *points, const void *data, const kin_shape *shape, kith_dtype dtype)
{
    points->values = (kith_values){.data = data,
                                   .rows = shape->rows,
                                   .cols = shape->cols,
                                   .stride_bytes = shape->stride,
                                   .dtype = dtype};
    points->matrix = (kith_matrix){.data = data,
                                   .rows = shape->rows,
                                   .cols = (int32_t)shape->cols,
                                   .stride_bytes = shape->stride,
                                   .dtype = dtype};
}

kith_status kin_points_reserve(kith_points *points, int64_t rows, int64_t cols, kith_dtype dtype)
{
    const uint64_t row_bytes = (uint64_t)cols * (uint64_t)kin_item_of(dtype).bytes;
    KIN_TRY(kin_alloc(points->ctx, &points->block, (uint64_t)rows, row_bytes, "the points"));
    points->block_bytes += (uint64_t)rows * row_bytes;
    const kin_shape shape = {.rows = rows, .cols = cols, .stride = (int64_t)row_bytes};
    show(points, points->block, &shape, dtype);
    return KITH_OK;
}

static bool can_be_viewed(const kin_shape *shape)
{
    const uint64_t address = (uint64_t)(uintptr_t)shape->data;
    const uint64_t bytes = (uint64_t)shape->item.bytes;
    return kin_item_dtype(shape->item) != KITH_DTYPE_NONE && shape->step == 0 && !shape->swapped &&
           address % bytes == 0 && (uint64_t)shape->stride % bytes == 0;
}

/* One value, its bytes in this machine's order. */
static const unsigned char *value_at(const kin_shape *shape, int64_t row, int64_t col,
                                     unsigned char swapped[8])
{
    const int32_t bytes = shape->item.bytes;
    const int64_t step = shape->step != 0 ? shape->step : bytes;
    const unsigned char *at = shape->data + row * shape->stride + col * step;
    for (int32_t i = 0; shape->swapped && i < bytes; i++) {
        swapped[i] = at[bytes - 1 - i];
    }
    return shape->swapped ? swapped : at;
}

/* Types that kith computes with are copied (they were not aligned, or not in order), others become
 * float64. */
static kith_status copy_value(const kith_points *points, const char *path, const kin_shape *shape,
                              int64_t row, int64_t col)
{
    unsigned char swapped[8];
    const kith_matrix *to = &points->matrix;
    const unsigned char *at = value_at(shape, row, col, swapped);
    const int64_t bytes = kin_item_of(to->dtype).bytes;
    unsigned char *target =
        (unsigned char *)points->block + row * points->values.stride_bytes + col * bytes;
    if (to->dtype == kin_item_dtype(shape->item)) {
        memcpy(target, at, (size_t)bytes);
        return KITH_OK;
    }
    return kin_item_load(shape->item, at, (double *)(void *)target)
               ? KITH_OK
               : kin_fail_at(points->ctx, KITH_E_DATA, kin_at_file(path),
                             "the value in row %" PRId64 ", column %" PRId64
                             " (%s, beyond 2^53) is not exactly a double (store smaller numbers)",
                             row, col, kin_item_name(shape->item));
}

/* A band of rows, column by column where the file has them so: each of its pages is then read once
 * for a band and not once for a row. */
static kith_status copy_band(const kith_points *points, const char *path, const kin_shape *shape,
                             int64_t first, int64_t last)
{
    if (shape->step == 0 && !shape->swapped &&
        points->matrix.dtype == kin_item_dtype(shape->item)) {
        for (int64_t row = first; row < last; row++) {
            memcpy((unsigned char *)points->block + row * points->values.stride_bytes,
                   shape->data + row * shape->stride, (size_t)points->values.stride_bytes);
        }
        return KITH_OK;
    }
    if (shape->step == 0) {
        for (int64_t row = first; row < last; row++) {
            for (int64_t col = 0; col < shape->cols; col++) {
                KIN_TRY(copy_value(points, path, shape, row, col));
            }
        }
        return KITH_OK;
    }
    for (int64_t col = 0; col < shape->cols; col++) {
        for (int64_t row = first; row < last; row++) {
            KIN_TRY(copy_value(points, path, shape, row, col));
        }
    }
    return KITH_OK;
}

static kith_status take_shape(kith_points *points, const char *path, const kin_shape *shape)
{
    points->item = shape->item;
    points->source.file_cols = shape->cols;
    points->source.fortran_order = shape->step != 0;
    points->source.big_endian = shape->swapped;
    if (can_be_viewed(shape)) {
        points->block_bytes += points->input.block != NULL ? points->input.bytes : 0;
        show(points, shape->data, shape, kin_item_dtype(shape->item));
        return KITH_OK;
    }
    const kith_dtype own = kin_item_dtype(shape->item);
    KIN_TRY(kin_points_reserve(points, shape->rows, shape->cols,
                               own != KITH_DTYPE_NONE ? own : KITH_F64));
    for (int64_t row = 0; row < shape->rows; row += BAND_ROWS) {
        const int64_t last = kin_min_i64(row + BAND_ROWS, shape->rows);
        KIN_TRY(copy_band(points, path, shape, row, last));
        KIN_TRY(kin_progress(points->ctx, "read", (double)last, (double)shape->rows));
    }
    kin_input_close(points->ctx, &points->input);
    return KITH_OK;
}

static kith_status read_kith(kith_points *points, const char *path)
{
    kith_ctx *ctx = points->ctx;
    KIN_TRY(kin_container_open(ctx, path, true, &points->container));
    const kin_container_header *header = kin_container_get_header(points->container);
    if (!kin_container_has_points(points->container)) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "holds neighbours, not points (give the points)");
    }
    if (kin_item_of(header->dtype).bytes == 0) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "does not say what type its points have (it is damaged: make it again)");
    }
    KIN_TRY(kin_shape_check(ctx, path, (uint64_t)header->rows, (uint64_t)header->cols,
                            points->cols_max));
    const void *data = NULL;
    const uint64_t row_bytes = (uint64_t)header->cols * (uint64_t)kin_item_of(header->dtype).bytes;
    KIN_TRY(kin_container_table(ctx, points->container, KIN_TAG_POINTS, (uint64_t)header->rows,
                                row_bytes, &data));
    const kin_shape shape = {
        .rows = header->rows, .cols = header->cols, .stride = (int64_t)row_bytes};
    points->item = kin_item_of(header->dtype);
    show(points, data, &shape, header->dtype);
    return KITH_OK;
}

static kith_status read_mapped(kith_points *points, const char *path, kin_format format)
{
    kith_ctx *ctx = points->ctx;
    kin_map *map = &points->input.map;
    kin_shape shape;
    KIN_TRY(kin_map_open(ctx, path, map));
    KIN_TRY(kin_shape_check_empty(ctx, path, map));
    switch (format) {
    case KIN_FORMAT_FVECS:
    case KIN_FORMAT_BVECS:
    case KIN_FORMAT_IVECS:
        KIN_TRY(kin_vecs_shape(ctx, path, map, format, points->cols_max, &shape));
        KIN_TRY(kin_vecs_check(ctx, path, &shape));
        break;
    default:
        KIN_TRY(kin_bin_shape(ctx, path, map, format, points->cols_max, &shape));
        break;
    }
    return take_shape(points, path, &shape);
}

static kith_status read_npy(kith_points *points, const char *path, const kith_points_params *params)
{
    kin_shape shape;
    KIN_TRY(kin_npy_shape(points->ctx, path, &points->input, params->use == KITH_USE_COLUMN,
                          points->cols_max, &shape));
    return take_shape(points, path, &shape);
}

/* What needs no map is opened here. */
static kith_status open_input(kith_points *points, const char *path, kin_format *format)
{
    kith_ctx *ctx = points->ctx;
    const bool unnamed = *format == KIN_FORMAT_NONE && kin_input_is_pipe(path);
    if (unnamed || (kin_format_get_traits(*format)->uses & KIN_PIPE_IN) != 0) {
        KIN_TRY(kin_input_open(ctx, path, &points->input));
    }
    return unnamed ? kin_format_sniff(ctx, path, points->input.data, points->input.bytes, format)
                   : KITH_OK;
}

static kith_status refuse_text_params(kith_points *points, const char *path,
                                      const kith_points_params *params)
{
    return params->columns == NULL
               ? KITH_OK
               : kin_fail_at(
                     points->ctx, KITH_E_ARGUMENT, kin_at_file(path),
                     "columns are chosen of text alone (leave --columns out, or give .csv)");
}

static kith_status read_points(kith_points *points, const char *path,
                               const kith_points_params *params)
{
    kin_format format = kin_format_of(path, KIN_POINTS_IN);
    KIN_TRY(open_input(points, path, &format));
    switch (format) {
    case KIN_FORMAT_CSV:
    case KIN_FORMAT_TSV:
        return kin_text_read(points, path, params, format);
    case KIN_FORMAT_NONE:
        return kin_format_find(points->ctx, path, KIN_POINTS_IN, &format);
    default:
        break;
    }
    KIN_TRY(refuse_text_params(points, path, params));
    switch (format) {
    case KIN_FORMAT_KITH:
        return read_kith(points, path);
    case KIN_FORMAT_HDF5:
        return kin_hdf5_read(points, path);
    case KIN_FORMAT_NPY:
        return read_npy(points, path, params);
    default:
        return read_mapped(points, path, format);
    }
}

static kith_status check_values(const kith_points *points, const char *path)
{
    const kin_item item = points->item;
    return item.kind == 'f' || item.kind == 'h'
               ? KITH_OK
               : kin_fail_at(points->ctx, KITH_E_DATA, kin_at_file(path),
                             "holds %s values, selection takes floats (convert it to .fbin, or "
                             "save x.astype('float32'))",
                             kin_item_name(item));
}

kith_status kin_points_open(kith_ctx *ctx, const char *path, const kith_points_params *params,
                            kith_points **out)
{
    *out = NULL;
    kith_points *points = NULL;
    const bool values = params->use == KITH_USE_VALUES;
    KIN_TRY(kin_alloc_zero(ctx, &points, 1, sizeof *points, "points"));
    points->ctx = ctx;
    points->cols_max = values ? KIN_VALUES_COLS_MAX : KIN_COLS_MAX;
    points->source.names = points->names;
    kith_status status = read_points(points, path, params);
    if (status == KITH_OK && values) {
        status = check_values(points, path);
    }
    if (status != KITH_OK) {
        kin_points_close(points);
        return status;
    }
    if (points->source.file_cols == 0) {
        points->source.file_cols = points->values.cols;
    }
    *out = points;
    return KITH_OK;
}

void kin_points_close(kith_points *points)
{
    if (points == NULL) {
        return;
    }
    kith_ctx *ctx = points->ctx;
    kin_input_close(ctx, &points->input);
    kin_container_close(points->container);
    kin_free(ctx, points->block);
    kin_free(ctx, points);
}
