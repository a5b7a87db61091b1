/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A list is tightened by what its own costs prove: the k smallest costs bound how far the
 * k-th neighbour is (the reach), the reach bounds which costs can matter, and the rest goes. The
 * list stays where it is; what is kept moves to its front.
 *
 *      before   7 3 9 1 5 8 2      k = 3: the k-th cost is 3, its limit with all slack, say, 5
 *      after    3 1 5 2            ties with the limit stay: one of them may have the smaller id
 *
 * A list that was pushed beyond its capacity has lost candidates. What it holds are still distinct
 * points with true costs, so the reach is sound; the row is marked and screened again.
 *
 * Cost. One read of the entries and of their facts, one write of what moves. Up to 512 entries a
 * warp holds them in registers and finds the k-th by votes; longer lists take a block of threads
 * and a radix selection over the list where it lies.
 */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_list.cuh"
#include "screen/screen_pair.cuh"

enum {
    FEW_ENTRIES = 4, /* a lane; MOST_ENTRIES at most */
    MANY_K = 4096,
    MANY_THREADS = 1024 /* of a list of so many neighbours */
};

/* ---- Short lists: a warp each ---------------------------------------------------------------- */

/* Entries of a list that are looked at. */
static __device__ __forceinline__ int32_t entries_of(const kin_screen_gpu_tighten &job, int64_t row,
                                                     int32_t pushed)
{
    if (pushed <= job.lists.capacity) {
        return pushed;
    }
    return job.restores ? job.before[row] : job.lists.capacity;
}

/* Whether the list is what the last tightening left. */
static __device__ __forceinline__ bool is_tight(const kin_screen_gpu_tighten &job, int64_t row,
                                                int32_t pushed)
{
    return job.before != NULL && pushed == job.before[row];
}

/* By one thread of those that tightened a list. */
static __device__ __forceinline__ void settle(const kin_screen_gpu_tighten &job, int64_t row,
                                              int32_t pushed, int32_t kept)
{
    job.lists.counts[row] = kept;
    if (pushed > job.lists.capacity) {
        job.lists.lost[row] = 1;
    }
    if (job.before != NULL) {
        job.before[row] = kept;
    }
}

/* Few entries a lane need few registers, so that more warps hide each other's waits. */
template <int MOST>
static __global__ void __launch_bounds__(KIN_LIST_THREADS)
    tighten_short_kernel(const __grid_constant__ kin_screen_gpu_tighten job)
{
    __shared__ int32_t left;
    if (threadIdx.x == 0) {
        left = 0;
    }
    __syncthreads();
    const int64_t row = (int64_t)blockIdx.x * KIN_LIST_WARPS + threadIdx.x / 32;
    if (row < job.set.points) {
        const int32_t pushed = job.lists.counts[row];
        const int32_t count = entries_of(job, row, pushed);
        /* With fewer than k entries nothing is proven that was not known when they came. */
        const bool stays = count < job.lists.k || is_tight(job, row, pushed);
        const int32_t kept = stays ? count : warp_tighten_any<MOST>(job, row, count);
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            settle(job, row, pushed, kept);
            atomicAdd(&left, kept);
        }
    }
    __syncthreads();
    if (job.kept != NULL && threadIdx.x == 0) {
        atomicAdd((unsigned long long *)job.kept, (unsigned long long)left);
    }
}

/* ---- Longer lists: a block each -------------------------------------------------------------- */

template <int THREADS>
static __global__ void __launch_bounds__(THREADS)
    tighten_long_kernel(const __grid_constant__ kin_screen_gpu_tighten job)
{
    __shared__ list_shared shared;
    const int64_t row = blockIdx.x;
    const int32_t pushed = job.lists.counts[row];
    const int32_t count = entries_of(job, row, pushed);
    const bool stays = count < job.lists.k || is_tight(job, row, pushed);
    const int32_t kept = stays ? count : block_tighten(job, row, count, &shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        settle(job, row, pushed, kept);
        if (job.kept != NULL) {
            atomicAdd((unsigned long long *)job.kept, (unsigned long long)kept);
        }
    }
}

/* ---- The worst of a tile --------------------------------------------------------------------- */

/* Of the lanes whose positions share a gate: those that differ from ours by 1, 8 or 16. */
static __device__ __forceinline__ kin_screen_gpu_word largest_gate(kin_screen_gpu_type type,
                                                                   kin_screen_gpu_word gate)
{
    for (int apart = 1; apart < 32; apart = apart == 1 ? 8 : 2 * apart) {
        kin_screen_gpu_word other;
        other.u = __shfl_xor_sync(KIN_ALL_LANES, gate.u, apart);
        if (type == KIN_SCREEN_GPU_S8) {
            gate.i = max(gate.i, other.i);
        } else {
            gate.f = fmaxf(gate.f, other.f);
        }
    }
    return gate;
}

/* Every number rounded up. A warp has the rows of four gates. A tile of padding stays below
 * everything. */
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_TILE)
    find_worst_kernel(const __grid_constant__ kin_screen_gpu_tighten job)
{
    __shared__ kin_screen_gpu_worst parts[KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_QUAD];
    __shared__ kin_screen_gpu_word gates[KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_GATE];
    const kin_screen_gpu_frame &frame = job.set.frame;
    const int64_t row = (int64_t)blockIdx.x * KIN_SCREEN_GPU_TILE + threadIdx.x;
    kin_screen_gpu_worst worst = {0.0F, 0.0F, -INFINITY, INT32_MIN, {}};
    kin_screen_gpu_word gate = kin_gate_of(frame.type, frame.bound, -INFINITY);
    if (row < job.set.points) {
        const float4 facts = __ldg((const float4 *)(job.set.facts + row));
        const double reach =
            job.lists.reach == NULL ? INFINITY : kin_screen_gpu_reach(&frame, job.lists.reach[row]);
        const double far =
            frame.bound == KIN_BOUND_DISTANCE ? __dadd_ru(reach, (double)facts.z) : reach;
        worst.norm = facts.y;
        worst.lost = facts.z;
        worst.far = __double2float_ru(far);
        worst.integer = reach < (double)INT32_MAX ? (int32_t)ceil(reach) : INT32_MAX;
        gate = kin_gate_of(frame.type, frame.bound, kin_gate_set_far(&job.set, far));
    }
    if (job.gates != NULL) {
        job.gates[row] = gate;
    }
    worst.norm = warp_max(worst.norm);
    worst.lost = warp_max(worst.lost);
    worst.far = warp_max(worst.far);
    worst.integer = __reduce_max_sync(KIN_ALL_LANES, worst.integer);
    gate = largest_gate(frame.type, gate);
    if (threadIdx.x % 32 < 8 && threadIdx.x % 2 == 0) {
        gates[kin_screen_gpu_gate_of((int32_t)threadIdx.x)] = gate;
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = worst;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_QUAD; i++) {
            worst.norm = fmaxf(worst.norm, parts[i].norm);
            worst.lost = fmaxf(worst.lost, parts[i].lost);
            worst.far = fmaxf(worst.far, parts[i].far);
            worst.integer = max(worst.integer, parts[i].integer);
        }
        for (int i = 0; i < KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_GATE; i++) {
            worst.gate[i] = gates[i];
        }
        job.worst[blockIdx.x] = worst;
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

int kin_screen_gpu_launch_tighten(kin_gpu_stream *stream, const kin_screen_gpu_tighten *job)
{
    if (job->set.points == 0) {
        return 0;
    }
    if (job->lists.words == NULL) {
        /* Only norms and losses are wanted. */
    } else if (job->lists.capacity <= 32 * MOST_ENTRIES) {
        const int64_t blocks = (job->set.points + KIN_LIST_WARPS - 1) / KIN_LIST_WARPS;
        const auto kernel = job->lists.capacity <= 32 * FEW_ENTRIES
                                ? tighten_short_kernel<FEW_ENTRIES>
                                : tighten_short_kernel<MOST_ENTRIES>;
        kernel<<<(unsigned)blocks, KIN_LIST_THREADS, 0, stream->stream>>>(*job);
    } else {
        const bool many = job->lists.k >= MANY_K;
        const auto kernel =
            many ? tighten_long_kernel<MANY_THREADS> : tighten_long_kernel<KIN_LIST_THREADS>;
        const unsigned threads = many ? (unsigned)MANY_THREADS : (unsigned)KIN_LIST_THREADS;
        kernel<<<(unsigned)job->set.points, threads, 0, stream->stream>>>(*job);
    }
    KIN_CUDA_TRY_LAUNCH();
    if (job->worst != NULL) {
        const int64_t tiles = job->set.padded / KIN_SCREEN_GPU_TILE;
        find_worst_kernel<<<(unsigned)tiles, KIN_SCREEN_GPU_TILE, 0, stream->stream>>>(*job);
    }
    return kin_gpu_launched();
}
