/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AVX-512 without VNNI. Contract: exact_tile.h.
 *
 * s16 takes an instruction for products and one for sums, on the two ports that fp32 fma needs one
 * of: the same rate as f32, in half the memory and without rounding. */
#if defined(__x86_64__)
#include "exact/exact_tile.h"
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_zmm.h"

#define TILE_FLIP 0u
#define TILE_NAME s16
#define TILE_FLOAT 0
#define vec __m512i
#define TILE_SPLAT __m512i
#define VEC_LOAD load_i32x16
#define VEC_SUMS sums_i32x16
#define VEC_SPLAT splat_i32x16
#define VEC_STORE store_i32x16
#define VEC_DOT dot_s16
#define VEC_PAIR dot_s16
#define VEC_PASS pass_i32x16
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLOAT
#undef vec
#undef TILE_SPLAT
#undef VEC_LOAD
#undef VEC_SUMS
#undef VEC_SPLAT
#undef VEC_STORE
#undef VEC_DOT
#undef VEC_PAIR
#undef VEC_PASS

#define TILE_NAME f32
#define TILE_FLOAT 1
#define vec __m512
#define TILE_SPLAT __m512
#define VEC_LOAD load_f32x16
#define VEC_SUMS sums_f32x16
#define VEC_SPLAT splat_f32x16
#define VEC_STORE store_f32x16
#define VEC_DOT dot_f32
#define VEC_PAIR dot_f32
#define VEC_PASS pass_f32x16
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_s16_avx512 = {
    "s16 avx512", KIN_TILE_S16, KIN_ISA_AVX512, TILE_ROWS, 1, s16_pack, s16_run, s16_lines, 1.0};
const kin_tile_kernel kin_tile_f32_avx512 = {
    "f32 avx512", KIN_TILE_F32, KIN_ISA_AVX512, TILE_ROWS, 1, f32_pack, f32_run, f32_lines, 1.0};
#endif
