/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory within a budget. cudaMalloc takes tens of microseconds to milliseconds and cudaFree
 * waits for the device, so a block that is freed stays with us until somebody wants one of about
 * its size: work of one stream happens in order, so the next owner may write to it at once.
 *
 *   size      rounded up to a power of two or some quarters more below 1 MiB, to 2 MiB above (the
 *             driver's own page)
 *   reuse     the smallest idle block that is large enough and at most a quarter too large, or 64
 *             MiB: jobs that nearly fill a device would not fit if each block held a quarter more
 *   budget    counts what drivers hold; idle blocks go back to the device when they stand in
 *             the way of the budget, or of a cudaMalloc that failed
 *   scope     what drivers' parts adapt to. In a narrowed scope blocks are not too large, so
 *             that what is held depends on what is asked for alone
 *   pool      where the caller gives device memory, idle blocks go back to him when the device is
 *             left, and before that as they would to the driver; never while work that uses them
 *             may be under way, since he does not wait as cudaFree does
 *
 * Cost: a walk over a table of some hundred blocks an allocation. */
#include "base/base_mem.h"
#include "gpu/gpu.h"

#include <inttypes.h>

enum { SMALLEST_BLOCK = 512, SMALL_BLOCKS = 1 << 20, PAGE = 2 << 20, TABLE_BLOCKS = 256 };
enum { ALIGNED = 256 /* bytes */ };
static const uint64_t MOST_TOO_LARGE = 64u << 20;
enum { NARROWER = 2 /* bits */, LEAST_SCOPE = 1 << 16 /* of a whole budget */ };

typedef struct block {
    void *address; /* NULL: this place of the table is free */
    uint64_t bytes;
    bool used;
} block;

/* Grows by whole tables, so that growing moves nothing. */
typedef struct kin_gpu_cache {
    struct kin_gpu_cache *next;
    block blocks[TABLE_BLOCKS];
} kin_gpu_cache;

kith_status kin_gpu_check(kith_ctx *ctx, const kin_gpu *gpu, int error, const char *what)
{
    if (error == 0) {
        return KITH_OK;
    }
    return kin_fail(ctx, error == KIN_GPU_ERROR_MEMORY ? KITH_E_DEVICE_MEMORY : KITH_E_DEVICE,
                    "cuda:%d, %s: %s (CUDA error %d)", (int)gpu->index, what,
                    gpu->module->ops->error_text(error), error);
}

uint64_t kin_gpu_block_bytes(uint64_t bytes)
{
    if (bytes > SMALL_BLOCKS) {
        return bytes > UINT64_MAX - PAGE ? UINT64_MAX : (bytes + PAGE - 1) / PAGE * PAGE;
    }
    uint64_t power = SMALLEST_BLOCK;
    while (2 * power <= bytes) {
        power *= 2;
    }
    const uint64_t step = power / 4;
    return bytes <= power ? power : (bytes + step - 1) / step * step;
}

static block *find_idle(const kin_gpu *gpu, uint64_t bytes)
{
    const uint64_t more = bytes / 4 < MOST_TOO_LARGE ? bytes / 4 : MOST_TOO_LARGE;
    const uint64_t most = gpu->narrowed > 0 ? bytes : kin_size_add(bytes, more);
    block *best = NULL;
    for (kin_gpu_cache *table = gpu->cache; table != NULL; table = table->next) {
        for (int i = 0; i < TABLE_BLOCKS; i++) {
            block *b = &table->blocks[i];
            if (b->address != NULL && !b->used && b->bytes >= bytes && b->bytes <= most &&
                (best == NULL || b->bytes < best->bytes)) {
                best = b;
            }
        }
    }
    return best;
}

static block *find_address(const kin_gpu *gpu, const void *address)
{
    for (kin_gpu_cache *table = gpu->cache; table != NULL; table = table->next) {
        for (int i = 0; i < TABLE_BLOCKS; i++) {
            if (table->blocks[i].address == address) {
                return &table->blocks[i];
            }
        }
    }
    return NULL;
}

/* Room in the table for one more block; address NULL is what free places have. */
static kith_status find_place(kith_ctx *ctx, kin_gpu *gpu, block **place)
{
    *place = find_address(gpu, NULL);
    if (*place != NULL) {
        return KITH_OK;
    }
    kin_gpu_cache *table = NULL;
    const kith_status status =
        kin_alloc_zero(gpu->home, &table, 1, sizeof *table, "the table of device memory");
    if (status != KITH_OK) {
        return kin_fail(ctx, status, "no memory for the table of device memory (free some memory)");
    }
    table->next = gpu->cache;
    gpu->cache = table;
    *place = &table->blocks[0];
    return KITH_OK;
}

static uint64_t idle_bytes(const kin_gpu *gpu)
{
    uint64_t bytes = 0;
    for (const kin_gpu_cache *table = gpu->cache; table != NULL; table = table->next) {
        for (int i = 0; i < TABLE_BLOCKS; i++) {
            const block *b = &table->blocks[i];
            bytes += b->address != NULL && !b->used ? b->bytes : 0;
        }
    }
    return bytes;
}

/* ---- Where blocks come from and go ----------------------------------------------------------- */

static bool has_pool(const kin_gpu *gpu)
{
    return gpu->home->params.device_allocate != NULL;
}

static int take_block(const kin_gpu *gpu, uint64_t bytes, void **out)
{
    const kith_ctx_params *params = &gpu->home->params;
    if (!has_pool(gpu)) {
        return gpu->module->ops->allocate(gpu->stream, bytes, out);
    }
    *out = params->device_allocate(params->device_allocate_arg, gpu->index, (size_t)bytes);
    return *out != NULL ? 0 : KIN_GPU_ERROR_MEMORY;
}

static void give_back(const kin_gpu *gpu, const block *b)
{
    const kith_ctx_params *params = &gpu->home->params;
    if (!has_pool(gpu)) {
        gpu->module->ops->release(gpu->stream, b->address);
    } else {
        params->device_release(params->device_allocate_arg, gpu->index, b->address,
                               (size_t)b->bytes);
    }
}

static void release_blocks(kin_gpu *gpu, bool used_too)
{
    if (has_pool(gpu) && (used_too || idle_bytes(gpu) > 0)) {
        (void)gpu->module->ops->wait(gpu->stream); /* its error is told by whoever works on */
    }
    for (kin_gpu_cache *table = gpu->cache; table != NULL; table = table->next) {
        for (int i = 0; i < TABLE_BLOCKS; i++) {
            block *b = &table->blocks[i];
            if (b->address != NULL && (!b->used || used_too)) {
                give_back(gpu, b);
                *b = (block){0};
            }
        }
    }
}

void kin_gpu_trim(kin_gpu *gpu)
{
    release_blocks(gpu, false);
}

void kin_gpu_cache_rest(kin_gpu *gpu)
{
    if (has_pool(gpu)) {
        kin_gpu_trim(gpu);
        gpu->budget = gpu->given; /* what it lacked it may have by the next call */
    }
}

void kin_gpu_cache_end(kin_gpu *gpu)
{
    release_blocks(gpu, true);
    while (gpu->cache != NULL) {
        kin_gpu_cache *next = gpu->cache->next;
        kin_free(gpu->home, gpu->cache);
        gpu->cache = next;
    }
    gpu->held = 0;
}

uint64_t kin_gpu_room(const kin_gpu *gpu)
{
    return gpu->budget > gpu->held ? gpu->budget - gpu->held : 0;
}

static bool is_narrowest(const kin_gpu *gpu)
{
    return gpu->narrowed > 0 && gpu->budget >> (NARROWER * gpu->narrowed) < LEAST_SCOPE;
}

uint64_t kin_gpu_scope(const kin_gpu *gpu)
{
    return is_narrowest(gpu) ? 0 : kin_gpu_room(gpu) >> (NARROWER * gpu->narrowed);
}

bool kin_gpu_narrow(kin_gpu *gpu)
{
    const bool possible = !is_narrowest(gpu);
    gpu->narrowed += possible ? 1 : 0;
    return possible;
}

/* The device had less than we thought: others took some. The budget learns it, so that drivers plan
 * with what there is. A pool that lacks a block may have half of it. */
static void learn_budget(kin_gpu *gpu, uint64_t wanted)
{
    uint64_t available = wanted / 2;
    const bool known = has_pool(gpu) || gpu->module->ops->free_bytes(gpu->stream, &available) == 0;
    if (known && gpu->held + available < gpu->budget) {
        gpu->budget = gpu->held + available;
    }
}

static kith_status take_new(kith_ctx *ctx, kin_gpu *gpu, uint64_t bytes, const char *what,
                            block **out)
{
    block *place = NULL;
    void *address = NULL;
    if (kin_size_add(idle_bytes(gpu), bytes) > kin_gpu_room(gpu)) {
        kin_gpu_trim(gpu);
    }
    KIN_TRY(find_place(ctx, gpu, &place));
    int error = take_block(gpu, bytes, &address);
    if (error == KIN_GPU_ERROR_MEMORY) {
        kin_gpu_trim(gpu);
        error = take_block(gpu, bytes, &address);
    }
    if (error == KIN_GPU_ERROR_MEMORY) {
        learn_budget(gpu, bytes);
        return kin_fail(ctx, KITH_E_DEVICE_MEMORY,
                        "cuda:%d has no memory for %" PRIu64 " bytes more, %" PRIu64
                        " are left (others hold some: try later, or use the device cpu)",
                        (int)gpu->index, bytes, kin_gpu_room(gpu));
    }
    KIN_TRY(kin_gpu_check(ctx, gpu, error, what));
    const block found = {.address = address, .bytes = bytes};
    if ((uintptr_t)address % ALIGNED != 0) {
        give_back(gpu, &found);
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at("device_allocate"),
                           "gave memory that is not aligned to %d bytes (align it)", ALIGNED);
    }
    *place = found;
    *out = place;
    return KITH_OK;
}

kith_status kin_gpu_alloc(kith_ctx *ctx, kin_gpu *gpu, void *out, uint64_t count,
                          uint64_t item_bytes, const char *what)
{
    void **target = out;
    *target = NULL;
    const uint64_t bytes = kin_gpu_block_bytes(kin_size_mul(count, item_bytes));
    if (bytes > kin_gpu_room(gpu)) {
        return kin_fail(ctx, KITH_E_DEVICE_MEMORY,
                        "cuda:%d has no room for %" PRIu64 " bytes more, %" PRIu64 " of %" PRIu64
                        " are left (give it more memory, or use the device cpu)",
                        (int)gpu->index, bytes, kin_gpu_room(gpu), gpu->budget);
    }
    block *b = find_idle(gpu, bytes);
    if (b == NULL || b->bytes > kin_gpu_room(gpu)) {
        KIN_TRY(take_new(ctx, gpu, bytes, what, &b));
    }
    b->used = true;
    gpu->held += b->bytes;
    gpu->peak = gpu->held > gpu->peak ? gpu->held : gpu->peak;
    *target = b->address;
    return KITH_OK;
}

uint64_t kin_gpu_layout_bytes(kin_layout_names *names, void *job)
{
    kin_layout dry = {.on_device = true};
    names(&dry, job);
    return dry.at;
}

kith_status kin_gpu_layout_make(kith_ctx *ctx, kin_gpu *gpu, kin_layout_names *names, void *job,
                                const char *what, void **out)
{
    const uint64_t bytes = kin_gpu_layout_bytes(names, job);
    *out = NULL;
    if (bytes == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_alloc(ctx, gpu, out, bytes, 1, what));
    kin_layout wet = {.block = *out, .on_device = true};
    names(&wet, job);
    kin_assert(wet.at == bytes);
    return KITH_OK;
}

void kin_gpu_free(kin_gpu *gpu, void *address)
{
    block *b = address != NULL ? find_address(gpu, address) : NULL;
    if (b != NULL && b->used) {
        b->used = false;
        gpu->held -= b->bytes;
    }
}

/* ---- Holds ----------------------------------------------------------------------------------- */

static void give_block(void *gpu, void *address)
{
    kin_gpu_free(gpu, address);
}

void kin_gpu_hold_take(kin_hold *hold, kin_gpu *gpu, void *address)
{
    kin_hold_take(hold, give_block, gpu, address);
}

kith_status kin_gpu_hold_alloc(kin_hold *hold, kin_gpu *gpu, void *out, uint64_t bytes,
                               const char *what)
{
    void **target = out;
    KIN_TRY(kin_gpu_alloc(hold->ctx, gpu, target, bytes, 1, what));
    kin_gpu_hold_take(hold, gpu, *target);
    return KITH_OK;
}

kith_status kin_gpu_hold_layout(kin_hold *hold, kin_gpu *gpu, kin_layout_names *names, void *job,
                                const char *what)
{
    void *address = NULL;
    KIN_TRY(kin_gpu_layout_make(hold->ctx, gpu, names, job, what, &address));
    kin_gpu_hold_take(hold, gpu, address);
    return KITH_OK;
}
