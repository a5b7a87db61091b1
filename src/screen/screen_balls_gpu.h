/* SPDX-License-Identifier: Apache-2.0
 * Which tiles of a corpus of bytes queries can reach: balls around each tile, as a set that the
 * screen reads like rows (screen_balls.cu). For searches of a corpus whose rows lie in clusters;
 * what is reached is screened as ever. */
#ifndef KIN_SCREEN_BALLS_GPU_H
#define KIN_SCREEN_BALLS_GPU_H

#include "screen/screen_lists_gpu.h"

#include <stdatomic.h>

/* Blocks of queries that are aimed at a time, at most; rows of a corpus that has balls, at least.
 */
enum { KIN_SCREEN_GPU_AIMED_BLOCKS = 16, KIN_SCREEN_GPU_BALLS_LEAST = 49152 };

/* Of a set whose rows lie in clusters: made with it, or by the first search that wants them. */
enum {
    KIN_SCREEN_GPU_BALLS_WANTED,
    KIN_SCREEN_GPU_BALLS_MADE,
    KIN_SCREEN_GPU_BALLS_REFUSED /* no room */
};

typedef struct kin_screen_gpu_balls {
    /* KIN_SCREEN_GPU_BALLS a tile; what a ball has lost is its radius, and more */
    kin_screen_gpu_set set;
    uint64_t bytes;   /* of device memory, once they are made */
    atomic_int state; /* changed by who has the GPU, read by others */
    void *block;
    unsigned char *rounded;
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
} kin_screen_gpu_balls;

/* Of a set of bytes under a distance whose rows lie in clusters, where some of its rows would need
 * few of its tiles; *out is NULL where they need many, where it is no such set, and where there is
 * no room. Waits. like: those of a set that it grew from, whose verdict stands: nothing is made yet
 * then, so that who adds again and again waits for none of them; NULL, with `grew`: that had none.
 * rows: the matrix that set.ids are of. */
typedef struct kin_screen_gpu_ball_source {
    const kin_screen_gpu_rows *rows;
    kin_screen_gpu_set set;
    bool grew;
    const kin_screen_gpu_balls *like;
} kin_screen_gpu_ball_source;
kith_status kin_screen_gpu_balls_make(const kin_screen_gpu_device *on,
                                      const kin_screen_gpu_ball_source *source,
                                      kin_screen_gpu_balls **out);
void kin_screen_gpu_balls_free(const kin_screen_gpu_device *on, kin_screen_gpu_balls *balls);
uint64_t kin_screen_gpu_balls_bytes(const kin_screen_gpu_balls *balls); /* of device memory */

/* For so many queries, each of which wants k: *out is NULL where they gain nothing by it, or there
 * is no room. of: the set. What is not there yet is made on the stream, whose kernels nobody
 * waits for. */
kith_status kin_screen_gpu_balls_take(const kin_screen_gpu_device *on, const kin_screen_gpu_set *of,
                                      kin_screen_gpu_balls *balls, int64_t queries, int64_t k,
                                      const kin_screen_gpu_balls **out);

/* What is found of some rows, at most KIN_SCREEN_GPU_AIMED_BLOCKS blocks of them. The first three
 * are set before the arrays are named. */
typedef struct kin_screen_gpu_aimed {
    int64_t rows;
    uint32_t tiles_a_block; /* room */
    uint32_t units_a_block;
    uint32_t *counters; /* the caller's, kin_screen_gpu_aimed_counters of them, cleared before */
    uint64_t *met;      /* of kin_screen_gpu_meet; or NULL */
    uint32_t *columns;  /* of each block, in its tiles; more than have room: it has no units */
    uint32_t *tiles;
    kin_screen_gpu_unit *units;
    uint32_t *unit_count; /* set by kin_screen_gpu_aimed_find */
    uint32_t *minima;
} kin_screen_gpu_aimed;

static inline int64_t kin_screen_gpu_aimed_counters(int64_t rows)
{
    return 2 + kin_ceil_div(rows, KIN_SCREEN_GPU_BLOCK);
}
void kin_screen_gpu_aimed_name(kin_layout *layout, const kin_screen_gpu_balls *balls,
                               kin_screen_gpu_aimed *aimed);
/* The reach of each row, and the tiles of cols that its block meets, as units. */
kith_status
kin_screen_gpu_aimed_find(const kin_screen_gpu_device *on, const kin_screen_gpu_balls *balls,
                          const kin_screen_gpu_set *rows, const kin_screen_gpu_set *cols,
                          const kin_screen_gpu_lists *lists, kin_screen_gpu_aimed *aimed);

#endif
