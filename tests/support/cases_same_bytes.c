/* SPDX-License-Identifier: Apache-2.0
 * The same bytes whatever computes them: 1, 2 and 5 threads, each engine, every pair once
 * or twice, tiles skipped or not, a caller in any floating-point mode, again and again. With
 * KITH_DATA set, also for real data, of which sampled rows are compared with the oracle. */
#include "base/base_random.h"
#include "host/host_cpu.h"
#include "kith/kith_papers.h"
#include "support/cases.h"
#include "support/support_answers.h"
#include "support/support_corpora.h"
#include "support/support_engines.h"
#include "support/support_keys.h"
#include "support/support_mode.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_CORRELATION,
                                      KITH_INNER_PRODUCT};
enum { METRICS = 4 };

static kith_neighbors graph(kith_ctx *ctx, const kith_matrix *points, kith_metric metric, int64_t k,
                            uint32_t flags)
{
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = k;
    params.flags = flags;
    kith_neighbors out = test_answer_make(points->rows, k);
    if (kith_graph(ctx, points, &params, &out, NULL) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
    return out;
}

/* ---- Made-up data --------------------------------------------------------------------------- */

/* All ways to compute one graph; returns how many. */
static int all_ways(const kith_matrix *points, kith_metric metric, int64_t k)
{
    static const int32_t threads[] = {1, 2, 5};
    static const uint32_t flags[] = {0, KITH_NO_SYMMETRY, KITH_NO_SKIP,
                                     KITH_NO_SYMMETRY | KITH_NO_SKIP};
    kith_ctx *ctx = test_ctx(KIN_ISA_PORTABLE, 1);
    kith_neighbors first = graph(ctx, points, metric, k, 0);
    kith_ctx_free(ctx);
    int ways = 0;
    for (int engine = 0; engine < test_engine_count(); engine++) {
        for (int t = test_is_thread_build() ? 1 : 0; t < 3; t++) {
            ctx = test_engine_ctx(engine, threads[t]);
            /* Of the flags, others with other threads. */
            const bool half = !test_is_whole_build() && !test_engines_are_gpu();
            for (int f = half ? t % 2 : 0; f < 4 && ctx != NULL; f += half ? 2 : 1) {
                kith_neighbors again = graph(ctx, points, metric, k, flags[f]);
                if (!test_answers_equal(&first, &again)) {
                    fail_msg("%s, %lld x %d: %s, %d threads, flags %u differ from portable",
                             kith_metric_name(metric), (long long)points->rows, (int)points->cols,
                             test_engine_name(ctx), (int)threads[t], (unsigned)flags[f]);
                }
                test_answer_free(&again);
                ways += 1;
            }
            kith_ctx_free(ctx);
        }
    }
    test_answer_free(&first);
    return ways;
}

typedef struct setting {
    kith_dtype dtype;
    test_shape shape;
    int64_t rows;
    int32_t cols;
    int64_t k;
} setting;

static void made_up_data(void **state)
{
    (void)state;
    static const setting settings[] = {
        {KITH_F32, SHAPE_CLUSTERS, 3001, 4, 10}, {KITH_U8, SHAPE_GAUSS, 2003, 12, 15},
        {KITH_F32, SHAPE_GAUSS, 1031, 100, 7},   {KITH_F64, SHAPE_COPIES, 1999, 9, 21},
        {KITH_F32, SHAPE_TIGHT, 1301, 17, 12},   {KITH_I8, SHAPE_GRID, 1600, 6, 30},
        {KITH_F32, SHAPE_SPARSE, 1103, 33, 8},
    };
    uint64_t seed = 21;
    int ways = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i += test_is_slow_build() ? 3 : 1) {
        const setting *s = &settings[i];
        test_rows rows = test_rows_make(s->dtype, s->rows, s->cols, 0);
        test_shape_fill(&rows, s->shape, false, &seed);
        ways += all_ways(&rows.matrix, metrics[i % METRICS], s->k);
        if (!test_is_sanitized_build()) {
            ways += all_ways(&rows.matrix, metrics[(i + 1) % METRICS], s->k);
        }
        test_rows_free(&rows);
    }
    printf("%d graphs on every engine, with 1, 2, 5 threads: the portable bytes\n", ways);
}

static void again_and_again(void **state)
{
    (void)state;
    uint64_t seed = 22;
    test_rows rows = test_rows_make(KITH_F32, 2000, 10, 0);
    test_shape_fill(&rows, SHAPE_TIGHT, false, &seed);
    kith_ctx *ctx = test_engine_best_ctx(3);
    kith_neighbors first = graph(ctx, &rows.matrix, KITH_EUCLIDEAN, 10, 0);
    const int runs = test_is_sanitized_build() ? 8 : 25;
    for (int i = 0; i < runs; i++) {
        kith_neighbors again = graph(ctx, &rows.matrix, KITH_EUCLIDEAN, 10, 0);
        assert_true(test_answers_equal(&first, &again));
        test_answer_free(&again);
    }
    test_answer_free(&first);
    kith_ctx_free(ctx);
    test_rows_free(&rows);
    printf("%d runs with 3 threads: the same bytes each time\n", runs);
}

static void modes_of_the_caller(void **state)
{
    (void)state;
    uint64_t seed = 23;
    test_rows rows = test_rows_make(KITH_F32, 900, 11, 0);
    test_shape_fill(&rows, SHAPE_TINY, false, &seed);
    for (int m = 0; m < METRICS; m++) {
        kith_ctx *ctx = test_engine_best_ctx(2);
        kith_neighbors first = graph(ctx, &rows.matrix, metrics[m], 6, 0);
        for (int mode = 0; mode < TEST_MODES; mode++) {
            const kin_fpenv before = kin_fpenv_enter();
            kin_fpenv_leave(test_modes[mode]);
            kith_neighbors again = graph(ctx, &rows.matrix, metrics[m], 6, 0);
            const kin_fpenv after = kin_fpenv_enter();
            kin_fpenv_leave(before);
            assert_int_equal(after & ~(kin_fpenv)TEST_MODE_FLAGS, test_modes[mode]);
            assert_true(test_answers_equal(&first, &again));
            test_answer_free(&again);
        }
        test_answer_free(&first);
        kith_ctx_free(ctx);
    }
    test_rows_free(&rows);
    printf("test 3: a caller that flushes subnormals or rounds upward gets the same bytes, and "
           "finds its mode unchanged\n");
}

/* ---- Real data ------------------------------------------------------------------------------ */

enum { MOST_SAMPLES = 2000, REAL_K = 10 };

/* Multiplications that the oracle may spend on a file and metric, and a graph in this test. */
static const double BUDGET = 5e8;
static const double GRAPH_BUDGET = 2e11;

typedef struct sampled {
    const char *name;
    kith_metric metric;
    const kith_matrix *points;
    test_rows rows;
    uint32_t *ids;
    test_truth truth;
} sampled;

static sampled sampled_make(const char *name, kith_metric metric, const kith_matrix *points)
{
    const int64_t affordable = (int64_t)(BUDGET / (double)points->rows / (double)points->cols);
    const int64_t count = affordable < MOST_SAMPLES ? affordable + 1 : MOST_SAMPLES;
    uint64_t seed = 31;
    sampled s = {.name = name, .metric = metric, .points = points};
    s.rows = test_rows_make(points->dtype, count, points->cols, 0);
    s.ids = malloc((size_t)count * sizeof *s.ids);
    assert_non_null(s.ids);
    test_rows all = {.matrix = *points};
    all.map = (unsigned char *)(uintptr_t)points->data;
    for (int64_t i = 0; i < count; i++) {
        s.ids[i] = (uint32_t)kin_random_below(&seed, (uint64_t)points->rows);
        test_rows_copy(&s.rows, i, &all, s.ids[i]);
    }
    s.truth = test_truth_make(metric, &s.rows.matrix, points, REAL_K + 1);
    return s;
}

static void sampled_free(sampled *s)
{
    test_truth_free(&s->truth);
    test_rows_free(&s->rows);
    free(s->ids);
}

static void check_sampled(const sampled *s, const kith_neighbors *got, bool is_graph)
{
    for (int64_t i = 0; i < s->truth.rows; i++) {
        if (!test_row_is_true(got, is_graph ? s->ids[i] : i, &s->truth, i, s->ids[i])) {
            fail_msg("%s, %s, %s", s->name, kith_metric_name(s->metric),
                     is_graph ? "graph" : "search");
        }
    }
}

static void search_sampled(kith_ctx *ctx, const sampled *s)
{
    kith_search_params params = kith_search_params_default();
    params.metric = s->metric;
    params.k = REAL_K;
    params.exclude = s->ids;
    kith_neighbors got = test_answer_make(s->truth.rows, REAL_K);
    if (kith_search(ctx, s->points, &s->rows.matrix, &params, &got, NULL) != KITH_OK) {
        fail_msg("%s: %s", s->name, kith_ctx_detail(ctx));
    }
    check_sampled(s, &got, false);
    test_answer_free(&got);
}

static void one_metric(kith_ctx *ctx, const char *name, const kith_matrix *m, kith_metric metric)
{
    const bool graphs = (double)m->rows * (double)m->rows * (double)m->cols <= GRAPH_BUDGET;
    sampled s = sampled_make(name, metric, m);
    search_sampled(ctx, &s);
    if (graphs) {
        kith_neighbors got = graph(ctx, m, metric, REAL_K, 0);
        check_sampled(&s, &got, true);
        test_answer_free(&got);
    }
    printf("%s, %s: %lld sampled rows of %lld are the oracle's in a search%s\n", name,
           kith_metric_name(metric), (long long)s.truth.rows, (long long)m->rows,
           graphs ? " and in the graph" : "");
    (void)fflush(stdout);
    sampled_free(&s);
}

static void one_file(const char *path, const char *name, void *arg)
{
    kith_ctx *ctx = arg;
    kith_points *points = NULL;
    if (kith_points_open(ctx, path, NULL, &points) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
    const kith_matrix *m = kith_points_matrix(points);
    assert_true(m->rows > REAL_K);
    for (int i = 0; i < METRICS; i++) {
        one_metric(ctx, name, m, metrics[i]);
    }
    kith_points_free(points);
}

static void real_data(void **state)
{
    (void)state;
    test_need_corpora();
    kith_ctx *ctx = test_engine_best_ctx(kin_cpu_count());
    test_each_corpus(one_file, ctx);
    kith_ctx_free(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(made_up_data), cmocka_unit_test(again_and_again),
    cmocka_unit_test(modes_of_the_caller), cmocka_unit_test(real_data)};

const test_suite test_suite_same_bytes = {"same_bytes", tests, sizeof tests / sizeof *tests};
