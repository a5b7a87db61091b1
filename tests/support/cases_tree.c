/* SPDX-License-Identifier: Apache-2.0
 * The tree against all pairs, byte for byte: metrics, types, columns, k, data on which bounds and
 * orders go wrong, graphs and searches, own and excluded ids, equal rows, tiny sets. */
#include "base/base_ctx.h"
#include "support/cases.h"
#include "support/support_engines.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"
#include "support/support_trees.h"

/* ---- Data ----------------------------------------------------------------------------------- */

static void shapes_of(kith_ctx *ctx, void *arg)
{
    test_trees *t = arg;
    t->ctx = ctx;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_U8, KITH_BF16, KITH_I8};
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (int m = 0; m < TEST_TREE_METRICS; m++) {
            if (!test_engine_takes((int)ctx->isa, (shape + m) / 2)) {
                continue;
            }
            const kith_dtype dtype = dtypes[(shape + m) % 6];
            const int32_t cols = 1 + (shape * 5 + m * 3) % 19;
            test_rows points =
                test_trees_rows(dtype, 601, cols, (test_shape)shape, 7 + (uint64_t)shape);
            test_rows queries =
                test_trees_rows(dtype, 61, cols, (test_shape)shape, 70 + (uint64_t)shape);
            test_trees_four(t, &points, &queries, test_tree_metrics[m], 10,
                            test_shape_name((test_shape)shape));
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
}

static void shapes(void **state)
{
    (void)state;
    test_trees t = {.wanted = test_engines_are_gpu() ? test_cpu_ctx() : NULL};
    test_on_each_engine(shapes_of, &t);
    test_trees_end(&t, "every shape of data, metric and instruction set");
    kith_ctx_free(t.wanted);
}

static void types(void **state)
{
    (void)state;
    test_trees t = test_trees_make(0);
    for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
        for (int other = KITH_F32; other <= KITH_I8; other++) {
            for (int shape = SHAPE_GAUSS; shape <= SHAPE_OUTLIER; shape++) {
                test_rows points = test_trees_rows((kith_dtype)dtype, 300, 4, (test_shape)shape, 3);
                test_rows queries = test_trees_rows((kith_dtype)other, 33, 4, (test_shape)shape, 4);
                test_job job = {.name = test_shape_name((test_shape)shape),
                                .points = &points.matrix,
                                .queries = &queries.matrix,
                                .metric = test_tree_metrics[(dtype + other) % TEST_TREE_METRICS],
                                .k = 9};
                test_trees_compare(&t, job);
                test_rows_free(&queries);
                test_rows_free(&points);
            }
        }
    }
    test_trees_end(&t, "types of points and queries");
    test_trees_free(&t);
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

static void sizes(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 15, 16, 17, 48, 49, 64, 65, 97, 1000};
    test_trees t = test_trees_make(0);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        for (int32_t cols = 1; cols <= 33; cols += cols < 18 ? 1 : 5) {
            if (test_is_slow_build() && ((int32_t)n + cols) % 3 != 0) { /* other widths for each */
                continue;
            }
            test_rows points = test_trees_rows(KITH_F32, rows[n], cols, SHAPE_GAUSS, 5);
            test_rows queries = test_trees_rows(KITH_F32, 17, cols, SHAPE_GAUSS, 6);
            /* A thousand neighbours of each of a thousand: some times. */
            const bool dear = rows[n] == 1000 && cols % 5 != 0;
            test_trees_four(&t, &points, &queries,
                            test_tree_metrics[(size_t)cols % TEST_TREE_METRICS],
                            dear ? 40 : rows[n], dear ? "forty" : "all of them");
            test_trees_four(&t, &points, &queries, test_tree_metrics[n % TEST_TREE_METRICS], 3,
                            "three");
            test_rows_free(&queries);
            test_rows_free(&points);
        }
    }
    test_trees_end(&t, "1 to 1,000 rows, 1 to 33 columns, k up to all");
    test_trees_free(&t);
}

static void many_neighbours(void **state)
{
    (void)state;
    enum { ROWS = 1300 }; /* more than the largest k */
    static const int64_t ks[] = {1, 2, 31, 47, 48, 49, 100, 1023, 1024};
    static const test_shape data[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_EQUAL, SHAPE_COPIES,
                                      SHAPE_LINE};
    test_trees t = test_trees_make(0);
    for (size_t s = 0; s < sizeof data / sizeof *data; s++) {
        test_rows points = test_trees_rows(KITH_F32, ROWS, 12, data[s], 8);
        test_rows queries = test_trees_rows(KITH_F32, 40, 12, data[s], 9);
        const bool half = test_is_sanitized_build(); /* of them, others with other data */
        for (size_t i = half ? s % 2 : 0; i < sizeof ks / sizeof *ks; i += half ? 2 : 1) {
            test_trees_four(&t, &points, &queries, test_tree_metrics[i % TEST_TREE_METRICS], ks[i],
                            test_shape_name(data[s]));
        }
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    test_trees_end(&t, "k from 1 to 1,024");
    test_trees_free(&t);
}

/* ---- Places where trees go wrong ------------------------------------------------------------ */

/* Points on split planes whose distances tie: an integer grid, in order and shuffled. */
static void grids(void **state)
{
    (void)state;
    enum { SIDE = 14, ROWS = SIDE * SIDE * SIDE };
    test_trees t = test_trees_make(0);
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        test_rows points = test_rows_make(KITH_U8, ROWS, 3, 0);
        for (int64_t i = 0; i < ROWS; i++) {
            int64_t place = shuffled ? i * 1009 % ROWS : i;
            for (int32_t c = 0; c < 3; c++) {
                test_rows_set(&points, i, c, (double)(place % SIDE));
                place /= SIDE;
            }
        }
        for (int m = 0; m < TEST_TREE_METRICS; m++) {
            test_trees_four(&t, &points, &points, test_tree_metrics[m], 7, "grid of 14^3");
        }
        test_rows_free(&points);
    }
    test_trees_end(&t, "ties on split planes");
    test_trees_free(&t);
}

/* Constant columns, all on one line, far outside, tiny and huge numbers. */
static void set_case(const test_rows *rows, int which, uint64_t *seed)
{
    for (int64_t i = 0; i < rows->matrix.rows; i++) {
        const double along = test_gauss(seed);
        for (int32_t c = 0; c < rows->matrix.cols; c++) {
            const double x = test_gauss(seed);
            const double values[] = {c == 1 ? x : 3.5,
                                     along * (c + 1),
                                     i % 50 == 0 ? 1e8 * x : x,
                                     x * 0x1p-140,
                                     x * 1e37,
                                     i == 7 ? 1e30 : x,
                                     i % 2 == 0 ? x * 1e-20 : x * 1e20,
                                     1e4 + 1e-3 * x};
            test_rows_set(rows, i, c, values[which]);
        }
    }
}

static void extremes(void **state)
{
    (void)state;
    static const char *const names[] = {"constant columns", "on a line", "far outside",
                                        "subnormals",       "huge",      "one at 1e30",
                                        "both ends",        "offset"};
    test_trees t = test_trees_make(0);
    uint64_t seed = 11;
    for (int which = 0; which < 8; which++) {
        for (int m = 0; m < TEST_TREE_METRICS; m++) {
            for (int wide = 0; wide < 2; wide++) {
                test_rows points = test_rows_make(wide ? KITH_F64 : KITH_F32, 500, 5, 0);
                test_rows queries = test_rows_make(KITH_F32, 64, 5, 0);
                set_case(&points, which, &seed);
                set_case(&queries, which, &seed);
                test_trees_four(&t, &points, &queries, test_tree_metrics[m], 6, names[which]);
                test_rows_free(&queries);
                test_rows_free(&points);
            }
        }
    }
    test_trees_end(&t, "constant, collinear, distant, subnormal and huge data");
    test_trees_free(&t);
}

/* Doubles at the ends of their range: keys that underflow are ordered by id. */
static void doubles(void **state)
{
    (void)state;
    static const double scales[] = {1e-160, 1e-300, 0x1p499, 0x1p-1060};
    test_trees t = test_trees_make(0);
    uint64_t seed = 13;
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        for (int m = 0; m < TEST_TREE_METRICS; m++) {
            test_rows points = test_rows_make(KITH_F64, 300, 3, 0);
            test_rows_fill(&points, scales[s], 0, &seed);
            test_trees_four(&t, &points, &points, test_tree_metrics[m], 5, "ends of double");
            test_rows_free(&points);
        }
    }
    test_trees_end(&t, "float64 from 2^-1060 to 2^499");
    test_trees_free(&t);
}

/* ---- The suite ------------------------------------------------------------------------------ */

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(shapes),          cmocka_unit_test(types), cmocka_unit_test(sizes),
    cmocka_unit_test(many_neighbours), cmocka_unit_test(grids), cmocka_unit_test(extremes),
    cmocka_unit_test(doubles),
};

const test_suite test_suite_tree = {"tree", TESTS, sizeof TESTS / sizeof *TESTS};
