/* SPDX-License-Identifier: Apache-2.0
 * kith's powers and roots against the C library's long double ones, and what minkowski makes of
 * ties, copies, and differences at both ends of the doubles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "host/host_threads.h"
#include "metric/metric_canonical.h"
#include "support/support_keys.h"
#include "support/support_mode.h"
#include "support/support_rows.h"

#include <stdio.h>

static const double powers[] = {1.0001, 1.1, 1.5,  2.5, 2.9999,   3,        4,        7,
                                16,     17,  20.5, 100, 1000.123, 2000.002, 3355.4431};
enum { POWERS = sizeof powers / sizeof *powers, TRIALS = 40000 };

/* Relative, in units of 2^-53. */
static double error_of(double found, long double right)
{
    return (double)(fabsl((long double)found - right) / right * 0x1p53L);
}

/* What docs/notes/numerics.md says. */
static double bound_of_power(kin_power power)
{
    return power.times != 0 ? power.times - 1.0 + 1e-3 : 1.5 + power.p / 32;
}

static double any_between(double low, double high, uint64_t *seed)
{
    return exp2(low + (high - low) * test_uniform(seed));
}

static void close_to_the_true_value(void **state)
{
    (void)state;
    uint64_t seed = 31;
    double worst_share = 0;
    double worst_root = 0;
    for (int i = 0; i < POWERS; i++) {
        const kin_power power = kin_power_of(kith_minkowski(powers[i]));
        for (int t = 0; t < TRIALS; t++) {
            const double reach = (t % 2 == 0 ? 1021 : 3) / power.p;
            const double x = any_between(-reach, reach, &seed);
            const double share =
                error_of(kin_raise(x, power), powl(x, power.p)) / bound_of_power(power);
            const double sum = any_between(-1074, 1024, &seed);
            const double root = error_of(kin_root(sum, power), powl(sum, 1 / (long double)power.p));
            worst_share = share > worst_share ? share : worst_share;
            worst_root =
                root > worst_root && (power.p > 1.1 || sum > 0x1p-1000) ? root : worst_root;
        }
    }
    assert_true(worst_share < 1);
    assert_true(worst_root < 1.5);
    printf("%d powers: of %d numbers each the largest error is %.2f of its bound, of roots %.2f "
           "units of 2^-53\n",
           POWERS, TRIALS, worst_share, worst_root);
}

static void ends_are_clean(void **state)
{
    (void)state;
    for (int i = 0; i < POWERS; i++) {
        const kin_power power = kin_power_of(kith_minkowski(powers[i]));
        assert_true(kin_raise(0, power) == 0 && !signbit(kin_raise(0, power)));
        assert_true(kin_raise(1, power) == 1);
        assert_true(kin_root(0, power) == 0 && !signbit(kin_root(0, power)));
        assert_true(kin_root(1, power) == 1);
        assert_true(kin_root((double)INFINITY, power) == (double)INFINITY);
        assert_true(power.p < 2.1 || kin_raise(0x1p501, power) == (double)INFINITY);
        assert_true(power.p < 2.1 || kin_raise(0x1p-600, power) == 0);
        assert_true(kin_raise(0x1p-1074, power) ==
                    (power.times == 0 && power.p < 1.001 ? 0x1p-1074 : 0));
        /* A component alone comes back. */
        const double alone[] = {0.75, 1.5, 3, 5, 1.0 / 3};
        for (int a = 0; a < 5 && power.p < 300; a++) {
            const double back = kin_root(kin_raise(alone[a], power), power);
            assert_true(fabs(back - alone[a]) <= alone[a] * 0x1p-50);
        }
        /* Subnormal sums have roots, and a subnormal difference a power where that is a number. */
        assert_true(error_of(kin_root(0x1p-1070, power),
                             powl(0x1p-1070L, 1 / (long double)power.p)) < 1.5 ||
                    power.p < 1.1);
    }
    const kin_power gentle = kin_power_of(kith_minkowski(1.0001));
    const double small = kin_raise(0x1p-1040, gentle);
    assert_true(fabsl(small - powl(0x1p-1040L, gentle.p)) <= 0x1p-1074L);
    printf("0, 1, infinity, and both ends of the doubles: as they should be\n");
}

/* Sums of powers never fall where a component grows, roots where a sum does, but for the last bit:
 * the key, which is the root, is what neighbours are ordered by. */
static void nearly_rising(void **state)
{
    (void)state;
    const double starts[] = {0.7071, 1.0, 1.41421, 2.0, 1e-20, 1e20, 0.999999, 3.0};
    for (int i = 0; i < POWERS && powers[i] < 12; i++) {
        const kin_power power = kin_power_of(kith_minkowski(powers[i]));
        for (int s = 0; s < 8; s++) {
            double x = starts[s];
            double before = 0;
            for (int step = 0; step < 2000; step++) {
                const double here = kin_root(x, power);
                assert_true(here >= before * (1 - 0x1p-52));
                before = here;
                x = nextafter(x, (double)INFINITY);
            }
        }
    }
    printf("along neighbouring numbers roots fall by no more than a last bit\n");
}

/* ---- Whole rows, by every body --------------------------------------------------------------- */

enum { ROWS = 9, COLS = 13 };

/* Copies, ties by exchanged columns, values at both ends of the type. */
static void fill(test_rows *rows, double scale, uint64_t *seed)
{
    test_rows_fill(rows, scale, 0, seed);
    test_rows_copy(rows, 3, rows, 0);
    for (int32_t col = 0; col < COLS; col++) {
        test_rows_set(rows, 5, col, 0);
        test_rows_set(rows, 6, col, col == 2 ? scale : 0);
        test_rows_set(rows, 7, col, col == 2 + 8 ? scale : 0);
    }
}

static long double textbook(const test_rows *rows, int64_t a, int64_t b, long double p)
{
    const double *x = (const double *)rows->matrix.data;
    const int64_t pitch =
        rows->matrix.stride_bytes != 0 ? rows->matrix.stride_bytes / (int64_t)sizeof(double) : COLS;
    long double sum = 0;
    for (int32_t col = 0; col < COLS; col++) {
        sum += powl(fabsl((long double)x[a * pitch + col] - x[b * pitch + col]), p);
    }
    return powl(sum, 1 / p);
}

static void rows_have_their_distances(void **state)
{
    (void)state;
    static const double scales[] = {1e-320, 1e-90, 1e-20, 1, 1e9, 1e90, 0x1p499};
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    uint64_t seed = 32;
    double worst = 0;
    int infinite = 0;
    for (int i = 0; i < POWERS * 7; i++) {
        const double p = powers[i / 7];
        const kith_metric metric = kith_minkowski(p);
        test_rows rows = test_rows_make(KITH_F64, ROWS, COLS, 0);
        fill(&rows, scales[i % 7], &seed);
        for (int b = 0; b < bodies; b++) {
            kith_ctx *ctx = test_ctx(isas[b], 1);
            for (int64_t q = 0; q < ROWS; q++) {
                double keys[ROWS];
                test_keys(ctx, metric, &rows.matrix, q, &rows.matrix, NULL, 0, keys);
                for (int64_t c = 0; c < ROWS; c++) {
                    const long double right = textbook(&rows, q, c, p);
                    const long double sum = powl(right, p);
                    assert_true(keys[c] >= 0 && !signbit(keys[c]));
                    assert_true(q != c || keys[c] == 0);
                    infinite += keys[c] > DBL_MAX;
                    if (sum > 0x1p-900L && sum < 0x1p1023L) {
                        const double error = error_of(keys[c], right);
                        worst = error > worst ? error : worst;
                    } else if (sum > 0x1p1030L) {
                        assert_true(keys[c] > DBL_MAX);
                    } else if (sum < 0x1p-1085L) {
                        assert_true(keys[c] == 0);
                    }
                }
                assert_true(keys[0] == keys[3]); /* copies */
                if (q == 5) {
                    assert_true(keys[6] == keys[7]); /* one component, in the same lane */
                }
            }
            kith_ctx_free(ctx);
        }
        test_rows_free(&rows);
    }
    assert_true(worst < 8);
    assert_true(infinite > 0);
    printf(
        "%d powers, 7 scales, %d bodies: distances within %.2f units of 2^-53 of the textbook's; "
        "0 and infinity where doubles end\n",
        POWERS, bodies, worst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_to_the_true_value),
        cmocka_unit_test(ends_are_clean),
        cmocka_unit_test(nearly_rising),
        cmocka_unit_test(rows_have_their_distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
