/* SPDX-License-Identifier: Apache-2.0
 * Layouts: what a function names is what a plan says, what a block has, and where its arrays are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_mem.h"
#include "base/base_try.h"

#include <stdio.h>

enum { MOST = 5 };

typedef struct part {
    uint32_t *numbers;
} part;

typedef struct job {
    uint64_t counts[MOST];
    unsigned char *bytes[MOST];
    uint64_t parts_count;
    part *parts;
    void *block;
} job;

static void name_arrays(kin_layout *layout, void *arg)
{
    job *j = arg;
    for (int i = 0; i < MOST; i++) {
        j->bytes[i] = i % 2 == 0 ? kin_layout_array(layout, j->counts[i], 1)
                                 : kin_layout_zeros(layout, j->counts[i], 1);
    }
    j->parts = kin_layout_zeros(layout, j->parts_count, sizeof *j->parts);
    for (uint64_t i = 0; i < j->parts_count; i++) {
        part spare;
        part *p = kin_layout_item(j->parts, i, &spare);
        p->numbers = kin_layout_array(layout, i, sizeof *p->numbers);
    }
}

static kith_ctx *context(uint64_t limit)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.memory_limit = limit;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static uint64_t held(kith_ctx *ctx)
{
    return atomic_load(&ctx->held_bytes);
}

static void arrays_stand_apart(void **state)
{
    (void)state;
    kith_ctx *ctx = context(0);
    job j = {.counts = {0, 1, 64, 65, 1000}, .parts_count = 7};
    kin_layout dry = {.block = NULL};
    name_arrays(&dry, &j);
    const uint64_t bytes = dry.peak;
    assert_null(j.bytes[4]);
    assert_int_equal(kin_layout_make(ctx, name_arrays, &j, "a test", &j.block), KITH_OK);
    const unsigned char *end = j.block;
    for (int i = 0; i < MOST; i++) {
        assert_int_equal((uintptr_t)j.bytes[i] % 64, 0);
        assert_true(j.bytes[i] >= end);
        end = j.bytes[i] + j.counts[i];
        for (uint64_t at = 0; i % 2 == 1 && at < j.counts[i]; at++) {
            assert_int_equal(j.bytes[i][at], 0);
        }
        memset(j.bytes[i], 0xff, (size_t)j.counts[i]);
    }
    for (uint64_t i = 0; i < j.parts_count; i++) {
        assert_true((const unsigned char *)j.parts[i].numbers >= end);
        end = (const unsigned char *)(j.parts[i].numbers + i);
        memset(j.parts[i].numbers, 0xff, i * sizeof(uint32_t));
    }
    assert_true(end <= (const unsigned char *)j.block + bytes);
    kin_free(ctx, j.block);
    assert_int_equal(held(ctx), 0);
    kith_ctx_free(ctx);
    printf("twelve arrays in one block: at 64 bytes each, none in another, gone at once\n");
}

static void empty_arrays_have_addresses(void **state)
{
    (void)state;
    kith_ctx *ctx = context(0);
    job j = {.counts = {0}};
    kin_layout dry = {.block = NULL};
    name_arrays(&dry, &j);
    assert_null(j.bytes[0]);
    assert_int_equal(kin_layout_make(ctx, name_arrays, &j, "a test", &j.block), KITH_OK);
    for (int i = 0; i < MOST; i++) {
        assert_non_null(j.bytes[i]);
    }
    assert_non_null(j.parts);
    kin_free(ctx, j.block);
    assert_int_equal(held(ctx), 0);
    kith_ctx_free(ctx);
    printf("arrays of no items have addresses\n");
}

static void plans_are_what_is_held(void **state)
{
    (void)state;
    kith_ctx *ctx = context(0);
    job j = {.counts = {3, 100, 5000, 1, 63}, .parts_count = 3};
    kin_layout plan = {.block = NULL};
    kin_layout_alone(&plan, 1000, 8);
    const uint64_t mark = kin_layout_mark(&plan);
    kin_layout_block(&plan, name_arrays, &j);
    kin_layout_back(&plan, mark);
    kin_layout_alone(&plan, 10, 8);

    void *first = NULL;
    void *last = NULL;
    assert_int_equal(kin_alloc(ctx, &first, 1000, 8, "a test"), KITH_OK);
    assert_int_equal(kin_layout_make(ctx, name_arrays, &j, "a test", &j.block), KITH_OK);
    assert_int_equal(held(ctx), plan.peak);
    kin_free(ctx, j.block);
    assert_int_equal(kin_alloc(ctx, &last, 10, 8, "a test"), KITH_OK);
    assert_int_equal(held(ctx), plan.at);
    assert_int_equal(atomic_load(&ctx->peak_bytes), plan.peak);
    kin_free(ctx, last);
    kin_free(ctx, first);
    kith_ctx_free(ctx);
    printf("a plan of three blocks, of which one dies early, is what they held, byte for byte\n");
}

static void too_much_is_refused(void **state)
{
    (void)state;
    kith_ctx *ctx = context(1 << 20);
    job j = {.counts = {1, UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX, 1}};
    kin_layout dry = {.block = NULL};
    name_arrays(&dry, &j);
    assert_int_equal(dry.peak, UINT64_MAX);
    assert_int_equal(kin_layout_make(ctx, name_arrays, &j, "a test", &j.block), KITH_E_LIMIT);
    assert_null(j.block);
    assert_null(j.bytes[0]);
    j = (job){.counts = {1 << 19, 0, 1 << 19, 0, 0}};
    assert_int_equal(kin_layout_make(ctx, name_arrays, &j, "a test", &j.block), KITH_E_LIMIT);
    assert_int_equal(held(ctx), 0);
    kith_ctx_free(ctx);
    printf("sums that do not fit in 64 bits, or not in the limit, are refused whole\n");
}

/* A write into one ends the process, so only their places are looked at. */
static void a_red_zone_is_watched(void **state)
{
    (void)state;
    if (!KIN_CHECKED) {
        printf("red zones are for checked builds\n");
        return;
    }
    kith_ctx *ctx = context(0);
    job j = {.counts = {64, 64, 64, 64, 64}};
    assert_int_equal(kin_layout_make(ctx, name_arrays, &j, "a test", &j.block), KITH_OK);
    for (int i = 0; i + 1 < MOST; i++) {
        assert_true(j.bytes[i + 1] - j.bytes[i] >= 128);
        assert_int_equal(j.bytes[i][63], i % 2 == 0 ? 0xa5 : 0);
    }
    kin_free(ctx, j.block);
    kith_ctx_free(ctx);
    printf("arrays of checked builds are poisoned, and 64 bytes apart\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_stand_apart),     cmocka_unit_test(empty_arrays_have_addresses),
        cmocka_unit_test(plans_are_what_is_held), cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(a_red_zone_is_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
