/* SPDX-License-Identifier: Apache-2.0
 * The coarse test of fused_gate.h as kernels call it: rows from device memory, the worst of a tile
 * as it lies in shared memory.
 */
#ifndef KIN_FUSED_GATE_CUH
#define KIN_FUSED_GATE_CUH

#include "fused/fused_gate.h"

#include <cuda_runtime.h>

static __device__ __forceinline__ kin_gate_row kin_gate_row_of(const kin_fused_set &set,
                                                               const kin_fused_lists &lists,
                                                               uint32_t position)
{
    const kin_fused_facts facts = set.facts[position];
    /* The half of a row is that of its term; set.half is the same number as a column. */
    return kin_gate_row{set.half[position], facts.norm, facts.lost,
                        kin_gate_far(set.frame.bound,
                                     kin_fused_reach(&set.frame, lists.reach[position]),
                                     facts.lost)};
}

template <kin_fused_type TYPE>
static __device__ __forceinline__ kin_gate_test kin_gate_test_of(kin_bound_kind bound, float eps,
                                                                 const kin_gate_row &row,
                                                                 const kin_fused_worst &tile)
{
    const kin_bound_row worst = {(double)tile.norm, (double)tile.lost};
    return kin_gate_make_test(TYPE, bound, eps, row, worst, tile.far);
}

#endif
