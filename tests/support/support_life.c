/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/host_threads.h"
#include "support/support_answers.h"
#include "support/support_faulty.h"
#include "support/support_gpu.h"
#include "support/support_life.h"

#include <string.h>

enum { THREADS = 3, TIMES = 5 };

typedef struct together {
    const test_life *life;
    const kith_index *index;
    int wrong;
} together;

static void *search_often(void *arg)
{
    together *t = arg;
    const kith_neighbors *wanted = t->life->wanted;
    kith_ctx *ctx = test_gpu_ctx(1, 0);
    kith_neighbors out = test_answer_make(wanted->rows, wanted->k);
    for (int i = 0; i < TIMES; i++) {
        memset(out.ids, 0xff, (size_t)(out.rows * out.k) * sizeof *out.ids);
        const kith_status status = t->life->ask(ctx, t->index, t->life->arg, &out);
        t->wrong += status != KITH_OK || !test_answers_equal(wanted, &out);
    }
    test_answer_free(&out);
    kith_ctx_free(ctx);
    return NULL;
}

void test_life_by_threads(const test_life *life, const kith_index *index)
{
    together all[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        all[i] = (together){.life = life, .index = index};
        assert_int_equal(pthread_create(&threads[i], NULL, search_often, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(all[i].wrong, 0);
    }
}

static kith_status live(kith_ctx *ctx, const test_life *life, const char *path, kith_index **index,
                        const kith_neighbors *out)
{
    const uint32_t last = (uint32_t)life->points->rows;
    kith_status status = kith_index_create(ctx, life->points, life->made, index);
    if (status == KITH_OK) {
        status = kith_index_add(ctx, *index, &life->more);
    }
    if (status == KITH_OK) {
        status = kith_index_remove(ctx, *index, &last, 1);
    }
    if (status == KITH_OK) {
        status = life->ask(ctx, *index, life->arg, out);
    }
    if (status == KITH_OK) {
        assert_true(!life->changes_nothing || test_answers_equal(life->wanted, out));
        status = kith_index_save(ctx, *index, path);
    }
    return status;
}

/* With the n-th allocation failing: true when none did. */
static bool survives(const test_life *life, const char *path, long fails_at)
{
    test_faulty f = {.fails_at = fails_at};
    kith_ctx *ctx = test_faulty_ctx("cuda", &f, 0);
    kith_index *index = NULL;
    kith_neighbors out = test_answer_make(life->wanted->rows, life->wanted->k);
    const kith_status status = live(ctx, life, path, &index, &out);
    const bool failed = atomic_load(&f.asked) >= fails_at;
    assert_int_equal(status, failed ? KITH_E_MEMORY : KITH_OK);
    assert_true(!failed || kith_ctx_detail(ctx)[0] != '\0');
    kith_index_free(index);
    kith_ctx_free(ctx);
    test_answer_free(&out);
    assert_int_equal(atomic_load(&f.blocks), 0);
    assert_int_equal(atomic_load(&f.bytes), 0);
    return !failed;
}

long test_life_with_faults(const test_life *life, const char *path)
{
    long n = 2; /* the context itself is the first */
    while (!survives(life, path, n)) {
        n += 1;
        assert_true(n < life->most);
    }
    return n - 2;
}
