/* SPDX-License-Identifier: Apache-2.0
 * How far rows of two sets are apart at least: exact merges, and exact graphs from shards, leave
 * out what cannot meet.
 *
 * The rows of a set are cut into runs, in the order of the file. A run has a few balls that hold
 * its rows, since it may be where one cluster ends and the next one begins; and a reach: no row of
 * it has its k-th neighbour so far farther off. Two runs can meet where of a ball of each
 *
 *     |center - center'| - radius - radius'  <=  the larger one of both reaches
 *
 * and the runs that can take part in a meeting: one by one where rows may be copied, else all from
 * the first to the last. Where there is none, two sets need not meet. A file that is in the order
 * of its clusters, or of space, as catalogues are, has few pairs that do.
 *
 * Why it is right. Distances are those of rows as their metric transforms them (exact_bound.h), in
 * double; each of these is off by 2^-32 of itself at most, which KIN_BOUND_WIDEN covers, and where
 * squares underflow by 2^-500. Beyond the reach of both ends a pair's key is above the k-th of
 * either, so it is in no list, whatever its ids. A degenerate row stands at the origin, which is
 * nearer to others than the distance that it is given. Metrics without a triangle inequality have
 * no bounds, and all rows meet. */
#ifndef KIN_EXACT_RUNS_H
#define KIN_EXACT_RUNS_H

#include "exact/exact_list.h"

#include <stdatomic.h>

/* Balls of a run. */
enum { KIN_BOUNDS_BALLS = 4, KIN_BOUNDS_SIDES = 2 };

/* What sets have in common. */
typedef struct kin_bounds_sets {
    kin_distance distance; /* of rows as they are given */
    int64_t rows;          /* of the largest set */
    int32_t count;         /* below 2: nothing meets */
} kin_bounds_sets;

/* Rows of a set, with all that is known of them. */
typedef struct kin_bounds_part {
    int32_t set;
    kith_matrix rows;
    kin_within known;
} kin_bounds_part;

/* Rows of a set that can meet. */
typedef struct kin_bounds_range {
    int64_t first;
    int64_t rows;
} kin_bounds_range;

typedef struct kin_bounds_rows {
    uint32_t *rows;
    int64_t count;
} kin_bounds_rows;

typedef struct kin_bounds {
    bool usable;           /* the metric has a triangle inequality, and there are sets to meet */
    int64_t run;           /* rows of a run; the last one of a set may have fewer */
    int64_t runs;          /* that a set has room for */
    int64_t wide;          /* doubles of a center */
    kin_distance given;    /* of rows as they are given */
    kin_distance distance; /* of centers and transformed rows */
    double key_scale;
    void *block;
    double *centers;     /* sets x runs x balls x wide */
    double *radii;       /* sets x runs x balls; -INFINITY: no such ball */
    double *reaches;     /* sets x runs */
    unsigned char *made; /* by set: it has centers; and reaches, as they were when it was here */
    double *keys;        /* threads x runs x balls */
    double *values;      /* threads x wide */
    uint8_t *balls;      /* threads x run: whose ball a row of the run is in */
    atomic_uchar *meets; /* of two sets, one behind the other, x runs: can meet one of the other */
} kin_bounds;

uint64_t kin_bounds_bytes(const kith_ctx *ctx, const kin_bounds_sets *sets);
/* To be freed also where it fails. */
kith_status kin_bounds_make(kith_ctx *ctx, const kin_bounds_sets *sets, kin_bounds *bounds);
void kin_bounds_free(kith_ctx *ctx, kin_bounds *bounds);

/* Balls of a set whose rows are in memory, once; and its reaches as they are known now. */
kith_status kin_bounds_measure(kith_ctx *ctx, kin_bounds *bounds, const kin_bounds_part *part);
/* Which rows of two sets can meet; none of either, or some of both. */
kith_status kin_bounds_narrow(kith_ctx *ctx, kin_bounds *bounds,
                              const kin_bounds_part parts[KIN_BOUNDS_SIDES],
                              kin_bounds_range near[KIN_BOUNDS_SIDES]);
/* Before a set is measured: whether it is likely to pay. A few runs of both, spread over them, say
 * so where less than half of their pairs of rows can meet. */
kith_status kin_bounds_try(kith_ctx *ctx, kin_bounds *bounds,
                           const kin_bounds_part parts[KIN_BOUNDS_SIDES], bool *yes);
/* As kin_bounds_narrow, each run by itself: rows of each set, rising, to be freed by the caller. */
kith_status kin_bounds_pick(kith_ctx *ctx, kin_bounds *bounds,
                            const kin_bounds_part parts[KIN_BOUNDS_SIDES],
                            kin_bounds_rows picked[KIN_BOUNDS_SIDES]);
/* Whether it is known that two sets of so many rows need not meet, wherever their rows are: a reach
 * that was true once stays true, whatever becomes of lists. */
kith_status kin_bounds_apart(kith_ctx *ctx, const kin_bounds *bounds,
                             const int32_t sets[KIN_BOUNDS_SIDES],
                             const int64_t rows[KIN_BOUNDS_SIDES], bool *yes);

#endif
