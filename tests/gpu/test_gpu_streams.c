/* SPDX-License-Identifier: Apache-2.0
 * Matrices and answers in device memory, on streams of the caller (kith_cuda.h): the processor's
 * bytes; work that the caller has queued before is waited for. Streams come from the driver, which
 * is opened at run time, so that this program needs no CUDA to be built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_cuda.h"
#include "support/support_answers.h"
#include "support/support_caller.h"
#include "support/support_compare.h"
#include "support/support_gpu.h"
#include "support/support_shapes.h"

#include <dlfcn.h>
#include <stdio.h>

/* ---- The driver ----------------------------------------------------------------------------- */

enum { NON_BLOCKING = 1 };

typedef struct driver {
    int (*stream_create)(void **stream, unsigned int flags);
    int (*stream_wait)(void *stream);
    int (*stream_destroy)(void *stream);
    int (*copy_in)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*fill)(uint64_t to, unsigned char byte, size_t count, void *stream);
} driver;

typedef struct fixture {
    test_caller own; /* for allocations and copies */
    driver cuda;
    kith_ctx *cpu;
    kith_ctx *gpu;
} fixture;

static void load(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    assert_non_null(found);
    memcpy(function, &found, sizeof found);
}

static int setup(void **state)
{
    static fixture f;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    load(library, "cuStreamCreate", &f.cuda.stream_create);
    load(library, "cuStreamSynchronize", &f.cuda.stream_wait);
    load(library, "cuStreamDestroy_v2", &f.cuda.stream_destroy);
    load(library, "cuMemcpyHtoDAsync_v2", &f.cuda.copy_in);
    load(library, "cuMemsetD8Async", &f.cuda.fill);
    f.own = test_caller_open();
    f.cpu = test_cpu_ctx();
    f.gpu = test_gpu_ctx(2, 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    kith_ctx_free(f->gpu);
    kith_ctx_free(f->cpu);
    test_caller_close(&f->own);
    return 0;
}

/* ---- Jobs whose data lie on the device ------------------------------------------------------ */

static kith_status solve(const fixture *f, const test_job *job, void *stream,
                         const kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    params.metric = job->metric;
    params.k = job->k;
    params.flags = job->flags;
    if (job->call == TEST_GRAPH) {
        return kith_cuda_graph(f->gpu, job->points, &params, out, NULL, stream);
    }
    return kith_cuda_search(f->gpu, job->points, job->queries, &params, out, stream);
}

static int compare(const fixture *f, const test_job *job, void *stream)
{
    char text[320];
    kith_neighbors wanted;
    assert_int_equal(test_job_solve(f->cpu, job, &wanted), KITH_OK);
    test_job there = *job;
    const kith_matrix points = test_caller_copy(&f->own, job->points);
    kith_matrix queries = {0};
    there.points = &points;
    if (job->call != TEST_GRAPH) {
        queries = test_caller_copy(&f->own, job->queries);
        there.queries = &queries;
    }
    const kith_neighbors out = test_caller_answer(&f->own, wanted.rows, wanted.k);
    const kith_status status = solve(f, &there, stream, &out);
    test_job_text(job, text, sizeof text);
    if (status != KITH_OK) {
        fail_msg("%s on the device: %s", text, kith_ctx_detail(f->gpu));
    }
    kith_neighbors got = test_caller_fetch(&f->own, &out);
    const int differ = test_answers_differ(text, &wanted, &got);
    test_caller_release(&f->own, points.data);
    test_caller_release(&f->own, queries.data);
    test_answer_free(&wanted);
    test_answer_free(&got);
    return differ;
}

static void data_on_the_device(void **state)
{
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_CORRELATION,
                                          KITH_MANHATTAN};
    static const kith_dtype dtypes[] = {KITH_F32, KITH_U8, KITH_F64, KITH_F16};
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_COPIES, SHAPE_SPARSE, SHAPE_BALL};
    const fixture *f = *state;
    void *stream = NULL;
    int differ = 0;
    int cases = 0;
    assert_int_equal(f->cuda.stream_create(&stream, NON_BLOCKING), 0);
    for (int i = 0; i < 4 * 4; i++) {
        uint64_t seed = 80 + (uint64_t)i;
        const test_shape shape = shapes[(i + i / 4) % 4];
        test_rows points = test_rows_make(dtypes[i % 4], 2100, 21, i % 3 == 0 ? 40 : 0);
        test_rows queries = test_rows_make(dtypes[i % 4], 77, 21, 0);
        test_shape_fill(&points, shape, false, &seed);
        test_shape_fill(&queries, shape, false, &seed);
        for (int call = TEST_GRAPH; call <= TEST_SEARCH; call++) {
            const test_job job = {.name = test_shape_name(shape),
                                  .call = (test_call)call,
                                  .points = &points.matrix,
                                  .queries = &queries.matrix,
                                  .metric = metrics[i / 4],
                                  .k = 11};
            differ += compare(f, &job, i % 2 == 0 ? stream : NULL);
            cases += 1;
        }
        test_rows_free(&queries);
        test_rows_free(&points);
    }
    assert_int_equal(f->cuda.stream_destroy(stream), 0);
    assert_int_equal(differ, 0);
    printf("%d jobs from device memory to device memory: the processor's bytes\n", cases);
}

/* The points arrive on the caller's stream, behind work that takes a while. */
static void queued_before(void **state)
{
    enum { TIMES = 5, BUSY = 40 };
    const uint64_t busy_bytes = UINT64_C(1) << 31;
    const fixture *f = *state;
    uint64_t seed = 99;
    test_rows rows = test_rows_make(KITH_F32, 3000, 16, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    const test_job job = {
        .name = "gauss", .points = &rows.matrix, .metric = KITH_EUCLIDEAN, .k = 8};
    const uint64_t bytes = test_matrix_bytes(&rows.matrix);
    kith_neighbors wanted;
    assert_int_equal(test_job_solve(f->cpu, &job, &wanted), KITH_OK);
    void *pinned = NULL;
    void *stream = NULL;
    assert_int_equal(f->own.ops->allocate_pinned(bytes, &pinned), 0);
    memcpy(pinned, rows.matrix.data, bytes);
    assert_int_equal(f->cuda.stream_create(&stream, NON_BLOCKING), 0);
    void *busy = test_caller_room(&f->own, busy_bytes);
    int differ = 0;
    for (int i = 0; i < TIMES; i++) {
        kith_matrix points = rows.matrix;
        void *block = test_caller_room(&f->own, bytes);
        points.data = block;
        const test_job there = {.points = &points, .metric = job.metric, .k = job.k};
        const kith_neighbors out = test_caller_answer(&f->own, wanted.rows, wanted.k);
        for (int b = 0; b < BUSY; b++) {
            assert_int_equal(
                f->cuda.fill((uint64_t)(uintptr_t)busy, (unsigned char)b, busy_bytes, stream), 0);
        }
        assert_int_equal(f->cuda.copy_in((uint64_t)(uintptr_t)block, pinned, bytes, stream), 0);
        if (solve(f, &there, stream, &out) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(f->gpu));
        }
        kith_neighbors got = test_caller_fetch(&f->own, &out);
        differ += test_answers_differ("points that a stream brings", &wanted, &got);
        test_answer_free(&got);
        test_caller_release(&f->own, block);
    }
    assert_int_equal(f->cuda.stream_wait(stream), 0);
    assert_int_equal(f->cuda.stream_destroy(stream), 0);
    test_caller_release(&f->own, busy);
    f->own.ops->release_pinned(pinned);
    test_answer_free(&wanted);
    test_rows_free(&rows);
    assert_int_equal(differ, 0);
    printf("%d graphs of points that their stream brings only after 80 GB of other work\n", TIMES);
}

/* Host pointers where device pointers belong, and the other way round: an error, no crash. */
static void wrong_side(void **state)
{
    const fixture *f = *state;
    uint64_t seed = 98;
    test_rows rows = test_rows_make(KITH_F32, 300, 5, 0);
    test_shape_fill(&rows, SHAPE_GAUSS, false, &seed);
    const test_job job = {
        .name = "gauss", .points = &rows.matrix, .metric = KITH_EUCLIDEAN, .k = 3};
    const kith_neighbors out = test_caller_answer(&f->own, 300, 3);
    assert_int_equal(solve(f, &job, NULL, &out), KITH_E_ARGUMENT);
    printf("host points for a device call: '%s'\n", kith_ctx_detail(f->gpu));
    const kith_matrix points = test_caller_copy(&f->own, &rows.matrix);
    const test_job there = {.points = &points, .metric = KITH_EUCLIDEAN, .k = 3};
    kith_neighbors host = test_answer_make(300, 3);
    assert_int_equal(solve(f, &there, NULL, &host), KITH_E_ARGUMENT);
    printf("a host answer for a device call: '%s'\n", kith_ctx_detail(f->gpu));
    test_answer_free(&host);
    kith_neighbors got = test_caller_fetch(&f->own, &out);
    test_answer_free(&got);
    test_caller_release(&f->own, points.data);
    test_rows_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_on_the_device),
        cmocka_unit_test(queued_before),
        cmocka_unit_test(wrong_side),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, setup, teardown);
}
