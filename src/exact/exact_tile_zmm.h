/* SPDX-License-Identifier: Apache-2.0
 * 16 integers in a 512-bit register: what exact_tile_avx512.c and exact_tile_avx512vnni.c share.
 * 12 rows x 32 points stand in 24 of the 32 registers. Included only where -mavx512f is on. */
#ifndef KIN_EXACT_TILE_ZMM_H
#define KIN_EXACT_TILE_ZMM_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define TILE_NAME_(name, part) TILE_JOIN(name, part)
#define TILE_JOIN(name, part) name##_##part
#define TILE_ROWS 12
#define TILE_VECTORS 2
#define TILE_LANES 16

static inline __m512i load_i32x16(const void *words)
{
    return _mm512_loadu_si512(words);
}

static inline __m512i splat_i32x16(const void *word)
{
    int32_t value;
    memcpy(&value, word, sizeof value);
    return _mm512_set1_epi32(value);
}

static inline void store_i32x16(void *words, __m512i value)
{
    _mm512_storeu_si512(words, value);
}

static inline uint32_t pass_i32x16(__m512i acc, __m512i test)
{
    return _mm512_cmpge_epi32_mask(acc, test);
}

#endif
