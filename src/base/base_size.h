/* SPDX-License-Identifier: Apache-2.0
 * Sizes that cannot overflow unseen. A sum or product that does not fit is SIZE_MAX, which every
 * allocation refuses: an overflow becomes "out of memory" where it is used, not a small block. */
#ifndef KIN_BASE_SIZE_H
#define KIN_BASE_SIZE_H

#include "kith/kith.h"

static inline uint64_t kin_size_mul(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t kin_size_add(uint64_t a, uint64_t b)
{
    uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* n rounded up to a multiple of step, and the number of steps. */
static inline int64_t kin_round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

static inline int64_t kin_ceil_div(int64_t n, int64_t step)
{
    return (n + step - 1) / step;
}

static inline int64_t kin_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t kin_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of a row's values, without what may lie between rows. */
static inline uint64_t kin_row_bytes(const kith_matrix *matrix)
{
    return (uint64_t)matrix->cols * (uint64_t)kith_dtype_bytes(matrix->dtype);
}

/* The first place of `count` ascending numbers whose number is not below this one; count: there is
 * none. By bisection. */
#define KIN_LOWER(name, type)                                                   \
    static inline int64_t name(const type *numbers, int64_t count, type number) \
    {                                                                           \
        int64_t low = 0;                                                        \
        while (low < count) {                                                   \
            const int64_t middle = low + (count - low) / 2;                     \
            if (numbers[middle] < number) {                                     \
                low = middle + 1;                                               \
            } else {                                                            \
                count = middle;                                                 \
            }                                                                   \
        }                                                                       \
        return low;                                                             \
    }
KIN_LOWER(kin_lower_u32, uint32_t)
KIN_LOWER(kin_lower_u64, uint64_t)

#endif
