/* SPDX-License-Identifier: Apache-2.0
 * Words that a warp holds in registers, R a lane, sorted by a bitonic network; and how many warps a
 * launch takes. Word number i of the warp is word i % R of lane i / R: strides below R stay within
 * a lane.
 *
 * All lanes of a warp call these together. */
#ifndef KIN_GRAPH_GPU_WARP_CUH
#define KIN_GRAPH_GPU_WARP_CUH

#include "gpu/gpu_stream.cuh"
#include "graph/graph_word.h"

#include <stdint.h>

enum {
    KIN_GRAPH_GPU_THREADS = 256, /* a block of kernels that give each point a warp */
    KIN_GRAPH_GPU_WARPS = KIN_GRAPH_GPU_THREADS / 32,
    KIN_GRAPH_GPU_BLOCKS = 8 /* a processor: as many threads as it holds */
};
#define KIN_GRAPH_GPU_LANES 0xffffffffu

/* ---- Points ---------------------------------------------------------------------------------- */

/* Blocks that walk `points` points, a warp each: no more than a device holds a few times over, so
 * that what blocks add up is added to device memory by few. */
static inline unsigned kin_graph_gpu_blocks(const kin_gpu_stream *stream, int64_t points)
{
    const int64_t wished = (points + KIN_GRAPH_GPU_WARPS - 1) / KIN_GRAPH_GPU_WARPS;
    const int64_t most = (int64_t)stream->processors * KIN_GRAPH_GPU_BLOCKS * 4;
    return (unsigned)(wished < most ? wished : most);
}

/* A warp each for so many points. */
template <typename Job>
static int kin_graph_gpu_each_point(kin_gpu_stream *stream, int64_t points, const Job *job,
                                    void (*kernel)(Job))
{
    if (points <= 0) {
        return 0;
    }
    kernel<<<kin_graph_gpu_blocks(stream, points), KIN_GRAPH_GPU_THREADS, 0, stream->stream>>>(
        *job);
    return kin_gpu_launched();
}

/* A thread each for so many cells; kernels have a loop of their own, since there may be more of
 * them than threads. */
template <typename Job>
static int kin_graph_gpu_each_cell(kin_gpu_stream *stream, int64_t cells, const Job *job,
                                   void (*kernel)(Job))
{
    return kin_graph_gpu_each_point(stream, (cells + 31) / 32, job, kernel);
}

static __device__ __forceinline__ int64_t kin_graph_gpu_first_cell(void)
{
    return (int64_t)blockIdx.x * KIN_GRAPH_GPU_THREADS + threadIdx.x;
}

static __device__ __forceinline__ int64_t kin_graph_gpu_cell_step(void)
{
    return (int64_t)gridDim.x * KIN_GRAPH_GPU_THREADS;
}

static __device__ __forceinline__ int kin_graph_gpu_lane(void)
{
    return (int)threadIdx.x % 32;
}

/* The first point of this warp, counted from the first that is cared for, and how far its next one
 * is. */
static __device__ __forceinline__ int64_t kin_graph_gpu_first(void)
{
    return (int64_t)blockIdx.x * KIN_GRAPH_GPU_WARPS + threadIdx.x / 32;
}

static __device__ __forceinline__ int64_t kin_graph_gpu_step(void)
{
    return (int64_t)gridDim.x * KIN_GRAPH_GPU_WARPS;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Exchanges of one stride; they rise where bit `size` of a word's number is clear. */
template <int R, typename Word>
static __device__ __forceinline__ void kin_graph_gpu_exchange(Word (&words)[R], int size,
                                                              int stride)
{
    const int first = kin_graph_gpu_lane() * R;
    if (stride >= R) {
        const bool low = (first & stride) == 0;
        const bool rises = (first & size) == 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const Word other = __shfl_xor_sync(KIN_GRAPH_GPU_LANES, words[r], stride / R);
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
static __device__ __forceinline__ void kin_graph_gpu_merge_words(Word (&words)[R])
{
#pragma unroll
    for (int stride = 16 * R; stride > 0; stride /= 2) {
        kin_graph_gpu_exchange<R>(words, 32 * R, stride);
    }
}

template <int R, typename Word>
static __device__ __forceinline__ void kin_graph_gpu_sort(Word (&words)[R])
{
#pragma unroll
    for (int size = 2; size <= 32 * R; size *= 2) {
#pragma unroll
        for (int stride = size / 2; stride > 0; stride /= 2) {
            kin_graph_gpu_exchange<R>(words, size, stride);
        }
    }
}

/* best becomes the least 32 R of itself and of other, both sorted. */
template <int R, typename Word>
static __device__ __forceinline__ void kin_graph_gpu_join_sorted(Word (&best)[R],
                                                                 const Word (&other)[R])
{
#pragma unroll
    for (int r = 0; r < R; r++) {
        const Word word = __shfl_xor_sync(KIN_GRAPH_GPU_LANES, other[R - 1 - r], 31);
        best[r] = word < best[r] ? word : best[r];
    }
    kin_graph_gpu_merge_words<R>(best);
}

/* same[r]: word r of this lane equals the one before it. */
template <int R, typename Word>
static __device__ __forceinline__ void kin_graph_gpu_same(const Word (&words)[R], bool (&same)[R])
{
    const Word before = __shfl_up_sync(KIN_GRAPH_GPU_LANES, words[R - 1], 1);
    same[0] = kin_graph_gpu_lane() > 0 && words[0] == before;
#pragma unroll
    for (int r = 1; r < R; r++) {
        same[r] = words[r] == words[r - 1];
    }
}

/* New words enter a sorted list, by a warp that holds up to 32 of them, one a lane. The words are
 * sorted among themselves; then a word's place is how many others and how many of the list come
 * before it, and each entry of the list moves back by how many words come before it.
 *
 *      list    3 5 8 9 . .      words  4 7
 *      moves   0 1 2 2 2 2      places 0 + 1 = 1, 1 + 2 = 3
 *      list    3 4 5 7 8 9
 *
 * Both are binary searches, the one in the list, the other by shuffles among the lanes. The list is
 * moved 32 entries at a time from the back, where nothing is written over that was not read.
 *
 * A position that is in the list already does not enter, whatever its cost: two kernels may round
 * the cost of one pair differently. The words themselves must be of different positions.
 *
 * Cost. About 200 instructions of a warp, and for each 32 entries of the list 50 and 6 a word that
 * may enter; nothing where all words come after the last entry of a full list. */

/* Which of the words `waiting` have a position that the list has. */
static __device__ __forceinline__ uint32_t kin_graph_gpu_known(const uint64_t *list, int32_t length,
                                                               uint64_t word, uint32_t waiting)
{
    const uint32_t position = kin_graph_position(word);
    uint32_t known = 0;
    for (int32_t first = 0; first < length; first += 32) {
        const int32_t i = first + kin_graph_gpu_lane();
        const uint32_t own = kin_graph_position(i < length ? list[i] : KIN_GRAPH_EMPTY);
        for (uint32_t left = waiting; left != 0; left &= left - 1) {
            const int from = __ffs((int)left) - 1;
            const bool same = __shfl_sync(KIN_GRAPH_GPU_LANES, position, from) == own;
            known |= same ? 1u << from : 0;
        }
    }
    return __reduce_or_sync(KIN_GRAPH_GPU_LANES, known) & waiting;
}

/* How many entries of a list come before a word. */
static __device__ __forceinline__ int32_t kin_graph_gpu_before(const uint64_t *list, int32_t length,
                                                               uint64_t word)
{
    int32_t low = 0;
    int32_t high = length;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (list[middle] < word) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How many of the words that the lanes hold, ascending, come before `entry`. */
static __device__ __forceinline__ int32_t kin_graph_gpu_words_before(uint64_t word, uint64_t entry)
{
    int32_t count = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const uint64_t next = __shfl_sync(KIN_GRAPH_GPU_LANES, word, count + step - 1);
        count += next < entry ? step : 0;
    }
    return count + (__shfl_sync(KIN_GRAPH_GPU_LANES, word, count) < entry ? 1 : 0);
}

/* Words of different positions, KIN_GRAPH_EMPTY for none, enter a sorted list, whose last word is
 * `last`; what they push out is gone. Returns how many came to stand among the first `counted`. */
static __device__ __forceinline__ int32_t kin_graph_gpu_insert(uint64_t *list, int32_t length,
                                                               int32_t counted, uint64_t last,
                                                               uint64_t word)
{
    const int lane = kin_graph_gpu_lane();
    uint32_t enter = __ballot_sync(KIN_GRAPH_GPU_LANES, word < last);
    if (enter != 0) {
        enter &= ~kin_graph_gpu_known(list, length, word, enter);
    }
    if (enter == 0) {
        return 0;
    }
    uint64_t words[1] = {(enter >> lane & 1u) != 0 ? word : KIN_GRAPH_EMPTY};
    kin_graph_gpu_sort<1>(words);
    const bool exists = words[0] != KIN_GRAPH_EMPTY;
    const int32_t place = exists ? lane + kin_graph_gpu_before(list, length, words[0]) : length;
    for (int32_t first = (length - 1) / 32 * 32; first >= 0; first -= 32) {
        const int32_t i = first + lane;
        const uint64_t own = i < length ? list[i] : KIN_GRAPH_EMPTY;
        const int32_t moves = kin_graph_gpu_words_before(words[0], own);
        if (!__any_sync(KIN_GRAPH_GPU_LANES, moves != 0)) {
            break; /* what stands before this comes before every word */
        }
        if (moves != 0 && i + moves < length) {
            list[i + moves] = own;
        }
    }
    const bool enters = place < length;
    __syncwarp(); /* what stood there has moved */
    if (enters) {
        list[place] = words[0];
    }
    __syncwarp(); /* the list is whole for every lane */
    return __popc(__ballot_sync(KIN_GRAPH_GPU_LANES, place < counted));
}

#endif
