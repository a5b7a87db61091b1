/* SPDX-License-Identifier: Apache-2.0
 * Starts of columns as bytes (screen_start.h). Contract: screen_kernels.h. Cost: one read of the
 * halves to find the least, one more to write 32 bytes a position. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_kernels.h"
#include "screen/screen_start.h"

enum { THREADS = 256, WARP = 32, BLOCKS_A_PROCESSOR = 8 };

static __global__ void __launch_bounds__(THREADS)
    least_half_kernel(const __grid_constant__ kin_screen_gpu_start job)
{
    const int64_t threads = (int64_t)gridDim.x * THREADS;
    int32_t least = INT32_MAX;
    for (int64_t p = (int64_t)blockIdx.x * THREADS + threadIdx.x; p < job.points; p += threads) {
        least = min(least, job.half[p].i);
    }
    least = __reduce_min_sync(0xffffffffu, least);
    if (threadIdx.x % WARP == 0) {
        atomicMin(&job.found->least, least);
    }
}

/* A thread a column. Padding is as far as can be. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_TILE)
    start_kernel(const __grid_constant__ kin_screen_gpu_start job)
{
    const int64_t position = (int64_t)blockIdx.x * KIN_SCREEN_GPU_TILE + threadIdx.x;
    const int32_t shift = kin_start_shift(job.found->least);
    const int32_t half = job.half[position].i;
    const int32_t start = kin_start_of(shift, half);
    uint4 *to = (uint4 *)(job.starts + (int64_t)blockIdx.x * KIN_SCREEN_GPU_TILE * KIN_START_BYTES +
                          kin_start_place((int32_t)threadIdx.x, 0));
#pragma unroll
    for (int part = 0; part < 2; part++) {
        uint32_t words[4] = {0};
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const uint32_t byte = (uint32_t)kin_start_byte(start, 16 * part + i) & 0xff;
            words[i / 4] |= byte << (8 * (i % 4));
        }
        to[part * KIN_START_MATRIX / 16] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    const bool cut = position < job.points && start != shift - half;
    const uint32_t cuts = __ballot_sync(0xffffffffu, cut);
    if (threadIdx.x % WARP == 0 && cuts != 0) {
        atomicAdd(&job.found->cut, (uint32_t)__popc(cuts));
    }
}

int kin_screen_gpu_launch_start(kin_gpu_stream *stream, const kin_screen_gpu_start *job)
{
    if (job->padded == 0) {
        return 0;
    }
    const unsigned blocks = (unsigned)(stream->processors * BLOCKS_A_PROCESSOR);
    least_half_kernel<<<blocks, THREADS, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    start_kernel<<<(unsigned)(job->padded / KIN_SCREEN_GPU_TILE), KIN_SCREEN_GPU_TILE, 0,
                   stream->stream>>>(*job);
    return kin_gpu_launched();
}
