/* SPDX-License-Identifier: Apache-2.0
 * The coarse test of screen_gate.h as kernels call it: rows from device memory, the worst of a tile
 * as it lies in shared memory.
 */
#ifndef KIN_SCREEN_GATE_CUH
#define KIN_SCREEN_GATE_CUH

#include "screen/screen_gate.h"

#include <cuda_runtime.h>

static __device__ __forceinline__ kin_gate_row kin_gate_row_of(const kin_screen_gpu_set &set,
                                                               const kin_screen_gpu_lists &lists,
                                                               uint32_t position)
{
    const kin_screen_gpu_facts facts = set.facts[position];
    /* The half of a row is that of its term; set.half is the same number as a column. */
    return kin_gate_row{set.half[position], facts.norm, facts.lost,
                        kin_gate_far(set.frame.bound,
                                     kin_screen_gpu_reach(&set.frame, lists.reach[position]),
                                     facts.lost)};
}

template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ kin_gate_test kin_gate_test_of(kin_bound_kind bound, float eps,
                                                                 const kin_gate_row &row,
                                                                 const kin_screen_gpu_worst &tile)
{
    const kin_bound_row worst = {(double)tile.norm, (double)tile.lost};
    return kin_gate_make_test(TYPE, bound, eps, row, worst, tile.far);
}

#endif
