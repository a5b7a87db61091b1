/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory. Each block is preceded by one cache line that holds its size, so that release needs no
 * size and what a context holds is known at every moment:
 *
 *     | size, last zone  64 bytes | the caller's block, 64-byte aligned ... |
 *
 * In checked builds a block may have red zones between its arrays (kin_layout_array). Each says
 * where the one before it is; the sanitizer reports who touches one, and kin_free stops where it
 * was written to.
 */
#define _GNU_SOURCE
#include "base/base_mem.h"

#include "base/base_size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if KIN_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { HEADER_BYTES = KIN_MEM_ALIGNMENT, LARGE_PAGE = 2 << 20, LEAST_LARGE = 8 << 20 };

typedef struct header {
    uint64_t bytes;
    unsigned char *last_zone;
} header;

/* What stands in a red zone. */
typedef struct zone {
    unsigned char *before;
    unsigned char filling[KIN_MEM_ALIGNMENT - sizeof(unsigned char *)];
} zone;

enum { FILLING = 0xdb };

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

/* ---- Red zones ------------------------------------------------------------------------------- */

/* Of KIN_MEM_ALIGNMENT bytes at `at` in a block. */
static void make_zone(void *block, unsigned char *at)
{
    header *head = (header *)(void *)((unsigned char *)block - HEADER_BYTES);
    zone red = {.before = head->last_zone};
    memset(red.filling, FILLING, sizeof red.filling);
    memcpy(at, &red, sizeof red);
    head->last_zone = at;
#if KIN_ASAN
    ASAN_POISON_MEMORY_REGION(at, sizeof red);
#endif
}

static void check_zones(const header *head)
{
    for (unsigned char *at = head->last_zone; at != NULL;) {
#if KIN_ASAN
        ASAN_UNPOISON_MEMORY_REGION(at, sizeof(zone));
#endif
        zone red;
        memcpy(&red, at, sizeof red);
        for (size_t i = 0; i < sizeof red.filling; i++) {
            kin_assert(red.filling[i] == FILLING);
        }
        at = red.before;
    }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* What kin_alloc counts for a block, its header included. */
static uint64_t block_bytes(uint64_t count, uint64_t item_bytes)
{
    const uint64_t wanted = kin_size_add(kin_size_mul(count, item_bytes), 2 * HEADER_BYTES - 1);
    return wanted == UINT64_MAX ? wanted : wanted / HEADER_BYTES * HEADER_BYTES;
}

/* Where the system can, a large block lies in pages of 2 MB: they come a quarter sooner than small
 * ones when a tree is built in it, and are read in turn half as fast again. None of them reaches
 * beyond the block. Of a small one a page that is filled in part would weigh. */
static void use_large_pages(const kith_ctx *ctx, unsigned char *block, uint64_t bytes)
{
    const uint64_t before = -(uint64_t)(uintptr_t)block % LARGE_PAGE;
    if (ctx->params.allocate == NULL && bytes >= LEAST_LARGE) {
        const int said = errno; /* a system without such pages is no error */
        (void)madvise(block + before, (size_t)((bytes - before) / LARGE_PAGE * LARGE_PAGE),
                      MADV_HUGEPAGE);
        errno = said;
    }
}

kith_status kin_alloc(kith_ctx *ctx, void *out, uint64_t count, uint64_t item_bytes,
                      const char *what)
{
    void **target = out;
    *target = NULL;
    const uint64_t bytes = block_bytes(count, item_bytes);
    const uint64_t limit = ctx->params.memory_limit;
    const uint64_t held = atomic_load(&ctx->held_bytes);
    if (limit != 0 && kin_size_add(held, bytes) > limit) {
        kin_log(ctx, 2, "%s: %" PRIu64 " bytes more than the limit allows", what, bytes);
        return kin_fail_at(ctx, KITH_E_LIMIT, kin_at("memory_limit"),
                           "is %" PRIu64 " bytes, and the call takes %" PRIu64
                           " or more (raise it, or ask for less at once)",
                           limit, kin_size_add(held, bytes));
    }
    unsigned char *block = allocate(ctx, bytes);
    if (block == NULL) {
        kin_log(ctx, 2, "%s: no memory for %" PRIu64 " bytes", what, bytes);
        return kin_fail(ctx, KITH_E_MEMORY,
                        "no memory for %" PRIu64
                        " bytes more (free some memory, or ask for less at once)",
                        bytes);
    }
    const header head = {.bytes = bytes};
    memcpy(block, &head, sizeof head);
    note_peak(ctx, atomic_fetch_add(&ctx->held_bytes, bytes) + bytes);
    *target = block + HEADER_BYTES;
    use_large_pages(ctx, block, bytes);
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

kith_status kin_alloc_text(kith_ctx *ctx, char **out, const char *what, const char *format, ...)
{
    va_list list;
    va_list again;
    va_start(list, format);
    va_copy(again, list);
    const size_t room = (size_t)vsnprintf(NULL, 0, format, list) + 1;
    const kith_status status = kin_alloc(ctx, out, room, 1, what);
    if (status == KITH_OK) {
        (void)vsnprintf(*out, room, format, again);
    }
    va_end(again);
    va_end(list);
    return status;
}

void kin_free(kith_ctx *ctx, void *block)
{
    if (block == NULL) {
        return;
    }
    unsigned char *start = (unsigned char *)block - HEADER_BYTES;
    header head;
    memcpy(&head, start, sizeof head);
    check_zones(&head);
    atomic_fetch_sub(&ctx->held_bytes, head.bytes);
    release(ctx, start, head.bytes);
}

/* ---- Holds ----------------------------------------------------------------------------------- */

/* The owner of a block of kin_alloc is its context. */
static void give_block(void *ctx, void *block)
{
    kin_free(ctx, block);
}

void kin_hold_take(kin_hold *hold, kin_give_back *give_back, void *owner, void *block)
{
    if (block != NULL) {
        kin_assert(hold->count < KIN_HOLD_MOST);
        hold->held[hold->count].give_back = give_back;
        hold->held[hold->count].owner = owner;
        hold->held[hold->count++].block = block;
    }
}

void kin_hold_block(kin_hold *hold, void *block)
{
    kin_hold_take(hold, give_block, hold->ctx, block);
}

kith_status kin_hold_alloc(kin_hold *hold, void *out, uint64_t count, uint64_t item_bytes,
                           const char *what)
{
    void **target = out;
    KIN_TRY(kin_alloc(hold->ctx, target, count, item_bytes, what));
    kin_hold_block(hold, *target);
    return KITH_OK;
}

void kin_hold_end(kin_hold *hold)
{
    while (hold->count > 0) {
        hold->count -= 1;
        hold->held[hold->count].give_back(hold->held[hold->count].owner,
                                          hold->held[hold->count].block);
    }
}

/* ---- Layouts --------------------------------------------------------------------------------- */

enum { ON_DEVICE = 256, ZONE = KIN_CHECKED ? KIN_MEM_ALIGNMENT : 0 };

static void take(kin_layout *layout, uint64_t bytes)
{
    layout->at = kin_size_add(layout->at, bytes);
    layout->peak = layout->at > layout->peak ? layout->at : layout->peak;
}

/* A multiple of the alignment, or UINT64_MAX. */
static uint64_t padded(uint64_t bytes, uint64_t alignment)
{
    const uint64_t most = kin_size_add(bytes, alignment - 1);
    return most == UINT64_MAX ? most : most / alignment * alignment;
}

void *kin_layout_array(kin_layout *layout, uint64_t count, uint64_t item_bytes)
{
    const uint64_t bytes = kin_size_mul(count, item_bytes);
    unsigned char *array = layout->block != NULL ? layout->block + layout->at : NULL;
    take(layout, padded(bytes, layout->on_device ? ON_DEVICE : KIN_MEM_ALIGNMENT));
    if (layout->on_device) {
        return array;
    }
    take(layout, ZONE);
    if (array != NULL && KIN_CHECKED) {
        memset(array, 0xa5, (size_t)bytes);
        make_zone(layout->block, layout->block + layout->at - ZONE);
    }
    return array;
}

void *kin_layout_zeros(kin_layout *layout, uint64_t count, uint64_t item_bytes)
{
    void *array = kin_layout_array(layout, count, item_bytes);
    kin_assert(!layout->on_device);
    if (array != NULL) {
        memset(array, 0, (size_t)(count * item_bytes));
    }
    return array;
}

/* Of all arrays, without a block's header. */
static uint64_t dry_bytes(kin_layout_names *names, void *job)
{
    kin_layout dry = {.block = NULL};
    names(&dry, job);
    return dry.peak;
}

kith_status kin_layout_make(kith_ctx *ctx, kin_layout_names *names, void *job, const char *what,
                            void **block)
{
    const uint64_t bytes = dry_bytes(names, job);
    KIN_TRY(kin_alloc(ctx, block, bytes, 1, what));
    kin_layout wet = {.block = *block};
    names(&wet, job);
    kin_assert(wet.peak == bytes);
    return KITH_OK;
}

kith_status kin_hold_layout(kin_hold *hold, kin_layout_names *names, void *job, const char *what)
{
    void *block = NULL;
    KIN_TRY(kin_layout_make(hold->ctx, names, job, what, &block));
    kin_hold_block(hold, block);
    return KITH_OK;
}

void kin_layout_block(kin_layout *plan, kin_layout_names *names, void *job)
{
    take(plan, block_bytes(dry_bytes(names, job), 1));
}

void kin_layout_passing(kin_layout *plan, kin_layout_names *names, void *job)
{
    const uint64_t before = kin_layout_mark(plan);
    kin_layout_block(plan, names, job);
    kin_layout_back(plan, before);
}

void kin_layout_alone(kin_layout *plan, uint64_t count, uint64_t item_bytes)
{
    take(plan, block_bytes(count, item_bytes));
}
