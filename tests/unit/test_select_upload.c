/* SPDX-License-Identifier: Apache-2.0
 * Selection from host memory on a device, on the reference device: the next batches of rows, or the
 * next pieces of a row that does not fit, are copied while one is selected from, and the bytes are
 * the processor's in every budget, with and without; a copy that fails and a call that is cancelled
 * leave nothing behind, neither memory nor threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_size.h"
#include "gpu/gpu.h"
#include "select/select.h"
#include "support/support_progress.h"
#include "support/support_reference.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1000, COLS = 300, LONG_ROWS = 3, LONG_COLS = 100000, GAP = 2, K = 7, LONG_K = 900 };

typedef struct selecting {
    const char *name;
    bool ids;
    bool kth;
    int64_t gap; /* values between rows */
    int64_t rows;
    int64_t cols;
    int64_t k;
} selecting;
static const selecting kinds[] = {
    {"values", false, false, 0, ROWS, COLS, K},
    {"ids, rows apart", true, false, GAP, ROWS, COLS, K},
    {"k-th", false, true, GAP, ROWS, COLS, K},
    {"long rows", false, false, 0, LONG_ROWS, LONG_COLS, K},
    {"long rows, ids, apart", true, false, GAP, LONG_ROWS, LONG_COLS, LONG_K},
    {"long rows, k-th", false, true, GAP, LONG_ROWS, LONG_COLS, LONG_K}};
enum { KINDS = sizeof kinds / sizeof *kinds };
/* Rows that a small budget cuts into pieces. */
enum { FIRST_LONG = 3 };

typedef struct input {
    float *values; /* ROWS x (COLS + GAP), or LONG_ROWS x (LONG_COLS + GAP) */
    uint32_t *ids;
    float *wanted[KINDS];
    uint32_t *wanted_ids[KINDS];
} input;

static kin_select_job job_of(const input *in, const selecting *kind, float *values, uint32_t *ids)
{
    const int64_t pitch = kind->cols + kind->gap;
    return (kin_select_job){.values = (const char *)in->values,
                            .ids = kind->ids ? (const char *)in->ids : NULL,
                            .stride_bytes = pitch * (int64_t)sizeof(float),
                            .ids_stride_bytes = pitch * (int64_t)sizeof(uint32_t),
                            .rows = kind->rows,
                            .cols = kind->cols,
                            .k = kind->k,
                            .dtype = KIN_SELECT_F32,
                            .sorted = true,
                            .out_values = kind->kth ? NULL : values,
                            .out_ids = kind->kth ? NULL : ids,
                            .out_kth = kind->kth ? values : NULL};
}

static size_t places_of(const selecting *kind)
{
    return (size_t)(kind->rows * kind->k);
}

static int make_input(void **state)
{
    static input in;
    kith_ctx *ctx = test_progress_ctx();
    uint64_t seed = 19;
    const size_t count = (size_t)ROWS * (COLS + GAP);
    in.values = malloc(count * sizeof *in.values);
    in.ids = malloc(count * sizeof *in.ids);
    for (size_t i = 0; i < count; i++) {
        in.values[i] = (float)(int32_t)(test_uniform(&seed) * 900.0);
        in.ids[i] = (uint32_t)(count - i);
    }
    for (int i = 0; i < KINDS; i++) {
        in.wanted[i] = calloc(places_of(&kinds[i]), sizeof(float));
        in.wanted_ids[i] = calloc(places_of(&kinds[i]), sizeof(uint32_t));
        const kin_select_job job = job_of(&in, &kinds[i], in.wanted[i], in.wanted_ids[i]);
        assert_int_equal(kin_select_host(ctx, &job), KITH_OK);
    }
    kith_ctx_free(ctx);
    *state = &in;
    return 0;
}

static int free_input(void **state)
{
    input *in = *state;
    for (int i = 0; i < KINDS; i++) {
        free(in->wanted_ids[i]);
        free(in->wanted[i]);
    }
    free(in->ids);
    free(in->values);
    return 0;
}

/* What is right has the processor's bytes; nothing is left under way. */
static kith_status solve(const input *in, kith_ctx *ctx, kin_gpu *gpu, int which)
{
    const size_t places = places_of(&kinds[which]);
    float *values = calloc(places, sizeof *values);
    uint32_t *ids = calloc(places, sizeof *ids);
    const kin_select_job job = job_of(in, &kinds[which], values, ids);
    assert_int_equal(kin_ctx_begin(ctx), KITH_OK);
    kin_gpu_enter(gpu);
    const kith_status status = kin_select_device(ctx, gpu, &job, false);
    kin_gpu_leave(gpu);
    assert_int_equal(gpu->held, 0);
    assert_false(kin_gpu_ahead_end(gpu));
    if (status == KITH_OK) {
        assert_memory_equal(values, in->wanted[which], places * sizeof *values);
        assert_memory_equal(ids, in->wanted_ids[which], places * sizeof *ids);
    }
    free(ids);
    free(values);
    return status;
}

static void end(kith_ctx *ctx, kin_gpu *gpu)
{
    kin_gpu_close(ctx, gpu);
    test_reference_is_empty();
    assert_int_equal(atomic_load(&ctx->held_bytes), 0);
    kith_ctx_free(ctx);
}

typedef struct swept {
    int worked;
    int refused;
    int64_t uploads;
} swept;

static void with_budget(const input *in, int which, bool ahead, uint64_t budget, swept *s)
{
    kith_ctx *ctx = test_progress_ctx();
    kin_gpu *gpu = test_reference_gpu(ctx, budget);
    gpu->ahead_off = !ahead;
    const kith_status status = solve(in, ctx, gpu, which);
    assert_true(gpu->peak <= budget);
    assert_true(status == KITH_OK || status == KITH_E_DEVICE_MEMORY);
    s->worked += status == KITH_OK;
    s->refused += status != KITH_OK;
    s->uploads += gpu->ahead_tally.uploads;
    end(ctx, gpu);
}

static void budgets(void **state)
{
    const input *in = *state;
    const uint64_t least = test_is_slow_build() ? 100000 : 1000;
    for (int which = 0; which < KINDS; which++) {
        swept s[2] = {{0}, {0}};
        for (uint64_t budget = 4 << 20; budget > least; budget -= budget / 4) {
            with_budget(in, which, false, budget, &s[0]);
            with_budget(in, which, true, budget, &s[1]);
        }
        printf("%s: %d budgets, the processor's bytes; %" PRId64 " copies ahead; %d refused\n",
               kinds[which].name, s[1].worked, s[1].uploads, s[1].refused);
        assert_int_equal(s[0].uploads, 0);
        assert_true(s[1].uploads > 10 && s[1].worked > 10);
        assert_int_equal(s[1].worked, s[0].worked); /* nothing is refused for it */
    }
}

/* A budget in which there are some batches, and one in which a long row is cut. */
static const uint64_t FEW = 1 << 20;
static const uint64_t CUT = 280000;

static uint64_t budget_of(int which)
{
    return which < FIRST_LONG ? FEW : CUT;
}

/* Every part but the first is on its way before it is wanted: within a row and across rows. */
static void pieces(void **state)
{
    const input *in = *state;
    for (int which = FIRST_LONG; which < KINDS; which++) {
        for (int late = 0; late < 2; late++) {
            kith_ctx *ctx = test_progress_ctx();
            kin_gpu *gpu = test_reference_gpu(ctx, CUT);
            test_faults.copy_ns = late == 0 ? 0 : 200000;
            const int64_t place = (int64_t)sizeof(float) + (kinds[which].ids ? 4 : 0);
            const int64_t in_row = kin_ceil_div(LONG_COLS, (int64_t)CUT / 7 / place);
            assert_int_equal(solve(in, ctx, gpu, which), KITH_OK);
            const int64_t ahead = LONG_ROWS * in_row - 1;
            assert_int_equal(gpu->ahead_tally.uploads, kinds[which].ids ? 2 * ahead : ahead);
            end(ctx, gpu);
        }
    }
    printf("pieces of rows that do not fit come ahead, that of the next row, too\n");
}

static void failing_copies(void **state)
{
    const input *in = *state;
    int told = 0;
    for (int which = 0; which < KINDS; which++) {
        int64_t at = 1;
        for (bool failed = true; failed; at += 1 + at / 4) {
            kith_ctx *ctx = test_progress_ctx();
            kin_gpu *gpu = test_reference_gpu(ctx, budget_of(which));
            test_faults.failing_copy = at;
            const kith_status status = solve(in, ctx, gpu, which);
            failed = status != KITH_OK;
            if (failed) {
                assert_int_equal(status, KITH_E_DEVICE);
                assert_non_null(strstr(kith_ctx_detail(ctx), "broken on purpose"));
                told += 1;
            }
            end(ctx, gpu);
        }
    }
    assert_true(told > 8);
    printf("%d copies that fail: E_DEVICE each, nothing is left\n", told);
}

static void cancelled(void **state)
{
    const input *in = *state;
    int stopped = 0;
    for (int which = 1; which < KINDS; which += FIRST_LONG) {
        for (int n = 1; n < 60; n += 1 + n / 4) {
            kith_ctx *ctx = test_progress_ctx();
            kin_gpu *gpu = test_reference_gpu(ctx, budget_of(which));
            test_faults.copy_ns = 2000000; /* the progress function is asked every 50 ms */
            test_progress.stop_at = n;
            const kith_status status = solve(in, ctx, gpu, which);
            end(ctx, gpu);
            if (status == KITH_OK) {
                assert_true(n > 1);
                break;
            }
            assert_int_equal(status, KITH_E_CANCELLED);
            stopped += 1;
        }
    }
    assert_true(stopped > 1);
    printf("cancelled %d times while rows were under way: threads joined, memory back\n", stopped);
}

/* Without a stream, pinned memory or an event of its own, batches come one after the other. */
static void nothing_to_spare(void **state)
{
    const input *in = *state;
    for (int i = 0; i < 4; i++) {
        const int what = i % 2;
        const int which = i < 2 ? 0 : FIRST_LONG;
        kith_ctx *ctx = test_progress_ctx();
        kin_gpu *gpu = test_reference_gpu(ctx, budget_of(which));
        test_faults.no_stream = what == 0;
        test_faults.no_event = what == 1;
        const kith_status status = solve(in, ctx, gpu, which);
        assert_true(what == 1 || status == KITH_OK);
        assert_int_equal(gpu->ahead_tally.uploads, 0);
        end(ctx, gpu);
    }
    printf("without what a second stream takes: no copies ahead\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets), cmocka_unit_test(pieces), cmocka_unit_test(failing_copies),
        cmocka_unit_test(cancelled), cmocka_unit_test(nothing_to_spare)};
    return cmocka_run_group_tests(tests, make_input, free_input);
}
