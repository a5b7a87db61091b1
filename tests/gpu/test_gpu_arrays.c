/* SPDX-License-Identifier: Apache-2.0
 * kith_cuda.h: matrices, values and answers in device memory. The bytes are those of the processor,
 * work waits for what the caller's stream holds, and addresses of the host are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3000, QUERIES = 700, COLS = 24, K = 11, SLOW_FILLS = 200, SLOW_BYTES = 256 << 20 };

/* The caller: a stream of its own, as a program that uses CUDA has. */
typedef struct caller {
    const kin_gpu_ops *ops;
    kin_gpu_stream *stream;
    void *handle; /* the cudaStream_t, which stands first in kin_gpu_stream (gpu_stream.cuh) */
} caller;

static caller open_caller(void)
{
    caller c = {.ops = kin_gpu_get_module()->ops};
    assert_int_equal(c.ops->make_current(kin_gpu_first()), 0);
    assert_int_equal(c.ops->open(kin_gpu_first(), NULL, &c.stream), 0);
    memcpy(&c.handle, c.stream, sizeof c.handle);
    return c;
}

static void *room(const caller *c, size_t bytes)
{
    void *block = NULL;
    assert_int_equal(c->ops->allocate(c->stream, bytes, &block), 0);
    assert_int_equal(c->ops->fill(c->stream, block, 0xee, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    return block;
}

/* The bytes of a matrix whose rows may stand apart: the last row ends where its memory ends. */
static size_t bytes_of(const kith_matrix *m)
{
    const int64_t row = (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    const int64_t stride = m->stride_bytes != 0 ? m->stride_bytes : row;
    return (size_t)((m->rows - 1) * stride + row);
}

static kith_matrix on_device(const caller *c, const kith_matrix *host)
{
    kith_matrix device = *host;
    void *block = room(c, bytes_of(host));
    assert_int_equal(c->ops->copy_in(c->stream, block, host->data, bytes_of(host)), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    device.data = block;
    return device;
}

static kith_neighbors room_for_answer(const caller *c, int64_t rows, int64_t k)
{
    const size_t count = (size_t)(rows * k);
    return (kith_neighbors){.ids = room(c, count * sizeof(uint32_t)),
                            .distances = room(c, count * sizeof(float)),
                            .distances64 = room(c, count * sizeof(double)),
                            .rows = rows,
                            .k = k};
}

static void release_answer(const caller *c, const kith_neighbors *answer)
{
    c->ops->release(c->stream, answer->ids);
    c->ops->release(c->stream, answer->distances);
    c->ops->release(c->stream, answer->distances64);
}

static kith_neighbors fetch(const caller *c, const kith_neighbors *device)
{
    const uint64_t count = (uint64_t)(device->rows * device->k);
    kith_neighbors host = test_answer_make(device->rows, device->k);
    assert_int_equal(c->ops->copy_out(c->stream, host.ids, device->ids, count * sizeof(uint32_t)),
                     0);
    assert_int_equal(
        c->ops->copy_out(c->stream, host.distances, device->distances, count * sizeof(float)), 0);
    assert_int_equal(
        c->ops->copy_out(c->stream, host.distances64, device->distances64, count * sizeof(double)),
        0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    return host;
}

typedef struct sample {
    kith_dtype dtype;
    kith_metric metric;
    int64_t gap;
} sample;

static int compare_graph(const caller *c, kith_ctx *cpu, kith_ctx *gpu, const kith_matrix *points,
                         const kith_search_params *params)
{
    kith_neighbors wanted = test_answer_make(points->rows, K);
    assert_int_equal(kith_graph_exact(cpu, points, params, &wanted), KITH_OK);
    kith_matrix device = on_device(c, points);
    kith_neighbors out = room_for_answer(c, points->rows, K);
    const kith_status status = kith_cuda_graph_exact(gpu, &device, params, &out, c->handle);
    if (status != KITH_OK) {
        (void)printf("    graph: %s\n", kith_ctx_detail(gpu));
    }
    kith_neighbors got = fetch(c, &out);
    const int wrong = status != KITH_OK || test_answers_differ("graph", &wanted, &got);
    release_answer(c, &out);
    c->ops->release(c->stream, (void *)(uintptr_t)device.data);
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
}

static int compare_search(const caller *c, kith_ctx *cpu, kith_ctx *gpu, const kith_matrix *points,
                          const kith_matrix *queries, const kith_search_params *params)
{
    kith_neighbors wanted = test_answer_make(queries->rows, K);
    assert_int_equal(kith_knn_exact(cpu, points, queries, params, &wanted), KITH_OK);
    kith_matrix corpus = on_device(c, points);
    kith_matrix asked = on_device(c, queries);
    kith_neighbors out = room_for_answer(c, queries->rows, K);
    const kith_status status = kith_cuda_knn_exact(gpu, &corpus, &asked, params, &out, NULL);
    if (status != KITH_OK) {
        (void)printf("    search: %s\n", kith_ctx_detail(gpu));
    }
    kith_neighbors got = fetch(c, &out);
    const int wrong = status != KITH_OK || test_answers_differ("search", &wanted, &got);
    release_answer(c, &out);
    c->ops->release(c->stream, (void *)(uintptr_t)corpus.data);
    c->ops->release(c->stream, (void *)(uintptr_t)asked.data);
    test_answer_free(&got);
    test_answer_free(&wanted);
    return wrong;
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
    caller c = open_caller();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    uint64_t seed = 5;
    int wrong = 0;
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
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    (void)printf("device arrays in and out: the bytes of the processor; %d wrong\n", wrong);
    assert_int_equal(wrong, 0);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    c.ops->close(c.stream);
}

/* The points are written by the caller's stream, behind work that takes a while: without waiting
 * for that stream the graph would be one of other points. */
static void test_order(void **state)
{
    (void)state;
    caller c = open_caller();
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    uint64_t seed = 6;
    test_rows points = test_rows_make(KITH_F32, ROWS, COLS, 0);
    test_rows_fill(&points, 1.0, 0, &seed);
    kith_search_params params = kith_search_params_default();
    params.k = K;
    kith_neighbors wanted = test_answer_make(ROWS, K);
    assert_int_equal(kith_graph_exact(cpu, &points.matrix, &params, &wanted), KITH_OK);

    const size_t bytes = bytes_of(&points.matrix);
    kith_matrix source = on_device(&c, &points.matrix);
    kith_matrix device = source;
    void *late = room(&c, bytes);
    void *slow = room(&c, SLOW_BYTES);
    device.data = late;
    kith_neighbors out = room_for_answer(&c, ROWS, K);
    assert_int_equal(c.ops->fill(c.stream, late, 0, bytes), 0);
    assert_int_equal(c.ops->wait(c.stream), 0);
    for (int i = 0; i < SLOW_FILLS; i++) {
        assert_int_equal(c.ops->fill(c.stream, slow, i, SLOW_BYTES), 0);
    }
    assert_int_equal(c.ops->copy_within(c.stream, late, source.data, bytes), 0);
    assert_int_equal(kith_cuda_graph_exact(gpu, &device, &params, &out, c.handle), KITH_OK);
    kith_neighbors got = fetch(&c, &out);
    assert_false(test_answers_differ("behind the caller's stream", &wanted, &got));
    (void)printf("work begins behind what the caller's stream holds\n");
    test_answer_free(&got);
    test_answer_free(&wanted);
    release_answer(&c, &out);
    c.ops->release(c.stream, slow);
    c.ops->release(c.stream, late);
    c.ops->release(c.stream, (void *)(uintptr_t)source.data);
    test_rows_free(&points);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    c.ops->close(c.stream);
}

/* ---- Selection ------------------------------------------------------------------------------ */

/* Rows to select from, on both sides. */
typedef struct choice {
    kith_values host;
    kith_values device;
    int64_t item_bytes;
} choice;

static choice make_choice(const caller *c, const test_rows *rows, uint32_t *ids)
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
    made.device.data = on_device(c, m).data;
    made.device.ids = ids != NULL ? on_device(c, &id_matrix).data : NULL;
    return made;
}

static void release_choice(const caller *c, const choice *made)
{
    c->ops->release(c->stream, (void *)(uintptr_t)made->device.data);
    c->ops->release(c->stream, (void *)(uintptr_t)made->device.ids);
}

static void *host_room(size_t bytes)
{
    void *block = malloc(bytes);
    assert_non_null(block);
    return block;
}

/* Bytes of a block on the device against those of the host. */
static int differs(const caller *c, const void *host, const void *device, size_t bytes)
{
    char *got = host_room(bytes);
    assert_int_equal(c->ops->copy_out(c->stream, got, device, bytes), 0);
    assert_int_equal(c->ops->wait(c->stream), 0);
    const int wrong = memcmp(host, got, bytes) != 0;
    free(got);
    return wrong;
}

/* Lists, and k-th values, by one method on both sides. */
static int compare_selection(const caller *c, kith_ctx *cpu, kith_ctx *gpu, const choice *from,
                             const kith_select_params *params)
{
    const size_t rows = (size_t)from->host.rows;
    const size_t count = rows * (size_t)params->k;
    const size_t bytes = count * (size_t)from->item_bytes;
    const kith_selection wanted = {host_room(bytes), host_room(count * sizeof(uint32_t))};
    const kith_selection out = {room(c, bytes), room(c, count * sizeof(uint32_t))};
    assert_int_equal(kith_select(cpu, &from->host, params, &wanted), KITH_OK);
    const kith_status lists = kith_cuda_select(gpu, &from->device, params, &out, c->handle);
    int wrong = lists != KITH_OK || differs(c, wanted.values, out.values, bytes) ||
                differs(c, wanted.ids, out.ids, count * sizeof(uint32_t));
    assert_int_equal(kith_select_kth(cpu, &from->host, params, wanted.values), KITH_OK);
    const kith_status kth = kith_cuda_select_kth(gpu, &from->device, params, out.values, NULL);
    wrong +=
        kth != KITH_OK || differs(c, wanted.values, out.values, rows * (size_t)from->item_bytes);
    /* And the host's memory, by a context that names the device. */
    const kith_selection again = {host_room(bytes), host_room(count * sizeof(uint32_t))};
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
    caller c = open_caller();
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
            for (int method = KITH_SELECT_AUTO; method <= KITH_SELECT_THRESHOLD_HEAP; method++) {
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
    c.ops->close(c.stream);
}

static void test_selection_refused(void **state)
{
    (void)state;
    caller c = open_caller();
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
    values.data = on_device(&c, &matrix).data;
    assert_int_equal(kith_cuda_select(gpu, &values, &params, &out, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "out.values"));
    assert_int_equal(kith_cuda_select_kth(gpu, &values, &params, numbers, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "out is no address"));
    out.values = room(&c, sizeof numbers);
    assert_int_equal(kith_cuda_select(cpu, &values, &params, &out, NULL), KITH_E_UNSUPPORTED);
    assert_int_equal(kith_cuda_select(gpu, &values, &params, &out, NULL), KITH_OK);
    kith_report report = {.struct_size = (uint32_t)sizeof report};
    assert_int_equal(kith_ctx_report(gpu, &report), KITH_OK);
    assert_true(strncmp(report.backend, "cuda:", 5) == 0 && report.gpu[0] != '\0');
    (void)printf("selection refuses host addresses and a context of the processor\n");
    c.ops->release(c.stream, out.values);
    c.ops->release(c.stream, (void *)(uintptr_t)values.data);
    kith_ctx_free(cpu);
    kith_ctx_free(gpu);
    c.ops->close(c.stream);
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void test_refused(void **state)
{
    (void)state;
    caller c = open_caller();
    kith_ctx *gpu = test_gpu_ctx(1, 0);
    kith_ctx *cpu = test_cpu_ctx();
    float points[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t ids[8];
    kith_matrix matrix = {.data = points, .rows = 8, .cols = 1, .dtype = KITH_F32};
    kith_neighbors out = {.ids = ids, .rows = 8, .k = 1};
    kith_search_params params = kith_search_params_default();
    params.k = 1;
    assert_int_equal(kith_cuda_graph_exact(gpu, &matrix, &params, &out, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "no address in device memory"));
    kith_matrix device = on_device(&c, &matrix);
    assert_int_equal(kith_cuda_graph_exact(gpu, &device, &params, &out, NULL), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(gpu), "out.ids"));
    out.ids = room(&c, sizeof ids);
    assert_int_equal(kith_cuda_graph_exact(cpu, &device, &params, &out, NULL), KITH_E_UNSUPPORTED);
    params.k = 8;
    assert_int_equal(kith_cuda_graph_exact(gpu, &device, &params, &out, NULL), KITH_E_ARGUMENT);
    params.k = 1;
    assert_int_equal(kith_cuda_graph_exact(gpu, &device, &params, &out, NULL), KITH_OK);
    assert_int_equal(c.ops->copy_out(c.stream, ids, out.ids, sizeof ids), 0);
    assert_int_equal(c.ops->wait(c.stream), 0);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(ids[i], i == 0 ? 1 : i - 1);
    }
    (void)printf("host addresses, a context of the processor and a k too large are refused\n");
    c.ops->release(c.stream, out.ids);
    c.ops->release(c.stream, (void *)(uintptr_t)device.data);
    kith_ctx_free(cpu);
    kith_ctx_free(gpu);
    c.ops->close(c.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_order),
        cmocka_unit_test(test_selection), cmocka_unit_test(test_selection_refused),
        cmocka_unit_test(test_refused)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
