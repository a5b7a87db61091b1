/* SPDX-License-Identifier: Apache-2.0
 * What products of a GPU's tensor cores may be off by: the model of them (screen_kappa.h), step by
 * step, on sums that are made to go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "screen/screen_kappa.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    return (uint32_t)kin_random_below(&seed, n);
}

static int exponent_of(double x)
{
    int e = 0;
    (void)frexp(x, &e);
    return x == 0.0 ? -2000 : e - 1;
}

static double truncated(double x, int last)
{
    return ldexp(trunc(ldexp(x, -last)), last);
}

/* What the unit makes of products and a start: screen_kappa.h. */
static double unit_sum(const double *products, int32_t count, double start, int step, int bits)
{
    double sum = start;
    for (int32_t at = 0; at < count; at += step) {
        int top = exponent_of(sum);
        for (int i = 0; i < step && at + i < count; i++) {
            const int e = exponent_of(products[at + i]);
            top = e > top ? e : top;
        }
        double next = truncated(sum, top - bits);
        for (int i = 0; i < step && at + i < count; i++) {
            next += truncated(products[at + i], top - bits);
        }
        sum = truncated(next, exponent_of(next) - 23);
    }
    return sum;
}

/* Just below what is kept beside the sum, of one sign, of both, or anything. */
static double product(int style, int bits, double sum)
{
    const double sign = style == 1 && below(2) == 0 ? -1.0 : 1.0;
    const double almost = 1.0 - 0x1p-11;
    const int top = exponent_of(sum);
    switch (style) {
    case 0:
    case 1:
        return sign * almost * almost * ldexp(1.0, top - bits);
    case 2: /* the next step up loses almost a unit of the last place */
        return almost * almost * ldexp(1.0, top - (below(2) == 0 ? bits : 23));
    default:
        return (double)(int32_t)(below(1u << 22) - (1 << 21)) * ldexp(1.0, -(int)below(20));
    }
}

static double worst_of_unit(int32_t major, int step, int bits, int32_t cols)
{
    double worst = 0.0;
    double *products = malloc((size_t)cols * sizeof *products);
    assert_non_null(products);
    for (int style = 0; style < 4; style++) {
        for (int started = 0; started < 2; started++) {
            const double start = started ? -(1.0 + test_uniform(&seed)) : 0.0;
            double exact = start;
            double sizes = fabs(start);
            for (int32_t i = 0; i < cols; i++) {
                const bool first = i == 0 && !started;
                products[i] = first ? 1.0 : product(style, bits, style < 3 ? exact : 1.0);
                products[i] *= started && style < 3 ? -1.0 : 1.0;
                exact += products[i];
                sizes += fabs(products[i]);
            }
            const double off = fabs(unit_sum(products, cols, start, step, bits) - exact);
            worst = fmax(worst, off / (kin_screen_gpu_unit_kappa(major, cols) * sizes));
        }
    }
    free(products);
    return worst;
}

static void covers_the_model(void **state)
{
    (void)state;
    for (int32_t major = 8; major <= 9; major++) {
        double worst = 0.0;
        for (int32_t cols = 64; cols <= 1 << 20; cols *= 2) {
            const double share =
                worst_of_unit(major, major == 8 ? 8 : 16, major == 8 ? 24 : 25, cols);
            assert_true(share <= 1.0);
            worst = fmax(worst, share);
        }
        printf("sm_%d0: sums of 64 to 2^20 products are off by at most %.2f kappa\n", (int)major,
               worst);
        assert_true(worst > 0.3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(covers_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
