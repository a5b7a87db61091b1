/* SPDX-License-Identifier: Apache-2.0
 * 4 numbers in a register of NEON: what kernels for ARM share, here and in graph/. 6 rows x 16
 * points stand in 24 of the 32 registers. Included only where ARM's intrinsics are. */
#ifndef KIN_SCREEN_TILE_NEON_H
#define KIN_SCREEN_TILE_NEON_H

#include "screen/screen_tile.h"

#include <arm_neon.h>
#include <stdint.h>

#define TILE_VECTORS 4
#define TILE_LANES 4
#define TILE_WHOLE_PANELS
#define TILE_SPLAT TILE_VEC
#define KIND_s8 i32x4
#define KIND_s16 halves
#define KIND_f32 f32x4
#define TILE_ROWS TILE_NAME_(ROWS, TILE_NAME)
#define ROWS_s8 6
#define ROWS_s16 3
#define ROWS_f32 6
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define TILE_MACHINE i8mm
#define TILE_ISA KIN_ISA_I8MM
#elif defined(__ARM_FEATURE_DOTPROD)
#define TILE_MACHINE dotprod
#define TILE_ISA KIN_ISA_DOTPROD
#else
#define TILE_MACHINE neon
#define TILE_ISA KIN_ISA_NEON
#endif

typedef int32x4_t vec_i32x4;
typedef float32x4_t vec_f32x4;

static inline int32x4_t load_i32x4(const void *words)
{
    return vld1q_s32(words);
}

static inline int32x4_t splat_i32x4(const void *word)
{
    return vld1q_dup_s32(word);
}

static inline void store_i32x4(void *words, int32x4_t value)
{
    vst1q_s32(words, value);
}

static inline void sums_i32x4(void *words, const int32x4_t *v)
{
    vst1q_s32(words, vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3])));
}

/* A bit for each of 16 lanes that are all ones or zero. There is no instruction for it, and mostly
 * all are zero: half a byte a lane says whether. */
static inline uint32_t bits_of_panel(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d)
{
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b));
    const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(c), vreinterpretq_u16_u32(d));
    const uint8x16_t all = vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high));
    const uint8x8_t halves = vshrn_n_u16(vreinterpretq_u16_u8(all), 4);
    if (__builtin_expect(vget_lane_u64(vreinterpret_u64_u8(halves), 0) == 0, 1)) {
        return 0;
    }
    const uint8x16_t bits = vandq_u8(all, vld1q_u8(places));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

static inline uint32_t pass_i32x4(const int32x4_t *acc, int32x4_t test)
{
    return bits_of_panel(vcgeq_s32(acc[0], test), vcgeq_s32(acc[1], test), vcgeq_s32(acc[2], test),
                         vcgeq_s32(acc[3], test));
}

/* ---- Sums of two s16 ------------------------------------------------------------------------ */

/* A product of two components takes a lane of its own: sums are of 4 points in two registers, and a
 * point's two halves are added up at the end. Points lie in `low`. 3 rows x 16 points. */
typedef struct vec_halves {
    int32x4_t low;
    int32x4_t high;
} vec_halves;

static inline vec_halves load_halves(const void *words)
{
    const int32x4_t all = vld1q_s32(words);
    const int32x4_t zero = vdupq_n_s32(0);
    return (vec_halves){vzip1q_s32(all, zero), vzip2q_s32(all, zero)};
}

static inline vec_halves load_points_s16(const void *words)
{
    return (vec_halves){vld1q_s32(words), vdupq_n_s32(0)};
}

static inline int32x4_t whole_i32x4(vec_halves sums)
{
    return vpaddq_s32(sums.low, sums.high);
}

static inline void store_halves(void *words, vec_halves sums)
{
    vst1q_s32(words, whole_i32x4(sums));
}

static inline vec_halves splat_halves(const void *word)
{
    return (vec_halves){vld1q_dup_s32(word), vdupq_n_s32(0)};
}

#define pair_s16 dot_s16
static inline vec_halves dot_s16(vec_halves acc, vec_halves row, vec_halves point)
{
    const int16x8_t x = vreinterpretq_s16_s32(row.low);
    const int16x8_t y = vreinterpretq_s16_s32(point.low);
    return (vec_halves){vmlal_s16(acc.low, vget_low_s16(x), vget_low_s16(y)),
                        vmlal_high_s16(acc.high, x, y)};
}

static inline void sums_halves(void *words, const vec_halves *v)
{
    int32x4_t whole[4];
    for (int i = 0; i < 4; i++) {
        whole[i] = whole_i32x4(v[i]);
    }
    sums_i32x4(words, whole);
}

static inline uint32_t pass_halves(const vec_halves *acc, vec_halves test)
{
    const int32x4_t whole[4] = {whole_i32x4(acc[0]), whole_i32x4(acc[1]), whole_i32x4(acc[2]),
                                whole_i32x4(acc[3])};
    return pass_i32x4(whole, test.low);
}

/* ---- Floats --------------------------------------------------------------------------------- */

static inline float32x4_t load_f32x4(const void *words)
{
    return vld1q_f32(words);
}

static inline float32x4_t splat_f32x4(const void *word)
{
    return vld1q_dup_f32(word);
}

static inline void store_f32x4(void *words, float32x4_t value)
{
    vst1q_f32(words, value);
}

#define pair_f32 dot_f32
static inline float32x4_t dot_f32(float32x4_t acc, float32x4_t row, float32x4_t point)
{
    return vfmaq_f32(acc, row, point);
}

static inline void sums_f32x4(void *words, const float32x4_t *v)
{
    vst1q_f32(words, vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3])));
}

static inline uint32_t pass_f32x4(const float32x4_t *acc, float32x4_t test)
{
    return bits_of_panel(vmvnq_u32(vcltq_f32(acc[0], test)), vmvnq_u32(vcltq_f32(acc[1], test)),
                         vmvnq_u32(vcltq_f32(acc[2], test)), vmvnq_u32(vcltq_f32(acc[3], test)));
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* Rows are signed, points are 128 too large. Where one instruction multiplies such bytes, that is
 * the one; with dot products of bytes of one sign, 128 is taken away from points, and what then
 * lacks, 128 times the row's sum, is what sums begin with. */
#if defined(__ARM_FEATURE_MATMUL_INT8)
static inline int32x4_t dot_s8(int32x4_t acc, int32x4_t row, int32x4_t point)
{
    return vusdotq_s32(acc, vreinterpretq_u8_s32(point), vreinterpretq_s8_s32(row));
}
#elif defined(__ARM_FEATURE_DOTPROD)
static inline int8x16_t signed_of(int32x4_t points)
{
    return vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_s32(points), vdupq_n_u8(0x80)));
}

static inline int32x4_t dot_s8(int32x4_t acc, int32x4_t row, int32x4_t point)
{
    return vdotq_s32(acc, vreinterpretq_s8_s32(row), signed_of(point));
}

/* words: a multiple of four. */
static inline int32x4_t begin_s8(const uint32_t *row, int64_t words)
{
    int32x4_t sums = vdupq_n_s32(0);
    for (int64_t g = 0; g < words; g += TILE_LANES) {
        sums = vdotq_s32(sums, vreinterpretq_s8_u32(vld1q_u32(row + g)), vdupq_n_s8(1));
    }
    return vshlq_n_s32(vdupq_n_s32(vaddvq_s32(sums)), 7);
}
#endif

#endif
