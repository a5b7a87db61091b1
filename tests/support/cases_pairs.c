/* SPDX-License-Identifier: Apache-2.0
 * Pairs within a radius and ground truth, in random trials against the oracle, to the last bit:
 * metrics, types, shapes with equal rows, filters of groups of one row and of none, bitmaps that
 * allow nothing, radii that are distances, chunks and parts. */
#include "support/cases.h"

#include "base/base_random.h"
#include "kith/kith_papers.h"
#include "support/support_engines.h"
#include "support/support_pairs.h"
#include "support/support_truth.h"

static uint64_t seed = 29;

static int64_t below(int64_t n)
{
    return (int64_t)kin_random_below(&seed, (uint64_t)n);
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

typedef struct limits {
    kith_filter filter;
    int64_t groups[ROWS];
    int64_t query_groups[ROWS];
    uint8_t allow[ROWS / 8];
} limits;

/* Some groups have one row, or none; some bitmaps allow nothing, or all. */
static void draw_limits(limits *l, bool two)
{
    const int64_t counts[] = {1, 3, 40, ROWS};
    const int64_t count = counts[below(4)];
    const int64_t keep = below(4);
    l->filter = kith_filter_default();
    for (int64_t i = 0; i < ROWS; i++) {
        l->groups[i] = below(count) * (count == 40 ? 1000000007 : 1);
        l->query_groups[i] = below(count + 1) * (count == 40 ? 1000000007 : 1);
        const bool yes = keep == 1 || (keep > 1 && below(3) != 0);
        l->allow[i / 8] = (uint8_t)(i % 8 == 0 ? 0 : l->allow[i / 8]);
        l->allow[i / 8] = (uint8_t)(l->allow[i / 8] | (yes ? 1 : 0) << i % 8);
    }
    l->filter.rule = (kith_rule)below(3);
    l->filter.allow = below(2) == 0 || l->filter.rule == KITH_RULE_NONE ? l->allow : NULL;
    if (l->filter.rule != KITH_RULE_NONE) {
        l->filter.groups = l->groups;
        l->filter.query_groups = two ? l->query_groups : NULL;
    }
}

/* Of one set, or of two. */
static void check_pairs(kith_ctx *ctx)
{
    const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_GRID, SHAPE_EQUAL, SHAPE_SPARSE};
    const int turn = (int)below(KITH_KL + 1);
    const int two = (int)below(2);
    limits l;
    told got;
    kith_pairs_report report;
    input in = input_make(turn < KITH_KL ? (kith_metric)(KITH_EUCLIDEAN + turn) : TEST_MINKOWSKI_3,
                          shapes[below(5)], 2 + below(ROWS - 1), 1 + (int32_t)below(20));
    draw_limits(&l, two != 0);
    in.params.filter = below(4) != 0 ? &l.filter : NULL;
    in.params.chunk_pairs = below(3) == 0 ? 1 + below(60) : 0;
    in.params.chunk_rows = below(3) == 0 ? 1 + below(60) : 0;
    told_free(&in.wanted[two]);
    in.wanted[two] = brute(&in.points.matrix, two != 0 ? &in.others.matrix : NULL, &in.params);
    test_works(ctx, find(ctx, &in, two, in.params, &got, &report));
    check_told(&in.wanted[two], &got, in.wanted[two].count);
    assert_int_equal(report.count, got.count);
    assert_int_equal(report.complete, 1);
    told_free(&got);
    input_free(&in);
}

/* ---- Truth ---------------------------------------------------------------------------------- */

static void check_truth(kith_ctx *ctx, int64_t *recounted)
{
    const int turn = (int)below(KITH_KL + 1);
    const kith_metric metric =
        turn < KITH_KL ? (kith_metric)(KITH_EUCLIDEAN + turn) : TEST_MINKOWSKI_3;
    test_truths_input *in = test_truths_make(metric, &seed);
    test_truths_answer *wanted = test_truths_brute(in);
    test_truths_check_found(ctx, in, wanted, recounted);
    free(wanted);
    test_truths_free(in);
}

static void trials(void **state)
{
    enum { PAIRS = 1000, TRUTHS = 1000 };
    const int share = test_is_slow_build() ? 10 : 1;
    kith_ctx *ctxs[] = {test_engine_best_ctx(1), test_engine_best_ctx(3)};
    int64_t recounted = 0;
    (void)state;
    for (int trial = 0; trial < PAIRS / share; trial++) {
        check_pairs(ctxs[trial % 2]);
    }
    for (int trial = 0; trial < TRUTHS / share; trial++) {
        check_truth(ctxs[trial % 2], &recounted);
    }
    print_message("%d trials of pairs, and %d of ground truth, are the oracle's\n", PAIRS / share,
                  TRUTHS / share);
    kith_ctx_free(ctxs[1]);
    kith_ctx_free(ctxs[0]);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(trials)};

const test_suite test_suite_pairs = {"pairs and truth", tests, sizeof tests / sizeof tests[0]};
