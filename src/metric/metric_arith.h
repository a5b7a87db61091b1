/* SPDX-License-Identifier: Apache-2.0
 * One IEEE operation a function: the words in which canonical distances are written.
 *
 * On the host each is the plain operator; the build (-ffp-contract=off -fno-fast-math) and the mode
 * (host/host_cpu.h) make it round once, to nearest even. fma() is the processor's instruction
 * where the file is compiled for one, else the C library's, which rounds once too. On a device each
 * is the intrinsic that names its rounding, so no compiler may fuse what is written apart.
 *
 *   KIN_HD   a function that host and device both have
 */
#ifndef KIN_METRIC_ARITH_H
#define KIN_METRIC_ARITH_H

#include "kith/kith.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What host and device both need to know of a row. */

/* Components are summed in this many interleaved lanes (metric_canonical.h). */
enum { KIN_METRIC_LANES = 8 };

/* The transform of one row, made of rounded double operations in the order written:
 *   t(x)[i] = ((x[i] * scale) - shift) * gain
 * where scale is 1 except for float64 rows, and the subtraction is left out for cosine. */
typedef struct kin_row_transform {
    double scale;
    double shift;
    double gain;       /* 0 for a degenerate row */
    double degenerate; /* 1: zero (cosine) or constant (correlation): distance 1 to everything */
} kin_row_transform;

#if defined(__FAST_MATH__)
#error "metric/ must not be compiled with -ffast-math: its bits are a promise"
#endif
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "double arithmetic must be done in double (x87 is not supported: -mfpmath=sse)"
#endif

#if defined(__CUDACC__)
#define KIN_HD static __host__ __device__ __forceinline__
#else
#define KIN_HD static inline __attribute__((always_inline))
#endif

#if defined(__CUDA_ARCH__)
#define KIN_ARITH(host, device) (device)
#else
#define KIN_ARITH(host, device) (host)
#endif

KIN_HD double kin_add(double a, double b)
{
    return KIN_ARITH(a + b, __dadd_rn(a, b));
}

KIN_HD double kin_sub(double a, double b)
{
    return KIN_ARITH(a - b, __dsub_rn(a, b));
}

KIN_HD double kin_mul(double a, double b)
{
    return KIN_ARITH(a * b, __dmul_rn(a, b));
}

KIN_HD double kin_div(double a, double b)
{
    return KIN_ARITH(a / b, __ddiv_rn(a, b));
}

KIN_HD double kin_sqrt(double a)
{
    return KIN_ARITH(sqrt(a), __dsqrt_rn(a));
}

/* a * b + c, rounded once. */
KIN_HD double kin_fma(double a, double b, double c)
{
    return KIN_ARITH(fma(a, b, c), __fma_rn(a, b, c));
}

KIN_HD double kin_abs(double a)
{
    return fabs(a);
}

KIN_HD double kin_max(double a, double b)
{
    return a > b ? a : b;
}

KIN_HD uint64_t kin_bits_of(double a)
{
    uint64_t bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

KIN_HD double kin_from_bits(uint64_t bits)
{
    double a;
    memcpy(&a, &bits, sizeof a);
    return a;
}

/* ---- Components of rows ---------------------------------------------------------------------- */

/* A component of any dtype as double. The conversion is exact for every type, subnormals included.
 * Rows may start at any byte, so components are copied out, never cast. */

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
