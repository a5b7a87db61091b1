/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A graph is made ready to be walked on (graph/graph_walk.h).
 *
 *   link    every entry offers its row to a slot of the row that it names, by an atomic minimum of
 *           (try, place in the list, row); those that were pushed out try another slot once, where
 *           they displace nobody of the first try. Then a warp a row joins list and slots
 *   parts   the larger of two roots is hooked to the smaller one, so that in the end the root of a
 *           part is its lowest row, whoever came first
 *
 * Cost. Some 4 random accesses of 8 bytes an entry of the graph. */
#include "graph/graph_kernels.h"
#include "graph/graph_warp.cuh"

/* Salts of the tries. */
#define FIRST_TRY 0x6c696e6b31u
#define SECOND_TRY 0x6c696e6b32u

/* ---- Edges ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint64_t *slot_of(const kin_graph_gpu_link &job, uint64_t salt,
                                                    uint32_t id, uint32_t row)
{
    const uint32_t slot = kin_graph_slot(kin_graph_hash(salt, row), (uint32_t)job.k);
    return job.slots + (int64_t)id * job.k + slot;
}

/* What an entry offers at the first try; a later one has the highest bit set. */
static __device__ __forceinline__ uint64_t word_of(int32_t place, uint32_t row)
{
    return (uint64_t)(uint32_t)place << 32 | row;
}

template <bool AGAIN>
static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    turn_entries_kernel(const __grid_constant__ kin_graph_gpu_link job)
{
    for (int64_t i = kin_graph_gpu_first_cell(); i < job.points * job.k;
         i += kin_graph_gpu_cell_step()) {
        const uint32_t id = job.graph[i];
        const uint32_t row = (uint32_t)(i / job.k);
        const uint64_t word = word_of((int32_t)(i % job.k), row);
        if (id == KITH_ID_NONE || id == row) {
            continue;
        }
        uint64_t *slot = slot_of(job, FIRST_TRY, id, row);
        if (!AGAIN) {
            (void)atomicMin((unsigned long long *)slot, (unsigned long long)word);
        } else if (*(volatile uint64_t *)slot != word) {
            slot = slot_of(job, SECOND_TRY, id, row);
            (void)atomicMin((unsigned long long *)slot,
                            (unsigned long long)(word | (uint64_t)1 << 63));
        }
    }
}

/* Lanes that link somewhere append what they link to. */
static __device__ __forceinline__ int32_t append(uint32_t *links, int32_t count, bool exists,
                                                 uint32_t id)
{
    const uint32_t all = __ballot_sync(KIN_GRAPH_GPU_LANES, exists);
    if (exists) {
        links[count + __popc(all & ((1u << kin_graph_gpu_lane()) - 1u))] = id;
    }
    return count + __popc(all);
}

static __device__ __forceinline__ bool names(const uint32_t *list, int32_t k, uint32_t id)
{
    for (int32_t j = 0; j < k; j++) {
        if (list[j] == id) {
            return true;
        }
    }
    return false;
}

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    join_both_kernel(const __grid_constant__ kin_graph_gpu_link job)
{
    for (int64_t row = kin_graph_gpu_first(); row < job.points; row += kin_graph_gpu_step()) {
        const uint32_t *list = job.graph + row * job.k;
        const uint64_t *slots = job.slots + row * job.k;
        uint32_t *links = job.links + row * job.k * 2;
        int32_t count = 0;
        for (int32_t first = 0; first < job.k; first += 32) {
            const int32_t j = first + kin_graph_gpu_lane();
            const uint32_t id = j < job.k ? list[j] : KITH_ID_NONE;
            count = append(links, count, id != KITH_ID_NONE && id != (uint32_t)row, id);
        }
        for (int32_t first = 0; first < job.k; first += 32) {
            const int32_t j = first + kin_graph_gpu_lane();
            const uint64_t word = j < job.k ? slots[j] : KIN_GRAPH_EMPTY;
            const uint32_t id = (uint32_t)word;
            const bool is_new = word != KIN_GRAPH_EMPTY && !names(list, job.k, id);
            count = append(links, count, is_new, id);
        }
        for (int32_t j = count + kin_graph_gpu_lane(); j < job.k * 2; j += 32) {
            links[j] = KITH_ID_NONE;
        }
    }
}

extern "C" int kin_graph_gpu_launch_link(kin_gpu_stream *stream, const kin_graph_gpu_link *job)
{
    const int64_t entries = job->points * job->k;
    KIN_CUDA_TRY(
        (cudaError_t)kin_graph_gpu_each_cell(stream, entries, job, turn_entries_kernel<false>));
    KIN_CUDA_TRY(
        (cudaError_t)kin_graph_gpu_each_cell(stream, entries, job, turn_entries_kernel<true>));
    return kin_graph_gpu_each_point(stream, job->points, job, join_both_kernel);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Roots only ever give way to lower ones: what others write meanwhile leads to the same end. */
static __device__ __forceinline__ uint32_t root_of(uint32_t *roots, uint32_t row)
{
    volatile uint32_t *parents = roots;
    uint32_t parent = parents[row];
    while (parent != row) {
        const uint32_t above = parents[parent];
        if (above != parent) {
            parents[row] = above;
        }
        row = parent;
        parent = above;
    }
    return row;
}

static __device__ __forceinline__ void unite(uint32_t *roots, uint32_t a, uint32_t b)
{
    a = root_of(roots, a);
    b = root_of(roots, b);
    while (a != b) {
        const uint32_t high = max(a, b);
        const uint32_t low = min(a, b);
        const uint32_t before = atomicCAS(&roots[high], high, low);
        if (before == high) {
            return;
        }
        a = root_of(roots, before);
        b = root_of(roots, low);
    }
}

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    begin_parts_kernel(const __grid_constant__ kin_graph_gpu_parts job)
{
    for (int64_t row = kin_graph_gpu_first_cell(); row < job.points;
         row += kin_graph_gpu_cell_step()) {
        job.roots[row] = (uint32_t)row;
    }
}

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    unite_entries_kernel(const __grid_constant__ kin_graph_gpu_parts job)
{
    for (int64_t i = kin_graph_gpu_first_cell(); i < job.points * job.k;
         i += kin_graph_gpu_cell_step()) {
        if (job.graph[i] != KITH_ID_NONE) {
            unite(job.roots, (uint32_t)(i / job.k), job.graph[i]);
        }
    }
}

/* Threads of a warp mostly have one root: one of them adds for all. */
static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    count_rows_kernel(const __grid_constant__ kin_graph_gpu_parts job)
{
    for (int64_t row = kin_graph_gpu_first_cell(); row - threadIdx.x % 32 < job.points;
         row += kin_graph_gpu_cell_step()) {
        const uint32_t root = row < job.points ? root_of(job.roots, (uint32_t)row) : KITH_ID_NONE;
        const uint32_t same = __match_any_sync(KIN_GRAPH_GPU_LANES, root);
        if (root != KITH_ID_NONE && __ffs((int)same) - 1 == kin_graph_gpu_lane()) {
            (void)atomicAdd(&job.sizes[root], (uint32_t)__popc(same));
        }
    }
}

static __global__ void __launch_bounds__(KIN_GRAPH_GPU_THREADS)
    list_parts_kernel(const __grid_constant__ kin_graph_gpu_parts job)
{
    for (int64_t row = kin_graph_gpu_first_cell(); row < job.points;
         row += kin_graph_gpu_cell_step()) {
        if (job.sizes[row] > 0) {
            job.words[atomicAdd(job.count, 1u)] =
                (uint64_t)(UINT32_MAX - job.sizes[row]) << 32 | (uint64_t)row;
        }
    }
}

extern "C" int kin_graph_gpu_launch_parts(kin_gpu_stream *stream, const kin_graph_gpu_parts *job)
{
    const int64_t entries = job->points * job->k;
    KIN_CUDA_TRY(
        (cudaError_t)kin_graph_gpu_each_cell(stream, job->points, job, begin_parts_kernel));
    KIN_CUDA_TRY((cudaError_t)kin_graph_gpu_each_cell(stream, entries, job, unite_entries_kernel));
    KIN_CUDA_TRY((cudaError_t)kin_graph_gpu_each_cell(stream, job->points, job, count_rows_kernel));
    return kin_graph_gpu_each_cell(stream, job->points, job, list_parts_kernel);
}
