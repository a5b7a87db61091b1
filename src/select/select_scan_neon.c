/* SPDX-License-Identifier: Apache-2.0
 * Scan for NEON: eight floats or four doubles in two registers; masks are lanes' own bits, added
 * up. Contract: select_scan.h. */
#if defined(__aarch64__)
#include "select/select_scan.h"

#include <arm_neon.h>
#include <math.h>

/* Two registers of a lane's type, and what is done to both alike: v, a register as its functions
 * are called; u, the same of bits. */
#define SCAN_PAIR(lane, half, v, u)                                                    \
    typedef struct vec_##lane {                                                        \
        half low;                                                                      \
        half high;                                                                     \
    } vec_##lane;                                                                      \
    static inline vec_##lane splat_##lane(lane x)                                      \
    {                                                                                  \
        return (vec_##lane){vdupq_n_##v(x), vdupq_n_##v(x)};                           \
    }                                                                                  \
    static inline vec_##lane read_##lane(const lane *at)                               \
    {                                                                                  \
        return (vec_##lane){vld1q_##v(at), vld1q_##v(at + sizeof(half) / sizeof *at)}; \
    }                                                                                  \
    static inline void store_##lane(lane *at, vec_##lane x)                            \
    {                                                                                  \
        vst1q_##v(at, x.low);                                                          \
        vst1q_##v(at + sizeof(half) / sizeof *at, x.high);                             \
    }                                                                                  \
    static inline vec_##lane load_##v(const char *at)                                  \
    {                                                                                  \
        return read_##lane((const lane *)(const void *)at);                            \
    }                                                                                  \
    static inline half turn_half_##lane(half x, half flip)                             \
    {                                                                                  \
        return vreinterpretq_##v##_##u(                                                \
            veorq_##u(vreinterpretq_##u##_##v(x), vreinterpretq_##u##_##v(flip)));     \
    }                                                                                  \
    static inline vec_##lane turn_##lane(vec_##lane x, vec_##lane flip)                \
    {                                                                                  \
        return (vec_##lane){turn_half_##lane(x.low, flip.low),                         \
                            turn_half_##lane(x.high, flip.high)};                      \
    }                                                                                  \
    static inline vec_##lane flip_##lane(bool largest)                                 \
    {                                                                                  \
        return splat_##lane(largest ? (lane)-0.0 : (lane)0.0);                         \
    }                                                                                  \
    static inline half min_half_##lane(half x, half least)                             \
    {                                                                                  \
        return vbslq_##v(vcltq_##v(x, least), x, least);                               \
    }                                                                                  \
    static inline vec_##lane min_##lane(vec_##lane x, vec_##lane least)                \
    {                                                                                  \
        return (vec_##lane){min_half_##lane(x.low, least.low),                         \
                            min_half_##lane(x.high, least.high)};                      \
    }

enum { lanes_float = 8, lanes_double = 4 };
SCAN_PAIR(float, float32x4_t, f32, u32)
SCAN_PAIR(double, float64x2_t, f64, u64)

static inline vec_float load_f16(const char *at)
{
    const float16x8_t x = vreinterpretq_f16_u16(vld1q_u16((const void *)at));
    return (vec_float){vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}

static inline vec_float load_bf16(const char *at)
{
    const uint16x8_t x = vld1q_u16((const void *)at);
    const uint16x8_t zero = vdupq_n_u16(0);
    return (vec_float){vreinterpretq_f32_u16(vzip1q_u16(zero, x)),
                       vreinterpretq_f32_u16(vzip2q_u16(zero, x))};
}

static inline uint32_t below_float(vec_float x, vec_float t)
{
    static const uint16_t places[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t below = vuzp1q_u16(vreinterpretq_u16_u32(vcleq_f32(x.low, t.low)),
                                        vreinterpretq_u16_u32(vcleq_f32(x.high, t.high)));
    return vaddvq_u16(vandq_u16(below, vld1q_u16(places)));
}

static inline uint32_t below_double(vec_double x, vec_double t)
{
    static const uint32_t places[4] = {1, 2, 4, 8};
    const uint32x4_t below = vuzp1q_u32(vreinterpretq_u32_u64(vcleq_f64(x.low, t.low)),
                                        vreinterpretq_u32_u64(vcleq_f64(x.high, t.high)));
    return vaddvq_u32(vandq_u32(below, vld1q_u32(places)));
}

#include "select/select_scan_types.inc"

SCAN_MACHINE(neon, 48);
#endif
