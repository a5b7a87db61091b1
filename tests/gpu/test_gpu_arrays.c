/* SPDX-License-Identifier: Apache-2.0
 * kith_cuda.h: matrices and answers in device memory. The bytes are those of the processor, work
 * waits for what the caller's stream holds, and addresses of the host are refused. */
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bytes),
                                       cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_refused)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
