/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_reader.h"

#include "base/base_try.h"

#include <inttypes.h>

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

kith_status kin_shape_make(const kin_source *source, const void *data, uint64_t rows, uint64_t cols,
                           kin_item item, kin_shape *shape)
{
    KIN_TRY(kin_shape_check(source->ctx, source->path, rows, cols, source->cols_max));
    *shape = (kin_shape){.data = data,
                         .rows = (int64_t)rows,
                         .cols = (int64_t)cols,
                         .stride = (int64_t)cols * item.bytes,
                         .item = item};
    return KITH_OK;
}

void kin_info_take_shape(kith_file_info *info, kith_kind kind, const kin_shape *shape)
{
    const kith_dtype own = kin_item_dtype(shape->item);
    const bool ids = kind == KITH_KIND_GRAPH || kind == KITH_KIND_RESULT;
    info->kind = kind;
    info->rows = shape->rows;
    info->cols = shape->cols;
    info->dtype = ids ? KITH_DTYPE_NONE : own != KITH_DTYPE_NONE ? own : KITH_F64;
}

void kin_info_take_meta(kith_file_info *info, const kith_result_meta *meta)
{
    info->metric = meta->metric;
    info->exact = meta->exact;
    info->points = meta->points;
    if (meta->exact == KITH_APPROXIMATE && meta->recall >= 0.0 && meta->recall_at > 0) {
        info->recall = meta->recall;
        info->recall_at = meta->recall_at;
    }
}
