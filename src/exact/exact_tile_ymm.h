/* SPDX-License-Identifier: Apache-2.0
 * 8 integers in a 256-bit register: what kernels for AVX2 share, here and in graph/.
 * 6 rows x 16 points stand in 12 of the 16 registers. Included only where -mavx2 is on. */
#ifndef KIN_EXACT_TILE_YMM_H
#define KIN_EXACT_TILE_YMM_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define TILE_NAME_(name, part) TILE_JOIN(name, part)
#define TILE_JOIN(name, part) name##_##part
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define TILE_LANES 8

static inline __m256i load_i32x8(const void *words)
{
    return _mm256_loadu_si256((const __m256i *)words);
}

static inline __m256i splat_i32x8(const void *word)
{
    int32_t value;
    memcpy(&value, word, sizeof value);
    return _mm256_set1_epi32(value);
}

static inline void store_i32x8(void *words, __m256i value)
{
    _mm256_storeu_si256((__m256i *)words, value);
}

/* acc >= test as not (test > acc). */
static inline uint32_t pass_i32x8(__m256i acc, __m256i test)
{
    const __m256i below = _mm256_cmpgt_epi32(test, acc);
    return ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(below)) & 0xff;
}

#if defined(__AVXVNNI__)
static inline __m256i dot_s8(__m256i acc, __m256i row, __m256i point)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(point), "x"(row));
    return acc;
}

/* The row as points lie: 128 too large. */
static inline __m256i pair_s8(__m256i acc, __m256i row, __m256i point)
{
    return dot_s8(acc, _mm256_xor_si256(row, _mm256_set1_epi8((char)-128)), point);
}

static inline __m256i dot_s16(__m256i acc, __m256i row, __m256i point)
{
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc) : "x"(point), "x"(row));
    return acc;
}
#else
static inline __m256i dot_s16(__m256i acc, __m256i row, __m256i point)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(row, point));
}
#endif

static inline __m256 load_f32x8(const void *words)
{
    return _mm256_loadu_ps((const float *)words);
}

static inline __m256 splat_f32x8(const void *word)
{
    return _mm256_broadcast_ss((const float *)word);
}

static inline void store_f32x8(void *words, __m256 value)
{
    _mm256_storeu_ps((float *)words, value);
}

static inline __m256 dot_f32(__m256 acc, __m256 row, __m256 point)
{
    return _mm256_fmadd_ps(row, point, acc);
}

static inline uint32_t pass_f32x8(__m256 acc, __m256 test)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(acc, test, _CMP_NLT_UQ));
}

/* Halves are added up, then four registers of four lanes are transposed. */
static inline __m128i fold_i32x8(__m256i v)
{
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

static inline void sums_i32x8(void *words, const __m256i *v)
{
    const __m128i low = _mm_hadd_epi32(fold_i32x8(v[0]), fold_i32x8(v[1]));
    const __m128i high = _mm_hadd_epi32(fold_i32x8(v[2]), fold_i32x8(v[3]));
    _mm_storeu_si128(words, _mm_hadd_epi32(low, high));
}

static inline __m128 fold_f32x8(__m256 v)
{
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

static inline void sums_f32x8(void *words, const __m256 *v)
{
    const __m128 low = _mm_hadd_ps(fold_f32x8(v[0]), fold_f32x8(v[1]));
    const __m128 high = _mm_hadd_ps(fold_f32x8(v[2]), fold_f32x8(v[3]));
    _mm_storeu_ps(words, _mm_hadd_ps(low, high));
}

/* These registers, for text that serves both widths (exact_tile_x86.inc, graph_join_x86.inc). */
#define INT_VEC __m256i
#define INT_(what) what##_i32x8
#define FLOAT_VEC __m256
#define FLOAT_(what) what##_f32x8

#endif
