/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX-512 without VNNI. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_zmm.h"

#define TILE_FLIP 0u
#define VEC_TRANSPOSE transpose_16x16

#define TILE_NAME s16
#define vec __m512i
#define TILE_SPLAT __m512i
#define VEC_LOAD load_i32x16
#define VEC_SPLAT splat_i32x16
#define VEC_DOT dot_s16
#define VEC_ORDERS orders_i32x16
#include "graph/graph_join_body.inc"
#undef TILE_NAME
#undef vec
#undef TILE_SPLAT
#undef VEC_LOAD
#undef VEC_SPLAT
#undef VEC_DOT
#undef VEC_ORDERS

#define TILE_NAME f32
#define vec __m512
#define TILE_SPLAT __m512
#define VEC_LOAD load_f32x16
#define VEC_SPLAT splat_f32x16
#define VEC_DOT dot_f32
#define VEC_ORDERS orders_f32x16
#include "graph/graph_join_body.inc"

const kin_graph_kernel kin_graph_s16_avx512 = {"s16 avx512", KIN_TILE_S16,  KIN_ISA_AVX512,
                                               gather_rows,  s16_transpose, s16_multiply};
const kin_graph_kernel kin_graph_f32_avx512 = {"f32 avx512", KIN_TILE_F32,  KIN_ISA_AVX512,
                                               gather_rows,  f32_transpose, f32_multiply};
#endif
