/* SPDX-License-Identifier: Apache-2.0
 * A prepared corpus keeps no context: it is searched, saved and changed by others when the one that
 * made it is gone; and by several threads at once, each answer being that of the rows before or
 * after a whole change. Run it under the thread sanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_answers.h"
#include "support/support_calls.h"
#include "support/support_faulty.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 400, COLS = 3, ASKED = 24, K = 5, BLOCK = 9, CHANGES = 6, WRITERS = 2, READERS = 2 };
enum { STATES = WRITERS * CHANGES + 1 };

static const double RADIUS = 0.5;

static kith_ctx *ctx_of(int32_t threads, test_faulty *faulty)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.threads = threads;
    params.device = "cpu";
    if (faulty != NULL) {
        params.allocate = test_faulty_allocate;
        params.release = test_faulty_release;
        params.allocate_arg = faulty;
    }
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    return ctx;
}

/* By a context that is freed before this returns. */
static kith_index *orphan(const kith_matrix *points, kith_method method, test_faulty *faulty)
{
    kith_ctx *maker = ctx_of(2, faulty);
    kith_index *corpus = NULL;
    kith_index_params params = kith_index_params_default();
    params.method = method;
    assert_int_equal(kith_index_create(maker, points, &params, &corpus), KITH_OK);
    kith_ctx_free(maker);
    return corpus;
}

/* ---- What is true --------------------------------------------------------------------------- */

typedef struct truth {
    kith_neighbors nearest;
    int64_t within; /* pairs within the radius */
} truth;

static int64_t count_within(kith_ctx *ctx, const kith_index *corpus, const kith_matrix *points,
                            const kith_matrix *queries)
{
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    params.radius = RADIUS;
    params.count_only = 1;
    const kith_status status = corpus != NULL
                                   ? kith_index_radius(ctx, corpus, queries, &params, &ranges)
                                   : kith_radius(ctx, points, queries, &params, &ranges);
    const int64_t count = status == KITH_OK
                              ? kith_ranges_lists(ranges)->offsets[kith_ranges_lists(ranges)->rows]
                              : -1;
    kith_ranges_free(ranges);
    return count;
}

static truth truth_of(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *queries)
{
    kith_search_params params = kith_search_params_default();
    truth t = {.nearest = test_answer_make(queries->rows, K)};
    params.k = K;
    params.method = KITH_METHOD_EXACT;
    assert_int_equal(kith_search(ctx, points, queries, &params, &t.nearest, NULL), KITH_OK);
    t.within = count_within(ctx, NULL, points, queries);
    assert_true(t.within > 0);
    return t;
}

static bool is_true(kith_ctx *ctx, const kith_index *corpus, const kith_matrix *queries,
                    const truth *t)
{
    kith_search_params params = kith_search_params_default();
    kith_neighbors got = test_answer_make(queries->rows, K);
    params.k = K;
    const bool right = kith_index_search(ctx, corpus, queries, &params, &got, NULL) == KITH_OK &&
                       test_answers_equal(&got, &t->nearest) &&
                       count_within(ctx, corpus, NULL, queries) == t->within;
    test_answer_free(&got);
    return right;
}

/* ---- Contexts that go ------------------------------------------------------------------------ */

static void without_its_maker(test_folder *folder, kith_method method)
{
    uint64_t seed = 3;
    test_faulty faulty = {0};
    test_rows points = test_rows_make(KITH_F32, ROWS + BLOCK, COLS, 4);
    test_rows asked = test_rows_make(KITH_F32, ASKED, COLS, 0);
    test_rows_fill(&points, 1.0, 0, &seed);
    test_rows_fill(&asked, 1.0, 0, &seed);
    kith_matrix first = points.matrix;
    first.rows = ROWS;
    kith_index *corpus = orphan(&first, method, &faulty);
    const long held = atomic_load(&faulty.bytes);
    assert_true(held > 0 && (uint64_t)held >= test_index_info(corpus).bytes);

    kith_ctx *ctx = ctx_of(1, NULL);
    truth t = truth_of(ctx, &first, &asked.matrix);
    assert_true(is_true(ctx, corpus, &asked.matrix, &t));
    const char *path = test_path(folder, "orphan.kith");
    assert_int_equal(kith_index_save(ctx, corpus, path), KITH_OK);
    kith_ctx_free(ctx);
    kith_index *opened = NULL;
    ctx = ctx_of(3, NULL);
    assert_int_equal(kith_index_open(ctx, path, &opened), KITH_OK);
    kith_ctx_free(ctx);
    ctx = ctx_of(2, NULL);
    assert_true(is_true(ctx, opened, &asked.matrix, &t));
    assert_true(is_true(ctx, corpus, &asked.matrix, &t));
    assert_int_equal(atomic_load(&faulty.bytes), held); /* searches leave nothing behind */

    kith_matrix more = points.matrix;
    more.data = (const char *)more.data + ROWS * more.stride_bytes;
    more.rows = BLOCK;
    kith_index *both[] = {corpus, opened};
    for (int i = 0; i < 2; i++) {
        kith_ctx *changer = ctx_of(1 + i, NULL);
        assert_int_equal(kith_index_add(changer, both[i], &more), KITH_OK);
        kith_report report = {.struct_size = sizeof report};
        assert_int_equal(kith_ctx_report(changer, &report), KITH_OK);
        assert_true(report.distinct_rows > 0 && report.peak_bytes > test_index_info(both[i]).bytes);
        kith_ctx_free(changer);
    }
    truth after = truth_of(ctx, &points.matrix, &asked.matrix);
    assert_true(is_true(ctx, opened, &asked.matrix, &after));
    assert_true(is_true(ctx, corpus, &asked.matrix, &after));
    test_answer_free(&after.nearest);
    kith_index_free(opened);
    kith_index_free(corpus);
    assert_int_equal(atomic_load(&faulty.bytes), 0);
    kith_ctx_free(ctx);
    test_answer_free(&t.nearest);
    test_rows_free(&asked);
    test_rows_free(&points);
}

static void contexts_go(void **state)
{
    without_its_maker(*state, KITH_METHOD_EXACT);
    without_its_maker(*state, KITH_METHOD_TREE);
    (void)printf("corpora and trees are searched, saved, opened and changed by other contexts when "
                 "their own are gone, and give every byte back\n");
}

/* The limit of a call counts the corpus that it makes or changes, and no other call's. */
static void limits_are_of_calls(void **state)
{
    (void)state;
    uint64_t seed = 5;
    test_rows points = test_rows_make(KITH_F32, 20000, COLS, 0);
    test_rows_fill(&points, 1.0, 0, &seed);
    kith_index *corpus = orphan(&points.matrix, KITH_METHOD_TREE, NULL);
    const uint64_t bytes = test_index_info(corpus).bytes;
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    kith_matrix one = points.matrix;
    one.rows = 1;
    params.memory_limit = bytes; /* not enough for the corpus and its new rows */
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    assert_int_equal(kith_index_add(ctx, corpus, &one), KITH_E_LIMIT);
    assert_int_equal(test_index_info(corpus).points.rows, 20000);
    kith_ctx_free(ctx);
    params.memory_limit = 8 * bytes;
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    for (int i = 0; i < 12; i++) { /* each fits; together they would not, were they the context's */
        kith_index *again = NULL;
        assert_int_equal(test_index_create(ctx, &points.matrix, KITH_EUCLIDEAN, &again), KITH_OK);
        kith_index_free(again);
    }
    assert_int_equal(kith_index_add(ctx, corpus, &one), KITH_OK);
    assert_int_equal(test_index_info(corpus).points.rows, 20001);
    kith_ctx_free(ctx);
    kith_index_free(corpus);
    test_rows_free(&points);
    (void)printf("a limit holds for the call that makes or changes a corpus\n");
}

/* ---- Several threads ------------------------------------------------------------------------- */

typedef struct shared {
    kith_index *corpus;
    const kith_matrix *queries;
    const kith_matrix *block; /* what each writer adds; NULL: they remove row 0 */
    truth truths[STATES];     /* by changes that were made */
    atomic_int writers;       /* still at work */
    atomic_int wrong;
    atomic_int answers;
} shared;

static void *change(void *arg)
{
    static const uint32_t zero = 0;
    shared *s = arg;
    for (int i = 0; i < CHANGES; i++) {
        kith_ctx *ctx = ctx_of(1 + i % 2, NULL);
        const kith_status status = s->block != NULL ? kith_index_add(ctx, s->corpus, s->block)
                                                    : kith_index_remove(ctx, s->corpus, &zero, 1);
        atomic_fetch_add(&s->wrong, status != KITH_OK);
        kith_ctx_free(ctx);
    }
    atomic_fetch_sub(&s->writers, 1);
    return NULL;
}

/* The number of changes whose truth this is, from `least` on; STATES: none. */
static int find(const shared *s, const kith_neighbors *got, int least)
{
    int state = least;
    while (state < STATES && !test_answers_equal(got, &s->truths[state].nearest)) {
        state += 1;
    }
    return state;
}

static void *search(void *arg)
{
    shared *s = arg;
    kith_ctx *ctx = ctx_of(2, NULL);
    kith_search_params params = kith_search_params_default();
    kith_neighbors got = test_answer_make(ASKED, K);
    params.k = K;
    bool last = false;
    for (int least = 0; least < STATES && !last;) {
        last = atomic_load(&s->writers) == 0;
        const bool done =
            kith_index_search(ctx, s->corpus, s->queries, &params, &got, NULL) == KITH_OK;
        least = done ? find(s, &got, least) : STATES;
        const int64_t within = count_within(ctx, s->corpus, NULL, s->queries);
        int at = least; /* changes may have been made between the two */
        while (at < STATES && s->truths[at].within != within) {
            at += 1;
        }
        atomic_fetch_add(&s->wrong, at == STATES || test_index_info(s->corpus).bytes == 0);
        atomic_fetch_add(&s->answers, 2);
        if (last) {
            atomic_fetch_add(&s->wrong, !test_answers_equal(&got, &s->truths[STATES - 1].nearest));
        }
    }
    test_answer_free(&got);
    kith_ctx_free(ctx);
    return NULL;
}

static void run_threads(shared *s)
{
    pthread_t threads[WRITERS + READERS];
    atomic_store(&s->writers, WRITERS);
    for (int i = 0; i < WRITERS + READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, i < WRITERS ? change : search, s), 0);
    }
    for (int i = 0; i < WRITERS + READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&s->wrong), 0);
    for (int i = 0; i < STATES; i++) {
        test_answer_free(&s->truths[i].nearest);
    }
}

static void threads_search_and_change(void **state)
{
    (void)state;
    uint64_t seed = 11;
    test_rows all = test_rows_make(KITH_F32, ROWS + WRITERS * CHANGES * BLOCK, COLS, 0);
    test_rows asked = test_rows_make(KITH_F32, ASKED, COLS, 0);
    test_rows_fill(&all, 1.0, 0, &seed);
    test_rows_fill(&asked, 1.0, 0, &seed);
    /* Every block is the same rows, which are nearest to the queries: each change is seen. */
    for (int64_t i = ROWS; i < all.matrix.rows; i++) {
        test_rows_copy(&all, i, &asked, (i - ROWS) % BLOCK);
    }
    kith_matrix rows = all.matrix;
    kith_matrix block = all.matrix;
    block.rows = BLOCK;
    block.data = (const char *)block.data + ROWS * block.stride_bytes;
    shared s = {.queries = &asked.matrix, .block = &block};
    kith_ctx *ctx = ctx_of(2, NULL);
    rows.rows = ROWS;
    s.corpus = orphan(&rows, KITH_METHOD_TREE, NULL);
    for (int i = 0; i < STATES; i++) {
        rows.rows = ROWS + i * BLOCK;
        s.truths[i] = truth_of(ctx, &rows, &asked.matrix);
    }
    run_threads(&s);
    s.block = NULL;
    for (int i = 0; i < STATES; i++) {
        kith_matrix left = rows;
        left.data = (const char *)rows.data + i * rows.stride_bytes;
        left.rows = rows.rows - i;
        s.truths[i] = truth_of(ctx, &left, &asked.matrix);
    }
    run_threads(&s);
    (void)printf("%d answers while %d threads made %d changes: each that of a whole change, in "
                 "their order\n",
                 atomic_load(&s.answers), WRITERS, 2 * WRITERS * CHANGES);
    kith_index_free(s.corpus);
    kith_ctx_free(ctx);
    test_rows_free(&asked);
    test_rows_free(&all);
}

/* ---- A forked process ------------------------------------------------------------------------ */

static void *search_on(void *arg)
{
    shared *s = arg;
    kith_ctx *ctx = ctx_of(1, NULL);
    while (atomic_load(&s->writers) > 0) {
        atomic_fetch_add(&s->wrong, !is_true(ctx, s->corpus, s->queries, &s->truths[0]));
        atomic_fetch_add(&s->answers, 1);
    }
    kith_ctx_free(ctx);
    return NULL;
}

/* Of the process in the middle of whose searches it was forked. */
static int child(const shared *s)
{
    (void)alarm(20); /* instead of waiting for ever */
    kith_ctx *ctx = ctx_of(1, NULL);
    const bool right = is_true(ctx, s->corpus, s->queries, &s->truths[0]) &&
                       kith_index_add(ctx, s->corpus, s->block) == KITH_OK &&
                       is_true(ctx, s->corpus, s->queries, &s->truths[1]);
    kith_ctx_free(ctx);
    kith_index_free(s->corpus);
    return right ? 0 : 1;
}

static void forks_search_and_change(void **state)
{
    (void)state;
#ifdef KIN_SANITIZED
    skip(); /* whose own locks another thread may hold at a fork: the child then waits for ever */
#endif
    enum { FORKS = 12 };
    uint64_t seed = 17;
    test_rows all = test_rows_make(KITH_F32, ROWS + BLOCK, COLS, 0);
    test_rows asked = test_rows_make(KITH_F32, ASKED, COLS, 0);
    test_rows_fill(&all, 1.0, 0, &seed);
    test_rows_fill(&asked, 1.0, 0, &seed);
    kith_matrix rows = all.matrix;
    kith_matrix block = all.matrix;
    rows.rows = ROWS;
    block.rows = BLOCK;
    block.data = (const char *)block.data + ROWS * block.stride_bytes;
    kith_ctx *ctx = ctx_of(1, NULL);
    shared s = {.queries = &asked.matrix, .block = &block};
    s.corpus = orphan(&rows, KITH_METHOD_TREE, NULL);
    s.truths[0] = truth_of(ctx, &rows, &asked.matrix);
    s.truths[1] = truth_of(ctx, &all.matrix, &asked.matrix);
    atomic_store(&s.writers, 1);
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, search_on, &s), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        const int before = atomic_load(&s.answers);
        while (atomic_load(&s.answers) < before + 3) {
        }
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            _exit(child(&s));
        }
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&s.writers, 0);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&s.wrong), 0);
    (void)printf("%d processes, forked in the middle of searches, searched and changed the tree\n",
                 FORKS);
    test_answer_free(&s.truths[0].nearest);
    test_answer_free(&s.truths[1].nearest);
    kith_index_free(s.corpus);
    kith_ctx_free(ctx);
    test_rows_free(&asked);
    test_rows_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(contexts_go, test_folder_setup, test_folder_teardown),
        cmocka_unit_test(limits_are_of_calls),
        cmocka_unit_test(threads_search_and_change),
        cmocka_unit_test(forks_search_and_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
