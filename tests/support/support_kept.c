/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_rows.h"
#include "tree/tree_bound.h"
#include "tree/tree_cost.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_COLS = 32, QUERIES = 40, NEIGHBOURS = 10 };

/* ---- A kept tree ---------------------------------------------------------------------------- */

int64_t test_kept_below(test_kept *k, int64_t count)
{
    return (int64_t)(test_uniform(&k->seed) * (double)count);
}

static kith_matrix matrix_of(const test_kept *k)
{
    return (kith_matrix){.data = k->data,
                         .dtype = k->dtype,
                         .rows = k->rows,
                         .cols = k->cols,
                         .stride_bytes = (int64_t)k->row_bytes};
}

static kith_status prepare(const test_kept *k, kin_prepared *prepared)
{
    const kith_matrix matrix = matrix_of(k);
    const kin_distance distance = {.metric = k->metric, .cols = k->cols, .isa = k->ctx->isa};
    return kin_prepare_rows(k->ctx, &matrix, &distance, "points", 0, prepared);
}

static void copy_row(const test_kept *k, int64_t to, int64_t from)
{
    memcpy(k->data + (size_t)to * k->row_bytes, k->data + (size_t)from * k->row_bytes,
           k->row_bytes);
}

static void set_value(const test_kept *k, int64_t row, int32_t col, double x)
{
    const test_rows rows = {.matrix = matrix_of(k)};
    test_rows_set(&rows, row, col, k->dtype == KITH_U8 ? fmin(fmax(200.0 * x, 0.0), 255.0) : x);
}

static double value_of(test_kept *k, test_coming what, int64_t row, int32_t col)
{
    switch (what) {
    case COMING_CLUSTERED:
        return 0.25 + 1e-4 * test_uniform(&k->seed);
    case COMING_SORTED:
        return col == 0 ? 1.0 + 1e-3 * (double)row : test_uniform(&k->seed);
    case COMING_EQUAL:
        return 0.5 + 1e-3 * (double)k->looks;
    case COMING_GRID:
        return (double)test_kept_below(k, 4) * 0.25;
    case COMING_FAR:
        return 0x1p70 * (test_uniform(&k->seed) - 0.5);
    case COMING_TWICE:
        return (row % 11 == 0 ? 0.001 : 0.3) + 1e-4 * test_uniform(&k->seed);
    default:
        return test_uniform(&k->seed);
    }
}

static void append_rows(test_kept *k, test_coming what, int64_t count)
{
    assert_true(k->rows + count <= TEST_KEPT_ROWS);
    const int64_t there = k->rows;
    for (int64_t i = 0; i < count; i++) {
        if (what == COMING_COPIES && there > 0) {
            copy_row(k, k->rows, test_kept_below(k, there));
        } else {
            for (int32_t c = 0; c < k->cols; c++) {
                set_value(k, k->rows, c, value_of(k, what, k->rows, c));
            }
        }
        k->rows += 1;
    }
}

test_kept test_kept_make(kith_ctx *ctx, kith_dtype dtype, kith_metric metric, int32_t cols,
                         test_coming what, int64_t rows, bool roomy)
{
    test_kept k = {.ctx = ctx,
                   .metric = metric,
                   .dtype = dtype,
                   .cols = cols,
                   .row_bytes = (size_t)cols * (size_t)kith_dtype_bytes(dtype),
                   .seed = 41};
    k.data = malloc(TEST_KEPT_ROWS * k.row_bytes);
    assert_non_null(k.data);
    append_rows(&k, what, rows);
    assert_int_equal(prepare(&k, &k.corpus), KITH_OK);
    assert_int_equal((roomy ? kin_tree_make_roomy : kin_tree_make)(k.ctx, &k.corpus, 48, &k.tree),
                     KITH_OK);
    return k;
}

void test_kept_free(test_kept *k)
{
    kin_tree_free(k->ctx, &k->tree);
    kin_prepared_free(k->ctx, &k->corpus);
    kith_ctx_free(k->ctx);
    free(k->data);
}

/* ---- What a tree must be -------------------------------------------------------------------- */

static float component(const kin_tree *tree, int64_t at, int32_t column)
{
    return tree->values[(at / KIN_TREE_LANES * tree->cols + column) * KIN_TREE_LANES +
                        at % KIN_TREE_LANES];
}

static void assert_point(const test_kept *k, int64_t leaf, int64_t at)
{
    const kin_tree *tree = &k->tree;
    _Alignas(64) double values[MOST_COLS];
    float row[MOST_COLS];
    const kin_query point =
        kin_metric_load(&k->corpus.distance, &k->corpus.rows, tree->ids[at], values);
    const float lost = kin_tree_lost_kept(kin_tree_round(tree, point.values, row));
    for (int32_t c = 0; c < tree->cols; c++) {
        const float x = component(tree, at, c);
        assert_memory_equal(&x, &row[c], sizeof x);
    }
    for (int64_t node = kin_tree_leaves(tree) + leaf; node >= 1; node /= 2) {
        const float *box = kin_tree_box(tree, node);
        assert_true(tree->lost[node] >= lost);
        for (int32_t c = 0; c < tree->cols; c++) {
            assert_true(row[c] >= box[c] && row[c] <= box[tree->cols + c]);
        }
        if (node > 1) {
            const float x = row[tree->planes[node / 2]];
            const float split = tree->splits[node / 2];
            assert_true(node % 2 == 0 ? x <= split : x >= split);
        }
    }
}

static void assert_holes(const kin_tree *tree, int64_t first, int64_t behind)
{
    for (int64_t at = first; at < behind; at++) {
        assert_int_equal(tree->ids[at], KITH_ID_NONE);
        for (int32_t c = 0; c < tree->cols; c++) {
            assert_true(component(tree, at, c) == 0.0F);
        }
    }
}

/* Each first of a group stands in one lane. */
static void assert_whole(const test_kept *k)
{
    const kin_tree *tree = &k->tree;
    const kin_groups *groups = &k->corpus.groups;
    uint8_t *missing = calloc((size_t)k->rows, 1);
    int64_t seen = 0;
    assert_non_null(missing);
    assert_int_equal(tree->points, groups->count);
    for (int64_t i = 0; i < groups->count; i++) {
        missing[groups->firsts[i]] = 1;
    }
    for (int64_t leaf = 0; leaf < kin_tree_leaves(tree); leaf++) {
        const int64_t first = (int64_t)tree->starts[leaf] * KIN_TREE_LANES;
        const int64_t behind = (int64_t)tree->starts[leaf + 1] * KIN_TREE_LANES;
        const int64_t last = first + tree->counts[leaf];
        assert_int_equal(tree->starts[leaf], kin_tree_block_of(tree->blocks, tree->height, leaf));
        assert_true(last <= behind);
        assert_holes(tree, last, behind);
        for (int64_t at = first; at < last; at++) {
            assert_true(tree->ids[at] < k->rows && missing[tree->ids[at]] == 1);
            missing[tree->ids[at]] = 0;
            assert_point(k, leaf, at);
            seen += 1;
        }
    }
    assert_int_equal(tree->starts[kin_tree_leaves(tree)], tree->blocks);
    assert_int_equal(seen, groups->count);
    free(missing);
}

/* ---- Searches ------------------------------------------------------------------------------- */

/* Half of the queries are rows, the others stand anywhere. */
static test_rows queries_of(test_kept *k)
{
    test_rows queries = test_rows_make(k->dtype, QUERIES, k->cols, 0);
    for (int64_t q = 0; q < QUERIES; q++) {
        const int64_t row = test_kept_below(k, k->rows);
        for (int32_t c = 0; c < k->cols; c++) {
            const double x = 1.2 * test_uniform(&k->seed);
            test_rows_set(&queries, q, c, k->dtype == KITH_U8 ? 200.0 * x : x);
        }
        if (q % 2 == 0) {
            const test_rows own = {.matrix = matrix_of(k)};
            test_rows_copy(&queries, q, &own, row);
        }
    }
    return queries;
}

static void assert_answers(test_kept *k)
{
    test_rows queries = queries_of(k);
    const kith_matrix points = matrix_of(k);
    const int64_t wanted = k->rows < NEIGHBOURS ? k->rows : NEIGHBOURS;
    const kin_request request = {
        .distance = k->corpus.distance, .k = wanted, .method = KITH_METHOD_TREE};
    kith_neighbors right = test_answer_make(QUERIES, wanted);
    kith_neighbors got = test_answer_make(QUERIES, wanted);
    kith_search_params params = kith_search_params_default();
    params.k = wanted;
    params.metric = k->metric;
    params.method = KITH_METHOD_EXACT;
    assert_int_equal(kith_search(k->ctx, &points, &queries.matrix, &params, &right, NULL), KITH_OK);
    assert_int_equal(kin_tree_search(k->ctx, &k->corpus, &k->tree, &queries.matrix, &request, &got),
                     KITH_OK);
    assert_false(test_answers_differ("a kept tree", &right, &got));
    test_answer_free(&got);
    test_answer_free(&right);
    test_rows_free(&queries);
}

void test_kept_look(test_kept *k)
{
    assert_whole(k);
    assert_answers(k);
    k->looks += 1;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

void test_kept_append(test_kept *k, test_coming what, int64_t count, kin_prepared *after)
{
    append_rows(k, what, count);
    assert_int_equal(prepare(k, after), KITH_OK);
}

void test_kept_add(test_kept *k, test_coming what, int64_t count)
{
    const int64_t first_new = k->rows;
    const int64_t blocks = k->tree.blocks;
    kin_prepared after;
    test_kept_append(k, what, count, &after);
    assert_int_equal(kin_tree_add(k->ctx, &after, first_new, &k->tree), KITH_OK);
    kin_prepared_free(k->ctx, &k->corpus);
    k->corpus = after;
    k->made_again += k->tree.blocks != blocks;
}

void test_kept_remove(test_kept *k, const uint8_t *gone)
{
    uint32_t *removed = malloc((size_t)k->rows * sizeof *removed);
    const int64_t blocks = k->tree.blocks;
    int64_t count = 0;
    int64_t left = 0;
    assert_non_null(removed);
    for (int64_t row = 0; row < k->rows; row++) {
        if (gone[row]) {
            removed[count++] = (uint32_t)row;
        } else {
            memmove(k->data + (size_t)left * k->row_bytes, k->data + (size_t)row * k->row_bytes,
                    k->row_bytes);
            left += 1;
        }
    }
    k->rows = left;
    kin_prepared after;
    assert_int_equal(prepare(k, &after), KITH_OK);
    if (k->faulty != NULL) {
        k->faulty->fails_at = atomic_load(&k->faulty->asked) + 1;
    }
    kin_tree_remove(k->ctx, &k->corpus.groups, &after, removed, count, &k->tree);
    if (k->faulty != NULL) {
        k->faulty->fails_at = 0;
    }
    kin_prepared_free(k->ctx, &k->corpus);
    k->corpus = after;
    k->made_again += k->tree.blocks != blocks;
    free(removed);
}

void test_kept_remove_some(test_kept *k, int64_t count)
{
    uint8_t *gone = calloc((size_t)k->rows, 1);
    assert_non_null(gone);
    count = count < k->rows ? count : k->rows - 1;
    while (count > 0) {
        const int64_t row = test_kept_below(k, k->rows);
        count -= !gone[row];
        gone[row] = 1;
    }
    test_kept_remove(k, gone);
    free(gone);
}

void test_kept_remove_firsts(test_kept *k)
{
    const kin_groups *groups = &k->corpus.groups;
    uint8_t *gone = calloc((size_t)k->rows, 1);
    assert_non_null(gone);
    for (int64_t i = 0; i < groups->count && groups->weights != NULL; i++) {
        gone[groups->firsts[i]] = groups->weights[groups->firsts[i]] > 1;
    }
    test_kept_remove(k, gone);
    free(gone);
}

void test_kept_remove_all_but(test_kept *k, int64_t row)
{
    uint8_t *gone = malloc((size_t)k->rows);
    assert_non_null(gone);
    memset(gone, 1, (size_t)k->rows);
    gone[row] = 0;
    test_kept_remove(k, gone);
    free(gone);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

bool test_trees_equal(const kin_tree *a, const kin_tree *b)
{
    const size_t places = (size_t)a->blocks * KIN_TREE_LANES;
    const size_t leaves = (size_t)kin_tree_leaves(a);
    const size_t cols = (size_t)a->cols;
    return a->height == b->height && a->blocks == b->blocks && a->points == b->points &&
           memcmp(&a->scale, &b->scale, sizeof a->scale) == 0 &&
           memcmp(a->shift, b->shift, cols * sizeof *a->shift) == 0 &&
           memcmp(a->starts, b->starts, (leaves + 1) * sizeof *a->starts) == 0 &&
           memcmp(a->counts, b->counts, leaves * sizeof *a->counts) == 0 &&
           memcmp(a->values, b->values, places * cols * sizeof *a->values) == 0 &&
           memcmp(a->ids, b->ids, places * sizeof *a->ids) == 0 &&
           memcmp(a->boxes, b->boxes, 4 * leaves * cols * sizeof *a->boxes) == 0 &&
           memcmp(a->lost, b->lost, 2 * leaves * sizeof *a->lost) == 0 &&
           memcmp(a->splits, b->splits, leaves * sizeof *a->splits) == 0 &&
           memcmp(a->planes, b->planes, leaves * sizeof *a->planes) == 0;
}

static void copy_block(void *to, const void *from, size_t bytes)
{
    void **out = to;
    *out = malloc(bytes);
    assert_non_null(*out);
    memcpy(*out, from, bytes);
}

kin_tree test_tree_copy(const kin_tree *tree)
{
    const size_t places = (size_t)tree->blocks * KIN_TREE_LANES;
    const size_t leaves = (size_t)kin_tree_leaves(tree);
    const size_t cols = (size_t)tree->cols;
    kin_tree copy = *tree;
    copy_block(&copy.shift, tree->shift, cols * sizeof *tree->shift);
    copy_block(&copy.starts, tree->starts, (leaves + 1) * sizeof *tree->starts);
    copy_block(&copy.counts, tree->counts, leaves * sizeof *tree->counts);
    copy_block(&copy.values, tree->values, places * cols * sizeof *tree->values);
    copy_block(&copy.ids, tree->ids, places * sizeof *tree->ids);
    copy_block(&copy.boxes, tree->boxes, 4 * leaves * cols * sizeof *tree->boxes);
    copy_block(&copy.lost, tree->lost, 2 * leaves * sizeof *tree->lost);
    copy_block(&copy.splits, tree->splits, leaves * sizeof *tree->splits);
    copy_block(&copy.planes, tree->planes, leaves * sizeof *tree->planes);
    return copy;
}

void test_tree_copy_free(kin_tree *copy)
{
    free(copy->planes);
    free(copy->splits);
    free(copy->lost);
    free(copy->boxes);
    free(copy->ids);
    free(copy->values);
    free(copy->counts);
    free(copy->starts);
    free(copy->shift);
}
