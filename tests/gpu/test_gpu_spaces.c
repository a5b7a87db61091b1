/* SPDX-License-Identifier: Apache-2.0
 * Other spaces by the tree on the GPU, periodic boxes and the sphere: the processor's suites; then
 * graphs, searches, radii and kept indexes of more points, on the host and on the device, whose
 * bytes are those of the processor. */
#include "support/cases.h"

#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_engines.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 160000, FEW_ROWS = 6000, QUERIES = 900, IN_CITY = 453, MOST_COLS = 11 };

typedef struct sample {
    kith_dtype dtype;
    kith_metric metric; /* haversine: places, else a box */
    int32_t cols;
    int64_t k; /* 100: lists that shared memory does not hold */
} sample;

static const sample SAMPLES[] = {
    {KITH_F32, KITH_EUCLIDEAN, 3, 8},   {KITH_F64, KITH_EUCLIDEAN, 3, 100},
    {KITH_F32, KITH_MANHATTAN, 2, 100}, {KITH_F64, KITH_HAVERSINE, 2, 8},
    {KITH_F64, KITH_CHEBYSHEV, 6, 8},   {KITH_F16, KITH_SQEUCLIDEAN, 3, 8},
    {KITH_F32, KITH_HAVERSINE, 2, 100}, {KITH_F32, KITH_EUCLIDEAN, MOST_COLS, 100},
    {KITH_U8, KITH_CHEBYSHEV, 4, 8},    {KITH_F32, KITH_MANHATTAN, 9, 8},
    {KITH_F32, KITH_HAVERSINE, 2, 8},   {KITH_F64, KITH_HAVERSINE, 2, 100},
    {KITH_F16, KITH_HAVERSINE, 2, 8},
};
enum { SAMPLE_COUNT = sizeof SAMPLES / sizeof *SAMPLES };

typedef struct scene {
    const sample *of;
    test_caller caller;
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_rows points;
    test_rows queries;
    kith_matrix points_there;
    kith_matrix queries_there;
    kith_search_params params;
    double radius; /* a distance that occurs, of places in the city */
    double period[MOST_COLS];
    int wrong;
} scene;

static bool has_places(const scene *s)
{
    return s->of->metric == KITH_HAVERSINE;
}

/* A third uniform, a third at the border, a third in a cluster around a corner. */
static void put_in_box(const scene *s, const test_rows *rows, int64_t i, uint64_t *seed)
{
    for (int32_t c = 0; c < rows->matrix.cols; c++) {
        const double length = s->period[c] > 0.0 ? s->period[c] : 1.0;
        const double u = test_uniform(seed);
        const double end = i % 3 == 1 ? u * u * u : 0.01 * u;
        const double far = 0.999 * (test_uniform(seed) < 0.5 ? end : 1.0 - end);
        test_rows_set(rows, i, c, length * (i % 3 == 0 ? 0.999 * u : far));
    }
}

/* A fifth each: the sphere, both poles, the date line, a city and its other side. */
static void put_on_sphere(const test_rows *rows, int64_t i, uint64_t *seed)
{
    const double pi = 3.14159265358979312;
    const double u = 2.0 * test_uniform(seed) - 1.0;
    const double v = 2.0 * test_uniform(seed) - 1.0;
    double lat = asin(u);
    double lon = pi * v;
    if (i % 5 == 1) {
        lat = (u < 0.0 ? -0.5 : 0.5) * pi * (1.0 - 1e-3 * u * u);
    } else if (i % 5 == 2) {
        lon = (v < 0.0 ? -pi : pi) * (1.0 - 1e-3 * v * v);
    } else if (i % 5 == 3) {
        lat = 0.8 + 1e-3 * u;
        lon = -2.1 + 1e-3 * v;
    } else if (i % 5 == 4) {
        lat = -0.8 - 1e-3 * u;
        lon = -2.1 + pi + 1e-3 * v;
    }
    test_rows_set(rows, i, 0, lat);
    test_rows_set(rows, i, 1, lon);
}

/* A tenth twice. */
static void fill(const scene *s, const test_rows *rows, uint64_t *seed)
{
    for (int64_t i = 0; i < rows->matrix.rows; i++) {
        if (has_places(s)) {
            put_on_sphere(rows, i, seed);
        } else {
            put_in_box(s, rows, i, seed);
        }
        if (i % 10 == 9) {
            test_rows_copy(rows, i, rows, i / 2);
        }
    }
}

static double radius_of(const scene *s)
{
    kith_neighbors found = test_answer_make(QUERIES, s->of->k);
    test_works(s->cpu, kith_search(s->cpu, &s->points.matrix, &s->queries.matrix, &s->params,
                                   &found, NULL));
    const int64_t row = has_places(s) ? IN_CITY : QUERIES / 2;
    const double radius = found.distances64[row * s->of->k + s->of->k - 1];
    test_answer_free(&found);
    return radius;
}

static void scene_begin(scene *s, const sample *of)
{
    uint64_t seed = 32;
    const int64_t rows = test_is_slow_build() ? FEW_ROWS : ROWS;
    *s = (scene){.of = of,
                 .caller = test_caller_open(),
                 .cpu = test_cpu_ctx(),
                 .gpu = test_gpu_ctx(2, 0),
                 .points = test_rows_make(of->dtype, rows, of->cols, 0),
                 .queries = test_rows_make(of->dtype, QUERIES, of->cols, 0),
                 .params = kith_search_params_default()};
    for (int32_t c = 0; c < of->cols; c++) {
        s->period[c] = of->dtype == KITH_U8 ? 250.5 : c % 4 == 3 ? 0.0 : 1.0 + 0.5 * c;
    }
    fill(s, &s->points, &seed);
    fill(s, &s->queries, &seed);
    test_rows_copy(&s->queries, 0, &s->points, 9);
    s->points_there = test_caller_copy(&s->caller, &s->points.matrix);
    s->queries_there = test_caller_copy(&s->caller, &s->queries.matrix);
    s->params.metric = of->metric;
    s->params.period = has_places(s) ? NULL : s->period;
    s->params.k = of->k;
    s->params.method = KITH_METHOD_TREE;
    s->radius = radius_of(s);
}

static void scene_end(scene *s)
{
    test_caller_release(&s->caller, s->queries_there.data);
    test_caller_release(&s->caller, s->points_there.data);
    test_rows_free(&s->queries);
    test_rows_free(&s->points);
    kith_ctx_free(s->gpu);
    kith_ctx_free(s->cpu);
    test_caller_close(&s->caller);
}

static void compare(scene *s, const char *what, const kith_neighbors *wanted, kith_neighbors got)
{
    s->wrong += test_answers_differ(what, wanted, &got);
    test_answer_free(&got);
}

/* By the tree and directly, of rows here and there; a limited search, too. */
static void compare_lists(scene *s)
{
    const int64_t rows = s->points.matrix.rows;
    const int64_t k = s->of->k;
    kith_neighbors graph = test_answer_make(rows, k);
    kith_neighbors got = test_answer_make(rows, k);
    kith_report told = {.struct_size = (uint32_t)sizeof told};
    test_works(s->cpu, kith_graph(s->cpu, &s->points.matrix, &s->params, &graph, NULL));
    test_works(s->gpu, kith_graph(s->gpu, &s->points.matrix, &s->params, &got, &told));
    assert_string_equal(told.screen, "tree");
    compare(s, "a graph", &graph, got);
    kith_neighbors there = test_caller_answer(&s->caller, rows, k);
    test_works(s->gpu, kith_cuda_graph(s->gpu, &s->points_there, &s->params, &there, NULL,
                                       s->caller.handle));
    compare(s, "a graph there", &graph, test_caller_fetch(&s->caller, &there));
    for (int by = 0; by < 4; by++) {
        kith_search_params params = s->params;
        kith_neighbors found = test_answer_make(QUERIES, k);
        params.method = by % 2 == 0 ? KITH_METHOD_TREE : KITH_METHOD_EXACT;
        params.flags = by < 2 ? 0 : KITH_WITHIN_RADIUS;
        params.radius = by < 2 ? 0.0 : 0.5 * s->radius;
        test_works(s->cpu, kith_search(s->cpu, &s->points.matrix, &s->queries.matrix, &params,
                                       &found, NULL));
        there = test_caller_answer(&s->caller, QUERIES, k);
        test_works(s->gpu, kith_cuda_search(s->gpu, &s->points_there, &s->queries_there, &params,
                                            &there, s->caller.handle));
        compare(s, "a search there", &found, test_caller_fetch(&s->caller, &there));
        test_answer_free(&found);
    }
    test_answer_free(&graph);
}

static bool same_ranges(const kith_lists *a, const kith_lists *b)
{
    return memcmp(a->offsets, b->offsets, ((size_t)a->rows + 1) * sizeof *a->offsets) == 0 &&
           memcmp(a->ids, b->ids, (size_t)a->offsets[a->rows] * sizeof *a->ids) == 0 &&
           memcmp(a->distances64, b->distances64,
                  (size_t)a->offsets[a->rows] * sizeof *a->distances64) == 0;
}

/* queries NULL: the points themselves. */
static void compare_radius(scene *s, kith_method method, bool graph)
{
    const kith_matrix *asked = graph ? NULL : &s->queries.matrix;
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *wanted = NULL;
    kith_ranges *got = NULL;
    params.metric = s->of->metric;
    params.period = s->params.period;
    params.method = method;
    params.radius = s->radius * (!graph ? 1.0 : has_places(s) ? 0.5 : 0.1);
    test_works(s->cpu, kith_radius(s->cpu, &s->points.matrix, asked, &params, &wanted));
    test_works(s->gpu, kith_radius(s->gpu, &s->points.matrix, asked, &params, &got));
    s->wrong += !same_ranges(kith_ranges_lists(wanted), kith_ranges_lists(got));
    kith_ranges_free(got);
    kith_ranges_free(wanted);
}

/* A tree that is kept, of points here and there: the nearest, and all within a radius. */
static void compare_index(scene *s)
{
    kith_index_params made = kith_index_params_default();
    kith_search_params params = s->params;
    kith_radius_params within = kith_radius_params_default();
    kith_neighbors wanted = test_answer_make(QUERIES, s->of->k);
    kith_ranges *all = NULL;
    test_works(s->cpu, kith_search(s->cpu, &s->points.matrix, &s->queries.matrix, &s->params,
                                   &wanted, NULL));
    made.metric = within.metric = s->of->metric;
    made.period = within.period = s->params.period;
    made.method = KITH_METHOD_TREE;
    within.radius = s->radius;
    test_works(s->cpu, kith_radius(s->cpu, &s->points.matrix, &s->queries.matrix, &within, &all));
    params.period = within.period = NULL;
    params.metric = within.metric = KITH_METRIC_DEFAULT;
    params.method = KITH_METHOD_AUTO;
    for (int turn = 0; turn < 2; turn++) {
        kith_index *index = NULL;
        kith_ranges *got = NULL;
        kith_neighbors out = test_caller_answer(&s->caller, QUERIES, s->of->k);
        test_works(s->gpu, turn == 0 ? kith_index_create(s->gpu, &s->points.matrix, &made, &index)
                                     : kith_cuda_index_create(s->gpu, &s->points_there, &made,
                                                              &index, s->caller.handle));
        test_works(s->gpu, kith_cuda_index_search(s->gpu, index, &s->queries_there, &params, &out,
                                                  s->caller.handle));
        compare(s, "an index", &wanted, test_caller_fetch(&s->caller, &out));
        test_works(s->gpu, kith_index_radius(s->gpu, index, &s->queries.matrix, &within, &got));
        s->wrong += !same_ranges(kith_ranges_lists(all), kith_ranges_lists(got));
        kith_ranges_free(got);
        kith_index_free(index);
    }
    kith_ranges_free(all);
    test_answer_free(&wanted);
}

static void same_bytes(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < SAMPLE_COUNT; i += test_is_slow_build() ? 3 : 1) {
        scene s;
        scene_begin(&s, &SAMPLES[i]);
        compare_lists(&s);
        compare_radius(&s, KITH_METHOD_TREE, false);
        compare_radius(&s, KITH_METHOD_TREE, true);
        compare_radius(&s, KITH_METHOD_EXACT, false);
        compare_index(&s);
        wrong += s.wrong;
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("boxes and places on a GPU, rows here and there: the processor's bytes\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes)};
    if (test_gpu_is_absent()) {
        return TEST_SKIPPED;
    }
    test_engines_use_gpu();
    return test_suite_run(&test_suite_period) + test_suite_run(&test_suite_places) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
