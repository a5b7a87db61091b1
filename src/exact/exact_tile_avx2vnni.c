/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for AVX-VNNI: as exact_tile_avx2.c, with products and sums in one instruction.
 * Contract: exact_tile.h. Not used: vpdpbusds, vpdpwssds, which saturate; the
 * intrinsics, with which gcc 12 copies and spills the accumulators in every step. */
#if defined(__x86_64__)
#include "exact/exact_tile.h"
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_ymm.h"

#define TILE_FLOAT 0
#define vec __m256i
#define TILE_SPLAT __m256i
#define VEC_LOAD load_i32x8
#define VEC_SUMS sums_i32x8
#define VEC_SPLAT splat_i32x8
#define VEC_STORE store_i32x8
#define VEC_PASS pass_i32x8

#define TILE_NAME s8
#define TILE_FLIP 0x80808080u
#define VEC_DOT dot_s8
#define VEC_PAIR pair_s8
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLIP
#undef VEC_DOT
#undef VEC_PAIR

#define TILE_NAME s16
#define TILE_FLIP 0u
#define VEC_DOT dot_s16
#define VEC_PAIR dot_s16
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_s8_avx2vnni = {
    "s8 avx2vnni", KIN_TILE_S8, KIN_ISA_AVX2VNNI, TILE_ROWS, 1, s8_pack, s8_run, s8_lines, 1.0};
const kin_tile_kernel kin_tile_s16_avx2vnni = {
    "s16 avx2vnni", KIN_TILE_S16, KIN_ISA_AVX2VNNI, TILE_ROWS, 1,
    s16_pack,       s16_run,      s16_lines,        1.0};
#endif
