/* SPDX-License-Identifier: Apache-2.0
 * Rows of floats on one side of zero, as images are, rounded to bytes: they are shifted by
 * the middle of their columns' ranges, which makes steps finer, and bytes that leave some more
 * candidates than a finer type are taken where that is the sooner. Answers are the oracle's. Floats
 * that are whole numbers of a byte's range are taken as these bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_cpu.h"
#include "screen/screen_corpus.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_keys.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 9000, COLS = 300, K = 6, ASKED = 24, FACTORS = 16, OUTLIER = 77 };

typedef enum one_sided {
    SET_PLAIN = 0,
    SET_OUTLIER, /* one row 1e6 times as large */
    SET_OFFSET,  /* 1e6 in all columns */
    SET_COPIES,  /* one row in three is its neighbour again */
    SET_TINY,
    SET_COUNT
} one_sided;

/* Squares of sums of a few factors, cut off as grey levels are: most are small, none is below zero,
 * none is an integer. */
static test_rows rows_of(one_sided set, int64_t count)
{
    test_rows rows = test_rows_make(set == SET_OFFSET ? KITH_F64 : KITH_F32, count, COLS, 0);
    static double along[FACTORS][COLS];
    uint64_t seed = 5;
    for (int i = 0; i < FACTORS; i++) {
        for (int64_t col = 0; col < COLS; col++) {
            along[i][col] = test_gauss(&seed);
        }
    }
    for (int64_t row = 0; row < count; row++) {
        double factor[FACTORS];
        for (int i = 0; i < FACTORS; i++) {
            factor[i] = test_gauss(&seed);
        }
        for (int64_t col = 0; col < COLS; col++) {
            double sum = 0.0;
            for (int i = 0; i < FACTORS; i++) {
                sum += factor[i] * along[i][col];
            }
            double x = fmin(40.0 * sum * sum / FACTORS, 255.0) + test_uniform(&seed);
            x *= set == SET_OUTLIER && row == OUTLIER ? 1e6 : set == SET_TINY ? 1e-30 : 1.0;
            test_rows_set(&rows, row, col, set == SET_OFFSET ? x + 1e6 : x);
        }
        if (set == SET_COPIES && row % 3 == 1) {
            test_rows_copy(&rows, row, &rows, row - 1);
        }
    }
    return rows;
}

static void check_rows(const test_rows *rows, const kith_neighbors *answer)
{
    kith_matrix some = rows->matrix;
    const int64_t first = OUTLIER - ASKED / 2;
    some.rows = ASKED;
    some.data = (const char *)rows->matrix.data + first * rows->matrix.stride_bytes;
    test_truth truth = test_truth_make(KITH_EUCLIDEAN, &some, &rows->matrix, K + 1);
    for (int64_t row = 0; row < ASKED; row++) {
        assert_true(test_row_is_true(answer, first + row, &truth, row, (uint32_t)(first + row)));
    }
    test_truth_free(&truth);
}

static bool h(kin_isa isa)
{
    return kin_cpu_has(isa) && isa != KIN_ISA_PORTABLE && kin_tile_get(isa, KIN_TILE_S8) != NULL;
}

static kith_neighbors graph_of(kith_ctx *ctx, const test_rows *rows, kith_report *report)
{
    kith_search_params params = kith_search_params_default();
    kith_neighbors out = test_answer_make(rows->matrix.rows, K);
    params.k = K;
    params.method = KITH_METHOD_EXACT;
    *report = (kith_report){.struct_size = sizeof *report};
    test_works(ctx, kith_graph(ctx, &rows->matrix, &params, &out, report));
    return out;
}

static void bytes_do(void **state)
{
    (void)state;
    int graphs = 0;
    for (int set = 0; set < SET_COUNT; set += test_is_slow_build() ? 4 : 1) {
        test_rows rows = rows_of((one_sided)set, ROWS);
        kith_neighbors first = {0};
        for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
            if (!h((kin_isa)isa)) {
                continue;
            }
            kith_ctx *ctx = test_ctx((kin_isa)isa, 2);
            kith_report report;
            kith_neighbors answer = graph_of(ctx, &rows, &report);
            check_rows(&rows, &answer);
            assert_int_equal(report.exact, KITH_CERTIFIED);
            /* Of so few rows AMX may be sooner with bf16, whose words are cheap. */
            assert_true(isa == KIN_ISA_AMX || strcmp(report.screen, "s8") == 0);
            graphs++;
            kith_ctx_free(ctx);
            if (first.ids == NULL) {
                first = answer;
                continue;
            }
            assert_true(test_answers_equal(&first, &answer));
            test_answer_free(&answer);
        }
        if (first.ids != NULL) {
            test_answer_free(&first);
        }
        test_rows_free(&rows);
    }
    printf("%d graphs of floats on one side of zero, screened as bytes: the oracle's answers\n",
           graphs);
}

/* ---- The shift ------------------------------------------------------------------------------- */

static void finer_steps(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 1);
    for (int set = 0; set < SET_COUNT; set++) {
        test_rows rows = rows_of((one_sided)set, 500);
        const kin_rows of = {.matrix = rows.matrix};
        const kin_distance near = {.metric = KITH_SQEUCLIDEAN, .cols = COLS, .isa = ctx->isa};
        const kin_distance product = {.metric = KITH_INNER_PRODUCT, .cols = COLS, .isa = ctx->isa};
        kin_frame_stats stats;
        test_works(ctx, kin_frame_measure(ctx, &near, &of, &stats));
        kin_frame_stats by_mean = stats;
        by_mean.middle = NULL;
        const double plain = kin_frame_scale(KIN_TILE_S8, COLS, &by_mean);
        const kin_frame_stats bytes = kin_frame_shift(KIN_TILE_S8, COLS, &stats);
        const double finer = kin_frame_scale(KIN_TILE_S8, COLS, &bytes);
        assert_true(bytes.mean == stats.middle && finer < 0.75 * plain);
        assert_true(kin_frame_shift(KIN_TILE_F32, COLS, &stats).mean == stats.mean);
        /* As an index in a file says it: without a choice. */
        assert_true(kin_frame_shift(KIN_TILE_S8, COLS, &bytes).mean == bytes.mean);
        kin_frame_stats_free(ctx, &stats);
        test_works(ctx, kin_frame_measure(ctx, &product, &of, &stats));
        assert_null(stats.middle);
        kin_frame_stats_free(ctx, &stats);
        test_rows_free(&rows);
    }
    kith_ctx_free(ctx);
    printf("bytes are shifted by the middle of each column, and have finer steps\n");
}

/* ---- Whole numbers as floats ----------------------------------------------------------------- */

enum { WHOLE_ROWS = 230, WHOLE_ASKED = 50, WHOLE_COLS = 53, WHOLE_K = 7 };

/* What one value of otherwise whole rows is, and whether they are bytes with it. */
typedef struct odd_value {
    double value;
    bool by_u8;
    bool by_i8;
} odd_value;
static const odd_value odd_values[] = {
    {0.5, false, false},  {256.0, false, false},   {-129.0, false, false}, {-0.0, true, true},
    {255.0, true, false}, {-1.0, false, true},     {-128.0, false, true},  {128.0, true, false},
    {1e-7, false, false}, {-65408.0, false, false}};

static bool is_byte(kith_dtype dtype)
{
    return dtype == KITH_U8 || dtype == KITH_I8;
}

/* Few distinct values in some columns, and copies of rows: many ties. */
static test_rows whole_rows(kith_dtype dtype, int64_t rows, bool negative, uint64_t seed)
{
    test_rows made = test_rows_make(dtype, rows, WHOLE_COLS, is_byte(dtype) ? 3 : 16);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t col = 0; col < WHOLE_COLS; col++) {
            const double range = col % 3 == 0 ? 256.0 : 3.0;
            const double x = floor(test_uniform(&seed) * range);
            test_rows_set(&made, row, col, negative ? x - floor(range / 2.0) : x);
        }
        if (row % 5 == 4) {
            test_rows_copy(&made, row, &made, row - 3);
        }
    }
    return made;
}

static kith_search_params whole_params(kith_metric metric)
{
    kith_search_params params = kith_search_params_default();
    params.k = WHOLE_K;
    params.metric = metric;
    params.method = KITH_METHOD_EXACT;
    return params;
}

/* Lists by the oracle; costs were keys, or keys were computed. */
static void check_search(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                         kith_metric metric, bool keys)
{
    const kith_search_params params = whole_params(metric);
    const bool graph = queries == corpus;
    test_truth truth = test_truth_make(metric, queries, corpus, WHOLE_K + 1);
    kith_neighbors out = test_answer_make(queries->rows, WHOLE_K);
    kith_report report = {.struct_size = sizeof report};
    test_works(ctx, graph ? kith_graph(ctx, corpus, &params, &out, &report)
                          : kith_search(ctx, corpus, queries, &params, &out, &report));
    for (int64_t row = 0; row < queries->rows; row++) {
        const uint32_t own = graph ? (uint32_t)row : KITH_ID_NONE;
        assert_true(test_row_is_true(&out, row, &truth, row, own));
    }
    assert_int_equal(report.exact, KITH_CERTIFIED);
    assert_true(keys ? report.candidates == 0.0 : report.candidates > 0.0);
    test_answer_free(&out);
    test_truth_free(&truth);
}

/* As bytes, and as they are: the same lists, in both directions and within a radius. */
static void check_as_bytes(kith_ctx *ctx, const test_rows rows[2], const test_rows bytes[2],
                           kith_metric metric)
{
    const kith_search_params params = whole_params(metric);
    kith_radius_params within = kith_radius_params_default();
    kith_neighbors found[2][2];
    kith_ranges *near[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        const test_rows *of = i == 0 ? rows : bytes;
        found[i][0] = test_answer_make(WHOLE_ROWS, WHOLE_K);
        found[i][1] = test_answer_make(WHOLE_ASKED, WHOLE_K);
        test_works(ctx, kith_knn_both(ctx, &of[0].matrix, &of[1].matrix, &params, &found[i][0],
                                      &found[i][1]));
        within.metric = metric;
        within.method = KITH_METHOD_EXACT;
        within.radius = found[0][1].distances64[WHOLE_K - 1];
        test_works(ctx, kith_radius(ctx, &of[0].matrix, &of[1].matrix, &within, &near[i]));
    }
    const kith_lists *a = kith_ranges_lists(near[0]);
    const kith_lists *b = kith_ranges_lists(near[1]);
    const size_t count = (size_t)a->offsets[WHOLE_ASKED];
    assert_true(test_answers_equal(&found[0][0], &found[1][0]));
    assert_true(test_answers_equal(&found[0][1], &found[1][1]));
    assert_memory_equal(a->offsets, b->offsets, (WHOLE_ASKED + 1) * sizeof *a->offsets);
    assert_memory_equal(a->ids, b->ids, count * sizeof *a->ids);
    assert_memory_equal(a->distances64, b->distances64, count * sizeof *a->distances64);
    assert_true(count >= WHOLE_K);
    for (int i = 0; i < 2; i++) {
        kith_ranges_free(near[i]);
        test_answer_free(&found[i][0]);
        test_answer_free(&found[i][1]);
    }
}

static void check_odd(kith_ctx *ctx, kith_dtype dtype, kith_metric metric)
{
    for (size_t i = 0; i < sizeof odd_values / sizeof *odd_values; i++) {
        const odd_value *odd = &odd_values[i];
        for (int negative = 0; negative < 2; negative++) {
            test_rows rows = whole_rows(dtype, WHOLE_ROWS, negative != 0, 11);
            test_rows asked = whole_rows(dtype, WHOLE_ASKED, negative != 0, 12);
            const bool keys = negative != 0 ? odd->by_i8 : odd->by_u8;
            const int64_t at = (int64_t)i * 23;
            test_rows_set(&rows, at, (int64_t)i * 5 + 1, odd->value);
            check_search(ctx, &rows.matrix, &rows.matrix, metric, keys);
            check_search(ctx, &rows.matrix, &asked.matrix, metric, keys);
            check_search(ctx, &asked.matrix, &rows.matrix, metric, keys);
            test_rows_free(&asked);
            test_rows_free(&rows);
        }
    }
}

/* Pairs of types, and of ranges. */
static void check_mixed(kith_ctx *ctx, kith_metric metric)
{
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F16, KITH_U8, KITH_I8};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            const bool above = dtypes[i] == KITH_U8 || dtypes[j] == KITH_U8;
            test_rows a = whole_rows(dtypes[i], WHOLE_ROWS, dtypes[i] == KITH_I8, 21);
            test_rows b = whole_rows(dtypes[j], WHOLE_ASKED, dtypes[j] == KITH_I8, 22);
            const bool below = dtypes[i] == KITH_I8 || dtypes[j] == KITH_I8;
            /* Floats begin at 0 here and reach 255, which int8 does not. */
            const bool keys = !below || (is_byte(dtypes[i]) && is_byte(dtypes[j]) && !above);
            check_search(ctx, &a.matrix, &b.matrix, metric, keys);
            test_rows_free(&b);
            test_rows_free(&a);
        }
    }
}

static void whole_of(kith_ctx *ctx, kith_metric metric)
{
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};
    for (int i = 0; i < 4; i++) {
        for (int negative = 0; negative < 2; negative++) {
            const kith_dtype byte = negative != 0 ? KITH_I8 : KITH_U8;
            test_rows rows[2] = {whole_rows(dtypes[i], WHOLE_ROWS, negative != 0, 1),
                                 whole_rows(dtypes[i], WHOLE_ASKED, negative != 0, 2)};
            test_rows bytes[2] = {whole_rows(byte, WHOLE_ROWS, negative != 0, 1),
                                  whole_rows(byte, WHOLE_ASKED, negative != 0, 2)};
            check_search(ctx, &rows[0].matrix, &rows[0].matrix, metric, true);
            check_search(ctx, &rows[0].matrix, &rows[1].matrix, metric, true);
            check_as_bytes(ctx, rows, bytes, metric);
            for (int set = 0; set < 2; set++) {
                test_rows_free(&rows[set]);
                test_rows_free(&bytes[set]);
            }
        }
    }
    check_odd(ctx, KITH_F32, metric);
    check_mixed(ctx, metric);
}

static void whole_floats(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT};
    int levels = 0;
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        if (!kin_cpu_has((kin_isa)isa)) {
            continue;
        }
        kith_ctx *ctx = test_ctx((kin_isa)isa, 2);
        for (int i = 0; i < (test_is_slow_build() ? 1 : 3); i++) {
            whole_of(ctx, metrics[i]);
        }
        kith_ctx_free(ctx);
        levels++;
    }
    printf("%d instruction sets: whole numbers as floats are searched as bytes\n", levels);
}

/* Where the way of bytes ends, what is wrong is found as ever; and the copy stands in the plan. */
static void whole_ends(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    test_rows rows = whole_rows(KITH_F32, WHOLE_ROWS, false, 31);
    const kith_search_params params = whole_params(KITH_EUCLIDEAN);
    kith_neighbors out = test_answer_make(WHOLE_ROWS, WHOLE_K);
    kith_report report = {.struct_size = sizeof report};
    kith_plan plan = {.struct_size = sizeof plan};
    test_works(ctx, kith_plan_search(ctx, &rows.matrix, NULL, &params, &plan));
    test_works(ctx, kith_graph(ctx, &rows.matrix, &params, &out, &report));
    assert_true(report.candidates == 0.0 && report.peak_bytes <= plan.peak_bytes);
    test_rows_set(&rows, 201, 17, NAN);
    test_graph_refused(ctx, &rows.matrix, &params, KITH_E_DATA, "points[201, 17] is NaN");
    test_answer_free(&out);
    test_rows_free(&rows);
    kith_ctx_free(ctx);
}

/* Under a limit that leaves no room for a copy beside the rest, floats stay what they are: of ten
 * rows and their copies what is rounded takes little. */
static void whole_under_limit(void **state)
{
    (void)state;
    enum { WIDE = 2000, FEW = 300, DISTINCT = 10 };
    const kith_search_params params = whole_params(KITH_EUCLIDEAN);
    test_rows rows = test_rows_make(KITH_F32, FEW, WIDE, 0);
    kith_neighbors found[2];
    uint64_t seed = 41;
    for (int64_t i = 0; i < (int64_t)DISTINCT * WIDE; i++) {
        test_rows_set(&rows, i / WIDE, i % WIDE, floor(test_uniform(&seed) * 256.0));
    }
    for (int64_t row = DISTINCT; row < FEW; row++) {
        test_rows_copy(&rows, row, &rows, row % DISTINCT);
    }
    for (int limited = 0; limited < 2; limited++) {
        kith_ctx_params ctx_params = kith_ctx_params_default();
        kith_report report = {.struct_size = sizeof report};
        kith_ctx *ctx = NULL;
        ctx_params.threads = 1;
        ctx_params.device = "cpu";
        ctx_params.memory_limit = limited != 0 ? (uint64_t)FEW * WIDE * 39 / 10 : 0;
        assert_int_equal(kith_ctx_create(&ctx_params, &ctx), KITH_OK);
        found[limited] = test_answer_make(FEW, WHOLE_K);
        test_works(ctx, kith_graph(ctx, &rows.matrix, &params, &found[limited], &report));
        assert_true((report.candidates == 0.0) == (limited == 0));
        kith_ctx_free(ctx);
    }
    assert_true(test_answers_equal(&found[0], &found[1]));
    test_answer_free(&found[0]);
    test_answer_free(&found[1]);
    test_rows_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finer_steps), cmocka_unit_test(bytes_do),
                                       cmocka_unit_test(whole_floats), cmocka_unit_test(whole_ends),
                                       cmocka_unit_test(whole_under_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
