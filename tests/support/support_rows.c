/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support/support_rows.h"

#include "base/base_random.h"

#include <assert.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

test_rows test_rows_make(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int64_t row_bytes = (int64_t)cols * kith_dtype_bytes(dtype);
    const size_t bytes = (size_t)((rows - 1) * (row_bytes + gap) + row_bytes);
    const size_t usable = (bytes + page - 1) / page * page;
    test_rows made = {.map_bytes = usable + page};
    made.map =
        mmap(NULL, made.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(made.map != MAP_FAILED);
    const int sealed = mprotect(made.map + usable, page, PROT_NONE);
    assert(sealed == 0);
    (void)sealed;
    unsigned char *data = made.map + usable - bytes;
    memset(data, 0xff, bytes);
    for (int64_t i = 0; i < rows; i++) {
        memset(data + i * (row_bytes + gap), 0, (size_t)row_bytes);
    }
    made.matrix = (kith_matrix){
        .data = data, .rows = rows, .stride_bytes = row_bytes + gap, .cols = cols, .dtype = dtype};
    return made;
}

void test_rows_free(test_rows *rows)
{
    (void)munmap(rows->map, rows->map_bytes);
    *rows = (test_rows){0};
}

/* To nearest, by scaling to an integer; beyond the largest number: infinity. */
static uint16_t half_of(double x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) {
        return 0x7e00;
    }
    int exponent = 0;
    (void)frexp(x, &exponent);
    exponent = x == 0 || exponent < -13 ? -13 : exponent; /* zeros, subnormals */
    const double units = rint(ldexp(fabs(x), 11 - exponent));
    if (isinf(x) || ldexp(units, exponent - 11) > 65504) {
        return sign | 0x7c00;
    }
    /* A carry out of the fraction runs into the exponent, which is what rounding up means. */
    return (uint16_t)(sign | ((exponent + 13) * 1024 + (int)units));
}

static unsigned char *place(const test_rows *rows, int64_t row, int64_t col)
{
    /* A matrix is only read; these rows are the test's own, mapped or not. */
    unsigned char *first = (unsigned char *)(uintptr_t)rows->matrix.data;
    return first + row * rows->matrix.stride_bytes + col * kith_dtype_bytes(rows->matrix.dtype);
}

void test_rows_set(const test_rows *rows, int64_t row, int64_t col, double x)
{
    unsigned char *at = place(rows, row, col);
    const float f32 = (float)x;
    uint32_t bits;
    uint16_t half;
    switch (rows->matrix.dtype) {
    case KITH_F64:
        memcpy(at, &x, sizeof x);
        break;
    case KITH_F32:
        memcpy(at, &f32, sizeof f32);
        break;
    case KITH_F16:
        half = half_of(x);
        memcpy(at, &half, sizeof half);
        break;
    case KITH_BF16:
        memcpy(&bits, &f32, sizeof bits);
        half = (uint16_t)(bits >> 16);
        memcpy(at, &half, sizeof half);
        break;
    default:
        *at = (unsigned char)(int)rint(x);
    }
}

void test_rows_copy(const test_rows *rows, int64_t to, const test_rows *source, int64_t from)
{
    const size_t bytes = (size_t)rows->matrix.cols * (size_t)kith_dtype_bytes(rows->matrix.dtype);
    memcpy(place(rows, to, 0), place(source, from, 0), bytes);
}

double test_uniform(uint64_t *seed)
{
    return (double)(kin_random_next(seed) >> 11) * 0x1p-53;
}

void test_rows_fill(const test_rows *rows, double scale, int nonnegative, uint64_t *seed)
{
    for (int64_t row = 0; row < rows->matrix.rows; row++) {
        for (int64_t col = 0; col < rows->matrix.cols; col++) {
            const double u = nonnegative ? test_uniform(seed) : 2 * test_uniform(seed) - 1;
            test_rows_set(rows, row, col, test_uniform(seed) < 0.2 ? 0 : scale * u);
        }
    }
}
