/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_open.h"

#include "base/base_mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
    KIN_DAMAGED_IF(result->meta.corpus_rows > 0 && value >= 0.0, result->ctx, path,
                   "row %" PRId64 ", column %" PRId64
                   " holds the id %.0f, but the corpus has %" PRId64
                   " rows (it is damaged: make it again)",
                   row, col, value, result->meta.corpus_rows);
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
    KIN_DAMAGED_IF(shape->item.kind != 'i' && shape->item.kind != 'u', result->ctx, path,
                   "holds %s, ids are integers (save int32)", kin_item_name(shape->item));
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
    KIN_DAMAGED_IF(shape->item.kind != 'f' || shape->item.bytes == 2, result->ctx, path,
                   "holds %s, distances are float32 or float64 (save float32)",
                   kin_item_name(shape->item));
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

void kith_result_free(kith_result *result)
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

/* ---- What it says about itself --------------------------------------------------------------- */

/* What a result says about itself, as one JSON object of ASCII. */

enum { KEY_ROOM = 48, DEPTH_MAX = 8, NUMBER_ROOM = 40 };

int kin_meta_print(char text[KIN_META_TEXT], const kith_result_meta *meta, int64_t k)
{
    KIN_C_NUMBERS();
    int used = snprintf(text, KIN_META_TEXT, "{\"kind\": \"%s\"",
                        meta->kind == KITH_KIND_GRAPH ? "graph" : "result");
    const size_t room = KIN_META_TEXT;
    if (meta->metric != KITH_METRIC_DEFAULT) {
        used += snprintf(text + used, room - (size_t)used, ", \"metric\": \"%s\"",
                         kith_metric_name(meta->metric));
    }
    used += snprintf(text + used, room - (size_t)used, ", \"k\": %" PRId64 ", \"exact\": %s", k,
                     meta->exact == KITH_CERTIFIED     ? "true"
                     : meta->exact == KITH_APPROXIMATE ? "false"
                                                       : "null");
    if (meta->exact == KITH_APPROXIMATE && meta->recall >= 0.0) {
        char estimate[NUMBER_ROOM];
        (void)kin_number_print(estimate, sizeof estimate, meta->recall, false);
        used += snprintf(text + used, room - (size_t)used,
                         ", \"recall\": {\"at\": %" PRId64 ", \"estimate\": %s}", meta->recall_at,
                         estimate);
    }
    if (meta->corpus_rows > 0) {
        used += snprintf(text + used, room - (size_t)used, ", \"corpus_rows\": %" PRId64,
                         meta->corpus_rows);
    }
    if (meta->points.rows > 0) {
        used += snprintf(text + used, room - (size_t)used,
                         ", \"points\": {\"rows\": %" PRId64 ", \"cols\": %" PRId32
                         ", \"dtype\": \"%s\", \"checksum\": \"%016" PRIx64 "\"}",
                         meta->points.rows, meta->points.cols, kith_dtype_name(meta->points.dtype),
                         meta->points.checksum);
    }
    used += snprintf(text + used, room - (size_t)used, "}");
    return used;
}

typedef struct json {
    const char *at;
    const char *end;
    kith_result_meta meta;
    bool has_checksum; /* of points */
} json;

static bool take(json *j, char wanted)
{
    while (j->at < j->end &&
           (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r')) {
        j->at++;
    }
    if (j->at < j->end && *j->at == wanted) {
        j->at++;
        return true;
    }
    return false;
}

/* Escapes are passed over, not decoded: no word that matters has one. */
static bool take_string(json *j, char text[KEY_ROOM])
{
    size_t used = 0;
    if (!take(j, '"')) {
        return false;
    }
    while (j->at < j->end && *j->at != '"') {
        if (*j->at == '\\') {
            j->at++;
            if (j->at == j->end) {
                return false;
            }
        }
        if (used + 1 < KEY_ROOM) {
            text[used++] = *j->at;
        }
        j->at++;
    }
    text[used] = '\0';
    return take(j, '"');
}

static int64_t whole(double value)
{
    return value >= 0.0 && value < 9007199254740992.0 && floor(value) == value ? (int64_t)value : 0;
}

static void note_number(kith_result_meta *meta, const char *key, double value)
{
    if (strcmp(key, "corpus_rows") == 0) {
        meta->corpus_rows = whole(value);
    } else if (strcmp(key, "recall.at") == 0) {
        meta->recall_at = whole(value);
    } else if (strcmp(key, "recall.estimate") == 0 || strcmp(key, "recall") == 0) {
        meta->recall = value >= 0.0 && value <= 1.0 ? value : -1.0;
    } else if (strcmp(key, "points.rows") == 0) {
        meta->points.rows = whole(value);
    } else if (strcmp(key, "points.cols") == 0) {
        meta->points.cols = value <= (double)INT32_MAX ? (int32_t)whole(value) : 0;
    }
}

static void note_word(json *j, const char *key, const char *word)
{
    kith_result_meta *meta = &j->meta;
    if (strcmp(key, "metric") == 0) {
        meta->metric = kith_metric_parse(word);
    } else if (strcmp(key, "kind") == 0 && strcmp(word, "graph") == 0) {
        meta->kind = KITH_KIND_GRAPH;
    } else if (strcmp(key, "points.dtype") == 0) {
        meta->points.dtype = kin_dtype_parse(word);
    } else if (strcmp(key, "points.checksum") == 0) {
        j->has_checksum = kin_checksum_parse(word, &meta->points.checksum);
    }
}

static bool take_value(json *j, const char *key, int depth);

static bool take_object(json *j, const char *key, int depth)
{
    while (!take(j, '}')) {
        char name[KEY_ROOM];
        char path[2 * KEY_ROOM];
        if (!take_string(j, name) || !take(j, ':')) {
            return false;
        }
        (void)snprintf(path, sizeof path, "%.*s%s%s", KEY_ROOM - 1, key, key[0] != '\0' ? "." : "",
                       name);
        if (!take_value(j, path, depth)) {
            return false;
        }
        if (!take(j, ',')) {
            return take(j, '}');
        }
    }
    return true;
}

static bool take_array(json *j, int depth)
{
    while (!take(j, ']')) {
        if (!take_value(j, "[]", depth)) {
            return false;
        }
        if (!take(j, ',')) {
            return take(j, ']');
        }
    }
    return true;
}

/* A number, true, false or null. */
static bool take_bare(json *j, const char *key)
{
    const char *start = j->at;
    while (j->at < j->end && strchr(" \n\t\r,]}", *j->at) == NULL) {
        j->at++;
    }
    const size_t bytes = (size_t)(j->at - start);
    const bool yes = bytes == 4 && memcmp(start, "true", 4) == 0;
    if (yes || (bytes == 5 && memcmp(start, "false", 5) == 0)) {
        const kith_exactness said = yes ? KITH_CERTIFIED : KITH_APPROXIMATE;
        j->meta.exact = strcmp(key, "exact") == 0 ? said : j->meta.exact;
        return true;
    }
    double value = 0.0;
    if (kin_number_parse(start, j->at, &value)) {
        note_number(&j->meta, key, value);
        return true;
    }
    return bytes == 4 && memcmp(start, "null", 4) == 0;
}

static bool take_value(json *j, const char *key, int depth)
{
    if (depth == DEPTH_MAX) {
        return false;
    }
    if (take(j, '{')) {
        return take_object(j, key, depth + 1);
    }
    if (take(j, '[')) {
        return take_array(j, depth + 1);
    }
    if (j->at < j->end && *j->at == '"') {
        char word[KEY_ROOM];
        if (!take_string(j, word)) {
            return false;
        }
        note_word(j, key, word);
        return true;
    }
    return take_bare(j, key);
}

/* A fingerprint is whole or unknown, and nothing is certified of unknown points. */
static void make_honest(json *j)
{
    kith_result_meta *meta = &j->meta;
    const kith_fingerprint *points = &meta->points;
    if (!j->has_checksum || points->rows < 1 || points->cols < 1 ||
        points->dtype == KITH_DTYPE_NONE ||
        (meta->corpus_rows != 0 && meta->corpus_rows != points->rows)) {
        memset(&meta->points, 0, sizeof meta->points);
    }
    if (meta->exact == KITH_CERTIFIED && meta->points.rows == 0) {
        meta->exact = KITH_EXACTNESS_UNKNOWN;
    }
    if (meta->exact != KITH_APPROXIMATE) {
        meta->recall = -1.0;
        meta->recall_at = 0;
    }
}

void kin_meta_parse(const char *text, uint64_t bytes, kith_result_meta *meta)
{
    KIN_C_NUMBERS();
    json j = {.at = text, .end = text + bytes, .meta = *meta};
    if (take_value(&j, "", 0)) {
        make_honest(&j);
        *meta = j.meta;
    }
}
