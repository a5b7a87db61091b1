/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_message.h"

#include "cli.h"

#include <stdarg.h>
#include <stdio.h>

static void print_line(const char *where, const char *format, va_list list)
{
    char line[2048];
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
    (void)fprintf(stderr, "%s\n", line);
}

int cli_fail(const char *where, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line(where, format, list);
    va_end(list);
    return CLI_FAILED;
}

int cli_wrong(const char *where, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line(where, format, list);
    va_end(list);
    return CLI_WRONG_USAGE;
}
