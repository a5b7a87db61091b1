/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AVX-512 VNNI: rows of s8 signed, columns unsigned. Contract: graph_join.h. */
#if defined(__x86_64__)
#include "graph/graph_join_zmm.h"

#define vec __m512i
#define TILE_SPLAT __m512i
#define VEC_LOAD load_i32x16
#define VEC_SPLAT splat_i32x16
#define VEC_ORDERS orders_i32x16
#define VEC_TRANSPOSE transpose_16x16

#define TILE_NAME s8
#define TILE_FLIP 0x80808080u
#define VEC_DOT dot_s8
#include "graph/graph_join_body.inc"
#undef TILE_NAME
#undef TILE_FLIP
#undef VEC_DOT

#define TILE_NAME s16
#define TILE_FLIP 0u
#define VEC_DOT dot_s16
#include "graph/graph_join_body.inc"

const kin_graph_kernel kin_graph_s8_avx512vnni = {"s8 avx512vnni", KIN_TILE_S8,  KIN_ISA_AVX512VNNI,
                                                  gather_rows,     s8_transpose, s8_multiply};
const kin_graph_kernel kin_graph_s16_avx512vnni = {
    "s16 avx512vnni", KIN_TILE_S16, KIN_ISA_AVX512VNNI, gather_rows, s16_transpose, s16_multiply};
#endif
