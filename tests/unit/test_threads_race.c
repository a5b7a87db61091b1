/* SPDX-License-Identifier: Apache-2.0
 * Two contexts in two threads at once, each with threads of its own, on the same data: the answers
 * are those of one context alone; and of pieces that fail at once the first is told of. Run it
 * under the thread sanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_threads.h"
#include "support/support_answers.h"
#include "support/support_shapes.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { ROWS = 1100, COLS = 12, ASKED = 300, K = 6, JOBS = 5, USERS = 2 };

typedef struct shared {
    test_rows points;
    test_rows queries;
    kith_neighbors truth[JOBS];
    kith_neighbors back;
} shared;

/* One of the users: its own context and room, the shared data. */
typedef struct user {
    const shared *data;
    int32_t threads;
    int first; /* the job it begins with */
    bool right;
} user;

static int64_t rows_of(int job)
{
    return job == 1 ? ASKED : ROWS;
}

static kith_status run_job(kith_ctx *ctx, const shared *s, int job, const kith_neighbors *out,
                           const kith_neighbors *back)
{
    static const kith_metric metrics[JOBS] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT,
                                              KITH_MANHATTAN, KITH_CORRELATION};
    kith_search_params params = kith_search_params_default();
    params.metric = metrics[job];
    params.k = K;
    if (job == 1) {
        return kith_search(ctx, &s->points.matrix, &s->queries.matrix, &params, out, NULL);
    }
    if (job == 2) {
        return kith_knn_both(ctx, &s->points.matrix, &s->queries.matrix, &params, out, back);
    }
    return kith_graph(ctx, &s->points.matrix, &params, out, NULL);
}

static void *use(void *arg)
{
    user *u = arg;
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = u->threads;
    kith_ctx *ctx = NULL;
    u->right = kith_ctx_create(&params, &ctx) == KITH_OK;
    for (int i = 0; i < JOBS && u->right; i++) {
        const int job = (u->first + i) % JOBS;
        kith_neighbors out = test_answer_make(rows_of(job), K);
        kith_neighbors back = test_answer_make(ASKED, K);
        u->right = run_job(ctx, u->data, job, &out, &back) == KITH_OK &&
                   test_answers_equal(&out, &u->data->truth[job]) &&
                   (job != 2 || test_answers_equal(&back, &u->data->back));
        test_answer_free(&out);
        test_answer_free(&back);
    }
    kith_ctx_free(ctx);
    return NULL;
}

static void two_contexts(void **state)
{
    (void)state;
    uint64_t seed = 1;
    shared s = {.back = test_answer_make(ASKED, K)};
    s.points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    s.queries = test_rows_make(KITH_F32, ASKED, COLS, 0);
    test_shape_fill(&s.points, SHAPE_COPIES, false, &seed);
    test_shape_fill(&s.queries, SHAPE_SPARSE, false, &seed);
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = 1;
    kith_ctx *alone = NULL;
    assert_int_equal(kith_ctx_create(&params, &alone), KITH_OK);
    for (int job = 0; job < JOBS; job++) {
        s.truth[job] = test_answer_make(rows_of(job), K);
        assert_int_equal(run_job(alone, &s, job, &s.truth[job], &s.back), KITH_OK);
    }
    kith_ctx_free(alone);
    for (int round = 0; round < 4; round++) {
        user users[USERS] = {{&s, 3, round, false}, {&s, 2, round + 1 + round % 2, false}};
        pthread_t threads[USERS];
        for (int i = 0; i < USERS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
        }
        for (int i = 0; i < USERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_true(users[i].right);
        }
    }
    for (int job = 0; job < JOBS; job++) {
        test_answer_free(&s.truth[job]);
    }
    test_answer_free(&s.back);
    test_rows_free(&s.points);
    test_rows_free(&s.queries);
    printf("two contexts at once, with 3 and 2 threads, give the bytes of one alone\n");
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

enum { PIECES = 64, FIRST_BAD = 5 };

/* All pieces from FIRST_BAD on are wrong, and the lower, the later. */
static kith_status fail_late(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    if (task < FIRST_BAD) {
        return KITH_OK;
    }
    const struct timespec pause = {.tv_nsec = (PIECES - task) * 100000};
    (void)nanosleep(&pause, NULL);
    return kin_fail(arg, KITH_E_DATA, "piece %lld is wrong", (long long)task);
}

static void the_first_mistake_is_told(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= 8; threads++) {
        kith_ctx_params params = kith_ctx_params_default();
        params.threads = threads;
        kith_ctx *ctx = NULL;
        assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
        assert_int_equal(kin_parallel(ctx, NULL, PIECES, fail_late, ctx), KITH_E_DATA);
        assert_string_equal(kith_ctx_detail(ctx), "piece 5 is wrong");
        (void)kin_fail(ctx, KITH_E_DATA, "and something else");
        assert_string_equal(kith_ctx_detail(ctx), "piece 5 is wrong");
        kith_ctx_free(ctx);
    }
    printf("of pieces that fail at once the first is told of, with 1 to 8 threads\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_contexts),
                                       cmocka_unit_test(the_first_mistake_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
