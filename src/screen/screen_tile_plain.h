/* SPDX-License-Identifier: Apache-2.0
 * 16 words that any compiler takes for a register: what portable kernels share, here and in
 * graph/. 2 rows x 16 points. */
#ifndef KIN_SCREEN_TILE_PLAIN_H
#define KIN_SCREEN_TILE_PLAIN_H

#include "screen/screen_tile.h"

#include <string.h>

#define TILE_ROWS 2
#define TILE_VECTORS 1
#define TILE_LANES 16
#define TILE_MACHINE portable
#define TILE_ISA KIN_ISA_PORTABLE
#define TILE_SPLAT uint32_t /* a broadcast word stays a word here: `row` is not a vector */
#define KIND_s8 int
#define KIND_s16 int
#define KIND_f32 float

typedef struct vec {
    kin_word lane[16];
} vec;

/* Registers of both kinds are the same. */
typedef vec vec_int;
typedef vec vec_float;
#define load_int load
#define load_float load
#define splat_int splat
#define splat_float splat
#define store_int store
#define store_float store

static inline vec load(const void *words)
{
    vec r;
    memcpy(&r, words, sizeof r);
    return r;
}

static inline uint32_t splat(const void *word)
{
    uint32_t r;
    memcpy(&r, word, sizeof r);
    return r;
}

static inline void store(void *words, vec value)
{
    memcpy(words, &value, sizeof value);
}

static inline kin_word multiply_s8(kin_word acc, uint32_t row, uint32_t point)
{
    for (int part = 0; part < 32; part += 8) {
        const int32_t a = (int8_t)(row >> part & 0xff);
        const int32_t b = (uint8_t)(point >> part & 0xff);
        acc.u += (uint32_t)(a * b);
    }
    return acc;
}

static inline kin_word multiply_s16(kin_word acc, uint32_t row, uint32_t point)
{
    const int32_t low = (int16_t)(row & 0xffff) * (int16_t)(point & 0xffff);
    const int32_t high = (int16_t)(row >> 16) * (int16_t)(point >> 16);
    acc.u += (uint32_t)low + (uint32_t)high;
    return acc;
}

static inline kin_word multiply_f32(kin_word acc, uint32_t row, uint32_t point)
{
    const kin_word a = {.u = row};
    const kin_word b = {.u = point};
    acc.f += a.f * b.f;
    return acc;
}

/* dot: one word of the row for all lanes; pair: a word for each, which
 * lies as points do (s8: 128 too large). */
#define TILE_PLAIN(name, flip)                                                                  \
    static inline vec dot_##name(vec acc, uint32_t row, vec point)                              \
    {                                                                                           \
        for (int lane = 0; lane < TILE_LANES; lane++) {                                         \
            acc.lane[lane] = multiply_##name(acc.lane[lane], row, point.lane[lane].u);          \
        }                                                                                       \
        return acc;                                                                             \
    }                                                                                           \
    static inline vec pair_##name(vec acc, vec row, vec point)                                  \
    {                                                                                           \
        for (int lane = 0; lane < TILE_LANES; lane++) {                                         \
            acc.lane[lane] =                                                                    \
                multiply_##name(acc.lane[lane], row.lane[lane].u ^ (flip), point.lane[lane].u); \
        }                                                                                       \
        return acc;                                                                             \
    }
TILE_PLAIN(s8, 0x80808080u)
TILE_PLAIN(s16, 0)
TILE_PLAIN(f32, 0)
#undef TILE_PLAIN

static inline void sums_int(kin_word *words, const vec *v)
{
    for (int i = 0; i < 4; i++) {
        words[i].u = 0;
        for (int lane = 0; lane < TILE_LANES; lane++) {
            words[i].u += v[i].lane[lane].u;
        }
    }
}

static inline void sums_float(kin_word *words, const vec *v)
{
    for (int i = 0; i < 4; i++) {
        words[i].f = 0.0F;
        for (int lane = 0; lane < TILE_LANES; lane++) {
            words[i].f += v[i].lane[lane].f;
        }
    }
}

static inline uint32_t pass_int(vec acc, uint32_t test)
{
    const kin_word t = {.u = test};
    uint32_t mask = 0;
    for (int lane = 0; lane < 16; lane++) {
        mask |= (uint32_t)(acc.lane[lane].i >= t.i) << lane;
    }
    return mask;
}

static inline uint32_t pass_float(vec acc, uint32_t test)
{
    const kin_word t = {.u = test};
    uint32_t mask = 0;
    for (int lane = 0; lane < 16; lane++) {
        mask |= (uint32_t) !(acc.lane[lane].f < t.f) << lane;
    }
    return mask;
}

#endif
