/* SPDX-License-Identifier: Apache-2.0
 * From what walks found within a radius to lists: where each begins, and its order. Contract:
 * tree_kernels.h, kin_tree_gpu_sums, kin_tree_gpu_ranges.
 *
 *   sums     a block a slice: its sum; one block: the sums before each; a block a slice again
 *   short    up to SHORT: a warp a list, in shared memory; an entry's slot is how many of the
 *            others come before it, n / 32 comparisons a lane for each of n
 *   middle   up to MIDDLE: a block a list, bitonic, in shared memory
 *   long     beyond: the same where the list lies
 *
 * Bitonic with all exchanges rising (the first of each size mirrors its half), so that nothing
 * behind the end takes part, and no list needs room for a power of two.
 *
 * Cost. 30 million entries in lists of 30: 1.3 GB of memory, and 200 instructions of a warp a list.
 * Limits. A list of a million entries is 210 passes of one block. */
#include "screen/screen_sort.cuh"
#include "tree/tree_launch.cuh"

#include <cub/block/block_scan.cuh>

enum {
    SHORT = 128,
    MIDDLE = 3072,
    LIST_WARPS = 8,
    LIST_THREADS = 256,
    BLOCK = 256,
    SCAN = KIN_TREE_GPU_SUMS
};

/* ---- Sums ------------------------------------------------------------------------------------ */

typedef cub::BlockScan<int64_t, SCAN> kin_tree_scan;

KIN_DEVICE int64_t slice_of(const kin_tree_gpu_sums &job)
{
    return (job.count + gridDim.x - 1) / gridDim.x;
}

static __global__ void __launch_bounds__(SCAN) slices_kernel(const kin_tree_gpu_sums job)
{
    __shared__ typename kin_tree_scan::TempStorage room;
    const int64_t slice = slice_of(job);
    const int64_t first = (int64_t)blockIdx.x * slice;
    const int64_t last = min(first + slice, job.count);
    int64_t sum = 0;
    int64_t before = 0;
    int64_t whole = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += SCAN) {
        sum += job.counts[i];
    }
    kin_tree_scan(room).ExclusiveSum(sum, before, whole);
    if (threadIdx.x == 0) {
        job.scratch[blockIdx.x] = whole;
    }
}

static __global__ void __launch_bounds__(SCAN)
    starts_kernel(const kin_tree_gpu_sums job, const int32_t slices)
{
    __shared__ typename kin_tree_scan::TempStorage room;
    const int32_t thread = (int32_t)threadIdx.x;
    int64_t before = 0;
    kin_tree_scan(room).ExclusiveSum(thread < slices ? job.scratch[thread] : 0, before);
    if (thread < slices) {
        job.scratch[thread] = before;
    }
}

static __global__ void __launch_bounds__(SCAN) offsets_kernel(const kin_tree_gpu_sums job)
{
    __shared__ typename kin_tree_scan::TempStorage room;
    const int64_t slice = slice_of(job);
    const int64_t first = (int64_t)blockIdx.x * slice;
    const int64_t last = min(first + slice, job.count);
    int64_t start = job.scratch[blockIdx.x];
    for (int64_t base = first; base < last; base += SCAN) {
        const int64_t i = base + threadIdx.x;
        const int64_t mine = i < last ? job.counts[i] : 0;
        int64_t before = 0;
        int64_t whole = 0;
        __syncthreads(); /* the room is free */
        kin_tree_scan(room).ExclusiveSum(mine, before, whole);
        if (i < last) {
            job.offsets[i] = start + before;
        }
        if (i == job.count - 1) {
            job.offsets[job.count] = start + before + mine;
        }
        start += whole;
    }
}

int kin_tree_launch_sums(kin_gpu_stream *stream, const kin_tree_gpu_sums *job)
{
    const int64_t wished = (job->count + SCAN - 1) / SCAN;
    const unsigned slices = (unsigned)(wished < SCAN ? wished : SCAN);
    if (job->count == 0) {
        return (int)cudaErrorInvalidValue;
    }
    slices_kernel<<<slices, SCAN, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    starts_kernel<<<1, SCAN, 0, stream->stream>>>(*job, (int32_t)slices);
    KIN_CUDA_TRY_LAUNCH();
    offsets_kernel<<<slices, SCAN, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

/* ---- Lists ----------------------------------------------------------------------------------- */

KIN_DEVICE void put(const kin_tree_gpu_ranges &job, int64_t at, double key, uint32_t id)
{
    const double distance = kin_within_distance(job.metric, key);
    job.ids[at] = id;
    job.distances64[at] = distance;
    job.distances[at] = __double2float_rn(distance);
}

static __global__ void __launch_bounds__(LIST_THREADS)
    short_lists_kernel(const kin_tree_gpu_ranges job)
{
    __shared__ double all_keys[LIST_WARPS][SHORT];
    __shared__ uint32_t all_ids[LIST_WARPS][SHORT];
    const int32_t warp = (int32_t)threadIdx.x / KIN_SCREEN_GPU_WARP;
    const int32_t lane = kin_tree_gpu_my_lane();
    const int64_t row = (int64_t)blockIdx.x * LIST_WARPS + warp;
    if (row >= job.rows) {
        return;
    }
    const int64_t first = job.offsets[row] - job.first;
    const int64_t count = job.offsets[row + 1] - job.first - first;
    if (count > SHORT) {
        return;
    }
    double *keys = all_keys[warp];
    uint32_t *ids = all_ids[warp];
    const int32_t n = (int32_t)count;
    for (int32_t i = lane; i < n; i += KIN_SCREEN_GPU_WARP) {
        keys[i] = job.distances64[first + i];
        ids[i] = job.ids[first + i];
    }
    __syncwarp();
    for (int32_t i = lane; i < n; i += KIN_SCREEN_GPU_WARP) {
        const double key = keys[i];
        const uint32_t id = ids[i];
        int32_t slot = 0;
        for (int32_t j = 0; j < n; j++) {
            slot += kin_sort_before(keys[j], ids[j], key, id) ? 1 : 0;
        }
        put(job, first + slot, key, id);
    }
}

/* The lesser of two to the lower place. */
KIN_DEVICE void exchange(double *keys, uint32_t *ids, int64_t low, int64_t high)
{
    const double a = keys[low];
    const double b = keys[high];
    const uint32_t id_a = ids[low];
    const uint32_t id_b = ids[high];
    if (kin_sort_before(b, id_b, a, id_a)) {
        keys[low] = b;
        keys[high] = a;
        ids[low] = id_b;
        ids[high] = id_a;
    }
}

/* Begins and ends with a barrier. */
KIN_DEVICE void sort_list(double *keys, uint32_t *ids, int64_t n)
{
    for (int64_t half = 1; half < n; half *= 2) {
        for (int64_t stride = half; stride > 0; stride /= 2) {
            __syncthreads(); /* the last step is complete */
            for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
                const int64_t at = i & (stride - 1);
                const int64_t low = 2 * i - at;
                const int64_t high = low + (stride == half ? 2 * (stride - at) - 1 : stride);
                if (high < n) {
                    exchange(keys, ids, low, high);
                }
            }
        }
    }
    __syncthreads();
}

KIN_DEVICE void sort_row(const kin_tree_gpu_ranges &job, int64_t row, double *keys, uint32_t *ids)
{
    const int64_t first = job.offsets[row] - job.first;
    const int64_t n = job.offsets[row + 1] - job.first - first;
    const bool here = n <= MIDDLE;
    double *list = here ? keys : job.distances64 + first;
    uint32_t *names = here ? ids : job.ids + first;
    for (int64_t i = threadIdx.x; here && i < n; i += BLOCK) {
        keys[i] = job.distances64[first + i];
        ids[i] = job.ids[first + i];
    }
    sort_list(list, names, n);
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        put(job, first + i, list[i], names[i]);
    }
    __syncthreads(); /* the next list may come */
}

/* BLOCK rows at a time are asked whether one of them has a list that is not short. */
static __global__ void __launch_bounds__(BLOCK) long_lists_kernel(const kin_tree_gpu_ranges job)
{
    __shared__ double keys[MIDDLE];
    __shared__ uint32_t ids[MIDDLE];
    __shared__ uint32_t long_rows[BLOCK];
    __shared__ int32_t count;
    for (int64_t base = (int64_t)blockIdx.x * BLOCK; base < job.rows;
         base += (int64_t)gridDim.x * BLOCK) {
        const int64_t row = base + threadIdx.x;
        if (threadIdx.x == 0) {
            count = 0;
        }
        __syncthreads();
        if (row < job.rows && job.offsets[row + 1] - job.offsets[row] > SHORT) {
            long_rows[atomicAdd(&count, 1)] = threadIdx.x;
        }
        __syncthreads();
        for (int32_t i = 0; i < count; i++) {
            sort_row(job, base + long_rows[i], keys, ids);
        }
        __syncthreads(); /* all have read the count */
    }
}

int kin_tree_launch_ranges(kin_gpu_stream *stream, const kin_tree_gpu_ranges *job)
{
    if (job->rows == 0) {
        return 0;
    }
    const unsigned warps = kin_tree_gpu_blocks_for(job->rows, LIST_WARPS);
    const unsigned wished = kin_tree_gpu_blocks_for(job->rows, BLOCK);
    const unsigned most = (unsigned)stream->processors * 4;
    const unsigned blocks = wished < most ? wished : most;
    short_lists_kernel<<<warps, LIST_THREADS, 0, stream->stream>>>(*job);
    KIN_CUDA_TRY_LAUNCH();
    long_lists_kernel<<<blocks, BLOCK, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
