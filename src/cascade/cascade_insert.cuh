/* SPDX-License-Identifier: Apache-2.0
 * New words enter a sorted list, by a warp that holds up to 32 of them, one a lane. Nothing is
 * sorted: a word's place is how many words of the list and of the others come before it, and each
 * word of the list moves back by how many of the others come before it.
 *
 *      list    3 5 8 9 . .      words  4 7
 *      moves   0 1 2 2 2 2      places 0 + 1 = 1, 1 + 2 = 3
 *      list    3 4 5 7 8 9
 *
 * A position that is in the list already does not enter, whatever its cost: two kernels may round
 * the cost of one pair differently. The words themselves must be of different positions.
 *
 * Cost. A few instructions a word that may enter and 32 entries; words that come after the last
 * entry of a full list cost nothing. */
#ifndef KIN_CASCADE_INSERT_CUH
#define KIN_CASCADE_INSERT_CUH

#include "cascade/cascade_warp.cuh"
#include "descent/descent_word.h"

/* A list of at most 32 R entries, which the warp holds. Returns how many words entered. */
template <int R>
static __device__ __forceinline__ int32_t kin_cascade_insert_held(uint64_t *list, int32_t length,
                                                                  uint64_t word, uint32_t waiting)
{
    const int lane = kin_cascade_lane();
    uint64_t own[R];
    int32_t moves[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int i = r * 32 + lane;
        own[r] = i < length ? list[i] : KIN_DESCENT_EMPTY;
        moves[r] = 0;
    }
    bool enters = false;
    int32_t place = 0;
    for (; waiting != 0; waiting &= waiting - 1) {
        const int from = __ffs((int)waiting) - 1;
        const uint64_t next = __shfl_sync(KIN_CASCADE_LANES, word, from);
        bool known = false;
#pragma unroll
        for (int r = 0; r < R; r++) {
            known = known || kin_descent_position(own[r]) == kin_descent_position(next);
        }
        if (__any_sync(KIN_CASCADE_LANES, known)) {
            continue;
        }
        int32_t before = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            before += __popc(__ballot_sync(KIN_CASCADE_LANES, own[r] < next));
            moves[r] += next < own[r] ? 1 : 0;
        }
        place += next < word ? 1 : 0;
        if (lane == from) {
            place += before;
            enters = true;
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int i = r * 32 + lane + moves[r];
        if (moves[r] != 0 && i < length) {
            list[i] = own[r];
        }
    }
    enters = enters && place < length;
    if (enters) {
        list[place] = word;
    }
    return __popc(__ballot_sync(KIN_CASCADE_LANES, enters));
}

/* The same of any length, 32 entries at a time: first all places, then what moves, from the back,
 * where nothing is written over that was not read. */
static __device__ __forceinline__ int32_t kin_cascade_insert_long(uint64_t *list, int32_t length,
                                                                  uint64_t word, uint32_t waiting)
{
    const int lane = kin_cascade_lane();
    int32_t place = 0;
    uint32_t enter = waiting;
    for (int32_t first = 0; first < length; first += 32) {
        const uint64_t own = first + lane < length ? list[first + lane] : KIN_DESCENT_EMPTY;
        for (uint32_t left = enter; left != 0; left &= left - 1) {
            const int from = __ffs((int)left) - 1;
            const uint64_t next = __shfl_sync(KIN_CASCADE_LANES, word, from);
            const bool known = kin_descent_position(own) == kin_descent_position(next);
            const int32_t before = __popc(__ballot_sync(KIN_CASCADE_LANES, own < next));
            place += lane == from ? before : 0;
            if (__any_sync(KIN_CASCADE_LANES, known)) {
                enter &= ~(1u << from);
            }
        }
    }
    for (uint32_t left = enter; left != 0; left &= left - 1) {
        const uint64_t next = __shfl_sync(KIN_CASCADE_LANES, word, __ffs((int)left) - 1);
        place += next < word ? 1 : 0;
    }
    for (int32_t first = (length - 1) / 32 * 32; first >= 0; first -= 32) {
        const int32_t i = first + lane;
        const uint64_t own = i < length ? list[i] : KIN_DESCENT_EMPTY;
        int32_t moves = 0;
        for (uint32_t left = enter; left != 0; left &= left - 1) {
            const uint64_t next = __shfl_sync(KIN_CASCADE_LANES, word, __ffs((int)left) - 1);
            moves += next < own ? 1 : 0;
        }
        if (!__any_sync(KIN_CASCADE_LANES, moves != 0)) {
            break; /* what stands before this comes before every word */
        }
        if (moves != 0 && i + moves < length) {
            list[i + moves] = own;
        }
    }
    const bool enters = (enter >> lane & 1u) != 0 && place < length;
    if (enters) {
        list[place] = word;
    }
    return __popc(__ballot_sync(KIN_CASCADE_LANES, enters));
}

/* Words of different positions, KIN_DESCENT_EMPTY for none, enter a sorted list. Returns how many
 * did; what they pushed out is gone. */
static __device__ __forceinline__ int32_t kin_cascade_insert(uint64_t *list, int32_t length,
                                                             uint64_t word)
{
    const uint32_t waiting = __ballot_sync(KIN_CASCADE_LANES, word < list[length - 1]);
    int32_t entered = 0;
    if (waiting == 0) {
        /* Nothing comes before the last entry. */
    } else if (length <= 32) {
        entered = kin_cascade_insert_held<1>(list, length, word, waiting);
    } else if (length <= 64) {
        entered = kin_cascade_insert_held<2>(list, length, word, waiting);
    } else if (length <= 128) {
        entered = kin_cascade_insert_held<4>(list, length, word, waiting);
    } else {
        entered = kin_cascade_insert_long(list, length, word, waiting);
    }
    __syncwarp(); /* the list is whole for every lane */
    return entered;
}

#endif
