/* SPDX-License-Identifier: Apache-2.0
 * Which tiles of a corpus of bytes queries can reach: balls around each tile, as a set that the
 * screen reads like rows (fused_balls.cu). For searches of a corpus whose rows lie in clusters;
 * what is reached is screened as ever. */
#ifndef KIN_FUSED_BALLS_H
#define KIN_FUSED_BALLS_H

#include "fused/fused_lists.h"

#include <stdatomic.h>

/* Blocks of queries that are aimed at a time, at most; rows of a corpus that has balls, at least.
 */
enum { KIN_FUSED_AIMED_BLOCKS = 16, KIN_FUSED_BALLS_LEAST = 49152 };

/* Of a set whose rows lie in clusters: made with it, or by the first search that wants them. */
enum { KIN_FUSED_BALLS_WANTED, KIN_FUSED_BALLS_MADE, KIN_FUSED_BALLS_REFUSED /* no room */ };

typedef struct kin_fused_balls {
    kin_fused_set set; /* KIN_FUSED_BALLS a tile; what a ball has lost is its radius, and more */
    uint64_t bytes;    /* of device memory, once they are made */
    atomic_int state;  /* changed by who has the GPU, read by others */
    void *block;
    unsigned char *rounded;
    kin_fused_facts *facts;
    kin_fused_word *half;
} kin_fused_balls;

/* Of a set of bytes under a distance whose rows lie in clusters, where some of its rows would need
 * few of its tiles; *out is NULL where they need many, where it is no such set, and where there is
 * no room. Waits. like: those of a set that it grew from, whose verdict stands: nothing is made yet
 * then, so that who adds again and again waits for none of them; NULL, with `grew`: that had none.
 * rows: the matrix that set.ids are of. */
typedef struct kin_fused_ball_source {
    const kin_fused_rows *rows;
    kin_fused_set set;
    bool grew;
    const kin_fused_balls *like;
} kin_fused_ball_source;
kith_status kin_fused_balls_make(const kin_fused_device *on, const kin_fused_ball_source *source,
                                 kin_fused_balls **out);
void kin_fused_balls_free(const kin_fused_device *on, kin_fused_balls *balls);
uint64_t kin_fused_balls_bytes(const kin_fused_balls *balls); /* of device memory */

/* For so many queries, each of which wants k: *out is NULL where they gain nothing by it, or there
 * is no room. of: the set. What is not there yet is made on the stream, whose kernels nobody
 * waits for. */
kith_status kin_fused_balls_take(const kin_fused_device *on, const kin_fused_set *of,
                                 kin_fused_balls *balls, int64_t queries, int64_t k,
                                 const kin_fused_balls **out);

/* What is found of some rows, at most KIN_FUSED_AIMED_BLOCKS blocks of them. The first three are
 * set before the arrays are named. */
typedef struct kin_fused_aimed {
    int64_t rows;
    uint32_t tiles_a_block; /* room */
    uint32_t units_a_block;
    uint32_t *counters; /* the caller's, kin_fused_aimed_counters of them, cleared before */
    uint64_t *met;      /* of kin_fused_meet; or NULL */
    uint32_t *columns;  /* of each block, in its tiles; more than have room: it has no units */
    uint32_t *tiles;
    kin_fused_unit *units;
    uint32_t *unit_count; /* set by kin_fused_aimed_find */
    uint32_t *minima;
} kin_fused_aimed;

static inline int64_t kin_fused_aimed_counters(int64_t rows)
{
    return 2 + kin_ceil_div(rows, KIN_FUSED_BLOCK);
}
void kin_fused_aimed_name(kin_layout *layout, const kin_fused_balls *balls, kin_fused_aimed *aimed);
/* The reach of each row, and the tiles of cols that its block meets, as units. */
kith_status kin_fused_aimed_find(const kin_fused_device *on, const kin_fused_balls *balls,
                                 const kin_fused_set *rows, const kin_fused_set *cols,
                                 const kin_fused_lists *lists, kin_fused_aimed *aimed);

#endif
