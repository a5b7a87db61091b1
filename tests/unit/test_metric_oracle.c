/* SPDX-License-Identifier: Apache-2.0
 * The oracle itself: against the textbook's formulas in long double, and on points whose neighbours
 * everybody can name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle/plain_knn.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>

enum { COLS = 29 };

/* 1 - the cosine of q - mq and c - mc. */
static long double angle(const long double *q, long double mq, const long double *c, long double mc)
{
    long double qq = 0;
    long double cc = 0;
    long double qc = 0;
    for (int i = 0; i < COLS; i++) {
        qq += (q[i] - mq) * (q[i] - mq);
        cc += (c[i] - mc) * (c[i] - mc);
        qc += (q[i] - mq) * (c[i] - mc);
    }
    return 1 - qc / sqrtl(qq * cc);
}

static long double textbook(kith_metric metric, const long double *q, const long double *c)
{
    long double sum = 0;
    long double most = 0;
    long double mean_q = 0;
    long double mean_c = 0;
    int either = 0;
    int both = 0;
    for (int i = 0; i < COLS; i++) {
        const long double t = q[i] - c[i];
        mean_q += q[i] / COLS;
        mean_c += c[i] / COLS;
        most = fmaxl(most, fabsl(t));
        either += q[i] != 0 || c[i] != 0;
        both += q[i] != 0 && c[i] != 0;
        sum += metric == KITH_INNER_PRODUCT             ? q[i] * c[i]
               : metric == TEST_MINKOWSKI_3             ? powl(fabsl(t), 3.0L)
               : metric == TEST_MINKOWSKI_2_5           ? powl(fabsl(t), 2.5L)
               : metric == KITH_MANHATTAN               ? fabsl(t)
               : metric == KITH_CHI2 && q[i] + c[i] > 0 ? t * t / (q[i] + c[i])
               : metric == KITH_HAMMING                 ? (long double)(t != 0) / COLS
               : metric == KITH_KL                      ? (q[i] > 0 ? q[i] * logl(q[i] / c[i]) : 0)
               : metric == KITH_CHI2                    ? 0
                                                        : t * t;
    }
    return metric == KITH_EUCLIDEAN       ? sqrtl(sum)
           : metric == KITH_COSINE        ? angle(q, 0, c, 0)
           : metric == KITH_CORRELATION   ? angle(q, mean_q, c, mean_c)
           : metric == KITH_CHEBYSHEV     ? most
           : metric == TEST_MINKOWSKI_3   ? powl(sum, 1.0L / 3.0L)
           : metric == TEST_MINKOWSKI_2_5 ? powl(sum, 1.0L / 2.5L)
           : metric == KITH_JACCARD       ? 1 - (long double)both / (long double)either
                                          : sum;
}

static void oracle_means_the_textbook(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (int again = 0; again < 100; again++) {
        test_rows rows = test_rows_make(KITH_F64, 2, COLS, 0);
        long double x[2][COLS];
        for (int i = 0; i < 2 * COLS; i++) {
            const double u = test_uniform(&seed);
            const double value = u < 0.2 && i < COLS ? 0 : 10 * u;
            test_rows_set(&rows, i / COLS, i % COLS, value);
            x[i / COLS][i % COLS] = value;
        }
        for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
            const kith_metric m = (kith_metric)metric;
            const double key = oracle_key(m, &rows.matrix, 0, &rows.matrix, 1);
            const long double expected = textbook(m, x[0], x[1]);
            const long double error = fabsl((long double)oracle_distance(m, key) - expected);
            assert_true(error <= 1e-13L * (1 + fabsl(expected)));
        }
        test_rows_free(&rows);
    }
    printf("the oracle agrees with the textbook's formulas to 1e-13 for all metrics\n");
}

static void oracle_orders_by_key_and_id(void **state)
{
    (void)state;
    test_rows line = test_rows_make(KITH_U8, 6, 1, 0);
    const double places[] = {5, 4, 6, 5, 0, 9};
    for (int64_t i = 0; i < 6; i++) {
        test_rows_set(&line, i, 0, places[i]);
    }
    uint32_t ids[6 * 4];
    double keys[6 * 4];
    oracle_knn(KITH_EUCLIDEAN, &line.matrix, &line.matrix, 4, 1, ids, keys);
    const uint32_t of_first[] = {3, 1, 2, 5};
    const double at[] = {0, 1, 1, 16};
    assert_memory_equal(ids, of_first, sizeof of_first);
    assert_memory_equal(keys, at, sizeof at);
    oracle_knn(KITH_EUCLIDEAN, &line.matrix, &line.matrix, 4, 0, ids, keys);
    const uint32_t with_self[] = {0, 3, 1, 2};
    assert_memory_equal(ids, with_self, sizeof with_self);
    assert_memory_equal(ids + 3 * 4, with_self, sizeof with_self);
    test_rows_free(&line);
    printf("ties go to the smaller id; a point's own id is left out, its duplicate is not\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_means_the_textbook),
        cmocka_unit_test(oracle_orders_by_key_and_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
