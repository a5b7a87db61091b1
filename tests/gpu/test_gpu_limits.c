/* SPDX-License-Identifier: Apache-2.0
 * Ends of ranges: what is refused is refused in the processor's words; thousands of neighbours, up
 * to all rows; with KITH_LONG set, rows x columns and rows x k beyond 2^32 (some minutes, 60 GB of
 * host memory). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- What is refused ------------------------------------------------------------------------ */

typedef struct bad {
    kith_metric metric;
    kith_dtype dtype;
    double value;
} bad;

static void compare_bad(kith_ctx *cpu, kith_ctx *gpu, const bad *b, test_tally *tally)
{
    static const int64_t places[][2] = {{0, 0}, {0, 18}, {700, 3}, {1999, 18}};
    enum { ROWS = 2000, DIMS = 19 };
    uint64_t seed = 31;
    test_rows good = test_rows_make(b->dtype, 200, DIMS, 0);
    test_rows rows = test_rows_make(b->dtype, ROWS, DIMS, 8);
    test_shape_fill(&good, SHAPE_GAUSS, true, &seed);
    test_shape_fill(&rows, SHAPE_GAUSS, true, &seed);
    for (int i = 3; i >= 0; i--) { /* the lowest place is named, whatever stands behind it */
        test_rows_set(&rows, places[i][0], places[i][1], b->value);
        test_job job = {.name = "bad", .points = &rows.matrix, .metric = b->metric, .k = 4};
        test_compare(cpu, gpu, &job, tally);
        job.queries = &good.matrix;
        for (int call = TEST_SEARCH; call <= TEST_PREPARED; call++) {
            job.call = (test_call)call;
            test_compare(cpu, gpu, &job, tally);
        }
        job.points = &good.matrix;
        job.queries = &rows.matrix;
        for (int call = TEST_SEARCH; call <= TEST_PREPARED; call++) {
            job.call = (test_call)call;
            test_compare(cpu, gpu, &job, tally);
        }
    }
    test_rows_free(&rows);
    test_rows_free(&good);
}

static void bad_values(void **state)
{
    (void)state;
    const double nan = (double)NAN;
    const double inf = (double)INFINITY;
    const bad all[] = {
        {KITH_EUCLIDEAN, KITH_F32, nan},       {KITH_EUCLIDEAN, KITH_F32, inf},
        {KITH_EUCLIDEAN, KITH_F64, nan},       {KITH_EUCLIDEAN, KITH_F64, -inf},
        {KITH_COSINE, KITH_F16, nan},          {KITH_COSINE, KITH_F16, inf},
        {KITH_CORRELATION, KITH_BF16, nan},    {KITH_INNER_PRODUCT, KITH_BF16, inf},
        {KITH_EUCLIDEAN, KITH_F64, 0x1.1p500}, {KITH_MANHATTAN, KITH_F64, -0x1.1p500},
        {KITH_CHI2, KITH_F32, -1.0},           {KITH_CHI2, KITH_I8, -1.0},
        {KITH_KL, KITH_F32, -0x1p-149},        {KITH_KL, KITH_F64, 0x1p-501},
        {KITH_HAMMING, KITH_F16, nan},         {KITH_JACCARD, KITH_F32, inf},
        {KITH_CHEBYSHEV, KITH_F64, nan},
    };
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    test_tally tally = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        compare_bad(cpu, gpu, &all[i], &tally);
    }
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    assert_int_equal(tally.refused, tally.cases);
    test_tally_end(&tally, "NaN, infinity, values that a metric does not take");
}

static void bad_arguments(void **state)
{
    (void)state;
    uint64_t seed = 32;
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    test_tally tally = {0};
    test_rows rows = test_rows_make(KITH_F32, 50, 5, 0);
    test_rows other = test_rows_make(KITH_F32, 50, 6, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    test_shape_fill(&other, SHAPE_GAUSS, false, &seed);
    for (int64_t k = 49; k <= 52; k++) {
        for (int call = TEST_GRAPH; call <= TEST_PREPARED; call++) {
            const test_job job = {.name = "k",
                                  .call = (test_call)call,
                                  .points = &rows.matrix,
                                  .queries = &rows.matrix,
                                  .metric = KITH_EUCLIDEAN,
                                  .k = k};
            test_compare(cpu, gpu, &job, &tally);
        }
    }
    for (int call = TEST_SEARCH; call <= TEST_PREPARED; call++) {
        const test_job job = {.name = "columns",
                              .call = (test_call)call,
                              .points = &rows.matrix,
                              .queries = &other.matrix,
                              .metric = KITH_EUCLIDEAN,
                              .k = 2};
        test_compare(cpu, gpu, &job, &tally);
    }
    test_rows_free(&other);
    test_rows_free(&rows);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    assert_int_equal(tally.refused, 12);
    test_tally_end(&tally, "k beyond what there is, columns that do not match");
}

/* ---- Radius, custom: the same whatever computes them ---------------------------------------- */

static double first_column(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)arg;
    (void)cols;
    return fabs((double)*(const float *)query - (double)*(const float *)point);
}

static void compare_radius(kith_ctx *cpu, kith_ctx *gpu, const kith_matrix *points,
                           kith_metric metric, double radius)
{
    kith_radius_params params = kith_radius_params_default();
    params.metric = metric;
    params.radius = radius;
    kith_ranges *a = NULL;
    kith_ranges *b = NULL;
    assert_int_equal(kith_radius(cpu, points, NULL, &params, &a), KITH_OK);
    if (kith_radius(gpu, points, NULL, &params, &b) != KITH_OK) {
        fail_msg("radius: %s", kith_ctx_detail(gpu));
    }
    const size_t rows = (size_t)points->rows;
    assert_memory_equal(kith_ranges_lists(a)->offsets, kith_ranges_lists(b)->offsets,
                        (rows + 1) * sizeof(int64_t));
    const size_t count = (size_t)kith_ranges_lists(a)->offsets[rows];
    assert_true(count > 0);
    assert_memory_equal(kith_ranges_lists(a)->ids, kith_ranges_lists(b)->ids,
                        count * sizeof(uint32_t));
    assert_memory_equal(kith_ranges_lists(a)->distances64, kith_ranges_lists(b)->distances64,
                        count * sizeof(double));
    kith_ranges_free(a);
    kith_ranges_free(b);
}

static void radius_and_custom(void **state)
{
    (void)state;
    uint64_t seed = 33;
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    test_rows rows = test_rows_make(KITH_F32, 1500, 6, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    compare_radius(cpu, gpu, &rows.matrix, KITH_EUCLIDEAN, 1.2);
    compare_radius(cpu, gpu, &rows.matrix, KITH_INNER_PRODUCT, 6.0);
    compare_radius(cpu, gpu, &rows.matrix, KITH_COSINE, 0.1);
    compare_radius(cpu, gpu, &rows.matrix, KITH_MANHATTAN, 2.0);
    kith_search_params params = kith_search_params_default();
    params.metric = KITH_CUSTOM;
    params.custom = first_column;
    params.k = 5;
    kith_neighbors a = test_answer_make(1500, 5);
    kith_neighbors b = test_answer_make(1500, 5);
    assert_int_equal(kith_graph(cpu, &rows.matrix, &params, &a, NULL), KITH_OK);
    const kith_status status = kith_graph(gpu, &rows.matrix, &params, &b, NULL);
    if (status == KITH_OK) {
        assert_false(test_answers_differ("custom", &a, &b));
    } else { /* a caller's function runs on processors only */
        assert_int_equal(status, KITH_E_UNSUPPORTED);
    }
    printf("radius search with a GPU context: the processor's bytes; a caller's own function: %s\n",
           status == KITH_OK ? "the processor's bytes" : kith_ctx_detail(gpu));
    test_answer_free(&a);
    test_answer_free(&b);
    test_rows_free(&rows);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
}

/* ---- Many neighbours ------------------------------------------------------------------------- */

/* More neighbours than a block of threads sorts, so that a selection sorts them, of rows that are
 * equal, tie, or have no direction, too; many, so that a search has stages. */
static void long_k(void **state)
{
    (void)state;
    static const struct {
        test_shape shape;
        kith_dtype dtype;
        kith_metric metric;
    } data[] = {{SHAPE_GAUSS, KITH_F32, KITH_EUCLIDEAN},
                {SHAPE_CLUSTERS, KITH_F16, KITH_INNER_PRODUCT},
                {SHAPE_COPIES, KITH_F64, KITH_SQEUCLIDEAN},
                {SHAPE_GRID, KITH_U8, KITH_EUCLIDEAN},
                {SHAPE_SPARSE, KITH_F32, KITH_COSINE}};
    enum { ROWS = 5200, GRAPH = 3200, MANY = 50000, DIMS = 14, ASKED = 60, KS = 6 };
    static const int64_t all[KS] = {2049, 2100, 3072, 5000, ROWS - 1, ROWS};
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    test_tally tally = {0};
    for (size_t d = 0; d < sizeof data / sizeof *data; d++) {
        const kith_metric metric = data[d].metric;
        test_rows rows = test_rows_make(data[d].dtype, MANY, DIMS, 0);
        test_rows queries = test_rows_make(data[d].dtype, ASKED, DIMS, 0);
        uint64_t seed = 50;
        test_shape_fill(&rows, data[d].shape, false, &seed);
        test_shape_fill(&queries, data[d].shape, false, &seed);
        kith_matrix points = rows.matrix;
        test_job job = {
            .name = "long", .call = TEST_SEARCH, .points = &points, .queries = &queries.matrix};
        job.metric = metric;
        job.k = 3100;
        test_compare(cpu, gpu, &job, &tally);
        points.rows = ROWS;
        for (int i = 0; i < KS; i++) {
            job.call = i % 2 == 0 ? TEST_PREPARED : TEST_SEARCH;
            job.k = all[i];
            test_compare(cpu, gpu, &job, &tally);
        }
        points.rows = GRAPH;
        job.call = TEST_GRAPH;
        job.queries = NULL;
        for (job.k = d == 0 ? 2100 : GRAPH - 1; job.k < GRAPH && d < 3; job.k += GRAPH - 2101) {
            test_compare(cpu, gpu, &job, &tally);
        }
        test_rows_free(&queries);
        test_rows_free(&rows);
    }
    kith_ctx_free(cpu);
    kith_ctx_free(gpu);
    test_tally_end(&tally, "k above what is sorted at once, up to n");
}

/* ---- Beyond 2^32 ---------------------------------------------------------------------------- */

static uint8_t *take_large(int64_t bytes)
{
    uint8_t *block = malloc((size_t)bytes);
    if (block == NULL) {
        print_message("%" PRId64 " bytes of host memory are missing\n", bytes);
        skip();
    }
    return block;
}

/* Clusters of about 3,000 rows: a row is its centre with 16 bytes changed. */
static void fill_large(uint8_t *data, int64_t rows, int32_t cols)
{
    enum { CHANGED = 16 };
    const int64_t clusters = rows / 3000;
    uint64_t seed = 34;
    uint8_t *centres = take_large(clusters * cols);
    for (int64_t i = 0; i < clusters * cols; i++) {
        centres[i] = (uint8_t)(kin_random_next(&seed) >> 56);
    }
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *to = data + row * cols;
        const int64_t cluster = (int64_t)kin_random_below(&seed, (uint64_t)clusters);
        memcpy(to, centres + cluster * cols, (size_t)cols);
        for (int i = 0; i < CHANGED; i++) {
            const uint64_t bits = kin_random_next(&seed);
            to[bits % (uint64_t)cols] = (uint8_t)(bits >> 56);
        }
    }
    free(centres);
}

/* Sampled rows of a graph against a search of the processor's for them, ids and distances. */
static int check_sampled(const kith_matrix *m, const kith_neighbors *graph)
{
    enum { ASKED = 24 };
    kith_ctx *cpu = test_cpu_ctx();
    uint64_t seed = 35;
    uint32_t own[ASKED];
    uint8_t *rows = take_large((int64_t)ASKED * m->cols);
    for (int i = 0; i < ASKED; i++) { /* the ends, and any */
        own[i] = (uint32_t)(i < 2   ? i
                            : i < 8 ? m->rows - (i - 1)
                                    : (int64_t)kin_random_below(&seed, (uint64_t)m->rows));
        memcpy(rows + (int64_t)i * m->cols, (const uint8_t *)m->data + (int64_t)own[i] * m->cols,
               (size_t)m->cols);
    }
    const kith_matrix asked = {.data = rows, .rows = ASKED, .cols = m->cols, .dtype = KITH_U8};
    kith_search_params params = kith_search_params_default();
    params.k = graph->k;
    params.exclude = own;
    kith_neighbors wanted = test_answer_make(ASKED, graph->k);
    assert_int_equal(kith_search(cpu, m, &asked, &params, &wanted, NULL), KITH_OK);
    kith_neighbors got = test_answer_make(ASKED, graph->k);
    memcpy(got.distances, wanted.distances, (size_t)(ASKED * graph->k) * sizeof(float));
    uint32_t *pairs = malloc((size_t)graph->k * sizeof *pairs);
    assert_non_null(pairs);
    for (int i = 0; i < ASKED; i++) {
        uint32_t *ids = got.ids + i * graph->k;
        memcpy(ids, graph->ids + (int64_t)own[i] * graph->k, (size_t)graph->k * sizeof *ids);
        for (int64_t j = 0; j < graph->k; j++) {
            pairs[j] = (uint32_t)i;
        }
        assert_int_equal(kith_distances(cpu, m, &asked, KITH_EUCLIDEAN,
                                        &(kith_pairs){graph->k, pairs, ids},
                                        got.distances64 + i * graph->k),
                         KITH_OK);
    }
    const int differ = test_answers_differ("sampled rows of a large graph", &wanted, &got);
    free(pairs);
    test_answer_free(&got);
    test_answer_free(&wanted);
    free(rows);
    kith_ctx_free(cpu);
    return differ;
}

static void large_graph(int64_t rows, int32_t cols, int64_t k)
{
    uint8_t *data = take_large(rows * cols);
    fill_large(data, rows, cols);
    const kith_matrix m = {.data = data, .rows = rows, .cols = cols, .dtype = KITH_U8};
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    kith_search_params params = kith_search_params_default();
    params.k = k;
    const kith_neighbors got = {
        .ids = (uint32_t *)(void *)take_large(rows * k * (int64_t)sizeof(uint32_t)),
        .rows = rows,
        .k = k};
    if (kith_graph(gpu, &m, &params, &got, NULL) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(gpu));
    }
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(gpu, &report), KITH_OK);
    printf("%" PRId64 " x %" PRId32 ", k %" PRId64 ": %.1f s, skipped %.4f, rerun %.4f\n", rows,
           cols, k, report.seconds_total, report.skipped_share, report.rerun_share);
    (void)fflush(stdout);
    assert_int_equal(check_sampled(&m, &got), 0);
    free(got.ids);
    free(data);
    kith_ctx_free(gpu);
}

static void beyond_32_bits(void **state)
{
    (void)state;
    const char *wanted = getenv("KITH_LONG");
    if (wanted == NULL || wanted[0] == '\0') {
        printf("rows x columns and rows x k beyond 2^32: skipped, KITH_LONG is not set\n");
        skip();
    }
    large_graph(9000000, 500, 10);
    large_graph(4400000, 24, 1000);
    printf("rows x columns and rows x k beyond 2^32: sampled rows are the processor's\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_values),        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(radius_and_custom), cmocka_unit_test(long_k),
        cmocka_unit_test(beyond_32_bits),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
