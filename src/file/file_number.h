/* SPDX-License-Identifier: Apache-2.0
 * The number types that files hold, more than the six that kith computes with, and their exact
 * conversion. */
#ifndef KIN_FILE_NUMBER_H
#define KIN_FILE_NUMBER_H

#include "base/base_ctx.h"

#include <stdbool.h>
#include <stddef.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kith's files are little-endian and are mapped as they are"
#endif

/* kind: 'f' float, 'i' signed, 'u' unsigned integer, 'h' bfloat16. A bytes of 0 is no type. */
typedef struct kin_item {
    char kind;
    int32_t bytes;
} kin_item;

static inline kin_item kin_item_make(char kind, int32_t bytes)
{
    const kin_item item = {kind, bytes};
    return item;
}

/* The type that kith computes with, or KITH_DTYPE_NONE for one that is converted to float64. */
kith_dtype kin_item_dtype(kin_item item);
kin_item kin_item_of(kith_dtype dtype);
/* "float32", "int64" ... */
const char *kin_item_name(kin_item item);

/* One value as double. False where a 64-bit integer is none. */
bool kin_item_load(kin_item item, const void *at, double *value);
/* Stores value as the type; false (and nothing stored) where it is not exactly of that type. NaN is
 * a float of every size. */
bool kin_item_store(kin_item item, double value, void *at);

/* ---- As text --------------------------------------------------------------------------------- */

/* Decimal numbers, correctly rounded, whatever the locale of the process is. */

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
