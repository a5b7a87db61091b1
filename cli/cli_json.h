/* SPDX-License-Identifier: Apache-2.0
 * Writes JSON; reads none. Keys in the order of the calls, one line, valid UTF-8 whatever the text
 * was, the shortest decimal that gives the same double. A NULL key stands in arrays. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct cli_json {
    FILE *out;
    bool comma; /* the next member needs one before it */
} cli_json;

/* The outermost object, on stdout: it begins with the command, and ends with version, commit and
 * the line. */
void cli_json_begin(cli_json *json, const char *command);
void cli_json_end(cli_json *json);

void cli_json_open(cli_json *json, const char *key);
void cli_json_close(cli_json *json);
void cli_json_open_array(cli_json *json, const char *key);
void cli_json_close_array(cli_json *json);
/* A NULL text is null. */
void cli_json_text(cli_json *json, const char *key, const char *text);
void cli_json_int(cli_json *json, const char *key, int64_t value);
void cli_json_uint(cli_json *json, const char *key, uint64_t value);
/* Infinity and NaN, which JSON does not have, are null. */
void cli_json_number(cli_json *json, const char *key, double value);
void cli_json_bool(cli_json *json, const char *key, bool value);

#endif
