/* SPDX-License-Identifier: Apache-2.0
 * Rows that come to an index on a GPU, from the host and from the GPU. Balls of tiles that an index
 * which grew gets by its first search, and by no addition: whoever asks first, and where there is
 * no room for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "index/index.h"
#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

/* Device memory of the caller's, of which one block is refused. */
typedef struct lending {
    test_caller c;
    int until; /* that one, and the next: who is refused gives back what is idle, and asks again */
} lending;

static void *lend(void *arg, int32_t device, size_t bytes)
{
    lending *l = arg;
    void *block = NULL;
    (void)device;
    if (l->until > 0 && --l->until < 2) {
        return NULL;
    }
    return l->c.ops->allocate(l->c.stream, bytes, &block) == 0 ? block : NULL;
}

static void take_back(void *arg, int32_t device, void *block, size_t bytes)
{
    lending *l = arg;
    (void)device;
    (void)bytes;
    l->c.ops->release(l->c.stream, block);
}

/* Who asks first: one call, one that is enqueued, two at once. */
enum { ASKS_ALONE, ASKS_ENQUEUED, ASK_TOGETHER, ASKING };
enum {
    FEW_ROWS = 50300,
    A_PROCESSOR = 6000, /* rows: balls serve ASKED queries then */
    COLS = 48,
    CLUSTERS = 60,
    MORE = 9,
    ASKED = 40,
    K = 9,
    REFUSALS = 3, /* the balls' block, and two while they are made */
    MANY_ASKED = 700,
    MOST_REFUSED = 14
};

/* Rows about centres that are far apart. */
static test_rows clustered(int64_t rows, uint64_t seed)
{
    test_rows made = test_rows_make(KITH_F32, rows, COLS, 0);
    for (int64_t i = 0; i < rows; i++) {
        uint64_t centre = 1 + (uint64_t)(i * 7919) % CLUSTERS;
        for (int32_t j = 0; j < COLS; j++) {
            const double x = 8.0 * test_uniform(&centre) + test_uniform(&seed);
            test_rows_set(&made, i, j, x);
        }
    }
    return made;
}

typedef struct late {
    lending l;
    kith_ctx *cpu;
    kith_ctx *gpu;
    kith_index *index;
    test_rows all;
    int64_t rows; /* of the index */
    kith_matrix queries;
    kith_matrix there;
    kith_search_params params;
} late;

static const kin_screen_gpu_balls *balls_of(const late *b)
{
    const kin_exact_gpu_corpus *corpus = b->index->kept->resident;
    return corpus->glance != NULL ? corpus->glance->balls : corpus->balls;
}

static uint64_t bytes_of(const late *b)
{
    kith_index_info info = {.struct_size = sizeof info};
    test_works(b->cpu, kith_index_inspect(b->index, &info));
    return info.bytes;
}

/* From the host and from the GPU, and no balls are made meanwhile. */
static void grow_twice(late *b)
{
    for (int i = 0; i < 2; i++) {
        kith_matrix more = b->all.matrix;
        more.data = (const char *)more.data + b->rows * more.stride_bytes;
        more.rows = MORE;
        const kith_matrix there = test_caller_copy(&b->l.c, &more);
        test_works(b->gpu, kith_index_add(b->gpu, b->index, i == 0 ? &more : &there));
        test_caller_release(&b->l.c, there.data);
        b->rows += MORE;
    }
    assert_non_null(balls_of(b));
    assert_int_equal(balls_of(b)->state, KIN_SCREEN_GPU_BALLS_WANTED);
}

static void *ask_beside(void *arg)
{
    const late *b = arg;
    kith_ctx *own = test_gpu_ctx(1, 0);
    kith_neighbors got = test_answer_make(ASKED, K);
    test_works(own, kith_index_search(own, b->index, &b->queries, &b->params, &got, NULL));
    (void)bytes_of(b);
    test_answer_free(&got);
    kith_ctx_free(own);
    return NULL;
}

static int ask_late(late *b, int how)
{
    kith_matrix points = b->all.matrix;
    points.rows = b->rows;
    kith_neighbors wanted = test_answer_make(ASKED, K);
    kith_neighbors got = test_answer_make(ASKED, K);
    pthread_t beside;
    test_works(b->cpu, kith_search(b->cpu, &points, &b->queries, &b->params, &wanted, NULL));
    if (how == ASKS_ENQUEUED) {
        const kith_neighbors out = test_caller_answer(&b->l.c, ASKED, K);
        b->params.flags = KITH_ENQUEUE;
        test_works(b->gpu, kith_cuda_index_search(b->gpu, b->index, &b->there, &b->params, &out,
                                                  b->l.c.handle));
        b->params.flags = 0;
        assert_int_equal(b->l.c.ops->wait(b->l.c.stream), 0);
        test_answer_free(&got);
        got = test_caller_fetch(&b->l.c, &out);
    } else {
        if (how == ASK_TOGETHER) {
            assert_int_equal(pthread_create(&beside, NULL, ask_beside, b), 0);
        }
        test_works(b->gpu,
                   kith_index_search(b->gpu, b->index, &b->queries, &b->params, &got, NULL));
        if (how == ASK_TOGETHER) {
            assert_int_equal(pthread_join(beside, NULL), 0);
        }
    }
    const int wrong = test_answers_differ("rows that came, and balls", &wanted, &got);
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
}

/* Many queries, while one block after the other is refused: lists of tiles among them, without
 * which all tiles are met. */
static int ask_many(late *b)
{
    kith_matrix points = b->all.matrix;
    kith_matrix asked = b->all.matrix;
    points.rows = b->rows;
    asked.rows = MANY_ASKED;
    kith_neighbors wanted = test_answer_make(MANY_ASKED, K);
    kith_neighbors got = test_answer_make(MANY_ASKED, K);
    int wrong = 0;
    int worked = 0;
    test_works(b->cpu, kith_search(b->cpu, &points, &asked, &b->params, &wanted, NULL));
    for (int refused = 0; refused <= MOST_REFUSED; refused++) {
        b->l.until = refused > 0 ? refused + 1 : 0;
        const kith_status status =
            kith_index_search(b->gpu, b->index, &asked, &b->params, &got, NULL);
        assert_true(status == KITH_OK || (status == KITH_E_DEVICE_MEMORY && refused > 0));
        if (status == KITH_OK) { /* else the little that it thinks is left does for no search */
            wrong += test_answers_differ("many queries, a block refused", &wanted, &got);
            worked += 1;
        }
    }
    b->l.until = 0;
    assert_true(worked > 1);
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
}

/* The first search of an index that grew makes its balls; where there is no room for them it goes
 * without, and so do those that follow. */
static void balls_come_late(void **state)
{
    kin_gpu_info info;
    assert_true(kin_gpu_describe(kin_gpu_first(), &info));
    const int64_t rows = kin_max_i64(FEW_ROWS, (int64_t)A_PROCESSOR * info.processors);
    late b = {.l.c = test_caller_open(),
              .cpu = test_cpu_ctx(),
              .all = clustered(rows + 2 * MORE * (ASKING + REFUSALS), 5),
              .rows = rows,
              .params = kith_search_params_default()};
    kith_ctx_params own = kith_ctx_params_default();
    kith_index_params made = kith_index_params_default();
    int wrong = 0;
    (void)state;
    own.device = "cuda:0";
    own.device_allocate = lend;
    own.device_release = take_back;
    own.device_allocate_arg = &b.l;
    assert_int_equal(kith_ctx_create(&own, &b.gpu), KITH_OK);
    test_rows asked = clustered(ASKED, 6);
    b.queries = asked.matrix;
    b.there = test_caller_copy(&b.l.c, &b.queries);
    b.params.k = K;
    kith_matrix first = b.all.matrix;
    first.rows = rows;
    const kith_matrix there = test_caller_copy(&b.l.c, &first);
    test_works(b.gpu, kith_cuda_index_create(b.gpu, &there, &made, &b.index, b.l.c.handle));
    assert_int_equal(balls_of(&b)->state, KIN_SCREEN_GPU_BALLS_MADE);
    for (int how = 0; how < ASKING; how++) {
        grow_twice(&b);
        const uint64_t before = bytes_of(&b);
        wrong += ask_late(&b, how);
        assert_int_equal(balls_of(&b)->state, KIN_SCREEN_GPU_BALLS_MADE);
        assert_true(bytes_of(&b) == before + balls_of(&b)->bytes);
    }
    wrong += ask_many(&b);
    for (int refused = 1; refused <= REFUSALS; refused++) {
        grow_twice(&b);
        const uint64_t before = bytes_of(&b);
        b.l.until = refused + 1;
        wrong += ask_late(&b, ASKS_ALONE) + ask_late(&b, ASKS_ENQUEUED);
        assert_int_equal(balls_of(&b)->state, KIN_SCREEN_GPU_BALLS_REFUSED);
        assert_true(bytes_of(&b) == before);
    }
    (void)printf("rows come to %lld, and balls by the first search: alone, enqueued, two at once; "
                 "without room none: %d differ\n",
                 (long long)rows, wrong);
    assert_int_equal(wrong, 0);
    kith_index_free(b.index);
    test_caller_release(&b.l.c, there.data);
    test_caller_release(&b.l.c, b.there.data);
    test_rows_free(&asked);
    test_rows_free(&b.all);
    kith_ctx_free(b.gpu);
    kith_ctx_free(b.cpu);
    test_caller_close(&b.l.c);
}

/* Rows on the GPU that stand apart, or have a value that is none, or come to an index whose points
 * are in host memory: the index stays what it was. */
static void refused_there(void **state)
{
    enum { ROWS = 300, THIN = 6, WRONG_ROW = 17 };
    test_caller c = test_caller_open();
    kith_ctx *gpu = test_gpu_ctx(1, 0);
    test_rows points = test_rows_make(KITH_F32, ROWS, THIN, 0);
    test_rows apart = test_rows_make(KITH_F32, MANY_ASKED, THIN, (int64_t)sizeof(float));
    kith_index_params made = kith_index_params_default();
    kith_index *index = NULL;
    kith_index *tree = NULL;
    uint64_t seed = 3;
    (void)state;
    test_rows_fill(&points, 1.0, false, &seed);
    test_rows_fill(&apart, 1.0, false, &seed);
    const kith_matrix there = test_caller_copy(&c, &points.matrix);
    const kith_matrix apart_there = test_caller_copy(&c, &apart.matrix);
    test_works(gpu, kith_cuda_index_create(gpu, &there, &made, &index, c.handle));
    made.method = KITH_METHOD_TREE;
    test_works(gpu, kith_index_create(gpu, &points.matrix, &made, &tree));
    test_fails(gpu, kith_index_add(gpu, index, &apart_there), KITH_E_ARGUMENT, "bytes apart");
    test_fails(gpu, kith_index_add(gpu, tree, &there), KITH_E_ARGUMENT, "in host memory");
    test_rows_set(&points, WRONG_ROW, 2, (double)NAN);
    const kith_matrix wrong = test_caller_copy(&c, &points.matrix);
    test_rows_set(&points, WRONG_ROW, 2, 0.5);
    test_fails(gpu, kith_index_add(gpu, index, &wrong), KITH_E_DATA, "points[17, 2] is NaN");
    test_works(gpu, kith_index_add(gpu, tree, &apart.matrix));
    kith_index_info info = {.struct_size = sizeof info};
    test_works(gpu, kith_index_inspect(index, &info));
    assert_int_equal(info.points.rows, ROWS);
    (void)printf("rows on the GPU that stand apart, hold a NaN or have no place: one error each\n");
    kith_index_free(index);
    kith_index_free(tree);
    test_caller_release(&c, there.data);
    test_caller_release(&c, apart_there.data);
    test_caller_release(&c, wrong.data);
    test_rows_free(&points);
    test_rows_free(&apart);
    kith_ctx_free(gpu);
    test_caller_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(balls_come_late),
                                       cmocka_unit_test(refused_there)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
