/* SPDX-License-Identifier: Apache-2.0
 * Scan for AVX2: masks from sign bits, places bit by bit. Contract: select_scan.h. */
#if defined(__x86_64__)
#include "select/select_scan.h"

#include <immintrin.h>
#include <math.h>

/* ---- 8 floats ------------------------------------------------------------------------------- */

static inline __m256 load_f32(const char *at)
{
    return _mm256_loadu_ps((const float *)(const void *)at);
}

static inline __m256 load_f16(const char *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)at));
}

static inline __m256 load_bf16(const char *at)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline __m256 flip_f32x8(bool largest)
{
    return _mm256_castsi256_ps(_mm256_set1_epi32(largest ? INT32_MIN : 0));
}

static inline uint32_t below_f32x8(__m256 x, __m256 t)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x, t, _CMP_LE_OQ));
}

#define vec __m256
#define lane float
#define LANES 8
#define VEC_SPLAT _mm256_set1_ps
#define VEC_READ _mm256_loadu_ps
#define VEC_STORE _mm256_storeu_ps
#define VEC_FLIP flip_f32x8
#define VEC_TURN _mm256_xor_ps
#define VEC_MIN _mm256_min_ps
#define VEC_BELOW below_f32x8

#define CELLS(what) what##_f32x8
#include "select/select_scan_types.inc"

/* ---- 4 doubles ------------------------------------------------------------------------------ */

static inline __m256d load_f64(const char *at)
{
    return _mm256_loadu_pd((const double *)(const void *)at);
}

static inline __m256d flip_f64x4(bool largest)
{
    return _mm256_castsi256_pd(_mm256_set1_epi64x(largest ? INT64_MIN : 0));
}

static inline uint32_t below_f64x4(__m256d x, __m256d t)
{
    return (uint32_t)_mm256_movemask_pd(_mm256_cmp_pd(x, t, _CMP_LE_OQ));
}

#define vec __m256d
#define lane double
#define LANES 4
#define VEC_SPLAT _mm256_set1_pd
#define VEC_READ _mm256_loadu_pd
#define VEC_STORE _mm256_storeu_pd
#define VEC_FLIP flip_f64x4
#define VEC_TURN _mm256_xor_pd
#define VEC_MIN _mm256_min_pd
#define VEC_BELOW below_f64x4

#define CELLS(what) what##_f64x4
#define SCAN_DOUBLES
#include "select/select_scan_types.inc"

SCAN_MACHINE(avx2, 96, f32x8, 8, f64x4, 4);
#endif
