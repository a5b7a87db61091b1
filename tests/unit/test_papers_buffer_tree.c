/* SPDX-License-Identifier: Apache-2.0
 * The pipeline buffer_tree against the exact engine and the oracle, byte for byte: data, sizes, k,
 * heights and buffers, instruction sets and threads. What it refuses, what it holds, and what
 * happens where memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_engines.h"
#include "support/support_faulty.h"
#include "support/support_trees.h"

#include <stdio.h>
#include <string.h>

/* Height and buffer; 0: the library's. */
static const int32_t ways[][2] = {{0, 0}, {0, 2}, {1, 3}, {3, 7}, {5, 16}, {2, 1 << 22}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static test_trees trees_make(int32_t threads)
{
    test_trees t = test_trees_make(threads);
    t.pipeline = KITH_PIPELINE_BUFFER_TREE;
    return t;
}

static void go(test_trees *t, size_t way)
{
    t->tree_height = ways[way % WAYS][0];
    t->leaf_buffer = ways[way % WAYS][1];
}

/* ---- The same bytes -------------------------------------------------------------------------- */

static void shapes(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_U8, KITH_BF16, KITH_I8};
    test_trees t = trees_make(2);
    const bool few = test_is_slow_build(); /* one metric with each shape, then */
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (int m = few ? shape % TEST_TREE_METRICS : 0; m < TEST_TREE_METRICS;
             m += few ? TEST_TREE_METRICS : 1) {
            const kith_dtype dtype = dtypes[(shape + m) % 6];
            const int32_t cols = 1 + (shape * 5 + m * 3) % 32;
            test_rows points =
                test_trees_rows(dtype, 601, cols, (test_shape)shape, 7 + (uint64_t)shape);
            test_rows queries =
                test_trees_rows(dtype, 61, cols, (test_shape)shape, 70 + (uint64_t)shape);
            go(&t, (size_t)(shape + m));
            test_trees_four(&t, &points, &queries, test_tree_metrics[m], 10,
                            test_shape_name((test_shape)shape));
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    test_trees_end(&t, "every shape of data and metric, heights and buffers in turn");
    test_trees_free(&t);
}

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 15, 16, 17, 49, 97, 400};
    static const int32_t cols[] = {1, 3, 32};
    test_trees t = trees_make(1);
    size_t way = 0;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        for (size_t d = test_is_slow_build() ? n % 3 : 0; d < sizeof cols / sizeof *cols;
             d += test_is_slow_build() ? 3 : 1) {
            test_rows points = test_trees_rows(KITH_F32, rows[n], cols[d], SHAPE_COPIES, 5);
            test_rows queries = test_trees_rows(KITH_F64, 17, cols[d], SHAPE_GAUSS, 6);
            go(&t, way++);
            test_trees_four(&t, &points, &queries, test_tree_metrics[d], rows[n], "all of them");
            test_trees_four(&t, &points, &queries, test_tree_metrics[n % 4], 3, "three");
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    test_trees_end(&t, "1 to 400 rows, 1 to 32 columns, k up to all");
    test_trees_free(&t);
}

static void every_k(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 47, 48, 49, 1023, 1024};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_EQUAL};
    test_trees t = trees_make(2);
    size_t way = 0;
    for (size_t s = 0; s < sizeof data / sizeof *data; s++) {
        test_rows points = test_trees_rows(KITH_F32, 1500, 9, data[s], 8);
        test_rows queries = test_trees_rows(KITH_F32, 40, 9, data[s], 9);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            test_job job = {.name = test_shape_name(data[s]),
                            .points = &points.matrix,
                            .queries = &queries.matrix,
                            .metric = test_tree_metrics[i % TEST_TREE_METRICS],
                            .k = ks[i]};
            go(&t, way++);
            test_trees_compare(&t, job);
        }
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    test_trees_end(&t, "k from 1 to 1,024");
    test_trees_free(&t);
}

/* Lists of 1,024 places: some 15,000 queries are a chunk. */
static void chunks(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip();
    }
    test_trees t = trees_make(0);
    test_rows points = test_trees_rows(KITH_F32, 1100, 2, SHAPE_GAUSS, 8);
    test_rows queries = test_trees_rows(KITH_F32, 17000, 2, SHAPE_GAUSS, 9);
    const test_job job = {
        .name = "gauss", .points = &points.matrix, .queries = &queries.matrix, .k = 1024};
    test_trees_compare(&t, job);
    test_rows_free(&queries);
    test_rows_free(&points);
    test_trees_end(&t, "two chunks of queries");
    test_trees_free(&t);
}

static void on_engine(kith_ctx *ctx, void *arg)
{
    test_trees *t = arg;
    t->ctx = ctx;
    for (int m = 0; m < TEST_TREE_METRICS; m++) {
        test_rows points = test_trees_rows(KITH_F32, 700, 5 + 13 * (m % 2), SHAPE_CLUSTERS, 10);
        test_rows queries = test_trees_rows(KITH_F32, 90, 5 + 13 * (m % 2), SHAPE_CLUSTERS, 11);
        go(t, (size_t)m);
        test_trees_four(t, &points, &queries, test_tree_metrics[m], 12, "clusters");
        test_rows_free(&queries);
        test_rows_free(&points);
    }
}

static void instruction_sets(void **state)
{
    (void)state;
    test_trees t = {.pipeline = KITH_PIPELINE_BUFFER_TREE};
    test_on_each_engine(on_engine, &t);
    test_trees_end(&t, "every instruction set");
}

/* ---- The oracle, and what one thread and several say ----------------------------------------- */

/* Nothing of the library finds the truth: doubles, pair by pair. */
static void oracle(void **state)
{
    (void)state;
    enum { ROWS = 300, ASKED = 40, K = 11 };
    test_rows points = test_trees_rows(KITH_F32, ROWS, 4, SHAPE_CLUSTERS, 12);
    test_rows queries = test_trees_rows(KITH_F32, ASKED, 4, SHAPE_CLUSTERS, 13);
    kith_ctx *ctx = test_engine_best_ctx(0);
    for (int m = 0; m < TEST_TREE_METRICS; m++) {
        test_truth truth =
            test_truth_make(test_tree_metrics[m], &queries.matrix, &points.matrix, K);
        for (size_t way = 0; way < WAYS; way++) {
            kith_neighbors got;
            const test_job job = {.call = TEST_SEARCH,
                                  .points = &points.matrix,
                                  .queries = &queries.matrix,
                                  .metric = test_tree_metrics[m],
                                  .k = K,
                                  .pipeline = KITH_PIPELINE_BUFFER_TREE,
                                  .tree_height = ways[way][0] < 4 ? ways[way][0] : 4,
                                  .leaf_buffer = ways[way][1]};
            test_works(ctx, test_job_solve(ctx, &job, &got));
            for (int64_t row = 0; row < ASKED; row++) {
                assert_true(test_row_is_true(&got, row, &truth, row, KITH_ID_NONE));
            }
            test_answer_free(&got);
        }
        test_truth_free(&truth);
    }
    printf("%d metrics, %d heights and buffers: the oracle's neighbours\n", TEST_TREE_METRICS,
           WAYS);
    kith_ctx_free(ctx);
    test_rows_free(&queries);
    test_rows_free(&points);
}

/* The order of the queries is the paper's for any number of threads: pairs and keys are, too. */
static void threads(void **state)
{
    (void)state;
    test_rows points = test_trees_rows(KITH_F32, 3000, 3, SHAPE_GAUSS, 14);
    kith_report first = {.struct_size = sizeof first};
    for (int32_t count = 1; count <= 3; count++) {
        test_trees t = trees_make(count);
        t.leaf_buffer = 32;
        const test_job job = {.name = "gauss", .points = &points.matrix, .k = 8};
        test_trees_compare(&t, job);
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(kith_ctx_report(t.ctx, &report), KITH_OK);
        first = count == 1 ? report : first;
        assert_true(report.candidates == first.candidates);
        assert_true(report.skipped_share == first.skipped_share);
        test_trees_end(&t, "threads");
        test_trees_free(&t);
    }
    assert_true(first.skipped_share > 0.8);
    assert_true(first.seconds_select > 0.0 && first.seconds_screen > 0.0);
    printf("1, 2, 3 threads: the same bytes, pairs and keys; %.1f %% of all pairs left out\n",
           100.0 * first.skipped_share);
    test_rows_free(&points);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refused(kith_ctx *ctx, const kith_matrix *points, kith_search_params params,
                    const char *says)
{
    test_graph_refused(ctx, points, &params, KITH_E_ARGUMENT, says);
}

static void refused_numbers(kith_ctx *ctx, const kith_matrix *points,
                            const kith_search_params *given)
{
    static const int32_t wrong[] = {1, -1, INT32_MIN, (1 << 22) + 1, INT32_MAX};
    kith_search_params params = *given;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        params.leaf_buffer = wrong[i];
        refused(ctx, points, params, "must be 2 to 4194304");
    }
    params = *given;
    params.tree_height = 2; /* of 50 rows */
    refused(ctx, points, params, "must be 0 to 1 for 50 rows");
    params.tree_height = -1;
    refused(ctx, points, params, "tree_height is -1");
    params = *given;
    params.leaf_buffer = 8;
    for (kith_pipeline other = KITH_PIPELINE_FUSED; other <= KITH_PIPELINE_HYBRID; other++) {
        params.pipeline = other;
        refused(ctx, points, params, "the pipeline buffer_tree alone");
    }
    params = *given;
    params.select = KITH_SELECT_HEAP;
    refused(ctx, points, params, "the pipeline matrix alone");
    params = *given;
    params.method = KITH_METHOD_TREE;
    refused(ctx, points, params, "the pipeline buffer_tree is another way");
}

static void refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(0);
    test_rows points = test_trees_rows(KITH_F32, 50, 3, SHAPE_GAUSS, 16);
    kith_search_params params = kith_search_params_default();
    params.k = 3;
    params.pipeline = KITH_PIPELINE_BUFFER_TREE;
    refused_numbers(ctx, &points.matrix, &params);
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_KL; metric++) {
        bool has = false;
        for (int m = 0; m < TEST_TREE_METRICS; m++) {
            has = has || test_tree_metrics[m] == (kith_metric)metric;
        }
        params.metric = (kith_metric)metric;
        if (!has) {
            refused(ctx, &points.matrix, params, "which has no tree");
        }
    }
    params.metric = KITH_EUCLIDEAN;
    kith_neighbors out = test_answer_make(50, 3);
    kith_neighbors back = test_answer_make(50, 3);
    const kith_matrix *all = &points.matrix;
    test_fails(ctx, kith_knn_both(ctx, all, all, &params, &out, &back), KITH_E_UNSUPPORTED,
               "both directions at once have none");
    for (int tree = 0; tree < 2; tree++) {
        kith_index *corpus = NULL;
        kith_index_params of = kith_index_params_default();
        of.method = tree ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
        test_works(ctx, kith_index_create(ctx, all, &of, &corpus));
        test_fails(ctx, kith_index_search(ctx, corpus, all, &params, &out, NULL),
                   tree ? KITH_E_ARGUMENT : KITH_E_UNSUPPORTED, "buffer_tree");
        kith_index_free(corpus);
    }
    test_answer_free(&back);
    test_answer_free(&out);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    printf("wrong buffers, heights, metrics and methods, both directions, prepared corpora: "
           "refused\n");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void plans(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 20, 300};
    kith_ctx *ctx = test_engine_best_ctx(3);
    test_rows points = test_trees_rows(KITH_F32, 6000, 8, SHAPE_COPIES, 12);
    test_rows queries = test_trees_rows(KITH_F64, 900, 8, SHAPE_GAUSS, 13);
    kith_search_params params = kith_search_params_default();
    params.pipeline = KITH_PIPELINE_BUFFER_TREE;
    for (size_t job = 0; job < 2 * WAYS; job++) {
        const kith_matrix *asked = job < WAYS ? NULL : &queries.matrix;
        kith_plan plan = {.struct_size = sizeof plan};
        kith_report report = {.struct_size = sizeof report};
        params.k = ks[job % 3];
        params.tree_height = ways[job % WAYS][0];
        params.leaf_buffer = ways[job % WAYS][1];
        test_works(ctx, kith_plan_search(ctx, &points.matrix, asked, &params, &plan));
        assert_string_equal(plan.method, "buffer_tree");
        kith_neighbors out =
            test_answer_make(asked != NULL ? asked->rows : points.matrix.rows, params.k);
        test_works(ctx, asked == NULL
                            ? kith_graph(ctx, &points.matrix, &params, &out, &report)
                            : kith_search(ctx, &points.matrix, asked, &params, &out, &report));
        printf("%s, k %d, height %d, buffer %d: held %.2f MB, planned %.2f MB\n",
               asked == NULL ? "graph" : "search", (int)params.k, (int)params.tree_height,
               (int)params.leaf_buffer, (double)report.peak_bytes / 1e6,
               (double)plan.peak_bytes / 1e6);
        assert_true(report.peak_bytes <= plan.peak_bytes);
        test_answer_free(&out);
    }
    test_rows_free(&queries);
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

static void memory_runs_out(void **state)
{
    (void)state;
    test_rows points = test_trees_rows(KITH_F32, 200, 3, SHAPE_GAUSS, 17);
    test_rows queries = test_trees_rows(KITH_F32, 30, 3, SHAPE_GAUSS, 18);
    kith_neighbors out = test_answer_make(200, 4);
    kith_search_params params = kith_search_params_default();
    params.k = 4;
    params.pipeline = KITH_PIPELINE_BUFFER_TREE;
    long failures = 0;
    for (int search = 0; search < 2; search++) {
        out.rows = search ? 30 : 200;
        kith_status status = KITH_E_MEMORY;
        for (long n = 1; status != KITH_OK; n++) {
            test_faulty faulty = {0};
            kith_ctx *ctx = test_faulty_ctx("cpu", &faulty, 0);
            faulty.fails_at = atomic_load(&faulty.asked) + n;
            status = search ? kith_search(ctx, &points.matrix, &queries.matrix, &params, &out, NULL)
                            : kith_graph(ctx, &points.matrix, &params, &out, NULL);
            assert_true(status == KITH_OK || status == KITH_E_MEMORY);
            failures += status != KITH_OK;
            kith_ctx_free(ctx);
            assert_int_equal(atomic_load(&faulty.blocks), 0);
        }
    }
    out.rows = 200;
    test_answer_free(&out);
    test_rows_free(&queries);
    test_rows_free(&points);
    printf("each of %ld allocations failed once: said so, no leak\n", failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),  cmocka_unit_test(sizes),
        cmocka_unit_test(every_k), cmocka_unit_test(chunks),
        cmocka_unit_test(oracle),  cmocka_unit_test(instruction_sets),
        cmocka_unit_test(threads), cmocka_unit_test(refusals),
        cmocka_unit_test(plans),   cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
