/* SPDX-License-Identifier: Apache-2.0
 * Data on which wrong engines give wrong answers: ties, copies, padding, ends of ranges. The
 * answers are the oracle's, or such that everybody can name them; on every engine. */
#include "base/base_random.h"
#include "kith/kith_papers.h"
#include "metric/metric.h"
#include "support/cases.h"
#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_shapes.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static kith_search_params params_of(kith_metric metric, int64_t k, uint32_t flags)
{
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = k;
    params.flags = flags;
    return params;
}

/* ---- A graph or a search against the oracle ------------------------------------------------- */

typedef struct task {
    const kith_matrix *points;
    const kith_matrix *queries; /* NULL: a graph */
    kith_metric metric;
    int64_t k;
    uint32_t flags;
    test_truth truth;
} task;

static void agree_on(kith_ctx *ctx, void *arg)
{
    const task *t = arg;
    const kith_search_params params = params_of(t->metric, t->k, t->flags);
    kith_neighbors got = test_answer_make(t->truth.rows, t->k);
    const kith_status status = t->queries == NULL
                                   ? kith_graph(ctx, t->points, &params, &got, NULL)
                                   : kith_search(ctx, t->points, t->queries, &params, &got, NULL);
    if (status != KITH_OK) {
        fail_msg("%s, %s: %s", kith_metric_name(t->metric), test_engine_name(ctx),
                 kith_ctx_detail(ctx));
    }
    const bool leaves_out = t->queries == NULL && (t->flags & KITH_INCLUDE_SELF) == 0;
    for (int64_t row = 0; row < got.rows; row++) {
        if (!test_row_is_true(&got, row, &t->truth, row,
                              leaves_out ? (uint32_t)row : KITH_ID_NONE)) {
            fail_msg("%s, %s, %lld x %d, k %lld", kith_metric_name(t->metric),
                     test_engine_name(ctx), (long long)t->points->rows, (int)t->points->cols,
                     (long long)t->k);
        }
    }
    test_answer_free(&got);
}

static void agree(const kith_matrix *points, const kith_matrix *queries, kith_metric metric,
                  int64_t k, uint32_t flags)
{
    task t = {.points = points, .queries = queries, .metric = metric, .k = k, .flags = flags};
    const int64_t wide = k + 1 < points->rows ? k + 1 : points->rows;
    t.truth = test_truth_make(metric, queries == NULL ? points : queries, points, wide);
    test_on_each_engine(agree_on, &t);
    test_truth_free(&t.truth);
}

static void agree_for_all(const kith_matrix *points, const kith_matrix *queries, int64_t k)
{
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                          KITH_CORRELATION};
    for (int m = 0; m < 4; m++) {
        agree(points, queries, metrics[m], k, 0);
    }
}

/* ---- Copies and ties ------------------------------------------------------------------------ */

enum { COPIES = 10000 };

static void copies_on(kith_ctx *ctx, void *arg)
{
    const task *t = arg;
    const kith_search_params params = params_of(t->metric, t->k, 0);
    kith_neighbors got = test_answer_make(t->points->rows, t->k);
    assert_int_equal(kith_graph(ctx, t->points, &params, &got, NULL), KITH_OK);
    for (int64_t row = 0; row < got.rows; row++) {
        for (int64_t i = 0; i < got.k; i++) {
            assert_int_equal(got.ids[row * got.k + i], i + (i >= row));
        }
    }
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    assert_true(test_engines_are_gpu() || report.peak_bytes < 8u << 20);
    test_answer_free(&got);
}

static void identical_points(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8};
    uint64_t seed = 1;
    for (int i = 0; i < 6; i += test_is_thread_build() ? 3 : 1) {
        test_rows rows = test_rows_make(dtypes[i % 2], COPIES, 6, 0);
        test_shape_fill(&rows, SHAPE_EQUAL, false, &seed);
        task t = {.points = &rows.matrix, .metric = metrics[i / 2], .k = 10};
        test_on_each_engine(copies_on, &t);
        test_rows_free(&rows);
    }
    printf("test 7: of 10,000 identical points each gets the 10 lowest ids but its own, in 8 MB\n");
}

/* 3,000 different rows, every third at the same distance from the origin, which is the query; the
 * lowest ids among those are spread over the storage by the engine's own order. */
static void ties_at_k(void **state)
{
    (void)state;
    enum { ROWS = 3000, DIMS = 40 };
    for (int dtype = 0; dtype < 2; dtype++) {
        test_rows rows = test_rows_make(dtype == 0 ? KITH_F32 : KITH_I8, ROWS, DIMS, 0);
        test_rows origin = test_rows_make(dtype == 0 ? KITH_F32 : KITH_I8, 3, DIMS, 0);
        uint64_t seed = 5;
        for (int64_t row = 0; row < ROWS; row++) {
            const double size = row % 3 == 1 ? 3.0 : 5.0;
            for (int part = 0; part < 3; part++) { /* three components of the same size */
                const int64_t col = (int64_t)kin_random_below(&seed, 13) * 3 + part;
                test_rows_set(&rows, row, col, kin_random_below(&seed, 2) == 0 ? size : -size);
            }
        }
        for (int64_t k = 1; k <= 1000; k = k * 3 + 1) {
            agree(&rows.matrix, &origin.matrix, KITH_EUCLIDEAN, k, 0);
        }
        agree(&rows.matrix, NULL, KITH_EUCLIDEAN, 12, 0);
        test_rows_free(&origin);
        test_rows_free(&rows);
    }
    printf("test 8: of 1,000 rows that tie at k the lowest ids are taken, for k = 1 to 1,000\n");
}

static void grid(void **state)
{
    (void)state;
    uint64_t seed = 2;
    test_rows rows = test_rows_make(KITH_U8, 1200, 3, 0);
    test_shape_fill(&rows, SHAPE_GRID, false, &seed);
    agree_for_all(&rows.matrix, NULL, 30);
    agree_for_all(&rows.matrix, NULL, 400);
    agree(&rows.matrix, NULL, KITH_EUCLIDEAN, 30, KITH_INCLUDE_SELF);
    test_rows_free(&rows);
    printf("test 9: {0,1}^3 in u8, where almost all distances tie: the oracle's bytes\n");
}

/* One dimension under cosine: all positive rows are at 0 or 1e-32 from each other, across groups of
 * equal rows, and zeros are at 1 from everything. */
static void ties_across_groups(void **state)
{
    (void)state;
    uint64_t seed = 3;
    test_rows rows = test_rows_make(KITH_U8, 900, 1, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    agree(&rows.matrix, NULL, KITH_COSINE, 14, KITH_NO_SYMMETRY);
    agree(&rows.matrix, NULL, KITH_COSINE, 14, 0);
    agree(&rows.matrix, NULL, KITH_EUCLIDEAN, 25, 0);
    agree(&rows.matrix, NULL, KITH_INNER_PRODUCT, 25, 0);
    test_rows_free(&rows);
    printf("ties between different groups of equal rows: the lowest ids of all groups\n");
}

static void self_behind_copy_on(kith_ctx *ctx, void *arg)
{
    const task *t = arg;
    const kith_search_params params = params_of(t->metric, 3, KITH_INCLUDE_SELF);
    kith_neighbors got = test_answer_make(t->points->rows, 3);
    assert_int_equal(kith_graph(ctx, t->points, &params, &got, NULL), KITH_OK);
    const uint32_t *ids = got.ids + 150 * 3;
    assert_true(ids[0] == 20 && ids[1] == 90 && ids[2] == 150);
    assert_true(got.ids[20 * 3] == 20 && got.ids[5 * 3] == 5);
    test_answer_free(&got);
}

static void self_behind_copy(void **state)
{
    (void)state;
    uint64_t seed = 4;
    test_rows rows = test_rows_make(KITH_F32, 200, 5, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    test_rows_copy(&rows, 90, &rows, 20);
    test_rows_copy(&rows, 150, &rows, 20);
    task t = {.points = &rows.matrix, .metric = KITH_EUCLIDEAN};
    test_on_each_engine(self_behind_copy_on, &t);
    t.metric = KITH_COSINE;
    test_on_each_engine(self_behind_copy_on, &t);
    test_rows_free(&rows);
    printf("test 10: with include-self, a copy with a lower id comes before the point itself\n");
}

/* ---- Ranges --------------------------------------------------------------------------------- */

/* Two rows of one value each; the squared distance is cols * (a - b)^2. */
static void far_bytes(kith_dtype dtype, int32_t cols, double a, double b)
{
    test_rows rows = test_rows_make(dtype, 3, cols, 0);
    for (int32_t col = 0; col < cols; col++) {
        test_rows_set(&rows, 0, col, a);
        test_rows_set(&rows, 1, col, b);
        test_rows_set(&rows, 2, col, b);
    }
    agree(&rows.matrix, NULL, KITH_SQEUCLIDEAN, 2, 0);
    agree(&rows.matrix, NULL, KITH_INNER_PRODUCT, 2, 0);
    agree(&rows.matrix, NULL, KITH_SQEUCLIDEAN, 3, KITH_INCLUDE_SELF);
    test_rows_free(&rows);
}

static void ends_of_bytes(void **state)
{
    (void)state;
    static const int32_t cols[] = {8191, 8192, 8193, 16384, 16385, 33025, 33026, 66051, 66052};
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
        far_bytes(KITH_U8, cols[i], 0.0, 255.0);
        far_bytes(KITH_I8, cols[i], -128.0, 127.0);
        far_bytes(KITH_I8, cols[i], -128.0, -128.0);
    }
    printf("test 11: 0 against 255 and -128 against 127 up to 66,052 columns: no overflow\n");
}

static void exact_in_the_type(void **state)
{
    (void)state;
    uint64_t seed = 6;
    test_rows rows = test_rows_make(KITH_F32, 400, 768, 0);
    for (int64_t row = 0; row < 400; row += 2) { /* opposite pairs: the mean is 0 exactly */
        for (int64_t col = 0; col < 768; col++) {
            const double x = kin_random_below(&seed, 16) == 0 ? -1.0 : 1.0;
            test_rows_set(&rows, row, col, x);
            test_rows_set(&rows, row + 1, col, -x);
        }
    }
    agree_for_all(&rows.matrix, NULL, 10);
    test_rows_free(&rows);
    printf(
        "test 12: rows that every cheap type holds exactly, whose answer hangs on kappa alone\n");
}

static void small_components(void **state)
{
    (void)state;
    static const double small[] = {0x1p-20, 0x1p-24, 0x1p-40, 0x1p-130, 0x1p-149};
    uint64_t seed = 7;
    for (int i = 0; i < 5; i++) {
        test_rows rows = test_rows_make(KITH_F32, 300, 33, 0);
        for (int64_t row = 0; row < 300; row++) {
            for (int64_t col = 0; col < 33; col++) {
                const double x = test_gauss(&seed);
                test_rows_set(&rows, row, col, col == 0 ? (row < 2 ? x : 1.0) : x * small[i]);
            }
        }
        agree_for_all(&rows.matrix, NULL, 7);
        test_rows_free(&rows);
    }
    printf("test 14: components at 2^-20 to 2^-149 of the scale decide, and are not lost\n");
}

static void hard_shapes(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_OFFSET, SHAPE_TINY, SHAPE_NORMS, SHAPE_OUTLIER,
                                        SHAPE_TIGHT};
    uint64_t seed = 8;
    for (int i = 0; i < 5; i++) {
        test_rows rows = test_rows_make(KITH_F32, 500, 24, 0);
        test_shape_fill(&rows, shapes[i], false, &seed);
        agree_for_all(&rows.matrix, NULL, 9);
        test_rows_free(&rows);
    }
    printf("test 15: 1e4 with a spread of 1e-3, all at 1e-38, norms of 1e-6 to 1e6, a row at 1e30, "
           "clusters down to 1e-9\n");
}

static void far_queries(void **state)
{
    (void)state;
    uint64_t seed = 9;
    test_rows rows = test_rows_make(KITH_F32, 600, 20, 0);
    test_rows queries = test_rows_make(KITH_F32, 12, 20, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    for (int64_t row = 0; row < 12; row++) {
        for (int64_t col = 0; col < 20; col++) {
            test_rows_set(&queries, row, col, test_gauss(&seed) * (row < 6 ? 1e6 : 1e30));
        }
    }
    agree_for_all(&rows.matrix, &queries.matrix, 8);
    test_rows_free(&queries);
    test_rows_free(&rows);
    printf("test 16: queries 1e6 and 1e30 times outside the corpus get the right answer\n");
}

/* Queries of 2^-100 against a corpus of 2^490: in the frame of the corpus the squares of a query
 * underflow, and a row that is not zero must not be taken for one that lost nothing. */
static void tiny_queries(void **state)
{
    (void)state;
    enum { ROWS = 2000, DIMS = 16, QUERIES = 3 };
    uint64_t seed = 5;
    test_rows rows = test_rows_make(KITH_F64, ROWS, DIMS, 0);
    test_rows queries = test_rows_make(KITH_F64, QUERIES, DIMS, 0);
    for (int64_t i = 0; i < ROWS * DIMS; i++) {
        test_rows_set(&rows, i / DIMS, i % DIMS, ldexp(2.0 * test_uniform(&seed) - 1.0, 490));
    }
    for (int64_t i = 0; i < QUERIES * DIMS; i++) {
        test_rows_set(&queries, i / DIMS, i % DIMS, ldexp(2.0 * test_uniform(&seed) - 1.0, -100));
    }
    agree(&rows.matrix, &queries.matrix, KITH_INNER_PRODUCT, 10, 0);
    test_rows_free(&queries);
    test_rows_free(&rows);
    printf("queries 2^590 times smaller than their corpus find the right neighbours\n");
}

/* Queries so far out that fp32 distances between tiles overflow: that proves nothing. */
static void many_far_queries(void **state)
{
    (void)state;
    enum { ROWS = 2000, DIMS = 4, QUERIES = 1200 };
    uint64_t seed = 3;
    test_rows rows = test_rows_make(KITH_F32, ROWS, DIMS, 0);
    test_rows queries = test_rows_make(KITH_F32, QUERIES, DIMS, 0);
    for (int64_t i = 0; i < ROWS * DIMS; i++) {
        test_rows_set(&rows, i / DIMS, i % DIMS, 2.0 * test_uniform(&seed) - 1.0);
    }
    for (int64_t i = 0; i < QUERIES * DIMS; i++) {
        test_rows_set(&queries, i / DIMS, i % DIMS, 1e25 * (2.0 * test_uniform(&seed) - 1.0));
    }
    agree(&rows.matrix, &queries.matrix, KITH_EUCLIDEAN, 3, 0);
    test_rows_free(&queries);
    test_rows_free(&rows);
    printf("queries 1e25 times farther than the corpus is wide find the right neighbours\n");
}

static void sizes_around_tiles(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 95, 96, 97, 127, 129, 191, 193, 481};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_I8};
    uint64_t seed = 10;
    for (int i = 0; i < 30; i++) {
        test_rows rows = test_rows_make(dtypes[i % 2], sizes[i / 2], 6, 0);
        test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
        agree(&rows.matrix, &rows.matrix, KITH_EUCLIDEAN, sizes[i / 2], 0);
        agree(&rows.matrix, &rows.matrix, KITH_INNER_PRODUCT, sizes[i / 2], 0);
        test_rows_free(&rows);
    }
    printf("test 17: for sizes around tiles and k = all of them, no padding is ever returned\n");
}

/* ---- float64 at its ends -------------------------------------------------------------------- */

static void ends_of_float64_on(kith_ctx *ctx, void *arg)
{
    (void)arg;
    const kith_search_params params = params_of(KITH_EUCLIDEAN, 2, 0);
    const kith_search_params product = params_of(KITH_INNER_PRODUCT, 2, 0);
    test_rows rows = test_rows_make(KITH_F64, 3, 2, 0);
    kith_neighbors got = test_answer_make(3, 2);
    test_rows_set(&rows, 0, 0, 0x1p500);
    test_rows_set(&rows, 1, 0, -0x1p500);
    test_rows_set(&rows, 2, 1, 0x1p500);
    assert_int_equal(kith_graph(ctx, &rows.matrix, &params, &got, NULL), KITH_OK);
    assert_true(got.ids[0] == 2 && got.distances64[1] == 0x1p501);
    assert_true(got.distances[1] > FLT_MAX);
    assert_int_equal(kith_graph(ctx, &rows.matrix, &product, &got, NULL), KITH_OK);
    for (int i = 0; i < 6; i++) {
        assert_true(got.distances64[i] == got.distances64[i]);
    }
    assert_true(got.distances64[1] == -0x1p1000);
    test_rows_set(&rows, 2, 1, nextafter(0x1p500, (double)INFINITY));
    assert_int_equal(kith_graph(ctx, &rows.matrix, &params, &got, NULL), KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(ctx), "[2, 1]"));
    test_answer_free(&got);
    test_rows_free(&rows);
}

static void ends_of_float64(void **state)
{
    (void)state;
    test_on_each_engine(ends_of_float64_on, NULL);
    uint64_t seed = 11;
    test_rows tiny = test_rows_make(KITH_F64, 300, 7, 0);
    for (int64_t i = 0; i < 300 * 7; i++) { /* keys underflow to 0, or nearly */
        test_rows_set(&tiny, i / 7, i % 7, 1e-160 * test_gauss(&seed));
    }
    agree_for_all(&tiny.matrix, NULL, 20);
    for (int64_t i = 0; i < 300 * 7; i++) {
        test_rows_set(&tiny, i / 7, i % 7, 1e-170 * test_gauss(&seed));
    }
    agree_for_all(&tiny.matrix, NULL, 20);
    test_rows_free(&tiny);
    printf("test 20: 2^500 is taken, the next number refused with its place; keys that underflow "
           "are ordered by id; no product is NaN\n");
}

static void zeros_of_both_signs(void **state)
{
    (void)state;
    test_rows rows = test_rows_make(KITH_F32, 500, 9, 0);
    for (int64_t i = 0; i < 500 * 9; i++) {
        test_rows_set(&rows, i / 9, i % 9, i / 9 % 3 == 0 ? -0.0 : 0.0);
    }
    for (int64_t i = 0; i < 3; i++) {
        test_rows_set(&rows, 40 + i, i, 1.0);
    }
    agree_for_all(&rows.matrix, NULL, 25);
    test_rows_free(&rows);
    printf("test 21: rows of -0 and +0 are at 0 from each other and ordered by id\n");
}

/* ---- Shards, symmetry ----------------------------------------------------------------------- */

enum { HALF = 700, SHARD_K = 12 };

static void shards_on(kith_ctx *ctx, void *arg)
{
    const task *t = arg;
    kith_matrix first = *t->points;
    kith_matrix second = *t->points;
    first.rows = HALF;
    second.rows -= HALF;
    second.data = (const unsigned char *)second.data + HALF * second.stride_bytes;
    const kith_search_params params = params_of(t->metric, SHARD_K, 0);
    const int64_t rows = t->queries->rows;
    kith_neighbors a = test_answer_make(rows, SHARD_K);
    kith_neighbors b = test_answer_make(rows, SHARD_K);
    kith_neighbors all = test_answer_make(rows, SHARD_K);
    assert_int_equal(kith_search(ctx, &first, t->queries, &params, &a, NULL), KITH_OK);
    assert_int_equal(kith_search(ctx, &second, t->queries, &params, &b, NULL), KITH_OK);
    assert_int_equal(kith_search(ctx, t->points, t->queries, &params, &all, NULL), KITH_OK);
    for (int64_t row = 0; row < rows; row++) {
        int64_t x = row * SHARD_K;
        int64_t y = row * SHARD_K;
        for (int64_t i = row * SHARD_K; i < (row + 1) * SHARD_K; i++) {
            /* ids of the first half are lower: it goes first at equal distances */
            const bool from_a = t->metric == KITH_INNER_PRODUCT
                                    ? a.distances64[x] >= b.distances64[y]
                                    : a.distances64[x] <= b.distances64[y];
            const uint32_t id = from_a ? a.ids[x] : b.ids[y] + HALF;
            const double distance = from_a ? a.distances64[x] : b.distances64[y];
            assert_int_equal(all.ids[i], id);
            assert_memory_equal(&all.distances64[i], &distance, sizeof distance);
            x += from_a;
            y += !from_a;
        }
    }
    test_answer_free(&a);
    test_answer_free(&b);
    test_answer_free(&all);
}

static void shards(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                          KITH_MANHATTAN};
    uint64_t seed = 12;
    test_rows rows = test_rows_make(KITH_F32, 2 * HALF, 6, 0);
    test_rows queries = test_rows_make(KITH_F32, 100, 6, 0);
    test_shape_fill(&rows, SHAPE_TIGHT, false, &seed); /* doubles differ where floats tie */
    test_shape_fill(&queries, SHAPE_TIGHT, false, &seed);
    task t = {.points = &rows.matrix, .queries = &queries.matrix};
    for (int m = 0; m < 4; m++) {
        t.metric = metrics[m];
        test_on_each_engine(shards_on, &t);
    }
    test_rows_free(&queries);
    test_rows_free(&rows);
    printf("test 22: two halves merged by (key, id) are the bytes of one run\n");
}

static void symmetry(void **state)
{
    (void)state;
    enum { PAIRS = 4000, ROWS = 120 };
    uint64_t seed = 13;
    kith_ctx *ctx = test_engine_best_ctx(1);
    test_rows rows = test_rows_make(KITH_F32, ROWS, 37, 0);
    test_shape_fill(&rows, SHAPE_SPARSE, true, &seed);
    static uint32_t a[PAIRS];
    static uint32_t b[PAIRS];
    static double forth[PAIRS];
    static double back[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        a[i] = (uint32_t)kin_random_below(&seed, ROWS);
        b[i] = (uint32_t)kin_random_below(&seed, ROWS);
    }
    const kith_matrix *m = &rows.matrix;
    for (int metric = KITH_EUCLIDEAN; metric != 0; metric = test_next_metric(metric)) {
        assert_int_equal(
            kith_distances(ctx, m, m, (kith_metric)metric, &(kith_pairs){PAIRS, a, b}, forth),
            KITH_OK);
        assert_int_equal(
            kith_distances(ctx, m, m, (kith_metric)metric, &(kith_pairs){PAIRS, b, a}, back),
            KITH_OK);
        const bool same = memcmp(forth, back, sizeof forth) == 0;
        assert_int_equal(same, kin_metric_get_traits((kith_metric)metric)->symmetric);
        assert_int_equal(same, metric != KITH_KL);
    }
    agree(m, NULL, KITH_KL, 11, 0);
    agree(m, NULL, KITH_KL, 11, KITH_NO_SYMMETRY);
    test_rows_free(&rows);
    kith_ctx_free(ctx);
    printf("test 23: distances are the same bits in both directions but for kl, whose graph is the "
           "oracle's\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(identical_points),
    cmocka_unit_test(ties_at_k),
    cmocka_unit_test(grid),
    cmocka_unit_test(ties_across_groups),
    cmocka_unit_test(self_behind_copy),
    cmocka_unit_test(ends_of_bytes),
    cmocka_unit_test(exact_in_the_type),
    cmocka_unit_test(small_components),
    cmocka_unit_test(hard_shapes),
    cmocka_unit_test(far_queries),
    cmocka_unit_test(tiny_queries),
    cmocka_unit_test(many_far_queries),
    cmocka_unit_test(sizes_around_tiles),
    cmocka_unit_test(ends_of_float64),
    cmocka_unit_test(zeros_of_both_signs),
    cmocka_unit_test(shards),
    cmocka_unit_test(symmetry),
};

const test_suite test_suite_numerics = {"numerics", tests, sizeof tests / sizeof *tests};
