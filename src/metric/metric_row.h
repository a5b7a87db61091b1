/* SPDX-License-Identifier: Apache-2.0
 * What host and device both need to know of a row. */
#ifndef KIN_METRIC_ROW_H
#define KIN_METRIC_ROW_H

/* Components are summed in this many interleaved lanes (metric_canonical.h). */
enum { KIN_METRIC_LANES = 8 };

/* The transform of one row, made of rounded double operations in the order written:
 *   t(x)[i] = ((x[i] * scale) - shift) * gain
 * where scale is 1 except for float64 rows, and the subtraction is left out for cosine. */
typedef struct kin_row_transform {
    double scale;
    double shift;
    double gain;       /* 0 for a degenerate row */
    double degenerate; /* 1: zero (cosine) or constant (correlation): distance 1 to everything */
} kin_row_transform;

#endif
