/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs for tests: made, looked over, and held against the exact engine in a sample of
 * their rows. */
#ifndef SUPPORT_DESCENTS_H
#define SUPPORT_DESCENTS_H

#include "graph/graph.h"
#include "graph/graph_start.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

kith_ctx *test_descent_ctx(int32_t threads);
test_rows test_descent_rows(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape,
                            bool nonnegative);
kin_graph_request test_descent_request(const kith_ctx *ctx, const test_rows *rows,
                                       kith_metric metric, int64_t k);

/* Rows of the sample, every so many; their true neighbours. */
typedef struct test_descent_truth {
    int64_t count;
    uint32_t *ids;
    kith_neighbors neighbors;
} test_descent_truth;
test_descent_truth test_descent_truth_make(kith_ctx *ctx, const test_rows *rows,
                                           const kin_graph_request *request);
void test_descent_truth_free(test_descent_truth *truth);

/* Share of found neighbours that are at most as far as the true k-th. */
double test_descent_recall(const kith_neighbors *answer, const test_descent_truth *truth,
                           kith_metric metric);

/* A graph, which is checked: rows ascending by (distance, id), k different ids that are rows, the
 * own not among them where it is left out. Freed with test_answer_free. */
kith_neighbors test_descent_solve(kith_ctx *ctx, const test_rows *rows,
                                  const kin_graph_request *request, kin_graph_outcome *outcome);

/* A graph against the exact engine; prints what it was, fails below `floor`. */
void test_descent_check(kith_ctx *ctx, const char *name, const test_rows *rows,
                        const kin_graph_request *request, double floor);

/* Whether a list is what it has to be: ascending, distinct, without its own position, nothing
 * behind an empty place, positions below `points`. */
bool test_list_is_sound(const kin_graph_lists *lists, int64_t position);

/* What a test of public calls has made; the state of its cases. */
typedef struct test_descent_fixture {
    kith_ctx *ctx;
    test_rows points;
    kith_neighbors truth; /* of some graph */
    kith_neighbors out;
} test_descent_fixture;
int test_descent_drop(void **state);
kith_descent_params test_descent_params(int64_t k);

/* A distance of a caller: Manhattan, of float rows. */
double test_descent_manhattan(void *arg, const void *query, const void *point, int32_t cols);

#endif
