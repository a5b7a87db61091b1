/* SPDX-License-Identifier: Apache-2.0
 * Data for tests of selection, and one call of kith_select against rows that are known in order. */
#ifndef SUPPORT_SELECTIONS_H
#define SUPPORT_SELECTIONS_H

#include "support/support_rows.h"

#include <stdbool.h>

typedef enum test_run {
    TEST_RUN_UNIFORM = 0,
    TEST_RUN_ASCENDING,
    TEST_RUN_DESCENDING,
    TEST_RUN_CONSTANT,
    TEST_RUN_FEW, /* seven different values */
    TEST_RUN_ORGAN_PIPE,
    TEST_RUN_SPECIALS,  /* NaN, infinities, both zeros, subnormals, the largest */
    TEST_RUN_ALL_NAN,   /* of both signs */
    TEST_RUN_ADVERSARY, /* bad for a quick select that takes the median of three */
    TEST_RUNS
} test_run;

typedef enum test_ids {
    TEST_IDS_PLACES = 0,
    TEST_IDS_GIVEN,
    TEST_IDS_REPEATED,
    TEST_IDS_KINDS
} test_ids;

void test_run_fill(double *values, int64_t n, test_run kind, uint64_t *seed);
/* Not for TEST_IDS_PLACES. One in eight is KITH_ID_NONE: with NaN that is the worst there is. */
uint32_t test_id_given(test_ids kind, int64_t place, uint64_t *seed);

/* A matrix, and what its rows begin with in order. */
typedef struct test_values {
    kith_values values;
    test_rows rows;
    test_rows ids; /* float32 rows hold them: a forbidden page ends them, too */
    bool largest;  /* what `sorted` is in order of */
    int64_t known; /* places of a row that are known in order */
    char *sorted;  /* rows x known */
    uint32_t *sorted_ids;
} test_values;

/* gap: values between one row's end and the next one's start. Rows stand wherever they fall: an odd
 * number of columns, or of gaps, puts them off every alignment. */
test_values test_values_make(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap,
                             test_run kind, test_ids ids, uint64_t *seed);
void test_values_free(test_values *v);
/* All of every row, by the oracle. */
void test_values_sort(test_values *v, bool largest);
/* The first `known` of every row, by ctx. */
void test_values_sort_by(test_values *v, kith_ctx *ctx, int64_t known, bool largest);

/* How an answer is asked for. */
typedef enum test_parts {
    TEST_BOTH_PARTS = 0,
    TEST_VALUES_ALONE,
    TEST_IDS_ALONE,
    TEST_KTH
} test_parts;

/* "merge_queue, buffer 2 of 16, group 4, sample 0, level 8, flags 0, k 10" */
const char *test_selection_text(const kith_select_params *params, char *text, size_t bytes);
/* Compares rows of an answer, of which a part may be NULL, with the sorted ones; the first
 * difference is printed. Without KITH_SELECT_UNSORTED byte for byte, else as sets. */
bool test_selection_is_right(const test_values *v, const kith_select_params *params, void *values,
                             uint32_t *ids);
/* Calls kith_select and compares; a refusal is printed and is not right. */
bool test_select(const test_values *v, kith_ctx *ctx, const kith_select_params *params,
                 test_parts parts);

/* Every method with each of its switches; k and flags are left to the caller. Returns how many. */
enum { TEST_SELECT_VARIANTS = 96 };
int test_select_variants(kith_select_params variants[TEST_SELECT_VARIANTS]);

#endif
