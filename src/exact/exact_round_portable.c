/* SPDX-License-Identifier: Apache-2.0
 * Rounding rows: portable. Contract: exact_round.h. */
#define ROUND_OPS kin_round_portable
#include "exact/exact_round_body.inc"

#include "host/host_cpu.h"

const kin_round_ops *kin_round_get(kin_isa isa)
{
#if defined(__x86_64__)
    if (kin_isa_includes(isa, KIN_ISA_AVX512)) {
        return &kin_round_avx512;
    }
    if (kin_isa_includes(isa, KIN_ISA_AVX2)) {
        return &kin_round_avx2;
    }
#else
    (void)isa;
#endif
    return &kin_round_portable;
}
