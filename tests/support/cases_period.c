/* SPDX-License-Identifier: Apache-2.0
 * Periodic boxes: graphs, searches, radii, limits, pairs and kept indexes of points on circles,
 * directly and by the tree, against a loop in double; points at the box's border, equal points,
 * ties at half a period; files; and what is refused. */
#include "support/cases.h"

#include "base/base_ctx.h"
#include "kith/kith_papers.h"
#include "metric/metric_functions.h"
#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_files.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_COLS = 19, ROWS = 700, QUERIES = 90, K = 7 };

/* ---- The truth ------------------------------------------------------------------------------- */

static double value_of(const kith_matrix *m, int64_t row, int32_t col)
{
    const char *at = (const char *)m->data + row * m->stride_bytes;
    if (m->dtype == KITH_F64) {
        double x;
        memcpy(&x, at + col * (int64_t)sizeof x, sizeof x);
        return x;
    }
    if (m->dtype == KITH_U8) {
        return ((const unsigned char *)at)[col];
    }
    float x;
    assert_int_equal(m->dtype, KITH_F32);
    memcpy(&x, at + col * (int64_t)sizeof x, sizeof x);
    return x;
}

static double key_of(kith_metric metric, const kith_matrix *q, int64_t i, const kith_matrix *c,
                     int64_t j, const double *period)
{
    double s[8] = {0};
    double most = 0.0;
    const kin_power power = {.p = metric == TEST_MINKOWSKI_3 ? 3.0 : 2.5,
                             .times = metric == TEST_MINKOWSKI_3 ? 3 : 0};
    for (int32_t col = 0; col < q->cols; col++) {
        double d = fabs(value_of(q, i, col) - value_of(c, j, col));
        if (period[col] > 0.0) {
            d = fmin(d, period[col] - d);
        }
        most = fmax(most, d);
        double *lane = &s[col % 8];
        *lane = metric == KITH_MANHATTAN     ? *lane + d
                : metric <= KITH_SQEUCLIDEAN ? fma(d, d, *lane)
                                             : *lane + kin_raise(d, power);
    }
    const double sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    return metric == KITH_CHEBYSHEV                                 ? most
           : metric <= KITH_SQEUCLIDEAN || metric == KITH_MANHATTAN ? sum
                                                                    : kin_root(sum, power);
}

static double distance_of(kith_metric metric, double key)
{
    return metric == KITH_EUCLIDEAN ? sqrt(key) : key;
}

typedef struct near {
    double key;
    uint32_t id;
} near;

static int compare(const void *a, const void *b)
{
    const near *x = a;
    const near *y = b;
    return x->key < y->key ? -1 : x->key > y->key ? 1 : x->id < y->id ? -1 : x->id > y->id;
}

typedef struct box {
    kith_metric metric;
    double period[MOST_COLS];
    test_rows points;
    test_rows queries;
    near *ranks;      /* what was asked for: lists of the queries, then of the points, ROWS each */
    const near *rank; /* the list that was asked for last */
    bool ranked[QUERIES + ROWS];
    uint64_t seed; /* of radii */
    int number;
} box;

/* All points, the nearest first, of row i of the queries, or of the points. */
static void rank_row(box *b, const kith_matrix *asked, int64_t i)
{
    const int64_t place = asked == &b->queries.matrix ? i : QUERIES + i;
    near *rank = b->ranks + place * ROWS;
    b->rank = rank;
    if (!b->ranked[place]) {
        for (uint32_t j = 0; j < ROWS; j++) {
            rank[j] = (near){key_of(b->metric, asked, i, &b->points.matrix, j, b->period), j};
        }
        qsort(rank, ROWS, sizeof *rank, compare);
        b->ranked[place] = true;
    }
}

/* ---- Points ---------------------------------------------------------------------------------- */

typedef enum shape { UNIFORM = 0, BORDER, GRID, CLUSTER, SHAPES } shape;

static double below(kith_dtype dtype, double period)
{
    return dtype == KITH_F64   ? nextafter(period, 0.0)
           : dtype == KITH_F32 ? (double)nextafterf((float)period, 0.0F)
                               : floor(period) - 1.0;
}

static double draw(const box *b, int32_t col, shape how, uint64_t *seed)
{
    const kith_dtype dtype = b->points.matrix.dtype;
    const double period = b->period[col] > 0.0 ? b->period[col] : 3.0;
    const double u = test_uniform(seed);
    double x = u * period;
    if (how == BORDER) { /* at both ends, and on them */
        const double e = u * u * u * u * period;
        x = test_uniform(seed) < 0.5 ? e : period - e;
        x = test_uniform(seed) < 0.1 ? 0.0 : test_uniform(seed) < 0.1 ? below(dtype, period) : x;
    } else if (how == GRID) { /* ties, also at half of the period; equal points */
        x = floor(u * 4.0) * period / 4.0;
    } else if (how == CLUSTER) {
        x = fmod(period * (1.0 - 1e-3) + u * 2e-3 * period, period);
    }
    x = dtype == KITH_U8 ? floor(x) : x;
    const double most = below(dtype, period);
    return x < 0.0 ? 0.0 : x > most ? most : x;
}

static void fill(const box *b, const test_rows *rows, shape how, uint64_t *seed)
{
    for (int64_t row = 0; row < rows->matrix.rows; row++) {
        for (int32_t col = 0; col < rows->matrix.cols; col++) {
            const double x = draw(b, col, how, seed);
            test_rows_set(rows, row, col, b->period[col] > 0.0 ? x : x - 1.0);
        }
    }
}

/* Periods of every column, of some, of very different lengths. */
static void box_make(box *b, kith_metric metric, kith_dtype dtype, int32_t cols, shape how,
                     uint64_t *seed)
{
    static const double periods[] = {1.0, 0.7, 100.3, 1e-3, 360.0, 6.283185307179586};
    *b = (box){.metric = metric};
    const bool some = test_uniform(seed) < 0.4;
    const bool same = test_uniform(seed) < 0.5;
    for (int32_t col = 0; col < cols; col++) {
        b->period[col] =
            dtype == KITH_U8 ? 200.5 : periods[same ? 1 : (int)(6.0 * test_uniform(seed))];
        if (some && col % 2 == 1 && dtype != KITH_U8) {
            b->period[col] = 0.0;
        }
    }
    b->points = test_rows_make(dtype, ROWS, cols, 8);
    b->queries = test_rows_make(dtype, QUERIES, cols, 0);
    fill(b, &b->points, how, seed);
    fill(b, &b->queries, how, seed);
    for (int64_t i = 0; i < ROWS / 10; i++) {
        test_rows_copy(&b->points, 10 * i + 3, &b->points, 7 * i);
    }
    test_rows_copy(&b->queries, 0, &b->points, 3);
    b->ranks = malloc(sizeof b->ranked / sizeof *b->ranked * ROWS * sizeof *b->ranks);
    assert_non_null(b->ranks);
}

static void box_free(box *b)
{
    free(b->ranks);
    test_rows_free(&b->queries);
    test_rows_free(&b->points);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void succeed(kith_ctx *ctx, kith_status status)
{
    if (status != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(ctx));
    }
}

static void check_row(const box *b, const kith_neighbors *out, int64_t row, uint32_t left_out,
                      double radius)
{
    int64_t at = 0;
    for (int64_t j = 0; at < out->k && j < ROWS; j++) {
        const double distance = distance_of(b->metric, b->rank[j].key);
        if (b->rank[j].id == left_out || distance > radius) {
            continue;
        }
        const int64_t slot = row * out->k + at++;
        if (out->ids[slot] != b->rank[j].id || out->distances64[slot] != distance) {
            fail_msg("%s, %d columns, row %lld, slot %lld: %u at %.17g, must be %u at %.17g",
                     kith_metric_name(b->metric), (int)b->points.matrix.cols, (long long)row,
                     (long long)(slot - row * out->k), out->ids[slot], out->distances64[slot],
                     b->rank[j].id, distance);
        }
    }
    for (; at < out->k; at++) {
        assert_int_equal(out->ids[row * out->k + at], KITH_ID_NONE);
    }
}

static kith_search_params params_of(const box *b, kith_method method, double radius)
{
    kith_search_params params = kith_search_params_default();
    params.metric = b->metric;
    params.k = K;
    params.method = method;
    params.period = b->period;
    if (radius < INFINITY) {
        params.flags = KITH_WITHIN_RADIUS;
        params.radius = radius;
    }
    return params;
}

static void check_graph(kith_ctx *ctx, box *b, kith_method method, double radius)
{
    const kith_search_params params = params_of(b, method, radius);
    kith_neighbors out = test_answer_make(ROWS, K);
    succeed(ctx, kith_graph(ctx, &b->points.matrix, &params, &out, NULL));
    for (int64_t i = 0; i < ROWS; i += 3) {
        rank_row(b, &b->points.matrix, i);
        check_row(b, &out, i, (uint32_t)i, radius);
    }
    test_answer_free(&out);
}

static void check_search(kith_ctx *ctx, box *b, kith_method method, double radius)
{
    const kith_search_params params = params_of(b, method, radius);
    kith_neighbors out = test_answer_make(QUERIES, K);
    succeed(ctx, kith_search(ctx, &b->points.matrix, &b->queries.matrix, &params, &out, NULL));
    for (int64_t i = 0; i < QUERIES; i++) {
        rank_row(b, &b->queries.matrix, i);
        check_row(b, &out, i, KITH_ID_NONE, radius);
    }
    test_answer_free(&out);
}

static void check_ranges(box *b, const kith_ranges *ranges, double radius)
{
    const kith_lists *lists = kith_ranges_lists(ranges);
    for (int64_t i = 0; i < QUERIES; i++) {
        int64_t at = lists->offsets[i];
        rank_row(b, &b->queries.matrix, i);
        for (int64_t j = 0; j < ROWS && distance_of(b->metric, b->rank[j].key) <= radius; j++) {
            assert_true(at < lists->offsets[i + 1]);
            assert_int_equal(lists->ids[at], b->rank[j].id);
            assert_true(lists->distances64[at] == distance_of(b->metric, b->rank[j].key));
            at += 1;
        }
        assert_int_equal(at, lists->offsets[i + 1]);
    }
}

static void check_radius(kith_ctx *ctx, box *b, kith_method method, double radius)
{
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    kith_ranges *counted = NULL;
    params.metric = b->metric;
    params.method = method;
    params.radius = radius;
    params.period = b->period;
    succeed(ctx, kith_radius(ctx, &b->points.matrix, &b->queries.matrix, &params, &ranges));
    check_ranges(b, ranges, radius);
    params.count_only = 1;
    succeed(ctx, kith_radius(ctx, &b->points.matrix, &b->queries.matrix, &params, &counted));
    assert_memory_equal(kith_ranges_lists(ranges)->offsets, kith_ranges_lists(counted)->offsets,
                        (QUERIES + 1) * sizeof(int64_t));
    kith_ranges_free(counted);
    kith_ranges_free(ranges);
}

/* Of the points themselves: as many as pairs of rows are within the radius. */
static void check_pairs(kith_ctx *ctx, box *b, kith_method method, double radius)
{
    kith_pairs_params params = kith_pairs_params_default();
    kith_pairs_report report = {.struct_size = sizeof report};
    int64_t count = 0;
    params.metric = b->metric;
    params.method = method;
    params.radius = radius;
    params.period = b->period;
    succeed(ctx, kith_pairs_find(ctx, &b->points.matrix, NULL, &params, &report));
    for (int64_t i = 0; i < ROWS; i++) {
        rank_row(b, &b->points.matrix, i);
        for (int64_t j = 0; j < ROWS && distance_of(b->metric, b->rank[j].key) <= radius; j++) {
            count += b->rank[j].id > i;
        }
    }
    assert_int_equal(report.count, count);
}

/* Neighbours of each set in the other. */
static void check_both(kith_ctx *ctx, box *b)
{
    const kith_search_params params = params_of(b, KITH_METHOD_AUTO, INFINITY);
    kith_neighbors there = test_answer_make(QUERIES, K);
    kith_neighbors back = test_answer_make(ROWS, K);
    succeed(ctx, kith_knn_both(ctx, &b->queries.matrix, &b->points.matrix, &params, &there, &back));
    for (int64_t i = 0; i < QUERIES; i++) {
        rank_row(b, &b->queries.matrix, i);
        check_row(b, &there, i, KITH_ID_NONE, INFINITY);
    }
    test_answer_free(&back);
    test_answer_free(&there);
}

/* A radius that occurs: the distance of some pair, the k-th or a far one, beyond half a period. */
static double radius_of(box *b, uint64_t *seed)
{
    rank_row(b, &b->queries.matrix, (int64_t)(QUERIES * test_uniform(seed)));
    const int64_t at = test_uniform(seed) < 0.7 ? K / 2 : (int64_t)(ROWS * test_uniform(seed));
    return distance_of(b->metric, b->rank[at].key);
}

static const kith_metric all_metrics[] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_MANHATTAN,
                                          KITH_CHEBYSHEV, TEST_MINKOWSKI_3, TEST_MINKOWSKI_2_5};
static const kith_dtype all_dtypes[] = {KITH_F64, KITH_F32, KITH_U8};
static const int32_t all_cols[] = {3, 1, 2, 3, 4, 8, 11, MOST_COLS};

static bool has_tree(kith_metric metric)
{
    return metric <= KITH_SQEUCLIDEAN || metric == KITH_MANHATTAN || metric == KITH_CHEBYSHEV;
}

static void trial(kith_ctx *ctx, void *arg)
{
    box *b = arg;
    uint64_t seed = b->seed; /* the same radii on each engine */
    if (!test_engine_takes((int)ctx->isa, b->number)) {
        return;
    }
    for (int by = 0; by < 1 + has_tree(b->metric); by++) {
        const kith_method method = by == 0 ? KITH_METHOD_EXACT : KITH_METHOD_TREE;
        check_graph(ctx, b, method, INFINITY);
        check_search(ctx, b, method, INFINITY);
        check_search(ctx, b, method, radius_of(b, &seed));
        check_graph(ctx, b, method, radius_of(b, &seed));
        check_radius(ctx, b, method, radius_of(b, &seed));
        check_pairs(ctx, b, method, radius_of(b, &seed));
    }
    check_both(ctx, b);
}

static void test_trials(void **state)
{
    (void)state;
    const int step = test_is_slow_build() ? 7 : 1; /* other metrics, types and columns each time */
    int count = 0;
    for (int number = 0; number < 24; number += step) {
        uint64_t seed = 1000 + (uint64_t)number;
        box b;
        box_make(&b, all_metrics[number % 6], all_dtypes[number / 6 % 3], all_cols[number % 8],
                 (shape)(number / 3 % SHAPES), &seed);
        b.seed = seed;
        b.number = count + count / 6; /* each engine has all metrics */
        test_on_each_engine(trial, &b);
        box_free(&b);
        count += 1;
    }
    printf(
        "period: %d random boxes, directly and by the tree, as the loop says on engines in turns\n",
        count);
}

/* Many points: the tree has height; the processor's auto takes it; bytes of all pairs, threads 1
 * and 3. */
static void test_tree_of_many(void **state)
{
    (void)state;
    const int64_t many = 30000; /* fewer would not go by the tree */
    const double period[3] = {1.0, 0.3, 2.0};
    uint64_t seed = 5;
    kith_ctx *one = test_engine_best_ctx(1);
    kith_ctx *three = test_engine_best_ctx(3);
    for (int dtype = 0; dtype < 2; dtype++) {
        test_rows points = test_rows_make(dtype == 0 ? KITH_F32 : KITH_F64, many, 3, 0);
        for (int64_t row = 0; row < many; row++) {
            for (int32_t col = 0; col < 3; col++) {
                test_rows_set(&points, row, col, 0.999 * period[col] * test_uniform(&seed));
            }
        }
        kith_search_params params = kith_search_params_default();
        kith_report report = {.struct_size = sizeof report};
        kith_neighbors tree = test_answer_make(many, 60);
        kith_neighbors other = test_answer_make(many, 60);
        params.k = 60;
        params.method = test_engines_are_gpu() ? KITH_METHOD_TREE : KITH_METHOD_AUTO;
        params.period = period;
        succeed(one, kith_graph(one, &points.matrix, &params, &tree, &report));
        assert_string_equal(report.screen, "tree");
        succeed(three, kith_graph(three, &points.matrix, &params, &other, NULL));
        assert_true(test_answers_equal(&tree, &other));
        kith_matrix some = points.matrix;
        some.rows = 500;
        kith_neighbors few = test_answer_make(500, 60);
        params.flags = KITH_INCLUDE_SELF;
        params.method = KITH_METHOD_EXACT;
        succeed(three, kith_search(three, &points.matrix, &some, &params, &few, NULL));
        for (int64_t i = 0; i < 500; i++) { /* itself first, as no two are equal */
            assert_memory_equal(few.ids + i * 60 + 1, tree.ids + i * 60, 59 * sizeof *few.ids);
        }
        test_answer_free(&few);
        test_answer_free(&other);
        test_answer_free(&tree);
        test_rows_free(&points);
    }
    kith_ctx_free(three);
    kith_ctx_free(one);
    printf("period: a graph of %d points by the tree, as all pairs have it\n", (int)many);
}

/* ---- Indexes --------------------------------------------------------------------------------- */

static kith_index *index_of(kith_ctx *ctx, const box *b, kith_method method)
{
    kith_index *index = NULL;
    kith_index_params how = kith_index_params_default();
    double copied[MOST_COLS];
    memcpy(copied, b->period, sizeof copied);
    how.metric = b->metric;
    how.method = method;
    how.period = copied;
    succeed(ctx, kith_index_create(ctx, &b->points.matrix, &how, &index));
    memset(copied, 0xff, sizeof copied);
    return index;
}

static void check_index(kith_ctx *ctx, box *b, const kith_index *index, double radius)
{
    kith_search_params params = params_of(b, KITH_METHOD_AUTO, INFINITY);
    kith_radius_params within = kith_radius_params_default();
    kith_index_info info = {.struct_size = sizeof info};
    kith_neighbors out = test_answer_make(QUERIES, K);
    kith_ranges *ranges = NULL;
    params.period = NULL;
    within.radius = radius;
    succeed(ctx, kith_index_search(ctx, index, &b->queries.matrix, &params, &out, NULL));
    for (int64_t i = 0; i < QUERIES; i++) {
        rank_row(b, &b->queries.matrix, i);
        check_row(b, &out, i, KITH_ID_NONE, INFINITY);
    }
    succeed(ctx, kith_index_radius(ctx, index, &b->queries.matrix, &within, &ranges));
    check_ranges(b, ranges, radius);
    kith_ranges_free(ranges);
    assert_int_equal(kith_index_inspect(index, &info), KITH_OK);
    assert_memory_equal(info.period, b->period,
                        (size_t)b->points.matrix.cols * sizeof *info.period);
    params.period = b->period;
    assert_int_equal(kith_index_search(ctx, index, &b->queries.matrix, &params, &out, NULL),
                     KITH_E_UNSUPPORTED);
    test_answer_free(&out);
}

/* Made; written and read; grown row by row from a part; after rows have gone. */
static void check_kept(kith_ctx *ctx, box *b, kith_method method, const char *path, uint64_t *seed)
{
    const double radius = radius_of(b, seed);
    kith_index *index = index_of(ctx, b, method);
    kith_index *opened = NULL;
    check_index(ctx, b, index, radius);
    succeed(ctx, kith_index_save(ctx, index, path));
    succeed(ctx, kith_index_open(ctx, path, &opened));
    check_index(ctx, b, opened, radius);
    const uint32_t gone[] = {ROWS, ROWS + 1};
    kith_matrix more = b->points.matrix;
    more.rows = 2;
    for (int i = 0; i < 2; i++) { /* its own, and one that lies in the file */
        kith_index *changed = i == 0 ? index : opened;
        succeed(ctx, kith_index_add(ctx, changed, &more));
        succeed(ctx, kith_index_remove(ctx, changed, gone, 2));
        check_index(ctx, b, changed, radius);
    }
    if (b->period[0] > 0.0) {
        test_rows outside = test_rows_make(b->points.matrix.dtype, 1, b->points.matrix.cols, 0);
        test_rows_set(&outside, 0, 0, 2.0 * b->period[0]);
        assert_int_equal(kith_index_add(ctx, index, &outside.matrix), KITH_E_DATA);
        assert_non_null(strstr(kith_ctx_detail(ctx), "points[0, 0]"));
        test_rows_free(&outside);
    }
    kith_index_free(opened);
    kith_index_free(index);
}

static void test_indexes(void **state)
{
    const char *path = test_path(*state, "index.kith");
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 77;
    for (int number = 0; number < 24; number += test_is_slow_build() ? 5 : 1) {
        box b;
        box_make(&b, all_metrics[number % 4], number % 3 == 0 ? KITH_F64 : KITH_F32,
                 all_cols[number % 8], (shape)(number % SHAPES), &seed);
        check_kept(ctx, &b, KITH_METHOD_EXACT, path, &seed);
        check_kept(ctx, &b, KITH_METHOD_TREE, path, &seed);
        box_free(&b);
    }
    kith_ctx_free(ctx);
    printf("period: kept indexes, in memory, in files, and changed, answer as new ones\n");
}

/* ---- A filter -------------------------------------------------------------------------------- */

static void test_filter(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 3;
    uint8_t allow[ROWS / 8 + 1] = {0};
    box b;
    box_make(&b, KITH_EUCLIDEAN, KITH_F32, 3, BORDER, &seed);
    for (int i = 0; i < ROWS; i++) {
        allow[i / 8] |= (uint8_t)((i % 3 != 0) << i % 8);
    }
    kith_filter filter = kith_filter_default();
    kith_search_params params = params_of(&b, KITH_METHOD_AUTO, INFINITY);
    kith_neighbors out = test_answer_make(QUERIES, K);
    filter.allow = allow;
    params.filter = &filter;
    succeed(ctx, kith_search(ctx, &b.points.matrix, &b.queries.matrix, &params, &out, NULL));
    for (int64_t i = 0; i < QUERIES; i++) {
        int64_t at = 0;
        rank_row(&b, &b.queries.matrix, i);
        for (int64_t j = 0; at < K; j++) {
            if (b.rank[j].id % 3 != 0) {
                assert_int_equal(out.ids[i * K + at++], b.rank[j].id);
            }
        }
    }
    test_answer_free(&out);
    box_free(&b);
    kith_ctx_free(ctx);
    printf("period: a filter's rows alone\n");
}

/* ---- Refused --------------------------------------------------------------------------------- */

static void refuse(kith_ctx *ctx, const box *b, const kith_search_params *params, kith_status why,
                   const char *words)
{
    kith_neighbors out = test_answer_make(ROWS, K);
    const kith_status status = kith_graph(ctx, &b->points.matrix, params, &out, NULL);
    if (status != why || strstr(kith_ctx_detail(ctx), words) == NULL) {
        fail_msg("status %d, '%s', must say '%s'", (int)status, kith_ctx_detail(ctx), words);
    }
    test_answer_free(&out);
}

static void test_refusals(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 4;
    box b;
    box_make(&b, KITH_EUCLIDEAN, KITH_F64, 3, UNIFORM, &seed);
    double period[3] = {400.0, 400.0, 400.0};
    kith_search_params params = params_of(&b, KITH_METHOD_AUTO, INFINITY);
    params.period = period;
    test_rows_set(&b.points, 17, 1, 400.0); /* the border itself is 0 */
    refuse(ctx, &b, &params, KITH_E_DATA, "points[17, 1]");
    test_rows_set(&b.points, 17, 1, -1e-300);
    refuse(ctx, &b, &params, KITH_E_DATA, "points[17, 1]");
    test_rows_set(&b.points, 17, 1, (double)NAN);
    refuse(ctx, &b, &params, KITH_E_DATA, "points[17, 1] is NaN");
    test_rows_set(&b.points, 17, 1, -0.0);
    period[1] = (double)NAN;
    refuse(ctx, &b, &params, KITH_E_ARGUMENT, "period[1]");
    period[1] = -1.0;
    refuse(ctx, &b, &params, KITH_E_ARGUMENT, "period[1]");
    period[1] = (double)INFINITY;
    refuse(ctx, &b, &params, KITH_E_ARGUMENT, "period[1]");
    period[1] = 400.0;
    params.metric = KITH_COSINE;
    refuse(ctx, &b, &params, KITH_E_ARGUMENT, "cosine, which has no period");
    params.metric = KITH_EUCLIDEAN;
    params.method = KITH_METHOD_DESCENT;
    refuse(ctx, &b, &params, KITH_E_UNSUPPORTED, "a descent has none");
    params.method = KITH_METHOD_AUTO;
    params.pipeline = KITH_PIPELINE_MATRIX;
    refuse(ctx, &b, &params, KITH_E_ARGUMENT, "pipeline");
    kith_neighbors out = test_answer_make(ROWS, K);
    kith_neighbors plain = test_answer_make(ROWS, K);
    period[0] = period[1] = period[2] = 0.0; /* no column has one */
    params.pipeline = KITH_PIPELINE_FUSED;
    succeed(ctx, kith_graph(ctx, &b.points.matrix, &params, &out, NULL));
    params.period = NULL;
    succeed(ctx, kith_graph(ctx, &b.points.matrix, &params, &plain, NULL));
    assert_true(test_answers_equal(&out, &plain));
    test_answer_free(&plain);
    test_answer_free(&out);
    box_free(&b);
    kith_ctx_free(ctx);
    printf("period: what lies outside of the box, and what has none, is refused by name\n");
}

/* ---- The suite ------------------------------------------------------------------------------ */

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_filter),
    cmocka_unit_test(test_tree_of_many),
    cmocka_unit_test_setup_teardown(test_indexes, test_folder_setup, test_folder_teardown),
    cmocka_unit_test(test_trials),
};

const test_suite test_suite_period = {"period", TESTS, sizeof TESTS / sizeof *TESTS};
