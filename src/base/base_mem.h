/* SPDX-License-Identifier: Apache-2.0
 * Every block of host memory: from the context's allocator, 64-byte aligned, counted against the
 * memory limit. Nobody else calls malloc. */
#ifndef KIN_BASE_MEM_H
#define KIN_BASE_MEM_H

#include "base/base_ctx.h"
#include "base/base_try.h"

#include <string.h>

enum { KIN_MEM_ALIGNMENT = 64 };

/* What kin_alloc counts for a block, its header included. */
uint64_t kin_mem_bytes(uint64_t count, uint64_t item_bytes);

/* *out = count items of item_bytes; contents undefined. A count of 0 gives a valid block. Fails
 * with KITH_E_MEMORY, or KITH_E_LIMIT where the context's limit stands in the way; `what` names
 * the block in the message. *out is NULL then. Thread-safe. */
kith_status kin_alloc(kith_ctx *ctx, void *out, uint64_t count, uint64_t item_bytes,
                      const char *what);
/* The same, filled with zero bytes. */
kith_status kin_alloc_zero(kith_ctx *ctx, void *out, uint64_t count, uint64_t item_bytes,
                           const char *what);
/* A text of that format. */
kith_status kin_alloc_text(kith_ctx *ctx, char **out, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* For a block that will be written whole, and read often: where the system can, it lies in pages of
 * 2 MB, which are read in turn half as fast again. None of them reaches beyond the block. */
void kin_mem_use_large_pages(const kith_ctx *ctx, void *block);
/* Accepts NULL. */
void kin_free(kith_ctx *ctx, void *block);

/* ---- What a function holds --------------------------------------------------------------------
 * Blocks that are given back when the scope ends in which their hold was made, however it is left.
 * A job that lives longer has a hold of its own, which kin_hold_end empties; it is not copied.
 *
 *     KIN_HOLD(hold, ctx);
 *     KIN_NEW(&hold, rows, n, "rows");
 *     KIN_TRY(fill(rows));
 *     return use(rows); */
enum { KIN_HOLD_MOST = 16 };

typedef void kin_give_back(void *owner, void *block);

typedef struct kin_hold {
    kith_ctx *ctx;
    int count;
    struct {
        kin_give_back *give_back;
        void *owner;
        void *block;
    } held[KIN_HOLD_MOST];
} kin_hold;

#define KIN_HOLD(hold, context) \
    __attribute__((cleanup(kin_hold_end))) kin_hold hold = {.ctx = (context)}

/* Gives back what is held, the last first; the hold may be used again. Locals that it gives back,
 * or whose members, stand before it: they live longer. */
void kin_hold_end(kin_hold *hold);
/* Takes one thing more; NULL is nothing. */
void kin_hold_take(kin_hold *hold, kin_give_back *give_back, void *owner, void *block);
/* How a block of kin_alloc is given back: the owner is its context. */
void kin_hold_give(void *ctx, void *block);
/* As kin_alloc. */
kith_status kin_hold_alloc(kin_hold *hold, void *out, uint64_t count, uint64_t item_bytes,
                           const char *what);
/* An array of `count` for this pointer, of zeros where the second asks for it; a failure is
 * returned. */
#define KIN_NEW(hold, pointer, count, what) \
    KIN_TRY(kin_hold_alloc((hold), &(pointer), (count), sizeof *(pointer), (what)))
#define KIN_NEW_ZERO(hold, pointer, count, what)                     \
    do {                                                             \
        KIN_NEW(hold, pointer, count, what);                         \
        memset((pointer), 0, (size_t)((count) * sizeof *(pointer))); \
    } while (0)

/* Checked builds: makes a red zone of KIN_MEM_ALIGNMENT bytes at `at` in a block of kin_alloc. */
void kin_mem_zone(void *block, unsigned char *at);

#endif
