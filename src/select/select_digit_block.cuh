/* SPDX-License-Identifier: Apache-2.0
 * Counts of digits in shared memory: COPIES of each bin side by side, 1 or 4, for a block of
 * THREADS. Lanes of a warp that add to one place wait for one another; with four copies, one for
 * each of four neighbouring lanes, they wait a quarter of it. */
#ifndef KIN_SELECT_DIGIT_BLOCK_CUH
#define KIN_SELECT_DIGIT_BLOCK_CUH

#include "select/select_block.cuh"
#include "select/select_digit.cuh"

typedef struct kin_digit_bin {
    uint32_t bin;
    uint32_t before; /* words in the bins before it */
    uint32_t count;  /* words in it */
} kin_digit_bin;

template <int32_t COPIES, int32_t THREADS>
static __device__ __forceinline__ void kin_digit_clear(uint32_t *counts)
{
    for (int32_t i = (int32_t)threadIdx.x; i < KIN_DIGIT_BINS * COPIES; i += THREADS) {
        counts[i] = 0;
    }
    __syncthreads(); /* before the first addition */
}

/* The words of a bin. counts is 16-byte aligned. */
template <int32_t COPIES>
static __device__ __forceinline__ uint32_t kin_digit_sum(const uint32_t *counts, uint32_t bin)
{
    if (COPIES == 1) {
        return counts[bin];
    }
    const uint4 copies = ((const uint4 *)counts)[bin];
    return copies.x + copies.y + copies.z + copies.w;
}

/* The bin that holds the need-th word. All threads call it behind a barrier; ends with one, behind
 * which all see *found, in shared memory, and counts may be overwritten. sums: see
 * kin_block_scan. */
template <int32_t COPIES, int32_t THREADS>
static __device__ __forceinline__ void kin_digit_find(const uint32_t *counts, uint32_t need,
                                                      uint32_t *sums, kin_digit_bin *found)
{
    constexpr uint32_t bins = KIN_DIGIT_BINS / THREADS;
    const uint32_t first = threadIdx.x * bins;
    uint32_t count[bins];
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < bins; i++) {
        count[i] = kin_digit_sum<COPIES>(counts, first + i);
        sum += count[i];
    }
    uint32_t total;
    uint32_t before = kin_block_scan(sum, sums, &total);
    if (before < need && need - before <= sum) {
#pragma unroll
        for (uint32_t i = 0; i < bins; i++) {
            if (before < need && need - before <= count[i]) {
                *found = kin_digit_bin{first + i, before, count[i]};
            }
            before += count[i];
        }
    }
    __syncthreads();
}

#endif
