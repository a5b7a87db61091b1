/* SPDX-License-Identifier: Apache-2.0
 * The start of a column as bytes of the product, so that the screen of bytes on Hopper compares
 * accumulators as they are (screen_wgmma_bytes.cuh).
 *
 * What is tested of a pair is v = product - half_j. Appended to each row are 32 bytes that are the
 * same for all rows, 31 times 127 and a 1, and to column j 32 bytes b_t with
 *
 *     sum of row_t b_t = start_j = max(shift - half_j, -KIN_START_MOST)
 *
 * so that the product of both is v + shift, or more. shift = KIN_START_MOST + the least half, so
 * that start_j <= KIN_START_MOST, which is what 32 bytes can say. Columns whose half is far above
 * the least one look nearer than they are: the coarse test lets them pass, the precise one has v
 * itself.
 */
#ifndef KIN_SCREEN_START_H
#define KIN_SCREEN_START_H

#include "metric/metric_arith.h"

#include <stdint.h>

enum {
    KIN_START_BYTES = 32,
    KIN_START_LONGS = KIN_START_BYTES - 1, /* bytes that count 127 times */
    KIN_START_LONG = 127,
    KIN_START_MOST = KIN_START_LONGS * KIN_START_LONG * KIN_START_LONG + KIN_START_LONG / 2
};

/* Byte t of every row. */
KIN_HD int32_t kin_start_of_rows(int32_t t)
{
    return t < KIN_START_LONGS ? KIN_START_LONG : 1;
}

/* Of a set whose least half is this. */
KIN_HD int32_t kin_start_shift(int32_t least)
{
    return KIN_START_MOST + least;
}

/* start_j; halves are below 2^31 - 2^29, shifts below 2^29. */
KIN_HD int32_t kin_start_of(int32_t shift, int32_t half)
{
    const int32_t start = shift - half;
    return start > -KIN_START_MOST ? start : -KIN_START_MOST;
}

/* Byte t of a column of this start. */
KIN_HD int32_t kin_start_byte(int32_t start, int32_t t)
{
    const int32_t up = KIN_START_MOST + start; /* from 0 on: divisions round down */
    const int32_t longs = up / KIN_START_LONG - KIN_START_LONGS * KIN_START_LONG;
    if (t == KIN_START_LONGS) {
        return up % KIN_START_LONG - KIN_START_LONG / 2;
    }
    const int32_t above = longs + KIN_START_LONGS * KIN_START_LONG + t;
    return above / KIN_START_LONGS - KIN_START_LONG;
}

/* Where byte t of column j of a tile stands: what wgmma reads without swizzle, matrices of 8
 * columns by 16 bytes, of which two make a step. */
enum { KIN_START_MATRIX = 128, KIN_START_PAIR = 2 * KIN_START_MATRIX };

KIN_HD int32_t kin_start_place(int32_t col, int32_t t)
{
    return col / 8 * KIN_START_PAIR + t / 16 * KIN_START_MATRIX + col % 8 * 16 + t % 16;
}

#endif
