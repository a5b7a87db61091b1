/* SPDX-License-Identifier: Apache-2.0
 * What a command says on stdout when it is done: lines for people, or one JSON object for programs.
 *
 * A report is described once, and the writer leaves out what is not for the reader it has: `say` is
 * for people, `put` for programs, `tell` for both. With --quiet people are told nothing. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli_options.h"

#include <stdio.h>

typedef struct cli_report {
    FILE *to; /* what people read; NULL: standard output, where JSON always goes */
    bool people;
    bool programs; /* --json */
    bool verbose;
    bool comma; /* the next member needs one before it */
} cli_report;

/* The outermost object begins with the command, and ends with how files were understood, version
 * and commit; people are told of the files first. */
cli_report cli_report_begin(const cli_args *args);
void cli_report_end(cli_report *r);
/* Lines for people in a file of the caller, of the files first. */
cli_report cli_report_lines(FILE *to);

/* ---- For people ----------------------------------------------------------------------------- */

/* Lines, or a part of one. */
void cli_say(const cli_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "corpus: FILE, 60000 x 784 float32"; path NULL: without the file */
void cli_say_matrix(const cli_report *r, const char *name, const char *path,
                    const kith_matrix *matrix);

/* ---- For programs --------------------------------------------------------------------------- */

/* JSON: keys in the order of the calls, one line, valid UTF-8 whatever the text was, the shortest
 * decimal that gives the same double. A NULL key stands in arrays. */
void cli_put_open(cli_report *r, const char *key, char bracket);
void cli_put_close(cli_report *r, char bracket);

typedef enum cli_put_kind {
    CLI_PUT_END = 0,
    CLI_PUT_TEXT, /* NULL is null */
    CLI_PUT_INT,
    CLI_PUT_UINT,
    CLI_PUT_NUMBER, /* infinity and NaN, which JSON does not have, are null */
    CLI_PUT_BOOL
} cli_put_kind;

/* A member of an object. */
typedef struct cli_field {
    const char *key;
    cli_put_kind kind;
    union {
        const char *text;
        int64_t integer;
        uint64_t natural;
        double number;
        bool truth;
    };
} cli_field;

#define CLI_FIELD(name, what, member, value)             \
    {                                                    \
        .key = (name), .kind = (what), .member = (value) \
    }
#define TEXT(name, value) CLI_FIELD(name, CLI_PUT_TEXT, text, value)
#define INT(name, value) CLI_FIELD(name, CLI_PUT_INT, integer, value)
#define UINT(name, value) CLI_FIELD(name, CLI_PUT_UINT, natural, value)
#define NUMBER(name, value) CLI_FIELD(name, CLI_PUT_NUMBER, number, value)
#define BOOL(name, value) CLI_FIELD(name, CLI_PUT_BOOL, truth, value)
#define CLI_FIELDS(...) ((const cli_field[]){__VA_ARGS__, {.kind = CLI_PUT_END}})

/* Fields as members; or as those of an object. */
#define cli_put(r, ...) cli_put_fields((r), CLI_FIELDS(__VA_ARGS__))
#define cli_put_object(r, key, ...) cli_tell_object((r), (key), "", __VA_ARGS__)
void cli_put_fields(cli_report *r, const cli_field *fields);

/* ---- For both ------------------------------------------------------------------------------- */

/* Lines for people, in which {key} stands for the value of a field, and the fields as members, or
 * as those of an object. {key,} is "60,000", {key~} of bytes "12.5 MiB", {key:.2f} and {key:.6g}
 * what printf makes of a number, {key:.2%} the same of a share. A field whose key begins with a
 * point is for people alone, one that no line names for programs. more: lines are for --verbose. */
#define cli_tell(r, lines, ...) cli_tell_fields((r), true, NULL, (lines), CLI_FIELDS(__VA_ARGS__))
#define cli_tell_more(r, lines, ...) \
    cli_tell_fields((r), (r)->verbose, NULL, (lines), CLI_FIELDS(__VA_ARGS__))
#define cli_tell_object(r, object, lines, ...) \
    cli_tell_fields((r), true, (object), (lines), CLI_FIELDS(__VA_ARGS__))
void cli_tell_fields(cli_report *r, bool told, const char *object, const char *lines,
                     const cli_field *fields);

/* "key: value", and the member. */
void cli_tell_text(cli_report *r, const char *key, const char *text);
void cli_tell_int(cli_report *r, const char *key, int64_t value);
/* Where an answer went; lost: what its format does not say, or "". Nothing for a NULL path, which
 * programs see as null. */
void cli_tell_output(cli_report *r, const char *path, const char *lost);

/* start: when the command began. "seconds: 0.120", or with steps, which are numbers, "seconds: read
 * 0.001, ..."; a step without a name was none. */
#define cli_tell_seconds(r, start, ...) cli_tell_steps((r), (start), CLI_FIELDS(__VA_ARGS__))
void cli_tell_steps(cli_report *r, double start, const cli_field *steps);
/* The most memory of the process by the kernel's own count, and of a GPU's; planned 0: nothing is
 * said of it here. */
void cli_tell_peak(cli_report *r, uint64_t gpu_bytes, uint64_t planned_bytes);
/* An estimate of recall from rows that are "points" or "queries". */
void cli_say_estimate(cli_report *r, const kith_recall *recall, const char *what);
void cli_put_estimate(cli_report *r, const kith_recall *recall);

/* "exact: certified (of 60,000 x 784 float32, 5f3a0c1d)", "approximate: of ...", "exact: unknown
 * (of ...)"; without the points where they are not known. */
void cli_tell_claim(cli_report *r, kith_exactness exact, const kith_fingerprint *points);
/* "60,000 x 784 float32, 5f3a0c1d": the first half of the checksum is enough for a person. */
enum { CLI_CLAIM_BYTES = 96 };
const char *cli_claim_name(const kith_fingerprint *points, char text[CLI_CLAIM_BYTES]);
bool cli_claim_equal(const kith_fingerprint *a, const kith_fingerprint *b);
/* " (this format does not say metric ...)", or "". */
const char *cli_claim_lost(const char *path, kith_format format);

/* What is told of a file of the kind tree: height, leaves, slack. */
void cli_tell_tree(cli_report *r, const kith_file_info *info);

/* ---- How files were understood -------------------------------------------------------------- */

/* Forgets what was kept before. */
void cli_source_reset(void);
/* Keeps what the library says of points that were opened from path, if it is worth saying: what is
 * a header, what stands between values, what was converted. */
void cli_source_keep(const char *path, const kith_points *points);

#endif
