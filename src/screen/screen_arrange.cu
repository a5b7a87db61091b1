/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts runs of positions by reach. A tile's test for the sake of its columns can only be as sharp
 * as the largest reach among those that share a gate (screen_gate.h); measured on 262,144
 * Gaussian points, one gate a tile of unsorted columns lets six times the time pass in false
 * alarms.
 *
 * What shares a gate is not what stands side by side (kin_screen_gpu_gate_of): of each 32 sorted
 * positions eight in a row go where one thread meets them. A rest of less than 32 stays as sorted.
 *
 * Cost: a bitonic sort of 512 words in shared memory a run. Ties go by id, so that the order is the
 * same every time.
 */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_kernels.h"

#include <cuda_runtime.h>

typedef struct item {
    double reach;
    uint32_t id;
} item;

static __device__ __forceinline__ bool comes_after(const item &a, const item &b)
{
    return a.reach > b.reach || (a.reach == b.reach && a.id > b.id);
}

/* Where the item that is number i of its run stands in it. */
static __device__ __forceinline__ int place_of(const kin_screen_gpu_arrange &job, int64_t first,
                                               int i)
{
    const int among = i / KIN_SCREEN_GPU_QUAD * KIN_SCREEN_GPU_QUAD;
    return first + among + KIN_SCREEN_GPU_QUAD <= job.points
               ? among + kin_screen_gpu_gate_place(i - among)
               : i;
}

static __global__ void __launch_bounds__(KIN_SCREEN_GPU_RUN / 2)
    arrange_runs_kernel(const __grid_constant__ kin_screen_gpu_arrange job)
{
    __shared__ item items[KIN_SCREEN_GPU_RUN];
    const int64_t first = (int64_t)blockIdx.x * KIN_SCREEN_GPU_RUN;
    const int thread = (int)threadIdx.x;
    for (int i = thread; i < KIN_SCREEN_GPU_RUN; i += KIN_SCREEN_GPU_RUN / 2) {
        const int64_t p = first + i;
        const item last = {INFINITY, UINT32_MAX};
        items[i] = p < job.points ? item{job.reach[p], job.ids[p]} : last;
    }
    for (int size = 2; size <= job.run; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            const int low = thread / step * 2 * step + thread % step;
            const bool rising = (low & size) == 0 || size == job.run;
            const item a = items[low];
            const item b = items[low + step];
            if (comes_after(a, b) == rising) {
                items[low] = b;
                items[low + step] = a;
            }
        }
    }
    __syncthreads();
    for (int i = thread; i < KIN_SCREEN_GPU_RUN; i += KIN_SCREEN_GPU_RUN / 2) {
        if (first + i < job.points) {
            const int64_t p = first + place_of(job, first, i);
            job.reach[p] = items[i].reach;
            job.ids[p] = items[i].id;
        }
    }
}

int kin_screen_gpu_launch_arrange(kin_gpu_stream *stream, const kin_screen_gpu_arrange *job)
{
    const int64_t runs = (job->points + KIN_SCREEN_GPU_RUN - 1) / KIN_SCREEN_GPU_RUN;
    if (runs == 0) {
        return 0;
    }
    arrange_runs_kernel<<<(unsigned)runs, KIN_SCREEN_GPU_RUN / 2, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
