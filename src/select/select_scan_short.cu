/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A row of up to some hundred values has a warp: each lane holds keys in registers. A key
 * that k of them reach and few more is found bit by bit, from the first bit in which they differ,
 * until what reaches it fits into a warp (or the k-th is found exactly). These few words are put in
 * shared memory, and a word's place is its rank: the number of words before it. Where many are
 * equal, or k is large, the words are sorted there.
 *
 * Cost. One read; some ten to thirty counts of the lanes' keys a row. */
#include "select/select_block.cuh"
#include "select/select_launch.cuh"

enum { WARPS = 8, MOST_COLS = 1024, FEW_COLS = 128, SPARE = 8 };

template <typename Word> struct key_of_word;
template <> struct key_of_word<kin_word64> {
    typedef uint32_t key;
};
template <> struct key_of_word<kin_word128> {
    typedef uint64_t key;
};

static __device__ __forceinline__ uint32_t warp_least(uint32_t key)
{
    return __reduce_min_sync(KIN_WARP_ALL, key);
}

static __device__ __forceinline__ uint64_t warp_least(uint64_t key)
{
    const uint32_t high = __reduce_min_sync(KIN_WARP_ALL, (uint32_t)(key >> 32));
    const uint32_t low = (key >> 32) == high ? (uint32_t)key : UINT32_MAX;
    return (uint64_t)high << 32 | __reduce_min_sync(KIN_WARP_ALL, low);
}

static __device__ __forceinline__ int highest_bit(uint32_t bits)
{
    return 31 - __clz((int)bits);
}

static __device__ __forceinline__ int highest_bit(uint64_t bits)
{
    return 63 - __clzll((long long)bits);
}

/* A key that at least k of the lanes' keys do not exceed: the k-th smallest, or a greater one that
 * no more than `enough` keys reach. Places without a value hold the greatest key. */
template <int R, typename Key>
static __device__ Key warp_threshold(const Key (&keys)[R], int32_t k, int32_t enough)
{
    Key low = ~(Key)0;
    Key high = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        low = min(low, keys[r]);
        high = max(high, keys[r]);
    }
    low = warp_least(low);
    high = ~warp_least((Key)~high);
    if (low == high) {
        return low;
    }
    const int top = highest_bit((Key)(low ^ high));
    Key found = (low >> top << top) & ~((Key)1 << top);
    for (int bit = top; bit >= 0; bit--) {
        const Key trial = found | (Key)1 << bit;
        int32_t below = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            below += keys[r] < trial ? 1 : 0;
        }
        below = __reduce_add_sync(KIN_WARP_ALL, below);
        if (below >= k && below <= enough) {
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

/* At most a word a lane. */
template <typename Word>
static __device__ __forceinline__ void put_by_rank(const kin_select_task &task, int64_t row,
                                                   const Word *words, int32_t have)
{
    const int32_t lane = (int32_t)threadIdx.x % KIN_WARP;
    if (lane >= have) {
        return;
    }
    const Word word = words[lane];
    int32_t rank = 0;
    for (int32_t j = 0; j < have; j++) {
        const Word other = words[j];
        rank += other < word || (other == word && j < lane) ? 1 : 0;
    }
    if (rank < task.k) {
        kin_select_put(task, row, rank, word);
    }
}

template <typename Value, int R>
static __global__ void __launch_bounds__(KIN_WARP *WARPS)
    scan_by_warp(const __grid_constant__ kin_select_task task)
{
    typedef typename Value::word Word;
    typedef typename key_of_word<Word>::key Key;
    constexpr int KEY_SHIFT = 4 * (int)sizeof(Word);
    extern __shared__ uint4 lists[];
    const int32_t lane = (int32_t)threadIdx.x % KIN_WARP;
    const int32_t warp = (int32_t)threadIdx.x / KIN_WARP;
    Word *kept = (Word *)lists + warp * KIN_WARP * R;
    const int64_t warps = (int64_t)gridDim.x * WARPS;
    const int32_t cols = (int32_t)task.cols;
    const int32_t k = (int32_t)task.k;
    for (int64_t row = (int64_t)blockIdx.x * WARPS + warp; row < task.rows; row += warps) {
        const kin_device_row<Value> from(task, row);
        Key keys[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int32_t place = r * KIN_WARP + lane;
            keys[r] =
                place < cols
                    ? (Key)(Value::make(__ldcs(from.values + place), 0, from.largest) >> KEY_SHIFT)
                    : ~(Key)0;
        }
        const Key most = warp_threshold<R>(keys, k, min((int32_t)KIN_WARP, k + SPARE));
        int32_t have = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int32_t place = r * KIN_WARP + lane;
            const bool near = keys[r] <= most && place < cols;
            const uint32_t vote = __ballot_sync(KIN_WARP_ALL, near);
            if (near) {
                kept[have + __popc(vote & kin_lanes_before())] =
                    (Word)keys[r] << KEY_SHIFT | from.id(place);
            }
            have += __popc(vote);
        }
        __syncwarp();
        if (have <= KIN_WARP) {
            put_by_rank(task, row, kept, have);
        } else {
            if (task.sorted != 0 || task.out_kth != NULL || have > k) {
                warp_sort(kept, have);
            }
            for (int32_t i = lane; i < k; i += KIN_WARP) {
                kin_select_put(task, row, i, kept[i]);
            }
        }
        __syncwarp(); /* the list is free */
    }
}

template <typename Value, int R>
static int launch_warps(kin_gpu_stream *stream, const kin_select_task *task)
{
    constexpr int SHARED_BYTES = WARPS * KIN_WARP * R * (int)sizeof(typename Value::word);
    const int64_t blocks = (task->rows + WARPS - 1) / WARPS;
    const int64_t most = (int64_t)stream->processors * 64;
    KIN_CUDA_TRY(cudaFuncSetAttribute(scan_by_warp<Value, R>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    scan_by_warp<Value, R><<<(unsigned)(blocks < most ? blocks : most), KIN_WARP * WARPS,
                             SHARED_BYTES, stream->stream>>>(*task);
    return kin_gpu_launched();
}

/* Of float64 half as many, for words are twice as long. */
static int64_t most_cols(kin_select_type dtype)
{
    return dtype == KIN_SELECT_F64 ? MOST_COLS / 2 : MOST_COLS;
}

template <typename Value> static int launch(kin_gpu_stream *stream, const kin_select_task *task)
{
    constexpr int MOST =
        (sizeof(typename Value::word) == 16 ? MOST_COLS / 2 : MOST_COLS) / KIN_WARP;
    if (task->cols <= FEW_COLS) {
        return launch_warps<Value, FEW_COLS / KIN_WARP>(stream, task);
    }
    return task->cols <= KIN_WARP * MOST / 2 ? launch_warps<Value, MOST / 2>(stream, task)
                                             : launch_warps<Value, MOST>(stream, task);
}

bool kin_select_scan_is_short(const kin_select_task *task)
{
    return task->cols <= most_cols(task->dtype);
}

int kin_select_scan_short(kin_gpu_stream *stream, const kin_select_task *task)
{
    KIN_SELECT_BY_TYPE(task->dtype, launch, stream, task)
}
