/* SPDX-License-Identifier: Apache-2.0
 * Several contexts on one GPU at the same time, each in a thread of its own, and a prepared corpus
 * that several of them search: every answer has the bytes of the processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <pthread.h>
#include <stdio.h>

enum { USERS = 6, ROUNDS = 5, JOBS = 9, K = 9 };

typedef struct shared {
    test_rows points;
    test_rows bytes;
    test_rows queries;
    test_job jobs[JOBS];
    kith_neighbors wanted[JOBS];
    kith_index *corpus;
    kith_neighbors of_corpus;
} shared;

typedef struct user {
    shared *all;
    int number;
    int wrong;
    char detail[200];
} user;

static void blame(user *u, kith_ctx *ctx, kith_status status)
{
    u->wrong += 1;
    (void)snprintf(u->detail, sizeof u->detail, "%s %.150s", kith_status_name(status),
                   kith_ctx_detail(ctx));
}

/* Each begins with another job; some have a budget that makes them batch. */
static void *use(void *arg)
{
    user *u = arg;
    shared *all = u->all;
    kith_ctx *ctx = test_gpu_ctx(1 + u->number % 3, u->number % 2 == 0 ? 0 : 48u << 20);
    for (int i = 0; i < ROUNDS * JOBS; i++) {
        const int number = (u->number + i) % JOBS;
        kith_neighbors got;
        const kith_status status = test_job_solve(ctx, &all->jobs[number], &got);
        if (status != KITH_OK || !test_answers_equal(&all->wanted[number], &got)) {
            blame(u, ctx, status);
        }
        test_answer_free(&got);
    }
    kith_ctx_free(ctx);
    return NULL;
}

static void *search_corpus(void *arg)
{
    user *u = arg;
    shared *all = u->all;
    kith_ctx *ctx = test_gpu_ctx(1, 0);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    for (int i = 0; i < ROUNDS * JOBS; i++) {
        kith_neighbors got = test_answer_make(all->queries.matrix.rows, K);
        const kith_status status =
            kith_index_search(ctx, all->corpus, &all->queries.matrix, &params, &got, NULL);
        if (status != KITH_OK || !test_answers_equal(&all->of_corpus, &got)) {
            blame(u, ctx, status);
        }
        test_answer_free(&got);
    }
    kith_ctx_free(ctx);
    return NULL;
}

static void run_users(shared *all, void *(*what)(void *))
{
    pthread_t threads[USERS];
    user users[USERS];
    int wrong = 0;
    for (int i = 0; i < USERS; i++) {
        users[i] = (user){.all = all, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, what, &users[i]), 0);
    }
    for (int i = 0; i < USERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (users[i].wrong != 0) {
            printf("  DIFFERS: context %d, %d calls, the last: %s\n", i, users[i].wrong,
                   users[i].detail);
        }
        wrong += users[i].wrong;
    }
    assert_int_equal(wrong, 0);
}

static int make_shared(void **state)
{
    static shared all;
    uint64_t seed = 61;
    all.points = test_rows_make(KITH_F32, 5000, 20, 0);
    all.bytes = test_rows_make(KITH_U8, 4000, 50, 0);
    all.queries = test_rows_make(KITH_F32, 700, 20, 0);
    test_shape_fill(&all.points, SHAPE_COPIES, false, &seed);
    test_shape_fill(&all.bytes, SHAPE_GAUSS, false, &seed);
    test_shape_fill(&all.queries, SHAPE_GAUSS, false, &seed);
    const kith_matrix *p = &all.points.matrix;
    const kith_matrix *q = &all.queries.matrix;
    const kith_matrix *bytes = &all.bytes.matrix;
    const uint32_t self = KITH_INCLUDE_SELF;
    const test_job jobs[JOBS] = {
        {.name = "a", .points = p, .metric = KITH_EUCLIDEAN},
        {.name = "b", .points = bytes, .metric = KITH_EUCLIDEAN},
        {.name = "c", .points = p, .queries = q, .call = TEST_SEARCH, .metric = KITH_COSINE},
        {.name = "d", .points = p, .queries = q, .call = TEST_BOTH, .metric = KITH_INNER_PRODUCT},
        {.name = "e", .points = p, .queries = q, .call = TEST_PREPARED, .metric = KITH_CORRELATION},
        {.name = "f", .points = p, .queries = q, .call = TEST_SEARCH, .metric = KITH_MANHATTAN},
        {.name = "g", .points = q, .metric = KITH_EUCLIDEAN, .k = 200, .flags = self},
        {.name = "h", .points = q, .queries = p, .call = TEST_SEARCH, .metric = KITH_EUCLIDEAN},
        {.name = "i", .points = p, .metric = KITH_EUCLIDEAN, .method = KITH_METHOD_TREE},
    };
    kith_ctx *cpu = test_cpu_ctx();
    for (int i = 0; i < JOBS; i++) {
        all.jobs[i] = jobs[i];
        all.jobs[i].k = jobs[i].k != 0 ? jobs[i].k : K;
        assert_int_equal(test_job_solve(cpu, &all.jobs[i], &all.wanted[i]), KITH_OK);
    }
    kith_ctx_free(cpu);
    *state = &all;
    return 0;
}

static int free_shared(void **state)
{
    shared *all = *state;
    for (int i = 0; i < JOBS; i++) {
        test_answer_free(&all->wanted[i]);
    }
    test_rows_free(&all->points);
    test_rows_free(&all->bytes);
    test_rows_free(&all->queries);
    return 0;
}

static void many_contexts(void **state)
{
    run_users(*state, use);
    printf("%d contexts in threads, %d calls each at once: the processor's bytes\n", USERS,
           ROUNDS * JOBS);
}

static void one_corpus(void **state)
{
    shared *all = *state;
    kith_ctx *owner = test_gpu_ctx(2, 0);
    kith_ctx *cpu = test_cpu_ctx();
    const test_job job = {.name = "corpus",
                          .call = TEST_SEARCH,
                          .points = &all->points.matrix,
                          .queries = &all->queries.matrix,
                          .metric = KITH_EUCLIDEAN,
                          .k = K};
    assert_int_equal(test_job_solve(cpu, &job, &all->of_corpus), KITH_OK);
    if (test_index_create(owner, &all->points.matrix, KITH_EUCLIDEAN, &all->corpus) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(owner));
    }
    kith_ctx_free(owner); /* the corpus has a device handle of its own */
    run_users(all, search_corpus);
    kith_index_free(all->corpus);
    test_answer_free(&all->of_corpus);
    kith_ctx_free(cpu);
    printf("a prepared corpus that %d contexts search at once: the processor's bytes\n", USERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_contexts),
                                       cmocka_unit_test(one_corpus)};
    return test_gpu_is_absent() ? TEST_SKIPPED
                                : cmocka_run_group_tests(tests, make_shared, free_shared);
}
