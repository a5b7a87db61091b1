/* SPDX-License-Identifier: Apache-2.0
 * The oracle of selection. Every line is meant to be read. */
#include "oracle/plain_select.h"

#include <math.h>
#include <stdlib.h>

typedef struct entry {
    double place; /* the value, or what is opposite to it; NaN goes last */
    uint64_t bits;
    uint32_t id;
} entry;

/* The value of a type with a sign, exponent bits and `fraction_bits`, of 16 bits in all. */
static double value_of_half(unsigned bits, int fraction_bits)
{
    const int exponents = (1 << (15 - fraction_bits)) - 1;
    const int exponent = (int)(bits >> fraction_bits) & exponents;
    const int fraction = (int)bits & ((1 << fraction_bits) - 1);
    const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    const int power = (exponent == 0 ? 1 : exponent) - exponents / 2 - fraction_bits;
    double value = ldexp(whole, power);
    if (exponent == exponents) {
        value = fraction == 0 ? (double)INFINITY : (double)NAN;
    }
    return bits >> 15 != 0 ? -value : value;
}

static double value_of(uint64_t bits, kith_dtype dtype)
{
    double f64 = 0.0;
    float f32 = 0.0F;
    if (dtype == KITH_F64) {
        memcpy(&f64, &bits, sizeof f64);
        return f64;
    }
    if (dtype == KITH_F32) {
        memcpy(&f32, &bits, sizeof f32);
        return (double)f32;
    }
    return value_of_half((unsigned)bits, dtype == KITH_F16 ? 10 : 7);
}

static uint64_t quiet_nan(kith_dtype dtype)
{
    return dtype == KITH_F64   ? 0x7ff8000000000000u
           : dtype == KITH_F32 ? 0x7fc00000u
           : dtype == KITH_F16 ? 0x7e00u
                               : 0x7fc0u;
}

static int order(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    if (isnan(x->place) != isnan(y->place)) {
        return isnan(x->place) ? 1 : -1;
    }
    if (x->place < y->place || x->place > y->place) {
        return x->place < y->place ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

void oracle_select(const kith_values *values, int64_t row, int largest, void *sorted,
                   uint32_t *sorted_ids)
{
    const int64_t size = kith_dtype_bytes(values->dtype);
    const int64_t cols = values->cols;
    const int64_t stride = values->stride_bytes != 0 ? values->stride_bytes : cols * size;
    const int64_t ids_stride = values->ids_stride_bytes != 0 ? values->ids_stride_bytes : cols * 4;
    const char *from = (const char *)values->data + row * stride;
    const char *ids = values->ids == NULL ? NULL : (const char *)values->ids + row * ids_stride;
    entry *entries = calloc((size_t)cols, sizeof *entries);
    if (entries == NULL) {
        abort();
    }
    for (int64_t i = 0; i < cols; i++) {
        entry *e = &entries[i];
        memcpy(&e->bits, from + i * size, (size_t)size);
        const double value = value_of(e->bits, values->dtype);
        e->place = largest ? -value : value;
        e->bits = isnan(value) ? quiet_nan(values->dtype) : value == 0.0 ? 0 : e->bits;
        e->id = (uint32_t)i;
        if (ids != NULL) {
            memcpy(&e->id, ids + i * 4, sizeof e->id);
        }
    }
    qsort(entries, (size_t)cols, sizeof *entries, order);
    for (int64_t i = 0; i < cols; i++) {
        memcpy((char *)sorted + i * size, &entries[i].bits, (size_t)size);
        sorted_ids[i] = entries[i].id;
    }
    free(entries);
}
