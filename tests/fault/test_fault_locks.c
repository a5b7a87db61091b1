/* SPDX-License-Identifier: Apache-2.0
 * Locks that cannot be had: the n-th pthread_mutex_init fails, for n = 1, 2, 3 ... until the call
 * succeeds. Each failure is KITH_E_MEMORY, all memory is given back, and as many locks are
 * destroyed as were made. */
#define _GNU_SOURCE
#include "support/support_answers.h"
#include "support/support_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 900, COLS = 8, QUERIES = 500, K = 5 };

static struct {
    int fail_at; /* the n-th fails and all after it; 0 = none */
    int made;
    int destroyed;
} locks;

typedef int (*init_fn)(pthread_mutex_t *lock, const pthread_mutexattr_t *how);
typedef int (*destroy_fn)(pthread_mutex_t *lock);

int pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *how)
{
    const union {
        void *symbol;
        init_fn call;
    } real = {dlsym(RTLD_NEXT, "pthread_mutex_init")};
    if (locks.fail_at != 0 && locks.made + 1 >= locks.fail_at) {
        return ENOMEM;
    }
    locks.made += 1;
    return real.call(lock, how);
}

int pthread_mutex_destroy(pthread_mutex_t *lock)
{
    const union {
        void *symbol;
        destroy_fn call;
    } real = {dlsym(RTLD_NEXT, "pthread_mutex_destroy")};
    locks.destroyed += 1;
    return real.call(lock);
}

static atomic_long held;

static void *allocate(void *arg, size_t bytes)
{
    (void)arg;
    (void)atomic_fetch_add(&held, 1);
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release(void *arg, void *block, size_t bytes)
{
    (void)arg;
    (void)bytes;
    (void)atomic_fetch_sub(&held, 1);
    free(block);
}

typedef struct input {
    kith_ctx *ctx;
    test_rows points;
    test_rows queries;
    kith_neighbors graph;
    kith_neighbors found;
} input;

static kith_status graph(const input *in)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.method = KITH_METHOD_EXACT;
    return kith_graph(in->ctx, &in->points.matrix, &params, &in->graph, NULL);
}

static kith_status search(const input *in)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.method = KITH_METHOD_EXACT;
    return kith_search(in->ctx, &in->points.matrix, &in->queries.matrix, &params, &in->found, NULL);
}

static kith_status both(const input *in)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    return kith_knn_both(in->ctx, &in->queries.matrix, &in->points.matrix, &params, &in->found,
                         &in->graph);
}

static kith_status descent(const input *in)
{
    kith_search_params params = kith_search_params_default();
    params.k = K;
    params.method = KITH_METHOD_DESCENT;
    return kith_graph(in->ctx, &in->points.matrix, &params, &in->graph, NULL);
}

static void sweep(const input *in, const char *name, kith_status (*call)(const input *in))
{
    int failures = 0;
    kith_status status = KITH_E_MEMORY;
    for (int n = 1; status != KITH_OK; n++) {
        const long before = atomic_load(&held);
        locks.made = 0;
        locks.destroyed = 0;
        locks.fail_at = n;
        status = call(in);
        locks.fail_at = 0;
        assert_int_equal(locks.made, locks.destroyed);
        assert_int_equal(atomic_load(&held), before);
        if (status != KITH_OK) {
            assert_int_equal(status, KITH_E_MEMORY);
            assert_non_null(strstr(kith_ctx_detail(in->ctx), "no memory for locks (free"));
            failures += 1;
        }
    }
    print_message("%s: %d locks, each failed once: nothing is left\n", name, failures);
}

static void each_lock(void **state)
{
    uint64_t seed = 5;
    input in = {.points = test_rows_make(KITH_F32, ROWS, COLS, 0),
                .queries = test_rows_make(KITH_F32, QUERIES, COLS, 0),
                .graph = test_answer_make(ROWS, K),
                .found = test_answer_make(QUERIES, K)};
    kith_ctx_params params = kith_ctx_params_default();
    (void)state;
    params.allocate = allocate;
    params.release = release;
    params.device = "cpu";
    params.threads = 2;
    test_shape_fill(&in.points, SHAPE_GAUSS, false, &seed);
    test_shape_fill(&in.queries, SHAPE_GAUSS, false, &seed);
    assert_int_equal(kith_ctx_create(&params, &in.ctx), KITH_OK);
    sweep(&in, "graph", graph);
    sweep(&in, "search", search);
    sweep(&in, "both ways", both);
    sweep(&in, "descent", descent);
    kith_ctx_free(in.ctx);
    test_rows_free(&in.points);
    test_rows_free(&in.queries);
    test_answer_free(&in.graph);
    test_answer_free(&in.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_lock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
