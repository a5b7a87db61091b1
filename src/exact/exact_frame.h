/* SPDX-License-Identifier: Apache-2.0
 * The frame in which a corpus is screened: the cheap type, the shift and the scale that bring its
 * rows into it. Queries are brought into the frame of their corpus. */
#ifndef KIN_EXACT_FRAME_H
#define KIN_EXACT_FRAME_H

#include "base/base_layout.h"
#include "exact/exact_bound.h"
#include "exact/exact_tile.h"
#include "metric/metric.h"

typedef struct kin_frame {
    kin_distance distance;
    const kin_tile_kernel *kernel;
    kin_bound_kind bound;
    int32_t cols;
    int32_t groups;   /* 4-byte groups of a rounded row, a multiple of kernel->group_step */
    double key_scale; /* the metric's */
    double scale;     /* 1 for integer bounds */
    double kappa;     /* the unit's error; 0 for integer units */
    double *mean;     /* cols rounded up to KIN_METRIC_LANES, zeros where nothing is shifted;
                         NULL for integer bounds */
} kin_frame;

/* Sums, extremes and norms of the corpus that the frames of all types are made from. Of distances
 * rows that are far, few and many times as large as usual ones, have no part in them. */
typedef struct kin_frame_stats {
    double *mean;
    double largest;      /* max |x - mean| over the components */
    double largest_norm; /* max |x - mean| over the rows */
} kin_frame_stats;

/* Whether integer costs of this pair of matrices are the keys: both 8-bit, of the same type, an
 * integer metric, few enough columns. */
bool kin_frame_is_integer(const kin_distance *distance, const kith_matrix *corpus,
                          const kith_matrix *queries);

/* Reads the corpus once or twice (not at all for integer frames). Frees with kin_frame_stats_free.
 */
kith_status kin_frame_measure(kith_ctx *ctx, const kin_distance *distance, const kin_rows *corpus,
                              kin_frame_stats *stats);
void kin_frame_stats_free(kith_ctx *ctx, kin_frame_stats *stats);
/* What kin_frame_measure holds, and leaves. */
void kin_frame_measure_plan(kin_layout *plan, int32_t cols, int32_t threads);

/* The scale for one type. Integer types use their whole range, whatever comes first: the largest
 * component or the largest norm. Float types take the power of two that brings the largest
 * component into [2^11, 2^12), whatever their precision. Below 2^-500 nothing is resolved, and
 * nothing can be: keys underflow there. */
double kin_frame_scale(kin_tile_type type, int32_t cols, const kin_frame_stats *stats);

/* Integer units: the ball, in units of the frame, that usual rows are in and others are drawn into.
 */
double kin_frame_radius(int32_t cols);

/* The frame for one type. Keeps stats->mean. stats is not read for an integer frame. */
kin_frame kin_frame_make(const kin_distance *distance, const kin_tile_kernel *kernel, bool integer,
                         const kin_frame_stats *stats);

#endif
