/* SPDX-License-Identifier: Apache-2.0
 * Digits of words, from the top: the bookkeeping of radix selection, for host and device.
 *
 *   word   | key: 32 or 64 bits | (float64: 32 bits of 0) | id: common bits | id: id_bits |
 *   digit    0    1    2 ...                                                  .. the last
 *
 * Bits in which no two ids of a row differ (ids that count up from first_id) are no digits. The
 * k-th word is known to be in [low, high]; each digit leaves one of 2,048 parts of that range. */
#ifndef KIN_SELECT_DIGIT_CUH
#define KIN_SELECT_DIGIT_CUH

#include "select/select_block.cuh"

enum { KIN_DIGIT_BITS = 11, KIN_DIGIT_BINS = 1 << KIN_DIGIT_BITS };

/* How the ids of a row look. */
typedef struct kin_digit_ids {
    uint32_t common;
    int32_t bits;
} kin_digit_ids;

KIN_SELECT_HD kin_digit_ids kin_digit_ids_of(const kin_select_job &task)
{
    const uint32_t first = task.first_id;
    const uint32_t last = first + (uint32_t)(task.cols - 1);
    kin_digit_ids ids = {0, 32};
    if (task.ids == NULL && last >= first) {
        ids.bits = 0;
        while (ids.bits < 32 && (first ^ last) >> ids.bits != 0) {
            ids.bits += 1;
        }
        ids.common = ids.bits == 32 ? 0 : first >> ids.bits << ids.bits;
    }
    return ids;
}

/* Where the k-th word of a row is; all bits 0 is the beginning. */
template <typename Word> struct kin_digit_range {
    Word low;
    uint32_t below;   /* words before low */
    uint32_t outside; /* words that are not in the range */
    int32_t digit;    /* that comes next */
};

/* Digits of the key; the lowest bit of the key is also their number of bits. */
template <typename Word> struct kin_digit_key {
    static constexpr int32_t low = sizeof(Word) == 8 ? 32 : 64;
    static constexpr int32_t digits = (low + KIN_DIGIT_BITS - 1) / KIN_DIGIT_BITS;
};

template <typename Word> KIN_SELECT_HD int32_t kin_digit_count(kin_digit_ids ids)
{
    return kin_digit_key<Word>::digits + (ids.bits + KIN_DIGIT_BITS - 1) / KIN_DIGIT_BITS;
}

/* Bits of the key, or of the id, that are open before a digit. */
template <typename Word> KIN_SELECT_HD int32_t kin_digit_open(int32_t digit, kin_digit_ids ids)
{
    const int32_t of_key = kin_digit_key<Word>::digits;
    return digit < of_key ? kin_digit_key<Word>::low - KIN_DIGIT_BITS * digit
                          : ids.bits - KIN_DIGIT_BITS * (digit - of_key);
}

template <typename Word> KIN_SELECT_HD int32_t kin_digit_shift(int32_t digit, kin_digit_ids ids)
{
    const int32_t left = kin_digit_open<Word>(digit, ids) - KIN_DIGIT_BITS;
    return (digit < kin_digit_key<Word>::digits ? kin_digit_key<Word>::low : 0) +
           (left > 0 ? left : 0);
}

/* The last word of the range. */
template <typename Word>
KIN_SELECT_HD Word kin_digit_high(const kin_digit_range<Word> &range, kin_digit_ids ids)
{
    const int32_t of_key = kin_digit_key<Word>::digits;
    const int32_t open = kin_digit_open<Word>(range.digit, ids);
    if (range.digit == 0) {
        return ~(Word)0;
    }
    const int32_t bits = range.digit < of_key ? kin_digit_key<Word>::low + open : open;
    return bits <= 0 ? range.low : range.low | (((Word)1 << bits) - 1);
}

/* The digit of a word that is in the range. */
template <typename Word>
KIN_SELECT_HD uint32_t kin_digit_of(Word word, int32_t digit, kin_digit_ids ids)
{
    const int32_t open = kin_digit_open<Word>(digit, ids);
    const uint32_t bins = 1u << (open < KIN_DIGIT_BITS ? open : KIN_DIGIT_BITS);
    return (uint32_t)(word >> kin_digit_shift<Word>(digit, ids)) & (bins - 1);
}

/* Goes into the part of that digit: `before` words of the range precede it, `count` are in it. */
template <typename Word>
KIN_SELECT_HD void kin_digit_narrow(kin_digit_range<Word> *range, kin_digit_ids ids, int64_t cols,
                                    uint32_t bin, uint32_t before, uint32_t count)
{
    range->low |= (Word)bin << kin_digit_shift<Word>(range->digit, ids);
    range->below += before;
    range->outside = (uint32_t)cols - count;
    range->digit += 1;
    if (range->digit == kin_digit_key<Word>::digits) {
        range->low |= ids.common;
    }
}

/* ---- Counts of a block ----------------------------------------------------------------------- */

/* Counts of digits in shared memory: COPIES of each bin side by side, 1 or 4, for a block of
 * THREADS. Lanes of a warp that add to one place wait for one another; with four copies, one for
 * each of four neighbouring lanes, they wait a quarter of it. */

typedef struct kin_digit_bin {
    uint32_t bin;
    uint32_t before; /* words in the bins before it */
    uint32_t count;  /* words in it */
} kin_digit_bin;

template <int32_t COPIES, int32_t THREADS>
static __device__ __forceinline__ void kin_digit_clear(uint32_t *counts)
{
    for (int32_t i = (int32_t)threadIdx.x; i < KIN_DIGIT_BINS * COPIES; i += THREADS) {
        counts[i] = 0;
    }
    __syncthreads(); /* before the first addition */
}

/* The words of a bin. counts is 16-byte aligned. */
template <int32_t COPIES>
static __device__ __forceinline__ uint32_t kin_digit_sum(const uint32_t *counts, uint32_t bin)
{
    if (COPIES == 1) {
        return counts[bin];
    }
    const uint4 copies = ((const uint4 *)counts)[bin];
    return copies.x + copies.y + copies.z + copies.w;
}

/* The bin that holds the need-th word. All threads call it behind a barrier; ends with one, behind
 * which all see *found, in shared memory, and counts may be overwritten. sums: see
 * kin_block_scan. */
template <int32_t COPIES, int32_t THREADS>
static __device__ __forceinline__ void kin_digit_find(const uint32_t *counts, uint32_t need,
                                                      uint32_t *sums, kin_digit_bin *found)
{
    constexpr uint32_t bins = KIN_DIGIT_BINS / THREADS;
    const uint32_t first = threadIdx.x * bins;
    uint32_t count[bins];
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < bins; i++) {
        count[i] = kin_digit_sum<COPIES>(counts, first + i);
        sum += count[i];
    }
    uint32_t total;
    uint32_t before = kin_block_scan(sum, sums, &total);
    if (before < need && need - before <= sum) {
#pragma unroll
        for (uint32_t i = 0; i < bins; i++) {
            if (before < need && need - before <= count[i]) {
                *found = kin_digit_bin{first + i, before, count[i]};
            }
            before += count[i];
        }
    }
    __syncthreads();
}

#endif
