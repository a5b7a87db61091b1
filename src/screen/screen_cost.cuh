/* SPDX-License-Identifier: Apache-2.0
 * A cost as a word, its *order*: unsigned and ascending like the cost. The largest one is a padding
 * column's. The screen writes orders, lists and matrices are read by them.
 */
#ifndef KIN_SCREEN_COST_CUH
#define KIN_SCREEN_COST_CUH

#include "screen/screen_set_gpu.h"

#include <cuda_runtime.h>

#define KIN_ORDER_PADDING UINT32_MAX

/* -0 and +0 become one. */
template <kin_screen_gpu_type TYPE>
static __device__ __forceinline__ uint32_t kin_screen_gpu_order(kin_screen_gpu_word cost)
{
    if (TYPE == KIN_SCREEN_GPU_S8) {
        return cost.u ^ 0x80000000U;
    }
    const uint32_t bits = __float_as_uint(__fadd_rn(cost.f, 0.0F));
    return bits ^ ((bits >> 31) != 0 ? 0xffffffffU : 0x80000000U);
}

/* Its inverse. */
static __device__ __forceinline__ double list_cost(kin_screen_gpu_type type, uint32_t order)
{
    if (type == KIN_SCREEN_GPU_S8) {
        return (double)(int32_t)(order ^ 0x80000000u);
    }
    return (double)__uint_as_float((order & 0x80000000u) != 0 ? order ^ 0x80000000u : ~order);
}

/* The largest order that a cost within the limit has: rounded up, +0 in place of -0, so that no
 * cost is left out; a NaN keeps everything; padding never passes. */
static __device__ __forceinline__ uint32_t list_limit_order(kin_screen_gpu_type type, double limit)
{
    if (!(limit < (double)INT32_MAX) && type == KIN_SCREEN_GPU_S8) {
        return KIN_ORDER_PADDING - 1;
    }
    if (type == KIN_SCREEN_GPU_S8) {
        const double low = -2147483647.0;
        return (uint32_t)(int32_t)floor(limit > low ? limit : low) ^ 0x80000000u;
    }
    if (!(limit < (double)FLT_MAX)) {
        return KIN_ORDER_PADDING - 1;
    }
    const uint32_t bits = __float_as_uint(__double2float_ru(limit) + 0.0F);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

#endif
