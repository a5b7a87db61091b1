/* SPDX-License-Identifier: Apache-2.0
 * What scan (select_scan.c) asks of a machine: minima of cells, and the places of what is not above
 * a threshold. Both see values turned: as floats (float64: doubles) whose sign is flipped where the
 * largest are asked for, so that the wanted end is always the lower one. NaN is in no minimum and
 * passes no threshold. */
#ifndef KIN_SELECT_SCAN_H
#define KIN_SELECT_SCAN_H

#include "select/select_body.h"

/* A segment is so many vectors; `lanes` of kin_scan_ops says how many values a vector has. */
enum { KIN_SCAN_VECTORS = 8, KIN_SCAN_MOST_LANES = 16 };

/* Which vectors make a cell vector: cell i is the minimum, lane by lane, of the `vectors` vectors
 * at i * cell_stride + j * vector_stride bytes. */
typedef struct kin_scan_cells {
    int64_t cells;
    int64_t cell_stride;
    int64_t vectors;
    int64_t vector_stride;
    int64_t ahead; /* prefetches so many bytes further on */
} kin_scan_cells;

/* A pass over whole segments. */
typedef struct kin_scan_pass {
    const char *values;
    const void *least; /* cells of the segments (minima), or NULL: they are made on the way */
    double threshold;  /* of turned values; NaN: nothing passes */
    bool largest;
    uint32_t first;   /* place of values[0] */
    uint32_t *places; /* out: rising; room for `most` and a segment more */
    int64_t most;
    int64_t found;
} kin_scan_pass;

typedef struct kin_scan_ops {
    int64_t lanes;
    /* out: cells x lanes floats (float64: doubles); infinity where a lane saw NaN alone. */
    void (*least)(const char *values, const kin_scan_cells *cells, bool largest, void *out);
    /* Cells `to` .. `from` - 1 are folded into cells 0 .. to - 1; from >= to. */
    void (*fold)(void *cells, int64_t from, int64_t to);
    /* How many lanes of cells 0 .. count - 1 are not above the threshold. */
    int64_t (*count)(const void *cells, int64_t count, double threshold);
    /* Appends the places of segments [segment, segments) that hold values not above the threshold,
     * until `found` reaches `most`. The first segment that was not read. */
    int64_t (*collect)(kin_scan_pass *pass, int64_t segment, int64_t segments);
} kin_scan_ops;

typedef struct kin_scan_machine {
    /* The place of each number once all are sorted, equal ones in the order they have. Quadratic:
     * it pays up to `ranked` of them. Seven more can be read behind the last. */
    int64_t ranked;
    void (*rank)(uint64_t *numbers, int64_t count, uint32_t *ranks);
    kin_scan_ops f32;
    kin_scan_ops f64;
    kin_scan_ops f16;
    kin_scan_ops bf16;
} kin_scan_machine;

KIN_BODIES_OF(kin_scan_machine)

#endif
