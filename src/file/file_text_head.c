/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and fields of a text, and what the first lines say of the rest: which separator it has,
 * whether the first one names the columns, which columns are taken.
 *
 * A line names columns if no field of it looks like a number. One that has numbers and other words
 * may be names (id,0,1,2) or a row with a word in it: that is asked for. So is a first line that is
 * 0,1,2 ... as far as it goes, which is what pandas writes above columns without names. All others
 * are rows.
 */
#include "file/file_reader.h"

#include "base/base_mem.h"
#include "base/base_size.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

static const char unnamed[] = "Unnamed: 0"; /* pandas' name for the index of a file that it wrote */

/* ---- Lines and fields ------------------------------------------------------------------------ */

bool kin_text_next_line(const char **at, const char *end, kin_text_line *line)
{
    while (*at < end) {
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        line->at = *at;
        line->end = stop != NULL ? stop : end;
        *at = stop != NULL ? stop + 1 : end;
        line->number += 1;
        while (line->end > line->at && (line->end[-1] == '\r' || line->end[-1] == ' ')) {
            line->end--;
        }
        if (line->end > line->at) {
            return true;
        }
    }
    return false;
}

static bool separates(char c, char separator)
{
    return c == separator || (separator == ' ' && c == '\t');
}

static const char *skip_blanks(const char *at, const char *end, char separator)
{
    while (at < end && (*at == ' ' || (separator == ' ' && *at == '\t'))) {
        at++;
    }
    return at;
}

kin_text_field kin_text_next_field(const char **at, const char *end, char separator)
{
    kin_text_field field = {skip_blanks(*at, end, separator), end};
    const char *stop = field.at;
    if (stop < end && *stop == '"') {
        const char *quote = memchr(stop + 1, '"', (size_t)(end - stop - 1));
        stop = quote != NULL ? quote : stop;
    }
    while (stop < end && !separates(*stop, separator)) {
        stop++;
    }
    const char *next = stop < end ? stop + 1 : NULL;
    if (separator == ' ' && next != NULL) {
        next = skip_blanks(next, end, separator);
        next = next < end ? next : NULL;
    }
    *at = next;
    field.end = stop;
    while (field.end > field.at && field.end[-1] == ' ') {
        field.end--;
    }
    if (field.end - field.at >= 2 && *field.at == '"' && field.end[-1] == '"') {
        field.at++;
        field.end--;
    }
    return field;
}

bool kin_text_is_missing(kin_text_field field)
{
    static const char *const words[] = {"NA",  "N/A",  "#N/A", "<NA>", "null",
                                        "nil", "None", "?",    "-",    "."};
    const size_t bytes = (size_t)(field.end - field.at);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (bytes == strlen(words[i]) && strncasecmp(field.at, words[i], bytes) == 0) {
            return true;
        }
    }
    return bytes == 0;
}

/* ---- Separator ------------------------------------------------------------------------------- */

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

/* ---- Columns: "1,4-6,9-,NAME" ---------------------------------------------------------------- */

/* One entry: columns first .. last, or a name where first is negative. last: INT64_MAX for all. */
typedef struct column_entry {
    const char *at;
    size_t bytes;
    int64_t first;
    int64_t last;
} column_entry;

static bool take_number(const char **at, const char *end, int64_t *number)
{
    const char *start = *at;
    uint64_t value = 0;
    while (*at < end && **at >= '0' && **at <= '9') {
        value = kin_size_add(kin_size_mul(value, 10), (uint64_t)(**at - '0'));
        *at += 1;
    }
    *number = value < INT64_MAX ? (int64_t)value : INT64_MAX - 1;
    return *at != start;
}

/* The entry that begins at *columns, which moves behind it; false at the end. */
static bool next_entry(const char **columns, column_entry *entry)
{
    if (**columns == '\0') {
        return false;
    }
    const size_t bytes = strcspn(*columns, ",");
    *entry = (column_entry){.at = *columns, .bytes = bytes, .first = -1, .last = -1};
    const char *end = *columns + bytes;
    const char *at = *columns;
    int64_t first = 0;
    *columns = end + (*end == ',');
    if (!take_number(&at, end, &first)) {
        return true;
    }
    int64_t last = first;
    if (at < end && *at == '-') {
        at++;
        if (!take_number(&at, end, &last)) {
            last = INT64_MAX;
        }
    }
    if (at == end) {
        entry->first = first;
        entry->last = last;
    }
    return true;
}

static bool is_named(const column_entry *entry, kin_text_field field)
{
    return entry->first < 0 && (size_t)(field.end - field.at) == entry->bytes &&
           memcmp(field.at, entry->at, entry->bytes) == 0;
}

/* Whether the columns mention this field of the first line. */
static bool mentions(const char *columns, int64_t col, kin_text_field field)
{
    column_entry entry;
    while (next_entry(&columns, &entry)) {
        if ((col >= entry.first && col <= entry.last) || is_named(&entry, field)) {
            return true;
        }
    }
    return false;
}

/* A name as the number of its column; KITH_E_FORMAT where the header has it not. */
static kith_status find_name(const kin_text *text, column_entry *entry)
{
    const char *at = text->header.at;
    for (int64_t col = 0; at != NULL && entry->first < 0; col++) {
        if (is_named(entry, kin_text_next_field(&at, text->header.end, text->separator))) {
            entry->first = col;
            entry->last = col;
            return KITH_OK;
        }
    }
    return kin_fail_at(text->source->ctx, KITH_E_FORMAT, kin_at_file(text->source->path),
                       "%s '%.*s' (%s)",
                       text->header.at != NULL ? "its header names no column"
                                               : "has no header that would name the column",
                       (int)(entry->bytes < 64 ? entry->bytes : 64), entry->at,
                       text->header.at != NULL ? "columns are given by number, too, from 0"
                                               : "say --header yes if it has, or give its number");
}

static kith_status take_entry(kin_text *text, column_entry *entry)
{
    if (entry->first < 0) {
        KIN_TRY(find_name(text, entry));
    }
    const int64_t last = entry->last == INT64_MAX ? text->file_cols - 1 : entry->last;
    KIN_DAMAGED_IF(entry->first >= text->file_cols || last >= text->file_cols ||
                       last < entry->first,
                   text->source->ctx, text->source->path,
                   "has %" PRId64 " columns, --columns asks for '%.*s' (they count from 0)",
                   text->file_cols, (int)(entry->bytes < 64 ? entry->bytes : 64), entry->at);
    for (int64_t col = entry->first; col <= last; col++) {
        KIN_DAMAGED_IF(text->places[col] >= 0, text->source->ctx, text->source->path,
                       "--columns has column %" PRId64 " twice (leave one out)", col);
        text->places[col] = text->cols++;
    }
    return KITH_OK;
}

/* When header and fields are known. */
static kith_status choose_columns(kin_text *text)
{
    const char *columns = text->source->params->columns;
    column_entry entry;
    KIN_TRY(kin_alloc(text->source->ctx, &text->places, (uint64_t)text->file_cols,
                      sizeof *text->places, "the columns of a text"));
    for (int64_t col = 0; col < text->file_cols; col++) {
        text->places[col] = -1;
    }
    text->cols = 0;
    while (next_entry(&columns, &entry)) {
        KIN_TRY(take_entry(text, &entry));
    }
    return KITH_OK;
}

/* ---- Header ---------------------------------------------------------------------------------- */

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
        if (columns == NULL || mentions(columns, col, field)) {
            add_field(&kinds, field, col);
        }
    }
    return kinds;
}

static kith_status fail_ambiguous(const kin_text *text, const kin_text_line *line, const char *why)
{
    return kin_fail_at(text->source->ctx, KITH_E_FORMAT, kin_at_file(text->source->path),
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
    if (text->source->params->rows == 0) {
        return false;
    }
    while (kin_text_next_line(&at, text->end, &next)) {
        lines++;
    }
    *header = lines == text->source->params->rows + 1;
    return *header || lines == text->source->params->rows;
}

static kith_status judge_header(const kin_text *text, const kin_text_line *line, bool alone,
                                bool *header)
{
    *header = text->source->params->header == KITH_HEADER_YES;
    if (text->source->params->header != KITH_HEADER_AUTO) {
        return KITH_OK;
    }
    field_kinds kinds = judge_line(text, line, text->source->params->columns);
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

/* ---- Both ------------------------------------------------------------------------------------ */

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
    if (text->header.at == NULL || text->source->params->columns != NULL) {
        return KITH_OK;
    }
    const int64_t names = count_fields(text, &text->header);
    KIN_DAMAGED_IF(names != text->file_cols, text->source->ctx, text->source->path,
                   "line %" PRId64 " names %" PRId64 " columns, row 0 has %" PRId64
                   " values (give a name for each, or say --columns by number)",
                   text->header.number, names, text->file_cols);
    const char *at = text->header.at;
    const kin_text_field first = kin_text_next_field(&at, text->header.end, text->separator);
    const size_t bytes = (size_t)(first.end - first.at);
    const bool is_unnamed =
        bytes == 0 || (bytes == sizeof unnamed - 1 && memcmp(first.at, unnamed, bytes) == 0);
    KIN_DAMAGED_IF(is_unnamed && text->file_cols > 1, text->source->ctx, text->source->path,
                   "column 0 has no name and looks like an index (--columns 1- leaves it out, "
                   "--columns 0- takes it as a coordinate)");
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
    return kin_fail_at(text->source->ctx, KITH_E_FORMAT, kin_at_file(text->source->path),
                       "holds no row of numbers (at least 1 is needed)");
}

kith_status kin_text_begin(kin_text *text)
{
    const kin_input *input = text->source->input;
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
    text->separator = text->source->params->delimiter != 0
                          ? (char)text->source->params->delimiter
                          : find_separator(alone ? &first : &second, text->source->format);
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
    return text->source->params->columns != NULL ? choose_columns(text) : KITH_OK;
}
