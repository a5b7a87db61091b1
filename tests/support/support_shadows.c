/* SPDX-License-Identifier: Apache-2.0
 * Contract: support_shadows.h. */
#include "support/support_shadows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_search.h"
#include "support/support_answers.h"
#include "support/support_calls.h"

#include <math.h>
#include <stdio.h>

enum { CROWD = 40 };

static void fill_own(const test_rows *rows, int shape, uint64_t *seed)
{
    const bool bytes = kith_dtype_bytes(rows->matrix.dtype) == 1;
    const double middle = rows->matrix.dtype == KITH_U8 ? 128.0 : 0.0;
    for (int64_t row = 0; row < rows->matrix.rows; row++) {
        double factor[4];
        for (int i = 0; i < 4; i++) {
            factor[i] = test_gauss(seed);
        }
        for (int64_t col = 0; col < rows->matrix.cols; col++) {
            double x = 0.0;
            switch (shape) {
            case SHAPE_SPAN:
                for (int i = 0; i < 4; i++) {
                    x += factor[i] * sin((double)(col * (i + 1) + i));
                }
                break;
            case SHAPE_RESTS:
                x = col < 4 ? factor[col] : col == 4 + row % (rows->matrix.cols - 4) ? 3.0 : 0.0;
                break;
            case SHAPE_COLUMN:
                x = col == 3 ? 100.0 * factor[0] : 1e-3 * test_gauss(seed);
                break;
            case SHAPE_MEAN:
                x = row % 2 == 0 ? 5.0 : row % 4 == 1 ? 5.0 + factor[col % 4] : 5.0 - factor[0];
                break;
            case SHAPE_CROWDS:
                x = sin((double)(row / CROWD * 13 + col * 78)) +
                    pow(10.0, -1.0 - (double)(row / CROWD % 12) / 4.0) * test_gauss(seed);
                break;
            default:
                x = test_uniform(seed) < 0.5 ? 1.0 : -1.0;
            }
            test_rows_set(rows, row, col, bytes ? rint(middle + 30.0 * x) : x);
        }
    }
}

test_rows test_shadow_rows(kith_dtype dtype, int64_t count, int32_t cols, int shape, uint64_t seed)
{
    test_rows rows = test_rows_make(dtype, count, cols, 0);
    if (shape < (int)SHAPE_COUNT) {
        test_shape_fill(&rows, (test_shape)shape, false, &seed);
    } else {
        fill_own(&rows, shape, &seed);
    }
    return rows;
}

void test_shadow_prepare(kith_ctx *ctx, const test_rows *rows, kith_metric metric, kin_prepared *p)
{
    const kin_distance distance = {.metric = metric, .cols = rows->matrix.cols, .isa = ctx->isa};
    const bool integer = kin_frame_is_integer(&distance, &rows->matrix, &rows->matrix);
    assert_int_equal(kin_prepare_rows(ctx, &rows->matrix, &distance, "points", 0, p), KITH_OK);
    assert_int_equal(kin_prepare_corpus(ctx, integer, TEST_SHADOW_K, p), KITH_OK);
}

kith_neighbors test_shadow_search(kith_ctx *ctx, const test_rows *points, const test_rows *queries,
                                  kith_metric metric, kin_shadow_choice choice)
{
    const kin_request request = {
        .distance = {.metric = metric, .cols = points->matrix.cols, .isa = ctx->isa},
        .k = TEST_SHADOW_K};
    kin_prepared p;
    kith_neighbors out = test_answer_make(queries->matrix.rows, TEST_SHADOW_K);
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    test_shadow_prepare(ctx, points, metric, &p);
    if (choice.axes > 0) {
        assert_int_equal(kin_prepare_shadows(ctx, &(kin_shadow_job){.given = choice}, &p), KITH_OK);
    }
    assert_int_equal(kin_exact_search(ctx, &p, &queries->matrix, &request, &out), KITH_OK);
    kin_prepared_free(ctx, &p);
    return out;
}

kith_neighbors test_shadow_solve(kith_ctx *ctx, const test_rows *points, const test_rows *queries,
                                 uint32_t flags, kith_report *report)
{
    kith_search_params params = kith_search_params_default();
    const kith_matrix *asked = queries == NULL ? NULL : &queries->matrix;
    kith_plan plan = {.struct_size = sizeof plan};
    kith_neighbors out =
        test_answer_make((asked == NULL ? &points->matrix : asked)->rows, TEST_SHADOW_K);
    params.k = TEST_SHADOW_K;
    params.method = KITH_METHOD_EXACT;
    params.flags = flags;
    *report = (kith_report){.struct_size = sizeof *report};
    assert_int_equal(kith_plan_search(ctx, &points->matrix, asked, &params, &plan), KITH_OK);
    assert_int_equal(asked == NULL
                         ? kith_graph(ctx, &points->matrix, &params, &out, report)
                         : kith_search(ctx, &points->matrix, asked, &params, &out, report),
                     KITH_OK);
    const double planned = (double)(plan.peak_bytes - plan.result_bytes);
    const double held = (double)report->peak_bytes;
    printf("planned %.1f to %.1f MB, held %.1f\n", 1e-6 * (planned - (double)plan.undecided_bytes),
           1e-6 * planned, 1e-6 * held);
    assert_true(held <= planned && held >= 0.8 * (planned - (double)plan.undecided_bytes));
    return out;
}
