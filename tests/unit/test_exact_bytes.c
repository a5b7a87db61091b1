/* SPDX-License-Identifier: Apache-2.0
 * Rows of floats on one side of zero, as images are, rounded to bytes: they are shifted by
 * the middle of their columns' ranges, which makes steps finer, and bytes that leave some more
 * candidates than a finer type are taken where that is the sooner. Answers are the oracle's. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finer_steps), cmocka_unit_test(bytes_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
