/* SPDX-License-Identifier: Apache-2.0
 * 32-bit lanes in one register of x86, 8 where AVX2 is on and 16 where AVX-512 is: what kernels
 * share, here and in graph/, and what machine a file's flags make it (base_isa.h). Rows and vectors
 * of a tile stand in 12 of 16 registers, or in 24 of 32. */
#ifndef KIN_SCREEN_TILE_X86_H
#define KIN_SCREEN_TILE_X86_H

#include "screen/screen_tile.h"

#include <immintrin.h>
#include <string.h>

#define TILE_VECTORS 2
#if defined(__AVX512F__)
#define TILE_ROWS 12
#define TILE_LANES 16
#define INT_VEC __m512i
#define INTS i32x16
#define FLOAT_VEC __m512
#define FLOATS f32x16
#define MM_(op) _mm512_##op
#define MM_INT_(op) _mm512_##op##_si512
#define MM_BITS _mm512_castps_si512
#else
#define TILE_ROWS 6
#define TILE_LANES 8
#define INT_VEC __m256i
#define INTS i32x8
#define FLOAT_VEC __m256
#define FLOATS f32x8
#define MM_(op) _mm256_##op
#define MM_INT_(op) _mm256_##op##_si256
#define MM_BITS _mm256_castps_si256
#endif
#define INT_(what) TILE_NAME_(what, INTS)
#define FLOAT_(what) TILE_NAME_(what, FLOATS)
#define TILE_SPLAT TILE_VEC
#define KIND_s8 INTS
#define KIND_s16 INTS
#define KIND_f32 FLOATS

typedef INT_VEC INT_(vec);
typedef FLOAT_VEC FLOAT_(vec);

/* TILE_BYTES: it multiplies bytes. vpdp... has another code in AVX-VNNI than in AVX-512. */
#if defined(__AVX512VNNI__)
#define TILE_BYTES
#define TILE_MACHINE avx512vnni
#define TILE_ISA KIN_ISA_AVX512VNNI
#define TILE_VEX ""
#elif defined(__AVX512F__)
#define TILE_MACHINE avx512
#define TILE_ISA KIN_ISA_AVX512
#elif defined(__AVXVNNI__)
#define TILE_BYTES
#define TILE_MACHINE avx2vnni
#define TILE_ISA KIN_ISA_AVX2VNNI
#define TILE_VEX "%{vex%} "
#else
#define TILE_MACHINE avx2
#define TILE_ISA KIN_ISA_AVX2
#endif

/* ---- Integers -------------------------------------------------------------------------------- */

static inline INT_VEC INT_(load)(const void *words)
{
    INT_VEC value;
    memcpy(&value, words, sizeof value);
    return value;
}

static inline INT_VEC INT_(splat)(const void *word)
{
    int32_t value;
    memcpy(&value, word, sizeof value);
    return MM_(set1_epi32)(value);
}

static inline void INT_(store)(void *words, INT_VEC value)
{
    memcpy(words, &value, sizeof value);
}

static inline uint32_t INT_(pass)(INT_VEC acc, INT_VEC test)
{
#if defined(__AVX512F__)
    return _mm512_cmpge_epi32_mask(acc, test);
#else
    const __m256i below = _mm256_cmpgt_epi32(test, acc);
    return ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(below)) & 0xff;
#endif
}

#define pair_s16 dot_s16

/* Points are unsigned, rows signed: as the instruction takes them. */
#if defined(TILE_BYTES)
static inline INT_VEC dot_s8(INT_VEC acc, INT_VEC row, INT_VEC point)
{
    __asm__(TILE_VEX "vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(point), "v"(row));
    return acc;
}

/* Of two points. */
static inline INT_VEC pair_s8(INT_VEC acc, INT_VEC row, INT_VEC point)
{
    return dot_s8(acc, MM_INT_(xor)(row, MM_(set1_epi8)((char)-128)), point);
}

static inline INT_VEC dot_s16(INT_VEC acc, INT_VEC row, INT_VEC point)
{
    __asm__(TILE_VEX "vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(point), "v"(row));
    return acc;
}
#else
static inline INT_VEC dot_s16(INT_VEC acc, INT_VEC row, INT_VEC point)
{
    return MM_(add_epi32)(acc, MM_(madd_epi16)(row, point));
}
#endif

static inline __m128i INT_(fold)(INT_VEC v)
{
#if defined(__AVX512F__)
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
#else
    const __m256i half = v;
#endif
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* The sums of four vectors. */
static inline void INT_(sums)(void *words, const INT_VEC *v)
{
    const __m128i low = _mm_hadd_epi32(INT_(fold)(v[0]), INT_(fold)(v[1]));
    const __m128i high = _mm_hadd_epi32(INT_(fold)(v[2]), INT_(fold)(v[3]));
    _mm_storeu_si128(words, _mm_hadd_epi32(low, high));
}

/* ---- Floats ---------------------------------------------------------------------------------- */

static inline FLOAT_VEC FLOAT_(load)(const void *words)
{
    FLOAT_VEC value;
    memcpy(&value, words, sizeof value);
    return value;
}

static inline FLOAT_VEC FLOAT_(splat)(const void *word)
{
    float value;
    memcpy(&value, word, sizeof value);
    return MM_(set1_ps)(value);
}

static inline void FLOAT_(store)(void *words, FLOAT_VEC value)
{
    memcpy(words, &value, sizeof value);
}

#define pair_f32 dot_f32
static inline FLOAT_VEC dot_f32(FLOAT_VEC acc, FLOAT_VEC row, FLOAT_VEC point)
{
    return MM_(fmadd_ps)(row, point, acc);
}

/* What is no number passes. */
static inline uint32_t FLOAT_(pass)(FLOAT_VEC acc, FLOAT_VEC test)
{
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(acc, test, _CMP_NLT_UQ);
#else
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(acc, test, _CMP_NLT_UQ));
#endif
}

static inline __m128 FLOAT_(fold)(FLOAT_VEC v)
{
#if defined(__AVX512F__)
    const __m256 high = _mm512_castps512_ps256(_mm512_shuffle_f32x4(v, v, 0xee));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), high);
#else
    const __m256 half = v;
#endif
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

static inline void FLOAT_(sums)(void *words, const FLOAT_VEC *v)
{
    const __m128 low = _mm_hadd_ps(FLOAT_(fold)(v[0]), FLOAT_(fold)(v[1]));
    const __m128 high = _mm_hadd_ps(FLOAT_(fold)(v[2]), FLOAT_(fold)(v[3]));
    _mm_storeu_ps(words, _mm_hadd_ps(low, high));
}

#if defined(__AVX512F__)
/* 16 lines of 16 words, `stride` words apart, transposed and flipped: pairs, quadruples, then
 * quarters of the registers. */
static inline void transpose_u32x16(const uint32_t *src, int64_t stride, __m512i flip,
                                    uint32_t *dst)
{
    __m512i r[16];
    __m512i t[16];
    for (int i = 0; i < 16; i++) {
        r[i] = _mm512_xor_si512(_mm512_loadu_si512(src + i * stride), flip);
    }
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        const __m512i low02 = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        const __m512i low13 = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        const __m512i high02 = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        const __m512i high13 = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
        t[i] = _mm512_shuffle_i32x4(low02, high02, 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(low13, high13, 0x88);
        t[i + 8] = _mm512_shuffle_i32x4(low02, high02, 0xdd);
        t[i + 12] = _mm512_shuffle_i32x4(low13, high13, 0xdd);
    }
    for (int i = 0; i < 16; i++) {
        _mm512_storeu_si512(dst + i * 16, t[i]);
    }
}
#endif

#if defined(__AMX_TILE__) || defined(__AMXTILE__) /* of older clang */
/* ---- AMX: eight tiles of 16 rows x 64 bytes -------------------------------------------------- */

typedef struct __attribute__((packed)) tile_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* In static memory: the compiler's ldtilecfg names only the first bytes of its operand as read, and
 * may drop what was stored into the rest of a local one. */
static const tile_config eight_tiles = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};
#endif

#endif
