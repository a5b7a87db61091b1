/* SPDX-License-Identifier: Apache-2.0
 * The inner contract of a meeting: rows gathered from anywhere, products of all with a few of them,
 * costs as orders. One kernel a type and machine, as of the exact engine's screen (exact_tile.h):
 * types, groups of 4 bytes, terms and panels are those.
 *
 *   rows       samples as they were gathered: `wide` words each, zeros behind the groups. s8 signed
 *   panels     the first of them, 16 a panel, transposed: group 0 of 16 samples, group 1, ... s8
 *              with 128 added
 *   order      of row_term_i + col_term_j - 2 product(i, j)
 *
 * A product is summed group after group from zero, by the same instructions for every pair: the
 * order of a pair is the same in both directions and in every meeting. */
#ifndef KIN_DESCENT_DESCENT_KERNEL_H
#define KIN_DESCENT_DESCENT_KERNEL_H

#include "base/base_ctx.h"
#include "descent/descent_word.h"
#include "exact/exact_tile.h"

struct kin_descent_points; /* descent_match.h */

/* Counts of rows and columns are rounded up to these before a kernel sees them; a multiple of every
 * kernel's tile. */
enum { KIN_DESCENT_ROWS_STEP = 96, KIN_DESCENT_COLS_STEP = 32, KIN_DESCENT_WIDE_STEP = 16 };

typedef struct kin_descent_product {
    const uint32_t *rows;
    const uint32_t *panels;
    int64_t wide;  /* a multiple of KIN_DESCENT_WIDE_STEP */
    int64_t pitch; /* groups from one panel to the next */
    int32_t groups;
    int32_t before; /* row i asks for columns below before + i */
    int32_t row_count;
    int32_t col_count;
    const kin_word *row_terms;
    const kin_word *col_terms;
    uint32_t *orders; /* orders[i * stride + j]; whole tiles are written */
    int64_t stride;
} kin_descent_product;

/* Who is nearest in the matrices of a meeting (kin_descent_match): to each row among the columns
 * that it met, and to each column among the NEW rows and among the OLD rows that it met. The first
 * of equals; order UINT32_MAX, and any sample, where none was met. Room for counts rounded up to
 * KIN_DESCENT_COLS_STEP. */
typedef struct kin_descent_least {
    uint32_t *row_order;
    uint32_t *row_sample;
    uint32_t *new_order;
    uint32_t *new_sample;
    uint32_t *old_order;
    uint32_t *old_sample;
} kin_descent_least;

/* rows are searched in `orders`, columns in `back`. */
typedef void (*kin_descent_least_fn)(const uint32_t *orders, const uint32_t *back, int64_t stride,
                                     int32_t new_count, int32_t count,
                                     const kin_descent_least *least);

/* Costs of orders (descent_word.h). */
static inline float kin_descent_float_of_order(uint32_t order)
{
    const uint32_t bits = (order >> 31) != 0 ? order ^ 0x80000000u : ~order;
    float cost;
    memcpy(&cost, &bits, sizeof cost);
    return cost;
}

static inline int32_t kin_descent_int_of_order(uint32_t order)
{
    return (int32_t)(order ^ 0x80000000u);
}

typedef struct kin_descent_kernel {
    const char *name;
    kin_tile_type type;
    kin_isa isa;
    /* rows: count x wide words. */
    void (*gather)(const struct kin_descent_points *points, const uint32_t *samples, int32_t count,
                   int64_t wide, uint32_t *rows);
    /* count: a multiple of KIN_PANEL. */
    void (*transpose)(const uint32_t *rows, int64_t wide, int32_t count, uint32_t *panels);
    /* All pairs but those of the triangle that nobody asks for, where they fill a tile. */
    void (*multiply)(const kin_descent_product *product);
} kin_descent_kernel;

kin_descent_least_fn kin_descent_least_get(kin_isa isa);

/* Pairs of a matrix whose order is at most the larger limit of their row and their column, as
 * row << 16 | column, row after row; returns how many. cols: a multiple of KIN_PANEL. hits: room
 * for all pairs. */
typedef int64_t (*kin_descent_hits_fn)(const uint32_t *orders, int64_t stride, int64_t rows,
                                       int64_t cols, const uint32_t *row_limits,
                                       const uint32_t *col_limits, uint32_t *hits);
kin_descent_hits_fn kin_descent_hits_get(kin_isa isa);
int64_t kin_descent_hits_portable(const uint32_t *orders, int64_t stride, int64_t rows,
                                  int64_t cols, const uint32_t *row_limits,
                                  const uint32_t *col_limits, uint32_t *hits);
#if defined(__x86_64__)
int64_t kin_descent_hits_avx2(const uint32_t *orders, int64_t stride, int64_t rows, int64_t cols,
                              const uint32_t *row_limits, const uint32_t *col_limits,
                              uint32_t *hits);
int64_t kin_descent_hits_avx512(const uint32_t *orders, int64_t stride, int64_t rows, int64_t cols,
                                const uint32_t *row_limits, const uint32_t *col_limits,
                                uint32_t *hits);
#endif

/* Puts a word into `length` ascending ones, of which KIN_DESCENT_EMPTY are the last; what was last
 * goes. One that is there already, or comes behind all, stays out. So what a list holds in the end
 * does not depend on the order in which words came. */
typedef void (*kin_descent_put_fn)(uint64_t *words, int64_t length, uint64_t word);
kin_descent_put_fn kin_descent_put_get(kin_isa isa);
void kin_descent_put_portable(uint64_t *words, int64_t length, uint64_t word);
#if defined(__x86_64__)
void kin_descent_put_avx512(uint64_t *words, int64_t length, uint64_t word);
#endif

void kin_descent_least_portable(const uint32_t *orders, const uint32_t *back, int64_t stride,
                                int32_t new_count, int32_t count, const kin_descent_least *least);
#if defined(__x86_64__)
void kin_descent_least_avx2(const uint32_t *orders, const uint32_t *back, int64_t stride,
                            int32_t new_count, int32_t count, const kin_descent_least *least);
void kin_descent_least_avx512(const uint32_t *orders, const uint32_t *back, int64_t stride,
                              int32_t new_count, int32_t count, const kin_descent_least *least);
#endif

/* The fastest kernel of a type that level `isa` includes; NULL where it has none. */
const kin_descent_kernel *kin_descent_kernel_get(kin_isa isa, kin_tile_type type);

extern const kin_descent_kernel kin_descent_s8_portable;
extern const kin_descent_kernel kin_descent_s16_portable;
extern const kin_descent_kernel kin_descent_f32_portable;
#if defined(__x86_64__)
extern const kin_descent_kernel kin_descent_s16_avx2;
extern const kin_descent_kernel kin_descent_f32_avx2;
extern const kin_descent_kernel kin_descent_s8_avx2vnni;
extern const kin_descent_kernel kin_descent_s16_avx2vnni;
extern const kin_descent_kernel kin_descent_s16_avx512;
extern const kin_descent_kernel kin_descent_f32_avx512;
extern const kin_descent_kernel kin_descent_s8_avx512vnni;
extern const kin_descent_kernel kin_descent_s16_avx512vnni;
extern const kin_descent_kernel kin_descent_s8_amx;
extern const kin_descent_kernel kin_descent_bf16_amx;
#endif

#endif
