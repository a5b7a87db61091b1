/* SPDX-License-Identifier: Apache-2.0
 * Rows that are far from all others, heavy tails, and rows that no cheap type tells apart: answers
 * are the oracle's, canonical keys are counted and stay few, or are those of all pairs and no more,
 * and the memory is what was planned. Nothing here is timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "kith/kith_index.h"
#include "support/support_answers.h"
#include "support/support_keys.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>

enum { COLS = 16, K = 6, SMALL = 700, LARGE = 9000, ASKED = 24 };

typedef enum far_set {
    SET_PLAIN = 0,
    SET_SENTINEL, /* one row of -1.6375e30 */
    SET_PERCENT,  /* one row in a hundred 1e9 times as large */
    SET_LOGNORMAL,
    SET_CAUCHY,
    SET_CLUSTERS, /* two, tight, and far apart */
    SET_OFFSET,   /* 1e6 in all columns */
    SET_COLUMN,   /* one column 1e9 times as large */
    SET_DECADES,  /* columns of twelve decades */
    SET_SUBNORMAL,
    SET_CONSTANT, /* one column of 1e30 */
    SET_ZEROS,    /* nine rows of ten */
    SET_BITS,     /* 0 or 1, and one row of 1000 */
    SET_SCALES,   /* 16 blocks of rows, each with a scale of its own */
    SET_NESTED,   /* pairs of rows 1e-3 apart, norms of 1 to 1e4 in turn */
    SET_MEAN,     /* heavy tails about zero, and rows within 1e-29 of their mean */
    SET_COUNT
} far_set;

/* Rows come in pairs, one the other's negative, so that their mean is zero. */
static double about_zero(int64_t row, int64_t col)
{
    uint64_t seed = (uint64_t)(row / 2 * 64 + col + 1);
    const double x = test_gauss(&seed);
    const double heavy = x / (fabs(test_gauss(&seed)) + 1e-6);
    const double value = row >= 60 && row < 100 ? 1e-30 * x : heavy;
    return row % 2 == 0 ? value : -value;
}

static double value_of(far_set set, int64_t row, int64_t col, double size, uint64_t *seed)
{
    const double x = test_gauss(seed);
    switch (set) {
    case SET_SENTINEL:
        return row == 77 ? -1.6375e30 : x;
    case SET_PERCENT:
        return row % 100 == 77 ? 1e9 * x : x;
    case SET_LOGNORMAL:
        return x * exp(2.0 * size);
    case SET_CAUCHY:
        return x / (fabs(test_gauss(seed)) + 1e-12);
    case SET_CLUSTERS:
        return (row % 2 == 0 ? 1e6 : -1e6) + x;
    case SET_OFFSET:
        return 1e6 + x;
    case SET_COLUMN:
        return col == 3 ? 1e9 * x : x;
    case SET_DECADES:
        return x * pow(10.0, 12.0 * (double)col / COLS - 6.0);
    case SET_SUBNORMAL:
        return row % 3 == 0 ? 1e-40 * x : x;
    case SET_CONSTANT:
        return col == 3 ? 1e30 : x;
    case SET_ZEROS:
        return row % 10 == 0 ? x : 0.0;
    case SET_BITS:
        return row == 77 ? 1000.0 : x > 0.0 ? 1.0 : 0.0;
    case SET_SCALES:
        return x * pow(10.0, (double)(row % 16) / 4.0);
    case SET_NESTED:
        return (double)((row / 2 + 1) * (col + 3) * 7919 % 1009 - 504) / 500.0 *
                   pow(10.0, (double)(row / 2 % 5)) +
               1e-3 * x;
    case SET_MEAN:
        return about_zero(row, col);
    default:
        return x;
    }
}

static test_rows rows_of(far_set set, kith_dtype dtype, int64_t count)
{
    test_rows rows = test_rows_make(dtype, count, COLS, 0);
    uint64_t seed = 11;
    for (int64_t row = 0; row < count; row++) {
        const double size = test_gauss(&seed);
        for (int64_t col = 0; col < COLS; col++) {
            test_rows_set(&rows, row, col, value_of(set, row, col, size, &seed));
        }
    }
    return rows;
}

static kith_neighbors graph_of(kith_ctx *ctx, const test_rows *rows, kith_metric metric,
                               kith_report *report)
{
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    kith_neighbors out = test_answer_make(rows->matrix.rows, K);
    params.k = K;
    params.metric = metric;
    params.method = KITH_METHOD_EXACT;
    *report = (kith_report){.struct_size = sizeof *report};
    assert_int_equal(kith_plan_search(ctx, &rows->matrix, NULL, &params, &plan), KITH_OK);
    assert_int_equal(kith_graph(ctx, &rows->matrix, &params, &out, report), KITH_OK);
    assert_true(report->peak_bytes <= plan.peak_bytes - plan.result_bytes);
    return out;
}

/* The first rows, and those that are far. */
static void check_rows(const test_rows *rows, kith_metric metric, const kith_neighbors *answer,
                       int64_t asked)
{
    kith_matrix some = rows->matrix;
    some.rows = asked;
    const int64_t starts[] = {0, 70};
    for (int i = 0; i < 2; i++) {
        some.data = (const char *)rows->matrix.data + starts[i] * rows->matrix.stride_bytes;
        test_truth truth = test_truth_make(metric, &some, &rows->matrix, K + 1);
        for (int64_t row = 0; row < asked; row++) {
            const int64_t id = starts[i] + row;
            assert_true(test_row_is_true(answer, id, &truth, row, (uint32_t)id));
        }
        test_truth_free(&truth);
    }
}

static void same_answers(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE};
    int graphs = 0;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        for (int set = 0; set < SET_COUNT && kin_cpu_has((kin_isa)isa); set++) {
            test_rows rows = rows_of((far_set)set, set % 2 == 0 ? KITH_F32 : KITH_F64, SMALL);
            kith_ctx *ctx = test_ctx((kin_isa)isa, 1);
            const bool one = test_is_slow_build(); /* of the metrics, another for the next rows */
            for (int m = one ? (isa + set) % 3 : 0; m < 3; m += one ? 3 : 1) {
                kith_report report;
                kith_neighbors answer = graph_of(ctx, &rows, metrics[m], &report);
                check_rows(&rows, metrics[m], &answer, ASKED);
                test_answer_free(&answer);
                graphs += 1;
            }
            kith_ctx_free(ctx);
            test_rows_free(&rows);
        }
    }
    printf("%d graphs of %d kinds of rows are the oracle's\n", graphs, (int)SET_COUNT);
}

static double keys_of(far_set set, kith_metric metric)
{
    test_rows rows = rows_of(set, KITH_F32, LARGE);
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    kith_report report;
    kith_neighbors answer = graph_of(ctx, &rows, metric, &report);
    check_rows(&rows, metric, &answer, ASKED);
    printf("set %d, %s: %.1f canonical keys a row by %s, %.3f of rows more than once\n", (int)set,
           kith_metric_name(metric), report.candidates, report.screen, report.rerun_share);
    test_answer_free(&answer);
    kith_ctx_free(ctx);
    test_rows_free(&rows);
    return report.candidates;
}

static void few_keys(void **state)
{
    (void)state;
    if (test_is_slow_build()) {
        skip(); /* keys are counted; all_pairs has a graph of as many rows */
    }
    const double plain = keys_of(SET_PLAIN, KITH_EUCLIDEAN);
    assert_true(plain < 100.0);
    assert_true(keys_of(SET_SENTINEL, KITH_EUCLIDEAN) < plain + 20.0);
    assert_true(keys_of(SET_BITS, KITH_EUCLIDEAN) < LARGE / 8);
    /* Each meets the rows that are far, and they meet all. */
    assert_true(keys_of(SET_PERCENT, KITH_EUCLIDEAN) < plain + 0.05 * LARGE);
    assert_true(keys_of(SET_LOGNORMAL, KITH_EUCLIDEAN) < plain + 0.05 * LARGE);
    assert_true(keys_of(SET_CAUCHY, KITH_EUCLIDEAN) < plain + 0.05 * LARGE);
    assert_true(keys_of(SET_SCALES, KITH_EUCLIDEAN) < plain + 20.0);
    assert_true(keys_of(SET_NESTED, KITH_EUCLIDEAN) < LARGE / 8);
    assert_true(keys_of(SET_MEAN, KITH_EUCLIDEAN) < plain + 0.05 * LARGE);
}

/* Searches of the same rows, at once and by an index that is kept, of few queries and many. */
static void check_searches(kith_ctx *ctx, const test_rows *rows, kith_metric metric)
{
    static const int64_t asked[] = {1, 5, 40, 300};
    kith_search_params params = kith_search_params_default();
    kith_index_params kept_params = kith_index_params_default();
    kith_index *index = NULL;
    kept_params.metric = metric;
    params.k = K;
    params.metric = metric;
    params.method = KITH_METHOD_EXACT;
    assert_int_equal(kith_index_create(ctx, &rows->matrix, &kept_params, &index), KITH_OK);
    kith_matrix some = rows->matrix;
    some.rows = asked[3]; /* the most: others are the first of them */
    some.data = (const char *)rows->matrix.data + 60 * rows->matrix.stride_bytes;
    test_truth truth = test_truth_make(metric, &some, &rows->matrix, K);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        some.rows = asked[i];
        for (int kept = 0; kept < 2; kept++) {
            kith_neighbors out = test_answer_make(asked[i], K);
            assert_int_equal(kept ? kith_index_search(ctx, index, &some, &params, &out, NULL)
                                  : kith_search(ctx, &rows->matrix, &some, &params, &out, NULL),
                             KITH_OK);
            for (int64_t row = 0; row < asked[i]; row++) {
                assert_true(test_row_is_true(&out, row, &truth, row, KITH_ID_NONE));
            }
            test_answer_free(&out);
        }
    }
    test_truth_free(&truth);
    kith_index_free(index);
}

static void searches(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE};
    static const far_set sets[] = {SET_PERCENT, SET_LOGNORMAL, SET_CAUCHY, SET_CLUSTERS,
                                   SET_OFFSET,  SET_SCALES,    SET_NESTED, SET_MEAN};
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    for (size_t set = 0; set < sizeof sets / sizeof *sets; set++) {
        test_rows rows = rows_of(sets[set], set % 2 == 0 ? KITH_F32 : KITH_F64, LARGE);
        const int step = test_is_slow_build() ? 3 : 1; /* then each has one metric, in turn */
        for (int m = (int)set % step; m < 3; m += step) {
            check_searches(ctx, &rows, metrics[m]);
        }
        test_rows_free(&rows);
    }
    kith_ctx_free(ctx);
    printf("searches of 1 to 300 queries of %zu kinds of rows, kept and not, are the oracle's\n",
           sizeof sets / sizeof *sets);
}

/* What no type tells apart is compared once, and no pair more. */
static void all_pairs(void **state)
{
    (void)state;
    assert_true(keys_of(SET_CLUSTERS, KITH_EUCLIDEAN) <= LARGE);
    if (!test_is_slow_build()) {
        assert_true(keys_of(SET_OFFSET, KITH_INNER_PRODUCT) <= LARGE);
        assert_true(keys_of(SET_PERCENT, KITH_INNER_PRODUCT) <= LARGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers),
        cmocka_unit_test(few_keys),
        cmocka_unit_test(searches),
        cmocka_unit_test(all_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
