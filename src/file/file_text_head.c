/* SPDX-License-Identifier: Apache-2.0
 *
 * What the first lines of a text say: which separator it has, and whether the first one names the
 * columns.
 *
 * A line names columns if no field of it looks like a number. One that has numbers and other words
 * may be names (id,0,1,2) or a row with a word in it: that is asked for. So is a first line that is
 * 0,1,2 ... as far as it goes, which is what pandas writes above columns without names. All others
 * are rows.
 */
#include "file/file_text.h"

#include "base/base_try.h"
#include "file/file_number.h"

#include <inttypes.h>
#include <stdio.h>

static const char unnamed[] = "Unnamed: 0"; /* pandas' name for the index of a file that it wrote */

/* ---- Separator ------------------------------------------------------------------------------ */

/* Whether c stands in the line outside of quotes and, as a blank, between two fields. */
static bool has_separator(const kin_text_line *line, char c)
{
    bool quoted = false;
    const char *at = line->at;
    while (at < line->end && (*at == ' ' || *at == '\t') && c == ' ') {
        at++;
    }
    for (; at < line->end; at++) {
        quoted = quoted != (*at == '"');
        if (!quoted && *at == c) {
            return true;
        }
    }
    return false;
}

/* A line of values has the separator and little else; a line of names may have anything. */
static char find_separator(const kin_text_line *line, kin_format format)
{
    const char *candidates = format == KIN_FORMAT_TSV ? "\t " : "\t;, ";
    for (const char *c = candidates; *c != '\0'; c++) {
        if (has_separator(line, *c)) {
            return *c;
        }
    }
    return format == KIN_FORMAT_TSV ? '\t' : ',';
}

/* ---- Header --------------------------------------------------------------------------------- */

/* What the fields of a line are. */
typedef struct field_kinds {
    int64_t fields;
    int64_t numbers;
    int64_t missing;
    int64_t odd; /* begin like a number and are none */
    int64_t names;
    bool counts; /* numbers are 0, 1, 2 ... or the numbers of their columns, in plain digits */
} field_kinds;

static bool begins_like_a_number(kin_text_field field)
{
    const char *at = field.at;
    while (at < field.end && (*at == '+' || *at == '-' || *at == '.')) {
        at++;
    }
    return at < field.end && *at >= '0' && *at <= '9';
}

/* Whether the field is this number, in digits and nothing else. */
static bool is_count(kin_text_field field, int64_t number)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    return field.end - field.at == length && memcmp(field.at, digits, (size_t)length) == 0;
}

static void add_field(field_kinds *kinds, kin_text_field field, int64_t col)
{
    double value = 0.0;
    if (kin_text_is_missing(field)) {
        kinds->missing++;
        kinds->counts = kinds->counts && kinds->fields == 0; /* pandas' index has no name */
    } else if (kin_number_parse(field.at, field.end, &value)) {
        kinds->counts = kinds->counts && (is_count(field, kinds->numbers) || is_count(field, col));
        kinds->numbers++;
    } else if (begins_like_a_number(field)) {
        kinds->odd++;
    } else {
        kinds->names++;
    }
    kinds->fields++;
}

/* Of the fields that are taken, columns NULL: of all. Others may be anything. */
static field_kinds judge_line(const kin_text *text, const kin_text_line *line, const char *columns)
{
    field_kinds kinds = {.counts = true};
    int64_t col = 0;
    for (const char *at = line->at; at != NULL; col++) {
        const kin_text_field field = kin_text_next_field(&at, line->end, text->separator);
        if (columns == NULL || kin_text_mentions(columns, col, field)) {
            add_field(&kinds, field, col);
        }
    }
    return kinds;
}

static kith_status fail_ambiguous(const kin_text *text, const kin_text_line *line, const char *why)
{
    return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                       "line %" PRId64
                       " may name the columns or be a row, %s (say --header yes or --header no)",
                       line->number, why);
}

/* Where it is known how many rows there are to be: whether all lines from this one on are one more,
 * or as many. */
static bool told_by_rows(const kin_text *text, const kin_text_line *line, bool *header)
{
    kin_text_line next = *line;
    const char *at = line->end;
    int64_t lines = 1;
    if (text->params->rows == 0) {
        return false;
    }
    while (kin_text_next_line(&at, text->end, &next)) {
        lines++;
    }
    *header = lines == text->params->rows + 1;
    return *header || lines == text->params->rows;
}

static kith_status judge_header(const kin_text *text, const kin_text_line *line, bool alone,
                                bool *header)
{
    *header = text->params->header == KITH_HEADER_YES;
    if (text->params->header != KITH_HEADER_AUTO) {
        return KITH_OK;
    }
    field_kinds kinds = judge_line(text, line, text->params->columns);
    if (kinds.fields == 0) { /* a name that is none */
        kinds = judge_line(text, line, NULL);
    }
    const bool mixed = kinds.names > 0 && kinds.numbers + kinds.odd > 0;
    const bool counts =
        kinds.names == 0 && kinds.odd == 0 && kinds.numbers > 0 && kinds.counts && !alone;
    if ((mixed || counts) && told_by_rows(text, line, header)) {
        return KITH_OK;
    }
    if (mixed) {
        return fail_ambiguous(text, line, "it has numbers and words");
    }
    if (counts) {
        return fail_ambiguous(text, line, "its numbers count 0, 1, 2 ... as column names do");
    }
    *header = kinds.names > 0;
    return KITH_OK;
}

/* ---- Both ----------------------------------------------------------------------------------- */

static int64_t count_fields(const kin_text *text, const kin_text_line *line)
{
    int64_t count = 0;
    for (const char *at = line->at; at != NULL; count++) {
        (void)kin_text_next_field(&at, line->end, text->separator);
    }
    return count;
}

/* Names that are not one for each column, and an index that came along without a name. */
static kith_status check_names(const kin_text *text)
{
    if (text->header.at == NULL || text->params->columns != NULL) {
        return KITH_OK;
    }
    const int64_t names = count_fields(text, &text->header);
    if (names != text->file_cols) {
        return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                           "line %" PRId64 " names %" PRId64 " columns, row 0 has %" PRId64
                           " values (give a name for each, or say --columns by number)",
                           text->header.number, names, text->file_cols);
    }
    const char *at = text->header.at;
    const kin_text_field first = kin_text_next_field(&at, text->header.end, text->separator);
    const size_t bytes = (size_t)(first.end - first.at);
    const bool is_unnamed =
        bytes == 0 || (bytes == sizeof unnamed - 1 && memcmp(first.at, unnamed, bytes) == 0);
    if (is_unnamed && text->file_cols > 1) {
        return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                           "column 0 has no name and looks like an index (--columns 1- leaves it "
                           "out, --columns 0- takes it as a coordinate)");
    }
    return KITH_OK;
}

/* The first line that is no comment; of those above it none is a row. */
static bool find_first(const char **at, const char *end, kin_text_line *line)
{
    while (kin_text_next_line(at, end, line)) {
        if (*line->at != '#') {
            return true;
        }
    }
    return false;
}

static kith_status fail_empty(const kin_text *text)
{
    return kin_fail_at(text->ctx, KITH_E_FORMAT, kin_at_file(text->path),
                       "holds no row of numbers (at least 1 is needed)");
}

kith_status kin_text_begin(kin_text *text, const kin_input *input, kin_format format)
{
    const char *at = (const char *)input->data;
    text->end = at + input->bytes;
    if (input->bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        at += 3;
    }
    kin_text_line first = {.number = 0};
    if (!find_first(&at, text->end, &first)) {
        return fail_empty(text);
    }
    kin_text_line second = first;
    const bool alone = !kin_text_next_line(&at, text->end, &second);
    bool header = false;
    text->separator = text->params->delimiter != 0
                          ? (char)text->params->delimiter
                          : find_separator(alone ? &first : &second, format);
    KIN_TRY(judge_header(text, &first, alone, &header));
    if (header && alone) {
        return fail_empty(text);
    }
    text->values = header ? second : first;
    if (header) {
        text->header = first;
    }
    text->file_cols = count_fields(text, &text->values);
    text->cols = text->file_cols;
    KIN_TRY(check_names(text));
    return text->params->columns != NULL ? kin_text_choose(text) : KITH_OK;
}
