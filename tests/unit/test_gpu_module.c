/* SPDX-License-Identifier: Apache-2.0
 * The GPU module as libkith sees it, without a GPU: modules that are missing, foreign or of another
 * version, drivers and devices that are not there, each told in one line while the processor works;
 * then memory and copies on a module whose device is host memory (tests/modules/stub_module.c).
 *
 * What a process finds out about GPUs it finds out once, so each case is a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STUB KITH_STUBS "/stub_module.so"
#define OTHER_VERSION KITH_STUBS "/stub_version.so"

/* ---- A process a case ----------------------------------------------------------------------- */

static int failures;

#define EXPECT(condition)                                                             \
    do {                                                                              \
        if (!(condition)) {                                                           \
            (void)fprintf(stderr, "    line %d: not so: %s\n", __LINE__, #condition); \
            failures += 1;                                                            \
        }                                                                             \
    } while (0)

/* module: NULL leaves KITH_CUDA_MODULE unset. */
static void in_process(const char *module, void (*body)(void))
{
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)unsetenv("KITH_DEVICE");
        (void)unsetenv("KITH_CUDA_MODULE");
        if (module != NULL) {
            (void)setenv("KITH_CUDA_MODULE", module, 1);
        }
        body();
        _exit(failures == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static kith_ctx *make_ctx(const char *device)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    params.device = device;
    params.threads = 4;
    EXPECT(kith_ctx_create(&params, &ctx) == KITH_OK);
    return ctx;
}

/* ---- What is told --------------------------------------------------------------------------- */

static kith_status graph_on(const char *device, const char **detail, kith_report *report)
{
    static char kept[1024];
    const float points[] = {0.0F, 1.0F, 3.0F, 7.0F};
    const kith_matrix matrix = {.data = points, .rows = 4, .cols = 1, .dtype = KITH_F32};
    uint32_t ids[4] = {9, 9, 9, 9};
    const kith_neighbors out = {.ids = ids, .rows = 4, .k = 1};
    kith_search_params params = kith_search_params_default();
    kith_ctx *ctx = make_ctx(device);
    params.k = 1;
    const kith_status status = kith_graph(ctx, &matrix, &params, &out, NULL);
    (void)snprintf(kept, sizeof kept, "%s", kith_ctx_detail(ctx));
    *detail = kept;
    report->struct_size = sizeof *report;
    EXPECT(kith_ctx_report(ctx, report) == KITH_OK);
    EXPECT(status != KITH_OK || (ids[0] == 1 && ids[1] == 0 && ids[2] == 1 && ids[3] == 2));
    kith_ctx_free(ctx);
    return status;
}

/* One line with `words` in it; cuda is refused with it, auto and cpu work. */
static void expect_reason(const char *words)
{
    const char *reason = kin_gpu_reason();
    const char *detail = NULL;
    kith_report report;
    kith_device device = {.struct_size = sizeof device};
    EXPECT(reason != NULL && strstr(reason, words) != NULL && strchr(reason, '\n') == NULL);
    EXPECT(reason == kin_gpu_reason());
    EXPECT(kin_gpu_get_module() == NULL && kin_gpu_first() == -1);
    (void)printf("    %s\n", reason);
    (void)fflush(stdout);
    EXPECT(graph_on("cuda", &detail, &report) == KITH_E_UNSUPPORTED);
    EXPECT(strstr(detail, words) != NULL);
    EXPECT(graph_on("auto", &detail, &report) == KITH_OK && detail[0] == '\0');
    EXPECT(strcmp(report.backend, "cpu") == 0 && report.gpu[0] == '\0');
    EXPECT(graph_on("cpu", &detail, &report) == KITH_OK);
    EXPECT(kith_device_get(2, &device) == KITH_E_ARGUMENT);
    EXPECT(kith_device_get(1, &device) == KITH_OK);
    EXPECT(device.available == 0 && strstr(device.text, words) != NULL);
}

static void missing(void)
{
    expect_reason("cannot be opened");
}

/* The first half of a module. */
static void make_cut(const char *path)
{
    FILE *from = fopen(STUB, "rb");
    FILE *to = fopen(path, "wb");
    char bytes[4096];
    assert_non_null(from);
    assert_non_null(to);
    assert_int_equal(fseek(from, 0, SEEK_END), 0);
    long left = ftell(from) / 2;
    rewind(from);
    while (left > 0) {
        const size_t step = left < (long)sizeof bytes ? (size_t)left : sizeof bytes;
        assert_int_equal(fread(bytes, 1, step, from), step);
        assert_int_equal(fwrite(bytes, 1, step, to), step);
        left -= (long)step;
    }
    (void)fclose(from);
    assert_int_equal(fclose(to), 0);
}

static void cut(void)
{
    expect_reason("is cut short");
}

static void no_symbol(void)
{
    expect_reason("has no " KIN_GPU_SYMBOL);
}

static void other_version(void)
{
    expect_reason("version 9999, this libkith needs");
}

static void no_driver(void)
{
    (void)setenv("STUB_ERROR", "35", 1);
    expect_reason("no NVIDIA driver");
}

static void no_device(void)
{
    (void)setenv("STUB_ERROR", "100", 1);
    expect_reason("shows no GPU");
}

static void broken_driver(void)
{
    (void)setenv("STUB_ERROR", "999", 1);
    expect_reason("stub error (CUDA error 999)");
}

static void old_device(void)
{
    (void)setenv("STUB_MAJOR", "7", 1);
    const char *reason = kin_gpu_reason();
    kith_device device = {.struct_size = sizeof device};
    EXPECT(reason != NULL && strstr(reason, "compute capability 7.0, kith needs 8.0") != NULL);
    EXPECT(kith_device_get(2, &device) == KITH_E_ARGUMENT);
    EXPECT(kith_device_get(1, &device) == KITH_OK);
    EXPECT(device.available == 0 && strcmp(device.name, "cuda:0") == 0);
    EXPECT(strstr(device.text, "too old") != NULL);
}

static void unmeasured_device(void)
{
    kith_device device = {.struct_size = sizeof device};
    (void)setenv("STUB_MAJOR", "8", 1);
    EXPECT(kith_device_get(1, &device) == KITH_OK && device.available == 1);
    EXPECT(strstr(device.text, "compute 8.0") != NULL);
    EXPECT(strstr(device.text, "no such chip was measured") != NULL);
}

static void measured_device(void)
{
    kith_device device = {.struct_size = sizeof device};
    EXPECT(kith_device_get(1, &device) == KITH_OK && device.available == 1);
    EXPECT(strstr(device.text, "measured") == NULL);
}

static void test_measured(void **state)
{
    (void)state;
    (void)printf("a GPU of a chip that was never measured is said to be one:\n");
    in_process(STUB, unmeasured_device);
    in_process(STUB, measured_device);
}

static void test_reasons(void **state)
{
    (void)state;
    (void)printf(
        "every way to have no GPU is one line; auto and cpu work, cuda is refused with it:\n");
    in_process("/nowhere/libkith_cuda.so", missing);
    make_cut(KITH_STUBS "/cut.so");
    in_process(KITH_STUBS "/cut.so", cut);
    in_process("libm.so.6", no_symbol);
    in_process(OTHER_VERSION, other_version);
    in_process(STUB, no_driver);
    in_process(STUB, no_device);
    in_process(STUB, broken_driver);
    in_process(STUB, old_device);
}

static void names(void)
{
    const char *detail = NULL;
    kith_report report;
    EXPECT(graph_on("cud", &detail, &report) == KITH_E_UNSUPPORTED);
    EXPECT(strstr(detail, "device is 'cud', which is no device") != NULL);
    EXPECT(graph_on("cuda:x", &detail, &report) == KITH_E_UNSUPPORTED);
    EXPECT(graph_on("cuda:1", &detail, &report) == KITH_E_ARGUMENT);
    EXPECT(strstr(detail, "there is no cuda:1") != NULL);
    (void)setenv("KITH_DEVICE", "cud", 1);
    EXPECT(graph_on(NULL, &detail, &report) == KITH_E_UNSUPPORTED);
    EXPECT(graph_on("cpu", &detail, &report) == KITH_OK);
    (void)setenv("KITH_DEVICE", "cpu", 1);
    EXPECT(graph_on(NULL, &detail, &report) == KITH_OK);
    kith_device device = {.struct_size = sizeof device};
    EXPECT(kith_device_get(1, &device) == KITH_OK && device.available == 1);
    EXPECT(strcmp(device.name, "cuda:0") == 0 && strstr(device.text, "Stub, compute 9.0") != NULL);
}

static void test_names(void **state)
{
    (void)state;
    (void)printf("devices have names, KITH_DEVICE sets the default, others are refused\n");
    in_process(STUB, names);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static int64_t stub_value(const char *name)
{
    void *library = dlopen(STUB, RTLD_NOW);
    const int64_t *value = library != NULL ? dlsym(library, name) : NULL;
    EXPECT(value != NULL);
    return value != NULL ? *value : -1;
}

static void memory(void)
{
    enum { MIB = 1 << 20 };
    kith_ctx *ctx = make_ctx("cuda");
    kin_gpu *gpu = NULL;
    void *a = NULL;
    void *b = NULL;
    EXPECT(kin_gpu_open(ctx, 0, 32 * MIB, &gpu) == KITH_OK);
    EXPECT(gpu->budget == 32 * MIB && kin_gpu_room(gpu) == 32 * MIB);

    EXPECT(kin_gpu_alloc(ctx, gpu, &a, 10, MIB, "a") == KITH_OK);
    EXPECT(kin_gpu_alloc(ctx, gpu, &b, 100, 1, "b") == KITH_OK && a != b);
    EXPECT(gpu->held >= 10 * MIB + 100 && stub_value("stub_allocations") == 2);
    void *const first = a;
    kin_gpu_free(gpu, a);
    EXPECT(stub_value("stub_held_bytes") >= 10 * MIB); /* kept for the next one */
    EXPECT(kin_gpu_alloc(ctx, gpu, &a, 9, MIB, "a") == KITH_OK && a == first);
    EXPECT(stub_value("stub_allocations") == 2);

    kin_gpu_free(gpu, a);
    EXPECT(kin_gpu_alloc(ctx, gpu, &a, 30, MIB, "a") == KITH_OK); /* the idle block had to go */
    EXPECT(stub_value("stub_held_bytes") <= 32 * MIB);
    void *c = &c;
    EXPECT(kin_gpu_alloc(ctx, gpu, &c, 4, MIB, "c") == KITH_E_DEVICE_MEMORY && c == NULL);
    EXPECT(strstr(kith_ctx_detail(ctx), "has no room for ") != NULL);
    kin_forgive(ctx);
    EXPECT(kin_gpu_alloc(ctx, gpu, &c, UINT64_MAX, 8, "c") == KITH_E_DEVICE_MEMORY && c == NULL);
    EXPECT(gpu->peak >= 30 * MIB && gpu->peak <= 32 * MIB);
    kin_gpu_free(gpu, NULL);
    kin_gpu_free(gpu, a);
    kin_gpu_free(gpu, b);
    EXPECT(gpu->held == 0);
    kin_gpu_close(ctx, gpu);
    EXPECT(stub_value("stub_held_bytes") == 0);
    kith_ctx_free(ctx);
}

typedef struct test_arrays {
    uint64_t count;
    uint8_t *bytes;
    double *numbers;
    uint32_t *none;
    uint64_t *last;
} test_arrays;

static void name_arrays(kin_layout *layout, void *job)
{
    test_arrays *a = job;
    a->bytes = kin_layout_array(layout, a->count, sizeof *a->bytes);
    a->numbers = kin_layout_array(layout, a->count, sizeof *a->numbers);
    a->none = kin_layout_array(layout, 0, sizeof *a->none);
    a->last = kin_layout_array(layout, 1, sizeof *a->last);
}

static void name_nothing(kin_layout *layout, void *job)
{
    test_arrays *a = job;
    a->none = kin_layout_array(layout, 0, sizeof *a->none);
}

/* One block holds what a dry run says; arrays begin at 256 bytes and are not touched. */
static void layouts(void)
{
    kith_ctx *ctx = make_ctx("cuda");
    kin_gpu *gpu = NULL;
    void *block = &block;
    test_arrays a = {.count = 300};
    EXPECT(kin_gpu_open(ctx, 0, 8192, &gpu) == KITH_OK);
    EXPECT(kin_gpu_layout_bytes(name_arrays, &a) == 512 + 2560 + 256 && a.bytes == NULL);
    EXPECT(kin_gpu_layout_make(ctx, gpu, name_arrays, &a, "some arrays", &block) == KITH_OK);
    EXPECT((void *)a.bytes == block && (uint8_t *)a.numbers == a.bytes + 512);
    EXPECT((uint8_t *)a.last == a.bytes + 512 + 2560 && gpu->held == 3584);
    EXPECT((uint8_t *)a.none == (uint8_t *)a.last); /* no items, and an address */
    EXPECT(stub_value("stub_allocations") == 1);
    kin_gpu_free(gpu, block);
    EXPECT(gpu->held == 0);
    EXPECT(kin_gpu_layout_make(ctx, gpu, name_nothing, &a, "nothing", &block) == KITH_OK);
    EXPECT(block == NULL && a.none == NULL && gpu->held == 0);

    test_arrays large = {.count = UINT64_MAX / 4};
    EXPECT(kin_gpu_layout_bytes(name_arrays, &large) == UINT64_MAX);
    block = &block;
    EXPECT(kin_gpu_layout_make(ctx, gpu, name_arrays, &large, "many arrays", &block) ==
           KITH_E_DEVICE_MEMORY);
    EXPECT(block == NULL && large.bytes == NULL && large.last == NULL && gpu->held == 0);
    EXPECT(strstr(kith_ctx_detail(ctx), "has no room for ") != NULL);
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
}

/* A device that others have filled: the allocation fails, the budget learns it. */
static void full_device(void)
{
    enum { MIB = 1 << 20 };
    (void)setenv("STUB_BYTES", "20971520", 1);
    kith_ctx *ctx = make_ctx("cuda");
    kin_gpu *gpu = NULL;
    void *a = NULL;
    void *b = NULL;
    EXPECT(kin_gpu_open(ctx, 0, UINT64_C(1) << 40, &gpu) == KITH_OK);
    EXPECT(kin_gpu_alloc(ctx, gpu, &a, 12, MIB, "a") == KITH_OK);
    kin_gpu_free(gpu, a);
    EXPECT(kin_gpu_alloc(ctx, gpu, &a, 20, MIB, "a") == KITH_OK); /* the idle 12 MiB made room */
    EXPECT(kin_gpu_alloc(ctx, gpu, &b, 2, MIB, "b") == KITH_E_DEVICE_MEMORY);
    EXPECT(strstr(kith_ctx_detail(ctx), "has no memory for ") != NULL);
    EXPECT(gpu->budget == 20 * MIB && kin_gpu_room(gpu) == 0);
    kin_gpu_close(ctx, gpu); /* with a still held */
    EXPECT(stub_value("stub_held_bytes") == 0);
    kith_ctx_free(ctx);
}

/* More blocks than one table of the cache holds. */
static void many_blocks(void)
{
    enum { BLOCKS = 1000 };
    kith_ctx *ctx = make_ctx("cuda");
    kin_gpu *gpu = NULL;
    static unsigned char *blocks[BLOCKS];
    EXPECT(kin_gpu_open(ctx, 0, 0, &gpu) == KITH_OK);
    EXPECT(gpu->budget > 0 && gpu->budget < 64 << 20); /* a margin is left */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            EXPECT(kin_gpu_alloc(ctx, gpu, &blocks[i], (uint64_t)(i % 7) + 1, 300, "x") == KITH_OK);
            memset(blocks[i], i & 255, ((size_t)(i % 7) + 1) * 300);
        }
        for (int i = 0; i < BLOCKS; i++) {
            EXPECT(blocks[i][0] == (i & 255) && blocks[i][((i % 7) + 1) * 300 - 1] == (i & 255));
            kin_gpu_free(gpu, blocks[i]);
        }
    }
    EXPECT(gpu->held == 0 && stub_value("stub_allocations") == BLOCKS);
    kin_gpu_trim(gpu);
    EXPECT(stub_value("stub_held_bytes") == 0);
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
}

static void test_memory(void **state)
{
    (void)state;
    (void)printf(
        "device memory: within the budget, used again, given back, a layout one block; a full "
        "device is told\n");
    in_process(STUB, memory);
    in_process(STUB, layouts);
    in_process(STUB, full_device);
    in_process(STUB, many_blocks);
}

/* ---- Copies --------------------------------------------------------------------------------- */

static void round_trip(kith_ctx *ctx, kin_gpu *gpu, const unsigned char *from, uint64_t bytes)
{
    unsigned char *device = NULL;
    unsigned char *back = malloc(bytes + 1);
    EXPECT(back != NULL);
    back[bytes] = 77;
    EXPECT(kin_gpu_alloc(ctx, gpu, &device, bytes, 1, "bytes") == KITH_OK);
    EXPECT(kin_gpu_upload(ctx, gpu, device, from, bytes) == KITH_OK);
    EXPECT(memcmp(device, from, bytes) == 0);
    EXPECT(kin_gpu_download(ctx, gpu, back, device, bytes) == KITH_OK);
    EXPECT(memcmp(back, from, bytes) == 0 && back[bytes] == 77);
    kin_gpu_free(gpu, device);
    free(back);
}

static void rows_trip(kith_ctx *ctx, kin_gpu *gpu, const unsigned char *from, int64_t rows,
                      int64_t row_bytes, int64_t stride)
{
    unsigned char *device = NULL;
    int64_t wrong = 0;
    EXPECT(kin_gpu_alloc(ctx, gpu, &device, (uint64_t)rows, (uint64_t)row_bytes, "rows") ==
           KITH_OK);
    const kin_gpu_rows given = {from, rows, row_bytes, stride};
    EXPECT(kin_gpu_upload_rows(ctx, gpu, device, &given) == KITH_OK);
    for (int64_t i = 0; i < rows; i++) {
        wrong += memcmp(device + i * row_bytes, from + i * stride, (size_t)row_bytes) != 0;
    }
    EXPECT(wrong == 0);
    kin_gpu_free(gpu, device);
}

static void copies(void)
{
    static const uint64_t sizes[] = {0,       1,       255,     1 << 20,       (1 << 20) + 1,
                                     4 << 20, 5000000, 9 << 20, (9 << 20) - 1, 40 << 20};
    const uint64_t most = 48 << 20;
    unsigned char *from = malloc(most);
    uint64_t state = 1;
    kith_ctx *ctx = make_ctx("cuda");
    kin_gpu *gpu = NULL;
    EXPECT(from != NULL);
    for (uint64_t i = 0; i < most; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        from[i] = (unsigned char)(state >> 56);
    }
    EXPECT(kin_gpu_open(ctx, 0, 64 << 20, &gpu) == KITH_OK);
    kin_gpu_enter(gpu);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        round_trip(ctx, gpu, from, sizes[i]);
    }
    rows_trip(ctx, gpu, from, 1, 10, 10);
    rows_trip(ctx, gpu, from, 1000, 10, 13);
    rows_trip(ctx, gpu, from, 100000, 300, 400);
    rows_trip(ctx, gpu, from, 3, (1 << 20) + 5, (1 << 20) + 9);
    rows_trip(ctx, gpu, from, 7, 1 << 20, (1 << 20) + 1);
    kin_gpu_leave(gpu);
    EXPECT(stub_value("stub_pinned") == (ctx->threads > 1 ? 2 : 1)); /* a lane, and the others */
    kin_gpu_close(ctx, gpu);
    EXPECT(stub_value("stub_pinned") == 0);
    kith_ctx_free(ctx);
    free(from);
}

static void test_copies(void **state)
{
    (void)state;
    (void)printf("copies through pinned slots: all sizes, rows apart, by several threads\n");
    in_process(STUB, copies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons), cmocka_unit_test(test_measured),
        cmocka_unit_test(test_names), cmocka_unit_test(test_memory), cmocka_unit_test(test_copies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
