/* SPDX-License-Identifier: Apache-2.0
 * Keys and ids in shared memory, sorted by (key, id) by all threads of a block.
 *
 * Bitonic: log w (log w + 1) / 2 steps of w / 2 exchanges for a width w, a power of two. Places
 * behind the last entry are filled with (+inf, KITH_ID_NONE), which no entry comes after. */
#ifndef KIN_SCREEN_SORT_CUH
#define KIN_SCREEN_SORT_CUH

#include "kith/kith.h"

#include <math.h>
#include <stdint.h>

/* The order of answers. Keys are never NaN and never -0. */
static __device__ __forceinline__ bool kin_sort_before(double key_a, uint32_t id_a, double key_b,
                                                       uint32_t id_b)
{
    return key_a < key_b || (key_a == key_b && id_a < id_b);
}

/* The least power of two that is at least n, and at least 2. */
static inline __host__ __device__ int32_t kin_sort_width(int32_t n)
{
    int32_t width = 2;
    while (width < n) {
        width *= 2;
    }
    return width;
}

/* Sorts the first n of at least kin_sort_width(n) places. Begins and ends with a barrier. */
static __device__ __forceinline__ void kin_sort_block(double *keys, uint32_t *ids, int32_t n)
{
    const int32_t width = kin_sort_width(n);
    const int32_t threads = (int32_t)blockDim.x;
    const int32_t thread = (int32_t)threadIdx.x;
    for (int32_t i = n + thread; i < width; i += threads) {
        keys[i] = (double)INFINITY;
        ids[i] = KITH_ID_NONE;
    }
    for (int32_t size = 2; size <= width; size *= 2) {
        for (int32_t stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads(); /* the last step is complete */
            for (int32_t i = thread; i < width / 2; i += threads) {
                const int32_t low = 2 * i - (i & (stride - 1));
                const int32_t high = low + stride;
                const double a = keys[low];
                const double b = keys[high];
                const uint32_t id_a = ids[low];
                const uint32_t id_b = ids[high];
                const bool rising = (low & size) == 0;
                if (rising ? kin_sort_before(b, id_b, a, id_a)
                           : kin_sort_before(a, id_a, b, id_b)) {
                    keys[low] = b;
                    keys[high] = a;
                    ids[low] = id_b;
                    ids[high] = id_a;
                }
            }
        }
    }
    __syncthreads();
}

#endif
