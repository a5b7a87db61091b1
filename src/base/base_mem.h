/* SPDX-License-Identifier: Apache-2.0
 * Every block of host memory: from the context's allocator, 64-byte aligned, counted against the
 * memory limit. Nobody else calls malloc. */
#ifndef KIN_BASE_MEM_H
#define KIN_BASE_MEM_H

#include "base/base_ctx.h"

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

/* Checked builds: makes a red zone of KIN_MEM_ALIGNMENT bytes at `at` in a block of kin_alloc. */
void kin_mem_zone(void *block, unsigned char *at);

#endif
