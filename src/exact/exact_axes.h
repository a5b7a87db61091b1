/* SPDX-License-Identifier: Apache-2.0
 * Axes along which the rows of a corpus differ most, from a sample: orthonormal rows, so ordered
 * that the first m span nearly what the first m principal axes span, for every m. Any axes are
 * right for those who use them; good ones save time. */
#ifndef KIN_EXACT_AXES_H
#define KIN_EXACT_AXES_H

#include "exact/exact_prepare.h"
#include "exact/exact_round.h"

enum { KIN_AXES_SAMPLE = 2048, KIN_AXES_STEP = 16 };

/* Rows are values less their mean, in units of the corpus' frame. */
typedef struct kin_axes {
    const kin_round_ops *ops;
    int32_t count;
    int64_t wide;     /* columns of a row, rounded up to KIN_PROJECT_STEP */
    int64_t padded;   /* count, rounded up to KIN_PROJECT_AXES */
    int64_t rows_all; /* the sample, and further rows behind it */
    double *mean;     /* wide */
    double *axes;     /* count x wide */
    float *basis;     /* wide x padded: the same, as it is multiplied with */
    float *rows;      /* rows_all x wide */
    float *columns;   /* wide x sample */
    float *images;    /* rows_all x padded: rows in the basis */
    double *lengths;  /* rows_all: their squares */
    double *values;   /* for each thread wide; spare */
    double *mix;      /* count x count; spare */
    float *rests;     /* rows_all x steps: lengths of what 0, KIN_AXES_STEP, ... axes leave */
    double *sums;     /* for each thread KIN_PROJECT_ROWS x padded; spare */
    int32_t threads;
    void *block;
} kin_axes;

/* Points of which a sample is taken. */
typedef struct kin_axes_points {
    const kin_distance *distance;
    const kin_rows *rows;
    const uint32_t *ids;
    int64_t count;
    double scale; /* of the frame */
} kin_axes_points;

/* count axes, at most as many as there are columns, and the images of the sample and of `more`
 * further rows. The same on every machine but for the last bits, whatever the threads. Nearly
 * orthonormal, which kin_axes_mix makes them in full. */
kith_status kin_axes_make(kith_ctx *ctx, const kin_axes_points *points, int32_t count,
                          const uint32_t *further, int64_t more, kin_axes *axes);
void kin_axes_free(kith_ctx *ctx, kin_axes *axes);
/* What kin_axes_make holds. */
void kin_axes_plan(kin_layout *plan, int32_t cols, int32_t count, int64_t more, int32_t threads);
/* What the first axes leave of a row, in rests. */
int32_t kin_axes_steps(int32_t count);

/* The first `rows` of the further rows against the sample. */
typedef struct kin_axes_test {
    int64_t rows;
    int types;
    const float *far; /* rows x types x steps: what is beyond the root of it does not pass */
    int32_t *passed;  /* rows x types x steps: rows of the sample that do, in so many axes */
    /* NULL, or of the sample and of the rows: those whose places are less than `apart` from each
     * other on a circle of so many are left out. */
    const int64_t *places;
    int64_t circle;
    int64_t apart;
} kin_axes_test;
kith_status kin_axes_run_test(kith_ctx *ctx, const kin_axes *axes, const kin_axes_test *test);

/* Keeps the first of the axes, and turns them at random among themselves, so that rows spread over
 * all alike; images of the sample follow. */
kith_status kin_axes_mix(kith_ctx *ctx, int32_t count, kin_axes *axes);
/* The shadow of row i of the sample: count + 1 values. */
void kin_axes_shadow(const kin_axes *axes, int64_t i, double *values);
/* |BtB - 1| of the basis, at most. Writes over axes. */
double kin_axes_skew(kin_axes *axes);

#endif
