/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The k words of each row, which a method found in any order, are sorted and written. Rows
 * that fit into shared memory have a block each, which sorts them there; longer ones are sorted in
 * runs of that size and merged pairwise in device memory: each thread finds by bisection where its
 * stretch of the merged row begins in both runs (merge path, Green, McColl and Bader 2012) and
 * merges it alone.
 *
 * Cost. One read and one write of the words where a row fits; log2(k / run) more of each beyond. */
#include "select/select_block.cuh"

enum { THREADS = 256, RUN_BYTES = 32768, STRETCH = 8 };

template <typename Word> constexpr int64_t run_words = RUN_BYTES / (int64_t)sizeof(Word);

static bool fits(const kin_select_job *task)
{
    return task->k * kin_word_bytes(task->dtype) <= RUN_BYTES;
}

static bool sorts(const kin_select_job *task, bool already_sorted)
{
    return !already_sorted && (task->sorted != 0 || task->out_kth != NULL);
}

static unsigned grid_for(int64_t blocks)
{
    return (unsigned)(blocks < INT32_MAX ? blocks : INT32_MAX);
}

/* ---- Writing --------------------------------------------------------------------------------- */

template <typename Word>
static __global__ void __launch_bounds__(THREADS)
    write_words_kernel(const __grid_constant__ kin_select_job task, const Word *words)
{
    const int64_t all = task.rows * task.k;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step) {
        kin_select_put(task, i / task.k, i % task.k, words[i]);
    }
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* A block and a run of a row; to NULL: the row is one run, and its words go to the outputs. */
template <typename Word>
static __global__ void __launch_bounds__(THREADS)
    sort_runs_kernel(const __grid_constant__ kin_select_job task, const Word *words, Word *to,
                     int64_t runs)
{
    extern __shared__ uint4 buffer[];
    Word *shared = (Word *)buffer;
    const int64_t all = task.rows * runs;
    for (int64_t part = blockIdx.x; part < all; part += gridDim.x) {
        const int64_t row = part / runs;
        const int64_t first = (part - row * runs) * run_words<Word>;
        const int32_t count = (int32_t)min(run_words<Word>, task.k - first);
        const int32_t width = (int32_t)kin_sort_places(count);
        for (int32_t i = (int32_t)threadIdx.x; i < width; i += THREADS) {
            shared[i] = i < count ? words[row * task.k + first + i] : kin_word_worst<Word>();
        }
        kin_block_sort(shared, width, THREADS);
        for (int32_t i = (int32_t)threadIdx.x; i < count; i += THREADS) {
            if (to == NULL) {
                kin_select_put(task, row, i, shared[i]);
            } else {
                to[row * task.k + first + i] = shared[i];
            }
        }
        __syncthreads();
    }
}

/* Pairs of sorted runs of `run` words become one: STRETCH words a thread. */
template <typename Word>
static __global__ void __launch_bounds__(THREADS)
    merge_runs_kernel(const __grid_constant__ kin_select_job task, const Word *from, Word *to,
                      int64_t run)
{
    const int64_t stretches = (task.k + STRETCH - 1) / STRETCH;
    const int64_t all = task.rows * stretches;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t s = (int64_t)blockIdx.x * THREADS + threadIdx.x; s < all; s += step) {
        const int64_t row = s / stretches;
        const int64_t begin = (s - row * stretches) * STRETCH; /* a run is a multiple of it */
        const int64_t pair = begin / (2 * run) * (2 * run);
        const Word *a = from + row * task.k + pair;
        const int64_t a_count = min(run, task.k - pair);
        const Word *b = a + a_count;
        const int64_t b_count = min(run, task.k - pair - a_count);
        /* i of the first `before` merged words are from a: the least i that a[i] > b[before - i -
         * 1] allows. Equal words are the same, so it does not matter whose come first. */
        const int64_t before = begin - pair;
        int64_t i = max((int64_t)0, before - b_count);
        int64_t above = min(before, a_count);
        while (i < above) {
            const int64_t middle = (i + above) / 2;
            if (a[middle] <= b[before - middle - 1]) {
                i = middle + 1;
            } else {
                above = middle;
            }
        }
        int64_t j = before - i;
        const int64_t end = min(begin + STRETCH, pair + a_count + b_count);
        for (int64_t at = begin; at < end; at++) {
            const bool first = j >= b_count || (i < a_count && a[i] <= b[j]);
            to[row * task.k + at] = first ? a[i++] : b[j++];
        }
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

template <typename Word>
static int write_all(kin_gpu_stream *stream, const kin_select_job *task, const Word *words)
{
    const int64_t blocks = (task->rows * task->k + THREADS - 1) / THREADS;
    const int64_t most = (int64_t)stream->processors * 64;
    write_words_kernel<Word>
        <<<grid_for(blocks < most ? blocks : most), THREADS, 0, stream->stream>>>(*task, words);
    return kin_gpu_launched();
}

template <typename Word>
static int sort_in_runs(kin_gpu_stream *stream, const kin_select_job *task, const Word *words,
                        Word *to)
{
    const int64_t runs = (task->k + run_words<Word> - 1) / run_words<Word>;
    const int64_t longest = task->k < run_words<Word> ? task->k : run_words<Word>;
    const int64_t width = kin_sort_places(longest);
    sort_runs_kernel<Word>
        <<<grid_for(task->rows * runs), THREADS, (size_t)width * sizeof(Word), stream->stream>>>(
            *task, words, to, runs);
    return kin_gpu_launched();
}

template <typename Word>
static int sort_and_write(kin_gpu_stream *stream, const kin_select_job *task, Word *words,
                          Word *other)
{
    if (fits(task)) {
        return sort_in_runs<Word>(stream, task, words, NULL);
    }
    KIN_CUDA_TRY((cudaError_t)sort_in_runs<Word>(stream, task, words, other));
    const int64_t stretches = task->rows * ((task->k + STRETCH - 1) / STRETCH);
    for (int64_t run = run_words<Word>; run < task->k; run *= 2) {
        merge_runs_kernel<Word>
            <<<grid_for((stretches + THREADS - 1) / THREADS), THREADS, 0, stream->stream>>>(
                *task, other, words, run);
        KIN_CUDA_TRY_LAUNCH();
        Word *sorted = words;
        words = other;
        other = sorted;
    }
    return write_all<Word>(stream, task, other);
}

uint64_t kin_select_finish_scratch(kin_gpu_stream *stream, const kin_select_job *task,
                                   bool already_sorted)
{
    (void)stream;
    return !sorts(task, already_sorted) || fits(task)
               ? 0
               : (uint64_t)task->rows * (uint64_t)task->k * (uint64_t)kin_word_bytes(task->dtype);
}

template <typename Word>
static int finish(kin_gpu_stream *stream, const kin_select_job *task, void *words, bool sorting,
                  void *scratch)
{
    return sorting ? sort_and_write(stream, task, (Word *)words, (Word *)scratch)
                   : write_all(stream, task, (const Word *)words);
}

int kin_select_finish(kin_gpu_stream *stream, const kin_select_job *task, void *words,
                      bool already_sorted, void *scratch)
{
    const bool sorting = sorts(task, already_sorted);
    return kin_word_bytes(task->dtype) == 16
               ? finish<kin_word128>(stream, task, words, sorting, scratch)
               : finish<kin_word64>(stream, task, words, sorting, scratch);
}
