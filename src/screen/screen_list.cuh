/* SPDX-License-Identifier: Apache-2.0
 * What kernels of candidate lists share: facts of a position, and the k-th smallest of words that a
 * warp or a block of threads holds. */
#ifndef KIN_SCREEN_LIST_CUH
#define KIN_SCREEN_LIST_CUH

#include "screen/screen_cost.cuh"
#include "screen/screen_kernels.h"

#include <cuda_runtime.h>

enum { KIN_LIST_THREADS = 256, KIN_LIST_WARPS = KIN_LIST_THREADS / 32, KIN_LIST_MOST_WARPS = 32 };
#define KIN_ALL_LANES 0xffffffffu

/* ---- Positions ------------------------------------------------------------------------------- */

static __device__ __forceinline__ kin_bound_row list_row(const kin_screen_gpu_set &set,
                                                         int64_t position)
{
    const float4 facts = __ldg((const float4 *)(set.facts + position));
    return kin_bound_row{(double)facts.y, (double)facts.z};
}

/* A reach that is not a number proves nothing. */
static __device__ __forceinline__ double list_proven(double reach)
{
    return reach == reach ? reach : INFINITY;
}

/* ---- A warp ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ double warp_max(double value)
{
    for (int step = 16; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(KIN_ALL_LANES, value, step);
        value = other > value ? other : value;
    }
    return value;
}

static __device__ __forceinline__ float warp_max(float value)
{
    for (int step = 16; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(KIN_ALL_LANES, value, step));
    }
    return value;
}

/* The k-th smallest, k >= 1, of the words that the lanes hold, of which at least k are no padding.
 * Bit by bit from the first one in which they differ: the largest word with fewer than k words
 * below it; or, as soon as exactly k are below, the largest of those. */
template <int R> static __device__ uint32_t warp_kth(const uint32_t (&order)[R], int32_t k)
{
    uint32_t low = KIN_ORDER_PADDING;
    uint32_t high = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        low = min(low, order[r]);
        high = order[r] == KIN_ORDER_PADDING ? high : max(high, order[r]);
    }
    low = __reduce_min_sync(KIN_ALL_LANES, low);
    high = __reduce_max_sync(KIN_ALL_LANES, high);
    if (low >= high) {
        return low;
    }
    const int first = 31 - __clz((int)(low ^ high));
    uint32_t found = low >> first << first;
    found &= ~(1u << first);
    for (int bit = first; bit >= 0; bit--) {
        const uint32_t trial = found | 1u << bit;
        int32_t below = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            below += __popc(__ballot_sync(KIN_ALL_LANES, order[r] < trial));
        }
        if (below == k) {
            uint32_t last = 0;
#pragma unroll
            for (int r = 0; r < R; r++) {
                last = order[r] < trial ? max(last, order[r]) : last;
            }
            return __reduce_max_sync(KIN_ALL_LANES, last);
        }
        found = below < k ? trial : found;
    }
    return found;
}

/* ---- A block of KIN_LIST_THREADS threads or more --------------------------------------------- */

typedef struct list_shared {
    uint32_t bins[KIN_LIST_THREADS];
    double most[KIN_LIST_MOST_WARPS];
    int32_t sums[KIN_LIST_MOST_WARPS];
    uint32_t low;
    uint32_t high;
    uint32_t bin;
    int32_t rank;
} list_shared;

/* Of all threads' values. */
static __device__ double block_max(double value, list_shared *shared)
{
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        shared->most[threadIdx.x / 32] = value;
    }
    __syncthreads();
    double most = shared->most[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; warp++) {
        most = shared->most[warp] > most ? shared->most[warp] : most;
    }
    return most;
}

/* In which bin the word of rank shared->rank (from 1) lies; the rank becomes its rank there. One
 * warp. */
static __device__ void warp_pick_bin(list_shared *shared)
{
    const int lane = (int)threadIdx.x;
    int32_t own = 0;
    for (int i = 0; i < 8; i++) {
        own += (int32_t)shared->bins[lane * 8 + i];
    }
    int32_t upto = own;
    for (int step = 1; step < 32; step *= 2) {
        const int32_t before = __shfl_up_sync(KIN_ALL_LANES, upto, step);
        upto += lane >= step ? before : 0;
    }
    const int32_t rank = shared->rank;
    __syncwarp();
    int32_t before = upto - own;
    if (rank > before && rank <= upto) {
        int i = lane * 8;
        while (rank > before + (int32_t)shared->bins[i]) {
            before += (int32_t)shared->bins[i++];
        }
        shared->bin = (uint32_t)i;
        shared->rank = rank - before;
    }
}

/* The same as block_kth of the least words of KIN_LIST_THREADS groups, of which all threads have
 * written `turns` words each to shared memory, a turn behind the other: one warp holds them in
 * registers. */
static __device__ uint32_t block_kth_of_groups(const uint32_t *words, int32_t turns, int32_t k,
                                               list_shared *shared)
{
    __syncthreads();
    if (threadIdx.x < 32) {
        uint32_t own[KIN_LIST_WARPS];
        int32_t found = 0;
#pragma unroll
        for (int i = 0; i < KIN_LIST_WARPS; i++) {
            own[i] = KIN_ORDER_PADDING;
            for (int32_t turn = 0; turn < turns; turn++) {
                own[i] = min(own[i], words[turn * KIN_LIST_THREADS + i * 32 + (int)threadIdx.x]);
            }
            found += __popc(__ballot_sync(KIN_ALL_LANES, own[i] != KIN_ORDER_PADDING));
        }
        const uint32_t kth = found < k ? KIN_ORDER_PADDING : warp_kth<KIN_LIST_WARPS>(own, k);
        if (threadIdx.x == 0) {
            shared->low = kth;
        }
    }
    __syncthreads();
    return shared->low;
}

/* The k-th smallest, k >= 1, of the words read(0 .. count - 1), padding left out; padding where
 * fewer than k are none. Digits of 8 bits from the first bit in which words differ. */
template <typename Read>
static __device__ uint32_t block_kth(const Read &read, int64_t count, int32_t k,
                                     list_shared *shared)
{
    uint32_t low = KIN_ORDER_PADDING;
    uint32_t high = 0;
    int32_t words = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        shared->low = KIN_ORDER_PADDING;
        shared->high = 0;
        shared->rank = 0;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        const uint32_t order = read(i);
        low = min(low, order);
        if (order != KIN_ORDER_PADDING) {
            high = max(high, order);
            words += 1;
        }
    }
    atomicMin(&shared->low, __reduce_min_sync(KIN_ALL_LANES, low));
    atomicMax(&shared->high, __reduce_max_sync(KIN_ALL_LANES, high));
    atomicAdd(&shared->rank, words);
    __syncthreads();
    const uint32_t least = shared->low;
    const uint32_t largest = shared->high;
    const bool enough = shared->rank >= k;
    __syncthreads();
    if (!enough || least == largest) {
        return enough ? least : KIN_ORDER_PADDING;
    }
    if (threadIdx.x == 0) {
        shared->rank = k;
    }
    int shift = 32 - __clz((int)(least ^ largest)); /* bits that are not known yet */
    uint32_t known = shift < 32 ? least >> shift : 0;
    while (shift > 0) {
        const int bits = min(shift, 8);
        const int next = shift - bits;
        if (threadIdx.x < KIN_LIST_THREADS) {
            shared->bins[threadIdx.x] = 0;
        }
        __syncthreads();
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
            const uint32_t order = read(i);
            if (order != KIN_ORDER_PADDING && (shift == 32 || order >> shift == known)) {
                atomicAdd(&shared->bins[order >> next & ((1u << bits) - 1)], 1u);
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            warp_pick_bin(shared);
        }
        __syncthreads();
        known = known << bits | shared->bin;
        shift = next;
    }
    return known;
}

enum { MOST_ENTRIES = 16 }; /* a lane */

/* ---- A list, by a warp ----------------------------------------------------------------------- */

static __device__ __forceinline__ kin_bound_row bound_row(float2 bound)
{
    return kin_bound_row{(double)bound.x, (double)bound.y};
}

/* Tightens a list of `count` <= 32 R entries. Returns how many stay. */
template <int R>
static __device__ int32_t warp_tighten(const kin_screen_gpu_tighten &job, int64_t row,
                                       int32_t count)
{
    const int lane = (int)threadIdx.x % 32;
    const kin_screen_gpu_frame &frame = job.set.frame;
    uint64_t *list = job.lists.words + row * job.lists.capacity;
    uint64_t words[R];
    uint32_t order[R];
    float2 bounds[R]; /* norm and lost */
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int i = r * 32 + lane;
        words[r] = i < count ? list[i] : UINT64_MAX;
        order[r] = (uint32_t)(words[r] >> 32);
        bounds[r] = make_float2(0.0F, 0.0F);
        if (i < count && frame.bound != KIN_BOUND_INTEGER) {
            const float4 facts = __ldg((const float4 *)(job.cols_set.facts + (uint32_t)words[r]));
            bounds[r] = make_float2(facts.y, facts.z);
        }
    }
    const uint32_t kth = warp_kth<R>(order, job.lists.k);
    const kin_bound_row own = list_row(job.set, row);
    double reach = -INFINITY;
#pragma unroll
    for (int r = 0; r < R; r++) {
        if (order[r] <= kth && r * 32 + lane < count) {
            const double proven = list_proven(
                kin_bound_reach_of_cost(frame.bound, list_cost(frame.type, order[r]), frame.kappa,
                                        frame.scale, own, bound_row(bounds[r])));
            reach = proven > reach ? proven : reach;
        }
    }
    reach = warp_max(reach);
    const double before = job.lists.reach[row];
    __syncwarp();
    if (reach < before && lane == 0) {
        job.lists.reach[row] = reach;
    }
    reach = reach < before ? reach : before;
    int32_t kept = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const double limit =
            kin_bound_limit(frame.bound, reach, frame.kappa, own, bound_row(bounds[r]));
        const bool stays = r * 32 + lane < count && !(list_cost(frame.type, order[r]) > limit);
        const uint32_t vote = __ballot_sync(KIN_ALL_LANES, stays);
        if (stays) {
            list[kept + __popc(vote & ((1u << lane) - 1))] = words[r];
        }
        kept += __popc(vote);
    }
    return kept;
}

/* Of at most 32 MOST entries. */
template <int MOST>
static __device__ int32_t warp_tighten_any(const kin_screen_gpu_tighten &job, int64_t row,
                                           int32_t count)
{
    if (count <= 32) {
        return warp_tighten<1>(job, row, count);
    }
    if (count <= 64) {
        return warp_tighten<2>(job, row, count);
    }
    if (MOST <= 4 || count <= 128) {
        return warp_tighten<4>(job, row, count);
    }
    if (count <= 256) {
        return warp_tighten<8>(job, row, count);
    }
    return warp_tighten<MOST>(job, row, count);
}

/* ---- A list, by a block ---------------------------------------------------------------------- */

/* Entries of at most `kth` -> the reach that they prove. */
static __device__ double block_reach(const kin_screen_gpu_tighten &job, const uint64_t *list,
                                     int32_t count, uint32_t kth, kin_bound_row own,
                                     list_shared *shared)
{
    const kin_screen_gpu_frame &frame = job.set.frame;
    double reach = -INFINITY;
    for (int32_t i = (int32_t)threadIdx.x; i < count; i += (int32_t)blockDim.x) {
        const uint32_t order = (uint32_t)(list[i] >> 32);
        if (order <= kth) {
            const double proven = list_proven(kin_bound_reach_of_cost(
                frame.bound, list_cost(frame.type, order), frame.kappa, frame.scale, own,
                list_row(job.cols_set, (int64_t)(uint32_t)list[i])));
            reach = proven > reach ? proven : reach;
        }
    }
    return block_max(reach, shared);
}

/* Moves what is within its limit to the front, a run of entries at a time: every thread has read
 * its entry before anybody writes, and nothing moves back. */
static __device__ int32_t block_keep(const kin_screen_gpu_tighten &job, uint64_t *list,
                                     int32_t count, double reach, kin_bound_row own,
                                     list_shared *shared)
{
    const kin_screen_gpu_frame &frame = job.set.frame;
    const int lane = (int)threadIdx.x % 32;
    const int warp = (int)threadIdx.x / 32;
    int32_t kept = 0;
    for (int32_t first = 0; first < count; first += (int32_t)blockDim.x) {
        const int32_t i = first + (int32_t)threadIdx.x;
        const uint64_t word = i < count ? list[i] : 0;
        bool stays = i < count;
        if (stays) {
            const double limit = kin_bound_limit(frame.bound, reach, frame.kappa, own,
                                                 list_row(job.cols_set, (int64_t)(uint32_t)word));
            stays = !(list_cost(frame.type, (uint32_t)(word >> 32)) > limit);
        }
        const uint32_t vote = __ballot_sync(KIN_ALL_LANES, stays);
        if (lane == 0) {
            shared->sums[warp] = __popc(vote);
        }
        __syncthreads();
        int32_t place = kept + __popc(vote & ((1u << lane) - 1));
        for (int other = 0; other < (int)blockDim.x / 32; other++) {
            place += other < warp ? shared->sums[other] : 0;
            kept += shared->sums[other];
        }
        if (stays) {
            list[place] = word;
        }
        __syncthreads();
    }
    return kept;
}

static __device__ int32_t block_tighten(const kin_screen_gpu_tighten &job, int64_t row,
                                        int32_t count, list_shared *shared)
{
    uint64_t *list = job.lists.words + row * job.lists.capacity;
    const auto read = [list](int64_t i) { return (uint32_t)(list[i] >> 32); };
    const kin_bound_row own = list_row(job.set, row);
    const uint32_t kth = block_kth(read, count, job.lists.k, shared);
    double reach = block_reach(job, list, count, kth, own, shared);
    const double before = job.lists.reach[row];
    reach = reach < before ? reach : before;
    __syncthreads();
    if (threadIdx.x == 0) {
        job.lists.reach[row] = reach;
    }
    return block_keep(job, list, count, reach, own, shared);
}

#endif
