/* SPDX-License-Identifier: Apache-2.0
 * Both directions from one product: whichever set is the larger one, it says which type is fine
 * enough, and the answers are those of two searches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_engines.h"
#include "support/support_rows.h"

#include <stdio.h>

enum { MANY = 9000, FEW = 300, COLS = 64, K = 5, MOST_CANDIDATES = 60 };
static const double LARGEST = 300.0;

/* Nearly all values are small beside the largest one: bytes are too coarse for them. */
static test_rows make_rows(int64_t rows, uint64_t seed)
{
    const test_rows made = test_rows_make(KITH_F32, rows, COLS, 0);
    test_rows_fill(&made, 1.0, 0, &seed);
    test_rows_set(&made, 0, 0, LARGEST);
    return made;
}

static kith_report report_of(kith_ctx *ctx)
{
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    test_works(ctx, kith_ctx_report(ctx, &report));
    return report;
}

static void the_larger_set_says_the_type(void **unused)
{
    (void)unused;
    kith_ctx *ctx = test_engine_best_ctx(2);
    test_rows many = make_rows(MANY, 5);
    test_rows few = make_rows(FEW, 6);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    kith_neighbors truth[] = {test_answer_make(MANY, K), test_answer_make(FEW, K)};
    kith_neighbors found[] = {test_answer_make(MANY, K), test_answer_make(FEW, K)};
    test_works(ctx, kith_search(ctx, &few.matrix, &many.matrix, &params, &truth[0], NULL));
    test_works(ctx, kith_search(ctx, &many.matrix, &few.matrix, &params, &truth[1], NULL));
    for (int order = 0; order < 2; order++) {
        const test_rows *a = order == 0 ? &many : &few;
        const test_rows *b = order == 0 ? &few : &many;
        test_works(ctx, kith_knn_both(ctx, &a->matrix, &b->matrix, &params, &found[order],
                                      &found[1 - order]));
        const kith_report report = report_of(ctx);
        assert_true(test_answers_equal(&found[0], &truth[0]));
        assert_true(test_answers_equal(&found[1], &truth[1]));
        assert_true(report.candidates < MOST_CANDIDATES);
        (void)printf("%s first: screen %s, %.1f candidates a row\n", order == 0 ? "many" : "few",
                     report.screen, report.candidates);
    }
    for (int i = 0; i < 2; i++) {
        test_answer_free(&found[i]);
        test_answer_free(&truth[i]);
    }
    test_rows_free(&few);
    test_rows_free(&many);
    kith_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_larger_set_says_the_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
