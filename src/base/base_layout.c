/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base_layout.h"

#include "base/base_size.h"

enum { ALIGNMENT = KIN_MEM_ALIGNMENT, ON_DEVICE = 256, ZONE = KIN_CHECKED ? ALIGNMENT : 0 };

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
    take(layout, padded(bytes, layout->on_device ? ON_DEVICE : ALIGNMENT));
    if (layout->on_device) {
        return array;
    }
    take(layout, ZONE);
    if (array != NULL && KIN_CHECKED) {
        memset(array, 0xa5, (size_t)bytes);
        kin_mem_zone(layout->block, layout->block + layout->at - ZONE);
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
    kin_hold_take(hold, kin_hold_give, hold->ctx, block);
    return KITH_OK;
}

void kin_layout_block(kin_layout *plan, kin_layout_names *names, void *job)
{
    take(plan, kin_mem_bytes(dry_bytes(names, job), 1));
}

void kin_layout_passing(kin_layout *plan, kin_layout_names *names, void *job)
{
    const uint64_t before = kin_layout_mark(plan);
    kin_layout_block(plan, names, job);
    kin_layout_back(plan, before);
}

void kin_layout_alone(kin_layout *plan, uint64_t count, uint64_t item_bytes)
{
    take(plan, kin_mem_bytes(count, item_bytes));
}
