/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_placed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const kith_dtype test_dtypes[TEST_DTYPES] = {KITH_F64,  KITH_F32, KITH_F16,
                                             KITH_BF16, KITH_U8,  KITH_I8};
const int32_t test_widths[TEST_WIDTHS] = {1, 2, 3, 7, 8, 9, 31, 64, 100, 128, 129, 300, 784, 5000};
const int64_t test_gaps[TEST_GAPS] = {0, 16, 3};

void *test_filled(int byte, uint64_t bytes)
{
    void *block = test_device_room(bytes);
    test_must(kin_gpu_fill(test_device_ctx, test_device, block, byte, bytes));
    return block;
}

void *test_fetched(const void *from, uint64_t bytes)
{
    void *block = malloc((size_t)bytes + 1);
    assert_non_null(block);
    test_must(kin_gpu_download(test_device_ctx, test_device, block, from, bytes));
    return block;
}

bool test_tell(void)
{
    test_wrong += 1;
    return test_wrong <= TEST_MOST_TOLD;
}

void test_settle(const char *what, int64_t cases)
{
    printf("%s: %" PRId64 " cases, %d wrong\n", what, cases, test_wrong);
    (void)fflush(stdout);
    assert_int_equal(test_wrong, 0);
}

test_placed test_place(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    const uint64_t bytes =
        (uint64_t)((m->rows - 1) * m->stride_bytes + (int64_t)m->cols * kith_dtype_bytes(m->dtype));
    test_placed p = {.block = test_device_room(bytes + (uint64_t)skew)};
    test_must(kin_gpu_upload(test_device_ctx, test_device, p.block + skew, m->data, bytes));
    p.rows = (kin_screen_gpu_rows){.data = p.block + skew,
                                   .rows = m->rows,
                                   .stride_bytes = m->stride_bytes,
                                   .cols = m->cols,
                                   .dtype = m->dtype,
                                   .metric = metric};
    return p;
}

test_rows test_random_rows(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap,
                           bool nonnegative, uint64_t *seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, gap);
    const bool eight = dtype == KITH_U8 || dtype == KITH_I8;
    test_rows_fill(&r, eight ? 120.0 : 3.0, nonnegative || dtype == KITH_U8, seed);
    return r;
}

const char *test_row(const kith_matrix *m, int64_t row)
{
    return (const char *)m->data + row * m->stride_bytes;
}

kin_row_transform *test_transforms(const test_placed *p, uint8_t **degenerate, uint64_t *count)
{
    const uint64_t n = (uint64_t)p->rows.rows;
    kin_row_transform *out = test_device_room(n * sizeof *out);
    *degenerate = test_device_room(n);
    uint64_t *found = test_filled(0, sizeof *found);
    const kin_screen_gpu_transform job = {
        .rows = p->rows, .transforms = out, .degenerate = *degenerate, .count = found};
    test_launch(test_device->module->screen->transform(test_device->stream, &job), "transform");
    uint64_t *got = test_fetched(found, sizeof *found);
    *count = *got;
    free(got);
    kin_gpu_free(test_device, found);
    return out;
}
