/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Each GPU of a team screens its share of the pairs of blocks, for both ends; what it found
 * for rows that are another one's goes there after every stage. Lists are short by then, so their
 * entries are packed side by side, with the row that each belongs to, and a copy moves them.
 *
 *      lists     . a b | c | | d e f | ...        a thread a row, a warp finds room at once
 *      packed    a b c d e f       words
 *                1 1 2 4 4 4       rows
 *      accepted  by one atomic addition each, like what the screen pushes
 *
 * Rows of a part begin with multiples of a block, so a warp's rows go to one part. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_cost.cuh"
#include "screen/screen_kernels.h"

#include <cuda_runtime.h>

enum { THREADS = 256 };
#define ALL_LANES 0xffffffffu

/* Stands for `pushed` words of a list that overflowed. */
static __device__ __forceinline__ uint64_t marker(int32_t pushed)
{
    return (uint64_t)KIN_ORDER_PADDING << 32 | (uint32_t)pushed;
}

static __device__ __forceinline__ int32_t part_of(const kin_screen_gpu_pack &job, int64_t row)
{
    int32_t part = 0;
    while (part + 1 < job.parts && row >= job.firsts[part + 1]) {
        part++;
    }
    return part;
}

static __global__ void __launch_bounds__(THREADS)
    pack_lists_kernel(const __grid_constant__ kin_screen_gpu_pack job)
{
    const int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int lane = (int)threadIdx.x % 32;
    const int32_t part = part_of(job, row - lane);
    if (row - lane >= job.points || part == job.part) {
        return;
    }
    const int32_t pushed = row < job.points ? job.lists.counts[row] : 0;
    const bool over = pushed > job.lists.capacity;
    const uint32_t own =
        !over ? (uint32_t)pushed : (job.whole != 0 ? 1 : (uint32_t)job.lists.capacity + 1);
    uint32_t behind = own; /* of this lane and all before it */
    for (int step = 1; step < 32; step *= 2) {
        const uint32_t before = __shfl_up_sync(ALL_LANES, behind, step);
        behind += lane >= step ? before : 0;
    }
    const uint32_t total = __shfl_sync(ALL_LANES, behind, 31);
    if (total == 0) {
        return;
    }
    unsigned long long place = 0;
    if (lane == 0) {
        unsigned long long *counts = (unsigned long long *)job.counts + 2 * part;
        place = atomicAdd(&counts[0], (unsigned long long)total);
        if (place + total > job.room) {
            atomicMin(&counts[1], place);
        }
    }
    place = __shfl_sync(ALL_LANES, place, 0);
    if (own == 0 || place + total > job.room) {
        return;
    }
    const uint64_t to = (uint64_t)part * job.room + place + behind - own;
    const uint64_t *list = job.lists.words + row * job.lists.capacity;
    for (uint32_t i = 0; i < own; i++) {
        job.words[to + i] = over && i + 1 == own ? marker(pushed) : list[i];
        job.rows[to + i] = (uint32_t)row;
    }
    job.lists.counts[row] = 0;
}

int kin_screen_gpu_launch_pack(kin_gpu_stream *stream, const kin_screen_gpu_pack *job)
{
    if (job->points == 0) {
        return 0;
    }
    const int64_t blocks = (job->points + THREADS - 1) / THREADS;
    pack_lists_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS)
    accept_words_kernel(const __grid_constant__ kin_screen_gpu_accept job)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= job.count) {
        return;
    }
    const uint64_t word = job.words[i];
    const int64_t row = job.rows[i];
    if ((uint32_t)(word >> 32) == KIN_ORDER_PADDING) {
        if (job.whole != 0) {
            atomicAdd(&job.lists.counts[row], (int32_t)(uint32_t)word);
        } else {
            job.lists.lost[row] = 1;
        }
        return;
    }
    const int32_t place = atomicAdd(&job.lists.counts[row], 1);
    if (place < job.lists.capacity) {
        job.lists.words[row * job.lists.capacity + place] = word;
    }
}

int kin_screen_gpu_launch_accept(kin_gpu_stream *stream, const kin_screen_gpu_accept *job)
{
    if (job->count == 0) {
        return 0;
    }
    const int64_t blocks = (job->count + THREADS - 1) / THREADS;
    accept_words_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
