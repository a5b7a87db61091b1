/* SPDX-License-Identifier: Apache-2.0
 * What meetings on AVX2 share beside exact_tile_ymm.h. Included only where -mavx2 is on. */
#ifndef KIN_GRAPH_MATCH_YMM_H
#define KIN_GRAPH_MATCH_YMM_H

#include "base/base_size.h"
#include "exact/exact_tile_ymm.h"
#include "graph/graph_join.h"

/* kin_graph_order_of_int of costs. */
static inline void orders_i32x8(uint32_t *to, __m256i product, __m256i row_term, __m256i col_terms)
{
    const __m256i cost =
        _mm256_sub_epi32(_mm256_add_epi32(row_term, col_terms), _mm256_add_epi32(product, product));
    store_i32x8(to, _mm256_xor_si256(cost, _mm256_set1_epi32(INT32_MIN)));
}

/* kin_graph_order_of_float of costs. */
static inline void orders_f32x8(uint32_t *to, __m256 product, __m256 row_term, __m256 col_terms)
{
    const __m256i bits = _mm256_castps_si256(
        _mm256_sub_ps(_mm256_add_ps(row_term, col_terms), _mm256_add_ps(product, product)));
    const __m256i flip = _mm256_or_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(INT32_MIN));
    store_i32x8(to, _mm256_xor_si256(bits, flip));
}

/* 8 rows of 8 words into 8 groups, 16 words apart: pairs, quadruples, then halves. */
static inline void transpose_8x8(const uint32_t *from, int64_t wide, __m256i flip, uint32_t *to)
{
    __m256i r[8];
    __m256i t[8];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm256_xor_si256(load_i32x8(from + i * wide), flip);
    }
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        store_i32x8(to + i * KIN_PANEL, _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
        store_i32x8(to + (i + 4) * KIN_PANEL, _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
    }
}

static inline void transpose_16x16(const uint32_t *from, int64_t wide, uint32_t flip, uint32_t *to)
{
    const __m256i flips = _mm256_set1_epi32((int32_t)flip);
    for (int64_t row = 0; row < 16; row += 8) {
        for (int64_t word = 0; word < 16; word += 8) {
            transpose_8x8(from + row * wide + word, wide, flips, to + word * KIN_PANEL + row);
        }
    }
}

#endif
