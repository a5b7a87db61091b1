/* SPDX-License-Identifier: Apache-2.0
 * Arguments of selection: each mistake is KITH_E_ARGUMENT with a sentence that names it; what is no
 * mistake is obeyed; the report says what was done; answers are saved and found again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kith/kith_papers.h"
#include "support/support_calls.h"

#include "kith/kith_cuda.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 5, COLS = 12, K = 3, ITEMS = ROWS * COLS };

/* A call that is right, and what a mistake may change. */
typedef struct call {
    bool kth;
    bool cuda;
    kith_values values;
    kith_select_params params;
    kith_selection out;
    const kith_values *given_values;
    const kith_select_params *given_params;
    const kith_selection *given_out;
} call;

static float data[ITEMS];
static uint32_t ids[ITEMS];
static float out_values[ITEMS];
static uint32_t out_ids[ITEMS];
static kith_ctx *ctx;

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < ITEMS; i++) {
        data[i] = (float)(i * 7 % 11) - 4.0F;
        ids[i] = (uint32_t)(1000 + i);
    }
    return kith_ctx_create(NULL, &ctx);
}

static int teardown(void **state)
{
    (void)state;
    kith_ctx_free(ctx);
    return 0;
}

static void call_make(call *c, bool kth, bool cuda)
{
    *c = (call){.kth = kth, .cuda = cuda, .params = kith_select_params_default()};
    c->values = (kith_values){.data = data, .rows = ROWS, .cols = COLS, .dtype = KITH_F32};
    c->params.k = K;
    c->out = kth ? (kith_selection){.kth = out_values}
                 : (kith_selection){.values = out_values, .ids = out_ids};
    c->given_values = &c->values;
    c->given_params = &c->params;
    c->given_out = &c->out;
}

static kith_status call_run(const call *c, kith_ctx *on)
{
    return c->cuda ? kith_cuda_select(on, c->given_values, c->given_params, c->given_out, NULL)
                   : kith_select(on, c->given_values, c->given_params, c->given_out);
}

static void *beside(const void *address, size_t bytes)
{
    return (void *)((uintptr_t)address + bytes);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

/* X(calls it applies to: lists 'l', k-th 'k'; what is done to call *c; what the message says) */
#define MISTAKES(X)                                                                             \
    X("lk", c->given_params = NULL, "params is NULL")                                           \
    X("lk", c->params.struct_size = 0, "kith_select_params_default()")                          \
    X("lk", c->params.struct_size = 12, "kith_select_params_default()")                         \
    X("lk", c->params.method = (kith_select_method)9, "method is 9, which is no method")        \
    X("lk", c->params.method = (kith_select_method)-1, "method is -1, which is no method")      \
    X("lk", c->params.flags = 0x81, "flags is 0x81, of which 0x80 is no flag of selection")     \
    X("lk", c->params.buffer = (kith_select_buffer)4, "buffer is 4, which is no")               \
    X("lk", c->params.buffer = (kith_select_buffer)-1, "buffer is -1, which is no")             \
    X("lk", c->params.group = 3, "group is 3, must be 0, 2, 4 or 8")                            \
    X("lk", c->params.group = -2, "group is -2, must be")                                       \
    X("lk", c->params.sample = -1, "sample is -1, must be 0 to 1024")                           \
    X("lk", c->params.sample = 1025, "sample is 1025, must be 0 to 1024")                       \
    X("lk", c->params.buffer = KITH_BUFFER_FULL, "buffer is 2, which the method auto does")     \
    X("lk", (c->params.method = KITH_SELECT_RADIX, c->params.buffer = KITH_BUFFER_PLAIN),       \
      "buffer is 1, which the method radix does not have")                                      \
    X("lk", (c->params.method = KITH_SELECT_QUICK, c->params.group = 4),                        \
      "group is 4, which the method quick does not have")                                       \
    X("lk", (c->params.method = KITH_SELECT_HEAP, c->params.flags = KITH_SELECT_ALIGNED),       \
      "KITH_SELECT_ALIGNED, which the method heap does not have")                               \
    X("lk", (c->params.method = KITH_SELECT_SCAN, c->params.sample = 8),                        \
      "sample is 8, which the method scan does not have")                                       \
    X("lk", c->params.level = 2, "level is 2, must be 0, or a power of two, 4 to 64")           \
    X("lk", c->params.level = 12, "level is 12, must be 0, or a power of two")                  \
    X("lk", c->params.level = 128, "level is 128, must be")                                     \
    X("lk", c->params.level = INT32_MIN, "level is -2147483648, must be")                       \
    X("lk", c->params.buffer_size = 4, "buffer_size is 4, must be 0, or a power of two, 8 to")  \
    X("lk", c->params.buffer_size = 24, "buffer_size is 24, must be 0, or a power of two")      \
    X("lk", c->params.buffer_size = 128, "buffer_size is 128, must be")                         \
    X("lk", c->params.buffer_size = -8, "buffer_size is -8, must be")                           \
    X("lk", (c->params.method = KITH_SELECT_HEAP, c->params.buffer_size = 8),                   \
      "buffer_size is 8, but buffer is none (give a buffer, or leave this out)")                \
    X("lk", (c->params.method = KITH_SELECT_RADIX, c->params.buffer_size = 32),                 \
      "buffer_size is 32, which the method radix does not have (it belongs to insertion")       \
    X("lk", (c->params.method = KITH_SELECT_HEAP, c->params.level = 8),                         \
      "level is 8, which the method heap does not have (it belongs to merge_queue)")            \
    X("lk", (c->params.method = KITH_SELECT_BITONIC, c->params.flags = KITH_SELECT_MERGE_PATH), \
      "KITH_SELECT_MERGE_PATH, which the method bitonic does not have")                         \
    X("lk", c->given_values = NULL, "values is NULL")                                           \
    X("lk", c->values.dtype = KITH_U8, "values.dtype is uint8, must be float32, float64")       \
    X("lk", c->values.dtype = KITH_I8, "values.dtype is int8, must be")                         \
    X("lk", c->values.dtype = KITH_DTYPE_NONE, "values.dtype is 0, which is no dtype")          \
    X("lk", c->values.dtype = (kith_dtype)77, "values.dtype is 77, which is no dtype")          \
    X("lk", c->values.rows = -1, "values.rows is -1, must be at least 0")                       \
    X("lk", c->values.rows = INT64_MAX, "too many of 48 bytes")                                 \
    X("lk", c->values.cols = 0, "values.cols is 0, must be 1 to 4294967294")                    \
    X("lk", c->values.cols = -7, "values.cols is -7")                                           \
    X("lk", c->values.cols = (int64_t)UINT32_MAX, "values.cols is 4294967295, must be")         \
    X("lk", c->values.data = NULL, "values.data is NULL")                                       \
    X("lk", c->values.data = beside(data, 2), "no multiple of 4, the bytes of one (align it)")  \
    X("lk", c->values.stride_bytes = 44, "values.stride_bytes is 44, must be 0 or at least")    \
    X("lk", c->values.stride_bytes = -48, "values.stride_bytes is -48, must be 0 or at")        \
    X("lk", c->values.stride_bytes = 50, "values.stride_bytes is 50, no multiple of 4")         \
    X("lk", c->values.ids = beside(ids, 1), "values.ids is at")                                 \
    X("lk", (c->values.ids = ids, c->values.ids_stride_bytes = 40),                             \
      "values.ids_stride_bytes is 40, must be 0 or at least 48")                                \
    X("lk", (c->values.ids = ids, c->values.ids_stride_bytes = 51),                             \
      "values.ids_stride_bytes is 51, no multiple of 4")                                        \
    X("lk", c->params.k = 0, "k is 0, must be at least 1")                                      \
    X("lk", c->params.k = -3, "k is -3, must be at least 1")                                    \
    X("lk", c->params.k = COLS + 1, "k is 13, must be at most 12 (a row has no more")           \
    X("lk", c->params.k = INT64_MAX, "k is 9223372036854775807, must be at most 12")            \
    X("l", c->given_out = NULL, "out is NULL (give room")                                       \
    X("l", (c->out.values = NULL, c->out.ids = NULL), "out has neither values nor ids")         \
    X("l", c->out.values = beside(out_values, 1), "out.values is at")                           \
    X("l", c->out.ids = beside(out_ids, 2), "out.ids is at")                                    \
    X("l", c->out.kth = out_values, "out has kth beside values or ids")                         \
    X("k", c->out.kth = NULL, "out has neither values")                                         \
    X("k", c->out.kth = beside(out_values, 3), "out.kth is at")

/* Does what row `number` of the table says. */
static void make_mistake(call *c, int number)
{
    int row = 0;
    MISTAKES(TEST_MISTAKE_DO)
}

static void mistakes(void **state)
{
    (void)state;
    static const test_mistake rows[] = {MISTAKES(TEST_MISTAKE_ROW)};
    const int count = (int)(sizeof rows / sizeof *rows);
    int made = 0;
    for (int i = 0; i < 2 * count; i++) {
        for (const char *kind = rows[i / 2].kinds; *kind != '\0'; kind++) {
            call c;
            call_make(&c, *kind == 'k', i % 2 == 1);
            make_mistake(&c, i / 2);
            const kith_status status = call_run(&c, ctx);
            if (status != KITH_E_ARGUMENT ||
                strstr(kith_ctx_detail(ctx), rows[i / 2].says) == NULL) {
                fail_msg("mistake %d in '%c': %s \"%s\", should say \"%s\"", i / 2, *kind,
                         kith_status_name(status), kith_ctx_detail(ctx), rows[i / 2].says);
            }
            made += 1;
        }
    }
    call c;
    call_make(&c, false, false);
    assert_int_equal(call_run(&c, NULL), KITH_E_ARGUMENT);
    printf("%d mistakes in arguments are KITH_E_ARGUMENT and say what is wrong, on host and device "
           "alike\n",
           made);
}

/* ---- What is no mistake --------------------------------------------------------------------- */

/* The K smallest of a row of `data` by (value, id), found by looking for each in turn. */
static void check_row(int row, int64_t k, const float *values, const uint32_t *found)
{
    bool taken[COLS] = {false};
    for (int64_t i = 0; i < k; i++) {
        int best = -1;
        for (int col = 0; col < COLS; col++) {
            if (!taken[col] && (best < 0 || data[row * COLS + col] < data[row * COLS + best])) {
                best = col;
            }
        }
        taken[best] = true;
        assert_true(values[i] == data[row * COLS + best]);
        assert_int_equal(found[i], best);
    }
}

static void what_may_be(void **state)
{
    (void)state;
    call c;
    call_make(&c, false, false);
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    assert_string_equal(kith_ctx_detail(ctx), "");
    for (int row = 0; row < ROWS; row++) {
        check_row(row, K, out_values + row * K, out_ids + row * K);
    }
    float whole[ITEMS];
    memcpy(whole, out_values, sizeof whole);
    memset(out_values, 0, sizeof out_values);
    c.out.ids = NULL;
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    assert_memory_equal(whole, out_values, sizeof *whole * ROWS * K);
    call_make(&c, true, false);
    c.params.flags = KITH_SELECT_UNSORTED;
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    for (int row = 0; row < ROWS; row++) {
        assert_true(out_values[row] == whole[row * K + K - 1]);
    }
    for (int device = 0; device < 2; device++) {
        call_make(&c, false, device == 1);
        c.values.rows = 0;
        c.values.data = NULL;
        c.out = (kith_selection){NULL, NULL, NULL};
        assert_int_equal(call_run(&c, ctx), KITH_OK);
    }
    printf("ids may be left out, k-th values ignore UNSORTED, and no rows are no mistake\n");
}

static void older_callers(void **state)
{
    (void)state;
    call c;
    call_make(&c, false, false);
    c.params.struct_size = (uint32_t)offsetof(kith_select_params, flags);
    c.params.flags = 0xffff; /* beyond struct_size: not read */
    c.params.group = 99;
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    check_row(0, K, out_values, out_ids);
    struct {
        kith_select_params params;
        char more[64];
    } newer;
    memset(&newer, 0xff, sizeof newer);
    newer.params = kith_select_params_default();
    newer.params.struct_size = (uint32_t)sizeof newer;
    newer.params.k = K;
    c.given_params = &newer.params;
    assert_int_equal(call_run(&c, ctx), KITH_OK);
    check_row(ROWS - 1, K, out_values + (ROWS - 1) * K, out_ids + (ROWS - 1) * K);
    printf("parameters of older and newer callers are taken as far as both know them\n");
}

/* ---- Names, report, devices ----------------------------------------------------------------- */

static void names_and_report(void **state)
{
    (void)state;
    static const char *const names[] = {"auto",        "scan",      "quick",
                                        "radix",       "insertion", "heap",
                                        "merge_queue", "bitonic",   "threshold_heap"};
    enum { NAMES = sizeof names / sizeof *names };
    for (int i = 0; i < NAMES; i++) {
        assert_string_equal(kith_select_method_name((kith_select_method)i), names[i]);
        call c;
        call_make(&c, false, false);
        c.params.method = (kith_select_method)i;
        assert_int_equal(call_run(&c, ctx), KITH_OK);
        kith_report report = {.struct_size = (uint32_t)sizeof report};
        assert_int_equal(kith_ctx_report(ctx, &report), KITH_OK);
        assert_string_equal(report.backend, "cpu");
        assert_string_equal(report.gpu, "");
        assert_string_equal(report.isa, kith_ctx_get_params(ctx)->isa);
        assert_true(report.seconds_total > 0.0);
        bool named = false;
        for (int m = KITH_SELECT_AUTO + 1; m < NAMES; m++) {
            named = named || strcmp(report.screen, names[m]) == 0;
        }
        assert_true(named);
        assert_true(i == KITH_SELECT_AUTO || strcmp(report.screen, names[i]) == 0);
    }
    assert_string_equal(kith_select_method_name((kith_select_method)NAMES), "unknown");
    assert_string_equal(kith_select_method_name((kith_select_method)-1), "unknown");
    printf("%d names stand for their methods, and the report names the one that was used\n", NAMES);
}

static void devices(void **state)
{
    (void)state;
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cuda:1023"; /* no machine has it */
    kith_ctx *other = NULL;
    call c;
    call_make(&c, false, false);
    assert_int_equal(kith_ctx_create(&params, &other), KITH_OK);
    assert_int_not_equal(call_run(&c, other), KITH_OK);
    assert_true(kith_ctx_detail(other)[0] != '\0');
    kith_ctx_free(other);
    params.device = "auto";
    assert_int_equal(kith_ctx_create(&params, &other), KITH_OK);
    assert_int_equal(call_run(&c, other), KITH_OK);
    c.cuda = true; /* host memory is no device memory, with a GPU and without */
    assert_int_not_equal(call_run(&c, other), KITH_OK);
    assert_true(kith_ctx_detail(other)[0] != '\0');
    kith_ctx_free(other);
    printf("auto selects on the processor; a device that is not there, and host memory given as a "
           "device's, are explained\n");
}

/* ---- Files ---------------------------------------------------------------------------------- */

static bool file_holds(const char *path, const char *text)
{
    char bytes[4096];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    for (size_t at = 0; at + strlen(text) <= count; at++) {
        if (memcmp(bytes + at, text, strlen(text)) == 0) {
            return true;
        }
    }
    return false;
}

static void files(void **state)
{
    (void)state;
    char folder[] = "/tmp/kith-select-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    kith_points *points = NULL;
    uint16_t half[4] = {0x3f80, 0x4000, 0x4040, 0x4080}; /* 1, 2, 3, 4 as bfloat16 */
    const kith_selection two = {.values = (void *)(uintptr_t)half, .ids = ids};
    kith_select_params params = kith_select_params_default();
    params.k = 2;
    params.flags = KITH_SELECT_LARGEST;
    (void)snprintf(path, sizeof path, "%s/a.npz", folder);
    assert_int_equal(kith_selection_save(ctx, path, &two, 2, KITH_BF16, &params), KITH_OK);
    assert_true(file_holds(path, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"));
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/a.npy", folder);
    assert_int_equal(kith_selection_save(ctx, path, &two, 2, KITH_BF16, &params), KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "saved as .npz"));
    assert_int_equal(
        kith_selection_save(ctx, path, &(kith_selection){.kth = half}, 4, KITH_BF16, NULL),
        KITH_OK);
    assert_true(file_holds(path, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"));
    assert_int_equal(kith_selection_save(ctx, path, NULL, 2, KITH_F32, &params), KITH_E_ARGUMENT);
    assert_int_equal(kith_selection_save(ctx, path, &two, 2, KITH_F32, NULL), KITH_E_ARGUMENT);
    assert_int_equal(kith_selection_save(ctx, path, &two, 2, KITH_U8, &params), KITH_E_ARGUMENT);
    assert_int_equal(kith_selection_save(ctx, path, &two, -2, KITH_F32, &params), KITH_E_ARGUMENT);
    assert_int_equal(
        kith_selection_save(ctx, path, &(kith_selection){.kth = NULL}, 4, KITH_F32, NULL),
        KITH_E_ARGUMENT);
    assert_int_equal(unlink(path), 0);

    (void)snprintf(path, sizeof path, "%s/a.fbin", folder);
    enum { LONG = (1 << 20) + 3 };
    float *row = calloc(LONG, sizeof *row);
    FILE *file = fopen(path, "wb");
    const uint32_t shape[2] = {1, LONG};
    assert_true(row != NULL && file != NULL);
    row[LONG - 1] = -1.0F;
    assert_int_equal(fwrite(shape, sizeof shape, 1, file), 1);
    assert_int_equal(fwrite(row, sizeof *row, LONG, file), LONG);
    assert_int_equal(fclose(file), 0);
    free(row);
    assert_int_equal(kith_points_open(ctx, path, NULL, &points), KITH_E_FORMAT);
    kith_points_params read = kith_points_params_default();
    read.use = KITH_USE_VALUES;
    assert_int_equal(kith_points_open(ctx, path, &read, &points), KITH_OK);
    assert_null(kith_points_matrix(points));
    const kith_values *values = kith_points_get_source(points)->values;
    assert_int_equal(values->cols, LONG);
    assert_int_equal(values->dtype, KITH_F32);
    params.flags = 0;
    const kith_selection out = {out_values, out_ids, NULL};
    assert_int_equal(kith_select(ctx, values, &params, &out), KITH_OK);
    assert_int_equal(out_ids[0], LONG - 1);
    assert_int_equal(out_ids[1], 0);
    kith_points_free(points);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    printf("answers are saved in their types, and rows beyond 2^20 values are read\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes),      cmocka_unit_test(what_may_be),
        cmocka_unit_test(older_callers), cmocka_unit_test(names_and_report),
        cmocka_unit_test(devices),       cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
