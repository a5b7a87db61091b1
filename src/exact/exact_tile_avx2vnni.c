/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AVX-VNNI: as exact_tile_avx2.c, with products and sums in one instruction.
 * Contract: exact_tile.h. Not used: vpdpbusds, vpdpwssds, which saturate; the
 * intrinsics, with which gcc 12 copies and spills the accumulators in every step. */
#if defined(__x86_64__)
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_machines.h"

#include <immintrin.h>

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

static inline __m256i dot_s8(__m256i acc, __m256i row, __m256i point)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(point), "x"(row));
    return acc;
}

static inline __m256i dot_s16(__m256i acc, __m256i row, __m256i point)
{
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc) : "x"(point), "x"(row));
    return acc;
}

static inline uint32_t pass_i32x8(__m256i acc, __m256i test)
{
    const __m256i below = _mm256_cmpgt_epi32(test, acc);
    return ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(below)) & 0xff;
}

#define TILE_FLOAT 0
#define vec __m256i
#define TILE_SPLAT __m256i
#define VEC_LOAD load_i32x8
#define VEC_SPLAT splat_i32x8
#define VEC_STORE store_i32x8
#define VEC_PASS pass_i32x8

#define TILE_NAME s8
#define TILE_FLIP 0x80808080u
#define VEC_DOT dot_s8
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLIP
#undef VEC_DOT

#define TILE_NAME s16
#define TILE_FLIP 0u
#define VEC_DOT dot_s16
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_s8_avx2vnni = {
    "s8 avx2vnni", KIN_TILE_S8, KIN_ISA_AVX2VNNI, TILE_ROWS, 1, s8_pack, s8_run};
const kin_tile_kernel kin_tile_s16_avx2vnni = {
    "s16 avx2vnni", KIN_TILE_S16, KIN_ISA_AVX2VNNI, TILE_ROWS, 1, s16_pack, s16_run};
#endif
