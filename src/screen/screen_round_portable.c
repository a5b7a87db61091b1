/* SPDX-License-Identifier: Apache-2.0
 * Rounding rows, and shadows at a glance: portable, and which serve a machine. Contracts:
 * screen_tile.h, screen_corpus.h.
 * This file is short because a machine's flags are a file's: the two bodies have the text. */
#define ROUND_OPS kin_round_ops_portable
#include "screen/screen_round_body.inc"

#define GLANCE_OPS kin_glance_ops_portable
#include "screen/screen_glance_body.inc"

#include "host/host_cpu.h"

const kin_round_ops *kin_round_get(kin_isa isa)
{
    static const void *const bodies[KIN_ISA_COUNT] = KIN_BODIES_WIDE(kin_round_ops);
    return kin_isa_pick(isa, bodies);
}

const kin_glance_ops *kin_glance_get(kin_isa isa)
{
    static const void *const bodies[KIN_ISA_COUNT] = {
        [KIN_ISA_PORTABLE] = &kin_glance_ops_portable,
#if defined(__x86_64__)
        [KIN_ISA_AVX2] = &kin_glance_ops_avx2,
#endif
    };
    return kin_isa_pick(isa, bodies);
}
