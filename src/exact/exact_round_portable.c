/* SPDX-License-Identifier: Apache-2.0
 * Rounding rows: portable. Contract: exact_round.h. */
#define ROUND_OPS kin_round_ops_portable
#include "exact/exact_round_body.inc"

#include "host/host_cpu.h"

const kin_round_ops *kin_round_get(kin_isa isa)
{
    static const void *const bodies[KIN_ISA_COUNT] = KIN_BODIES_WIDE(kin_round_ops);
    return kin_isa_pick(isa, bodies);
}
