/* SPDX-License-Identifier: Apache-2.0
 * Graphs that grow and shrink by the public calls: an exact merge has the bytes of the exact graph
 * of all points, and so has a removal of what is left; an approximate merge finds what a descent of
 * all finds; what is wrong with arguments is said. Runs with several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_engines.h"
#include "support/support_merges.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 700, COLS = 9, K = 10, LONGER = TEST_MERGE_LONGER };

/* ---- Exact ---------------------------------------------------------------------------------- */

static void each_split(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *params)
{
    static const int64_t splits[] = {0, 1, 4, K, K + 1, 97, ROWS / 2, ROWS - 3, ROWS};
    kith_neighbors truth = test_answer_make(points->rows, params->k);
    test_works(ctx, kith_graph(ctx, points, params, &truth, NULL));
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i += test_is_sanitized_build() ? 3 : 1) {
        test_merge_is_true(ctx, points, splits[i], params, &truth);
    }
    test_answer_free(&truth);
}

static void exact_is_the_graph_of_all(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_COPIES, SHAPE_SPARSE};
    kith_ctx *ctx = test_engine_best_ctx(2);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    uint64_t seed = 7;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 8);
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM; metric++) {
        test_shape_fill(&points, shapes[metric % 4], true, &seed);
        params.metric = (kith_metric)metric;
        params.flags = metric % 3 == 0 ? KITH_INCLUDE_SELF : 0;
        each_split(ctx, &points.matrix, &params);
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("merged exactly: the bytes of the exact graph, every metric, every split, copies "
                 "on both sides, sets of less than k points and of none\n");
}

/* Rows of zeros and constant rows are at distance 1 from everything: each stands in a list once. */
static void rows_that_are_far_from_all(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    uint64_t seed = 21;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 8);
    for (int i = 0; i < 4; i++) {
        test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
        for (int64_t row = 0; row < points.matrix.rows; row += i < 2 ? 5 : 2) {
            for (int64_t col = 0; col < COLS; col++) {
                test_rows_set(&points, row, col, i % 2 == 0 ? 0.0 : 0.75);
            }
        }
        params.metric = i % 2 == 0 ? KITH_COSINE : KITH_CORRELATION;
        each_split(ctx, &points.matrix, &params);
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf(
        "merged where a fifth and a half of the rows are at distance 1 from everything: the "
        "bytes of the exact graph\n");
}

/* A height of the trees that the smaller set does not fill is a mistake. */
static void trees_fit_each_set(kith_ctx *ctx, const kith_matrix *points,
                               const kith_search_params *params)
{
    enum { FEWER = 97 }; /* fills a tree of height 2 */
    static const int32_t wrong[] = {3, 64, -1};
    kith_search_params high = *params;
    kith_neighbors truth = test_answer_make(points->rows, params->k);
    kith_neighbors out = test_answer_make(points->rows, params->k);
    const kith_matrix part[] = {test_part_of(points, 0, FEWER),
                                test_part_of(points, FEWER, points->rows - FEWER)};
    kith_neighbors one = test_merge_graph(ctx, &part[0], params->k, params);
    kith_neighbors two = test_merge_graph(ctx, &part[1], params->k, params);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        high.tree_height = wrong[i];
        test_fails(
            ctx,
            test_merge_exactly(ctx, &(kith_merge_sets){points, FEWER, &one, &two}, &high, &out),
            KITH_E_ARGUMENT, "must be 0 to 2 for 97 rows");
    }
    high.tree_height = 2;
    test_works(ctx, kith_graph(ctx, points, params, &truth, NULL));
    test_merge_is_true(ctx, points, FEWER, &high, &truth);
    test_answer_free(&two);
    test_answer_free(&one);
    test_answer_free(&out);
    test_answer_free(&truth);
}

static void methods_are_passed_on(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 9;
    test_rows points = test_rows_make(KITH_U8, ROWS, 3, 0);
    test_shape_fill(&points, SHAPE_CLUSTERS, true, &seed);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.method = KITH_METHOD_TREE;
    each_split(ctx, &points.matrix, &params);
    trees_fit_each_set(ctx, &points.matrix, &params);
    params.method = KITH_METHOD_AUTO;
    for (params.pipeline = KITH_PIPELINE_MATRIX; params.pipeline < KITH_PIPELINE_COUNT;
         params.pipeline++) {
        if (params.pipeline != KITH_PIPELINE_HYBRID) { /* which needs a GPU */
            each_split(ctx, &points.matrix, &params);
        }
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("by the tree, of each height that both sets fill, and by the pipelines, too\n");
}

/* ---- Approximate ---------------------------------------------------------------------------- */

static double recall_of(kith_ctx *ctx, const kith_neighbors *found, const kith_neighbors *truth,
                        kith_metric metric)
{
    kith_recall recall;
    test_works(ctx, kith_recall_measure(ctx, found, truth, metric, 0, &recall));
    return recall.recall;
}

/* No id twice, none its own, no empty slot. */
static void is_sound(const kith_neighbors *graph)
{
    for (int64_t row = 0; row < graph->rows; row++) {
        const uint32_t *ids = graph->ids + row * graph->k;
        for (int64_t i = 0; i < graph->k; i++) {
            assert_true((int64_t)ids[i] < graph->rows && (int64_t)ids[i] != row);
            for (int64_t j = 0; j < i; j++) {
                assert_int_not_equal(ids[i], ids[j]);
            }
        }
    }
}

/* Recall of merged graphs against that of a descent of all points. */
static void merge_is_near(kith_ctx *ctx, const kith_matrix *points, kith_metric metric,
                          const char *name)
{
    const int64_t first_rows = points->rows / 3;
    const kith_matrix part[] = {test_part_of(points, 0, first_rows),
                                test_part_of(points, first_rows, points->rows - first_rows)};
    kith_search_params exact = kith_search_params_default();
    exact.k = K;
    exact.metric = metric;
    kith_descent_params params = kith_descent_params_default();
    params.k = K;
    params.metric = metric;
    kith_neighbors truth = test_answer_make(points->rows, K);
    kith_neighbors direct = test_answer_make(points->rows, K);
    kith_neighbors merged = test_answer_make(points->rows, K);
    kith_neighbors again = test_answer_make(points->rows, K);
    kith_neighbors graph1 = test_answer_make(part[0].rows, K);
    kith_neighbors graph2 = test_answer_make(part[1].rows, K);
    kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
    kith_descent_report of_all = {.struct_size = (uint32_t)sizeof of_all};
    test_works(ctx, kith_graph(ctx, points, &exact, &truth, NULL));
    test_works(ctx, test_descend(ctx, points, &params, &direct, &of_all));
    test_works(ctx, test_descend(ctx, &part[0], &params, &graph1, NULL));
    test_works(ctx, test_descend(ctx, &part[1], &params, &graph2, NULL));
    const kith_merge_sets sets = {points, first_rows, &graph1, &graph2};
    test_works(ctx, test_merge_descending(ctx, &sets, &params, &merged, &report));
    test_works(ctx, test_merge_descending(ctx, &sets, &params, &again, NULL));
    const double by_descent = recall_of(ctx, &direct, &truth, metric);
    const double by_merge = recall_of(ctx, &merged, &truth, metric);
    const double share = report.evaluations / of_all.evaluations;
    (void)printf(
        "    %-10s %-13s direct %.4f, merged %.4f, told %.4f, with %.2f of its distances\n", name,
        kith_metric_name(metric), by_descent, by_merge, report.recall.recall, share);
    is_sound(&merged);
    assert_true(by_merge >= by_descent - 0.005);
    assert_true(share < 0.8);
    assert_true(by_merge >= report.recall.low - 0.01 && by_merge <= report.recall.high + 0.01);
    assert_int_equal(report.start, KITH_START_GRAPH);
    assert_int_equal(report.exact, 0);
    assert_true(test_answers_equal(&merged, &again));
    test_answer_free(&graph2);
    test_answer_free(&graph1);
    test_answer_free(&again);
    test_answer_free(&merged);
    test_answer_free(&direct);
    test_answer_free(&truth);
}

static void approximate_loses_little(void **state)
{
    (void)state;
    /* More than engines solve exactly: twice as many where there is a screen. */
    enum { MANY = 9000, FEWER = 4800 };
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 5;
    test_rows points = test_rows_make(KITH_F32, MANY, COLS, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    for (int64_t row = 0; row < MANY; row += 29) {
        test_rows_copy(&points, row, &points, (row + MANY / 2) % MANY); /* across the sets */
    }
    merge_is_near(ctx, &points.matrix, KITH_EUCLIDEAN, "copies");
    if (!test_is_sanitized_build()) {
        test_shape_fill(&points, SHAPE_HEAVY, false, &seed);
        merge_is_near(ctx, &points.matrix, KITH_INNER_PRODUCT, "heavy");
        test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
        const kith_matrix fewer = test_part_of(&points.matrix, 0, FEWER);
        merge_is_near(ctx, &fewer, KITH_MANHATTAN, "gauss");
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf(
        "merged by a descent: no more than 0.005 below a descent of all, fewer distances than "
        "it, sound lists, the same bytes again\n");
}

/* ---- Removal -------------------------------------------------------------------------------- */

/* A graph without some of its points is the exact graph of the others. anew: 0 or 1, as the report
 * must say, or -1. */
static void rest_is_true(kith_ctx *ctx, const test_rows *points, const uint8_t *removed,
                         const kith_search_params *params, int32_t anew)
{
    const int64_t rows = points->matrix.rows;
    test_rows rest = test_rows_make(points->matrix.dtype, rows, points->matrix.cols, 0);
    uint32_t *map = malloc((size_t)rows * sizeof *map);
    int64_t left = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (removed[row] == 0) {
            test_rows_copy(&rest, left++, points, row);
        }
    }
    const kith_matrix matrix = test_part_of(&rest.matrix, 0, left);
    kith_neighbors graph = test_merge_graph(ctx, &points->matrix, LONGER, params);
    kith_neighbors truth = test_answer_make(left, params->k);
    kith_neighbors out = test_answer_make(left, params->k);
    kith_remove_params remove = kith_remove_params_default();
    kith_remove_report report = {.struct_size = (uint32_t)sizeof report};
    remove.metric = params->metric;
    remove.k = params->k;
    remove.flags = params->flags;
    remove.removed = removed;
    remove.map = map;
    test_works(ctx, kith_graph(ctx, &matrix, params, &truth, NULL));
    test_works(ctx, kith_graph_remove(ctx, &points->matrix, &graph, &remove, &out, &report));
    if (!test_answers_equal(&out, &truth)) {
        fail_msg("%s: not the graph of what is left", kith_metric_name(params->metric));
    }
    assert_int_equal(report.left, left);
    assert_true(anew < 0 || report.anew == anew);
    for (int64_t row = 0, next = 0; row < rows; row++) {
        assert_int_equal(map[row], removed[row] != 0 ? KITH_ID_NONE : (uint32_t)next);
        next += removed[row] == 0;
    }
    free(map);
    test_answer_free(&out);
    test_answer_free(&truth);
    test_answer_free(&graph);
    test_rows_free(&rest);
}

static void removal_leaves_the_graph_of_the_rest(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_COPIES, SHAPE_SPARSE};
    kith_ctx *ctx = test_engine_best_ctx(2);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    uint64_t seed = 13;
    uint8_t removed[ROWS] = {0};
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 8);
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM;
         metric += test_is_sanitized_build() ? 2 : 1) {
        test_shape_fill(&points, shapes[metric % 4], true, &seed);
        params.metric = (kith_metric)metric;
        params.flags = metric % 3 == 0 ? KITH_INCLUDE_SELF : 0;
        memset(removed, 0, sizeof removed);
        rest_is_true(ctx, &points, removed, &params, 0);
        for (int64_t row = 3; row < ROWS; row += 60) {
            removed[row] = 1;
        }
        rest_is_true(ctx, &points, removed, &params, 0);
        memset(removed, 1, ROWS - 40);
        rest_is_true(ctx, &points, removed, &params, 1);
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("after a removal: the bytes of the exact graph of the rest, every metric, few and "
                 "most points gone\n");
}

/* Where many are as near as a point is to itself, or products are larger than its own, a point is
 * not in its own list: that it may be there fills no place of one that left. */
static void removal_does_not_count_on_a_row_itself(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_INNER_PRODUCT, KITH_JACCARD, KITH_EUCLIDEAN};
    kith_ctx *ctx = test_engine_best_ctx(2);
    kith_search_params params = kith_search_params_default();
    params.k = LONGER;
    params.flags = KITH_INCLUDE_SELF;
    uint64_t seed = 17;
    uint8_t removed[ROWS] = {0};
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 8);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        params.metric = metrics[i];
        test_shape_fill(&points, i == 0 ? SHAPE_GAUSS : SHAPE_COPIES, true, &seed);
        for (int64_t row = 1; row < ROWS; row += 40) {
            memset(removed, 0, sizeof removed);
            removed[row] = 1;
            rest_is_true(ctx, &points, removed, &params, -1);
        }
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("after a removal: the same where a point may be in its own list and is not\n");
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static kith_status plan_of(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                           const kith_search_params *params, kith_plan *plan)
{
    return kith_plan_merge(ctx, &(kith_merge_sets){points, first_rows, NULL, NULL}, params, plan);
}

/* As many new points as are told; the processor. */
static kith_plan told_of(kith_ctx *ctx, int64_t rows, int64_t added, int32_t cols, int64_t sample)
{
    const kith_matrix shape = {.rows = rows, .cols = cols, .dtype = KITH_F32};
    kith_descent_params descent = kith_descent_params_default();
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    params.k = K;
    params.descent = &descent;
    descent.sample = sample;
    test_works(ctx, plan_of(ctx, &shape, rows - added, &params, &plan));
    assert_true(plan.estimated_descent > 0.0 && plan.estimated_exact > 0.0);
    return plan;
}

static int descends(const kith_plan *plan)
{
    return strcmp(plan->method, "descent") == 0;
}

static void plans_follow_the_work(void **state)
{
    (void)state;
    enum { MANY = 4000000, COLUMNS = 128 };
    kith_ctx *ctx = test_engine_best_ctx(2);
    kith_plan last = {0};
    for (int64_t added = 1; added < MANY / 2; added *= 8) {
        const kith_plan told = told_of(ctx, MANY, added, COLUMNS, -1);
        assert_true(told.estimated_exact > last.estimated_exact &&
                    descends(&told) >= descends(&last));
        assert_true(added > 100 || !descends(&told));
        last = told;
    }
    assert_true(descends(&last));
    /* The graphs' own lists are read, whatever is added; a sample takes its time, too. */
    assert_true(told_of(ctx, MANY, MANY, COLUMNS, -1).estimated_exact > 0.0);
    assert_true(told_of(ctx, MANY, 1, COLUMNS, 1000).estimated_descent >
                told_of(ctx, MANY, 1, COLUMNS, -1).estimated_descent);
    /* Trees do not meet all pairs. */
    last = told_of(ctx, MANY, MANY / 2, 3, -1);
    assert_true(!descends(&last));
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    const kith_matrix shape = {.rows = ROWS, .cols = COLS, .dtype = KITH_F32};
    params.k = K;
    test_fails(ctx, plan_of(ctx, &shape, ROWS + 1, &params, &plan), KITH_E_ARGUMENT,
               "first_rows is 701");
    test_fails(ctx, plan_of(ctx, &shape, 1, NULL, &plan), KITH_E_ARGUMENT, "params");
    test_fails(ctx, plan_of(ctx, NULL, 1, &params, &plan), KITH_E_ARGUMENT, "points");
    test_fails(ctx, kith_plan_merge(ctx, NULL, &params, &plan), KITH_E_ARGUMENT, "sets is NULL");
    test_fails(ctx, plan_of(ctx, &shape, 1, &params, NULL), KITH_E_ARGUMENT, "plan is NULL");
    plan.struct_size = 0;
    test_fails(ctx, plan_of(ctx, &shape, 1, &params, &plan), KITH_E_ARGUMENT,
               "plan.struct_size is 0");
    kith_ctx_free(ctx);
    (void)printf("exact merges are sooner where few points are added or dimensions are few\n");
}

/* The way is exact by right, named, or wanted; only what is left is chosen by seconds. */
static void ways_follow_what_is_known(void **state)
{
    (void)state;
    enum { MANY = 4000000, COLUMNS = 128 };
    kith_ctx *ctx = test_engine_best_ctx(2);
    const kith_matrix shape = {.rows = MANY, .cols = COLUMNS, .dtype = KITH_F32};
    kith_result_meta sure = kith_result_meta_default();
    sure.exact = KITH_CERTIFIED;
    const kith_neighbors certified = {.meta = &sure};
    static const struct {
        bool certified;
        kith_method method;
        double recall;
        bool chooses;
        bool descends;
    } cases[] = {{true, KITH_METHOD_AUTO, 0.0, false, false},
                 {true, KITH_METHOD_AUTO, 0.9, false, true},
                 {true, KITH_METHOD_DESCENT, 0.0, false, true},
                 {false, KITH_METHOD_AUTO, 0.0, true, true},
                 {false, KITH_METHOD_AUTO, 1.0, false, false},
                 {false, KITH_METHOD_EXACT, 0.0, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kith_search_params params = kith_search_params_default();
        kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
        params.k = K;
        params.method = cases[i].method;
        params.recall = cases[i].recall;
        const kith_merge_sets sets = {&shape, MANY / 2, &certified,
                                      cases[i].certified ? &certified : NULL};
        test_works(ctx, kith_plan_merge(ctx, &sets, &params, &plan));
        assert_int_equal(descends(&plan), cases[i].descends);
        assert_int_equal(plan.estimated_exact > 0.0, cases[i].chooses);
    }
    kith_ctx_free(ctx);
    (void)printf("what is certified stays so, and a descent is named, wanted, or sooner\n");
}

/* ---- Arguments ------------------------------------------------------------------------------ */

static void mistakes_are_named(void **state)
{
    (void)state;
    enum { FIRST = 40, SECOND = 30 };
    kith_ctx *ctx = test_engine_best_ctx(1);
    uint64_t seed = 11;
    test_rows points = test_rows_make(KITH_F32, FIRST + SECOND, COLS, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    const kith_matrix part[] = {test_part_of(&points.matrix, 0, FIRST),
                                test_part_of(&points.matrix, FIRST, SECOND)};
    kith_neighbors one = test_merge_graph(ctx, &part[0], K, &params);
    kith_neighbors two = test_merge_graph(ctx, &part[1], K, &params);
    kith_neighbors out = test_answer_make(FIRST + SECOND, K);
    const kith_matrix *all = &points.matrix;
    const kith_merge_sets sets = {all, FIRST, &one, &two};
    test_fails(
        ctx, test_merge_exactly(ctx, &(kith_merge_sets){all, FIRST + 1, &one, &two}, &params, &out),
        KITH_E_ARGUMENT, "graph1 has 40 rows and its set 41 points");
    test_fails(ctx, test_merge_exactly(ctx, &(kith_merge_sets){all, -1, &one, &two}, &params, &out),
               KITH_E_ARGUMENT, "first_rows is -1");
    test_fails(ctx,
               test_merge_exactly(ctx, &(kith_merge_sets){all, FIRST, &one, NULL}, &params, &out),
               KITH_E_ARGUMENT, "graph2 is NULL");
    test_fails(ctx, test_merge_exactly(ctx, NULL, &params, &out), KITH_E_ARGUMENT, "sets is NULL");
    params.flags = KITH_WITHIN_RADIUS;
    test_fails(ctx, test_merge_exactly(ctx, &sets, &params, &out), KITH_E_ARGUMENT, "radius");
    params.flags = 0;
    two.k = K / 2;
    test_fails(ctx, test_merge_exactly(ctx, &sets, &params, &out), KITH_E_ARGUMENT,
               "graph2 has lists of 5 and k is 10");
    two.k = K;
    two.ids[3 * K + 1] = SECOND;
    test_fails(ctx, test_merge_exactly(ctx, &sets, &params, &out), KITH_E_DATA,
               "graph2[3, 1] is id 30");
    two.ids[3 * K + 1] = two.ids[3 * K];
    test_fails(ctx, test_merge_exactly(ctx, &sets, &params, &out), KITH_E_DATA,
               "graph2 has 9 different neighbours in row 3");
    test_answer_free(&out);
    test_answer_free(&two);
    test_answer_free(&one);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("mistakes are named: rows, ids, lists that are too short\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_is_the_graph_of_all),
                                       cmocka_unit_test(rows_that_are_far_from_all),
                                       cmocka_unit_test(methods_are_passed_on),
                                       cmocka_unit_test(approximate_loses_little),
                                       cmocka_unit_test(removal_leaves_the_graph_of_the_rest),
                                       cmocka_unit_test(removal_does_not_count_on_a_row_itself),
                                       cmocka_unit_test(plans_follow_the_work),
                                       cmocka_unit_test(ways_follow_what_is_known),
                                       cmocka_unit_test(mistakes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
