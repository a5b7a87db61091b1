/* SPDX-License-Identifier: Apache-2.0
 * Radius search by the tree against the exact engine, byte for byte: metrics, types, columns, data
 * on which bounds go wrong, radii that are distances to the last bit, radii for each query, graphs
 * and searches, counts alone, all instruction sets, threads, memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_ctx.h"
#include "support/support_engines.h"
#include "support/support_faulty.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const kith_metric METRICS[] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_MANHATTAN,
                                      KITH_CHEBYSHEV};
enum { METRIC_COUNT = sizeof METRICS / sizeof METRICS[0] };

/* ---- One job, by both engines --------------------------------------------------------------- */

typedef struct run {
    kith_ctx *ctx;
    int cases;
    int64_t neighbours;
} run;

typedef struct job {
    const char *name;
    const test_rows *points;
    const test_rows *queries; /* NULL: a graph */
    kith_radius_params params;
} job;

static kith_ranges *solve(kith_ctx *ctx, const job *j, kith_method method)
{
    kith_ranges *ranges = NULL;
    kith_radius_params params = j->params;
    params.method = method;
    const kith_matrix *queries = j->queries != NULL ? &j->queries->matrix : NULL;
    if (kith_radius(ctx, &j->points->matrix, queries, &params, &ranges) != KITH_OK) {
        fail_msg("%s: %s", j->name, kith_ctx_detail(ctx));
    }
    return ranges;
}

static void same(const job *j, const void *a, const void *b, int64_t count, size_t size)
{
    if ((a == NULL) != (b == NULL) || (a != NULL && memcmp(a, b, (size_t)count * size) != 0)) {
        fail_msg("%s: %s, %d columns, radius %g: the tree differs from the exact engine", j->name,
                 kith_metric_name(j->params.metric), (int)j->points->matrix.cols, j->params.radius);
    }
}

/* By a tree that stands. */
static kith_ranges *solve_kept(kith_ctx *ctx, const job *j)
{
    kith_ranges *ranges = NULL;
    kith_index *tree = NULL;
    kith_index_params made = kith_index_params_default();
    made.metric = j->params.metric;
    made.method = KITH_METHOD_TREE;
    const kith_matrix *queries = j->queries != NULL ? &j->queries->matrix : NULL;
    if (kith_index_create(ctx, &j->points->matrix, &made, &tree) != KITH_OK ||
        kith_index_radius(ctx, tree, queries, &j->params, &ranges) != KITH_OK) {
        fail_msg("%s: %s", j->name, kith_ctx_detail(ctx));
    }
    kith_index_free(tree);
    return ranges;
}

static void compare_ranges(const job *j, const kith_ranges *wanted, const kith_ranges *got)
{
    const int64_t rows = kith_ranges_lists(wanted)->rows;
    const int64_t count = kith_ranges_lists(wanted)->offsets[rows];
    assert_int_equal(kith_ranges_lists(got)->rows, rows);
    same(j, kith_ranges_lists(wanted)->offsets, kith_ranges_lists(got)->offsets, rows + 1,
         sizeof(int64_t));
    same(j, kith_ranges_lists(wanted)->ids, kith_ranges_lists(got)->ids, count, sizeof(uint32_t));
    same(j, kith_ranges_lists(wanted)->distances, kith_ranges_lists(got)->distances, count,
         sizeof(float));
    same(j, kith_ranges_lists(wanted)->distances64, kith_ranges_lists(got)->distances64, count,
         sizeof(double));
    assert_true((kith_ranges_lists(got)->ids == NULL) == (j->params.count_only != 0));
}

static int64_t compare(run *r, const job *j)
{
    kith_report report = {.struct_size = sizeof report};
    kith_ranges *wanted = solve(r->ctx, j, KITH_METHOD_EXACT);
    kith_ranges *got = solve(r->ctx, j, KITH_METHOD_TREE);
    assert_int_equal(kith_ctx_report(r->ctx, &report), KITH_OK);
    assert_string_equal(report.screen, "tree");
    assert_int_equal(report.exact, 1);
    kith_ranges *kept = solve_kept(r->ctx, j);
    assert_int_equal(kith_ctx_report(r->ctx, &report), KITH_OK);
    assert_string_equal(report.screen, "tree");
    compare_ranges(j, wanted, got);
    compare_ranges(j, wanted, kept);
    const int64_t count = kith_ranges_lists(wanted)->offsets[kith_ranges_lists(wanted)->rows];
    kith_ranges_free(kept);
    kith_ranges_free(got);
    kith_ranges_free(wanted);
    r->cases += 1;
    r->neighbours += count;
    return count;
}

static void run_end(const run *r, const char *what)
{
    printf("%s: %d cases, %lld neighbours, of points and of trees that stand, are the exact "
           "engine's bytes\n",
           what, r->cases, (long long)r->neighbours);
}

static test_rows made(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape, uint64_t seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, 8);
    test_shape_fill(&r, shape, false, &seed);
    return r;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

/* By query (of a graph: by point) the distance of its `rank`-th other point, to the last bit. */
static double *radii_of(kith_ctx *ctx, const job *j, int64_t rank)
{
    const kith_matrix *asked = j->queries != NULL ? &j->queries->matrix : &j->points->matrix;
    const int64_t rows = j->points->matrix.rows;
    const int64_t pairs = asked->rows * rows;
    uint32_t *from = malloc((size_t)pairs * sizeof *from);
    uint32_t *to = malloc((size_t)pairs * sizeof *to);
    double *all = malloc((size_t)pairs * sizeof *all);
    double *radii = malloc((size_t)asked->rows * sizeof *radii);
    assert_non_null(from);
    assert_non_null(to);
    assert_non_null(all);
    assert_non_null(radii);
    for (int64_t i = 0; i < pairs; i++) {
        from[i] = (uint32_t)(i / rows);
        to[i] = (uint32_t)(i % rows);
    }
    assert_int_equal(kith_distances(ctx, &j->points->matrix, asked, j->params.metric,
                                    &(kith_pairs){pairs, from, to}, all),
                     KITH_OK);
    for (int64_t q = 0; q < asked->rows; q++) {
        qsort(all + q * rows, (size_t)rows, sizeof *all, by_size);
        radii[q] = all[q * rows + (rank < rows ? rank : rows - 1)];
    }
    free(all);
    free(to);
    free(from);
    return radii;
}

/* Radii that are distances, and others; one for all and one for each; graphs with and without own
 * ids; counts alone. */
static void many_radii(run *r, const test_rows *points, const test_rows *queries,
                       kith_metric metric, const char *name)
{
    static const int64_t ranks[] = {1, 7, 60};
    const int64_t asked = queries != NULL ? queries->matrix.rows : points->matrix.rows;
    for (int i = 0; i < 3; i++) {
        job j = {name, points, queries, kith_radius_params_default()};
        j.params.metric = metric;
        j.params.flags = i % 2 == 1 ? (uint32_t)KITH_INCLUDE_SELF : 0;
        double *radii = radii_of(r->ctx, &j, ranks[i]);
        for (int64_t q = 0; q < asked; q += 5) {
            radii[q] = 0.0;
        }
        j.params.radius = radii[asked / 2];
        (void)compare(r, &j);
        j.params.radius = nextafter(radii[asked / 2], 0.0);
        (void)compare(r, &j);
        j.params.radii = radii;
        const int64_t count = compare(r, &j);
        j.params.count_only = 1;
        assert_int_equal(compare(r, &j), count);
        free(radii);
    }
}

/* ---- Data ----------------------------------------------------------------------------------- */

static void shapes_of(kith_ctx *ctx, void *arg)
{
    run *r = arg;
    r->ctx = ctx;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8, KITH_F16, KITH_I8, KITH_BF16};
    static const int32_t cols[] = {1, 3, 10, 30, 2, 17};
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        /* Every other pair, or one of each shape, then. */
        const int step = test_is_slow_build() ? METRIC_COUNT : test_is_sanitized_build() ? 2 : 1;
        for (int m = shape % step; m < METRIC_COUNT; m += step) {
            if (!test_engine_takes((int)ctx->isa, (shape + m) / 2)) {
                continue;
            }
            const kith_dtype dtype = dtypes[(shape + m) % 6];
            const int32_t d = cols[(shape / 2 + 3 * m) % 6];
            test_rows points = made(dtype, 201, d, (test_shape)shape, 7 + (uint64_t)shape);
            test_rows queries = made(dtype, 37, d, (test_shape)shape, 70 + (uint64_t)shape);
            many_radii(r, &points, r->cases / 12 % 2 == 0 ? &queries : NULL, METRICS[m],
                       test_shape_name((test_shape)shape));
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
}

static void shapes(void **state)
{
    (void)state;
    run r = {0};
    test_on_each_engine(shapes_of, &r);
    run_end(&r, "every shape of data, metric and instruction set");
}

static void columns_and_types(void **state)
{
    (void)state;
    static const int32_t cols[] = {1, 3, 10, 30};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8};
    run r = {0};
    for (int32_t threads = test_is_sanitized_build() ? 3 : 1; threads <= 3; threads += 2) {
        r.ctx = test_engine_best_ctx(threads);
        for (int c = test_is_thread_build() ? 2 : 0; c < 4; c++) {
            for (int t = 0; t < 3; t++) {
                const int step = test_is_slow_build() ? METRIC_COUNT : 1;
                for (int m = (c + t) % step; m < METRIC_COUNT; m += step) {
                    test_rows points = made(dtypes[t], 420, cols[c], SHAPE_CLUSTERS, 5);
                    test_rows queries = made(dtypes[(t + 1) % 3], 33, cols[c], SHAPE_CLUSTERS, 5);
                    many_radii(&r, &points, &queries, METRICS[m], "clusters");
                    test_rows_free(&queries);
                    test_rows_free(&points);
                }
            }
        }
        kith_ctx_free(r.ctx);
    }
    run_end(&r, "1, 3, 10 and 30 columns, three types asked with others, 1 and 3 threads");
}

/* ---- Radii at the ends ---------------------------------------------------------------------- */

static void ends(void **state)
{
    (void)state;
    static const double radii[] = {0.0,  5e-324, 1e-200, 1e-45, 1e-20,
                                   1e-7, 1.0,    1e30,   1e200, INFINITY};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_EQUAL, SHAPE_TINY,
                                      SHAPE_OUTLIER};
    run r = {.ctx = test_engine_best_ctx(2)};
    for (size_t i = 0; i < sizeof radii / sizeof *radii; i++) {
        for (size_t s = test_is_sanitized_build() ? i % 2 : 0; s < sizeof data / sizeof *data;
             s += test_is_sanitized_build() ? 2 : 1) {
            for (int m = 0; m < METRIC_COUNT; m++) {
                test_rows points =
                    made(m % 2 == 0 ? KITH_F32 : KITH_F64, 150, 4, data[s], 11 + (uint64_t)s);
                job j = {test_shape_name(data[s]), &points, NULL, kith_radius_params_default()};
                j.params.metric = METRICS[m];
                j.params.radius = radii[i];
                const int64_t count = compare(&r, &j);
                assert_true(radii[i] < INFINITY || count == 150 * 149);
                j.queries = &points;
                assert_true(compare(&r, &j) >= count);
                test_rows_free(&points);
            }
        }
    }
    run_end(&r, "radii from 0 and the least double to infinity");
    kith_ctx_free(r.ctx);
}

/* float64 rows that float32 cannot hold, nor tell apart; distances whose squares underflow. */
static void small_distances(void **state)
{
    (void)state;
    run r = {.ctx = test_engine_best_ctx(2)};
    static const double units[] = {1.0, 1e-12, 1e-140, 1e-155, 1e-170, 1e-290, 1e140};
    for (size_t u = 0; u < sizeof units / sizeof *units; u += test_is_thread_build() ? 3 : 1) {
        const bool slow = test_is_sanitized_build(); /* every other pair, then */
        for (int m = slow ? (int)(u % 2) : 0; m < METRIC_COUNT; m += slow ? 2 : 1) {
            test_rows points = test_rows_make(KITH_F64, 300, 2, 0);
            uint64_t seed = 3;
            for (int64_t i = 0; i < 300; i++) {
                for (int64_t c = 0; c < 2; c++) {
                    const double x = test_gauss(&seed);
                    test_rows_set(&points, i, c, units[u] * (i % 3 == 0 ? x : 1.0 + 1e-10 * x));
                }
            }
            many_radii(&r, &points, NULL, METRICS[m], "small distances");
            test_rows_free(&points);
        }
    }
    run_end(&r, "points that float32 blurs, distances that underflow and overflow");
    kith_ctx_free(r.ctx);
}

/* Integer grids: each sphere of radius 1, 2, sqrt(2), 5 goes through points. */
static void ties_at_the_radius(void **state)
{
    (void)state;
    run r = {.ctx = test_engine_best_ctx(3)};
    static const double radii[] = {1.0, 2.0, 3.0, 5.0};
    const int types = test_is_thread_build() ? 1 : 3; /* which are no matter of threads */
    for (int t = 0; t < types; t++) {
        static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_U8};
        test_rows points = test_rows_make(dtypes[t], 1331, 3, 0);
        for (int64_t i = 0; i < 1331; i++) {
            test_rows_set(&points, i, 0, (double)(i % 11));
            const int64_t line = i / 11 % 11;
            test_rows_set(&points, i, 1, (double)line);
            const int64_t layer = i / 121;
            test_rows_set(&points, i, 2, (double)layer);
        }
        for (int m = 0; m < METRIC_COUNT; m++) {
            for (int i = test_is_sanitized_build() ? (t + m) % 4 : 0; i < 4;
                 i += test_is_sanitized_build() ? 4 : 1) {
                job j = {"a grid", &points, NULL, kith_radius_params_default()};
                j.params.metric = METRICS[m];
                j.params.radius = radii[i];
                const int64_t with = compare(&r, &j);
                j.params.radius = nextafter(radii[i], 0.0);
                assert_true(compare(&r, &j) < with);
                j.params.radius = METRICS[m] == KITH_SQEUCLIDEAN ? 2.0 : sqrt(2.0);
                (void)compare(&r, &j);
            }
        }
        test_rows_free(&points);
    }
    run_end(&r, "points at exactly the radius");
    kith_ctx_free(r.ctx);
}

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 15, 16, 17, 49, 97, 1000};
    run r = {.ctx = test_engine_best_ctx(0)};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        for (int32_t cols = 1; cols <= 33; cols += cols < 18 ? 4 : 5) {
            test_rows points = made(KITH_F32, rows[n], cols, SHAPE_GAUSS, 5);
            test_rows queries = made(KITH_F32, 17, cols, SHAPE_GAUSS, 6);
            many_radii(&r, &points, &queries, METRICS[(size_t)cols % METRIC_COUNT], "sizes");
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    run_end(&r, "1 to 1,000 rows, 1 to 33 columns");
    kith_ctx_free(r.ctx);
}

/* ---- The choice ----------------------------------------------------------------------------- */

typedef struct choice {
    int32_t cols;
    int64_t queries; /* 0: a graph */
    double radius;
    const char *screen; /* NULL: what all pairs take */
} choice;

/* By a tree that costs little beside all pairs; by a tree of a sample; and by none. */
static void automatic(void **state)
{
    (void)state;
    static const choice choices[] = {
        {10, 1500, 100.0, NULL}, {3, 0, 0.05, "tree"}, {20, 0, 3.0, NULL},
        {10, 1500, 0.5, "tree"}, {10, 20, 0.5, NULL},  {3, 100, 0.01, "tree"},
    };
    run r = {.ctx = test_engine_best_ctx(2)};
    /* Everybody in double precision, twice, takes a minute of a build that runs slowly. */
    const size_t first = test_is_thread_build() ? 3 : test_is_slow_build() ? 1 : 0;
    for (size_t i = first; i < sizeof choices / sizeof *choices; i++) {
        const choice *c = &choices[i];
        kith_report report = {.struct_size = sizeof report};
        test_rows points = made(KITH_F32, 20000, c->cols, SHAPE_GAUSS, 5);
        test_rows queries = made(KITH_F32, c->queries + 1, c->cols, SHAPE_GAUSS, 6);
        job j = {"auto", &points, c->queries > 0 ? &queries : NULL, kith_radius_params_default()};
        double *radii = malloc((size_t)(c->queries + 1) * sizeof *radii);
        assert_non_null(radii);
        for (int64_t q = 0; q <= c->queries; q++) {
            radii[q] = c->radius;
        }
        j.params.radius = c->radius;
        j.params.radii = c->queries > 0 ? radii : NULL;
        j.params.count_only = 1;
        kith_ranges *wanted = solve(r.ctx, &j, KITH_METHOD_EXACT);
        kith_ranges *got = solve(r.ctx, &j, KITH_METHOD_AUTO);
        assert_int_equal(kith_ctx_report(r.ctx, &report), KITH_OK);
        if ((strcmp(report.screen, "tree") == 0) != (c->screen != NULL)) {
            fail_msg("%d columns, %lld queries, radius %g: auto took %s", (int)c->cols,
                     (long long)c->queries, c->radius, report.screen);
        }
        same(&j, kith_ranges_lists(wanted)->offsets, kith_ranges_lists(got)->offsets,
             kith_ranges_lists(got)->rows + 1, sizeof(int64_t));
        kith_ranges_free(got);
        kith_ranges_free(wanted);
        free(radii);
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    printf("auto takes the tree for small radii, and not for one that everybody is within\n");
    kith_ctx_free(r.ctx);
}

/* What a sample meets first is named as the exact engine names it. */
static void values_of_a_sample(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    test_rows points = made(KITH_F32, 20000, 10, SHAPE_GAUSS, 5);
    test_rows queries = made(KITH_F32, 1500, 10, SHAPE_GAUSS, 6);
    kith_ranges *ranges = NULL;
    kith_radius_params params = kith_radius_params_default();
    params.radius = 0.1;
    test_rows_set(&points, 1600, 2, (double)NAN);
    assert_int_equal(kith_radius(ctx, &points.matrix, &queries.matrix, &params, &ranges),
                     KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(ctx), "corpus[1600, 2] is NaN"));
    assert_null(ranges);
    printf("NaN among the points of a sample is named by its row\n");
    test_rows_free(&queries);
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

static void refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(1);
    test_rows points = made(KITH_F32, 30, 3, SHAPE_GAUSS, 5);
    kith_ranges *ranges = NULL;
    kith_radius_params params = kith_radius_params_default();
    params.method = KITH_METHOD_TREE;
    params.metric = KITH_COSINE;
    assert_int_equal(kith_radius(ctx, &points.matrix, NULL, &params, &ranges), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "cosine"));
    params.metric = KITH_EUCLIDEAN;
    params.method = (kith_method)17;
    assert_int_equal(kith_radius(ctx, &points.matrix, NULL, &params, &ranges), KITH_E_ARGUMENT);
    params.method = KITH_METHOD_TREE;
    test_rows_set(&points, 17, 2, (double)NAN);
    assert_int_equal(kith_radius(ctx, &points.matrix, NULL, &params, &ranges), KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(ctx), "points[17, 2]"));
    assert_null(ranges);
    printf("the tree refuses other metrics, numbers that are no method, and NaN\n");
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

/* ---- Memory that runs out ------------------------------------------------------------------- */

/* More hits than one chunk holds, so that allocations fail while packets are on their way. */
static void failing_allocations(void **state)
{
    (void)state;
    test_rows points = made(KITH_F32, 400, 3, SHAPE_COPIES, 5);
    kith_radius_params params = kith_radius_params_default();
    params.method = KITH_METHOD_TREE;
    params.radius = 2.0;
    long fails_at = 0;
    for (kith_status status = KITH_E_MEMORY; status == KITH_E_MEMORY;) {
        test_faulty f = {.fails_at = 0};
        kith_ctx *ctx = test_faulty_ctx("cpu", &f, 0);
        f.fails_at = atomic_load(&f.asked) + ++fails_at;
        kith_ranges *ranges = NULL;
        status = kith_radius(ctx, &points.matrix, NULL, &params, &ranges);
        assert_true(status == KITH_OK || status == KITH_E_MEMORY);
        assert_int_equal(status == KITH_OK, ranges != NULL);
        kith_ranges_free(ranges);
        kith_ctx_free(ctx);
        assert_int_equal(atomic_load(&f.blocks), 0);
    }
    assert_true(fails_at > 10);
    printf("each of %ld allocations failed once: an error each time, nothing leaked\n",
           fails_at - 1);
    test_rows_free(&points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(columns_and_types),
        cmocka_unit_test(ends),
        cmocka_unit_test(small_distances),
        cmocka_unit_test(ties_at_the_radius),
        cmocka_unit_test(sizes),
        cmocka_unit_test(automatic),
        cmocka_unit_test(values_of_a_sample),
        cmocka_unit_test(refusals),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
