/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Truncated bitonic sort (Sismanis, Pitsianis and Sun 2012; compared with in table I of the
 * merge queue paper and as CU-bitonic in section VI-B of TH-heap). Let K be the least power of two
 * that is at least k. Runs of K words are sorted by a bitonic network, in turn rising and falling;
 * of two such runs the word by word least ones are the K least of both, and bitonic, so that log K
 * further steps sort them. Each round halves what is left, until one run is.
 *
 *   chunk   [ rise | fall | rise | fall ]  sorted in runs of K, in shared memory
 *           [ rise | fall |      free      ]  least of pairs, merged
 *           [ rise |          free         ]
 *   best    [ rise ] least of best and the chunk's run read backwards, merged
 *
 * While K words and a chunk fit into shared memory, a block walks a row (or, where rows are few, a
 * part of it; the parts' runs are merged by eights). A larger K is sorted in device memory: strides
 * of less than a chunk in shared memory, every other one by a read and a write of all.
 *
 * Ties. Words that are equal are never told apart and need not be: they are equal elements.
 *
 * Cost. n (log^2 K + 3 log K) / 4 exchanges about, the same for any data; one read of the matrix
 * while K <= 4,096 (float64: 2,048), else about log^2(K / 4096) / 2 reads and writes of all words.
 *
 * Limits. None of k, cols or of the data. It is made for small k. */
#include "kith/kith_papers.h"
#include "select/select_block.cuh"

enum {
    THREADS = 512,
    CHUNK_BYTES = 32768,
    BLOCKS_A_PROCESSOR = 4, /* wished for where rows are cut */
    LEAST_PART = 4,         /* times what a block sorts at once */
    FAN = 8,                /* runs that a block merges into one */
    STEP_THREADS = 256
};

template <typename Word> struct chunk {
    static constexpr int32_t words = CHUNK_BYTES / (int32_t)sizeof(Word);
    static constexpr int32_t a_thread = words / 2 / THREADS; /* of what a round leaves, at most */
};

/* ---- K in shared memory ---------------------------------------------------------------------- */

/* The words of a chunk, in runs of K that rise and fall in turn, become one run that rises. */
template <typename Word>
static __device__ __forceinline__ void truncate_chunk(Word *words, int32_t run)
{
    for (int32_t left = chunk<Word>::words / 2; left >= run; left /= 2) {
        Word least[chunk<Word>::a_thread];
#pragma unroll
        for (int32_t t = 0; t < chunk<Word>::a_thread; t++) {
            const int32_t i = t * THREADS + (int32_t)threadIdx.x;
            if (i < left) {
                const int32_t rising = 2 * i - (i & (run - 1)); /* its place in the even run */
                const Word a = words[rising];
                const Word b = words[rising + run];
                least[t] = b < a ? b : a;
            }
        }
        __syncthreads(); /* all have read what is overwritten now */
#pragma unroll
        for (int32_t t = 0; t < chunk<Word>::a_thread; t++) {
            const int32_t i = t * THREADS + (int32_t)threadIdx.x;
            if (i < left) {
                words[i] = least[t];
            }
        }
        kin_block_merge(words, left, run, run, THREADS);
    }
}

/* best and other rise, K words each: best becomes the least K of both. other is not in best. */
template <typename Word>
static __device__ __forceinline__ void merge_into(Word *best, const Word *other, int32_t run)
{
    for (int32_t i = (int32_t)threadIdx.x; i < run; i += THREADS) {
        const Word a = best[i];
        const Word b = other[run - 1 - i];
        best[i] = b < a ? b : a;
    }
    kin_block_merge(best, run, run, 0, THREADS);
}

/* Block (part, row): the least K words of a part of a row, `width` of them to
 * out[(row * parts + part) * width ...]. */
template <typename Value>
static __global__ void __launch_bounds__(THREADS)
    part_kernel(const __grid_constant__ kin_select_job task, int32_t run, int64_t part,
                typename Value::word *out, int64_t width)
{
    typedef typename Value::word word;
    extern __shared__ uint4 memory[];
    word *words = (word *)memory;
    word *best = words + chunk<word>::words;
    const int64_t parts = gridDim.x;
    for (int64_t r = blockIdx.y; r < task.rows; r += gridDim.y) {
        const kin_device_row<Value> row(task, r);
        const int64_t begin = blockIdx.x * part;
        const int64_t end = min(begin + part, task.cols);
        for (int32_t i = (int32_t)threadIdx.x; i < run; i += THREADS) {
            best[i] = kin_word_worst<word>();
        }
        for (int64_t first = begin; first < end; first += chunk<word>::words) {
#pragma unroll
            for (int32_t t = 0; t < chunk<word>::words / THREADS; t++) {
                const int32_t i = t * THREADS + (int32_t)threadIdx.x;
                words[i] = first + i < end ? row.word(first + i) : kin_word_worst<word>();
            }
            kin_block_sort_runs(words, chunk<word>::words, run, true, THREADS);
            truncate_chunk(words, run);
            merge_into(best, words, run);
        }
        for (int64_t i = threadIdx.x; i < width; i += THREADS) {
            out[(r * parts + blockIdx.x) * width + i] = best[i];
        }
        __syncthreads(); /* the next row overwrites best */
    }
}

/* Of the runs of each row, those at multiples of `spacing`, FAN at a time become one: in the place
 * of the first or, as the last of a row, k words of the answer. Block (eight, row). */
template <typename Word>
static __global__ void __launch_bounds__(THREADS)
    fan_kernel(const __grid_constant__ kin_select_job task, Word *runs, int64_t parts,
               int64_t spacing, int32_t run, Word *answer)
{
    extern __shared__ uint4 memory[];
    Word *best = (Word *)memory;
    const int64_t first = blockIdx.x * (int64_t)FAN * spacing;
    Word *own = runs + (int64_t)blockIdx.y * parts * run;
    for (int32_t i = (int32_t)threadIdx.x; i < run; i += THREADS) {
        best[i] = own[first * run + i];
    }
    for (int64_t t = 1; t < FAN && first + t * spacing < parts; t++) {
        merge_into(best, own + (first + t * spacing) * run, run);
    }
    const bool last = gridDim.x == 1;
    Word *out = last ? answer + (int64_t)blockIdx.y * task.k : own + first * run;
    const int64_t width = last ? task.k : run;
    for (int64_t i = threadIdx.x; i < width; i += THREADS) {
        out[i] = best[i];
    }
}

/* ---- K in device memory ---------------------------------------------------------------------- */

/* Which of the runs of all rows take part: `active` of each row, at multiples of `spacing`. */
typedef struct run_set {
    int64_t rows;
    int64_t runs; /* of each row */
    int64_t active;
    int64_t spacing;
    int64_t run; /* K */
} run_set;

/* Where word i of those that take part is. */
static __device__ __forceinline__ int64_t place_of(const run_set &set, int64_t i)
{
    if (set.spacing == 1 && set.active == set.runs) {
        return i;
    }
    const int64_t which = i / set.run;
    const int64_t row = which / set.active;
    return (row * set.runs + (which - row * set.active) * set.spacing) * set.run +
           (i & (set.run - 1));
}

/* Sorted chunks of the runs of all rows, in turn rising and falling. */
template <typename Value>
static __global__ void __launch_bounds__(THREADS)
    load_kernel(const __grid_constant__ kin_select_job task, const run_set set,
                typename Value::word *runs)
{
    typedef typename Value::word word;
    constexpr int32_t width = chunk<word>::words;
    extern __shared__ uint4 memory[];
    word *words = (word *)memory;
    const int64_t a_row = set.runs * set.run;
    for (int64_t at = blockIdx.x * (int64_t)width; at < set.rows * a_row;
         at += gridDim.x * (int64_t)width) {
        const int64_t r = at / a_row;
        const int64_t first = at - r * a_row;
        const kin_device_row<Value> row(task, r);
        for (int32_t i = (int32_t)threadIdx.x; i < width; i += THREADS) {
            words[i] = first + i < task.cols ? row.word(first + i) : kin_word_worst<word>();
        }
        kin_block_sort(words, width, THREADS);
        const bool rises = (first & width) == 0;
        for (int32_t i = (int32_t)threadIdx.x; i < width; i += THREADS) {
            runs[at + i] = words[rises ? i : width - 1 - i];
        }
        __syncthreads(); /* the next chunk overwrites the words */
    }
}

/* Exchanges of one stride of at least a chunk; pairs rise where bit `size` of their place in the
 * run is clear. */
template <typename Word>
static __global__ void __launch_bounds__(STEP_THREADS)
    step_kernel(const run_set set, Word *runs, int64_t size, int64_t stride)
{
    const int64_t pairs = set.rows * set.active * set.run / 2;
    const int64_t step = (int64_t)gridDim.x * STEP_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * STEP_THREADS + threadIdx.x; i < pairs; i += step) {
        const int64_t low = 2 * i - (i & (stride - 1));
        const int64_t at = place_of(set, low);
        const Word a = runs[at];
        const Word b = runs[at + stride];
        if (((low & (set.run - 1) & size) == 0) == (b < a)) {
            runs[at] = b;
            runs[at + stride] = a;
        }
    }
}

/* All strides of less than a chunk, which is bitonic, and rises or falls as a whole. */
template <typename Word>
static __global__ void __launch_bounds__(THREADS)
    tail_kernel(const run_set set, Word *runs, int64_t size)
{
    constexpr int32_t width = chunk<Word>::words;
    extern __shared__ uint4 memory[];
    Word *words = (Word *)memory;
    const int64_t all = set.rows * set.active * set.run;
    for (int64_t first = blockIdx.x * (int64_t)width; first < all;
         first += gridDim.x * (int64_t)width) {
        Word *own = runs + place_of(set, first);
        for (int32_t i = (int32_t)threadIdx.x; i < width; i += THREADS) {
            words[i] = own[i];
        }
        kin_block_merge(words, width, width, 0, THREADS);
        const bool rises = (first & (set.run - 1) & size) == 0;
        for (int32_t i = (int32_t)threadIdx.x; i < width; i += THREADS) {
            own[i] = words[rises ? i : width - 1 - i];
        }
        __syncthreads(); /* the next chunk overwrites the words */
    }
}

/* Each run that takes part becomes the least K of itself and of the run half a spacing behind it,
 * both rising; what it becomes is bitonic. */
template <typename Word>
static __global__ void __launch_bounds__(STEP_THREADS) least_kernel(const run_set set, Word *runs)
{
    const int64_t all = set.rows * set.active * set.run;
    const int64_t step = (int64_t)gridDim.x * STEP_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * STEP_THREADS + threadIdx.x; i < all; i += step) {
        const int64_t at = place_of(set, i);
        const int64_t in_run = i & (set.run - 1);
        const Word a = runs[at];
        const Word b = runs[at - in_run + set.spacing / 2 * set.run + set.run - 1 - in_run];
        runs[at] = b < a ? b : a;
    }
}

/* The first k words of each row's first run. */
template <typename Word>
static __global__ void __launch_bounds__(STEP_THREADS)
    answer_kernel(const __grid_constant__ kin_select_job task, const run_set set, const Word *runs,
                  Word *answer)
{
    const int64_t all = task.rows * task.k;
    const int64_t step = (int64_t)gridDim.x * STEP_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * STEP_THREADS + threadIdx.x; i < all; i += step) {
        const int64_t row = i / task.k;
        answer[i] = runs[row * set.runs * set.run + (i - row * task.k)];
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Bytes from the beginning of the scratch. */
typedef struct plan {
    int64_t run;   /* K */
    int64_t parts; /* blocks a row, where K fits into shared memory; else runs a row */
    int64_t part;  /* values each */
    bool shared;   /* K fits */
    uint64_t runs;
    uint64_t finish;
    uint64_t bytes;
} plan;

static plan plan_of(kin_gpu_stream *stream, const kin_select_job *task)
{
    plan p = {};
    const int64_t word = kin_word_bytes(task->dtype);
    const int64_t chunk_words = CHUNK_BYTES / word;
    p.run = kin_sort_places(task->k);
    p.shared = p.run <= chunk_words;
    if (p.shared) {
        const int64_t wished = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
        const int64_t fit = task->cols / (LEAST_PART * chunk_words);
        const int64_t parts = max(min((wished + task->rows - 1) / task->rows, fit), (int64_t)1);
        p.part = (task->cols + parts - 1) / parts;
        p.part = (p.part + chunk_words - 1) / chunk_words * chunk_words;
    } else {
        p.part = p.run;
    }
    p.parts = (task->cols + p.part - 1) / p.part;
    p.runs = kin_scratch_behind(0, (uint64_t)(task->rows * task->k * word));
    p.finish = p.runs;
    if (!p.shared || p.parts > 1) {
        p.finish = kin_scratch_behind(p.runs, (uint64_t)(task->rows * p.parts * p.run * word));
    }
    p.bytes = p.finish + kin_select_finish_scratch(stream, task, true);
    return p;
}

static unsigned grid_for(int64_t blocks)
{
    return (unsigned)min(max(blocks, (int64_t)1), (int64_t)INT32_MAX);
}

template <typename Value>
static int shared_launch(kin_gpu_stream *stream, const kin_select_job *task, const plan *p)
{
    typedef typename Value::word word;
    word *answer = (word *)task->scratch;
    word *runs = (word *)((char *)task->scratch + p->runs);
    const int bytes = CHUNK_BYTES + (int)(p->run * (int64_t)sizeof(word));
    const bool cut = p->parts > 1;
    const dim3 grid((unsigned)p->parts, (unsigned)min(task->rows, (int64_t)UINT16_MAX));
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, part_kernel<Value>));
    part_kernel<Value><<<grid, THREADS, (size_t)bytes, stream->stream>>>(
        *task, (int32_t)p->run, p->part, cut ? runs : answer, cut ? p->run : task->k);
    KIN_CUDA_TRY_LAUNCH();
    const int64_t run_bytes = p->run * (int64_t)sizeof(word);
    for (int64_t spacing = 1; spacing < p->parts; spacing *= FAN) {
        const int64_t reach = spacing * FAN;
        const dim3 eights((unsigned)((p->parts + reach - 1) / reach), (unsigned)task->rows);
        fan_kernel<word><<<eights, THREADS, (size_t)run_bytes, stream->stream>>>(
            *task, runs, p->parts, spacing, (int32_t)p->run, answer);
        KIN_CUDA_TRY_LAUNCH();
    }
    return 0;
}

/* The strides of one size, from half of it down. */
template <typename Word>
static int merge_launch(kin_gpu_stream *stream, const run_set &set, Word *runs, int64_t size)
{
    const int64_t all = set.rows * set.active * set.run;
    for (int64_t stride = size / 2; stride >= chunk<Word>::words; stride /= 2) {
        const unsigned blocks = grid_for(all / 2 / STEP_THREADS);
        step_kernel<<<blocks, STEP_THREADS, 0, stream->stream>>>(set, runs, size, stride);
        KIN_CUDA_TRY_LAUNCH();
    }
    tail_kernel<<<grid_for(all / chunk<Word>::words), THREADS, CHUNK_BYTES, stream->stream>>>(
        set, runs, size);
    return kin_gpu_launched();
}

template <typename Value>
static int global_launch(kin_gpu_stream *stream, const kin_select_job *task, const plan *p)
{
    typedef typename Value::word word;
    word *runs = (word *)((char *)task->scratch + p->runs);
    run_set set = {task->rows, p->parts, p->parts, 1, p->run};
    const int64_t all = set.rows * set.runs * set.run;
    load_kernel<Value>
        <<<grid_for(all / chunk<word>::words), THREADS, CHUNK_BYTES, stream->stream>>>(*task, set,
                                                                                       runs);
    KIN_CUDA_TRY_LAUNCH();
    int failed = 0;
    for (int64_t size = 2 * (int64_t)chunk<word>::words; size <= set.run && failed == 0;
         size *= 2) {
        failed = merge_launch(stream, set, runs, size);
    }
    for (int64_t distance = 1; distance < set.runs && failed == 0; distance *= 2) {
        set.spacing = 2 * distance;
        set.active = (set.runs - distance + set.spacing - 1) / set.spacing;
        const int64_t words = set.rows * set.active * set.run;
        least_kernel<<<grid_for(words / STEP_THREADS), STEP_THREADS, 0, stream->stream>>>(set,
                                                                                          runs);
        KIN_CUDA_TRY_LAUNCH();
        failed = merge_launch(stream, set, runs, set.run);
    }
    if (failed != 0) {
        return failed;
    }
    const int64_t answers = task->rows * task->k;
    const unsigned blocks = grid_for((answers + STEP_THREADS - 1) / STEP_THREADS);
    answer_kernel<<<blocks, STEP_THREADS, 0, stream->stream>>>(*task, set, runs,
                                                               (word *)task->scratch);
    return kin_gpu_launched();
}

template <typename Value>
static int bitonic_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    const plan p = plan_of(stream, task);
    if (p.bytes > task->scratch_bytes) {
        return (int)cudaErrorInvalidValue;
    }
    const int failed =
        p.shared ? shared_launch<Value>(stream, task, &p) : global_launch<Value>(stream, task, &p);
    return failed != 0 ? failed
                       : kin_select_finish(stream, task, task->scratch, true,
                                           (char *)task->scratch + p.finish);
}

uint64_t kin_papers_bitonic_scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    return plan_of(stream, task).bytes;
}

int kin_papers_bitonic_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    KIN_SELECT_BY_TYPE(task->dtype, bitonic_launch, stream, task)
}
