/* SPDX-License-Identifier: Apache-2.0
 * How far rows of two shards are apart at least: exact graphs leave out what cannot meet.
 *
 * The rows of a shard are cut into runs, in the order of the file. A run has a few balls that hold
 * its rows, since it may be where one cluster ends and the next one begins; and a reach: no row of
 * it has its k-th neighbour so far farther off. Two runs can meet where of a ball of each
 *
 *     |center - center'| - radius - radius'  <=  the larger one of both reaches
 *
 * and from the first to the last run that can, the rows of a shard take part in a meeting. Where
 * there is none, two shards need not meet. A file that is in the order of its clusters, or of
 * space, as catalogues are, has few pairs that do.
 *
 * Why it is right. Distances are those of rows as their metric transforms them (exact_bound.h), in
 * double; each of these is off by 2^-32 of itself at most, which KIN_BOUND_WIDEN covers, and where
 * squares underflow by 2^-500. Beyond the reach of both ends a pair's key is above the k-th of
 * either, so it is in no list, whatever its ids. A degenerate row stands at the origin, which is
 * nearer to others than the distance that it is given. Metrics without a triangle inequality have
 * no bounds, and all rows meet. */
#ifndef KIN_SHARDING_BOUNDS_H
#define KIN_SHARDING_BOUNDS_H

#include "sharding/sharding.h"

/* What a job leaves out. */
typedef struct kin_bounds_skipped {
    int64_t met;     /* pairs of shards that have met */
    int64_t skipped; /* or need not */
    double rows;     /* pairs of rows in all of these */
    double left_out; /* of them, those that were not looked at */
} kin_bounds_skipped;

/* Balls of a run. */
enum { KIN_BOUNDS_BALLS = 4 };

typedef struct kin_bounds {
    bool usable; /* the metric has a triangle inequality, and there are shards to meet */
    kin_bounds_skipped skipped;
    int64_t run;           /* rows of a run; the last one of a shard may have fewer */
    int64_t runs;          /* that a shard has room for */
    int64_t wide;          /* doubles of a center */
    kin_distance distance; /* of centers and transformed rows */
    double key_scale;
    double *centers;     /* shards x runs x balls x wide */
    double *radii;       /* shards x runs x balls; -INFINITY: no such ball */
    double *reaches;     /* shards x runs */
    unsigned char *made; /* by shard: it has centers; and reaches, as they were when it was here */
    double *keys;        /* threads x runs x balls */
    double *values;      /* threads x wide */
    uint8_t *balls;      /* threads x run: whose ball a row of the run is in */
    int64_t *near;       /* runs: the first run of the other shard that can meet it, and the last */
} kin_bounds;

uint64_t kin_bounds_bytes(const kin_sharding *job, int32_t shards);
/* job->bounds. After the number of shards is known. */
kith_status kin_bounds_make(kin_sharding *job);
void kin_bounds_free(kin_sharding *job);

/* A shard whose lists and rows are in memory. */
kith_status kin_bounds_measure(kin_sharding *job, const kin_shard_part *part);
/* Rows of two shards whose lists are in memory that can meet, as parts of both. False: none. */
kith_status kin_bounds_narrow(kin_sharding *job, kin_shard_part parts[KIN_SHARDING_SIDES],
                              bool *any);
/* Whether it is known that two shards need not meet, wherever their lists are: a reach that was
 * true once stays true, whatever becomes of lists. */
kith_status kin_bounds_apart(void *arg, int32_t a, int32_t b, bool *yes);

#endif
