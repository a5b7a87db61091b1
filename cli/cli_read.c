/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_options.h"

#include "kith/kith_papers.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cli_error *cli_error_at(cli_error *error, const char *where)
{
    (void)snprintf(error->where, sizeof error->where, "%s", where);
    return error;
}

bool cli_refuse(cli_error *error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return false;
}

/* "'x' is no share (give a number)" */
static bool is_no(cli_error *error, const char *text, const char *what, const char *remedy)
{
    return cli_refuse(error, "'%s' is no %s (%s)", text, what, remedy);
}

/* ---- Numbers -------------------------------------------------------------------------------- */

static bool starts_like_a_number(const char *text)
{
    return (text[0] >= '0' && text[0] <= '9') || text[0] == '.';
}

/* Any unsigned 64-bit integer, decimal. */
static bool to_uint(const char *text, uint64_t *value)
{
    if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    const unsigned long long number = strtoull(text, NULL, 10);
    *value = number;
    return errno == 0;
}

/* A decimal integer in [low, high]. */
static bool to_int(const char *text, int64_t low, int64_t high, int64_t *value)
{
    const bool negative = text[0] == '-';
    uint64_t magnitude = 0;
    if (!to_uint(text + negative, &magnitude) || magnitude > INT64_MAX) {
        return false;
    }
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return *value >= low && *value <= high;
}

/* A finite decimal number. */
static bool to_number(const char *text, double *value)
{
    /* strtod also takes blanks, "inf", "nan" and hexadecimal: not what anyone means here. */
    if (!starts_like_a_number(text + (text[0] == '-')) || strpbrk(text, "xX") != NULL) {
        return false;
    }
    char *end = NULL;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

/* Bytes: "1000000", "512K", "1.5G"; K, M, G, T are powers of 1024. At least 1 byte. */
static bool to_bytes(const char *text, uint64_t *value)
{
    static const char suffixes[] = "KMGT";
    if (!starts_like_a_number(text) || strpbrk(text, "xX") != NULL) {
        return false;
    }
    char *end = NULL;
    double bytes = strtod(text, &end);
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, *end);
        if (suffix == NULL) {
            return false;
        }
        const bool decimal = strcmp(end + 1, "B") == 0;
        if (!decimal && end[1] != '\0' && strcmp(end + 1, "i") != 0 && strcmp(end + 1, "iB") != 0) {
            return false;
        }
        for (int power = (int)(suffix - suffixes + 1); power > 0; power--) {
            bytes *= decimal ? 1000.0 : 1024.0;
        }
    }
    if (!(bytes >= 1.0 && bytes < 0x1p63)) {
        return false;
    }
    *value = (uint64_t)bytes;
    return true;
}

/* ---- By kind -------------------------------------------------------------------------------- */

static bool read_count(const cli_value *value, const char *text, int64_t *count, cli_error *error)
{
    const int64_t widest = value->kind == CLI_KIND_COUNT32 ? INT32_MAX : INT64_MAX;
    const int64_t most = value->most != 0 ? value->most : widest;
    if (to_int(text, value->least, most, count)) {
        return true;
    }
    return value->most != 0
               ? cli_refuse(error, "'%s' is no %s (give %" PRId64 " to %" PRId64 ")", text,
                            value->what, value->least, value->most)
               : cli_refuse(error, "'%s' is no %s (give a whole number from %" PRId64 ")", text,
                            value->what, value->least);
}

const char *cli_value_word(const cli_value *value, int number)
{
    return value->words != NULL ? value->words[number - value->least] : value->names(number);
}

/* "'x' is no metric (known: a, b)" */
static bool refuse_name(const cli_value *value, const char *text, cli_error *error)
{
    size_t used = (size_t)snprintf(error->text, sizeof error->text, "'%s' is no %s (known:", text,
                                   value->what);
    for (int i = (int)value->least; i <= value->most && used < sizeof error->text; i++) {
        if (cli_value_word(value, i) != NULL) {
            used += (size_t)snprintf(error->text + used, sizeof error->text - used, "%s %s",
                                     i == value->least ? "" : ",", cli_value_word(value, i));
        }
    }
    if (used < sizeof error->text) {
        (void)snprintf(error->text + used, sizeof error->text - used, ")");
    }
    return false;
}

static bool read_name(const cli_value *value, const char *text, int *number, cli_error *error)
{
    for (int i = (int)value->least; i <= value->most; i++) {
        if (strcmp(text, cli_value_word(value, i)) == 0) {
            *number = i;
            return true;
        }
    }
    return refuse_name(value, text, error);
}

static bool read_share(const char *text, double *share)
{
    return to_number(text, share) && *share > 0.0 && *share <= 1.0;
}

static bool read_power_of_two(const char *text, int64_t least, int64_t most, int32_t *power)
{
    int64_t given = 0;
    const bool is_one = to_int(text, least, most, &given) && (given & (given - 1)) == 0;
    *power = (int32_t)given;
    return is_one;
}

bool cli_read_value(const cli_value *value, const char *text, cli_args *args, cli_error *error)
{
    void *field = (char *)args + value->field;
    int64_t count = 0;
    bool good = true;
    switch (value->kind) {
    case CLI_KIND_FLAG:
        return true;
    case CLI_KIND_COUNT:
        return read_count(value, text, field, error);
    case CLI_KIND_COUNT32:
        good = read_count(value, text, &count, error);
        *(int32_t *)field = (int32_t)count;
        return good;
    case CLI_KIND_POWER:
        return read_power_of_two(text, value->least, value->most, field) ||
               cli_refuse(error,
                          "'%s' is no such size (use a power of two, %" PRId64 " to %" PRId64 ")",
                          text, value->least, value->most);
    case CLI_KIND_SEED:
        return to_uint(text, field) ||
               is_no(error, text, value->what, "give a whole number from 0 to 2^64-1");
    case CLI_KIND_NUMBER:
        return to_number(text, field) || is_no(error, text, value->what, "give a finite number");
    case CLI_KIND_SHARE:
        return read_share(text, field) ||
               is_no(error, text, "share", "give a number above 0, at most 1");
    case CLI_KIND_BYTES:
        return to_bytes(text, field) ||
               is_no(error, text, "amount of memory", "give bytes, or 512M, 8G, 8GB, 1.5TiB");
    case CLI_KIND_PATH:
        *(const char **)field = text;
        return text[0] != '\0' || cli_refuse(error, "the name is empty (give the name of a file)");
    case CLI_KIND_NAME:
        return read_name(value, text, field, error);
    case CLI_KIND_OTHER:
        break;
    }
    return value->read(text, args, error);
}

/* ---- What no kind says ---------------------------------------------------------------------- */

bool cli_read_k(const char *text, cli_args *args, cli_error *error)
{
    return to_int(text, 1, INT64_MAX, &args->k) ||
           is_no(error, text,
                 args->command == CLI_SELECT ? "number of values" : "number of neighbours",
                 "give a whole number from 1");
}

/* The library knows aliases, too. */
bool cli_read_metric(const char *text, cli_args *args, cli_error *error)
{
    static const cli_value known = {
        .what = "metric", .least = 1, .most = KITH_METRIC_LAST, .names = cli_name_metric};
    args->metric = kith_metric_parse(text);
    if (args->metric == KITH_METRIC_DEFAULT && strncmp(text, "minkowski", 9) == 0) {
        return is_no(error, text, "metric", "minkowski:P has a power, " CLI_POWERS);
    }
    return (args->metric != KITH_METRIC_DEFAULT && cli_name_metric((int)args->metric) != NULL) ||
           refuse_name(&known, text, error);
}

bool cli_read_group(const char *text, cli_args *args, cli_error *error)
{
    return read_power_of_two(text, 2, 8, &args->group) ||
           is_no(error, text, "size of a group", "use 2, 4 or 8");
}

/* A graph may do without. */
bool cli_read_sample(const char *text, cli_args *args, cli_error *error)
{
    const int64_t least = args->command == CLI_EVAL ? 1 : 0;
    return to_int(text, least, INT64_MAX, &args->sample) ||
           cli_refuse(error, "'%s' is no number of rows (give a whole number from %d)", text,
                      (int)least);
}

/* "0.99", "0.99@10" */
bool cli_read_recall(const char *text, cli_args *args, cli_error *error)
{
    char number[32];
    const char *at = strchr(text, '@');
    const size_t length = at != NULL ? (size_t)(at - text) : strlen(text);
    const bool fits = length < sizeof number;
    (void)snprintf(number, sizeof number, "%.*s", fits ? (int)length : 0, text);
    if (read_share(number, &args->recall) &&
        (at == NULL || to_int(at + 1, 1, INT64_MAX, &args->recall_at))) {
        return true;
    }
    return is_no(error, text, "recall",
                 "give a share from 0 to 1, and of how many neighbours if you like: 0.99, 0.99@10");
}

bool cli_read_parts(const char *text, cli_args *args, cli_error *error)
{
    int64_t count = KITH_PARTS_AUTO;
    if (strcmp(text, "auto") != 0 && !to_int(text, 1, KITH_PARTS_MAX, &count)) {
        return is_no(error, text, "number of files", "give 1 to 256, or auto");
    }
    args->parts = (int32_t)count;
    return true;
}

/* By the character itself, or by a name that a shell leaves alone. */
bool cli_read_delimiter(const char *text, cli_args *args, cli_error *error)
{
    static const struct {
        const char *name;
        char delimiter;
    } names[] = {{",", ','},    {";", ';'},         {"\t", '\t'},   {" ", ' '},     {"comma", ','},
                 {"tab", '\t'}, {"semicolon", ';'}, {"blank", ' '}, {"space", ' '}, {"\\t", '\t'}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].name) == 0) {
            args->delimiter = names[i].delimiter;
            return true;
        }
    }
    return is_no(error, text, "delimiter", "use , ; tab or blank");
}

bool cli_read_columns(const char *text, cli_args *args, cli_error *error)
{
    args->columns = text;
    return text[0] != '\0' ||
           cli_refuse(error, "names no column (give numbers, ranges or names: 1,4-6,NAME)");
}

bool cli_value_length(const char *text, const char **next, double *length)
{
    char part[64];
    const size_t bytes = strcspn(text, ",");
    if (bytes >= sizeof part) {
        return false;
    }
    memcpy(part, text, bytes);
    part[bytes] = '\0';
    *next = text[bytes] == ',' ? text + bytes + 1 : NULL;
    return to_number(part, length) && *length >= 0.0;
}

bool cli_read_period(const char *text, cli_args *args, cli_error *error)
{
    double length = 0.0;
    args->period = text;
    if (strlen(text) > CLI_PERIOD_BYTES) {
        return cli_refuse(error, "has more than %d characters", CLI_PERIOD_BYTES);
    }
    for (const char *at = text; at != NULL;) {
        if (!cli_value_length(at, &at, &length)) {
            return is_no(error, text, "length of a box",
                         "give one number, or one for each column with commas between, 0: it has "
                         "none");
        }
    }
    return true;
}

bool cli_read_device(const char *text, cli_args *args, cli_error *error)
{
    args->device = text;
    return cli_value_is_device(text) ||
           is_no(error, text, "device", "use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all");
}

/* ---- Devices -------------------------------------------------------------------------------- */

/* Numbers with commas between them. */
static bool is_list(const char *text)
{
    for (;;) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 3) {
            return false;
        }
        text += digits;
        if (*text == '\0') {
            return true;
        }
        if (*text++ != ',') {
            return false;
        }
    }
}

bool cli_value_is_device(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0 ||
           strcmp(text, "cuda:all") == 0 || (strncmp(text, "cuda:", 5) == 0 && is_list(text + 5));
}
