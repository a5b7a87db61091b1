/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A row of up to some thousand values has a warp, or a few, and lies in registers: 32 numbers
 * a lane (16 of float64). The k-th smallest of the least of groups (a group is a lane's numbers, or
 * a half, a quarter of them) is a threshold that k numbers reach at least and few more: with
 * twice as many groups as k, one and a third times k. What reaches it becomes words in shared
 * memory, and a word's place is its rank: the number of words before it. Where many are equal, or k
 * is large, the words are sorted there. A threshold is found bit by bit, from the first bit in
 * which orders differ.
 *
 *      k = 2, four groups of three          7 3 9 | 1 5 8 | 6 2 4 | 9 9 5
 *      the least of each                        3     1       2         5     the second: 2
 *      what reaches it                      1 2
 *
 * Cost. One read; a minimum and a comparison a number, some ten counts of the groups' least a row.
 * For k of more than two warps have lanes all numbers are counted, in rows of one warp. */
#include "select/select_launch.cuh"
#include "select/select_scan_run.cuh"

enum {
    ROWS = 8,       /* of a block, where a row has one warp */
    MOST_WARPS = 8, /* of a row */
    NUMBERS = 32,   /* of a lane, at most; of float64 half as many */
    FEW_COLS = 128,
    MOST_SMALL = 64,  /* k; more words are sorted sooner by the crews of a long row */
    SMALL_WARPS = 24, /* of a processor, which registers and lists allow, for small k */
    WARPS = 16        /* and for all k */
};

/* An order that at least k of the lanes' orders do not exceed: the k-th smallest, or a greater one
 * that no other order reaches. Places without a number hold the greatest. */
template <int R> static __device__ uint32_t warp_threshold(const uint32_t (&orders)[R], int32_t k)
{
    uint32_t low = UINT32_MAX;
    uint32_t high = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        low = min(low, orders[r]);
        high = max(high, orders[r]);
    }
    low = __reduce_min_sync(KIN_WARP_ALL, low);
    high = __reduce_max_sync(KIN_WARP_ALL, high);
    if (low == high) {
        return low;
    }
    const int top = 31 - __clz((int)(low ^ high));
    uint32_t found = (low >> top << top) & ~(1u << top);
    for (int bit = top; bit >= 0; bit--) {
        const uint32_t trial = found | 1u << bit;
        int32_t below = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            below += __popc(__ballot_sync(KIN_WARP_ALL, orders[r] < trial));
        }
        if (below == k) {
            return trial - 1;
        }
        found = below < k ? trial : found;
    }
    return found;
}

/* Bitonic, in shared memory, by one warp. */
template <typename Word> static __device__ void warp_sort(Word *words, int32_t have)
{
    const int32_t lane = (int32_t)threadIdx.x % KIN_WARP;
    const int32_t width = (int32_t)kin_sort_places(have);
    for (int32_t i = have + lane; i < width; i += KIN_WARP) {
        words[i] = kin_word_worst<Word>();
    }
    for (int32_t size = 2; size <= width; size *= 2) {
        for (int32_t stride = size / 2; stride > 0; stride /= 2) {
            __syncwarp();
            for (int32_t i = lane; i < width / 2; i += KIN_WARP) {
                const int32_t low = 2 * i - (i & (stride - 1));
                const Word a = words[low];
                const Word b = words[low + stride];
                if ((b < a) == ((low & size) == 0)) {
                    words[low] = b;
                    words[low + stride] = a;
                }
            }
        }
    }
    __syncwarp();
}

/* ---- A row, by W warps ----------------------------------------------------------------------- */

/* Threads of a block: of one row, or of ROWS rows that know nothing of each other. */
template <int W> static constexpr int threads_of = KIN_WARP *(W == 1 ? ROWS : W);

template <int W> static __device__ __forceinline__ void wait_for_row(void)
{
    if constexpr (W == 1) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

/* A thread's part of a row: numbers `thread`, thread + 32 W, ... */
template <typename Value, int R, int W> struct short_row {
    typedef scanned<Value> as;
    typedef typename Value::word Word;

    kin_device_row<Value> from;
    int32_t cols;
    int32_t thread;
    typename as::number numbers[R];

    /* All values are on their way before one is looked at: those that are made numbers one by one
     * are waited for one by one. Behind the row there is NaN, or the worst key. */
    __device__ __forceinline__ short_row(const kin_select_job &task, int64_t row)
        : from(task, row), cols((int32_t)task.cols), thread((int32_t)threadIdx.x % (KIN_WARP * W))
    {
        typename Value::bits bits[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            bits[r] = (typename Value::bits) ~(typename Value::bits)0;
            if (place(r) < cols) {
                bits[r] = __ldcs(from.values + place(r));
            }
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            numbers[r] = as::number_of(bits[r], from.largest);
        }
    }
    __device__ __forceinline__ int32_t place(int r) const
    {
        return r * KIN_WARP * W + thread;
    }
    /* Of the least of G groups a lane; `pool` has room for those of all warps. */
    template <int G> __device__ uint32_t threshold_of_groups(int32_t k, uint32_t *pool) const
    {
        uint32_t least[G];
#pragma unroll
        for (int g = 0; g < G; g++) {
            typename as::number one = numbers[g];
#pragma unroll
            for (int r = g + G; r < R; r += G) {
                one = min(one, numbers[r]); /* of a NaN and a number, the number */
            }
            least[g] = as::order(one);
        }
        if constexpr (W == 1) {
            return warp_threshold<G>(least, k);
        } else {
            uint32_t all[G * W];
#pragma unroll
            for (int g = 0; g < G; g++) {
                pool[g * threads_of<W> + threadIdx.x] = least[g];
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < G * W; i++) {
                all[i] = pool[i * KIN_WARP + threadIdx.x % KIN_WARP];
            }
            __syncthreads(); /* the pool is free */
            return warp_threshold<G * W>(all, k);
        }
    }
    /* With twice as many groups as k, where it is small, else of all numbers. */
    template <bool Small> __device__ uint32_t threshold(int32_t k, uint32_t *pool) const
    {
        constexpr int HALF = KIN_WARP * W / 2;
        if constexpr (!Small) {
            return threshold_of_groups<R>(k, pool);
        }
        if (k <= HALF) {
            return threshold_of_groups<1>(k, pool);
        }
        if (W > 1 || k <= 2 * HALF) {
            return threshold_of_groups<2>(k, pool);
        }
        return threshold_of_groups<4>(k, pool);
    }

    /* A bit a number of at most this order; neither NaN nor the worst key, which stand behind the
     * row, too. */
    __device__ __forceinline__ uint32_t reaching(uint32_t order) const
    {
        const auto most = as::threshold(min(order, UINT32_MAX - 1));
        uint32_t mask = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            mask |= numbers[r] <= most ? 1u << r : 0u;
        }
        return mask;
    }
    __device__ __forceinline__ uint32_t all(void) const
    {
        uint32_t mask = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            mask |= place(r) < cols ? 1u << r : 0u;
        }
        return mask;
    }
    /* Words of the numbers that masks name, and how many there are: places first, so that each
     * thread reads a value of them once more. *count is 0. */
    __device__ __forceinline__ int32_t keep(uint32_t mask, Word *kept, int32_t *count) const
    {
        const int32_t lane = (int32_t)threadIdx.x % KIN_WARP;
        const int32_t own = __popc(mask);
        int32_t upto = own;
#pragma unroll
        for (int step = 1; step < KIN_WARP; step *= 2) {
            const int32_t other = __shfl_up_sync(KIN_WARP_ALL, upto, step);
            upto += lane >= step ? other : 0;
        }
        int32_t at = upto - own;
        if constexpr (W > 1) {
            const int32_t before = lane == KIN_WARP - 1 ? atomicAdd(count, upto) : 0;
            at += __shfl_sync(KIN_WARP_ALL, before, KIN_WARP - 1);
        }
        for (; mask != 0; mask &= mask - 1) {
            kept[at++] = (Word)place(__ffs((int)mask) - 1);
        }
        wait_for_row<W>();
        const int32_t have = W > 1 ? *count : __shfl_sync(KIN_WARP_ALL, upto, KIN_WARP - 1);
        for (int32_t i = thread; i < have; i += KIN_WARP * W) {
            kept[i] = from.word((int64_t)kept[i]);
        }
        wait_for_row<W>();
        return have;
    }
};
/* Few words of a row, by its threads: of words that are the same the earlier one comes first. */
template <typename Word>
static __device__ void put_by_rank(const kin_select_job &task, int64_t row, const Word *words,
                                   int32_t have, int32_t thread)
{
    if (thread >= have) {
        return;
    }
    const Word word = words[thread];
    int32_t rank = 0;
#pragma unroll 4
    for (int32_t j = 0; j < have; j++) {
        const Word other = words[j];
        rank += other < word || (other == word && j < thread) ? 1 : 0;
    }
    if (rank < task.k) {
        kin_select_put(task, row, rank, word);
    }
}

template <typename Word, int W>
static __device__ void put_row(const kin_select_job &task, int64_t row, Word *words, int32_t have)
{
    constexpr int THREADS = KIN_WARP * W;
    const int32_t thread = (int32_t)threadIdx.x % THREADS;
    const int32_t k = (int32_t)task.k;
    if (have <= THREADS) {
        put_by_rank(task, row, words, have, thread);
        return;
    }
    if (task.sorted != 0 || task.out_kth != NULL || have > k) {
        if constexpr (W == 1) {
            warp_sort(words, have);
        } else {
            const int32_t width = (int32_t)kin_sort_places(have);
            for (int32_t i = have + thread; i < width; i += THREADS) {
                words[i] = kin_word_worst<Word>();
            }
            kin_block_sort(words, width, THREADS);
        }
    }
    for (int32_t i = thread; i < k; i += THREADS) {
        kin_select_put(task, row, i, words[i]);
    }
}

/* Small: k is. */
template <typename Value, int R, int W, bool Small>
static __global__ void __launch_bounds__(threads_of<W>,
                                         (Small ? SMALL_WARPS : WARPS) / (threads_of<W> / KIN_WARP))
    scan_short_kernel(const __grid_constant__ kin_select_job task)
{
    typedef typename Value::word Word;
    constexpr int ROWS_HERE = W == 1 ? ROWS : 1;
    extern __shared__ uint4 lists[];
    __shared__ int32_t count;
    const int32_t own = (int32_t)threadIdx.x / KIN_WARP % ROWS_HERE;
    const int32_t k = (int32_t)task.k;
    Word *kept = (Word *)lists + own * KIN_WARP * R;
    for (int64_t at = (int64_t)blockIdx.x * ROWS_HERE + own; at < task.rows;
         at += (int64_t)gridDim.x * ROWS_HERE) {
        const short_row<Value, R, W> row(task, at);
        if (W > 1 && threadIdx.x == 0) {
            count = 0; /* seen behind the waits for the pool */
        }
        const uint32_t order = row.template threshold<Small>(k, (uint32_t *)kept);
        int32_t have = row.keep(row.reaching(order), kept, &count);
        if (have < k) { /* NaN are in the answer */
            if (W > 1 && threadIdx.x == 0) {
                count = 0;
            }
            wait_for_row<W>();
            have = row.keep(row.all(), kept, &count);
        }
        put_row<Word, W>(task, at, kept, have);
        wait_for_row<W>(); /* the list is free */
    }
}

/* ---- Launch ---------------------------------------------------------------------------------- */

template <typename Value, int R, int W, bool Small>
static int launch_rows(kin_gpu_stream *stream, const kin_select_job *task)
{
    constexpr int ROWS_A_BLOCK = W == 1 ? ROWS : 1;
    constexpr int SHARED_BYTES = threads_of<W> * R * (int)sizeof(typename Value::word);
    const int64_t blocks = (task->rows + ROWS_A_BLOCK - 1) / ROWS_A_BLOCK;
    const int64_t most = (int64_t)stream->processors * 64 * (ROWS / ROWS_A_BLOCK);
    KIN_CUDA_TRY(kin_gpu_allow_shared(stream, scan_short_kernel<Value, R, W, Small>));
    scan_short_kernel<Value, R, W, Small><<<(unsigned)(blocks < most ? blocks : most),
                                            threads_of<W>, SHARED_BYTES, stream->stream>>>(*task);
    return kin_gpu_launched();
}

static int64_t cols_of_a_warp(kin_select_type dtype)
{
    return KIN_WARP * (dtype == KIN_SELECT_F64 ? NUMBERS / 2 : NUMBERS);
}

template <typename Value> static int launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    constexpr int R = sizeof(typename Value::word) == 16 ? NUMBERS / 2 : NUMBERS;
    const int64_t warps = (task->cols + KIN_WARP * R - 1) / (KIN_WARP * R);
    const bool small = task->k <= MOST_SMALL;
    if (task->cols <= FEW_COLS) {
        return small ? launch_rows<Value, FEW_COLS / KIN_WARP, 1, true>(stream, task)
                     : launch_rows<Value, FEW_COLS / KIN_WARP, 1, false>(stream, task);
    }
    if (task->cols <= KIN_WARP * R / 2) {
        return small ? launch_rows<Value, R / 2, 1, true>(stream, task)
                     : launch_rows<Value, R / 2, 1, false>(stream, task);
    }
    if (warps == 1) {
        return small ? launch_rows<Value, R, 1, true>(stream, task)
                     : launch_rows<Value, R, 1, false>(stream, task);
    }
    return warps == 2   ? launch_rows<Value, R, 2, true>(stream, task)
           : warps <= 4 ? launch_rows<Value, R, 4, true>(stream, task)
                        : launch_rows<Value, R, MOST_WARPS, true>(stream, task);
}

bool kin_select_scan_is_short(const kin_select_job *task)
{
    const int64_t warps =
        (task->cols + cols_of_a_warp(task->dtype) - 1) / cols_of_a_warp(task->dtype);
    return warps <= 1 || (warps <= MOST_WARPS && task->k <= MOST_SMALL);
}

int kin_select_scan_short(kin_gpu_stream *stream, const kin_select_job *task)
{
    KIN_SELECT_BY_TYPE(task->dtype, launch, stream, task)
}
