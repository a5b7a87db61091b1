/* SPDX-License-Identifier: Apache-2.0
 * Every kernel of selection once or twice, on little data: for tools/sanitize_gpu.sh, under which
 * each launch takes long (TESTS="test_gpu_paths test_select_paths"), and a quick look without it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_gpu.h"
#include "support/support_selections.h"

#include <stdio.h>

typedef struct path {
    int64_t rows;
    int32_t cols;
    int64_t k;
    bool wide; /* for the methods that share a row among many threads */
} path;

static const path paths[] = {
    {5, 300, 7, false},   {3, 257, 257, false}, {33, 40, 10, false},
    {2, 9000, 700, true}, {1, 70001, 33, true}, {1, 30000, 5000, true},
};

static void every_path(void **state)
{
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};
    (void)state;
    kith_select_params variants[TEST_SELECT_VARIANTS];
    const int count = test_select_variants(variants);
    kith_ctx *gpu = test_gpu_ctx(1, 0);
    uint64_t seed = 71;
    int done = 0;
    int wrong = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const path *p = &paths[i];
        for (int type = 0; type < 4; type++) {
            const bool largest = (i + (size_t)type) % 2 != 0;
            test_values v = test_values_make(dtypes[type], p->rows, p->cols, 1, TEST_RUN_FEW,
                                             (test_ids)(type % TEST_IDS_KINDS), &seed);
            test_values_sort(&v, largest);
            for (int which = 0; which < count; which++) {
                kith_select_params params = variants[which];
                const bool queue = params.method >= KITH_SELECT_INSERTION &&
                                   params.method <= KITH_SELECT_MERGE_QUEUE;
                if (p->wide && queue) {
                    continue;
                }
                params.k = p->k;
                params.flags |= largest ? KITH_SELECT_LARGEST : 0;
                wrong +=
                    !test_select(&v, gpu, &params, which % 8 == 7 ? TEST_KTH : TEST_BOTH_PARTS);
                done += 1;
            }
            test_values_free(&v);
        }
    }
    kith_ctx_free(gpu);
    (void)printf("%d selections, every kernel among them: %d wrong\n", done, wrong);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_path)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
