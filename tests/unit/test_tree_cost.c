/* SPDX-License-Identifier: Apache-2.0
 * Which way auto takes on the processor: by shapes, and by what a small tree says of the data. The
 * answer is the same either way. */
#include "support/cases.h"
#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_rows.h"
#include "tree/tree_cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 40000, COLS = 14, QUERIES = 4000 };

static kin_tree_chance chance(int64_t rows, int32_t cols, int64_t queries)
{
    const kin_request request = {
        .distance = {.metric = KITH_EUCLIDEAN, .cols = cols, .isa = KIN_ISA_AVX512}, .k = 10};
    const kin_tree_cost cost = kin_tree_cost_of(&request, rows, queries, false);
    return kin_tree_chance_of(&cost);
}

static void shapes(void **state)
{
    (void)state;
    assert_int_equal(chance(10000, 3, 100000), KIN_TREE_NO_CHANCE);
    assert_int_equal(chance(1000000, 40, 100000), KIN_TREE_NO_CHANCE);
    assert_int_equal(chance(1000000, 3, 1), KIN_TREE_NO_CHANCE);
    assert_int_equal(chance(1000000, 3, 1000), KIN_TREE_LIKELY);
    assert_int_equal(chance(1000000, 3, 1000000), KIN_TREE_LIKELY);
    assert_int_equal(chance(30000, 3, 300), KIN_TREE_LIKELY);
    assert_int_equal(chance(161042, 11, 30), KIN_TREE_NO_CHANCE);
    assert_int_equal(chance(161042, 11, 1000), KIN_TREE_UNCERTAIN);
    assert_int_equal(chance(161042, 11, 4000), KIN_TREE_UNCERTAIN);
    assert_int_equal(chance(161042, 11, 8478), KIN_TREE_LIKELY);
    assert_int_equal(chance(100000, 15, 1000000), KIN_TREE_LIKELY);
    printf(
        "few columns, or so many queries that building is nothing: a tree; else it is asked; for "
        "very few queries none is built\n");
}

/* Uniform in `flat` columns; the others are sums of those. */
static test_rows make(int64_t rows, int32_t flat, uint64_t seed)
{
    test_rows points = test_rows_make(KITH_F32, rows, COLS, 0);
    for (int64_t i = 0; i < rows; i++) {
        double row[COLS];
        for (int32_t c = 0; c < COLS; c++) {
            row[c] = c < flat ? test_uniform(&seed) : row[c % flat] + 0.5 * row[(c + 1) % flat];
            test_rows_set(&points, i, c, row[c]);
        }
    }
    return points;
}

static bool compares(int64_t rows, int32_t cols, int64_t queries)
{
    const kin_request request = {
        .distance = {.metric = KITH_EUCLIDEAN, .cols = cols, .isa = KIN_ISA_AVX512}, .k = 10};
    return kin_tree_compares(&request, rows, queries);
}

static void few_queries(void **state)
{
    (void)state;
    assert_true(compares(400000, 128, 1) && compares(1000000, 960, 10) && compares(1000, 4, 2));
    assert_false(compares(400000, 128, 1000) || compares(1000000, 960, 100));
    kith_ctx *ctx = test_engine_best_ctx(2);
    test_rows points = make(ROWS, COLS, 5);
    test_rows queries = make(3, COLS, 6);
    kith_search_params params = kith_search_params_default();
    params.k = 10;
    kith_neighbors found[2];
    for (int i = 0; i < 2; i++) {
        kith_report report = {.struct_size = sizeof report};
        kith_plan plan = {.struct_size = sizeof plan};
        params.method = i == 0 ? KITH_METHOD_AUTO : KITH_METHOD_EXACT;
        found[i] = test_answer_make(3, params.k);
        assert_int_equal(kith_plan_search(ctx, &points.matrix, &queries.matrix, &params, &plan),
                         KITH_OK);
        assert_int_equal(
            kith_search(ctx, &points.matrix, &queries.matrix, &params, &found[i], &report),
            KITH_OK);
        assert_int_equal(strcmp(report.screen, "direct") == 0, i == 0);
        assert_string_equal(plan.method, i == 0 ? "direct" : "screen");
        assert_true(report.peak_bytes <= plan.peak_bytes);
    }
    assert_true(test_answers_equal(&found[0], &found[1]));
    test_answer_free(&found[0]);
    test_answer_free(&found[1]);
    test_rows_free(&queries);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    printf("three queries are compared with all rows at once, as the plan says; a screen that was "
           "named gives the same bytes\n");
}

/* What auto reports, after its answer was compared with that of all pairs. */
static bool takes_tree(kith_ctx *ctx, int32_t flat)
{
    test_rows points = make(ROWS, flat, 5);
    test_rows queries = make(QUERIES, flat, 6);
    kith_search_params params = kith_search_params_default();
    params.k = 10;
    kith_neighbors got = test_answer_make(QUERIES, params.k);
    kith_neighbors wanted = test_answer_make(QUERIES, params.k);
    params.method = KITH_METHOD_EXACT;
    assert_int_equal(kith_search(ctx, &points.matrix, &queries.matrix, &params, &wanted, NULL),
                     KITH_OK);
    params.method = KITH_METHOD_AUTO;
    assert_int_equal(kith_search(ctx, &points.matrix, &queries.matrix, &params, &got, NULL),
                     KITH_OK);
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    assert_true(test_answers_equal(&got, &wanted));
    test_answer_free(&wanted);
    test_answer_free(&got);
    test_rows_free(&queries);
    test_rows_free(&points);
    return strcmp(report.screen, "tree") == 0;
}

static void samples(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    assert_int_equal(chance(ROWS, COLS, QUERIES), KIN_TREE_UNCERTAIN);
    assert_true(takes_tree(ctx, 3));
    assert_false(takes_tree(ctx, COLS));
    kith_ctx_free(ctx);
    printf("the same shape: a tree for points near a surface of three dimensions, all pairs for "
           "points that fill all fourteen\n");
}

/* Of 4,000 queries of a million points on a GPU, in ns. */
static kin_tree_cost long_lists(int32_t cols, int64_t k, double *all, double *tree)
{
    const kin_request request = {.distance = {.metric = KITH_EUCLIDEAN, .cols = cols}, .k = k};
    const kin_tree_cost c = kin_tree_cost_gpu(&request, 1000000, 4000, k, false);
    *all = 4000.0 * (1e6 * c.pairs_pair + c.pairs_query);
    const double unit = c.leaf + (double)c.wanted;
    *tree = c.tree_start + 1e6 * c.tree_point + 4000.0 * (c.tree_query + unit * c.tree_pair);
    return c;
}

/* What an H200 took (docs/notes/tree.md): all pairs win, whatever a sample would say. */
static void long_lists_on_a_gpu(void **state)
{
    static const struct {
        int32_t cols;
        int64_t k;
        double all_ms; /* 0: not measured as it is now */
        double tree_ms;
    } seen[] = {{3, 2100, 16, 46}, {3, 5000, 0, 109}, {3, 20000, 115, 450}, {10, 5000, 0, 192}};
    (void)state;
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        double all = 0.0;
        double tree = 0.0;
        const kin_tree_cost cost = long_lists(seen[i].cols, seen[i].k, &all, &tree);
        assert_true(seen[i].all_ms == 0.0 || fabs(all / (1e6 * seen[i].all_ms) - 1.0) < 0.3);
        assert_true(fabs(tree / (1e6 * seen[i].tree_ms) - 1.0) < 0.3);
        assert_false(kin_tree_may_win(&cost));
    }
    printf("lists of 2,100 to 20,000 on a GPU: both ways at their price\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(few_queries),
                                       cmocka_unit_test(samples),
                                       cmocka_unit_test(long_lists_on_a_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
