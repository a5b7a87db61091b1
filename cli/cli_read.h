/* SPDX-License-Identifier: Apache-2.0
 * What the value of an option means. */
#ifndef CLI_READ_H
#define CLI_READ_H

#include "cli_args.h"

#include <stddef.h>

typedef enum cli_kind {
    CLI_KIND_FLAG = 0, /* there is no value */
    CLI_KIND_COUNT,    /* int64_t from least to most */
    CLI_KIND_COUNT32,  /* the same in an int32_t */
    CLI_KIND_SEED,     /* any uint64_t */
    CLI_KIND_NUMBER,   /* a finite double */
    CLI_KIND_SHARE,    /* a double above 0, at most 1 */
    CLI_KIND_BYTES,    /* 512M */
    CLI_KIND_PATH,
    CLI_KIND_NAME, /* one of names, whose number is from least to most, in an int */
    CLI_KIND_OTHER /* by read */
} cli_kind;

typedef bool cli_reader(const char *text, cli_args *args, cli_error *error);

/* How the word behind an option is read. */
typedef struct cli_value {
    cli_kind kind;
    size_t field;     /* of cli_args */
    const char *what; /* it is, for people: "number of rows" */
    int64_t least;
    int64_t most;
    const char *(*names)(int);
    cli_reader *read;
} cli_value;

/* From the word to its field; false with error->text set. */
bool cli_read_value(const cli_value *value, const char *text, cli_args *args, cli_error *error);

/* Sets error->text; false, for a caller to return. */
bool cli_refuse(cli_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- What no kind says ---------------------------------------------------------------------- */

bool cli_read_k(const char *text, cli_args *args, cli_error *error);
bool cli_read_metric(const char *text, cli_args *args, cli_error *error);
bool cli_read_group(const char *text, cli_args *args, cli_error *error);
bool cli_read_format(const char *text, cli_args *args, cli_error *error);
bool cli_read_sample(const char *text, cli_args *args, cli_error *error);
bool cli_read_recall(const char *text, cli_args *args, cli_error *error);
bool cli_read_updates(const char *text, cli_args *args, cli_error *error);
bool cli_read_parts(const char *text, cli_args *args, cli_error *error);
bool cli_read_delimiter(const char *text, cli_args *args, cli_error *error);
bool cli_read_columns(const char *text, cli_args *args, cli_error *error);
bool cli_read_device(const char *text, cli_args *args, cli_error *error);

#endif
