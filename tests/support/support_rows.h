/* SPDX-License-Identifier: Apache-2.0
 * Rows for tests: random values of any dtype in memory that ends at a forbidden page, with NaN
 * (all bits set) between the rows, so that reading outside a row is noticed. */
#ifndef SUPPORT_ROWS_H
#define SUPPORT_ROWS_H

#include "kith/kith.h"

typedef struct test_rows {
    kith_matrix matrix;
    unsigned char *map;
    size_t map_bytes;
} test_rows;

/* A matrix of zeros; gap bytes lie between one row's end and the next one's start. */
test_rows test_rows_make(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap);
void test_rows_free(test_rows *rows);

/* Stores the value of the dtype that is near x (exactly x, where the dtype has it). */
void test_rows_set(const test_rows *rows, int64_t row, int64_t col, double x);
/* Row `to` becomes a copy of row `from` (of a matrix with the same dtype and cols). */
void test_rows_copy(const test_rows *rows, int64_t to, const test_rows *source, int64_t from);
/* Uniform in [-scale, scale] ([0, scale] if nonnegative), a fifth of them 0. */
void test_rows_fill(const test_rows *rows, double scale, int nonnegative, uint64_t *seed);

/* Minkowski distances of two powers: one is made by products, one by logarithms. */
#define TEST_MINKOWSKI_3 ((kith_metric)(KITH_MINKOWSKI + 3 * KITH_POWER_STEPS * KITH_POWER_FIRST))
#define TEST_MINKOWSKI_2_5 \
    ((kith_metric)(KITH_MINKOWSKI + 5 * KITH_POWER_STEPS / 2 * KITH_POWER_FIRST))

/* The metric behind one: those with a row of their own up to KITH_KL, then these; behind the last
 * one 0. */
static inline int test_next_metric(int metric)
{
    return metric < KITH_KL             ? metric + 1
           : metric == KITH_KL          ? (int)TEST_MINKOWSKI_3
           : metric == TEST_MINKOWSKI_3 ? (int)TEST_MINKOWSKI_2_5
                                        : 0;
}

/* Uniform in [0, 1). */
double test_uniform(uint64_t *seed);

#endif
