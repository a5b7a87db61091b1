/* SPDX-License-Identifier: Apache-2.0
 * Scan for AVX-512: masks from compares, places by compression. Contract: select_scan.h. */
#if defined(__x86_64__)
#include "select/select_scan.h"

#include <immintrin.h>
#include <math.h>

/* ---- 16 floats ------------------------------------------------------------------------------ */

static inline __m512 load_f32(const char *at)
{
    return _mm512_loadu_ps(at);
}

static inline __m512 load_f16(const char *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)at));
}

static inline __m512 load_bf16(const char *at)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline __m512 flip_f32x16(bool largest)
{
    return _mm512_castsi512_ps(_mm512_set1_epi32(largest ? INT32_MIN : 0));
}

#define vec __m512
#define lane float
#define LANES 16
#define VEC_SPLAT _mm512_set1_ps
#define VEC_READ _mm512_loadu_ps
#define VEC_STORE _mm512_storeu_ps
#define VEC_FLIP flip_f32x16
#define VEC_TURN _mm512_xor_ps
#define VEC_MIN _mm512_min_ps
#define VEC_BELOW(x, t) ((uint32_t)_mm512_cmp_ps_mask(x, t, _CMP_LE_OQ))

#define CELLS(what) what##_f32x16
#include "select/select_scan_types.inc"

/* ---- 8 doubles ------------------------------------------------------------------------------ */

static inline __m512d load_f64(const char *at)
{
    return _mm512_loadu_pd(at);
}

static inline __m512d flip_f64x8(bool largest)
{
    return _mm512_castsi512_pd(_mm512_set1_epi64(largest ? INT64_MIN : 0));
}

#define vec __m512d
#define lane double
#define LANES 8
#define VEC_SPLAT _mm512_set1_pd
#define VEC_READ _mm512_loadu_pd
#define VEC_STORE _mm512_storeu_pd
#define VEC_FLIP flip_f64x8
#define VEC_TURN _mm512_xor_pd
#define VEC_MIN _mm512_min_pd
#define VEC_BELOW(x, t) ((uint32_t)_mm512_cmp_pd_mask(x, t, _CMP_LE_OQ))

#define CELLS(what) what##_f64x8
#define SCAN_DOUBLES
#include "select/select_scan_types.inc"

SCAN_MACHINE(avx512, 160, f32x16, 16, f64x8, 8);
#endif
