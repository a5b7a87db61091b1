/* SPDX-License-Identifier: Apache-2.0
 * The start of NN-Descent from cells, with a share of all pairs: true costs in order, what the
 * lists hold of the true ones, the same on one and on several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "graph/graph_join.h"
#include "graph/graph_start.h"
#include "host/host_cpu.h"
#include "screen/screen_corpus.h"
#include "select/select_word.h"
#include "support/support_keys.h"
#include "support/support_matcher.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct starting {
    kith_ctx *ctx;
    kin_prepared prepared;
    kin_graph_points points;
    kin_graph_join matcher;
    void *matching; /* its arrays */
} starting;

/* In place: sets and points know where what they were made from stands. */
static void start_make(starting *s, const test_rows *rows, kith_metric metric, kin_isa isa,
                       int32_t threads)
{
    s->ctx = test_ctx(isa, threads);
    const kith_matrix *m = &rows->matrix;
    const kin_distance distance = {.metric = metric, .cols = m->cols, .isa = isa};
    assert_int_equal(kin_prepare_rows(s->ctx, m, &distance, "points", 0, &s->prepared), KITH_OK);
    assert_int_equal(
        kin_prepare_corpus(s->ctx, kin_frame_is_integer(&distance, m, m), 11, &s->prepared),
        KITH_OK);
    assert_int_equal(kin_graph_points_make(s->ctx, &s->prepared, &s->points), KITH_OK);
    s->matching = test_matcher_make(s->ctx, &s->points, 1, 64, &s->matcher);
    assert_non_null(s->matching);
}

static void start_free(starting *s)
{
    kin_free(s->ctx, s->matching);
    kin_graph_points_free(s->ctx, &s->points);
    kin_prepared_free(s->ctx, &s->prepared);
    kith_ctx_free(s->ctx);
}

/* All words of a position but its own, ascending. */
static void rank_all(starting *s, uint32_t position, uint32_t *others, uint64_t *words)
{
    const int64_t count = s->points.count;
    uint32_t *orders = others + count;
    int64_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i != position) {
            others[kept++] = i;
        }
    }
    kin_graph_join_one(&s->matcher, position, others, kept, orders);
    for (int64_t i = 0; i < kept; i++) {
        words[i] = kin_graph_word(orders[i], others[i], 1);
    }
    kin_select_sort_words(words, kept);
}

static int64_t find(const uint64_t *words, int64_t count, uint64_t word)
{
    for (int64_t i = 0; i < count; i++) {
        if (words[i] == word) {
            return i;
        }
    }
    return -1;
}

/* A row of the start: ascending, true costs, none twice, not itself; what it found of the first
 * `length` there are. */
static int64_t check_row(const uint64_t *row, int32_t length, const uint64_t *all, int64_t others)
{
    int64_t found = 0;
    for (int32_t i = 0; i < length; i++) {
        if (row[i] == KIN_GRAPH_EMPTY) {
            continue;
        }
        assert_true(i == 0 || row[i - 1] < row[i]);
        const int64_t rank = find(all, others, row[i]);
        assert_true(rank >= i);
        found += rank < length;
    }
    return found;
}

/* Share of the true lists that is found. */
static double check_start(starting *s, int32_t length, const uint64_t *words)
{
    enum { ROWS = 40 };
    const int64_t count = s->points.count;
    uint32_t *others = malloc(sizeof(uint32_t) * 2 * (size_t)count);
    uint64_t *all = malloc(sizeof(uint64_t) * (size_t)count);
    assert_non_null(others);
    assert_non_null(all);
    int64_t found = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t position = i * (count - 1) / (ROWS - 1);
        rank_all(s, (uint32_t)position, others, all);
        found += check_row(words + position * length, length, all, count - 1);
    }
    free(all);
    free(others);
    return (double)found / (double)kin_min_i64(length, count - 1) / ROWS;
}

static void start_twice(const test_rows *rows, kith_metric metric, kin_isa isa, double share,
                        double least)
{
    enum { LENGTH = 14 };
    const size_t bytes = sizeof(uint64_t) * LENGTH * (size_t)rows->matrix.rows;
    uint64_t *words[2] = {malloc(bytes), malloc(bytes)};
    kin_graph_started started[2] = {0};
    int64_t count = 0;
    for (int i = 0; i < 2; i++) {
        starting s;
        start_make(&s, rows, metric, isa, i == 0 ? 1 : 4);
        count = s.points.count;
        const kin_graph_starting start = {.points = &s.points,
                                          .share = share,
                                          .wanted = LENGTH,
                                          .length = LENGTH,
                                          .words = words[i]};
        assert_int_equal(kin_graph_start_screen(s.ctx, &start, &started[i]), KITH_OK);
        if (i == 0) {
            const double found = check_start(&s, LENGTH, words[0]);
            printf("  %s, %lld points, share %.3f of which %.3f was looked at: %.3f of the lists\n",
                   kin_isa_name(isa), (long long)count, share,
                   2.0 * started[0].evaluations / (double)count / (double)count, found);
            assert_true(found >= least);
        }
        start_free(&s);
    }
    assert_true(started[0].evaluations == started[1].evaluations);
    assert_memory_equal(words[0], words[1], sizeof(uint64_t) * LENGTH * (size_t)count);
    free(words[0]);
    free(words[1]);
}

/* Cells of whole numbers are the same on every machine, and so is what meets in them. */
static void start_everywhere(const test_rows *rows, kith_metric metric)
{
    enum { LENGTH = 14 };
    const size_t bytes = sizeof(uint64_t) * LENGTH * (size_t)rows->matrix.rows;
    uint64_t *words[2] = {malloc(bytes), malloc(bytes)};
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        starting s;
        kin_graph_started started = {0};
        if (!kin_cpu_has((kin_isa)isa)) {
            continue;
        }
        start_make(&s, rows, metric, (kin_isa)isa, 2);
        const kin_graph_starting start = {.points = &s.points,
                                          .share = 0.05,
                                          .wanted = 10,
                                          .length = LENGTH,
                                          .words = words[isa > 0]};
        assert_int_equal(kin_graph_start_screen(s.ctx, &start, &started), KITH_OK);
        assert_true(isa == 0 || memcmp(words[0], words[1],
                                       sizeof(uint64_t) * LENGTH * (size_t)s.points.count) == 0);
        start_free(&s);
    }
    free(words[0]);
    free(words[1]);
}

static void starts(void **state)
{
    (void)state;
    const int64_t many = test_is_slow_build() ? 2500 : 9000;
    uint64_t seed = 5;
    test_rows bytes = test_rows_make(KITH_U8, many, 12, 0);
    test_rows floats = test_rows_make(KITH_F32, many, 12, 0);
    test_rows_fill(&bytes, 100.0, 0, &seed);
    test_shape_fill(&floats, SHAPE_GAUSS, false, &seed);
    const kin_isa best = kin_cpu_best();
    start_twice(&bytes, KITH_EUCLIDEAN, best, 0.2, 0.2);
    start_twice(&bytes, KITH_INNER_PRODUCT, best, 0.2, 0.8);
    start_twice(&bytes, KITH_EUCLIDEAN, KIN_ISA_PORTABLE, 0.01, 0.03);
    start_twice(&floats, KITH_EUCLIDEAN, best, 0.2, 0.2);
    start_twice(&floats, KITH_INNER_PRODUCT, KIN_ISA_PORTABLE, 0.2, 0.8);
    start_everywhere(&bytes, KITH_EUCLIDEAN);
    start_everywhere(&bytes, KITH_INNER_PRODUCT);
    test_rows_free(&floats);
    test_rows_free(&bytes);
    printf("starts: true costs in order, none twice, the same bytes on 1 and on 4 threads\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(starts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
