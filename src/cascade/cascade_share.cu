/* SPDX-License-Identifier: Apache-2.0
 * What GPUs of a team exchange of a graph beside their slots: the last words of lists, which tell
 * what need not be offered, and the lesser ones of the words that two of them left in the same
 * slots. Both are one pass over memory. */
#include "cascade/cascade_launch.cuh"
#include "gpu/gpu_stream.cuh"

#include <cuda_runtime.h>

enum { THREADS = 256 };

static __global__ void __launch_bounds__(THREADS)
    take_ends(const __grid_constant__ kin_cascade_ends job)
{
    const int64_t point = job.graph.first + (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (point < kin_cascade_behind(&job.graph)) {
        job.lasts[point] = job.graph.words[(point + 1) * job.graph.length - 1];
    }
}

extern "C" int kin_cascade_launch_ends(kin_gpu_stream *stream, const kin_cascade_ends *job)
{
    const int64_t points = kin_cascade_behind(&job->graph) - job->graph.first;
    if (points <= 0) {
        return 0;
    }
    take_ends<<<(unsigned)((points + THREADS - 1) / THREADS), THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS)
    take_least(const __grid_constant__ kin_cascade_least job)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < job.count && job.others[i] < job.words[i]) {
        job.words[i] = job.others[i];
    }
}

extern "C" int kin_cascade_launch_least(kin_gpu_stream *stream, const kin_cascade_least *job)
{
    if (job->count <= 0) {
        return 0;
    }
    const int64_t blocks = (job->count + THREADS - 1) / THREADS;
    take_least<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
