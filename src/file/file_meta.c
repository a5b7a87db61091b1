/* SPDX-License-Identifier: Apache-2.0
 * What a result says about itself, as one JSON object of ASCII. */
#include "file/file_checksum.h"
#include "file/file_number.h"
#include "file/file_result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_ROOM = 48, DEPTH_MAX = 8, NUMBER_ROOM = 40 };

int kin_meta_print(char text[KIN_META_TEXT], const kith_result_meta *meta, int64_t k)
{
    const kin_number_locale locale = kin_number_enter();
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
    kin_number_leave(locale);
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
    const kin_number_locale locale = kin_number_enter();
    json j = {.at = text, .end = text + bytes, .meta = *meta};
    if (take_value(&j, "", 0)) {
        make_honest(&j);
        *meta = j.meta;
    }
    kin_number_leave(locale);
}
