/* SPDX-License-Identifier: Apache-2.0
 * What blocks and warps do together in every method of selection: sort words in shared memory,
 * merge them, find places to append to, add up counts, read a row 16 bytes at a time.
 *
 * A name with "block": all threads of the block call it, in a number that is a multiple of 32.
 * With "warp": all 32 lanes of a warp call it together. */
#ifndef KIN_SELECT_BLOCK_CUH
#define KIN_SELECT_BLOCK_CUH

#include "select/select_launch.cuh"

enum { KIN_WARP = 32 };
#define KIN_WARP_ALL 0xffffffffu

/* The least power of two that is at least n, and at least 2. n <= 2^62. */
static inline __host__ __device__ int64_t kin_sort_places(int64_t n)
{
    int64_t places = 2;
    while (places < n) {
        places *= 2;
    }
    return places;
}

/* Where the next part of a scratch begins, behind one of that many bytes. */
static inline uint64_t kin_scratch_behind(uint64_t at, uint64_t bytes)
{
    const uint64_t alignment = 256;
    return (at + bytes + alignment - 1) / alignment * alignment;
}

/* ---- Bitonic sort in shared memory ----------------------------------------------------------- */

/* Exchanges of one stride: pairs (low, low + stride) rise where bit `size` of low is clear. With a
 * stride of at most 32 a warp stays within 64 places of its own, the same for all such strides. */
template <typename Word>
static __device__ __forceinline__ void kin_block_exchange(Word *shared, int32_t power_of_two,
                                                          int32_t size, int32_t stride,
                                                          int32_t threads)
{
    for (int32_t i = (int32_t)threadIdx.x; i < power_of_two / 2; i += threads) {
        const int32_t low = 2 * i - (i & (stride - 1));
        const Word a = shared[low];
        const Word b = shared[low + stride];
        if (((low & size) == 0) == (b < a)) {
            shared[low] = b;
            shared[low + stride] = a;
        }
    }
}

/* Merges runs of `size` places, each bitonic; they rise, or in turn rise and fall: bit `bit` of
 * the first place says which (0: all rise). Begins and ends with a barrier. */
template <typename Word>
static __device__ __forceinline__ void kin_block_merge(Word *shared, int32_t power_of_two,
                                                       int32_t size, int32_t bit, int32_t threads)
{
    __syncthreads(); /* what was written before is there */
    for (int32_t stride = size / 2; stride > 0; stride /= 2) {
        kin_block_exchange(shared, power_of_two, bit, stride, threads);
        if (stride > KIN_WARP) {
            __syncthreads(); /* the next stride reads what other warps wrote */
        } else {
            __syncwarp();
        }
    }
    __syncthreads();
}

/* Sorts runs of `run` places each, a power of two from 2; all rise, or in turn rise and fall where
 * `turns`. Begins and ends with a barrier. */
template <typename Word>
static __device__ __forceinline__ void kin_block_sort_runs(Word *shared, int32_t power_of_two,
                                                           int32_t run, bool turns, int32_t threads)
{
    __syncthreads();
    for (int32_t size = 2; size <= run; size *= 2) {
        const int32_t bit = size < run || turns ? size : 0;
        for (int32_t stride = size / 2; stride > 0; stride /= 2) {
            kin_block_exchange(shared, power_of_two, bit, stride, threads);
            /* The next stride is half of this one, or `size` after 1. */
            if (stride > KIN_WARP || (stride == 1 && size > KIN_WARP)) {
                __syncthreads();
            } else {
                __syncwarp();
            }
        }
    }
    __syncthreads();
}

/* Ascending, over a power of two from 2; places without an entry hold kin_word_worst. All threads
 * of the block call it. Begins and ends with a barrier. */
template <typename Word>
static __device__ __forceinline__ void kin_block_sort(Word *shared, int32_t power_of_two,
                                                      int32_t threads)
{
    kin_block_sort_runs(shared, power_of_two, power_of_two, false, threads);
}

/* ---- Places ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t kin_lanes_before(void)
{
    return (1u << (threadIdx.x % KIN_WARP)) - 1;
}

/* Where the lanes of a warp may append, N entries a lane: bit i of `takes` is entry i, and place[i]
 * is meant for it. Lanes that take the same entry get places in a row; one addition to the counter,
 * in shared or global memory, a warp. False: nobody takes anything. */
template <int N>
static __device__ __forceinline__ bool kin_warp_append_many(uint32_t takes, uint32_t *counter,
                                                            uint32_t (&place)[N])
{
    if (!__any_sync(KIN_WARP_ALL, takes != 0)) {
        return false;
    }
    uint32_t sum = 0;
#pragma unroll
    for (int32_t i = 0; i < N; i++) {
        const uint32_t taking = __ballot_sync(KIN_WARP_ALL, (takes >> i & 1u) != 0);
        place[i] = sum + (uint32_t)__popc(taking & kin_lanes_before());
        sum += (uint32_t)__popc(taking);
    }
    uint32_t first = 0;
    if (threadIdx.x % KIN_WARP == 0) {
        first = atomicAdd(counter, sum);
    }
    first = __shfl_sync(KIN_WARP_ALL, first, 0);
#pragma unroll
    for (int32_t i = 0; i < N; i++) {
        place[i] += first;
    }
    return true;
}

/* Sum of the values of all threads before this one; *total: of all. sums: 33 places in shared
 * memory, which need no barrier between two calls. */
static __device__ __forceinline__ uint32_t kin_block_scan(uint32_t value, uint32_t *sums,
                                                          uint32_t *total)
{
    const uint32_t lane = threadIdx.x % KIN_WARP;
    const uint32_t warp = threadIdx.x / KIN_WARP;
    uint32_t sum = value; /* of the lanes up to this one */
    for (uint32_t step = 1; step < KIN_WARP; step *= 2) {
        const uint32_t other = __shfl_up_sync(KIN_WARP_ALL, sum, step);
        sum += lane >= step ? other : 0;
    }
    if (lane == KIN_WARP - 1) {
        sums[warp] = sum;
    }
    __syncthreads(); /* the sums of all warps are there */
    if (warp == 0) {
        const uint32_t own = lane < blockDim.x / KIN_WARP ? sums[lane] : 0;
        uint32_t upto = own;
        for (uint32_t step = 1; step < KIN_WARP; step *= 2) {
            const uint32_t other = __shfl_up_sync(KIN_WARP_ALL, upto, step);
            upto += lane >= step ? other : 0;
        }
        sums[lane] = upto - own;
        if (lane == KIN_WARP - 1) {
            sums[KIN_WARP] = upto;
        }
    }
    __syncthreads(); /* and what stands before each */
    *total = sums[KIN_WARP];
    return sums[warp] + sum - value;
}

/* ---- Words between lanes --------------------------------------------------------------------- */

static __device__ __forceinline__ kin_word64 kin_warp_word(kin_word64 word, int32_t lane)
{
    return __shfl_sync(KIN_WARP_ALL, word, lane);
}

static __device__ __forceinline__ kin_word128 kin_warp_word(kin_word128 word, int32_t lane)
{
    const uint64_t high = __shfl_sync(KIN_WARP_ALL, (uint64_t)(word >> 64), lane);
    const uint64_t low = __shfl_sync(KIN_WARP_ALL, (uint64_t)word, lane);
    return (kin_word128)high << 64 | low;
}

/* One word a lane, ascending by lane. */
template <typename Word> static __device__ __forceinline__ Word kin_warp_sort(Word word)
{
    const int32_t lane = (int32_t)(threadIdx.x % KIN_WARP);
    for (int32_t size = 2; size <= KIN_WARP; size *= 2) {
        for (int32_t stride = size / 2; stride > 0; stride /= 2) {
            const Word other = kin_warp_word(word, lane ^ stride);
            const bool keep_low = ((lane & stride) == 0) == ((lane & size) == 0);
            word = keep_low == (other < word) ? other : word;
        }
    }
    return word;
}

/* ---- A row, 16 bytes at a time --------------------------------------------------------------- */

template <typename Value> struct kin_vector {
    static constexpr int32_t values = 16 / (int32_t)sizeof(typename Value::bits);
};

/* The last place up to `first` whose value stands at a multiple of 16 bytes; it may be before the
 * row, where kin_vector_load reads nothing. */
template <typename Value>
static __device__ __forceinline__ int64_t kin_vector_begin(const typename Value::bits *values,
                                                           int64_t first)
{
    const uintptr_t past = (uintptr_t)(values + first) % 16;
    return first - (int64_t)(past / sizeof(typename Value::bits));
}

/* The values of places at .. at + kin_vector<Value>::values - 1 that are in [first, last); the
 * others are 0. Bit i of the answer: place at + i is one. `at` is kin_vector_begin plus a multiple
 * of the values of a vector. */
template <typename Value>
static __device__ __forceinline__ uint32_t
kin_vector_load(const typename Value::bits *values, int64_t first, int64_t last, int64_t at,
                typename Value::bits (&out)[kin_vector<Value>::values])
{
    constexpr int32_t n = kin_vector<Value>::values;
    if (at >= first && at + n <= last) {
        const uint4 all = __ldg((const uint4 *)(values + at));
        memcpy(out, &all, sizeof all);
        return (1u << n) - 1;
    }
    uint32_t valid = 0;
#pragma unroll
    for (int32_t i = 0; i < n; i++) {
        const bool in = at + i >= first && at + i < last;
        out[i] = in ? values[at + i] : (typename Value::bits)0;
        valid |= in ? 1u << i : 0;
    }
    return valid;
}

#endif
