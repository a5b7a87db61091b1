/* SPDX-License-Identifier: Apache-2.0
 * Words that a warp holds in registers, R a lane, sorted by a bitonic network; and how many warps a
 * launch takes. Word number i of the warp is word i % R of lane i / R: strides below R stay within
 * a lane.
 *
 * All lanes of a warp call these together. */
#ifndef KIN_CASCADE_WARP_CUH
#define KIN_CASCADE_WARP_CUH

#include "gpu/gpu_stream.cuh"

#include <stdint.h>

enum {
    KIN_CASCADE_THREADS = 256, /* a block of kernels that give each point a warp */
    KIN_CASCADE_WARPS = KIN_CASCADE_THREADS / 32,
    KIN_CASCADE_BLOCKS = 8 /* a processor: as many threads as it holds */
};
#define KIN_CASCADE_LANES 0xffffffffu

/* ---- Points ---------------------------------------------------------------------------------- */

/* Blocks that walk `points` points, a warp each: no more than a device holds a few times over, so
 * that what blocks add up is added to device memory by few. */
static inline unsigned kin_cascade_blocks(const kin_gpu_stream *stream, int64_t points)
{
    const int64_t wished = (points + KIN_CASCADE_WARPS - 1) / KIN_CASCADE_WARPS;
    const int64_t most = (int64_t)stream->processors * KIN_CASCADE_BLOCKS * 4;
    return (unsigned)(wished < most ? wished : most);
}

static __device__ __forceinline__ int kin_cascade_lane(void)
{
    return (int)threadIdx.x % 32;
}

/* The first point of this warp, counted from the first that is cared for, and how far its next one
 * is. */
static __device__ __forceinline__ int64_t kin_cascade_first(void)
{
    return (int64_t)blockIdx.x * KIN_CASCADE_WARPS + threadIdx.x / 32;
}

static __device__ __forceinline__ int64_t kin_cascade_step(void)
{
    return (int64_t)gridDim.x * KIN_CASCADE_WARPS;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Exchanges of one stride; they rise where bit `size` of a word's number is clear. */
template <int R, typename Word>
static __device__ __forceinline__ void kin_cascade_exchange(Word (&words)[R], int size, int stride)
{
    const int first = kin_cascade_lane() * R;
    if (stride >= R) {
        const bool low = (first & stride) == 0;
        const bool rises = (first & size) == 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const Word other = __shfl_xor_sync(KIN_CASCADE_LANES, words[r], stride / R);
            words[r] = (other < words[r]) == (low == rises) ? other : words[r];
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        if ((r & stride) == 0) {
            const Word a = words[r];
            const Word b = words[r | stride];
            const bool turned = (b < a) == (((first + r) & size) == 0);
            words[r] = turned ? b : a;
            words[r | stride] = turned ? a : b;
        }
    }
}

/* A bitonic sequence rises. */
template <int R, typename Word>
static __device__ __forceinline__ void kin_cascade_merge_words(Word (&words)[R])
{
#pragma unroll
    for (int stride = 16 * R; stride > 0; stride /= 2) {
        kin_cascade_exchange<R>(words, 32 * R, stride);
    }
}

template <int R, typename Word>
static __device__ __forceinline__ void kin_cascade_sort(Word (&words)[R])
{
#pragma unroll
    for (int size = 2; size <= 32 * R; size *= 2) {
#pragma unroll
        for (int stride = size / 2; stride > 0; stride /= 2) {
            kin_cascade_exchange<R>(words, size, stride);
        }
    }
}

/* best becomes the least 32 R of itself and of other, both sorted. */
template <int R, typename Word>
static __device__ __forceinline__ void kin_cascade_join_sorted(Word (&best)[R],
                                                               const Word (&other)[R])
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        const Word word = __shfl_xor_sync(KIN_CASCADE_LANES, other[R - 1 - r], 31);
        best[r] = word < best[r] ? word : best[r];
    }
    kin_cascade_merge_words<R>(best);
}

/* same[r]: word r of this lane equals the one before it. */
template <int R, typename Word>
static __device__ __forceinline__ void kin_cascade_same(const Word (&words)[R], bool (&same)[R])
{
    const Word before = __shfl_up_sync(KIN_CASCADE_LANES, words[R - 1], 1);
    same[0] = kin_cascade_lane() > 0 && words[0] == before;
#pragma unroll
    for (int r = 1; r < R; r++) {
        same[r] = words[r] == words[r - 1];
    }
}

#endif
