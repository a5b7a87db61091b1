/* SPDX-License-Identifier: Apache-2.0
 * A component of any dtype as double. The conversion is exact for every type, subnormals included.
 * Rows may start at any byte, so components are copied out, never cast. */
#ifndef KIN_METRIC_VALUE_H
#define KIN_METRIC_VALUE_H

#include "kith/kith.h"
#include "metric/metric_arith.h"

/* Of a component: kith_dtype_bytes, for devices too. */
KIN_HD int32_t kin_value_bytes(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F64:
        return 8;
    case KITH_F32:
        return 4;
    case KITH_F16:
    case KITH_BF16:
        return 2;
    case KITH_U8:
    case KITH_I8:
        return 1;
    case KITH_DTYPE_NONE:
        break;
    }
    return 0;
}

/* IEEE binary16: sign, 5 bits of exponent (bias 15), 10 of fraction. */
KIN_HD double kin_value_of_f16(uint16_t half)
{
    const uint64_t sign = (uint64_t)(half >> 15) << 63;
    const uint64_t exponent = (half >> 10) & 31u;
    const uint64_t fraction = half & 1023u;
    if (exponent == 0) {
        const double magnitude = (double)fraction * 0x1p-24;
        return kin_from_bits(kin_bits_of(magnitude) | sign);
    }
    const uint64_t wide = exponent == 31 ? 2047 : exponent + (1023 - 15);
    return kin_from_bits(sign | wide << 52 | fraction << 42);
}

/* bfloat16: the upper half of a float32. */
KIN_HD double kin_value_of_bf16(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Component i of a row. */
KIN_HD double kin_value(kith_dtype dtype, const char *row, int64_t i)
{
    float f32 = 0;
    double f64 = 0;
    uint16_t half = 0;
    switch (dtype) {
    case KITH_F32:
        memcpy(&f32, row + 4 * i, sizeof f32);
        return (double)f32;
    case KITH_F64:
        memcpy(&f64, row + 8 * i, sizeof f64);
        return f64;
    case KITH_F16:
        memcpy(&half, row + 2 * i, sizeof half);
        return kin_value_of_f16(half);
    case KITH_BF16:
        memcpy(&half, row + 2 * i, sizeof half);
        return kin_value_of_bf16(half);
    case KITH_U8:
        return (double)(uint8_t)row[i];
    case KITH_I8:
        return (double)(int8_t)row[i];
    case KITH_DTYPE_NONE:
        break;
    }
    return 0;
}

#endif
