/* SPDX-License-Identifier: Apache-2.0
 * kith_select on a GPU where memory is the matter: long rows, many rows, budgets that cut a row
 * into pieces, matrices in device memory; with KITH_LONG set, more than 2^32 values (9 GB on each
 * side). The bytes are the processor's, each time. KITH_TIMES: how long a host matrix of 2 GB,
 * and a row of 2.4 GB that does not fit, take beside their copy, with parts that come ahead and
 * without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "host/host_clock.h"
#include "kith/kith_cuda.h"
#include "kith/kith_papers.h"
#include "select/select.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_selections.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static kith_select_params asked(kith_select_method method, int64_t k, uint32_t flags)
{
    kith_select_params params = kith_select_params_default();
    params.method = method;
    params.k = k;
    params.flags = flags;
    return params;
}

/* ---- Long rows, many rows -------------------------------------------------------------------- */

/* Methods that put a whole device to work on one row. */
static const kith_select_method wide[] = {KITH_SELECT_AUTO, KITH_SELECT_SCAN, KITH_SELECT_QUICK,
                                          KITH_SELECT_RADIX, KITH_SELECT_BITONIC};
enum { WIDE = sizeof wide / sizeof *wide };

static int try_long(kith_ctx *cpu, kith_ctx *gpu, int64_t rows, int32_t cols, test_run kind)
{
    enum { REPEATS = 3, MOST = 5000 };
    static const int64_t ks[] = {1, 100, MOST};
    uint64_t seed = 51;
    int wrong = 0;
    test_values v = test_values_make(KITH_F32, rows, cols, 0, kind, TEST_IDS_PLACES, &seed);
    test_values_sort_by(&v, cpu, MOST, false);
    for (int i = 0; i < 3; i++) {
        for (int method = 0; method < WIDE; method++) {
            const kith_select_params params = asked(wide[method], ks[i], 0);
            /* Ties at the border are many and threads race: the same ids win each time. */
            for (int repeat = 0; repeat < (kind == TEST_RUN_FEW ? REPEATS : 1); repeat++) {
                wrong += !test_select(&v, gpu, &params, TEST_BOTH_PARTS);
            }
        }
    }
    test_values_free(&v);
    return wrong;
}

static void long_rows(void **state)
{
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    const int32_t longest = test_is_slow_build() ? 1 << 22 : 1 << 26;
    int wrong = try_long(cpu, gpu, 1, longest, TEST_RUN_UNIFORM);
    wrong += try_long(cpu, gpu, 1, (1 << 24) + 1, TEST_RUN_FEW);
    wrong += try_long(cpu, gpu, 5, (1 << 21) - 3, TEST_RUN_FEW);
    wrong += try_long(cpu, gpu, 3, (1 << 22) + 7, TEST_RUN_DESCENDING);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    (void)printf("rows of up to %d values: %d wrong\n", longest, wrong);
    assert_int_equal(wrong, 0);
}

static void many_rows(void **state)
{
    enum { COLS = 100 };
    static const int64_t ks[] = {1, 10, 64, COLS};
    const int64_t rows = test_is_slow_build() ? 10000 : 100000;
    (void)state;
    kith_select_params variants[TEST_SELECT_VARIANTS];
    const int count = test_select_variants(variants);
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    uint64_t seed = 52;
    int wrong = 0;
    test_values v =
        test_values_make(KITH_F32, rows, COLS, 1, TEST_RUN_UNIFORM, TEST_IDS_PLACES, &seed);
    test_values_sort_by(&v, cpu, COLS, true);
    for (int i = 0; i < 4; i++) {
        for (int which = i; which < count; which += 4) {
            kith_select_params params = variants[which];
            params.k = ks[i];
            params.flags |= KITH_SELECT_LARGEST;
            wrong += !test_select(&v, gpu, &params, TEST_BOTH_PARTS);
        }
    }
    test_values_free(&v);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    (void)printf("%" PRId64 " rows of %d values: %d wrong\n", rows, COLS, wrong);
    assert_int_equal(wrong, 0);
}

/* ---- Little device memory -------------------------------------------------------------------- */

/* One selection under a budget. What does not fit says so; what fits is right and kept the budget.
 */
static int with_budget(const test_values *v, const kith_select_params *params, uint64_t budget,
                       bool *fits)
{
    char text[160];
    const uint64_t places = (uint64_t)(v->values.rows * params->k);
    void *values = test_host_room((size_t)places * sizeof(double));
    uint32_t *ids = test_host_room((size_t)places * sizeof *ids);
    const kith_selection out = {values, ids, NULL};
    kith_ctx *gpu = test_gpu_ctx(2, budget);
    const kith_status status = kith_select(gpu, &v->values, params, &out);
    kith_report report = {.struct_size = sizeof report};
    bool right = false;
    if (status == KITH_OK) {
        assert_int_equal(kith_ctx_report(gpu, &report), KITH_OK);
        right = test_selection_is_right(v, params, values, ids) && report.gpu_peak_bytes <= budget;
    } else {
        right = status == KITH_E_DEVICE_MEMORY && kith_ctx_detail(gpu)[0] != '\0';
    }
    if (!right) {
        (void)printf("  %s with %" PRIu64 " bytes: %s, %s, took %" PRIu64 "\n",
                     test_selection_text(params, text, sizeof text), budget,
                     kith_status_name(status), kith_ctx_detail(gpu), report.gpu_peak_bytes);
    }
    *fits = status == KITH_OK;
    kith_ctx_free(gpu);
    free(ids);
    free(values);
    return !right;
}

typedef struct budgets {
    kith_dtype dtype;
    int64_t rows;
    int32_t cols;
    int64_t k;
    test_ids ids;
} budgets;

/* Budgets from twice the matrix down to nothing. Half a row must still do: it is cut. */
static int sweep(kith_ctx *cpu, const budgets *b, int method)
{
    uint64_t seed = 53;
    int wrong = 0;
    test_values v = test_values_make(b->dtype, b->rows, b->cols, 0, TEST_RUN_FEW, b->ids, &seed);
    test_values_sort_by(&v, cpu, b->k, method % 2 != 0);
    kith_select_params params =
        asked((kith_select_method)method, b->k, method % 2 != 0 ? KITH_SELECT_LARGEST : 0);
    const uint64_t row_bytes = (uint64_t)b->cols * (uint64_t)kith_dtype_bytes(b->dtype);
    uint64_t least = UINT64_MAX;
    for (uint64_t budget = 2 * (uint64_t)b->rows * row_bytes; budget >= 4096; budget /= 2) {
        bool fits = false;
        wrong += with_budget(&v, &params, budget, &fits);
        least = fits && budget < least ? budget : least;
    }
    (void)printf("  %s, %s %lld x %d, k %lld: %" PRIu64 " bytes a row, %" PRIu64 " were enough\n",
                 kith_select_method_name(params.method), kith_dtype_name(b->dtype),
                 (long long)b->rows, b->cols, (long long)b->k, row_bytes, least);
    if (b->rows < 10 && least > row_bytes / 2) {
        (void)printf("  no row was cut\n");
        wrong += 1;
    }
    test_values_free(&v);
    return wrong;
}

static void little_memory(void **state)
{
    static const budgets all[] = {{KITH_F32, 300, 3000, 20, TEST_IDS_PLACES},
                                  {KITH_F64, 100, 2500, 700, TEST_IDS_GIVEN},
                                  {KITH_F32, 3, 400000, 10, TEST_IDS_PLACES},
                                  {KITH_F16, 2, 900001, 100, TEST_IDS_REPEATED},
                                  {KITH_F64, 1, 300000, 5000, TEST_IDS_GIVEN}};
    (void)state;
    kith_ctx *cpu = test_cpu_ctx();
    int wrong = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int method = KITH_SELECT_AUTO; method < KITH_SELECT_METHOD_COUNT; method++) {
            /* A thread a row: one long row at a time is no job for these. */
            const bool queue = method >= KITH_SELECT_INSERTION && method <= KITH_SELECT_MERGE_QUEUE;
            if (!queue || all[i].rows >= 10) {
                wrong += sweep(cpu, &all[i], method);
            }
        }
    }
    kith_ctx_free(cpu);
    (void)printf("budgets down to where a row is cut into pieces, and below: %d wrong\n", wrong);
    assert_int_equal(wrong, 0);
}

/* ---- Device memory --------------------------------------------------------------------------- */

static kith_values on_device(const kith_values *host)
{
    kith_values device = *host;
    const int64_t row = host->cols * kith_dtype_bytes(host->dtype);
    device.data =
        test_device_copy(host->data, (uint64_t)((host->rows - 1) * host->stride_bytes + row));
    if (host->ids != NULL) {
        device.ids = test_device_copy(
            host->ids, (uint64_t)((host->rows - 1) * host->ids_stride_bytes + host->cols * 4));
    }
    return device;
}

static void off_device(const kith_values *device)
{
    kin_gpu_free(test_device, (void *)(uintptr_t)device->data);
    kin_gpu_free(test_device, (void *)(uintptr_t)device->ids);
}

/* All parts of the answer, from the device's matrix into the device's memory. */
static int there(const test_values *v, const kith_values *device, kith_ctx *gpu,
                 const kith_select_params *params)
{
    const uint64_t places = (uint64_t)(v->values.rows * params->k);
    const uint64_t bytes = (uint64_t)kith_dtype_bytes(v->values.dtype);
    void *values = test_host_room((size_t)(places * bytes));
    uint32_t *ids = test_host_room((size_t)places * sizeof *ids);
    kith_selection out = {test_device_room(places * bytes), test_device_room(places * sizeof *ids),
                          NULL};
    char *kth = test_device_room((uint64_t)v->values.rows * bytes);
    test_must(kin_gpu_wait(test_device_ctx, test_device));
    kith_status status = kith_cuda_select(gpu, device, params, &out, NULL);
    if (status == KITH_OK) {
        status = kith_cuda_select(gpu, device, params, &(kith_selection){.kth = kth}, NULL);
    }
    int wrong = status != KITH_OK;
    if (wrong) {
        (void)printf("  refused: %s\n", kith_ctx_detail(gpu));
    } else {
        test_download(values, out.values, places * bytes);
        test_download(ids, out.ids, places * sizeof *ids);
        wrong = !test_selection_is_right(v, params, values, ids);
        test_download(values, kth, (uint64_t)v->values.rows * bytes);
        for (int64_t row = 0; row < v->values.rows; row++) {
            const char *wanted = v->sorted + (row * v->known + params->k - 1) * (int64_t)bytes;
            wrong += memcmp((char *)values + row * (int64_t)bytes, wanted, (size_t)bytes) != 0;
        }
    }
    kin_gpu_free(test_device, kth);
    kin_gpu_free(test_device, out.ids);
    kin_gpu_free(test_device, out.values);
    free(ids);
    free(values);
    return wrong;
}

static void device_memory(void **state)
{
    enum { ROWS = 300, COLS = 1501 };
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16};
    (void)state;
    kith_select_params variants[TEST_SELECT_VARIANTS];
    const int count = test_select_variants(variants);
    kith_ctx *gpu = test_gpu_ctx(2, 0);
    uint64_t seed = 54;
    int wrong = 0;
    for (int i = 0; i < 8; i++) {
        test_values v = test_values_make(dtypes[i % 4], ROWS, COLS, i % 3, TEST_RUN_UNIFORM,
                                         (test_ids)(i % TEST_IDS_KINDS), &seed);
        test_values_sort(&v, i % 2 != 0);
        const kith_values device = on_device(&v.values);
        for (int which = 0; which < count; which++) {
            kith_select_params params = variants[which];
            params.k = i < 4 ? 40 : 11;
            params.flags |= i % 2 != 0 ? KITH_SELECT_LARGEST : 0;
            wrong += there(&v, &device, gpu, &params);
        }
        off_device(&device);
        test_values_free(&v);
    }
    kith_ctx_free(gpu);
    (void)printf("matrices and answers in device memory: %d wrong\n", wrong);
    assert_int_equal(wrong, 0);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static double seconds_of_copy(const float *values, uint64_t bytes)
{
    void *room = test_device_room(bytes);
    const int64_t start = kin_clock_ns();
    test_must(kin_gpu_upload(test_device_ctx, test_device, room, values, bytes));
    test_must(kin_gpu_wait(test_device_ctx, test_device));
    const double seconds = kin_clock_since(start);
    kin_gpu_free(test_device, room);
    return seconds;
}

static double seconds_of(const kin_select_job *job, bool ahead)
{
    test_device->ahead_off = !ahead;
    const int64_t start = kin_clock_ns();
    test_must(kin_select_device(test_device_ctx, test_device, job, false));
    const double seconds = kin_clock_since(start);
    test_device->ahead_off = false;
    return seconds;
}

static void time_matrix(int64_t rows, int64_t cols)
{
    enum { K = 10, RUNS = 4 };
    const uint64_t bytes = (uint64_t)rows * (uint64_t)cols * sizeof(float);
    float *values = test_host_room(bytes);
    float *found = test_host_room((size_t)rows * K * sizeof *found);
    uint32_t *ids = test_host_room((size_t)rows * K * sizeof *ids);
    uint64_t seed = 56;
    for (int64_t i = 0; i < rows * cols; i++) {
        values[i] = (float)(kin_random_next(&seed) >> 40);
    }
    const kin_select_job job = {.values = (const char *)values,
                                .stride_bytes = cols * (int64_t)sizeof(float),
                                .rows = rows,
                                .cols = cols,
                                .k = K,
                                .dtype = KIN_SELECT_F32,
                                .sorted = true,
                                .out_values = found,
                                .out_ids = ids};
    for (int run = 0; run < RUNS; run++) {
        const double copy = 2.0 * seconds_of_copy(values, bytes / 2);
        const double alone = seconds_of(&job, false);
        const double ahead = seconds_of(&job, true);
        (void)printf("    %" PRId64 " x %" PRId64
                     ": copy %.1f ms, selection %.1f one after the other, "
                     "%.1f ahead: %.0f %% of the copy's rate\n",
                     rows, cols, 1e3 * copy, 1e3 * alone, 1e3 * ahead, 100.0 * copy / ahead);
    }
    free(ids);
    free(found);
    free(values);
}

static void times(void **state)
{
    (void)state;
    if (getenv("KITH_TIMES") == NULL) {
        (void)printf("times: skipped, KITH_TIMES is not set\n");
        skip();
    }
    time_matrix(500000, 1000);
    time_matrix(1, 600000000);
}

/* ---- Beyond 2^32 ----------------------------------------------------------------------------- */

/* Positive half precision numbers, each as likely as any other. */
static void fill_halves(uint16_t *values, uint64_t count)
{
    uint64_t seed = 55;
    for (uint64_t i = 0; i + 4 <= count; i += 4) {
        const uint64_t four = kin_random_next(&seed) & 0x3fff3fff3fff3fffu;
        memcpy(values + i, &four, sizeof four);
    }
}

/* The first `rows` of the memory as a matrix, on both sides; rows 0, some, the last compared. */
static int beyond(const uint16_t *host, const void *device, int64_t rows, int64_t cols,
                  kith_ctx *cpu, kith_ctx *gpu)
{
    enum { K = 100, METHODS = 4 };
    const kith_values all = {.data = device, .rows = rows, .cols = cols, .dtype = KITH_F16};
    const uint64_t places = (uint64_t)rows * K;
    uint16_t *values = test_host_room((size_t)places * sizeof *values);
    uint32_t *ids = test_host_room((size_t)places * sizeof *ids);
    kith_selection out = {test_device_room(places * sizeof *values),
                          test_device_room(places * sizeof *ids), NULL};
    int wrong = 0;
    for (int method = 0; method < METHODS; method++) {
        const kith_select_params params = asked(wide[method], K, 0);
        assert_int_equal(kith_cuda_select(gpu, &all, &params, &out, NULL), KITH_OK);
        test_download(values, out.values, places * sizeof *values);
        test_download(ids, out.ids, places * sizeof *ids);
        for (int64_t row = 0; row<rows; row += rows> 1 ? (rows - 1) / 3 : 1) {
            uint16_t true_values[K];
            uint32_t true_ids[K];
            const kith_values one = {
                .data = host + row * cols, .rows = 1, .cols = cols, .dtype = KITH_F16};
            const kith_selection truth = {true_values, true_ids, NULL};
            assert_int_equal(kith_select(cpu, &one, &params, &truth), KITH_OK);
            wrong += memcmp(true_values, values + row * K, sizeof true_values) != 0;
            wrong += memcmp(true_ids, ids + row * K, sizeof true_ids) != 0;
        }
    }
    (void)printf("  %lld x %lld: %d wrong\n", (long long)rows, (long long)cols, wrong);
    kin_gpu_free(test_device, out.ids);
    kin_gpu_free(test_device, out.values);
    free(ids);
    free(values);
    return wrong;
}

static void beyond_32_bits(void **state)
{
    (void)state;
    const char *wanted = getenv("KITH_LONG");
    if (wanted == NULL || wanted[0] == '\0') {
        (void)printf("more than 2^32 values: skipped, KITH_LONG is not set\n");
        skip();
    }
    const int64_t cols = 1 << 20;
    const int64_t rows = 4201; /* (rows - 1) / 3 rows apart are compared, the last among them */
    const uint64_t count = (uint64_t)rows * (uint64_t)cols;
    uint16_t *host = test_host_room((size_t)count * sizeof *host);
    fill_halves(host, count);
    test_device_close(NULL); /* 2 GB are too little here */
    test_device_ctx = test_cpu_ctx();
    test_must(kin_gpu_open(test_device_ctx, 0, 0, &test_device));
    kith_ctx *cpu = test_cpu_ctx();
    kith_ctx *gpu = test_gpu_ctx(0, 0);
    void *device = test_device_copy(host, count * sizeof *host);
    test_must(kin_gpu_wait(test_device_ctx, test_device));
    int wrong = beyond(host, device, rows, cols, cpu, gpu);
    wrong += beyond(host, device, 1, (int64_t)UINT32_MAX - 1, cpu, gpu);
    kin_gpu_free(test_device, device);
    kith_ctx_free(gpu);
    kith_ctx_free(cpu);
    free(host);
    (void)printf("more than 2^32 values, in many rows and in one: %d wrong\n", wrong);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_rows),     cmocka_unit_test(many_rows),
        cmocka_unit_test(little_memory), cmocka_unit_test(device_memory),
        cmocka_unit_test(times),         cmocka_unit_test(beyond_32_bits)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
