/* SPDX-License-Identifier: Apache-2.0
 * Meetings on NEON. Contract: graph_join.h. */
#if defined(__aarch64__)
#include "graph/graph_join_neon.h"

#define TILE_FLIP 0u
#define VEC_TRANSPOSE transpose_16x16

#define TILE_NAME s16
#define TILE_ROWS 3
#define vec halves
#define TILE_SPLAT int32x4_t
#define VEC_LOAD load_halves
#define VEC_POINT load_points_s16
#define VEC_SPLAT splat_i32x4
#define VEC_DOT dot_s16
#define VEC_ORDERS orders_halves
#include "graph/graph_join_body.inc"
#undef TILE_NAME
#undef TILE_ROWS
#undef vec
#undef TILE_SPLAT
#undef VEC_LOAD
#undef VEC_SPLAT
#undef VEC_DOT
#undef VEC_ORDERS

#define TILE_NAME f32
#define TILE_ROWS 6
#define vec float32x4_t
#define TILE_SPLAT float32x4_t
#define VEC_LOAD load_f32x4
#define VEC_SPLAT splat_f32x4
#define VEC_DOT dot_f32
#define VEC_ORDERS orders_f32x4
#include "graph/graph_join_body.inc"

const kin_graph_kernel kin_graph_s16_neon = {"s16 neon",  KIN_TILE_S16,  KIN_ISA_NEON,
                                             gather_rows, s16_transpose, s16_multiply};
const kin_graph_kernel kin_graph_f32_neon = {"f32 neon",  KIN_TILE_F32,  KIN_ISA_NEON,
                                             gather_rows, f32_transpose, f32_multiply};
#endif
