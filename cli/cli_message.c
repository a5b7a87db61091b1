/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *kept = NULL;

void cli_message_keep(char line[CLI_LINE_BYTES])
{
    kept = line;
}

/* A file name may hold anything: control bytes, and U+0080 to U+009F, of which some terminals take
 * U+009B for an escape. */
static int control_bytes(const char *at)
{
    const unsigned char byte = (unsigned char)at[0];
    const unsigned char next = byte != 0 ? (unsigned char)at[1] : 0;
    if (byte < 0x20 || byte == 0x7f) {
        return byte != 0;
    }
    return byte == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

void cli_message_clean(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        const int bytes = control_bytes(c);
        if (bytes > 0) {
            memset(c, '?', (size_t)bytes);
        }
    }
}

const char *cli_message_safe(const char *text)
{
    enum { SHOWN = 4 };
    static char shown[SHOWN][CLI_LINE_BYTES];
    static int next = 0;
    const char *c = text;
    while (*c != '\0' && control_bytes(c) == 0) {
        c++;
    }
    if (*c == '\0') {
        return text;
    }
    char *copy = shown[next++ % SHOWN];
    (void)snprintf(copy, CLI_LINE_BYTES, "%s", text);
    cli_message_clean(copy);
    return copy;
}

/* A name may be longer than a line. Then its middle gives way: what is wrong stands behind it. */
static size_t put_where(char line[CLI_LINE_BYTES], const char *where)
{
    enum { PART = 256 };
    const size_t length = strlen(where);
    return length <= 2 * PART ? (size_t)snprintf(line, CLI_LINE_BYTES, "kith: %s: ", where)
                              : (size_t)snprintf(line, CLI_LINE_BYTES, "kith: %.*s...%s: ", PART,
                                                 where, where + length - PART);
}

static void print_line(const char *where, const char *format, va_list list, char *keep)
{
    char line[CLI_LINE_BYTES];
    const size_t used =
        where != NULL ? put_where(line, where) : (size_t)snprintf(line, sizeof line, "kith: ");
    (void)vsnprintf(line + used, sizeof line - used, format, list);
    cli_message_clean(line);
    if (keep == NULL) {
        (void)fprintf(stderr, "%s\n", line);
    } else if (keep[0] == '\0') {
        memcpy(keep, line, sizeof line);
    }
}

int cli_message(int code, const char *where, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line(where, format, list, kept);
    va_end(list);
    return code;
}

void cli_warn(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line("warning", format, list, NULL);
    va_end(list);
}

const char *cli_message_size(uint64_t bytes, char text[CLI_SIZE_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    int unit = 0;
    while (size >= 1024.0 && unit < 4) {
        size /= 1024.0;
        unit++;
    }
    (void)snprintf(text, CLI_SIZE_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
    return text;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Stands before each piece, as aligned as malloc's are. */
typedef union kept_piece {
    union kept_piece *before;
    max_align_t align;
} kept_piece;

static kept_piece *pieces = NULL;

void *cli_keep(uint64_t count, size_t bytes)
{
    const bool fits = count <= (SIZE_MAX - sizeof *pieces) / bytes;
    kept_piece *piece = fits ? calloc(1, sizeof *piece + (size_t)count * bytes) : NULL;
    if (piece == NULL) {
        return NULL;
    }
    piece->before = pieces;
    pieces = piece;
    return piece + 1;
}

void cli_keep_end(void)
{
    while (pieces != NULL) {
        kept_piece *piece = pieces;
        pieces = piece->before;
        free(piece);
    }
}
