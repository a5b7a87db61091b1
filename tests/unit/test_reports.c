/* SPDX-License-Identifier: Apache-2.0
 * Reports of calls that are inside one another: each its own, and the one around has both. The most
 * memory that a call says it held is, to the byte, what its allocator gave out: of removals that
 * repair a graph and that make it anew, of merges, of a graph that is looked at again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_mem.h"
#include "engine/engine_call.h"
#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 600, COLS = 5, K = 8, PIECE = 1 << 20 };

/* ---- An allocator that counts ---------------------------------------------------------------- */

typedef struct counting {
    uint64_t held;
    uint64_t most;
    uint64_t ctx; /* of that, the context itself */
} counting;

static void *count_in(void *arg, size_t bytes)
{
    counting *c = arg;
    void *block = NULL;
    if (posix_memalign(&block, 64, bytes) != 0) {
        return NULL;
    }
    c->held += bytes;
    c->most = c->held > c->most ? c->held : c->most;
    return block;
}

static void count_out(void *arg, void *block, size_t bytes)
{
    counting *c = arg;
    c->held -= bytes;
    free(block);
}

static kith_ctx *make_ctx(counting *c)
{
    kith_ctx *ctx = NULL;
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = 1; /* the counter has no lock */
    params.device = "cpu";
    params.allocate = count_in;
    params.release = count_out;
    params.allocate_arg = c;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    c->ctx = c->held;
    return ctx;
}

static kith_report report_of(const kith_ctx *ctx)
{
    kith_report report = {.struct_size = sizeof report};
    assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
    return report;
}

/* ---- Calls inside calls ---------------------------------------------------------------------- */

static void take_and_give_back(kith_ctx *ctx, uint64_t bytes)
{
    void *block = NULL;
    test_works(ctx, kin_alloc(ctx, &block, bytes, 1, "a piece"));
    kin_free(ctx, block);
}

static void calls_add_up(void **state)
{
    (void)state;
    counting c = {0};
    kith_ctx *ctx = make_ctx(&c);
    kin_call outer;
    kin_call inner;
    void *kept = NULL;
    test_works(ctx, kin_call_begin(ctx, &outer));
    take_and_give_back(ctx, PIECE);
    ctx->report.seconds_screen = 1.0;
    ctx->report.gpu_peak_bytes = 7;
    test_works(ctx, kin_alloc(ctx, &kept, PIECE / 2, 1, "a piece"));
    test_works(ctx, kin_call_begin(ctx, &inner));
    assert_true(ctx->report.seconds_screen == 0.0); /* a report of its own */
    ctx->report.seconds_screen = 2.0;
    ctx->report.gpu_peak_bytes = 5;
    ctx->report.distinct_rows = 3;
    memcpy(ctx->report.screen, "tree", sizeof "tree");
    take_and_give_back(ctx, PIECE / 4);
    test_works(ctx, kin_call_end(&inner, KITH_OK));
    assert_true(inner.report.seconds_screen == 2.0);
    assert_int_equal(inner.report.gpu_peak_bytes, 5);
    assert_true(inner.report.peak_bytes > 3 * PIECE / 4 && inner.report.peak_bytes < PIECE);
    assert_true(ctx->report.seconds_screen == 3.0);
    assert_int_equal(ctx->report.gpu_peak_bytes, 7);
    take_and_give_back(ctx, PIECE / 8);
    test_works(ctx, kin_call_end(&outer, KITH_OK));
    const kith_report report = report_of(ctx);
    assert_int_equal(report.peak_bytes, c.most - c.ctx);
    assert_true(report.peak_bytes > PIECE);
    assert_int_equal(report.distinct_rows, 3);
    assert_string_equal(report.screen, "tree");
    assert_true(report.seconds_total >= inner.report.seconds_total);
    kin_free(ctx, kept);
    test_works(ctx, kin_call_begin(ctx, &outer)); /* the next call begins with nothing */
    assert_true(ctx->report.seconds_screen == 0.0);
    test_works(ctx, kin_call_end(&outer, KITH_OK));
    assert_true(report_of(ctx).peak_bytes < PIECE);
    kith_ctx_free(ctx);
    printf("a call inside a call: seconds 1 + 2 are 3, the report inside says 2, and the larger of "
           "both peaks stays\n");
}

static void failures_leave_no_call_open(void **state)
{
    (void)state;
    counting c = {0};
    kith_ctx *ctx = make_ctx(&c);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kith_graph(ctx, NULL, &params, NULL, NULL), KITH_E_ARGUMENT);
        assert_int_equal(ctx->calls, 0);
    }
    kith_ctx_free(ctx);
    printf("calls that are refused leave none open\n");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void begin(counting *c)
{
    c->most = c->held;
}

static void is_to_the_byte(const kith_ctx *ctx, const counting *c, const char *what)
{
    const kith_report report = report_of(ctx);
    printf("%-24s peak %8.1f KB said, %8.1f KB given out\n", what, (double)report.peak_bytes * 1e-3,
           (double)(c->most - c->ctx) * 1e-3);
    assert_int_equal(report.peak_bytes, c->most - c->ctx);
    assert_true(report.seconds_check + report.seconds_prepare + report.seconds_screen +
                    report.seconds_rescore <=
                report.seconds_total);
    assert_true(report.seconds_screen + report.seconds_rescore > 0.0);
}

static void removals(kith_ctx *ctx, counting *c, const kith_matrix *points,
                     const kith_neighbors *graph)
{
    static const int64_t gone[] = {1, ROWS / 2};
    static const char *const names[] = {"a removal that repairs", "a removal made anew"};
    for (int i = 0; i < 2; i++) {
        uint8_t removed[ROWS] = {0};
        memset(removed, 1, (size_t)gone[i]);
        kith_remove_params params = kith_remove_params_default();
        kith_remove_report report = {.struct_size = sizeof report};
        params.k = K;
        params.removed = removed;
        kith_neighbors out = test_answer_make(ROWS - gone[i], K);
        begin(c);
        test_works(ctx, kith_graph_remove(ctx, points, graph, &params, &out, &report));
        assert_int_equal(report.anew, i);
        is_to_the_byte(ctx, c, names[i]);
        test_answer_free(&out);
    }
}

static void peaks_are_what_was_held(void **state)
{
    (void)state;
    counting c = {0};
    kith_ctx *ctx = make_ctx(&c);
    uint64_t seed = 5;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 4);
    test_shape_fill(&points, SHAPE_GAUSS, false, &seed);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    kith_neighbors graph = test_answer_make(ROWS, K);
    begin(&c);
    test_works(ctx, kith_graph(ctx, &points.matrix, &params, &graph, NULL));
    is_to_the_byte(ctx, &c, "a graph");
    int64_t wrong = -1;
    int64_t first_wrong = -1;
    begin(&c);
    test_works(ctx, kith_graph_verify(ctx, &points.matrix, &graph, &params, &wrong, &first_wrong));
    assert_int_equal(wrong, 0);
    is_to_the_byte(ctx, &c, "a graph looked at again");
    removals(ctx, &c, &points.matrix, &graph);
    const kith_matrix parts[] = {test_part_of(&points.matrix, 0, ROWS / 3),
                                 test_part_of(&points.matrix, ROWS / 3, ROWS - ROWS / 3)};
    kith_neighbors sides[2];
    for (int i = 0; i < 2; i++) {
        sides[i] = test_answer_make(parts[i].rows, K);
        test_works(ctx, kith_graph(ctx, &parts[i], &params, &sides[i], NULL));
    }
    begin(&c);
    test_works(ctx,
               test_merge_exactly(
                   ctx, &(kith_merge_sets){&points.matrix, parts[0].rows, &sides[0], &sides[1]},
                   &params, &graph));
    is_to_the_byte(ctx, &c, "a merge");
    test_answer_free(&sides[1]);
    test_answer_free(&sides[0]);
    test_answer_free(&graph);
    test_rows_free(&points);
    kith_ctx_free(ctx);
    assert_int_equal(c.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_add_up),
        cmocka_unit_test(failures_leave_no_call_open),
        cmocka_unit_test(peaks_are_what_was_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
