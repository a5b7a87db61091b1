/* SPDX-License-Identifier: Apache-2.0
 *
 * Written and read by one list of lines: a certificate that somebody has laid out anew is still
 * JSON to others, but none to kith. */
#include "file/file_certificate.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "file/file_atomic.h"
#include "file/file_checksum.h"
#include "file/file_number.h"
#include "file/file_reader.h"
#include "host/host_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_BYTES = 256, KEY_BYTES = 32 };

kith_status kin_certificate_path(kith_ctx *ctx, const char *target, char **path)
{
    const size_t bytes = strlen(target) + sizeof ".json";
    KIN_TRY(kin_alloc(ctx, path, bytes, 1, "a file's path"));
    (void)snprintf(*path, bytes, "%s.json", target);
    return KITH_OK;
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

static kith_status put(kin_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static kith_status put(kin_writer *writer, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return kin_writer_put(writer, line, (uint64_t)length);
}

/* In quotes, or null. Bytes that JSON has another way for are written as it wants them. */
static kith_status put_name(kin_writer *writer, const char *name)
{
    if (name == NULL) {
        return put(writer, "null");
    }
    KIN_TRY(put(writer, "\""));
    for (const char *at = name; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        KIN_TRY(byte < ' '                    ? put(writer, "\\u%04x", byte)
                : byte == '"' || byte == '\\' ? put(writer, "\\%c", byte)
                                              : kin_writer_put(writer, at, 1));
    }
    return put(writer, "\"");
}

static kith_status put_points(kin_writer *writer, const char *key, const kin_certified_points *of)
{
    const kith_fingerprint *points = &of->points;
    KIN_TRY(put(writer, "  \"%s\": {\"name\": ", key));
    KIN_TRY(put_name(writer, of->name));
    return put(writer,
               ", \"rows\": %" PRId64 ", \"cols\": %" PRId32
               ", \"dtype\": \"%s\", \"checksum\": \"%016" PRIx64 "\"},\n",
               points->rows, points->cols, kith_dtype_name(points->dtype), points->checksum);
}

static kith_status put_file(kin_writer *writer, const char *key, const kin_certified_file *file)
{
    KIN_TRY(put(writer, "  \"%s\": {\"name\": ", key));
    KIN_TRY(put_name(writer, file->name));
    return put(writer, ", \"bytes\": %" PRIu64 ", \"checksum\": \"%016" PRIx64 "\"},\n",
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
        return put(writer, "  \"k\": %" PRId64 ",\n", c->k);
    }
    const kin_number_locale locale = kin_number_enter();
    (void)kin_number_print(number, sizeof number, c->radius, false);
    kin_number_leave(locale);
    return put(writer, "  \"radius\": %s,\n", number);
}

static kith_status put_counts(kin_writer *writer, const kin_certificate *c)
{
    if (c->ranged) {
        return put(writer,
                   "  \"counts\": {\"found\": %" PRId64 ", \"most_found\": %" PRId64 "}\n}\n",
                   c->found, c->most_found);
    }
    return put(writer,
               "  \"counts\": {\"full\": %" PRId64 ", \"tied\": %" PRId64
               ", \"tied_beyond\": %" PRId64 ", \"most_ties\": %" PRId64 "}\n}\n",
               c->full, c->tied, c->tied_beyond, c->most_ties);
}

static kith_status put_all(kin_writer *writer, const kin_certificate *c)
{
    static const char *const rules[] = {"none", "same", "other", "each"};
    KIN_TRY(put(writer, "{\n  \"kith_truth\": %d,\n", KIN_CERTIFICATE_VERSION));
    KIN_TRY(put(writer, "  \"library\": \"%s\",\n", c->library));
    KIN_TRY(put(writer, "  \"metric\": \"%s\",\n", kith_metric_name(c->metric)));
    KIN_TRY(put_extent(writer, c));
    KIN_TRY(put(writer, "  \"first_id\": %" PRIu64 ",\n", c->first_id));
    KIN_TRY(put(writer, "  \"filter\": {\"rule\": \"%s\", \"filters\": %s, \"checksum\": ",
                rules[c->rule], c->filters ? "true" : "false"));
    KIN_TRY(put(writer, "\"%016" PRIx64 "\"},\n", c->filter));
    KIN_TRY(put_points(writer, "queries", &c->queries));
    KIN_TRY(put(writer, "  \"files\": %" PRId32 ",\n", c->count));
    for (int32_t i = 0; i < c->count; i++) {
        char key[KEY_BYTES];
        (void)snprintf(key, sizeof key, "corpus %" PRId32, i);
        KIN_TRY(put_points(writer, key, &c->corpus[i]));
    }
    KIN_TRY(put(writer, "  \"format\": \"%s\",\n", format_name(c)));
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

static uint64_t take_number(scan *s, uint64_t most)
{
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
static void take_word(scan *s, char *word, size_t room)
{
    size_t used = 0;
    while (s->right && s->at < s->end && *s->at != '"') {
        s->right = used + 1 < room;
        word[used] = *s->at++;
        used += s->right;
    }
    word[used] = '\0';
}

static uint64_t take_checksum(scan *s)
{
    char word[KEY_BYTES];
    uint64_t value = 0;
    take_word(s, word, sizeof word);
    s->right = s->right && kin_checksum_parse(word, &value);
    return value;
}

static kith_dtype take_dtype(scan *s)
{
    char word[KEY_BYTES];
    take_word(s, word, sizeof word);
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

static const char *take_name(scan *s)
{
    const char *name = s->names;
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
    take(s, "\": {\"name\": ");
    of.name = take_name(s);
    take(s, ", \"rows\": ");
    of.points.rows = (int64_t)take_number(s, INT64_MAX);
    take(s, ", \"cols\": ");
    of.points.cols = (int32_t)take_number(s, INT32_MAX);
    take(s, ", \"dtype\": \"");
    of.points.dtype = take_dtype(s);
    take(s, "\", \"checksum\": \"");
    of.points.checksum = take_checksum(s);
    take(s, "\"},\n");
    return of;
}

static kin_certified_file take_file(scan *s, const char *key)
{
    kin_certified_file file;
    take(s, "  \"");
    take(s, key);
    take(s, "\": {\"name\": ");
    file.name = take_name(s);
    take(s, ", \"bytes\": ");
    file.bytes = take_number(s, UINT64_MAX);
    take(s, ", \"checksum\": \"");
    file.checksum = take_checksum(s);
    take(s, "\"},\n");
    return file;
}

static void take_filter(scan *s, kin_certificate *c)
{
    char word[KEY_BYTES];
    take(s, "  \"filter\": {\"rule\": \"");
    take_word(s, word, sizeof word);
    c->rule = strcmp(word, "same") == 0    ? KITH_RULE_SAME
              : strcmp(word, "other") == 0 ? KITH_RULE_OTHER
                                           : KITH_RULE_NONE;
    take(s, "\", \"filters\": ");
    c->filters = s->right && s->at < s->end && *s->at == 't';
    take(s, c->filters ? "true" : "false");
    take(s, ", \"checksum\": \"");
    c->filter = take_checksum(s);
    take(s, "\"},\n");
}

static void take_extent(scan *s, kin_certificate *c)
{
    c->ranged = s->right && comes(s, "  \"radius\": ");
    if (!c->ranged) {
        take(s, "  \"k\": ");
        c->k = (int64_t)take_number(s, INT64_MAX);
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
        take(s, "  \"counts\": {\"found\": ");
        c->found = (int64_t)take_number(s, INT64_MAX);
        take(s, ", \"most_found\": ");
        c->most_found = (int64_t)take_number(s, INT64_MAX);
    } else {
        take(s, "  \"counts\": {\"full\": ");
        c->full = (int64_t)take_number(s, INT64_MAX);
        take(s, ", \"tied\": ");
        c->tied = (int64_t)take_number(s, INT64_MAX);
        take(s, ", \"tied_beyond\": ");
        c->tied_beyond = (int64_t)take_number(s, INT64_MAX);
        take(s, ", \"most_ties\": ");
        c->most_ties = (int64_t)take_number(s, INT64_MAX);
    }
    take(s, "}\n}\n");
}

static void take_head(scan *s, kin_certificate *c)
{
    char word[KEY_BYTES];
    take(s, "{\n  \"kith_truth\": 1,\n  \"library\": \"");
    take_word(s, c->library, sizeof c->library);
    take(s, "\",\n  \"metric\": \"");
    take_word(s, word, sizeof word);
    c->metric = kith_metric_parse(word);
    take(s, "\",\n");
    take_extent(s, c);
    take(s, ",\n  \"first_id\": ");
    c->first_id = take_number(s, UINT64_MAX);
    take(s, ",\n");
    take_filter(s, c);
    c->queries = take_points(s, "queries");
    take(s, "  \"files\": ");
    c->count = (int32_t)take_number(s, INT32_MAX);
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
    take(s, "  \"format\": \"");
    take_word(s, word, sizeof word);
    c->ids64 = strcmp(word, "npy") == 0;
    c->hdf5 = strcmp(word, "hdf5") == 0;
    c->format = kith_format_parse(word);
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
    return s.right ? KITH_OK
                   : kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(path),
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
