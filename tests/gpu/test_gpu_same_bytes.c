/* SPDX-License-Identifier: Apache-2.0
 * What the GPU answers against what the processor answers, byte for byte: ids, float32 and float64
 * distances. Sizes around tiles and blocks, every k, every type and metric, data on which screens
 * fail, many runs. KITH_DATA: real data, whole graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "kith/kith_papers.h"
#include "metric/metric_arith.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_corpora.h"
#include "support/support_gpu.h"
#include "support/support_placed.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const kith_metric screened[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                       KITH_CORRELATION, KITH_SQEUCLIDEAN};
static const kith_metric direct[] = {KITH_MANHATTAN,   KITH_CHEBYSHEV,    KITH_CHI2,
                                     KITH_HAMMING,     KITH_JACCARD,      KITH_KL,
                                     TEST_MINKOWSKI_3, TEST_MINKOWSKI_2_5};
static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64, KITH_F16, KITH_I8, KITH_BF16};
enum { SCREENED = 5, DIRECT = 8, DTYPES = 6 };

typedef struct pair {
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_tally tally;
} pair;

static pair pair_make(void)
{
    return (pair){.cpu = test_cpu_ctx(), .gpu = test_gpu_ctx(0, 0)};
}

static void pair_end(pair *p, const char *what)
{
    kith_ctx_free(p->cpu);
    kith_ctx_free(p->gpu);
    test_tally_end(&p->tally, what);
}

static bool takes_negatives(kith_metric metric)
{
    return metric != KITH_CHI2 && metric != KITH_KL;
}

static test_rows made(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap, test_shape shape,
                      kith_metric metric, uint64_t seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, gap);
    test_shape_fill(&r, shape, !takes_negatives(metric), &seed);
    return r;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

/* The most additions that a direct metric may take of the processor in one case. */
static const double DIRECT_BUDGET = 4e9;

static void one_size(pair *p, int64_t rows, int32_t cols, int turn)
{
    const bool is_direct = turn % 4 == 3 && (double)rows * (double)rows * cols <= DIRECT_BUDGET;
    const kith_metric metric = is_direct ? direct[turn / 4 % DIRECT] : screened[turn % SCREENED];
    const kith_dtype dtype = dtypes[turn % DTYPES];
    const test_shape shape = turn % 2 == 0 ? SHAPE_GAUSS : SHAPE_CLUSTERS;
    test_rows points =
        made(dtype, rows, cols, turn % 3 == 0 ? 16 : 0, shape, metric, (uint64_t)turn + 1);
    test_rows queries = made(dtype, turn % 5 == 0 ? 300 : 1 + turn % 40, cols, 0, shape, metric,
                             (uint64_t)turn + 1000);
    test_job job = {.name = test_shape_name(shape),
                    .points = &points.matrix,
                    .metric = metric,
                    .k = least(10, rows - 1)};
    if (job.k > 0) {
        test_compare(p->cpu, p->gpu, &job, &p->tally);
    }
    job.flags = KITH_INCLUDE_SELF;
    job.k = least(1 + turn % 17, rows);
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    job.flags = 0;
    job.queries = &queries.matrix;
    job.call = turn % 2 == 0 ? TEST_SEARCH : TEST_PREPARED;
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    test_rows_free(&queries);
    test_rows_free(&points);
}

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 127, 128, 129, 255, 256, 257, 1000, 5000, 20000};
    static const int32_t cols[] = {1, 2, 3, 4, 5, 64, 96, 128, 129, 784, 2000};
    const int64_t most_values = test_is_slow_build() ? 130000 : 16000000; /* made one by one */
    pair p = pair_make();
    int turn = 0;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++, turn++) {
            if (rows[r] * cols[c] <= most_values) {
                one_size(&p, rows[r], cols[c], turn);
            }
        }
    }
    pair_end(&p, "1 to 20,000 rows of 1 to 2,000 columns");
}

/* ---- k -------------------------------------------------------------------------------------- */

static void every_k(void **state)
{
    (void)state;
    static const int64_t all[] = {1, 2, 10, 64, 100, 1024, 2047, 2048, 2049, 2999};
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                          KITH_MANHATTAN};
    enum { ROWS = 3000, DIMS = 24, ASKED = 70 };
    pair p = pair_make();
    for (int d = 0; d < (test_is_slow_build() ? 1 : 2); d++) {
        for (int m = 0; m < 4; m++) {
            test_rows points = made(dtypes[d], ROWS, DIMS, 0, SHAPE_GAUSS, metrics[m], 40);
            test_rows queries = made(dtypes[d], ASKED, DIMS, 0, SHAPE_GAUSS, metrics[m], 41);
            for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                test_job job = {.name = "gauss", .points = &points.matrix, .metric = metrics[m]};
                job.k = all[i];
                test_compare(p.cpu, p.gpu, &job, &p.tally);
                job.call = TEST_SEARCH;
                job.queries = &queries.matrix;
                test_compare(p.cpu, p.gpu, &job, &p.tally);
                job.call = TEST_PREPARED;
                test_compare(p.cpu, p.gpu, &job, &p.tally);
            }
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    pair_end(&p, "k from 1 to n - 1");
}

/* ---- Types, metrics, options ---------------------------------------------------------------- */

typedef struct options {
    pair *p;
    test_rows points;
    test_rows queries;
    uint32_t *exclude;
} options;

static options options_make(pair *p, kith_metric metric, kith_dtype dtype, kith_dtype asked,
                            int turn)
{
    enum { ROWS = 1100, DIMS = 33, ASKED = 290 };
    const test_shape shape = turn % 3 == 0   ? SHAPE_COPIES
                             : turn % 3 == 1 ? SHAPE_SPARSE
                                             : SHAPE_GAUSS;
    uint64_t seed = 70 + (uint64_t)turn;
    options o = {.p = p};
    o.points = made(dtype, ROWS, DIMS, turn % 2 == 0 ? 24 : 0, shape, metric, seed);
    o.queries = made(asked, ASKED, DIMS, turn % 2 == 1 ? 8 : 0, shape, metric, seed + 1);
    o.exclude = malloc(ASKED * sizeof *o.exclude);
    assert_non_null(o.exclude);
    for (int64_t i = 0; i < ASKED; i++) {
        const bool nobody = kin_random_below(&seed, 5) == 0;
        o.exclude[i] = nobody ? KITH_ID_NONE : (uint32_t)kin_random_below(&seed, ROWS);
        if (dtype == asked && i % 2 == 0 && !nobody) { /* what is excluded would come first */
            test_rows_copy(&o.queries, i, &o.points, o.exclude[i]);
        }
    }
    return o;
}

static void options_run(options *o, kith_metric metric)
{
    static const uint32_t flags[] = {0, KITH_INCLUDE_SELF, KITH_NO_SYMMETRY, KITH_NO_SKIP};
    test_job job = {.name = "options", .points = &o->points.matrix, .metric = metric, .k = 12};
    for (int f = 0; f < 4; f++) {
        job.flags = flags[f];
        test_compare(o->p->cpu, o->p->gpu, &job, &o->p->tally);
    }
    job.flags = 0;
    job.queries = &o->queries.matrix;
    for (int call = TEST_SEARCH; call <= TEST_PREPARED; call++) {
        job.call = (test_call)call;
        test_compare(o->p->cpu, o->p->gpu, &job, &o->p->tally);
        if (job.call != TEST_BOTH) {
            job.exclude = o->exclude;
            test_compare(o->p->cpu, o->p->gpu, &job, &o->p->tally);
            job.exclude = NULL;
        }
    }
}

static void types_and_options(void **state)
{
    (void)state;
    pair p = pair_make();
    for (int m = 0; m < SCREENED + DIRECT; m++) {
        const kith_metric metric = m < SCREENED ? screened[m] : direct[m - SCREENED];
        for (int d = 0; d < DTYPES; d++) {
            const kith_dtype asked = d % 2 == 0 ? dtypes[d] : dtypes[(d + m) % DTYPES];
            options o = options_make(&p, metric, dtypes[d], asked, m + d);
            options_run(&o, metric);
            free(o.exclude);
            test_rows_free(&o.queries);
            test_rows_free(&o.points);
        }
    }
    pair_end(&p, "all metrics and types, gaps between rows, own ids, exclude, both, prepared");
}

/* ---- Hard data ------------------------------------------------------------------------------ */

static void compare_graphs(pair *p, const char *name, const kith_matrix *points, int64_t k)
{
    for (int m = 0; m < 4; m++) {
        test_job job = {.name = name, .points = points, .metric = screened[m], .k = k};
        test_compare(p->cpu, p->gpu, &job, &p->tally);
    }
}

static void hard_data(void **state)
{
    (void)state;
    static const int32_t cols[] = {3, 24, 130};
    const int64_t count = test_rows_with_stages(4003, 10);
    pair p = pair_make();
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (int c = 0; c < (test_is_slow_build() ? 2 : 3); c++) {
            const kith_dtype dtype = dtypes[(shape + c) % 3]; /* float32, uint8, float64 */
            test_rows rows = made(dtype, count, cols[c], 0, (test_shape)shape, KITH_EUCLIDEAN,
                                  (uint64_t)shape + 90);
            compare_graphs(&p, test_shape_name((test_shape)shape), &rows.matrix, 10);
            test_rows_free(&rows);
        }
    }
    pair_end(&p, "hard data of every shape");
}

/* Lists overflow where many points look alike in the cheap type. */
static void crowded_lists(void **state)
{
    (void)state;
    pair p = pair_make();
    const bool few = test_is_slow_build();
    test_rows tight = made(KITH_F64, few ? 5000 : 20000, 8, 0, SHAPE_TIGHT, KITH_EUCLIDEAN, 5);
    compare_graphs(&p, "tight", &tight.matrix, 10);
    test_rows_free(&tight);
    const int64_t count = test_rows_with_stages(few ? 4000 : 9000, 10);
    test_rows ball = made(KITH_F64, count, 12, 0, SHAPE_BALL, KITH_EUCLIDEAN, 6);
    compare_graphs(&p, "ball", &ball.matrix, 10);
    compare_graphs(&p, "ball", &ball.matrix, 100);
    test_rows queries = made(KITH_F64, 300, 12, 0, SHAPE_BALL, KITH_EUCLIDEAN, 7);
    test_job job = {.name = "ball",
                    .call = TEST_SEARCH,
                    .points = &ball.matrix,
                    .queries = &queries.matrix,
                    .metric = KITH_EUCLIDEAN,
                    .k = 20};
    test_compare(p.cpu, p.gpu, &job, &p.tally);
    job.call = TEST_BOTH;
    test_compare(p.cpu, p.gpu, &job, &p.tally);
    test_rows_free(&queries);
    test_rows_free(&ball);
    pair_end(&p, "thousands of points that cheap types cannot tell apart");
}

/* `percent` of the rows are copies of earlier ones. */
static void compare_copies(pair *p, kith_dtype dtype, int64_t rows, uint64_t percent)
{
    uint64_t seed = percent;
    test_rows r = made(dtype, rows, 20, 0, SHAPE_GAUSS, KITH_EUCLIDEAN, 8);
    for (int64_t row = 1; row < rows; row++) {
        if (kin_random_below(&seed, 100) < percent) {
            test_rows_copy(&r, row, &r, (int64_t)kin_random_below(&seed, (uint64_t)row));
        }
    }
    compare_graphs(p, "copies", &r.matrix, 10);
    test_job job = {.name = "copies",
                    .points = &r.matrix,
                    .metric = KITH_EUCLIDEAN,
                    .k = 130,
                    .flags = KITH_INCLUDE_SELF};
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    test_rows_free(&r);
}

static void copies_and_ties(void **state)
{
    (void)state;
    pair p = pair_make();
    for (int d = 0; d < (test_is_slow_build() ? 1 : 3); d++) {
        compare_copies(&p, dtypes[d], 10007, 39);
        compare_copies(&p, dtypes[d], 3000, 1);
        compare_copies(&p, dtypes[d], 3000, 99);
        test_rows equal = made(dtypes[d], 10000, 7, 0, SHAPE_EQUAL, KITH_EUCLIDEAN, 9);
        compare_graphs(&p, "equal", &equal.matrix, 10);
        test_rows_free(&equal);
    }
    for (int32_t cols = 1; cols <= 11; cols += 2) {
        test_rows grid = made(KITH_U8, 3001, cols, 0, SHAPE_GRID, KITH_EUCLIDEAN, 10);
        compare_graphs(&p, "grid", &grid.matrix, 30);
        compare_graphs(&p, "grid", &grid.matrix, 1000);
        test_rows_free(&grid);
    }
    pair_end(&p, "39 % copies, all rows equal, distances that tie");
}

static void queries_outside(void **state)
{
    (void)state;
    static const double far[] = {1e3, 1e6, 1e25, 1e30, 1e-30};
    enum { ROWS = 3000, ASKED = 40, DIMS = 19 };
    pair p = pair_make();
    uint64_t seed = 11;
    test_rows rows = made(KITH_F32, ROWS, DIMS, 0, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 12);
    test_rows queries = test_rows_make(KITH_F32, ASKED, DIMS, 0);
    for (int64_t i = 0; i < ASKED; i++) {
        for (int64_t j = 0; j < DIMS; j++) {
            test_rows_set(&queries, i, j, far[i % 5] * test_gauss(&seed));
        }
    }
    for (int m = 0; m < SCREENED; m++) {
        for (int call = TEST_SEARCH; call <= TEST_PREPARED; call++) {
            test_job job = {.name = "far queries",
                            .call = (test_call)call,
                            .points = &rows.matrix,
                            .queries = &queries.matrix,
                            .metric = screened[m],
                            .k = 9};
            test_compare(p.cpu, p.gpu, &job, &p.tally);
        }
    }
    test_rows_free(&queries);
    test_rows_free(&rows);
    pair_end(&p, "queries 1e3 to 1e30 times outside of their corpus");
}

/* ---- Many queries --------------------------------------------------------------------------- */

/* Enough of both sides that queries are put into the corpus' order, and their answers back into
 * theirs: rows that are not alike, so that an answer in a wrong place is a wrong one. */
static void search_many(pair *p, kith_metric metric, kith_dtype dtype, bool plain)
{
    enum { ROWS = 24000, ASKED = 6100, DIMS = 20 };
    uint64_t seed = 120 + (uint64_t)metric;
    const test_shape shape = plain ? SHAPE_GAUSS : SHAPE_CLUSTERS;
    test_rows points = made(dtype, ROWS, DIMS, 0, shape, metric, seed);
    test_rows queries = made(dtype, ASKED, DIMS, 12, shape, metric, seed + 1);
    uint32_t *exclude = malloc(ASKED * sizeof *exclude);
    assert_non_null(exclude);
    for (int64_t i = 0; i < ASKED; i++) {
        const bool nobody = kin_random_below(&seed, 3) == 0;
        exclude[i] = nobody ? KITH_ID_NONE : (uint32_t)kin_random_below(&seed, ROWS);
        if (!nobody) { /* what is excluded would come first */
            test_rows_copy(&queries, i, &points, exclude[i]);
        }
    }
    for (int64_t i = 0; i < 300 && !plain; i++) {
        test_rows_copy(&points, (int64_t)kin_random_below(&seed, ROWS), &points,
                       (int64_t)kin_random_below(&seed, ROWS));
        const int64_t zeroes[2] = {(int64_t)kin_random_below(&seed, ROWS),
                                   (int64_t)kin_random_below(&seed, ASKED)};
        for (int32_t j = 0; j < DIMS && i < 30; j++) {
            test_rows_set(&points, zeroes[0], j, 0.0);
            test_rows_set(&queries, zeroes[1], j, 0.0);
        }
    }
    test_job job = {.name = plain ? "many queries" : "many queries, copies, zeroes",
                    .call = TEST_SEARCH,
                    .points = &points.matrix,
                    .queries = &queries.matrix,
                    .metric = metric,
                    .k = 10};
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    job.exclude = exclude;
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    job.call = TEST_PREPARED;
    job.flags = KITH_NO_SKIP;
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    free(exclude);
    test_rows_free(&queries);
    test_rows_free(&points);
}

static void many_queries(void **state)
{
    (void)state;
    pair p = pair_make();
    for (int plain = 0; plain < (test_is_slow_build() ? 1 : 2); plain++) {
        search_many(&p, KITH_EUCLIDEAN, KITH_F32, plain != 0);
        search_many(&p, KITH_COSINE, KITH_F32, plain != 0);
        search_many(&p, KITH_INNER_PRODUCT, KITH_F32, plain != 0);
        search_many(&p, KITH_SQEUCLIDEAN, KITH_U8, plain != 0);
        search_many(&p, KITH_CORRELATION, KITH_F64, plain != 0);
    }
    pair_end(&p, "6,100 queries in the order of 24,000 points");
}

/* ---- Again and again ------------------------------------------------------------------------ */

static void again_and_again(void **state)
{
    (void)state;
    const int times = test_is_slow_build() ? 2 : 12;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_TIGHT, SHAPE_COPIES};
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    int differ = 0;
    for (int s = 0; s < 3; s++) {
        test_rows rows = made(KITH_F32, 15000, 20, 0, shapes[s], KITH_EUCLIDEAN, 13);
        const test_job job = {.name = test_shape_name(shapes[s]),
                              .points = &rows.matrix,
                              .metric = KITH_EUCLIDEAN,
                              .k = 15};
        kith_neighbors first;
        assert_int_equal(test_job_solve(gpu, &job, &first), KITH_OK);
        for (int i = 1; i < times; i++) {
            char what[320];
            kith_neighbors again;
            assert_int_equal(test_job_solve(gpu, &job, &again), KITH_OK);
            differ += test_answers_differ(test_job_text(&job, what, sizeof what), &first, &again);
            test_answer_free(&again);
        }
        test_answer_free(&first);
        test_rows_free(&rows);
    }
    kith_ctx_free(gpu);
    assert_int_equal(differ, 0);
    printf("%d runs of each of three graphs: the same bytes each time\n", times);
}

/* ---- Whole numbers as floats ----------------------------------------------------------------- */

static test_rows as_floats(const kith_matrix *bytes, kith_dtype dtype)
{
    test_rows floats = test_rows_make(dtype, bytes->rows, bytes->cols, 16);
    for (int64_t row = 0; row < bytes->rows; row++) {
        for (int32_t col = 0; col < bytes->cols; col++) {
            test_rows_set(&floats, row, col, kin_value(bytes->dtype, test_row(bytes, row), col));
        }
    }
    return floats;
}

/* A graph as on the processor; costs were keys, or keys were computed. */
static void whole_graph(pair *p, const test_job *job, bool costs)
{
    kith_report report = {.struct_size = sizeof report};
    test_compare(p->cpu, p->gpu, job, &p->tally);
    assert_int_equal(kith_ctx_report(p->gpu, &report), KITH_OK);
    assert_string_equal(report.screen, costs ? "s8" : "f16");
    assert_true((report.candidates == 0.0) == costs);
}

/* One value is another one. */
static void odd_values(pair *p, const test_rows *rows, kith_metric metric)
{
    static const double odd[] = {-0.0, 0.5, 256.0, -129.0, 1.0 + 0x1p-40, 1e-6};
    const kith_dtype dtype = rows->matrix.dtype;
    test_job job = {.name = "whole but one", .points = &rows->matrix, .metric = metric, .k = 10};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const bool rounds = odd[i] > 1.0 && odd[i] < 2.0 && dtype != KITH_F64;
        test_rows_set(rows, 211 + (int64_t)i, 3 + (int64_t)i, odd[i]);
        whole_graph(p, &job, odd[i] == 0.0 || rounds);
        test_rows_set(rows, 211 + (int64_t)i, 3 + (int64_t)i, 7.0);
    }
    whole_graph(p, &job, true);
    test_rows_set(rows, rows->matrix.rows - 1, rows->matrix.cols - 1, NAN);
    test_compare(p->cpu, p->gpu, &job, &p->tally);
}

static void whole_of(pair *p, kith_dtype byte, kith_dtype dtype, kith_metric metric, int64_t count)
{
    test_rows bytes = made(byte, count, 53, 3, SHAPE_CLUSTERS, metric, 61);
    for (int64_t row = 4; row < count; row += 5) {
        test_rows_copy(&bytes, row, &bytes, row - 3);
    }
    test_rows_set(&bytes, 1, 2, byte == KITH_U8 ? 255.0 : -128.0);
    test_rows floats = as_floats(&bytes.matrix, dtype);
    test_job job = {.name = "whole", .points = &floats.matrix, .metric = metric, .k = 10};
    kith_neighbors found[2];
    whole_graph(p, &job, true);
    assert_int_equal(test_job_solve(p->gpu, &job, &found[0]), KITH_OK);
    job.points = &bytes.matrix;
    assert_int_equal(test_job_solve(p->gpu, &job, &found[1]), KITH_OK);
    assert_true(test_answers_equal(&found[0], &found[1]));
    job.points = &floats.matrix;
    job.flags = KITH_NO_SYMMETRY;
    test_compare(p->cpu, p->gpu, &job, &p->tally);
    odd_values(p, &floats, metric);
    test_answer_free(&found[0]);
    test_answer_free(&found[1]);
    test_rows_free(&floats);
    test_rows_free(&bytes);
}

/* Where lists of all rows find no room, rows come as queries, in the frame of them all. */
static void whole_in_stripes(pair *p)
{
    const int64_t count = test_rows_with_stages(4100, 10);
    test_rows bytes = made(KITH_U8, count, 53, 0, SHAPE_CLUSTERS, KITH_EUCLIDEAN, 62);
    test_rows floats = as_floats(&bytes.matrix, KITH_F32);
    const test_job job = {
        .name = "whole", .points = &floats.matrix, .metric = KITH_EUCLIDEAN, .k = 30};
    for (uint64_t room = (uint64_t)2 << 20; room <= (uint64_t)4 << 20; room += (uint64_t)1 << 19) {
        kith_ctx *small = test_gpu_ctx(0, room);
        test_compare_fitting(p->cpu, small, &job, true, &p->tally);
        kith_ctx_free(small);
    }
    test_rows_free(&floats);
    test_rows_free(&bytes);
}

static void whole_floats(void **state)
{
    (void)state;
    static const kith_dtype floats[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_SQEUCLIDEAN};
    pair p = pair_make();
    for (int turn = 0; turn < (test_is_slow_build() ? 8 : 24); turn++) {
        whole_of(&p, turn / 4 % 2 == 0 ? KITH_U8 : KITH_I8, floats[turn % 4],
                 metrics[(turn + 2 * (turn / 8)) % 3],
                 turn % 7 == 0 ? test_rows_with_stages(4100, 10) : 330);
    }
    whole_in_stripes(&p);
    pair_end(&p, "graphs of whole numbers as floats, as of bytes");
}

/* ---- Real data ------------------------------------------------------------------------------ */

/* Multiplications that the processor may spend on a graph; beyond, sampled rows are searched. */
static const double REAL_BUDGET = 6e12;
enum { REAL_ASKED = 3000, REAL_K = 10 };

static void real_search(pair *p, test_job *job)
{
    uint64_t seed = 17;
    test_rows all = {.matrix = *job->points, .map = (unsigned char *)(uintptr_t)job->points->data};
    test_rows asked = test_rows_make(job->points->dtype, REAL_ASKED, job->points->cols, 0);
    for (int64_t i = 0; i < REAL_ASKED; i++) {
        test_rows_copy(&asked, i, &all,
                       (int64_t)kin_random_below(&seed, (uint64_t)job->points->rows));
    }
    job->call = TEST_SEARCH;
    job->queries = &asked.matrix;
    test_compare(p->cpu, p->gpu, job, &p->tally);
    test_rows_free(&asked);
}

static void real_file(const char *path, const char *name, void *arg)
{
    pair *p = arg;
    kith_points *points = NULL;
    if (kith_points_open(p->cpu, path, NULL, &points) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(p->cpu));
    }
    const kith_matrix *m = kith_points_matrix(points);
    const bool whole = (double)m->rows * (double)m->rows * (double)m->cols <= REAL_BUDGET;
    for (int i = 0; i < 4; i++) {
        test_job job = {.name = name, .points = m, .metric = screened[i], .k = REAL_K};
        const int before = p->tally.wrong;
        if (whole) {
            test_compare(p->cpu, p->gpu, &job, &p->tally);
        } else {
            real_search(p, &job);
        }
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(kith_ctx_report(p->gpu, &report), KITH_OK);
        printf("%s, %s, %lld x %d, %s: %s; %.3f s, rerun %.4f, skipped %.3f, %.1f keys a row\n",
               name, kith_metric_name(screened[i]), (long long)m->rows, (int)m->cols,
               whole ? "graph" : "search", p->tally.wrong == before ? "the same bytes" : "DIFFERS",
               report.seconds_total, report.rerun_share, report.skipped_share, report.candidates);
        (void)fflush(stdout);
    }
    kith_points_free(points);
}

static void real_data(void **state)
{
    (void)state;
    test_need_corpora();
    pair p = pair_make();
    test_each_corpus(real_file, &p);
    pair_end(&p, "real data");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(every_k),
        cmocka_unit_test(types_and_options),
        cmocka_unit_test(hard_data),
        cmocka_unit_test(crowded_lists),
        cmocka_unit_test(copies_and_ties),
        cmocka_unit_test(queries_outside),
        cmocka_unit_test(many_queries),
        cmocka_unit_test(again_and_again),
        cmocka_unit_test(whole_floats),
        cmocka_unit_test(real_data),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
