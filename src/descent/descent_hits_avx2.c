/* SPDX-License-Identifier: Apache-2.0
 * Pairs within their limits, 8 at a time. Contract: descent_kernel.h. */
#if defined(__x86_64__)
#include "descent/descent_kernel.h"

#include <immintrin.h>

enum { LANES = 8 };

int64_t kin_descent_hits_avx2(const uint32_t *orders, int64_t stride, int64_t rows, int64_t cols,
                              const uint32_t *row_limits, const uint32_t *col_limits,
                              uint32_t *hits)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        const __m256i own = _mm256_set1_epi32((int32_t)row_limits[i]);
        for (int64_t j = 0; j < cols; j += LANES) {
            const __m256i order = _mm256_loadu_si256((const __m256i *)(orders + i * stride + j));
            const __m256i limit =
                _mm256_max_epu32(own, _mm256_loadu_si256((const __m256i *)(col_limits + j)));
            const __m256i within = _mm256_cmpeq_epi32(_mm256_min_epu32(order, limit), order);
            uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(within));
            for (; mask != 0; mask &= mask - 1) {
                hits[count++] = (uint32_t)i << 16 | ((uint32_t)j + (uint32_t)__builtin_ctz(mask));
            }
        }
    }
    return count;
}
#endif
