/* SPDX-License-Identifier: Apache-2.0
 * A text of numbers: lines, fields between separators, and what its first lines say of the rest. */
#ifndef KIN_FILE_TEXT_H
#define KIN_FILE_TEXT_H

#include "file/file_reader.h"

typedef struct kin_text_field {
    const char *at;
    const char *end;
} kin_text_field;

/* A line without its end, and its number, from 1 as editors count. */
typedef struct kin_text_line {
    const char *at;
    const char *end;
    int64_t number;
} kin_text_line;

typedef struct kin_text {
    const kin_source *source;
    const char *end;
    kin_text_line header; /* at NULL: there is none */
    kin_text_line values; /* the first line of them */
    char separator;       /* ' ': any run of blanks and tabs */
    int64_t file_cols;    /* fields of that line */
    int64_t cols;         /* how many of them are taken */
    int64_t *places;      /* of each field: where it goes, -1: nowhere. NULL: all are taken */
} kin_text;

/* The next line that is not blank, from *at on; false at the end. */
bool kin_text_next_line(const char **at, const char *end, kin_text_line *line);
/* The field that begins at *at, without spaces and quotes around it; *at moves behind the
 * separator, or to NULL after the last. A separator within quotes is none. */
kin_text_field kin_text_next_field(const char **at, const char *end, char separator);
bool kin_text_is_missing(kin_text_field field); /* empty, NA, null ... */

/* Looks at the first lines of text->source: separator, header, columns. places is to be freed,
 * whatever comes of it. */
kith_status kin_text_begin(kin_text *text);

#endif
