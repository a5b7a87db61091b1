/* SPDX-License-Identifier: Apache-2.0
 * How a format is read: what its header says of a table of numbers, held against the bytes that are
 * there. A layout has one kin_reader, kin_reader_LAYOUT; KITH_FILE_MAP says which formats are of
 * it, and file_open.c calls them. */
#ifndef KIN_FILE_READER_H
#define KIN_FILE_READER_H

#include "host/host_file.h"

#include <stddef.h>

/* ---- Numbers (file_reader.c) ----------------------------------------------------------------- */

/* The number types that files hold, more than the six that kith computes with, and their exact
 * conversion. */

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kith's files are little-endian and are mapped as they are"
#endif

/* kind: 'f' float, 'i' signed, 'u' unsigned integer, 'h' bfloat16. A bytes of 0 is no type. */
typedef struct kin_item {
    char kind;
    int32_t bytes;
} kin_item;

static inline kin_item kin_item_make(char kind, int32_t bytes)
{
    const kin_item item = {kind, bytes};
    return item;
}

/* The type that kith computes with, or KITH_DTYPE_NONE for one that is converted to float64. */
kith_dtype kin_item_dtype(kin_item item);
kin_item kin_item_of(kith_dtype dtype);
/* "float32", "int64" ... */
const char *kin_item_name(kin_item item);

/* One value as double. False where a 64-bit integer is none. */
bool kin_item_load(kin_item item, const void *at, double *value);
/* Stores value as the type; false (and nothing stored) where it is not exactly of that type. NaN is
 * a float of every size. */
bool kin_item_store(kin_item item, double value, void *at);

/* ---- As text --------------------------------------------------------------------------------- */

/* Decimal numbers, correctly rounded, whatever the locale of the process is. */

/* Numbers are read and written in scopes with KIN_C_NUMBERS, which puts this thread under the C
 * locale, and back at the scope's end. */
typedef struct kin_number_locale {
    void *own;
    void *before;
} kin_number_locale;
kin_number_locale kin_number_enter(void);
void kin_number_leave(const kin_number_locale *locale);
#define KIN_C_NUMBERS()                                                                  \
    __attribute__((cleanup(kin_number_leave), unused)) const kin_number_locale locale_ = \
        kin_number_enter()

/* The whole of [text, end) as double: sign, digits with a point, exponent; nan, inf, infinity. */
bool kin_number_parse(const char *text, const char *end, double *value);
/* The shortest of 6 to 9 significant digits that bring a float32 back (single), else of 15 to 17
 * that bring the double back. Returns the length. */
int kin_number_print(char *text, size_t room, double value, bool single);

/* ---- Formats ----------------------------------------------------------------- */

/* Which format a path means, by its extension alone: the rows of KITH_FILE_MAP. */

typedef enum kin_format {
    KIN_FORMAT_NONE = 0,
#define KIN_FORMAT_NUMBER(NAME, name, endings, holds, kind, bytes, layout) KIN_FORMAT_##NAME,
    KITH_FILE_MAP(KIN_FORMAT_NUMBER)
#undef KIN_FORMAT_NUMBER
        KIN_FORMAT_COUNT
} kin_format;

typedef struct kin_format_traits {
    const char *name;    /* also the ending that is written */
    const char *endings; /* others that are read, with blanks between */
    unsigned holds;      /* KITH_FILE_... */
    kin_item item;       /* what the values are, where the format says so */
} kin_format_traits;

const kin_format_traits *kin_format_get_traits(kin_format format);
/* The format of a path that holds one of these, upper or lower case; FILE.hdf5:DATASET included. */
kin_format kin_format_of(const char *path, unsigned holds);
/* The same, with an error that lists what there is. */
kith_status kin_format_find(kith_ctx *ctx, const char *path, unsigned holds, kin_format *format);
/* KITH_FORMAT_AUTO for what is no name of a format of neighbours. */
kith_format kin_format_result(const char *name);
/* The ':' between file and dataset of an HDF5 path, or NULL. */
const char *kin_format_dataset(const char *path);

/* ---- Input (file_input.c) -------------------------------------------------------------------- */

/* The bytes of an input that is read from its first to its last: a file, mapped; what a .gz unpacks
 * to; what comes out of a pipe or standard input. */

typedef struct kin_input {
    const unsigned char *data;
    uint64_t bytes;
    uint64_t file_bytes; /* before they were unpacked */
    bool compressed;
    kin_map map;
    void *block; /* the bytes, where they are not mapped */
} kin_input;

/* "-", standard input or output. */
bool kin_input_is_standard(const char *path);
/* Whether path is that, a pipe or a socket: what can be read once, and not mapped. */
bool kin_input_is_pipe(const char *path);
/* A path that ends in .gz is unpacked, and a pipe whose first bytes are a .gz' is. Empty input is
 * an error. */
kith_status kin_input_open(kith_ctx *ctx, const char *path, kin_input *input);
/* A file, mapped as it is. The input is to be closed whatever comes of it. */
kith_status kin_input_map(kith_ctx *ctx, const char *path, kin_input *input);
kith_status kin_input_check_empty(kith_ctx *ctx, const char *path, uint64_t bytes);
/* Accepts one that is all zero, and leaves one. */
void kin_input_close(kith_ctx *ctx, kin_input *input);

/* ---- Readers --------------------------------------------------------------------------------- */

static const uint64_t KIN_COLS_MAX = 1u << 20;           /* of points */
static const uint64_t KIN_VALUES_COLS_MAX = 4294967294u; /* of what is selected from */
static const uint64_t KIN_ROWS_MAX = 4294967294u;        /* 2^32 - 2; k is below it */

/* A file that is being read. */
typedef struct kin_source {
    kith_ctx *ctx;
    const char *path;
    kin_format format;
    const kith_points_params *params; /* of points; NULL: neighbours are read */
    uint64_t cols_max;
    bool column;      /* one axis is a table of one column */
    kin_input *input; /* its bytes; none where the reader opens the file itself */
} kin_source;

/* Row i starts at data + i * stride. Its values stand side by side, or step bytes from each other
 * where step is not 0; swapped: their bytes stand the other way round. */
typedef struct kin_shape {
    const unsigned char *data;
    int64_t rows;
    int64_t cols;
    int64_t stride;
    int64_t step;
    kin_item item;
    bool swapped;
} kin_shape;

typedef struct kin_reader {
    /* Bytes that are one table, as they are: its shape is all there is to say. NULL: the others. */
    kith_status (*shape)(const kin_source *source, kin_shape *shape);
    /* What only the whole table shows; NULL: nothing. */
    kith_status (*check)(const kin_source *source, const kin_shape *shape);
    kith_status (*points)(const kin_source *source, kith_points *points);
    kith_status (*lists)(const kin_source *source, kith_result *result);
    kith_status (*inspect)(const kin_source *source, kith_file_info *info);
    bool opens; /* the file itself: its bytes are not brought */
} kin_reader;

/* 1 <= rows <= 2^32 - 2, 1 <= cols <= cols_max, else KITH_E_FORMAT. */
kith_status kin_shape_check(kith_ctx *ctx, const char *path, uint64_t rows, uint64_t cols,
                            uint64_t cols_max);
/* Rows that stand side by side at data, of a number that is checked. */
kith_status kin_shape_make(const kin_source *source, const void *data, uint64_t rows, uint64_t cols,
                           kin_item item, kin_shape *shape);

/* What kith_file_inspect says of a table. */
void kin_info_take_shape(kith_file_info *info, kith_kind kind, const kin_shape *shape);
/* What it says of neighbours: metric, exactness, which points, recall. */
void kin_info_take_meta(kith_file_info *info, const kith_result_meta *meta);

/* ---- Text ------------------------------------------------------------------------------------ */

/* A text of numbers: lines, fields between separators, and what its first lines say of the rest. */

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
