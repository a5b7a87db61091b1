/* SPDX-License-Identifier: Apache-2.0
 * An index of points in device memory: the bytes of the processor's, of queries there and on the
 * host, of all pairs and within a radius; after rows were added and removed; saved and opened. What
 * needs rows of the host is said. */
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
#include "support/support_files.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FEW queries of points that all differ go the short way of a batch. */
enum {
    ROWS = 2600,
    QUERIES = 150,
    FEW = 48,
    COLS = 40,
    K = 9,
    MORE = 40,
    EQUAL_GAP = 8,
    NEAR = 9000
};

typedef struct scene {
    test_caller c;
    kith_ctx *cpu;
    kith_ctx *gpu;
    test_rows points;
    test_rows queries;
    kith_matrix on_device[2];
    kith_search_params params;
} scene;

static scene scene_of(kith_dtype dtype, kith_metric metric, int64_t gap)
{
    scene s = {.c = test_caller_open(),
               .cpu = test_cpu_ctx(),
               .gpu = test_gpu_ctx(2, 0),
               .points = test_rows_make(dtype, ROWS, COLS, gap),
               .queries = test_rows_make(dtype, QUERIES, COLS, gap),
               .params = kith_search_params_default()};
    uint64_t seed = 9;
    const double scale = dtype == KITH_U8 ? 255.0 : dtype == KITH_I8 ? 127.0 : 1.0;
    test_rows_fill(&s.points, scale, dtype == KITH_U8, &seed);
    test_rows_fill(&s.queries, scale, dtype == KITH_U8, &seed);
    if (gap >= EQUAL_GAP) {
        test_rows_copy(&s.points, 31, &s.points, 900);
    }
    s.on_device[0] = test_caller_copy(&s.c, &s.points.matrix);
    s.on_device[1] = test_caller_copy(&s.c, &s.queries.matrix);
    s.params.metric = metric;
    s.params.k = K;
    return s;
}

static void scene_end(scene *s)
{
    test_caller_release(&s->c, s->on_device[0].data);
    test_caller_release(&s->c, s->on_device[1].data);
    test_rows_free(&s->queries);
    test_rows_free(&s->points);
    kith_ctx_free(s->gpu);
    kith_ctx_free(s->cpu);
    test_caller_close(&s->c);
}

static kith_index *index_of(const scene *s)
{
    kith_index_params params = kith_index_params_default();
    kith_index *index = NULL;
    params.metric = s->params.metric;
    test_works(s->gpu,
               kith_cuda_index_create(s->gpu, &s->on_device[0], &params, &index, s->c.handle));
    return index;
}

/* Queries on the device and on the host, many and few of them, against the processor's answer in
 * `points`. */
static int compare(const scene *s, const kith_index *index, const kith_matrix *points)
{
    int wrong = 0;
    for (int few = 0; few < 2; few++) {
        kith_matrix asked = s->queries.matrix;
        kith_matrix there = s->on_device[1];
        asked.rows = there.rows = few ? FEW : QUERIES;
        kith_neighbors wanted = test_answer_make(asked.rows, K);
        test_works(s->cpu, kith_search(s->cpu, points, &asked, &s->params, &wanted, NULL));
        const kith_neighbors out = test_caller_answer(&s->c, asked.rows, K);
        test_works(s->gpu,
                   kith_cuda_index_search(s->gpu, index, &there, &s->params, &out, s->c.handle));
        kith_neighbors got = test_caller_fetch(&s->c, &out);
        wrong += test_answers_differ("queries on the device", &wanted, &got);
        memset(got.ids, 0xff, (size_t)(got.rows * K) * sizeof *got.ids);
        test_works(s->gpu, kith_index_search(s->gpu, index, &asked, &s->params, &got, NULL));
        wrong += test_answers_differ("queries on the host", &wanted, &got);
        test_answer_free(&got);
        test_answer_free(&wanted);
    }
    return wrong;
}

/* A distance of the answer: some of K are within, one of them exactly there. */
static double a_radius(kith_ctx *cpu, const kith_matrix *points, const kith_matrix *queries,
                       const kith_search_params *params)
{
    kith_neighbors found = test_answer_make(queries->rows, K);
    test_works(cpu, kith_search(cpu, points, queries, params, &found, NULL));
    const double radius = found.distances64[queries->rows / 2 * K + K / 2];
    test_answer_free(&found);
    return radius;
}

static int differ(const kith_ranges *wanted, kith_ranges *got)
{
    const kith_lists *a = kith_ranges_lists(wanted);
    const kith_lists *b = kith_ranges_lists(got);
    const size_t total = (size_t)a->offsets[a->rows];
    const int wrong =
        memcmp(a->offsets, b->offsets, ((size_t)a->rows + 1) * sizeof *a->offsets) != 0 ||
        memcmp(a->ids, b->ids, total * sizeof *a->ids) != 0 ||
        memcmp(a->distances64, b->distances64, total * sizeof *a->distances64) != 0;
    kith_ranges_free(got);
    return wrong;
}

/* Of the index, of its points, and of both where the queries lie on the device, too; all of them,
 * and under a filter. search false: each point among the others. */
static int compare_radius(const scene *s, const kith_index *index, bool search)
{
    static int64_t groups[ROWS];
    kith_radius_params params = kith_radius_params_default();
    kith_filter filter = kith_filter_default();
    const kith_matrix *asked = search ? &s->queries.matrix : NULL;
    const kith_matrix *there = search ? &s->on_device[1] : NULL;
    int wrong = 0;
    params.metric = s->params.metric;
    params.radius = s->params.radius;
    for (int i = 0; i < ROWS; i++) {
        groups[i] = i % 3;
    }
    filter.rule = KITH_RULE_OTHER;
    filter.groups = groups;
    filter.query_groups = search ? groups : NULL;
    for (int turn = 0; turn < 2; turn++) {
        kith_ranges *wanted = NULL;
        kith_ranges *got[3] = {NULL};
        params.filter = turn == 0 ? NULL : &filter;
        test_works(s->cpu, kith_radius(s->cpu, &s->points.matrix, asked, &params, &wanted));
        assert_true(kith_ranges_lists(wanted)->offsets[kith_ranges_lists(wanted)->rows] > 0);
        test_works(s->gpu, kith_index_radius(s->gpu, index, asked, &params, &got[0]));
        test_works(s->gpu,
                   kith_cuda_index_radius(s->gpu, index, there, &params, &got[1], s->c.handle));
        test_works(s->gpu, kith_cuda_radius(s->gpu, &s->on_device[0], there, &params, &got[2],
                                            s->c.handle));
        wrong += differ(wanted, got[0]) + differ(wanted, got[1]) + differ(wanted, got[2]);
        kith_ranges_free(wanted);
    }
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
                   {KITH_F16, KITH_CORRELATION, 0}, {KITH_F32, KITH_MANHATTAN, 4},
                   {KITH_I8, KITH_SQEUCLIDEAN, 0}};
    enum { SAMPLES = sizeof samples / sizeof *samples };
    uint32_t excluded[QUERIES];
    (void)state;
    int wrong = 0;
    for (uint32_t i = 0; i < QUERIES; i++) {
        excluded[i] = i % 4 == 0 ? KITH_ID_NONE : i * 11 % ROWS;
    }
    for (int i = 0; i < SAMPLES; i++) {
        scene s = scene_of(samples[i].dtype, samples[i].metric, samples[i].gap);
        kith_index *index = index_of(&s);
        wrong += compare(&s, index, &s.points.matrix);
        s.params.exclude = excluded;
        wrong += compare(&s, index, &s.points.matrix);
        s.params.exclude = NULL;
        s.params.radius = a_radius(s.cpu, &s.points.matrix, &s.queries.matrix, &s.params);
        wrong += compare_radius(&s, index, true);
        wrong += compare_radius(&s, index, false);
        s.params.flags = KITH_WITHIN_RADIUS;
        wrong += compare(&s, index, &s.points.matrix);
        s.params.exclude = excluded;
        wrong += compare(&s, index, &s.points.matrix);
        kith_index_free(index);
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
    (void)printf("an index of rows on the device, %d types and metrics: the processor's bytes\n",
                 SAMPLES);
}

/* Rows are added and removed, and the index has its own from then on. */
static void changed(void **state)
{
    static const uint32_t gone[] = {5, 31, 2000, ROWS + 7};
    enum { GONE = sizeof gone / sizeof *gone };
    (void)state;
    scene s = scene_of(KITH_F32, KITH_EUCLIDEAN, 8);
    kith_index *index = index_of(&s);
    kith_matrix more = s.queries.matrix;
    more.rows = MORE;
    test_rows all = test_rows_make(KITH_F32, ROWS + MORE - GONE, COLS, 0);
    int64_t to = 0;
    for (int64_t i = 0; i < ROWS + MORE; i++) {
        bool stays = true;
        for (int g = 0; g < GONE; g++) {
            stays = stays && (int64_t)gone[g] != i;
        }
        if (stays) {
            test_rows_copy(&all, to++, i < ROWS ? &s.points : &s.queries, i < ROWS ? i : i - ROWS);
        }
    }
    test_works(s.gpu, kith_index_add(s.gpu, index, &more));
    assert_int_equal(s.c.ops->fill(s.c.stream, (void *)(uintptr_t)s.on_device[0].data, 0,
                                   test_matrix_bytes(&s.on_device[0])),
                     0);
    assert_int_equal(s.c.ops->wait(s.c.stream), 0);
    test_works(s.gpu, kith_index_remove(s.gpu, index, gone, GONE));
    assert_int_equal(compare(&s, index, &all.matrix), 0);
    (void)printf("%d rows added, %d removed, and the caller's overwritten: a new index' bytes\n",
                 MORE, GONE);
    kith_index_free(index);
    test_rows_free(&all);
    scene_end(&s);
}

static void bring_again(scene *s)
{
    test_caller_release(&s->c, s->on_device[0].data);
    test_caller_release(&s->c, s->on_device[1].data);
    s->on_device[0] = test_caller_copy(&s->c, &s->points.matrix);
    s->on_device[1] = test_caller_copy(&s->c, &s->queries.matrix);
}

/* Groups, small and large, and bitmaps that keep all, much, little, one row; with ids left out and
 * within a radius: what the index' rows answer on the GPU, and what goes by way of the host. */
static int filter_all(scene *s, const kith_index *index)
{
    static const int group_counts[] = {0, 2, 500};
    static const int keeps[] = {0, 1, 2, 9, ROWS};
    static int64_t groups[ROWS];
    static uint32_t left_out[ROWS];
    uint8_t allow[(ROWS + 7) / 8];
    kith_filter filter = kith_filter_default();
    int wrong = 0;
    for (int turn = 0; turn < 15; turn++) {
        const int count = group_counts[turn % 3];
        const int keep = keeps[turn / 3];
        memset(allow, 0, sizeof allow);
        for (int i = 0; i < ROWS; i++) {
            groups[i] = count == 0 ? 0 : i % count;
            left_out[i] = (uint32_t)(i / 2);
            allow[i / 8] = (uint8_t)(allow[i / 8] | (keep != 0 && i % keep == 0) << i % 8);
        }
        allow[1] = (uint8_t)(allow[1] & (keep == 1 ? 0xfe : 0xff)); /* nearly all */
        filter.rule = count == 0      ? KITH_RULE_NONE
                      : turn % 4 == 2 ? KITH_RULE_OTHER
                                      : KITH_RULE_SAME;
        filter.groups = count == 0 ? NULL : groups;
        filter.query_groups = filter.groups;
        filter.allow = keep == 0 ? NULL : allow;
        s->params.filter = &filter;
        s->params.exclude = turn % 2 == 0 ? NULL : left_out;
        wrong += compare(s, index, &s->points.matrix);
    }
    return wrong;
}

static void filtered(void **state)
{
    static const struct {
        kith_dtype dtype;
        kith_metric metric;
        int32_t gap;
    } samples[] = {{KITH_F32, KITH_EUCLIDEAN, 12},
                   {KITH_F32, KITH_COSINE, 0},
                   {KITH_U8, KITH_SQEUCLIDEAN, 0},
                   {KITH_F16, KITH_INNER_PRODUCT, 2},
                   {KITH_F32, KITH_MANHATTAN, 0}};
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        scene s = scene_of(samples[i].dtype, samples[i].metric, samples[i].gap);
        kith_index *index = index_of(&s);
        wrong += filter_all(&s, index);
        s.params.filter = NULL;
        s.params.exclude = NULL;
        s.params.radius = a_radius(s.cpu, &s.points.matrix, &s.queries.matrix, &s.params);
        s.params.flags = KITH_WITHIN_RADIUS;
        wrong += filter_all(&s, index);
        if (samples[i].dtype == KITH_U8) { /* asked with another type it is prepared again */
            uint64_t seed = 4;
            test_rows_free(&s.queries);
            s.queries = test_rows_make(KITH_F32, QUERIES, COLS, 0);
            test_rows_fill(&s.queries, 255.0, true, &seed);
            test_caller_release(&s.c, s.on_device[1].data);
            s.on_device[1] = test_caller_copy(&s.c, &s.queries.matrix);
            wrong += filter_all(&s, index);
        }
        kith_index_free(index);
        scene_end(&s);
    }
    (void)printf("an index under 165 filters: the processor's bytes; %d wrong\n", wrong);
    assert_int_equal(wrong, 0);
}

/* A bitmap that allows five rows of eight. */
static int compare_some(scene *s)
{
    static uint8_t allow[(NEAR + 7) / 8];
    kith_filter filter = kith_filter_default();
    memset(allow, 0xb6, sizeof allow);
    filter.allow = allow;
    kith_index *index = index_of(s);
    s->params.filter = &filter;
    const int wrong = compare(s, index, &s->points.matrix);
    s->params.filter = NULL;
    kith_index_free(index);
    return wrong;
}

/* So many queries of the host that they are sent while rows are chosen; some neighbours alone. */
static void many_asked(void **state)
{
    (void)state;
    static uint8_t allow[(NEAR + 7) / 8];
    scene s = scene_of(KITH_F32, KITH_EUCLIDEAN, 0);
    uint64_t seed = 12;
    kith_filter filter = kith_filter_default();
    kith_neighbors wanted = test_answer_make(NEAR, K);
    kith_neighbors got = test_answer_make(NEAR, K);
    test_rows_free(&s.points);
    s.points = test_rows_make(KITH_F32, NEAR, COLS, 4);
    test_rows_fill(&s.points, 1.0, false, &seed);
    bring_again(&s);
    kith_index *index = index_of(&s);
    memset(allow, 0x92, sizeof allow);
    filter.allow = allow;
    s.params.filter = &filter;
    const kith_matrix *points = &s.points.matrix;
    test_works(s.cpu, kith_search(s.cpu, points, points, &s.params, &wanted, NULL));
    for (int turn = 0; turn < 3; turn++) {
        test_works(s.gpu, kith_index_search(s.gpu, index, points, &s.params, &got, NULL));
        assert_int_equal(test_answers_differ("many queries of the host", &wanted, &got), 0);
    }
    (void)printf("%d queries of the host under a bitmap: the same bytes\n", (int)NEAR);
    test_answer_free(&got);
    test_answer_free(&wanted);
    kith_index_free(index);
    scene_end(&s);
}

/* Beside a row that is far away all others are one to the screen: lists overflow again and again,
 * and in the end all that are allowed are compared. And a query without a direction, which is as
 * near to every row. */
static void filtered_near(void **state)
{
    (void)state;
    scene s = scene_of(KITH_F32, KITH_COSINE, 0);
    for (int32_t c = 0; c < COLS; c++) {
        test_rows_set(&s.queries, 3, c, 0.0);
    }
    bring_again(&s);
    assert_int_equal(compare_some(&s), 0);
    s.params.metric = KITH_EUCLIDEAN;
    test_rows_free(&s.points);
    s.points = test_rows_make(KITH_F32, NEAR, COLS, 0);
    for (int64_t i = 0; i < NEAR; i++) {
        test_rows_set(&s.points, i, i % COLS, i == 0 ? 1e9 : 1e-6 * (double)i);
    }
    bring_again(&s);
    assert_int_equal(compare_some(&s), 0);
    (void)printf("a query without a direction, and rows that no screen tells apart: the same "
                 "bytes\n");
    scene_end(&s);
}

static void saved(void **state)
{
    test_folder *folder = *state;
    scene s = scene_of(KITH_F32, KITH_COSINE, 8);
    kith_index *index = index_of(&s);
    kith_index *opened = NULL;
    const char *path = test_path(folder, "device_index.kith");
    test_works(s.gpu, kith_index_save(s.gpu, index, path));
    test_works(s.gpu, kith_index_open(s.gpu, path, &opened));
    assert_int_equal(compare(&s, opened, &s.points.matrix), 0);
    kith_index_free(opened);
    kith_index_free(index);
    (void)printf("saved, and opened on the GPU again: the same bytes\n");
    scene_end(&s);
}

static void refused(void **state)
{
    (void)state;
    scene s = scene_of(KITH_F32, KITH_EUCLIDEAN, 0);
    kith_index *index = index_of(&s);
    kith_index *other = NULL;
    kith_index_params params = kith_index_params_default();
    const kith_neighbors out = test_caller_answer(&s.c, QUERIES, K);
    kith_neighbors on_host = test_answer_make(QUERIES, K);
    const kith_matrix *there = &s.on_device[1];

    assert_int_equal(kith_cuda_index_create(s.gpu, &s.points.matrix, &params, &other, NULL),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(s.gpu), "no address in device memory"));
    assert_int_equal(kith_cuda_index_create(s.cpu, &s.on_device[0], &params, &other, NULL),
                     KITH_E_UNSUPPORTED);
    params.method = KITH_METHOD_GRAPH;
    assert_int_equal(kith_cuda_index_create(s.gpu, &s.points.matrix, &params, &other, NULL),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_cuda_index_create(s.cpu, &s.on_device[0], &params, &other, NULL),
                     KITH_E_UNSUPPORTED);
    assert_null(other);
    assert_int_equal(kith_cuda_index_search(s.gpu, index, &s.queries.matrix, &s.params, &out, NULL),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_cuda_index_search(s.gpu, index, there, &s.params, &on_host, NULL),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(s.gpu), "out.ids is no address"));
    assert_int_equal(kith_cuda_index_search(s.gpu, NULL, there, &s.params, &out, NULL),
                     KITH_E_ARGUMENT);
    params.method = KITH_METHOD_EXACT;
    test_works(s.cpu, kith_index_create(s.cpu, &s.points.matrix, &params, &other));
    assert_int_equal(kith_cuda_index_search(s.gpu, other, there, &s.params, &out, NULL),
                     KITH_E_UNSUPPORTED);
    assert_non_null(strstr(kith_ctx_detail(s.gpu), "is the processor's"));
    kith_radius_params within = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    within.radius = 2.0;
    assert_int_equal(kith_cuda_index_radius(s.gpu, other, there, &within, &ranges, NULL),
                     KITH_E_UNSUPPORTED);
    kith_index_free(other);
    assert_int_equal(
        kith_cuda_index_radius(s.gpu, index, &s.queries.matrix, &within, &ranges, NULL),
        KITH_E_ARGUMENT);
    assert_int_equal(
        kith_cuda_radius(s.gpu, &s.on_device[0], &s.queries.matrix, &within, &ranges, NULL),
        KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(s.gpu), "queries.data is no address in device memory"));
    assert_int_equal(kith_cuda_radius(s.cpu, &s.on_device[0], there, &within, &ranges, NULL),
                     KITH_E_UNSUPPORTED);
    within.method = KITH_METHOD_TREE;
    within.metric = KITH_HAMMING;
    assert_int_equal(kith_cuda_radius(s.gpu, &s.on_device[0], there, &within, &ranges, NULL),
                     KITH_E_ARGUMENT);
    assert_null(ranges);
    within.metric = KITH_EUCLIDEAN;
    test_works(s.gpu, kith_cuda_radius(s.gpu, &s.on_device[0], there, &within, &ranges, NULL));
    kith_ranges_free(ranges);
    ranges = NULL;

    kith_filter filter = kith_filter_default();
    filter.rule = KITH_RULE_SAME;
    s.params.filter = &filter;
    assert_int_equal(kith_cuda_index_search(s.gpu, index, there, &s.params, &out, NULL),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(s.gpu), "groups is NULL, and the rule is of groups"));
    assert_int_equal(kith_cuda_index_search(s.gpu, index, NULL, &s.params, &out, NULL),
                     KITH_E_ARGUMENT);
    assert_int_equal(kith_index_search(s.gpu, index, NULL, &s.params, &on_host, NULL),
                     KITH_E_ARGUMENT);
    (void)printf("the other side's memory, graphs, an index of the processor, a rule without "
                 "groups: refused\n");
    test_answer_free(&on_host);
    kith_neighbors got = test_caller_fetch(&s.c, &out);
    test_answer_free(&got);
    kith_index_free(index);
    scene_end(&s);
}

/* ---- Few queries of many rows ---------------------------------------------------------------- */

enum { MANY = 50300, GLANCE_COLS = 48, GLANCES = 60 };

/* Rows about some centres; of queries the last five far from them all. */
typedef struct glance_data {
    kith_metric metric;
    uint64_t clusters;
    double width;
    int64_t rows; /* of an index that is made once */
} glance_data;

static test_rows clustered(const glance_data *data, int64_t rows, uint64_t seed)
{
    test_rows made = test_rows_make(KITH_F32, rows, GLANCE_COLS, 0);
    for (int64_t i = 0; i < rows; i++) {
        uint64_t centre = 1 + (uint64_t)(i * 7919) % data->clusters;
        for (int32_t j = 0; j < GLANCE_COLS; j++) {
            const bool far = rows == GLANCES && i >= GLANCES - 5 && j == 3;
            const double x =
                8.0 * test_uniform(&centre) + data->width * (test_uniform(&seed) - 0.5);
            test_rows_set(&made, i, j, far ? x + 8000.0 : x);
        }
    }
    return made;
}

/* How many answers of an index on the GPU differ; s8: searches that read bytes; skips: that left
 * tiles out, which none may on a device that is large for the rows. */
static int compare_glances(kith_ctx *cpu, kith_ctx *gpu, const glance_data *data, int *s8,
                           int *skips, bool *large)
{
    static const int64_t counts[] = {1, 2, 3, 7, 16, 17, 55, GLANCES};
    static const int64_t wanted_k[] = {1, 10, 100};
    test_rows points = clustered(data, data->rows, 5);
    test_rows queries = clustered(data, GLANCES, 6);
    kith_index_params params = kith_index_params_default();
    kith_search_params search = kith_search_params_default();
    kith_index *index = NULL;
    const bool few = test_is_slow_build(); /* one k for each, then */
    int wrong = 0;
    params.metric = search.metric = data->metric;
    test_works(gpu, kith_index_create(gpu, &points.matrix, &params, &index));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (size_t j = few ? i % 3 : 0; j < sizeof wanted_k / sizeof *wanted_k; j += few ? 3 : 1) {
            kith_report report = {.struct_size = sizeof report};
            kith_matrix asked = queries.matrix;
            asked.rows = counts[i];
            search.k = wanted_k[j];
            kith_neighbors wanted = test_answer_make(asked.rows, search.k);
            kith_neighbors got = test_answer_make(asked.rows, search.k);
            test_works(cpu, kith_search(cpu, &points.matrix, &asked, &search, &wanted, NULL));
            test_works(gpu, kith_index_search(gpu, index, &asked, &search, &got, &report));
            wrong += test_answers_differ("few queries", &wanted, &got);
            *s8 += strcmp(report.screen, "s8") == 0;
            *skips += report.skipped_share > 0.0;
            test_answer_free(&got);
            test_answer_free(&wanted);
        }
    }
    *large = index->gpu->info.processors > data->rows / 3000;
    kith_index_free(index);
    test_rows_free(&queries);
    test_rows_free(&points);
    return wrong;
}

static void glances(void **state)
{
    (void)state;
    const int64_t many = test_is_slow_build() ? MANY : 600000; /* tiles enough for any device */
    const glance_data samples[] = {{KITH_EUCLIDEAN, 700, 2.0, MANY},
                                   {KITH_COSINE, 700, 3.0, MANY},
                                   {KITH_SQEUCLIDEAN, 40, 1e-4, MANY},
                                   {KITH_EUCLIDEAN, 60, 1.0, many}};
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    int wrong = 0;
    int s8[4] = {0};
    int skips = 0;
    bool large = false; /* of the last */
    for (int i = 0; i < 4; i++) {
        wrong += compare_glances(cpu, gpu, &samples[i], &s8[i], &skips, &large);
    }
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    (void)printf("1 to 60 queries, %d searches of a set: %d, %d, %d, %d by bytes, %d left tiles "
                 "out; far queries, and rows that bytes do not tell apart: %d differ\n",
                 test_is_slow_build() ? 8 : 24, s8[0], s8[1], s8[2], s8[3], skips, wrong);
    assert_int_equal(wrong, 0);
    assert_true(s8[0] > 0 && s8[1] > 0 && s8[2] == 0 && (skips > 0 || large));
}

/* ---- Many queries of many rows --------------------------------------------------------------- */

enum { MANY_QUERIES = 39900 };

/* Many queries, whose column 7 becomes `outside` if that is not 0: how many answers differ. */
static int compare_many(kith_ctx *cpu, kith_ctx *gpu, const kith_index *index,
                        const test_rows *points, const glance_data *data, double outside,
                        kith_report *report)
{
    test_rows queries = clustered(data, MANY_QUERIES, 6);
    kith_search_params search = kith_search_params_default();
    search.k = 10;
    for (int64_t row = 0; row < MANY_QUERIES && outside > 0.0; row++) {
        test_rows_set(&queries, row, 7, outside);
    }
    kith_neighbors wanted = test_answer_make(MANY_QUERIES, search.k);
    kith_neighbors got = test_answer_make(MANY_QUERIES, search.k);
    test_works(cpu, kith_search(cpu, &points->matrix, &queries.matrix, &search, &wanted, NULL));
    test_works(gpu, kith_index_search(gpu, index, &queries.matrix, &search, &got, report));
    const int wrong = test_answers_differ("many queries", &wanted, &got);
    test_answer_free(&got);
    test_answer_free(&wanted);
    test_rows_free(&queries);
    return wrong;
}

/* Queries of which some, or all, lie outside of their corpus, where bytes tell nothing; and of rows
 * in clusters so far apart that most tiles are left out. */
static void glances_of_many(void **state)
{
    static const double outside[] = {0.0, 9.6, 240.0, 0.0};
    enum { TIMES = sizeof outside / sizeof *outside };
    static const glance_data near = {KITH_EUCLIDEAN, 700, 2.0, MANY};
    static const glance_data apart = {KITH_EUCLIDEAN, 60, 1.0, MANY};
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    bool s8[TIMES] = {false};
    double skipped = 0.0;
    int wrong = 0;
    (void)state;
    for (int i = 0; i < TIMES && !test_is_slow_build(); i++) { /* a billion pairs each */
        const glance_data *data = i == TIMES - 1 ? &apart : &near;
        test_rows points = clustered(data, MANY, 5);
        kith_report report = {.struct_size = sizeof report};
        kith_index_params params = kith_index_params_default();
        kith_index *index = NULL;
        test_works(gpu, kith_index_create(gpu, &points.matrix, &params, &index));
        wrong += compare_many(cpu, gpu, index, &points, data, outside[i], &report);
        s8[i] = strcmp(report.screen, "s8") == 0;
        skipped = report.skipped_share;
        kith_index_free(index);
        test_rows_free(&points);
    }
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    (void)printf("%d queries of %d rows, among them, beside and far away, and of clusters that are "
                 "apart: by bytes %d, %d, %d, %d, %.0f %% of tiles left out; %d differ\n",
                 MANY_QUERIES, MANY, s8[0], s8[1], s8[2], s8[3], 100.0 * skipped, wrong);
    assert_int_equal(wrong, 0);
    assert_true((s8[0] && skipped > 0.5) || test_is_slow_build());
    assert_false(s8[2]);
}

/* ---- Rows that come to an index of rows on the device ---------------------------------------- */

enum { AT_FIRST = 50100, FEW_AT_FIRST = 9700, COME = 1200, KINDS = 4, LEAVE_EACH = 9 };

/* Of all rows behind `rows`: like the others, equal to others, without a direction or far away. */
static void come(test_rows *all, int64_t rows, int kind)
{
    for (int64_t i = rows; i < rows + COME && kind > 0; i++) {
        if (kind == 1 || kind == 3) {
            test_rows_copy(all, i, all, i * 31 % rows);
        }
        for (int32_t j = 0; j < GLANCE_COLS && i % 100 == 7; j++) {
            test_rows_set(all, i, j, kind == 2 ? 3e6 * (double)(j % 5 - 2) : 0.0);
        }
    }
}

static int compare_grown(kith_ctx *cpu, kith_ctx *gpu, const kith_index *index,
                         const test_rows *all, int64_t rows)
{
    int wrong = 0;
    kith_search_params search = kith_search_params_default();
    kith_index_info info = {.struct_size = sizeof info};
    test_works(cpu, kith_index_inspect(index, &info));
    assert_int_equal(info.points.rows, rows);
    search.metric = info.metric;
    search.k = K;
    kith_matrix points = all->matrix;
    points.rows = rows;
    for (int64_t count = 30; count <= 600; count *= 20) {
        kith_matrix asked = all->matrix;
        asked.data = (const char *)asked.data + (rows - count) * asked.stride_bytes; /* the last */
        asked.rows = count;
        kith_neighbors wanted = test_answer_make(count, K);
        kith_neighbors got = test_answer_make(count, K);
        test_works(cpu, kith_search(cpu, &points, &asked, &search, &wanted, NULL));
        test_works(gpu, kith_index_search(gpu, index, &asked, &search, &got, NULL));
        wrong += test_answers_differ("rows that came", &wanted, &got);
        test_answer_free(&got);
        test_answer_free(&wanted);
    }
    return wrong;
}

/* Of every LEAVE_EACH rows one goes, which are many runs, or only the first. */
static int64_t leave(kith_ctx *gpu, kith_index *index, test_rows *all, int64_t rows, bool many)
{
    static uint32_t gone[AT_FIRST / LEAVE_EACH + COME];
    const int64_t most = many ? rows : LEAVE_EACH;
    int64_t count = 0;
    int64_t kept = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (i % LEAVE_EACH == 4 && i < most) {
            gone[count++] = (uint32_t)i;
        } else {
            test_rows_copy(all, kept++, all, i);
        }
    }
    test_works(gpu, kith_index_remove(gpu, index, gone, count));
    return kept;
}

/* Those behind `rows` come; before that one with a value that is none, which changes nothing. */
static int64_t add(kith_ctx *gpu, kith_index *index, test_rows *all, int64_t rows, int kind)
{
    come(all, rows, kind);
    kith_matrix more = all->matrix;
    more.data = (const char *)more.data + rows * more.stride_bytes;
    more.rows = COME;
    const double given = (double)((const float *)more.data)[17 * GLANCE_COLS + 3];
    test_rows_set(all, rows + 17, 3, (double)NAN);
    assert_int_equal(kith_index_add(gpu, index, &more), KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(gpu), "points[17, 3] is NaN"));
    test_rows_set(all, rows + 17, 3, given);
    test_works(gpu, kith_index_add(gpu, index, &more));
    return rows + COME;
}

/* at_first: where there are some 50,000 at last bytes may take the place of halves. */
static int grow(test_caller *c, kith_ctx *cpu, kith_ctx *gpu, const glance_data *data,
                int64_t at_first)
{
    test_rows all = clustered(data, at_first + 2 * KINDS * COME, 5);
    kith_index_params params = kith_index_params_default();
    kith_index *index = NULL;
    kith_matrix some = all.matrix;
    some.rows = at_first;
    params.metric = data->metric;
    kith_matrix there = test_caller_copy(c, &some);
    test_works(gpu, kith_cuda_index_create(gpu, &there, &params, &index, c->handle));
    int wrong = 0;
    int64_t rows = at_first;
    for (int kind = 0; kind < KINDS; kind++) {
        rows = add(gpu, index, &all, rows, kind);
        test_caller_release(c, there.data);
        there.data = NULL; /* the index has its own */
        wrong += compare_grown(cpu, gpu, index, &all, rows);
    }
    for (int many = 0; many < 2; many++) {
        rows = leave(gpu, index, &all, rows, many == 1);
        wrong += compare_grown(cpu, gpu, index, &all, rows);
        rows = add(gpu, index, &all, rows, many);
        rows = add(gpu, index, &all, rows, 0);
        wrong += compare_grown(cpu, gpu, index, &all, rows);
    }
    kith_index_free(index);
    test_rows_free(&all);
    return wrong;
}

static void grown(void **state)
{
    static const glance_data all[] = {{KITH_EUCLIDEAN, 900, 0.5, 0},
                                      {KITH_COSINE, 900, 2.0, 0},
                                      {KITH_INNER_PRODUCT, 300, 1.0, 0}};
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    const int64_t at_first = test_is_slow_build() ? FEW_AT_FIRST : AT_FIRST;
    int wrong = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        wrong += grow(&c, cpu, gpu, &all[i], at_first);
    }
    (void)printf("%d times %d rows come to %d on the device, some equal, far or without a "
                 "direction, and rows go: a new index' bytes; %d differ\n",
                 2 * KINDS, COME, (int)at_first, wrong);
    assert_int_equal(wrong, 0);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    test_caller_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes),
        cmocka_unit_test(changed),
        cmocka_unit_test(grown),
        cmocka_unit_test(filtered),
        cmocka_unit_test(filtered_near),
        cmocka_unit_test(many_asked),
        cmocka_unit_test_setup_teardown(saved, test_folder_setup, test_folder_teardown),
        cmocka_unit_test(refused),
        cmocka_unit_test(glances),
        cmocka_unit_test(glances_of_many)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
