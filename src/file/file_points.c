/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_points.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_npy.h"
#include "host/host_threads.h"

#include <inttypes.h>

enum { PROGRESS_ROWS = 4096 };

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
    points->block_bytes = (uint64_t)rows * row_bytes;
    const kin_shape shape = {.rows = rows, .cols = cols, .stride = (int64_t)row_bytes};
    show(points, points->block, &shape, dtype);
    return KITH_OK;
}

static bool can_be_viewed(const kin_shape *shape)
{
    const uint64_t address = (uint64_t)(uintptr_t)shape->data;
    const uint64_t bytes = (uint64_t)shape->item.bytes;
    return kin_item_dtype(shape->item) != KITH_DTYPE_NONE && address % bytes == 0 &&
           (uint64_t)shape->stride % bytes == 0;
}

/* Types that kith computes with are copied (they were not aligned), others become float64. */
static kith_status copy_row(kith_ctx *ctx, const char *path, const kin_shape *shape, int64_t row,
                            const kith_matrix *to)
{
    const unsigned char *from = shape->data + row * shape->stride;
    unsigned char *target = (unsigned char *)(uintptr_t)to->data + row * to->stride_bytes;
    if (to->dtype == kin_item_dtype(shape->item)) {
        memcpy(target, from, (size_t)to->stride_bytes);
        return KITH_OK;
    }
    double *values = (double *)(void *)target;
    for (int64_t col = 0; col < shape->cols; col++) {
        if (!kin_item_load(shape->item, from + col * shape->item.bytes, &values[col])) {
            return kin_fail_at(ctx, KITH_E_DATA, kin_at_file(path),
                               "the value in row %" PRId64 ", column %" PRId64
                               " (%s, beyond 2^53) is not exactly a double (store smaller numbers)",
                               row, col, kin_item_name(shape->item));
        }
    }
    return KITH_OK;
}

static kith_status take_shape(kith_points *points, const char *path, const kin_shape *shape)
{
    points->item = shape->item;
    if (can_be_viewed(shape)) {
        show(points, shape->data, shape, kin_item_dtype(shape->item));
        return KITH_OK;
    }
    const kith_dtype own = kin_item_dtype(shape->item);
    KIN_TRY(kin_points_reserve(points, shape->rows, shape->cols,
                               own != KITH_DTYPE_NONE ? own : KITH_F64));
    for (int64_t row = 0; row < shape->rows; row++) {
        KIN_TRY(copy_row(points->ctx, path, shape, row, &points->matrix));
        if (row % PROGRESS_ROWS == 0) {
            KIN_TRY(kin_progress(points->ctx, "read", (double)row, (double)shape->rows));
        }
    }
    kin_map_close(&points->map);
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
    kin_shape shape;
    KIN_TRY(kin_map_open(ctx, path, &points->map));
    KIN_TRY(kin_shape_check_empty(ctx, path, &points->map));
    switch (format) {
    case KIN_FORMAT_CSV:
    case KIN_FORMAT_TSV:
        return kin_text_read(points, path, format);
    case KIN_FORMAT_NPY:
        KIN_TRY(kin_npy_shape(ctx, path, points->map.data, points->map.bytes, points->cols_max,
                              &shape));
        break;
    case KIN_FORMAT_FVECS:
    case KIN_FORMAT_BVECS:
    case KIN_FORMAT_IVECS:
        KIN_TRY(kin_vecs_shape(ctx, path, &points->map, format, points->cols_max, &shape));
        KIN_TRY(kin_vecs_check(ctx, path, &shape));
        break;
    default:
        KIN_TRY(kin_bin_shape(ctx, path, &points->map, format, points->cols_max, &shape));
        break;
    }
    return take_shape(points, path, &shape);
}

static kith_status read_points(kith_points *points, const char *path)
{
    kin_format format = KIN_FORMAT_NONE;
    KIN_TRY(kin_format_find(points->ctx, path, KIN_POINTS_IN, &format));
    if (format == KIN_FORMAT_KITH) {
        return read_kith(points, path);
    }
    if (format == KIN_FORMAT_HDF5) {
        return kin_hdf5_read(points, path);
    }
    return read_mapped(points, path, format);
}

static kith_status create(kith_ctx *ctx, const char *path, uint64_t cols_max, kith_points **out)
{
    *out = NULL;
    kith_points *points = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &points, 1, sizeof *points, "points"));
    points->ctx = ctx;
    points->cols_max = cols_max;
    const kith_status status = read_points(points, path);
    if (status != KITH_OK) {
        kin_points_close(points);
        return status;
    }
    *out = points;
    return KITH_OK;
}

kith_status kin_points_open(kith_ctx *ctx, const char *path, kith_points **out)
{
    return create(ctx, path, KIN_COLS_MAX, out);
}

kith_status kin_points_open_values(kith_ctx *ctx, const char *path, kith_points **out)
{
    KIN_TRY(create(ctx, path, KIN_VALUES_COLS_MAX, out));
    const kin_item item = (*out)->item;
    if (item.kind == 'f' || item.kind == 'h') {
        return KITH_OK;
    }
    kin_points_close(*out);
    *out = NULL;
    return kin_fail_at(ctx, KITH_E_DATA, kin_at_file(path),
                       "holds %s values, selection takes floats (convert it to .fbin, or save "
                       "x.astype('float32'))",
                       kin_item_name(item));
}

void kin_points_close(kith_points *points)
{
    if (points == NULL) {
        return;
    }
    kith_ctx *ctx = points->ctx;
    kin_map_close(&points->map);
    kin_container_close(points->container);
    kin_free(ctx, points->block);
    kin_free(ctx, points);
}
