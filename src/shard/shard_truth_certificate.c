/* SPDX-License-Identifier: Apache-2.0
 *
 * Written and read by one list of lines: a certificate that somebody has laid out anew is still
 * JSON to others, but none to kith. */
#include "shard/shard_truth.h"

#include "base/base_mem.h"
#include "file/file_atomic.h"
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
    KIN_TRY(kin_map_open(ctx, file->name, true, &map));
    file->bytes = map.bytes;
    file->checksum = kin_checksum_of(map.data, map.bytes);
    kin_map_close(&map);
    return KITH_OK;
}

/* ---- The lines, both ways -------------------------------------------------------------------- */

/* A certificate on its way out, to the writer, or in, from the front of a text. `right` becomes
 * false where the text is not as it was written; what is wrong after that stays as it is. */
typedef struct lines {
    kin_writer *writer; /* NULL: in */
    kith_status status; /* of the writer */
    const char *at;
    const char *end;
    char *names; /* room for names, which is taken from its front, too */
    bool right;
} lines;

static bool comes(const lines *l, const char *words)
{
    const size_t length = strlen(words);
    return (size_t)(l->end - l->at) >= length && memcmp(l->at, words, length) == 0;
}

static void put(lines *l, const char *text, size_t length)
{
    KIN_THEN(l->status, kin_writer_put(l->writer, text, length));
}

/* These words, and no others. */
static void say(lines *l, const char *words)
{
    const size_t length = strlen(words);
    if (l->writer != NULL) {
        put(l, words, length);
        return;
    }
    l->right = l->right && comes(l, words);
    l->at += l->right ? length : 0;
}

/* A number, a word, a checksum and so on, behind these words: what is given goes out, what comes in
 * is the answer. */
static uint64_t number(lines *l, const char *words, uint64_t value, uint64_t most)
{
    say(l, words);
    if (l->writer != NULL) {
        KIN_THEN(l->status, kin_writer_print(l->writer, "%" PRIu64, value));
        return value;
    }
    const char *start = l->at;
    value = 0;
    while (l->right && l->at < l->end && *l->at >= '0' && *l->at <= '9') {
        const uint64_t digit = (uint64_t)(*l->at++ - '0');
        l->right = value <= (most - digit) / 10;
        value = value * 10 + digit;
    }
    l->right = l->right && l->at > start;
    return l->right ? value : 0;
}

static int64_t count(lines *l, const char *words, int64_t value)
{
    return (int64_t)number(l, words, (uint64_t)value, INT64_MAX);
}

/* Up to the next quote, without escapes. */
static void word(lines *l, const char *words, char *text, size_t room)
{
    say(l, words);
    if (l->writer != NULL) {
        put(l, text, strlen(text));
        return;
    }
    size_t used = 0;
    while (l->right && l->at < l->end && *l->at != '"') {
        l->right = used + 1 < room;
        text[used] = *l->at++;
        used += l->right;
    }
    text[used] = '\0';
}

static uint64_t checksum(lines *l, const char *words, uint64_t value)
{
    char text[KEY_BYTES];
    (void)snprintf(text, sizeof text, "%016" PRIx64, value);
    word(l, words, text, sizeof text);
    l->right = l->right && kin_checksum_parse(text, &value);
    return value;
}

static kith_dtype dtype(lines *l, const char *words, kith_dtype value)
{
    char text[KEY_BYTES];
    (void)snprintf(text, sizeof text, "%s", kith_dtype_name(value));
    word(l, words, text, sizeof text);
    value = kin_dtype_parse(text);
    l->right = l->right && value != KITH_DTYPE_NONE;
    return value;
}

/* Bytes that JSON has another way for are written as it wants them. */
static void put_escaped(lines *l, const char *name)
{
    for (const char *at = name; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        KIN_THEN(l->status, byte < ' ' ? kin_writer_print(l->writer, "\\u%04x", byte)
                            : byte == '"' || byte == '\\'
                                ? kin_writer_print(l->writer, "\\%c", byte)
                                : kin_writer_put(l->writer, at, 1));
    }
}

static char take_escape(lines *l)
{
    const char kind = l->at < l->end ? *l->at++ : '\0';
    if (kind != 'u') {
        return kind;
    }
    char digits[5] = "";
    l->right = l->right && l->end - l->at >= 4;
    if (l->right) {
        memcpy(digits, l->at, 4);
        l->at += 4;
    }
    return (char)strtol(digits, NULL, 16);
}

/* In quotes, or null. */
static const char *name(lines *l, const char *words, const char *value)
{
    say(l, words);
    if (l->writer != NULL ? value == NULL : l->right && comes(l, "null")) {
        say(l, "null");
        return NULL;
    }
    say(l, "\"");
    if (l->writer != NULL) {
        put_escaped(l, value);
    } else {
        value = l->names;
        while (l->right && l->at < l->end && *l->at != '"') {
            const char byte = *l->at++;
            *l->names++ = byte == '\\' ? take_escape(l) : byte;
        }
        *l->names++ = '\0';
    }
    say(l, "\"");
    return value;
}

static void points(lines *l, const char *key, kin_certified_points *of)
{
    kith_fingerprint *p = &of->points;
    say(l, "  \"");
    say(l, key);
    of->name = name(l, "\": {\"name\": ", of->name);
    p->rows = count(l, ", \"rows\": ", p->rows);
    p->cols = (int32_t)number(l, ", \"cols\": ", (uint64_t)p->cols, INT32_MAX);
    p->dtype = dtype(l, ", \"dtype\": \"", p->dtype);
    p->checksum = checksum(l, "\", \"checksum\": \"", p->checksum);
    say(l, "\"},\n");
}

static void whole_file(lines *l, const char *key, kin_certified_file *file)
{
    say(l, "  \"");
    say(l, key);
    file->name = name(l, "\": {\"name\": ", file->name);
    file->bytes = number(l, ", \"bytes\": ", file->bytes, UINT64_MAX);
    file->checksum = checksum(l, ", \"checksum\": \"", file->checksum);
    say(l, "\"},\n");
}

/* "k", or "radius". */
static void extent(lines *l, kin_certificate *c)
{
    char text[KEY_BYTES];
    KIN_C_NUMBERS();
    c->ranged = l->writer != NULL ? c->ranged : l->right && comes(l, "  \"radius\": ");
    if (!c->ranged) {
        c->k = count(l, "  \"k\": ", c->k);
    } else if (l->writer != NULL) {
        say(l, "  \"radius\": ");
        put(l, text, (size_t)kin_number_print(text, sizeof text, c->radius, false));
    } else {
        say(l, "  \"radius\": ");
        const char *end = memchr(l->at, ',', (size_t)(l->end - l->at));
        l->right = end != NULL && kin_number_parse(l->at, end, &c->radius);
        l->at = l->right ? end : l->at;
    }
}

static void filter(lines *l, kin_certificate *c)
{
    static const char *const rules[] = {"none", "same", "other", "each"};
    char text[KEY_BYTES];
    (void)snprintf(text, sizeof text, "%s", rules[c->rule]);
    word(l, "  \"filter\": {\"rule\": \"", text, sizeof text);
    c->rule = strcmp(text, "same") == 0    ? KITH_RULE_SAME
              : strcmp(text, "other") == 0 ? KITH_RULE_OTHER
                                           : KITH_RULE_NONE;
    say(l, "\", \"filters\": ");
    c->filters = l->writer != NULL ? c->filters : l->right && l->at < l->end && *l->at == 't';
    say(l, c->filters ? "true" : "false");
    c->filter = checksum(l, ", \"checksum\": \"", c->filter);
    say(l, "\"},\n");
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

static void format(lines *l, kin_certificate *c)
{
    char text[KEY_BYTES];
    (void)snprintf(text, sizeof text, "%s", format_name(c));
    word(l, "  \"format\": \"", text, sizeof text);
    c->ids64 = strcmp(text, "npy") == 0;
    c->hdf5 = strcmp(text, "hdf5") == 0;
    c->format = kin_format_result(text);
    say(l, "\",\n");
}

static void counts(lines *l, kin_certificate *c)
{
    if (c->ranged) {
        c->counts.found = count(l, "  \"counts\": {\"found\": ", c->counts.found);
        c->counts.most_found = count(l, ", \"most_found\": ", c->counts.most_found);
    } else {
        c->counts.full = count(l, "  \"counts\": {\"full\": ", c->counts.full);
        c->counts.tied = count(l, ", \"tied\": ", c->counts.tied);
        c->counts.tied_beyond = count(l, ", \"tied_beyond\": ", c->counts.tied_beyond);
        c->counts.most_ties = count(l, ", \"most_ties\": ", c->counts.most_ties);
    }
    say(l, "}\n}\n");
}

static void head(lines *l, kin_certificate *c)
{
    char text[KEY_BYTES];
    word(l, "{\n  \"kith_truth\": 1,\n  \"library\": \"", c->library, sizeof c->library);
    (void)snprintf(text, sizeof text, "%s", kith_metric_name(c->metric));
    word(l, "\",\n  \"metric\": \"", text, sizeof text);
    c->metric = kith_metric_parse(text);
    say(l, "\",\n");
    extent(l, c);
    c->first_id = number(l, ",\n  \"first_id\": ", c->first_id, UINT64_MAX);
    say(l, ",\n");
    filter(l, c);
    points(l, "queries", &c->queries);
    c->count = (int32_t)number(l, "  \"files\": ", (uint64_t)c->count, INT32_MAX);
    say(l, ",\n");
    l->right =
        l->right && c->metric != KITH_METRIC_DEFAULT && (c->ranged || c->k > 0) && c->count > 0;
}

static void rest(lines *l, kin_certificate *c)
{
    for (int32_t i = 0; i < c->count && l->right; i++) {
        char key[KEY_BYTES];
        (void)snprintf(key, sizeof key, "corpus %" PRId32, i);
        points(l, key, &c->corpus[i]);
    }
    format(l, c);
    whole_file(l, "output", &c->output);
    whole_file(l, "ties", &c->ties);
    counts(l, c);
}

kith_status kin_certificate_save(kith_ctx *ctx, const char *path, const kin_certificate *c)
{
    kin_certificate own = *c;
    kin_writer writer;
    lines l = {.writer = &writer, .right = true};
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    head(&l, &own);
    rest(&l, &own);
    return kin_writer_close(&writer, l.status);
}

/* A line has more bytes than a matrix of the corpus takes: as many as the text says at most. */
static kith_status parse(kith_ctx *ctx, const char *path, const kin_map *map, kin_certificate *c)
{
    lines l = {.at = (const char *)map->data, .right = true};
    l.end = l.at + map->bytes;
    KIN_TRY(kin_alloc(ctx, &c->names, map->bytes + 1, 1, "a certificate"));
    l.names = c->names;
    head(&l, c);
    l.right = l.right && (uint64_t)c->count <= map->bytes;
    if (l.right) {
        KIN_TRY(
            kin_alloc_zero(ctx, &c->block, (uint64_t)c->count, sizeof *c->corpus, "a certificate"));
        c->corpus = c->block;
        rest(&l, c);
    }
    KIN_SOUND_IF(l.right && l.at == l.end && c->output.name != NULL, ctx, path,
                 "is no certificate of kith truth, or was changed (byte %lld is not as it is "
                 "written; make the truth again)",
                 (long long)(l.at - (const char *)map->data));
}

kith_status kin_certificate_open(kith_ctx *ctx, const char *path, kin_certificate *c)
{
    kin_map map = {0};
    memset(c, 0, sizeof *c);
    KIN_TRY(kin_map_open(ctx, path, true, &map));
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
