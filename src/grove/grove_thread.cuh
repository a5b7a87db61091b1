/* SPDX-License-Identifier: Apache-2.0
 * Who a thread is, in blocks of KIN_FUSED_THREADS. */
#ifndef KIN_GROVE_THREAD_CUH
#define KIN_GROVE_THREAD_CUH

#include "fused/fused_row.cuh"

enum { KIN_GROVE_WARPS = KIN_FUSED_THREADS / KIN_FUSED_WARP /* of a block */ };

KIN_DEVICE int64_t kin_grove_my_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

KIN_DEVICE int64_t kin_grove_my_warp(void)
{
    return (int64_t)blockIdx.x * KIN_GROVE_WARPS + threadIdx.x / KIN_FUSED_WARP;
}

KIN_DEVICE int32_t kin_grove_my_lane(void)
{
    return (int32_t)(threadIdx.x % KIN_FUSED_WARP);
}

/* Blocks for `count` items, so many a block. */
static inline unsigned kin_grove_blocks_for(int64_t count, int64_t a_block)
{
    return (unsigned)((count + a_block - 1) / a_block);
}

#endif
