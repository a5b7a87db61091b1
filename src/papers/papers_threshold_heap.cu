/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. TH-heap (2015, section V), all of it on the GPU. A sample of `sample` times k words of a
 * row, at even strides, gives a threshold with at least k words of the row up to it; about one in
 * `sample` words of the row passes. Those are compressed, and one thread a row puts them through a
 * min-max heap of k words, from which the answer comes out in order.
 *
 *   sample    its k-th word, by digits (select_digit.cuh), as soon as the range that is left ends
 *             close enough behind it; its end is the threshold
 *   compress  words up to the threshold; word i of row r of a batch of 32 rows stands at 32 i + r,
 *             so that a warp reads 32 rows side by side. Behind the last word of a row nothing is
 *             written: counts say where it is
 *   heap      in shared memory where 32 of them fit, else in scratch, interleaved in the same way
 *
 * Why it is right. k words of the sample are words of the row, so the first k are not behind the
 * threshold; what is equal to it is kept. The threshold is a word, not a value: where values are
 * equal in great numbers, ids prune as well.
 *
 * Cost. One read of the matrix, 1 / sample of it written and read as words; then n / sample + k
 * log k steps of a single thread a row, which is what the paper gives to processors for good
 * reason: rows are many, or it is slow.
 *
 * Limits. A row of which more passes than its list holds (eight standard deviations, or data with a
 * period that the sample hits) goes through the heap as a whole, by one thread. k beyond MOST_K,
 * where a heap would take seconds, is handed over to radix. */
#include "kith/kith_papers.h"
#include "select/select_digit.cuh"

#include <math.h>

/* For one thread: word i stands at first[i * stride], so that the heaps of a warp can be
 * interleaved. */
template <typename Word> struct min_max {
    Word *first;
    int64_t stride;
    int64_t size;
};

#define MIN_MAX KIN_SELECT_HD
#define HEAP min_max<WORD>
#define PLACE(heap, i) ((heap)->first[(i) * (heap)->stride])
#define NAME(name) name
#define WORD kin_word64
#include "papers/papers_min_max.inc"
#undef WORD
#define WORD kin_word128
#include "papers/papers_min_max.inc"
#undef WORD

enum {
    THREADS = 512,
    VECTORS = 2,            /* of 16 bytes that a thread has under way */
    BLOCKS_A_PROCESSOR = 8, /* wished for where rows are cut */
    LEAST_PART = 32768,     /* values of a row that are worth a block */
    BATCH = KIN_WARP,       /* rows whose words are interleaved, fewer where there are fewer */
    AHEAD = 8,              /* words that a thread asks for before it looks at them */
    NEAR = 16,              /* a threshold lets k / NEAR more of the sample pass than k */
    LEAST_ROOM = 1024,
    MOST_K = 65536
};

/* ---- Sample ---------------------------------------------------------------------------------- */

/* A block a row: its threshold. The sample is places i cols / count, 0 <= i < count. */
template <typename Value>
static __global__ void __launch_bounds__(THREADS)
    sample_kernel(const __grid_constant__ kin_select_job task, int64_t count,
                  typename Value::word *thresholds)
{
    typedef typename Value::word word;
    __shared__ __align__(16) uint32_t counts[KIN_DIGIT_BINS];
    __shared__ uint32_t sums[KIN_WARP + 1];
    __shared__ kin_digit_bin found;
    const kin_digit_ids ids = kin_digit_ids_of(task);
    const int32_t digits = kin_digit_count<word>(ids);
    const uint32_t enough = (uint32_t)(task.k + task.k / NEAR);

    for (int64_t r = blockIdx.x; r < task.rows; r += gridDim.x) {
        const kin_device_row<Value> row(task, r);
        kin_digit_range<word> range = {};
        /* Words of the sample up to the end of the range. */
        uint32_t passing = (uint32_t)count;
        while (passing > enough && range.digit < digits) {
            const word low = range.low;
            const word high = kin_digit_high(range, ids);
            kin_digit_clear<1, THREADS>(counts);
            for (int64_t i = threadIdx.x; i < count; i += THREADS) {
                const uint64_t place = (uint64_t)i * (uint64_t)task.cols / (uint64_t)count;
                const word w = row.word((int64_t)place);
                if (w >= low && w <= high) {
                    atomicAdd(counts + kin_digit_of(w, range.digit, ids), 1u);
                }
            }
            __syncthreads(); /* all have counted */
            kin_digit_find<1, THREADS>(counts, (uint32_t)task.k - range.below, sums, &found);
            kin_digit_narrow(&range, ids, count, found.bin, found.before, found.count);
            passing = range.below + found.count;
        }
        if (threadIdx.x == 0) {
            thresholds[r] = kin_digit_high(range, ids);
        }
    }
}

/* ---- Compress -------------------------------------------------------------------------------- */

/* Lists and heaps of a batch: `width` rows side by side. */
static __host__ __device__ __forceinline__ int32_t width_of(int64_t rows)
{
    return rows < BATCH ? (int32_t)rows : BATCH;
}

/* Where word i of a row stands. */
static __device__ __forceinline__ int64_t list_place(int64_t row, int64_t room, int64_t i,
                                                     int32_t width)
{
    return (row / BATCH * room + i) * width + row % BATCH;
}

/* Block (row, part): words up to the threshold to the row's list, while there is room; counts go
 * on. */
template <typename Value>
static __global__ void __launch_bounds__(THREADS, 3)
    compress_kernel(const __grid_constant__ kin_select_job task, int64_t part,
                    const typename Value::word *thresholds, typename Value::word *lists,
                    int64_t room, uint32_t *counts)
{
    typedef typename Value::word word;
    constexpr int32_t n = kin_vector<Value>::values;
    const int64_t step = (int64_t)THREADS * n;
    const int64_t own = (int64_t)threadIdx.x * n;
    const int64_t first = blockIdx.y * part;
    const int64_t last = min(first + part, task.cols);
    const int32_t width = width_of(task.rows);
    for (int64_t r = blockIdx.x; r < task.rows; r += gridDim.x) {
        const kin_device_row<Value> row(task, r);
        const word threshold = thresholds[r];
        /* The same number of turns for all threads: warps append together. */
        for (int64_t at = kin_vector_begin<Value>(row.values, first); at < last;
             at += VECTORS * step) {
            typename Value::bits bits[VECTORS][n];
            uint32_t valid[VECTORS];
#pragma unroll
            for (int32_t v = 0; v < VECTORS; v++) {
                valid[v] =
                    kin_vector_load<Value>(row.values, first, last, at + v * step + own, bits[v]);
            }
#pragma unroll
            for (int32_t v = 0; v < VECTORS; v++) {
                word w[n];
                uint32_t takes = 0;
#pragma unroll
                for (int32_t i = 0; i < n; i++) {
                    w[i] = Value::make(bits[v][i], 0, row.largest);
                    if ((valid[v] >> i & 1u) != 0 && w[i] <= threshold) {
                        w[i] |= row.id(at + v * step + own + i);
                        takes |= w[i] <= threshold ? 1u << i : 0;
                    }
                }
                uint32_t place[n];
                if (kin_warp_append_many(takes, counts + r, place)) {
#pragma unroll
                    for (int32_t i = 0; i < n; i++) {
                        if ((takes >> i & 1u) != 0 && place[i] < room) {
                            lists[list_place(r, room, place[i], width)] = w[i];
                        }
                    }
                }
            }
        }
    }
}

/* ---- Heap ------------------------------------------------------------------------------------ */

/* What a thread puts through its heap: the list of its row or, where that was too short, the row.
 */
template <typename Value> struct candidates {
    kin_device_row<Value> row;
    const typename Value::word *list; /* NULL: the row */
    int64_t count;
    int32_t width;
    __device__ __forceinline__ typename Value::word at(int64_t i) const
    {
        return list != NULL ? list[i * width] : row.word(i);
    }
};

/* A thread a row, a block a batch. heaps NULL: in shared memory. */
template <typename Value>
static __global__ void __launch_bounds__(BATCH)
    heap_kernel(const __grid_constant__ kin_select_job task, const typename Value::word *lists,
                int64_t room, const uint32_t *counts, typename Value::word *heaps,
                typename Value::word *answers)
{
    typedef typename Value::word word;
    extern __shared__ uint4 memory[];
    const int64_t r = (int64_t)blockIdx.x * BATCH + threadIdx.x;
    if (r >= task.rows) {
        return;
    }
    const int32_t width = width_of(task.rows);
    const bool fits = counts[r] <= room;
    const candidates<Value> from = {kin_device_row<Value>(task, r),
                                    fits ? lists + list_place(r, room, 0, width) : NULL,
                                    fits ? (int64_t)counts[r] : task.cols, width};
    word *own = heaps == NULL ? (word *)memory : heaps + (int64_t)blockIdx.x * task.k * width;
    min_max<word> heap = {own + threadIdx.x, width, task.k};
    for (int64_t i = 0; i < task.k; i++) {
        heap.first[i * width] = from.at(i);
    }
    min_max_heapify(&heap);
    word last = heap.first[min_max_last(&heap) * width];
    int64_t i = task.k;
    for (; i + AHEAD <= from.count; i += AHEAD) {
        word next[AHEAD];
#pragma unroll
        for (int32_t a = 0; a < AHEAD; a++) {
            next[a] = from.at(i + a);
        }
#pragma unroll 1
        for (int32_t a = 0; a < AHEAD; a++) {
            if (next[a] < last) {
                last = min_max_replace(&heap, next[a]);
            }
        }
    }
    for (; i < from.count; i++) {
        const word next = from.at(i);
        if (next < last) {
            last = min_max_replace(&heap, next);
        }
    }
    for (int64_t place = 0; place < task.k; place++) {
        answers[r * task.k + place] = min_max_pop(&heap);
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Bytes from the beginning of the scratch. */
typedef struct plan {
    int64_t sample; /* words */
    int64_t room;   /* words of a list */
    int64_t part;   /* values of a row that a block compresses */
    int64_t batches;
    bool shared; /* heaps */
    uint64_t counts;
    uint64_t thresholds;
    uint64_t lists;
    uint64_t heaps;
    uint64_t finish;
    uint64_t bytes;
} plan;

/* Words up to the threshold as expected, and eight standard deviations: the k-th of a sample has
 * a rank in the row that varies by its square root, as a part of it. */
static int64_t room_for(const kin_select_job *task, int64_t sample)
{
    const double k = (double)task->k * (NEAR + 1) / NEAR;
    const double expected = k * (double)task->cols / (double)sample;
    const double room = expected * (1.0 + 8.0 / sqrt((double)task->k)) + LEAST_ROOM;
    return room < (double)task->cols ? (int64_t)room : task->cols;
}

static plan plan_of(kin_gpu_stream *stream, const kin_select_job *task)
{
    plan p = {};
    const uint64_t word = (uint64_t)kin_word_bytes(task->dtype);
    const uint64_t rows = (uint64_t)task->rows;
    const int64_t times = max(task->sample, 1);
    const int64_t wished = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    const int64_t parts = max(
        min((wished + task->rows - 1) / task->rows, task->cols / (int64_t)LEAST_PART), (int64_t)1);
    p.sample = min(task->cols, times * task->k);
    p.room = room_for(task, p.sample);
    p.part = ((task->cols + parts - 1) / parts + 7) / 8 * 8;
    p.batches = (task->rows + BATCH - 1) / BATCH;
    const uint64_t width = (uint64_t)width_of(task->rows);
    const uint64_t heaps = (uint64_t)p.batches * width * (uint64_t)task->k * word;
    p.shared = (uint64_t)task->k * width * word <= (uint64_t)stream->shared_bytes;
    p.counts = kin_scratch_behind(0, rows * (uint64_t)task->k * word);
    p.thresholds = kin_scratch_behind(p.counts, rows * sizeof(uint32_t));
    p.lists = kin_scratch_behind(p.thresholds, rows * word);
    p.heaps = kin_scratch_behind(p.lists, (uint64_t)p.batches * width * (uint64_t)p.room * word);
    p.finish = kin_scratch_behind(p.heaps, p.shared ? 0 : heaps);
    p.bytes = p.finish + kin_select_finish_scratch(stream, task, true);
    return p;
}

template <typename Value>
static int threshold_heap_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    typedef typename Value::word word;
    const plan p = plan_of(stream, task);
    if (p.bytes > task->scratch_bytes || p.batches > INT32_MAX) {
        return (int)cudaErrorInvalidValue;
    }
    char *scratch = (char *)task->scratch;
    uint32_t *counts = (uint32_t *)(scratch + p.counts);
    word *thresholds = (word *)(scratch + p.thresholds);
    word *lists = (word *)(scratch + p.lists);
    const unsigned rows = (unsigned)min(task->rows, (int64_t)INT32_MAX);
    const dim3 grid(rows, (unsigned)((task->cols + p.part - 1) / p.part));
    KIN_CUDA_TRY(cudaMemsetAsync(counts, 0, (size_t)task->rows * sizeof(uint32_t), stream->stream));
    sample_kernel<Value><<<rows, THREADS, 0, stream->stream>>>(*task, p.sample, thresholds);
    KIN_CUDA_TRY_LAUNCH();
    compress_kernel<Value>
        <<<grid, THREADS, 0, stream->stream>>>(*task, p.part, thresholds, lists, p.room, counts);
    KIN_CUDA_TRY_LAUNCH();
    const size_t bytes =
        p.shared ? (size_t)task->k * (size_t)width_of(task->rows) * sizeof(word) : 0;
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, heap_kernel<Value>));
    heap_kernel<Value><<<(unsigned)p.batches, BATCH, bytes, stream->stream>>>(
        *task, lists, p.room, counts, p.shared ? NULL : (word *)(scratch + p.heaps),
        (word *)scratch);
    KIN_CUDA_TRY_LAUNCH();
    return kin_select_finish(stream, task, scratch, true, scratch + p.finish);
}

uint64_t kin_papers_threshold_heap_scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    return task->k > MOST_K ? kin_select_radix_scratch(stream, task) : plan_of(stream, task).bytes;
}

int kin_papers_threshold_heap_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    if (task->k > MOST_K) {
        return kin_select_radix_launch(stream, task);
    }
    KIN_SELECT_BY_TYPE(task->dtype, threshold_heap_launch, stream, task)
}
