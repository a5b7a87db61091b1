/* SPDX-License-Identifier: Apache-2.0
 * What the tile kernels share: the precise test of the few pairs that passed the quick one, and the
 * quick test's thresholds. Private to screen_tile_*.c. */
#ifndef KIN_SCREEN_TILE_HIT_H
#define KIN_SCREEN_TILE_HIT_H

#include "screen/screen_tile.h"

/* What is of a type's numbers: tile_hit_int, tile_tests_float ... */
#define TILE_NUMBER_(what) TILE_NAME_(what, TILE_NAME_(NUMBER, TILE_NAME))
#define NUMBER_s8 int
#define NUMBER_s16 int
#define NUMBER_f32 float

/* The rows and columns that a hit names, in the units of the log. */
static inline uint32_t tile_pair(const kin_tile_job *job, int32_t row, int32_t panel)
{
    return (uint32_t)(job->first_row + row) << 16 | (uint32_t)(panel * KIN_PANEL);
}

#if defined(__AVX512F__)
#include <immintrin.h>

/* Appends the lanes of a mask; always writes 16, the log has room for that. */
static inline void tile_append(kin_tile_log *log, __mmask16 mask, __m512i order, __m512i pairs)
{
    _mm512_storeu_si512(log->order + log->count, _mm512_maskz_compress_epi32(mask, order));
    _mm512_storeu_si512(log->pair + log->count, _mm512_maskz_compress_epi32(mask, pairs));
    log->count += __builtin_popcount(mask);
}

static inline __m512i tile_pairs(const kin_tile_job *job, int32_t row, int32_t panel)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32((int32_t)tile_pair(job, row, panel)), lanes);
}

static inline void tile_log_hits(const kin_tile_job *job, __mmask16 rows, __mmask16 cols,
                                 __m512i order, __m512i pairs)
{
    const bool once = job->col_log != NULL && job->col_log == job->row_log;
    tile_append(job->row_log, once ? rows | cols : rows, order, pairs);
    if (job->col_log != NULL && !once) {
        tile_append(job->col_log, cols, order, pairs);
    }
}

/* Not inlined: hits are rare, and the loops around keep their registers. */
__attribute__((noinline, unused)) static void tile_hit_int(const kin_tile_job *job, int32_t row,
                                                           int32_t panel, uint32_t mask,
                                                           const kin_word *acc)
{
    const int32_t col = panel * KIN_PANEL;
    const __m512i products = _mm512_loadu_si512(acc);
    const __m512i cost = _mm512_sub_epi32(_mm512_add_epi32(_mm512_set1_epi32(job->row_term[row].i),
                                                           _mm512_loadu_si512(job->odd + col)),
                                          _mm512_add_epi32(products, products));
    const __m512i row_limit = _mm512_set1_epi32(job->row_limit[row].i);
    const __mmask16 passed = (__mmask16)mask;
    __mmask16 cols = 0;
    if (job->col_log != NULL) {
        cols = _mm512_mask_cmple_epi32_mask(passed, cost, _mm512_loadu_si512(job->col_limit + col));
    }
    tile_log_hits(job, _mm512_mask_cmple_epi32_mask(passed, cost, row_limit), cols, cost,
                  tile_pairs(job, row, panel));
}

__attribute__((noinline, unused)) static void tile_hit_float(const kin_tile_job *job, int32_t row,
                                                             int32_t panel, uint32_t mask,
                                                             const kin_word *acc)
{
    const int32_t col = panel * KIN_PANEL;
    const __m512 products = _mm512_loadu_ps(acc);
    const __m512 cost =
        _mm512_sub_ps(_mm512_set1_ps(job->row_term[row].f), _mm512_add_ps(products, products));
    /* kin_order_float: adding 0 makes -0 into 0, then negatives are turned round. */
    const __m512i bits = _mm512_castps_si512(_mm512_add_ps(cost, _mm512_setzero_ps()));
    const __m512i order = _mm512_xor_si512(bits, _mm512_srli_epi32(_mm512_srai_epi32(bits, 31), 1));
    const __m512 row_limit = _mm512_set1_ps(job->row_limit[row].f);
    const __mmask16 passed = (__mmask16)mask;
    __mmask16 cols = 0;
    if (job->col_log != NULL) {
        cols = _mm512_mask_cmp_ps_mask(passed, cost, _mm512_loadu_ps(job->col_limit + col),
                                       _CMP_LE_OQ);
    }
    tile_log_hits(job, _mm512_mask_cmp_ps_mask(passed, cost, row_limit, _CMP_LE_OQ), cols, order,
                  tile_pairs(job, row, panel));
}
#else
static inline void tile_append(kin_tile_log *log, int32_t order, uint32_t pair)
{
    log->order[log->count] = order;
    log->pair[log->count] = pair;
    log->count += 1;
}

static inline void tile_log_hit(const kin_tile_job *job, bool row, bool col, int32_t order,
                                uint32_t pair)
{
    const bool once = job->col_log != NULL && job->col_log == job->row_log;
    if (row || (once && col)) {
        tile_append(job->row_log, order, pair);
    }
    if (col && !once && job->col_log != NULL) {
        tile_append(job->col_log, order, pair);
    }
}

/* Not inlined: hits are rare, and the loops around keep their registers. */
__attribute__((noinline, unused)) static void tile_hit_int(const kin_tile_job *job, int32_t row,
                                                           int32_t panel, uint32_t mask,
                                                           const kin_word *acc)
{
    const kin_word *odd = job->odd + (int64_t)panel * KIN_PANEL;
    const kin_word *col_limit = job->col_limit + (int64_t)panel * KIN_PANEL;
    const uint32_t term = job->row_term[row].u;
    const int32_t row_limit = job->row_limit[row].i;
    const uint32_t pair = tile_pair(job, row, panel);
    for (; mask != 0; mask &= mask - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(mask);
        const int32_t cost = (int32_t)(term + odd[lane].u - 2 * acc[lane].u);
        tile_log_hit(job, cost <= row_limit, job->col_log != NULL && cost <= col_limit[lane].i,
                     cost, pair + lane);
    }
}

__attribute__((noinline, unused)) static void tile_hit_float(const kin_tile_job *job, int32_t row,
                                                             int32_t panel, uint32_t mask,
                                                             const kin_word *acc)
{
    const kin_word *col_limit = job->col_limit + (int64_t)panel * KIN_PANEL;
    const float term = job->row_term[row].f;
    const float row_limit = job->row_limit[row].f;
    const uint32_t pair = tile_pair(job, row, panel);
    for (; mask != 0; mask &= mask - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(mask);
        const float cost = term - 2.0F * acc[lane].f;
        tile_log_hit(job, cost <= row_limit, job->col_log != NULL && cost <= col_limit[lane].f,
                     kin_order_float(cost), pair + lane);
    }
}
#endif

/* The quick tests of all rows against each of some panels: panel p of them has its own row_count
 * thresholds, half_term - max(row half, panel half). */
static inline void tile_tests_int(const kin_tile_job *job, int32_t panel, int32_t panels)
{
    for (int32_t p = 0; p < panels; p++) {
        const int32_t panel_half = job->panel_half[panel + p].i;
        kin_word *test = job->test + (int64_t)p * job->row_count;
        for (int32_t row = 0; row < job->row_count; row++) {
            const int32_t half = job->row_half[row].i;
            test[row].i = job->half_term[row].i - (half > panel_half ? half : panel_half);
        }
    }
}

static inline void tile_tests_float(const kin_tile_job *job, int32_t panel, int32_t panels)
{
    for (int32_t p = 0; p < panels; p++) {
        const float panel_half = job->panel_half[panel + p].f;
        kin_word *test = job->test + (int64_t)p * job->row_count;
        for (int32_t row = 0; row < job->row_count; row++) {
            const float half = job->row_half[row].f;
            test[row].f = job->half_term[row].f - (half > panel_half ? half : panel_half);
        }
    }
}

/* Rows for kernels that broadcast: tile t holds, group after group, one word of each of its rows.
 *     rows[(t * groups + g) * tile_rows + r]
 * flip is 0x80808080 for s8 (panels are unsigned, rows signed), else 0. */
static inline void tile_pack_broadcast(const uint32_t *panels, int32_t groups, int32_t row_count,
                                       int32_t tile_rows, uint32_t flip, uint32_t *rows)
{
    for (int32_t tile = 0; tile < row_count / tile_rows; tile++) {
        for (int32_t r = 0; r < tile_rows; r++) {
            const int32_t point = tile * tile_rows + r;
            const uint32_t *src =
                panels + (int64_t)(point / KIN_PANEL) * groups * KIN_PANEL + point % KIN_PANEL;
            uint32_t *dst = rows + (int64_t)tile * groups * tile_rows + r;
            for (int32_t g = 0; g < groups; g++) {
                dst[(int64_t)g * tile_rows] = src[(int64_t)g * KIN_PANEL] ^ flip;
            }
        }
    }
}

#endif
