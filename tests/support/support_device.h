/* SPDX-License-Identifier: Apache-2.0
 * One device for a test program, opened beneath the public functions, and what is copied there. */
#ifndef SUPPORT_DEVICE_H
#define SUPPORT_DEVICE_H

#include "gpu/gpu.h"
#include "metric/metric.h"
#include "screen/screen_kernels.h"
#include "support/support_rows.h"

enum { TEST_MOST_TOLD = 20 }; /* differences are counted, the first ones are printed */

extern kith_ctx *test_device_ctx;
extern kin_gpu *test_device;
extern int test_wrong;

/* Group fixtures of cmocka. */
int test_device_open(void **state);
int test_device_close(void **state);

/* Prints why, and fails the test. */
void test_must(kith_status status);
void test_launch(int error, const char *what);

/* Device memory; kin_gpu_free(test_device, ...) gives it back. */
void *test_device_room(uint64_t bytes);
void *test_device_copy(const void *from, uint64_t bytes);
void test_download(void *to, const void *from, uint64_t bytes);
/* Zeros; free() gives it back. */
void *test_host_room(size_t bytes);
uint64_t test_bits(double x);

/* Rows on both sides, with their transforms. */
typedef struct test_device_rows {
    test_rows rows;
    kin_row_transform *transforms;
    kin_rows on_host;
    kin_screen_gpu_rows on_device;
} test_device_rows;

/* After `rows` were filled. */
void test_device_rows_finish(test_device_rows *both, kith_metric metric);
void test_device_rows_free(test_device_rows *both);

#endif
