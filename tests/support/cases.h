/* SPDX-License-Identifier: Apache-2.0
 * Suites that CPU and GPU share: each runs its cases on the engines of support_engines.h and prints
 * what it proves. */
#ifndef SUPPORT_CASES_H
#define SUPPORT_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct test_suite {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
} test_suite;

/* Data on which wrong engines give wrong answers. */
extern const test_suite test_suite_numerics;
/* Every metric, type, size and shape of data against the oracle. */
extern const test_suite test_suite_oracle;
/* One answer, however it is computed; real data in the folder KITH_DATA. */
extern const test_suite test_suite_same_bytes;
/* The tree against all pairs. */
extern const test_suite test_suite_tree;
/* Neighbours under a filter, and refusals of one. */
extern const test_suite test_suite_filter;
/* Pairs within a radius, and ground truth. */
extern const test_suite test_suite_pairs;
/* Neighbours in periodic boxes. */
extern const test_suite test_suite_period;
/* Places of a sphere by the tree. */
extern const test_suite test_suite_places;

/* How many failed. */
static inline int test_suite_run(const test_suite *suite)
{
    return _cmocka_run_group_tests(suite->name, suite->tests, suite->count, NULL, NULL);
}

#endif
