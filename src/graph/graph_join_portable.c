/* SPDX-License-Identifier: Apache-2.0
 * Meetings in plain C: the reference of the others, and what runs where nothing better does.
 * Contract: graph_join.h. */
#include "base/base_size.h"
#include "exact/exact_tile_plain.h"
#include "graph/graph_join.h"

static inline void orders_int(uint32_t *to, vec product, uint32_t row_term, vec col_terms)
{
    for (int lane = 0; lane < 16; lane++) {
        const uint32_t cost = row_term + col_terms.lane[lane].u - 2 * product.lane[lane].u;
        to[lane] = kin_graph_order_of_int((int32_t)cost);
    }
}

static inline void orders_float(uint32_t *to, vec product, uint32_t row_term, vec col_terms)
{
    const kin_word term = {.u = row_term};
    for (int lane = 0; lane < 16; lane++) {
        const float cost = (term.f + col_terms.lane[lane].f) - 2.0F * product.lane[lane].f;
        to[lane] = kin_graph_order_of_float(cost);
    }
}

static inline void transpose_16x16(const uint32_t *from, int64_t wide, uint32_t flip, uint32_t *to)
{
    for (int64_t row = 0; row < 16; row++) {
        for (int64_t word = 0; word < 16; word++) {
            to[word * KIN_PANEL + row] = from[row * wide + word] ^ flip;
        }
    }
}

/* A broadcast word stays a word here. */
#define TILE_SPLAT uint32_t
#define VEC_LOAD load
#define VEC_SPLAT splat
#define VEC_TRANSPOSE transpose_16x16

#define TILE_NAME s8
#define TILE_FLIP 0x80808080u
#define VEC_DOT dot_s8
#define VEC_ORDERS orders_int
#include "graph/graph_join_body.inc"
#undef TILE_NAME
#undef TILE_FLIP
#undef VEC_DOT

#define TILE_NAME s16
#define TILE_FLIP 0u
#define VEC_DOT dot_s16
#include "graph/graph_join_body.inc"
#undef TILE_NAME
#undef VEC_DOT
#undef VEC_ORDERS

#define TILE_NAME f32
#define VEC_DOT dot_f32
#define VEC_ORDERS orders_float
#include "graph/graph_join_body.inc"

const kin_graph_kernel kin_graph_s8_portable = {"s8 portable", KIN_TILE_S8,  KIN_ISA_PORTABLE,
                                                gather_rows,   s8_transpose, s8_multiply};
const kin_graph_kernel kin_graph_s16_portable = {"s16 portable", KIN_TILE_S16,  KIN_ISA_PORTABLE,
                                                 gather_rows,    s16_transpose, s16_multiply};
const kin_graph_kernel kin_graph_f32_portable = {"f32 portable", KIN_TILE_F32,  KIN_ISA_PORTABLE,
                                                 gather_rows,    f32_transpose, f32_multiply};
