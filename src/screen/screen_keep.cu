/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the positions of a set those whose rows a bitmap allows, in their order: each block counts its
 * own, then adds up what the blocks before it have, and writes. Cells of tiles come along: a tile
 * gets the cell of the tile that its first position stood in, which is that one or a little before.
 *
 * Or of those that are listed ids and reaches, side by side.
 *
 * Cost. Ids are read twice, bits by way of the caches. The sum over blocks is quadratic in their
 * number: 10^8 positions are 24,415 blocks, 0.3·10^9 additions. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_kernels.h"

enum { WARP = 32, THREADS = 1024, WARPS = THREADS / WARP };

static __device__ __forceinline__ bool allows(const kin_screen_gpu_keep &job, int64_t position)
{
    if (position >= job.points) {
        return false;
    }
    const uint32_t id = job.ids[position];
    return (job.words[id / WARP] >> id % WARP & 1) != 0;
}

static __global__ void __launch_bounds__(THREADS) count_kernel(const kin_screen_gpu_keep job)
{
    const int64_t first = (int64_t)blockIdx.x * KIN_SCREEN_GPU_KEEP_PART;
    int32_t count = 0;
    for (int i = 0; i < KIN_SCREEN_GPU_KEEP_PART; i += THREADS) {
        count += __syncthreads_count(allows(job, first + i + (int64_t)threadIdx.x));
    }
    if (threadIdx.x == 0) {
        job.counts[blockIdx.x] = (uint32_t)count;
    }
}

/* The sum over all threads of a block, in each of them. */
static __device__ __forceinline__ uint32_t block_sum(uint32_t value, uint32_t *sums)
{
    const uint32_t of_warp = __reduce_add_sync(0xffffffffu, value);
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        sums[threadIdx.x / WARP] = of_warp;
    }
    __syncthreads();
    return __reduce_add_sync(0xffffffffu, sums[threadIdx.x % WARP]);
}

static __device__ __forceinline__ void keep(const kin_screen_gpu_keep &job, int64_t position,
                                            int64_t to)
{
    job.to_ids[to] = job.ids[position];
    if (job.marks == NULL) {
        return;
    }
    const uint32_t cell = job.marks[position / KIN_SCREEN_GPU_TILE];
    if (to % KIN_SCREEN_GPU_TILE == 0) {
        job.to_marks[to / KIN_SCREEN_GPU_TILE] = cell;
    }
    if (to == job.kept - 1) {
        job.to_marks[to / KIN_SCREEN_GPU_TILE + 1] = cell;
    }
}

static __global__ void __launch_bounds__(THREADS) keep_kernel(const kin_screen_gpu_keep job)
{
    __shared__ uint32_t sums[WARPS];
    const uint32_t warp = threadIdx.x / WARP;
    const uint32_t before_me = (1u << threadIdx.x % WARP) - 1u;
    uint32_t before = 0;
    for (uint32_t b = threadIdx.x; b < blockIdx.x; b += THREADS) {
        before += job.counts[b];
    }
    int64_t to = (int64_t)block_sum(before, sums);
    for (int i = 0; i < KIN_SCREEN_GPU_KEEP_PART; i += THREADS) {
        const int64_t position =
            (int64_t)blockIdx.x * KIN_SCREEN_GPU_KEEP_PART + i + (int64_t)threadIdx.x;
        const bool stays = allows(job, position);
        const uint32_t of_warp = __ballot_sync(0xffffffffu, stays);
        __syncthreads(); /* sums are read */
        if (threadIdx.x % WARP == 0) {
            sums[warp] = (uint32_t)__popc(of_warp);
        }
        __syncthreads();
        const uint32_t theirs = sums[threadIdx.x % WARP];
        const uint32_t below =
            __reduce_add_sync(0xffffffffu, threadIdx.x % WARP < warp ? theirs : 0u);
        if (stays) {
            keep(job, position, to + below + __popc(of_warp & before_me));
        }
        to += __reduce_add_sync(0xffffffffu, theirs);
    }
}

int kin_screen_gpu_launch_keep(kin_gpu_stream *stream, const kin_screen_gpu_keep *job)
{
    const int64_t blocks = kin_screen_gpu_keep_parts(job->points);
    if (blocks == 0) {
        return 0;
    }
    count_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    keep_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS) take_kernel(const kin_screen_gpu_take job)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < job.count) {
        job.to_ids[i] = job.ids[job.of[i]];
        job.to_reach[i] = job.reach[job.of[i]];
    }
}

int kin_screen_gpu_launch_take(kin_gpu_stream *stream, const kin_screen_gpu_take *job)
{
    if (job->count == 0) {
        return 0;
    }
    take_kernel<<<(unsigned)((job->count + THREADS - 1) / THREADS), THREADS, 0, stream->stream>>>(
        *job);
    return kin_gpu_launched();
}
