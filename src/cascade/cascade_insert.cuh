/* SPDX-License-Identifier: Apache-2.0
 * New words enter a sorted list, by a warp that holds up to 32 of them, one a lane. The words are
 * sorted among themselves; then a word's place is how many others and how many of the list come
 * before it, and each entry of the list moves back by how many words come before it.
 *
 *      list    3 5 8 9 . .      words  4 7
 *      moves   0 1 2 2 2 2      places 0 + 1 = 1, 1 + 2 = 3
 *      list    3 4 5 7 8 9
 *
 * Both are binary searches, the one in the list, the other by shuffles among the lanes. The list is
 * moved 32 entries at a time from the back, where nothing is written over that was not read.
 *
 * A position that is in the list already does not enter, whatever its cost: two kernels may round
 * the cost of one pair differently. The words themselves must be of different positions.
 *
 * Cost. About 200 instructions of a warp, and for each 32 entries of the list 50 and 6 a word that
 * may enter; nothing where all words come after the last entry of a full list. */
#ifndef KIN_CASCADE_INSERT_CUH
#define KIN_CASCADE_INSERT_CUH

#include "cascade/cascade_warp.cuh"
#include "descent/descent_word.h"

/* Which of the words `waiting` have a position that the list has. */
static __device__ __forceinline__ uint32_t kin_cascade_known(const uint64_t *list, int32_t length,
                                                             uint64_t word, uint32_t waiting)
{
    const uint32_t position = kin_descent_position(word);
    uint32_t known = 0;
    for (int32_t first = 0; first < length; first += 32) {
        const int32_t i = first + kin_cascade_lane();
        const uint32_t own = kin_descent_position(i < length ? list[i] : KIN_DESCENT_EMPTY);
        for (uint32_t left = waiting; left != 0; left &= left - 1) {
            const int from = __ffs((int)left) - 1;
            const bool same = __shfl_sync(KIN_CASCADE_LANES, position, from) == own;
            known |= same ? 1u << from : 0;
        }
    }
    return __reduce_or_sync(KIN_CASCADE_LANES, known) & waiting;
}

/* How many entries of a list come before a word. */
static __device__ __forceinline__ int32_t kin_cascade_before(const uint64_t *list, int32_t length,
                                                             uint64_t word)
{
    int32_t low = 0;
    int32_t high = length;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (list[middle] < word) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How many of the words that the lanes hold, ascending, come before `entry`. */
static __device__ __forceinline__ int32_t kin_cascade_words_before(uint64_t word, uint64_t entry)
{
    int32_t count = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const uint64_t next = __shfl_sync(KIN_CASCADE_LANES, word, count + step - 1);
        count += next < entry ? step : 0;
    }
    return count + (__shfl_sync(KIN_CASCADE_LANES, word, count) < entry ? 1 : 0);
}

/* Words of different positions, KIN_DESCENT_EMPTY for none, enter a sorted list, whose last word is
 * `last`; what they push out is gone. Returns how many came to stand among the first `counted`. */
static __device__ __forceinline__ int32_t kin_cascade_insert(uint64_t *list, int32_t length,
                                                             int32_t counted, uint64_t last,
                                                             uint64_t word)
{
    const int lane = kin_cascade_lane();
    uint32_t enter = __ballot_sync(KIN_CASCADE_LANES, word < last);
    if (enter != 0) {
        enter &= ~kin_cascade_known(list, length, word, enter);
    }
    if (enter == 0) {
        return 0;
    }
    uint64_t words[1] = {(enter >> lane & 1u) != 0 ? word : KIN_DESCENT_EMPTY};
    kin_cascade_sort<1>(words);
    const bool exists = words[0] != KIN_DESCENT_EMPTY;
    const int32_t place = exists ? lane + kin_cascade_before(list, length, words[0]) : length;
    for (int32_t first = (length - 1) / 32 * 32; first >= 0; first -= 32) {
        const int32_t i = first + lane;
        const uint64_t own = i < length ? list[i] : KIN_DESCENT_EMPTY;
        const int32_t moves = kin_cascade_words_before(words[0], own);
        if (!__any_sync(KIN_CASCADE_LANES, moves != 0)) {
            break; /* what stands before this comes before every word */
        }
        if (moves != 0 && i + moves < length) {
            list[i + moves] = own;
        }
    }
    const bool enters = place < length;
    __syncwarp(); /* what stood there has moved */
    if (enters) {
        list[place] = words[0];
    }
    __syncwarp(); /* the list is whole for every lane */
    return __popc(__ballot_sync(KIN_CASCADE_LANES, place < counted));
}

#endif
