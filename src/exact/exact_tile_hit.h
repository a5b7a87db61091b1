/* SPDX-License-Identifier: Apache-2.0
 * What the tile kernels share: the precise test of the few pairs that passed the quick one, and the
 * quick test's thresholds. Private to exact_tile_*.c. */
#ifndef KIN_EXACT_TILE_HIT_H
#define KIN_EXACT_TILE_HIT_H

#include "exact/exact_tile.h"

static inline void tile_log(kin_tile_log *log, int32_t order, uint32_t pair)
{
    log->order[log->count] = order;
    log->pair[log->count] = pair;
    log->count += 1;
}

/* mask: the columns of the panel whose accumulators passed. Not inlined: hits are rare, and the
 * loops around keep their registers. */
__attribute__((noinline, unused)) static void
tile_hit_int(const kin_tile_job *job, int32_t row, int32_t panel, uint32_t mask, const int32_t *acc)
{
    const uint32_t term = job->row_term[row].u;
    const int32_t row_limit = job->row_limit[row].i;
    for (; mask != 0; mask &= mask - 1) {
        const int32_t lane = __builtin_ctz(mask);
        const int32_t col = panel * KIN_PANEL + lane;
        const int32_t cost = (int32_t)(term + job->odd[col].u - 2 * (uint32_t)acc[lane]);
        const uint32_t pair = (uint32_t)(job->first_row + row) << 16 | (uint32_t)col;
        if (cost <= row_limit) {
            tile_log(job->row_log, cost, pair);
        }
        if (job->col_log != NULL && cost <= job->col_limit[col].i) {
            tile_log(job->col_log, cost, pair);
        }
    }
}

__attribute__((noinline, unused)) static void
tile_hit_float(const kin_tile_job *job, int32_t row, int32_t panel, uint32_t mask, const float *acc)
{
    const float term = job->row_term[row].f;
    const float row_limit = job->row_limit[row].f;
    for (; mask != 0; mask &= mask - 1) {
        const int32_t lane = __builtin_ctz(mask);
        const int32_t col = panel * KIN_PANEL + lane;
        const float cost = term - 2.0F * acc[lane];
        const uint32_t pair = (uint32_t)(job->first_row + row) << 16 | (uint32_t)col;
        if (cost <= row_limit) {
            tile_log(job->row_log, kin_order_float(cost), pair);
        }
        if (job->col_log != NULL && cost <= job->col_limit[col].f) {
            tile_log(job->col_log, kin_order_float(cost), pair);
        }
    }
}

/* test[row] = half_term - max(row half, panel half), for the rows against some panels. */
static inline void tile_tests_int(const kin_tile_job *job, int32_t panel_half)
{
    for (int32_t row = 0; row < job->row_count; row++) {
        const int32_t half = job->row_half[row].i;
        job->test[row].i = job->half_term[row].i - (half > panel_half ? half : panel_half);
    }
}

static inline void tile_tests_float(const kin_tile_job *job, float panel_half)
{
    for (int32_t row = 0; row < job->row_count; row++) {
        const float half = job->row_half[row].f;
        job->test[row].f = job->half_term[row].f - (half > panel_half ? half : panel_half);
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
