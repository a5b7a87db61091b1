/* SPDX-License-Identifier: Apache-2.0
 *
 * .csv and .tsv: one row a line, numbers between separators. What the first lines are,
 * file_text_head.c says. Blank lines are passed over, spaces and one pair of quotes around a number
 * too, a byte order mark and lines of # at the start as well. Values are float64. A field that is
 * missing or no number is an error with its row and column.
 */
#include "file/file_open.h"

#include "base/base_size.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"

#include <inttypes.h>
#include <stdio.h>

enum { PROGRESS_ROWS = 1024, SHOWN_BYTES = 24, COUNTED_ROWS = 4 };

/* col counts the fields of the file, whatever is taken of them. */
static kith_status fail_field(const kin_text *text, const kin_text_line *line, int64_t row,
                              int64_t col, kin_text_field field)
{
    char shown[SHOWN_BYTES + 1];
    size_t used = 0;
    for (const char *at = field.at; at < field.end && used < SHOWN_BYTES; at++) {
        shown[used++] = *at >= ' ' && *at <= '~' ? *at : '?';
    }
    shown[used] = '\0';
    KIN_DAMAGED_IF(kin_text_is_missing(field), text->source->ctx, text->source->path,
                   "row %" PRId64 ", column %" PRId64 " (line %" PRId64
                   ") is missing: '%s' (give a number there, or leave the row out, or the column "
                   "with --columns)",
                   row, col, line->number, shown);
    return kin_fail_at(
        text->source->ctx, KITH_E_FORMAT, kin_at_file(text->source->path),
        "row %" PRId64 ", column %" PRId64 " (line %" PRId64
        "): '%s' is not a number (numbers look like -1.5e3; --header yes if the line names "
        "columns, --columns leaves some out, --delimiter says what stands between)",
        row, col, line->number, shown);
}

static int64_t place_of(const kin_text *text, int64_t col)
{
    if (col >= text->file_cols) {
        return -1;
    }
    return text->places != NULL ? text->places[col] : col;
}

/* values NULL: only looks for what is wrong. */
static kith_status parse_line(const kin_text *text, const kin_text_line *line, int64_t row,
                              double *values)
{
    int64_t col = 0;
    for (const char *at = line->at; at != NULL; col++) {
        double value = 0.0;
        const kin_text_field field = kin_text_next_field(&at, line->end, text->separator);
        const int64_t place = place_of(text, col);
        if (place < 0) {
            continue;
        }
        if (!kin_number_parse(field.at, field.end, &value)) {
            return fail_field(text, line, row, col, field);
        }
        if (values != NULL) {
            values[place] = value;
        }
    }
    KIN_DAMAGED_IF(col != text->file_cols, text->source->ctx, text->source->path,
                   "row %" PRId64 " (line %" PRId64 ") has %" PRId64 " values, row 0 has %" PRId64
                   " (all rows must be of one length)",
                   row, line->number, col, text->file_cols);
    return KITH_OK;
}

static kith_status parse_lines(const kin_text *text, int64_t rows, double *values)
{
    const char *at = text->values.at;
    kin_text_line line = {.number = text->values.number - 1};
    for (int64_t row = 0; kin_text_next_line(&at, text->end, &line); row++) {
        double *target = values != NULL ? values + row * text->cols : NULL;
        KIN_TRY(parse_line(text, &line, row, target));
        if (row % PROGRESS_ROWS == 0) {
            KIN_TRY(kin_progress(text->source->ctx, "read", (double)row, (double)rows));
        }
    }
    return KITH_OK;
}

/* A first column of 0, 1, 2 ... or 1, 2, 3 ... is the number of the row far more often than where
 * the row is: nobody is to find neighbours by it without having said so. */
static kith_status check_index(const kin_text *text, int64_t rows, const double *values)
{
    if (text->source->params->use != KITH_USE_POINTS || text->source->params->columns != NULL ||
        text->cols < 2 || rows < COUNTED_ROWS || (values[0] != 0.0 && values[0] != 1.0)) {
        return KITH_OK;
    }
    for (int64_t row = 1; row < rows; row++) {
        if (values[row * text->cols] != values[0] + (double)row) {
            return KITH_OK;
        }
    }
    return kin_fail_at(text->source->ctx, KITH_E_FORMAT, kin_at_file(text->source->path),
                       "column 0 counts the rows, from %.0f on, and looks like an index (--columns "
                       "1- leaves it out, --columns 0- takes it as a coordinate)",
                       values[0]);
}

static kith_status measure(kin_text *text, int64_t *rows)
{
    KIN_TRY(kin_text_begin(text));
    const kin_source *source = text->source;
    const char *at = text->values.end;
    kin_text_line line = text->values;
    uint64_t count = 1;
    while (kin_text_next_line(&at, text->end, &line)) {
        count += 1;
    }
    KIN_TRY(
        kin_shape_check(source->ctx, source->path, count, (uint64_t)text->cols, source->cols_max));
    *rows = (int64_t)count;
    return KITH_OK;
}

static kith_status inspect(const kin_source *source, kith_file_info *info)
{
    kin_text text = {.source = source};
    KIN_C_NUMBERS();
    const kith_status status = measure(&text, &info->rows);
    kin_free(source->ctx, text.places);
    info->cols = text.cols;
    info->dtype = KITH_F64;
    info->header = text.header.at != NULL;
    info->delimiter = text.separator;
    return status;
}

static void tell_source(kith_points *points, const kin_text *text)
{
    size_t used = 0;
    for (const char *at = text->header.at; at != NULL && at < text->header.end; at++) {
        if (used + 1 < sizeof points->names) {
            points->names[used++] = (unsigned char)*at > ' ' ? *at : ' ';
        }
    }
    points->names[used] = '\0';
    points->source.header = text->header.at != NULL;
    points->source.delimiter = text->separator;
    points->source.file_cols = text->file_cols;
    points->source.compressed = points->input.compressed;
}

static kith_status read_text(kith_points *points, kin_text *text)
{
    int64_t rows = 0;
    KIN_TRY(measure(text, &rows));
    /* A value takes two bytes at least. A file that is too short for its rows has bad ones: they
     * are named before memory is asked for that no honest file would need. */
    const uint64_t least = kin_size_mul((uint64_t)rows, 2 * (uint64_t)text->file_cols);
    if (least > points->input.bytes + 1) {
        KIN_TRY(parse_lines(text, rows, NULL));
    }
    KIN_TRY(kin_points_reserve(points, rows, text->cols, KITH_F64));
    points->item = kin_item_make('f', 8);
    KIN_TRY(parse_lines(text, rows, points->block));
    KIN_TRY(check_index(text, rows, points->block));
    tell_source(points, text);
    return KITH_OK;
}

/* The input is closed when all is read. */
static kith_status read_points(const kin_source *source, kith_points *points)
{
    kin_text text = {.source = source};
    const kin_fpenv mode = kin_fpenv_enter();
    KIN_C_NUMBERS();
    const kith_status status = read_text(points, &text);
    kin_fpenv_leave(mode);
    kin_free(source->ctx, text.places);
    kin_input_close(source->ctx, source->input);
    return status;
}

const kin_reader kin_reader_text = {.points = read_points, .inspect = inspect};
