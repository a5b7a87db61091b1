/* SPDX-License-Identifier: Apache-2.0
 * Random jobs of ground truth: metrics, types, shapes, files, parts and filters; and what all their
 * tests look at. */
#ifndef TEST_SUPPORT_TRUTH_H
#define TEST_SUPPORT_TRUTH_H

#include "kith/kith.h"
#include "support/support_shapes.h"

#include <stdbool.h>

enum { MOST_ROWS = 320, MOST_QUERIES = 24, MOST_K = 40, MOST_FILES = 5 };

typedef struct test_candidate {
    double key;
    int64_t id;
} test_candidate;

int test_candidate_compare(const void *a, const void *b);
bool test_truths_allows(const kith_filter *filter, int64_t query, int64_t row);

typedef struct test_truths_answer {
    uint64_t ids[MOST_QUERIES * MOST_K];
    double distances[MOST_QUERIES * MOST_K];
    int64_t ties[MOST_QUERIES];
    int64_t tied;
    int64_t beyond;
} test_truths_answer;

typedef struct test_truths_input {
    test_rows corpus;
    test_rows queries;
    kith_matrix files[MOST_FILES];
    int32_t count;
    kith_filter filter;
    uint8_t allow[MOST_QUERIES * (MOST_ROWS / 8 + 1)];
    int64_t groups[MOST_ROWS];
    int64_t query_groups[MOST_QUERIES];
    kith_truth_params params;
    test_truths_answer got;
} test_truths_input;

int64_t test_pick(uint64_t *seed, int64_t most);
test_truths_input *test_truths_make(kith_metric metric, uint64_t *seed);
void test_truths_free(test_truths_input *in);
kith_status test_truths_find(kith_ctx *ctx, test_truths_input *in, kith_truth_report *report);

/* Lists and ties by the oracle; the caller's to free. What was found is that, and is told as such;
 * *recounted: ties that were counted pair by pair, added. */
test_truths_answer *test_truths_brute(const test_truths_input *in);
void test_truths_check(const test_truths_input *in, const test_truths_answer *wanted);
void test_truths_check_found(kith_ctx *ctx, test_truths_input *in, const test_truths_answer *wanted,
                             int64_t *recounted);

/* kith_truth_params.take: ends the job when *arg parts are done. */
int test_stop_after_some(void *arg, int64_t rows);
void test_same_file(const char *a, const char *b);

#endif
