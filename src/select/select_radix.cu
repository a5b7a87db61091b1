/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The k-th word of a row is found digit by digit, 11 bits at a time from the top: a read of
 * the row counts the words of the range that is left by their next digit, the bin with the k-th
 * is the next range. As soon as the range holds few words, or exactly as many as are missing, one
 * more read collects: words before the range go to the answer, those of the range to a list in
 * shared memory, of which the first ones complete the answer. It is the radix select that the quick
 * multi-select paper (2014, section "Related Work", its references 31 and 33) compares with.
 *
 *   counts   2,048 bins four times in shared memory, four neighbouring lanes have one each: values
 *            of a row mostly share few bins, and lanes that add to one place wait for one another
 *   rows     many: a block has a row, and reads it again from the second-level cache if it is
 *            short. Few and long: several blocks a row; the last of a row to arrive adds nothing
 *            but takes the next digit. Ranges, counts and lists are in scratch then
 *
 * Ties. Words of equal values differ in their ids, whose digits follow those of the key. Words that
 * are equal as a whole are equal elements: as many of them as are missing complete the answer.
 *
 * Cost. A read for every digit until the range is small, and one: 2 reads of the matrix for values
 * that spread over binades, 3 for those that crowd into few, 4 where thousands are equal; at most 7
 * (float64: 10) for any data. Where rows have blocks of their own and stay in the second-level
 * cache, all reads but one come from there. Words are written once: k a row.
 *
 * Limits. None of k, cols or of the data. */
#include "select/select_digit.cuh"

enum {
    THREADS = 512,
    VECTORS = 4, /* of 16 bytes that a thread has under way */
    COPIES = 4,  /* of each bin */
    MEMORY = KIN_DIGIT_BINS * COPIES * (int32_t)sizeof(uint32_t), /* of counts, or of a list */
    LEAST_LIST = 1024,
    LIST_SHARE = 16,        /* lists of up to this part of the row: another read would cost more */
    BLOCKS_A_PROCESSOR = 8, /* wished for where rows are cut */
    LEAST_PART = 32768      /* values of a row that are worth a block */
};

/* A row between two launches; all bits 0 is the beginning. */
template <typename Word> struct row_state {
    kin_digit_range<Word> range;
    uint32_t arrived; /* blocks that have counted */
    uint32_t taken;   /* words of the answer */
    uint32_t listed;  /* words of the list */
};

/* What is left to do with a range. */
typedef enum range_end {
    COUNT_ON,
    TAKE_ALL,   /* all of it belongs to the answer */
    TAKE_FIRST, /* it is a list */
    TAKE_EQUAL  /* it is one word, several times */
} range_end;

template <typename Word>
static __device__ __forceinline__ range_end end_of(const kin_select_job &task, kin_digit_ids ids,
                                                   const kin_digit_range<Word> &range)
{
    const uint32_t inside = (uint32_t)task.cols - range.outside;
    const int64_t most = MEMORY / (int64_t)sizeof(Word);
    const int64_t worth = max((int64_t)LEAST_LIST, task.cols / LIST_SHARE);
    if (inside == (uint32_t)task.k - range.below) {
        return TAKE_ALL;
    }
    if (inside <= min(most, worth)) {
        return TAKE_FIRST;
    }
    return range.digit == kin_digit_count<Word>(ids) ? TAKE_EQUAL : COUNT_ON;
}

/* ---- One read: counting ---------------------------------------------------------------------- */

/* Adds places [first, last) of a row to counts. Ids are read where keys are equal alone. FIRST:
 * the range is everything, and nothing is compared. */
template <typename Value, bool FIRST>
static __device__ __forceinline__ void
count_part(const kin_device_row<Value> &row, int64_t first, int64_t last, kin_digit_ids ids,
           const kin_digit_range<typename Value::word> &range, uint32_t *counts)
{
    typedef typename Value::word word;
    constexpr int32_t n = kin_vector<Value>::values;
    constexpr int32_t key_low = kin_digit_key<word>::low;
    const int64_t step = (int64_t)THREADS * n;
    const int32_t digit = FIRST ? 0 : range.digit;
    const word low = range.low;
    const word high = kin_digit_high(range, ids);
    const bool by_id = digit >= kin_digit_key<word>::digits;
    const int32_t shift = kin_digit_shift<word>(digit, ids);
    const int32_t open = kin_digit_open<word>(digit, ids);
    const uint32_t mask = (1u << min(open, (int32_t)KIN_DIGIT_BITS)) - 1;
    uint32_t *own = counts + threadIdx.x % COPIES;

    for (int64_t at = kin_vector_begin<Value>(row.values, first) + (int64_t)threadIdx.x * n;
         at < last; at += VECTORS * step) {
        typename Value::bits bits[VECTORS][n];
        uint32_t valid[VECTORS];
#pragma unroll
        for (int32_t v = 0; v < VECTORS; v++) {
            valid[v] = kin_vector_load<Value>(row.values, first, last, at + v * step, bits[v]);
        }
#pragma unroll
        for (int32_t v = 0; v < VECTORS; v++) {
#pragma unroll
            for (int32_t i = 0; i < n; i++) {
                word w = Value::make(bits[v][i], 0, row.largest);
                bool counted = (valid[v] >> i & 1u) != 0 && (FIRST || w <= high);
                if (by_id && counted && w >> key_low == low >> key_low) {
                    w |= row.id(at + v * step + i);
                    counted = w <= high;
                }
                if (counted && (FIRST || w >= low)) {
                    atomicAdd(own + ((uint32_t)(w >> shift) & mask) * COPIES, 1u);
                }
            }
        }
    }
}

template <typename Value>
static __device__ __forceinline__ void
count_range(const kin_device_row<Value> &row, int64_t first, int64_t last, kin_digit_ids ids,
            const kin_digit_range<typename Value::word> &range, uint32_t *counts)
{
    if (range.digit == 0) {
        count_part<Value, true>(row, first, last, ids, range, counts);
    } else {
        count_part<Value, false>(row, first, last, ids, range, counts);
    }
}

/* ---- The last read: collecting --------------------------------------------------------------- */

/* Words of places [first, last) that come before the range, or are in it with TAKE_ALL, go to
 * words; those of the range with TAKE_FIRST to list. All threads of the block call it. */
template <typename Value>
static __device__ __forceinline__ void
collect_part(const kin_device_row<Value> &row, int64_t first, int64_t last, kin_digit_ids ids,
             const kin_digit_range<typename Value::word> &range, range_end end,
             typename Value::word *words, uint32_t *taken, typename Value::word *list,
             uint32_t *listed)
{
    typedef typename Value::word word;
    constexpr int32_t n = kin_vector<Value>::values;
    const int64_t step = (int64_t)THREADS * n;
    const word low = range.low;
    const word high = kin_digit_high(range, ids);
    const int64_t own = (int64_t)threadIdx.x * n;

    /* The same number of turns for all threads: warps append together. */
    for (int64_t at = kin_vector_begin<Value>(row.values, first); at < last; at += VECTORS * step) {
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
            uint32_t lists = 0;
#pragma unroll
            for (int32_t i = 0; i < n; i++) {
                w[i] = Value::make(bits[v][i], 0, row.largest);
                if ((valid[v] >> i & 1u) != 0 && w[i] <= high) {
                    w[i] |= row.id(at + v * step + own + i);
                    const bool in = w[i] >= low && w[i] <= high;
                    takes |= w[i] < low || (in && end == TAKE_ALL) ? 1u << i : 0;
                    lists |= in && end == TAKE_FIRST ? 1u << i : 0;
                }
            }
            uint32_t place[n];
            if (kin_warp_append_many(takes, taken, place)) {
#pragma unroll
                for (int32_t i = 0; i < n; i++) {
                    if ((takes >> i & 1u) != 0) {
                        words[place[i]] = w[i];
                    }
                }
            }
            if (kin_warp_append_many(lists, listed, place)) {
#pragma unroll
                for (int32_t i = 0; i < n; i++) {
                    if ((lists >> i & 1u) != 0) {
                        list[place[i]] = w[i];
                    }
                }
            }
        }
    }
}

/* Completes the answer of a row from its list, which has room for the next power of two, or with
 * the one word that is left. All threads call it; list is in shared memory. */
template <typename Word>
static __device__ __forceinline__ void complete(const kin_select_job &task,
                                                const kin_digit_range<Word> &range, range_end end,
                                                Word *list, Word *words)
{
    const int64_t need = task.k - range.below;
    if (end == TAKE_FIRST) {
        const int32_t listed = (int32_t)((uint32_t)task.cols - range.outside);
        const int32_t places = (int32_t)kin_sort_places(listed);
        for (int32_t i = listed + (int32_t)threadIdx.x; i < places; i += THREADS) {
            list[i] = kin_word_worst<Word>();
        }
        kin_block_sort(list, places, THREADS);
    }
    if (end != TAKE_ALL) {
        for (int64_t i = threadIdx.x; i < need; i += THREADS) {
            words[range.below + i] = end == TAKE_FIRST ? list[i] : range.low;
        }
    }
}

/* ---- A block a row --------------------------------------------------------------------------- */

template <typename Value>
static __global__ void __launch_bounds__(THREADS, 2)
    row_kernel(const __grid_constant__ kin_select_job task, typename Value::word *words)
{
    typedef typename Value::word word;
    __shared__ __align__(16) char memory[MEMORY];
    __shared__ uint32_t sums[KIN_WARP + 1];
    __shared__ kin_digit_bin found;
    __shared__ uint32_t filled[2]; /* taken, listed */
    const kin_digit_ids ids = kin_digit_ids_of(task);

    for (int64_t r = blockIdx.x; r < task.rows; r += gridDim.x) {
        const kin_device_row<Value> row(task, r);
        kin_digit_range<word> range = {};
        range_end end = end_of(task, ids, range);
        while (end == COUNT_ON) {
            uint32_t *counts = (uint32_t *)memory;
            kin_digit_clear<COPIES, THREADS>(counts);
            count_range(row, 0, task.cols, ids, range, counts);
            __syncthreads(); /* all have counted */
            kin_digit_find<COPIES, THREADS>(counts, (uint32_t)task.k - range.below, sums, &found);
            kin_digit_narrow(&range, ids, task.cols, found.bin, found.before, found.count);
            end = end_of(task, ids, range);
        }
        if (threadIdx.x < 2) {
            filled[threadIdx.x] = 0;
        }
        __syncthreads(); /* before the first append */
        word *list = (word *)memory;
        word *answer = words + r * task.k;
        collect_part(row, 0, task.cols, ids, range, end, answer, &filled[0], list, &filled[1]);
        __syncthreads(); /* the list is complete */
        complete(task, range, end, list, answer);
        __syncthreads(); /* the next row overwrites it */
    }
}

/* ---- Several blocks a row -------------------------------------------------------------------- */

/* Block (part, row) counts its part; the last one to arrive takes the digit. */
template <typename Value>
static __global__ void __launch_bounds__(THREADS, 2)
    count_kernel(const __grid_constant__ kin_select_job task,
                 row_state<typename Value::word> *states, uint32_t *counts, int64_t part)
{
    typedef typename Value::word word;
    __shared__ __align__(16) uint32_t own[KIN_DIGIT_BINS * COPIES];
    __shared__ uint32_t sums[KIN_WARP + 1];
    __shared__ kin_digit_bin found;
    __shared__ bool last;
    const kin_digit_ids ids = kin_digit_ids_of(task);
    row_state<word> *state = states + blockIdx.y;
    kin_digit_range<word> range = state->range;
    if (end_of(task, ids, range) != COUNT_ON) {
        return;
    }
    uint32_t *bins = counts + (int64_t)blockIdx.y * KIN_DIGIT_BINS;
    const int64_t first = blockIdx.x * part;
    kin_digit_clear<COPIES, THREADS>(own);
    count_range(kin_device_row<Value>(task, blockIdx.y), first, min(first + part, task.cols), ids,
                range, own);
    __syncthreads(); /* all have counted */
    for (int32_t i = (int32_t)threadIdx.x; i < KIN_DIGIT_BINS; i += THREADS) {
        const uint4 copies = ((const uint4 *)own)[i];
        const uint32_t count = copies.x + copies.y + copies.z + copies.w;
        if (count != 0) {
            atomicAdd(bins + i, count);
        }
    }
    __threadfence(); /* the additions of each thread come before the arrival of its block */
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&state->arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) {
        return;
    }
    __threadfence();
    for (int32_t i = (int32_t)threadIdx.x; i < KIN_DIGIT_BINS; i += THREADS) {
        ((uint4 *)own)[i] = make_uint4(__ldcg(bins + i), 0, 0, 0);
        bins[i] = 0; /* for the next digit */
    }
    __syncthreads(); /* the counts of all parts are here */
    kin_digit_find<COPIES, THREADS>(own, (uint32_t)task.k - range.below, sums, &found);
    if (threadIdx.x == 0) {
        kin_digit_narrow(&range, ids, task.cols, found.bin, found.before, found.count);
        state->range = range;
        state->arrived = 0;
    }
}

template <typename Value>
static __global__ void __launch_bounds__(THREADS, 2)
    collect_kernel(const __grid_constant__ kin_select_job task,
                   row_state<typename Value::word> *states, typename Value::word *lists,
                   typename Value::word *words, int64_t part)
{
    typedef typename Value::word word;
    const kin_digit_ids ids = kin_digit_ids_of(task);
    const int64_t r = blockIdx.y;
    row_state<word> *state = states + r;
    const kin_digit_range<word> range = state->range;
    const int64_t first = blockIdx.x * part;
    collect_part(kin_device_row<Value>(task, r), first, min(first + part, task.cols), ids, range,
                 end_of(task, ids, range), words + r * task.k, &state->taken,
                 lists + r * (MEMORY / (int64_t)sizeof(word)), &state->listed);
}

template <typename Word>
static __global__ void __launch_bounds__(THREADS)
    complete_kernel(const __grid_constant__ kin_select_job task, const row_state<Word> *states,
                    const Word *lists, Word *words)
{
    __shared__ __align__(16) char memory[MEMORY];
    Word *list = (Word *)memory;
    const int64_t r = blockIdx.x;
    const kin_digit_ids ids = kin_digit_ids_of(task);
    const kin_digit_range<Word> range = states[r].range;
    const range_end end = end_of(task, ids, range);
    if (end == TAKE_FIRST) {
        const int32_t listed = (int32_t)((uint32_t)task.cols - range.outside);
        for (int32_t i = (int32_t)threadIdx.x; i < listed; i += THREADS) {
            list[i] = lists[r * (MEMORY / (int64_t)sizeof(Word)) + i];
        }
    }
    complete(task, range, end, list, words + r * task.k);
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Bytes from the beginning of the scratch. */
typedef struct plan {
    int64_t parts; /* blocks a row */
    int64_t part;  /* values a block; a multiple of those of a vector of any type */
    uint64_t states;
    uint64_t counts;
    uint64_t lists;
    uint64_t finish;
    uint64_t bytes;
} plan;

static plan plan_of(kin_gpu_stream *stream, const kin_select_job *task)
{
    plan p = {};
    const uint64_t word = (uint64_t)kin_word_bytes(task->dtype);
    const uint64_t rows = (uint64_t)task->rows;
    const int64_t wished = (int64_t)stream->processors * BLOCKS_A_PROCESSOR;
    const int64_t parts =
        min((wished + task->rows - 1) / task->rows, task->cols / (int64_t)LEAST_PART);
    p.part = ((task->cols + max(parts, (int64_t)1) - 1) / max(parts, (int64_t)1) + 7) / 8 * 8;
    p.parts = (task->cols + p.part - 1) / p.part;
    p.states = kin_scratch_behind(0, rows * (uint64_t)task->k * word);
    p.counts = p.states;
    p.lists = p.states;
    p.finish = p.states;
    if (p.parts > 1) {
        const uint64_t state =
            word == 8 ? sizeof(row_state<kin_word64>) : sizeof(row_state<kin_word128>);
        p.counts = kin_scratch_behind(p.states, rows * state);
        p.lists = kin_scratch_behind(p.counts, rows * KIN_DIGIT_BINS * sizeof(uint32_t));
        p.finish = kin_scratch_behind(p.lists, rows * MEMORY);
    }
    p.bytes = p.finish + kin_select_finish_scratch(stream, task, false);
    return p;
}

template <typename Value>
static int parts_launch(kin_gpu_stream *stream, const kin_select_job *task, const plan *p)
{
    typedef typename Value::word word;
    char *scratch = (char *)task->scratch;
    word *words = (word *)scratch;
    row_state<word> *states = (row_state<word> *)(scratch + p->states);
    uint32_t *counts = (uint32_t *)(scratch + p->counts);
    word *lists = (word *)(scratch + p->lists);
    const dim3 grid((unsigned)p->parts, (unsigned)task->rows);
    const int32_t digits = kin_digit_count<word>(kin_digit_ids_of(*task));
    KIN_CUDA_TRY(cudaMemsetAsync(states, 0, p->lists - p->states, stream->stream));
    for (int32_t digit = 0; digit < digits; digit++) {
        count_kernel<Value><<<grid, THREADS, 0, stream->stream>>>(*task, states, counts, p->part);
        KIN_CUDA_TRY_LAUNCH();
    }
    collect_kernel<Value>
        <<<grid, THREADS, 0, stream->stream>>>(*task, states, lists, words, p->part);
    KIN_CUDA_TRY_LAUNCH();
    complete_kernel<word>
        <<<(unsigned)task->rows, THREADS, 0, stream->stream>>>(*task, states, lists, words);
    return kin_gpu_launched();
}

template <typename Value>
static int radix_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    typedef typename Value::word word;
    const plan p = plan_of(stream, task);
    if (p.bytes > task->scratch_bytes) {
        return (int)cudaErrorInvalidValue;
    }
    if (p.parts > 1) {
        const int failed = parts_launch<Value>(stream, task, &p);
        if (failed != 0) {
            return failed;
        }
    } else {
        const unsigned blocks = (unsigned)min(task->rows, (int64_t)INT32_MAX);
        row_kernel<Value><<<blocks, THREADS, 0, stream->stream>>>(*task, (word *)task->scratch);
        KIN_CUDA_TRY_LAUNCH();
    }
    return kin_select_finish(stream, task, task->scratch, false, (char *)task->scratch + p.finish);
}

uint64_t kin_select_radix_scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    return plan_of(stream, task).bytes;
}

int kin_select_radix_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    KIN_SELECT_BY_TYPE(task->dtype, radix_launch, stream, task)
}
