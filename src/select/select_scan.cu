/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A row is read once, against a threshold that nearly always lets the k smallest and few
 * others pass; the few are sorted in shared memory. It is the threshold of TH-heap (Matsumoto and
 * Yiu 2015, section V-A) with a sample small enough to cost nothing, and the buffer of the merge
 * queue paper with the block as its warp.
 *
 *   sample    some 4,096 values of the run, 16 bytes at even strides. The r-th smallest of them
 *             is the threshold: with n values, S in the sample and lambda = k S / n expected up to
 *             the true k-th, r = lambda + 4.2 sqrt(lambda) + 3, or k if that is less, so that
 *             fewer than k pass once in some 10^5 runs. It is ranked among the least of small
 *             groups, not among all values, which can only raise it
 *   stream    16-byte loads, one comparison a value in the type itself. What passes becomes a
 *             word and goes to the buffer. No barrier, and no atomic where nothing passes
 *   careful   where fewer than k passed, or more than the buffer holds (bad luck, NaN, ties), the
 *             run is read again, words are compared instead of values, and the buffer is cut to
 *             the best k whenever it is full. Always right; equal values cost nothing once k of
 *             them are in
 *   finish    the buffer is sorted, its first k are the answer
 *
 * A row has one block, or, where rows are few, runs of equal length with a block each whose answers
 * are selected from once more. Short rows have a warp each (select_scan_short.cu).
 *
 * Ties. Words (select_word.h) are compared wherever two candidates are; the threshold lets equal
 * values pass, so it never decides between them.
 *
 * Cost. One read of the matrix, and about a quarter of a row from the second-level cache.
 * Limit. The k words must fit twice into the buffer: 4,096 of them (2,048 of float64); beyond, the
 * launch hands over to radix. */
#include "select/select_launch.cuh"
#include "select/select_scan_run.cuh"

#include <math.h>

enum { THREADS = KIN_SCAN_THREADS, BLOCKS_A_PROCESSOR = 8 /* wished for, where rows are cut */ };
static const int64_t LEAST_RUN = 32768; /* values; shorter ones are not worth a block */

/* Runs in the order of their rows, one after another. */
template <typename Value>
static __global__ void __launch_bounds__(THREADS, 4)
    scan_by_block(const __grid_constant__ scan_job job)
{
    typedef typename Value::word Word;
    extern __shared__ uint4 buffer[];
    __shared__ block_shared shared;
    Word *kept = (Word *)buffer;
    const int64_t all = job.task.rows * job.runs;
    for (int64_t part = blockIdx.x; part < all; part += gridDim.x) {
        const int64_t row = part / job.runs;
        const int64_t first = (part - row * job.runs) * job.run;
        block_run<Value> run(job, row, first, kept, shared);
        run.stream(run.sample());
        const int32_t have = shared.count;
        if (have < run.k || have > job.capacity) {
            run.careful();
        } else {
            run.sort_kept(have);
        }
        for (int64_t i = threadIdx.x; i < job.task.k; i += THREADS) {
            const Word word = i < run.k ? kept[i] : kin_word_worst<Word>();
            if (job.runs > 1) {
                ((Word *)job.words)[part * job.task.k + i] = word;
            } else {
                kin_select_put(job.task, row, i, word);
            }
        }
        __syncthreads(); /* the buffer is free */
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* The most words of an answer that a block's buffer takes. */
static int64_t most_k(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 2048 : 4096;
}

static int32_t value_bytes(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 8 : dtype == KITH_F32 ? 4 : 2;
}

/* Room for what passes the threshold of a run, by the sample's formula and its spread: the r-th of
 * a sample stands for r n / S values, give or take a share 1 / sqrt(r); groups add up to a half. */
static int32_t capacity_for(int64_t k, int64_t run, kith_dtype dtype)
{
    const int32_t each = 16 / value_bytes(dtype);
    const double sample = fmin((double)KIN_SCAN_SAMPLE_VECTORS * each, (double)run);
    const double lambda = (double)k * sample / (double)run;
    const double r = fmin((double)k, lambda + 4.2 * sqrt(lambda) + 3);
    const double wanted = r * (double)run / sample * (1.2 + 5 / sqrt(r));
    const double least = fmax(2.0 * (double)k, (double)(k + THREADS));
    const int32_t most = (int32_t)(2 * most_k(dtype));
    const int64_t power = kin_sort_places((int64_t)fmax(least, fmin(wanted, (double)run)));
    return power < most ? (int32_t)power : most;
}

/* Few rows are cut, so that every processor has work. */
static void cut(const kin_gpu_stream *stream, scan_job *job)
{
    const kin_select_task *task = &job->task;
    const int64_t wished =
        ((int64_t)stream->processors * BLOCKS_A_PROCESSOR + task->rows - 1) / task->rows;
    const int64_t longest = 4 * task->k > LEAST_RUN ? 4 * task->k : LEAST_RUN;
    int64_t runs = task->cols / longest;
    runs = runs < wished ? runs : wished;
    runs = runs < 1 ? 1 : runs;
    /* A run begins where a vector may. */
    job->run = ((task->cols + runs - 1) / runs + 63) / 64 * 64;
    job->runs = (int32_t)((task->cols + job->run - 1) / job->run);
}

static scan_job plan(const kin_gpu_stream *stream, const kin_select_task *task)
{
    scan_job job = {};
    job.task = *task;
    cut(stream, &job);
    job.capacity = capacity_for(task->k, job.run, task->dtype);
    job.words = task->scratch;
    return job;
}

uint64_t kin_select_scan_scratch(kin_gpu_stream *stream, const kin_select_task *task)
{
    if (task->k > most_k(task->dtype)) {
        return kin_select_radix_scratch(stream, task);
    }
    if (kin_select_scan_is_short(task)) {
        return 0;
    }
    const scan_job job = plan(stream, task);
    return job.runs == 1 ? 0
                         : (uint64_t)task->rows * (uint64_t)job.runs * (uint64_t)task->k *
                               (uint64_t)kin_word_bytes(task->dtype);
}

template <typename Value> static int launch_blocks(kin_gpu_stream *stream, const scan_job &job)
{
    const int shared_bytes = job.capacity * (int)sizeof(typename Value::word);
    KIN_CUDA_TRY(cudaFuncSetAttribute(scan_by_block<Value>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    const int64_t blocks = job.task.rows * job.runs;
    const int64_t most = INT32_MAX;
    scan_by_block<Value><<<(unsigned)(blocks < most ? blocks : most), THREADS, (size_t)shared_bytes,
                           stream->stream>>>(job);
    return kin_gpu_launched();
}

/* The answers of a row's runs are a row of words. */
static int launch_again(kin_gpu_stream *stream, const scan_job &first)
{
    const int32_t bytes = kin_word_bytes(first.task.dtype);
    scan_job job = first;
    job.task.values = (const char *)first.words;
    job.task.ids = NULL;
    job.task.cols = first.runs * first.task.k;
    job.task.stride_bytes = job.task.cols * bytes;
    job.run = job.task.cols;
    job.runs = 1;
    return bytes == 16 ? launch_blocks<word_128>(stream, job) : launch_blocks<word_64>(stream, job);
}

template <typename Value> static int launch(kin_gpu_stream *stream, const kin_select_task *task)
{
    const scan_job job = plan(stream, task);
    KIN_CUDA_TRY((cudaError_t)launch_blocks<Value>(stream, job));
    return job.runs > 1 ? launch_again(stream, job) : 0;
}

int kin_select_scan_launch(kin_gpu_stream *stream, const kin_select_task *task)
{
    if (task->k > most_k(task->dtype)) {
        return kin_select_radix_launch(stream, task);
    }
    if (kin_select_scan_is_short(task)) {
        return kin_select_scan_short(stream, task);
    }
    KIN_SELECT_BY_TYPE(task->dtype, launch, stream, task)
}
