/* SPDX-License-Identifier: Apache-2.0
 * kith_graph with a recall: it is the exact graph or the descent, byte for byte, whichever the
 * estimate says will be the sooner or the caller has named, and the report tells which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_engines.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 9000, COLS = 24, K = 8, SEED = 5 };

typedef struct fixture {
    kith_ctx *ctx;
    test_rows points;
    kith_neighbors wanted;
    kith_neighbors got;
} fixture;

static int make(void **state)
{
    static fixture f;
    uint64_t seed = 11;
    f.ctx = test_engine_best_ctx(2);
    f.points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_rows_fill(&f.points, 1.0, 0, &seed);
    f.wanted = test_answer_make(ROWS, K);
    f.got = test_answer_make(ROWS, K);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    fixture *f = *state;
    test_answer_free(&f->got);
    test_answer_free(&f->wanted);
    test_rows_free(&f->points);
    kith_ctx_free(f->ctx);
    return 0;
}

static kith_search_params params_of(kith_metric metric, kith_method method, double recall)
{
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = K;
    params.method = method;
    params.recall = recall;
    params.seed = SEED;
    return params;
}

static kith_report solve(fixture *f, const kith_search_params *params)
{
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    kith_report same = {.struct_size = (uint32_t)sizeof same};
    test_works(f->ctx, kith_graph(f->ctx, &f->points.matrix, params, &f->got, &report));
    test_works(f->ctx, kith_ctx_report(f->ctx, &same));
    assert_memory_equal(&report, &same, sizeof report);
    return report;
}

static void is_exact(fixture *f, const kith_search_params *params, bool chose)
{
    kith_search_params plain = params_of(params->metric, KITH_METHOD_AUTO, 0.0);
    plain.flags = params->flags;
    plain.radius = params->radius;
    test_works(f->ctx, kith_graph(f->ctx, &f->points.matrix, &plain, &f->wanted, NULL));
    const kith_report report = solve(f, params);
    assert_false(test_answers_differ("exact", &f->wanted, &f->got));
    assert_int_equal(report.exact, KITH_CERTIFIED);
    assert_int_equal(report.reached, 1);
    assert_int_equal(report.recall.rows, 0);
    assert_int_equal(report.estimated_exact > 0.0 && report.estimated_descent > 0.0, chose);
}

static void is_descent(fixture *f, const kith_search_params *params, bool chose)
{
    kith_descent_params descent = kith_descent_params_default();
    kith_descent_report told = {.struct_size = (uint32_t)sizeof told};
    descent.metric = params->metric;
    descent.k = K;
    descent.recall = params->recall;
    descent.recall_at = params->recall_at;
    descent.seed = SEED;
    test_works(f->ctx, test_descend(f->ctx, &f->points.matrix, &descent, &f->wanted, &told));
    const kith_report report = solve(f, params);
    assert_false(test_answers_differ("descent", &f->wanted, &f->got));
    assert_int_equal(report.exact, KITH_APPROXIMATE);
    assert_int_equal(report.reached, told.reached);
    assert_memory_equal(&report.recall, &told.recall, sizeof told.recall);
    assert_int_equal(report.estimated_exact > report.estimated_descent, chose);
}

static void exact_unless_asked(void **state)
{
    fixture *f = *state;
    const double exact[] = {0.0, 1.0};
    for (int i = 0; i < 2; i++) {
        const kith_search_params params = params_of(KITH_EUCLIDEAN, KITH_METHOD_AUTO, exact[i]);
        is_exact(f, &params, false);
    }
    kith_search_params named = params_of(KITH_EUCLIDEAN, KITH_METHOD_EXACT, 0.5);
    is_exact(f, &named, false);
    named.method = KITH_METHOD_TREE;
    is_exact(f, &named, false);
    kith_search_params within = params_of(KITH_EUCLIDEAN, KITH_METHOD_AUTO, 0.5);
    within.flags = KITH_WITHIN_RADIUS;
    within.radius = 2.0;
    is_exact(f, &within, false);
    (void)printf("a recall of 0 or 1, a named method, a radius: the exact graph\n");
}

static void the_sooner_one(void **state)
{
    fixture *f = *state;
    kith_search_params params = params_of(KITH_EUCLIDEAN, KITH_METHOD_AUTO, 0.9);
    is_exact(f, &params, true);
    /* Every pair of this metric is a canonical distance. */
    params.metric = KITH_CHI2;
    uint64_t seed = 12;
    test_rows_fill(&f->points, 1.0, 1, &seed);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    test_works(f->ctx, kith_plan_search(f->ctx, &f->points.matrix, NULL, &params, &plan));
    if (strcmp(plan.method, "descent") == 0) {
        is_descent(f, &params, true);
    } else {
        is_exact(f, &params, true);
    }
    (void)printf("euclidean: exact; chi2: %s, as the plan says\n", plan.method);
}

/* What the plan says is what the call does, and by the same seconds. */
static void as_planned(void **state)
{
    fixture *f = *state;
    const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN, KITH_CHI2};
    const double recalls[] = {0.0, 0.6, 0.95, 1.0};
    int descents = 0;
    int graphs = 0;
    for (int i = 0; i < 12; i++) {
        if (test_is_slow_build() && i % 4 != 1 + i / 4 % 2) {
            continue; /* one of each metric, then */
        }
        const kith_search_params params =
            params_of(metrics[i / 4], KITH_METHOD_AUTO, recalls[i % 4]);
        kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
        test_works(f->ctx, kith_plan_search(f->ctx, &f->points.matrix, NULL, &params, &plan));
        const kith_report report = solve(f, &params);
        const bool descends = strcmp(plan.method, "descent") == 0;
        assert_int_equal(report.exact, descends ? KITH_APPROXIMATE : KITH_CERTIFIED);
        assert_true(plan.estimated_exact == report.estimated_exact);
        assert_true(plan.estimated_descent == report.estimated_descent);
        assert_int_equal(plan.estimated_exact > 0.0, i % 4 == 1 || i % 4 == 2);
        descents += descends;
        graphs += 1;
    }
    (void)printf("%d graphs are made as planned, %d by a descent\n", graphs, descents);
}

/* What else a descent has is asked for, and what it did is told. */
static void with_more_to_choose(void **state)
{
    fixture *f = *state;
    kith_descent_params descent = kith_descent_params_default();
    kith_descent_report told = {.struct_size = (uint32_t)sizeof told};
    kith_descent_report wanted = {.struct_size = (uint32_t)sizeof wanted};
    kith_search_params params = params_of(KITH_EUCLIDEAN, KITH_METHOD_DESCENT, 0.0);
    descent.start = KITH_START_RANDOM;
    descent.rounds = 2;
    descent.sample = 300;
    descent.k = 3; /* is not read */
    descent.recall = 7.0;
    params.descent = &descent;
    params.descent_report = &told;
    (void)solve(f, &params);
    descent.k = K;
    descent.recall = 0.0;
    descent.seed = SEED;
    test_works(f->ctx, test_descend(f->ctx, &f->points.matrix, &descent, &f->wanted, &wanted));
    assert_false(test_answers_differ("descent", &f->wanted, &f->got));
    assert_int_equal(told.rounds, 2);
    assert_int_equal(told.start, KITH_START_RANDOM);
    assert_int_equal(told.round_count, wanted.round_count);
    assert_memory_equal(&told.recall, &wanted.recall, sizeof told.recall);
    params.method = KITH_METHOD_EXACT;
    told.rounds = -5;
    (void)solve(f, &params);
    assert_int_equal(told.rounds, -5);
    descent.rounds = -7;
    params.method = KITH_METHOD_DESCENT;
    test_fails(f->ctx, kith_graph(f->ctx, &f->points.matrix, &params, &f->got, NULL),
               KITH_E_ARGUMENT, "rounds");
    descent.rounds = 0;
    told.struct_size = 0;
    test_fails(f->ctx, kith_graph(f->ctx, &f->points.matrix, &params, &f->got, NULL),
               KITH_E_ARGUMENT, "descent_report.struct_size");
    (void)printf("start, rounds and sample of a descent are asked of kith_graph, too\n");
}

static void named_descents(void **state)
{
    fixture *f = *state;
    kith_search_params params = params_of(KITH_COSINE, KITH_METHOD_DESCENT, 0.95);
    params.recall_at = 5;
    is_descent(f, &params, false);
    params = params_of(KITH_EUCLIDEAN, KITH_METHOD_DESCENT, 0.0);
    is_descent(f, &params, false);
    (void)printf(
        "a named descent is the same with all of chapter 13 spelled out, and so is its recall\n");
}

static void mistakes(void **state)
{
    fixture *f = *state;
    const kith_matrix *points = &f->points.matrix;
    const double wrong[] = {-0.1, 1.1, (double)NAN};
    for (int i = 0; i < 3; i++) {
        const kith_search_params params = params_of(KITH_EUCLIDEAN, KITH_METHOD_AUTO, wrong[i]);
        test_fails(f->ctx, kith_graph(f->ctx, points, &params, &f->got, NULL), KITH_E_ARGUMENT,
                   "recall");
    }
    kith_search_params params = params_of(KITH_EUCLIDEAN, KITH_METHOD_DESCENT, 0.9);
    params.flags = KITH_WITHIN_RADIUS;
    test_fails(f->ctx, kith_graph(f->ctx, points, &params, &f->got, NULL), KITH_E_ARGUMENT,
               "method is descent");
    params.flags = 0;
    params.pipeline = KITH_PIPELINE_MATRIX;
    test_fails(f->ctx, kith_graph(f->ctx, points, &params, &f->got, NULL), KITH_E_ARGUMENT,
               "method is descent");
    params = params_of(KITH_EUCLIDEAN, KITH_METHOD_DESCENT, 0.9);
    test_fails(f->ctx, kith_search(f->ctx, points, points, &params, &f->got, NULL), KITH_E_ARGUMENT,
               "method is descent");
    params.method = KITH_METHOD_AUTO;
    params.recall_at = K + 1;
    test_fails(f->ctx, kith_graph(f->ctx, points, &params, &f->got, NULL), KITH_E_ARGUMENT,
               "recall_at");
    kith_report report = {.struct_size = 0};
    params.recall_at = 0;
    test_fails(f->ctx, kith_graph(f->ctx, points, &params, &f->got, &report), KITH_E_ARGUMENT,
               "report.struct_size");
    test_fails(f->ctx, kith_search(f->ctx, points, points, &params, &f->got, &report),
               KITH_E_ARGUMENT, "report.struct_size");
    (void)printf("recalls that are none, descents with what is of exact graphs: refused\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_unless_asked), cmocka_unit_test(the_sooner_one),
        cmocka_unit_test(as_planned),         cmocka_unit_test(with_more_to_choose),
        cmocka_unit_test(named_descents),     cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, make, end);
}
