/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels for NEON, which every 64-bit ARM has. Contract: exact_tile.h.
 *
 * f32 multiplies and adds 4 numbers an instruction, in 6 rows x 16 points; s16 as many, without
 * rounding and in half the memory, in 3 rows x 16 points. bf16 has no kernel: bfdot adds up in an
 * order and with roundings of its own, for which exact_bound.h has no bound. Not measured: nobody
 * has run this on a chip. */
#if defined(__aarch64__)
#include "exact/exact_tile_neon.h"
#include "exact/exact_tile_hit.h"

#define TILE_FLIP 0u

#define TILE_NAME s16
#define TILE_ROWS 3
#define TILE_FLOAT 0
#define vec halves
#define TILE_SPLAT int32x4_t
#define VEC_LOAD load_halves
#define VEC_POINT load_points_s16
#define VEC_SUMS sums_halves
#define VEC_SPLAT splat_i32x4
#define VEC_STORE store_halves
#define VEC_DOT dot_s16
#define VEC_PAIR pair_s16
#define VEC_PASS_PANEL pass_panel_halves
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_s16_neon = {"s16 neon", KIN_TILE_S16, KIN_ISA_NEON, TILE_ROWS, 1,
                                           s16_pack,   s16_run,      s16_lines,    1.0};
#undef TILE_NAME
#undef TILE_ROWS
#undef TILE_FLOAT
#undef vec
#undef TILE_SPLAT
#undef VEC_LOAD
#undef VEC_SUMS
#undef VEC_SPLAT
#undef VEC_STORE
#undef VEC_DOT
#undef VEC_PAIR
#undef VEC_PASS_PANEL

#define TILE_NAME f32
#define TILE_ROWS 6
#define TILE_FLOAT 1
#define vec float32x4_t
#define TILE_SPLAT float32x4_t
#define VEC_LOAD load_f32x4
#define VEC_SUMS sums_f32x4
#define VEC_SPLAT splat_f32x4
#define VEC_STORE store_f32x4
#define VEC_DOT dot_f32
#define VEC_PAIR dot_f32
#define VEC_PASS_PANEL pass_panel_f32
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_f32_neon = {"f32 neon", KIN_TILE_F32, KIN_ISA_NEON, TILE_ROWS, 1,
                                           f32_pack,   f32_run,      f32_lines,    1.0};
#endif
