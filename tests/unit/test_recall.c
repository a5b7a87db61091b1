/* SPDX-License-Identifier: Apache-2.0
 * Recall: counted as a person would count it, and estimated against the full answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle/plain_knn.h"
#include "support/support_calls.h"
#include "support/support_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 400, COLS = 7, K = 12 };

static kith_ctx *new_ctx(void)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = 2;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static void near(double a, double b)
{
    assert_true(fabs(a - b) < 1e-12);
}

static void counts_by_hand(void **state)
{
    (void)state;
    kith_ctx *ctx = new_ctx();
    /* Row 0: a tie that is another id counts. Row 1: a repeated id and an empty slot do not. */
    uint32_t true_ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float true_far[] = {1, 2, 3, 4, 1, 2, 4, 8};
    uint32_t found_ids[] = {1, 2, 3, 9, 5, 5, 7, KITH_ID_NONE};
    float found_far[] = {1, 2, 3, 4, 1, 1, 4, INFINITY};
    const kith_neighbors truth = {.ids = true_ids, .distances = true_far, .rows = 2, .k = 4};
    const kith_neighbors found = {.ids = found_ids, .distances = found_far, .rows = 2, .k = 4};
    kith_recall recall;
    assert_int_equal(kith_recall_measure(ctx, &found, &truth, KITH_EUCLIDEAN, 0, &recall), KITH_OK);
    assert_int_equal(recall.at, 4);
    assert_int_equal(recall.rows, 2);
    near(recall.recall, 6.0 / 8.0);
    near(recall.low, recall.recall);
    near(recall.high, recall.recall);
    near(recall.equal_ids, 5.0 / 8.0);
    near(recall.distance_ratio, 1.0);

    found_far[1] = NAN;
    assert_int_equal(kith_recall_measure(ctx, &found, &truth, KITH_EUCLIDEAN, 2, &recall), KITH_OK);
    near(recall.recall, 2.0 / 4.0);

    /* A product is the better the larger it is. */
    float true_products[] = {8, 7, 6, 5, 8, 7, 6, 5};
    float found_products[] = {8, 7, 5, 4, 9, 8, 7, 6};
    uint32_t other_ids[] = {1, 2, 3, 9, 5, 6, 7, 8};
    const kith_neighbors best = {.ids = true_ids, .distances = true_products, .rows = 2, .k = 4};
    const kith_neighbors some = {.ids = other_ids, .distances = found_products, .rows = 2, .k = 4};
    assert_int_equal(kith_recall_measure(ctx, &some, &best, KITH_INNER_PRODUCT, 0, &recall),
                     KITH_OK);
    near(recall.recall, 7.0 / 8.0);
    kith_ctx_free(ctx);
    (void)printf("recall counts ties, and neither repeated ids nor empty slots\n");
}

static void single_precision_is_no_miss(void **state)
{
    (void)state;
    kith_ctx *ctx = new_ctx();
    uint32_t ids[] = {4, 5};
    uint32_t others[] = {4, 6};
    double wide[] = {0.1, 0.3};
    float narrow[] = {0.1F, 0.3F}; /* 0.3F is above 0.3 */
    double wide_more[] = {0.1, nextafter(0.3, 1.0)};
    const kith_neighbors truth = {.ids = ids, .distances64 = wide, .rows = 1, .k = 2};
    const kith_neighbors found = {.ids = others, .distances = narrow, .rows = 1, .k = 2};
    const kith_neighbors worse = {.ids = others, .distances64 = wide_more, .rows = 1, .k = 2};
    kith_recall recall;
    assert_int_equal(kith_recall_measure(ctx, &found, &truth, KITH_EUCLIDEAN, 0, &recall), KITH_OK);
    near(recall.recall, 1.0);
    near(recall.equal_ids, 0.5);
    assert_int_equal(kith_recall_measure(ctx, &worse, &truth, KITH_EUCLIDEAN, 0, &recall), KITH_OK);
    near(recall.recall, 0.5);
    kith_ctx_free(ctx);
    (void)printf("float32 is compared with float32, double with double\n");
}

typedef struct fixture {
    kith_ctx *ctx;
    test_rows points;
    uint32_t *ids;
    double *keys;
    kith_neighbors graph;
} fixture;

static void make_graph(fixture *f, kith_metric metric)
{
    uint64_t seed = 5;
    f->ctx = new_ctx();
    f->points = test_rows_make(KITH_F32, ROWS, COLS, 12);
    test_rows_fill(&f->points, 3.0, metric == KITH_KL, &seed);
    f->ids = malloc(ROWS * K * sizeof *f->ids);
    f->keys = malloc(ROWS * K * sizeof *f->keys);
    assert_true(f->ids != NULL && f->keys != NULL);
    oracle_knn(metric, &f->points.matrix, &f->points.matrix, K, 1, f->ids, f->keys);
    f->graph = (kith_neighbors){.ids = f->ids, .rows = ROWS, .k = K};
}

static void free_graph(fixture *f)
{
    free(f->keys);
    free(f->ids);
    test_rows_free(&f->points);
    kith_ctx_free(f->ctx);
}

/* Every third row of the graph loses its last neighbours: recall by counting on all rows. */
static void estimates_what_is_there(void **state)
{
    (void)state;
    const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE, KITH_MANHATTAN,
                                   KITH_KL};
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        fixture f;
        kith_recall recall;
        make_graph(&f, metrics[m]);
        for (int64_t sample = 1; sample <= 4 * ROWS; sample *= 4) {
            assert_int_equal(kith_recall_estimate(f.ctx, &f.points.matrix, &f.graph,
                                                  TEST_RECALL_PARAMS(metrics[m], 0, sample, 9),
                                                  &recall),
                             KITH_OK);
            near(recall.recall, 1.0);
            near(recall.equal_ids, 1.0);
            near(recall.high, 1.0);
            assert_true(sample >= ROWS ? recall.low == 1.0 : recall.low < 1.0);
            assert_int_equal(recall.rows, sample < ROWS ? sample : ROWS);
            assert_int_equal(recall.at, 10);
        }
        for (int64_t row = 0; row < ROWS; row += 3) {
            f.ids[row * K + 8] = (uint32_t)row; /* its own id */
            f.ids[row * K + 9] = KITH_ID_NONE;
            f.ids[row * K + 7] = f.ids[row * K];
        }
        const double rows_cut = (ROWS + 2) / 3;
        const double expected = 1.0 - rows_cut * 3.0 / (ROWS * 10.0);
        assert_int_equal(kith_recall_estimate(f.ctx, &f.points.matrix, &f.graph,
                                              TEST_RECALL_PARAMS(metrics[m], 10, ROWS, 9), &recall),
                         KITH_OK);
        near(recall.recall, expected);
        near(recall.equal_ids, expected);
        near(recall.low, expected);
        assert_int_equal(kith_recall_estimate(f.ctx, &f.points.matrix, &f.graph,
                                              TEST_RECALL_PARAMS(metrics[m], 10, 100, 9), &recall),
                         KITH_OK);
        assert_true(recall.low < recall.recall && recall.recall < recall.high);
        assert_true(recall.low > 0.7 && recall.high < 1.0);
        assert_true(fabs(recall.recall - expected) < 0.06);
        kith_recall again;
        assert_int_equal(kith_recall_estimate(f.ctx, &f.points.matrix, &f.graph,
                                              TEST_RECALL_PARAMS(metrics[m], 10, 100, 9), &again),
                         KITH_OK);
        assert_memory_equal(&again, &recall, sizeof recall);
        free_graph(&f);
    }
    (void)printf("an estimate from all rows is the recall; from a sample its interval holds it\n");
}

static kith_recall estimate(const fixture *f, int64_t sample, uint64_t seed)
{
    kith_recall recall;
    assert_int_equal(kith_recall_estimate(f->ctx, &f->points.matrix, &f->graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 10, sample, seed),
                                          &recall),
                     KITH_OK);
    return recall;
}

/* The first neighbours of a row give way to empty slots. */
static void lose(const fixture *f, int64_t row, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        f->ids[row * K + i] = KITH_ID_NONE;
    }
}

/* Wilson 1927: 90 of 100 give 0.8256343 to 0.9447712. */
static void interval_is_wilsons(void **state)
{
    (void)state;
    fixture f;
    make_graph(&f, KITH_EUCLIDEAN);
    const kith_recall whole = estimate(&f, 100, 1);
    assert_true(fabs(whole.low - 100.0 / (100.0 + 3.841458820694124)) < 1e-9);
    for (int64_t row = 0; row < ROWS; row += 10) {
        lose(&f, row, 10);
    }
    int seen = 0;
    for (uint64_t seed = 1; seed < 100; seed++) {
        const kith_recall recall = estimate(&f, 100, seed);
        if (fabs(recall.recall - 0.9) < 1e-12) {
            assert_true(fabs(recall.low - 0.8256343) < 1e-6);
            assert_true(fabs(recall.high - 0.9447712) < 1e-6);
            seen += 1;
        }
    }
    assert_true(seen > 0);
    free_graph(&f);
    (void)printf("where rows are right or wrong, the interval is Wilson's (%d samples)\n", seen);
}

/* Nine of ten in every row: what varies little is known better, but a row that was not seen may
 * have missed everything. 1,000 rows that are right or wrong would say as much as these 100. */
static void interval_knows_how_rows_vary(void **state)
{
    (void)state;
    fixture f;
    make_graph(&f, KITH_EUCLIDEAN);
    for (int64_t row = 0; row < ROWS; row++) {
        lose(&f, row, 1);
    }
    const kith_recall recall = estimate(&f, 100, 1);
    near(recall.recall, 0.9);
    assert_true(fabs(recall.low - 0.8798480) < 1e-6);
    assert_true(fabs(recall.high - 0.9170906) < 1e-6);
    free_graph(&f);
    (void)printf("rows that are alike say more than rows that differ\n");
}

/* Among rows that are hardly damaged some lose much: the truth lies within for nine seeds of ten
 * and more. Of 400 rows 40 are a sample that leaves most of them out. */
static void interval_holds_the_truth(void **state)
{
    (void)state;
    enum { SEEDS = 200, SAMPLE = 40 };
    static const int every[] = {3, 7, 16, 40}; /* one row in so many loses `most` */
    static const int most[] = {1, 4, 10};
    int worst = SEEDS;
    for (size_t e = 0; e < sizeof every / sizeof every[0]; e++) {
        for (size_t m = 0; m < sizeof most / sizeof most[0]; m++) {
            fixture f;
            int within = 0;
            make_graph(&f, KITH_EUCLIDEAN);
            for (int64_t row = 0; row < ROWS; row++) {
                lose(&f, row, row % every[e] == 0 ? most[m] : row % 5 == 1);
            }
            const double truth = estimate(&f, ROWS, 0).recall;
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                const kith_recall recall = estimate(&f, SAMPLE, seed);
                within += recall.low <= truth && truth <= recall.high;
            }
            worst = within < worst ? within : worst;
            free_graph(&f);
        }
    }
    assert_true(worst >= SEEDS * 9 / 10);
    (void)printf("of %d seeds at least %d have the truth within their interval\n", SEEDS, worst);
}

/* A row that is first in its own list is left out there: recall is that of the others. */
static void leaves_own_rows_out(void **state)
{
    (void)state;
    fixture f;
    kith_recall recall;
    make_graph(&f, KITH_EUCLIDEAN);
    assert_int_equal(estimate(&f, ROWS, 1).own_rows, 0);
    for (int64_t row = 0; row < ROWS; row++) {
        uint32_t *ids = f.ids + row * K;
        memmove(ids + 1, ids, (K - 1) * sizeof *ids);
        ids[0] = (uint32_t)row;
    }
    for (int64_t at = 1; at <= K; at++) {
        const kith_status status =
            kith_recall_estimate(f.ctx, &f.points.matrix, &f.graph,
                                 TEST_RECALL_PARAMS(KITH_EUCLIDEAN, at, ROWS, 1), &recall);
        assert_int_equal(status, at < K ? KITH_OK : KITH_E_ARGUMENT);
        near(recall.recall, 1.0);
        near(recall.equal_ids, 1.0);
        assert_int_equal(recall.own_rows, 1);
    }
    f.ids[0] = KITH_ID_NONE; /* one that does not name itself has no other for it */
    assert_true(estimate(&f, ROWS, 1).recall < 1.0);
    f.graph.k = 1;
    f.ids[0] = 0;
    assert_int_equal(kith_recall_estimate(f.ctx, &f.points.matrix, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, ROWS, 1), &recall),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(f.ctx), "give longer lists"));
    free_graph(&f);
    (void)printf("lists that name their own rows have the recall of the others\n");
}

static void refuses(void **state)
{
    (void)state;
    fixture f;
    kith_recall recall;
    make_graph(&f, KITH_EUCLIDEAN);
    const kith_matrix *points = &f.points.matrix;
    f.ids[5 * K + 3] = ROWS;
    f.ids[7 * K] = ROWS + 1;
    assert_int_equal(kith_recall_estimate(f.ctx, points, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, 10, 1), &recall),
                     KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(f.ctx), "graph[5, 3] is id 400, must be below 400"));
    f.ids[5 * K + 3] = 0;
    f.ids[7 * K] = 0;
    assert_int_equal(kith_recall_estimate(f.ctx, points, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, K + 1, 10, 1),
                                          &recall),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_recall_estimate(f.ctx, points, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, -1, 10, 1), &recall),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_recall_estimate(f.ctx, points, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, -1, 1), &recall),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_recall_estimate(f.ctx, points, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_CUSTOM, 0, 10, 1), &recall),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_recall_estimate(f.ctx, points, &f.graph, NULL, &recall), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(f.ctx), "kith_recall_params_default()"));
    double distance = 0.0;
    assert_int_equal(kith_distances(f.ctx, points, points, KITH_EUCLIDEAN, NULL, &distance),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(f.ctx), "pairs is NULL"));
    assert_int_equal(kith_recall_measure(f.ctx, &f.graph, &f.graph, KITH_EUCLIDEAN, 0, &recall),
                     KITH_E_ARGUMENT); /* no distances */
    test_rows_set(&f.points, 2, 1, (double)NAN);
    assert_int_equal(kith_recall_estimate(f.ctx, points, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, 10, 1), &recall),
                     KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(f.ctx), "points[2, 1]"));
    assert_int_equal(kith_recall_estimate(NULL, points, &f.graph,
                                          TEST_RECALL_PARAMS(KITH_EUCLIDEAN, 0, 1, 1), &recall),
                     KITH_E_ARGUMENT);
    free_graph(&f);
    (void)printf("what cannot be compared is refused with the reason\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_by_hand),
        cmocka_unit_test(single_precision_is_no_miss),
        cmocka_unit_test(estimates_what_is_there),
        cmocka_unit_test(interval_is_wilsons),
        cmocka_unit_test(interval_knows_how_rows_vary),
        cmocka_unit_test(interval_holds_the_truth),
        cmocka_unit_test(leaves_own_rows_out),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
