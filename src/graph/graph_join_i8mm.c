/* SPDX-License-Identifier: Apache-2.0
 * Meetings on ARM's dot products of signed and unsigned bytes.
 * Rows of s8 signed, columns unsigned. Contract: graph_join.h. */
#if defined(__aarch64__)
#include "graph/graph_join_neon.h"

#define TILE_NAME s8
#define TILE_FLIP 0x80808080u
#define TILE_ROWS 6
#define vec int32x4_t
#define TILE_SPLAT int32x4_t
#define VEC_LOAD load_i32x4
#define VEC_SPLAT splat_i32x4
#define VEC_DOT dot_s8
#define VEC_ORDERS orders_i32x4
#define VEC_TRANSPOSE transpose_16x16
#include "graph/graph_join_body.inc"

const kin_graph_kernel kin_graph_s8_i8mm = {"s8 i8mm",   KIN_TILE_S8,  KIN_ISA_I8MM,
                                            gather_rows, s8_transpose, s8_multiply};
#endif
