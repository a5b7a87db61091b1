/* SPDX-License-Identifier: Apache-2.0
 * The tree itself: the same bytes from any number of threads, every point in one leaf, within its
 * boxes and on its side of each split. Bounds: a search in a tree whose bounds were weakened loses
 * neighbours. Searches with several threads, and what they hold beside what was planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_engines.h"
#include "support/support_shapes.h"
#include "support/support_trees.h"
#include "tree/tree_walk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static test_rows made(kith_dtype dtype, int64_t rows, int32_t cols, test_shape shape, uint64_t seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, 8);
    test_shape_fill(&r, shape, false, &seed);
    return r;
}

static kith_ctx *ctx_of(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.threads = threads;
    params.device = "cpu";
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static kin_distance distance_of(const kith_ctx *ctx, const test_rows *rows, kith_metric metric)
{
    return (kin_distance){.metric = metric, .cols = rows->matrix.cols, .isa = ctx->isa};
}

static kin_prepared prepare(kith_ctx *ctx, const test_rows *rows, kith_metric metric)
{
    kin_prepared prepared;
    const kin_distance distance = distance_of(ctx, rows, metric);
    assert_int_equal(kin_prepare_rows(ctx, &rows->matrix, &distance, "points", 0, &prepared),
                     KITH_OK);
    return prepared;
}

/* ---- The tree's bytes ----------------------------------------------------------------------- */

static void assert_same_tree(const kin_tree *a, const kin_tree *b)
{
    const size_t places = (size_t)a->blocks * KIN_TREE_LANES;
    const size_t leaves = (size_t)kin_tree_leaves(a);
    const size_t cols = (size_t)a->cols;
    assert_int_equal(a->height, b->height);
    assert_memory_equal(&a->scale, &b->scale, sizeof a->scale);
    assert_memory_equal(a->shift, b->shift, cols * sizeof *a->shift);
    assert_memory_equal(a->values, b->values, places * cols * sizeof *a->values);
    assert_memory_equal(a->ids, b->ids, places * sizeof *a->ids);
    assert_memory_equal(a->starts, b->starts, (leaves + 1) * sizeof *a->starts);
    assert_memory_equal(a->counts, b->counts, leaves * sizeof *a->counts);
    assert_memory_equal(a->boxes, b->boxes, 4 * leaves * cols * sizeof *a->boxes);
    assert_memory_equal(a->lost, b->lost, 2 * leaves * sizeof *a->lost);
    assert_memory_equal(a->splits, b->splits, leaves * sizeof *a->splits);
    assert_memory_equal(a->planes, b->planes, leaves * sizeof *a->planes);
}

static float component(const kin_tree *tree, int64_t at, int32_t column)
{
    return tree->values[(at / KIN_TREE_LANES * tree->cols + column) * KIN_TREE_LANES +
                        at % KIN_TREE_LANES];
}

static void assert_in_nodes(const kin_tree *tree, int64_t leaf, int64_t at)
{
    for (int64_t node = kin_tree_leaves(tree) + leaf; node >= 1; node /= 2) {
        const float *box = kin_tree_box(tree, node);
        for (int32_t c = 0; c < tree->cols; c++) {
            const float x = component(tree, at, c);
            assert_true(x >= box[c] && x <= box[tree->cols + c]);
        }
        if (node > 1) {
            const float x = component(tree, at, tree->planes[node / 2]);
            const float split = tree->splits[node / 2];
            assert_true(node % 2 == 0 ? x <= split : x >= split);
        }
    }
}

static void assert_whole(const kin_tree *tree)
{
    int64_t seen = 0;
    uint8_t *known = calloc((size_t)tree->points, 1);
    assert_non_null(known);
    for (int64_t leaf = 0; leaf < kin_tree_leaves(tree); leaf++) {
        const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
        const int64_t behind = (int64_t)tree->starts[leaf + 1] * KIN_TREE_LANES;
        assert_true(first + tree->counts[leaf] <= behind);
        for (int64_t at = first + tree->counts[leaf]; at < behind; at++) {
            assert_int_equal(tree->ids[at], KITH_ID_NONE);
        }
        for (int64_t at = first; at < first + tree->counts[leaf]; at++) {
            assert_true(tree->ids[at] < tree->points);
            assert_int_equal(known[tree->ids[at]], 0);
            known[tree->ids[at]] = 1;
            assert_in_nodes(tree, leaf, at);
            seen += 1;
        }
    }
    assert_int_equal(seen, tree->points);
    free(known);
}

static void build_with_all(const test_rows *rows, bool look_inside, int *cases)
{
    static const int32_t threads[] = {2, 3, 8};
    kith_ctx *alone = ctx_of(1);
    kin_prepared prepared = prepare(alone, rows, KITH_EUCLIDEAN);
    kin_tree wanted;
    assert_int_equal(kin_tree_make(alone, &prepared, 48, &wanted), KITH_OK);
    if (look_inside) {
        assert_whole(&wanted);
    }
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        kith_ctx *ctx = ctx_of(threads[t]);
        kin_tree got;
        assert_int_equal(kin_tree_make(ctx, &prepared, 48, &got), KITH_OK);
        assert_same_tree(&wanted, &got);
        kin_tree_free(ctx, &got);
        kith_ctx_free(ctx);
        *cases += 1;
    }
    kin_tree_free(alone, &wanted);
    kin_prepared_free(alone, &prepared);
    kith_ctx_free(alone);
}

static void builds(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_OUTLIER, SHAPE_LINE};
    int cases = 0;
    const size_t step = test_is_slow_build() ? 2 : 1;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s += step) {
        for (int wide = 0; wide < 2; wide++) {
            test_rows rows = made(wide ? KITH_F64 : KITH_F32, 150000, wide ? 6 : 3, shapes[s], 20);
            build_with_all(&rows, shapes[s] == SHAPE_GAUSS, &cases);
            test_rows_free(&rows);
        }
    }
    printf("%d trees of 150,000 points from 2 to 8 threads have the bytes of one thread\n", cases);
}

/* ---- Bounds --------------------------------------------------------------------------------- */

/* How a tree is made worse than it must be. */
typedef enum weak { SOUND = 0, NO_WIDENING, NO_LOSS, SHRUNKEN_BOXES, WEAK_COUNT } weak;

static void weaken(kin_tree *tree, weak how)
{
    const int64_t nodes = 2 * kin_tree_leaves(tree);
    if (how == NO_WIDENING) {
        tree->widen = 1.0F;
    }
    for (int64_t node = 1; node < nodes && how == NO_LOSS; node++) {
        tree->lost[node] = 0.0F;
    }
    for (int64_t node = 1; node < nodes && how == SHRUNKEN_BOXES; node++) {
        for (int32_t c = 0; c < tree->cols; c++) {
            float *box = tree->boxes + node * 2 * tree->cols;
            const float less = 0.1F * (box[tree->cols + c] - box[c]);
            box[c] += less;
            box[tree->cols + c] -= less;
        }
    }
}

enum { NEIGHBOURS = 10, MOST_COLS = 512 };

/* How many of the packet's queries have other neighbours than keys of all pairs say. */
static int wrong_queries(const kin_prepared *corpus, const kin_prepared *asked,
                         const kin_tree *tree, kin_tree_walk *walk, weak how)
{
    const int64_t rows = corpus->rows.matrix.rows;
    double *keys = malloc((size_t)rows * sizeof *keys);
    kin_pair *pairs = malloc((size_t)rows * sizeof *pairs);
    double *values = aligned_alloc(64, MOST_COLS * sizeof *values);
    int wrong = 0;
    assert_true(keys != NULL && pairs != NULL && values != NULL);
    for (int32_t q = 0; q < KIN_PACKET; q++) {
        float row[MOST_COLS];
        const kin_query query = kin_metric_load(&asked->distance, &asked->rows, q, values);
        const double rounded = kin_tree_round(tree, query.values, row);
        const double lost = how == NO_LOSS ? 0.0 : rounded;
        for (int32_t c = 0; c < tree->cols; c++) {
            walk->columns[c * KIN_PACKET + q] = row[c];
        }
        kin_tree_list_begin(tree, NEIGHBOURS, q, (float)(lost * (1.0 + 1e-6)), &walk->lists[q]);
        walk->reach[q] = INFINITY;
    }
    walk->waiting = 0xffff;
    kin_tree_walk_run(walk);
    for (int32_t q = 0; q < KIN_PACKET; q++) {
        const int64_t count = kin_tree_list_finish(&walk->lists[q], &walk->keys);
        const kin_query query = kin_metric_load(&asked->distance, &asked->rows, q, values);
        kin_metric_keys_run(&asked->distance, &query, &corpus->rows, 0, rows, keys);
        for (int64_t i = 0; i < rows; i++) {
            pairs[i] = (kin_pair){keys[i], (uint32_t)i, 1};
        }
        kin_select_sort_pairs(pairs, rows);
        wrong +=
            count != NEIGHBOURS || memcmp(pairs, walk->keys.pairs, NEIGHBOURS * sizeof *pairs) != 0;
    }
    free(values);
    free(pairs);
    free(keys);
    return wrong;
}

/* All points at nearly one distance from the origin, where all queries are: what is nearest is
 * decided by the last bits of long sums. */
static void fill_shell(const test_rows *points, const test_rows *queries, kith_metric metric,
                       uint64_t *seed)
{
    const int32_t cols = points->matrix.cols;
    for (int64_t i = 0; i < points->matrix.rows; i++) {
        double x[MOST_COLS];
        double size = 0.0;
        for (int32_t c = 0; c < cols; c++) {
            x[c] = test_gauss(seed);
            size = metric == KITH_EUCLIDEAN ? size + x[c] * x[c] : size + fabs(x[c]);
        }
        size = metric == KITH_EUCLIDEAN ? sqrt(size) : size;
        for (int32_t c = 0; c < cols; c++) {
            test_rows_set(points, i, c, x[c] / size);
        }
    }
    for (int64_t i = 0; i < queries->matrix.rows; i++) {
        for (int32_t c = 0; c < cols; c++) {
            test_rows_set(queries, i, c, 1e-9 * test_gauss(seed));
        }
    }
}

/* Two clusters far apart for their size: float32 sees their points blurred. */
static void fill_blurred(const test_rows *rows, uint64_t *seed)
{
    for (int64_t i = 0; i < rows->matrix.rows; i++) {
        for (int32_t c = 0; c < rows->matrix.cols; c++) {
            test_rows_set(rows, i, c, (i % 2 == 0 ? 1.0 : -1.0) + 1e-6 * test_gauss(seed));
        }
    }
}

static void fill_for(weak how, kith_metric metric, const test_rows *points,
                     const test_rows *queries)
{
    uint64_t seed = 31;
    if (how == NO_WIDENING) {
        fill_shell(points, queries, metric, &seed);
    } else if (how == NO_LOSS) {
        fill_blurred(points, &seed);
        fill_blurred(queries, &seed);
    } else {
        test_shape_fill(points, SHAPE_GAUSS, false, &seed);
        test_shape_fill(queries, SHAPE_GAUSS, false, &seed);
    }
}

static void name_walk(kin_layout *layout, void *job)
{
    kin_tree_walk *walk = job;
    kin_tree_walk_name(layout, walk->keys.tree, walk->keys.distance->isa, NEIGHBOURS, walk);
}

/* On the data that `data` is meant to fail on, with bounds weakened as `how` says. */
static int wrong_of(kith_metric metric, weak data, weak how)
{
    kith_ctx *ctx = test_engine_best_ctx(1);
    const kith_dtype dtype = data == NO_LOSS ? KITH_F64 : KITH_F32;
    const int32_t cols = data == NO_WIDENING ? MOST_COLS : 3;
    test_rows points = test_rows_make(dtype, 3000, cols, 0);
    test_rows queries = test_rows_make(dtype, KIN_PACKET, cols, 0);
    fill_for(data, metric, &points, &queries);
    kin_prepared corpus = prepare(ctx, &points, metric);
    kin_prepared asked = prepare(ctx, &queries, metric);
    kin_tree tree;
    kin_tree_walk walk = {0};
    assert_int_equal(kin_tree_make(ctx, &corpus, 64, &tree), KITH_OK);
    weaken(&tree, how);
    walk.keys = (kin_tree_keys){.tree = &tree,
                                .distance = &corpus.distance,
                                .corpus = &corpus.rows,
                                .queries = &asked.rows};
    void *arrays = NULL;
    assert_int_equal(kin_layout_make(ctx, name_walk, &walk, "a walk", &arrays), KITH_OK);
    const int wrong = wrong_queries(&corpus, &asked, &tree, &walk, how);
    kin_free(ctx, arrays);
    kin_tree_free(ctx, &tree);
    kin_prepared_free(ctx, &asked);
    kin_prepared_free(ctx, &corpus);
    test_rows_free(&queries);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    return wrong;
}

static void weakened(void **state)
{
    (void)state;
    if (test_is_thread_build()) {
        skip(); /* one thread walks */
    }
    static const char *const names[] = {"", "without widening", "without what rounding lost",
                                        "boxes a fifth too small"};
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_MANHATTAN, KITH_CHEBYSHEV};
    for (int how = NO_WIDENING; how < WEAK_COUNT; how++) {
        /* A maximum is rounded once: half of the slack of a limit's own arithmetic. */
        const int count = how == NO_WIDENING ? 2 : 3;
        for (int m = 0; m < count; m++) {
            const int wrong = wrong_of(metrics[m], (weak)how, (weak)how);
            printf("%s, %s: %d of %d queries wrong\n", names[how], kith_metric_name(metrics[m]),
                   wrong, KIN_PACKET);
            assert_true(wrong > 0);
            assert_int_equal(wrong_of(metrics[m], (weak)how, SOUND), 0);
        }
    }
}

/* Infinities and zeros keep the right side of every bound. */
static void ends_of_bounds(void **state)
{
    (void)state;
    const float widen = kin_tree_widen(4);
    assert_true(isinf(kin_tree_limit(KIN_NORM_TWO, INFINITY, 0.0F, widen)));
    assert_true(isinf(kin_tree_reach_of_value(KIN_NORM_TWO, INFINITY, widen, 0.0, 0.0, 0x1p-60F)));
    assert_true(isinf(kin_tree_reach_of_key(KIN_NORM_ONE, 1e300, 0x1p900, 0.0, 0x1p-60F)));
    assert_true(isinf(kin_tree_floor(0x1p1000)));
    assert_true(kin_tree_limit(KIN_NORM_TWO, kin_tree_floor(1.0), 0.0F, widen) > 0x1p-121F);
    assert_true(kin_tree_up(0.1) >= 0.1);
    assert_true((double)kin_tree_widen(1 << 20) > pow(1.0 + 0x1p-24, (1 << 20) + 8));
    assert_true((double)widen > pow(1.0 - 0x1p-24, -12.0));
    printf("bounds at zero, at infinity and for 2^20 columns\n");
}

/* ---- Searches ------------------------------------------------------------------------------- */

static void thread_counts(void **state)
{
    (void)state;
    const int64_t rows = test_is_slow_build() ? 20000 : 80000;
    int cases = 0;
    test_rows points = made(KITH_F32, rows, 4, SHAPE_TIGHT, 14);
    test_rows queries = made(KITH_F32, 5000, 4, SHAPE_TIGHT, 15);
    test_job job = {.name = "tight", .points = &points.matrix, .queries = &queries.matrix, .k = 10};
    kith_ctx *alone = ctx_of(1);
    kith_neighbors wanted;
    assert_int_equal(test_trees_solve(alone, &job, KITH_METHOD_EXACT, &wanted), KITH_OK);
    for (int32_t threads = 1; threads <= 8; threads += threads < 3 ? 1 : 5) {
        kith_ctx *ctx = ctx_of(threads);
        kith_neighbors got;
        assert_int_equal(test_trees_solve(ctx, &job, KITH_METHOD_TREE, &got), KITH_OK);
        assert_false(test_answers_differ("threads", &wanted, &got));
        test_answer_free(&got);
        kith_ctx_free(ctx);
        cases += 1;
    }
    test_answer_free(&wanted);
    kith_ctx_free(alone);
    test_rows_free(&queries);
    test_rows_free(&points);
    printf("1 to 8 threads: %d searches are the exact engine's bytes\n", cases);
}

static void plans(void **state)
{
    (void)state;
    if (test_is_thread_build()) {
        skip(); /* memory alone is looked at */
    }
    const int64_t rows = test_is_slow_build() ? 8000 : 30000;
    int cases = 0;
    for (int32_t threads = 1; threads <= 4; threads += 3) {
        for (int32_t cols = 2; cols <= 20; cols += 9) {
            kith_ctx *ctx = ctx_of(threads);
            test_rows points = made(KITH_F32, rows, cols, SHAPE_GAUSS, 17);
            test_rows queries = made(KITH_F32, 2000, cols, SHAPE_GAUSS, 18);
            test_job job = {.points = &points.matrix, .k = 70};
            for (int search = 0; search < 2; search++) {
                job.queries = search ? &queries.matrix : NULL;
                kith_search_params params = kith_search_params_default();
                params.k = job.k;
                params.method = KITH_METHOD_TREE;
                kith_plan plan = {.struct_size = sizeof plan};
                kith_report report = {.struct_size = sizeof report};
                kith_neighbors out;
                assert_int_equal(kith_plan_search(ctx, job.points, job.queries, &params, &plan),
                                 KITH_OK);
                assert_string_equal(plan.method, "tree");
                assert_int_equal(test_trees_solve(ctx, &job, KITH_METHOD_TREE, &out), KITH_OK);
                assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
                printf("%d threads, %d columns: held %.2f MB, planned %.2f MB\n", (int)threads,
                       (int)cols, (double)report.peak_bytes / 1e6, (double)plan.peak_bytes / 1e6);
                assert_true(report.peak_bytes <= plan.peak_bytes);
                test_answer_free(&out);
                cases += 1;
            }
            test_rows_free(&queries);
            test_rows_free(&points);
            kith_ctx_free(ctx);
        }
    }
    printf("%d jobs held no more than planned\n", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds),         cmocka_unit_test(weakened),
        cmocka_unit_test(ends_of_bounds), cmocka_unit_test(thread_counts),
        cmocka_unit_test(plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
