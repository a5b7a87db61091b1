/* SPDX-License-Identifier: Apache-2.0
 * Tile kernels in plain C: the reference of the others, and what runs where nothing better does;
 * and which kernel serves a type on a machine. Contract: exact_tile.h. */
#include "exact/exact_tile.h"
#include "exact/exact_tile_hit.h"
#include "exact/exact_tile_plain.h"
#include "host/host_cpu.h"

/* A broadcast word stays a word here: `row` in the body is not a vector. */
#define TILE_SPLAT uint32_t
#define VEC_LOAD load
#define VEC_SPLAT splat
#define VEC_STORE store

#define TILE_NAME s8
#define TILE_FLOAT 0
#define TILE_FLIP 0x80808080u
#define VEC_DOT dot_s8
#define VEC_PAIR pair_s8
#define VEC_PASS pass_int
#define VEC_SUMS sums_int
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLIP
#undef VEC_DOT
#undef VEC_PAIR

#define TILE_NAME s16
#define TILE_FLIP 0u
#define VEC_DOT dot_s16
#define VEC_PAIR pair_s16
#include "exact/exact_tile_body.inc"
#undef TILE_NAME
#undef TILE_FLOAT
#undef VEC_DOT
#undef VEC_PAIR
#undef VEC_PASS
#undef VEC_SUMS

#define TILE_NAME f32
#define TILE_FLOAT 1
#define VEC_DOT dot_f32
#define VEC_PAIR pair_f32
#define VEC_PASS pass_float
#define VEC_SUMS sums_float
#include "exact/exact_tile_body.inc"

const kin_tile_kernel kin_tile_s8_portable = {
    "s8 portable", KIN_TILE_S8, KIN_ISA_PORTABLE, TILE_ROWS, 1, s8_pack, s8_run, s8_lines, 1.0};
const kin_tile_kernel kin_tile_s16_portable = {
    "s16 portable", KIN_TILE_S16, KIN_ISA_PORTABLE, TILE_ROWS, 1,
    s16_pack,       s16_run,      s16_lines,        1.0};
const kin_tile_kernel kin_tile_f32_portable = {
    "f32 portable", KIN_TILE_F32, KIN_ISA_PORTABLE, TILE_ROWS, 1,
    f32_pack,       f32_run,      f32_lines,        1.0};

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
