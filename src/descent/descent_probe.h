/* SPDX-License-Identifier: Apache-2.0
 * Points meet cells: all members of a cell meet each other, and all points that have the cell among
 * their near ones. Both ends of a pair remember the other if it is near. Where two sets are made
 * one that know themselves, those of one set meet those of the other alone. */
#ifndef KIN_DESCENT_DESCENT_PROBE_H
#define KIN_DESCENT_DESCENT_PROBE_H

#include "descent/descent_cells.h"

typedef struct kin_descent_probe {
    const kin_descent_points *points; /* with a kernel, symmetric */
    const kin_descent_cells *cells;
    uint64_t *words; /* points x length, ascending; KIN_DESCENT_EMPTY behind */
    int32_t length;
    int32_t kept;         /* words of a list that are used; the rest is left alone */
    double evaluations;   /* added to */
    const uint8_t *sides; /* of each position bits of the sets that it is of (descent_fill.h): pairs
                             across meet; NULL: all */
} kin_descent_probe;

/* Points meet their near cells first .. last - 1; where first is 0, members meet each other. Lists
 * keep the least words of all that met, the same with any number of threads. What came is new. */
kith_status kin_descent_probe_run(kith_ctx *ctx, kin_descent_probe *probe, int32_t first,
                                  int32_t last);
/* What it takes while it runs, lists and cells not counted. */
uint64_t kin_descent_probe_bytes(const kin_frame *frame, int64_t points, int32_t length,
                                 int32_t threads);

#endif
