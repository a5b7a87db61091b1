/* SPDX-License-Identifier: Apache-2.0
 * The k nearest within a radius: what the k nearest are without it, and empty slots where they are
 * beyond. Metrics, methods, pipelines, graphs, searches, both directions, prepared corpora, radii
 * that are distances to the last bit, tables of which the caller has a part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_faulty.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 9, ROWS = 210, QUERIES = 110, COLS = 3, LONG_K = 100 };

typedef enum call { GRAPH = 0, SEARCH, EXCLUDING, CORPUS, TREE_CORPUS, BOTH, CALLS } call;

typedef struct data {
    kith_ctx *ctx;
    test_rows points;
    test_rows queries;
    uint32_t *exclude;
    int cases;
    int64_t cut;
} data;

static void data_make(data *d, kith_ctx *ctx, kith_dtype dtype, test_shape shape, bool nonnegative)
{
    uint64_t seed = 17;
    *d = (data){.ctx = ctx};
    d->points = test_rows_make(dtype, ROWS, COLS, 4);
    d->queries = test_rows_make(dtype, QUERIES, COLS, 0);
    test_shape_fill(&d->points, shape, nonnegative, &seed);
    test_shape_fill(&d->queries, shape, nonnegative, &seed);
    d->exclude = malloc(QUERIES * sizeof *d->exclude);
    assert_non_null(d->exclude);
    for (uint32_t i = 0; i < QUERIES; i++) {
        d->exclude[i] = i % 4 == 0 ? KITH_ID_NONE : i;
    }
}

static void data_free(data *d)
{
    free(d->exclude);
    test_rows_free(&d->queries);
    test_rows_free(&d->points);
}

static kith_status by_corpus(const data *d, const kith_search_params *params, kith_method method,
                             const kith_neighbors *out)
{
    kith_index *corpus = NULL;
    kith_index_params how = kith_index_params_default();
    how.metric = params->metric;
    how.method = method;
    kith_status status = kith_index_create(d->ctx, &d->points.matrix, &how, &corpus);
    if (status == KITH_OK) {
        status = kith_index_search(d->ctx, corpus, &d->queries.matrix, params, out, NULL);
    }
    kith_index_free(corpus);
    return status;
}

static int64_t rows_of(call which)
{
    return which == GRAPH ? ROWS : QUERIES;
}

/* BOTH: `out` is the queries' table, the other one is thrown away. */
static void solve(const data *d, call which, kith_search_params params, const kith_neighbors *out)
{
    kith_status status = KITH_OK;
    params.exclude = which == EXCLUDING ? d->exclude : NULL;
    if (which == GRAPH) {
        status = kith_graph(d->ctx, &d->points.matrix, &params, out, NULL);
    } else if (which == BOTH) {
        kith_neighbors back = test_answer_make(ROWS, params.k);
        status = kith_knn_both(d->ctx, &d->queries.matrix, &d->points.matrix, &params, out, &back);
        test_answer_free(&back);
    } else if (which == CORPUS || which == TREE_CORPUS) {
        status = by_corpus(d, &params, which == CORPUS ? KITH_METHOD_EXACT : KITH_METHOD_TREE, out);
    } else {
        status = kith_search(d->ctx, &d->points.matrix, &d->queries.matrix, &params, out, NULL);
    }
    if (status != KITH_OK) {
        fail_msg("%s: %s", kith_metric_name(params.metric), kith_ctx_detail(d->ctx));
    }
}

static bool is_within(kith_metric metric, double distance, double radius)
{
    return metric == KITH_INNER_PRODUCT ? distance >= radius : distance <= radius;
}

/* The limited table, of what it holds, beside the whole one. */
static int64_t check(const kith_neighbors *whole, const kith_neighbors *limited, kith_metric metric,
                     double radius)
{
    const double far = metric == KITH_INNER_PRODUCT ? -INFINITY : INFINITY;
    int64_t cut = 0;
    for (int64_t i = 0; i < whole->rows * whole->k; i++) {
        const bool kept = is_within(metric, whole->distances64[i], radius);
        const double distance = kept ? whole->distances64[i] : far;
        const float narrow = kept ? whole->distances[i] : (float)far;
        const uint32_t id = kept ? whole->ids[i] : KITH_ID_NONE;
        if (limited->ids != NULL && limited->ids[i] != id) {
            fail_msg("%s, radius %.17g: slot %lld has id %u and must have %u",
                     kith_metric_name(metric), radius, (long long)i, limited->ids[i], id);
        }
        assert_true(limited->distances == NULL ||
                    memcmp(&limited->distances[i], &narrow, sizeof narrow) == 0);
        assert_true(limited->distances64 == NULL ||
                    memcmp(&limited->distances64[i], &distance, sizeof distance) == 0);
        cut += kept ? 0 : 1;
    }
    return cut;
}

/* Radii at, before and behind a distance that occurs, and beyond all; tables with all three parts
 * and with one. */
static void limits(data *d, call which, kith_search_params params)
{
    kith_neighbors whole = test_answer_make(rows_of(which), params.k);
    kith_neighbors limited = test_answer_make(rows_of(which), params.k);
    solve(d, which, params, &whole);
    params.flags |= KITH_WITHIN_RADIUS;
    const double at = whole.distances64[(whole.rows / 2) * whole.k + whole.k / 2];
    const double radii[] = {at, nextafter(at, INFINITY), nextafter(at, -INFINITY), 0.4 * at, 1e300,
                            0.0};
    for (int i = 0; i < 6; i++) {
        kith_neighbors part = limited;
        part.ids = i == 3 ? NULL : part.ids;
        part.distances = i == 2 ? NULL : part.distances;
        part.distances64 = i == 1 || i == 2 || i == 3 ? NULL : part.distances64;
        params.radius = radii[i];
        const bool allowed =
            radii[i] >= 0.0 ||
            (radii[i] < 0.0 && (params.metric == KITH_INNER_PRODUCT || params.metric == KITH_KL));
        if (allowed) {
            solve(d, which, params, &part);
            d->cut += check(&whole, &part, params.metric, radii[i]);
            d->cases += 1;
        }
    }
    test_answer_free(&limited);
    test_answer_free(&whole);
}

static bool has_tree(kith_metric metric)
{
    return metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN || metric == KITH_MANHATTAN ||
           metric == KITH_CHEBYSHEV;
}

static void every_call(data *d, kith_metric metric, int64_t k)
{
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = k;
    for (call which = GRAPH; which < CALLS; which++) {
        if (which == TREE_CORPUS && !has_tree(metric)) {
            continue;
        }
        limits(d, which, params);
        if (which != GRAPH && which != SEARCH) {
            continue;
        }
        params.pipeline = KITH_PIPELINE_MATRIX;
        limits(d, which, params);
        params.pipeline = KITH_PIPELINE_FUSED;
        if (has_tree(metric)) {
            params.method = KITH_METHOD_TREE;
            limits(d, which, params);
            params.flags = which == GRAPH ? (uint32_t)KITH_INCLUDE_SELF : 0;
            limits(d, which, params);
            params.flags = 0;
            params.method = KITH_METHOD_AUTO;
        }
    }
}

static void metrics(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_GRID, SHAPE_CLUSTERS};
    kith_ctx *ctx = test_engine_best_ctx(2);
    int cases = 0;
    int64_t cut = 0;
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        const bool few = test_is_slow_build(); /* each metric two shapes, one of either type */
        for (int s = 0; s < 4; s++) {
            if (few && (s == 0 || s == 3) != (metric % 2 == 0)) {
                continue;
            }
            data d;
            const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL;
            data_make(&d, ctx, s % 2 == 0 ? KITH_F32 : KITH_F64, shapes[s], nonnegative);
            every_call(&d, (kith_metric)metric, s == 3 ? LONG_K : K);
            cases += d.cases;
            cut += d.cut;
            data_free(&d);
        }
    }
    assert_true(cut > 100000);
    printf("%d limited tables are the whole ones cut: %lld slots empty\n", cases, (long long)cut);
    kith_ctx_free(ctx);
}

static void on_engine(kith_ctx *ctx, void *arg)
{
    int *cases = arg;
    data d;
    data_make(&d, ctx, KITH_U8, SHAPE_GAUSS, true);
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_CHEBYSHEV; metric++) {
        every_call(&d, (kith_metric)metric, K);
    }
    *cases += d.cases;
    data_free(&d);
}

static void engines(void **state)
{
    (void)state;
    int cases = 0;
    test_on_each_engine(on_engine, &cases);
    printf("on every instruction set: %d tables\n", cases);
}

/* The tree begins from the radius: leaves that are beyond are not looked at. */
static void tree_prunes(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 3;
    test_rows points = test_rows_make(KITH_F32, 20000, 4, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    kith_neighbors out = test_answer_make(20000, 50);
    kith_search_params params = kith_search_params_default();
    double pairs[2];
    params.k = 50;
    params.method = KITH_METHOD_TREE;
    for (int i = 0; i < 2; i++) {
        kith_report report = {.struct_size = sizeof report};
        params.radius = i == 0 ? 0.0 : 0.05;
        params.flags = i == 0 ? 0 : (uint32_t)KITH_WITHIN_RADIUS;
        assert_int_equal(kith_graph(ctx, &points.matrix, &params, &out, NULL), KITH_OK);
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        pairs[i] = 1.0 - report.skipped_share;
    }
    assert_true(pairs[1] < 0.25 * pairs[0]);
    printf("of all pairs %.4f are computed without a radius, %.4f with a small one\n", pairs[0],
           pairs[1]);
    test_answer_free(&out);
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

static void refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(1);
    data d;
    data_make(&d, ctx, KITH_F32, SHAPE_GAUSS, false);
    kith_neighbors out = test_answer_make(QUERIES, K);
    kith_search_params params = kith_search_params_default();
    kith_plan plain = {.struct_size = sizeof plain};
    kith_plan limited = {.struct_size = sizeof limited};
    params.k = K;
    assert_int_equal(kith_plan_search(ctx, &d.points.matrix, &d.queries.matrix, &params, &plain),
                     KITH_OK);
    params.radius = 1.0;
    assert_int_equal(kith_plan_search(ctx, &d.points.matrix, &d.queries.matrix, &params, &limited),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "without KITH_WITHIN_RADIUS"));
    params.flags = KITH_WITHIN_RADIUS;
    assert_int_equal(kith_plan_search(ctx, &d.points.matrix, &d.queries.matrix, &params, &limited),
                     KITH_OK);
    assert_int_equal(limited.peak_bytes - plain.peak_bytes, QUERIES * K * sizeof(double));
    const double wrong[] = {-1.0, (double)NAN};
    for (int i = 0; i < 2; i++) {
        params.radius = wrong[i];
        assert_int_equal(kith_search(ctx, &d.points.matrix, &d.queries.matrix, &params, &out, NULL),
                         KITH_E_ARGUMENT);
        assert_non_null(strstr(kith_ctx_detail(ctx), "radius"));
        assert_int_equal(
            kith_plan_search(ctx, &d.points.matrix, &d.queries.matrix, &params, &plain),
            KITH_E_ARGUMENT);
    }
    printf("radii below 0, NaN and without the flag are refused; a plan counts the distances that "
           "are compared\n");
    test_answer_free(&out);
    data_free(&d);
    kith_ctx_free(ctx);
}

static void failing_allocations(void **state)
{
    (void)state;
    data d;
    data_make(&d, NULL, KITH_F32, SHAPE_GAUSS, false);
    kith_neighbors out = test_answer_make(QUERIES, K);
    kith_neighbors back = test_answer_make(ROWS, K);
    free(out.distances64);
    free(back.distances64);
    out.distances64 = NULL;
    back.distances64 = NULL;
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.radius = 0.5;
    params.flags = KITH_WITHIN_RADIUS;
    long fails_at = 0;
    for (kith_status status = KITH_E_MEMORY; status == KITH_E_MEMORY;) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
        f.fails_at = atomic_load(&f.asked) + ++fails_at;
        status = kith_knn_both(ctx, &d.queries.matrix, &d.points.matrix, &params, &out, &back);
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&f.blocks), 0);
    }
    printf("each of %ld allocations failed once, nothing leaked\n", fails_at - 1);
    test_answer_free(&back);
    test_answer_free(&out);
    data_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics),
        cmocka_unit_test(engines),
        cmocka_unit_test(tree_prunes),
        cmocka_unit_test(refusals),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
