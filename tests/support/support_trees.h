/* SPDX-License-Identifier: Apache-2.0
 * A job by the tree, or by the buffer tree, and by all pairs: the bytes must be the same. */
#ifndef SUPPORT_TREES_H
#define SUPPORT_TREES_H

#include "support/support_compare.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

/* The metrics that have a tree. */
enum { TEST_TREE_METRICS = 4 };
extern const kith_metric test_tree_metrics[TEST_TREE_METRICS];

/* Cases of a test. */
typedef struct test_trees {
    kith_ctx *ctx;          /* of the tree */
    kith_ctx *wanted;       /* of all pairs; NULL: ctx */
    kith_pipeline pipeline; /* FUSED: the tree, else the buffer tree, and */
    int32_t leaf_buffer;
    int32_t tree_height; /* where the points fill it */
    int cases;
    int wrong;
} test_trees;

/* By the tree on the best engine, and by all pairs: of the same processor, or, where the engines
 * are a GPU, of the processor. */
test_trees test_trees_make(int32_t threads);
void test_trees_free(test_trees *t);

kith_status test_trees_solve(kith_ctx *ctx, const test_job *job, kith_method method,
                             kith_neighbors *out);
/* Counts a case, and prints a difference. job.call is set by whether there are queries. */
void test_trees_compare(test_trees *t, test_job job);
/* Graph with and without own ids; search with and without excluded ids. */
void test_trees_four(test_trees *t, const test_rows *points, const test_rows *queries,
                     kith_metric metric, int64_t k, const char *name);
/* Prints what was proven; fails where something was wrong. */
void test_trees_end(const test_trees *t, const char *what);

test_rows test_trees_rows(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape,
                          uint64_t seed);
/* Ids that queries leave out, among them none; free() gives them back. */
uint32_t *test_trees_excluded(int64_t queries, int64_t rows);

#endif
