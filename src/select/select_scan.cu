/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A row is read once, against a threshold that nearly always lets the k smallest and few
 * others pass; the few are sorted in shared memory. It is the threshold of TH-heap (Matsumoto and
 * Yiu 2015, section V-A) with a sample small enough to cost nothing, and the buffer of the merge
 * queue paper with the block as its warp.
 *
 *   sample    1,024 vectors of 16 bytes, in lines of 128 at even strides. The r-th smallest value
 *             is the threshold: with n values, S in the sample and lambda = k S / n expected up to
 *             the true k-th, r = lambda + 5.5 sqrt(lambda) + 6, or k if that is less, so that
 *             fewer than k pass once in some 10^8 runs. It is ranked among the least of small
 *             groups, not among all values, which can only raise it
 *   stream    16-byte loads, one comparison a value in the type itself. What passes becomes a
 *             word and goes to the buffer. No barrier, and no atomic where nothing passes
 *   careful   where fewer than k passed, or more than the buffer holds (bad luck, NaN, ties), the
 *             run is read again, words are compared instead of values, and the buffer is cut to
 *             the best k whenever it is full. Always right; equal values cost nothing once k of
 *             them are in
 *   finish    the buffer is sorted, its first k are the answer
 *
 * Sampling, streaming and sorting are the work of three crews of a block, each one run ahead of the
 * next, so that memory never waits for them (select_scan_run.cuh). The ring through which values
 * come has loads under way across the borders of runs.
 *
 * Where rows are few they are cut into runs of equal length, whose answers are rows of words, from
 * which is selected once more. Short rows have a warp each (select_scan_short.cu).
 *
 * Ties. Words (select_word.h) are compared wherever two candidates are; the threshold lets equal
 * values pass, so it never decides between them.
 *
 * Cost. One read of the matrix, and 16 KiB of each run from the second-level cache.
 * Limit. Shared memory must hold two buffers of 2 k words: k up to some 4,450 where a block may
 * have 227 KiB, 2,630 where 163 KiB, 810 where 99 KiB (half of that for float64). Beyond, the
 * launch hands over to radix, unless the row is short. */
#include "select/select_launch.cuh"
#include "select/select_scan_sort.cuh"

#include <math.h>

/* Runs wished for, for each block that the device holds at once: the last round is a small share.
 */
enum { ROUNDS = 16, BLOCKS_A_PROCESSOR = 2 };
enum { LEAST_CAPACITY = 1024 };
static const int64_t LEAST_RUN = 32768; /* values; shorter ones are not worth their sort */
static const int64_t LONGEST_RUN = (int64_t)1 << 30; /* 32 bits count it */

/* ---- The crews ------------------------------------------------------------------------------- */

/* Each warp has every SCAN_THRESHOLDS-th run of the block, and a slot of its own. */
template <typename Value>
static __device__ void run_samplers(const scan_job &job, scan_memory<Value> *memory, int64_t parts)
{
    constexpr int BOTH = SCAN_STREAMERS + KIN_WARP;
    const int slot = ((int)threadIdx.x - SCAN_STREAMERS) / KIN_WARP;
    const int64_t step = SCAN_THRESHOLDS * (int64_t)gridDim.x;
    const int64_t first = blockIdx.x + slot * (int64_t)gridDim.x;
    for (int64_t part = first; part < parts; part += step) {
        const auto threshold =
            scan_threshold(job, scan_run<Value>(job, part), memory->groups[slot]);
        if (part != first) {
            scan_wait(THRESHOLD_READ + slot, BOTH);
        }
        if (threadIdx.x % KIN_WARP == 0) {
            memory->threshold[slot] = threshold;
        }
        scan_tell(THRESHOLD_THERE + slot, BOTH);
    }
}

template <typename Value>
static __device__ void run_streamers(const scan_job &job, scan_memory<Value> *memory, int64_t parts)
{
    constexpr int LOADS = scan_memory<Value>::LOADS;
    constexpr int SAMPLED = SCAN_STREAMERS + KIN_WARP;
    constexpr int SORTED = SCAN_STREAMERS + SCAN_SORTERS;
    scan_ahead<Value> ahead(job, memory, parts);
    for (int i = 0; i + 1 < SCAN_STAGES; i++) {
        ahead.ask();
    }
    int32_t stage = 0;
    int64_t turn = 0;
    for (int64_t part = blockIdx.x; part < parts; part += gridDim.x, turn++) {
        const int slot = (int)(turn % 2);
        const int sampler = (int)(turn % SCAN_THRESHOLDS);
        const scan_run<Value> run(job, part);
        scan_wait(THRESHOLD_THERE + sampler, SAMPLED);
        const scan_stream<Value> stream = {run, memory->threshold[sampler],
                                           memory->buffer(job, slot), job.capacity,
                                           &memory->count[slot]};
        if (part + SCAN_THRESHOLDS * (int64_t)gridDim.x < parts) { /* the slot has another turn */
            scan_tell(THRESHOLD_READ + sampler, SAMPLED);
        }
        if (turn >= 2) {
            scan_wait(BUFFER_FREE + slot, SORTED);
        }
        for (int32_t base = 0; base < run.vectors; base += LOADS * SCAN_STREAMERS) {
            asm volatile("cp.async.wait_group %0;" ::"n"(SCAN_STAGES - 2) : "memory");
            ahead.ask();
            stream.take(&memory->ring[stage][0][threadIdx.x], base + (int32_t)threadIdx.x);
            stage = stage + 1 == SCAN_STAGES ? 0 : stage + 1;
        }
        stream.take_ends();
        scan_tell(BUFFER_FILLED + slot, SORTED);
    }
}

template <typename Value>
static __device__ void run_sorters(const scan_job &job, scan_memory<Value> *memory, int64_t parts)
{
    constexpr int BOTH = SCAN_STREAMERS + SCAN_SORTERS;
    int64_t turn = 0;
    for (int64_t part = blockIdx.x; part < parts; part += gridDim.x, turn++) {
        const int slot = (int)(turn % 2);
        scan_wait(BUFFER_FILLED + slot, BOTH);
        scan_finish(job, memory, part, slot);
        if (part + 2 * (int64_t)gridDim.x < parts) {
            scan_tell(BUFFER_FREE + slot, BOTH);
        }
    }
}

/* Runs in the order of their rows; each block takes every gridDim.x-th. */
template <typename Value>
static __global__ void __launch_bounds__(SCAN_THREADS, BLOCKS_A_PROCESSOR)
    scan_rows_kernel(const __grid_constant__ scan_job job)
{
    extern __shared__ uint4 shared[];
    scan_memory<Value> *memory = (scan_memory<Value> *)shared;
    const int64_t parts = job.task.rows * job.runs;
    if (threadIdx.x == 0) {
        memory->count[0] = 0;
        memory->count[1] = 0;
        memory->low = UINT32_MAX;
        memory->high = 0;
    }
    __syncthreads();
    if (threadIdx.x < SCAN_STREAMERS) {
        run_streamers(job, memory, parts);
    } else if (threadIdx.x < SCAN_STREAMERS + SCAN_SAMPLERS) {
        run_samplers(job, memory, parts);
    } else {
        run_sorters(job, memory, parts);
    }
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* What a word of a buffer takes: two buffers of words, and a member of a bucket. */
static int32_t place_bytes(kin_select_type dtype)
{
    return 2 * kin_word_bytes(dtype) + (int32_t)sizeof(uint16_t);
}

/* Words of a buffer where a block has so many bytes of shared memory, of which those of float64
 * share the most beside. */
static int64_t capacity_of(int64_t shared_bytes, kin_select_type dtype)
{
    return (shared_bytes - (int64_t)sizeof(scan_memory<kin_value_f64>)) / place_bytes(dtype);
}

/* The careful way holds k words, and room for more. */
static int64_t least_capacity(int64_t k)
{
    return 2 * k + SCAN_SORTERS;
}

static bool fits(const kin_gpu_stream *stream, const kin_select_job *task)
{
    return least_capacity(task->k) <= capacity_of(stream->shared_bytes, task->dtype);
}

/* Room for what passes the threshold of a run. The rank-th of a sample stands for rank n / S
 * values; that of the least of g filled groups for what the rank-th of -g ln(1 - rank / g) values
 * stands for. Their spread is that of a sum of `rank` waiting times: the last factor leaves a
 * chance of some 10^-7 that more pass. */
static int64_t capacity_for(int64_t k, int64_t run, int32_t each)
{
    const double sample = fmin((double)SCAN_VECTORS * each, (double)run);
    const int32_t rank = scan_rank(k, (float)((double)k * sample / (double)run));
    const int64_t vectors = run / each - 1; /* or more: a vector may be lost at the ends */
    const int32_t groups = scan_groups(rank, vectors);
    double passing = (double)run;
    if (!scan_blind(rank, groups, vectors)) {
        const int32_t filled = scan_filled(groups, vectors);
        const double values = -filled * log(1 - (double)rank / filled);
        passing = values * (double)run / sample * (1 + 5.5 / sqrt((double)rank) + 8.0 / rank);
    }
    const int64_t least = least_capacity(k);
    const int64_t wanted = (int64_t)fmin(passing, (double)run);
    return wanted > least ? wanted : least;
}

/* Values that stand in order make the sample worse than chance does: twice the room, as long as
 * BLOCKS_A_PROCESSOR of them share a processor. */
static int32_t choose_capacity(const kin_gpu_stream *stream, const scan_job *job, int32_t each)
{
    const kin_select_type dtype = job->task.dtype;
    const int64_t most = capacity_of(stream->shared_bytes, dtype);
    const int64_t free = capacity_of(stream->shared_bytes / BLOCKS_A_PROCESSOR - 1024, dtype);
    const int64_t wanted = capacity_for(job->task.k, job->run, each);
    const int64_t ample = 2 * wanted > LEAST_CAPACITY ? 2 * wanted : LEAST_CAPACITY;
    const int64_t chosen = ample < free ? ample : wanted > free ? wanted : free;
    return (int32_t)(chosen < most ? chosen : most);
}

/* Few rows are cut, so that every block has some runs. */
static void cut(const kin_gpu_stream *stream, scan_job *job)
{
    const kin_select_job *task = &job->task;
    const int64_t blocks = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    const int64_t wished = (ROUNDS * blocks + task->rows - 1) / task->rows;
    const int64_t least = 8 * task->k > LEAST_RUN ? 8 * task->k : LEAST_RUN;
    const int64_t must = task->cols / LONGEST_RUN + 1;
    int64_t runs = task->cols / least;
    runs = runs < wished ? runs : wished;
    runs = runs < must ? must : runs;
    job->run = ((task->cols + runs - 1) / runs + 63) / 64 * 64; /* begins where a vector may */
    job->runs = (task->cols + job->run - 1) / job->run;
}

/* Words that the runs of all rows give. */
static uint64_t words_of(const scan_job *job)
{
    return job->runs == 1 ? 0 : (uint64_t)(job->task.rows * job->runs * job->task.k);
}

static scan_job plan(const kin_gpu_stream *stream, const kin_select_job *task, int32_t each)
{
    scan_job job = {};
    job.task = *task;
    job.words = task->scratch;
    cut(stream, &job);
    job.capacity = choose_capacity(stream, &job, each);
    return job;
}

/* The answers of runs are the rows of a job, whose own answers of runs lie behind them. */
static scan_job plan_again(const kin_gpu_stream *stream, const scan_job *first)
{
    const int32_t bytes = kin_word_bytes(first->task.dtype);
    kin_select_job task = first->task;
    task.values = (const char *)first->words;
    task.ids = NULL;
    task.cols = first->runs * first->task.k;
    task.stride_bytes = task.cols * bytes;
    task.scratch = (char *)first->words + words_of(first) * (uint64_t)bytes;
    return plan(stream, &task, 16 / bytes);
}

uint64_t kin_select_scan_scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    if (kin_select_scan_is_short(task)) {
        return 0;
    }
    if (!fits(stream, task)) {
        return kin_select_radix_scratch(stream, task);
    }
    scan_job job = plan(stream, task, 16 / kin_select_type_bytes(task->dtype));
    uint64_t words = words_of(&job);
    while (job.runs > 1) {
        job = plan_again(stream, &job);
        words += words_of(&job);
    }
    return words * (uint64_t)kin_word_bytes(task->dtype);
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <typename Value> static int launch_job(kin_gpu_stream *stream, const scan_job &job)
{
    const size_t shared_bytes =
        sizeof(scan_memory<Value>) + (size_t)job.capacity * (size_t)place_bytes(job.task.dtype);
    int blocks = 0;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, scan_rows_kernel<Value>));
    KIN_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scan_rows_kernel<Value>,
                                                               SCAN_THREADS, shared_bytes));
    const int64_t parts = job.task.rows * job.runs;
    const int64_t most = (int64_t)blocks * stream->processors;
    scan_rows_kernel<Value>
        <<<(unsigned)(parts < most ? parts : most), SCAN_THREADS, shared_bytes, stream->stream>>>(
            job);
    return kin_gpu_launched();
}

template <typename Value> static int launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    scan_job job = plan(stream, task, scan_run<Value>::EACH);
    KIN_CUDA_TRY((cudaError_t)launch_job<Value>(stream, job));
    while (job.runs > 1) {
        job = plan_again(stream, &job);
        KIN_CUDA_TRY((cudaError_t)(kin_word_bytes(task->dtype) == 16
                                       ? launch_job<word_128>(stream, job)
                                       : launch_job<word_64>(stream, job)));
    }
    return 0;
}

int kin_select_scan_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    if (kin_select_scan_is_short(task)) {
        return kin_select_scan_short(stream, task);
    }
    if (!fits(stream, task)) {
        return kin_select_radix_launch(stream, task);
    }
    KIN_SELECT_BY_TYPE(task->dtype, launch, stream, task)
}
