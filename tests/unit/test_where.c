/* SPDX-License-Identifier: Apache-2.0
 * Where a call failed is told as fields, and the sentence is made of them. */
#include "base/base_ctx.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static kith_where where_of(const kith_ctx *ctx)
{
    kith_where where = {.struct_size = (uint32_t)sizeof where};
    assert_int_equal(kith_ctx_where(ctx, &where), KITH_OK);
    return where;
}

/* The place, its reason, and the sentence that both make. */
static void tells(const kith_ctx *ctx, kith_where want, const char *says)
{
    const kith_where where = where_of(ctx);
    printf("  %s\n", kith_ctx_detail(ctx));
    assert_int_equal(where.status, want.status);
    assert_string_equal(where.argument, want.argument);
    assert_string_equal(where.member, want.member);
    assert_string_equal(where.file, want.file);
    assert_int_equal(where.row, want.row);
    assert_int_equal(where.column, want.column);
    assert_non_null(strstr(kith_ctx_detail(ctx), says));
    const size_t whole = strlen(kith_ctx_detail(ctx));
    const size_t reason = strlen(where.reason);
    assert_true(reason > 0 && reason <= whole);
    assert_string_equal(kith_ctx_detail(ctx) + whole - reason, where.reason);
}

static void calls(void **state)
{
    (void)state;
    enum { ROWS = 7, COLS = 3, K = 2 };
    float values[ROWS * COLS];
    uint32_t ids[ROWS * K];
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(NULL, &ctx), KITH_OK);
    for (int i = 0; i < ROWS * COLS; i++) {
        values[i] = (float)i;
    }
    kith_matrix points = {.data = values, .rows = ROWS, .cols = COLS, .dtype = KITH_F32};
    const kith_neighbors out = {.ids = ids, .rows = ROWS, .k = K};
    kith_search_params params = kith_search_params_default();
    params.k = K;
    assert_int_equal(kith_graph(ctx, &points, &params, &out, NULL), KITH_OK);
    const kith_where none = where_of(ctx);
    assert_int_equal(none.status, KITH_OK);
    assert_string_equal(none.reason, "");
    assert_int_equal(none.row, -1);

    values[5 * COLS + 1] = NAN;
    assert_int_equal(kith_graph(ctx, &points, &params, &out, NULL), KITH_E_DATA);
    tells(ctx,
          (kith_where){.status = KITH_E_DATA,
                       .argument = "points",
                       .member = "",
                       .file = "",
                       .row = 5,
                       .column = 1},
          "points[5, 1] is NaN (");

    points.cols = 0;
    assert_int_equal(kith_graph(ctx, &points, &params, &out, NULL), KITH_E_ARGUMENT);
    tells(ctx,
          (kith_where){.status = KITH_E_ARGUMENT,
                       .argument = "points",
                       .member = "cols",
                       .file = "",
                       .row = -1,
                       .column = -1},
          "points.cols is 0, must be 1 to");

    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    assert_int_equal(kith_file_inspect(ctx, "/nowhere/points.npy", NULL, &info), KITH_E_IO);
    tells(ctx,
          (kith_where){.status = KITH_E_IO,
                       .argument = "",
                       .member = "",
                       .file = "/nowhere/points.npy",
                       .row = -1,
                       .column = -1},
          "/nowhere/points.npy: ");

    struct { /* of a program that was compiled with a newer header */
        kith_where known;
        int64_t more;
    } newer = {.known.struct_size = (uint32_t)sizeof newer, .more = 7};
    assert_int_equal(kith_ctx_where(ctx, &newer.known), KITH_OK);
    assert_true(newer.known.struct_size == sizeof newer && newer.more == 7);
    assert_string_equal(newer.known.file, "/nowhere/points.npy");

    kith_where wrong = {.struct_size = 1};
    assert_int_equal(kith_ctx_where(ctx, &wrong), KITH_E_ARGUMENT);
    assert_int_equal(kith_ctx_where(ctx, NULL), KITH_E_ARGUMENT);
    assert_int_equal(kith_ctx_where(NULL, &wrong), KITH_E_ARGUMENT);
    kith_ctx_free(ctx);
    printf("values, members and files: place, reason and sentence agree\n");
}

/* Rows of a part are counted from the whole, and another context's failure keeps its place. */
static void handed_on(void **state)
{
    (void)state;
    char path[3000];
    kith_ctx *ctx = NULL;
    kith_ctx *other = NULL;
    assert_int_equal(kith_ctx_create(NULL, &ctx), KITH_OK);
    assert_int_equal(kith_ctx_create(NULL, &other), KITH_OK);
    (void)kin_fail_at(other, KITH_E_DATA, kin_at_cell("points", 17, 3), "is NaN (remove it)");
    (void)kin_fail_at(other, KITH_E_DATA, kin_at("k"), "is wrong, but later");
    kin_failure_shift(other, "queries", "b", 1000);
    assert_int_equal(where_of(other).row, 17);
    kin_failure_shift(other, "points", "a", 1000);
    assert_int_equal(kin_fail_like(ctx, KITH_E_DATA, other), KITH_E_DATA);
    assert_string_equal(kith_ctx_detail(ctx), "a[1017, 3] is NaN (remove it)");
    assert_int_equal(where_of(ctx).row, 1017);

    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    kin_forgive(ctx);
    (void)kin_fail_at(ctx, KITH_E_IO, kin_at_file(path), "is empty (make it again)");
    assert_string_equal(where_of(ctx).file, path);
    assert_string_equal(where_of(ctx).reason, "is empty (make it again)");
    assert_true(strlen(kith_ctx_detail(ctx)) < KIN_DETAIL_BYTES);
    assert_non_null(strstr(kith_ctx_detail(ctx), "aaa: is empty (make it again)"));
    kith_ctx_free(other);
    kith_ctx_free(ctx);
    printf("the first failure wins, rows are counted from the whole, long paths keep the reason\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls), cmocka_unit_test(handed_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
