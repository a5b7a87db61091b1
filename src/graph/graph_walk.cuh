/* SPDX-License-Identifier: Apache-2.0
 * The sorted list of a walk (graph_walk.cu) in shared memory, and words that enter it: sorted in
 * registers, then merged in place. Lists hold no position twice. All lanes of a warp call these
 * together. */
#ifndef KIN_GRAPH_GPU_WALK_CUH
#define KIN_GRAPH_GPU_WALK_CUH

#include "graph/graph_warp.cuh"
#include "graph/graph_word.h"

/* ---- Words ----------------------------------------------------------------------------------- */

/* The first of `count` ascending words that is not below `word`. */
static __device__ __forceinline__ int32_t kin_graph_gpu_walk_place(const uint64_t *words,
                                                                   int32_t count, uint64_t word)
{
    int32_t low = 0;
    int32_t high = count;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (words[middle] < word) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static __device__ __forceinline__ uint32_t kin_graph_gpu_walk_lanes_below(void)
{
    return (1u << kin_graph_gpu_lane()) - 1u;
}

/* ---- merge ----------------------------------------------------------------------------------- */

/* A sorted list and words that may enter it. */
typedef struct kin_graph_gpu_walk_merging {
    uint64_t *list;
    uint64_t *batch;
    int32_t count; /* of the list */
    int32_t width; /* that it may have */
} kin_graph_gpu_walk_merging;

/* Sorts `kept` words of the batch; those that stand there twice, or in the list, become empty.
 * Returns how many are left. */
template <int R>
static __device__ __forceinline__ int32_t
kin_graph_gpu_walk_sort(const kin_graph_gpu_walk_merging &m, int32_t kept, uint64_t (&words)[R])
{
    const int32_t first = kin_graph_gpu_lane() * R;
#pragma unroll
    for (int r = 0; r < R; r++) {
        words[r] = first + r < kept ? m.batch[first + r] : KIN_GRAPH_EMPTY;
    }
    for (uint32_t found = 1; found != 0;) {
        bool same[R];
        kin_graph_gpu_sort<R>(words);
        kin_graph_gpu_same<R>(words, same);
        bool some = false;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int32_t at = kin_graph_gpu_walk_place(m.list, m.count, words[r] & ~(uint64_t)1);
            const bool known = at < m.count && (m.list[at] ^ words[r]) < 2;
            if (words[r] != KIN_GRAPH_EMPTY && (same[r] || known)) {
                words[r] = KIN_GRAPH_EMPTY;
                some = true;
            }
        }
        found = __ballot_sync(KIN_GRAPH_GPU_LANES, some);
    }
    int32_t left = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        left += __popc(__ballot_sync(KIN_GRAPH_GPU_LANES, words[r] != KIN_GRAPH_EMPTY));
    }
    __syncwarp(); /* the batch has been read */
#pragma unroll
    for (int r = 0; r < R; r++) {
        m.batch[first + r] = words[r];
    }
    __syncwarp(); /* it is sorted */
    return left;
}

/* Words of the list move behind those of the sorted batch that come before them: from the last ones
 * on, so that none is overwritten before it has moved. */
static __device__ __forceinline__ void
kin_graph_gpu_walk_make_way(const kin_graph_gpu_walk_merging &m, int32_t left)
{
    for (int32_t base = (m.count + 31) / 32 * 32 - 32; base >= 0; base -= 32) {
        const int32_t at = base + kin_graph_gpu_lane();
        const uint64_t word = m.list[at];
        const int32_t away = at < m.count ? kin_graph_gpu_walk_place(m.batch, left, word) : 0;
        __syncwarp(); /* all have read theirs */
        if (away > 0 && at + away < m.width) {
            m.list[at + away] = word;
        }
        if (__ballot_sync(KIN_GRAPH_GPU_LANES, away > 0) == 0) {
            break; /* nor does anybody before */
        }
    }
}

/* Words of the batch enter the list: how many there are then, and the place of the first one that
 * came. */
template <int R>
static __device__ __noinline__ int2 kin_graph_gpu_walk_merge(const kin_graph_gpu_walk_merging m,
                                                             int32_t kept)
{
    uint64_t words[R];
    int32_t places[R];
    const int32_t left = kin_graph_gpu_walk_sort<R>(m, kept, words);
    if (left == 0) {
        return make_int2(m.count, m.count);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        places[r] =
            kin_graph_gpu_lane() * R + r + kin_graph_gpu_walk_place(m.list, m.count, words[r]);
    }
    __syncwarp(); /* the list has been read */
    kin_graph_gpu_walk_make_way(m, left);
    __syncwarp(); /* it has made way */
#pragma unroll
    for (int r = 0; r < R; r++) {
        if (words[r] != KIN_GRAPH_EMPTY && places[r] < m.width) {
            m.list[places[r]] = words[r];
        }
    }
    __syncwarp(); /* it is whole */
    return make_int2(min(m.count + left, m.width), __shfl_sync(KIN_GRAPH_GPU_LANES, places[0], 0));
}

#endif
