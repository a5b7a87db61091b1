/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_faulty.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

void *test_faulty_allocate(void *arg, size_t bytes)
{
    test_faulty *f = arg;
    if (atomic_fetch_add(&f->asked, 1) + 1 == f->fails_at) {
        return NULL;
    }
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block != NULL) {
        memset(block, 0xa5, bytes);
        atomic_fetch_add(&f->blocks, 1);
        atomic_fetch_add(&f->bytes, (long)bytes);
    }
    return block;
}

void test_faulty_release(void *arg, void *block, size_t bytes)
{
    test_faulty *f = arg;
    memset(block, 0x5a, bytes);
    free(block);
    atomic_fetch_sub(&f->blocks, 1);
    atomic_fetch_sub(&f->bytes, (long)bytes);
}

kith_ctx *test_faulty_ctx(const char *device, test_faulty *f, uint64_t limit)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.device = device;
    params.threads = 2;
    params.memory_limit = limit;
    params.allocate = test_faulty_allocate;
    params.release = test_faulty_release;
    params.allocate_arg = f;
    kith_ctx *ctx = NULL;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}
