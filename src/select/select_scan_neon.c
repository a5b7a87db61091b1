/* SPDX-License-Identifier: Apache-2.0
 * Scan for NEON: eight floats or four doubles in two registers; masks are lanes' own bits, added
 * up. Contract: select_scan.h. */
#if defined(__aarch64__)
#include "select/select_scan.h"

#include <arm_neon.h>
#include <math.h>

/* ---- 8 floats ------------------------------------------------------------------------------- */

typedef struct f32x8 {
    float32x4_t low;
    float32x4_t high;
} f32x8;

static inline f32x8 splat_f32x8(float x)
{
    return (f32x8){vdupq_n_f32(x), vdupq_n_f32(x)};
}

static inline f32x8 read_f32x8(const float *at)
{
    return (f32x8){vld1q_f32(at), vld1q_f32(at + 4)};
}

static inline void store_f32x8(float *at, f32x8 x)
{
    vst1q_f32(at, x.low);
    vst1q_f32(at + 4, x.high);
}

static inline f32x8 load_f32(const char *at)
{
    return read_f32x8((const float *)(const void *)at);
}

static inline f32x8 load_f16(const char *at)
{
    const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16((const void *)at));
    return (f32x8){vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}

static inline f32x8 load_bf16(const char *at)
{
    const uint16x8_t x = vld1q_u16((const void *)at);
    const uint16x8_t zero = vdupq_n_u16(0);
    return (f32x8){vreinterpretq_f32_u16(vzip1q_u16(zero, x)),
                   vreinterpretq_f32_u16(vzip2q_u16(zero, x))};
}

static inline float32x4_t turn_f32x4(float32x4_t x, float32x4_t flip)
{
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), vreinterpretq_u32_f32(flip)));
}

static inline f32x8 turn_f32x8(f32x8 x, f32x8 flip)
{
    return (f32x8){turn_f32x4(x.low, flip.low), turn_f32x4(x.high, flip.high)};
}

static inline f32x8 flip_f32x8(bool largest)
{
    return splat_f32x8(largest ? -0.0F : 0.0F);
}

static inline float32x4_t min_f32x4(float32x4_t x, float32x4_t least)
{
    return vbslq_f32(vcltq_f32(x, least), x, least);
}

static inline f32x8 min_f32x8(f32x8 x, f32x8 least)
{
    return (f32x8){min_f32x4(x.low, least.low), min_f32x4(x.high, least.high)};
}

static inline uint32_t below_f32x8(f32x8 x, f32x8 t)
{
    static const uint16_t places[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t below = vuzp1q_u16(vreinterpretq_u16_u32(vcleq_f32(x.low, t.low)),
                                        vreinterpretq_u16_u32(vcleq_f32(x.high, t.high)));
    return vaddvq_u16(vandq_u16(below, vld1q_u16(places)));
}

#define vec f32x8
#define lane float
#define LANES 8
#define VEC_SPLAT splat_f32x8
#define VEC_READ read_f32x8
#define VEC_STORE store_f32x8
#define VEC_FLIP flip_f32x8
#define VEC_TURN turn_f32x8
#define VEC_MIN min_f32x8
#define VEC_BELOW below_f32x8

#define CELLS(what) what##_f32x8
#include "select/select_scan_types.inc"

/* ---- 4 doubles ------------------------------------------------------------------------------ */

typedef struct f64x4 {
    float64x2_t low;
    float64x2_t high;
} f64x4;

static inline f64x4 splat_f64x4(double x)
{
    return (f64x4){vdupq_n_f64(x), vdupq_n_f64(x)};
}

static inline f64x4 read_f64x4(const double *at)
{
    return (f64x4){vld1q_f64(at), vld1q_f64(at + 2)};
}

static inline void store_f64x4(double *at, f64x4 x)
{
    vst1q_f64(at, x.low);
    vst1q_f64(at + 2, x.high);
}

static inline f64x4 load_f64(const char *at)
{
    return read_f64x4((const double *)(const void *)at);
}

static inline float64x2_t turn_f64x2(float64x2_t x, float64x2_t flip)
{
    return vreinterpretq_f64_u64(veorq_u64(vreinterpretq_u64_f64(x), vreinterpretq_u64_f64(flip)));
}

static inline f64x4 turn_f64x4(f64x4 x, f64x4 flip)
{
    return (f64x4){turn_f64x2(x.low, flip.low), turn_f64x2(x.high, flip.high)};
}

static inline f64x4 flip_f64x4(bool largest)
{
    return splat_f64x4(largest ? -0.0 : 0.0);
}

static inline float64x2_t min_f64x2(float64x2_t x, float64x2_t least)
{
    return vbslq_f64(vcltq_f64(x, least), x, least);
}

static inline f64x4 min_f64x4(f64x4 x, f64x4 least)
{
    return (f64x4){min_f64x2(x.low, least.low), min_f64x2(x.high, least.high)};
}

static inline uint32_t below_f64x4(f64x4 x, f64x4 t)
{
    static const uint32_t places[4] = {1, 2, 4, 8};
    const uint32x4_t below = vuzp1q_u32(vreinterpretq_u32_u64(vcleq_f64(x.low, t.low)),
                                        vreinterpretq_u32_u64(vcleq_f64(x.high, t.high)));
    return vaddvq_u32(vandq_u32(below, vld1q_u32(places)));
}

#define vec f64x4
#define lane double
#define LANES 4
#define VEC_SPLAT splat_f64x4
#define VEC_READ read_f64x4
#define VEC_STORE store_f64x4
#define VEC_FLIP flip_f64x4
#define VEC_TURN turn_f64x4
#define VEC_MIN min_f64x4
#define VEC_BELOW below_f64x4

#define CELLS(what) what##_f64x4
#define SCAN_DOUBLES
#include "select/select_scan_types.inc"

SCAN_MACHINE(neon, 48, f32x8, 8, f64x4, 4);
#endif
