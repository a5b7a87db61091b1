/* SPDX-License-Identifier: Apache-2.0
 * The value check: what is refused, which value is named, and in which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "support/support_keys.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>

/* The words for one bad value in an otherwise good matrix; "" when it is accepted. */
static const char *words(kith_dtype dtype, kith_metric metric, double bad)
{
    static char text[KIN_DETAIL_BYTES];
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    test_rows rows = test_rows_make(dtype, 40, 21, 2);
    for (int64_t i = 0; i < 40 * 21; i++) {
        test_rows_set(&rows, i / 21, i % 21, (double)(i % 9));
    }
    test_rows_set(&rows, 17, 3, bad);
    const kith_status status = kin_metric_check(ctx, &rows.matrix, metric, "points");
    assert_int_equal(status, kith_ctx_detail(ctx)[0] == '\0' ? KITH_OK : KITH_E_DATA);
    (void)snprintf(text, sizeof text, "%s", kith_ctx_detail(ctx));
    test_rows_free(&rows);
    kith_ctx_free(ctx);
    return text;
}

static void not_a_number(void **state)
{
    (void)state;
    for (int dtype = KITH_F32; dtype <= KITH_BF16; dtype++) {
        for (int metric = KITH_EUCLIDEAN; metric <= KITH_CUSTOM; metric++) {
            const kith_dtype t = (kith_dtype)dtype;
            const kith_metric m = (kith_metric)metric;
            assert_string_equal(words(t, m, (double)NAN),
                                "points[17, 3] is NaN (remove or replace it)");
            assert_string_equal(words(t, m, (double)INFINITY),
                                "points[17, 3] is infinite (remove or replace it)");
            assert_string_equal(words(t, m, -(double)INFINITY),
                                "points[17, 3] is negatively infinite (remove or replace it)");
            assert_string_equal(words(t, m, 0.5), "");
            assert_string_equal(words(t, m, -0.0), "");
        }
    }
    printf("NaN and infinities of every float type are refused under every metric, -0 is not\n");
}

static void too_large(void **state)
{
    (void)state;
    const double above = nextafter(0x1p500, (double)INFINITY);
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        assert_string_equal(words(KITH_F64, (kith_metric)metric, 0x1p500), "");
        assert_string_equal(words(KITH_F64, (kith_metric)metric, above),
                            "points[17, 3] is 3.2733906078961426e+150, beyond 2^500 in magnitude, "
                            "where squares overflow (scale the data down)");
    }
    assert_string_equal(words(KITH_F64, KITH_EUCLIDEAN, -0x1p500), "");
    assert_string_equal(words(KITH_F64, KITH_EUCLIDEAN, -above),
                        "points[17, 3] is -3.2733906078961426e+150, beyond 2^500 in magnitude, "
                        "where squares overflow (scale the data down)");
    assert_string_equal(words(KITH_F64, KITH_CUSTOM, above), "");
    assert_string_equal(words(KITH_F32, KITH_EUCLIDEAN, 3.4028234663852886e38), "");
    assert_string_equal(words(KITH_F16, KITH_EUCLIDEAN, 65504), "");
    printf("float64: 2^500 is accepted, the next number is refused, of either sign\n");
}

static void negative(void **state)
{
    (void)state;
    const kith_metric refusing[] = {KITH_CHI2, KITH_KL};
    const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16, KITH_I8};
    for (int i = 0; i < 5; i++) {
        for (int m = 0; m < 2; m++) {
            char expected[256];
            (void)snprintf(expected, sizeof expected,
                           "points[17, 3] is -2, but %s needs values that are not negative "
                           "(choose another metric, or shift the data)",
                           kith_metric_name(refusing[m]));
            assert_string_equal(words(dtypes[i], refusing[m], -2), expected);
        }
        assert_string_equal(words(dtypes[i], KITH_MANHATTAN, -2), "");
        assert_string_equal(words(dtypes[i], KITH_CUSTOM, -2), "");
    }
    assert_string_equal(words(KITH_F32, KITH_CHI2, -0x1p-149),
                        "points[17, 3] is -1.4012984643248171e-45, but chi2 needs values that are "
                        "not negative (choose another metric, or shift the data)");
    assert_string_equal(words(KITH_U8, KITH_KL, 255), "");
    printf("chi2 and kl refuse negatives of every signed type, down to the smallest\n");
}

static void too_small_for_kl(void **state)
{
    (void)state;
    assert_string_equal(words(KITH_F64, KITH_KL, 0x1p-500), "");
    assert_string_equal(words(KITH_F64, KITH_KL, 0), "");
    assert_string_equal(words(KITH_F64, KITH_KL, nextafter(0x1p-500, 0)),
                        "points[17, 3] is 3.0549363634996043e-151, but kl needs 0 or at least "
                        "2^-500 (set it to 0)");
    assert_string_equal(words(KITH_F64, KITH_CHI2, 0x1p-1074), "");
    assert_string_equal(words(KITH_F32, KITH_KL, 0x1p-149), "");
    printf("kl refuses float64 in (0, 2^-500), and only that\n");
}

static void lowest_is_named(void **state)
{
    (void)state;
    enum { N = 60000 };
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 8);
    test_rows rows = test_rows_make(KITH_F32, N, 50, 0);
    const int64_t places[][2] = {{N - 1, 0},  {N - 1, 49}, {51234, 7}, {40001, 2},
                                 {40001, 44}, {40000, 45}, {40000, 13}};
    for (int i = 0; i < 7; i++) {
        const double bad = i % 2 ? (double)INFINITY : (double)NAN;
        test_rows_set(&rows, places[i][0], places[i][1], bad);
    }
    for (int again = 0; again < 20; again++) {
        kin_forgive(ctx);
        assert_int_equal(kin_metric_check(ctx, &rows.matrix, KITH_EUCLIDEAN, "queries"),
                         KITH_E_DATA);
        assert_string_equal(kith_ctx_detail(ctx),
                            "queries[40000, 13] is NaN (remove or replace it)");
    }
    test_rows_set(&rows, 0, 49, -(double)INFINITY);
    kin_forgive(ctx);
    assert_int_equal(kin_metric_check(ctx, &rows.matrix, KITH_EUCLIDEAN, "a"), KITH_E_DATA);
    assert_string_equal(kith_ctx_detail(ctx),
                        "a[0, 49] is negatively infinite (remove or replace it)");
    test_rows_free(&rows);
    kith_ctx_free(ctx);
    printf("bad values in many places, 8 threads: always the lowest row, then column, is named\n");
}

/* A bad value at each place of rows of each length around the 16 values of a step. */
static void every_place_is_looked_at(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
        for (int32_t cols = 1; cols <= 40; cols++) {
            test_rows rows = test_rows_make((kith_dtype)dtype, 3, cols, 4);
            assert_int_equal(kin_metric_check(ctx, &rows.matrix, KITH_KL, "p"), KITH_OK);
            for (int32_t col = 0; col < cols && dtype != KITH_U8; col++) {
                char expected[64];
                (void)snprintf(expected, sizeof expected, "p[1, %d] is -1,", col);
                test_rows_set(&rows, 1, col, -1);
                kin_forgive(ctx);
                assert_int_equal(kin_metric_check(ctx, &rows.matrix, KITH_KL, "p"), KITH_E_DATA);
                assert_memory_equal(kith_ctx_detail(ctx), expected, strlen(expected));
                test_rows_set(&rows, 1, col, 0);
            }
            test_rows_free(&rows);
        }
    }
    kith_ctx_free(ctx);
    printf("each place of rows of 1 to 40 values is looked at, nothing outside the rows is\n");
}

/* The words of the check hold four 16-bit numbers each; every number is tried at every place. */
static void every_half_is_judged(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    const kith_metric judges[] = {KITH_EUCLIDEAN, KITH_CHI2};
    for (int i = 0; i < 4; i++) {
        const kith_dtype dtype = i % 2 ? KITH_F16 : KITH_BF16;
        const kith_metric metric = judges[i / 2];
        const uint32_t infinity = dtype == KITH_F16 ? 0x7c00 : 0x7f80;
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t row[4] = {0x3c00, 0x0001, 0x3c00, 0x0001};
            row[bits % 4] = (uint16_t)bits;
            const kith_matrix m = {
                .data = row, .rows = 1, .stride_bytes = 8, .cols = 4, .dtype = dtype};
            const bool finite = (bits & 0x7fff) < infinity;
            const bool good = finite && (metric == KITH_EUCLIDEAN || bits <= 0x8000);
            kin_forgive(ctx);
            assert_int_equal(kin_metric_check(ctx, &m, metric, "p"), good ? KITH_OK : KITH_E_DATA);
        }
    }
    kith_ctx_free(ctx);
    printf("all 65,536 numbers of float16 and bfloat16 are judged rightly, beside neighbours\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_a_number),
        cmocka_unit_test(too_large),
        cmocka_unit_test(negative),
        cmocka_unit_test(too_small_for_kl),
        cmocka_unit_test(lowest_is_named),
        cmocka_unit_test(every_place_is_looked_at),
        cmocka_unit_test(every_half_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
