/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs by the public call: parameters and reports of older callers are understood,
 * the loop ends by the wanted recall, what is told of the recall is true, and a plan holds. Runs
 * with several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_descents.h"
#include "support/support_engines.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* More than engines solve exactly. */
enum { ROWS = 8400, COLS = 10, K = 10, FEW = 60 };

static kith_ctx *new_ctx(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static int make(void **state)
{
    static test_descent_fixture f;
    uint64_t seed = 3;
    f.ctx = new_ctx(2);
    f.points = test_rows_make(KITH_F32, ROWS, COLS, 8);
    test_shape_fill(&f.points, SHAPE_GAUSS, false, &seed);
    f.truth = test_answer_make(ROWS, K);
    f.out = test_answer_make(ROWS, K);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    test_works(f.ctx, kith_graph(f.ctx, &f.points.matrix, &params, &f.truth, NULL));
    *state = &f;
    return 0;
}

static kith_descent_report descend(const test_descent_fixture *f, const kith_descent_params *params)
{
    kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(f->ctx, test_descend(f->ctx, &f->points.matrix, params, &f->out, &report));
    return report;
}

static double true_recall(const test_descent_fixture *f, int64_t at)
{
    kith_recall recall;
    test_works(f->ctx,
               kith_recall_measure(f->ctx, &f->out, &f->truth, KITH_EUCLIDEAN, at, &recall));
    return recall.recall;
}

/* ---- Callers of other versions -------------------------------------------------------------- */

static void sizes_are_obeyed(void **state)
{
    const test_descent_fixture *f = *state;
    kith_descent_params params = test_descent_params(K);
    /* Who knows of nothing behind k gets the defaults, whatever lies there. */
    params.start = (kith_start)77;
    params.delta = 77.0;
    params.struct_size = (uint32_t)offsetof(kith_descent_params, flags);
    kith_descent_report report;
    memset(&report, 0x5a, sizeof report);
    report.struct_size = (uint32_t)offsetof(kith_descent_report, evaluations);
    test_works(f->ctx, test_descend(f->ctx, &f->points.matrix, &params, &f->out, &report));
    assert_int_equal(report.struct_size, offsetof(kith_descent_report, evaluations));
    assert_true(report.rounds >= 0 && report.list > K);
    const unsigned char *bytes = (const unsigned char *)&report;
    for (size_t i = offsetof(kith_descent_report, evaluations); i < sizeof report; i++) {
        assert_int_equal(bytes[i], 0x5a);
    }
    assert_true(true_recall(f, 0) > 0.9);
    (void)printf("smaller structs are understood, and nothing is written behind them\n");
}

/* ---- Recall --------------------------------------------------------------------------------- */

static void rounds_end_by_recall(void **state)
{
    const test_descent_fixture *f = *state;
    int32_t before = -1;
    const double wanted[] = {0.3, 0.8, 0.95, 0.995};
    for (size_t i = test_is_slow_build() ? 3 : 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        kith_descent_params params = test_descent_params(K);
        params.start = KITH_START_RANDOM;
        params.recall = wanted[i];
        const kith_descent_report report = descend(f, &params);
        assert_int_equal(report.start, KITH_START_RANDOM);
        assert_int_equal(report.reached, 1);
        assert_true(report.rounds >= before);
        assert_true(report.round[report.round_count - 1].recall >= wanted[i]);
        for (int32_t r = 0; r < report.round_count - 1; r++) {
            assert_true(report.round[r].recall < wanted[i]);
            assert_true(report.round[r].evaluations <= report.round[r + 1].evaluations);
            assert_true(report.round[r].seconds <= report.round[r + 1].seconds);
        }
        assert_true(true_recall(f, 0) > wanted[i] - 0.03);
        before = report.rounds;
        (void)printf("recall %.3f wanted, %.4f found, %d rounds\n", wanted[i], true_recall(f, 0),
                     (int)report.rounds);
    }
}

/* The start looks at more cells of each point until the wanted recall is there, and at no more. */
static void a_start_ends_by_recall(void **state)
{
    const test_descent_fixture *f = *state;
    static const double wanted[] = {0.5, 0.9, 0.999};
    double before = 0.0;
    kith_descent_params params = test_descent_params(K);
    params.sample = 1000;
    for (int i = 0; i < 3; i++) {
        params.recall = wanted[i];
        const kith_descent_report report = descend(f, &params);
        const double evaluations = report.round[0].evaluations;
        assert_int_equal(report.round[0].number, 0); /* looks within the start are no rounds */
        assert_true(evaluations >= before && (i < 2 || evaluations > before));
        (void)printf("recall %.3f wanted: the start meets %.0f points for each and has %.4f\n",
                     wanted[i], evaluations / (double)f->points.matrix.rows,
                     report.round[0].recall);
        before = evaluations;
    }
}

static void rounds_end_without_it(void **state)
{
    const test_descent_fixture *f = *state;
    kith_descent_params params = test_descent_params(K);
    params.start = KITH_START_RANDOM;
    params.recall = 1.0;
    params.rounds = 2;
    kith_descent_report report = descend(f, &params);
    assert_int_equal(report.reached, 0);
    assert_int_equal(report.rounds, 2);
    assert_int_equal(report.round_count, 3);
    params.rounds = -1;
    report = descend(f, &params);
    assert_int_equal(report.rounds, 0);
    assert_int_equal(report.round_count, 1);
    if (test_is_thread_build()) {
        (void)printf("without reaching it rounds end and say so; longer lists: other builds\n");
        return;
    }
    /* Candidates so few that short lists cannot do it: they become longer. */
    params = test_descent_params(K);
    params.start = KITH_START_RANDOM;
    params.candidates = 2;
    params.recall = 0.999;
    report = descend(f, &params);
    params.list = K + 1;
    params.rounds = 5;
    const kith_descent_report kept = descend(f, &params);
    assert_int_equal(kept.list, K + 1);
    assert_true(report.list > kept.list);
    assert_true(report.recall.recall > kept.recall.recall);
    (void)printf("without reaching it rounds end and say so; lists go on longer, up to %d\n",
                 (int)report.list);
}

/* The report's recall is what kith_recall_estimate says of the graph for the same seed. */
static void recall_is_that_of_the_graph(void **state)
{
    const test_descent_fixture *f = *state;
    const int64_t ats[] = {0, 1, 5};
    for (size_t i = test_is_slow_build() ? 2 : 0; i < sizeof ats / sizeof ats[0]; i++) {
        kith_descent_params params = test_descent_params(K);
        kith_recall told;
        params.recall = 0.9;
        params.recall_at = ats[i];
        params.sample = 300;
        params.seed = 40 + i;
        params.start = KITH_START_RANDOM;
        const kith_descent_report report = descend(f, &params);
        test_works(f->ctx, kith_recall_estimate(
                               f->ctx, &f->points.matrix, &f->out,
                               TEST_RECALL_PARAMS(KITH_EUCLIDEAN, ats[i], 300, 40 + i), &told));
        assert_true(fabs(told.recall - report.recall.recall) < 1e-12);
        assert_true(fabs(told.low - report.recall.low) < 1e-12);
        assert_true(fabs(told.high - report.recall.high) < 1e-12);
        assert_int_equal(told.at, report.recall.at);
        assert_int_equal(report.recall.rows, 300);
        if (i != 2 || test_is_thread_build()) { /* to know all rows' truth takes longest */
            continue;
        }
        params.sample = ROWS + 5;
        const kith_descent_report whole = descend(f, &params);
        assert_int_equal(whole.recall.rows, ROWS);
        assert_true(fabs(whole.recall.recall - true_recall(f, ats[i])) < 1e-12);
        assert_true(whole.recall.low == whole.recall.high);
        params.sample = -1;
        params.recall = 0.0;
        assert_int_equal(descend(f, &params).recall.rows, 0);
    }
    (void)printf("the recall that is told is that of the graph\n");
}

/* Rounds end by a sample that is good enough; the interval is of another one. */
static void interval_holds_the_truth(void **state)
{
    const test_descent_fixture *f = *state;
    const int most = getenv("KITH_LONG") != NULL ? 100 : 24;
    const int seeds = test_is_sanitized_build() ? 2 : most;
    int within = 0;
    double above = 0.0;
    for (int seed = 0; seed < seeds; seed++) {
        kith_descent_params params = test_descent_params(K);
        params.start = KITH_START_RANDOM;
        params.seed = (uint64_t)seed;
        params.recall = seed % 2 == 0 ? 0.8 : 0.95;
        params.sample = 100;
        const kith_recall told = descend(f, &params).recall;
        const double truth = true_recall(f, 0);
        within += told.low <= truth && truth <= told.high;
        above += told.recall - truth;
    }
    assert_true(10 * within >= 9 * seeds);
    assert_true(seeds < 10 || fabs(above / seeds) < 0.005);
    (void)printf("%d of %d intervals hold the truth; estimates are %.5f above it on average\n",
                 within, seeds, above / seeds);
}

/* ---- Graphs --------------------------------------------------------------------------------- */

static void starts_from_graphs(void **state)
{
    const test_descent_fixture *f = *state;
    kith_descent_params params = test_descent_params(K);
    params.init = &f->truth;
    params.rounds = 1;
    kith_descent_report report = descend(f, &params);
    assert_int_equal(report.start, KITH_START_GRAPH);
    assert_true(test_answers_equal(&f->out, &f->truth));
    assert_true(report.round[0].recall == 1.0);
    /* Half of the slots empty, the rest is found again; the same array may be read and written. */
    for (int64_t i = 0; i < ROWS * K; i += 2) {
        f->out.ids[i] = KITH_ID_NONE;
    }
    params.rounds = 3;
    params.init = &f->out;
    report = descend(f, &params);
    assert_true(report.round[0].recall < 0.6);
    assert_true(true_recall(f, 0) > 0.95);
    (void)printf("exact graphs stay, halves of graphs become whole\n");
}

static void threads_do_not_matter(void **state)
{
    if (test_is_thread_build()) {
        skip(); /* the same descents as above, and what one thread does */
    }
    test_descent_fixture *f = *state;
    kith_neighbors first = test_answer_make(ROWS, K);
    kith_ctx *own = f->ctx;
    kith_descent_params params = test_descent_params(K);
    params.recall = 0.97;
    params.start = KITH_START_RANDOM;
    const kith_descent_report a = descend(f, &params);
    memcpy(first.ids, f->out.ids, ROWS * K * sizeof *first.ids);
    f->ctx = new_ctx(1);
    const kith_descent_report b = descend(f, &params);
    assert_memory_equal(first.ids, f->out.ids, ROWS * K * sizeof *first.ids);
    assert_memory_equal(&a.recall, &b.recall, sizeof a.recall);
    params.seed = 1;
    (void)descend(f, &params);
    assert_memory_not_equal(first.ids, f->out.ids, ROWS * K * sizeof *first.ids);
    kith_ctx_free(f->ctx);
    f->ctx = own;
    test_answer_free(&first);
    (void)printf("the same bytes with 1 and 2 threads, others for another seed\n");
}

typedef struct table {
    const test_descent_fixture *f;
    int strangers; /* pointers that were no row */
} table;

/* By numbers of rows alone. */
static double by_index(void *arg, const void *query, const void *point, int32_t cols)
{
    table *t = arg;
    const kith_matrix *m = &t->f->points.matrix;
    const ptrdiff_t to_query = (const char *)query - (const char *)m->data;
    const ptrdiff_t to_point = (const char *)point - (const char *)m->data;
    const int64_t a = to_query / m->stride_bytes;
    const int64_t b = to_point / m->stride_bytes;
    if (to_query % m->stride_bytes != 0 || to_point % m->stride_bytes != 0 || a < 0 || a >= ROWS ||
        b < 0 || b >= ROWS || cols != COLS) {
        t->strangers += 1;
        return 0.0;
    }
    const int64_t apart = a * 11 % ROWS - b * 11 % ROWS;
    const double turn = fabs((double)apart);
    return fmin(turn, ROWS - turn);
}

static void functions_of_row_numbers(void **state)
{
    test_descent_fixture *f = *state;
    table t = {.f = f};
    kith_descent_params params = test_descent_params(K);
    params.metric = KITH_CUSTOM;
    params.custom = by_index;
    params.custom_arg = &t;
    params.k = 4;
    params.recall = 0.9;
    params.sample = 100;
    kith_neighbors out = f->out;
    out.k = 4;
    kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(f->ctx, test_descend(f->ctx, &f->points.matrix, &params, &out, &report));
    assert_int_equal(t.strangers, 0);
    int64_t right = 0;
    for (int64_t i = 0; i < ROWS * 4; i++) {
        const int64_t place = i % 4;
        right += out.distances[i] == (place < 2 ? 1.0F : 2.0F);
    }
    assert_true(right > ROWS * 4 * 8 / 10);
    (void)printf("a function that knows rows by number finds %.3f of its neighbours\n",
                 (double)right / (ROWS * 4.0));
}

static void few_points_are_exact(void **state)
{
    const test_descent_fixture *f = *state;
    const kith_matrix few = {.data = f->points.matrix.data,
                             .rows = FEW,
                             .stride_bytes = f->points.matrix.stride_bytes,
                             .cols = COLS,
                             .dtype = KITH_F32};
    kith_neighbors exact = test_answer_make(FEW, K);
    kith_neighbors found = test_answer_make(FEW, K);
    kith_search_params search = kith_search_params_default();
    kith_descent_params params = test_descent_params(K);
    kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
    search.k = K;
    params.recall = 0.99;
    test_works(f->ctx, kith_graph(f->ctx, &few, &search, &exact, NULL));
    test_works(f->ctx, test_descend(f->ctx, &few, &params, &found, &report));
    assert_true(test_answers_equal(&exact, &found));
    assert_true(report.exact == 1 && report.reached == 1 && report.recall.low == 1.0);
    test_answer_free(&found);
    test_answer_free(&exact);
    (void)printf("of few points the graph is exact, and says so\n");
}

/* ---- Plans ---------------------------------------------------------------------------------- */

/* The plan of a descent, named (method), or where it is the sooner one. */
static void a_start_of_all_pairs(void **state)
{
    const test_descent_fixture *f = *state;
    kith_descent_params params = kith_descent_params_default();
    params.k = K;
    params.start = KITH_START_SCREEN;
    params.start_share = 1.0;
    kith_descent_report report = descend(f, &params);
    assert_int_equal(report.exact, 1);
    assert_true(test_answers_equal(&f->out, &f->truth));
    printf("a start that may look at all pairs: an exact graph\n");
}

/* Wider than cells have centres for. */
static void wide_rows_begin_by_chance(void **state)
{
    enum { WIDE_ROWS = 8300, WIDE = 8200, WIDE_K = 5, CENTRES = 400, CHANGED = 300 };
    const test_descent_fixture *f = *state;
    kith_descent_params params = kith_descent_params_default();
    kith_descent_report report = {.struct_size = (uint32_t)sizeof report};
    if (!test_is_whole_build()) {
        skip(); /* some 10 s */
    }
    uint64_t seed = 11;
    test_rows wide = test_rows_make(KITH_U8, WIDE_ROWS, WIDE, 0);
    for (int64_t i = 0; i < WIDE_ROWS; i++) {
        for (int32_t j = 0; j < (i < CENTRES ? WIDE : CHANGED); j++) {
            if (i >= CENTRES && j == 0) {
                test_rows_copy(&wide, i, &wide, i % CENTRES);
            }
            const int32_t column = i < CENTRES ? j : (int32_t)(test_uniform(&seed) * WIDE);
            test_rows_set(&wide, i, column, floor(256.0 * test_uniform(&seed)));
        }
    }
    kith_neighbors out = test_answer_make(WIDE_ROWS, WIDE_K);
    params.k = WIDE_K;
    params.start = KITH_START_SCREEN;
    test_works(f->ctx, test_descend(f->ctx, &wide.matrix, &params, &out, &report));
    assert_int_equal(report.start, KITH_START_RANDOM);
    assert_true(report.recall.recall > 0.9);
    printf("%d columns begin by chance: recall %.4f\n", WIDE, report.recall.recall);
    test_answer_free(&out);
    test_rows_free(&wide);
}

static kith_status plan_of(const test_descent_fixture *f, const kith_matrix *points,
                           const kith_descent_params *descent, kith_method method, kith_plan *plan)
{
    kith_search_params params = kith_search_params_default();
    params.metric = descent->metric;
    params.k = descent->k;
    params.method = method;
    params.recall = method == KITH_METHOD_AUTO ? 0.99 : 0.0;
    params.descent = descent;
    return kith_plan_search(f->ctx, points, NULL, &params, plan);
}

static void plans_hold(void **state)
{
    const test_descent_fixture *f = *state;
    const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_MANHATTAN};
    for (size_t i = test_is_slow_build() ? 2 : 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        kith_matrix shape = f->points.matrix;
        kith_descent_params params = test_descent_params(K);
        kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
        kith_report report = {.struct_size = (uint32_t)sizeof report};
        shape.data = NULL;
        params.metric = metrics[i];
        test_works(f->ctx, plan_of(f, &shape, &params, KITH_METHOD_DESCENT, &plan));
        assert_true(plan.estimated_exact == 0.0 && plan.estimated_descent == 0.0);
        assert_string_equal(plan.method, "descent");
        (void)descend(f, &params);
        test_works(f->ctx, kith_ctx_report(f->ctx, &report));
        assert_int_equal(report.exact, KITH_APPROXIMATE);
        assert_true(report.peak_bytes <= plan.peak_bytes);
        assert_true(plan.peak_bytes < 8 * (report.peak_bytes + plan.result_bytes));
        (void)printf("%s: planned %.2f MB, held %.2f MB beside the result\n",
                     kith_metric_name(metrics[i]), (double)plan.peak_bytes * 1e-6,
                     (double)report.peak_bytes * 1e-6);
    }
}

static void estimates_cross_once(void **state)
{
    const test_descent_fixture *f = *state;
    kith_descent_params params = test_descent_params(K);
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    bool paid = false;
    for (int64_t rows = 1000; rows < 200000000; rows *= 10) {
        kith_matrix shape = {.rows = rows, .cols = 128, .dtype = KITH_F32};
        test_works(f->ctx, plan_of(f, &shape, &params, KITH_METHOD_AUTO, &plan));
        const bool pays = strcmp(plan.method, "descent") == 0;
        assert_true(plan.estimated_exact > 0.0 && plan.estimated_descent > 0.0);
        assert_true(pays == (plan.estimated_descent < 0.7 * plan.estimated_exact));
        assert_true(pays >= paid);
        assert_true(rows >= 10000 || !pays);
        paid = pays;
    }
    assert_true(paid);
    const kith_matrix *points = &f->points.matrix;
    for (int method = KITH_METHOD_AUTO; method <= KITH_METHOD_DESCENT; method += 3) {
        params.k = 0;
        assert_int_equal(plan_of(f, points, &params, (kith_method)method, &plan), KITH_E_ARGUMENT);
        params.k = K;
        assert_int_equal(plan_of(f, NULL, &params, (kith_method)method, &plan), KITH_E_ARGUMENT);
        plan.struct_size = 0;
        assert_int_equal(plan_of(f, points, &params, (kith_method)method, &plan), KITH_E_ARGUMENT);
        plan.struct_size = (uint32_t)sizeof plan;
    }
    (void)printf("exact graphs are sooner for few points, descents for many\n");
}

static int stop(void *arg, const char *phase, double done, double total)
{
    (void)arg;
    (void)phase;
    (void)done;
    (void)total;
    return 1;
}

static void stops(void **state)
{
    const test_descent_fixture *f = *state;
    kith_ctx_params how = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    how.threads = 2;
    how.progress = stop;
    assert_int_equal(kith_ctx_create(&how, &ctx), KITH_OK);
    kith_descent_params params = test_descent_params(K);
    params.recall = 0.99;
    assert_int_equal(test_descend(ctx, &f->points.matrix, &params, &f->out, NULL),
                     KITH_E_CANCELLED);
    kith_ctx_free(ctx);
    (void)printf("a descent stops when it is told to\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_obeyed),
        cmocka_unit_test(rounds_end_by_recall),
        cmocka_unit_test(a_start_ends_by_recall),
        cmocka_unit_test(rounds_end_without_it),
        cmocka_unit_test(starts_from_graphs),
        cmocka_unit_test(recall_is_that_of_the_graph),
        cmocka_unit_test(interval_holds_the_truth),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(functions_of_row_numbers),
        cmocka_unit_test(few_points_are_exact),
        cmocka_unit_test(a_start_of_all_pairs),
        cmocka_unit_test(wide_rows_begin_by_chance),
        cmocka_unit_test(plans_hold),
        cmocka_unit_test(estimates_cross_once),
        cmocka_unit_test(stops),
    };
    return cmocka_run_group_tests(tests, make, test_descent_drop);
}
