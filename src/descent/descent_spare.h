/* SPDX-License-Identifier: Apache-2.0
 * What a walk remembers takes a bit for each position, which is more than one walk touches: blocks
 * that are all zero are kept with the ground, so that a call of few queries need not clear one.
 * Threads take and give back without locks. */
#ifndef KIN_DESCENT_DESCENT_SPARE_H
#define KIN_DESCENT_DESCENT_SPARE_H

#include "base/base_ctx.h"

typedef struct kin_descent_spares {
    int32_t count;
    uint64_t words;              /* of a block */
    _Atomic(uint32_t *) *blocks; /* NULL: somebody has it */
} kin_descent_spares;

/* As many blocks as the context has threads: what others than these need, they allocate. */
kith_status kin_descent_spares_make(kith_ctx *ctx, uint64_t words, kin_descent_spares *spares);
void kin_descent_spares_free(kith_ctx *ctx, kin_descent_spares *spares);
/* A block of zeros, or NULL where none is left. */
uint32_t *kin_descent_spare_take(const kin_descent_spares *spares);
/* One that was taken, zeros again. */
void kin_descent_spare_give(const kin_descent_spares *spares, uint32_t *block);

#endif
