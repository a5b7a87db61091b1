/* SPDX-License-Identifier: Apache-2.0
 * What NN-Descent on the processor finds: recall of every metric, type and start against the exact
 * engine, sets that are strange, few points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_search.h"
#include "support/support_answers.h"
#include "support/support_descents.h"

#include <stdio.h>

/* Fewer are solved exactly (graph_descend.c), where there is a screen. */
enum { ROWS = 8500, COLS = 8 };

/* ---- Recall --------------------------------------------------------------------------------- */

static void every_metric_is_found(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    for (kith_metric metric = KITH_EUCLIDEAN; metric <= KITH_CUSTOM; metric++) {
        const bool nonnegative =
            metric != KITH_CUSTOM && kin_metric_get_traits(metric)->nonnegative;
        /* Shares of equal components tie but for many of them. */
        const bool sets = metric == KITH_HAMMING || metric == KITH_JACCARD;
        test_rows rows = test_descent_rows(sets ? KITH_U8 : KITH_F32, ROWS, sets ? 40 : COLS,
                                           sets ? SHAPE_GRID : SHAPE_GAUSS, nonnegative);
        kin_graph_request request = test_descent_request(ctx, &rows, metric, 10);
        /* kl of rows whose sums differ has hubs: everybody wants them, and they want nobody. */
        const bool hubs = metric == KITH_KL;
        const double floor = hubs ? 0.65 : sets ? 0.85 : 0.95;
        test_descent_check(ctx, kith_metric_name(metric), &rows, &request, floor);
        test_rows_free(&rows);
    }
    kith_ctx_free(ctx);
}

static void every_k_is_found(void **state)
{
    (void)state;
    static const int64_t ks[] = {1, 2, 32, 256};
    kith_ctx *ctx = test_descent_ctx(2);
    test_rows rows = test_descent_rows(KITH_F32, 10600, COLS, SHAPE_GAUSS, false);
    const int count = test_is_sanitized_build() ? 3 : 4;
    for (int i = 0; i < count; i++) {
        kin_graph_request request = test_descent_request(ctx, &rows, KITH_EUCLIDEAN, ks[i]);
        request.flags = i % 2 == 1 ? KITH_INCLUDE_SELF : 0;
        request.rounds = ks[i] > 32 ? 4 : 0;
        test_descent_check(ctx, "gauss", &rows, &request, 0.9);
        request.start = KIN_GRAPH_START_RANDOM;
        if (ks[i] <= 32) {
            test_descent_check(ctx, "random start", &rows, &request, ks[i] == 1 ? 0.85 : 0.95);
        }
    }
    test_rows_free(&rows);
    kith_ctx_free(ctx);
}

static void types_and_starts_are_found(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    for (int i = 0; i < 3; i++) {
        static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64};
        const kith_dtype dtype = dtypes[i];
        test_rows rows = test_descent_rows(dtype, ROWS, 24, SHAPE_GAUSS, false);
        kin_graph_request request = test_descent_request(ctx, &rows, KITH_EUCLIDEAN, 10);
        request.share = 0.05;
        test_descent_check(ctx, "5 % of all pairs", &rows, &request, 0.8);
        request.all_updates = 1;
        test_descent_check(ctx, "the same, all updates", &rows, &request, 0.85);
        request.start = KIN_GRAPH_START_RANDOM;
        test_descent_check(ctx, "at random, all updates", &rows, &request, 0.85);
        test_rows_free(&rows);
        if (test_is_slow_build()) {
            break;
        }
    }
    kith_ctx_free(ctx);
}

/* ---- Strange sets --------------------------------------------------------------------------- */

static kith_neighbors exact_of(kith_ctx *ctx, const test_rows *rows,
                               const kin_graph_request *request)
{
    kith_neighbors truth = test_answer_make(rows->matrix.rows, request->k);
    const kin_request exact = {
        .distance = request->distance, .k = request->k, .flags = request->flags};
    assert_int_equal(kin_exact_graph(ctx, &rows->matrix, &exact, &truth), KITH_OK);
    return truth;
}

/* Few distinct rows: the exact engine's bytes. */
static void check_exact(kith_ctx *ctx, const char *name, const test_rows *rows,
                        const kin_graph_request *request)
{
    kin_graph_outcome outcome;
    kith_neighbors truth = exact_of(ctx, rows, request);
    kith_neighbors answer = test_descent_solve(ctx, rows, request, &outcome);
    if (!outcome.exact || !test_answers_equal(&truth, &answer)) {
        fail_msg("%s: not the exact engine's answer", name);
    }
    test_answer_free(&answer);
    test_answer_free(&truth);
}

static void few_points_are_exact(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN, KITH_COSINE, KITH_KL};
    static const int64_t shapes[][2] = {{2, 1}, {3, 1}, {11, 10}, {300, 299}, {1025, 1024}};
    kith_ctx *ctx = test_descent_ctx(2);
    int cases = 0;
    for (int i = 0; i < 5; i++) {
        for (int m = 0; m < 4; m++) {
            test_rows rows = test_descent_rows(KITH_F32, shapes[i][0], COLS, SHAPE_SPARSE, true);
            kin_graph_request request = test_descent_request(ctx, &rows, metrics[m], shapes[i][1]);
            check_exact(ctx, "k = n - 1", &rows, &request);
            request.flags = KITH_INCLUDE_SELF;
            check_exact(ctx, "k = n - 1 and the own", &rows, &request);
            test_rows_free(&rows);
            cases += 2;
        }
    }
    for (int m = 0; m < 4; m++) { /* many rows, all of them one */
        test_rows rows = test_descent_rows(KITH_F32, m % 2 == 0 ? ROWS : 600, 3, SHAPE_EQUAL, true);
        kin_graph_request request = test_descent_request(ctx, &rows, metrics[m], 10);
        check_exact(ctx, "all equal", &rows, &request);
        test_rows_free(&rows);
        cases += 1;
    }
    kith_ctx_free(ctx);
    printf("%d sets of few points or one point: the exact engine's bytes\n", cases);
}

static void far_blobs_are_found(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    uint64_t seed = 11;
    test_rows rows = test_rows_make(KITH_F32, ROWS, COLS, 0);
    for (int64_t i = 0; i < ROWS; i++) {
        for (int32_t c = 0; c < COLS; c++) {
            test_rows_set(&rows, i, c, test_gauss(&seed) + (i % 2 == 0 ? 0.0 : 1e4));
        }
    }
    kin_graph_request request = test_descent_request(ctx, &rows, KITH_EUCLIDEAN, 10);
    test_descent_check(ctx, "two far blobs", &rows, &request, 0.98);
    request.start = KIN_GRAPH_START_RANDOM;
    test_descent_check(ctx, "two far blobs, random", &rows, &request, 0.95);
    test_rows_free(&rows);
    kith_ctx_free(ctx);
}

/* Of five rows four are copies of others, some of them of a few. */
static void duplicates_are_found(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    const int64_t n = 5 * ROWS;
    uint64_t seed = 13;
    test_rows rows = test_rows_make(KITH_F32, n, 4, 0);
    test_rows_fill(&rows, 1.0, 0, &seed);
    for (int64_t i = ROWS; i < n; i++) {
        const double u = test_uniform(&seed);
        test_rows_copy(&rows, i, &rows, (int64_t)(u * u * u * ROWS));
    }
    const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_CHEBYSHEV};
    for (int m = 0; m < (test_is_slow_build() ? 1 : 2); m++) {
        kin_graph_request request = test_descent_request(ctx, &rows, metrics[m], 10);
        test_descent_check(ctx, "80 % duplicates", &rows, &request, 0.98);
    }
    test_rows_free(&rows);
    kith_ctx_free(ctx);
}

/* Zero rows have no direction: at distance 1 from all under cosine. */
static void degenerate_rows_are_answered(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    test_rows rows = test_descent_rows(KITH_F32, ROWS, COLS, SHAPE_SPARSE, false);
    kin_graph_request request = test_descent_request(ctx, &rows, KITH_COSINE, 10);
    test_descent_check(ctx, "zero rows, cosine", &rows, &request, 0.97);
    test_rows_free(&rows);
    kith_ctx_free(ctx);
}

/* ---- Start from a graph --------------------------------------------------------------------- */

static void a_graph_is_refined(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(2);
    test_rows rows = test_descent_rows(KITH_F32, ROWS, COLS, SHAPE_GAUSS, false);
    kin_graph_request request = test_descent_request(ctx, &rows, KITH_EUCLIDEAN, 10);
    kith_neighbors graph = exact_of(ctx, &rows, &request);
    kith_neighbors init = exact_of(ctx, &rows, &request);
    test_descent_truth truth = test_descent_truth_make(ctx, &rows, &request);
    kin_graph_outcome outcome;
    request.init = &init;
    request.start = KIN_GRAPH_START_GRAPH;
    request.rounds = -1;
    kith_neighbors same = test_descent_solve(ctx, &rows, &request, &outcome);
    assert_true(test_answers_equal(&same, &graph));    /* what is given is not lost */
    for (int64_t i = 0; i < init.rows * init.k; i++) { /* half of it, the own row, no row */
        init.ids[i] = i % 2 == 0 ? init.ids[i] : i % 3 == 0 ? KITH_ID_NONE : (uint32_t)(i / 10);
    }
    kith_neighbors half = test_descent_solve(ctx, &rows, &request, &outcome);
    request.rounds = 0;
    kith_neighbors refined = test_descent_solve(ctx, &rows, &request, &outcome);
    const double before = test_descent_recall(&half, &truth, KITH_EUCLIDEAN);
    const double after = test_descent_recall(&refined, &truth, KITH_EUCLIDEAN);
    printf("  half of a graph: recall %.4f, refined %.4f\n", before, after);
    assert_true(before >= 0.5 && before < 0.7 && after > 0.97);
    test_answer_free(&refined);
    test_answer_free(&half);
    test_answer_free(&same);
    test_answer_free(&init);
    test_answer_free(&graph);
    test_descent_truth_free(&truth);
    test_rows_free(&rows);
    kith_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_is_found),        cmocka_unit_test(every_k_is_found),
        cmocka_unit_test(types_and_starts_are_found),   cmocka_unit_test(few_points_are_exact),
        cmocka_unit_test(far_blobs_are_found),          cmocka_unit_test(duplicates_are_found),
        cmocka_unit_test(degenerate_rows_are_answered), cmocka_unit_test(a_graph_is_refined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
