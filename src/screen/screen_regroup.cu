/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows by group: counted, their counts summed up, put where their group is. Within a group they
 * stand as they come: whoever reads them sorts what it finds by (key, id).
 *
 * Cost. Two reads of the groups, an atomic addition a row and read; one block sums the counts, a
 * thousandth of a microsecond a group. */
#include "gpu/gpu_stream.cuh"
#include "screen/screen_kernels.h"

enum { WARP = 32, THREADS = 256, SUMMING = 1024, MOST_BLOCKS = 1024 };

/* ---- Numbers --------------------------------------------------------------------------------- */

static __device__ uint64_t warp_largest(uint64_t value)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) {
        const uint64_t other = __shfl_xor_sync(0xffffffffu, value, step);
        value = other > value ? other : value;
    }
    return value;
}

static __global__ void __launch_bounds__(THREADS) number_kernel(const kin_screen_gpu_number job)
{
    uint64_t largest = 0;
    uint64_t refused = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < job.rows;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t number = job.numbers[i];
        const uint64_t left = (uint64_t)(job.rows - i);
        job.of[i] = (uint32_t)number;
        largest = number > (int64_t)largest ? (uint64_t)number : largest;
        refused = number < 0 && left > refused ? left : refused;
    }
    largest = warp_largest(largest);
    refused = warp_largest(refused);
    if (threadIdx.x % WARP == 0) {
        (void)atomicMax((unsigned long long *)&job.found->largest, (unsigned long long)largest);
    }
    if (threadIdx.x % WARP == 0 && refused != 0) {
        (void)atomicMax((unsigned long long *)&job.found->refused, (unsigned long long)refused);
    }
}

int kin_screen_gpu_launch_number(kin_gpu_stream *stream, const kin_screen_gpu_number *job)
{
    const int64_t blocks = (job->rows + THREADS - 1) / THREADS;
    KIN_CUDA_TRY(cudaMemsetAsync(job->found, 0, sizeof *job->found, stream->stream));
    if (blocks == 0) {
        return 0;
    }
    number_kernel<<<(unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), THREADS, 0,
                    stream->stream>>>(*job);
    return kin_gpu_launched();
}

/* ---- Rows by group --------------------------------------------------------------------------- */

static __device__ __forceinline__ bool takes(const kin_screen_gpu_regroup &job, int64_t row)
{
    return row < job.rows && (job.words == NULL || (job.words[row / WARP] >> row % WARP & 1) != 0);
}

static __global__ void __launch_bounds__(THREADS) count_kernel(const kin_screen_gpu_regroup job)
{
    const int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (takes(job, row)) {
        (void)atomicAdd(&job.begin[job.of[row]], 1u);
    }
}

/* begin[]: counts become the sums before them, twice. By one block. */
static __global__ void __launch_bounds__(SUMMING) sum_kernel(const kin_screen_gpu_regroup job)
{
    __shared__ uint32_t sums[SUMMING / WARP];
    const uint32_t lane = threadIdx.x % WARP;
    const uint32_t warp = threadIdx.x / WARP;
    uint32_t before = 0;
    for (int64_t first = 0; first <= job.groups; first += SUMMING) {
        const int64_t group = first + threadIdx.x;
        const uint32_t own = group < job.groups ? job.begin[group] : 0u;
        uint32_t sum = own; /* of this lane and those below */
#pragma unroll
        for (uint32_t step = 1; step < WARP; step *= 2) {
            const uint32_t other = __shfl_up_sync(0xffffffffu, sum, step);
            sum += lane >= step ? other : 0u;
        }
        __syncthreads(); /* sums are read */
        if (lane == WARP - 1) {
            sums[warp] = sum;
        }
        __syncthreads();
        const uint32_t theirs = sums[lane];
        const uint32_t below = __reduce_add_sync(0xffffffffu, lane < warp ? theirs : 0u);
        if (group <= job.groups) {
            job.begin[group] = before + below + sum - own;
            job.next[group] = before + below + sum - own;
        }
        before += __reduce_add_sync(0xffffffffu, theirs);
    }
}

static __global__ void __launch_bounds__(THREADS) place_kernel(const kin_screen_gpu_regroup job)
{
    const int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (takes(job, row)) {
        const uint32_t group = job.of[row];
        const uint32_t to = atomicAdd(&job.next[group], 1u);
        job.order[to] = (uint32_t)row;
        if (job.owners != NULL) {
            job.owners[to] = group;
        }
    }
}

int kin_screen_gpu_launch_regroup(kin_gpu_stream *stream, const kin_screen_gpu_regroup *job)
{
    const int64_t blocks = (job->rows + THREADS - 1) / THREADS;
    if (blocks == 0) {
        return 0;
    }
    KIN_CUDA_TRY(cudaMemsetAsync(job->begin, 0, ((size_t)job->groups + 1) * sizeof *job->begin,
                                 stream->stream));
    count_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    sum_kernel<<<1, SUMMING, 0, stream->stream>>>(*job);
    place_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

/* ---- Blocks of their own --------------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS) spread_kernel(const kin_screen_gpu_spread job)
{
    const int64_t position = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    job.ids[position] = kin_screen_gpu_spread_id(&job, position);
}

int kin_screen_gpu_launch_spread(kin_gpu_stream *stream, const kin_screen_gpu_spread *job)
{
    static_assert((int)THREADS == (int)KIN_SCREEN_GPU_BLOCK,
                  "a block of threads for a block of rows");
    if (job->blocks == 0) {
        return 0;
    }
    spread_kernel<<<(unsigned)job->blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS) few_kernel(const kin_screen_gpu_few job)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < job.queries) {
        job.ids[i] = job.spans[job.owners[i]].count < job.least ? job.asked[i] : KITH_ID_NONE;
    }
}

int kin_screen_gpu_launch_few(kin_gpu_stream *stream, const kin_screen_gpu_few *job)
{
    const int64_t blocks = (job->queries + THREADS - 1) / THREADS;
    if (blocks == 0) {
        return 0;
    }
    few_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

static __global__ void __launch_bounds__(THREADS) lost_kernel(const kin_screen_gpu_lost job)
{
    const int64_t position = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const bool lost = position < job.points && job.lost[position] != 0;
    unsigned long long *count = (unsigned long long *)job.count;
    if (job.ids == NULL) {
        const int here = __syncthreads_count(lost);
        if (here != 0 && threadIdx.x == 0) {
            (void)atomicAdd(count, (unsigned long long)here);
        }
    } else if (lost) {
        const uint64_t to = atomicAdd(count, 1ull);
        job.ids[to] = job.of != NULL ? job.of[position] : (uint32_t)position;
        if (job.owners != NULL) {
            job.owners[to] = job.seats[position / KIN_SCREEN_GPU_BLOCK].group;
        }
    }
}

int kin_screen_gpu_launch_lost(kin_gpu_stream *stream, const kin_screen_gpu_lost *job)
{
    const int64_t blocks = (job->points + THREADS - 1) / THREADS;
    if (blocks == 0) {
        return 0;
    }
    lost_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}

/* ---- What a group may find ------------------------------------------------------------------- */

static __global__ void __launch_bounds__(THREADS) spans_kernel(const kin_screen_gpu_spans job)
{
    const int64_t group = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (group >= job.groups) {
        return;
    }
    const kin_screen_gpu_span span = kin_screen_gpu_span_of(&job, group);
    const uint64_t queries = job.query_begin[group + 1] - job.query_begin[group];
    job.spans[group] = span;
    if (queries > 0 && span.count > 0) {
        (void)atomicAdd((unsigned long long *)&job.totals->pairs,
                        (unsigned long long)(queries * span.count));
        (void)atomicAdd(&job.totals->used, 1u);
        (void)atomicMax(&job.totals->longest, span.count);
    }
}

int kin_screen_gpu_launch_spans(kin_gpu_stream *stream, const kin_screen_gpu_spans *job)
{
    const int64_t blocks = (job->groups + THREADS - 1) / THREADS;
    if (blocks == 0) {
        return 0;
    }
    KIN_CUDA_TRY(cudaMemsetAsync(job->totals, 0, sizeof *job->totals, stream->stream));
    spans_kernel<<<(unsigned)blocks, THREADS, 0, stream->stream>>>(*job);
    return kin_gpu_launched();
}
