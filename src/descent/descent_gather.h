/* SPDX-License-Identifier: Apache-2.0
 * Rows from anywhere, side by side. Compiled by each descent_match_*.c with its machine's flags, so
 * that a line of 64 bytes is as few moves as the machine has. */
#ifndef KIN_DESCENT_DESCENT_GATHER_H
#define KIN_DESCENT_DESCENT_GATHER_H

#include "descent/descent_kernel.h"
#include "descent/descent_match.h"

/* Rows of less than a line: 4, 8, 16 or 32 bytes. What is behind them stays zero. */
static inline void gather_short(const kin_descent_points *points, const uint32_t *samples,
                                int32_t count, int64_t wide, uint32_t *rows)
{
    for (int32_t i = 0; i < count; i++) {
        const uint32_t *from = points->rows + (int64_t)samples[i] * points->stride;
        for (int64_t w = 0; w < points->stride; w++) {
            rows[i * wide + w] = from[w];
        }
    }
}

static inline void gather_rows(const kin_descent_points *points, const uint32_t *samples,
                               int32_t count, int64_t wide, uint32_t *rows)
{
    enum { WORDS = KIN_DESCENT_WIDE_STEP };
    if (points->stride < wide) {
        gather_short(points, samples, count, wide, rows);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        const uint32_t *from = points->rows + (int64_t)samples[i] * wide;
        for (int64_t w = 0; w < wide; w += WORDS) {
            memcpy(rows + i * wide + w, from + w, WORDS * sizeof *rows);
        }
    }
}

#endif
