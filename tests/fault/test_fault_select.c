/* SPDX-License-Identifier: Apache-2.0
 * Memory that runs out while rows are selected from: for every method and switch, of short rows and
 * of rows that are cut, the n-th allocation fails for n = 1, 2, 3 ... until the call succeeds. Each
 * failure is KITH_E_MEMORY with a sentence and leaks nothing; what succeeds is right. The same for
 * a limit that rises (KITH_E_LIMIT). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_faulty.h"
#include "support/support_selections.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct setting {
    kith_dtype dtype;
    int64_t rows;
    int32_t cols;
    int64_t k;
    test_ids ids;
} setting;

static const setting settings[] = {
    {KITH_F32, 40, 300, 20, TEST_IDS_PLACES},
    {KITH_F64, 7, 900, 900, TEST_IDS_GIVEN},
    {KITH_F16, 3, 2000, 700, TEST_IDS_REPEATED},
    {KITH_F32, 1, 300000, 25, TEST_IDS_PLACES}, /* cut among the threads */
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* One call with an allocator that fails; the context must hold nothing but itself afterwards. */
static kith_status run(const test_values *v, const kith_select_params *params, test_faulty *f,
                       uint64_t limit, long fails_at, bool kth)
{
    const uint64_t places = (uint64_t)(v->values.rows * params->k);
    void *values = malloc((size_t)places * sizeof(double));
    uint32_t *ids = malloc((size_t)places * sizeof *ids);
    char text[160];
    assert_true(values != NULL && ids != NULL);
    kith_ctx *ctx = test_faulty_ctx("cpu", f, limit);
    const long own = atomic_load(&f->blocks);
    atomic_store(&f->asked, 0);
    f->fails_at = fails_at;
    const kith_selection out = {values, ids, NULL};
    const kith_status status =
        kth ? kith_select(ctx, &v->values, params, &(kith_selection){.kth = values})
            : kith_select(ctx, &v->values, params, &out);
    f->fails_at = 0;
    if ((status != KITH_OK) != (kith_ctx_detail(ctx)[0] != '\0') ||
        atomic_load(&f->blocks) != own) {
        fail_msg("%s: %s \"%s\", %ld blocks leak", test_selection_text(params, text, sizeof text),
                 kith_status_name(status), kith_ctx_detail(ctx), atomic_load(&f->blocks) - own);
    }
    if (status == KITH_OK && !kth) {
        assert_true(test_selection_is_right(v, params, values, ids));
    }
    kith_ctx_free(ctx);
    assert_int_equal(atomic_load(&f->blocks), 0);
    free(ids);
    free(values);
    return status;
}

/* Failures of one job until it succeeds; none but `wanted` is allowed. */
static long sweep(const test_values *v, const kith_select_params *params, kith_status wanted,
                  bool kth)
{
    char text[160];
    long failures = 0;
    kith_status status = wanted;
    uint64_t limit = 64;
    for (long n = 1; status != KITH_OK; n++) {
        test_faulty f = {0};
        const bool limited = wanted == KITH_E_LIMIT;
        status = run(v, params, &f, limited ? limit : 0, limited ? 0 : n, kth);
        if (status != KITH_OK && status != wanted) {
            fail_msg("%s, %ld: %s", test_selection_text(params, text, sizeof text), n,
                     kith_status_name(status));
        }
        failures += status != KITH_OK;
        limit += limit / 2;
        assert_true(n < 1000);
    }
    return failures;
}

static void memory_runs_out(void **state)
{
    (void)state;
    kith_select_params variants[TEST_SELECT_VARIANTS];
    const int count = test_select_variants(variants);
    const int step = test_is_slow_build() ? 9 : 1;
    uint64_t seed = 61;
    long allocations = 0;
    long limits = 0;
    for (int i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        test_values v =
            test_values_make(s->dtype, s->rows, s->cols, 0, TEST_RUN_FEW, s->ids, &seed);
        test_values_sort(&v, i % 2 != 0);
        for (int which = 0; which < count; which += step) {
            kith_select_params params = variants[which];
            params.k = s->k;
            params.flags |= i % 2 != 0 ? KITH_SELECT_LARGEST : 0;
            allocations += sweep(&v, &params, KITH_E_MEMORY, which % 4 == 3);
            limits += sweep(&v, &params, KITH_E_LIMIT, which % 4 == 2);
        }
        test_values_free(&v);
    }
    assert_true(allocations > 0 && limits > 0);
    (void)printf(
        "selections: %ld allocations failed, %ld limits were too low: said so, no leak, and "
        "what fits is right\n",
        allocations, limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
