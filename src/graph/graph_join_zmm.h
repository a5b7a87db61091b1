/* SPDX-License-Identifier: Apache-2.0
 * What meetings on AVX-512 share beside exact_tile_zmm.h. Included only where -mavx512f is on. */
#ifndef KIN_GRAPH_MATCH_ZMM_H
#define KIN_GRAPH_MATCH_ZMM_H

#include "base/base_size.h"
#include "exact/exact_tile_zmm.h"
#include "graph/graph_join.h"

/* kin_graph_order_of_int of costs. */
static inline void orders_i32x16(uint32_t *to, __m512i product, __m512i row_term, __m512i col_terms)
{
    const __m512i cost =
        _mm512_sub_epi32(_mm512_add_epi32(row_term, col_terms), _mm512_add_epi32(product, product));
    _mm512_storeu_si512(to, _mm512_xor_si512(cost, _mm512_set1_epi32(INT32_MIN)));
}

/* kin_graph_order_of_float of costs. */
static inline void orders_f32x16(uint32_t *to, __m512 product, __m512 row_term, __m512 col_terms)
{
    const __m512i bits = _mm512_castps_si512(
        _mm512_sub_ps(_mm512_add_ps(row_term, col_terms), _mm512_add_ps(product, product)));
    const __m512i flip = _mm512_or_si512(_mm512_srai_epi32(bits, 31), _mm512_set1_epi32(INT32_MIN));
    _mm512_storeu_si512(to, _mm512_xor_si512(bits, flip));
}

static inline void transpose_16x16(const uint32_t *from, int64_t wide, uint32_t flip, uint32_t *to)
{
    transpose_u32x16(from, wide, _mm512_set1_epi32((int32_t)flip), to);
}

#endif
