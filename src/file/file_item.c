/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_item.h"

#include <math.h>

typedef struct item_row {
    kin_item item;
    kith_dtype dtype;
    const char *name;
} item_row;

static const item_row item_table[] = {
    {{'f', 4}, KITH_F32, "float32"}, {{'f', 8}, KITH_F64, "float64"},
    {{'f', 2}, KITH_F16, "float16"}, {{'h', 2}, KITH_BF16, "bfloat16"},
    {{'u', 1}, KITH_U8, "uint8"},    {{'i', 1}, KITH_I8, "int8"},
    {{'i', 2}, 0, "int16"},          {{'u', 2}, 0, "uint16"},
    {{'i', 4}, 0, "int32"},          {{'u', 4}, 0, "uint32"},
    {{'i', 8}, 0, "int64"},          {{'u', 8}, 0, "uint64"},
};
enum { ITEM_COUNT = sizeof item_table / sizeof item_table[0] };

static const item_row *find_item(kin_item item)
{
    for (int i = 0; i < ITEM_COUNT; i++) {
        if (item_table[i].item.kind == item.kind && item_table[i].item.bytes == item.bytes) {
            return &item_table[i];
        }
    }
    return NULL;
}

kith_dtype kin_item_dtype(kin_item item)
{
    const item_row *row = find_item(item);
    return row != NULL ? row->dtype : KITH_DTYPE_NONE;
}

kin_item kin_item_of(kith_dtype dtype)
{
    for (int i = 0; i < ITEM_COUNT; i++) {
        if (dtype != KITH_DTYPE_NONE && item_table[i].dtype == dtype) {
            return item_table[i].item;
        }
    }
    return kin_item_make('\0', 0);
}

const char *kin_item_name(kin_item item)
{
    const item_row *row = find_item(item);
    return row != NULL ? row->name : "unknown";
}

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    double magnitude = 0.0;
    if (exponent == 31) {
        magnitude = fraction == 0 ? (double)INFINITY : (double)NAN;
    } else if (exponent == 0) {
        magnitude = ldexp(fraction, -24);
    } else {
        magnitude = ldexp(1024 + fraction, exponent - 25);
    }
    return (bits >> 15) != 0 ? -magnitude : magnitude;
}

static double load_float(kin_item item, const void *at)
{
    if (item.bytes == 8) {
        double value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    if (item.bytes == 4) {
        float value;
        memcpy(&value, at, sizeof value);
        return (double)value;
    }
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return half_value(bits);
}

static double load_bfloat(const void *at)
{
    uint16_t high;
    memcpy(&high, at, sizeof high);
    const uint32_t bits = (uint32_t)high << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* The integer, its sign extended; an unsigned one of 64 bits keeps its bits. */
static int64_t load_integer(kin_item item, const void *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)item.bytes);
    if (item.kind == 'i' && item.bytes < 8) {
        const int shift = 64 - 8 * item.bytes;
        return (int64_t)(bits << shift) >> shift;
    }
    return (int64_t)bits;
}

/* An integer is a double if it has at most 53 bits between its first and its last 1. */
static bool fits_double(uint64_t magnitude)
{
    if (magnitude == 0) {
        return true;
    }
    return 64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude) <= 53;
}

bool kin_item_load(kin_item item, const void *at, double *value)
{
    if (item.kind == 'f') {
        *value = load_float(item, at);
        return true;
    }
    if (item.kind == 'h') {
        *value = load_bfloat(at);
        return true;
    }
    const int64_t integer = load_integer(item, at);
    if (item.kind == 'u') {
        *value = (double)(uint64_t)integer;
        return fits_double((uint64_t)integer);
    }
    *value = (double)integer;
    return fits_double(integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer);
}

static bool store_integer(kin_item item, double value, void *at)
{
    const int bits = 8 * item.bytes;
    const double low = item.kind == 'u' ? 0.0 : -ldexp(1.0, bits - 1);
    const double end = ldexp(1.0, item.kind == 'u' ? bits : bits - 1);
    if (!(value >= low && value < end) || value != floor(value)) {
        return false;
    }
    const uint64_t whole = item.kind == 'u' ? (uint64_t)value : (uint64_t)(int64_t)value;
    memcpy(at, &whole, (size_t)item.bytes);
    return true;
}

bool kin_item_store(kin_item item, double value, void *at)
{
    if (item.kind == 'f' && item.bytes == 8) {
        memcpy(at, &value, sizeof value);
        return true;
    }
    if (item.kind == 'f' && item.bytes == 4) {
        /* Values beyond float32 are turned away first: their cast would be undefined. */
        if (isfinite(value) && fabs(value) > (double)3.402823466385288598e38f) {
            return false;
        }
        const float narrow = (float)value;
        if ((double)narrow != value && !isnan(value)) {
            return false;
        }
        memcpy(at, &narrow, sizeof narrow);
        return true;
    }
    return (item.kind == 'i' || item.kind == 'u') && store_integer(item, value, at);
}
