/* SPDX-License-Identifier: Apache-2.0
 *
 * Written and read by one list of lines: a certificate that somebody has laid out anew is still
 * JSON to others, but none to kith. */
#include "file/file_certificate.h"

#include "base/base_mem.h"
#include "file/file_atomic.h"
#include "file/file_checksum.h"
#include "file/file_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_BYTES = 32 };

kith_status kin_certificate_path(kith_ctx *ctx, const char *target, char **path)
{
    return kin_alloc_text(ctx, path, "a file's path", "%s.json", target);
}

kith_status kin_certified_measure(kith_ctx *ctx, kin_certified_file *file)
{
    kin_map map = {0};
    KIN_TRY(kin_map_open(ctx, file->name, &map));
    file->bytes = map.bytes;
    file->checksum = kin_checksum_of(map.data, map.bytes);
    kin_map_close(&map);
    return KITH_OK;
}

/* ---- Out ------------------------------------------------------------------------------------- */

/* In quotes, or null. Bytes that JSON has another way for are written as it wants them. */
static kith_status put_name(kin_writer *writer, const char *name)
{
    if (name == NULL) {
        return kin_writer_print(writer, "null");
    }
    KIN_TRY(kin_writer_print(writer, "\""));
    for (const char *at = name; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        KIN_TRY(byte < ' '                    ? kin_writer_print(writer, "\\u%04x", byte)
                : byte == '"' || byte == '\\' ? kin_writer_print(writer, "\\%c", byte)
                                              : kin_writer_put(writer, at, 1));
    }
    return kin_writer_print(writer, "\"");
}

static kith_status put_points(kin_writer *writer, const char *key, const kin_certified_points *of)
{
    const kith_fingerprint *points = &of->points;
    KIN_TRY(kin_writer_print(writer, "  \"%s\": {\"name\": ", key));
    KIN_TRY(put_name(writer, of->name));
    return kin_writer_print(writer,
                            ", \"rows\": %" PRId64 ", \"cols\": %" PRId32
                            ", \"dtype\": \"%s\", \"checksum\": \"%016" PRIx64 "\"},\n",
                            points->rows, points->cols, kith_dtype_name(points->dtype),
                            points->checksum);
}

static kith_status put_file(kin_writer *writer, const char *key, const kin_certified_file *file)
{
    KIN_TRY(kin_writer_print(writer, "  \"%s\": {\"name\": ", key));
    KIN_TRY(put_name(writer, file->name));
    return kin_writer_print(writer,
                            ", \"bytes\": %" PRIu64 ", \"checksum\": \"%016" PRIx64 "\"},\n",
                            file->bytes, file->checksum);
}

static const char *format_name(const kin_certificate *c)
{
#define ROW(NAME, number, name) [KITH_FORMAT_##NAME] = (name),
    static const char *const names[] = {KITH_FORMAT_MAP(ROW)};
#undef ROW
    return c->ids64                        ? "npy"
           : c->hdf5                       ? "hdf5"
           : c->format == KITH_FORMAT_AUTO ? "range"
                                           : names[c->format];
}

/* "k", or "radius". */
static kith_status put_extent(kin_writer *writer, const kin_certificate *c)
{
    char number[KEY_BYTES];
    if (!c->ranged) {
        return kin_writer_print(writer, "  \"k\": %" PRId64 ",\n", c->k);
    }
    const kin_number_locale locale = kin_number_enter();
    (void)kin_number_print(number, sizeof number, c->radius, false);
    kin_number_leave(locale);
    return kin_writer_print(writer, "  \"radius\": %s,\n", number);
}

static kith_status put_counts(kin_writer *writer, const kin_certificate *c)
{
    if (c->ranged) {
        return kin_writer_print(
            writer, "  \"counts\": {\"found\": %" PRId64 ", \"most_found\": %" PRId64 "}\n}\n",
            c->found, c->most_found);
    }
    return kin_writer_print(writer,
                            "  \"counts\": {\"full\": %" PRId64 ", \"tied\": %" PRId64
                            ", \"tied_beyond\": %" PRId64 ", \"most_ties\": %" PRId64 "}\n}\n",
                            c->full, c->tied, c->tied_beyond, c->most_ties);
}

static kith_status put_all(kin_writer *writer, const kin_certificate *c)
{
    static const char *const rules[] = {"none", "same", "other", "each"};
    KIN_TRY(kin_writer_print(writer, "{\n  \"kith_truth\": %d,\n", KIN_CERTIFICATE_VERSION));
    KIN_TRY(kin_writer_print(writer, "  \"library\": \"%s\",\n", c->library));
    KIN_TRY(kin_writer_print(writer, "  \"metric\": \"%s\",\n", kith_metric_name(c->metric)));
    KIN_TRY(put_extent(writer, c));
    KIN_TRY(kin_writer_print(writer, "  \"first_id\": %" PRIu64 ",\n", c->first_id));
    KIN_TRY(kin_writer_print(
        writer, "  \"filter\": {\"rule\": \"%s\", \"filters\": %s, \"checksum\": ", rules[c->rule],
        c->filters ? "true" : "false"));
    KIN_TRY(kin_writer_print(writer, "\"%016" PRIx64 "\"},\n", c->filter));
    KIN_TRY(put_points(writer, "queries", &c->queries));
    KIN_TRY(kin_writer_print(writer, "  \"files\": %" PRId32 ",\n", c->count));
    for (int32_t i = 0; i < c->count; i++) {
        char key[KEY_BYTES];
        (void)snprintf(key, sizeof key, "corpus %" PRId32, i);
        KIN_TRY(put_points(writer, key, &c->corpus[i]));
    }
    KIN_TRY(kin_writer_print(writer, "  \"format\": \"%s\",\n", format_name(c)));
    KIN_TRY(put_file(writer, "output", &c->output));
    KIN_TRY(put_file(writer, "ties", &c->ties));
    return put_counts(writer, c);
}

kith_status kin_certificate_save(kith_ctx *ctx, const char *path, const kin_certificate *c)
{
    kin_writer writer;
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    return kin_writer_close(&writer, put_all(&writer, c));
}

/* ---- In -------------------------------------------------------------------------------------- */

/* A text that is taken from its front; `right` becomes false where it is not as it was written. */
typedef struct scan {
    const char *at;
    const char *end;
    char *names; /* room for names, which is taken from its front, too */
    bool right;
} scan;

static bool comes(const scan *s, const char *words)
{
    const size_t length = strlen(words);
    return (size_t)(s->end - s->at) >= length && memcmp(s->at, words, length) == 0;
}

static void take(scan *s, const char *words)
{
    const size_t length = strlen(words);
    s->right = s->right && comes(s, words);
    s->at += s->right ? length : 0;
}

/* A number, a word, a checksum and so on, behind these words. */
static uint64_t take_number(scan *s, const char *words, uint64_t most)
{
    take(s, words);
    uint64_t value = 0;
    const char *start = s->at;
    while (s->right && s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        const uint64_t digit = (uint64_t)(*s->at++ - '0');
        s->right = value <= (most - digit) / 10;
        value = value * 10 + digit;
    }
    s->right = s->right && s->at > start;
    return s->right ? value : 0;
}

/* Up to the next quote, without escapes. */
static void take_word(scan *s, const char *words, char *word, size_t room)
{
    take(s, words);
    size_t used = 0;
    while (s->right && s->at < s->end && *s->at != '"') {
        s->right = used + 1 < room;
        word[used] = *s->at++;
        used += s->right;
    }
    word[used] = '\0';
}

static uint64_t take_checksum(scan *s, const char *words)
{
    char word[KEY_BYTES];
    uint64_t value = 0;
    take_word(s, words, word, sizeof word);
    s->right = s->right && kin_checksum_parse(word, &value);
    return value;
}

static kith_dtype take_dtype(scan *s, const char *words)
{
    char word[KEY_BYTES];
    take_word(s, words, word, sizeof word);
    const kith_dtype dtype = kin_dtype_parse(word);
    s->right = s->right && dtype != KITH_DTYPE_NONE;
    return dtype;
}

static char take_escape(scan *s)
{
    const char kind = s->at < s->end ? *s->at++ : '\0';
    if (kind != 'u') {
        return kind;
    }
    char digits[5] = "";
    s->right = s->right && s->end - s->at >= 4;
    if (s->right) {
        memcpy(digits, s->at, 4);
        s->at += 4;
    }
    return (char)strtol(digits, NULL, 16);
}

static const char *take_name(scan *s, const char *words)
{
    const char *name = s->names;
    take(s, words);
    if (s->right && s->end - s->at >= 4 && memcmp(s->at, "null", 4) == 0) {
        s->at += 4;
        return NULL;
    }
    take(s, "\"");
    while (s->right && s->at < s->end && *s->at != '"') {
        const char byte = *s->at++;
        *s->names++ = byte == '\\' ? take_escape(s) : byte;
    }
    *s->names++ = '\0';
    take(s, "\"");
    return name;
}

static kin_certified_points take_points(scan *s, const char *key)
{
    kin_certified_points of;
    take(s, "  \"");
    take(s, key);
    of.name = take_name(s, "\": {\"name\": ");
    of.points.rows = (int64_t)take_number(s, ", \"rows\": ", INT64_MAX);
    of.points.cols = (int32_t)take_number(s, ", \"cols\": ", INT32_MAX);
    of.points.dtype = take_dtype(s, ", \"dtype\": \"");
    of.points.checksum = take_checksum(s, "\", \"checksum\": \"");
    take(s, "\"},\n");
    return of;
}

static kin_certified_file take_file(scan *s, const char *key)
{
    kin_certified_file file;
    take(s, "  \"");
    take(s, key);
    file.name = take_name(s, "\": {\"name\": ");
    file.bytes = take_number(s, ", \"bytes\": ", UINT64_MAX);
    file.checksum = take_checksum(s, ", \"checksum\": \"");
    take(s, "\"},\n");
    return file;
}

static void take_filter(scan *s, kin_certificate *c)
{
    char word[KEY_BYTES];
    take_word(s, "  \"filter\": {\"rule\": \"", word, sizeof word);
    c->rule = strcmp(word, "same") == 0    ? KITH_RULE_SAME
              : strcmp(word, "other") == 0 ? KITH_RULE_OTHER
                                           : KITH_RULE_NONE;
    take(s, "\", \"filters\": ");
    c->filters = s->right && s->at < s->end && *s->at == 't';
    take(s, c->filters ? "true" : "false");
    c->filter = take_checksum(s, ", \"checksum\": \"");
    take(s, "\"},\n");
}

static void take_extent(scan *s, kin_certificate *c)
{
    c->ranged = s->right && comes(s, "  \"radius\": ");
    if (!c->ranged) {
        c->k = (int64_t)take_number(s, "  \"k\": ", INT64_MAX);
        return;
    }
    take(s, "  \"radius\": ");
    const char *end = memchr(s->at, ',', (size_t)(s->end - s->at));
    const kin_number_locale locale = kin_number_enter();
    s->right = end != NULL && kin_number_parse(s->at, end, &c->radius);
    kin_number_leave(locale);
    s->at = s->right ? end : s->at;
}

static void take_counts(scan *s, kin_certificate *c)
{
    if (c->ranged) {
        c->found = (int64_t)take_number(s, "  \"counts\": {\"found\": ", INT64_MAX);
        c->most_found = (int64_t)take_number(s, ", \"most_found\": ", INT64_MAX);
    } else {
        c->full = (int64_t)take_number(s, "  \"counts\": {\"full\": ", INT64_MAX);
        c->tied = (int64_t)take_number(s, ", \"tied\": ", INT64_MAX);
        c->tied_beyond = (int64_t)take_number(s, ", \"tied_beyond\": ", INT64_MAX);
        c->most_ties = (int64_t)take_number(s, ", \"most_ties\": ", INT64_MAX);
    }
    take(s, "}\n}\n");
}

static void take_head(scan *s, kin_certificate *c)
{
    char word[KEY_BYTES];
    take_word(s, "{\n  \"kith_truth\": 1,\n  \"library\": \"", c->library, sizeof c->library);
    take_word(s, "\",\n  \"metric\": \"", word, sizeof word);
    c->metric = kith_metric_parse(word);
    take(s, "\",\n");
    take_extent(s, c);
    c->first_id = take_number(s, ",\n  \"first_id\": ", UINT64_MAX);
    take(s, ",\n");
    take_filter(s, c);
    c->queries = take_points(s, "queries");
    c->count = (int32_t)take_number(s, "  \"files\": ", INT32_MAX);
    take(s, ",\n");
    s->right =
        s->right && c->metric != KITH_METRIC_DEFAULT && (c->ranged || c->k > 0) && c->count > 0;
}

static void take_rest(scan *s, kin_certificate *c)
{
    char word[KEY_BYTES];
    for (int32_t i = 0; i < c->count && s->right; i++) {
        (void)snprintf(word, sizeof word, "corpus %" PRId32, i);
        c->corpus[i] = take_points(s, word);
    }
    take_word(s, "  \"format\": \"", word, sizeof word);
    c->ids64 = strcmp(word, "npy") == 0;
    c->hdf5 = strcmp(word, "hdf5") == 0;
    c->format = kin_format_result(word);
    take(s, "\",\n");
    c->output = take_file(s, "output");
    c->ties = take_file(s, "ties");
    take_counts(s, c);
    s->right = s->right && s->at == s->end && c->output.name != NULL;
}

/* A line has more bytes than a matrix of the corpus takes: as many as the text says at most. */
static kith_status parse(kith_ctx *ctx, const char *path, const kin_map *map, kin_certificate *c)
{
    scan s = {.at = (const char *)map->data, .right = true};
    s.end = s.at + map->bytes;
    KIN_TRY(kin_alloc(ctx, &c->names, map->bytes + 1, 1, "a certificate"));
    s.names = c->names;
    take_head(&s, c);
    if (s.right && (uint64_t)c->count <= map->bytes) {
        KIN_TRY(kin_alloc(ctx, &c->block, (uint64_t)c->count, sizeof *c->corpus, "a certificate"));
        c->corpus = c->block;
        take_rest(&s, c);
    } else {
        s.right = false;
    }
    KIN_PASS_IF(s.right, ctx, KITH_E_FORMAT, kin_at_file(path),
                "is no certificate of kith truth, or was changed (byte %lld is "
                "not as it is written; make the truth again)",
                (long long)(s.at - (const char *)map->data));
}

kith_status kin_certificate_open(kith_ctx *ctx, const char *path, kin_certificate *c)
{
    kin_map map = {0};
    memset(c, 0, sizeof *c);
    KIN_TRY(kin_map_open(ctx, path, &map));
    const kith_status status = parse(ctx, path, &map, c);
    kin_map_close(&map);
    if (status != KITH_OK) {
        kin_certificate_free(ctx, c);
    }
    return status;
}

void kin_certificate_free(kith_ctx *ctx, kin_certificate *c)
{
    kin_free(ctx, c->block);
    kin_free(ctx, c->names);
    memset(c, 0, sizeof *c);
}
