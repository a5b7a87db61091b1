/* SPDX-License-Identifier: Apache-2.0
 * kith_cuda.h: matrices, values and answers in device memory. The bytes are those of the processor,
 * work waits for what the caller's stream holds, and addresses of the host are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "kith/kith_papers.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3000, QUERIES = 700, COLS = 24, K = 11, SLOW_FILLS = 200, SLOW_BYTES = 256 << 20 };

typedef struct sample {
    kith_dtype dtype;
    kith_metric metric;
    int64_t gap;
} sample;

static const int64_t *numbers_there(const test_caller *c, const int64_t *numbers, int64_t rows)
{
    const uint64_t bytes = (uint64_t)rows * sizeof *numbers;
    if (numbers == NULL) {
        return NULL;
    }
    int64_t *there = test_caller_room(c, bytes);
    assert_int_equal(c->ops->copy_in(c->stream, there, numbers, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    return there;
}

/* The same parameters; of every second filter groups lie on the device, too. *own: until
 * bring_back. */
static kith_search_params take_there(const test_caller *c, const kith_search_params *params,
                                     int64_t rows, int64_t queries, kith_filter *own)
{
    static int turn;
    kith_search_params there = *params;
    *own = kith_filter_default();
    if (params->filter != NULL && turn++ % 2 == 0) {
        *own = *params->filter;
        own->groups = numbers_there(c, own->groups, rows);
        own->query_groups = numbers_there(c, own->query_groups, queries);
        there.filter = own;
    }
    return there;
}

static void bring_back(const test_caller *c, const kith_filter *own)
{
    if (own->groups != NULL) {
        test_caller_release(c, own->groups);
    }
    if (own->query_groups != NULL) {
        test_caller_release(c, own->query_groups);
    }
}

static int compare_graph(const test_caller *c, kith_ctx *cpu, kith_ctx *gpu,
                         const kith_matrix *points, const kith_search_params *params)
{
    kith_neighbors wanted = test_answer_make(points->rows, K);
    assert_int_equal(kith_graph(cpu, points, params, &wanted, NULL), KITH_OK);
    kith_matrix device = test_caller_copy(c, points);
    kith_neighbors out = test_caller_answer(c, points->rows, K);
    kith_filter own;
    const kith_search_params there = take_there(c, params, points->rows, 0, &own);
    const kith_status status = kith_cuda_graph(gpu, &device, &there, &out, NULL, c->handle);
    bring_back(c, &own);
    if (status != KITH_OK) {
        (void)printf("    graph: %s\n", kith_ctx_detail(gpu));
    }
    kith_neighbors got = test_caller_fetch(c, &out);
    const int wrong = status != KITH_OK || test_answers_differ("graph", &wanted, &got);
    test_caller_release(c, device.data);
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
}

static int compare_search(const test_caller *c, kith_ctx *cpu, kith_ctx *gpu,
                          const kith_matrix *points, const kith_matrix *queries,
                          const kith_search_params *params)
{
    kith_neighbors wanted = test_answer_make(queries->rows, K);
    assert_int_equal(kith_search(cpu, points, queries, params, &wanted, NULL), KITH_OK);
    kith_matrix corpus = test_caller_copy(c, points);
    kith_matrix asked = test_caller_copy(c, queries);
    kith_neighbors out = test_caller_answer(c, queries->rows, K);
    kith_filter own;
    const kith_search_params there = take_there(c, params, points->rows, queries->rows, &own);
    const kith_status status = kith_cuda_search(gpu, &corpus, &asked, &there, &out, NULL);
    bring_back(c, &own);
    if (status != KITH_OK) {
        (void)printf("    search: %s\n", kith_ctx_detail(gpu));
    }
    kith_neighbors got = test_caller_fetch(c, &out);
    const int wrong = status != KITH_OK || test_answers_differ("search", &wanted, &got);
    test_caller_release(c, corpus.data);
    test_caller_release(c, asked.data);
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
}

/* A distance of the answer: some of K are within, one of them exactly there. */
static double a_radius(kith_ctx *cpu, const kith_matrix *points, const kith_matrix *queries,
                       const kith_search_params *params)
{
    kith_neighbors found = test_answer_make(queries->rows, K);
    assert_int_equal(kith_search(cpu, points, queries, params, &found, NULL), KITH_OK);
    const double radius = found.distances64[queries->rows / 2 * K + K / 2];
    test_answer_free(&found);
    return radius;
}

static void test_same_bytes(void **state)
{
    static const sample samples[] = {
        {KITH_F32, KITH_EUCLIDEAN, 0},   {KITH_F32, KITH_COSINE, 20},
        {KITH_U8, KITH_EUCLIDEAN, 3},    {KITH_F64, KITH_INNER_PRODUCT, 8},
        {KITH_F16, KITH_CORRELATION, 0}, {KITH_F32, KITH_MANHATTAN, 4},
        {KITH_I8, KITH_SQEUCLIDEAN, 0},
    };
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    uint32_t excluded[QUERIES];
    uint64_t seed = 5;
    int wrong = 0;
    for (int64_t i = 0; i < QUERIES; i++) {
        excluded[i] = i % 3 == 0 ? KITH_ID_NONE : (uint32_t)(i * 7 % ROWS);
    }
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        const sample *s = &samples[i];
        test_rows points = test_rows_make(s->dtype, ROWS, COLS, s->gap);
        test_rows queries = test_rows_make(s->dtype, QUERIES, COLS, s->gap);
        const double scale = s->dtype == KITH_U8 ? 255.0 : s->dtype == KITH_I8 ? 127.0 : 1.0;
        test_rows_fill(&points, scale, s->dtype == KITH_U8, &seed);
        test_rows_fill(&queries, scale, s->dtype == KITH_U8, &seed);
        test_rows_copy(&points, 17, &points, 1234);
        kith_search_params params = kith_search_params_default();
        params.metric = s->metric;
        params.k = K;
        (void)printf("  %s %s, rows %lld bytes apart\n", kith_dtype_name(s->dtype),
                     kith_metric_name(s->metric), (long long)s->gap);
        wrong += compare_graph(&c, cpu, gpu, &points.matrix, &params);
        wrong += compare_search(&c, cpu, gpu, &points.matrix, &queries.matrix, &params);
        params.exclude = excluded;
        wrong += compare_search(&c, cpu, gpu, &points.matrix, &queries.matrix, &params);
        params.exclude = NULL;
        params.radius = a_radius(cpu, &points.matrix, &queries.matrix, &params);
        params.flags = KITH_WITHIN_RADIUS;
        params.exclude = excluded;
        wrong += compare_search(&c, cpu, gpu, &points.matrix, &queries.matrix, &params);
        params.exclude = NULL;
        wrong += compare_search(&c, cpu, gpu, &points.matrix, &queries.matrix, &params);
        wrong += compare_graph(&c, cpu, gpu, &points.matrix, &params);
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    (void)printf("device arrays in and out: the bytes of the processor; %d wrong\n", wrong);
    assert_int_equal(wrong, 0);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    test_caller_close(&c);
}

/* Groups so small that a query has fewer than K, large ones, and bitmaps that keep much and little:
 * what is compared in one go there, and what goes by way of the host. */
static int compare_filtered(const test_caller *c, kith_ctx *cpu, kith_ctx *gpu,
                            const kith_matrix *points, const kith_matrix *queries,
                            kith_search_params params)
{
    static const int64_t group_counts[] = {0, 2, 40, 600};
    static const int64_t apart[] = {1, 1000000007}; /* small numbers are their own indices */
    static const int keeps[] = {0, 1, 50};
    uint8_t allow[(ROWS + 7) / 8] = {0};
    int64_t groups[ROWS];
    int64_t asked[QUERIES];
    uint32_t excluded[QUERIES];
    kith_filter filter = kith_filter_default();
    int wrong = 0;
    for (int turn = 0; turn < 12; turn++) {
        const int64_t count = group_counts[turn % 4];
        const int keep = keeps[turn / 4];
        for (int64_t i = 0; i < points->rows; i++) {
            groups[i] = count == 0 ? 0 : i * 13 % count * apart[turn % 3 == 0];
            allow[i / 8] = (uint8_t)(i % 8 == 0 ? 0 : allow[i / 8]);
            allow[i / 8] = (uint8_t)(allow[i / 8] | (keep != 0 && i % keep == 0) << i % 8);
        }
        for (int64_t i = 0; i < QUERIES; i++) {
            asked[i] = count == 0 ? 0 : i * 7 % (count + 1) * apart[turn % 3 == 0];
            excluded[i] = (uint32_t)(i * 5 % points->rows);
        }
        filter.rule = count == 0      ? KITH_RULE_NONE
                      : turn % 3 == 2 ? KITH_RULE_OTHER
                                      : KITH_RULE_SAME;
        filter.groups = count == 0 ? NULL : groups;
        filter.query_groups = NULL;
        filter.allow = keep == 0 ? NULL : allow;
        params.filter = &filter;
        params.exclude = NULL;
        const uint32_t flags = params.flags;
        params.flags |= turn % 2 == 0 ? 0 : KITH_INCLUDE_SELF;
        wrong += compare_graph(c, cpu, gpu, points, &params);
        params.flags = flags;
        filter.query_groups = count == 0 ? NULL : asked;
        wrong += compare_search(c, cpu, gpu, points, queries, &params);
        params.exclude = excluded;
        wrong += compare_search(c, cpu, gpu, points, queries, &params);
    }
    return wrong;
}

static void test_filters(void **state)
{
    const int64_t rows = test_is_slow_build() ? ROWS / 2 : ROWS;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                          KITH_MANHATTAN};
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    uint64_t seed = 9;
    int wrong = 0;
    for (int i = 0; i < 4; i++) {
        test_rows points = test_rows_make(i == 1 ? KITH_F64 : KITH_F32, rows, COLS, 4 * (i % 2));
        test_rows queries = test_rows_make(points.matrix.dtype, QUERIES, COLS, 0);
        test_rows_fill(&points, 1.0, false, &seed);
        test_rows_fill(&queries, 1.0, false, &seed);
        test_rows_copy(&points, 17, &points, 1234);
        kith_search_params params = kith_search_params_default();
        params.metric = metrics[i];
        params.k = K;
        wrong += compare_filtered(&c, cpu, gpu, &points.matrix, &queries.matrix, params);
        params.radius = a_radius(cpu, &points.matrix, &queries.matrix, &params);
        params.flags = KITH_WITHIN_RADIUS;
        wrong += compare_filtered(&c, cpu, gpu, &points.matrix, &queries.matrix, params);
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    (void)printf("device arrays under 288 filters: the bytes of the processor; %d wrong\n", wrong);
    assert_int_equal(wrong, 0);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    test_caller_close(&c);
}

/* The points are written by the caller's stream, behind work that takes a while: without waiting
 * for that stream the graph would be one of other points. */
static void test_order(void **state)
{
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    uint64_t seed = 6;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_rows_fill(&points, 1.0, 0, &seed);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    kith_neighbors wanted = test_answer_make(ROWS, K);
    assert_int_equal(kith_graph(cpu, &points.matrix, &params, &wanted, NULL), KITH_OK);

    const size_t bytes = test_matrix_bytes(&points.matrix);
    kith_matrix source = test_caller_copy(&c, &points.matrix);
    kith_matrix device = source;
    void *late = test_caller_room(&c, bytes);
    void *slow = test_caller_room(&c, SLOW_BYTES);
    device.data = late;
    kith_neighbors out = test_caller_answer(&c, ROWS, K);
    assert_int_equal(c.ops->fill(c.stream, late, 0, bytes), 0);
    assert_int_equal(c.ops->wait(c.stream), 0);
    /* The reference device does nothing before it is waited for. */
    for (int i = 0; i < (test_is_slow_build() ? 2 : SLOW_FILLS); i++) {
        assert_int_equal(c.ops->fill(c.stream, slow, i, SLOW_BYTES), 0);
    }
    assert_int_equal(c.ops->copy_within(c.stream, late, source.data, bytes), 0);
    assert_int_equal(kith_cuda_graph(gpu, &device, &params, &out, NULL, c.handle), KITH_OK);
    kith_neighbors got = test_caller_fetch(&c, &out);
    assert_false(test_answers_differ("behind the caller's stream", &wanted, &got));
    (void)printf("work begins behind what the caller's stream holds\n");
    test_answer_free(&got);
    test_answer_free(&wanted);
    c.ops->release(c.stream, slow);
    c.ops->release(c.stream, late);
    test_caller_release(&c, source.data);
    test_rows_free(&points);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    test_caller_close(&c);
}

/* ---- Selection ------------------------------------------------------------------------------ */

/* Rows to select from, on both sides. */
typedef struct choice {
    kith_values host;
    kith_values device;
    int64_t item_bytes;
} choice;

static choice make_choice(const test_caller *c, const test_rows *rows, uint32_t *ids)
{
    const kith_matrix *m = &rows->matrix;
    const kith_matrix id_matrix = {
        .data = ids, .rows = m->rows, .cols = m->cols, .dtype = KITH_F32};
    choice made = {.item_bytes = kith_dtype_bytes(m->dtype)};
    made.host = (kith_values){.data = m->data,
                              .ids = ids,
                              .rows = m->rows,
                              .cols = m->cols,
                              .stride_bytes = m->stride_bytes,
                              .dtype = m->dtype};
    made.device = made.host;
    made.device.data = test_caller_copy(c, m).data;
    made.device.ids = ids != NULL ? test_caller_copy(c, &id_matrix).data : NULL;
    return made;
}

static void release_choice(const test_caller *c, const choice *made)
{
    test_caller_release(c, made->device.data);
    test_caller_release(c, made->device.ids);
}

static void *host_room(size_t bytes)
{
    void *block = malloc(bytes);
    assert_non_null(block);
    return block;
}

/* Bytes of a block on the device against those of the host. */
static int differs(const test_caller *c, const void *host, const void *device, size_t bytes)
{
    char *got = host_room(bytes);
    assert_int_equal(c->ops->copy_out(c->stream, got, device, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    const int wrong = memcmp(host, got, bytes) != 0;
    free(got);
    return wrong;
}

/* Lists, and k-th values, by one method on both sides. */
static int compare_selection(const test_caller *c, kith_ctx *cpu, kith_ctx *gpu, const choice *from,
                             const kith_select_params *params)
{
    const size_t rows = (size_t)from->host.rows;
    const size_t count = rows * (size_t)params->k;
    const size_t bytes = count * (size_t)from->item_bytes;
    const kith_selection wanted = {host_room(bytes), host_room(count * sizeof(uint32_t)), NULL};
    const kith_selection out = {test_caller_room(c, bytes),
                                test_caller_room(c, count * sizeof(uint32_t)), NULL};
    assert_int_equal(kith_select(cpu, &from->host, params, &wanted), KITH_OK);
    const kith_status lists = kith_cuda_select(gpu, &from->device, params, &out, c->handle);
    int wrong = lists != KITH_OK || differs(c, wanted.values, out.values, bytes) ||
                differs(c, wanted.ids, out.ids, count * sizeof(uint32_t));
    assert_int_equal(kith_select(cpu, &from->host, params, &(kith_selection){.kth = wanted.values}),
                     KITH_OK);
    const kith_status kth =
        kith_cuda_select(gpu, &from->device, params, &(kith_selection){.kth = out.values}, NULL);
    wrong +=
        kth != KITH_OK || differs(c, wanted.values, out.values, rows * (size_t)from->item_bytes);
    /* And the host's memory, by a context that names the device. */
    const kith_selection again = {host_room(bytes), host_room(count * sizeof(uint32_t)), NULL};
    assert_int_equal(kith_select(cpu, &from->host, params, &wanted), KITH_OK);
    const kith_status copied = kith_select(gpu, &from->host, params, &again);
    wrong += copied != KITH_OK || memcmp(again.values, wanted.values, bytes) != 0 ||
             memcmp(again.ids, wanted.ids, count * sizeof(uint32_t)) != 0;
    if (wrong != 0) {
        (void)printf("    %s %s, k = %lld: %s\n", kith_dtype_name(from->host.dtype),
                     kith_select_method_name(params->method), (long long)params->k,
                     kith_ctx_detail(gpu));
    }
    free(again.values);
    free(again.ids);
    c->ops->release(c->stream, out.values);
    c->ops->release(c->stream, out.ids);
    free(wanted.values);
    free(wanted.ids);
    return wrong;
}

static void test_selection(void **state)
{
    enum { LISTS = 130, LENGTH = 700 };
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};
    static const int64_t ks[] = {1, 20, 300, LENGTH};
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    uint64_t seed = 7;
    int wrong = 0;
    int compared = 0;
    uint32_t *ids = host_room(sizeof *ids * LISTS * LENGTH);
    for (uint32_t i = 0; i < LISTS * LENGTH; i++) {
        ids[i] = i * 2654435761u;
    }
    for (int d = 0; d < 4; d++) {
        test_rows rows = test_rows_make(dtypes[d], LISTS, LENGTH, d % 2 == 0 ? 0 : 24);
        test_rows_fill(&rows, 1.0, 0, &seed);
        for (int with_ids = 0; with_ids < 2; with_ids++) {
            const choice from = make_choice(&c, &rows, with_ids != 0 ? ids : NULL);
            for (int method = KITH_SELECT_AUTO; method < KITH_SELECT_METHOD_COUNT; method++) {
                for (int i = 0; i < 4; i++) {
                    kith_select_params params = kith_select_params_default();
                    params.method = (kith_select_method)method;
                    params.k = ks[i];
                    params.flags = i % 2 == 1 ? (uint32_t)KITH_SELECT_LARGEST : 0;
                    wrong += compare_selection(&c, cpu, gpu, &from, &params);
                    compared += 1;
                }
            }
            release_choice(&c, &from);
        }
        test_rows_free(&rows);
    }
    (void)printf("%d selections by every method, from device and from host memory: the bytes of "
                 "the processor; %d wrong\n",
                 compared, wrong);
    assert_int_equal(wrong, 0);
    free(ids);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    test_caller_close(&c);
}

static void test_selection_refused(void **state)
{
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *gpu = test_gpu_ctx(1, 0);
    kith_ctx *cpu = test_cpu_ctx();
    float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const kith_matrix matrix = {.data = numbers, .rows = 2, .cols = 4, .dtype = KITH_F32};
    kith_values values = {.data = numbers, .rows = 2, .cols = 4, .dtype = KITH_F32};
    kith_select_params params = kith_select_params_default();
    params.k = 1;
    kith_selection out = {.values = numbers};
    assert_int_equal(kith_cuda_select(gpu, &values, &params, &out, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "no address in device memory"));
    values.data = test_caller_copy(&c, &matrix).data;
    assert_int_equal(kith_cuda_select(gpu, &values, &params, &out, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "out.values"));
    assert_int_equal(
        kith_cuda_select(gpu, &values, &params, &(kith_selection){.kth = numbers}, NULL),
        KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "out.kth is no address"));
    out.values = test_caller_room(&c, sizeof numbers);
    assert_int_equal(kith_cuda_select(cpu, &values, &params, &out, NULL), KITH_E_UNSUPPORTED);
    assert_int_equal(kith_cuda_select(gpu, &values, &params, &out, NULL), KITH_OK);
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    assert_int_equal(kith_ctx_report(gpu, &report), KITH_OK);
    assert_true(strncmp(report.backend, "cuda:", 5) == 0 && report.gpu[0] != '\0');
    (void)printf("selection refuses host addresses and a context of the processor\n");
    c.ops->release(c.stream, out.values);
    test_caller_release(&c, values.data);
    kith_ctx_free(cpu);
    kith_ctx_free(gpu);
    test_caller_close(&c);
}

/* ---- What is refused ------------------------------------------------------------------------ */

/* Numbers below 0, found there by whoever reads them or by the host that takes over, and a rule
 * that reads them on the host. */
static void check_groups_there(const test_caller *c, kith_ctx *gpu, const kith_matrix *points,
                               const kith_search_params *given, const kith_neighbors *out)
{
    const int64_t numbers[8] = {0, 1, 1, 0, -3, 1, -5, 0};
    kith_search_params params = *given;
    kith_filter filter = kith_filter_default();
    filter.groups = numbers_there(c, numbers, 8);
    params.filter = &filter;
    for (kith_rule rule = KITH_RULE_SAME; rule <= KITH_RULE_OTHER; rule++) {
        filter.rule = rule;
        assert_int_equal(kith_cuda_graph(gpu, points, &params, out, NULL, NULL), KITH_E_ARGUMENT);
        assert_non_null(strstr(kith_ctx_detail(gpu), "groups[4] is -3, must be at least 0"));
    }
    filter.rule = KITH_RULE_EACH;
    assert_int_equal(kith_cuda_graph(gpu, points, &params, out, NULL, NULL), KITH_E_UNSUPPORTED);
    assert_non_null(strstr(kith_ctx_detail(gpu), "groups lies on a GPU"));
    test_caller_release(c, filter.groups);
}

static void test_refused(void **state)
{
    (void)state;
    test_caller c = test_caller_open();
    kith_ctx *gpu = test_gpu_ctx(1, 0);
    kith_ctx *cpu = test_cpu_ctx();
    float points[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t ids[8];
    kith_matrix matrix = {.data = points, .rows = 8, .cols = 1, .dtype = KITH_F32};
    kith_neighbors out = {.ids = ids, .rows = 8, .k = 1};
    kith_search_params params = kith_search_params_default();
    params.k = 1;
    assert_int_equal(kith_cuda_graph(gpu, &matrix, &params, &out, NULL, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "no address in device memory"));
    kith_matrix device = test_caller_copy(&c, &matrix);
    assert_int_equal(kith_cuda_graph(gpu, &device, &params, &out, NULL, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "out.ids"));
    out.ids = test_caller_room(&c, sizeof ids);
    assert_int_equal(kith_cuda_graph(cpu, &device, &params, &out, NULL, NULL), KITH_E_UNSUPPORTED);
    params.k = 8;
    assert_int_equal(kith_cuda_graph(gpu, &device, &params, &out, NULL, NULL), KITH_E_ARGUMENT);
    params.k = 1;
    check_groups_there(&c, gpu, &device, &params, &out);
    assert_int_equal(kith_cuda_graph(gpu, &device, &params, &out, NULL, NULL), KITH_OK);
    assert_int_equal(c.ops->copy_out(c.stream, ids, out.ids, sizeof ids), 0);
    assert_int_equal(c.ops->wait(c.stream), 0);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(ids[i], i == 0 ? 1 : i - 1);
    }
    (void)printf("host addresses, a context of the processor and a k too large are refused\n");
    c.ops->release(c.stream, out.ids);
    test_caller_release(&c, device.data);
    kith_ctx_free(cpu);
    kith_ctx_free(gpu);
    test_caller_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bytes),
                                       cmocka_unit_test(test_filters),
                                       cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_selection),
                                       cmocka_unit_test(test_selection_refused),
                                       cmocka_unit_test(test_refused)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
