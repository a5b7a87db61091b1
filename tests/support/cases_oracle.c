/* SPDX-License-Identifier: Apache-2.0
 * Exact engines against the oracle: ids, doubles and floats, byte for byte, for every metric, type,
 * shape of data and engine, with 1, 2 and 3 threads; engines take turns (test_engine_takes). Adding
 * a case is adding a row. */
#include "kith/kith_papers.h"
#include "metric/metric.h"
#include "support/cases.h"
#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    kith_dtype dtype;
    kith_dtype asked; /* dtype of the queries */
    test_shape shape;
    int64_t rows;
    int32_t cols;
    int64_t k; /* for a graph; 0: all there are */
} setting;

#define SAME(dtype) (dtype), (dtype)

static const setting small[] = {
    {SAME(KITH_F32), SHAPE_GAUSS, 2, 3, 1},      {SAME(KITH_U8), SHAPE_GAUSS, 2, 1, 1},
    {SAME(KITH_F32), SHAPE_GAUSS, 11, 7, 10},    {SAME(KITH_I8), SHAPE_GAUSS, 6, 2, 5},
    {SAME(KITH_F64), SHAPE_GAUSS, 97, 8, 0},     {SAME(KITH_U8), SHAPE_GRID, 101, 3, 0},
    {SAME(KITH_F32), SHAPE_SPARSE, 89, 15, 0},   {SAME(KITH_F16), SHAPE_GAUSS, 127, 16, 9},
    {SAME(KITH_BF16), SHAPE_GAUSS, 128, 17, 9},  {SAME(KITH_F32), SHAPE_EQUAL, 129, 63, 12},
    {SAME(KITH_F32), SHAPE_TINY, 193, 64, 5},    {SAME(KITH_F64), SHAPE_TINY, 95, 65, 3},
    {SAME(KITH_F64), SHAPE_OUTLIER, 96, 9, 4},   {SAME(KITH_F16), SHAPE_TINY, 97, 8, 20},
    {SAME(KITH_BF16), SHAPE_OUTLIER, 191, 3, 7}, {SAME(KITH_F16), SHAPE_GRID, 150, 2, 33},
    {SAME(KITH_F64), SHAPE_EQUAL, 50, 1, 0},     {SAME(KITH_F32), SHAPE_GAUSS, 131, 784, 3},
    {SAME(KITH_U8), SHAPE_GAUSS, 131, 960, 3},   {SAME(KITH_F32), SHAPE_CLUSTERS, 131, 4096, 4},
    {SAME(KITH_I8), SHAPE_GAUSS, 113, 4096, 4},  {SAME(KITH_F64), SHAPE_NORMS, 110, 960, 6},
};

static const setting middling[] = {
    {SAME(KITH_U8), SHAPE_GAUSS, 1499, 1, 14},     {SAME(KITH_F32), SHAPE_GAUSS, 1009, 2, 10},
    {SAME(KITH_F32), SHAPE_GRID, 997, 3, 25},      {SAME(KITH_U8), SHAPE_GRID, 1013, 7, 40},
    {SAME(KITH_I8), SHAPE_SPARSE, 1201, 16, 11},   {SAME(KITH_F32), SHAPE_CLUSTERS, 1103, 17, 15},
    {SAME(KITH_F32), SHAPE_OFFSET, 701, 16, 10},   {SAME(KITH_F64), SHAPE_OFFSET, 601, 63, 10},
    {SAME(KITH_F32), SHAPE_HEAVY, 809, 64, 12},    {SAME(KITH_F64), SHAPE_HEAVY, 503, 15, 8},
    {SAME(KITH_F32), SHAPE_OUTLIER, 607, 65, 5},   {SAME(KITH_F32), SHAPE_NORMS, 907, 8, 16},
    {SAME(KITH_BF16), SHAPE_NORMS, 487, 100, 8},   {SAME(KITH_F32), SHAPE_TIGHT, 1109, 7, 20},
    {SAME(KITH_F64), SHAPE_TIGHT, 811, 128, 9},    {SAME(KITH_F32), SHAPE_SPARSE, 1301, 128, 6},
    {SAME(KITH_F16), SHAPE_CLUSTERS, 499, 64, 10}, {SAME(KITH_BF16), SHAPE_COPIES, 800, 16, 10},
    {SAME(KITH_F32), SHAPE_COPIES, 1601, 100, 7},  {SAME(KITH_U8), SHAPE_COPIES, 2003, 17, 31},
    {SAME(KITH_F32), SHAPE_LINE, 1500, 3, 12},     {SAME(KITH_F64), SHAPE_LINE, 700, 33, 200},
    {SAME(KITH_I8), SHAPE_EQUAL, 1000, 5, 10},     {SAME(KITH_U8), SHAPE_HEAVY, 900, 128, 10},
    {SAME(KITH_F32), SHAPE_GAUSS, 300, 12, 0},     {SAME(KITH_F64), SHAPE_BALL, 1300, 9, 11},
    {SAME(KITH_F32), SHAPE_BALL, 1100, 20, 6},
};

static const setting mixed[] = {
    {KITH_U8, KITH_F32, SHAPE_GAUSS, 400, 16, 5},  {KITH_U8, KITH_I8, SHAPE_GRID, 300, 8, 12},
    {KITH_I8, KITH_F64, SHAPE_SPARSE, 301, 7, 5},  {KITH_F32, KITH_U8, SHAPE_GAUSS, 350, 33, 6},
    {KITH_F32, KITH_F64, SHAPE_TIGHT, 333, 15, 9}, {KITH_F16, KITH_BF16, SHAPE_GAUSS, 257, 64, 4},
    {KITH_BF16, KITH_I8, SHAPE_COPIES, 290, 3, 8}, {KITH_F64, KITH_F16, SHAPE_NORMS, 260, 65, 7},
};

/* Many blocks, several strips, a choice of types by pilot (from 8192 different rows on), tiles that
 * are skipped. On the line all are near ties under correlation: its time grows with rows squared.
 */
static const setting large[] = {
    {SAME(KITH_F32), SHAPE_CLUSTERS, 8209, 3, 10}, {SAME(KITH_F32), SHAPE_GAUSS, 8700, 7, 15},
    {SAME(KITH_U8), SHAPE_GAUSS, 9500, 3, 12},     {SAME(KITH_F64), SHAPE_TIGHT, 8231, 4, 6},
    {SAME(KITH_F32), SHAPE_COPIES, 17001, 2, 8},   {SAME(KITH_F32), SHAPE_GAUSS, 1709, 784, 10},
    {SAME(KITH_F32), SHAPE_LINE, 8219, 8, 10},
};

enum { MOST_ASKED = 40 };

typedef struct trial {
    const setting *set;
    kith_metric metric;
    test_rows points;
    test_rows sample; /* of the points, as the truth of a graph is computed for them alone */
    test_rows queries;
    uint32_t *sample_ids;
    uint32_t *exclude;
    test_truth of_graph;
    test_truth of_search;
    test_truth of_points;
    int turn;
    int place; /* which engines take it */
} trial;

static int64_t graph_k(const setting *s)
{
    return s->k != 0 ? s->k : s->rows - 1;
}

/* Rows that the metric takes. */
static test_rows rows_for(kith_metric metric, const setting *s, kith_dtype dtype, int64_t rows,
                          int64_t gap)
{
    const kin_metric_traits *traits = kin_metric_get_traits(metric);
    return test_rows_make(traits->dtype != KITH_DTYPE_NONE ? traits->dtype : dtype, rows,
                          traits->cols != 0 ? traits->cols : s->cols, gap);
}

static trial trial_make(const setting *s, kith_metric metric, int turn, int place)
{
    uint64_t seed = (uint64_t)turn;
    const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL;
    const int64_t asked = s->rows < MOST_ASKED ? s->rows : MOST_ASKED;
    trial t = {.set = s, .metric = metric, .turn = turn, .place = place};
    t.points = rows_for(metric, s, s->dtype, s->rows, turn % 3 == 0 ? 24 : 0);
    t.sample = rows_for(metric, s, s->dtype, asked, 0);
    t.queries = rows_for(metric, s, s->asked, asked, turn % 2 == 0 ? 16 : 0);
    t.sample_ids = malloc((size_t)asked * sizeof *t.sample_ids);
    t.exclude = malloc((size_t)asked * sizeof *t.exclude);
    assert_true(t.sample_ids != NULL && t.exclude != NULL);
    const bool far = s->shape == SHAPE_OUTLIER || s->shape == SHAPE_NORMS ||
                     s->shape == SHAPE_HEAVY || s->shape == SHAPE_BALL;
    const test_shape shape = metric == KITH_HAVERSINE && far ? SHAPE_GRID : s->shape;
    test_shape_fill(&t.points, shape, nonnegative, &seed);
    test_shape_fill(&t.queries, shape, nonnegative, &seed);
    for (int64_t i = 0; i < asked; i++) {
        const int64_t id = asked == 1 ? 0 : i * (s->rows - 1) / (asked - 1);
        t.sample_ids[i] = (uint32_t)id;
        test_rows_copy(&t.sample, i, &t.points, id);
        if (t.queries.matrix.dtype == t.points.matrix.dtype && i % 2 == 0) {
            test_rows_copy(&t.queries, i, &t.points, id);
        }
    }
    const int64_t wide = graph_k(s) + 1;
    const int64_t small_wide = wide < asked ? wide : asked;
    t.of_graph = test_truth_make(metric, &t.sample.matrix, &t.points.matrix, wide);
    t.of_search = test_truth_make(metric, &t.queries.matrix, &t.points.matrix, wide);
    t.of_points = test_truth_make(metric, &t.points.matrix, &t.queries.matrix, small_wide);
    for (int64_t i = 0; i < asked; i++) { /* the nearest, one in the middle, or nobody */
        const uint32_t *ids = t.of_search.ids + i * wide;
        t.exclude[i] = i % 3 == 0 ? ids[0] : i % 3 == 1 ? ids[wide / 2] : KITH_ID_NONE;
    }
    return t;
}

static void trial_free(trial *t)
{
    test_truth_free(&t->of_graph);
    test_truth_free(&t->of_search);
    test_truth_free(&t->of_points);
    test_rows_free(&t->points);
    test_rows_free(&t->sample);
    test_rows_free(&t->queries);
    free(t->sample_ids);
    free(t->exclude);
}

static void blame(const trial *t, kith_ctx *ctx, const char *call, uint32_t flags)
{
    const setting *s = t->set;
    fail_msg("%s: %s, %s asked with %s, %s, %lld x %d, k %lld, flags %u, %s, %d threads; %s", call,
             kith_metric_name(t->metric), kith_dtype_name(s->dtype), kith_dtype_name(s->asked),
             test_shape_name(s->shape), (long long)s->rows, (int)s->cols, (long long)s->k,
             (unsigned)flags, test_engine_name(ctx), (int)kith_ctx_get_params(ctx)->threads,
             kith_ctx_detail(ctx));
}

static void graph(const trial *t, kith_ctx *ctx, uint32_t flags)
{
    kith_search_params params = kith_search_params_default();
    params.metric = t->metric;
    params.flags = flags;
    params.k = graph_k(t->set);
    kith_neighbors got = test_answer_make(t->set->rows, params.k);
    if (kith_graph(ctx, &t->points.matrix, &params, &got, NULL) != KITH_OK) {
        blame(t, ctx, "graph", flags);
    }
    for (int64_t i = 0; i < t->sample.matrix.rows; i++) {
        const uint32_t self = t->sample_ids[i];
        const uint32_t left_out = (flags & KITH_INCLUDE_SELF) != 0 ? KITH_ID_NONE : self;
        if (!test_row_is_true(&got, self, &t->of_graph, i, left_out)) {
            blame(t, ctx, "graph", flags);
        }
    }
    test_answer_free(&got);
}

static void search_by(const trial *t, kith_ctx *ctx, const uint32_t *exclude, kith_method method)
{
    kith_search_params params = kith_search_params_default();
    params.metric = t->metric;
    params.exclude = exclude;
    params.method = method;
    params.k = graph_k(t->set) + (exclude == NULL);
    kith_neighbors got = test_answer_make(t->queries.matrix.rows, params.k);
    if (kith_search(ctx, &t->points.matrix, &t->queries.matrix, &params, &got, NULL) != KITH_OK) {
        blame(t, ctx, "search", exclude != NULL);
    }
    for (int64_t i = 0; i < got.rows; i++) {
        const uint32_t left_out = exclude == NULL ? KITH_ID_NONE : exclude[i];
        if (!test_row_is_true(&got, i, &t->of_search, i, left_out)) {
            blame(t, ctx, "search", exclude != NULL);
        }
    }
    test_answer_free(&got);
}

/* As kith_search chooses; so few queries that it compares all pairs go through the screen, too. */
static void search(const trial *t, kith_ctx *ctx, const uint32_t *exclude)
{
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    params.metric = t->metric;
    params.exclude = exclude;
    params.k = graph_k(t->set) + (exclude == NULL);
    search_by(t, ctx, exclude, KITH_METHOD_AUTO);
    assert_int_equal(kith_plan_search(ctx, &t->points.matrix, &t->queries.matrix, &params, &plan),
                     KITH_OK);
    if (strcmp(plan.method, "direct") == 0) {
        search_by(t, ctx, exclude, KITH_METHOD_EXACT);
    }
}

static void both(const trial *t, kith_ctx *ctx)
{
    kith_search_params params = kith_search_params_default();
    params.metric = t->metric;
    params.k = t->of_points.wide;
    kith_neighbors ab = test_answer_make(t->points.matrix.rows, params.k);
    kith_neighbors ba = test_answer_make(t->queries.matrix.rows, params.k);
    if (kith_knn_both(ctx, &t->points.matrix, &t->queries.matrix, &params, &ab, &ba) != KITH_OK) {
        blame(t, ctx, "both", 0);
    }
    for (int64_t i = 0; i < ab.rows; i++) {
        if (!test_row_is_true(&ab, i, &t->of_points, i, KITH_ID_NONE)) {
            blame(t, ctx, "both, forth", 0);
        }
    }
    for (int64_t i = 0; i < ba.rows; i++) {
        if (!test_row_is_true(&ba, i, &t->of_search, i, KITH_ID_NONE)) {
            blame(t, ctx, "both, back", 0);
        }
    }
    test_answer_free(&ab);
    test_answer_free(&ba);
}

static void run_trial(const trial *t)
{
    static const uint32_t flags[] = {KITH_INCLUDE_SELF, KITH_NO_SYMMETRY, KITH_NO_SKIP,
                                     KITH_INCLUDE_SELF | KITH_NO_SYMMETRY};
    for (int engine = 0; engine < test_engine_count(); engine++) {
        const bool takes = test_is_slow_build() ? test_engine_has_turn(engine, t->place, 4)
                                                : test_engine_takes(engine, t->place);
        kith_ctx *ctx = takes ? test_engine_ctx(engine, 1 + (t->turn + engine) % 3) : NULL;
        if (ctx == NULL) {
            continue;
        }
        graph(t, ctx, 0);
        graph(t, ctx, flags[(t->turn + engine) % 4]);
        search(t, ctx, NULL);
        search(t, ctx, t->exclude);
        both(t, ctx);
        kith_ctx_free(ctx);
    }
}

/* Metrics in turn: the two Euclidean and the two normalised ones differ little in an engine. A
 * setting that comes to the fourth row again has another one of it. */
static kith_metric metric_of(int turn, int number)
{
    static const kith_metric turns[4][11] = {
        {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN},
        {KITH_COSINE, KITH_CORRELATION},
        {KITH_INNER_PRODUCT, KITH_INNER_PRODUCT},
        {KITH_MANHATTAN, KITH_CHEBYSHEV, KITH_CHI2, KITH_HAMMING, KITH_JACCARD, KITH_KL,
         TEST_MINKOWSKI_3, TEST_MINKOWSKI_2_5, KITH_BIT_HAMMING, KITH_BIT_JACCARD, KITH_HAVERSINE},
    };
    return turns[number % 4]
                [number % 4 == 3 ? (turn + number / 4 * 5) % 11 : (turn + number / 4) % 2];
}

/* `metrics` of them for each setting, `first` being the first that metric_of counts. With the
 * address sanitizer and KITH_CASES=all every engine meets every setting with a fourth of them,
 * other ones from setting to setting; in a slow build every third setting, a fourth of the engines
 * each metric. */
static void run_settings(const setting *settings, size_t count, int first, int metrics,
                         const char *what)
{
    const int64_t most_direct = 20 * 1000 * 1000;
    int cases = 0;
    if (test_is_sanitized_build() && !test_is_slow_build()) {
        metrics = metrics > 4 ? metrics / 4 : 1;
    }
    for (size_t i = 0; i < count; i += test_is_slow_build() ? 3 : 1) {
        const setting *s = &settings[i];
        for (int m = first; m < first + metrics; m++) {
            const bool dear = m % 4 == 3 && s->rows * s->rows * s->cols > most_direct;
            if (dear && metrics > 1) {
                continue;
            }
            const int number = dear ? m + 1 : m; /* no setting goes without */
            trial t =
                trial_make(s, metric_of((int)i, number), (int)i * 8 + m + 1, (int)(i + i / 4) + m);
            run_trial(&t);
            trial_free(&t);
            cases += 1;
        }
        first += metrics < 4 ? metrics : 0;
    }
    printf("%s: %d cases are the oracle's bytes on the engines here, which take turns\n", what,
           cases);
}

#define SETTINGS(table, metrics, what) \
    run_settings(table, sizeof(table) / sizeof *(table), 0, metrics, what)

static void small_sets(void **state)
{
    (void)state;
    SETTINGS(small, 8, "small sets");
}

static void middling_sets(void **state)
{
    (void)state;
    SETTINGS(middling, 4, "sets of some blocks");
}

static void mixed_types(void **state)
{
    (void)state;
    SETTINGS(mixed, 4, "queries of another type");
}

static void large_sets(void **state)
{
    (void)state;
    SETTINGS(large, test_is_slow_build() ? 1 : 2, "sets of many blocks");
}

static void one_point(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    test_rows one = test_rows_make(KITH_F32, 1, 3, 0);
    kith_search_params params = kith_search_params_default();
    params.k = 1;
    kith_neighbors got = test_answer_make(1, 1);
    assert_int_equal(kith_graph(ctx, &one.matrix, &params, &got, NULL), KITH_E_ARGUMENT);
    params.flags = KITH_INCLUDE_SELF;
    assert_int_equal(kith_graph(ctx, &one.matrix, &params, &got, NULL), KITH_OK);
    assert_int_equal(got.ids[0], 0);
    assert_true(got.distances64[0] == 0.0);
    params.metric = KITH_COSINE; /* a row of zeros is at 1 from itself, too */
    assert_int_equal(kith_graph(ctx, &one.matrix, &params, &got, NULL), KITH_OK);
    assert_true(got.ids[0] == 0 && got.distances64[0] == 1.0);
    printf("one point: no neighbour but itself\n");
    test_answer_free(&got);
    test_rows_free(&one);
    kith_ctx_free(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_point),   cmocka_unit_test(small_sets), cmocka_unit_test(middling_sets),
    cmocka_unit_test(mixed_types), cmocka_unit_test(large_sets),
};

const test_suite test_suite_oracle = {"oracle", tests, sizeof tests / sizeof *tests};
