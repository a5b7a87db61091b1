/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_part.h"
#include "file/file_result.h"

#include <inttypes.h>

enum { KNN_HEADER = 8 };

kith_status kin_result_reserve(kith_result *result, int64_t count, uint64_t bytes, void *out)
{
    void **target = out;
    if (result->block_count == KIN_RESULT_BLOCKS) {
        return kin_fail(result->ctx, KITH_E_INTERNAL, "a result of too many blocks");
    }
    KIN_TRY(kin_alloc(result->ctx, target, (uint64_t)count, bytes, "neighbours"));
    result->blocks[result->block_count++] = *target;
    return KITH_OK;
}

/* The id that a stored integer means. */
static bool id_of(double value, bool whole, uint32_t *id)
{
    if (value == -1.0) {
        *id = KITH_ID_NONE;
        return true;
    }
    *id = whole && value >= 0.0 && value < 4294967296.0 ? (uint32_t)value : 0;
    return whole && value >= 0.0 && value < 4294967296.0;
}

static kith_status fail_id(kith_result *result, const char *path, double value, int64_t row,
                           int64_t col)
{
    if (result->meta.corpus_rows > 0 && value >= 0.0) {
        return kin_fail_at(result->ctx, KITH_E_FORMAT, kin_at_file(path),
                           "row %" PRId64 ", column %" PRId64
                           " holds the id %.0f, but the corpus has %" PRId64
                           " rows (it is damaged: make it again)",
                           row, col, value, result->meta.corpus_rows);
    }
    return kin_fail_at(result->ctx, KITH_E_FORMAT, kin_at_file(path),
                       "row %" PRId64 ", column %" PRId64
                       " holds %.0f, which is no id (0 to 4294967294, or -1 for none)",
                       row, col, value);
}

static bool beyond_corpus(const kith_result *result, uint32_t id)
{
    return id != KITH_ID_NONE && result->meta.corpus_rows > 0 &&
           (int64_t)id >= result->meta.corpus_rows;
}

static kith_status convert_ids(kith_result *result, const char *path, const kin_shape *shape,
                               uint32_t *ids)
{
    for (int64_t row = 0; row < shape->rows; row++) {
        for (int64_t col = 0; col < shape->cols; col++) {
            double value = 0.0;
            const bool whole = kin_item_load(
                shape->item, shape->data + row * shape->stride + col * shape->item.bytes, &value);
            uint32_t *id = &ids[row * shape->cols + col];
            if (!id_of(value, whole, id) || beyond_corpus(result, *id)) {
                return fail_id(result, path, value, row, col);
            }
        }
    }
    return KITH_OK;
}

/* Where rows lie one behind the other and are aligned, they can be used in place. */
static bool is_plain(const kin_shape *shape)
{
    return shape->stride == shape->cols * shape->item.bytes &&
           (uint64_t)(uintptr_t)shape->data % (uint64_t)shape->item.bytes == 0;
}

static kith_status check_ids(kith_result *result, const char *path, bool has_sign)
{
    const kith_neighbors *n = &result->neighbors;
    for (int64_t i = 0; i < n->rows * n->k; i++) {
        const uint32_t id = n->ids[i];
        const bool negative = has_sign && id > INT32_MAX && id != KITH_ID_NONE;
        if (negative || beyond_corpus(result, id)) {
            return fail_id(result, path, negative ? (double)(int32_t)id : (double)id, i / n->k,
                           i % n->k);
        }
    }
    return KITH_OK;
}

kith_status kin_result_take_ids(kith_result *result, const char *path, const kin_shape *shape)
{
    if (shape->item.kind != 'i' && shape->item.kind != 'u') {
        return kin_fail_at(result->ctx, KITH_E_FORMAT, kin_at_file(path),
                           "holds %s, ids are integers (save int32)", kin_item_name(shape->item));
    }
    result->neighbors.rows = shape->rows;
    result->neighbors.k = shape->cols;
    if (shape->item.bytes == 4 && is_plain(shape)) {
        result->neighbors.ids = (uint32_t *)(uintptr_t)shape->data;
        return check_ids(result, path, shape->item.kind == 'i');
    }
    KIN_TRY(kin_result_reserve(result, shape->rows * shape->cols, sizeof(uint32_t),
                               &result->neighbors.ids));
    return convert_ids(result, path, shape, result->neighbors.ids);
}

kith_status kin_result_take_distances(kith_result *result, const char *path, const kin_shape *shape)
{
    const bool is_double = shape->item.bytes == 8;
    if (shape->item.kind != 'f' || shape->item.bytes == 2) {
        return kin_fail_at(result->ctx, KITH_E_FORMAT, kin_at_file(path),
                           "holds %s, distances are float32 or float64 (save float32)",
                           kin_item_name(shape->item));
    }
    if (!is_double && is_plain(shape)) {
        result->neighbors.distances = (float *)(uintptr_t)shape->data;
        return KITH_OK;
    }
    const int64_t count = shape->rows * shape->cols;
    KIN_TRY(kin_result_reserve(result, count, sizeof(float), &result->neighbors.distances));
    if (!is_double) {
        memcpy(result->neighbors.distances, shape->data, (size_t)count * sizeof(float));
        return KITH_OK;
    }
    KIN_TRY(kin_result_reserve(result, count, sizeof(double), &result->neighbors.distances64));
    memcpy(result->neighbors.distances64, shape->data, (size_t)count * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        result->neighbors.distances[i] = (float)result->neighbors.distances64[i];
    }
    return KITH_OK;
}

static kith_status open_knn(kith_result *result, const char *path)
{
    kith_ctx *ctx = result->ctx;
    const kin_map *map = &result->map;
    if (map->bytes < KNN_HEADER) {
        return kin_fail_at(
            ctx, KITH_E_FORMAT, kin_at_file(path),
            "has %" PRIu64
            " bytes, less than the %d of its header (it is cut short: copy it again)",
            map->bytes, KNN_HEADER);
    }
    uint32_t header[2];
    memcpy(header, map->data, sizeof header);
    KIN_TRY(kin_shape_check(ctx, path, header[0], header[1], KIN_ROWS_MAX));
    KIN_TRY(kin_shape_check_bytes(ctx, path, map->bytes, KNN_HEADER, header[0],
                                  kin_size_mul(header[1], 8)));
    kin_shape ids = {.data = map->data + KNN_HEADER,
                     .rows = header[0],
                     .cols = header[1],
                     .stride = (int64_t)header[1] * 4,
                     .item = {'u', 4}};
    kin_shape distances = ids;
    distances.data = ids.data + ids.rows * ids.stride;
    distances.item = kin_item_make('f', 4);
    KIN_TRY(kin_result_take_ids(result, path, &ids));
    return kin_result_take_distances(result, path, &distances);
}

/* A section as the neighbours' own table; NULL where the file has none. The view is read-only, as
 * the public header says, though its pointer is not const. */
static kith_status take_section(kith_result *result, const char *tag, uint64_t item_bytes,
                                void *out)
{
    const kith_neighbors *n = &result->neighbors;
    const void *data = NULL;
    if (kin_container_has(result->container, tag)) {
        KIN_TRY(kin_container_table(result->ctx, result->container, tag, (uint64_t)n->rows,
                                    (uint64_t)n->k * item_bytes, &data));
    }
    memcpy(out, &data, sizeof data);
    return KITH_OK;
}

static kith_status open_kith(kith_result *result, const char *path)
{
    kith_ctx *ctx = result->ctx;
    KIN_TRY(kin_container_open(ctx, path, true, &result->container));
    const kin_container_header *header = kin_container_get_header(result->container);
    if (header->kind != KITH_KIND_GRAPH && header->kind != KITH_KIND_RESULT) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "holds %s, not k neighbours a row (give a graph or a result)",
                           header->kind == KITH_KIND_RANGES ? "lists of different lengths"
                                                            : "points");
    }
    KIN_TRY(kin_shape_check(ctx, path, (uint64_t)header->rows, (uint64_t)header->k, KIN_ROWS_MAX));
    const bool parts = kin_container_has(result->container, KIN_TAG_PARTS);
    if (!parts && !kin_container_has(result->container, KIN_TAG_IDS)) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
                           "has no ids (it is damaged: make it again)");
    }
    result->meta.kind = header->kind;
    result->meta.metric = header->metric;
    result->meta.exact = header->exact;
    result->meta.corpus_rows = header->corpus_rows;
    result->meta.recall = header->recall;
    result->meta.recall_at = header->recall_at;
    result->meta.points = header->points;
    kith_neighbors *n = &result->neighbors;
    n->rows = header->rows;
    n->k = header->k;
    if (parts) {
        KIN_TRY(kin_parts_map(result, path));
        return check_ids(result, path, false);
    }
    if (kin_container_has(result->container, KIN_TAG_PART)) {
        kin_part part;
        KIN_TRY(kin_part_read(ctx, result->container, &part));
        result->meta.first_row = part.first;
    }
    KIN_TRY(take_section(result, KIN_TAG_IDS, sizeof *n->ids, &n->ids));
    KIN_TRY(take_section(result, KIN_TAG_DISTANCES, sizeof *n->distances, &n->distances));
    KIN_TRY(take_section(result, KIN_TAG_DISTANCES64, sizeof *n->distances64, &n->distances64));
    return check_ids(result, path, false);
}

static kith_status open_mapped(kith_result *result, const char *path, kin_format format)
{
    kin_shape shape;
    KIN_TRY(kin_map_open(result->ctx, path, &result->map));
    KIN_TRY(kin_shape_check_empty(result->ctx, path, &result->map));
    if (format == KIN_FORMAT_NPZ) {
        return kin_npz_open(result, path);
    }
    if (format == KIN_FORMAT_KNN) {
        return open_knn(result, path);
    }
    if (format == KIN_FORMAT_IBIN) {
        KIN_TRY(kin_bin_shape(result->ctx, path, &result->map, format, KIN_ROWS_MAX, &shape));
    } else {
        KIN_TRY(kin_vecs_shape(result->ctx, path, &result->map, format, KIN_ROWS_MAX, &shape));
        KIN_TRY(kin_vecs_check(result->ctx, path, &shape));
    }
    return kin_result_take_ids(result, path, &shape);
}

kith_status kin_result_open(kith_ctx *ctx, const char *path, kith_result **out)
{
    *out = NULL;
    kin_format format = KIN_FORMAT_NONE;
    kith_result *result = NULL;
    KIN_TRY(kin_format_find(ctx, path, KIN_RESULT, &format));
    KIN_TRY(kin_alloc_zero(ctx, &result, 1, sizeof *result, "a result"));
    result->ctx = ctx;
    result->meta = kith_result_meta_default();
    result->meta.kind = KITH_KIND_RESULT;
    result->neighbors.meta = &result->meta;
    const kith_status status =
        format == KIN_FORMAT_KITH ? open_kith(result, path) : open_mapped(result, path, format);
    if (status != KITH_OK) {
        kin_result_close(result);
        return status;
    }
    *out = result;
    return KITH_OK;
}

void kin_result_close(kith_result *result)
{
    if (result == NULL) {
        return;
    }
    kith_ctx *ctx = result->ctx;
    for (int i = 0; i < result->block_count; i++) {
        kin_free(ctx, result->blocks[i]);
    }
    kin_map_close(&result->map);
    kin_map_close(&result->tables[0]);
    kin_map_close(&result->tables[1]);
    kin_container_close(result->container);
    kin_free(ctx, result);
}
