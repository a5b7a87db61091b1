/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool starts_like_a_number(const char *text)
{
    return (text[0] >= '0' && text[0] <= '9') || text[0] == '.';
}

bool cli_value_uint(const char *text, uint64_t *value)
{
    if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    const unsigned long long number = strtoull(text, NULL, 10);
    *value = number;
    return errno == 0;
}

bool cli_value_int(const char *text, int64_t low, int64_t high, int64_t *value)
{
    const bool negative = text[0] == '-';
    uint64_t magnitude = 0;
    if (!cli_value_uint(text + negative, &magnitude) || magnitude > INT64_MAX) {
        return false;
    }
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return *value >= low && *value <= high;
}

bool cli_value_number(const char *text, double *value)
{
    /* strtod also takes blanks, "inf", "nan" and hexadecimal: not what anyone means here. */
    if (!starts_like_a_number(text + (text[0] == '-')) || strpbrk(text, "xX") != NULL) {
        return false;
    }
    char *end = NULL;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

bool cli_value_bytes(const char *text, uint64_t *value)
{
    static const char suffixes[] = "KMGT";
    if (!starts_like_a_number(text) || strpbrk(text, "xX") != NULL) {
        return false;
    }
    char *end = NULL;
    double bytes = strtod(text, &end);
    if (*end != '\0') {
        const char *suffix = strchr(suffixes, *end);
        if (suffix == NULL) {
            return false;
        }
        const bool decimal = strcmp(end + 1, "B") == 0;
        if (!decimal && end[1] != '\0' && strcmp(end + 1, "i") != 0 && strcmp(end + 1, "iB") != 0) {
            return false;
        }
        for (int power = (int)(suffix - suffixes + 1); power > 0; power--) {
            bytes *= decimal ? 1000.0 : 1024.0;
        }
    }
    if (!(bytes >= 1.0 && bytes < 0x1p63)) {
        return false;
    }
    *value = (uint64_t)bytes;
    return true;
}

/* Numbers with commas between them. */
static bool is_list(const char *text)
{
    for (;;) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 3) {
            return false;
        }
        text += digits;
        if (*text == '\0') {
            return true;
        }
        if (*text++ != ',') {
            return false;
        }
    }
}

bool cli_value_is_device(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0 ||
           strcmp(text, "cuda:all") == 0 || (strncmp(text, "cuda:", 5) == 0 && is_list(text + 5));
}
