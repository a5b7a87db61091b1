/* SPDX-License-Identifier: Apache-2.0
 * Contract: metric.h. Eight lanes in two registers: lanes 0-3 in lo, 4-7 in hi. The body itself is
 * metric_lanes.h; this file is its vocabulary for AVX2, FMA and F16C. */
#if defined(__x86_64__)
#include "metric/metric_canonical.h"
#include "metric/metric_whole.h"

#include <immintrin.h>

typedef struct v8 {
    __m256d lo;
    __m256d hi;
} v8;

/* Both registers, by the instruction of two. */
#define V8_OF_TWO(op)                                                            \
    KIN_TEMPLATE v8 v8_##op(v8 a, v8 b)                                          \
    {                                                                            \
        return (v8){_mm256_##op##_pd(a.lo, b.lo), _mm256_##op##_pd(a.hi, b.hi)}; \
    }

V8_OF_TWO(add)
V8_OF_TWO(sub)
V8_OF_TWO(mul)
V8_OF_TWO(div)
V8_OF_TWO(max)
V8_OF_TWO(min)

KIN_TEMPLATE v8 v8_set(double a)
{
    const __m256d all = _mm256_set1_pd(a);
    return (v8){all, all};
}

KIN_TEMPLATE v8 v8_fma(v8 a, v8 b, v8 c)
{
    return (v8){_mm256_fmadd_pd(a.lo, b.lo, c.lo), _mm256_fmadd_pd(a.hi, b.hi, c.hi)};
}

KIN_TEMPLATE v8 v8_abs(v8 a)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    return (v8){_mm256_andnot_pd(sign, a.lo), _mm256_andnot_pd(sign, a.hi)};
}

KIN_TEMPLATE v8 v8_select(v8 s, v8 x, v8 y)
{
    const __m256d zero = _mm256_setzero_pd();
    return (v8){_mm256_blendv_pd(x.lo, y.lo, _mm256_cmp_pd(s.lo, zero, _CMP_EQ_OQ)),
                _mm256_blendv_pd(x.hi, y.hi, _mm256_cmp_pd(s.hi, zero, _CMP_EQ_OQ))};
}

KIN_TEMPLATE v8 v8_count_differ(v8 a, v8 b)
{
    const __m256d one = _mm256_set1_pd(1.0);
    return (v8){_mm256_and_pd(one, _mm256_cmp_pd(a.lo, b.lo, _CMP_NEQ_UQ)),
                _mm256_and_pd(one, _mm256_cmp_pd(a.hi, b.hi, _CMP_NEQ_UQ))};
}

/* Eight all-ones words, then eight zero words: read from 8 - n they are a mask of n lanes. */
static const int32_t mask_words[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

KIN_TEMPLATE __m256i mask_i32x8(int32_t n)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(mask_words + 8 - n));
}

KIN_TEMPLATE __m256i mask_lo_i64x4(int32_t n)
{
    return _mm256_cvtepi32_epi64(_mm256_castsi256_si128(mask_i32x8(n)));
}

KIN_TEMPLATE __m256i mask_hi_i64x4(int32_t n)
{
    return _mm256_cvtepi32_epi64(_mm256_extracti128_si256(mask_i32x8(n), 1));
}

KIN_TEMPLATE v8 v8_keep_first(v8 x, int32_t n)
{
    return (v8){_mm256_and_pd(x.lo, _mm256_castsi256_pd(mask_lo_i64x4(n))),
                _mm256_and_pd(x.hi, _mm256_castsi256_pd(mask_hi_i64x4(n)))};
}

/* Four exponents sit in the upper parts of the 64-bit words, sign and all, so a shift of 32-bit
 * words brings them down; then the odd words are gathered. */
KIN_TEMPLATE __m256d split_f64x4(__m256d x, __m256d *exponent)
{
    const __m256i bits = _mm256_castpd_si256(x);
    const __m256i above = _mm256_sub_epi64(bits, _mm256_set1_epi64x(KIN_ROOT_HALF_BITS));
    const __m256i odd_words = _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7);
    const __m256i e_i32x8 = _mm256_permutevar8x32_epi32(_mm256_srai_epi32(above, 20), odd_words);
    const __m256i e_in_place = _mm256_and_si256(above, _mm256_set1_epi64x(-(INT64_C(1) << 52)));
    *exponent = _mm256_cvtepi32_pd(_mm256_castsi256_si128(e_i32x8));
    return _mm256_castsi256_pd(_mm256_sub_epi64(bits, e_in_place));
}

KIN_TEMPLATE v8 v8_split(v8 x, v8 *exponent)
{
    return (v8){split_f64x4(x.lo, &exponent->lo), split_f64x4(x.hi, &exponent->hi)};
}

KIN_TEMPLATE __m256d two_to_f64x4(__m256d n)
{
    const __m256d in_place = _mm256_add_pd(n, _mm256_set1_pd(KIN_WHOLE_EXPONENT));
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(in_place), 52));
}

KIN_TEMPLATE v8 v8_two_to(v8 n)
{
    return (v8){two_to_f64x4(n.lo), two_to_f64x4(n.hi)};
}

KIN_TEMPLATE double v8_sum(v8 x)
{
    const __m256d fours = _mm256_add_pd(x.lo, x.hi); /* 0+4 1+5 2+6 3+7 */
    const __m128d twos = _mm_add_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
    return _mm_cvtsd_f64(_mm_add_sd(twos, _mm_unpackhi_pd(twos, twos)));
}

KIN_TEMPLATE double v8_most(v8 x)
{
    const __m256d fours = _mm256_max_pd(x.lo, x.hi);
    const __m128d twos = _mm_max_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
    return _mm_cvtsd_f64(_mm_max_sd(twos, _mm_unpackhi_pd(twos, twos)));
}

KIN_TEMPLATE v8 v8_get(const double *at)
{
    return (v8){_mm256_load_pd(at), _mm256_load_pd(at + 4)};
}

KIN_TEMPLATE void v8_put(double *at, v8 x)
{
    _mm256_store_pd(at, x.lo);
    _mm256_store_pd(at + 4, x.hi);
}

/* ---- Loads: whole vectors, and the first n without reading behind them ---------------------- */

KIN_TEMPLATE v8 v8_of_f32x8(__m256 x)
{
    return (v8){_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

KIN_TEMPLATE v8 v8_of_i32x8(__m256i x)
{
    return (v8){_mm256_cvtepi32_pd(_mm256_castsi256_si128(x)),
                _mm256_cvtepi32_pd(_mm256_extracti128_si256(x, 1))};
}

/* Eight components of two bytes, or of one byte in the lower half, as the dtype has them. */
KIN_TEMPLATE v8 v8_of_packed(kith_dtype dtype, __m128i x)
{
    switch (dtype) {
    case KITH_F16:
        return v8_of_f32x8(_mm256_cvtph_ps(x));
    case KITH_BF16:
        return v8_of_f32x8(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)));
    case KITH_U8:
        return v8_of_i32x8(_mm256_cvtepu8_epi32(x));
    default:
        return v8_of_i32x8(_mm256_cvtepi8_epi32(x));
    }
}

KIN_TEMPLATE v8 v8_load(kith_dtype dtype, const char *data)
{
    const void *at = data;
    switch (dtype) {
    case KITH_F64:
        return (v8){_mm256_loadu_pd(at), _mm256_loadu_pd((const double *)at + 4)};
    case KITH_F32:
        return (v8){_mm256_cvtps_pd(_mm_loadu_ps(at)),
                    _mm256_cvtps_pd(_mm_loadu_ps((const float *)at + 4))};
    case KITH_F16:
    case KITH_BF16:
        return v8_of_packed(dtype, _mm_loadu_si128(at));
    default:
        return v8_of_packed(dtype, _mm_loadl_epi64(at));
    }
}

/* The first n < 16 bytes. */
KIN_TEMPLATE __m128i first_bytes_i8x16(const char *data, int32_t n)
{
    int64_t low = 0;
    if (n < 8) {
        return _mm_set_epi64x(0, (int64_t)first_bytes(data, n));
    }
    memcpy(&low, data, 8);
    return _mm_set_epi64x((int64_t)first_bytes(data + 8, n - 8), low);
}

KIN_TEMPLATE v8 v8_load_first(kith_dtype dtype, const char *data, int32_t n)
{
    const void *at = data;
    switch (dtype) {
    case KITH_F64:
        return (v8){_mm256_maskload_pd(at, mask_lo_i64x4(n)),
                    _mm256_maskload_pd((const double *)at + 4, mask_hi_i64x4(n))};
    case KITH_F32:
        return v8_of_f32x8(_mm256_maskload_ps(at, mask_i32x8(n)));
    case KITH_F16:
    case KITH_BF16:
        return v8_of_packed(dtype, first_bytes_i8x16(data, 2 * n));
    default:
        return v8_of_packed(dtype, first_bytes_i8x16(data, n));
    }
}

#include "metric/metric_lanes.h"

KIN_METRIC_TABLE(kin_metric_table_avx2)
#endif
