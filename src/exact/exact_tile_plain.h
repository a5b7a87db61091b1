/* SPDX-License-Identifier: Apache-2.0
 * 16 words that any compiler takes for a register: what portable kernels share, here and in
 * graph/. 2 rows x 16 points. */
#ifndef KIN_EXACT_TILE_PLAIN_H
#define KIN_EXACT_TILE_PLAIN_H

#include "exact/exact_tile.h"

#include <string.h>

#define TILE_NAME_(name, part) TILE_JOIN(name, part)
#define TILE_JOIN(name, part) name##_##part
#define TILE_ROWS 2
#define TILE_VECTORS 1
#define TILE_LANES 16

typedef struct vec {
    kin_word lane[16];
} vec;

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

static inline vec dot_s8(vec acc, uint32_t row, vec point)
{
    for (int lane = 0; lane < 16; lane++) {
        uint32_t sum = acc.lane[lane].u;
        for (int part = 0; part < 32; part += 8) {
            const int32_t a = (int8_t)(row >> part & 0xff);
            const int32_t b = (uint8_t)(point.lane[lane].u >> part & 0xff);
            sum += (uint32_t)(a * b);
        }
        acc.lane[lane].u = sum;
    }
    return acc;
}

static inline vec dot_s16(vec acc, uint32_t row, vec point)
{
    const int32_t a0 = (int16_t)(row & 0xffff);
    const int32_t a1 = (int16_t)(row >> 16);
    for (int lane = 0; lane < 16; lane++) {
        const int32_t b0 = (int16_t)(point.lane[lane].u & 0xffff);
        const int32_t b1 = (int16_t)(point.lane[lane].u >> 16);
        acc.lane[lane].u += (uint32_t)(a0 * b0) + (uint32_t)(a1 * b1);
    }
    return acc;
}

static inline vec dot_f32(vec acc, uint32_t row, vec point)
{
    const kin_word a = {.u = row};
    for (int lane = 0; lane < 16; lane++) {
        acc.lane[lane].f += a.f * point.lane[lane].f;
    }
    return acc;
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
