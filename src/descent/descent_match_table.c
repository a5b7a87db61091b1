/* SPDX-License-Identifier: Apache-2.0
 * Which kernel serves a type on a machine. */
#include "descent/descent_kernel.h"
#include "host/host_cpu.h"

/* Slowest first; the last one that a level includes is taken. */
static const kin_descent_kernel *const kernels[] = {
    &kin_descent_s8_portable,   &kin_descent_s16_portable,   &kin_descent_f32_portable,
#if defined(__x86_64__)
    &kin_descent_s16_avx2,      &kin_descent_f32_avx2,       &kin_descent_s8_avx2vnni,
    &kin_descent_s16_avx2vnni,  &kin_descent_s16_avx512,     &kin_descent_f32_avx512,
    &kin_descent_s8_avx512vnni, &kin_descent_s16_avx512vnni, &kin_descent_s8_amx,
    &kin_descent_bf16_amx,
#endif
};

kin_descent_least_fn kin_descent_least_get(kin_isa isa)
{
#if defined(__x86_64__)
    if (kin_isa_includes(isa, KIN_ISA_AVX512)) {
        return kin_descent_least_avx512;
    }
    if (kin_isa_includes(isa, KIN_ISA_AVX2)) {
        return kin_descent_least_avx2;
    }
#endif
    (void)isa;
    return kin_descent_least_portable;
}

kin_descent_hits_fn kin_descent_hits_get(kin_isa isa)
{
#if defined(__x86_64__)
    if (kin_isa_includes(isa, KIN_ISA_AVX512)) {
        return kin_descent_hits_avx512;
    }
    if (kin_isa_includes(isa, KIN_ISA_AVX2)) {
        return kin_descent_hits_avx2;
    }
#endif
    (void)isa;
    return kin_descent_hits_portable;
}

kin_descent_put_fn kin_descent_put_get(kin_isa isa)
{
#if defined(__x86_64__)
    if (kin_isa_includes(isa, KIN_ISA_AVX512)) {
        return kin_descent_put_avx512;
    }
#endif
    (void)isa;
    return kin_descent_put_portable;
}

const kin_descent_kernel *kin_descent_kernel_get(kin_isa isa, kin_tile_type type)
{
    const kin_descent_kernel *best = NULL;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (kernels[i]->type == type && kin_isa_includes(isa, kernels[i]->isa)) {
            best = kernels[i];
        }
    }
    return best;
}
