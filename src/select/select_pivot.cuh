/* SPDX-License-Identifier: Apache-2.0
 * Where quick select cuts: places and rank of a sample of 32, and the middle of a range of words
 * for data that samples do not help with. For host and device. */
#ifndef KIN_SELECT_PIVOT_CUH
#define KIN_SELECT_PIVOT_CUH

#include "select/select_word.h"

#include <math.h>

enum { KIN_PIVOT_SAMPLE = 32 };

/* All words that are left are in [low, high]. */
template <typename Word> struct kin_pivot_range {
    Word low;
    Word high;
};

/* Where lane takes its word of a part of `size` words: even strides, moved with each round. */
KIN_SELECT_HD uint32_t kin_pivot_place(uint32_t lane, uint32_t size, uint32_t round)
{
    const uint32_t moved = (round * 2654435769u + 2654435769u) >> 8; /* 24 bits */
    const uint64_t stride = ((uint64_t)size << 24) / KIN_PIVOT_SAMPLE;
    return (uint32_t)((lane * stride + moved * (stride >> 24)) >> 24);
}

/* Of the sorted sample: the rank that leaves the need-th word of `size` on the shorter side, by one
 * and a half standard deviations of a sample's rank and one more. 1 .. 31. */
KIN_SELECT_HD int32_t kin_pivot_rank(uint32_t need, uint32_t size)
{
    const float share = (float)need / (float)size;
    const float spread = 1.5f * sqrtf(KIN_PIVOT_SAMPLE * share * (1 - share)) + 1;
    const float rank = KIN_PIVOT_SAMPLE * share + (share < 0.5f ? spread : -spread);
    const int32_t whole = (int32_t)rank;
    return whole < 1 ? 1 : whole > KIN_PIVOT_SAMPLE - 1 ? KIN_PIVOT_SAMPLE - 1 : whole;
}

/* low < middle <= high. Bits between key and id, which are 0 in every word, are not halved. */
KIN_SELECT_HD kin_word64 kin_pivot_middle(kin_pivot_range<kin_word64> *range)
{
    return range->low + (range->high - range->low) / 2 + 1;
}

KIN_SELECT_HD kin_word128 kin_pivot_middle(kin_pivot_range<kin_word128> *range)
{
    const kin_word128 last = (range->low >> 64 << 64) | UINT32_MAX;
    if (range->low < last && last < range->high && range->low >> 64 == range->high >> 64) {
        range->high = last;
    }
    return range->low + (range->high - range->low) / 2 + 1;
}

#endif
