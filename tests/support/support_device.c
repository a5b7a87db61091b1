/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/support_gpu.h"

#include <stdio.h>
#include <stdlib.h>

kith_ctx *test_device_ctx;
kin_gpu *test_device;
int test_wrong;

int test_device_open(void **state)
{
    (void)state;
    test_device_ctx = test_cpu_ctx();
    return kin_gpu_open(test_device_ctx, 0, (uint64_t)2 << 30, &test_device) == KITH_OK ? 0 : -1;
}

int test_device_close(void **state)
{
    (void)state;
    kin_gpu_close(test_device_ctx, test_device);
    kith_ctx_free(test_device_ctx);
    return 0;
}

void test_must(kith_status status)
{
    if (status != KITH_OK) {
        printf("failed: %s: %s\n", kith_status_name(status), kith_ctx_detail(test_device_ctx));
        (void)fflush(stdout);
        fail();
    }
}

void test_launch(int error, const char *what)
{
    test_must(kin_gpu_check(test_device_ctx, test_device, error, what));
}

void *test_device_room(uint64_t bytes)
{
    void *block = NULL;
    test_must(kin_gpu_alloc(test_device_ctx, test_device, &block, bytes, 1, "a test"));
    return block;
}

void *test_device_copy(const void *from, uint64_t bytes)
{
    void *block = test_device_room(bytes + 1);
    if (bytes != 0) {
        test_must(kin_gpu_upload(test_device_ctx, test_device, block, from, bytes));
    }
    return block;
}

void test_download(void *to, const void *from, uint64_t bytes)
{
    test_must(kin_gpu_download(test_device_ctx, test_device, to, from, bytes));
}

uint64_t test_bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

void *test_host_room(size_t bytes)
{
    void *block = calloc(bytes + 1, 1);
    assert_non_null(block);
    return block;
}

void test_device_rows_free(test_device_rows *both)
{
    kin_gpu_free(test_device, (void *)(uintptr_t)both->on_device.data);
    kin_gpu_free(test_device, (void *)(uintptr_t)both->on_device.transforms);
    free(both->transforms);
    test_rows_free(&both->rows);
}

void test_device_rows_finish(test_device_rows *both, kith_metric metric)
{
    const kith_matrix *m = &both->rows.matrix;
    const int64_t row_bytes = (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    const uint64_t bytes = (uint64_t)((m->rows - 1) * m->stride_bytes + row_bytes);
    if (kin_metric_get_traits(metric)->transforms) {
        both->transforms = test_host_room((size_t)m->rows * sizeof(kin_row_transform));
        test_must(kin_metric_transforms(test_device_ctx, m, metric, both->transforms));
    }
    both->on_host = (kin_rows){*m, both->transforms};
    both->on_device = (kin_screen_gpu_rows){
        .data = test_device_copy(m->data, bytes),
        .rows = m->rows,
        .stride_bytes = m->stride_bytes,
        .cols = m->cols,
        .dtype = m->dtype,
        .metric = metric,
    };
    if (both->transforms != NULL) {
        both->on_device.transforms =
            test_device_copy(both->transforms, (uint64_t)m->rows * sizeof(kin_row_transform));
    }
}
