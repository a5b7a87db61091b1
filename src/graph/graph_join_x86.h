/* SPDX-License-Identifier: Apache-2.0
 * What meetings on AVX2 and on AVX-512 share, in registers of screen_tile_x86.h. Included
 * only where one of them is on. */
#ifndef KIN_GRAPH_JOIN_X86_H
#define KIN_GRAPH_JOIN_X86_H

#include "base/base_size.h"
#include "graph/graph_join.h"
#include "screen/screen_tile_x86.h"

/* kin_graph_order_of_int of costs. */
static inline void INT_(orders)(uint32_t *to, INT_VEC product, INT_VEC row_term, INT_VEC col_terms)
{
    const INT_VEC cost =
        MM_(sub_epi32)(MM_(add_epi32)(row_term, col_terms), MM_(add_epi32)(product, product));
    INT_(store)(to, MM_INT_(xor)(cost, MM_(set1_epi32)(INT32_MIN)));
}

/* kin_graph_order_of_float of costs. */
static inline void FLOAT_(orders)(uint32_t *to, FLOAT_VEC product, FLOAT_VEC row_term,
                                  FLOAT_VEC col_terms)
{
    const INT_VEC bits =
        MM_BITS(MM_(sub_ps)(MM_(add_ps)(row_term, col_terms), MM_(add_ps)(product, product)));
    const INT_VEC flip = MM_INT_(or)(MM_(srai_epi32)(bits, 31), MM_(set1_epi32)(INT32_MIN));
    INT_(store)(to, MM_INT_(xor)(bits, flip));
}

#if defined(__AVX512F__)
static inline void transpose_16x16(const uint32_t *from, int64_t wide, uint32_t flip, uint32_t *to)
{
    transpose_u32x16(from, wide, _mm512_set1_epi32((int32_t)flip), to);
}
#else
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

#endif
