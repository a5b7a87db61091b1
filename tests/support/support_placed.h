/* SPDX-License-Identifier: Apache-2.0
 * Matrices on a device as they lie on the host, gaps and odd addresses included. */
#ifndef SUPPORT_PLACED_H
#define SUPPORT_PLACED_H

#include "support/support_device.h"

#include <stdbool.h>

/* Numbers of columns and gaps between rows that kernels have a way of their own for. */
enum { TEST_DTYPES = 6, TEST_WIDTHS = 14, TEST_GAPS = 3 };
extern const kith_dtype test_dtypes[TEST_DTYPES];
extern const int32_t test_widths[TEST_WIDTHS];
extern const int64_t test_gaps[TEST_GAPS];

/* Device memory of this byte. */
void *test_filled(int byte, uint64_t bytes);
/* A copy on the host; free() gives it back. */
void *test_fetched(const void *from, uint64_t bytes);

/* Counts a difference, and says whether it is to be printed. */
bool test_tell(void);
/* Prints what was tried, and fails where a difference was counted. */
void test_settle(const char *what, int64_t cases);

typedef struct test_placed {
    unsigned char *block; /* kin_gpu_free(test_device, ...) gives it back */
    kin_screen_gpu_rows rows;
} test_placed;

/* `skew` bytes behind an aligned address. */
test_placed test_place(const kith_matrix *m, kith_metric metric, int64_t skew);

/* Random values that the dtype can hold. */
test_rows test_random_rows(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap,
                           bool nonnegative, uint64_t *seed);
const char *test_row(const kith_matrix *m, int64_t row);

/* Transforms and degenerate flags made on the device, there; how many rows are degenerate. */
kin_row_transform *test_transforms(const test_placed *p, uint8_t **degenerate, uint64_t *count);

#endif
