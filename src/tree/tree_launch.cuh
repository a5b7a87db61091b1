/* SPDX-License-Identifier: Apache-2.0
 * What kernels of the tree share: who a thread is, in blocks of KIN_FUSED_THREADS; a library's
 * sort, one instance for everybody here, since each costs a minute of compiling and a part of the
 * module's size; and every entry of the table of tree_kernels.h by its name, which tree_table.cu
 * lists. */
#ifndef KIN_TREE_LAUNCH_CUH
#define KIN_TREE_LAUNCH_CUH

#include "fused/fused_row.cuh"
#include "gpu/gpu_stream.cuh"
#include "tree/tree_kernels.h"

#include <stddef.h>
#include <stdint.h>

enum { KIN_TREE_GPU_WARPS = KIN_FUSED_THREADS / KIN_FUSED_WARP /* of a block */ };

KIN_DEVICE int64_t kin_tree_gpu_my_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

KIN_DEVICE int64_t kin_tree_gpu_my_warp(void)
{
    return (int64_t)blockIdx.x * KIN_TREE_GPU_WARPS + threadIdx.x / KIN_FUSED_WARP;
}

KIN_DEVICE int32_t kin_tree_gpu_my_lane(void)
{
    return (int32_t)(threadIdx.x % KIN_FUSED_WARP);
}

/* Blocks for `count` items, so many a block. */
static inline unsigned kin_tree_gpu_blocks_for(int64_t count, int64_t a_block)
{
    return (unsigned)((count + a_block - 1) / a_block);
}

/* ---- Across files ---------------------------------------------------------------------------- */

extern "C" {

/* Pairs of 32-bit numbers sorted, stably (tree_rows.cu). Scratch for `count` pairs. */
int kin_tree_gpu_sort_bytes(int64_t count, size_t *bytes);
/* By the lower `bits` bits of the keys, at least one. Inputs stay as they are. */
int kin_tree_gpu_sort(kin_gpu_stream *stream, void *scratch, size_t bytes, const uint32_t *keys,
                      uint32_t *sorted_keys, const uint32_t *values, uint32_t *sorted_values,
                      int64_t count, int32_t bits);

int kin_tree_launch_measure(kin_gpu_stream *stream, const kin_tree_gpu_measure *job);
int kin_tree_launch_round(kin_gpu_stream *stream, const kin_tree_gpu_round *job);
int kin_tree_launch_order(kin_gpu_stream *stream, const kin_tree_gpu_order *job);
int kin_tree_launch_build(kin_gpu_stream *stream, const kin_tree_gpu_build *job);

} /* extern "C" */

#endif
