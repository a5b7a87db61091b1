/* SPDX-License-Identifier: Apache-2.0
 * Pairs within their limits, 16 at a time. Contract: descent_kernel.h. */
#if defined(__x86_64__)
#include "descent/descent_kernel.h"

#include <immintrin.h>

int64_t kin_descent_hits_avx512(const uint32_t *orders, int64_t stride, int64_t rows, int64_t cols,
                                const uint32_t *row_limits, const uint32_t *col_limits,
                                uint32_t *hits)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        const __m512i own = _mm512_set1_epi32((int32_t)row_limits[i]);
        for (int64_t j = 0; j < cols; j += KIN_PANEL) {
            const __m512i limit = _mm512_max_epu32(own, _mm512_loadu_si512(col_limits + j));
            const __mmask16 within =
                _mm512_cmple_epu32_mask(_mm512_loadu_si512(orders + i * stride + j), limit);
            if (within != 0) {
                const __m512i pairs =
                    _mm512_add_epi32(lanes, _mm512_set1_epi32((int32_t)(i << 16 | j)));
                _mm512_mask_compressstoreu_epi32(hits + count, within, pairs);
                count += __builtin_popcount(within);
            }
        }
    }
    return count;
}
#endif
