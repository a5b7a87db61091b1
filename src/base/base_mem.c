/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory. Each block is preceded by one cache line that holds its size, so that release needs no
 * size and what a context holds is known at every moment:
 *
 *     | size ......... 64 bytes | the caller's block, 64-byte aligned ... |
 */
#include "base/base_mem.h"

#include "base/base_size.h"

#include <inttypes.h>
#include <stdlib.h>

enum { HEADER_BYTES = 64 };

static void *allocate(kith_ctx *ctx, uint64_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    if (ctx->params.allocate != NULL) {
        return ctx->params.allocate(ctx->params.allocate_arg, (size_t)bytes);
    }
    return aligned_alloc(HEADER_BYTES, (size_t)bytes);
}

static void release(kith_ctx *ctx, void *block, uint64_t bytes)
{
    if (ctx->params.release != NULL) {
        ctx->params.release(ctx->params.allocate_arg, block, (size_t)bytes);
    } else {
        free(block);
    }
}

static void note_peak(kith_ctx *ctx, uint64_t held)
{
    uint64_t peak = atomic_load(&ctx->peak_bytes);
    while (held > peak && !atomic_compare_exchange_weak(&ctx->peak_bytes, &peak, held)) {
    }
}

kith_status kin_alloc(kith_ctx *ctx, void *out, uint64_t count, uint64_t item_bytes,
                      const char *what)
{
    void **target = out;
    *target = NULL;
    const uint64_t wanted = kin_size_add(kin_size_mul(count, item_bytes), 2 * HEADER_BYTES - 1);
    const uint64_t bytes = wanted == UINT64_MAX ? wanted : wanted / HEADER_BYTES * HEADER_BYTES;
    const uint64_t limit = ctx->params.memory_limit;
    const uint64_t held = atomic_load(&ctx->held_bytes);
    if (limit != 0 && kin_size_add(held, bytes) > limit) {
        return kin_fail(ctx, KITH_E_LIMIT,
                        "%s needs %" PRIu64 " bytes more than the %" PRIu64
                        " in use, above the memory limit of %" PRIu64
                        " bytes (raise the limit, or ask for "
                        "less at once)",
                        what, bytes, held, limit);
    }
    unsigned char *block = allocate(ctx, bytes);
    if (block == NULL) {
        return kin_fail(ctx, KITH_E_MEMORY,
                        "no memory for %s, %" PRIu64
                        " bytes (free some memory, or ask for less at once)",
                        what, bytes);
    }
    memcpy(block, &bytes, sizeof bytes);
    note_peak(ctx, atomic_fetch_add(&ctx->held_bytes, bytes) + bytes);
    *target = block + HEADER_BYTES;
    return KITH_OK;
}

kith_status kin_alloc_zero(kith_ctx *ctx, void *out, uint64_t count, uint64_t item_bytes,
                           const char *what)
{
    const kith_status status = kin_alloc(ctx, out, count, item_bytes, what);
    if (status == KITH_OK) {
        void **target = out;
        memset(*target, 0, (size_t)(count * item_bytes));
    }
    return status;
}

void kin_free(kith_ctx *ctx, void *block)
{
    if (block == NULL) {
        return;
    }
    unsigned char *start = (unsigned char *)block - HEADER_BYTES;
    uint64_t bytes = 0;
    memcpy(&bytes, start, sizeof bytes);
    atomic_fetch_sub(&ctx->held_bytes, bytes);
    release(ctx, start, bytes);
}
