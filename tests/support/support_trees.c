/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_trees.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kith_metric test_tree_metrics[TEST_TREE_METRICS] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN,
                                                          KITH_MANHATTAN, KITH_CHEBYSHEV};

test_trees test_trees_make(int32_t threads)
{
    return (test_trees){.ctx = test_engine_best_ctx(threads),
                        .wanted = test_engines_are_gpu() ? test_cpu_ctx() : NULL};
}

void test_trees_free(test_trees *t)
{
    kith_ctx_free(t->ctx);
    kith_ctx_free(t->wanted);
}

kith_status test_trees_solve(kith_ctx *ctx, const test_job *job, kith_method method,
                             kith_neighbors *out)
{
    test_job named = *job;
    named.call = job->queries != NULL ? TEST_SEARCH : TEST_GRAPH;
    named.method = method;
    return test_job_solve(ctx, &named, out);
}

void test_trees_compare(test_trees *t, test_job job)
{
    char text[320];
    kith_neighbors wanted;
    kith_neighbors got;
    kith_report report = {.struct_size = sizeof report};
    const bool buffers = t->pipeline != KITH_PIPELINE_FUSED;
    job.call = job.queries != NULL ? TEST_SEARCH : TEST_GRAPH;
    test_job_text(&job, text, sizeof text);
    kith_ctx *other = t->wanted != NULL ? t->wanted : t->ctx;
    if (test_trees_solve(other, &job, KITH_METHOD_EXACT, &wanted) != KITH_OK) {
        fail_msg("exact: %s: %s", text, kith_ctx_detail(other));
    }
    job.pipeline = t->pipeline;
    job.leaf_buffer = t->leaf_buffer;
    job.tree_height = job.points->rows >> t->tree_height >= 16 ? t->tree_height : 0;
    if (test_trees_solve(t->ctx, &job, buffers ? KITH_METHOD_AUTO : KITH_METHOD_TREE, &got) !=
        KITH_OK) {
        fail_msg("tree: %s: %s", text, kith_ctx_detail(t->ctx));
    }
    assert_int_equal(kith_ctx_report(t->ctx, &report), KITH_OK);
    assert_string_equal(report.screen, buffers ? "buffer_tree" : "tree");
    assert_int_equal(report.exact, 1);
    assert_true((strncmp(report.backend, "cuda", 4) == 0) == test_engines_are_gpu());
    t->cases += 1;
    t->wrong += test_answers_differ(text, &wanted, &got);
    test_answer_free(&got);
    test_answer_free(&wanted);
}

void test_trees_end(const test_trees *t, const char *what)
{
    if (t->wrong != 0) {
        fail_msg("%s: %d of %d cases differ from the exact engine's", what, t->wrong, t->cases);
    }
    printf("%s: %d cases are the exact engine's bytes\n", what, t->cases);
}

test_rows test_trees_rows(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape,
                          uint64_t seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, 8);
    test_shape_fill(&r, shape, false, &seed);
    return r;
}

uint32_t *test_trees_excluded(int64_t queries, int64_t rows)
{
    uint32_t *ids = malloc((size_t)queries * sizeof *ids);
    assert_non_null(ids);
    for (int64_t i = 0; i < queries; i++) {
        ids[i] = i % 3 == 0 ? KITH_ID_NONE : (uint32_t)(i % rows);
    }
    return ids;
}

void test_trees_four(test_trees *t, const test_rows *points, const test_rows *queries,
                     kith_metric metric, int64_t k, const char *name)
{
    const int64_t rows = points->matrix.rows;
    const int64_t fewer = k < rows ? k : rows - 1;
    test_job job = {.name = name, .points = &points->matrix, .metric = metric, .k = fewer};
    if (fewer > 0) {
        test_trees_compare(t, job);
    }
    job.flags = KITH_INCLUDE_SELF;
    job.k = k < rows ? k : rows;
    test_trees_compare(t, job);
    job.flags = 0;
    job.queries = &queries->matrix;
    test_trees_compare(t, job);
    if (fewer > 0) {
        uint32_t *exclude = test_trees_excluded(queries->matrix.rows, rows);
        job.exclude = exclude;
        job.k = fewer;
        test_trees_compare(t, job);
        free(exclude);
    }
}
