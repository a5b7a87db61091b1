/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_open.h"

#include "base/base_size.h"
#include "file/file_numpy.h"
#include "host/host_threads.h"

#include <inttypes.h>
#include <stdio.h>

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
    points->source.bytes += (uint64_t)rows * row_bytes;
    const kin_shape shape = {.rows = rows, .cols = cols, .stride = (int64_t)row_bytes};
    show(points, points->block, &shape, dtype);
    return KITH_OK;
}

kith_dtype kin_points_dtype(const kith_points *points, kin_item item)
{
    const kith_dtype own = kin_item_dtype(item);
    return points->column || own == KITH_DTYPE_NONE ? KITH_F64 : own;
}

static bool can_be_viewed(const kin_shape *shape)
{
    const uint64_t address = (uint64_t)(uintptr_t)shape->data;
    const uint64_t bytes = (uint64_t)shape->item.bytes;
    return shape->step == 0 && !shape->swapped && address % bytes == 0 &&
           (uint64_t)shape->stride % bytes == 0;
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

kith_status kin_points_fail_value(kith_ctx *ctx, const char *path, kin_item item, int64_t row,
                                  int64_t col)
{
    return kin_fail_at(ctx, KITH_E_DATA, kin_at_file(path),
                       "the value in row %" PRId64 ", column %" PRId64
                       " (%s, beyond 2^53) is not exactly a double (store smaller numbers)",
                       row, col, kin_item_name(item));
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
               : kin_points_fail_value(points->ctx, path, shape->item, row, col);
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

kith_status kin_points_take(kith_points *points, const char *path, const kin_shape *shape)
{
    points->item = shape->item;
    points->source.file_cols = shape->cols;
    points->source.fortran_order = shape->step != 0;
    points->source.big_endian = shape->swapped;
    const kith_dtype dtype = kin_points_dtype(points, shape->item);
    if (dtype == kin_item_dtype(shape->item) && can_be_viewed(shape)) {
        points->source.bytes += points->input.block != NULL ? points->input.bytes : 0;
        show(points, shape->data, shape, dtype);
        return KITH_OK;
    }
    KIN_TRY(kin_points_reserve(points, shape->rows, shape->cols, dtype));
    for (int64_t row = 0; row < shape->rows; row += BAND_ROWS) {
        const int64_t last = kin_min_i64(row + BAND_ROWS, shape->rows);
        KIN_TRY(copy_band(points, path, shape, row, last));
        KIN_TRY(kin_progress(points->ctx, "read", (double)last, (double)shape->rows));
    }
    kin_input_close(points->ctx, &points->input);
    return KITH_OK;
}

void kith_points_free(kith_points *points)
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

/* ---- Out ------------------------------------------------------------------------------------- */

enum { NUMBER_ROOM = 40, TYPICAL_DIGITS = 9 };

/* One row after the other, its values as `to`. */
typedef struct row_source {
    const kith_matrix *points;
    kin_item from;
    kin_item to;
    int64_t stride;
    unsigned char *buffer; /* NULL where from is to */
    int axes;              /* of a .npy: 2, or 1 for a column */
    const char *path;
} row_source;

static kith_status fail_value(kith_ctx *ctx, const row_source *source, int64_t row, int64_t col,
                              double value)
{
    KIN_C_NUMBERS();
    return kin_fail_at(ctx, KITH_E_DATA, kin_at_file(source->path),
                       "the value %.17g in row %" PRId64 ", column %" PRId64
                       " is not exactly of the format's type, %s (choose another format)",
                       value, row, col, kin_item_name(source->to));
}

static kith_status get_row(kith_ctx *ctx, const row_source *source, int64_t row, const void **out)
{
    const unsigned char *from = (const unsigned char *)source->points->data + row * source->stride;
    *out = from;
    if (source->buffer == NULL) {
        return KITH_OK;
    }
    for (int32_t col = 0; col < source->points->cols; col++) {
        double value = 0.0;
        (void)kin_item_load(source->from, from + (int64_t)col * source->from.bytes, &value);
        if (!kin_item_store(source->to, value, source->buffer + (int64_t)col * source->to.bytes)) {
            return fail_value(ctx, source, row, col, value);
        }
    }
    *out = source->buffer;
    return KITH_OK;
}

static kith_status put_rows(kin_writer *writer, const row_source *source, bool vecs)
{
    const kith_matrix *m = source->points;
    const uint64_t row_bytes = (uint64_t)m->cols * (uint64_t)source->to.bytes;
    writer->total = kin_size_mul((uint64_t)m->rows, row_bytes + (vecs ? sizeof m->cols : 0));
    for (int64_t row = 0; row < m->rows; row++) {
        const void *data = NULL;
        KIN_TRY(get_row(writer->ctx, source, row, &data));
        if (vecs) {
            KIN_TRY(kin_writer_put(writer, &m->cols, sizeof m->cols));
        }
        KIN_TRY(kin_writer_put(writer, data, row_bytes));
    }
    return KITH_OK;
}

/* A first line of 0, 1, 2 ... may be the names of columns to whoever reads it, kith itself
 * included: it is written as 0.0,1,2, which names nothing. */
static bool counts_columns(const row_source *source)
{
    const unsigned char *at = source->points->data;
    for (int32_t col = 0; col < source->points->cols; col++, at += source->from.bytes) {
        double value = 0.0;
        (void)kin_item_load(source->from, at, &value);
        if (value != (double)col) {
            return false;
        }
    }
    return true;
}

static kith_status put_text(kin_writer *writer, const row_source *source, char separator)
{
    bool counts = counts_columns(source);
    const kith_matrix *m = source->points;
    const bool single = source->from.bytes < 8;
    writer->total = kin_size_mul((uint64_t)m->rows, (uint64_t)m->cols * TYPICAL_DIGITS);
    for (int64_t row = 0; row < m->rows; row++) {
        const unsigned char *at = (const unsigned char *)m->data + row * source->stride;
        for (int32_t col = 0; col < m->cols; col++, at += source->from.bytes) {
            double value = 0.0;
            char text[NUMBER_ROOM];
            (void)kin_item_load(source->from, at, &value);
            int length = counts ? snprintf(text, sizeof text, "0.0")
                                : kin_number_print(text, sizeof text - 1, value, single);
            counts = false;
            text[length++] = col + 1 < m->cols ? separator : '\n';
            KIN_TRY(kin_writer_put(writer, text, (uint64_t)length));
        }
    }
    return KITH_OK;
}

static kith_status put_bin(kin_writer *writer, const row_source *source)
{
    const uint32_t header[2] = {(uint32_t)source->points->rows, (uint32_t)source->points->cols};
    KIN_TRY(kin_writer_put(writer, header, sizeof header));
    return put_rows(writer, source, false);
}

static kith_status put_npy(kin_writer *writer, const row_source *source)
{
    char descr[8];
    char header[KIN_NPY_HEADER_MAX];
    kin_npy_descr(source->to, descr);
    const uint64_t bytes =
        kin_npy_header(header, descr, source->axes, source->points->rows, source->points->cols);
    KIN_TRY(kin_writer_put(writer, header, bytes));
    return put_rows(writer, source, false);
}

static kith_status put_points(kin_writer *writer, const row_source *source, kin_format format)
{
    switch (format) {
    case KIN_FORMAT_CSV:
        return put_text(writer, source, ',');
    case KIN_FORMAT_TSV:
        return put_text(writer, source, '\t');
    case KIN_FORMAT_NPY:
        return put_npy(writer, source);
    case KIN_FORMAT_FVECS:
    case KIN_FORMAT_BVECS:
    case KIN_FORMAT_IVECS:
        return put_rows(writer, source, true);
    default:
        return put_bin(writer, source);
    }
}

static kith_status save_kith(kith_ctx *ctx, const char *path, const kith_matrix *points)
{
    const kin_container_header header = {.kind = KITH_KIND_POINTS,
                                         .dtype = points->dtype,
                                         .rows = points->rows,
                                         .cols = points->cols};
    const kin_section section = {.tag = KIN_TAG_POINTS, .matrix = points};
    return kin_container_write(ctx, path, &header, &section, 1);
}

/* What the file's values are: the format's type, in .npy the points' own. NumPy has no bfloat16;
 * each of them is a float32. */
static kin_item target_item(kin_format format, kith_dtype dtype)
{
    if (format != KIN_FORMAT_NPY) {
        return kin_format_get_traits(format)->item;
    }
    return dtype == KITH_BF16 ? kin_item_make('f', 4) : kin_item_of(dtype);
}

static kith_status save_rows(kith_ctx *ctx, const row_source *source, kin_format format)
{
    kin_writer writer;
    const bool text = format == KIN_FORMAT_CSV || format == KIN_FORMAT_TSV;
    KIN_TRY(text ? kin_writer_open_text(ctx, source->path, &writer)
                 : kin_writer_open(ctx, source->path, &writer));
    KIN_C_NUMBERS();
    return kin_writer_close(&writer, put_points(&writer, source, format));
}

static kith_status save_as(kith_ctx *ctx, const char *path, const kith_matrix *points,
                           kin_format format, int axes)
{
    row_source source = {.points = points,
                         .from = kin_item_of(points->dtype),
                         .to = target_item(format, points->dtype),
                         .stride = points->stride_bytes,
                         .axes = axes,
                         .path = path};
    if (source.stride == 0) {
        source.stride = (int64_t)points->cols * source.from.bytes;
    }
    KIN_HOLD(hold, ctx);
    if (source.from.kind != source.to.kind || source.from.bytes != source.to.bytes) {
        KIN_TRY(kin_hold_alloc(&hold, &source.buffer, (uint64_t)points->cols,
                               (uint64_t)source.to.bytes, "a row"));
    }
    return save_rows(ctx, &source, format);
}

kith_status kin_points_save(kith_ctx *ctx, const char *path, const kith_matrix *points)
{
    kin_format format = KIN_FORMAT_CSV;
    if (!kin_input_is_standard(path)) {
        KIN_TRY(kin_format_find(ctx, path, KITH_FILE_POINTS_OUT, &format));
    }
    return format == KIN_FORMAT_KITH ? save_kith(ctx, path, points)
                                     : save_as(ctx, path, points, format, 2);
}

kith_status kin_points_save_vector(kith_ctx *ctx, const char *path, const kith_matrix *column)
{
    KIN_FAIL_IF(kin_format_of(path, KITH_FILE_POINTS_OUT) != KIN_FORMAT_NPY, ctx, KITH_E_ARGUMENT,
                kin_at_file(path), "one value a row is saved as .npy (give this extension)");
    return save_as(ctx, path, column, KIN_FORMAT_NPY, 1);
}
