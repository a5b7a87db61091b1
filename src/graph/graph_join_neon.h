/* SPDX-License-Identifier: Apache-2.0
 * What meetings on ARM share beside screen_tile_neon.h. Included only where ARM's intrinsics are.
 */
#ifndef KIN_GRAPH_JOIN_NEON_H
#define KIN_GRAPH_JOIN_NEON_H

#include "base/base_size.h"
#include "graph/graph_join.h"
#include "screen/screen_tile_neon.h"

/* kin_graph_order_of_int of costs. */
static inline void orders_i32x4(uint32_t *to, int32x4_t product, int32x4_t row_term,
                                int32x4_t col_terms)
{
    const int32x4_t cost = vsubq_s32(vaddq_s32(row_term, col_terms), vaddq_s32(product, product));
    store_i32x4(to, veorq_s32(cost, vdupq_n_s32(INT32_MIN)));
}

static inline void orders_halves(uint32_t *to, vec_halves product, vec_halves row_term,
                                 vec_halves col_terms)
{
    orders_i32x4(to, whole_i32x4(product), row_term.low, whole_i32x4(col_terms));
}

/* kin_graph_order_of_float of costs. */
static inline void orders_f32x4(uint32_t *to, float32x4_t product, float32x4_t row_term,
                                float32x4_t col_terms)
{
    const int32x4_t bits = vreinterpretq_s32_f32(
        vsubq_f32(vaddq_f32(row_term, col_terms), vaddq_f32(product, product)));
    const int32x4_t flip = vorrq_s32(vshrq_n_s32(bits, 31), vdupq_n_s32(INT32_MIN));
    store_i32x4(to, veorq_s32(bits, flip));
}

/* 4 rows of 4 words into 4 groups, 16 words apart: pairs, then halves. */
static inline void transpose_4x4(const uint32_t *from, int64_t wide, int32x4_t flip, uint32_t *to)
{
    int32x4_t r[4];
    for (int i = 0; i < 4; i++) {
        r[i] = veorq_s32(load_i32x4(from + i * wide), flip);
    }
    const int64x2_t even_low = vreinterpretq_s64_s32(vtrn1q_s32(r[0], r[1]));
    const int64x2_t odd_low = vreinterpretq_s64_s32(vtrn2q_s32(r[0], r[1]));
    const int64x2_t even_high = vreinterpretq_s64_s32(vtrn1q_s32(r[2], r[3]));
    const int64x2_t odd_high = vreinterpretq_s64_s32(vtrn2q_s32(r[2], r[3]));
    store_i32x4(to, vreinterpretq_s32_s64(vzip1q_s64(even_low, even_high)));
    store_i32x4(to + KIN_PANEL, vreinterpretq_s32_s64(vzip1q_s64(odd_low, odd_high)));
    store_i32x4(to + 2 * KIN_PANEL, vreinterpretq_s32_s64(vzip2q_s64(even_low, even_high)));
    store_i32x4(to + 3 * KIN_PANEL, vreinterpretq_s32_s64(vzip2q_s64(odd_low, odd_high)));
}

static inline void transpose_16x16(const uint32_t *from, int64_t wide, uint32_t flip, uint32_t *to)
{
    const int32x4_t flips = vdupq_n_s32((int32_t)flip);
    for (int64_t row = 0; row < 16; row += TILE_LANES) {
        for (int64_t word = 0; word < 16; word += TILE_LANES) {
            transpose_4x4(from + row * wide + word, wide, flips, to + word * KIN_PANEL + row);
        }
    }
}

#endif
