/* SPDX-License-Identifier: Apache-2.0
 * Answers of the engines against the oracle's, byte for byte. */
#ifndef SUPPORT_ANSWERS_H
#define SUPPORT_ANSWERS_H

#include "kith/kith.h"

#include <stdbool.h>

/* Room for an answer, filled with what no engine writes. */
kith_neighbors test_answer_make(int64_t rows, int64_t k);
void test_answer_free(kith_neighbors *answer);
bool test_answers_equal(const kith_neighbors *a, const kith_neighbors *b);
/* The library's exact graph; its flags are those of kith_search_params. */
kith_neighbors test_answer_exact(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                                 int64_t k, uint32_t flags);

/* What the oracle says of some rows: `wide` entries each, nobody left out. */
typedef struct test_truth {
    kith_metric metric;
    int64_t rows;
    int64_t wide;
    uint32_t *ids;
    double *keys;
} test_truth;

test_truth test_truth_make(kith_metric metric, const kith_matrix *queries,
                           const kith_matrix *corpus, int64_t wide);
void test_truth_free(test_truth *truth);

/* Whether row `row` of the answer is row `asked` of the truth without the id left_out
 * (KITH_ID_NONE: nobody). A difference is printed. */
bool test_row_is_true(const kith_neighbors *answer, int64_t row, const test_truth *truth,
                      int64_t asked, uint32_t left_out);

#endif
