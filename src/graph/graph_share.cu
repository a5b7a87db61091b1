/* SPDX-License-Identifier: Apache-2.0
 * What GPUs of a team exchange of a graph: the last words of lists, which tell what need not be
 * offered, and what they left in the slots of each other's points. Positions are in an order in
 * which neighbours stand together, so that nearly all of these are empty: the others are gathered,
 * each with its place. Where they are many, whole slots are compared. */
#include "graph/graph_kernels.h"
#include "graph/graph_warp.cuh"

#include <cuda_runtime.h>

enum { THREADS = KIN_GRAPH_GPU_THREADS, BLOCKS_A_PROCESSOR = 8 };
#define ALL_LANES 0xffffffffu

static __global__ void __launch_bounds__(THREADS)
    take_ends_kernel(const __grid_constant__ kin_graph_gpu_ends job)
{
    for (int64_t point = job.graph.first + kin_graph_gpu_first_cell();
         point < kin_graph_gpu_behind(&job.graph); point += kin_graph_gpu_cell_step()) {
        job.lasts[point] = job.graph.words[(point + 1) * job.graph.length - 1];
    }
}

extern "C" int kin_graph_gpu_launch_ends(kin_gpu_stream *stream, const kin_graph_gpu_ends *job)
{
    return kin_graph_gpu_each_cell(stream, kin_graph_gpu_cared(&job->graph), job, take_ends_kernel);
}

static __global__ void __launch_bounds__(THREADS)
    take_least_kernel(const __grid_constant__ kin_graph_gpu_least job)
{
    for (int64_t i = kin_graph_gpu_first_cell(); i < job.count; i += kin_graph_gpu_cell_step()) {
        if (job.others[i] < job.words[i]) {
            job.words[i] = job.others[i];
        }
    }
}

extern "C" int kin_graph_gpu_launch_least(kin_gpu_stream *stream, const kin_graph_gpu_least *job)
{
    return kin_graph_gpu_each_cell(stream, job->count, job, take_least_kernel);
}

/* A warp has 32 slots of one part at a time, nearly always empty ones. */
static __global__ void __launch_bounds__(THREADS)
    gather_slots_kernel(const __grid_constant__ kin_graph_gpu_gather job)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    int32_t part = 0;
    for (int64_t first = (int64_t)blockIdx.x * THREADS + (int64_t)threadIdx.x - lane;
         first < job.bounds[job.parts]; first += step) {
        while (first >= job.bounds[part + 1]) {
            part++;
        }
        if (part == job.part) {
            continue;
        }
        const int64_t i = first + lane;
        const uint64_t word = i < job.bounds[job.parts] ? job.words[i] : KIN_GRAPH_EMPTY;
        const uint32_t votes = __ballot_sync(ALL_LANES, word != KIN_GRAPH_EMPTY);
        if (votes == 0) {
            continue;
        }
        unsigned long long place = 0;
        if (lane == 0) {
            place = atomicAdd((unsigned long long *)&job.counts[part],
                              (unsigned long long)__popc(votes));
        }
        place = __shfl_sync(ALL_LANES, place, 0) + (unsigned)__popc(votes & ((1u << lane) - 1));
        if (word != KIN_GRAPH_EMPTY && place < (unsigned long long)job.room) {
            job.sent[(int64_t)part * job.room + (int64_t)place] =
                kin_graph_gpu_sent{(uint64_t)i, word};
        }
    }
}

extern "C" int kin_graph_gpu_launch_gather(kin_gpu_stream *stream, const kin_graph_gpu_gather *job)
{
    const int64_t wished = (job->bounds[job->parts] + THREADS - 1) / THREADS;
    const int64_t most = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    if (wished == 0) {
        return 0;
    }
    gather_slots_kernel<<<(unsigned)(wished < most ? wished : most), THREADS, 0, stream->stream>>>(
        *job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS)
    settle_slots_kernel(const __grid_constant__ kin_graph_gpu_settle job)
{
    for (int64_t i = kin_graph_gpu_first_cell(); i < job.count; i += kin_graph_gpu_cell_step()) {
        const kin_graph_gpu_sent sent = job.sent[i];
        if (sent.word < job.words[sent.place]) {
            job.words[sent.place] = sent.word;
        }
    }
}

extern "C" int kin_graph_gpu_launch_settle(kin_gpu_stream *stream, const kin_graph_gpu_settle *job)
{
    return kin_graph_gpu_each_cell(stream, job->count, job, settle_slots_kernel);
}
