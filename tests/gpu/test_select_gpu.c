/* SPDX-License-Identifier: Apache-2.0
 * kith_select on a GPU: every method with every switch gives the bytes that sorting gives, and the
 * processor gives, for all types, directions, kinds of values, lengths, k, ids and alignments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_gpu.h"
#include "support/support_selections.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};

/* One of everything, and what has been tried. */
typedef struct trial {
    kith_ctx *gpu;
    kith_ctx *cpu;
    kith_select_params variants[TEST_SELECT_VARIANTS];
    int count;
    uint64_t seed;
    long turn;
    long wrong;
    double start;
} trial;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int setup(void **state)
{
    static trial t;
    t.gpu = test_gpu_ctx(0, 0);
    t.cpu = test_cpu_ctx();
    t.count = test_select_variants(t.variants);
    t.seed = 41;
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    trial *t = *state;
    kith_ctx_free(t->gpu);
    kith_ctx_free(t->cpu);
    return 0;
}

static void begin(trial *t)
{
    t->turn = 0;
    t->wrong = 0;
    t->start = now();
}

static void end(const trial *t, const char *what)
{
    (void)printf("%s: %ld selections, %ld wrong, %.1f s\n", what, t->turn, t->wrong,
                 now() - t->start);
    (void)fflush(stdout);
    assert_int_equal(t->wrong, 0);
}

/* How many steps one thread makes for one row: where they are many, one job in eight must do. */
static bool is_slow(const kith_select_params *p, int64_t cols)
{
    enum { MANY = 150000 };
    const bool queue = p->method == KITH_SELECT_INSERTION || p->method == KITH_SELECT_MERGE_QUEUE;
    return queue && cols * p->k > MANY;
}

/* Variant `which` for a k on values that are in order. Every fourth answer may come unsorted, some
 * are asked for in parts; the processor does one in sixteen of the same calls. */
static void try_one(trial *t, const test_values *v, int which, int64_t k)
{
    kith_select_params p = t->variants[which];
    p.k = k;
    p.flags |= v->largest ? KITH_SELECT_LARGEST : 0;
    t->turn += 1;
    if (is_slow(&p, v->values.cols) && t->turn % 8 != 0) {
        return;
    }
    test_parts parts = TEST_BOTH_PARTS;
    if (t->turn % 4 == 0) {
        p.flags |= KITH_SELECT_UNSORTED;
    } else if (t->turn % 16 >= 13) {
        parts = (test_parts)(t->turn % 16 - 12);
    }
    t->wrong += !test_select(v, t->gpu, &p, parts);
    if (t->turn % 16 == 1) {
        t->wrong += !test_select(v, t->cpu, &p, parts);
    }
}

/* The k of a row of n: small ones, those around powers of two, all but one, all. */
static int list_ks(int64_t n, const int64_t *wanted, int count, int64_t *ks)
{
    int kinds = 0;
    for (int i = 0; i < count; i++) {
        if (wanted[i] < n - 1) {
            ks[kinds] = wanted[i];
            kinds += 1;
        }
    }
    if (n > 1) {
        ks[kinds] = n - 1;
        kinds += 1;
    }
    ks[kinds] = n;
    return kinds + 1;
}

/* ---- Every method ---------------------------------------------------------------------------- */

static void try_values(trial *t, kith_dtype dtype, int32_t cols, test_run kind, int turn)
{
    enum { ROWS = 37, KS = 6 };
    static const int64_t wanted[] = {1, 8, 33, 256};
    int64_t ks[KS];
    const int kinds = list_ks(cols, wanted, 4, ks);
    const test_ids ids = (test_ids)(turn % TEST_IDS_KINDS);
    test_values v = test_values_make(dtype, ROWS, cols, turn % 2, kind, ids, &t->seed);
    test_values_sort(&v, turn % 2 != 0);
    for (int i = 0; i < kinds; i++) {
        for (int which = 0; which < t->count; which++) {
            try_one(t, &v, which, ks[i]);
        }
    }
    test_values_free(&v);
}

static void every_method(void **state)
{
    static const int32_t lengths[] = {1, 33, 100, 1000};
    trial *t = *state;
    begin(t);
    int turn = 0;
    for (int length = 0; length < 4; length++) {
        for (int kind = 0; kind < TEST_RUNS; kind++) {
            for (int type = 0; type < 4; type++) {
                try_values(t, dtypes[type], lengths[length], (test_run)kind, turn);
                turn += 1; /* 4 types, 9 kinds: a turn of 6 meets each pair in time */
            }
            turn += 1;
        }
    }
    end(t, "every method, switch, type, kind of values, direction and ids, by length and k");
}

/* ---- Queues of every size -------------------------------------------------------------------- */

enum { MOST_QUEUES = 1200 };

/* A queue with each kind and size of its buffer and each group. */
static int add_queues(kith_select_params like, kith_select_params *list, int count)
{
    for (int buffer = 0; buffer < 16; buffer++) { /* 4 kinds, 4 sizes */
        for (int g = 0; g < 4 && (buffer % 4 != KITH_BUFFER_NONE || buffer == 0); g++) {
            list[count] = like;
            list[count].buffer = (kith_select_buffer)(buffer % 4);
            list[count].buffer_size =
                buffer % 4 == KITH_BUFFER_NONE ? 0 : KITH_QUEUE_BUFFER_LEAST << buffer / 4;
            list[count].group = g == 0 ? 0 : 1 << g;
            count += 1;
        }
    }
    return count;
}

/* Every queue; the merge queue with each m, by both merges, aligned and not. */
static int list_queues(kith_select_params list[MOST_QUEUES])
{
    kith_select_params like = kith_select_params_default();
    like.method = KITH_SELECT_INSERTION;
    int count = add_queues(like, list, 0);
    like.method = KITH_SELECT_HEAP;
    count = add_queues(like, list, count);
    like.method = KITH_SELECT_MERGE_QUEUE;
    for (int kind = 0; kind < 20; kind++) { /* 5 levels, 2 merges, 2 alignments */
        like.level = KITH_QUEUE_LEVEL_LEAST << kind / 4;
        like.flags = (kind % 2 != 0 ? (uint32_t)KITH_SELECT_MERGE_PATH : 0) |
                     (kind / 2 % 2 != 0 ? (uint32_t)KITH_SELECT_ALIGNED : 0);
        count = add_queues(like, list, count);
    }
    assert_true(count <= MOST_QUEUES);
    return count;
}

/* For each k one in SHARE of the queues, which is prime, so that in turn every one meets all else.
 */
static void try_queues(trial *t, const test_values *v, const kith_select_params *queues, int count)
{
    enum { SHARE = 67 };
    static const int64_t ks[] = {1, 4, 5, 8, 9, 16, 33, 64, 65, 100, 128, 300};
    static int turn = 0;
    for (size_t i = 0; i < sizeof ks / sizeof *ks && ks[i] <= v->values.cols; i++) {
        for (int which = turn % SHARE; which < count; which += SHARE) {
            kith_select_params p = queues[which];
            p.k = ks[i];
            p.flags |= (v->largest ? (uint32_t)KITH_SELECT_LARGEST : 0) |
                       (t->turn % 4 == 0 ? (uint32_t)KITH_SELECT_UNSORTED : 0);
            t->wrong += !test_select(v, t->gpu, &p, TEST_BOTH_PARTS);
            t->turn += 1;
        }
        turn += 1;
    }
}

static void queues_of_every_size(void **state)
{
    enum { ROWS = 37 };
    static const int32_t lengths[] = {40, 200, 700};
    static const test_run runs[] = {TEST_RUN_UNIFORM,    TEST_RUN_FEW,      TEST_RUN_CONSTANT,
                                    TEST_RUN_DESCENDING, TEST_RUN_SPECIALS, TEST_RUN_ALL_NAN};
    static kith_select_params queues[MOST_QUEUES];
    const int count = list_queues(queues);
    trial *t = *state;
    begin(t);
    for (int i = 0; i < 3 * 4 * 6; i++) {
        test_values v = test_values_make(dtypes[i % 4], ROWS, lengths[i / 4 % 3], i % 2,
                                         runs[i / 12], (test_ids)(i % TEST_IDS_KINDS), &t->seed);
        test_values_sort(&v, i / 2 % 2 != 0);
        try_queues(t, &v, queues, count);
        test_values_free(&v);
    }
    end(t, "queues of every m, merge, alignment, buffer and group");
}

/* ---- Large k --------------------------------------------------------------------------------- */

static void large_k(void **state)
{
    enum { COLS = 20011, ROWS = 5, KS = 9 };
    static const int64_t wanted[] = {1000, 2048, 2049, 4096, 4097, 8193, 10000};
    static const test_run runs[] = {TEST_RUN_UNIFORM, TEST_RUN_FEW, TEST_RUN_ADVERSARY,
                                    TEST_RUN_SPECIALS, TEST_RUN_DESCENDING};
    trial *t = *state;
    begin(t);
    for (int i = 0; i < 5; i++) {
        int64_t ks[KS];
        const int kinds = list_ks(COLS, wanted, 7, ks);
        test_values v = test_values_make(dtypes[i % 4], ROWS, COLS, 0, runs[i],
                                         (test_ids)(i % TEST_IDS_KINDS), &t->seed);
        test_values_sort(&v, i % 2 != 0);
        for (int k = 0; k < kinds; k++) {
            for (int which = 0; which < t->count; which++) {
                /* A thread a row is lost here: queues take part, one in nine. */
                const bool queue = t->variants[which].method >= KITH_SELECT_INSERTION &&
                                   t->variants[which].method <= KITH_SELECT_MERGE_QUEUE;
                if (!queue || (ks[k] <= 2049 && (which + i + k) % 9 == 0)) {
                    try_one(t, &v, which, ks[k]);
                }
            }
        }
        test_values_free(&v);
    }
    end(t, "k beyond what fits on a chip, up to the whole row");
}

/* ---- Borders --------------------------------------------------------------------------------- */

static void borders(void **state)
{
    static const int64_t rows[] = {1,   2,   31,  32,  33,  63,  64,  65,  127,
                                   128, 129, 255, 256, 257, 511, 513, 1025};
    static const int32_t cols[] = {2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 511, 513, 1025};
    enum { ROWS = sizeof rows / sizeof *rows, COLS = sizeof cols / sizeof *cols, SOME = 7 };
    trial *t = *state;
    begin(t);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLS; j++) {
            const int which = i * COLS + j;
            test_values v = test_values_make(dtypes[which % 4], rows[i], cols[j], 0,
                                             which % 3 == 0 ? TEST_RUN_FEW : TEST_RUN_UNIFORM,
                                             (test_ids)(which % TEST_IDS_KINDS), &t->seed);
            test_values_sort(&v, which % 2 != 0);
            for (int some = 0; some < SOME; some++) { /* all variants in turn */
                const int variant = (which * SOME + some) % t->count;
                try_one(t, &v, variant, 1 + (which * 13 + some * 31) % cols[j]);
            }
            test_values_free(&v);
        }
    }
    end(t, "rows and columns around warps and blocks");
}

/* ---- Alignment ------------------------------------------------------------------------------- */

/* The same rows without their first columns. */
static test_values begun_later(const test_values *v, int64_t first, bool largest)
{
    test_values view = *v;
    view.values.data = (const char *)v->values.data + first * kith_dtype_bytes(v->values.dtype);
    view.values.ids = v->values.ids == NULL ? NULL : v->values.ids + first;
    view.values.cols -= first;
    view.sorted = NULL;
    view.sorted_ids = NULL;
    test_values_sort(&view, largest);
    return view;
}

static void end_view(test_values *view)
{
    free(view->sorted);
    free(view->sorted_ids);
}

static void alignments(void **state)
{
    static const int64_t gaps[] = {0, 1, 2, 3, 5, 8, 13};
    enum { GAPS = sizeof gaps / sizeof *gaps, ROWS = 6, OFFSETS = 9 };
    trial *t = *state;
    begin(t);
    for (int i = 0; i < 4 * GAPS; i++) {
        const int32_t cols = i % 3 == 0 ? 4099 : 197;
        test_values v = test_values_make(dtypes[i % 4], ROWS, cols, gaps[i / 4], TEST_RUN_FEW,
                                         (test_ids)(i % TEST_IDS_KINDS), &t->seed);
        for (int64_t first = 0; first < OFFSETS; first++) {
            test_values view = begun_later(&v, first, first % 2 != 0);
            for (int which = (int)(first + i) % 5; which < t->count; which += 5) {
                try_one(t, &view, which, i % 2 == 0 ? 10 : 150);
            }
            end_view(&view);
        }
        test_values_free(&v);
    }
    end(t, "rows and ids off every alignment, with gaps between them");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method), cmocka_unit_test(queues_of_every_size),
        cmocka_unit_test(large_k), cmocka_unit_test(borders), cmocka_unit_test(alignments)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, setup, teardown);
}
