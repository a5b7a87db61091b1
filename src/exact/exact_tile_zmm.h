/* SPDX-License-Identifier: Apache-2.0
 * 16 integers in a 512-bit register: what kernels for AVX-512 share, here and in graph/.
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

#if defined(__AVX512VNNI__)
static inline __m512i dot_s8(__m512i acc, __m512i row, __m512i point)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(point), "v"(row));
    return acc;
}

/* The row as points lie: 128 too large. */
static inline __m512i pair_s8(__m512i acc, __m512i row, __m512i point)
{
    return dot_s8(acc, _mm512_xor_si512(row, _mm512_set1_epi8((char)-128)), point);
}

static inline __m512i dot_s16(__m512i acc, __m512i row, __m512i point)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(point), "v"(row));
    return acc;
}
#else
static inline __m512i dot_s16(__m512i acc, __m512i row, __m512i point)
{
    return _mm512_add_epi32(acc, _mm512_madd_epi16(row, point));
}
#endif

static inline __m512 load_f32x16(const void *words)
{
    return _mm512_loadu_ps(words);
}

static inline __m512 splat_f32x16(const void *word)
{
    float value;
    memcpy(&value, word, sizeof value);
    return _mm512_set1_ps(value);
}

static inline void store_f32x16(void *words, __m512 value)
{
    _mm512_storeu_ps(words, value);
}

static inline __m512 dot_f32(__m512 acc, __m512 row, __m512 point)
{
    return _mm512_fmadd_ps(row, point, acc);
}

static inline uint32_t pass_f32x16(__m512 acc, __m512 test)
{
    return _mm512_cmp_ps_mask(acc, test, _CMP_NLT_UQ);
}

/* Halves are added up, then four registers of four lanes are transposed. */
static inline __m128i fold_i32x16(__m512i v)
{
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

static inline void sums_i32x16(void *words, const __m512i *v)
{
    const __m128i low = _mm_hadd_epi32(fold_i32x16(v[0]), fold_i32x16(v[1]));
    const __m128i high = _mm_hadd_epi32(fold_i32x16(v[2]), fold_i32x16(v[3]));
    _mm_storeu_si128(words, _mm_hadd_epi32(low, high));
}

static inline __m128 fold_f32x16(__m512 v)
{
    const __m256 high = _mm512_castps512_ps256(_mm512_shuffle_f32x4(v, v, 0xee));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), high);
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

static inline void sums_f32x16(void *words, const __m512 *v)
{
    const __m128 low = _mm_hadd_ps(fold_f32x16(v[0]), fold_f32x16(v[1]));
    const __m128 high = _mm_hadd_ps(fold_f32x16(v[2]), fold_f32x16(v[3]));
    _mm_storeu_ps(words, _mm_hadd_ps(low, high));
}

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

/* These registers, for text that serves both widths (exact_tile_x86.inc, graph_join_x86.inc). */
#define INT_VEC __m512i
#define INT_(what) what##_i32x16
#define FLOAT_VEC __m512
#define FLOAT_(what) what##_f32x16

#endif
