/* SPDX-License-Identifier: Apache-2.0
 * Search on a graph: what walks find of every metric against the exact engine, sets in which a walk
 * gets lost, the recall that is wanted and the one that is told, threads, mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_descents.h"
#include "support/support_mixture.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 4000, QUERIES = 200, COLS = 16, LINKS = 12, K = 10 };

/* Points, queries of the same kind, and the graph of the points. */
typedef struct set {
    kith_ctx *ctx;
    kith_matrix all; /* points, then queries */
    kith_matrix points;
    kith_matrix queries;
    kith_metric metric;
    kith_distance_fn custom;
    kith_neighbors graph;
    kith_neighbors truth;
    kith_neighbors out;
} set;

static kith_ctx *new_ctx(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    params.device = "cpu";
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static kith_search_params exact_params(const set *s, int64_t k)
{
    kith_search_params params = kith_search_params_default();
    params.metric = s->metric;
    params.custom = s->custom;
    params.k = k;
    return params;
}

/* all is the set's from here on. */
static set set_of(kith_matrix all, int64_t queries, kith_metric metric, int64_t links, int64_t k)
{
    set s = {.ctx = new_ctx(2), .all = all, .points = all, .queries = all, .metric = metric};
    s.custom = metric == KITH_CUSTOM ? test_descent_manhattan : NULL;
    s.points.rows -= queries;
    s.queries.rows = queries;
    s.queries.data = (const char *)all.data + s.points.rows * all.stride_bytes;
    s.graph = test_answer_make(s.points.rows, links);
    s.truth = test_answer_make(queries, k);
    s.out = test_answer_make(queries, k);
    kith_search_params params = exact_params(&s, links);
    test_works(s.ctx, kith_graph(s.ctx, &s.points, &params, &s.graph, NULL));
    params = exact_params(&s, k);
    test_works(s.ctx, kith_search(s.ctx, &s.points, &s.queries, &params, &s.truth, NULL));
    return s;
}

static set mixture_set(kith_metric metric, int64_t points, int64_t clusters, double spread)
{
    const bool shares = metric == KITH_HAMMING || metric == KITH_JACCARD;
    const test_mixture mixture = {.dtype = shares ? KITH_U8 : KITH_F32,
                                  .rows = points + QUERIES,
                                  .cols = COLS,
                                  .inner = 6,
                                  .clusters = clusters,
                                  .spread = spread,
                                  .nonnegative = 1,
                                  .seed = 7};
    kith_matrix all = test_mixture_make(&mixture);
    if (shares) { /* few values, so that some are equal */
        union {
            const void *read;
            unsigned char *own;
        } data = {all.data};
        for (int64_t i = 0; i < all.rows * COLS; i++) {
            data.own[i] = (unsigned char)(data.own[i] < 160 ? 0 : data.own[i] / 16);
        }
    }
    return set_of(all, QUERIES, metric, LINKS, K);
}

static void set_free(set *s)
{
    test_answer_free(&s->out);
    test_answer_free(&s->truth);
    test_answer_free(&s->graph);
    test_mixture_free(&s->all);
    kith_ctx_free(s->ctx);
}

static test_walk_params params_of(const set *s)
{
    test_walk_params params = test_walk_params_default();
    params.metric = s->metric;
    params.custom = s->custom;
    params.k = s->out.k;
    return params;
}

static kith_walk_report search(const set *s, const test_walk_params *params)
{
    kith_walk_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(s->ctx,
               test_walk(s->ctx, &s->points, &s->graph, &s->queries, params, &s->out, &report));
    return report;
}

/* Ids that differ, in the order (distance, id), at canonical distances. */
static void check_rows(const set *s)
{
    const int64_t count = s->out.rows * s->out.k;
    const double sign = s->metric == KITH_INNER_PRODUCT ? -1.0 : 1.0;
    for (int64_t i = 0; i < count; i++) {
        const double *d = s->out.distances64 + i;
        assert_true((int64_t)s->out.ids[i] < s->points.rows);
        assert_true(s->out.distances[i] == (float)*d);
        if (i % s->out.k > 0 &&
            !(sign * d[-1] < sign * d[0] || (d[-1] == d[0] && s->out.ids[i - 1] < s->out.ids[i]))) {
            fail_msg("row %lld is not in order", (long long)(i / s->out.k));
        }
    }
    if (s->metric == KITH_CUSTOM) {
        return;
    }
    uint32_t *rows = malloc((size_t)count * sizeof *rows);
    double *distances = malloc((size_t)count * sizeof *distances);
    assert_true(rows != NULL && distances != NULL);
    for (int64_t i = 0; i < count; i++) {
        rows[i] = (uint32_t)(i / s->out.k);
    }
    test_works(s->ctx, kith_distances(s->ctx, &s->points, &s->queries, s->metric,
                                      &(kith_pairs){count, rows, s->out.ids}, distances));
    assert_memory_equal(distances, s->out.distances64, (size_t)count * sizeof *distances);
    free(distances);
    free(rows);
}

static double recall_of(const set *s)
{
    return test_graph_recall(s->metric, &s->out, &s->truth, s->out.k);
}

/* ---- What is found -------------------------------------------------------------------------- */

static void every_metric_is_found(void **state)
{
    (void)state;
    for (kith_metric metric = KITH_EUCLIDEAN; metric <= KITH_CUSTOM; metric++) {
        set s = mixture_set(metric, test_is_slow_build() ? POINTS / 2 : POINTS, 20, 0.4);
        test_walk_params params = params_of(&s);
        params.width = 64;
        const kith_walk_report report = search(&s, &params);
        const double share = report.evaluations / ((double)s.points.rows * (double)s.queries.rows);
        check_rows(&s);
        (void)printf("%s: recall %.4f of %.1f %% of all pairs, %lld parts\n",
                     kith_metric_name(metric), recall_of(&s), 100.0 * share,
                     (long long)report.parts);
        assert_int_equal(report.exact, 0);
        assert_int_equal(report.width, 64);
        assert_int_equal(report.recall.rows, QUERIES);
        assert_true(fabs(report.recall.recall - recall_of(&s)) < 1e-12); /* all were solved */
        assert_true(recall_of(&s) >= 0.95);
        assert_true(share < 0.5);
        set_free(&s);
    }
}

/* Nobody leads from one blob to another, and entries do not happen to lie in each. */
static void far_blobs_are_found(void **state)
{
    (void)state;
    set s = mixture_set(KITH_EUCLIDEAN, POINTS, 2, 0.001);
    test_walk_params params = params_of(&s);
    kith_walk_report report = search(&s, &params);
    assert_true(report.parts >= 2);
    assert_true(recall_of(&s) >= 0.95);
    set_free(&s);
    s = mixture_set(KITH_MANHATTAN, POINTS, 150, 0.001);
    params = params_of(&s);
    report = search(&s, &params);
    check_rows(&s);
    (void)printf("%lld parts: recall %.4f\n", (long long)report.parts, recall_of(&s));
    assert_true(report.parts >= 100);
    assert_true(recall_of(&s) >= 0.95);
    set_free(&s);
}

/* A third of the points are one point, in whose lists there is nobody else. */
static void duplicates_are_found(void **state)
{
    (void)state;
    kith_matrix all = test_mixture_points(POINTS + QUERIES, COLS, 6, 20, 0.4, 5);
    for (int64_t row = 1; row < all.rows; row += 3) {
        test_mixture_copy(&all, row, 1);
    }
    set s = set_of(all, QUERIES, KITH_EUCLIDEAN, LINKS, K);
    test_walk_params params = params_of(&s);
    (void)search(&s, &params);
    check_rows(&s);
    (void)printf("a third of the points are one: recall %.4f\n", recall_of(&s));
    assert_true(recall_of(&s) >= 0.95);
    set_free(&s);
}

/* Few points, and as many neighbours as there are: no slot is empty, the answer is exact. */
static void few_points_are_exact(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{2, 1}, {2, 2}, {3, 2}, {60, 60}, {500, 500}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (kith_metric metric = KITH_EUCLIDEAN; metric <= KITH_MANHATTAN; metric += 5) {
            set s = set_of(test_mixture_points(shapes[i][0] + 5, 4, 2, 2, 0.1, i), 5, metric, 1,
                           shapes[i][1]);
            test_walk_params params = params_of(&s);
            (void)search(&s, &params);
            assert_true(test_answers_equal(&s.out, &s.truth));
            params.width = shapes[i][1];
            (void)search(&s, &params);
            check_rows(&s);
            assert_true(shapes[i][1] < shapes[i][0] || test_answers_equal(&s.out, &s.truth));
            set_free(&s);
        }
    }
}

/* Lists without anybody lead nowhere: what walks cannot find is looked for among all. */
static void empty_lists_are_no_obstacle(void **state)
{
    (void)state;
    set s = mixture_set(KITH_EUCLIDEAN, POINTS, 20, 0.4);
    for (int64_t i = 0; i < s.graph.rows * s.graph.k; i++) {
        s.graph.ids[i] = KITH_ID_NONE;
    }
    test_walk_params params = params_of(&s);
    params.sample = -1;
    const kith_walk_report report = search(&s, &params);
    assert_int_equal(report.parts, POINTS);
    assert_int_equal(report.recall.rows, 0);
    check_rows(&s);
    params.sample = 0;
    params.recall = 0.99;
    assert_int_equal(search(&s, &params).exact, 1);
    assert_true(test_answers_equal(&s.out, &s.truth));
    set_free(&s);
}

/* ---- Recall --------------------------------------------------------------------------------- */

/* Few distances of dear ones: walks pay. */
static void walks_widen_until_the_recall(void **state)
{
    (void)state;
    set s = mixture_set(KITH_MANHATTAN, POINTS, 1, 1.0);
    test_walk_params params = params_of(&s);
    params.recall = 0.9;
    params.recall_at = 1;
    params.sample = QUERIES / 2;
    kith_walk_report report = search(&s, &params);
    (void)printf("0.9 at 1: width %lld, recall %.4f, %.0f distances a query\n",
                 (long long)report.width, report.recall.recall, report.evaluations / QUERIES);
    assert_int_equal(report.exact, 0);
    assert_int_equal(report.reached, 1);
    assert_int_equal(report.recall.at, 1);
    assert_int_equal(report.recall.rows, QUERIES / 2);
    assert_true(report.recall.low < report.recall.high);
    const int64_t narrow = report.width;
    params.recall = 0.99;
    params.recall_at = K;
    report = search(&s, &params);
    assert_int_equal(report.reached, 1);
    assert_true(report.exact == 1 || report.width > narrow);
    assert_true(report.exact == 0 || recall_of(&s) == 1.0);
    set_free(&s);
}

/* Of few points all are compared sooner than a walk is over. */
static void walks_give_way_to_the_exact_engine(void **state)
{
    (void)state;
    set s = mixture_set(KITH_EUCLIDEAN, POINTS / 8, 1, 1.0);
    test_walk_params params = params_of(&s);
    params.recall = 0.5;
    params.sample = QUERIES;
    kith_walk_report report = search(&s, &params);
    assert_int_equal(report.exact, 1);
    assert_int_equal(report.reached, 1);
    assert_true(report.recall.recall == 1.0);
    assert_true(test_answers_equal(&s.out, &s.truth));
    /* As wide as all points. */
    params = params_of(&s);
    params.width = s.points.rows + 1;
    report = search(&s, &params);
    assert_int_equal(report.exact, 1);
    assert_int_equal(report.width, s.points.rows);
    assert_true(test_answers_equal(&s.out, &s.truth));
    set_free(&s);
}

/* The same bytes with any number of threads. */
static void threads_give_the_same_bytes(void **state)
{
    (void)state;
    set s = mixture_set(KITH_COSINE, POINTS, 20, 0.4);
    test_walk_params params = params_of(&s);
    params.seed = 3;
    params.width = 16;
    const kith_walk_report one = search(&s, &params);
    kith_neighbors kept = test_answer_make(s.out.rows, s.out.k);
    const size_t count = (size_t)(s.out.rows * s.out.k);
    memcpy(kept.ids, s.out.ids, count * sizeof *kept.ids);
    memcpy(kept.distances, s.out.distances, count * sizeof *kept.distances);
    memcpy(kept.distances64, s.out.distances64, count * sizeof *kept.distances64);
    for (int32_t threads = 1; threads <= 5; threads += 2) {
        kith_ctx_free(s.ctx);
        s.ctx = new_ctx(threads);
        const kith_walk_report again = search(&s, &params);
        assert_true(again.evaluations == one.evaluations);
        assert_true(again.recall.recall == one.recall.recall);
        assert_true(test_answers_equal(&s.out, &kept));
    }
    test_answer_free(&kept);
    set_free(&s);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

static double no_number(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)arg;
    (void)query;
    (void)point;
    (void)cols;
    return NAN;
}

static void refused(const set *s, const test_walk_params *params, kith_status status,
                    const char *text)
{
    test_fails(s->ctx, test_walk(s->ctx, &s->points, &s->graph, &s->queries, params, &s->out, NULL),
               status, text);
}

static void wrong_numbers_are_named(const set *s)
{
    const test_walk_params usual = params_of(s);
    test_walk_params params = usual;
    params.k = 0;
    refused(s, &params, KITH_E_ARGUMENT, "k is 0, must be at least 1");
    params = usual;
    params.width = K - 1;
    refused(s, &params, KITH_E_ARGUMENT, "width is 9, must be at least k, 10");
    params.width = K;
    params.recall = 0.5;
    refused(s, &params, KITH_E_ARGUMENT, "recall is 0.5 and width is 10");
    params = usual;
    params.recall = NAN;
    refused(s, &params, KITH_E_ARGUMENT, "must be 0 to 1");
    params.recall = 0.5;
    params.recall_at = K + 1;
    refused(s, &params, KITH_E_ARGUMENT, "recall_at is 11, must be 0 to k, 10");
    params.recall_at = 0;
    params.sample = -1;
    refused(s, &params, KITH_E_ARGUMENT, "sample is -1");
    params = usual;
    params.metric = (kith_metric)99;
    refused(s, &params, KITH_E_ARGUMENT, "metric is 99");
    params.metric = KITH_CUSTOM;
    refused(s, &params, KITH_E_ARGUMENT, "the function for it is NULL");
    params.custom = no_number;
    refused(s, &params, KITH_E_DATA, "custom gave NaN for query 0");
    test_fails(s->ctx, test_walk(s->ctx, &s->points, NULL, &s->queries, &usual, &s->out, NULL),
               KITH_E_ARGUMENT, "graph is NULL");
}

static void mistakes_are_named(void **state)
{
    (void)state;
    set s = mixture_set(KITH_EUCLIDEAN, 300, 3, 0.4);
    const test_walk_params usual = params_of(&s);
    wrong_numbers_are_named(&s);
    s.graph.rows -= 1;
    refused(&s, &usual, KITH_E_ARGUMENT, "graph has 299 rows and there are 300 points");
    s.graph.rows += 1;
    const uint32_t id = s.graph.ids[5 * LINKS + 2];
    s.graph.ids[5 * LINKS + 2] = 300;
    refused(&s, &usual, KITH_E_DATA, "graph[5, 2] is id 300, must be below 300");
    s.graph.ids[5 * LINKS + 2] = id;
    s.queries.cols -= 1;
    refused(&s, &usual, KITH_E_ARGUMENT, "the corpus has 16 columns and queries has 15");
    s.queries.cols += 1;
    kith_walk_report report = {.struct_size = 1};
    assert_int_equal(test_walk(s.ctx, &s.points, &s.graph, &s.queries, &usual, &s.out, &report),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(s.ctx), "walk_report.struct_size is 1"));
    set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_is_found),
        cmocka_unit_test(far_blobs_are_found),
        cmocka_unit_test(duplicates_are_found),
        cmocka_unit_test(few_points_are_exact),
        cmocka_unit_test(empty_lists_are_no_obstacle),
        cmocka_unit_test(walks_widen_until_the_recall),
        cmocka_unit_test(walks_give_way_to_the_exact_engine),
        cmocka_unit_test(threads_give_the_same_bytes),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
