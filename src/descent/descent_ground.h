/* SPDX-License-Identifier: Apache-2.0
 * What walks go on: points, links, a gate.
 *
 * What a walk remembers takes a bit for each position, which is more than one walk touches: blocks
 * that are all zero are kept with the ground, so that a call of few queries need not clear one.
 * Threads take and give back without locks. */
#ifndef KIN_DESCENT_DESCENT_GROUND_H
#define KIN_DESCENT_DESCENT_GROUND_H

#include "descent/descent_gate.h"
#include "descent/descent_links.h"

/* Words of such a block are a bit a position, and so many that are remembered: where there are
 * more, all are cleared. */
enum { KIN_DESCENT_REMEMBERED = 1 << 15 };

typedef struct kin_descent_spares {
    int32_t count;
    uint64_t words;              /* of a block */
    _Atomic(uint32_t *) *blocks; /* NULL: somebody has it */
} kin_descent_spares;

/* Points made ready: for direct metrics kin_prepare_rows is enough, else kin_prepare_corpus. */
typedef struct kin_descent_ground {
    const kin_prepared *prepared;
    kin_descent_points points;
    kin_descent_links links;
    kin_descent_gate gate;
    bool has_gate;
    kin_descent_spares spares;
} kin_descent_ground;

kith_status kin_descent_ground_make(kith_ctx *ctx, const kin_prepared *prepared,
                                    const kith_neighbors *graph, kin_descent_ground *ground);
void kin_descent_ground_free(kith_ctx *ctx, kin_descent_ground *ground);

/* Words that a walk remembers itself by, on a ground of so many positions. */
uint64_t kin_descent_spare_words(int64_t positions);
/* A block of zeros, or NULL where none is left: there are as many as the context had threads. */
uint32_t *kin_descent_spare_take(const kin_descent_spares *spares);
/* One that was taken, zeros again. */
void kin_descent_spare_give(const kin_descent_spares *spares, uint32_t *block);

#endif
