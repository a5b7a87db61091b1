/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A graph that is given names rows, lists name positions: a table of rows, written once,
 * translates every id. One thread an entry; a list's ids are read one behind the other.
 *
 * Cost. 4 bytes an id read, 4 from anywhere in the table, which for a million rows stays in the
 * second-level cache, 4 written.
 */
#include "cascade/cascade_launch.cuh"
#include "gpu/gpu_stream.cuh"

enum { THREADS = 256, BLOCKS_A_PROCESSOR = 32 };

static unsigned blocks_of(const kin_gpu_stream *stream, int64_t cells)
{
    const int64_t wished = (cells + THREADS - 1) / THREADS;
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    return (unsigned)(wished < most ? wished : most);
}

static __device__ __forceinline__ int64_t first_cell(void)
{
    return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

static __device__ __forceinline__ int64_t step_of_cells(void)
{
    return (int64_t)gridDim.x * THREADS;
}

static __global__ void __launch_bounds__(THREADS)
    place_rows(const __grid_constant__ kin_cascade_place job)
{
    for (int64_t p = first_cell(); p < job.points; p += step_of_cells()) {
        job.places[job.ids[p]] = (uint32_t)p;
    }
}

extern "C" int kin_cascade_launch_place(kin_gpu_stream *stream, const kin_cascade_place *job)
{
    if (job->points == 0) {
        return 0;
    }
    place_rows<<<blocks_of(stream, job->points), THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS)
    give_lists(const __grid_constant__ kin_cascade_give job)
{
    const int64_t cells = job.points * job.length;
    for (int64_t cell = first_cell(); cell < cells; cell += step_of_cells()) {
        const int64_t p = cell / job.length;
        const int64_t j = cell - p * job.length;
        const uint32_t id = job.ids[p];
        const int64_t row = (int64_t)id - job.first;
        if (id == UINT32_MAX || row < 0 || row >= job.rows) {
            continue;
        }
        const uint32_t other = j < job.k ? job.graph[row * job.k + j] : UINT32_MAX;
        const uint32_t place = other < job.rows ? job.places[job.first + other] : UINT32_MAX;
        job.given[cell] = place == (uint32_t)p ? UINT32_MAX : place;
    }
}

extern "C" int kin_cascade_launch_give(kin_gpu_stream *stream, const kin_cascade_give *job)
{
    const int64_t cells = job->points * job->length;
    if (cells == 0) {
        return 0;
    }
    give_lists<<<blocks_of(stream, cells), THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
