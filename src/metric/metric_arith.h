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

#endif
