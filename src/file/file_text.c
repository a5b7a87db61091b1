/* SPDX-License-Identifier: Apache-2.0
 *
 * .csv and .tsv: one row a line, numbers between commas or tabs. The first line may name the
 * columns: it does if one of its fields is no number. Blank lines are passed over, spaces and one
 * pair of quotes around a number too, a byte order mark at the start as well. Values are float64.
 */
#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_number.h"
#include "file/file_points.h"
#include "host/host_fpenv.h"
#include "host/host_threads.h"

#include <inttypes.h>

enum { PROGRESS_ROWS = 1024, SHOWN_BYTES = 24 };

typedef struct text_line {
    const char *at;
    const char *end;
} text_line;

typedef struct text_file {
    kith_ctx *ctx;
    const char *path;
    const char *start; /* first line of values */
    const char *end;
    int64_t first_line; /* its number, from 1 as editors count */
    uint64_t cols_max;
    char separator;
} text_file;

/* The next line that is not blank; false at the end. *number counts all lines. */
static bool next_line(const char **at, const char *end, text_line *line, int64_t *number)
{
    while (*at < end) {
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        line->at = *at;
        line->end = stop != NULL ? stop : end;
        *at = stop != NULL ? stop + 1 : end;
        *number += 1;
        while (line->end > line->at && (line->end[-1] == '\r' || line->end[-1] == ' ')) {
            line->end--;
        }
        if (line->end > line->at) {
            return true;
        }
    }
    return false;
}

/* The field that begins at *at, without spaces and quotes around it; *at moves behind the
 * separator, or to NULL after the last. A separator within quotes is none. */
static text_line next_field(const char **at, const char *end, char separator)
{
    const char *start = *at;
    const char *stop = start;
    while (stop < end && *stop == ' ') {
        stop++;
    }
    if (stop < end && *stop == '"') {
        const char *quote = memchr(stop + 1, '"', (size_t)(end - stop - 1));
        stop = quote != NULL ? quote : stop;
    }
    while (stop < end && *stop != separator) {
        stop++;
    }
    *at = stop < end ? stop + 1 : NULL;
    text_line field = {start, stop};
    while (field.at < field.end && *field.at == ' ') {
        field.at++;
    }
    while (field.end > field.at && field.end[-1] == ' ') {
        field.end--;
    }
    if (field.end - field.at >= 2 && *field.at == '"' && field.end[-1] == '"') {
        field.at++;
        field.end--;
    }
    return field;
}

static bool is_number(text_line field)
{
    double value = 0.0;
    return kin_number_parse(field.at, field.end, &value);
}

static uint64_t count_fields(text_line line, char separator, bool *numbers)
{
    uint64_t count = 0;
    *numbers = true;
    for (const char *at = line.at; at != NULL; count++) {
        *numbers = is_number(next_field(&at, line.end, separator)) && *numbers;
    }
    return count;
}

static kith_status fail_field(const text_file *text, int64_t row, int64_t col, int64_t line,
                              text_line field)
{
    char shown[SHOWN_BYTES + 1];
    size_t used = 0;
    for (const char *at = field.at; at < field.end && used < SHOWN_BYTES; at++) {
        shown[used++] = *at >= ' ' && *at <= '~' ? *at : '?';
    }
    shown[used] = '\0';
    return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                       "row %" PRId64 ", column %" PRId64 " (line %" PRId64
                       "): '%s' is not a number (numbers look like -1.5e3)",
                       row, col, line, shown);
}

/* values NULL: only looks for what is wrong. */
static kith_status parse_line(const text_file *text, text_line line, int64_t row, int64_t cols,
                              int64_t number, double *values)
{
    int64_t col = 0;
    for (const char *at = line.at; at != NULL; col++) {
        double value = 0.0;
        const text_line field = next_field(&at, line.end, text->separator);
        if (!kin_number_parse(field.at, field.end, &value)) {
            return fail_field(text, row, col, number, field);
        }
        if (values != NULL && col < cols) {
            values[col] = value;
        }
    }
    if (col != cols) {
        return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                           "row %" PRId64 " (line %" PRId64 ") has %" PRId64
                           " values, row 0 has %" PRId64 " (all rows must be of one length)",
                           row, number, col, cols);
    }
    return KITH_OK;
}

static kith_status parse_lines(const text_file *text, const kin_shape *shape, double *values)
{
    const char *at = text->start;
    int64_t number = text->first_line - 1;
    text_line line;
    for (int64_t row = 0; next_line(&at, text->end, &line, &number); row++) {
        double *target = values != NULL ? values + row * shape->cols : NULL;
        KIN_TRY(parse_line(text, line, row, shape->cols, number, target));
        if (row % PROGRESS_ROWS == 0) {
            KIN_TRY(kin_progress(text->ctx, "read", (double)row, (double)shape->rows));
        }
    }
    return KITH_OK;
}

/* Finds the first line of values, their number a line, and the number of lines. */
static kith_status measure(text_file *text, const kin_map *map, kin_format format, kin_shape *shape)
{
    const char *at = (const char *)map->data;
    text->end = at + map->bytes;
    text->separator = format == KIN_FORMAT_TSV ? '\t' : ',';
    if (map->bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        at += 3;
    }
    text_line line;
    int64_t number = 0;
    bool numbers = false;
    uint64_t cols = 0;
    for (int tries = 0; tries < 2 && !numbers; tries++) {
        if (!next_line(&at, text->end, &line, &number)) {
            return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                               "holds no row of numbers (at least 1 is needed)");
        }
        cols = count_fields(line, text->separator, &numbers);
    }
    text->start = line.at;
    text->first_line = number;
    uint64_t rows = 1;
    while (next_line(&at, text->end, &line, &number)) {
        rows += 1;
    }
    KIN_TRY(kin_shape_check(text->ctx, text->path, rows, cols, text->cols_max));
    memset(shape, 0, sizeof *shape);
    shape->rows = (int64_t)rows;
    shape->cols = (int64_t)cols;
    shape->item = kin_item_make('f', 8);
    return KITH_OK;
}

kith_status kin_text_shape(kith_ctx *ctx, const char *path, const kin_map *map, kin_format format,
                           kin_shape *shape)
{
    text_file text = {.ctx = ctx, .path = path, .cols_max = KIN_VALUES_COLS_MAX};
    return measure(&text, map, format, shape);
}

static kith_status read_text(kith_points *points, const char *path, kin_format format)
{
    text_file text = {.ctx = points->ctx, .path = path, .cols_max = points->cols_max};
    kin_shape shape;
    KIN_TRY(measure(&text, &points->map, format, &shape));
    /* A value takes two bytes at least. A file that is too short for its rows has bad ones: they
     * are named before memory is asked for that no honest file would need. */
    const uint64_t least = kin_size_mul((uint64_t)shape.rows, 2 * (uint64_t)shape.cols);
    if (least > points->map.bytes + 1) {
        KIN_TRY(parse_lines(&text, &shape, NULL));
    }
    KIN_TRY(kin_points_reserve(points, shape.rows, shape.cols, KITH_F64));
    points->item = shape.item;
    return parse_lines(&text, &shape, points->block);
}

kith_status kin_text_read(kith_points *points, const char *path, kin_format format)
{
    const kin_fpenv mode = kin_fpenv_enter();
    const kin_number_locale locale = kin_number_enter();
    const kith_status status = read_text(points, path, format);
    kin_number_leave(locale);
    kin_fpenv_leave(mode);
    kin_map_close(&points->map);
    return status;
}
