/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels in plain C: the reference of the others, and what runs where nothing better does.
 * Contract: exact_tile.h. */
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_machines.h"

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

/* A broadcast word stays a word here: `row` in the body is not a vector. */
#define TILE_SPLAT uint32_t
#define VEC_LOAD load
#define VEC_SPLAT splat
#define VEC_STORE store

#define TILE_NAME s8
#define TILE_FLOAT 0
#define TILE_FLIP 0x80808080u
#define VEC_DOT dot_s8
#define VEC_PASS pass_int
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLIP
#undef VEC_DOT

#define TILE_NAME s16
#define TILE_FLIP 0u
#define VEC_DOT dot_s16
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLOAT
#undef VEC_DOT
#undef VEC_PASS

#define TILE_NAME f32
#define TILE_FLOAT 1
#define VEC_DOT dot_f32
#define VEC_PASS pass_float
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_s8_portable = {
    "s8 portable", KIN_TILE_S8, KIN_ISA_PORTABLE, TILE_ROWS, 1, s8_pack, s8_run};
const kin_tile_kernel kin_tile_s16_portable = {
    "s16 portable", KIN_TILE_S16, KIN_ISA_PORTABLE, TILE_ROWS, 1, s16_pack, s16_run};
const kin_tile_kernel kin_tile_f32_portable = {
    "f32 portable", KIN_TILE_F32, KIN_ISA_PORTABLE, TILE_ROWS, 1, f32_pack, f32_run};
