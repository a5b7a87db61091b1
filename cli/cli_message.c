/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_message.h"

#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char *kept = NULL;

void cli_message_keep(char line[CLI_LINE_BYTES])
{
    kept = line;
}

static void print_line(const char *where, const char *format, va_list list, char *keep)
{
    char line[CLI_LINE_BYTES];
    size_t used = (size_t)snprintf(line, sizeof line, "kith: ");
    if (where != NULL) {
        used += (size_t)snprintf(line + used, sizeof line - used, "%s: ", where);
    }
    if (used < sizeof line) {
        (void)vsnprintf(line + used, sizeof line - used, format, list);
    }
    /* A file name may hold anything; the line stays one line and moves no cursor. */
    for (char *c = line; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f) {
            *c = '?';
        }
    }
    if (keep == NULL) {
        (void)fprintf(stderr, "%s\n", line);
    } else if (keep[0] == '\0') {
        memcpy(keep, line, sizeof line);
    }
}

int cli_fail(const char *where, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line(where, format, list, kept);
    va_end(list);
    return CLI_FAILED;
}

int cli_wrong(const char *where, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line(where, format, list, kept);
    va_end(list);
    return CLI_WRONG_USAGE;
}

void cli_warn(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line("warning", format, list, NULL);
    va_end(list);
}
