/* SPDX-License-Identifier: Apache-2.0
 * kith's logarithm against the C library's long double one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metric/metric_functions.h"
#include "support/support_rows.h"

#include <stdio.h>

/* Distance to the true value in units of the last place of the result. */
static double error_ulp(double x)
{
    const double found = kin_ln(x);
    const long double right = logl((long double)x);
    const double size = fabs(found);
    const double ulp = nextafter(size, (double)INFINITY) - size;
    return (double)(fabsl((long double)found - right) / (long double)ulp);
}

static void worst_of(double *worst, double x)
{
    const double error = error_ulp(x);
    *worst = error > *worst ? error : *worst;
}

static void close_to_the_true_value(void **state)
{
    (void)state;
    double worst = 0;
    uint64_t seed = 21;
    for (int i = 0; i < 300000; i++) {
        const double u = test_uniform(&seed);
        worst_of(&worst, ldexp(0.5 + u / 2, (int)(test_uniform(&seed) * 2000) - 1000));
        worst_of(&worst, 0.5 + 1.5 * u);
        worst_of(&worst, 1 + (u - 0.5) * ldexp(1, -(i % 50)));
    }
    for (int e = -1022; e <= 1023; e++) {
        worst_of(&worst, ldexp(1, e));
        worst_of(&worst, nextafter(ldexp(1, e), 0));
        worst_of(&worst, ldexp(0x1.6a09e667f3bcdp+0, e));
        worst_of(&worst, nextafter(ldexp(0x1.6a09e667f3bcdp+0, e), 0));
    }
    assert_true(worst < 0.55);
    printf("900,000 logarithms from 2^-1000 to 2^1000: the largest error is %.4f ulp\n", worst);
}

static void exact_and_rising(void **state)
{
    (void)state;
    assert_true(kin_ln(1.0) == 0 && !signbit(kin_ln(1.0)));
    const double starts[] = {0.7071, 1.0, 1.41421, 2.0, 1e-100, 1e100, 0.999999, 3.0};
    for (int i = 0; i < 8; i++) {
        double x = starts[i];
        double before = kin_ln(nextafter(x, 0));
        for (int step = 0; step < 20000; step++) {
            const double here = kin_ln(x);
            assert_true(here >= before);
            before = here;
            x = nextafter(x, (double)INFINITY);
        }
    }
    printf("ln(1) is +0; along 160,000 neighbouring numbers the logarithm never falls\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_to_the_true_value),
        cmocka_unit_test(exact_and_rising),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
