/* SPDX-License-Identifier: Apache-2.0
 * Stripes and chunks whose rows come ahead, on the reference device: the bytes of the processor in
 * every budget, with and without; a copy that fails, a call that is cancelled, a bad value leave
 * nothing behind, neither memory nor threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_search_gpu.h"
#include "gpu/gpu.h"
#include "host/host_cpu.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_progress.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { K = 5, COLS = 200 };

typedef enum kind {
    CHUNKS = 0, /* a search in a large corpus */
    STRIPES,    /* many queries in a small one */
    GRAPH,
    KINDS
} kind;
static const char *const names[KINDS] = {"large corpus", "many queries", "graph"};

typedef struct input {
    test_rows large;
    test_rows small;
    kith_neighbors wanted[KINDS]; /* the processor's answers */
} input;

static int make_input(void **state)
{
    static input in;
    kith_ctx *ctx = test_progress_ctx();
    uint64_t seed = 31;
    in.large = test_rows_make(KITH_F64, 2000, COLS, 0);
    in.small = test_rows_make(KITH_F64, test_is_slow_build() ? 200 : 800, COLS, 0);
    test_shape_fill(&in.large, SHAPE_COPIES, false, &seed);
    test_shape_fill(&in.small, SHAPE_GAUSS, false, &seed);
    for (int i = 0; i < KINDS; i++) {
        const test_job job = {.name = names[i],
                              .call = i == GRAPH ? TEST_GRAPH : TEST_SEARCH,
                              .points = i == STRIPES ? &in.small.matrix : &in.large.matrix,
                              .queries = i == STRIPES ? &in.large.matrix : &in.small.matrix,
                              .metric = KITH_MANHATTAN,
                              .k = K};
        assert_int_equal(test_job_solve(ctx, &job, &in.wanted[i]), KITH_OK);
    }
    kith_ctx_free(ctx);
    *state = &in;
    return 0;
}

static int free_input(void **state)
{
    input *in = *state;
    for (int i = 0; i < KINDS; i++) {
        test_answer_free(&in->wanted[i]);
    }
    test_rows_free(&in->small);
    test_rows_free(&in->large);
    return 0;
}

/* The matrix as engines get it. */
static kith_matrix with_stride(const test_rows *rows)
{
    kith_matrix matrix = rows->matrix;
    matrix.stride_bytes = COLS * (int64_t)sizeof(double);
    return matrix;
}

static kith_status solve(const input *in, kith_ctx *ctx, kin_gpu *gpu, kind what,
                         kith_neighbors *out)
{
    const kin_request request = {
        .distance = {.metric = KITH_MANHATTAN, .cols = COLS, .isa = KIN_ISA_PORTABLE}, .k = K};
    const kith_matrix corpus = with_stride(what == STRIPES ? &in->small : &in->large);
    const kith_matrix queries = with_stride(what == STRIPES ? &in->large : &in->small);
    *out = test_answer_make(what == GRAPH ? corpus.rows : queries.rows, K);
    const kin_exact_gpu_query query = {.queries = what == GRAPH ? NULL : &queries,
                                       .name = what == GRAPH ? "points" : "queries",
                                       .request = &request,
                                       .out = out};
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    kin_gpu_enter(gpu);
    const kith_status status = kin_exact_gpu_search(ctx, gpu, &corpus, &query);
    kin_gpu_leave(gpu);
    assert_int_equal(gpu->held, 0);
    assert_false(kin_gpu_ahead_end(gpu)); /* nothing is left under way */
    return status;
}

static void end(kith_ctx *ctx, kin_gpu *gpu)
{
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    assert_int_equal(atomic_load(&ctx->held_bytes), 0);
    kith_ctx_free(ctx);
}

/* ---- Budgets --------------------------------------------------------------------------------- */

typedef struct swept {
    int worked;
    int refused;
    int64_t uploads;
    uint64_t smallest; /* budget that worked */
} swept;

static void with_budget(const input *in, kind what, bool ahead, uint64_t budget, swept *s)
{
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = test_reference_gpu(ctx, budget);
    kith_neighbors got;
    gpu->ahead_off = !ahead;
    const kith_status status = solve(in, ctx, gpu, what, &got);
    assert_true(gpu->peak <= budget);
    if (status == KITH_OK) {
        assert_false(test_answers_differ(names[what], &in->wanted[what], &got));
        s->worked += 1;
        s->smallest = budget < s->smallest ? budget : s->smallest;
    } else {
        assert_int_equal(status, KITH_E_DEVICE_MEMORY);
        s->refused += 1;
    }
    s->uploads += gpu->ahead_tally.uploads;
    test_answer_free(&got);
    end(ctx, gpu);
}

static void budgets(void **state)
{
    const input *in = *state;
    const uint64_t step = test_is_sanitized_build() ? 2 : 6;
    const bool alone = test_is_thread_build(); /* without uploads ahead there are no threads */
    for (int what = 0; what < KINDS; what++) {
        swept s[2] = {{.smallest = UINT64_MAX}, {.smallest = UINT64_MAX}};
        for (uint64_t budget = 7 << 20; budget > 1000000; budget -= budget / step) {
            if (!alone) {
                with_budget(in, (kind)what, false, budget, &s[0]);
            }
            with_budget(in, (kind)what, true, budget, &s[1]);
        }
        printf("%s: %d budgets down to %" PRIu64 " bytes, the same bytes; %" PRId64
               " uploads ahead; %d refused\n",
               names[what], s[1].worked, s[1].smallest, s[1].uploads, s[1].refused);
        assert_int_equal(s[0].uploads, 0);
        assert_true(s[1].uploads > 0 && s[1].worked > 0);
        if (!alone) { /* nothing is refused for it */
            assert_int_equal(s[1].worked, s[0].worked);
            assert_true(s[1].smallest == s[0].smallest);
        }
    }
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

/* A budget in which there are chunks and uploads ahead. */
static const uint64_t FEW = 2 << 20;

static void failing_copies(void **state)
{
    const input *in = *state;
    const int64_t step = test_is_slow_build() ? 2 : 10;
    int told = 0;
    int64_t at = 1;
    for (bool failed = true; failed; at += 1 + at / step) {
        kith_ctx *ctx = test_progress_ctx();
        kin_gpu *gpu = test_reference_gpu(ctx, FEW);
        kith_neighbors got;
        test_faults.failing_copy = at;
        const kith_status status = solve(in, ctx, gpu, CHUNKS, &got);
        failed = status != KITH_OK;
        if (failed) {
            assert_int_equal(status, KITH_E_DEVICE);
            assert_non_null(strstr(kith_ctx_detail(ctx), "broken on purpose"));
            told += 1;
        } else {
            assert_false(test_answers_differ("search", &in->wanted[CHUNKS], &got));
        }
        test_answer_free(&got);
        end(ctx, gpu);
    }
    assert_true(told > 5);
    printf("copies 1 to %" PRId64 " that fail: E_DEVICE each, nothing is left\n", at);
}

static void cancelled(void **state)
{
    const input *in = *state;
    int stopped = 0;
    for (int n = 1; n < 60; n += 1 + n / (test_is_slow_build() ? 1 : 4)) {
        kith_ctx *ctx = test_progress_ctx();
        kin_gpu *gpu = test_reference_gpu(ctx, FEW);
        kith_neighbors got;
        test_faults.copy_ns = 2000000; /* the progress function is asked every 50 ms */
        test_progress.stop_at = n;
        const kith_status status = solve(in, ctx, gpu, CHUNKS, &got);
        test_answer_free(&got);
        end(ctx, gpu);
        if (status == KITH_OK) {
            assert_true(n > 1);
            break;
        }
        assert_int_equal(status, KITH_E_CANCELLED);
        stopped += 1;
    }
    assert_true(stopped > 0);
    printf("cancelled %d times while rows were under way: threads joined, memory back\n", stopped);
}

/* The row's number is that of the whole matrix, wherever the row is found. */
static void bad_value(void **state)
{
    const input *in = *state;
    for (int which = 0; which < 2; which++) {
        const test_rows *rows = which == 0 ? &in->large : &in->small;
        const int64_t row = rows->matrix.rows - 7;
        double *value = (double *)(void *)((char *)(uintptr_t)rows->matrix.data) + row * COLS + 3;
        const double kept = *value;
        *value = NAN;
        kith_ctx *ctx = test_progress_ctx();
        kin_gpu *gpu = test_reference_gpu(ctx, FEW);
        kith_neighbors got;
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "%s[%" PRId64 ", 3] is NaN",
                       which == 0 ? "corpus" : "queries", row);
        assert_int_equal(solve(in, ctx, gpu, CHUNKS, &got), KITH_E_DATA);
        assert_non_null(strstr(kith_ctx_detail(ctx), wanted));
        *value = kept;
        test_answer_free(&got);
        end(ctx, gpu);
    }
    printf("a value that is not a number, in the last chunk and in the last stripe: named\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets), cmocka_unit_test(failing_copies),
                                       cmocka_unit_test(cancelled), cmocka_unit_test(bad_value)};
    return cmocka_run_group_tests(tests, make_input, free_input);
}
