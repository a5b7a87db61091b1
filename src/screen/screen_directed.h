/* SPDX-License-Identifier: Apache-2.0
 * fp32 operations that round up or down, the same on host and device. A device has instructions for
 * them; the host, where only tests and launches need them, takes the exact result as a sum of two
 * doubles and goes one step on if rounding went the wrong way.
 */
#ifndef KIN_SCREEN_DIRECTED_H
#define KIN_SCREEN_DIRECTED_H

#include "metric/metric_arith.h"

/* high + low, high being that sum rounded to nearest; not a number where high is infinite. */
KIN_HD float kin_up_host(double high, double low)
{
    const float near = (float)high;
    const int below = (double)near < high || ((double)near == high && low > 0.0);
    return below ? nextafterf(near, INFINITY) : near;
}

/* What a + b in double leaves out (Knuth's two-sum). */
KIN_HD double kin_sum_rest(double a, double b)
{
    const double sum = kin_add(a, b);
    const double of_b = kin_sub(sum, a);
    return kin_add(kin_sub(a, kin_sub(sum, of_b)), kin_sub(b, of_b));
}

/* A double as fp32. */
KIN_HD float kin_up_of(double a)
{
    return KIN_ARITH(kin_up_host(a, 0.0), __double2float_ru(a));
}

KIN_HD float kin_up_add(float a, float b)
{
    return KIN_ARITH(kin_up_host((double)a + (double)b, kin_sum_rest((double)a, (double)b)),
                     __fadd_ru(a, b));
}

/* A product of two fp32 numbers is exact in double. */
KIN_HD float kin_up_mul(float a, float b)
{
    return KIN_ARITH(kin_up_host((double)a * (double)b, 0.0), __fmul_ru(a, b));
}

/* a b + c, rounded once. */
KIN_HD float kin_up_fma(float a, float b, float c)
{
    return KIN_ARITH(kin_up_host((double)a * (double)b + (double)c,
                                 kin_sum_rest((double)a * (double)b, (double)c)),
                     __fmaf_ru(a, b, c));
}

KIN_HD float kin_down_fma(float a, float b, float c)
{
    return KIN_ARITH(-kin_up_fma(-a, b, -c), __fmaf_rd(a, b, c));
}

KIN_HD float kin_down_sub(float a, float b)
{
    return KIN_ARITH(-kin_up_add(b, -a), __fsub_rd(a, b));
}

KIN_HD float kin_down_mul(float a, float b)
{
    return KIN_ARITH(-kin_up_mul(-a, b), __fmul_rd(a, b));
}

/* Squares of fp32 numbers are exact in double. */
KIN_HD float kin_down_sqrt_host(float a)
{
    const float near = sqrtf(a);
    return (double)near * (double)near > (double)a ? nextafterf(near, 0.0F) : near;
}

KIN_HD float kin_down_sqrt(float a)
{
    return KIN_ARITH(kin_down_sqrt_host(a), __fsqrt_rd(a));
}

#endif
