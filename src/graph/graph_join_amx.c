/* SPDX-License-Identifier: Apache-2.0
 * Meetings on AMX: 32 rows x 32 columns in four accumulator tiles. Contract: graph_join.h.
 *
 * Tiles 0-3 accumulate (rows 0-15 and 16-31) x (columns 0-15 and 16-31); 4, 5 hold 64 bytes of 16
 * rows each, as they were gathered; 6, 7 sixteen groups of 16 columns. */
#if defined(__x86_64__)
#include "graph/graph_join_x86.h"

enum { SIDE = 16, BLOCK = 32 };

/* Accumulators and rows of one row, panels of sixteen groups. */
static const tile_config tiles_alone = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {1, 1, 1, 1, 1, 16, 16, 16},
};

typedef struct corner {
    kin_word products[SIDE][SIDE] __attribute__((aligned(64)));
} corner;

static inline __attribute__((always_inline)) void
write_orders(const kin_graph_product *p, const corner *c, int64_t row, int64_t col, bool is_float)
{
    for (int64_t r = 0; r < SIDE; r++) {
        uint32_t *to = p->orders + (row + r) * p->stride + col;
        if (is_float) {
            orders_f32x16(to, load_f32x16(c->products[r]), splat_f32x16(&p->row_terms[row + r]),
                          load_f32x16(&p->col_terms[col]));
        } else {
            orders_i32x16(to, load_i32x16(c->products[r]), splat_i32x16(&p->row_terms[row + r]),
                          load_i32x16(&p->col_terms[col]));
        }
    }
}

/* both: 32 columns, else 16. */
static inline __attribute__((always_inline)) void block(const kin_graph_product *p, int64_t row,
                                                        int64_t col, bool both, bool is_float)
{
    const int64_t wide = p->wide;
    const int64_t row_bytes = wide * (int64_t)sizeof(uint32_t);
    const uint32_t *rows = p->rows + row * wide;
    const uint32_t *panels = p->panels + col * p->pitch;
    corner corners[4];
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t g = 0; g < p->groups; g += SIDE) {
        _tile_loadd(4, rows + g, row_bytes);
        _tile_loadd(6, panels + g * SIDE, 64);
        _tile_loadd(5, rows + SIDE * wide + g, row_bytes);
        if (is_float) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(2, 5, 6);
        } else {
            _tile_dpbsud(0, 4, 6);
            _tile_dpbsud(2, 5, 6);
        }
        if (both) {
            _tile_loadd(7, panels + (p->pitch + g) * SIDE, 64);
            if (is_float) {
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(3, 5, 7);
            } else {
                _tile_dpbsud(1, 4, 7);
                _tile_dpbsud(3, 5, 7);
            }
        }
    }
    _tile_stored(0, corners[0].products, 64);
    _tile_stored(2, corners[2].products, 64);
    write_orders(p, &corners[0], row, col, is_float);
    write_orders(p, &corners[2], row + SIDE, col, is_float);
    if (both) {
        _tile_stored(1, corners[1].products, 64);
        _tile_stored(3, corners[3].products, 64);
        write_orders(p, &corners[1], row, col + SIDE, is_float);
        write_orders(p, &corners[3], row + SIDE, col + SIDE, is_float);
    }
}

static inline __attribute__((always_inline)) void multiply(const kin_graph_product *p,
                                                           bool is_float)
{
    _tile_loadconfig(&eight_tiles);
    for (int64_t row = 0; row < p->row_count; row += BLOCK) {
        const int64_t last = kin_min_i64(p->col_count, p->before + row + BLOCK - 1);
        int64_t col = 0;
        for (; last - col > SIDE; col += BLOCK) {
            block(p, row, col, true, is_float);
        }
        for (; col < last; col += SIDE) {
            block(p, row, col, false, is_float);
        }
    }
    _tile_release();
}

/* One row alone, with the sums that it has among others: tiles of one row, three panels at a time.
 */
static inline __attribute__((always_inline)) void panels_alone(const kin_graph_product *p,
                                                               int64_t col, int count)
{
    const uint32_t *panels = p->panels + col * p->pitch;
    kin_word products[3][SIDE] __attribute__((aligned(64)));
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    for (int64_t g = 0; g < p->groups; g += SIDE) {
        _tile_loadd(4, p->rows + g, 64);
        _tile_loadd(5, panels + g * SIDE, 64);
        _tile_dpbf16ps(0, 4, 5);
        if (count > 1) {
            _tile_loadd(6, panels + (p->pitch + g) * SIDE, 64);
            _tile_dpbf16ps(1, 4, 6);
            _tile_loadd(7, panels + (2 * p->pitch + g) * SIDE, 64);
            _tile_dpbf16ps(2, 4, 7);
        }
    }
    _tile_stored(0, products[0], 64);
    _tile_stored(1, products[1], 64);
    _tile_stored(2, products[2], 64);
    for (int i = 0; i < count; i++) {
        const int64_t at = col + (int64_t)i * SIDE;
        orders_f32x16(p->orders + at, load_f32x16(products[i]), splat_f32x16(p->row_terms),
                      load_f32x16(&p->col_terms[at]));
    }
}

static void multiply_alone(const kin_graph_product *p)
{
    const int64_t last = kin_min_i64(p->col_count, p->before);
    int64_t col = 0;
    _tile_loadconfig(&tiles_alone);
    for (; last - col >= 3 * SIDE; col += 3 * SIDE) {
        panels_alone(p, col, 3);
    }
    for (; col < last; col += SIDE) {
        panels_alone(p, col, 1);
    }
    _tile_release();
}

/* Whole numbers are the same by any unit, and one row is no tile's work. */
static void s8_multiply(const kin_graph_product *product)
{
    if (product->row_count == 1) {
        kin_graph_s8_avx512vnni.multiply(product);
    } else {
        multiply(product, false);
    }
}

static void bf16_multiply(const kin_graph_product *product)
{
    if (product->row_count == 1) {
        multiply_alone(product);
    } else {
        multiply(product, true);
    }
}

static inline __attribute__((always_inline)) void
transpose(const uint32_t *rows, int64_t wide, int32_t count, uint32_t flip, uint32_t *panels)
{
    for (int64_t i = 0; i < count; i += SIDE) {
        for (int64_t w = 0; w < wide; w += SIDE) {
            transpose_16x16(rows + i * wide + w, wide, flip, panels + i * wide + w * SIDE);
        }
    }
}

static void s8_transpose(const uint32_t *rows, int64_t wide, int32_t count, uint32_t *panels)
{
    transpose(rows, wide, count, 0x80808080u, panels);
}

static void bf16_transpose(const uint32_t *rows, int64_t wide, int32_t count, uint32_t *panels)
{
    transpose(rows, wide, count, 0u, panels);
}

const kin_graph_kernel kin_graph_s8_amx = {"s8 amx",    KIN_TILE_S8,  KIN_ISA_AMX,
                                           gather_rows, s8_transpose, s8_multiply};
const kin_graph_kernel kin_graph_bf16_amx = {"bf16 amx",  KIN_TILE_BF16,  KIN_ISA_AMX,
                                             gather_rows, bf16_transpose, bf16_multiply};
#endif
