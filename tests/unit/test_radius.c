/* SPDX-License-Identifier: Apache-2.0
 * Radius search against the oracle, to the last bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "kith/kith_papers.h"
#include "oracle/plain_knn.h"
#include "support/support_calls.h"
#include "support/support_keys.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct job {
    kith_metric metric;
    kith_dtype dtype;
    int64_t rows;
    int64_t queries; /* 0: the points themselves */
    int32_t cols;
    int include_self;
} job;

static int compare_keys(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static int within(kith_metric metric, double key, double radius)
{
    const double distance = oracle_distance(metric, key);
    return metric == KITH_INNER_PRODUCT ? distance >= radius : distance <= radius;
}

/* A radius that is one of a query's distances, to the last bit. */
static double radius_at(const job *j, const double *keys, double share)
{
    double *sorted = malloc((size_t)j->rows * sizeof *sorted);
    assert_non_null(sorted);
    memcpy(sorted, keys, (size_t)j->rows * sizeof *sorted);
    qsort(sorted, (size_t)j->rows, sizeof *sorted, compare_keys);
    const double key = sorted[(int64_t)(share * (double)(j->rows - 1))];
    free(sorted);
    return oracle_distance(j->metric, key);
}

/* Row by row: who is within, in the order (key, id). Returns how many there are. */
static int64_t check_row(const job *j, const kith_ranges *ranges, int64_t query, double radius,
                         const double *keys)
{
    const int64_t first = kith_ranges_lists(ranges)->offsets[query];
    const int64_t count = kith_ranges_lists(ranges)->offsets[query + 1] - first;
    int64_t expected = 0;
    for (int64_t i = 0; i < j->rows; i++) {
        const int self = j->queries == 0 && !j->include_self && i == query;
        expected += !self && within(j->metric, keys[i], radius);
    }
    assert_int_equal(count, expected);
    const uint32_t *ids = kith_ranges_lists(ranges)->ids;
    if (ids == NULL) {
        return count;
    }
    for (int64_t i = first; i < first + count; i++) {
        const double distance = oracle_distance(j->metric, keys[ids[i]]);
        const float narrow = (float)distance;
        assert_true(within(j->metric, keys[ids[i]], radius));
        assert_true(j->queries > 0 || j->include_self || (int64_t)ids[i] != query);
        assert_memory_equal(&kith_ranges_lists(ranges)->distances64[i], &distance, sizeof distance);
        assert_memory_equal(&kith_ranges_lists(ranges)->distances[i], &narrow, sizeof narrow);
        if (i > first) { /* strictly rising, so each id once */
            const double before = keys[ids[i - 1]];
            assert_true(before < keys[ids[i]] || (before == keys[ids[i]] && ids[i - 1] < ids[i]));
        }
    }
    return count;
}

/* `keys` of each query to all points. */
static void check_ranges(const job *j, const kith_ranges *ranges, int64_t queries,
                         const double *keys, const double *radii, double radius)
{
    assert_int_equal(kith_ranges_lists(ranges)->rows, queries);
    assert_int_equal(kith_ranges_lists(ranges)->offsets[0], 0);
    for (int64_t q = 0; q < queries; q++) {
        (void)check_row(j, ranges, q, radii != NULL ? radii[q] : radius, keys + q * j->rows);
    }
}

static kith_ranges *search(kith_ctx *ctx, const job *j, const kith_matrix *points,
                           const kith_matrix *queries, const kith_radius_params *params)
{
    kith_ranges *ranges = NULL;
    const kith_status status =
        kith_radius(ctx, points, j->queries > 0 ? queries : NULL, params, &ranges);
    if (status != KITH_OK) {
        (void)printf("%s\n", kith_ctx_detail(ctx));
    }
    assert_int_equal(status, KITH_OK);
    return ranges;
}

static void fill(const job *j, test_rows *rows, uint64_t *seed)
{
    const int nonnegative = j->metric == KITH_CHI2 || j->metric == KITH_KL || j->dtype == KITH_U8;
    const double scale = j->dtype == KITH_U8 ? 255.0 : j->dtype == KITH_I8 ? 127.0 : 4.0;
    test_rows_fill(rows, scale, nonnegative, seed);
    for (int64_t i = 7; i < rows->matrix.rows; i += 5) { /* groups of equal rows */
        test_rows_copy(rows, i, rows, i % 3);
    }
    for (int64_t i = 11; i < rows->matrix.rows; i += 17) { /* zero, and so constant */
        for (int32_t c = 0; c < rows->matrix.cols; c++) {
            test_rows_set(rows, i, c, 0.0);
        }
    }
}

static void check_same(const void *a, const void *b, int64_t count, size_t size)
{
    assert_true((a == NULL) == (b == NULL));
    assert_true(a == NULL || count == 0 || memcmp(a, b, (size_t)count * size) == 0);
}

/* A prepared corpus, whose context is gone, gives the same table. */
static void check_prepared(kith_ctx *ctx, const kith_index *corpus, const kith_matrix *queries,
                           const kith_radius_params *given, const kith_ranges *expected)
{
    kith_ranges *ranges = NULL;
    kith_radius_params params = *given;
    params.metric = KITH_METRIC_DEFAULT; /* its own */
    if (kith_index_radius(ctx, corpus, queries, &params, &ranges) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
    const int64_t rows = kith_ranges_lists(expected)->rows;
    const int64_t count = kith_ranges_lists(expected)->offsets[rows];
    assert_int_equal(kith_ranges_lists(ranges)->rows, rows);
    check_same(kith_ranges_lists(expected)->offsets, kith_ranges_lists(ranges)->offsets, rows + 1,
               sizeof(int64_t));
    check_same(kith_ranges_lists(expected)->ids, kith_ranges_lists(ranges)->ids, count,
               sizeof(uint32_t));
    check_same(kith_ranges_lists(expected)->distances, kith_ranges_lists(ranges)->distances, count,
               sizeof(float));
    check_same(kith_ranges_lists(expected)->distances64, kith_ranges_lists(ranges)->distances64,
               count, sizeof(double));
    kith_ranges_free(ranges);
}

static kith_index *prepare(const job *j, const kith_matrix *points, kin_isa isa)
{
    kith_ctx *maker = test_ctx(isa, 2);
    kith_index *corpus = NULL;
    assert_int_equal(test_index_create(maker, points, j->metric, &corpus), KITH_OK);
    kith_ctx_free(maker);
    return corpus;
}

/* One radius for all, one for each, counts alone; on this instruction set; of points and of a
 * prepared corpus. */
static void run(const job *j, kin_isa isa, int32_t threads)
{
    uint64_t seed = (uint64_t)j->rows * 31 + (uint64_t)j->cols;
    kith_ctx *ctx = test_ctx(isa, threads);
    test_rows points = test_rows_make(j->dtype, j->rows, j->cols, 4);
    test_rows asked = test_rows_make(j->dtype, j->queries > 0 ? j->queries : 1, j->cols, 0);
    fill(j, &points, &seed);
    fill(j, &asked, &seed);
    const kith_matrix *queries = j->queries > 0 ? &asked.matrix : &points.matrix;
    double *radii = malloc((size_t)queries->rows * sizeof *radii);
    double *keys = malloc((size_t)(queries->rows * j->rows) * sizeof *keys);
    assert_true(radii != NULL && keys != NULL);
    for (int64_t q = 0; q < queries->rows; q++) {
        oracle_keys(j->metric, queries, q, &points.matrix, keys + q * j->rows);
        radii[q] = radius_at(j, keys + q * j->rows, (double)(q % 11) / 20.0);
    }
    kith_index *corpus = prepare(j, &points.matrix, isa);
    kith_radius_params params = kith_radius_params_default();
    params.metric = j->metric;
    params.flags = j->include_self ? (uint32_t)KITH_INCLUDE_SELF : 0;
    for (int which = 0; which < 4; which++) {
        params.radius = radii[which % queries->rows];
        params.radii = which >= 2 ? radii : NULL;
        params.count_only = which & 1;
        kith_ranges *ranges = search(ctx, j, &points.matrix, queries, &params);
        assert_true((kith_ranges_lists(ranges)->ids == NULL) == (params.count_only != 0));
        check_ranges(j, ranges, queries->rows, keys, params.radii, params.radius);
        check_prepared(ctx, corpus, j->queries > 0 ? queries : NULL, &params, ranges);
        kith_ranges_free(ranges);
    }
    kith_index_free(corpus);
    free(keys);
    free(radii);
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(ctx);
}

static void agrees_with_the_oracle(void **state)
{
    (void)state;
    const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_I8, KITH_F64, KITH_F16};
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    int jobs = 0;
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        for (int d = 0; d < 5; d += test_is_slow_build() ? 3 : 1) {
            const job shapes[] = {{(kith_metric)metric, dtypes[d], 203, 0, 5, 0},
                                  {(kith_metric)metric, dtypes[d], 130, 0, 19, 1},
                                  {(kith_metric)metric, dtypes[d], 333, 70, 34, 0},
                                  {(kith_metric)metric, dtypes[d], 1, 2, 3, 0}};
            if (dtypes[d] == KITH_I8 && (metric == KITH_CHI2 || metric == KITH_KL)) {
                continue;
            }
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                run(&shapes[s], isas[jobs % bodies], 1 + jobs % 3);
                jobs += 1;
            }
        }
    }
    (void)printf("%d radius searches (metrics, types, equal and degenerate rows, radii that are "
                 "distances to the last bit) have the oracle's bytes, of points and of prepared "
                 "corpora whose context is gone\n",
                 jobs);
}

/* Enough points for tiles to be covered, blocks to be many, and types to be tried. */
static void large_searches_agree(void **state)
{
    (void)state;
    const job jobs[] = {{KITH_EUCLIDEAN, KITH_F32, 8500, 0, 3, 0},
                        {KITH_COSINE, KITH_F32, 4300, 4200, 3, 0},
                        {KITH_SQEUCLIDEAN, KITH_U8, 5000, 0, 2, 0}};
    for (size_t i = test_is_slow_build() ? 1 : 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        const job *j = &jobs[i];
        uint64_t seed = 77;
        kith_ctx *ctx = test_ctx(KIN_ISA_PORTABLE, 2);
        test_rows points = test_rows_make(j->dtype, j->rows, j->cols, 0);
        test_rows asked = test_rows_make(j->dtype, j->queries > 0 ? j->queries : 1, j->cols, 0);
        test_rows_fill(&points, j->dtype == KITH_U8 ? 255.0 : 1.0, j->dtype == KITH_U8, &seed);
        test_rows_fill(&asked, 1.0, 0, &seed);
        const kith_matrix *queries = j->queries > 0 ? &asked.matrix : &points.matrix;
        kith_radius_params params = kith_radius_params_default();
        params.metric = j->metric;
        params.radius = j->metric == KITH_EUCLIDEAN ? 0.2 : j->metric == KITH_COSINE ? 0.005 : 40.0;
        kith_ranges *ranges = search(ctx, j, &points.matrix, queries, &params);
        kith_index *corpus = prepare(j, &points.matrix, kin_cpu_best());
        check_prepared(ctx, corpus, j->queries > 0 ? queries : NULL, &params, ranges);
        kith_index_free(corpus);
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        assert_true(report.exact == 1 && report.skipped_share > 0.0);
        double *keys = malloc((size_t)j->rows * sizeof *keys);
        assert_non_null(keys);
        for (int64_t q = 0; q < queries->rows; q += 37) {
            oracle_keys(j->metric, queries, q, &points.matrix, keys);
            (void)check_row(j, ranges, q, params.radius, keys);
        }
        free(keys);
        kith_ranges_free(ranges);
        test_rows_free(&asked);
        test_rows_free(&points);
        kith_ctx_free(ctx);
    }
    (void)printf("large searches skip tiles and agree with the oracle\n");
}

/* Bytes that wait for bytes are asked with floats; wrong questions are refused. */
static void prepared_corpora_are_asked(void **state)
{
    (void)state;
    const job j = {KITH_SQEUCLIDEAN, KITH_U8, 500, 40, 12, 0};
    uint64_t seed = 5;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    test_rows points = test_rows_make(KITH_U8, j.rows, j.cols, 3);
    test_rows asked = test_rows_make(KITH_F32, j.queries, j.cols, 4);
    test_rows other = test_rows_make(KITH_F32, 3, j.cols + 1, 0);
    fill(&j, &points, &seed);
    test_rows_fill(&asked, 255.0, 1, &seed);
    kith_index *corpus = prepare(&j, &points.matrix, kin_cpu_best());
    kith_radius_params params = kith_radius_params_default();
    params.metric = KITH_SQEUCLIDEAN;
    params.radius = 60000.0;
    kith_ranges *ranges = search(ctx, &j, &points.matrix, &asked.matrix, &params);
    assert_true(kith_ranges_lists(ranges)->offsets[j.queries] > 100);
    check_prepared(ctx, corpus, &asked.matrix, &params, ranges);
    kith_ranges_free(ranges);

    assert_int_equal(kith_index_radius(ctx, NULL, &asked.matrix, &params, &ranges),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "index is NULL"));
    assert_null(ranges);
    assert_int_equal(kith_index_radius(ctx, corpus, &asked.matrix, &params, NULL), KITH_E_ARGUMENT);
    assert_int_equal(kith_index_radius(ctx, corpus, &other.matrix, &params, &ranges),
                     KITH_E_ARGUMENT);
    params.method = KITH_METHOD_TREE;
    assert_int_equal(kith_index_radius(ctx, corpus, NULL, &params, &ranges), KITH_E_UNSUPPORTED);
    params.method = KITH_METHOD_AUTO;
    params.metric = KITH_COSINE;
    assert_int_equal(kith_index_radius(ctx, corpus, NULL, &params, &ranges), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "prepared for sqeuclidean"));
    params.metric = KITH_METRIC_DEFAULT;
    params.radius = NAN;
    assert_int_equal(kith_index_radius(ctx, corpus, NULL, &params, &ranges), KITH_E_ARGUMENT);
    params.radius = -1.0;
    assert_int_equal(kith_index_radius(ctx, corpus, NULL, &params, &ranges), KITH_E_ARGUMENT);
    kith_index_free(corpus);
    test_rows_free(&other);
    test_rows_free(&asked);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("a prepared corpus of bytes is asked with floats; what is wrong is refused\n");
}

static double product(void *arg, const void *query, const void *point, int32_t cols)
{
    const float *q = query;
    const float *p = point;
    double sum = 0;
    for (int32_t i = 0; i < cols; i++) {
        sum += (double)q[i] * (double)p[i];
    }
    return *(const double *)arg * sum;
}

/* Two of them are equal. */
static test_rows sixty_rows(void)
{
    uint64_t seed = 4;
    test_rows points = test_rows_make(KITH_F32, 60, 4, 0);
    test_rows_fill(&points, 1.0, 0, &seed);
    test_rows_copy(&points, 9, &points, 30);
    return points;
}

static void ends_of_radii(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(KIN_ISA_PORTABLE, 2);
    test_rows points = sixty_rows();
    const kith_matrix *m = &points.matrix;
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    params.radius = 0.0; /* equal rows alone */
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_OK);
    assert_int_equal(kith_ranges_lists(ranges)->offsets[60], 2);
    assert_int_equal(kith_ranges_lists(ranges)->ids[0], 30);
    assert_int_equal(kith_ranges_lists(ranges)->ids[1], 9);
    kith_ranges_free(ranges);

    params.radius = INFINITY; /* everybody */
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_OK);
    assert_int_equal(kith_ranges_lists(ranges)->offsets[60], 60 * 59);
    kith_ranges_free(ranges);

    params.metric = KITH_INNER_PRODUCT; /* infinitely large products: nobody */
    assert_int_equal(kith_radius(ctx, m, m, &params, &ranges), KITH_OK);
    assert_int_equal(kith_ranges_lists(ranges)->offsets[60], 0);
    kith_ranges_free(ranges);
    params.radius = -INFINITY;
    assert_int_equal(kith_radius(ctx, m, m, &params, &ranges), KITH_OK);
    assert_int_equal(kith_ranges_lists(ranges)->offsets[60], 60 * 60);
    kith_ranges_free(ranges);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("radii of 0 and infinity, on both sides: equal rows, everybody, nobody\n");
}

static void bad_radii(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(KIN_ISA_PORTABLE, 2);
    test_rows points = sixty_rows();
    const kith_matrix *m = &points.matrix;
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = (kith_ranges *)(void *)&params; /* what comes back is NULL */
    params.radius = -1.0;
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_E_ARGUMENT);
    assert_null(ranges);
    params.radius = (double)NAN;
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_E_ARGUMENT);
    double radii[60] = {0.5};
    radii[17] = -0.5;
    params.radii = radii;
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "radii[17]"));
    assert_int_equal(kith_radius(ctx, m, NULL, &params, NULL), KITH_E_ARGUMENT);
    params = kith_radius_params_default();
    params.flags = KITH_INCLUDE_SELF | KITH_NO_SYMMETRY;
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "0x2 is no flag of a radius"));
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf(
        "radii of NaN and below 0 are refused, and named where there are many; flags that a "
        "radius has not are refused\n");
}

static void own_distances(void **state)
{
    (void)state;
    double sign = -1.0; /* as an inner product */
    kith_ctx *ctx = test_ctx(KIN_ISA_PORTABLE, 2);
    test_rows points = sixty_rows();
    const kith_matrix *m = &points.matrix;
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    params.metric = KITH_CUSTOM;
    params.custom = product;
    params.custom_arg = &sign;
    params.radius = -0.25;
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_OK);
    const int64_t own = kith_ranges_lists(ranges)->offsets[60];
    kith_ranges_free(ranges);
    params = kith_radius_params_default();
    params.metric = KITH_INNER_PRODUCT;
    params.radius = 0.25;
    params.count_only = 1;
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_OK);
    assert_int_equal(kith_ranges_lists(ranges)->offsets[60], own);
    kith_ranges_free(ranges);
    params = kith_radius_params_default();
    params.metric = KITH_CUSTOM;
    params.custom = product;
    sign = (double)NAN;
    params.custom_arg = &sign;
    assert_int_equal(kith_radius(ctx, m, NULL, &params, &ranges), KITH_E_DATA);
    kith_ranges_free(NULL);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("a caller's own distance, and one that is NaN\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_oracle),
        cmocka_unit_test(large_searches_agree),
        cmocka_unit_test(prepared_corpora_are_asked),
        cmocka_unit_test(ends_of_radii),
        cmocka_unit_test(bad_radii),
        cmocka_unit_test(own_distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
