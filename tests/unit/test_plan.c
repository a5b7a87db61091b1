/* SPDX-License-Identifier: Apache-2.0
 * Plans against the jobs that they announce. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double CLOSE = 0.8; /* of what is surely held */

typedef struct job {
    kith_metric metric;
    kith_dtype dtype;
    int64_t rows;
    int64_t queries; /* 0: a graph */
    int32_t cols;
    int32_t threads;
    int64_t k;
    int equal; /* every row stands so often, less one */
    kith_method method;
    int shapes; /* the plan sees no data */
} job;

/* What a job held and what was planned, results apart: at most, and with what is cheapest of all
 * that is tried as it runs. */
typedef struct outcome {
    uint64_t real;
    uint64_t planned;
    uint64_t least;
} outcome;

static outcome run(const job *j)
{
    uint64_t seed = 3;
    kith_ctx_params options = kith_ctx_params_default();
    options.threads = j->threads;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&options, &ctx), KITH_OK);
    test_rows points = test_rows_make(j->dtype, j->rows, j->cols, 0);
    test_rows asked = test_rows_make(j->dtype, j->queries > 0 ? j->queries : 1, j->cols, 0);
    const int nonnegative = j->metric == KITH_CHI2 || j->metric == KITH_KL || j->dtype == KITH_U8;
    const double scale = j->dtype == KITH_U8 ? 255.0 : j->dtype == KITH_I8 ? 127.0 : 1.0;
    test_rows_fill(&points, scale, nonnegative, &seed);
    test_rows_fill(&asked, scale, nonnegative, &seed);
    for (int64_t i = 0; j->equal && i < j->rows; i++) {
        test_rows_copy(&points, i, &points, i - i % (j->equal + 1));
    }
    kith_search_params params = kith_search_params_default();
    params.metric = j->metric;
    params.k = j->k;
    params.method = j->method;
    const kith_matrix *queries = j->queries > 0 ? &asked.matrix : NULL;
    kith_plan plan = {.struct_size = sizeof plan};
    kith_matrix shapes[2] = {points.matrix, asked.matrix};
    for (int i = 0; i < 2 && j->shapes; i++) {
        shapes[i].data = NULL;
    }
    assert_int_equal(
        kith_plan_search(ctx, &shapes[0], queries != NULL ? &shapes[1] : NULL, &params, &plan),
        KITH_OK);

    const int64_t rows = j->queries > 0 ? j->queries : j->rows;
    kith_neighbors out = {.rows = rows, .k = j->k};
    out.ids = malloc((size_t)(rows * j->k) * sizeof *out.ids);
    assert_non_null(out.ids);
    const kith_status status = queries != NULL
                                   ? kith_search(ctx, &points.matrix, queries, &params, &out, NULL)
                                   : kith_graph(ctx, &points.matrix, &params, &out, NULL);
    assert_int_equal(status, KITH_OK);
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    /* A tree that looks sooner on this machine is tried, and may be given up. */
    const bool tried = j->method == KITH_METHOD_AUTO && strcmp(plan.method, "tree") == 0;
    if (!tried && (!j->shapes || j->method == KITH_METHOD_TREE)) {
        assert_string_equal(plan.method, strcmp(report.screen, "direct") == 0 ? "direct"
                                         : strcmp(report.screen, "tree") == 0 ? "tree"
                                                                              : "screen");
    }
    assert_string_equal(plan.isa, report.isa);
    assert_int_equal(plan.threads, j->threads);
    assert_int_equal(plan.result_bytes, rows * j->k * 8);
    assert_true(plan.prepared_bytes + plan.state_bytes + plan.result_bytes <= plan.peak_bytes);
    const uint64_t planned = plan.peak_bytes - plan.result_bytes;
    assert_true(plan.undecided_bytes <= planned);
    const outcome o = {report.peak_bytes, planned, planned - plan.undecided_bytes};
    free(out.ids);
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    return o;
}

static void tell(const job *j, const outcome *o)
{
    (void)printf("%s %s %lld x %d, %lld queries, k %lld, %d threads, equal %d, method %d: planned "
                 "%llu to %llu, took %llu\n",
                 kith_metric_name(j->metric), kith_dtype_name(j->dtype), (long long)j->rows,
                 (int)j->cols, (long long)j->queries, (long long)j->k, (int)j->threads, j->equal,
                 (int)j->method, (unsigned long long)o->least, (unsigned long long)o->planned,
                 (unsigned long long)o->real);
}

/* Returns the share that was held of the plan. */
static double check(const job *j)
{
    const outcome o = run(j);
    /* Of one component correlation has degenerate rows alone, which need nearly nothing. */
    const bool nothing = j->metric == KITH_CORRELATION && j->cols == 1;
    const bool close = nothing || (double)o.real >= CLOSE * (double)o.least;
    if (o.planned < o.real || !close) {
        tell(j, &o);
    }
    assert_true(o.planned >= o.real);
    assert_true(close);
    return (double)o.real / (double)o.planned;
}

static void a_plan_is_kept(void **state)
{
    (void)state;
    const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_CORRELATION,
                                   KITH_MANHATTAN};
    const kith_dtype dtypes[] = {KITH_F32, KITH_U8};
    const int64_t shapes[][4] = {/* rows, queries, cols, k */
                                 {2, 0, 1, 1},        {2, 1, 1, 2},      {97, 0, 1000, 20},
                                 {97, 3, 3000, 97},   {1025, 0, 8, 5},   {1500, 40, 130, 700},
                                 {3000, 0, 33, 1000}, {3000, 1, 5, 10},  {4200, 0, 100, 10},
                                 {200, 4200, 60, 10}, {5000, 2, 16, 300}};
    int count = 0;
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m += test_is_slow_build() ? 2 : 1) {
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            const int64_t *shape = shapes[s];
            for (int variant = 0; variant < 4; variant++) {
                const job j = {.metric = metrics[m],
                               .dtype = dtypes[variant & 1],
                               .rows = shape[0],
                               .queries = shape[1],
                               .cols = (int32_t)shape[2],
                               .threads = variant < 2 ? 1 : 3,
                               .k = shape[3],
                               .equal = variant == 3,
                               .method = KITH_METHOD_EXACT};
                check(&j);
                count += 1;
            }
        }
    }
    (void)printf("%d jobs kept to their plans: at least %.0f %% of what was sure, at most all\n",
                 count, 100.0 * CLOSE);
}

static void large_jobs_keep_their_plans(void **state)
{
    (void)state;
    const job jobs[] = {
        {KITH_SQEUCLIDEAN, KITH_F32, 20000, 0, 24, 2, 10, 0, 0, 0},
        {KITH_EUCLIDEAN, KITH_I8, 20000, 0, 32, 2, 30, 1, 0, 0},
        {KITH_COSINE, KITH_F64, 9000, 0, 40, 2, 15, 0, 0, 0},
        {KITH_INNER_PRODUCT, KITH_F32, 9000, 30000, 16, 2, 10, 0, 0, 0},
        {KITH_EUCLIDEAN, KITH_F32, 9000, 20000, 20, 2, 100, 0, 0, 0},
    };
    const size_t step = test_is_slow_build() ? 2 : 1;
    for (size_t i = step == 2 ? 2 : 0; i < sizeof jobs / sizeof jobs[0]; i += step) {
        check(&jobs[i]);
    }
    (void)printf("jobs that try types, cover tiles and go in stripes keep to their plans\n");
}

/* Jobs whose type is not decided by the data: with few points, many ids wanted, bytes, or by
 * another way than the screen. All is named once, so plans are what is held. */
static void plans_are_what_is_held(void **state)
{
    (void)state;
    const kith_method exact = KITH_METHOD_EXACT;
    const kith_method tree = KITH_METHOD_TREE;
    const kith_method any = KITH_METHOD_AUTO;
    const job jobs[] = {
        {KITH_EUCLIDEAN, KITH_F32, 3000, 0, 33, 1, 10, 0, exact, 0},
        {KITH_EUCLIDEAN, KITH_F32, 3000, 0, 33, 3, 100, 1, exact, 0},
        {KITH_EUCLIDEAN, KITH_F32, 6000, 0, 64, 2, 10, 9, exact, 0},
        {KITH_EUCLIDEAN, KITH_F64, 4000, 0, 20, 2, 10, 0, exact, 0},
        {KITH_SQEUCLIDEAN, KITH_U8, 20000, 0, 32, 2, 10, 0, exact, 0},
        {KITH_SQEUCLIDEAN, KITH_U8, 20000, 0, 32, 2, 10, 3, exact, 0},
        {KITH_EUCLIDEAN, KITH_I8, 9000, 500, 100, 2, 30, 0, exact, 0},
        {KITH_COSINE, KITH_F32, 3000, 0, 100, 2, 10, 0, exact, 0},
        {KITH_COSINE, KITH_F32, 3000, 200, 100, 1, 10, 4, exact, 0},
        {KITH_CORRELATION, KITH_F64, 1500, 1500, 50, 3, 20, 0, exact, 0},
        {KITH_INNER_PRODUCT, KITH_F32, 5000, 0, 16, 2, 40, 0, exact, 0},
        {KITH_INNER_PRODUCT, KITH_F16, 200, 4200, 60, 2, 10, 0, exact, 0},
        {KITH_EUCLIDEAN, KITH_F32, 7000, 3000, 24, 2, 5, 2, exact, 0},
        {KITH_EUCLIDEAN, KITH_F32, 6000, 0, 16, 2, 1300, 0, exact, 0},
        {KITH_MANHATTAN, KITH_F32, 2000, 0, 30, 2, 10, 0, exact, 0},
        {KITH_CHEBYSHEV, KITH_F64, 9000, 1, 12, 3, 20, 0, exact, 0},
        {KITH_KL, KITH_F32, 1500, 100, 40, 1, 50, 0, exact, 0},
        {KITH_EUCLIDEAN, KITH_F32, 30000, 0, 2, 1, 10, 0, tree, 0},
        {KITH_EUCLIDEAN, KITH_F32, 30000, 0, 3, 2, 10, 0, tree, 0},
        {KITH_EUCLIDEAN, KITH_F32, 30000, 0, 3, 2, 10, 19, tree, 0},
        {KITH_MANHATTAN, KITH_F64, 30000, 0, 5, 3, 70, 0, tree, 0},
        {KITH_CHEBYSHEV, KITH_F32, 20000, 9000, 8, 2, 20, 0, tree, 0},
        {KITH_EUCLIDEAN, KITH_U8, 40000, 2000, 4, 1, 5, 0, tree, 0},
        {KITH_EUCLIDEAN, KITH_F32, 500, 20000, 6, 2, 5, 1, tree, 0},
        {KITH_EUCLIDEAN, KITH_F32, 20000, 0, 12, 2, 10, 0, tree, 0},
        {KITH_SQEUCLIDEAN, KITH_F32, 30000, 3000, 3, 2, 1, 0, tree, 1},
        {KITH_EUCLIDEAN, KITH_F32, 30000, 0, 3, 2, 10, 0, tree, 1},
        {KITH_EUCLIDEAN, KITH_F32, 40000, 0, 3, 2, 10, 0, any, 0},
        {KITH_EUCLIDEAN, KITH_F32, 40000, 0, 4, 2, 10, 9, any, 0},
        {KITH_EUCLIDEAN, KITH_F32, 50000, 5000, 2, 1, 10, 0, any, 0},
        {KITH_EUCLIDEAN, KITH_F32, 30000, 20000, 3, 2, 10, 0, any, 0},
        {KITH_MANHATTAN, KITH_F32, 30000, 0, 3, 2, 5, 0, any, 0},
    };
    const size_t count = sizeof jobs / sizeof jobs[0];
    double least = 1.0;
    for (size_t i = 0; i < count; i += test_is_slow_build() ? 3 : 1) {
        const double share = check(&jobs[i]);
        assert_true(share >= 0.9);
        least = share < least ? share : least;
    }
    (void)printf("%d jobs, equal rows and trees among them: none held more than planned, all at "
                 "least %.1f %% of it\n",
                 (int)count, 100.0 * least);
}

/* ---- Descents -------------------------------------------------------------------------------- */

typedef struct descent {
    kith_metric metric;
    kith_dtype dtype;
    int64_t rows;
    int32_t cols;
    int64_t k;
    int32_t threads;
    int equal;
    double recall;
    bool shapes; /* the plan sees no data */
} descent;

static double check_descent(const descent *j)
{
    uint64_t seed = 9;
    kith_ctx_params options = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    options.threads = j->threads;
    options.device = "cpu";
    assert_int_equal(kith_ctx_create(&options, &ctx), KITH_OK);
    test_rows points = test_rows_make(j->dtype, j->rows, j->cols, 0);
    test_rows_fill(&points, j->dtype == KITH_U8 ? 255.0 : 1.0, 1, &seed);
    for (int64_t i = 0; j->equal && i < j->rows; i++) {
        test_rows_copy(&points, i, &points, i - i % (j->equal + 1));
    }
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    kith_report report = {.struct_size = sizeof report};
    params.metric = j->metric;
    params.k = j->k;
    params.method = KITH_METHOD_DESCENT;
    params.recall = j->recall;
    kith_matrix shape = points.matrix;
    shape.data = j->shapes ? NULL : shape.data;
    assert_int_equal(kith_plan_search(ctx, &shape, NULL, &params, &plan), KITH_OK);
    kith_neighbors out = {.rows = j->rows, .k = j->k};
    out.ids = malloc((size_t)(j->rows * j->k) * sizeof *out.ids);
    assert_non_null(out.ids);
    assert_int_equal(kith_graph(ctx, &points.matrix, &params, &out, &report), KITH_OK);
    const double real = (double)report.peak_bytes;
    const double planned = (double)(plan.peak_bytes - plan.result_bytes);
    const double least = planned - (double)plan.undecided_bytes;
    if (real > planned || (!j->shapes && real < CLOSE * least)) {
        fail_msg("%s %s %lld x %d, k %lld, %d threads, equal %d, recall %g: planned %.0f to %.0f, "
                 "took %.0f",
                 kith_metric_name(j->metric), kith_dtype_name(j->dtype), (long long)j->rows,
                 (int)j->cols, (long long)j->k, (int)j->threads, j->equal, j->recall, least,
                 planned, real);
    }
    free(out.ids);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    return real / planned;
}

static void descents_keep_their_plans(void **state)
{
    (void)state;
    const descent jobs[] = {
        {KITH_EUCLIDEAN, KITH_F32, 5000, 16, 10, 1, 0, 0.0, false},
        {KITH_EUCLIDEAN, KITH_F32, 12000, 24, 10, 2, 0, 0.0, false},
        {KITH_EUCLIDEAN, KITH_F32, 9000, 24, 10, 2, 0, 0.5, false},
        {KITH_EUCLIDEAN, KITH_F32, 12000, 24, 10, 2, 3, 0.0, false},
        {KITH_EUCLIDEAN, KITH_F32, 12000, 24, 10, 2, 1, 0.0, false},
        {KITH_EUCLIDEAN, KITH_F32, 3000, 24, 10, 2, 0, 0.0, false},
        {KITH_EUCLIDEAN, KITH_F64, 9000, 20, 10, 3, 0, 0.0, false},
        {KITH_SQEUCLIDEAN, KITH_U8, 9000, 32, 10, 2, 0, 0.0, false},
        {KITH_COSINE, KITH_F32, 9000, 40, 20, 2, 0, 0.0, false},
        {KITH_INNER_PRODUCT, KITH_F32, 9000, 24, 15, 2, 0, 0.0, false},
        {KITH_CHI2, KITH_F32, 5000, 12, 10, 2, 0, 0.0, false},
        {KITH_MANHATTAN, KITH_F32, 5000, 6, 10, 2, 3, 0.5, false},
        {KITH_HAMMING, KITH_F32, 5000, 6, 10, 2, 0, 0.0, false},
        {KITH_EUCLIDEAN, KITH_F32, 9000, 16, 10, 2, 2, 0.0, true},
        {KITH_JACCARD, KITH_U8, 5000, 12, 5, 1, 1, 0.0, true},
    };
    const size_t count = sizeof jobs / sizeof jobs[0];
    double least = 1.0;
    for (size_t i = 0; i < count; i += test_is_slow_build() ? 4 : 1) {
        const double share = check_descent(&jobs[i]);
        least = share < least && !jobs[i].shapes ? share : least;
    }
    (void)printf("%d descents kept to their plans: none above, all at least %.0f %% of what was "
                 "sure, %.0f %% of what may be\n",
                 (int)count, 100.0 * CLOSE, 100.0 * least);
}

static void plans_need_no_data(void **state)
{
    (void)state;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(NULL, &ctx), KITH_OK);
    kith_matrix points = {.rows = 1000000000, .cols = 128, .dtype = KITH_F32};
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    assert_int_equal(kith_plan_search(ctx, &points, NULL, &params, &plan), KITH_E_ARGUMENT);
    params.k = 10;
    assert_int_equal(kith_plan_search(ctx, &points, NULL, &params, &plan), KITH_OK);
    assert_true(plan.peak_bytes > 100000000000u);
    params.k = points.rows;
    assert_int_equal(kith_plan_search(ctx, &points, NULL, &params, &plan), KITH_E_ARGUMENT);
    plan.struct_size = 0;
    params.k = 10;
    assert_int_equal(kith_plan_search(ctx, &points, NULL, &params, &plan), KITH_E_ARGUMENT);
    assert_int_equal(kith_plan_search(ctx, &points, NULL, &params, NULL), KITH_E_ARGUMENT);
    kith_ctx_free(ctx);
    (void)printf("a billion points are planned from their shape\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_kept),         cmocka_unit_test(large_jobs_keep_their_plans),
        cmocka_unit_test(plans_are_what_is_held), cmocka_unit_test(descents_keep_their_plans),
        cmocka_unit_test(plans_need_no_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
