/* SPDX-License-Identifier: Apache-2.0
 * Short lists in order, 8 words at a time: each becomes the larger of the one before it and of the
 * smaller of itself and what comes. Contract: descent_kernel.h. */
#if defined(__x86_64__)
#include "descent/descent_kernel.h"

#include <immintrin.h>

enum { LANES = 8 };

static __mmask8 lanes_of(int64_t left)
{
    return (__mmask8)(left < LANES ? (1u << left) - 1 : 0xff);
}

void kin_descent_put_avx512(uint64_t *words, int64_t length, uint64_t word)
{
    const __m512i comes = _mm512_set1_epi64((int64_t)word);
    __m512i before = _mm512_setzero_si512();
    __mmask8 there = 0;
    for (int64_t i = 0; i < length; i += LANES) {
        const __mmask8 lanes = lanes_of(length - i);
        const __m512i own = _mm512_maskz_loadu_epi64(lanes, words + i);
        there |= _mm512_mask_cmpeq_epi64_mask(lanes, own, comes);
    }
    for (int64_t i = 0; i < length && there == 0; i += LANES) {
        const __mmask8 lanes = lanes_of(length - i);
        const __m512i own = _mm512_maskz_loadu_epi64(lanes, words + i);
        const __m512i last = _mm512_alignr_epi64(own, before, LANES - 1);
        _mm512_mask_storeu_epi64(words + i, lanes,
                                 _mm512_max_epu64(last, _mm512_min_epu64(own, comes)));
        before = own;
    }
}
#endif
