/* SPDX-License-Identifier: Apache-2.0
 * Contract: metric.h. Eight lanes in one register. The body itself is metric_lanes.h; this file is
 * its vocabulary for AVX-512 F, DQ, BW and VL. */
#if defined(__x86_64__)
#include "metric/metric_canonical.h"
#include "metric/metric_whole.h"

#include <immintrin.h>

typedef __m512d v8;

#define V8_OF_TWO(op)                   \
    KIN_TEMPLATE v8 v8_##op(v8 a, v8 b) \
    {                                   \
        return _mm512_##op##_pd(a, b);  \
    }

V8_OF_TWO(add)
V8_OF_TWO(sub)
V8_OF_TWO(mul)
V8_OF_TWO(div)
V8_OF_TWO(max)
V8_OF_TWO(min)

KIN_TEMPLATE v8 v8_set(double a)
{
    return _mm512_set1_pd(a);
}

KIN_TEMPLATE v8 v8_fma(v8 a, v8 b, v8 c)
{
    return _mm512_fmadd_pd(a, b, c);
}

KIN_TEMPLATE v8 v8_abs(v8 a)
{
    return _mm512_abs_pd(a);
}

KIN_TEMPLATE v8 v8_select(v8 s, v8 x, v8 y)
{
    return _mm512_mask_mov_pd(y, _mm512_cmp_pd_mask(s, _mm512_setzero_pd(), _CMP_NEQ_UQ), x);
}

KIN_TEMPLATE v8 v8_count_differ(v8 a, v8 b)
{
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ), _mm512_set1_pd(1.0));
}

KIN_TEMPLATE __mmask8 mask_of(int32_t n)
{
    return (__mmask8)((1u << n) - 1u);
}

KIN_TEMPLATE v8 v8_keep_first(v8 x, int32_t n)
{
    return _mm512_maskz_mov_pd(mask_of(n), x);
}

KIN_TEMPLATE v8 v8_split(v8 x, v8 *exponent)
{
    const __m512i bits = _mm512_castpd_si512(x);
    const __m512i above = _mm512_sub_epi64(bits, _mm512_set1_epi64(KIN_ROOT_HALF_BITS));
    const __m512i e = _mm512_srai_epi64(above, 52);
    *exponent = _mm512_cvtepi64_pd(e);
    return _mm512_castsi512_pd(_mm512_sub_epi64(bits, _mm512_slli_epi64(e, 52)));
}

KIN_TEMPLATE v8 v8_two_to(v8 n)
{
    const v8 in_place = _mm512_add_pd(n, _mm512_set1_pd(KIN_WHOLE_EXPONENT));
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(in_place), 52));
}

KIN_TEMPLATE double v8_sum(v8 x)
{
    const __m256d fours = _mm256_add_pd(_mm512_castpd512_pd256(x),
                                        _mm512_extractf64x4_pd(x, 1)); /* 0+4 1+5 2+6 3+7 */
    const __m128d twos = _mm_add_pd(_mm256_castpd256_pd128(fours), _mm256_extractf128_pd(fours, 1));
    return _mm_cvtsd_f64(_mm_add_sd(twos, _mm_unpackhi_pd(twos, twos)));
}

KIN_TEMPLATE double v8_most(v8 x)
{
    return _mm512_reduce_max_pd(x);
}

KIN_TEMPLATE v8 v8_get(const double *at)
{
    return _mm512_load_pd(at);
}

KIN_TEMPLATE void v8_put(double *at, v8 x)
{
    _mm512_store_pd(at, x);
}

/* ---- Loads: whole vectors, and the first n without reading behind them ---------------------- */

/* Eight components of two bytes, or of one byte in the lower half, as the dtype has them. */
KIN_TEMPLATE v8 v8_of_packed(kith_dtype dtype, __m128i x)
{
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16);
    switch (dtype) {
    case KITH_F16:
        return _mm512_cvtps_pd(_mm256_cvtph_ps(x));
    case KITH_BF16:
        return _mm512_cvtps_pd(_mm256_castsi256_ps(bits));
    case KITH_U8:
        return _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(x));
    default:
        return _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(x));
    }
}

KIN_TEMPLATE v8 v8_load(kith_dtype dtype, const char *data)
{
    const void *at = data;
    switch (dtype) {
    case KITH_F64:
        return _mm512_loadu_pd(at);
    case KITH_F32:
        return _mm512_cvtps_pd(_mm256_loadu_ps(at));
    case KITH_F16:
    case KITH_BF16:
        return v8_of_packed(dtype, _mm_loadu_si128(at));
    default:
        return v8_of_packed(dtype, _mm_loadl_epi64(at));
    }
}

KIN_TEMPLATE v8 v8_load_first(kith_dtype dtype, const char *data, int32_t n)
{
    const void *at = data;
    switch (dtype) {
    case KITH_F64:
        return _mm512_maskz_loadu_pd(mask_of(n), at);
    case KITH_F32:
        return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask_of(n), at));
    case KITH_F16:
    case KITH_BF16:
        return v8_of_packed(dtype, _mm_maskz_loadu_epi16(mask_of(n), at));
    default:
        return v8_of_packed(dtype, _mm_maskz_loadu_epi8((__mmask16)mask_of(n), at));
    }
}

#include "metric/metric_lanes.h"

KIN_METRIC_TABLE(kin_metric_table_avx512)
#endif
