/* SPDX-License-Identifier: Apache-2.0
 * Which kernel serves a type on a machine. */
#include "exact/exact_tile.h"
#include "host/host_cpu.h"

/* Slowest first; the last one that a level includes is taken. The portable s8 kernel is listed for
 * tests alone where s16 is faster: kin_tile_get gives it only to the portable level. */
static const kin_tile_kernel *const kernels[] = {
    &kin_tile_s8_portable,   &kin_tile_s16_portable,   &kin_tile_f32_portable,
#if defined(__x86_64__)
    &kin_tile_s16_avx2,      &kin_tile_f32_avx2,       &kin_tile_s8_avx2vnni,
    &kin_tile_s16_avx2vnni,  &kin_tile_s16_avx512,     &kin_tile_f32_avx512,
    &kin_tile_s8_avx512vnni, &kin_tile_s16_avx512vnni, &kin_tile_s8_amx,
    &kin_tile_bf16_amx,
#elif defined(__aarch64__)
    &kin_tile_s16_neon,    &kin_tile_f32_neon,     &kin_tile_s8_dotprod,   &kin_tile_s8_i8mm,
#endif
};

const kin_tile_kernel *kin_tile_get(kin_isa isa, kin_tile_type type)
{
    const kin_tile_kernel *best = NULL;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (kernels[i]->type == type && kin_isa_includes(isa, kernels[i]->isa)) {
            best = kernels[i];
        }
    }
    if (best != NULL && best->isa == KIN_ISA_PORTABLE && isa != KIN_ISA_PORTABLE) {
        return NULL;
    }
    return best;
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
