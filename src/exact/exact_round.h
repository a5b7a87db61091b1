/* SPDX-License-Identifier: Apache-2.0
 * One row into a cheap type: what the screen sees of it, and what the rounding lost.
 * Bodies: exact_round_portable.c, _avx2.c, _avx512.c, the same source for three machines. */
#ifndef KIN_EXACT_ROUND_H
#define KIN_EXACT_ROUND_H

#include "exact/exact_tile.h"

/* values, mean: `wide` doubles, a multiple of 8; u[i] = (values[i] - mean[i]) * inverse. */
typedef struct kin_round_input {
    const double *values;
    const double *mean;
    double inverse;
    int64_t wide;
} kin_round_input;

/* Sums over the row, to a relative error far below 2^-30: of the squares of what is stored, of what
 * rounding lost of the clamped row, of u itself, and of what clamping cut off it; and the plain sum
 * of what is stored. */
typedef struct kin_round_sums {
    double stored_sq;
    double lost_sq;
    double given_sq;
    double cut_sq;
    double stored;
} kin_round_sums;

enum { KIN_PROJECT_ROWS = 4, KIN_PROJECT_STEP = 64, KIN_PROJECT_AXES = 32 };

typedef struct kin_round_ops {
    /* out[i] = u[i] rounded to the nearest integer within +-most. */
    kin_round_sums (*to_integer)(const kin_round_input *in, double most, int32_t *out);
    /* out[i] = u[i] as fp32 within +-2^15, 0 below 2^-14 in magnitude. */
    kin_round_sums (*to_f32)(const kin_round_input *in, float *out);
    /* The same, rounded to bf16 (nearest even) and given as fp32. */
    kin_round_sums (*to_bf16)(const kin_round_input *in, float *out);
    /* Sum of (a[i] - b[i])^2 over `wide` floats, a multiple of 16, in fp32: 16 partial sums. */
    float (*distance_sq)(const float *a, const float *b, int64_t wide);
    /* The same of doubles, in double; wide a multiple of 8. */
    double (*distance_sq64)(const double *a, const double *b, int64_t wide);
    /* out[r * axes + j] = sum over i of rows[r * wide + i] basis[i * axes + j] for four rows; axes
     * a multiple of 32, wide of KIN_PROJECT_STEP. Each KIN_PROJECT_STEP products are summed in
     * fp32, one behind the other, their sums in double. */
    void (*project)(const float *rows, const float *basis, int64_t wide, int64_t axes, double *out);
} kin_round_ops;

KIN_BODIES_OF_WIDE(kin_round_ops)

const kin_round_ops *kin_round_get(kin_isa isa);

#endif
