/* SPDX-License-Identifier: Apache-2.0
 * The candidates of a query while its packet walks: short lists, in shared memory.
 *
 * Idea. Points are tested by lanes, a lane a point; lists belong to lanes, a lane a query. What
 * passes is written to a small buffer of its query, side by side, and when a buffer is full, or the
 * leaf is done, all lanes insert what their own buffers hold, together. A list is sorted by value:
 *
 *   list     [slot][lane]           a column a query: no two lanes meet in a bank
 *   buffer   [query][GROVE_BUFFER]  an odd number of words, for the same reason
 *
 * Source. Buffered search: the merge queue's paper (docs/selection.md); the sorted list of the
 * processor's tree (tree_list.h).
 *
 * Invariant. A point that was screened and is not in the list comes after `wanted` others in the
 * order (canonical key, id), or its value is at least `dropped`. What is above `keep` is proven to
 * come after; what falls off the end of a full list is not, and the least of it is remembered.
 *
 * Why keep alone. keep = kth * gain + more is at least the limit that tree_bound.h proves for the
 * worst leaf (tree_list.c has the inequality), and costs no root. It exceeds that limit by 2^-21 of
 * it where rows lost nothing, by 2^-12 elsewhere.
 *
 * Cost. An insertion goes over the entries that are larger, four at a time, as long as the lane
 * that has the most of them. Limits. 256 bytes of shared memory a slot and packet. */
#ifndef KIN_GROVE_LIST_CUH
#define KIN_GROVE_LIST_CUH

#include "gpu/gpu_stream.cuh"
#include "grove/grove_kernels.h"

#include <cuda_runtime.h>

enum {
    GROVE_ROOM = 16, /* words of a buffer */
    GROVE_BUFFER = GROVE_ROOM + 1,
    GROVE_SHIFT = 4, /* entries that an insertion looks at together */
    GROVE_SHORT = 64 /* the longest list in shared memory */
};
#define GROVE_ALL_LANES 0xffffffffu
#define GROVE_NOTHING __int_as_float(0x7fffffff) /* NaN: fails every comparison */
#define GROVE_DEVICE static __device__ __forceinline__

/* What a lane knows of its query, whatever holds the list. */
typedef struct kin_grove_lane {
    float keep; /* values above it are not needed; -1: no query */
    float gain;
    float more;
    float dropped; /* the least value that found no room; NaN: none */
    int32_t count; /* entries of the list */
    int32_t wanted;
    int32_t capacity;
} kin_grove_lane;

/* Lists in shared memory. */
typedef struct kin_grove_short {
    uint64_t *list;   /* of this lane: slot s stands at s * 32 */
    uint64_t *buffer; /* of the packet */
    int32_t fill;     /* words in this lane's buffer */
} kin_grove_short;

GROVE_DEVICE int32_t grove_lane_id(void)
{
    return (int32_t)(threadIdx.x % KIN_GROVE_PACKET);
}

GROVE_DEVICE uint64_t grove_word(float value, uint32_t position)
{
    return (uint64_t)__float_as_uint(value) << 32 | position;
}

GROVE_DEVICE float grove_value(uint64_t word)
{
    return __uint_as_float((uint32_t)(word >> 32));
}

/* ---- A lane ---------------------------------------------------------------------------------- */

/* The constants of kin_tree_list_begin. */
GROVE_DEVICE kin_grove_lane grove_lane_of(const kin_grove_tree &tree, const kin_grove_lists &lists,
                                          bool active, float lost)
{
    const double widen = (double)tree.widen;
    const double b = 2.0 * (double)lost + 2.0 * (double)tree.most_lost + (double)tree.floor;
    const double e = lost + tree.most_lost > 0.0F ? 0x1p-12 : 0x1p-23;
    const double rounding = 1.0 + 0x1p-22;
    double gain = widen * widen;
    double more = b * widen;
    if (tree.norm == KIN_NORM_TWO) {
        gain *= 1.0 + e;
        more *= b * (1.0 + 1.0 / e);
    }
    kin_grove_lane lane;
    lane.keep = active ? INFINITY : -1.0F;
    lane.gain = kin_tree_up(gain * rounding);
    lane.more = kin_tree_up(more * rounding);
    lane.dropped = GROVE_NOTHING;
    lane.count = 0;
    lane.wanted = lists.wanted;
    lane.capacity = lists.capacity;
    return lane;
}

/* `wanted` points have values of at most kth. */
GROVE_DEVICE void grove_note(kin_grove_lane &own, float kth)
{
    own.keep = fminf(own.keep, kth * own.gain + own.more);
}

/* Something that was dropped may be needed. */
GROVE_DEVICE bool grove_lost(const kin_grove_lane &own)
{
    return own.dropped <= own.keep;
}

/* ---- Insertion ------------------------------------------------------------------------------- */

/* Entries above `value` move one slot up, from slot `at` on; returns the slot that is free. */
GROVE_DEVICE int32_t grove_shift(uint64_t *list, int32_t at, float value)
{
    int32_t moved = GROVE_SHIFT;
    while (moved == GROVE_SHIFT) {
        uint64_t words[GROVE_SHIFT];
        moved = 0;
#pragma unroll
        for (int j = 0; j < GROVE_SHIFT; j++) {
            words[j] = list[max(at - 1 - j, 0) * KIN_GROVE_PACKET];
        }
#pragma unroll
        for (int j = 0; j < GROVE_SHIFT; j++) {
            if (at - 1 - j >= 0 && grove_value(words[j]) > value) {
                list[(at - j) * KIN_GROVE_PACKET] = words[j];
                moved = j + 1;
            }
        }
        at -= moved;
    }
    return at;
}

GROVE_DEVICE void grove_insert(const kin_grove_short &s, kin_grove_lane &own, uint64_t word)
{
    const float value = grove_value(word);
    int32_t at = own.count;
    if (value > own.keep) {
        return;
    }
    if (at == own.capacity) {
        const float last = grove_value(s.list[(at - 1) * KIN_GROVE_PACKET]);
        own.dropped = fminf(own.dropped, fmaxf(value, last));
        if (!(value < last)) {
            return;
        }
        at -= 1;
    } else {
        own.count = at + 1;
    }
    at = grove_shift(s.list, at, value);
    s.list[at * KIN_GROVE_PACKET] = word;
    if (at < own.wanted && own.count >= own.wanted) {
        grove_note(own, grove_value(s.list[(own.wanted - 1) * KIN_GROVE_PACKET]));
        while (grove_value(s.list[(own.count - 1) * KIN_GROVE_PACKET]) > own.keep) {
            own.count -= 1;
        }
    }
}

/* All buffers become empty. */
GROVE_DEVICE void grove_flush(kin_grove_short &s, kin_grove_lane &own)
{
    __syncwarp(); /* the buffers were filled by other lanes */
    const int32_t most = __reduce_max_sync(GROVE_ALL_LANES, s.fill);
    const uint64_t *words = s.buffer + grove_lane_id() * GROVE_BUFFER;
#pragma unroll 1
    for (int32_t i = 0; i < most; i++) {
        if (i < s.fill) {
            grove_insert(s, own, words[i]);
        }
    }
    s.fill = 0;
    __syncwarp(); /* and may be filled again */
}

/* ---- What every policy of lists has ---------------------------------------------------------- */

/* Points of a leaf that are looked at together while some lane has no limit: all of them pass. */
GROVE_DEVICE int32_t grove_seed(const kin_grove_short &)
{
    return GROVE_ROOM;
}

/* Values of query q that a lane holds, of the points position, position + 32, ...; NaN: no point.
 * All lanes call it. */
template <int POINTS>
GROVE_DEVICE void grove_offer(kin_grove_short &s, kin_grove_lane &own, int32_t q,
                              const float (&values)[POINTS], uint32_t position)
{
    const int32_t lane = grove_lane_id();
    const uint32_t before = (1u << lane) - 1;
    bool open[POINTS];
    bool full = true;
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        open[p] = true;
    }
#pragma unroll 1
    while (full) {
        const float limit = __shfl_sync(GROVE_ALL_LANES, own.keep, q);
        int32_t end = __shfl_sync(GROVE_ALL_LANES, s.fill, q);
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const bool pass = open[p] && values[p] <= limit;
            const uint32_t passed = __ballot_sync(GROVE_ALL_LANES, pass);
            const int32_t at = end + __popc(passed & before);
            if (pass && at < GROVE_ROOM) {
                s.buffer[q * GROVE_BUFFER + at] =
                    grove_word(values[p], position + (uint32_t)(p * KIN_GROVE_PACKET));
                open[p] = false;
            }
            end += __popc(passed);
        }
        s.fill = lane == q ? min(end, (int32_t)GROVE_ROOM) : s.fill;
        full = end > GROVE_ROOM;
        if (full) {
            grove_flush(s, own);
        }
    }
}

/* A leaf is done. */
GROVE_DEVICE void grove_settle(kin_grove_short &s, kin_grove_lane &own)
{
    if (__any_sync(GROVE_ALL_LANES, s.fill > 0)) {
        grove_flush(s, own);
    }
}

/* The walk is done: lists to `words` of the packet, [slot][lane]. */
GROVE_DEVICE void grove_deliver(const kin_grove_short &s, const kin_grove_lane &own,
                                uint64_t *words)
{
    const int32_t most = __reduce_max_sync(GROVE_ALL_LANES, own.count);
    for (int32_t i = 0; i < most; i++) {
        if (i < own.count) {
            words[i * KIN_GROVE_PACKET + grove_lane_id()] = s.list[i * KIN_GROVE_PACKET];
        }
    }
}

#endif
