/* SPDX-License-Identifier: Apache-2.0
 * Searches of an index that return before the work is done (KITH_ENQUEUE): the bytes of the waiting
 * call for who reads them behind the stream that was given; lists that overflow, queries without a
 * direction and with values that are not allowed; streams in turn; an index that is changed or
 * freed meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_calls.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5000, COLS = 40, MOST_ASKED = 1100 };

typedef struct scene {
    test_caller c;
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_rows points;
    test_rows queries;
    kith_matrix on_device[2];
    kith_search_params params;
    kith_index *index;
} scene;

static void open_scene(scene *s, kith_metric metric)
{
    kith_index_params params = kith_index_params_default();
    s->c = test_caller_open();
    s->cpu = test_cpu_ctx();
    s->gpu = test_gpu_ctx(2, 0);
    s->on_device[0] = test_caller_copy(&s->c, &s->points.matrix);
    s->on_device[1] = test_caller_copy(&s->c, &s->queries.matrix);
    s->params = kith_search_params_default();
    s->params.metric = params.metric = metric;
    test_works(s->gpu,
               kith_cuda_index_create(s->gpu, &s->on_device[0], &params, &s->index, s->c.handle));
}

/* `gap` bytes between rows, of which one is another's equal where `copies`. */
static scene scene_of(kith_dtype dtype, kith_metric metric, int64_t gap, bool copies)
{
    scene s = {.points = test_rows_make(dtype, ROWS, COLS, gap),
               .queries = test_rows_make(dtype, MOST_ASKED, COLS, gap)};
    const double scale = dtype == KITH_U8 ? 255.0 : dtype == KITH_I8 ? 127.0 : 1.0;
    uint64_t seed = 11;
    test_rows_fill(&s.points, scale, dtype == KITH_U8, &seed);
    test_rows_fill(&s.queries, scale, dtype == KITH_U8, &seed);
    if (copies) {
        test_rows_copy(&s.points, 31, &s.points, 900);
    }
    open_scene(&s, metric);
    return s;
}

static void close_scene(scene *s)
{
    kith_index_free(s->index);
    test_caller_release(&s->c, s->on_device[0].data);
    test_caller_release(&s->c, s->on_device[1].data);
    test_rows_free(&s->queries);
    test_rows_free(&s->points);
    kith_ctx_free(s->gpu);
    kith_ctx_free(s->cpu);
    test_caller_close(&s->c);
}

/* The reference device does its work as late as it may, in memory that can be looked at. */
static bool is_reference(void)
{
    kin_gpu_info info;
    return kin_gpu_describe(kin_gpu_first(), &info) && strcmp(info.name, "reference device") == 0;
}

static kith_neighbors enqueue(const scene *s, const kith_matrix *asked)
{
    kith_search_params params = s->params;
    const kith_neighbors out = test_caller_answer(&s->c, asked->rows, params.k);
    params.flags |= KITH_ENQUEUE;
    test_works(s->gpu, kith_cuda_index_search(s->gpu, s->index, asked, &params, &out, s->c.handle));
    return out;
}

/* For what was enqueued. */
static kith_status wait_for(const scene *s)
{
    return kith_cuda_index_search(s->gpu, s->index, NULL, NULL, NULL, NULL);
}

/* Whether a call has returned before its answers are there; where that cannot be seen, it has. */
static bool is_under_way(const kith_neighbors *out)
{
    return !is_reference() ||
           (out->ids[0] == 0xeeeeeeee && out->ids[out->rows * out->k - 1] == 0xeeeeeeee);
}

static kith_neighbors truth(const scene *s, int64_t rows)
{
    kith_matrix asked = s->queries.matrix;
    asked.rows = rows;
    kith_neighbors wanted = test_answer_make(rows, s->params.k);
    test_works(s->cpu, kith_search(s->cpu, &s->points.matrix, &asked, &s->params, &wanted, NULL));
    return wanted;
}

/* The first `rows` queries; how many answers differ. returns: whether the call must not wait. */
static int compare(const scene *s, int64_t rows, bool returns)
{
    kith_matrix asked = s->on_device[1];
    asked.rows = rows;
    const kith_neighbors out = enqueue(s, &asked);
    assert_int_equal(is_under_way(&out) || !is_reference(), returns || !is_reference());
    kith_neighbors wanted = truth(s, rows);
    kith_neighbors got = test_caller_fetch(&s->c, &out);
    const int wrong = test_answers_differ("enqueued", &wanted, &got);
    test_works(s->gpu, wait_for(s));
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
}

static void same_bytes(void **state)
{
    static const struct {
        kith_dtype dtype;
        kith_metric metric;
        int64_t gap;
    } samples[] = {{KITH_F32, KITH_EUCLIDEAN, 0},   {KITH_F32, KITH_COSINE, 12},
                   {KITH_U8, KITH_EUCLIDEAN, 3},    {KITH_F64, KITH_INNER_PRODUCT, 8},
                   {KITH_F16, KITH_CORRELATION, 0}, {KITH_I8, KITH_SQEUCLIDEAN, 0},
                   {KITH_U8, KITH_INNER_PRODUCT, 0}};
    static const int64_t counts[] = {1, 2, 63, 64, 65, 200, 1024};
    enum { SAMPLES = sizeof samples / sizeof *samples, COUNTS = sizeof counts / sizeof *counts };
    static uint32_t excluded[MOST_ASKED];
    int wrong = 0;
    (void)state;
    for (uint32_t i = 0; i < MOST_ASKED; i++) {
        excluded[i] = i % 4 == 0 ? KITH_ID_NONE : i * 11 % ROWS;
    }
    for (int i = 0; i < SAMPLES; i++) {
        scene s = scene_of(samples[i].dtype, samples[i].metric, samples[i].gap, false);
        for (int j = 0; j < COUNTS; j++) {
            s.params.k = j % 2 == 0 ? 9 : 70;
            s.params.exclude = (i + j) % 3 == 0 ? excluded : NULL;
            wrong += compare(&s, counts[j], true);
        }
        close_scene(&s);
    }
    (void)printf("%d types and metrics, 1 to 1,024 queries: the bytes of the processor, and no "
                 "call waited\n",
                 SAMPLES);
    assert_int_equal(wrong, 0);
}

/* What cannot be enqueued waits, and answers the same. */
static void waits(void **state)
{
    static const struct {
        kith_metric metric;
        bool copies;
        int64_t rows;
        int64_t k;
        uint32_t flags;
        double radius;
    } samples[] = {{KITH_EUCLIDEAN, true, 20, 9, 0, 0.0},
                   {KITH_MANHATTAN, false, 20, 9, 0, 0.0},
                   {KITH_EUCLIDEAN, false, 1025, 9, 0, 0.0},
                   {KITH_EUCLIDEAN, false, 20, 1025, 0, 0.0},
                   {KITH_EUCLIDEAN, false, 20, 9, KITH_WITHIN_RADIUS, 4.0}};
    enum { SAMPLES = sizeof samples / sizeof *samples };
    int wrong = 0;
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        scene s = scene_of(KITH_F32, samples[i].metric, 0, samples[i].copies);
        s.params.k = samples[i].k;
        s.params.flags = samples[i].flags;
        s.params.radius = samples[i].radius;
        wrong += compare(&s, samples[i].rows, false);
        close_scene(&s);
    }
    (void)printf(
        "equal rows, a direct metric, many queries, many neighbours, a radius: they wait\n");
    assert_int_equal(wrong, 0);
}

/* ---- What the host would have looked at ------------------------------------------------------ */

/* More rows than a list has places lie so near each other that no cheap type tells them apart; some
 * queries are there. */
static void lists_overflow(void **state)
{
    enum { ASKED = 70, SPREAD = 17 };
    int wrong = 0;
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        const kith_metric metric = turn == 0 ? KITH_EUCLIDEAN : KITH_COSINE;
        scene s = {.points = test_rows_make(KITH_F32, ROWS, COLS, 0),
                   .queries = test_rows_make(KITH_F32, MOST_ASKED, COLS, 0)};
        uint64_t seed = 5;
        test_rows_fill(&s.points, 1.0, 0, &seed);
        test_rows_fill(&s.queries, 1.0, 0, &seed);
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < COLS && i % SPREAD != 0; j++) {
                test_rows_set(&s.points, i, j, 1.0 + 1e-5 * test_uniform(&seed));
            }
        }
        for (int64_t i = 0; i < MOST_ASKED; i += 3) {
            for (int64_t j = 0; j < COLS; j++) {
                test_rows_set(&s.queries, i, j, 1.0 + 1e-5 * test_uniform(&seed));
            }
        }
        open_scene(&s, metric);
        for (int64_t k = 1; k < 400; k *= 7) {
            s.params.k = k;
            wrong += compare(&s, 1, true);
            wrong += compare(&s, ASKED, true);
        }
        close_scene(&s);
    }
    (void)printf("%d of %d rows that no screen tells apart: rescued on the device\n",
                 ROWS - ROWS / SPREAD, ROWS);
    assert_int_equal(wrong, 0);
}

static void no_direction(void **state)
{
    static const kith_metric metrics[] = {KITH_COSINE, KITH_CORRELATION};
    int wrong = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        scene s = {.points = test_rows_make(KITH_F32, ROWS, COLS, 0),
                   .queries = test_rows_make(KITH_F32, MOST_ASKED, COLS, 0)};
        uint64_t seed = 6;
        test_rows_fill(&s.points, 1.0, 0, &seed);
        test_rows_fill(&s.queries, 1.0, 0, &seed);
        for (int64_t j = 0; j < COLS; j++) {
            test_rows_set(&s.queries, 0, j, i == 0 ? 0.0 : 3.0);
            test_rows_set(&s.queries, 66, j, 0.0);
        }
        open_scene(&s, metrics[i]);
        s.params.k = 12;
        wrong += compare(&s, 1, true);
        wrong += compare(&s, 100, true);
        close_scene(&s);
    }
    (void)printf("queries without a direction: the same bytes\n");
    assert_int_equal(wrong, 0);
}

/* Row `row` of an answer is empty. */
static bool is_empty(const kith_neighbors *got, int64_t row)
{
    bool empty = true;
    for (int64_t j = row * got->k; j < (row + 1) * got->k; j++) {
        empty = empty && got->ids[j] == KITH_ID_NONE && isnan(got->distances[j]) &&
                isnan(got->distances64[j]);
    }
    return empty;
}

static void bad_values(void **state)
{
    enum { ASKED = 100, FIRST = 3, SECOND = 77, COLUMN = 5 };
    scene s = scene_of(KITH_F32, KITH_EUCLIDEAN, 0, false);
    (void)state;
    s.params.k = 9;
    kith_neighbors wanted = truth(&s, ASKED);
    test_rows_set(&s.queries, FIRST, COLUMN + 2, INFINITY);
    test_rows_set(&s.queries, SECOND, COLUMN, NAN);
    kith_matrix asked = test_caller_copy(&s.c, &s.queries.matrix);
    asked.rows = ASKED;
    const kith_neighbors out = enqueue(&s, &asked);
    const kith_neighbors again = enqueue(&s, &asked);
    kith_neighbors got = test_caller_fetch(&s.c, &out);
    assert_true(is_empty(&got, FIRST) && is_empty(&got, SECOND));
    for (int64_t row = FIRST; row <= SECOND; row += SECOND - FIRST) { /* else they are right */
        memcpy(got.ids + row * 9, wanted.ids + row * 9, 9 * sizeof *got.ids);
        memcpy(got.distances + row * 9, wanted.distances + row * 9, 9 * sizeof *got.distances);
        memcpy(got.distances64 + row * 9, wanted.distances64 + row * 9,
               9 * sizeof *got.distances64);
    }
    assert_false(test_answers_differ("beside bad values", &wanted, &got));
    test_fails(s.gpu, wait_for(&s), KITH_E_DATA, "queries[3, 7]");
    (void)printf("'%s'\n", kith_ctx_detail(s.gpu));
    test_works(s.gpu, wait_for(&s)); /* it was told */
    assert_int_equal(compare(&s, FIRST, true), 0);
    const kith_search_params params = s.params; /* who waits is told at once */
    test_fails(s.gpu, kith_cuda_index_search(s.gpu, s.index, &asked, &params, &again, s.c.handle),
               KITH_E_DATA, "infinite");
    asked.data = (const char *)asked.data + 70 * COLS * sizeof(float);
    asked.rows = 30;
    kith_neighbors last = enqueue(&s, &asked);
    test_fails(s.gpu, wait_for(&s), KITH_E_DATA, "queries[7, 5]");
    kith_neighbors rest[2] = {test_caller_fetch(&s.c, &again), test_caller_fetch(&s.c, &last)};
    test_answer_free(&rest[0]);
    test_answer_free(&rest[1]);
    test_answer_free(&got);
    test_answer_free(&wanted);
    test_caller_release(&s.c, (const char *)asked.data - 70 * COLS * sizeof(float));
    close_scene(&s);
}

/* ---- Streams, and what becomes of the index -------------------------------------------------- */

/* Two streams whose queries come, in the same memory, behind the searches before. */
static void streams_in_turn(void **state)
{
    enum { TURNS = 12, ASKED = 30, BYTES = ASKED * COLS * sizeof(float) };
    scene s = scene_of(KITH_F32, KITH_EUCLIDEAN, 0, false);
    test_caller others[2] = {s.c, test_caller_open()};
    kith_neighbors out[TURNS];
    unsigned char *pinned = NULL;
    void *rooms[2];
    int wrong = 0;
    (void)state;
    s.params.k = 9;
    assert_int_equal(s.c.ops->allocate_pinned(TURNS * BYTES, (void **)&pinned), 0);
    memcpy(pinned, s.queries.matrix.data, TURNS * BYTES);
    for (int i = 0; i < 2; i++) {
        rooms[i] = test_caller_room(&s.c, BYTES);
    }
    for (int i = 0; i < TURNS; i++) {
        const test_caller *own = &others[i % 2];
        kith_matrix asked = s.queries.matrix;
        asked.data = rooms[i % 2];
        asked.rows = ASKED;
        scene on = s;
        assert_int_equal(
            own->ops->copy_in(own->stream, rooms[i % 2], pinned + i * (int64_t)BYTES, BYTES), 0);
        on.c.handle = own->handle;
        out[i] = enqueue(&on, &asked);
    }
    kith_neighbors all = truth(&s, (int64_t)TURNS * ASKED);
    for (int i = TURNS - 1; i >= 0; i--) {
        const int64_t cells = (int64_t)i * ASKED * s.params.k;
        const kith_neighbors wanted = {all.ids + cells,
                                       all.distances + cells,
                                       all.distances64 + cells,
                                       ASKED,
                                       s.params.k,
                                       NULL};
        kith_neighbors got = test_caller_fetch(&others[i % 2], &out[i]);
        wrong += test_answers_differ("streams in turn", &wanted, &got);
        test_answer_free(&got);
    }
    test_answer_free(&all);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(others[i].ops->wait(others[i].stream), 0);
        test_caller_release(&s.c, rooms[i]);
    }
    s.c.ops->release_pinned(pinned);
    test_caller_close(&others[1]);
    close_scene(&s);
    (void)printf("%d searches from two streams in turn: the same bytes\n", TURNS);
    assert_int_equal(wrong, 0);
}

/* Answers are those of the index as it was. */
static void changed_and_freed(void **state)
{
    enum { ASKED = 40 };
    scene s = scene_of(KITH_F32, KITH_EUCLIDEAN, 0, false);
    kith_matrix asked = s.on_device[1];
    kith_neighbors out[3];
    uint32_t gone[300];
    int wrong = 0;
    (void)state;
    s.params.k = 9;
    asked.rows = ASKED;
    for (uint32_t i = 0; i < 300; i++) {
        gone[i] = i * 16;
    }
    out[0] = enqueue(&s, &asked);
    kith_matrix added = s.queries.matrix;
    added.rows = ASKED; /* each becomes a query's nearest */
    test_works(s.gpu, kith_index_add(s.gpu, s.index, &added));
    test_works(s.gpu, kith_index_remove(s.gpu, s.index, gone, 300));
    kith_neighbors wanted = truth(&s, ASKED);
    out[1] = enqueue(&s, &asked);
    kith_index_free(s.index);
    s.index = NULL;
    kith_neighbors got = test_caller_fetch(&s.c, &out[0]);
    wrong += test_answers_differ("before rows came and went", &wanted, &got);
    test_answer_free(&got);
    got = test_caller_fetch(&s.c, &out[1]);
    for (int64_t i = 0; i < ASKED; i++) {
        wrong += got.distances64[i * 9] == 0.0 ? 0 : 1;
    }
    test_answer_free(&got);
    test_answer_free(&wanted);
    close_scene(&s);
    (void)printf("rows that come and go behind a search, an index that is freed behind one: no "
                 "answer changes\n");
    assert_int_equal(wrong, 0);
}

static void refused(void **state)
{
    scene s = scene_of(KITH_F32, KITH_EUCLIDEAN, 0, false);
    kith_neighbors out = test_answer_make(4, 3);
    kith_matrix asked = s.queries.matrix;
    (void)state;
    asked.rows = 4;
    s.params.k = 3;
    s.params.flags = KITH_ENQUEUE;
    test_fails(s.gpu, kith_search(s.gpu, &s.points.matrix, &asked, &s.params, &out, NULL),
               KITH_E_ARGUMENT, "flags");
    test_fails(s.gpu, kith_index_search(s.gpu, s.index, &asked, &s.params, &out, NULL),
               KITH_E_ARGUMENT, "flags");
    asked.data = s.on_device[1].data;
    test_fails(s.gpu, kith_cuda_search(s.gpu, &s.on_device[0], &asked, &s.params, &out, s.c.handle),
               KITH_E_ARGUMENT, "flags");
    test_fails(s.gpu, kith_cuda_index_search(s.gpu, NULL, NULL, NULL, NULL, NULL), KITH_E_ARGUMENT,
               "index");
    test_fails(s.gpu, kith_cuda_index_search(s.gpu, s.index, NULL, &s.params, NULL, NULL),
               KITH_E_ARGUMENT, "queries");
    test_answer_free(&out);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),        cmocka_unit_test(waits),
        cmocka_unit_test(lists_overflow),    cmocka_unit_test(no_direction),
        cmocka_unit_test(bad_values),        cmocka_unit_test(streams_in_turn),
        cmocka_unit_test(changed_and_freed), cmocka_unit_test(refused),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
