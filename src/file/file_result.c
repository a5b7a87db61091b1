/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_result.h"
#include "base/base_mem.h"
#include "base/base_try.h"

#include <inttypes.h>

/* A block of count x bytes that the result owns, in *out. */
static kith_status reserve_block(kith_result *result, int64_t count, uint64_t bytes, void *out)
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

kith_status kin_result_check_ids(kith_result *result, const char *path, bool has_sign)
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
        return kin_result_check_ids(result, path, shape->item.kind == 'i');
    }
    KIN_TRY(
        reserve_block(result, shape->rows * shape->cols, sizeof(uint32_t), &result->neighbors.ids));
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
    KIN_TRY(reserve_block(result, count, sizeof(float), &result->neighbors.distances));
    if (!is_double) {
        memcpy(result->neighbors.distances, shape->data, (size_t)count * sizeof(float));
        return KITH_OK;
    }
    KIN_TRY(reserve_block(result, count, sizeof(double), &result->neighbors.distances64));
    memcpy(result->neighbors.distances64, shape->data, (size_t)count * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        result->neighbors.distances[i] = (float)result->neighbors.distances64[i];
    }
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
    kin_input_close(ctx, &result->input);
    kin_map_close(&result->tables[0]);
    kin_map_close(&result->tables[1]);
    kin_container_close(result->container);
    kin_free(ctx, result);
}
