/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_spare.h"

#include "base/base_mem.h"
#include "base/base_try.h"

kith_status kin_descent_spares_make(kith_ctx *ctx, uint64_t words, kin_descent_spares *spares)
{
    *spares = (kin_descent_spares){.words = words};
    kith_status status =
        kin_alloc(ctx, &spares->blocks, (uint64_t)ctx->threads, sizeof *spares->blocks, "walks");
    for (int32_t i = 0; i < ctx->threads && status == KITH_OK; i++) {
        uint32_t *block = NULL;
        status = kin_alloc_zero(ctx, &block, words, sizeof *block, "a walk");
        if (status == KITH_OK) {
            atomic_init(&spares->blocks[i], block);
            spares->count += 1;
        }
    }
    if (status != KITH_OK) {
        kin_descent_spares_free(ctx, spares);
    }
    return status;
}

void kin_descent_spares_free(kith_ctx *ctx, kin_descent_spares *spares)
{
    for (int32_t i = 0; i < spares->count; i++) {
        kin_free(ctx, atomic_load(&spares->blocks[i]));
    }
    kin_free(ctx, spares->blocks);
    *spares = (kin_descent_spares){0};
}

uint32_t *kin_descent_spare_take(const kin_descent_spares *spares)
{
    uint32_t *block = NULL;
    for (int32_t i = 0; i < spares->count && block == NULL; i++) {
        block = atomic_exchange(&spares->blocks[i], NULL);
    }
    return block;
}

/* There is a place: whoever fills one has emptied one before. */
void kin_descent_spare_give(const kin_descent_spares *spares, uint32_t *block)
{
    for (int32_t i = 0; i < spares->count; i++) {
        uint32_t *none = NULL;
        if (atomic_compare_exchange_strong(&spares->blocks[i], &none, block)) {
            return;
        }
    }
}
