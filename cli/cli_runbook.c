/* SPDX-License-Identifier: Apache-2.0
 *
 * Two small strict readers. JSON lines: an object a line, {"operation": "insert", "start": 0,
 * "end": 1000}. YAML: what big-ann-benchmarks writes, and nothing else of it:
 *
 *     NAME:
 *       max_pts: 10000
 *       1:
 *         operation: insert
 *         start: 0
 *         end: 10000
 *       2:
 *         operation: search
 *       gt_url: none
 *
 * What is not understood is an error that names its line. */
#include "cli_runbook.h"

#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BYTES = 32 };
static const int64_t MOST_NUMBER = (int64_t)1 << 53;

typedef struct reader {
    cli_runbook *book;
    const char *dataset; /* that is chosen; NULL: the only one */
    int64_t line;
    int64_t bytes;     /* of the file */
    int64_t room;      /* for steps */
    bool within;       /* of YAML: the lines are of this dataset */
    bool found;        /* it was there */
    int64_t number;    /* of the step at work; 0: none */
    int64_t indent[2]; /* of a dataset's keys, and of a step's; 0: not known yet */
} reader;

static int fail(const reader *r, const char *what)
{
    return cli_fail(r->book->path, "line %" PRId64 " %s", r->line, what);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Room for step `number`; those that were not there are none. */
static int reach(reader *r, int64_t number)
{
    cli_runbook *book = r->book;
    if (number > r->room) {
        const int64_t room = 2 * number + 64;
        cli_step_of *steps = NULL;
        CLI_KEEP(steps, room, book->path, "no memory for %" PRId64 " steps (free some memory)",
                 room);
        for (int64_t i = 0; i < r->room; i++) {
            steps[i] = book->steps[i];
        }
        book->steps = steps;
        r->room = room;
    }
    book->count = number > book->count ? number : book->count;
    return CLI_DONE;
}

static bool parse_number(const char *text, int64_t *value)
{
    *value = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text >= '0' && *text <= '9' && *value < MOST_NUMBER; text++) {
        *value = 10 * *value + (*text - '0');
    }
    return *text == '\0';
}

static int set_operation(reader *r, cli_step_of *step, const char *word)
{
    static const char *const words[] = {"", "insert", "delete", "search"};
    for (int i = CLI_STEP_INSERT; i <= CLI_STEP_SEARCH; i++) {
        if (strcmp(word, words[i]) == 0) {
            step->operation = (cli_operation)i;
            return CLI_DONE;
        }
    }
    return cli_fail(r->book->path,
                    "line %" PRId64 " has the operation '%.20s' (there are insert, delete, search)",
                    r->line, cli_message_safe(word));
}

/* A key of a step; start and end are kept with 1 added, so that 0 is what was not given. */
static int set(reader *r, cli_step_of *step, const char *key, const char *value)
{
    int64_t number = 0;
    const bool start = strcmp(key, "start") == 0;
    if (strcmp(key, "operation") == 0) {
        return step->operation == CLI_STEP_NONE
                   ? set_operation(r, step, value)
                   : fail(r, "is a second operation of its step (leave one out)");
    }
    if (!start && strcmp(key, "end") != 0) {
        return cli_fail(r->book->path,
                        "line %" PRId64 " has the key '%.20s' (a step has operation, start, end)",
                        r->line, cli_message_safe(key));
    }
    if (!parse_number(value, &number)) {
        return fail(r, "has no whole number where a row is told (give one from 0)");
    }
    int64_t *field = start ? &step->start : &step->end;
    if (*field != 0) {
        return fail(r, "is a second start or end of its step (leave one out)");
    }
    *field = number + 1;
    return CLI_DONE;
}

/* All steps, once the file was read. */
static int finish(reader *r)
{
    cli_runbook *book = r->book;
    for (int64_t i = 0; i < book->count; i++) {
        cli_step_of *step = &book->steps[i];
        const bool search = step->operation == CLI_STEP_SEARCH;
        r->line = step->line;
        CLI_FAIL_IF(step->line == 0, book->path,
                    "has no step %" PRId64 ", though later ones (they count from 1)", i + 1);
        if (step->operation == CLI_STEP_NONE) {
            return fail(r, "begins a step without an operation (give insert, delete or search)");
        }
        if (search != (step->start == 0) || search != (step->end == 0)) {
            return fail(r, search ? "begins a search with rows (leave start and end out)"
                                  : "begins a step that lacks start or end (give both)");
        }
        if (!search && step->start >= step->end) {
            return fail(r, "begins a step of no rows (start must be below end)");
        }
        step->start -= !search;
        step->end -= !search;
        book->searches += search;
    }
    CLI_FAIL_IF(book->searches == 0, book->path, "has no search (there is nothing to find)");
    return CLI_DONE;
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

/* A pair of a text in quotes, and another one or a bare word, without escapes. */
static bool take_pair(const char **at, char key[WORD_BYTES], char value[WORD_BYTES])
{
    int name = 0;
    int rest = 0;
    (void)sscanf(*at, " \"%31[^\"\\]\" : %n", key, &name);
    if (name == 0) {
        return false;
    }
    (void)sscanf(*at + name, (*at)[name] == '"' ? "\"%31[^\"\\]\" %n" : "%31[^,} \t\r] %n", value,
                 &rest);
    *at += name + rest;
    return rest > 0;
}

static int read_json_line(reader *r, char *line)
{
    static const char broken[] =
        "is no step (write {\"operation\": \"insert\", \"start\": 0, \"end\": 9})";
    cli_step_of step = {.line = r->line};
    char key[WORD_BYTES];
    char value[WORD_BYTES];
    const char *begin = line + strspn(line, " \t\r");
    const char *at = begin;
    if (*at == '\0') {
        return CLI_DONE;
    }
    for (char before = '{'; *at == before; before = ',') {
        at += 1;
        if (!take_pair(&at, key, value)) {
            return fail(r, broken);
        }
        CLI_TRY(set(r, &step, key, value));
    }
    if (at == begin || *at != '}' || at[1 + strspn(at + 1, " \t\r")] != '\0') {
        return fail(r, broken);
    }
    CLI_TRY(reach(r, r->book->count + 1));
    r->book->steps[r->book->count - 1] = step;
    return CLI_DONE;
}

/* ---- YAML ------------------------------------------------------------------------------------ */

/* Cuts comments, blanks at the end and quotes off; value: what stands behind the colon. */
static bool cut(char *line, char **key, char **value)
{
    char *comment = line[0] == '#' ? line : strstr(line, " #");
    if (comment != NULL) {
        *comment = '\0';
    }
    size_t end = strlen(line);
    while (end > 0 && strchr(" \t\r", line[end - 1]) != NULL) {
        line[--end] = '\0';
    }
    *key = line + strspn(line, " ");
    *value = line + end;
    if (end == 0) {
        return true;
    }
    char *colon = strstr(*key, ": ");
    colon = colon == NULL && line[end - 1] == ':' ? &line[end - 1] : colon;
    if (colon == NULL) {
        return false;
    }
    *colon = '\0';
    if (colon < line + end - 1) {
        *value = colon + 2 + strspn(colon + 2, " ");
    }
    const size_t length = strlen(*value);
    if (length >= 2 && ((*value)[0] == '\'' || (*value)[0] == '"') &&
        (*value)[length - 1] == (*value)[0]) {
        (*value)[length - 1] = '\0';
        *value += 1;
    }
    return (*key)[0] != '\0';
}

static int begin_dataset(reader *r, const char *key, const char *value)
{
    if (*value != '\0') {
        return fail(r, "has a value where a dataset begins (give NAME: alone)");
    }
    r->within = r->dataset == NULL || strcmp(key, r->dataset) == 0;
    CLI_FAIL_IF(r->within && r->found, r->book->path,
                r->dataset != NULL
                    ? "line %" PRId64 " begins a second dataset of this name (leave one out)"
                    : "line %" PRId64 " begins a second dataset (say which: FILE:NAME)",
                r->line);
    r->found |= r->within;
    r->number = 0;
    r->indent[0] = 0;
    r->indent[1] = 0;
    return CLI_DONE;
}

/* A step's beginning, or what else is told of a dataset. */
static int begin_step(reader *r, const char *key, const char *value)
{
    int64_t number = 0;
    r->number = 0;
    if (*value == '\0' && parse_number(key, &number)) {
        if (number < 1 || number > r->bytes) { /* each step before it takes some */
            return fail(r, "has a number that no step has (they count from 1)");
        }
        CLI_TRY(reach(r, number));
        if (r->book->steps[number - 1].line != 0) {
            return fail(r, "begins a step that was there before (leave one out)");
        }
        r->book->steps[number - 1].line = r->line;
        r->number = number;
        return CLI_DONE;
    }
    return strcmp(key, "max_pts") == 0 || strcmp(key, "gt_url") == 0
               ? CLI_DONE
               : fail(r, "is none of a step's number, max_pts, gt_url (leave it out)");
}

static int read_yaml_line(reader *r, char *line)
{
    char *key = NULL;
    char *value = NULL;
    if (!cut(line, &key, &value)) {
        return fail(r, "is not 'key: value' (of YAML there is what big-ann-benchmarks writes)");
    }
    const int64_t indent = key - line;
    if (*key == '\0' && *value == '\0') {
        return CLI_DONE;
    }
    if (*key == '\t') {
        return fail(r, "is indented by a tab (YAML has blanks)");
    }
    if (indent == 0) {
        return begin_dataset(r, key, value);
    }
    if (!r->within) {
        return r->found || r->dataset != NULL ? CLI_DONE
                                              : fail(r, "stands in no dataset (begin with NAME:)");
    }
    r->indent[0] = r->indent[0] == 0 ? indent : r->indent[0];
    if (indent == r->indent[0]) {
        return begin_step(r, key, value);
    }
    r->indent[1] = r->number != 0 && r->indent[1] == 0 ? indent : r->indent[1];
    if (r->number == 0 || indent != r->indent[1] || indent < r->indent[0]) {
        return fail(r, "is indented as nothing before it (see docs/truth.md)");
    }
    return set(r, &r->book->steps[r->number - 1], key, value);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* FILE, or FILE:NAME where there is no such file. */
static int take_name(const char *path, reader *r)
{
    cli_runbook *book = r->book;
    CLI_KEEP(book->path, strlen(path) + 1, path, "no memory for its name (free some memory)");
    memcpy(book->path, path, strlen(path));
    char *colon = access(path, F_OK) == 0 ? NULL : strchr(book->path, ':');
    if (colon != NULL) {
        *colon = '\0';
        r->dataset = colon + 1;
    }
    return CLI_DONE;
}

/* All of the file, to be freed. */
static int load(reader *r, char **text)
{
    size_t room = 0;
    FILE *file = fopen(r->book->path, "rb");
    CLI_FAIL_IF(file == NULL, r->book->path, "cannot be read: %s (check the file)",
                strerror(errno));
    const ssize_t bytes = getdelim(text, &room, '\0', file);
    const bool whole = ferror(file) == 0 && (bytes >= 0 || feof(file) != 0);
    (void)fclose(file);
    CLI_FAIL_IF(!whole, r->book->path, "cannot be read (check the file)");
    r->bytes = bytes > 0 ? bytes : 0;
    CLI_PASS_IF(bytes <= 0 || (*text)[bytes - 1] != '\0', r->book->path,
                "has a byte of 0 (it is no text)");
}

static int read_lines(reader *r, char *rest)
{
    const char *path = r->book->path;
    const bool json = rest[strspn(rest, " \t\r\n")] == '{';
    CLI_FAIL_IF(json && r->dataset != NULL, path,
                "is JSON lines, which have no datasets (leave :%s out)", r->dataset);
    while (rest != NULL && *rest != '\0') {
        char *line = rest;
        rest = strchr(line, '\n');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        r->line += 1;
        CLI_TRY(json ? read_json_line(r, line) : read_yaml_line(r, line));
    }
    CLI_FAIL_IF(!json && !r->found && r->dataset != NULL, path,
                "has no dataset %s (give one that is there)", r->dataset);
    return finish(r);
}

int cli_runbook_read(const char *path, cli_runbook *book)
{
    reader r = {.book = book};
    char nothing[] = "";
    char *text = NULL;
    CLI_TRY(take_name(path, &r));
    int code = load(&r, &text);
    CLI_THEN(code, read_lines(&r, r.bytes > 0 ? text : nothing));
    free(text);
    return code;
}

int cli_runbook_check(const cli_runbook *book, int64_t rows)
{
    uint8_t *bits = NULL;
    CLI_KEEP(bits, rows / 8 + 1, book->path, "no memory for a bitmap (free some memory)");
    for (int64_t i = 0; i < book->count; i++) {
        const cli_step_of *step = &book->steps[i];
        CLI_FAIL_IF(step->end > rows, book->path,
                    "line %" PRId64 ": step %" PRId64 " ends at row %" PRId64
                    ", the corpus has %" PRId64 " (give its own corpus)",
                    step->line, i + 1, step->end, rows);
        for (int64_t row = step->start; step->operation == CLI_STEP_DELETE && row < step->end;
             row++) {
            CLI_FAIL_IF((bits[row / 8] >> row % 8 & 1) == 0, book->path,
                        "line %" PRId64 ": step %" PRId64 " deletes row %" PRId64
                        ", which is not there (insert it before)",
                        step->line, i + 1, row);
        }
        cli_runbook_apply(step, bits);
    }
    return CLI_DONE;
}

void cli_runbook_apply(const cli_step_of *step, uint8_t *bits)
{
    const bool there = step->operation == CLI_STEP_INSERT;
    for (int64_t row = step->start; row < step->end; row++) {
        const uint8_t bit = (uint8_t)(1u << row % 8);
        bits[row / 8] = (uint8_t)(there ? bits[row / 8] | bit : bits[row / 8] & ~bit);
    }
}
