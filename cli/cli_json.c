/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_json.h"

#include "kith/kith.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Bytes of the UTF-8 sequence that starts here, 0 if none does (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF). */
static int sequence_length(const unsigned char *text)
{
    const unsigned char lead = text[0];
    if (lead < 0x80) {
        return 1;
    }
    const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    const bool overlong = (lead == 0xe0 && text[1] < 0xa0) || (lead == 0xf0 && text[1] < 0x90);
    const bool beyond = (lead == 0xed && text[1] >= 0xa0) || (lead == 0xf4 && text[1] >= 0x90);
    return overlong || beyond ? 0 : length;
}

static void put_string(FILE *out, const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    (void)fputc('"', out);
    while (*bytes != '\0') {
        const int length = sequence_length(bytes);
        if (length == 0) {
            (void)fputs("\\ufffd", out);
        } else if (*bytes == '"' || *bytes == '\\') {
            (void)fprintf(out, "\\%c", *bytes);
        } else if (*bytes < 0x20 || *bytes == 0x7f) {
            (void)fprintf(out, "\\u%04x", *bytes);
        } else if (*bytes == 0xc2 && bytes[1] < 0xa0) { /* controls, too */
            (void)fprintf(out, "\\u%04x", bytes[1]);
        } else {
            (void)fwrite(bytes, 1, (size_t)length, out);
        }
        bytes += length == 0 ? 1 : length;
    }
    (void)fputc('"', out);
}

static void put_key(cli_json *json, const char *key)
{
    if (json->comma) {
        (void)fputs(", ", json->out);
    }
    json->comma = true;
    if (key != NULL) {
        put_string(json->out, key);
        (void)fputs(": ", json->out);
    }
}

static void put_open(cli_json *json, const char *key, char bracket)
{
    put_key(json, key);
    (void)fputc(bracket, json->out);
    json->comma = false;
}

static void put_close(cli_json *json, char bracket)
{
    (void)fputc(bracket, json->out);
    json->comma = true;
}

void cli_json_open(cli_json *json, const char *key)
{
    put_open(json, key, '{');
}

void cli_json_close(cli_json *json)
{
    put_close(json, '}');
}

void cli_json_open_array(cli_json *json, const char *key)
{
    put_open(json, key, '[');
}

void cli_json_close_array(cli_json *json)
{
    put_close(json, ']');
}

void cli_json_text(cli_json *json, const char *key, const char *text)
{
    put_key(json, key);
    if (text != NULL) {
        put_string(json->out, text);
    } else {
        (void)fputs("null", json->out);
    }
}

void cli_json_int(cli_json *json, const char *key, int64_t value)
{
    put_key(json, key);
    (void)fprintf(json->out, "%" PRId64, value);
}

void cli_json_uint(cli_json *json, const char *key, uint64_t value)
{
    put_key(json, key);
    (void)fprintf(json->out, "%" PRIu64, value);
}

void cli_json_number(cli_json *json, const char *key, double value)
{
    put_key(json, key);
    if (!isfinite(value)) {
        (void)fputs("null", json->out);
        return;
    }
    char digits[32];
    for (int precision = 1; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) { /* 17 digits always do */
            break;
        }
    }
    (void)fputs(digits, json->out);
}

void cli_json_bool(cli_json *json, const char *key, bool value)
{
    put_key(json, key);
    (void)fputs(value ? "true" : "false", json->out);
}

void cli_json_begin(cli_json *json, const char *command)
{
    json->out = stdout;
    json->comma = false;
    (void)fputc('{', json->out);
    cli_json_text(json, "command", command);
}

void cli_json_end(cli_json *json)
{
    cli_json_text(json, "version", kith_version());
    cli_json_text(json, "commit", kith_commit());
    (void)fputs("}\n", json->out);
}
