/* SPDX-License-Identifier: Apache-2.0
 * Decimal numbers, correctly rounded, whatever the locale of the process is. */
#ifndef KIN_FILE_NUMBER_H
#define KIN_FILE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Numbers are read and written between these two, which put this thread under the C locale and
 * back. */
typedef struct kin_number_locale {
    void *own;
    void *before;
} kin_number_locale;
kin_number_locale kin_number_enter(void);
void kin_number_leave(kin_number_locale locale);

/* The whole of [text, end) as double: sign, digits with a point, exponent; nan, inf, infinity. */
bool kin_number_parse(const char *text, const char *end, double *value);
/* The shortest of 6 to 9 significant digits that bring a float32 back (single), else of 15 to 17
 * that bring the double back. Returns the length. */
int kin_number_print(char *text, size_t room, double value, bool single);

#endif
