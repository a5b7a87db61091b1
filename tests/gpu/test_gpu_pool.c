/* SPDX-License-Identifier: Apache-2.0
 * Device memory of the caller's: every block comes from the pool and goes back to it when nothing
 * reads or writes it any more, answers are those of kith's own memory, and a pool that has too
 * little, or gives what cannot be used, is told or got along with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MANY = 3000,
    FEW = 1200,
    COLUMNS = 24,
    K = 7,
    MORE = 4096 /* before a block that is not aligned */
};

typedef struct pool {
    test_caller caller; /* a stream of its own */
    pthread_mutex_t lock;
    int64_t blocks;
    uint64_t held;
    uint64_t peak;
    uint64_t limit;
    int64_t calls;
    int64_t failing; /* the call that gets nothing; 0: none */
    size_t askew;
} pool;

static void *take(void *arg, int32_t device, size_t bytes)
{
    pool *p = arg;
    void *block = NULL;
    assert_int_equal(device, 0);
    pthread_mutex_lock(&p->lock);
    p->calls += 1;
    if (p->calls != p->failing && p->held + bytes <= p->limit &&
        p->caller.ops->allocate(p->caller.stream, bytes + MORE, &block) == 0) {
        p->blocks += 1;
        p->held += bytes;
        p->peak = p->held > p->peak ? p->held : p->peak;
    }
    pthread_mutex_unlock(&p->lock);
    return block != NULL ? (char *)block + p->askew : NULL;
}

/* What comes back is overwritten at once, by another stream than kith's. */
static void give(void *arg, int32_t device, void *block, size_t bytes)
{
    pool *p = arg;
    const test_caller *c = &p->caller;
    void *whole = (char *)block - p->askew;
    assert_int_equal(device, 0);
    pthread_mutex_lock(&p->lock);
    assert_true(p->blocks > 0 && p->held >= bytes);
    p->blocks -= 1;
    p->held -= bytes;
    assert_int_equal(c->ops->fill(c->stream, whole, 0xee, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    c->ops->release(c->stream, whole);
    pthread_mutex_unlock(&p->lock);
}

static pool *pool_make(void)
{
    pool *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->caller = test_caller_open();
    p->limit = UINT64_MAX;
    assert_int_equal(pthread_mutex_init(&p->lock, NULL), 0);
    return p;
}

static void pool_free(pool *p)
{
    assert_int_equal(p->blocks, 0);
    assert_int_equal(p->held, 0);
    test_caller_close(&p->caller);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

static kith_ctx *pool_ctx(pool *p)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = "cuda:0";
    params.threads = 2;
    params.device_allocate = take;
    params.device_release = give;
    params.device_allocate_arg = p;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

static test_rows rows_make(void)
{
    uint64_t seed = 5;
    const test_rows made = test_rows_make(KITH_F32, test_is_slow_build() ? FEW : MANY, COLUMNS, 0);
    test_shape_fill(&made, SHAPE_CLUSTERS, false, &seed);
    return made;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static kith_search_params params_of(int call)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.recall = call == 2 ? 0.9 : 1.0;
    params.method = call == 3 ? KITH_METHOD_TREE : KITH_METHOD_AUTO;
    return params;
}

enum { CALLS = 4 };

static kith_status run(kith_ctx *ctx, int call, const kith_matrix *points, kith_neighbors *out)
{
    const kith_search_params params = params_of(call);
    return call == 1 ? kith_search(ctx, points, points, &params, out, NULL)
                     : kith_graph(ctx, points, &params, out, NULL);
}

static void answers_are_kiths_own(void **state)
{
    (void)state;
    pool *p = pool_make();
    kith_ctx *pooled = pool_ctx(p);
    kith_ctx *plain = test_gpu_ctx(2, 0);
    test_rows points = rows_make();
    for (int call = 0; call < CALLS; call++) {
        kith_neighbors wanted = test_answer_make(points.matrix.rows, K);
        kith_neighbors got = test_answer_make(points.matrix.rows, K);
        const int64_t before = p->calls;
        test_works(plain, run(plain, call, &points.matrix, &wanted));
        test_works(pooled, run(pooled, call, &points.matrix, &got));
        assert_true(test_answers_equal(&wanted, &got));
        assert_true(p->calls > before && p->peak > 0);
        assert_int_equal(p->held, 0);
        test_answer_free(&got);
        test_answer_free(&wanted);
    }
    printf("graphs (exact, approximate, by the tree) and a search: the same bytes, %lld blocks of "
           "the caller's, all given back when the call ends\n",
           (long long)p->calls);
    test_rows_free(&points);
    kith_ctx_free(plain);
    kith_ctx_free(pooled);
    pool_free(p);
}

/* An index keeps what it needs, and outlives its context. */
static void indexes_keep_blocks(void **state)
{
    (void)state;
    pool *p = pool_make();
    kith_ctx *plain = test_gpu_ctx(2, 0);
    test_rows points = rows_make();
    static const kith_method methods[] = {KITH_METHOD_EXACT, KITH_METHOD_TREE};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        kith_ctx *pooled = pool_ctx(p);
        kith_index *index = NULL;
        kith_index_params params = kith_index_params_default();
        kith_search_params search = params_of(0);
        kith_neighbors wanted = test_answer_make(points.matrix.rows, K);
        kith_neighbors got = test_answer_make(points.matrix.rows, K);
        params.method = methods[i];
        test_works(pooled, kith_index_create(pooled, &points.matrix, &params, &index));
        kith_ctx_free(pooled);
        assert_true(p->held > 0);
        const uint64_t kept = p->held;
        test_works(plain,
                   kith_search(plain, &points.matrix, &points.matrix, &search, &wanted, NULL));
        test_works(plain, kith_index_search(plain, index, &points.matrix, &search, &got, NULL));
        assert_true(test_answers_equal(&wanted, &got));
        assert_int_equal(p->held, kept);
        kith_index_free(index);
        assert_int_equal(p->held, 0);
        test_answer_free(&got);
        test_answer_free(&wanted);
    }
    printf("indexes keep blocks of the pool for as long as they live, and searches none\n");
    test_rows_free(&points);
    kith_ctx_free(plain);
    pool_free(p);
}

/* ---- Pools that have too little, or what cannot be used -------------------------------------- */

static bool is_whole(kith_ctx *ctx, kith_status status, const kith_neighbors *wanted,
                     const kith_neighbors *got)
{
    if (status == KITH_OK) {
        assert_true(test_answers_equal(wanted, got));
        return true;
    }
    assert_int_equal(status, KITH_E_DEVICE_MEMORY);
    assert_non_null(strstr(kith_ctx_detail(ctx), "memory"));
    return false;
}

static void little_is_got_along_with(void **state)
{
    (void)state;
    pool *p = pool_make();
    kith_ctx *plain = test_gpu_ctx(2, 0);
    test_rows points = rows_make();
    int whole[2] = {0, 0};
    int runs = 0;
    for (int call = 0; call < CALLS; call++) {
        kith_neighbors wanted = test_answer_make(points.matrix.rows, K);
        kith_neighbors got = test_answer_make(points.matrix.rows, K);
        test_works(plain, run(plain, call, &points.matrix, &wanted));
        for (int step = 0; step < 12; step++, runs++) {
            p->limit = UINT64_C(64) << (2 * step + 2);
            kith_ctx *ctx = pool_ctx(p);
            whole[0] += is_whole(ctx, run(ctx, call, &points.matrix, &got), &wanted, &got);
            assert_int_equal(p->held, 0);
            p->limit = UINT64_MAX;
            p->failing = p->calls + 1 + step;
            whole[1] += is_whole(ctx, run(ctx, call, &points.matrix, &got), &wanted, &got);
            assert_int_equal(p->held, 0);
            p->failing = 0; /* a pool that has room again is asked again */
            test_works(ctx, run(ctx, call, &points.matrix, &got));
            assert_true(test_answers_equal(&wanted, &got));
            kith_ctx_free(ctx);
        }
        test_answer_free(&got);
        test_answer_free(&wanted);
    }
    assert_true(whole[0] > 0 && whole[0] < runs && whole[1] > 0);
    printf("%d calls with pools of 256 bytes to 1 GiB: %d answers, whole and the same, the others "
           "told; %d of as many after a block that was refused\n",
           runs, whole[0], whole[1]);
    test_rows_free(&points);
    kith_ctx_free(plain);
    pool_free(p);
}

static void what_cannot_be_used_is_told(void **state)
{
    (void)state;
    pool *p = pool_make();
    kith_ctx *ctx = pool_ctx(p);
    test_rows points = rows_make();
    kith_neighbors out = test_answer_make(points.matrix.rows, K);
    p->askew = 64;
    test_fails(ctx, run(ctx, 0, &points.matrix, &out), KITH_E_ARGUMENT,
               "device_allocate gave memory that is not aligned to 256 bytes");
    p->askew = 0;
    test_works(ctx, run(ctx, 0, &points.matrix, &out));
    kith_ctx_free(ctx);
    kith_ctx_params params = kith_ctx_params_default();
    params.device_allocate = take;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_E_ARGUMENT);
    assert_null(ctx);
    printf("memory that is not aligned, and one function without the other, are refused\n");
    test_answer_free(&out);
    test_rows_free(&points);
    pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_kiths_own),
        cmocka_unit_test(indexes_keep_blocks),
        cmocka_unit_test(little_is_got_along_with),
        cmocka_unit_test(what_cannot_be_used_is_told),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED
                                : cmocka_run_group_tests_name("gpu_pool", tests, NULL, NULL);
}
