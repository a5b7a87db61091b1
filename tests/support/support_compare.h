/* SPDX-License-Identifier: Apache-2.0
 * One job on two contexts: statuses, sentences and answers must be the same bytes. A difference is
 * printed and counted, and the test goes on: one run tells everything. */
#ifndef SUPPORT_COMPARE_H
#define SUPPORT_COMPARE_H

#include "kith/kith.h"

#include <stdbool.h>

typedef enum test_call {
    TEST_GRAPH = 0,
    TEST_SEARCH,
    TEST_BOTH, /* rows of points first, then those of queries */
    TEST_PREPARED
} test_call;

typedef struct test_job {
    const char *name; /* of the data */
    test_call call;
    const kith_matrix *points;
    const kith_matrix *queries; /* not for graphs */
    kith_metric metric;
    int64_t k;
    uint32_t flags;
    const uint32_t *exclude;
    kith_pipeline pipeline; /* test_compare: of `got`; what is wanted is the fused answer */
    kith_select_method select;
    int32_t sample;      /* of the pipeline hybrid, and */
    int32_t batch;       /* queries of a batch of it */
    int32_t leaf_buffer; /* of the pipeline buffer_tree, and */
    int32_t tree_height; /* of the tree */
    kith_method method;
} test_job;

typedef struct test_tally {
    int cases;
    int refused; /* of them: both contexts gave the same error */
    int lacking; /* of them: device memory did not suffice, and was allowed not to */
    int wrong;
} test_tally;

/* Solves a job; *out is to be freed also when it fails. */
kith_status test_job_solve(kith_ctx *ctx, const test_job *job, kith_neighbors *out);
/* "graph gauss, euclidean, uint8 1000 x 12, k 10, flags 0" */
const char *test_job_text(const test_job *job, char *text, size_t bytes);

/* Whether the answers differ; the number of rows that do and the first difference are printed. */
bool test_answers_differ(const char *what, const kith_neighbors *wanted, const kith_neighbors *got);

void test_compare(kith_ctx *wanted, kith_ctx *got, const test_job *job, test_tally *tally);
/* The same; where may_lack, KITH_E_DEVICE_MEMORY of `got` is right, too. */
void test_compare_fitting(kith_ctx *wanted, kith_ctx *got, const test_job *job, bool may_lack,
                          test_tally *tally);
/* Prints what was proven; fails the test where something was wrong. */
void test_tally_end(const test_tally *tally, const char *what);

#endif
