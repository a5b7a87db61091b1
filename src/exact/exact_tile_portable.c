/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels in plain C: the reference of the others, and what runs where nothing better does.
 * Contract: exact_tile.h. */
#include "exact/exact_tile.h"
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_plain.h"

/* A broadcast word stays a word here: `row` in the body is not a vector. */
#define TILE_SPLAT uint32_t
#define VEC_LOAD load
#define VEC_SPLAT splat
#define VEC_STORE store

#define TILE_NAME s8
#define TILE_FLOAT 0
#define TILE_FLIP 0x80808080u
#define VEC_DOT dot_s8
#define VEC_PAIR pair_s8
#define VEC_PASS pass_int
#define VEC_SUMS sums_int
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLIP
#undef VEC_DOT
#undef VEC_PAIR

#define TILE_NAME s16
#define TILE_FLIP 0u
#define VEC_DOT dot_s16
#define VEC_PAIR pair_s16
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLOAT
#undef VEC_DOT
#undef VEC_PAIR
#undef VEC_PASS
#undef VEC_SUMS

#define TILE_NAME f32
#define TILE_FLOAT 1
#define VEC_DOT dot_f32
#define VEC_PAIR pair_f32
#define VEC_PASS pass_float
#define VEC_SUMS sums_float
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_s8_portable = {
    "s8 portable", KIN_TILE_S8, KIN_ISA_PORTABLE, TILE_ROWS, 1, s8_pack, s8_run, s8_lines, 1.0};
const kin_tile_kernel kin_tile_s16_portable = {
    "s16 portable", KIN_TILE_S16, KIN_ISA_PORTABLE, TILE_ROWS, 1,
    s16_pack,       s16_run,      s16_lines,        1.0};
const kin_tile_kernel kin_tile_f32_portable = {
    "f32 portable", KIN_TILE_F32, KIN_ISA_PORTABLE, TILE_ROWS, 1,
    f32_pack,       f32_run,      f32_lines,        1.0};
