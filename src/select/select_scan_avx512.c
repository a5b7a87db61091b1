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

/* A whole register is stored: a masked store to memory is slow on some processors. */
static inline void append_x16(uint32_t *places, uint32_t mask, uint32_t first)
{
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i all = _mm512_add_epi32(steps, _mm512_set1_epi32((int32_t)first));
    _mm512_storeu_si512(places, _mm512_maskz_compress_epi32((__mmask16)mask, all));
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
#define VEC_APPEND append_x16

#define SCAN_FOLD fold_f32x16
#include "select/select_scan_fold.inc"

#define SCAN(what) f32_##what
#define SCAN_BYTES 4
#define SCAN_LOAD load_f32
#include "select/select_scan_lanes.inc"

#define SCAN(what) f16_##what
#define SCAN_BYTES 2
#define SCAN_LOAD load_f16
#include "select/select_scan_lanes.inc"

#define SCAN(what) bf16_##what
#define SCAN_BYTES 2
#define SCAN_LOAD load_bf16
#include "select/select_scan_lanes.inc"

#include "select/select_scan_undef.inc"

/* ---- 8 doubles ------------------------------------------------------------------------------ */

static inline __m512d load_f64(const char *at)
{
    return _mm512_loadu_pd(at);
}

static inline __m512d flip_f64x8(bool largest)
{
    return _mm512_castsi512_pd(_mm512_set1_epi64(largest ? INT64_MIN : 0));
}

static inline void append_x8(uint32_t *places, uint32_t mask, uint32_t first)
{
    const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i all = _mm256_add_epi32(steps, _mm256_set1_epi32((int32_t)first));
    _mm256_storeu_si256((__m256i_u *)places, _mm256_maskz_compress_epi32((__mmask8)mask, all));
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
#define VEC_APPEND append_x8

#define SCAN_FOLD fold_f64x8
#include "select/select_scan_fold.inc"

#define SCAN(what) f64_##what
#define SCAN_BYTES 8
#define SCAN_LOAD load_f64
#include "select/select_scan_lanes.inc"

const kin_scan_machine kin_scan_avx512 = {
    .f32 = {16, f32_least, fold_f32x16, f32_collect},
    .f64 = {8, f64_least, fold_f64x8, f64_collect},
    .f16 = {16, f16_least, fold_f32x16, f16_collect},
    .bf16 = {16, bf16_least, fold_f32x16, bf16_collect},
};
#endif
