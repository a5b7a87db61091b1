/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels in plain C: the reference of the others, and what runs where nothing better does;
 * and which kernel serves a type on a machine. Contract: screen_tile.h. */
#include "host/host_cpu.h"
#include "screen/screen_tile_hit.h"
#include "screen/screen_tile_plain.h"

#define TILE_NAME s8
#include "screen/screen_tile_body.inc"
#define TILE_NAME s16
#include "screen/screen_tile_body.inc"
#define TILE_NAME f32
#include "screen/screen_tile_body.inc"

/* ---- Which one ------------------------------------------------------------------------------ */

#define KERNEL(TYPE, type, NAME, isa) [KIN_TILE_##TYPE][KIN_ISA_##NAME] = &kin_tile_##type##_##isa,
static const void *const kernels[KIN_TILE_TYPES][KIN_ISA_COUNT] = {KIN_PRODUCT_MAP(KERNEL)};

/* The portable kernels are listed for tests alone where a wider type is faster: only the portable
 * level takes them. */
const kin_tile_kernel *kin_tile_get(kin_isa isa, kin_tile_type type)
{
    const kin_tile_kernel *best = kin_isa_pick(isa, kernels[type]);
    return best != NULL && best->isa == KIN_ISA_PORTABLE && isa != KIN_ISA_PORTABLE ? NULL : best;
}

const char *kin_tile_type_name(kin_tile_type type)
{
    static const char *const names[KIN_TILE_TYPES] = {"s8", "s16", "bf16", "f32"};
    return names[type];
}

int32_t kin_tile_group_size(kin_tile_type type)
{
    static const int32_t sizes[KIN_TILE_TYPES] = {4, 2, 2, 1};
    return sizes[type];
}
