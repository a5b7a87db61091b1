/* SPDX-License-Identifier: Apache-2.0
 * The tree of the processor against its exact engine, on all instruction sets (cases_tree.c). What
 * the tree refuses. */
#include "kith/kith_papers.h"
#include "support/cases.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_engines.h"
#include "support/support_trees.h"

#include <stdio.h>
#include <string.h>

/* ---- What is refused ------------------------------------------------------------------------ */

static void refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(0);
    test_rows points = test_trees_rows(KITH_F32, 50, 3, SHAPE_GAUSS, 16);
    kith_search_params params = kith_search_params_default();
    params.k = 3;
    params.method = (kith_method)17;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT, "no method");
    params.method = KITH_METHOD_TREE;
    params.pipeline = KITH_PIPELINE_MATRIX;
    test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT, "pipeline");
    params.pipeline = KITH_PIPELINE_FUSED;
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        const bool has = metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN ||
                         metric == KITH_MANHATTAN || metric == KITH_CHEBYSHEV;
        params.metric = (kith_metric)metric;
        if (!has) {
            test_graph_refused(ctx, &points.matrix, &params, KITH_E_ARGUMENT,
                               kith_metric_name((kith_metric)metric));
        }
    }
    params.metric = KITH_EUCLIDEAN;
    kith_neighbors out = test_answer_make(50, 3);
    kith_neighbors back = test_answer_make(50, 3);
    assert_int_equal(kith_knn_both(ctx, &points.matrix, &points.matrix, &params, &out, &back),
                     KITH_E_UNSUPPORTED);
    kith_index *corpus = NULL;
    assert_int_equal(test_index_create(ctx, &points.matrix, KITH_EUCLIDEAN, &corpus), KITH_OK);
    assert_int_equal(kith_index_search(ctx, corpus, &points.matrix, &params, &out, NULL),
                     KITH_E_UNSUPPORTED);
    kith_index_free(corpus);
    test_answer_free(&back);
    test_answer_free(&out);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    printf("wrong numbers, metrics and pipelines without a tree, both directions, prepared "
           "corpora: refused\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + test_suite_run(&test_suite_tree);
}
