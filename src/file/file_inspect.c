/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_inspect.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_npy.h"
#include "file/file_part.h"
#include "file/file_points.h"
#include "file/file_result.h"

#include <stdio.h>

static void take_shape(kith_file_info *info, kith_kind kind, const kin_shape *shape)
{
    const kith_dtype own = kin_item_dtype(shape->item);
    info->kind = kind;
    info->rows = shape->rows;
    info->cols = shape->cols;
    if (kind != KITH_KIND_GRAPH && kind != KITH_KIND_RESULT) {
        info->dtype = own != KITH_DTYPE_NONE ? own : KITH_F64;
    }
}

static void take_recall(kith_file_info *info, double recall, int64_t at)
{
    if (info->exact == KITH_APPROXIMATE && recall >= 0.0 && at > 0) {
        info->recall = recall;
        info->recall_at = at;
    }
}

static kith_status take_tree(kith_ctx *ctx, const kin_container *container, kith_file_info *info)
{
    kin_stored_tree tree;
    KIN_TRY(kin_container_tree(ctx, container, &tree));
    info->tree_height = tree.height;
    info->tree_rows = tree.points;
    info->tree_slack = tree.places - tree.points;
    return KITH_OK;
}

/* What a container of a certain kind has beside its header. */
static kith_status take_more(kith_ctx *ctx, const char *path, const kin_container *container,
                             kith_file_info *info)
{
    if (info->kind == KITH_KIND_TREE) {
        return take_tree(ctx, container, info);
    }
    if (kin_container_has(container, KIN_TAG_PART)) {
        kin_part part;
        KIN_TRY(kin_part_read(ctx, container, &part));
        info->part = part.number + 1;
        info->parts = part.count;
        info->first_row = part.first;
        return KITH_OK;
    }
    return kin_container_has(container, KIN_TAG_PARTS)
               ? kin_parts_inspect(ctx, path, container, &info->parts, &info->file_bytes)
               : KITH_OK;
}

static kith_status inspect_kith(kith_ctx *ctx, const char *path, kith_file_info *info)
{
    kin_container *container = NULL;
    KIN_TRY(kin_container_open(ctx, path, true, &container));
    const kin_container_header *header = kin_container_get_header(container);
    info->kind = header->kind;
    info->dtype = header->dtype;
    info->metric = header->metric;
    info->exact = header->exact;
    info->points = header->points;
    take_recall(info, header->recall, header->recall_at);
    info->rows = header->rows;
    info->cols = kin_container_has_points(container) ? header->cols : header->k;
    info->file_bytes = kin_container_file_bytes(container);
    const kith_status status = take_more(ctx, path, container, info);
    kin_container_close(container);
    return status;
}

static kith_status inspect_npz(kith_ctx *ctx, const char *path, const kin_map *map,
                               kith_file_info *info)
{
    kith_result_meta meta = kith_result_meta_default();
    kin_shape shape = {.rows = 0};
    bool csr = false;
    meta.kind = KITH_KIND_RESULT;
    KIN_TRY(kin_npz_shape(ctx, path, map, &shape, &meta, &csr));
    take_shape(info, csr && shape.cols == 0 ? KITH_KIND_RANGES : meta.kind, &shape);
    info->dtype = KITH_DTYPE_NONE;
    info->metric = meta.metric;
    info->exact = meta.exact;
    info->points = meta.points;
    take_recall(info, meta.recall, meta.recall_at);
    (void)snprintf(info->format, sizeof info->format, "%s", csr ? "csr" : "npz");
    return KITH_OK;
}

static kith_status inspect_knn(kith_ctx *ctx, const char *path, const kin_map *map,
                               kith_file_info *info)
{
    uint32_t header[2] = {0, 0};
    if (map->bytes >= sizeof header) {
        memcpy(header, map->data, sizeof header);
    }
    KIN_TRY(kin_shape_check_bytes(ctx, path, map->bytes, sizeof header, header[0],
                                  kin_size_mul(header[1], 8)));
    KIN_TRY(kin_shape_check(ctx, path, header[0], header[1], KIN_ROWS_MAX));
    info->kind = KITH_KIND_RESULT;
    info->rows = header[0];
    info->cols = header[1];
    return KITH_OK;
}

/* .ivecs and .ibin hold integers, and do not say whether these are points or ids: the kind of such
 * a file is KITH_KIND_NONE. */
static kith_status inspect_table(kith_ctx *ctx, const char *path, const kin_map *map,
                                 kin_format format, kith_file_info *info)
{
    const bool either = (kin_format_get_traits(format)->uses & KIN_RESULT) != 0;
    const uint64_t cols_max = KIN_VALUES_COLS_MAX; /* ids are as many at most */
    kin_shape shape;
    switch (format) {
    case KIN_FORMAT_FVECS:
    case KIN_FORMAT_BVECS:
    case KIN_FORMAT_IVECS:
        KIN_TRY(kin_vecs_shape(ctx, path, map, format, cols_max, &shape));
        break;
    default:
        KIN_TRY(kin_bin_shape(ctx, path, map, format, cols_max, &shape));
        break;
    }
    take_shape(info, either ? KITH_KIND_NONE : KITH_KIND_POINTS, &shape);
    return KITH_OK;
}

/* Of one axis, a .npy is what labels are read from. */
static kith_status inspect_npy(kith_ctx *ctx, const char *path, const kin_input *input,
                               kith_file_info *info)
{
    kin_shape shape;
    KIN_TRY(kin_npy_shape(ctx, path, input, true, KIN_VALUES_COLS_MAX, &shape));
    take_shape(info, KITH_KIND_POINTS, &shape);
    return KITH_OK;
}

/* What is read from its first byte to its last. */
static kith_status inspect_input(kith_ctx *ctx, const char *path, const kith_points_params *params,
                                 kin_format format, kith_file_info *info)
{
    kin_input input;
    kith_status status = KITH_OK;
    KIN_TRY(kin_input_open(ctx, path, &input));
    info->file_bytes = input.file_bytes;
    info->kind = KITH_KIND_POINTS;
    if (format == KIN_FORMAT_NONE) {
        KIN_TRY_GOTO(status, kin_format_sniff(ctx, path, input.data, input.bytes, &format), done);
    }
    (void)snprintf(info->format, sizeof info->format, "%s", kin_format_get_traits(format)->name);
    status = format == KIN_FORMAT_NPY ? inspect_npy(ctx, path, &input, info)
                                      : kin_text_inspect(ctx, path, params, format, &input, info);
done:
    kin_input_close(ctx, &input);
    return status;
}

static kith_status inspect_mapped(kith_ctx *ctx, const char *path, kin_format format,
                                  kith_file_info *info)
{
    kin_map map;
    kith_status status = KITH_OK;
    KIN_TRY(kin_map_open(ctx, path, &map));
    info->file_bytes = map.bytes;
    KIN_TRY_GOTO(status, kin_shape_check_empty(ctx, path, &map), done);
    if (format == KIN_FORMAT_NPZ) {
        status = inspect_npz(ctx, path, &map, info);
    } else if (format == KIN_FORMAT_KNN) {
        status = inspect_knn(ctx, path, &map, info);
    } else {
        status = inspect_table(ctx, path, &map, format, info);
    }
done:
    kin_map_close(&map);
    return status;
}

static kith_status inspect_hdf5(kith_ctx *ctx, const char *path, kith_file_info *info)
{
    kin_shape shape;
    KIN_TRY(kin_hdf5_shape(ctx, path, &info->file_bytes, &shape));
    take_shape(info, KITH_KIND_POINTS, &shape);
    return KITH_OK;
}

kith_status kin_file_inspect(kith_ctx *ctx, const char *path, const kith_points_params *params,
                             kith_file_info *info)
{
    kin_format format = kin_format_of(path, KIN_POINTS_IN | KIN_RESULT);
    info->recall = -1.0;
    if ((kin_format_get_traits(format)->uses & KIN_PIPE_IN) != 0 ||
        (format == KIN_FORMAT_NONE && kin_input_is_pipe(path))) {
        return inspect_input(ctx, path, params, format, info);
    }
    KIN_TRY(kin_format_find(ctx, path, KIN_POINTS_IN | KIN_RESULT, &format));
    (void)snprintf(info->format, sizeof info->format, "%s", kin_format_get_traits(format)->name);
    switch (format) {
    case KIN_FORMAT_KITH:
        return inspect_kith(ctx, path, info);
    case KIN_FORMAT_HDF5:
        return inspect_hdf5(ctx, path, info);
    default:
        return inspect_mapped(ctx, path, format, info);
    }
}
