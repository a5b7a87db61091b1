/* SPDX-License-Identifier: Apache-2.0
 * Rows that break wrong arithmetic: copies, constants, zeros, the ends of the number range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle/plain_knn.h"
#include "support/support_keys.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs a test once for each body of this processor. */
static void for_each_body(void (*test)(kith_ctx *ctx))
{
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    for (int b = 0; b < bodies; b++) {
        kith_ctx *ctx = test_ctx(isas[b], 1);
        test(ctx);
        kith_ctx_free(ctx);
    }
}

static double key_of(kith_ctx *ctx, kith_metric metric, const test_rows *rows, int64_t q,
                     uint32_t c)
{
    double key = NAN;
    test_keys(ctx, metric, &rows->matrix, q, &rows->matrix, &c, 1, &key);
    return key;
}

static void assert_bits(double found, double expected)
{
    if (memcmp(&found, &expected, sizeof found) != 0) {
        print_error("%a is not %a\n", found, expected);
    }
    assert_memory_equal(&found, &expected, sizeof found);
}

static void set_row(const test_rows *rows, int64_t row, double x)
{
    for (int32_t col = 0; col < rows->matrix.cols; col++) {
        test_rows_set(rows, row, col, x);
    }
}

/* ---- Cosine of copies and multiples --------------------------------------------------------- */

static void cosine_of_multiples(kith_ctx *ctx)
{
    enum { COUNT = 5000 };
    uint64_t seed = 11;
    const kith_metric both[] = {KITH_COSINE, KITH_CORRELATION};
    for (int i = 0; i < COUNT; i++) {
        const int32_t cols = 2 + (int32_t)(test_uniform(&seed) * 40);
        test_rows rows = test_rows_make(i % 2 ? KITH_F64 : KITH_F32, 4, cols, 0);
        for (int32_t col = 0; col < cols; col++) {
            const double x = (float)(test_uniform(&seed) + 0.01);
            for (int times = 1; times <= 3; times++) {
                test_rows_set(&rows, times, col, times * x);
            }
            test_rows_set(&rows, 0, col, x);
        }
        for (int m = 0; m < 2; m++) {
            assert_bits(key_of(ctx, both[m], &rows, 0, 1), 0.0);
            assert_bits(key_of(ctx, both[m], &rows, 0, 2), 0.0);
        }
        if (i % 2) { /* 3x is exact in double, not in float32 */
            assert_true(key_of(ctx, KITH_COSINE, &rows, 0, 3) < 1e-30);
        }
        test_rows_free(&rows);
    }
}

static void cosine_of_copies_is_zero(void **state)
{
    (void)state;
    for_each_body(cosine_of_multiples);
    printf("cosine and correlation of 5,000 rows with their copy and their double are exactly 0, "
           "cosine with three times the row is below 1e-30\n");
}

/* ---- Masked tails and constant rows --------------------------------------------------------- */

static void correlation_tails(kith_ctx *ctx)
{
    const int32_t dims[] = {1, 3, 9, 11};
    for (int i = 0; i < 4; i++) {
        const int32_t cols = dims[i];
        test_rows rows = test_rows_make(KITH_F32, 2, cols, 0);
        /* Rising against rising squared: all of it is far from mean 0. */
        for (int32_t col = 0; col < cols; col++) {
            test_rows_set(&rows, 0, col, 100 + col);
            test_rows_set(&rows, 1, col, 1000 + col * col);
        }
        const double key = key_of(ctx, KITH_CORRELATION, &rows, 0, 1);
        assert_bits(key, oracle_key(KITH_CORRELATION, &rows.matrix, 0, &rows.matrix, 1));
        /* Pearson's r of x and x^2 over 0 .. d - 1, in plain arithmetic. */
        double n = cols, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
        for (int32_t col = 0; col < cols; col++) {
            const double square = (double)col * col;
            x += col;
            y += square;
            xx += square;
            yy += square * square;
            xy += col * square;
        }
        const double r =
            cols == 1 ? 0 : (n * xy - x * y) / sqrt((n * xx - x * x) * (n * yy - y * y));
        assert_true(fabs(key - (1 - r)) < 1e-12);
        test_rows_free(&rows);
    }
    test_rows constant = test_rows_make(KITH_F64, 3, 11, 0);
    set_row(&constant, 0, 0.1);
    set_row(&constant, 1, 0.1);
    for (int32_t col = 0; col < 11; col++) {
        test_rows_set(&constant, 2, col, col);
    }
    for (int64_t q = 0; q < 3; q++) {
        for (uint32_t c = 0; c < 2; c++) {
            assert_bits(key_of(ctx, KITH_CORRELATION, &constant, q, c), 1.0);
        }
    }
    assert_bits(key_of(ctx, KITH_CORRELATION, &constant, 2, 2), 0.0);
    test_rows_free(&constant);
}

static void correlation_masks_its_tail(void **state)
{
    (void)state;
    for_each_body(correlation_tails);
    printf("correlation at d = 1, 3, 9, 11 is 1 - r: what lies behind the row adds nothing; a "
           "constant row of 0.1 has distance 1 to everything\n");
}

static void zeros(kith_ctx *ctx)
{
    for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
        uint64_t seed = 12;
        test_rows rows = test_rows_make((kith_dtype)dtype, 6, 19, 1);
        test_rows_fill(&rows, 100, 1, &seed);
        set_row(&rows, 1, 0);
        set_row(&rows, 4, 0);
        set_row(&rows, 5, dtype == KITH_U8 ? 0 : -0.0);
        for (uint32_t other = 0; other < 6; other++) {
            assert_bits(key_of(ctx, KITH_COSINE, &rows, 1, other), 1.0);
            assert_bits(key_of(ctx, KITH_COSINE, &rows, other, 4), 1.0);
            assert_bits(key_of(ctx, KITH_COSINE, &rows, other, 5), 1.0);
            assert_bits(key_of(ctx, KITH_CORRELATION, &rows, other, 5), 1.0);
        }
        assert_bits(key_of(ctx, KITH_COSINE, &rows, 2, 2), 0.0);
        test_rows_free(&rows);
    }
}

static void zero_rows_are_at_distance_one(void **state)
{
    (void)state;
    for_each_body(zeros);
    printf("rows of zeros, of either sign, as query and as candidate: the key is exactly 1\n");
}

/* ---- The ends of the range of numbers ------------------------------------------------------- */

static void ends(kith_ctx *ctx)
{
    const double sizes[] = {0x1p500, 1e-160, 1e-300, 0x1p-1074, 0x1p-1040};
    for (int s = 0; s < 5; s++) {
        test_rows rows = test_rows_make(KITH_F64, 5, 13, 3);
        uint64_t seed = 13;
        test_rows_fill(&rows, sizes[s], 0, &seed);
        set_row(&rows, 1, sizes[s]);
        set_row(&rows, 2, -sizes[s]);
        test_rows_set(&rows, 2, 12, sizes[s]);
        for (int metric = KITH_EUCLIDEAN; metric <= KITH_JACCARD; metric++) {
            if (kin_metric_get_traits((kith_metric)metric)->nonnegative) {
                continue;
            }
            for (int64_t q = 0; q < 5; q++) {
                for (uint32_t c = 0; c < 5; c++) {
                    const kith_metric m = (kith_metric)metric;
                    const double key = key_of(ctx, m, &rows, q, c);
                    assert_true(key - key == 0); /* neither NaN nor infinite */
                    assert_bits(key, oracle_key(m, &rows.matrix, q, &rows.matrix, c));
                }
            }
        }
        assert_bits(key_of(ctx, KITH_COSINE, &rows, 1, 1), 0.0);
        assert_true(fabs(key_of(ctx, KITH_COSINE, &rows, 1, 2) - (1 + 11.0 / 13.0)) < 1e-12);
        if (s == 2) {
            assert_bits(key_of(ctx, KITH_EUCLIDEAN, &rows, 0, 1), 0.0);
        }
        test_rows_free(&rows);
    }
    /* The longest row: sums of squares of differences of 2^501 stay finite. */
    test_rows wide = test_rows_make(KITH_F64, 2, 1 << 20, 0);
    set_row(&wide, 0, 0x1p500);
    set_row(&wide, 1, -0x1p500);
    assert_bits(key_of(ctx, KITH_SQEUCLIDEAN, &wide, 0, 1), ldexp(1, 1002 + 20));
    assert_bits(key_of(ctx, KITH_INNER_PRODUCT, &wide, 0, 1), ldexp(1, 1000 + 20));
    assert_bits(key_of(ctx, KITH_COSINE, &wide, 0, 1), 2.0);
    test_rows_free(&wide);
}

static void ends_of_the_range(void **state)
{
    (void)state;
    for_each_body(ends);
    printf("float64 of 2^500 down to the least subnormal: no overflow, no NaN, cosine unharmed; "
           "keys that vanish are +0\n");
}

static void signs_of_zero(kith_ctx *ctx)
{
    test_rows rows = test_rows_make(KITH_F32, 4, 9, 0);
    set_row(&rows, 0, -0.0);
    set_row(&rows, 1, 0.0);
    set_row(&rows, 2, -3.0);
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        const kith_metric m = (kith_metric)metric;
        if (m != KITH_COSINE && m != KITH_CORRELATION) {
            assert_bits(key_of(ctx, m, &rows, 0, 1), 0.0);
            assert_bits(key_of(ctx, m, &rows, 1, 0), 0.0);
        }
    }
    assert_bits(key_of(ctx, KITH_INNER_PRODUCT, &rows, 2, 0), 0.0);
    assert_bits(key_of(ctx, KITH_INNER_PRODUCT, &rows, 2, 1), 0.0);
    assert_bits(kin_metric_distance(KITH_INNER_PRODUCT, 0.0), 0.0);
    test_rows_free(&rows);
}

static void no_key_is_minus_zero(void **state)
{
    (void)state;
    for_each_body(signs_of_zero);
    printf("rows of -0 and +0, and products that are all zero: every key is +0\n");
}

/* ---- Symmetry, distances -------------------------------------------------------------------- */

static void symmetry(kith_ctx *ctx)
{
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        const kith_metric m = (kith_metric)metric;
        const kin_metric_traits *traits = kin_metric_get_traits(m);
        int unequal = 0;
        uint64_t seed = 14;
        for (int i = 0; i < 200; i++) {
            test_rows rows = test_rows_make(i % 2 ? KITH_F32 : KITH_F64, 2, 1 + i % 37, 0);
            test_rows_fill(&rows, 10, traits->nonnegative, &seed);
            const double there = key_of(ctx, m, &rows, 0, 1);
            const double back = key_of(ctx, m, &rows, 1, 0);
            unequal += memcmp(&there, &back, sizeof there) != 0;
            test_rows_free(&rows);
        }
        assert_true(traits->symmetric ? unequal == 0 : unequal > 10);
    }
}

static void key_is_symmetric_where_promised(void **state)
{
    (void)state;
    for_each_body(symmetry);
    printf("key(i, j) and key(j, i) have the same bits for every metric that says so; kl does "
           "not\n");
}

static void distance_of_a_key(void **state)
{
    (void)state;
    assert_bits(kin_metric_distance(KITH_EUCLIDEAN, 2.0), sqrt(2.0));
    assert_bits(kin_metric_distance(KITH_SQEUCLIDEAN, 2.0), 2.0);
    assert_bits(kin_metric_distance(KITH_INNER_PRODUCT, -7.5), 7.5);
    assert_bits(kin_metric_distance(KITH_KL, (double)INFINITY), (double)INFINITY);
    assert_bits(kin_metric_distance(KITH_CUSTOM, -3.0), -3.0);
    assert_true(kin_metric_within(KITH_EUCLIDEAN, 2.0, 2.0));
    assert_false(kin_metric_within(KITH_EUCLIDEAN, 2.5, 2.0));
    assert_true(kin_metric_within(KITH_INNER_PRODUCT, 2.0, 2.0));
    assert_true(kin_metric_within(KITH_INNER_PRODUCT, 2.5, 2.0));
    assert_false(kin_metric_within(KITH_INNER_PRODUCT, 1.5, 2.0));
    printf("a distance is its key's root, negative, or itself; a radius includes its edge\n");
}

/* kl of rows whose value is known, and its two special cases. */
static void kl_special(kith_ctx *ctx)
{
    test_rows rows = test_rows_make(KITH_F32, 5, 3, 0);
    const double values[5][3] = {{1, 2, 4}, {2, 1, 4}, {1, 0, 4}, {0, 0, 0}, {1, 2, 4}};
    for (int64_t row = 0; row < 5; row++) {
        for (int64_t col = 0; col < 3; col++) {
            test_rows_set(&rows, row, col, values[row][col]);
        }
    }
    assert_true(fabs(key_of(ctx, KITH_KL, &rows, 0, 1) - log(2)) < 1e-15);
    assert_bits(key_of(ctx, KITH_KL, &rows, 0, 4), 0.0);
    assert_bits(key_of(ctx, KITH_KL, &rows, 0, 2), (double)INFINITY);
    assert_bits(key_of(ctx, KITH_KL, &rows, 2, 0), 0.0);
    assert_bits(key_of(ctx, KITH_KL, &rows, 3, 2), 0.0);
    test_rows_free(&rows);
}

static void kl_of_known_rows(void **state)
{
    (void)state;
    for_each_body(kl_special);
    printf("kl: 0 for a copy and where the query is 0, infinite where only the point is 0\n");
}

/* ---- A caller's own function ---------------------------------------------------------------- */

static double last_byte_difference(void *arg, const void *query, const void *point, int32_t cols)
{
    *(int *)arg += 1;
    const signed char *q = query;
    const signed char *c = point;
    return -1.0 * (q[cols - 1] - c[cols - 1]);
}

static void custom_function_sees_raw_rows(void **state)
{
    (void)state;
    test_rows rows = test_rows_make(KITH_I8, 4, 5, 2);
    for (int64_t row = 0; row < 4; row++) {
        test_rows_set(&rows, row, 4, (double)row - 1);
    }
    int calls = 0;
    const kin_distance distance = {
        .metric = KITH_CUSTOM, .cols = 5, .custom = last_byte_difference, .custom_arg = &calls};
    const kin_rows all = {rows.matrix, NULL};
    _Alignas(64) double values[8];
    double keys[3];
    const kin_query query = kin_metric_load(&distance, &all, 2, values);
    kin_metric_keys_run(&distance, &query, &all, 1, 3, keys);
    assert_int_equal(calls, 3);
    assert_bits(keys[0], -1.0);
    assert_bits(keys[1], 0.0);
    assert_bits(keys[2], 1.0);
    test_rows_free(&rows);
    printf("a caller's own function gets the rows in their own type; its -0 becomes +0\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosine_of_copies_is_zero),
        cmocka_unit_test(correlation_masks_its_tail),
        cmocka_unit_test(zero_rows_are_at_distance_one),
        cmocka_unit_test(ends_of_the_range),
        cmocka_unit_test(no_key_is_minus_zero),
        cmocka_unit_test(key_is_symmetric_where_promised),
        cmocka_unit_test(distance_of_a_key),
        cmocka_unit_test(kl_of_known_rows),
        cmocka_unit_test(custom_function_sees_raw_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
