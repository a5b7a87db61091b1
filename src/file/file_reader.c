/* SPDX-License-Identifier: Apache-2.0
 * Numbers, shapes and formats: what all readers share. */
#include "file/file_reader.h"

#include "base/base_try.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- Types ----------------------------------------------------------------------------------- */

typedef struct item_row {
    kin_item item;
    kith_dtype dtype;
    const char *name;
} item_row;

static const item_row item_table[] = {
    {{'f', 4}, KITH_F32, "float32"}, {{'f', 8}, KITH_F64, "float64"},
    {{'f', 2}, KITH_F16, "float16"}, {{'h', 2}, KITH_BF16, "bfloat16"},
    {{'u', 1}, KITH_U8, "uint8"},    {{'i', 1}, KITH_I8, "int8"},
    {{'i', 2}, 0, "int16"},          {{'u', 2}, 0, "uint16"},
    {{'i', 4}, 0, "int32"},          {{'u', 4}, 0, "uint32"},
    {{'i', 8}, 0, "int64"},          {{'u', 8}, 0, "uint64"},
};
enum { ITEM_COUNT = sizeof item_table / sizeof item_table[0] };

static const item_row *find_item(kin_item item)
{
    for (int i = 0; i < ITEM_COUNT; i++) {
        if (item_table[i].item.kind == item.kind && item_table[i].item.bytes == item.bytes) {
            return &item_table[i];
        }
    }
    return NULL;
}

kith_dtype kin_item_dtype(kin_item item)
{
    const item_row *row = find_item(item);
    return row != NULL ? row->dtype : KITH_DTYPE_NONE;
}

kin_item kin_item_of(kith_dtype dtype)
{
    for (int i = 0; i < ITEM_COUNT; i++) {
        if (dtype != KITH_DTYPE_NONE && item_table[i].dtype == dtype) {
            return item_table[i].item;
        }
    }
    return kin_item_make('\0', 0);
}

const char *kin_item_name(kin_item item)
{
    const item_row *row = find_item(item);
    return row != NULL ? row->name : "unknown";
}

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    double magnitude = 0.0;
    if (exponent == 31) {
        magnitude = fraction == 0 ? (double)INFINITY : (double)NAN;
    } else if (exponent == 0) {
        magnitude = ldexp(fraction, -24);
    } else {
        magnitude = ldexp(1024 + fraction, exponent - 25);
    }
    return (bits >> 15) != 0 ? -magnitude : magnitude;
}

static double load_float(kin_item item, const void *at)
{
    if (item.bytes == 8) {
        double value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    if (item.bytes == 4) {
        float value;
        memcpy(&value, at, sizeof value);
        return (double)value;
    }
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return half_value(bits);
}

static double load_bfloat(const void *at)
{
    uint16_t high;
    memcpy(&high, at, sizeof high);
    const uint32_t bits = (uint32_t)high << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* The integer, its sign extended; an unsigned one of 64 bits keeps its bits. */
static int64_t load_integer(kin_item item, const void *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)item.bytes);
    if (item.kind == 'i' && item.bytes < 8) {
        const int shift = 64 - 8 * item.bytes;
        return (int64_t)(bits << shift) >> shift;
    }
    return (int64_t)bits;
}

/* An integer is a double if it has at most 53 bits between its first and its last 1. */
static bool fits_double(uint64_t magnitude)
{
    if (magnitude == 0) {
        return true;
    }
    return 64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude) <= 53;
}

bool kin_item_load(kin_item item, const void *at, double *value)
{
    if (item.kind == 'f') {
        *value = load_float(item, at);
        return true;
    }
    if (item.kind == 'h') {
        *value = load_bfloat(at);
        return true;
    }
    const int64_t integer = load_integer(item, at);
    if (item.kind == 'u') {
        *value = (double)(uint64_t)integer;
        return fits_double((uint64_t)integer);
    }
    *value = (double)integer;
    return fits_double(integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer);
}

static bool store_integer(kin_item item, double value, void *at)
{
    const int bits = 8 * item.bytes;
    const double low = item.kind == 'u' ? 0.0 : -ldexp(1.0, bits - 1);
    const double end = ldexp(1.0, item.kind == 'u' ? bits : bits - 1);
    if (!(value >= low && value < end) || value != floor(value)) {
        return false;
    }
    const uint64_t whole = item.kind == 'u' ? (uint64_t)value : (uint64_t)(int64_t)value;
    memcpy(at, &whole, (size_t)item.bytes);
    return true;
}

bool kin_item_store(kin_item item, double value, void *at)
{
    if (item.kind == 'f' && item.bytes == 8) {
        memcpy(at, &value, sizeof value);
        return true;
    }
    if (item.kind == 'f' && item.bytes == 4) {
        /* Values beyond float32 are turned away first: their cast would be undefined. */
        if (isfinite(value) && fabs(value) > (double)3.402823466385288598e38f) {
            return false;
        }
        const float narrow = (float)value;
        if ((double)narrow != value && !isnan(value)) {
            return false;
        }
        memcpy(at, &narrow, sizeof narrow);
        return true;
    }
    return (item.kind == 'i' || item.kind == 'u') && store_integer(item, value, at);
}

/* ---- As text --------------------------------------------------------------------------------- */

/*
 * Idea. Most numbers in files are short: an integer of at most 53 bits, times or divided by a power
 * of ten that is itself exact in double (up to 10^22). That is one rounded operation on two exact
 * operands, hence correctly rounded (Clinger 1990). Everything else goes to strtod, which is too.
 */

enum { POWERS = 23, DIGITS_MAX = 19, TEXT_MAX = 1024, EXPONENT_MAX = 100000 };

static const double power_of_ten[POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

kin_number_locale kin_number_enter(void)
{
    kin_number_locale locale = {NULL, NULL};
    const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (own != (locale_t)0) {
        locale.own = own;
        locale.before = uselocale(own);
    }
    return locale;
}

void kin_number_leave(const kin_number_locale *locale)
{
    if (locale->own != NULL) {
        (void)uselocale((locale_t)locale->before);
        freelocale((locale_t)locale->own);
    }
}

/* What a scan has found: mantissa x 10^exponent, exact unless digits were dropped. */
typedef struct decimal {
    const char *at;
    uint64_t mantissa;
    int digits; /* significant ones in mantissa */
    int exponent;
    bool any;
    bool dropped;
} decimal;

static void scan_digits(decimal *d, const char *end, bool fraction)
{
    const char *at = d->at;
    while (at < end && *at >= '0' && *at <= '9') {
        if (d->digits < DIGITS_MAX) {
            d->mantissa = d->mantissa * 10 + (uint64_t)(*at - '0');
            d->digits += d->mantissa != 0;
            d->exponent -= fraction;
        } else {
            d->dropped = true;
        }
        at++;
    }
    d->any = d->any || at != d->at;
    d->at = at;
}

static bool scan_exponent(decimal *d, const char *end)
{
    if (d->at == end || (*d->at | 0x20) != 'e') {
        return true;
    }
    d->at++;
    bool negative = false;
    if (d->at < end && (*d->at == '+' || *d->at == '-')) {
        negative = *d->at++ == '-';
    }
    const char *start = d->at;
    int exponent = 0;
    while (d->at < end && *d->at >= '0' && *d->at <= '9') {
        if (exponent < EXPONENT_MAX) {
            exponent = exponent * 10 + (*d->at - '0');
        }
        d->at++;
    }
    d->exponent += negative ? -exponent : exponent;
    return d->at != start;
}

static bool same_word(const char *text, const char *end, const char *word)
{
    const size_t bytes = strlen(word);
    return (size_t)(end - text) == bytes && strncasecmp(text, word, bytes) == 0;
}

static bool parse_word(const char *text, const char *end, bool negative, double *value)
{
    if (same_word(text, end, "nan")) {
        *value = (double)NAN;
        return true;
    }
    if (same_word(text, end, "inf") || same_word(text, end, "infinity")) {
        *value = negative ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    return false;
}

/* The syntax is known to be right here; strtod wants a zero behind it. */
static double parse_slowly(const char *text, const char *end)
{
    char copy[TEXT_MAX];
    const size_t bytes = (size_t)(end - text);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return strtod(copy, NULL);
}

bool kin_number_parse(const char *text, const char *end, double *value)
{
    if (end - text >= TEXT_MAX) {
        return false; /* no number is this long, and the counters below may trust that */
    }
    decimal d = {.at = text};
    const bool negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+')) {
        d.at++;
    }
    const char *start = d.at;
    scan_digits(&d, end, false);
    if (d.at < end && *d.at == '.') {
        d.at++;
        scan_digits(&d, end, true);
    }
    if (!d.any) {
        return parse_word(start, end, negative, value);
    }
    if (!scan_exponent(&d, end) || d.at != end) {
        return false;
    }
    if (d.dropped || d.mantissa > (uint64_t)1 << 53 || d.exponent <= -POWERS ||
        d.exponent >= POWERS) {
        *value = parse_slowly(text, end);
        return true;
    }
    const double whole = (double)d.mantissa;
    const double magnitude =
        d.exponent < 0 ? whole / power_of_ten[-d.exponent] : whole * power_of_ten[d.exponent];
    *value = negative ? -magnitude : magnitude;
    return true;
}

static bool comes_back(const char *text, int length, double value, bool single)
{
    double back = 0.0;
    if (isnan(value) || !kin_number_parse(text, text + length, &back)) {
        return true;
    }
    /* Digits of a value near the end of float32's range may round beyond it. */
    const bool fits = fabs(back) <= (double)FLT_MAX || isinf(back);
    return single ? fits && (float)back == (float)value : back == value;
}

int kin_number_print(char *text, size_t room, double value, bool single)
{
    const int most = single ? 9 : 17;
    int digits = single ? 6 : 15;
    int length = snprintf(text, room, "%.*g", digits, value);
    while (digits < most && !comes_back(text, length, value, single)) {
        digits += 1;
        length = snprintf(text, room, "%.*g", digits, value);
    }
    return length;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

kith_status kin_shape_check(kith_ctx *ctx, const char *path, uint64_t rows, uint64_t cols,
                            uint64_t cols_max)
{
    KIN_DAMAGED_IF(rows == 0, ctx, path, "holds 0 rows (at least 1 is needed)");
    KIN_DAMAGED_IF(cols == 0, ctx, path, "its rows have 0 columns (at least 1 is needed)");
    KIN_DAMAGED_IF(rows > KIN_ROWS_MAX, ctx, path,
                   "says it holds %" PRIu64 " rows; kith takes at most %" PRIu64
                   " (split the file)",
                   rows, KIN_ROWS_MAX);
    KIN_DAMAGED_IF(cols > cols_max, ctx, path,
                   "says its rows have %" PRIu64 " columns; kith takes at most %" PRIu64
                   " (is it of another format?)",
                   cols, cols_max);
    return KITH_OK;
}

kith_status kin_shape_make(const kin_source *source, const void *data, uint64_t rows, uint64_t cols,
                           kin_item item, kin_shape *shape)
{
    KIN_TRY(kin_shape_check(source->ctx, source->path, rows, cols, source->cols_max));
    *shape = (kin_shape){.data = data,
                         .rows = (int64_t)rows,
                         .cols = (int64_t)cols,
                         .stride = (int64_t)cols * item.bytes,
                         .item = item};
    return KITH_OK;
}

void kin_info_take_shape(kith_file_info *info, kith_kind kind, const kin_shape *shape)
{
    const kith_dtype own = kin_item_dtype(shape->item);
    const bool ids = kind == KITH_KIND_GRAPH || kind == KITH_KIND_RESULT;
    info->kind = kind;
    info->rows = shape->rows;
    info->cols = shape->cols;
    info->dtype = ids ? KITH_DTYPE_NONE : own != KITH_DTYPE_NONE ? own : KITH_F64;
}

void kin_info_take_meta(kith_file_info *info, const kith_result_meta *meta)
{
    info->metric = meta->metric;
    info->exact = meta->exact;
    info->points = meta->points;
    if (meta->exact == KITH_APPROXIMATE && meta->recall >= 0.0 && meta->recall_at > 0) {
        info->recall = meta->recall;
        info->recall_at = meta->recall_at;
    }
}

/* ---- Formats --------------------------------------------------------------------------------- */

static const kin_format_traits format_table[KIN_FORMAT_COUNT] = {
    [KIN_FORMAT_NONE] = {"", "", 0, {'\0', 0}},
#define ROW(NAME, name, endings, holds, kind, bytes, layout) \
    [KIN_FORMAT_##NAME] = {(name), (endings), (holds), {(kind), (bytes)}},
    KITH_FILE_MAP(ROW)
#undef ROW
};

kith_format kin_format_result(const char *name)
{
#define ROW(NAME, number, name) {(name), KITH_FORMAT_##NAME},
    static const struct {
        const char *name;
        kith_format format;
    } rows[] = {KITH_FORMAT_MAP(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(name, rows[i].name) == 0) {
            return rows[i].format;
        }
    }
    return KITH_FORMAT_AUTO;
}

const kin_format_traits *kin_format_get_traits(kin_format format)
{
    return &format_table[format];
}

/* Whether what stands before `end` ends in '.' and the ending. */
static bool ends_in(const char *path, const char *end, const char *ending, size_t bytes)
{
    return (size_t)(end - path) > bytes + 1 && end[-(ptrdiff_t)bytes - 1] == '.' &&
           strncasecmp(end - bytes, ending, bytes) == 0;
}

/* By its name, or, where it is read, by one of its other endings. */
static bool is_named(const char *path, const char *end, const kin_format_traits *traits, bool read)
{
    if (ends_in(path, end, traits->name, strlen(traits->name))) {
        return true;
    }
    size_t bytes = 0;
    for (const char *at = traits->endings; read && *at != '\0'; at += bytes + (at[bytes] == ' ')) {
        bytes = strcspn(at, " ");
        if (ends_in(path, end, at, bytes)) {
            return true;
        }
    }
    return false;
}

const char *kin_format_dataset(const char *path)
{
    for (const char *at = strchr(path, ':'); at != NULL; at = strchr(at + 1, ':')) {
        if (is_named(path, at, &format_table[KIN_FORMAT_HDF5], true)) {
            return at;
        }
    }
    return NULL;
}

kin_format kin_format_of(const char *path, unsigned holds)
{
    if ((holds & KITH_FILE_POINTS_IN) != 0 && kin_format_dataset(path) != NULL) {
        return KIN_FORMAT_HDF5;
    }
    const char *end = path + strlen(path);
    const bool read = (holds & KITH_FILE_POINTS_IN) != 0;
    for (int i = 1; i < KIN_FORMAT_COUNT; i++) {
        if ((format_table[i].holds & holds) != 0 && is_named(path, end, &format_table[i], read)) {
            return (kin_format)i;
        }
    }
    return KIN_FORMAT_NONE;
}

static const char *use_name(unsigned holds)
{
    if (holds == KITH_FILE_POINTS_IN) {
        return "points that kith reads";
    }
    if (holds == KITH_FILE_POINTS_OUT) {
        return "points that kith writes";
    }
    if (holds == KITH_FILE_LISTS_OUT) {
        return "neighbours that kith writes";
    }
    return holds == KITH_FILE_LISTS_IN ? "neighbours" : "a file that kith knows";
}

kith_status kin_format_find(kith_ctx *ctx, const char *path, unsigned holds, kin_format *format)
{
    *format = kin_format_of(path, holds);
    if (*format != KIN_FORMAT_NONE) {
        return KITH_OK;
    }
    KIN_FAIL_IF((holds & KITH_FILE_POINTS_IN) != 0 && access(path, F_OK) != 0, ctx, KITH_E_IO,
                kin_at_file(path), "cannot be opened: %s (check the path)", strerror(errno));
    char known[256] = "";
    size_t used = 0;
    for (int i = 1; i < KIN_FORMAT_COUNT; i++) {
        if ((format_table[i].holds & holds) != 0) {
            used +=
                (size_t)snprintf(known + used, sizeof known - used, " .%s", format_table[i].name);
        }
    }
    return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_file(path),
                       "the extension is not one of %s (there are:%s)", use_name(holds), known);
}
