/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

test_progress_state test_progress;

static int progress(void *arg, const char *phase, double done, double total)
{
    (void)arg;
    (void)phase;
    assert_true(done <= total);
    test_progress.asked += 1;
    return test_progress.asked == test_progress.stop_at;
}

kith_ctx *test_progress_ctx(void)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = "cpu";
    params.threads = 2;
    params.progress = progress;
    test_progress = (test_progress_state){0};
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}
