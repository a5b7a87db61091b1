/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_report.h"

#include "cli.h"
#include "cli_output.h"
#include "cli_progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- For people ----------------------------------------------------------------------------- */

void cli_say(const cli_report *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (r->people) {
        (void)vfprintf(r->to != NULL ? r->to : stdout, format, list);
    }
    va_end(list);
}

void cli_say_matrix(const cli_report *r, const char *name, const char *path,
                    const kith_matrix *matrix)
{
    cli_say(r, "%s: %s%s%" PRId64 " x %" PRId32 " %s\n", name,
            path != NULL ? cli_message_safe(path) : "", path != NULL ? ", " : "", matrix->rows,
            matrix->cols, kith_dtype_name(matrix->dtype));
}

/* "60,000" */
enum { GROUPED_BYTES = 32 };
static const char *grouped(int64_t number, char text[GROUPED_BYTES])
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    int used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

/* ---- For programs --------------------------------------------------------------------------- */

/* Bytes of the UTF-8 sequence that starts here, 0 if none does (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF). */
static int sequence_length(const unsigned char *text)
{
    const unsigned char lead = text[0];
    if (lead < 0x80) {
        return 1;
    }
    const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    const bool overlong = (lead == 0xe0 && text[1] < 0xa0) || (lead == 0xf0 && text[1] < 0x90);
    const bool beyond = (lead == 0xed && text[1] >= 0xa0) || (lead == 0xf4 && text[1] >= 0x90);
    return overlong || beyond ? 0 : length;
}

static void put_string(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    (void)putchar('"');
    while (*bytes != '\0') {
        const int length = sequence_length(bytes);
        if (length == 0) {
            (void)fputs("\\ufffd", stdout);
        } else if (*bytes == '"' || *bytes == '\\') {
            (void)printf("\\%c", *bytes);
        } else if (*bytes < 0x20 || *bytes == 0x7f) {
            (void)printf("\\u%04x", *bytes);
        } else if (*bytes == 0xc2 && bytes[1] < 0xa0) { /* controls, too */
            (void)printf("\\u%04x", bytes[1]);
        } else {
            (void)fwrite(bytes, 1, (size_t)length, stdout);
        }
        bytes += length == 0 ? 1 : length;
    }
    (void)putchar('"');
}

/* Whether there is somebody to put it for. */
static bool put_key(cli_report *r, const char *key)
{
    if (!r->programs) {
        return false;
    }
    if (r->comma) {
        (void)fputs(", ", stdout);
    }
    r->comma = true;
    if (key != NULL) {
        put_string(key);
        (void)fputs(": ", stdout);
    }
    return true;
}

void cli_put_open(cli_report *r, const char *key, char bracket)
{
    if (put_key(r, key)) {
        (void)putchar(bracket);
        r->comma = false;
    }
}

void cli_put_close(cli_report *r, char bracket)
{
    if (r->programs) {
        (void)putchar(bracket);
        r->comma = true;
    }
}

static void put_number(double value)
{
    char digits[32] = "null";
    for (int precision = 1; precision <= 17 && isfinite(value); precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) { /* 17 digits always do */
            break;
        }
    }
    (void)fputs(digits, stdout);
}

static void put_value(const cli_field *f)
{
    if (f->kind == CLI_PUT_INT) {
        (void)printf("%" PRId64, f->integer);
    } else if (f->kind == CLI_PUT_UINT) {
        (void)printf("%" PRIu64, f->natural);
    } else if (f->kind == CLI_PUT_NUMBER) {
        put_number(f->number);
    } else if (f->kind == CLI_PUT_TEXT && f->text != NULL) {
        put_string(f->text);
    } else {
        (void)fputs(f->kind == CLI_PUT_TEXT ? "null" : f->truth ? "true" : "false", stdout);
    }
}

/* To people alone. */
static bool is_said(const cli_field *f)
{
    return f->key != NULL && f->key[0] == '.';
}

void cli_put_fields(cli_report *r, const cli_field *fields)
{
    for (; fields->kind != CLI_PUT_END; fields++) {
        if (!is_said(fields) && put_key(r, fields->key)) {
            put_value(fields);
        }
    }
}

/* ---- For both ------------------------------------------------------------------------------- */

/* how: ":.2f", ":.6g", ":.2%" */
static void say_number(FILE *to, const char *how, double value)
{
    char *kind = NULL;
    const int digits = (int)strtol(how + 2, &kind, 10);
    if (*kind == '%') {
        (void)fprintf(to, "%.*f %%", digits, 100.0 * value);
    } else {
        (void)fprintf(to, *kind == 'g' ? "%.*g" : "%.*f", digits, value);
    }
}

/* how: what stands behind the key. */
static void say_value(FILE *to, const cli_field *f, const char *how)
{
    char text[GROUPED_BYTES];
    if (f->kind == CLI_PUT_TEXT) {
        (void)fputs(cli_message_safe(f->text), to);
    } else if (f->kind == CLI_PUT_NUMBER) {
        say_number(to, how, f->number);
    } else if (*how == '~') {
        (void)fputs(cli_message_size(f->natural, text), to);
    } else if (*how == ',') {
        (void)fputs(grouped(f->integer, text), to);
    } else {
        (void)fprintf(to, "%" PRId64, f->integer);
    }
}

static const cli_field *find_field(const cli_field *fields, const char *key, size_t length)
{
    for (; fields->kind != CLI_PUT_END; fields++) {
        const char *name = fields->key + is_said(fields);
        if (strncmp(name, key, length) == 0 && name[length] == '\0') {
            return fields;
        }
    }
    return NULL;
}

static void say_lines(FILE *to, const char *lines, const cli_field *fields)
{
    for (const char *at = lines; *at != '\0';) {
        const size_t plain = strcspn(at, "{");
        (void)fwrite(at, 1, plain, to);
        at += plain;
        if (*at == '{') {
            const size_t length = strcspn(at + 1, ",~:}");
            const cli_field *f = find_field(fields, at + 1, length);
            if (f != NULL) {
                say_value(to, f, at + 1 + length);
            }
            at += strcspn(at, "}") + 1;
        }
    }
}

void cli_tell_fields(cli_report *r, bool told, const char *object, const char *lines,
                     const cli_field *fields)
{
    if (r->people && told) {
        say_lines(r->to != NULL ? r->to : stdout, lines, fields);
    }
    if (object != NULL) {
        cli_put_open(r, object[0] != '\0' ? object : NULL, '{');
    }
    cli_put_fields(r, fields);
    if (object != NULL) {
        cli_put_close(r, '}');
    }
}

void cli_tell_text(cli_report *r, const char *key, const char *text)
{
    cli_say(r, "%s: %s\n", key, cli_message_safe(text));
    cli_put(r, TEXT(key, text));
}

void cli_tell_int(cli_report *r, const char *key, int64_t value)
{
    cli_say(r, "%s: %" PRId64 "\n", key, value);
    cli_put(r, INT(key, value));
}

void cli_tell_output(cli_report *r, const char *path, const char *lost)
{
    cli_tell(r, path != NULL ? "output: {output}{lost}\n" : "", TEXT("output", path),
             TEXT(".lost", lost));
}

void cli_tell_steps(cli_report *r, double start, const cli_field *steps)
{
    const double total = cli_clock_now() - start;
    cli_say(r, "seconds: ");
    cli_put_open(r, "seconds", '{');
    cli_put(r, NUMBER("total", total));
    for (; steps->kind != CLI_PUT_END; steps++) {
        if (steps->key != NULL) {
            cli_tell_more(r, "{step} {seconds:.3f}, ", TEXT(".step", steps->key),
                          NUMBER(".seconds", steps->number));
            cli_put(r, NUMBER(steps->key, steps->number));
        }
    }
    cli_say(r, "%s%.3f\n", r->verbose ? "total " : "", total);
    cli_put_close(r, '}');
}

void cli_tell_peak(cli_report *r, uint64_t gpu_bytes, uint64_t planned_bytes)
{
    const uint64_t host_bytes = cli_clock_peak_bytes();
    cli_put_open(r, "peak_bytes", '{');
    cli_tell_more(r, "peak memory: {host~}\n", UINT("host", host_bytes));
    cli_tell_more(r, gpu_bytes > 0 ? "peak gpu memory: {gpu~}\n" : "", UINT("gpu", gpu_bytes));
    if (planned_bytes > 0) {
        cli_put(r, UINT("planned", planned_bytes));
    }
    cli_put_close(r, '}');
}

/* The interval lies lower than the estimate near 1, and reaches as far as its farther end. */
void cli_say_estimate(cli_report *r, const kith_recall *recall, const char *what)
{
    const double down = recall->recall - recall->low;
    const double up = recall->high - recall->recall;
    cli_tell(r,
             recall->rows == 0
                 ? "recall: not estimated (leave sample=0 out)\n"
                 : "recall@{at} = {recall:.4f} +- {off:.4f} ({rows,} {what} solved exactly)\n",
             INT(".at", recall->at), NUMBER(".recall", recall->recall),
             NUMBER(".off", down > up ? down : up), INT(".rows", recall->rows),
             TEXT(".what", what));
}

void cli_put_estimate(cli_report *r, const kith_recall *recall)
{
    cli_put_object(r, "recall", INT("at", recall->at), NUMBER("estimate", recall->recall),
                   NUMBER("low", recall->low), NUMBER("high", recall->high),
                   INT("sample", recall->rows));
}

void cli_tell_tree(cli_report *r, const kith_file_info *info)
{
    cli_tell_object(r, "tree",
                    "height: {height}\nleaves: {leaves}\ndistinct rows: {distinct_rows}\n"
                    "slack: {slack} free places\n",
                    INT("height", info->tree_height),
                    INT("leaves", (int64_t)1 << info->tree_height),
                    INT("distinct_rows", info->tree_rows), INT("slack", info->tree_slack));
}

/* ---- Which points, and whether exact -------------------------------------------------------- */

const char *cli_claim_name(const kith_fingerprint *points, char text[CLI_CLAIM_BYTES])
{
    enum { SHORT_BITS = 32 };
    char rows[GROUPED_BYTES];
    (void)snprintf(text, CLI_CLAIM_BYTES, "%s x %" PRId32 " %s, %08" PRIx32,
                   grouped(points->rows, rows), points->cols, kith_dtype_name(points->dtype),
                   (uint32_t)(points->checksum >> SHORT_BITS));
    return text;
}

bool cli_claim_equal(const kith_fingerprint *a, const kith_fingerprint *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->dtype == b->dtype &&
           a->checksum == b->checksum;
}

const char *cli_claim_lost(const char *path, kith_format format)
{
    const bool told =
        format == KITH_FORMAT_AUTO
            ? (cli_output_holds(path) & KITH_FILE_CLAIMS) != 0
            : format == KITH_FORMAT_NPZ || format == KITH_FORMAT_CSR || format == KITH_FORMAT_KITH;
    return told ? "" : " (this format does not say metric, exactness and points)";
}

static void tell_points(cli_report *r, const kith_fingerprint *points)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%016" PRIx64, points->checksum);
    cli_put_object(r, "points", INT("rows", points->rows), INT("cols", points->cols),
                   TEXT("dtype", kith_dtype_name(points->dtype)), TEXT("checksum", text));
}

void cli_tell_claim(cli_report *r, kith_exactness exact, const kith_fingerprint *points)
{
    char text[CLI_CLAIM_BYTES];
    const bool known = points->rows > 0;
    const char *name = known ? cli_claim_name(points, text) : "";
    if (exact == KITH_APPROXIMATE) {
        cli_say(r, "approximate%s%s\n", known ? ": of " : "", name);
    } else {
        cli_say(r, "exact: %s%s%s%s\n", exact == KITH_CERTIFIED ? "certified" : "unknown",
                known ? " (of " : "", name, known ? ")" : "");
    }
    if (exact == KITH_EXACTNESS_UNKNOWN) {
        cli_put(r, TEXT("exact", NULL));
    } else {
        cli_put(r, BOOL("exact", exact == KITH_CERTIFIED));
    }
    if (known) {
        tell_points(r, points);
    }
}

/* ---- How files were understood -------------------------------------------------------------- */

enum { SOURCES_MAX = 8, NAMES_BYTES = 160 };

typedef struct kept_source {
    const char *path;
    kith_points_source source;
    int64_t cols;
    char names[NAMES_BYTES];
} kept_source;

static kept_source kept[SOURCES_MAX];
static int kept_count = 0;

void cli_source_reset(void)
{
    kept_count = 0;
}

void cli_source_keep(const char *path, const kith_points *points)
{
    const kith_points_source *source = kith_points_get_source(points);
    const bool plain =
        source->delimiter == 0 && source->fortran_order == 0 && source->big_endian == 0;
    if (plain || kept_count == SOURCES_MAX) {
        return;
    }
    kept_source *k = &kept[kept_count++];
    k->path = path;
    k->source = *source;
    k->cols = source->values->cols;
    (void)snprintf(k->names, sizeof k->names, "%s", source->names);
    cli_message_clean(k->names);
}

static const char *separator_name(int32_t delimiter)
{
    return delimiter == ','    ? "comma"
           : delimiter == ';'  ? "semicolon"
           : delimiter == '\t' ? "tab"
                               : "blank";
}

static void tell_source(cli_report *r, const kept_source *k)
{
    const kith_points_source *source = &k->source;
    const bool header = source->header != 0;
    cli_put_open(r, NULL, '{');
    cli_tell(r, "read: {file}", TEXT("file", k->path));
    if (source->delimiter != 0) {
        cli_tell(r,
                 header ? ", separator {separator}, header '{header}'"
                        : ", separator {separator}, no header",
                 TEXT("separator", separator_name(source->delimiter)),
                 TEXT("header", header ? k->names : NULL));
    }
    cli_tell(r, k->cols != source->file_cols ? ", {columns} of {file_columns} columns" : "",
             INT("columns", k->cols), INT("file_columns", source->file_cols));
    cli_tell(r, source->compressed != 0 ? ", unpacked" : "",
             BOOL("compressed", source->compressed != 0));
    cli_tell(r, source->fortran_order != 0 ? ", converted from Fortran order" : "",
             BOOL("fortran_order", source->fortran_order != 0));
    cli_tell(r, source->big_endian != 0 ? ", converted from big-endian\n" : "\n",
             BOOL("big_endian", source->big_endian != 0));
    cli_put_close(r, '}');
}

/* People are told first, programs last. */
static void say_sources(const cli_report *r)
{
    cli_report people = *r;
    people.programs = false;
    for (int i = 0; i < kept_count; i++) {
        tell_source(&people, &kept[i]);
    }
}

static void put_sources(cli_report *r)
{
    if (kept_count == 0) {
        return;
    }
    cli_put_open(r, "read", '[');
    for (int i = 0; i < kept_count; i++) {
        tell_source(r, &kept[i]);
    }
    cli_put_close(r, ']');
}

/* ---- The whole ------------------------------------------------------------------------------ */

cli_report cli_report_begin(const cli_args *args)
{
    cli_report r = {.programs = cli_given(args, CLI_OPT_JSON),
                    .verbose = cli_given(args, CLI_OPT_VERBOSE)};
    /* A plan is all that was asked for. */
    r.people = !r.programs && (!cli_given(args, CLI_OPT_QUIET) || cli_given(args, CLI_OPT_DRY_RUN));
    if (r.programs) {
        (void)putchar('{');
        cli_put(&r, TEXT("command", cli_command_get(args->command)->name));
    }
    say_sources(&r);
    return r;
}

cli_report cli_report_lines(FILE *to)
{
    const cli_report r = {.to = to, .people = true};
    say_sources(&r);
    return r;
}

void cli_report_end(cli_report *r)
{
    if (r->programs) {
        put_sources(r);
        cli_put(r, TEXT("version", kith_version()), TEXT("commit", kith_commit()));
        (void)fputs("}\n", stdout);
    }
}
