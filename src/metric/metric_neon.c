/* SPDX-License-Identifier: Apache-2.0
 * Contract: metric.h. Eight lanes in four registers, two each. The body itself is metric_lanes.h;
 * this file is its vocabulary for NEON. */
#if defined(__aarch64__)
#include "metric/metric_canonical.h"
#include "metric/metric_whole.h"

#include <arm_neon.h>

typedef struct v8 {
    float64x2_t of[4];
} v8;

/* Each of the four registers, by the function of two. */
#define V8_OF_TWO(name, function)                                              \
    KIN_TEMPLATE v8 name(v8 a, v8 b)                                           \
    {                                                                          \
        return (v8){{function(a.of[0], b.of[0]), function(a.of[1], b.of[1]),   \
                     function(a.of[2], b.of[2]), function(a.of[3], b.of[3])}}; \
    }
#define V8_OF_THREE(name, function)                                                              \
    KIN_TEMPLATE v8 name(v8 a, v8 b, v8 c)                                                       \
    {                                                                                            \
        return (v8){{function(a.of[0], b.of[0], c.of[0]), function(a.of[1], b.of[1], c.of[1]),   \
                     function(a.of[2], b.of[2], c.of[2]), function(a.of[3], b.of[3], c.of[3])}}; \
    }

/* The larger, and of equal ones the second, as kin_max has it: fmax would prefer +0 to -0. */
KIN_TEMPLATE float64x2_t max_f64x2(float64x2_t a, float64x2_t b)
{
    return vbslq_f64(vcgtq_f64(a, b), a, b);
}

KIN_TEMPLATE float64x2_t min_f64x2(float64x2_t a, float64x2_t b)
{
    return vbslq_f64(vcltq_f64(a, b), a, b);
}

KIN_TEMPLATE float64x2_t fma_f64x2(float64x2_t a, float64x2_t b, float64x2_t c)
{
    return vfmaq_f64(c, a, b);
}

KIN_TEMPLATE float64x2_t select_f64x2(float64x2_t s, float64x2_t x, float64x2_t y)
{
    return vbslq_f64(vceqzq_f64(s), y, x);
}

KIN_TEMPLATE float64x2_t differ_f64x2(float64x2_t a, float64x2_t b)
{
    const uint64x2_t one = vreinterpretq_u64_f64(vdupq_n_f64(1.0));
    return vreinterpretq_f64_u64(vbicq_u64(one, vceqq_f64(a, b)));
}

V8_OF_TWO(v8_add, vaddq_f64)
V8_OF_TWO(v8_sub, vsubq_f64)
V8_OF_TWO(v8_mul, vmulq_f64)
V8_OF_TWO(v8_div, vdivq_f64)
V8_OF_TWO(v8_max, max_f64x2)
V8_OF_TWO(v8_min, min_f64x2)
V8_OF_TWO(v8_count_differ, differ_f64x2)
V8_OF_THREE(v8_fma, fma_f64x2)
V8_OF_THREE(v8_select, select_f64x2)

KIN_TEMPLATE v8 v8_set(double a)
{
    const float64x2_t all = vdupq_n_f64(a);
    return (v8){{all, all, all, all}};
}

KIN_TEMPLATE v8 v8_abs(v8 a)
{
    return (v8){{vabsq_f64(a.of[0]), vabsq_f64(a.of[1]), vabsq_f64(a.of[2]), vabsq_f64(a.of[3])}};
}

/* Eight all-ones words, then eight zero words: read from 8 - n they are a mask of n lanes. */
static const int64_t mask_words[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

KIN_TEMPLATE float64x2_t keep_f64x2(float64x2_t x, const int64_t *mask)
{
    return vreinterpretq_f64_s64(vandq_s64(vreinterpretq_s64_f64(x), vld1q_s64(mask)));
}

KIN_TEMPLATE v8 v8_keep_first(v8 x, int32_t n)
{
    const int64_t *mask = mask_words + 8 - n;
    return (v8){{keep_f64x2(x.of[0], mask), keep_f64x2(x.of[1], mask + 2),
                 keep_f64x2(x.of[2], mask + 4), keep_f64x2(x.of[3], mask + 6)}};
}

/* Two exponents are what stands above the fractions, sign and all. */
KIN_TEMPLATE float64x2_t split_f64x2(float64x2_t x, float64x2_t *exponent)
{
    const int64x2_t bits = vreinterpretq_s64_f64(x);
    const int64x2_t above = vsubq_s64(bits, vdupq_n_s64(KIN_ROOT_HALF_BITS));
    const int64x2_t in_place = vandq_s64(above, vdupq_n_s64(-(INT64_C(1) << 52)));
    *exponent = vcvtq_f64_s64(vshrq_n_s64(above, 52));
    return vreinterpretq_f64_s64(vsubq_s64(bits, in_place));
}

KIN_TEMPLATE v8 v8_split(v8 x, v8 *exponent)
{
    return (v8){{split_f64x2(x.of[0], &exponent->of[0]), split_f64x2(x.of[1], &exponent->of[1]),
                 split_f64x2(x.of[2], &exponent->of[2]), split_f64x2(x.of[3], &exponent->of[3])}};
}

KIN_TEMPLATE float64x2_t two_to_f64x2(float64x2_t n)
{
    const float64x2_t in_place = vaddq_f64(n, vdupq_n_f64(KIN_WHOLE_EXPONENT));
    return vreinterpretq_f64_u64(vshlq_n_u64(vreinterpretq_u64_f64(in_place), 52));
}

KIN_TEMPLATE v8 v8_two_to(v8 n)
{
    return (v8){{two_to_f64x2(n.of[0]), two_to_f64x2(n.of[1]), two_to_f64x2(n.of[2]),
                 two_to_f64x2(n.of[3])}};
}

KIN_TEMPLATE double v8_sum(v8 x)
{
    const float64x2_t low = vaddq_f64(x.of[0], x.of[2]);  /* 0+4 1+5 */
    const float64x2_t high = vaddq_f64(x.of[1], x.of[3]); /* 2+6 3+7 */
    return vpaddd_f64(vaddq_f64(low, high));
}

KIN_TEMPLATE double v8_most(v8 x)
{
    const float64x2_t low = max_f64x2(x.of[0], x.of[2]);
    const float64x2_t high = max_f64x2(x.of[1], x.of[3]);
    const float64x2_t both = max_f64x2(low, high);
    return kin_max(vgetq_lane_f64(both, 0), vgetq_lane_f64(both, 1));
}

KIN_TEMPLATE v8 v8_get(const double *at)
{
    return (v8){{vld1q_f64(at), vld1q_f64(at + 2), vld1q_f64(at + 4), vld1q_f64(at + 6)}};
}

KIN_TEMPLATE void v8_put(double *at, v8 x)
{
    for (int i = 0; i < 4; i++) {
        vst1q_f64(at + 2 * i, x.of[i]);
    }
}

/* ---- Loads: whole vectors, and the first n without reading behind them ---------------------- */

KIN_TEMPLATE v8 v8_of_f32x8(float32x4_t low, float32x4_t high)
{
    return (v8){{vcvt_f64_f32(vget_low_f32(low)), vcvt_high_f64_f32(low),
                 vcvt_f64_f32(vget_low_f32(high)), vcvt_high_f64_f32(high)}};
}

/* Eight integers of 16 bits are floats as they are. */
KIN_TEMPLATE v8 v8_of_i16x8(int16x8_t x)
{
    return v8_of_f32x8(vcvtq_f32_s32(vmovl_s16(vget_low_s16(x))), vcvtq_f32_s32(vmovl_high_s16(x)));
}

KIN_TEMPLATE v8 v8_load(kith_dtype dtype, const char *data)
{
    const void *at = data;
    switch (dtype) {
    case KITH_F64:
        return v8_get(at);
    case KITH_F32:
        return v8_of_f32x8(vld1q_f32(at), vld1q_f32((const float *)at + 4));
    case KITH_F16: {
        const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(at));
        return v8_of_f32x8(vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x));
    }
    case KITH_BF16: {
        const uint16x8_t x = vld1q_u16(at);
        const uint16x8_t zero = vdupq_n_u16(0);
        return v8_of_f32x8(vreinterpretq_f32_u16(vzip1q_u16(zero, x)),
                           vreinterpretq_f32_u16(vzip2q_u16(zero, x)));
    }
    case KITH_U8:
        return v8_of_i16x8(vreinterpretq_s16_u16(vmovl_u8(vld1_u8(at))));
    default:
        return v8_of_i16x8(vmovl_s8(vld1_s8(at)));
    }
}

/* A row's end is copied to where there are zeros behind it: once a row. */
KIN_TEMPLATE v8 v8_load_first(kith_dtype dtype, const char *data, int32_t n)
{
    char room[KIN_METRIC_LANES * sizeof(double)] = {0};
    const size_t bytes = dtype == KITH_F64 ? 8 : dtype == KITH_F32 ? 4 : dtype <= KITH_BF16 ? 2 : 1;
    memcpy(room, data, (size_t)n * bytes);
    return v8_load(dtype, room);
}

#include "metric/metric_lanes.h"

KIN_METRIC_TABLE(kin_metric_table_neon)
#endif
