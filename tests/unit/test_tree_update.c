/* SPDX-License-Identifier: Apache-2.0
 * A tree that is kept while rows come and go. After each step: every distinct row in one lane,
 * within the boxes of its leaf and of all nodes above, on its side of each split, and its loss
 * covered; and a search that gives the bytes of the exact engine on the same rows. The tree has the
 * same bytes for any number of threads, and memory that runs out leaves it as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_faulty.h"
#include "support/support_kept.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

static kith_ctx *ctx_of(int32_t threads)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.threads = threads;
    params.device = "cpu";
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static void random_step(test_kept *k)
{
    static const int64_t sizes[] = {1, 7, 1000};
    const int64_t size = sizes[test_kept_below(k, 3)];
    const int64_t what = test_kept_below(k, 12);
    if (k->rows + size > TEST_KEPT_ROWS || what >= 10) {
        test_kept_remove_some(k, size);
    } else if (what == 9) {
        test_kept_remove_firsts(k);
    } else if (what == 8) {
        test_kept_add(k, COMING_FAR, 1);
    } else {
        test_kept_add(k, (test_coming)(what % COMING_FAR), size);
    }
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void sequences(void **state)
{
    (void)state;
    static const struct {
        kith_dtype dtype;
        kith_metric metric;
        int32_t cols;
        test_coming what;
        int64_t rows;
        bool roomy;
    } starts[] = {
        {KITH_F32, KITH_EUCLIDEAN, 3, COMING_ANYWHERE, 3000, false},
        {KITH_F64, KITH_SQEUCLIDEAN, 5, COMING_CLUSTERED, 2000, true},
        {KITH_F32, KITH_MANHATTAN, 2, COMING_GRID, 500, false},
        {KITH_F64, KITH_CHEBYSHEV, 17, COMING_ANYWHERE, 1, true},
        {KITH_F32, KITH_EUCLIDEAN, 1, COMING_SORTED, 100, true},
        {KITH_U8, KITH_EUCLIDEAN, 2, COMING_CLUSTERED, 700, true},
        {KITH_BF16, KITH_MANHATTAN, 9, COMING_ANYWHERE, 300, false},
    };
    const int64_t most = test_is_slow_build() ? 8 : 40;
    int64_t steps = 0;
    int64_t made_again = 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        test_kept k = test_kept_make(ctx_of(2), starts[i].dtype, starts[i].metric, starts[i].cols,
                                     starts[i].what, starts[i].rows, starts[i].roomy);
        test_kept_look(&k);
        for (int64_t step = 0; step < most; step++) {
            random_step(&k);
            test_kept_look(&k);
        }
        test_kept_remove_all_but(&k, k.rows / 2);
        test_kept_look(&k);
        test_kept_add(&k, COMING_ANYWHERE, 300);
        test_kept_look(&k);
        steps += k.looks;
        made_again += k.made_again;
        test_kept_free(&k);
    }
    printf("%d kept trees are whole and answer like the exact engine after %lld steps; %lld times "
           "one was made again\n",
           (int)(sizeof starts / sizeof *starts), (long long)steps, (long long)made_again);
}

/* Rows one at a time, beside each other: nodes overflow again and again where the last row went. */
static void one_by_one(void **state)
{
    (void)state;
    static const test_coming kinds[] = {COMING_SORTED, COMING_CLUSTERED};
    const int64_t rows = test_is_slow_build() ? 100 : 700;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        test_kept k =
            test_kept_make(ctx_of(1), KITH_F32, KITH_EUCLIDEAN, 3, COMING_ANYWHERE, 4000, true);
        for (int64_t row = 0; row < rows; row++) {
            test_kept_add(&k, kinds[i], 1);
            if (row % 50 == 49) {
                test_kept_look(&k);
            }
        }
        printf("%lld rows one by one, %s: the tree was made again %lld times\n", (long long)rows,
               kinds[i] == COMING_SORTED ? "sorted" : "clustered", (long long)k.made_again);
        assert_true(k.made_again <= 4);
        test_kept_free(&k);
    }
}

/* A node that is dealt anew lies in a larger one that has to be, too: with several threads both
 * would write the same leaves. */
static void nested(void **state)
{
    (void)state;
    test_kept k =
        test_kept_make(ctx_of(4), KITH_F32, KITH_EUCLIDEAN, 1, COMING_ANYWHERE, 3000, true);
    for (int i = 0; i < 2; i++) {
        test_kept_add(&k, COMING_TWICE, 110);
        test_kept_look(&k);
    }
    assert_int_equal(k.made_again, 0);
    test_kept_free(&k);
    printf("rows in two places overflow nodes of which one holds the other\n");
}

static void outliers(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        test_kept k =
            test_kept_make(ctx_of(2), dtypes[i], KITH_EUCLIDEAN, 4, COMING_ANYWHERE, 2000, true);
        const double scale = k.tree.scale;
        test_kept_add(&k, COMING_FAR, 1);
        test_kept_look(&k);
        assert_true(k.tree.scale < scale);
        test_kept_add(&k, COMING_ANYWHERE, 50);
        test_kept_look(&k);
        test_kept_free(&k);
    }
    printf("rows far beyond a tree's units renew them\n");
}

static void equal_rows(void **state)
{
    (void)state;
    test_kept k = test_kept_make(ctx_of(2), KITH_F32, KITH_EUCLIDEAN, 2, COMING_EQUAL, 40, false);
    test_kept_look(&k);
    assert_int_equal(k.tree.points, 1);
    test_kept_remove_firsts(&k);
    test_kept_look(&k);
    k.looks = 0;
    test_kept_add(&k, COMING_EQUAL, 1000);
    test_kept_look(&k);
    test_kept_add(&k, COMING_COPIES, 1000);
    test_kept_look(&k);
    for (int i = 0; i < 5; i++) {
        test_kept_remove_firsts(&k);
        test_kept_look(&k);
    }
    test_kept_remove_all_but(&k, k.rows - 1);
    test_kept_look(&k);
    assert_int_equal(k.tree.points, 1);
    test_kept_free(&k);
    printf("one point for many equal rows, named by the lowest that is left\n");
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void thread_counts(void **state)
{
    (void)state;
    static const int32_t threads[] = {1, 2, 3, 8};
    enum { COUNT = sizeof threads / sizeof *threads };
    test_kept all[COUNT];
    for (int t = 0; t < COUNT; t++) {
        all[t] = test_kept_make(ctx_of(threads[t]), KITH_F32, KITH_EUCLIDEAN, 3, COMING_ANYWHERE,
                                6000, true);
        for (int step = 0; step < 12; step++) {
            random_step(&all[t]);
        }
        assert_true(test_trees_equal(&all[0].tree, &all[t].tree));
    }
    for (int t = 0; t < COUNT; t++) {
        test_kept_free(&all[t]);
    }
    printf("12 steps with 1 to 8 threads: the same tree\n");
}

/* ---- Failures ------------------------------------------------------------------------------- */

/* Adds rows while one allocation after the other fails; returns how many did. */
static int add_with_faults(test_kept *k, test_faulty *f, test_coming what, int64_t count)
{
    const int64_t first_new = k->rows;
    kin_tree before = test_tree_copy(&k->tree);
    kin_prepared after;
    int failures = 0;
    test_kept_append(k, what, count, &after);
    for (;; failures++) {
        f->fails_at = atomic_load(&f->asked) + 1 + failures;
        const kith_status status = kin_tree_add(k->ctx, &after, first_new, &k->tree);
        f->fails_at = 0;
        if (status == KITH_OK) {
            break;
        }
        assert_int_equal(status, KITH_E_MEMORY);
        assert_true(test_trees_equal(&before, &k->tree));
    }
    kin_prepared_free(k->ctx, &k->corpus);
    k->corpus = after;
    test_tree_copy_free(&before);
    test_kept_look(k);
    return failures;
}

/* All but the last twenty rows. */
static void remove_most(test_kept *k)
{
    uint8_t *gone = calloc((size_t)k->rows, 1);
    assert_non_null(gone);
    memset(gone, 1, (size_t)k->rows - 20);
    test_kept_remove(k, gone);
    free(gone);
    test_kept_look(k);
}

static void failures(void **state)
{
    (void)state;
    test_faulty f = {.fails_at = 0};
    test_kept k = test_kept_make(test_faulty_ctx("cpu", &f, 0), KITH_F32, KITH_EUCLIDEAN, 3,
                                 COMING_ANYWHERE, 3000, false);
    const int remade = add_with_faults(&k, &f, COMING_ANYWHERE, 5);
    const int64_t blocks = k.tree.blocks;
    const int dealt = add_with_faults(&k, &f, COMING_CLUSTERED, 100);
    assert_int_equal(k.tree.blocks, blocks);
    assert_true(remade >= 4 && dealt >= 4);
    k.faulty = &f;
    remove_most(&k);
    assert_int_equal(k.tree.blocks, blocks);
    k.faulty = NULL;
    test_kept_remove_some(&k, 1);
    test_kept_look(&k);
    assert_true(k.tree.blocks < blocks);
    test_kept_free(&k);
    assert_int_equal(atomic_load(&f.blocks), 0);
    printf("%d failing allocations left a tree as it was; one that is too loose stays where there "
           "is no memory for another\n",
           remade + dealt);
}

static int stop(void *arg, const char *phase, double done, double total)
{
    (void)phase;
    (void)done;
    (void)total;
    return *(const bool *)arg;
}

static void cancelled(void **state)
{
    (void)state;
    bool stops = false;
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.threads = 2;
    params.device = "cpu";
    params.progress = stop;
    params.progress_arg = &stops;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    test_kept k = test_kept_make(ctx, KITH_F32, KITH_EUCLIDEAN, 3, COMING_ANYWHERE, 3000, true);
    kin_tree before = test_tree_copy(&k.tree);
    kin_prepared after;
    test_kept_append(&k, COMING_CLUSTERED, 100, &after);
    stops = true;
    ctx->progress_ns = 0;
    assert_int_equal(kin_tree_add(ctx, &after, 3000, &k.tree), KITH_E_CANCELLED);
    assert_true(test_trees_equal(&before, &k.tree));
    kin_forgive(ctx);
    stops = false;
    assert_int_equal(kin_tree_add(ctx, &after, 3000, &k.tree), KITH_OK);
    kin_prepared_free(ctx, &k.corpus);
    k.corpus = after;
    test_kept_look(&k);
    test_tree_copy_free(&before);
    test_kept_free(&k);
    printf("an addition that is stopped leaves a tree as it was\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences), cmocka_unit_test(one_by_one), cmocka_unit_test(nested),
        cmocka_unit_test(outliers),  cmocka_unit_test(equal_rows), cmocka_unit_test(thread_counts),
        cmocka_unit_test(failures),  cmocka_unit_test(cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
