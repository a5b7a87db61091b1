/* SPDX-License-Identifier: Apache-2.0
 * Exact merges look only as far as lists tell them: what bounds leave out is in no list, by pairs
 * compared one by one; sets in the order of their clusters, few new points of any kind, ties at the
 * k-th place across the sets, and two threads give the bytes of the graph of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_mem.h"
#include "exact/exact_search.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_engines.h"
#include "support/support_merges.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLS = 9, K = 10, SIDES = KIN_BOUNDS_SIDES };

/* Clusters one after another, far apart; each of them is a shape of its own. */
static void fill_in_order(const test_rows *points, int64_t clusters, uint64_t *seed)
{
    const int64_t rows = points->matrix.rows;
    const bool bytes = points->matrix.dtype == KITH_U8;
    double center[COLS] = {0.0};
    for (int64_t row = 0; row < rows; row++) {
        const bool begins = row * clusters / rows != (row - 1) * clusters / rows || row == 0;
        for (int col = 0; col < COLS; col++) {
            if (begins) {
                center[col] = (bytes ? 60.0 : 200.0) * fabs(test_gauss(seed));
            }
            const double value = fabs(center[col] + test_gauss(seed));
            test_rows_set(points, row, col, bytes ? fmin(value, 255.0) : value);
        }
    }
}

static void is_true(kith_ctx *ctx, const kith_matrix *points, const kith_search_params *params,
                    const int64_t *splits, int count)
{
    kith_neighbors truth = test_answer_exact(ctx, points, params->metric, params->k, params->flags);
    for (int i = 0; i < count; i++) {
        test_merge_is_true(ctx, points, splits[i], params, &truth);
    }
    test_answer_free(&truth);
}

/* ---- Bounds --------------------------------------------------------------------------------- */

/* Rows of each set that have one of the other within the limit of either; keys are distances. */
static void find_pairs(kith_ctx *ctx, const kin_bounds_part parts[SIDES], kith_metric metric,
                       bool *needed[SIDES])
{
    const int64_t rows = parts[0].rows.rows;
    const int64_t others = parts[1].rows.rows;
    uint32_t *ids = malloc((size_t)others * 2 * sizeof *ids);
    double *keys = malloc((size_t)others * sizeof *keys);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < others; i++) {
            ids[i] = (uint32_t)row;
            ids[others + i] = (uint32_t)i;
        }
        test_works(ctx, kith_distances(ctx, &parts[1].rows, &parts[0].rows, metric,
                                       &(kith_pairs){others, ids, ids + others}, keys));
        for (int64_t i = 0; i < others; i++) {
            if (keys[i] <= parts[0].known.keys[row] || keys[i] <= parts[1].known.keys[i]) {
                needed[0][row] = true;
                needed[1][i] = true;
            }
        }
    }
    free(keys);
    free(ids);
}

/* Returns the share of rows that were picked. */
static double pick_is_enough(kith_ctx *ctx, const kith_matrix *points, int64_t first_rows,
                             kith_metric metric)
{
    const int64_t rows[SIDES] = {first_rows, points->rows - first_rows};
    const kin_bounds_sets sets = {
        .distance = {.metric = metric, .cols = points->cols, .isa = ctx->isa},
        .rows = rows[0] > rows[1] ? rows[0] : rows[1],
        .count = SIDES};
    kin_bounds_part parts[SIDES];
    kin_bounds_rows picked[SIDES] = {0};
    bool *needed[SIDES];
    double *limits[SIDES];
    kin_bounds bounds;
    for (int i = 0; i < SIDES; i++) {
        const kith_matrix part = test_part_of(points, i * first_rows, rows[i]);
        kith_neighbors graph = test_answer_exact(ctx, &part, metric, K, 0);
        needed[i] = calloc((size_t)rows[i], sizeof *needed[i]);
        limits[i] = malloc((size_t)rows[i] * sizeof *limits[i]);
        for (int64_t row = 0; row < rows[i]; row++) {
            limits[i][row] = graph.distances64[row * K + K - 1];
        }
        parts[i] = (kin_bounds_part){i, part, {limits[i], 1}};
        test_answer_free(&graph);
    }
    find_pairs(ctx, parts, metric, needed);
    test_works(ctx, kin_bounds_make(ctx, &sets, &bounds));
    assert_true(bounds.usable);
    test_works(ctx, kin_bounds_pick(ctx, &bounds, parts, picked));
    kin_bounds_free(ctx, &bounds);
    const double share = (double)(picked[0].count + picked[1].count) / (double)points->rows;
    for (int i = 0; i < SIDES; i++) {
        int64_t at = 0;
        for (int64_t row = 0; row < rows[i]; row++) {
            const bool has = at < picked[i].count && picked[i].rows[at] == (uint32_t)row;
            assert_true(has || !needed[i][row]);
            at += has;
        }
        assert_int_equal(at, picked[i].count); /* rising, each once */
        kin_free(ctx, picked[i].rows);
        free(limits[i]);
        free(needed[i]);
    }
    return share;
}

/* Two rows of points one apart; between them a gap that the k-th neighbour of its ends is beyond.
 */
static void fill_with_gap(const test_rows *points, int64_t first_rows)
{
    for (int64_t row = 0; row < points->matrix.rows; row++) {
        for (int col = 0; col < COLS; col++) {
            const double gap = row < first_rows ? 0.0 : 0.8 * K - 1.0;
            test_rows_set(points, row, col, col == 0 ? (double)row + gap : 1.0);
        }
    }
}

static void bounds_leave_out_what_is_in_no_list(void **state)
{
    (void)state;
    enum { ROWS = 1800, FIRST = 1050 };
    static const test_shape shapes[] = {SHAPE_GAUSS,  SHAPE_CLUSTERS, SHAPE_GRID,    SHAPE_EQUAL,
                                        SHAPE_OFFSET, SHAPE_TINY,     SHAPE_OUTLIER, SHAPE_NORMS,
                                        SHAPE_TIGHT,  SHAPE_SPARSE,   SHAPE_COPIES};
    static const kith_metric metrics[] = {KITH_SQEUCLIDEAN, KITH_MANHATTAN, KITH_CHEBYSHEV,
                                          KITH_COSINE};
    const size_t count = sizeof shapes / sizeof *shapes;
    const size_t step = test_is_slow_build() ? 5 : test_is_sanitized_build() ? 2 : 1;
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 3;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    for (size_t i = 0; i < count; i += step) {
        test_shape_fill(&points, shapes[i], false, &seed);
        (void)pick_is_enough(ctx, &points.matrix, FIRST, metrics[i % 4]);
    }
    for (size_t i = 0; i < 3; i++) {
        fill_in_order(&points, 7, &seed);
        const double share = pick_is_enough(ctx, &points.matrix, FIRST, metrics[i]);
        (void)printf("    %-12s 7 clusters in order: %.2f of the rows can meet\n",
                     kith_metric_name(metrics[i]), share);
        assert_true(share > 0.0 && share < 0.5);
        fill_with_gap(&points, FIRST);
        (void)pick_is_enough(ctx, &points.matrix, FIRST, metrics[i]);
    }
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("what bounds leave out has no pair within a limit of either row\n");
}

/* ---- Merges --------------------------------------------------------------------------------- */

static void sets_in_order_meet_where_they_touch(void **state)
{
    (void)state;
    enum { ROWS = 2600, CLUSTERS = 13 };
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN,     KITH_SQEUCLIDEAN,
                                          KITH_CHEBYSHEV, KITH_COSINE,        KITH_CORRELATION,
                                          KITH_JACCARD,   KITH_INNER_PRODUCT, KITH_EUCLIDEAN};
    const size_t count = test_is_slow_build() ? 2 : sizeof metrics / sizeof *metrics;
    /* Between clusters, within one, and far from the middle.
     */
    static const int64_t splits[] = {1200, 1310, 2100};
    kith_ctx *ctx = test_engine_best_ctx(2);
    kith_search_params params = kith_search_params_default();
    uint64_t seed = 17;
    params.k = K;
    for (size_t i = 0; i < count; i++) {
        test_rows points = test_rows_make(i % 2 == 0 ? KITH_F32 : KITH_U8, ROWS, COLS, 0);
        fill_in_order(&points, CLUSTERS, &seed);
        for (int64_t row = 7; row < ROWS; row += 97) { /* copies, one of them far from home */
            test_rows_copy(&points, row, &points, row - 3);
        }
        test_rows_copy(&points, 5, &points, ROWS - 1);
        params.metric = metrics[i];
        params.flags = i % 3 == 1 ? KITH_INCLUDE_SELF : 0;
        is_true(ctx, &points.matrix, &params, splits, test_is_sanitized_build() ? 1 : 3);
        test_rows_free(&points);
    }
    kith_ctx_free(ctx);
    (void)printf("sets in the order of their clusters: the graph of all\n");
}

static void few_points_come(void **state)
{
    (void)state;
    enum { ROWS = 2050 };
    static const test_shape shapes[] = {SHAPE_EQUAL, SHAPE_GRID, SHAPE_COPIES, SHAPE_GAUSS};
    static const int64_t splits[] = {ROWS - 1, 1, ROWS - 4, 12, ROWS - 30, 25};
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE,    KITH_INNER_PRODUCT,
                                          KITH_JACCARD,   KITH_MANHATTAN, KITH_HAMMING};
    const size_t step = test_is_sanitized_build() ? 2 : 1;
    kith_search_params params = kith_search_params_default();
    uint64_t seed = 19;
    params.k = K;
    for (int32_t threads = 1; threads <= 2; threads++) {
        kith_ctx *ctx = test_engine_best_ctx(threads);
        for (size_t i = (size_t)threads - 1; i < sizeof shapes / sizeof *shapes; i += step) {
            test_rows points =
                test_rows_make((i + (size_t)threads) % 2 == 0 ? KITH_F32 : KITH_U8, ROWS, COLS, 0);
            test_shape_fill(&points, shapes[i], true, &seed);
            params.metric = metrics[(i + 2 * (size_t)threads) % 6];
            is_true(ctx, &points.matrix, &params, splits, 6);
            test_rows_free(&points);
        }
        kith_ctx_free(ctx);
    }
    (void)printf("1 to 30 points before or behind many: all equal, ties at the k-th place across "
                 "the sets, copies: the graph of all\n");
}

/* ---- Limits of memory, and refusals --------------------------------------------------------- */

static void memory_is_limited(void **state)
{
    (void)state;
    enum { ROWS = 1500, FIRST = 700 };
    kith_ctx *ctx = test_engine_best_ctx(2);
    uint64_t seed = 23;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    const kith_matrix part[] = {test_part_of(&points.matrix, 0, FIRST),
                                test_part_of(&points.matrix, FIRST, ROWS - FIRST)};
    kith_neighbors truth = test_answer_exact(ctx, &points.matrix, params.metric, K, 0);
    kith_neighbors one = test_merge_graph(ctx, &part[0], K, &params);
    kith_neighbors two = test_merge_graph(ctx, &part[1], K, &params);
    kith_neighbors out = test_answer_make(ROWS, K);
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(ctx, test_merge_exactly(ctx, &(kith_merge_sets){&points.matrix, FIRST, &one, &two},
                                       &params, &out));
    test_works(ctx, kith_ctx_report(ctx, &report));
    kith_ctx_params limited = kith_ctx_params_default();
    limited.threads = 2;
    limited.device = "cpu";
    for (int i = 0; i < 2; i++) {
        kith_ctx *tight = NULL;
        limited.memory_limit = i == 0 ? report.peak_bytes : report.peak_bytes / 3;
        assert_int_equal(kith_ctx_create(&limited, &tight), KITH_OK);
        const kith_status status = test_merge_exactly(
            tight, &(kith_merge_sets){&points.matrix, FIRST, &one, &two}, &params, &out);
        if (i == 0) {
            test_works(tight, status);
            assert_true(test_answers_equal(&out, &truth));
        } else {
            test_fails(tight, status, KITH_E_LIMIT, "memory_limit is ");
        }
        kith_ctx_free(tight);
    }
    test_rows_set(&points, FIRST + 3, 2, (double)NAN);
    test_fails(ctx,
               test_merge_exactly(ctx, &(kith_merge_sets){&points.matrix, FIRST, &one, &two},
                                  &params, &out),
               KITH_E_DATA, "points[703, 2] is NaN");
    test_answer_free(&out);
    test_answer_free(&two);
    test_answer_free(&one);
    test_answer_free(&truth);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    (void)printf("within the peak that was told, and refused far below; NaN is named\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bounds_leave_out_what_is_in_no_list),
                                       cmocka_unit_test(sets_in_order_meet_where_they_touch),
                                       cmocka_unit_test(few_points_come),
                                       cmocka_unit_test(memory_is_limited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
