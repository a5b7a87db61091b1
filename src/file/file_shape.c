/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_shape.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

#include <inttypes.h>

enum { VECS_HEADER = 4, BIN_HEADER = 8, CHECK_ROWS = 4096 };

kith_status kin_shape_check(kith_ctx *ctx, const char *path, uint64_t rows, uint64_t cols,
                            uint64_t cols_max)
{
    if (rows == 0) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "holds 0 rows (at least 1 is needed)");
    }
    if (cols == 0) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "its rows have 0 columns (at least 1 is needed)");
    }
    if (rows > KIN_ROWS_MAX) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "says it holds %" PRIu64 " rows; kith takes at most %" PRIu64
                           " (split the file)",
                           rows, KIN_ROWS_MAX);
    }
    if (cols > cols_max) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "says its rows have %" PRIu64 " columns; kith takes at most %" PRIu64
                           " (is it of another format?)",
                           cols, cols_max);
    }
    return KITH_OK;
}

kith_status kin_shape_check_bytes(kith_ctx *ctx, const char *path, uint64_t have,
                                  uint64_t header_bytes, uint64_t rows, uint64_t row_bytes)
{
    const uint64_t need = kin_size_add(header_bytes, kin_size_mul(rows, row_bytes));
    if (have == need) {
        return KITH_OK;
    }
    return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                       "has %" PRIu64 " bytes, but its header (%" PRIu64
                       " bytes) announces %" PRIu64 " rows of %" PRIu64 " bytes, %" PRIu64
                       " in all (%s)",
                       have, header_bytes, rows, row_bytes, need,
                       have < need ? "it is cut short: copy it again"
                                   : "it is too long: is it of another format?");
}

kith_status kin_shape_check_empty(kith_ctx *ctx, const char *path, const kin_map *map)
{
    if (map->bytes == 0) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "is empty (it has 0 bytes; make it again)");
    }
    return KITH_OK;
}

static kith_status check_header(kith_ctx *ctx, const char *path, const kin_map *map,
                                uint64_t header_bytes)
{
    KIN_TRY(kin_shape_check_empty(ctx, path, map));
    if (map->bytes < header_bytes) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "has %" PRIu64 " bytes, less than the %" PRIu64
                           " of its header (it is cut short: copy it again)",
                           map->bytes, header_bytes);
    }
    return KITH_OK;
}

static int32_t load_i32(const unsigned char *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t load_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

kith_status kin_vecs_shape(kith_ctx *ctx, const char *path, const kin_map *map, kin_format format,
                           uint64_t cols_max, kin_shape *shape)
{
    KIN_TRY(check_header(ctx, path, map, VECS_HEADER));
    const int32_t cols = load_i32(map->data);
    if (cols <= 0 || (uint64_t)cols > cols_max) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "row 0 says it has %" PRId32 " columns; 1 to %" PRIu64
                           " are possible (is it a .%s file?)",
                           cols, cols_max, kin_format_get_traits(format)->name);
    }
    const kin_item item = kin_format_get_traits(format)->item;
    const uint64_t stride = VECS_HEADER + (uint64_t)cols * (uint64_t)item.bytes;
    if (map->bytes % stride != 0) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "has %" PRIu64 " bytes, not a multiple of the %" PRIu64
                           " that a row of %" PRId32
                           " %s columns takes (it is cut short, or its rows differ in length)",
                           map->bytes, stride, cols, kin_item_name(item));
    }
    KIN_TRY(kin_shape_check(ctx, path, map->bytes / stride, (uint64_t)cols, cols_max));
    memset(shape, 0, sizeof *shape);
    shape->data = map->data + VECS_HEADER;
    shape->rows = (int64_t)(map->bytes / stride);
    shape->cols = cols;
    shape->stride = (int64_t)stride;
    shape->item = item;
    return KITH_OK;
}

kith_status kin_vecs_check(kith_ctx *ctx, const char *path, const kin_shape *shape)
{
    for (int64_t row = 0; row < shape->rows; row++) {
        const int32_t cols = load_i32(shape->data + row * shape->stride - VECS_HEADER);
        if (cols != shape->cols) {
            return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                               "row %" PRId64 " says it has %" PRId32 " columns, row 0 has %" PRId64
                               " (all rows must be of one length)",
                               row, cols, shape->cols);
        }
        if (row % CHECK_ROWS == 0) {
            KIN_TRY(kin_progress(ctx, "read", (double)row, (double)shape->rows));
        }
    }
    return KITH_OK;
}

kith_status kin_bin_shape(kith_ctx *ctx, const char *path, const kin_map *map, kin_format format,
                          uint64_t cols_max, kin_shape *shape)
{
    KIN_TRY(check_header(ctx, path, map, BIN_HEADER));
    const uint64_t rows = load_u32(map->data);
    const uint64_t cols = load_u32(map->data + 4);
    KIN_TRY(kin_shape_check(ctx, path, rows, cols, cols_max));
    const kin_item item = kin_format_get_traits(format)->item;
    const uint64_t stride = cols * (uint64_t)item.bytes;
    KIN_TRY(kin_shape_check_bytes(ctx, path, map->bytes, BIN_HEADER, rows, stride));
    memset(shape, 0, sizeof *shape);
    shape->data = map->data + BIN_HEADER;
    shape->rows = (int64_t)rows;
    shape->cols = (int64_t)cols;
    shape->stride = (int64_t)stride;
    shape->item = item;
    return KITH_OK;
}
