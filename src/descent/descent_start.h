/* SPDX-License-Identifier: Apache-2.0
 * The start where there is a screen.
 *
 *   by cells    a point meets the members of its nearest cells (descent_cells.h), of more and more
 *               of them, until little is new
 *   by blocks   of too many columns for centres: each block of the exact engine meets itself
 *               and the blocks that stand next to it. All pairs, too, are by blocks
 */
#ifndef KIN_DESCENT_DESCENT_START_H
#define KIN_DESCENT_DESCENT_START_H

#include "descent/descent_match.h"

typedef struct kin_descent_started {
    double evaluations;
    bool closed;  /* blocks met: what they know is closed in itself */
    bool settled; /* the last cells brought little that is new */
    bool all;     /* every pair was looked at: the lists are exact but for the rounding of costs */
} kin_descent_started;

/* words: count x length, each row ascending: of what its position met the least by (order,
 * position), itself left out, all marked new; KIN_DESCENT_EMPTY behind. By blocks they are `length`
 * if so many were met, by cells some more than `wanted`, which is at most length. Orders are those
 * of kin_descent_match. share: of all pairs, (0, 1], that may be looked at; a small one still has
 * the nearest few. The same bytes whatever the threads. Only where the metric has a screen
 * (points->kernel). */
kith_status kin_descent_start_screen(kith_ctx *ctx, const kin_descent_points *points, double share,
                                     int32_t wanted, int32_t length, uint64_t *words,
                                     kin_descent_started *started);
/* The same where two graphs are made one: words has their lists, as kin_descent_fill_graph left
 * them, sides the sets of each position (descent_fill.h). The `wanted` nearest that a
 * position meets in blocks, or on the other side in cells, join its list; what is from the other
 * side is new. */
kith_status kin_descent_start_across(kith_ctx *ctx, const kin_descent_points *points, double share,
                                     const uint8_t *sides, int32_t wanted, int32_t length,
                                     uint64_t *words, kin_descent_started *started);
/* What it takes while it runs. */
uint64_t kin_descent_start_bytes(const kin_frame *frame, int64_t points, double share,
                                 int32_t length, int32_t threads);

#endif
