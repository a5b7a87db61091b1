/* SPDX-License-Identifier: Apache-2.0
 * The number types that files hold, more than the six that kith computes with, and their exact
 * conversion. */
#ifndef KIN_FILE_ITEM_H
#define KIN_FILE_ITEM_H

#include "base/base_ctx.h"

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

#endif
