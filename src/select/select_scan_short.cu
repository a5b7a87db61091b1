/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A row of a few hundred values has a warp: each lane holds some words in registers, the k-th
 * key is found bit by bit (the greatest key that has fewer than k below it), and what is not above
 * it is sorted in shared memory. Equal keys are told apart there, by their ids.
 *
 * Cost. One read; 32 counts of the lanes' keys (64 of float64) and a sort of k words a row. */
#include "select/select_block.cuh"
#include "select/select_launch.cuh"

enum { WARPS = 8, ROW_BYTES = 4096, FEW_COLS = 128 };
#define ALL_LANES KIN_WARP_ALL

template <typename Word> struct key_of_word;
template <> struct key_of_word<kin_word64> {
    typedef uint32_t key;
};
template <> struct key_of_word<kin_word128> {
    typedef uint64_t key;
};

template <typename Word>
static __device__ __forceinline__ typename key_of_word<Word>::key key_of(Word word)
{
    return (typename key_of_word<Word>::key)(word >> (4 * sizeof(Word)));
}

/* The k-th smallest key of the lanes': the greatest that has fewer than k below it. */
template <int R, typename Key> static __device__ Key warp_kth(const Key (&keys)[R], int32_t k)
{
    Key found = 0;
    for (int bit = 8 * (int)sizeof(Key) - 1; bit >= 0; bit--) {
        const Key trial = found | (Key)1 << bit;
        int32_t below = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            below += keys[r] < trial ? 1 : 0;
        }
        found = __reduce_add_sync(ALL_LANES, below) < k ? trial : found;
    }
    return found;
}

/* Bitonic, in shared memory, by one warp. */
template <typename Word> static __device__ void warp_sort(Word *words, int32_t have)
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    const int32_t width = (int32_t)kin_sort_places(have);
    for (int32_t i = have + lane; i < width; i += 32) {
        words[i] = kin_word_worst<Word>();
    }
    for (int32_t size = 2; size <= width; size *= 2) {
        for (int32_t stride = size / 2; stride > 0; stride /= 2) {
            __syncwarp();
            for (int32_t i = lane; i < width / 2; i += 32) {
                const int32_t low = 2 * i - (i & (stride - 1));
                const Word a = words[low];
                const Word b = words[low + stride];
                if ((a > b) == ((low & size) == 0)) {
                    words[low] = b;
                    words[low + stride] = a;
                }
            }
        }
    }
    __syncwarp();
}

template <typename Value, int R>
static __global__ void __launch_bounds__(32 * WARPS)
    scan_by_warp(const __grid_constant__ kin_select_task task)
{
    typedef typename Value::word Word;
    typedef typename key_of_word<Word>::key Key;
    __shared__ Word lists[WARPS][32 * R];
    const int lane = (int)threadIdx.x % 32;
    Word *kept = lists[threadIdx.x / 32];
    const int64_t warps = (int64_t)gridDim.x * WARPS;
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < task.rows;
         row += warps) {
        const kin_device_row<Value> from(task, row);
        Word words[R];
        Key keys[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            const int64_t place = r * 32 + lane;
            words[r] = place < task.cols ? from.word(place) : kin_word_worst<Word>();
            keys[r] = key_of(words[r]);
        }
        const Key kth = warp_kth<R>(keys, (int32_t)task.k);
        int32_t have = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const bool near = keys[r] <= kth && r * 32 + lane < task.cols;
            const uint32_t vote = __ballot_sync(ALL_LANES, near);
            if (near) {
                kept[have + __popc(vote & ((1u << lane) - 1))] = words[r];
            }
            have += __popc(vote);
        }
        __syncwarp();
        if (task.sorted != 0 || task.out_kth != NULL || have > task.k) {
            warp_sort(kept, have);
        }
        for (int64_t i = lane; i < task.k; i += 32) {
            kin_select_put(task, row, i, kept[i]);
        }
        __syncwarp();
    }
}

template <typename Value, int R>
static int launch_warps(kin_gpu_stream *stream, const kin_select_task *task)
{
    const int64_t blocks = (task->rows + WARPS - 1) / WARPS;
    const int64_t most = (int64_t)stream->processors * 64;
    scan_by_warp<Value, R>
        <<<(unsigned)(blocks < most ? blocks : most), 32 * WARPS, 0, stream->stream>>>(*task);
    return kin_gpu_launched();
}

template <typename Value> static int launch(kin_gpu_stream *stream, const kin_select_task *task)
{
    constexpr int LONG = ROW_BYTES / (int)sizeof(typename Value::word) / 32;
    return task->cols <= FEW_COLS ? launch_warps<Value, FEW_COLS / 32>(stream, task)
                                  : launch_warps<Value, LONG>(stream, task);
}

bool kin_select_scan_is_short(const kin_select_task *task)
{
    return task->cols * kin_word_bytes(task->dtype) <= ROW_BYTES;
}

int kin_select_scan_short(kin_gpu_stream *stream, const kin_select_task *task)
{
    KIN_SELECT_BY_TYPE(task->dtype, launch, stream, task)
}
